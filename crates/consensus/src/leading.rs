//! A leader: proposals, status messages, and what all members have delivered.

use std::collections::BTreeMap;

use solera_election::Ballot;
use solera_time::{Monotonic, SiteId};

use crate::config::Rule;
use crate::ids::{Batch, CastId, Run, Slot};
use crate::message::Message;
use crate::rare;
use crate::runs::Runs;
use crate::state::State;
use crate::step::Step;

/// Number of status messages that an idle leader sends within the leader timeout.
const SIGNS: u32 = 5;

/// State of a leader.
#[derive(Debug)]
pub(crate) struct Leader {
    ballot: Ballot,
    /// The term began with the slots up to here.
    start: Slot,
    /// Batches that members had accepted when the term began, and that this leader has not proposed
    /// again.
    inherited: BTreeMap<Slot, Batch>,
    /// Slot of the next proposal.
    next: Slot,
    /// Undecided proposals, each with the time when it was last sent.
    open: BTreeMap<Slot, Monotonic>,
    /// Number of decisions when `open` was last compared with them.
    decisions: u64,
    /// The casts in the slots before `next`.
    proposed: Runs,
    /// The last run of which an id was proposed: every run has its turn.
    turn: Option<Run>,
    /// The last slot that each member has delivered, as it reported in this term.
    reports: BTreeMap<SiteId, Slot>,
    status_at: Option<Monotonic>,
}

impl Leader {
    /// Creates the leader of a term that begins with what members had accepted. `next` is the slot
    /// after all of it.
    pub(crate) fn new<B>(
        state: &State,
        step: &Step<'_, B>,
        inherited: BTreeMap<Slot, Batch>,
        next: Slot,
    ) -> Self {
        // The content of the undelivered slots, in order, determines which ids are delivered there.
        let mut proposed = state.runs.clone();
        let mut slot = state.log.delivered.next();
        while slot < next {
            if let Some(batch) = state.log.decision(slot).or_else(|| inherited.get(&slot)) {
                let ids = proposed.select(batch, step.config);
                proposed.advance(&ids);
            }
            slot = slot.next();
        }
        Leader {
            ballot: state.election.ballot(),
            start: Slot(next.0.saturating_sub(1)),
            inherited,
            next,
            open: BTreeMap::new(),
            decisions: state.log.decisions,
            proposed,
            turn: None,
            reports: BTreeMap::new(),
            status_at: None,
        }
    }

    /// Proposes whatever can be proposed: first what members had accepted before the term, and then
    /// casts that are not in a slot.
    pub(crate) fn propose<B: Clone>(&mut self, state: &mut State, step: &mut Step<'_, B>) {
        if State::is_former(step, self.ballot) {
            return;
        }
        if self.decisions < state.log.decisions {
            self.decisions = state.log.decisions;
            self.open.retain(|slot, _| !state.log.is_decided(*slot));
        }
        self.propose_again(state, step);
        while !state.known.is_empty() {
            if self.open.len() + self.inherited.len() >= step.config.pipeline.max(1) {
                step.reach(rare::PIPELINE_FULL);
                return;
            }
            let ids = self.gather(state, step);
            if ids.is_empty() {
                return;
            }
            let slot = self.next;
            self.next = slot.next();
            self.propose_in(state, step, slot, ids.into());
        }
    }

    fn propose_again<B: Clone>(&mut self, state: &mut State, step: &mut Step<'_, B>) {
        let mut waiting = BTreeMap::new();
        for (slot, batch) in std::mem::take(&mut self.inherited) {
            if state.log.is_decided(slot) {
                continue;
            }
            if step.holds(&batch) || !step.keeps(Rule::PredicateAtAcceptance) {
                if !batch.is_empty() {
                    step.reach(rare::PROPOSES_AGAIN);
                }
                self.propose_in(state, step, slot, batch);
            } else {
                step.reach(rare::WAITS_TO_PROPOSE_AGAIN);
                waiting.insert(slot, batch);
            }
        }
        self.inherited = waiting;
    }

    /// Returns the next ids whose predicates hold. The casts of a run follow each other.
    fn gather<B>(&mut self, state: &State, step: &Step<'_, B>) -> Vec<CastId> {
        let mut ids = Vec::new();
        for (run, last) in state.known.after(self.turn) {
            let mut number = self.proposed.last(run).max(state.runs.last(run));
            while number < last && ids.len() < step.config.batch.max(1) {
                let id = run.cast(number + 1);
                if !step.predicate.holds(id) && step.keeps(Rule::PredicateAtAcceptance) {
                    break;
                }
                ids.push(id);
                number += 1;
                self.turn = Some(run);
            }
        }
        self.proposed.advance(&ids);
        ids
    }

    fn propose_in<B: Clone>(
        &mut self,
        state: &mut State,
        step: &mut Step<'_, B>,
        slot: Slot,
        batch: Batch,
    ) {
        let ballot = self.ballot;
        let Some(entry) = state.log.slot(slot) else { return };
        entry.propose(ballot, batch.clone());
        // The leader accepts its proposal before it sends it: the proposal counts as acceptance.
        if state.accept(step, slot) {
            state.log.kept.remove(&slot);
            self.open.insert(slot, step.now);
            step.send_others(Message::Accept { ballot, slot, batch });
            state.decide_voted(step, slot);
            if state.log.is_decided(slot) {
                // A single member decides at once.
                self.open.remove(&slot);
            }
        }
    }

    /// Sends status messages, and repeats proposals that members have not accepted.
    pub(crate) fn on_tick<B: Clone>(&mut self, state: &mut State, step: &mut Step<'_, B>) {
        if step.keeps(Rule::RepeatProposals) {
            self.repeat(state, step);
        }
        let timing = &step.config.timing;
        let idle = (timing.leader_timeout / SIGNS).max(timing.status_interval);
        let busy = !state.log.is_empty() || state.established < self.ballot.configuration;
        let interval = if busy { timing.status_interval } else { idle };
        if self.status_at.is_none_or(|at| step.now.since(at) >= interval) {
            self.send_status(state, step);
        }
    }

    fn repeat<B: Clone>(&mut self, state: &State, step: &mut Step<'_, B>) {
        let ballot = self.ballot;
        for (slot, sent) in &mut self.open {
            let Some(entry) = state.log.get(*slot) else { continue };
            let Some((_, batch)) = &entry.proposed else { continue };
            if entry.decided.is_some() || step.now.since(*sent) < step.config.timing.retry {
                continue;
            }
            *sent = step.now;
            for site in step.electors.others(step.me()) {
                if !entry.has_voted(ballot, site) {
                    step.reach(rare::REPEATS_PROPOSAL);
                    let (slot, batch) = (*slot, batch.clone());
                    step.send(site, Message::Accept { ballot, slot, batch });
                }
            }
        }
    }

    /// Sends the leader's status to the members.
    pub(crate) fn send_status<B: Clone>(&mut self, state: &mut State, step: &mut Step<'_, B>) {
        self.status_at = Some(step.now);
        let everywhere = self.learn_everywhere(state, step);
        let (ballot, decided) = (self.ballot, state.log.decided);
        let established = state.established >= ballot.configuration;
        let status = Message::Status { ballot, decided, everywhere, established };
        for (site, _) in step.learners {
            step.send(*site, status.clone());
        }
        step.send_others(status);
    }

    /// Forgets what a site has reported. Another generation of the site will report anew.
    pub(crate) fn forget_report(&mut self, site: SiteId) {
        self.reports.remove(&site);
    }

    /// Handles a site's report of what it has delivered.
    pub(crate) fn on_report<B>(
        &mut self,
        state: &mut State,
        step: &mut Step<'_, B>,
        from: SiteId,
        ballot: Ballot,
        delivered: Slot,
    ) {
        if ballot == self.ballot {
            let known = self.reports.entry(from).or_default();
            *known = delivered.max(*known);
            self.learn_everywhere(state, step);
        }
    }

    /// Forgets what all members and learners have delivered, and returns the last slot of it.
    /// Establishes the configuration when a quorum has delivered what the term began with.
    fn learn_everywhere<B>(&mut self, state: &mut State, step: &mut Step<'_, B>) -> Slot {
        if self.ballot.configuration < step.electors.number {
            // The reports of other members are needed.
            return state.log.forgotten;
        }
        self.reports.insert(step.me(), state.log.delivered);
        let of = |site: &SiteId| self.reports.get(site).copied().unwrap_or_default();
        let mut delivered: Vec<Slot> = step.electors.members.iter().map(of).collect();
        delivered.sort_unstable();
        let by_quorum = delivered.len().checked_sub(step.electors.quorum());
        let established = by_quorum.is_some_and(|at| delivered[at] >= self.start);
        if established || !step.keeps(Rule::EstablishDelivered) {
            state.establish(step, self.ballot.configuration);
        }
        let learners =
            step.learners.iter().map(|(site, _)| site).filter(|site| **site != step.me());
        let first = delivered.first().copied().into_iter().chain(learners.map(of)).min();
        let everywhere = match step.keeps(Rule::TruncateDelivered) {
            true => first.unwrap_or_default(),
            false => state.log.delivered,
        };
        state.log.forget(everywhere);
        everywhere.min(state.log.delivered)
    }
}

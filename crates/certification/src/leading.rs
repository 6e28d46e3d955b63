//! A leader's part: decisions, and delivery in the order of strong timestamps.

mod finishing;
mod voting;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use solera_machine::{Address, RarePath};
use solera_time::{MAX_SITES, Monotonic, SiteId, Timestamp};

use crate::claim::Claim;
use crate::config::{Config, Configuration, Rule};
use crate::entry::{Entry, Phase};
use crate::ids::{GroupId, Serial, TransactionId};
use crate::kept::Kept;
use crate::message::{Body, Output};
use crate::payload::{GroupPayload, Outcome};
use crate::rare;
use crate::reservations::Reservations;
use crate::step::Step;

/// Number of transactions whose phases one status message reports: enough for 20,000 in a second.
const PHASES: usize = 1024;

/// State of a leader.
#[derive(Debug)]
pub(crate) struct Leader<W> {
    /// Time when the term began.
    since: Monotonic,
    /// Greatest time up to which a member had stored the group's transactions when the term began.
    /// The leader must have stored as much before it votes and delivers.
    base: Timestamp,
    /// Time when the leader last asked the host to catch up.
    catching_up: Option<Monotonic>,
    /// Ceiling and stored time of each member.
    reports: BTreeMap<SiteId, Reported>,
    /// Time when the leader last sent its status to the members.
    status_at: Option<Monotonic>,
    /// The last transaction in that status message, if the leader remembers later ones.
    reported_upto: Option<TransactionId>,
    /// The last time up to which the leader has reported the history as complete.
    complete: Timestamp,
    /// Upper bound of the timestamps of delivered transactions.
    last: Timestamp,
    /// Transactions that a quorum has delivered, with the acknowledgements of the other groups.
    delivery_acks: BTreeMap<TransactionId, DeliveryAcks>,
    /// Time when the leader last asked coordinators which old transactions they may still submit.
    asked_oldest: Monotonic,
    /// Time when the leader last asked for the outcome of an undecided transaction.
    asked: BTreeMap<TransactionId, Monotonic>,
    /// Time when the leader last looked for overdue transactions.
    overdue_at: Option<Monotonic>,
    /// Undecided transactions that may commit, by the time that the group proposes.
    open: BTreeSet<(Timestamp, TransactionId)>,
    /// Committed transactions that are not delivered, by their strong timestamps.
    due: BTreeSet<(Timestamp, TransactionId)>,
    /// Keys reserved for retries of aborted transactions.
    reservations: Reservations,
    /// Claims of the undecided transactions that are retries of aborted ones.
    claims: BTreeMap<TransactionId, Claim>,
    /// Actions that wait until a quorum has confirmed the term, each with the ceiling that confirms
    /// it; `None` until that ceiling is sent.
    unconfirmed: BTreeMap<Unconfirmed, Option<Timestamp>>,
    /// Requests that the leader cannot vote on yet.
    deferred: BTreeMap<TransactionId, DeferredPrepare<W>>,
}

/// An action that only the present leader may perform. A deposed leader that does not know of its
/// successor would perform it wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Unconfirmed {
    /// Forget an undecided transaction whose outcome the other groups have forgotten.
    Forget(TransactionId),
    /// Answer a process that an unknown transaction is over.
    Over(TransactionId, Address),
    /// Acknowledge to another group that this one has finished with a transaction that it does not
    /// know any more.
    DeliveryAck(TransactionId, GroupId),
}

/// A coordinator's request for a vote.
#[derive(Debug)]
pub(crate) struct PrepareRequest<W> {
    pub(crate) coordinator: Address,
    pub(crate) payload: Option<Arc<GroupPayload<W>>>,
    pub(crate) participants: Arc<[GroupId]>,
    /// Latest time that a vote may propose; a later vote must be to abort.
    pub(crate) until: Timestamp,
    pub(crate) claim: Option<Claim>,
}

/// A request that arrived before the leader's site stored what the transaction has seen, or while a
/// transaction with an older claim has priority.
#[derive(Debug)]
pub(crate) struct DeferredPrepare<W> {
    request: PrepareRequest<W>,
    /// Time when its coordinator sent it first.
    since: Monotonic,
    /// Time when its coordinator sent it last.
    last: Monotonic,
}

/// Ceiling and stored time that a member has reported.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reported {
    pub(crate) ceiling: Timestamp,
    pub(crate) delivered: Timestamp,
}

#[derive(Debug, Default)]
struct DeliveryAcks {
    /// The groups that have acknowledged the delivery.
    groups: BTreeSet<GroupId>,
    /// Time when this group last sent its own acknowledgement.
    sent: Option<Monotonic>,
}

impl<W: Clone> Leader<W> {
    /// Creates the leader of a term that begins with these entries.
    pub(crate) fn new(
        since: Monotonic,
        base: Timestamp,
        entries: &BTreeMap<TransactionId, Entry<W>>,
    ) -> Self {
        let open = entries.iter().filter(|(_, entry)| entry.holds_back());
        let due = entries.iter().filter_map(|(tid, entry)| match (entry.phase, &entry.payload) {
            (Phase::Committed(ts), Some(_)) => Some((ts, *tid)),
            _ => None,
        });
        Leader {
            open: open.map(|(tid, entry)| (entry.ts, *tid)).collect(),
            due: due.collect(),
            overdue_at: None,
            since,
            base,
            catching_up: None,
            reports: BTreeMap::new(),
            deferred: BTreeMap::new(),
            status_at: None,
            reported_upto: None,
            complete: Timestamp::ZERO,
            last: base,
            delivery_acks: BTreeMap::new(),
            asked_oldest: since,
            asked: BTreeMap::new(),
            reservations: Reservations::new(),
            claims: BTreeMap::new(),
            unconfirmed: BTreeMap::new(),
        }
    }

    /// Returns the reason for which the leader should begin another term, if there is one.
    pub(crate) fn begins_anew(&self, kept: &Kept<W>, step: &Step<'_, W>) -> Option<RarePath> {
        let (now, patience) = (step.now.monotonic, step.config.timing.leader_timeout);
        // The term delays a change of members, so the leader begins a term of the new members
        // without a canvass.
        if kept.election.ballot().configuration < step.configuration.electors.number {
            Some(rare::TERM_OF_NEW_MEMBERS)
        } else if self.waits_in_vain(kept.state.delivered, now, patience * 2) {
            Some(rare::TERM_TO_CATCH_UP)
        } else {
            let waits = kept.waits_for_what_is_lost(now, patience * 4);
            waits.then_some(rare::TERM_WITHOUT_LOST_UPDATES)
        }
    }

    /// Returns whether the leader has waited too long for transactions that members had stored. The
    /// members that have it may have failed, so the leader must ask the others for the parts that
    /// they stored.
    fn waits_in_vain(&self, delivered: Timestamp, now: Monotonic, patience: Duration) -> bool {
        delivered < self.base && now.since(self.since) >= patience
    }

    /// Returns whether deferred requests wait for a vote.
    pub(crate) fn has_deferred(&self) -> bool {
        !self.deferred.is_empty()
    }

    /// Forgets deferred requests.
    pub(crate) fn forget_deferred(&mut self, is_over: impl Fn(TransactionId) -> bool) {
        self.deferred.retain(|tid, _| !is_over(*tid));
    }

    /// Updates the leader's state when an undecided transaction is decided or forgotten.
    fn no_longer_undecided(
        &mut self,
        step: &Step<'_, W>,
        tid: TransactionId,
        ts: Timestamp,
        committed: bool,
    ) {
        self.asked.remove(&tid);
        self.unconfirmed.remove(&Unconfirmed::Forget(tid));
        self.open.remove(&(ts, tid));
        let Some(claim) = self.claims.remove(&tid) else { return };
        if committed {
            self.reservations.end(claim);
        } else {
            let until = step.now.monotonic.after(step.config.timing.reservation);
            self.reservations.extend(claim, until);
        }
    }

    /// Returns the ceiling that a quorum of the members has stored in this term.
    fn kept_by_quorum(&self, configuration: &Configuration) -> Timestamp {
        nth_greatest(
            self.reports.values().map(|report| report.ceiling),
            configuration.electors.quorum(),
        )
    }

    /// Returns the time of the last transaction before the next proposal, if no other transaction
    /// can come in between.
    fn nothing_since(&self, config: &Config) -> Option<Timestamp> {
        match config.keeps(Rule::NothingBetween) {
            true => (self.open.is_empty() && self.due.is_empty()).then_some(self.last),
            false => Some(Timestamp::ZERO),
        }
    }

    /// Returns whether other members had stored transactions that this leader has not stored yet.
    fn is_behind(&self, kept: &Kept<W>, step: &Step<'_, W>) -> bool {
        kept.state.delivered < self.base && step.config.keeps(Rule::CatchUp)
    }

    /// Handles the outcome of a transaction that a coordinator has determined.
    pub(crate) fn on_decision(
        &mut self,
        kept: &mut Kept<W>,
        step: &mut Step<'_, W>,
        tid: TransactionId,
        outcome: Option<Outcome>,
    ) {
        let entry = kept.state.entries.get(&tid);
        if let Some(entry) = entry.filter(|entry| entry.phase == Phase::Undecided) {
            match outcome {
                Some(outcome) => self.decide(kept, step, tid, outcome),
                // The transaction aborted, or it committed and a quorum has stored it. In the
                // second case, a later leader may have delivered it. This leader must therefore
                // determine whether it still leads.
                None if entry.holds_back() => {
                    self.once_confirmed(kept, step, Unconfirmed::Forget(tid));
                }
                None => self.forget_undecided(kept, step, tid),
            }
        }
        self.deliver(kept, step);
    }

    fn decide(
        &mut self,
        kept: &mut Kept<W>,
        step: &mut Step<'_, W>,
        tid: TransactionId,
        outcome: Outcome,
    ) {
        let entry =
            kept.state.entries.get_mut(&tid).expect("only what is undecided here is decided");
        assert_eq!(entry.phase, Phase::Undecided, "a transaction is decided once");
        if let Some(payload) = &entry.payload {
            kept.conflicts.release(tid, payload);
        }
        match outcome {
            Outcome::Committed(ts) => {
                entry.phase = Phase::Committed(ts);
                step.clock.observe(ts);
                if let Some(payload) = &entry.payload {
                    kept.conflicts.commit(payload, ts);
                }
            }
            Outcome::Aborted(_) => {
                entry.phase = Phase::Finished(None);
                entry.payload = None;
            }
        }
        let (ts, phase, has_share) = (entry.ts, entry.phase, entry.payload.is_some());
        self.no_longer_undecided(step, tid, ts, matches!(phase, Phase::Committed(_)));
        if let Phase::Committed(ts) = phase
            && has_share
        {
            self.due.insert((ts, tid));
        }
    }

    /// Forgets a transaction that all other groups have finished with.
    fn forget_undecided(&mut self, kept: &mut Kept<W>, step: &mut Step<'_, W>, tid: TransactionId) {
        if let Some(entry) = kept.state.entries.get(&tid) {
            if let Some(payload) = &entry.payload {
                kept.conflicts.release(tid, payload);
            }
            self.no_longer_undecided(step, tid, entry.ts, false);
        }
        kept.forget(step, &[tid]);
    }

    /// Delivers, in order, the transactions that no undecided transaction can precede, and reports
    /// up to which time the history is complete.
    pub(crate) fn deliver(&mut self, kept: &mut Kept<W>, step: &mut Step<'_, W>) {
        if self.is_behind(kept, step) {
            return;
        }
        if kept.is_outdated(step) {
            // A quorum of the present members may not be a quorum of the members with which this
            // term began. A later leader of the present members may therefore have delivered
            // transactions that are not known here. The next term asks all of them.
            return;
        }
        let own = Reported { ceiling: kept.state.ceiling, delivered: kept.state.delivered };
        self.reports.insert(step.config.me.site, own);
        let ceiling = self.kept_by_quorum(step.configuration);
        let is_kept = |at: &Option<Timestamp>| at.is_some_and(|at| at <= ceiling);
        let confirmed = self.unconfirmed.iter().filter(|(_, at)| is_kept(at));
        let confirmed: Vec<Unconfirmed> = confirmed.map(|(what, _)| *what).collect();
        self.unconfirmed.retain(|_, at| !is_kept(at));
        for what in confirmed {
            step.reach(rare::CONFIRMS_TERM);
            self.on_confirmed(kept, step, what);
        }
        let mut limit = step.clock.read(step.now.physical);
        if step.config.keeps(Rule::Ceiling) {
            limit = limit.min(ceiling);
        }
        if step.config.keeps(Rule::DeliverInOrder) {
            let first = self.open.first().map(|(ts, _)| ts.just_below());
            limit = limit.min(first.unwrap_or(Timestamp::MAX));
        }
        let delivered = kept.state.delivered;
        while let Some((ts, tid)) = self.due.first().copied().filter(|(ts, _)| *ts <= limit) {
            self.due.pop_first();
            self.last = self.last.max(ts);
            let entry = kept.state.entries.get(&tid);
            let Some(payload) = entry.and_then(|entry| entry.payload.clone()) else { continue };
            if ts <= delivered {
                step.reach(rare::STORED_FROM_ELSEWHERE);
                continue;
            }
            if ts == kept.state.delivered {
                // A coordinator has given two transactions the same time.
                step.counts.ignored += 1;
                continue;
            }
            kept.state.delivered = ts;
            step.outputs.push_back(Output::Deliver { group: kept.group, tid, ts, payload });
        }
        if limit > self.complete && limit > delivered {
            self.complete = limit;
            kept.state.delivered = limit;
            step.outputs.push_back(Output::Complete { group: kept.group, upto: limit });
        }
    }

    /// Performs a leader's periodic work.
    pub(crate) fn on_tick(&mut self, kept: &mut Kept<W>, step: &mut Step<'_, W>) {
        self.take_deferred(kept, step);
        let now = step.now.monotonic;
        let since = |at: Option<Monotonic>| at.map(|at| now.since(at));
        let behind = kept.state.delivered < self.base;
        if behind && since(self.catching_up).is_none_or(|since| since >= step.config.timing.retry) {
            self.catching_up = Some(step.now.monotonic);
            step.reach(rare::CATCHES_UP);
            let (group, upto) = (kept.group, self.base);
            step.outputs.push_back(Output::CatchUp { group, upto });
        }
        if since(self.status_at).is_none_or(|since| since >= step.config.timing.status_interval) {
            self.send_status(kept, step);
            self.forget_finished(kept, step);
        }
        self.deliver(kept, step);
    }

    /// Sends the leader's status to the members: its term, its ceiling, and the transactions that
    /// it remembers.
    pub(crate) fn send_status(&mut self, kept: &mut Kept<W>, step: &mut Step<'_, W>) {
        let clock = step.clock();
        // A status message rarely has a new ceiling, because all members record it.
        let reserve = step.config.timing.reserve;
        if kept.state.ceiling < clock.later(reserve - reserve / 4) {
            kept.keep_ceiling(step, clock.later(reserve));
        }
        self.confirm_term(kept, step);
        let ceiling = kept.state.ceiling;
        self.status_at = Some(step.now.monotonic);
        let after = self.reported_upto;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let rest = kept.state.entries.range((from, Bound::Unbounded));
        let phases: Vec<_> = rest.map(|(tid, of)| (*tid, of.phase)).take(PHASES).collect();
        self.reported_upto = phases.last().map(|(tid, _)| *tid).filter(|_| phases.len() == PHASES);
        let (ballot, range) = (kept.state.accepted_in, (after, self.reported_upto));
        let oldest = kept.state.oldest.iter().map(|(of, first)| (*of, *first)).collect();
        let status = Body::Status { ballot, ceiling, upto: clock, range, phases, oldest };
        step.send_others(kept.group, status);
    }

    /// Performs an action once a quorum has confirmed that no later term had begun by now.
    fn once_confirmed(&mut self, kept: &mut Kept<W>, step: &mut Step<'_, W>, what: Unconfirmed) {
        if !step.config.keeps(Rule::ConfirmTerm) {
            return self.on_confirmed(kept, step, what);
        }
        self.unconfirmed.entry(what).or_default();
    }

    /// Performs a confirmed action. No later term had begun when the action was requested. Whatever
    /// committed before is therefore known here, or is among what this leader had to store when its
    /// term began.
    fn on_confirmed(&mut self, kept: &mut Kept<W>, step: &mut Step<'_, W>, what: Unconfirmed) {
        match what {
            Unconfirmed::Forget(tid) => self.forget_undecided(kept, step, tid),
            Unconfirmed::Over(tid, asker) => {
                if let Some(oldest) = self.oldest_if_over(kept, step, tid) {
                    step.reach(rare::ANSWERS_OVER);
                    step.send(asker, kept.group, Body::OutcomeForgotten { tid, oldest });
                }
            }
            // The group has forgotten the transaction because all groups have acknowledged the
            // delivery.
            Unconfirmed::DeliveryAck(tid, of) if !kept.state.entries.contains_key(&tid) => {
                kept.acknowledge_delivery(step, tid, of, true);
            }
            Unconfirmed::DeliveryAck(..) => {}
        }
    }

    /// Returns the first transaction that the coordinator of the unknown transaction `tid` may
    /// still submit, if it is later than `tid`.
    fn oldest_if_over(
        &self,
        kept: &Kept<W>,
        step: &Step<'_, W>,
        tid: TransactionId,
    ) -> Option<Serial> {
        let oldest = kept.state.oldest.get(&tid.coordinator).copied();
        let later = |oldest: &Serial| tid.serial < *oldest && step.config.keeps(Rule::Remember);
        oldest.filter(|oldest| !kept.state.entries.contains_key(&tid) && later(oldest))
    }

    /// Sends the members a new ceiling if an action waits for a confirmation. The answers of a
    /// quorum show that no later term had begun when the action began to wait.
    fn confirm_term(&mut self, kept: &mut Kept<W>, step: &mut Step<'_, W>) {
        if self.unconfirmed.values().all(Option::is_some) {
            return;
        }
        let ceiling = kept.state.ceiling.later(Duration::from_micros(1));
        for at in self.unconfirmed.values_mut().filter(|at| at.is_none()) {
            *at = Some(ceiling);
        }
        kept.keep_ceiling(step, ceiling);
    }

    /// Handles a member's report of the ceiling that it has stored.
    pub(crate) fn on_status_kept(
        &mut self,
        kept: &mut Kept<W>,
        step: &mut Step<'_, W>,
        from: SiteId,
        reported: Reported,
    ) {
        let known = self.reports.entry(from).or_default();
        known.ceiling = known.ceiling.max(reported.ceiling);
        known.delivered = known.delivered.max(reported.delivered);
        self.deliver(kept, step);
    }
}

/// Returns the greatest value that at least `n` of the values reach; zero if there are fewer.
fn nth_greatest(values: impl Iterator<Item = Timestamp>, n: usize) -> Timestamp {
    let mut values: SmallVec<[Timestamp; MAX_SITES]> = values.collect();
    values.sort_unstable_by(|a, b| b.cmp(a));
    values.get(n.saturating_sub(1)).copied().unwrap_or(Timestamp::ZERO)
}

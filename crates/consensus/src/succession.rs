//! Changes of the leader: a member's part in elections, and the beginning of a term.

use std::collections::BTreeMap;

use solera_election::{Ballot, Candidacy, Canvassed, CurrentRole, Next, Request};
use solera_time::SiteId;

use crate::config::Rule;
use crate::handing_over::{Gathered, HandOver, PromisePart, Received};
use crate::ids::{Batch, Held, Slot};
use crate::leading::Leader;
use crate::message::{Message, Output};
use crate::participant::{Candidate, Participant, Promised, Role};
use crate::rare;
use crate::state::State;
use crate::step::Step;

impl Candidate {
    /// Returns whether the members have changed since the member became a candidate.
    fn is_former<B>(&self, step: &Step<'_, B>) -> bool {
        let (Request::Support(ballot) | Request::Promise(ballot)) = self.candidacy.request();
        ballot.configuration < step.electors.number
    }
}

impl<B: Clone> Participant<B> {
    /// Begins or continues an election if the members need another leader.
    pub(crate) fn elect(&mut self, step: &mut Step<'_, B>) {
        let electorate = step.electorate();
        if !electorate.includes(electorate.me) {
            if matches!(self.role, Role::Leader(_)) {
                step.reach(rare::LEADER_LEAVES);
            }
            self.role = Role::Follower;
            return;
        }
        match &mut self.role {
            Role::Leader(_) => {
                if self.state.election.ballot().configuration < step.electors.number {
                    // A change of members waits for this term. The site leads already, so it need
                    // not ask first whether another leader works.
                    step.reach(rare::TERM_OF_NEW_MEMBERS);
                    self.begin_term(step);
                }
            }
            Role::Candidate(candidate) if candidate.is_former(step) => self.canvass(step),
            Role::Candidate(candidate) => match candidate.candidacy.on_tick(&electorate) {
                Next::Wait => {}
                Next::Ask(request) => self.ask(step, request),
                Next::GiveUp => {
                    self.role = Role::Follower;
                    self.state.election.hear(step.now);
                }
            },
            Role::Follower => {
                // A member that lacks a slot that others have forgotten cannot propose for it.
                let lacks = self.state.lacks_forgotten();
                if self.state.election.misses_leader(&electorate) && !lacks {
                    self.canvass(step);
                }
            }
        }
    }

    /// Asks whether the other members hear from their leader.
    fn canvass(&mut self, step: &mut Step<'_, B>) {
        let ballot = self.state.election.next_ballot(&step.electorate());
        self.stand(step, Candidacy::canvassing(ballot, step.now));
        self.on_support(step, step.me(), ballot);
    }

    /// Becomes the leader if a quorum promises its term.
    pub(crate) fn take_over(&mut self, step: &mut Step<'_, B>) {
        let electorate = step.electorate();
        let leads = matches!(self.role, Role::Leader(_));
        if !leads && electorate.includes(electorate.me) && !self.state.lacks_forgotten() {
            self.begin_term(step);
        }
    }

    fn begin_term(&mut self, step: &mut Step<'_, B>) {
        let ballot = self.state.election.next_ballot(&step.electorate());
        self.state.promise(step, ballot);
        self.stand(step, Candidacy::gathering(ballot, step.now));
        let slots = self.state.log.held(self.state.log.delivered).collect();
        let promised = Promised { established: self.state.established, slots };
        self.on_promised(step, step.me(), ballot, promised);
    }

    fn stand(&mut self, step: &mut Step<'_, B>, candidacy: Candidacy<Promised>) {
        let request = candidacy.request();
        self.role = Role::Candidate(Candidate { candidacy, gathered: Gathered::default() });
        self.handing_over = None;
        self.ask(step, request);
    }

    /// Sends a candidate's request to the other members, or repeats it.
    fn ask(&mut self, step: &mut Step<'_, B>, request: Request) {
        match request {
            Request::Support(ballot) => {
                step.send_others(Message::Canvass { ballot });
                // While there is no leader, another member may know more decisions.
                let after = self.state.log.decided;
                step.send_others(Message::Ask { after });
            }
            Request::Promise(ballot) => {
                for site in step.electors.others(step.me()) {
                    self.ask_for_promise(step, site, ballot);
                }
            }
        }
    }

    fn ask_for_promise(&mut self, step: &mut Step<'_, B>, site: SiteId, ballot: Ballot) {
        let delivered = self.state.log.delivered;
        if let Role::Candidate(Candidate { gathered, .. }) = &mut self.role {
            let (attempt, part) = gathered.request(site);
            step.send(site, Message::NewBallot { ballot, delivered, attempt, part });
        }
    }

    pub(crate) fn on_canvass(&mut self, step: &mut Step<'_, B>, from: SiteId, ballot: Ballot) {
        let role = match self.role {
            Role::Leader(_) => CurrentRole::Leads,
            Role::Candidate(_) => CurrentRole::Stands,
            Role::Follower => CurrentRole::Follows,
        };
        match self.state.election.on_canvass(&step.electorate(), from, ballot, role) {
            Canvassed::Stale => self.state.refuse(step, from),
            Canvassed::Supports => step.send(from, Message::Support { ballot }),
            Canvassed::TakesOver => {
                step.reach(rare::STANDS_BETWEEN);
                self.take_over(step);
            }
            Canvassed::Content => {}
        }
    }

    pub(crate) fn on_support(&mut self, step: &mut Step<'_, B>, from: SiteId, ballot: Ballot) {
        let electorate = step.electorate();
        if let Role::Candidate(candidate) = &mut self.role
            && candidate.candidacy.on_support(&electorate, from, ballot)
        {
            self.begin_term(step);
        }
    }

    /// Promises a term to a candidate, and hands over what this member has accepted.
    pub(crate) fn on_new_ballot(
        &mut self,
        step: &mut Step<'_, B>,
        from: SiteId,
        ballot: Ballot,
        delivered: Slot,
        (attempt, part): (u32, u32),
    ) {
        if State::is_former(step, ballot) {
            step.reach(rare::FORMER_CONFIGURATION);
            return self.state.refuse(step, from);
        }
        if ballot < self.state.election.ballot() || ballot.leader != from {
            return self.state.refuse(step, from);
        }
        if delivered < self.state.log.forgotten {
            let upto = self.state.log.forgotten;
            return step.send(from, Message::Forgotten { upto });
        }
        if matches!(self.role, Role::Candidate(_)) {
            step.reach(rare::PROMISE_DURING_ELECTION);
        }
        self.state.promise(step, ballot);
        self.role = Role::Follower;
        self.state.election.hear(step.now);
        let mut handing_over = match self.handing_over.take().filter(|it| it.is_of(ballot)) {
            Some(handing_over) => handing_over,
            None => HandOver::compose(&self.state, step, ballot, delivered, attempt),
        };
        handing_over.answer(step, from, self.state.established, attempt, part);
        self.handing_over = Some(handing_over);
    }

    /// Takes a part of a member's promise.
    pub(crate) fn on_promise(
        &mut self,
        step: &mut Step<'_, B>,
        from: SiteId,
        ballot: Ballot,
        mut part: PromisePart<B>,
    ) {
        let is_far = part.slots.iter().any(|held| self.state.log.is_far(held.slot));
        let Role::Candidate(Candidate { candidacy, gathered }) = &mut self.role else { return };
        if candidacy.request() != Request::Promise(ballot) || is_far {
            return;
        }
        let received = gathered.take(step, from, &mut part);
        if matches!(received, Received::Ignored) {
            return;
        }
        candidacy.extend(step.now);
        self.state.election.hear(step.now);
        if !part.bodies.is_empty() {
            step.outputs.push_back(Output::Bodies(part.bodies));
        }
        match received {
            Received::Complete(slots) => {
                let promised = Promised { established: part.established, slots };
                self.on_promised(step, from, ballot, promised);
            }
            Received::Continue | Received::Ignored => self.ask_for_promise(step, from, ballot),
        }
    }

    /// Begins to lead once enough members have handed over what they accepted.
    fn on_promised(
        &mut self,
        step: &mut Step<'_, B>,
        from: SiteId,
        ballot: Ballot,
        promised: Promised,
    ) {
        let electorate = step.electorate();
        let Role::Candidate(Candidate { candidacy, .. }) = &mut self.role else { return };
        let Some(promises) = candidacy.on_promise(&electorate, from, ballot, promised) else {
            return;
        };
        // Quorums of different configurations need not intersect. So all members must answer,
        // unless one of them knows that the configuration is established: a quorum of its members
        // has delivered everything that was accepted in earlier configurations.
        let established = promises.values().any(|it| it.established >= ballot.configuration)
            || !step.keeps(Rule::AllAfterChange);
        let enough = match established {
            true => step.electors.quorum(),
            false => step.electors.members.len(),
        };
        if promises.len() < enough {
            return;
        }
        if !established {
            step.reach(rare::PROMISES_OF_ALL);
        }
        let slots = std::mem::take(promises).into_values().flat_map(|it| it.slots).collect();
        self.begin_to_lead(step, slots);
    }

    /// Begins to lead with what the members of a quorum have accepted.
    fn begin_to_lead(&mut self, step: &mut Step<'_, B>, slots: Vec<Held>) {
        let state = &mut self.state;
        let mut inherited: BTreeMap<Slot, (Ballot, Batch)> = BTreeMap::new();
        for Held { slot, accepted, batch } in slots {
            let Some(ballot) = accepted else {
                state.decide(step, slot, batch);
                continue;
            };
            if !step.keeps(Rule::ReProposal) {
                continue;
            }
            let known = inherited.get(&slot);
            if known.is_some_and(|(_, other)| *other != batch) {
                step.reach(rare::DIFFERENT_BATCHES);
            }
            let highest = step.keeps(Rule::HighestBallot);
            if known.is_none_or(|(other, _)| (*other < ballot) == highest) {
                inherited.insert(slot, (ballot, batch));
            }
        }
        let mut inherited: BTreeMap<Slot, Batch> =
            inherited.into_iter().map(|(slot, (_, batch))| (slot, batch)).collect();
        inherited.retain(|slot, _| !state.log.is_decided(*slot));
        let decided = state.log.after(state.log.decided).filter(|(_, it)| it.decided.is_some());
        let last = decided.map(|(slot, _)| slot).last().unwrap_or(state.log.decided);
        let last = inherited.keys().last().copied().unwrap_or_default().max(last);
        let mut slot = state.log.decided.next();
        while slot <= last && step.keeps(Rule::FillGaps) {
            if !state.log.is_decided(slot) && !inherited.contains_key(&slot) {
                step.reach(rare::FILLS_GAP);
                inherited.insert(slot, Batch::default());
            }
            slot = slot.next();
        }
        self.lead(step, inherited, last.next());
    }

    /// Leads from the very beginning of the cluster, when no member has accepted anything.
    pub(crate) fn lead_at_once(&mut self, step: &mut Step<'_, B>) {
        self.lead(step, BTreeMap::new(), Slot::default().next());
    }

    fn lead(&mut self, step: &mut Step<'_, B>, inherited: BTreeMap<Slot, Batch>, next: Slot) {
        let mut leader = Leader::new(&self.state, step, inherited, next);
        self.state.name_leader(step, self.state.election.ballot());
        leader.send_status(&mut self.state, step);
        self.role = Role::Leader(leader);
    }

    /// Handles the report of a higher term: the leader of a lower one can decide nothing.
    pub(crate) fn on_stale(&mut self, step: &mut Step<'_, B>, ballot: Ballot) {
        if ballot <= self.state.election.ballot() {
            return;
        }
        if matches!(self.role, Role::Leader(_)) {
            step.reach(rare::DEPOSED_LEADER);
        }
        self.state.promise(step, ballot);
        self.role = Role::Follower;
        self.state.election.hear(step.now);
    }
}

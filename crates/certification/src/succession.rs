//! Changes of a group's leader: a member's part in elections, and the initial state of a term.

use std::collections::BTreeSet;

use solera_election::{Candidacy, Canvassed, CurrentRole, Next, Request};
use solera_machine::Address;
use solera_time::{SiteId, Timestamp};

use crate::config::Rule;
use crate::entry::{Phase, State};
use crate::ids::{Ballot, TransactionId};
use crate::kept::remember;
use crate::leading::Leader;
use crate::member::{Candidate, Member, Role};
use crate::message::{Body, Record};
use crate::payload::Vote;
use crate::rare;
use crate::step::Step;

impl<W: Clone> Member<W> {
    /// Begins or continues an election if the group needs another leader.
    pub(crate) fn elect(&mut self, step: &mut Step<'_, W>) {
        let electorate = step.electorate();
        if !electorate.includes(electorate.me) {
            self.follow();
            return;
        }
        match &mut self.role {
            Role::Leader(leader) => {
                if let Some(reason) = leader.begins_anew(&self.kept, step) {
                    step.reach(reason);
                    self.begin_term(step);
                }
            }
            Role::Candidate(candidate) => match candidate.candidacy.on_tick(&electorate) {
                Next::Wait => {}
                Next::Ask(request) => step.send_others(self.kept.group, body(request)),
                Next::GiveUp => {
                    self.follow();
                    self.kept.election.hear(step.now.monotonic);
                }
            },
            Role::Follower(_) => {
                if self.kept.election.misses_leader(&electorate) {
                    self.canvass(step);
                }
            }
        }
    }

    /// Asks whether the other members hear from their leader.
    fn canvass(&mut self, step: &mut Step<'_, W>) {
        let ballot = self.kept.election.next_ballot(&step.electorate());
        self.stand(step, Candidacy::canvassing(ballot, step.now.monotonic));
        self.on_support(step, step.config.me.site, ballot);
    }

    /// Becomes the leader if a quorum promises its term.
    pub(crate) fn take_over(&mut self, step: &mut Step<'_, W>) {
        let electorate = step.electorate();
        if self.leads() || !electorate.includes(electorate.me) {
            step.counts.ignored += 1;
            return;
        }
        self.begin_term(step);
    }

    fn begin_term(&mut self, step: &mut Step<'_, W>) {
        let ballot = self.kept.election.next_ballot(&step.electorate());
        self.kept.promise(step, ballot);
        self.stand(step, Candidacy::gathering(ballot, step.now.monotonic));
        let state = self.kept.state.clone();
        self.on_promise(step, step.config.me.site, ballot, state);
    }

    fn stand(&mut self, step: &mut Step<'_, W>, candidacy: Candidacy<State<W>>) {
        let body = body(candidacy.request());
        let follower = self.take_follower();
        self.role = Role::Candidate(Candidate { candidacy, follower });
        step.send_others(self.kept.group, body);
    }

    pub(crate) fn on_canvass(&mut self, step: &mut Step<'_, W>, from: Address, ballot: Ballot) {
        let role = match self.role {
            Role::Leader(_) => CurrentRole::Leads,
            Role::Candidate(_) => CurrentRole::Stands,
            Role::Follower(_) => CurrentRole::Follows,
        };
        let election = &mut self.kept.election;
        match election.on_canvass(&step.electorate(), from.site, ballot, role) {
            Canvassed::Stale => self.kept.refuse(step, from),
            Canvassed::Supports => step.send(from, self.kept.group, Body::Support { ballot }),
            Canvassed::TakesOver => {
                step.reach(rare::STANDS_BETWEEN);
                self.begin_term(step);
            }
            Canvassed::Content => {}
        }
    }

    pub(crate) fn on_support(&mut self, step: &mut Step<'_, W>, from: SiteId, ballot: Ballot) {
        let electorate = step.electorate();
        match &mut self.role {
            Role::Candidate(candidate) => {
                if candidate.candidacy.on_support(&electorate, from, ballot) {
                    self.begin_term(step);
                }
            }
            // The member has already begun its term, or has given up.
            Role::Follower(_) | Role::Leader(_) => step.counts.ignored += 1,
        }
    }

    pub(crate) fn on_new_ballot(&mut self, step: &mut Step<'_, W>, from: Address, ballot: Ballot) {
        if ballot < self.kept.election.ballot() || ballot.leader != from.site {
            return self.kept.refuse(step, from);
        }
        if matches!(self.role, Role::Candidate(_)) {
            step.reach(rare::PROMISE_DURING_ELECTION);
        }
        self.kept.promise(step, ballot);
        self.follow();
        self.kept.election.hear(step.now.monotonic);
        let state = self.kept.state.clone();
        step.send(from, self.kept.group, Body::Promise { ballot, state });
    }

    /// Begins to lead once enough members have handed over their state.
    pub(crate) fn on_promise(
        &mut self,
        step: &mut Step<'_, W>,
        from: SiteId,
        ballot: Ballot,
        state: State<W>,
    ) {
        let electorate = step.electorate();
        let states = match &mut self.role {
            Role::Candidate(Candidate { candidacy, .. }) => {
                candidacy.on_promise(&electorate, from, ballot, state)
            }
            Role::Follower(_) | Role::Leader(_) => None,
        };
        let Some(states) = states else {
            step.counts.ignored += 1;
            return;
        };
        // Quorums of different configurations need not intersect, so all remaining members must
        // answer.
        let changed = step.config.keeps(Rule::AllAfterChange)
            && states.values().any(|state| state.accepted_in.configuration < ballot.configuration);
        let enough = match changed {
            true => step.configuration.electors.members.len(),
            false => step.configuration.electors.quorum(),
        };
        if states.len() < enough && step.config.keeps(Rule::Gather) {
            return;
        }
        if changed {
            step.reach(rare::PROMISES_OF_ALL);
        }
        let states = std::mem::take(states);
        self.begin_to_lead(step, ballot, states.into_values().collect());
    }

    /// Begins to lead with the merged states of a quorum.
    fn begin_to_lead(&mut self, step: &mut Step<'_, W>, ballot: Ballot, states: Vec<State<W>>) {
        let kept = &mut self.kept;
        assert!(
            ballot == kept.election.ballot() && ballot > kept.state.accepted_in,
            "a term begins once, after those before, and while no later one is promised"
        );
        let (acknowledged, acknowledged_here) =
            (acknowledged_in(&states), acknowledged_in(std::slice::from_ref(&kept.state)));
        let (mut merged, base) = merge(&kept.state, ballot, states);
        // A vote that no member acknowledged was not chosen, and might wait for ever for lost
        // updates.
        if step.config.keeps(Rule::DropUnacknowledged) {
            let before = merged.entries.len();
            merged
                .entries
                .retain(|tid, entry| entry.phase > Phase::Undecided || acknowledged.contains(tid));
            if merged.entries.len() < before {
                step.reach(rare::DROPS_UNACKNOWLEDGED);
            }
        }
        for (tid, entry) in &mut merged.entries {
            // Transactions that were delivered are delivered again, because only one member may
            // have stored them.
            entry.acknowledged = acknowledged_here.contains(tid);
        }
        let before = std::mem::replace(&mut kept.state, merged);
        for (tid, entry) in &before.entries {
            remember(step, *tid, entry);
        }
        step.clock.observe(kept.latest().max(base));
        step.record(Record::Took(kept.group, kept.state.clone()));
        kept.conflicts.forget_prepared();
        for (tid, entry) in &kept.state.entries {
            match (&entry.payload, entry.phase) {
                (Some(payload), Phase::Undecided) if entry.vote == Vote::Commit => {
                    kept.conflicts.prepare(*tid, payload, entry.ts);
                }
                (Some(payload), Phase::Committed(ts)) => kept.conflicts.commit(payload, ts),
                _ => {}
            }
        }
        let mut leader = Leader::new(step.now.monotonic, base, &kept.state.entries);
        kept.name_leader(step, ballot);
        step.send_others(kept.group, Body::NewState { state: kept.state.clone() });
        leader.send_status(kept, step);
        self.role = Role::Leader(Box::new(leader));
    }

    /// Leads from the very beginning of the cluster, when no member has stored anything.
    pub(crate) fn lead_at_once(&mut self, step: &mut Step<'_, W>) {
        let kept = &mut self.kept;
        let mut leader = Leader::new(step.now.monotonic, Timestamp::ZERO, &kept.state.entries);
        kept.name_leader(step, kept.election.ballot());
        leader.send_status(kept, step);
        self.role = Role::Leader(Box::new(leader));
    }

    pub(crate) fn on_new_state(&mut self, step: &mut Step<'_, W>, from: Address, state: State<W>) {
        let (kept, ballot) = (&mut self.kept, state.accepted_in);
        if ballot < kept.election.ballot() || ballot.leader != from.site {
            return kept.refuse(step, from);
        }
        if ballot <= kept.state.accepted_in || ballot.leader == step.me() {
            step.counts.ignored += 1;
            return;
        }
        let delivered = kept.state.delivered;
        let ceiling = kept.state.ceiling.max(state.ceiling);
        let before = std::mem::replace(&mut kept.state, State { delivered, ceiling, ..state });
        for (tid, entry) in &before.entries {
            remember(step, *tid, entry);
        }
        for (tid, entry) in &mut kept.state.entries {
            entry.acknowledged = before.entries.get(tid).is_some_and(|entry| entry.acknowledged);
        }
        // The record of the state includes the promise of its term.
        kept.election.promise(ballot);
        kept.election.hear(step.now.monotonic);
        step.record(Record::Took(kept.group, kept.state.clone()));
        step.clock.observe(kept.latest());
        kept.name_leader(step, ballot);
        self.follow();
    }

    pub(crate) fn on_need_state(&mut self, step: &mut Step<'_, W>, from: Address, ballot: Ballot) {
        if self.leads() && ballot == self.kept.state.accepted_in {
            let state = self.kept.state.clone();
            step.send(from, self.kept.group, Body::NewState { state });
        } else {
            step.counts.ignored += 1;
        }
    }

    /// Handles the report of a higher term: the leader of a lower one can decide nothing.
    pub(crate) fn on_stale(&mut self, step: &mut Step<'_, W>, ballot: Ballot) {
        if ballot <= self.kept.election.ballot() {
            step.counts.ignored += 1;
            return;
        }
        if self.leads() {
            step.reach(rare::DEPOSED_LEADER);
        }
        self.kept.promise(step, ballot);
        self.follow();
        self.kept.election.hear(step.now.monotonic);
    }
}

fn body<W>(request: Request) -> Body<W> {
    match request {
        Request::Support(ballot) => Body::Canvass { ballot },
        Request::Promise(ballot) => Body::NewBallot { ballot },
    }
}

/// Returns the transactions whose votes at least one of these members has acknowledged.
fn acknowledged_in<W>(states: &[State<W>]) -> BTreeSet<TransactionId> {
    let entries = states.iter().flat_map(|state| &state.entries);
    entries.filter(|(_, entry)| entry.acknowledged).map(|(tid, _)| *tid).collect()
}

/// Merges the states of a quorum for a leader with the state `own`: the entries of the latest term
/// among the states, and the maximum of everything else. Also returns the time up to which members
/// have stored transactions.
fn merge<W: Clone>(own: &State<W>, ballot: Ballot, states: Vec<State<W>>) -> (State<W>, Timestamp) {
    let newest = states.iter().map(|state| state.accepted_in).max();
    let mut merged = State { accepted_in: ballot, ..own.clone() };
    let mut base = merged.delivered;
    merged.entries.clear();
    for state in states {
        merged.ceiling = merged.ceiling.max(state.ceiling);
        base = base.max(state.delivered);
        for (coordinator, oldest) in state.oldest {
            merged.learn_oldest(coordinator, oldest);
        }
        if Some(state.accepted_in) != newest {
            continue;
        }
        for (tid, entry) in state.entries {
            match merged.entries.get_mut(&tid) {
                Some(known) => {
                    known.phase = known.phase.max(entry.phase);
                    known.payload = known.payload.take().or(entry.payload);
                }
                None => {
                    merged.entries.insert(tid, entry);
                }
            }
        }
    }
    (merged, base)
}

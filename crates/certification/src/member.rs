//! A member of one group: what it keeps, and its part as a follower.

use std::collections::BTreeMap;

use solera_machine::{Address, Now};
use solera_time::{Monotonic, SiteId, Timestamp, Vector};

use crate::config::Configuration;
use crate::conflicts::Conflicts;
use crate::election::Candidacy;
use crate::entry::{Entry, Phase, State};
use crate::ids::{Ballot, GroupId, TransactionId};
use crate::leading::Leading;
use crate::message::{Body, Output, Record};
use crate::share::Vote;
use crate::step::Step;

/// The member of a group at one site.
#[derive(Debug)]
pub(crate) struct Member<W> {
    pub(crate) group: GroupId,
    /// It takes part in no term below this one.
    pub(crate) ballot: Ballot,
    /// What it has kept.
    pub(crate) state: State<W>,
    pub(crate) conflicts: Conflicts,
    pub(crate) role: Role<W>,
    /// When the leader of `ballot` last gave a sign of life, or began to be waited for.
    pub(crate) heard: Monotonic,
    /// Whom this member has named as leader.
    pub(crate) named: Option<Ballot>,
}

/// What a member is to its group.
#[derive(Debug)]
pub(crate) enum Role<W> {
    Follower,
    Candidate(Candidacy<W>),
    Leader(Leading),
}

impl<W: Clone> Member<W> {
    /// A member that has kept nothing. Every group begins in a term of the preferred site.
    pub(crate) fn new(group: GroupId, ballot: Ballot, sites: usize, now: Now) -> Self {
        let state = State {
            accepted_in: ballot,
            entries: BTreeMap::new(),
            oldest: BTreeMap::new(),
            ceiling: Timestamp::ZERO,
            delivered: Timestamp::ZERO,
        };
        Member {
            group,
            ballot,
            state,
            conflicts: Conflicts::new(sites),
            role: Role::Follower,
            heard: now.monotonic,
            named: None,
        }
    }

    /// Whether it leads.
    pub(crate) fn leads(&self) -> bool {
        matches!(self.role, Role::Leader(_))
    }

    pub(crate) fn on_message(&mut self, step: &mut Step<'_, W>, from: Address, body: Body<W>) {
        match body {
            Body::Prepare { tid, share, participants, oldest } => {
                self.on_prepare(step, from, tid, share, participants, oldest);
            }
            Body::Decision { tid, outcome, oldest } => {
                self.on_decision(step, tid, outcome, oldest);
            }
            Body::Through { tid, of, answer } => self.on_through(step, tid, of, answer),
            Body::Oldest { oldest } => self.learn_oldest(from, Some(oldest)),
            Body::Accept { ballot, tid, entry, coordinator } => {
                self.on_accept(step, from, ballot, tid, entry, coordinator);
            }
            Body::Status { ballot, ceiling, upto, phases } => {
                self.on_status(step, from, ballot, ceiling, upto, phases);
            }
            Body::StatusKept { ballot, ceiling, delivered } => {
                self.on_status_kept(step, from.site, ballot, ceiling, delivered);
            }
            Body::Canvass { ballot } => self.on_canvass(step, from, ballot),
            Body::Support { ballot } => self.on_support(step, from.site, ballot),
            Body::NewBallot { ballot } => self.on_new_ballot(step, from, ballot),
            Body::Promise { ballot, state } => self.on_promise(step, from.site, ballot, state),
            Body::NewState { state } => self.on_new_state(step, from, state),
            Body::NeedState { ballot } => self.on_need_state(step, from, ballot),
            Body::Stale { ballot } => self.on_stale(step, ballot),
            Body::TakeOver => self.take_over(step),
            // For coordinators.
            Body::NotLeader { .. } | Body::Accepted { .. } | Body::AskOldest => {}
        }
    }

    /// Keeps a leader's vote and tells the coordinator.
    fn on_accept(
        &mut self,
        step: &mut Step<'_, W>,
        from: Address,
        ballot: Ballot,
        tid: TransactionId,
        entry: Entry<W>,
        coordinator: Address,
    ) {
        if !self.follows(step, from, ballot) {
            return;
        }
        step.clock.observe(entry.ts);
        let (vote, ts) = (entry.vote.clone(), entry.ts);
        if !self.state.entries.contains_key(&tid) {
            step.record(Record::Accepted(self.group, tid, entry.clone()));
            self.state.entries.insert(tid, entry);
        }
        self.tell_kept(step, coordinator, tid, vote, ts);
    }

    pub(crate) fn tell_kept(
        &self,
        step: &mut Step<'_, W>,
        coordinator: Address,
        tid: TransactionId,
        vote: Vote,
        ts: Timestamp,
    ) {
        let body = Body::Accepted { ballot: self.state.accepted_in, tid, vote, ts };
        step.send(coordinator, self.group, body);
    }

    /// Whether a leader's message is of the term that this member follows, with the state that the term
    /// began with.
    fn follows(&mut self, step: &mut Step<'_, W>, from: Address, ballot: Ballot) -> bool {
        if ballot < self.ballot {
            step.send(from, self.group, Body::Stale { ballot: self.ballot });
            return false;
        }
        if ballot.leader == step.me() {
            return false;
        }
        self.heard = step.now.monotonic;
        if ballot > self.ballot || self.canvasses() {
            self.role = Role::Follower;
        }
        self.promise(step, ballot);
        self.name_leader(step, ballot);
        if ballot > self.state.accepted_in {
            step.send(from, self.group, Body::NeedState { ballot });
            return false;
        }
        true
    }

    /// Keeps the ceiling, and forgets what the leader has forgotten.
    fn on_status(
        &mut self,
        step: &mut Step<'_, W>,
        from: Address,
        ballot: Ballot,
        ceiling: Timestamp,
        upto: Timestamp,
        phases: Vec<(TransactionId, Phase)>,
    ) {
        if !self.follows(step, from, ballot) {
            return;
        }
        self.keep_ceiling(step, ceiling);
        let phases: BTreeMap<_, _> = phases.into_iter().collect();
        self.state.entries.retain(|tid, entry| phases.contains_key(tid) || entry.ts > upto);
        for (tid, phase) in phases {
            if let Some(entry) = self.state.entries.get_mut(&tid) {
                entry.phase = entry.phase.max(phase);
                if matches!(phase, Phase::Finished(_)) {
                    entry.share = None;
                }
            }
        }
        let delivered = self.state.delivered;
        step.send(from, self.group, Body::StatusKept { ballot, ceiling, delivered });
    }

    /// No later leader will propose a timestamp up to here.
    pub(crate) fn keep_ceiling(&mut self, step: &mut Step<'_, W>, ceiling: Timestamp) {
        if ceiling > self.state.ceiling {
            self.state.ceiling = ceiling;
            step.record(Record::Ceiling(self.group, ceiling));
        }
    }

    /// The host has stored a transaction that another leader delivered.
    pub(crate) fn stored(&mut self, commit_vec: &Vector) {
        self.conflicts.raise_fence(commit_vec);
        self.state.delivered = self.state.delivered.max(commit_vec.strong);
    }

    /// The host has stored everything up to here.
    pub(crate) fn known(&mut self, upto: Timestamp) {
        self.state.delivered = self.state.delivered.max(upto);
    }

    /// Tells the host and coordinators here who leads.
    pub(crate) fn name_leader(&mut self, step: &mut Step<'_, W>, ballot: Ballot) {
        if self.named < Some(ballot) {
            self.named = Some(ballot);
            step.outputs.push_back(Output::Leader { group: self.group, site: ballot.leader });
        }
    }

    /// What a checkpoint keeps.
    pub(crate) fn save(&self) -> [Record<W>; 2] {
        let took = Record::Took(self.group, self.state.clone());
        [took, Record::Promised(self.group, self.ballot)]
    }

    /// Takes a record of the journal.
    pub(crate) fn restore(&mut self, record: Record<W>) {
        match record {
            Record::Promised(_, ballot) => self.ballot = self.ballot.max(ballot),
            Record::Took(_, mut state) => {
                state.ceiling = state.ceiling.max(self.state.ceiling);
                // What is stored the host knows. Up to where nothing happened after that is forgotten, and
                // need not be known again: it was below the ceiling.
                state.delivered = self.state.delivered;
                self.ballot = self.ballot.max(state.accepted_in);
                self.state = state;
            }
            Record::Accepted(_, tid, entry) => {
                self.state.entries.insert(tid, entry);
            }
            Record::Ceiling(_, ceiling) => {
                self.state.ceiling = self.state.ceiling.max(ceiling);
            }
        }
    }

    /// The greatest time that this member has heard of: no proposal of it may be lower after a restart.
    pub(crate) fn latest(&self) -> Timestamp {
        let proposed = self.state.entries.values().map(|entry| entry.ts).max();
        self.state.ceiling.max(self.state.delivered).max(proposed.unwrap_or(Timestamp::ZERO))
    }

    /// Forgets what coordinators at sites that left have said: they ask for nothing any more.
    pub(crate) fn forget_former(&mut self, configuration: &Configuration) {
        let stays = |site: &SiteId| configuration.members.contains(site);
        self.state.oldest.retain(|coordinator, _| stays(&coordinator.site));
    }
}

//! A member of one group: what it keeps, and its part as a follower.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use solera_machine::{Address, Now};
use solera_time::{Monotonic, SiteId, Timestamp, Vector};

use crate::ahead::Ahead;
use crate::config::{Config, Configuration, Rule};
use crate::conflicts::Conflicts;
use crate::election::{Candidacy, Unheard};
use crate::entry::{Entry, Phase, State};
use crate::ids::{Ballot, GroupId, TransactionId};
use crate::leading::{Asked, Early, Leading};
use crate::message::{Body, Output, Record};
use crate::rare;
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
    /// Last term that this member saw begin since it started; `None` before.
    pub(crate) named: Option<Ballot>,
    /// Coordinators that have asked it since that term began.
    pub(crate) asked_by: BTreeSet<Address>,
    /// What its site stores of all sites' transactions, all partitions together (`stableVec`).
    pub(crate) site_vec: Vector,
    /// Votes that are kept and told when the site stores what their transactions have seen.
    pub(crate) untold: Vec<Untold>,
    /// At a follower: who does not hear the leader that this member hears.
    pub(crate) unheard: Unheard,
    /// At a follower: what it may deliver before its leader does.
    pub(crate) ahead: Ahead,
    /// At the leader: what it cannot vote on yet.
    pub(crate) early: BTreeMap<TransactionId, Early<W>>,
    /// Whether a journal has told of it.
    restored: bool,
}

/// A vote that is to be kept, and whom to tell.
#[derive(Clone, Debug)]
pub(crate) struct Untold {
    ballot: Ballot,
    coordinator: Address,
    tid: TransactionId,
    since: Monotonic,
}

/// What a member is to its group.
#[derive(Debug)]
pub(crate) enum Role<W> {
    Follower,
    Candidate(Candidacy<W>),
    Leader(Box<Leading>),
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
            asked_by: BTreeSet::new(),
            site_vec: Vector::zero(sites),
            untold: Vec::new(),
            unheard: Unheard::default(),
            ahead: Ahead::default(),
            early: BTreeMap::new(),
            restored: false,
        }
    }

    /// Keeps with which term it has begun: after a restart the configuration may name another first leader.
    pub(crate) fn keep_first_term(&mut self, step: &mut Step<'_, W>) {
        if !self.restored {
            step.record(Record::Took(self.group, self.state.clone()));
        }
    }

    /// Follows from now on. Requests that it could not vote on as a leader are gone: their coordinators ask the next
    /// leader as soon as one is named.
    pub(crate) fn follow(&mut self) {
        self.early.clear();
        self.role = Role::Follower;
    }

    /// Whether it leads.
    pub(crate) fn leads(&self) -> bool {
        matches!(self.role, Role::Leader(_))
    }

    /// Who was last seen to lead.
    pub(crate) fn leader(&self) -> SiteId {
        self.last_begun().leader
    }

    /// The last term that was seen to have begun. Not `ballot`, whose leader may be a candidate that gets no quorum.
    pub(crate) fn last_begun(&self) -> Ballot {
        // After a restart: the last term that it took part in, the first one to begin with.
        self.named.unwrap_or(self.state.accepted_in)
    }

    pub(crate) fn on_message(&mut self, step: &mut Step<'_, W>, from: Address, body: Body<W>) {
        match body {
            Body::Prepare { tid, share, participants, oldest, until, claim } => {
                let asked = Asked { coordinator: from, share, participants, until, claim };
                self.on_prepare(step, tid, asked, oldest);
            }
            Body::Decision { tid, outcome, oldest } => {
                self.on_decision(step, tid, outcome, oldest);
            }
            Body::Through { tid, of, answer } => self.on_through(step, tid, of, answer),
            Body::Oldest { oldest } => self.learn_oldest(step, from, Some(oldest)),
            Body::Accept { ballot, tid, entry, coordinator, after } => {
                self.on_accept(step, from, ballot, tid, entry, coordinator, after);
            }
            Body::Status { ballot, ceiling, upto, range, phases, oldest } => {
                for (coordinator, oldest) in oldest {
                    self.learn_oldest(step, coordinator, Some(oldest));
                }
                self.on_status(step, from, ballot, ceiling, upto, range, phases);
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
            Body::NotLeader { .. }
            | Body::Accepted { .. }
            | Body::Over { .. }
            | Body::AskOldest => {}
        }
    }

    /// Keeps a leader's vote and tells the coordinator.
    #[expect(clippy::too_many_arguments, reason = "one per field of the message")]
    fn on_accept(
        &mut self,
        step: &mut Step<'_, W>,
        from: Address,
        ballot: Ballot,
        tid: TransactionId,
        entry: Entry<W>,
        coordinator: Address,
        after: Option<Timestamp>,
    ) {
        if !self.follows(step, from, ballot) {
            return;
        }
        step.clock.observe(entry.ts);
        // Only here it is known at once that it has committed.
        if let Some(after) = after.filter(|_| coordinator.site == step.me()) {
            self.ahead.propose(entry.ts, tid, after);
        }
        let former = self.state.entries.get(&tid);
        if former.is_some_and(|former| (&former.vote, former.ts) != (&entry.vote, entry.ts)) {
            if entry.vote == Vote::Forgotten {
                // The leader is done with it, and was asked again before this member heard so. As long as both have other
                // votes, nobody finds out that it is over.
                step.reach(rare::GIVES_UP_FORMER_VOTE);
                self.forget(step, &[tid]);
            } else {
                step.reach(rare::KEEPS_FORMER_VOTE);
            }
        }
        self.state.entries.entry(tid).or_insert(Entry { told: false, ..entry });
        self.tell_kept(step, coordinator, tid);
    }

    /// Keeps a vote and tells so, once this site stores everything that the transaction has seen. A
    /// quorum that tells so makes that uniform, so that a transaction that commits does not depend on
    /// what may be lost: the barrier of UniStore Alg. 3 l. 2, within the round trip of l. 3.
    pub(crate) fn tell_kept(
        &mut self,
        step: &mut Step<'_, W>,
        coordinator: Address,
        tid: TransactionId,
    ) {
        let ballot = self.state.accepted_in;
        if !self.must_wait(step, tid) {
            return self.tell(step, coordinator, tid);
        }
        let waits = |other: &Untold| {
            (other.tid, other.coordinator, other.ballot) == (tid, coordinator, ballot)
        };
        if !self.untold.iter().any(waits) {
            if ballot.configuration < step.configuration.number {
                step.reach(rare::OUTDATED_VOTE);
            }
            let since = step.now.monotonic;
            self.untold.push(Untold { ballot, coordinator, tid, since });
        }
    }

    /// Whether a vote must not be acknowledged yet.
    fn must_wait(&self, step: &Step<'_, W>, tid: TransactionId) -> bool {
        let Some(entry) = self.state.entries.get(&tid) else { return false };
        let Some(share) = &entry.share else { return false };
        // What is lost with a site that is gone does not count as missing any more. What nobody has
        // acknowledged by then does not reach the term that follows.
        entry.vote == Vote::Commit
            && !entry.told
            && (self.is_outdated(step) || !self.stores(step, &share.snap_vec))
    }

    /// Whether the term that this member follows is one of former members.
    pub(crate) fn is_outdated(&self, step: &Step<'_, W>) -> bool {
        self.state.accepted_in.configuration < step.configuration.number
            && step.config.keeps(Rule::NothingOutdated)
    }

    /// Keeps a vote, and tells so.
    fn tell(&mut self, step: &mut Step<'_, W>, coordinator: Address, tid: TransactionId) {
        let ballot = self.state.accepted_in;
        let Some(entry) = self.state.entries.get(&tid) else { return };
        if self.ballot > ballot && !entry.told && step.config.keeps(Rule::LeaveTerm) {
            // It has handed over to a later term what it had acknowledged by then.
            step.reach(rare::SILENT_IN_FORMER_TERM);
            return;
        }
        let (vote, ts) = (entry.vote.clone(), entry.ts);
        if let Some(entry) = self.state.entries.get_mut(&tid).filter(|entry| !entry.told) {
            entry.told = true;
            step.record(Record::Accepted(self.group, tid, entry.clone()));
        }
        step.send(coordinator, self.group, Body::Accepted { ballot, tid, vote, ts });
    }

    /// Whether this site stores all causal transactions of a snapshot. Its own it always does.
    pub(crate) fn stores(&self, step: &Step<'_, W>, snap_vec: &Vector) -> bool {
        let of_others =
            snap_vec.with(step.me(), Timestamp::ZERO).with(SiteId::STRONG, Timestamp::ZERO);
        self.site_vec.covers(&of_others) || !step.config.keeps(Rule::UniformBeforeCommit)
    }

    /// The site stores this much.
    pub(crate) fn site_stores(&mut self, step: &mut Step<'_, W>, stable_vec: &Vector) {
        self.site_vec.join(stable_vec);
        let ballot = self.state.accepted_in;
        for untold in std::mem::take(&mut self.untold) {
            if untold.ballot != ballot {
                continue;
            }
            if self.must_wait(step, untold.tid) {
                self.untold.push(untold);
            } else {
                self.tell(step, untold.coordinator, untold.tid);
            }
        }
    }

    /// Whether a vote of this leader waits in vain for what its transaction has seen: that may be lost
    /// with its site. In another term the vote counts only if somebody has acknowledged it.
    pub(crate) fn waits_for_what_is_lost(&self, now: Monotonic, patience: Duration) -> bool {
        let undecided = |tid| {
            let entry = self.state.entries.get(tid);
            entry.is_some_and(|entry| entry.phase == Phase::Undecided)
        };
        self.untold.iter().any(|untold| {
            untold.ballot == self.state.accepted_in
                && now.since(untold.since) >= patience
                && undecided(&untold.tid)
        })
    }

    /// Whether a leader's message is of the term that this member follows, with the state that the term
    /// began with.
    fn follows(&mut self, step: &mut Step<'_, W>, from: Address, ballot: Ballot) -> bool {
        if ballot < self.ballot {
            step.counts.ignored += 1;
            step.send(from, self.group, Body::Stale { ballot: self.ballot });
            return false;
        }
        if ballot.leader == step.me() {
            return false;
        }
        self.heard = step.now.monotonic;
        if ballot > self.ballot || self.canvasses() {
            self.follow();
        }
        self.promise(step, ballot);
        self.name_leader(step, ballot);
        if ballot > self.state.accepted_in {
            step.reach(rare::NEEDS_STATE);
            step.send(from, self.group, Body::NeedState { ballot });
            return false;
        }
        true
    }

    /// Keeps the ceiling, and forgets what the leader has forgotten.
    #[expect(clippy::too_many_arguments, reason = "one per field of the message")]
    fn on_status(
        &mut self,
        step: &mut Step<'_, W>,
        from: Address,
        ballot: Ballot,
        ceiling: Timestamp,
        upto: Timestamp,
        (after, last): (Option<TransactionId>, Option<TransactionId>),
        phases: Vec<(TransactionId, Phase)>,
    ) {
        if !self.follows(step, from, ballot) {
            return;
        }
        self.keep_ceiling(step, ceiling);
        let phases: BTreeMap<_, _> = phases.into_iter().collect();
        let told =
            |tid| after.is_none_or(|after| tid > after) && last.is_none_or(|last| tid <= last);
        let entries = self.state.entries.iter();
        let forgotten = entries
            .filter(|(tid, entry)| told(**tid) && !phases.contains_key(tid) && entry.ts <= upto);
        let forgotten: Vec<TransactionId> = forgotten.map(|(tid, _)| *tid).collect();
        self.forget(step, &forgotten);
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

    /// Forgets transactions that are over, also after a restart.
    pub(crate) fn forget(&mut self, step: &mut Step<'_, W>, tids: &[TransactionId]) {
        let mut kept = Vec::new();
        for tid in tids {
            let entry = self.state.entries.remove(tid);
            if let Some(entry) = &entry {
                remember(step, *tid, entry);
            }
            kept.extend(entry.filter(|entry| entry.told).map(|_| *tid));
        }
        if !kept.is_empty() {
            // Together with why they are over.
            let coordinators: BTreeSet<Address> = kept.iter().map(|tid| tid.coordinator).collect();
            let oldest = coordinators
                .iter()
                .filter_map(|of| Some((*of, *self.state.oldest.get(of)?)))
                .collect();
            step.record(Record::Forgot(self.group, kept, oldest));
        }
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

    /// Delivers at a follower what nothing can come before, without waiting for the leader.
    pub(crate) fn deliver_ahead(&mut self, step: &mut Step<'_, W>) {
        while let Some((ts, tid)) = self.ahead.next(self.state.delivered) {
            // If it is gone, only the leader's delivery comes.
            let entry = self.state.entries.get(&tid).filter(|entry| entry.ts == ts);
            let Some(share) = entry.and_then(|entry| entry.share.clone()) else { return };
            self.stored(&share.commit_vec(ts));
            step.outputs.push_back(Output::Deliver { group: self.group, tid, ts, share });
        }
    }

    /// Tells who leads to the host, coordinators here, and those who asked in the former term or since: what they asked may
    /// have no answer.
    pub(crate) fn name_leader(&mut self, step: &mut Step<'_, W>, ballot: Ballot) {
        if self.named < Some(ballot) {
            self.named = Some(ballot);
            step.outputs.push_back(Output::Leader { group: self.group, site: ballot.leader });
            for coordinator in std::mem::take(&mut self.asked_by) {
                step.send(coordinator, self.group, Body::NotLeader { ballot });
            }
        }
    }

    /// What a checkpoint keeps.
    pub(crate) fn save(&self) -> [Record<W>; 2] {
        let took = Record::Took(self.group, self.state.clone());
        [took, Record::Promised(self.group, self.ballot)]
    }

    /// Takes a record of the journal.
    pub(crate) fn restore(&mut self, record: Record<W>) {
        self.restored = true;
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
            Record::Forgot(_, tids, oldest) => {
                for tid in tids {
                    self.state.entries.remove(&tid);
                }
                for (coordinator, oldest) in oldest {
                    self.state.learn_oldest(coordinator, oldest);
                }
            }
        }
    }

    /// The greatest time that this member has heard of: no proposal of it may be lower after a restart.
    pub(crate) fn latest(&self) -> Timestamp {
        self.state.latest()
    }

    /// Forgets what coordinators at sites that left have said: they ask for nothing any more, and what they
    /// asked for before gets no vote any more.
    pub(crate) fn forget_former(&mut self, config: &Config, configuration: &Configuration) {
        let stays = |site: &SiteId| configuration.members.contains(site);
        self.state.oldest.retain(|coordinator, _| stays(&coordinator.site));
        self.asked_by.retain(|coordinator| stays(&coordinator.site));
        if config.keeps(Rule::ForgetFormer) {
            self.early.retain(|tid, _| stays(&tid.coordinator.site));
        }
    }
}

/// Keeps the outcome of a transaction that is forgotten, if it is known here, for clients that ask later:
/// its own coordinator may not know it any more. Nothing is decided by it.
pub(crate) fn remember<W>(step: &mut Step<'_, W>, tid: TransactionId, entry: &Entry<W>) {
    if let Some(outcome) = entry.phase.outcome() {
        step.outcomes.remember(tid, outcome);
    }
}

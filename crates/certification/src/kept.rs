//! What a member of a group keeps, whatever its role: votes, who may lead, and what it has
//! acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use solera_machine::{Address, Now};
use solera_time::{Monotonic, Origin, Timestamp, Vector};

use crate::config::Rule;
use crate::conflicts::Conflicts;
use crate::election::Election;
use crate::entry::{Entry, Phase, State};
use crate::ids::{Ballot, GroupId, TransactionId};
use crate::message::{Body, Output, Record};
use crate::rare;
use crate::share::Vote;
use crate::step::Step;

/// What a member keeps in every role.
#[derive(Debug)]
pub(crate) struct Kept<W> {
    pub(crate) group: GroupId,
    pub(crate) election: Election,
    /// What outlives the process, and is handed over to the next leader.
    pub(crate) state: State<W>,
    pub(crate) conflicts: Conflicts,
    /// Coordinators that have asked the member since the last term began that it saw begin.
    pub(crate) asked_by: BTreeSet<Address>,
    /// What its site stores of all sites' transactions, all partitions together (`stableVec`).
    site_vec: Vector,
    /// Votes that are kept and told when the site stores what their transactions have seen.
    pub(crate) untold: Vec<Untold>,
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

impl<W: Clone> Kept<W> {
    /// What a member keeps that begins in this term.
    pub(crate) fn new(group: GroupId, ballot: Ballot, sites: usize, now: Now) -> Self {
        let state = State {
            accepted_in: ballot,
            entries: BTreeMap::new(),
            oldest: BTreeMap::new(),
            ceiling: Timestamp::ZERO,
            delivered: Timestamp::ZERO,
        };
        Kept {
            group,
            election: Election::new(ballot, now.monotonic),
            state,
            conflicts: Conflicts::new(sites),
            asked_by: BTreeSet::new(),
            site_vec: Vector::zero(sites),
            untold: Vec::new(),
            restored: false,
        }
    }

    /// Keeps with which term the member has begun: after a restart the configuration may name
    /// another first leader.
    pub(crate) fn keep_first_term(&mut self, step: &mut Step<'_, W>) {
        if !self.restored {
            step.record(Record::Took(self.group, self.state.clone()));
        }
    }

    /// The last term that was seen to have begun. Not the last one that was promised, whose leader
    /// may be a candidate that gets no quorum.
    pub(crate) fn last_begun(&self) -> Ballot {
        // After a restart: the last term that it took part in, the first one to begin with.
        self.election.begun().unwrap_or(self.state.accepted_in)
    }

    /// Takes part in no lower term from now on.
    pub(crate) fn promise(&mut self, step: &mut Step<'_, W>, ballot: Ballot) {
        if self.election.promise(ballot) {
            step.record(Record::Promised(self.group, ballot));
        }
    }

    /// Answers a message of a term that this member has left.
    pub(crate) fn refuse(&self, step: &mut Step<'_, W>, to: Address) {
        step.send(to, self.group, Body::Stale { ballot: self.election.ballot() });
    }

    /// Keeps a vote and tells so, once this site stores everything that the transaction has seen. A
    /// quorum that tells so makes that uniform, so that a transaction that commits does not depend
    /// on what may be lost: the barrier of UniStore Alg. 3 l. 2, within the round trip of l. 3.
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
        if self.election.ballot() > ballot && !entry.told && step.config.keeps(Rule::LeaveTerm) {
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
            snap_vec.with(step.me(), Timestamp::ZERO).with(Origin::Strong, Timestamp::ZERO);
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

    /// Whether a vote of this leader waits in vain for what its transaction has seen: that may be
    /// lost with its site. In another term the vote counts only if somebody has acknowledged it.
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

    /// Tells who leads to the host, coordinators here, and those who asked in the former term or
    /// since: what they asked may have no answer.
    pub(crate) fn name_leader(&mut self, step: &mut Step<'_, W>, ballot: Ballot) {
        if self.election.begin(ballot) {
            step.outputs.push_back(Output::Leader { group: self.group, site: ballot.leader });
            for coordinator in std::mem::take(&mut self.asked_by) {
                step.send(coordinator, self.group, Body::NotLeader { ballot });
            }
        }
    }

    /// What a checkpoint keeps.
    pub(crate) fn save(&self) -> [Record<W>; 2] {
        let took = Record::Took(self.group, self.state.clone());
        [took, Record::Promised(self.group, self.election.ballot())]
    }

    /// Takes a record of the journal.
    pub(crate) fn restore(&mut self, record: Record<W>) {
        self.restored = true;
        match record {
            Record::Promised(_, ballot) => {
                self.election.promise(ballot);
            }
            Record::Took(_, mut state) => {
                state.ceiling = state.ceiling.max(self.state.ceiling);
                // What is stored the host knows. Up to where nothing happened after that is
                // forgotten, and need not be known again: it was below the ceiling.
                state.delivered = self.state.delivered;
                self.election.promise(state.accepted_in);
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

    /// The greatest time that this member has heard of: no proposal of it may be lower after a
    /// restart.
    pub(crate) fn latest(&self) -> Timestamp {
        self.state.latest()
    }
}

/// Keeps the outcome of a transaction that is forgotten, if it is known here, for clients that ask
/// later: its own coordinator may not know it any more. Nothing is decided by it.
pub(crate) fn remember<W>(step: &mut Step<'_, W>, tid: TransactionId, entry: &Entry<W>) {
    if let Some(outcome) = entry.phase.outcome() {
        step.outcomes.remember(tid, outcome);
    }
}

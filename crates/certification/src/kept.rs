//! The state that a group's member has in every role: votes, the term, and deferred
//! acknowledgements.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use solera_election::Election;
use solera_machine::{Address, Now};
use solera_time::{Monotonic, Origin, Timestamp, Vector};

use crate::config::Rule;
use crate::conflicts::Conflicts;
use crate::entry::{Entry, Phase, State};
use crate::ids::{Ballot, GroupId, TransactionId};
use crate::message::{Body, Output, Record};
use crate::payload::Vote;
use crate::rare;
use crate::step::Step;

/// The state of a member in every role.
#[derive(Debug)]
pub(crate) struct Kept<W> {
    pub(crate) group: GroupId,
    pub(crate) election: Election,
    /// The part that survives a restart, and that the member hands over to the next leader.
    pub(crate) state: State<W>,
    pub(crate) conflicts: Conflicts,
    /// Coordinators that have sent requests since the beginning of the last term that the member
    /// saw begin.
    pub(crate) asked_by: BTreeSet<Address>,
    /// Vector of the transactions that the member's site stores in all partitions (`stableVec`).
    site_vec: Vector,
    /// Votes that the member acknowledges once its site stores what their transactions have seen.
    pub(crate) deferred_acks: Vec<DeferredAck>,
    /// Whether the journal had a record of this member.
    restored: bool,
}

/// An acknowledgement of a vote that the member may not send yet.
#[derive(Clone, Debug)]
pub(crate) struct DeferredAck {
    ballot: Ballot,
    coordinator: Address,
    tid: TransactionId,
    since: Monotonic,
}

impl<W: Clone> Kept<W> {
    /// Creates the state of a member that begins in this term.
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
            deferred_acks: Vec::new(),
            restored: false,
        }
    }

    /// Records the term in which the member begins. After a restart, the configuration may name
    /// another first leader.
    pub(crate) fn keep_first_term(&mut self, step: &mut Step<'_, W>) {
        if !self.restored {
            step.record(Record::Took(self.group, self.state.clone()));
        }
    }

    /// Returns the last term that was seen to begin. The last promised term does not count: its
    /// candidate may get no quorum.
    pub(crate) fn last_begun(&self) -> Ballot {
        // After a restart, returns the last term in which the member took part, at first the
        // initial one.
        self.election.begun().unwrap_or(self.state.accepted_in)
    }

    /// Promises to take part in no lower term from now on.
    pub(crate) fn promise(&mut self, step: &mut Step<'_, W>, ballot: Ballot) {
        if self.election.promise(ballot) {
            step.record(Record::Promised(self.group, ballot));
        }
    }

    /// Rejects a message of a term that this member has left.
    pub(crate) fn refuse(&self, step: &mut Step<'_, W>, to: Address) {
        step.send(to, self.group, Body::Stale { ballot: self.election.ballot() });
    }

    /// Acknowledges a vote once this site stores everything that the transaction has seen, and then
    /// records the vote. A quorum of acknowledgements makes these dependencies uniform, so a
    /// transaction that commits does not depend on updates that may be lost: the barrier of
    /// UniStore Alg. 3 l. 2, within the round trip of l. 3.
    pub(crate) fn acknowledge_when_stored(
        &mut self,
        step: &mut Step<'_, W>,
        coordinator: Address,
        tid: TransactionId,
    ) {
        let ballot = self.state.accepted_in;
        if !self.must_wait(step, tid) {
            return self.acknowledge(step, coordinator, tid);
        }
        let waits = |other: &DeferredAck| {
            (other.tid, other.coordinator, other.ballot) == (tid, coordinator, ballot)
        };
        if !self.deferred_acks.iter().any(waits) {
            if ballot.configuration < step.configuration.electors.number {
                step.reach(rare::OUTDATED_VOTE);
            }
            let since = step.now.monotonic;
            self.deferred_acks.push(DeferredAck { ballot, coordinator, tid, since });
        }
    }

    /// Returns whether the member must not acknowledge a vote yet.
    fn must_wait(&self, step: &Step<'_, W>, tid: TransactionId) -> bool {
        let Some(entry) = self.state.entries.get(&tid) else { return false };
        let Some(payload) = &entry.payload else { return false };
        // Updates that were lost with a removed site do not count as missing any more. The next
        // term begins without the votes that no member has acknowledged by then.
        entry.vote == Vote::Commit
            && !entry.acknowledged
            && (self.is_outdated(step) || !self.stores(step, &payload.snap_vec))
    }

    /// Returns whether the term that this member follows has a former configuration.
    pub(crate) fn is_outdated(&self, step: &Step<'_, W>) -> bool {
        self.state.accepted_in.configuration < step.configuration.electors.number
            && step.config.keeps(Rule::NothingOutdated)
    }

    /// Records a vote and acknowledges it.
    fn acknowledge(&mut self, step: &mut Step<'_, W>, coordinator: Address, tid: TransactionId) {
        let ballot = self.state.accepted_in;
        let Some(entry) = self.state.entries.get(&tid) else { return };
        if self.election.ballot() > ballot
            && !entry.acknowledged
            && step.config.keeps(Rule::LeaveTerm)
        {
            // The member's promise of the later term contains only the votes that it had
            // acknowledged by then.
            step.reach(rare::SILENT_IN_FORMER_TERM);
            return;
        }
        let (vote, ts) = (entry.vote.clone(), entry.ts);
        if let Some(entry) = self.state.entries.get_mut(&tid).filter(|entry| !entry.acknowledged) {
            entry.acknowledged = true;
            step.record(Record::Accepted(self.group, tid, entry.clone()));
        }
        step.send(coordinator, self.group, Body::Accepted { ballot, tid, vote, ts });
    }

    /// Returns whether this site stores all causal transactions of a snapshot. It always stores its
    /// own.
    pub(crate) fn stores(&self, step: &Step<'_, W>, snap_vec: &Vector) -> bool {
        let of_others =
            snap_vec.with(step.me(), Timestamp::ZERO).with(Origin::Strong, Timestamp::ZERO);
        self.site_vec.covers(&of_others) || !step.config.keeps(Rule::UniformBeforeCommit)
    }

    /// Sends the acknowledgements that waited until the site stores `stable_vec`.
    pub(crate) fn site_stores(&mut self, step: &mut Step<'_, W>, stable_vec: &Vector) {
        self.site_vec.join(stable_vec);
        let ballot = self.state.accepted_in;
        for deferred in std::mem::take(&mut self.deferred_acks) {
            if deferred.ballot != ballot {
                continue;
            }
            if self.must_wait(step, deferred.tid) {
                self.deferred_acks.push(deferred);
            } else {
                self.acknowledge(step, deferred.coordinator, deferred.tid);
            }
        }
    }

    /// Returns whether a vote of this leader has waited too long for updates that its transaction
    /// has seen: they may be lost with their site. In another term, the vote counts only if a
    /// member has acknowledged it.
    pub(crate) fn waits_for_what_is_lost(&self, now: Monotonic, patience: Duration) -> bool {
        let undecided = |tid| {
            let entry = self.state.entries.get(tid);
            entry.is_some_and(|entry| entry.phase == Phase::Undecided)
        };
        self.deferred_acks.iter().any(|deferred| {
            deferred.ballot == self.state.accepted_in
                && now.since(deferred.since) >= patience
                && undecided(&deferred.tid)
        })
    }

    /// Forgets transactions that are over. They stay forgotten after a restart.
    pub(crate) fn forget(&mut self, step: &mut Step<'_, W>, tids: &[TransactionId]) {
        let mut kept = Vec::new();
        for tid in tids {
            let entry = self.state.entries.remove(tid);
            if let Some(entry) = &entry {
                remember(step, *tid, entry);
            }
            kept.extend(entry.filter(|entry| entry.acknowledged).map(|_| *tid));
        }
        if !kept.is_empty() {
            // The record includes the serials that show that the transactions are over.
            let coordinators: BTreeSet<Address> = kept.iter().map(|tid| tid.coordinator).collect();
            let oldest = coordinators
                .iter()
                .filter_map(|of| Some((*of, *self.state.oldest.get(of)?)))
                .collect();
            step.record(Record::Forgot(self.group, kept, oldest));
        }
    }

    /// Stores a ceiling: no later leader will propose a timestamp up to it.
    pub(crate) fn keep_ceiling(&mut self, step: &mut Step<'_, W>, ceiling: Timestamp) {
        if ceiling > self.state.ceiling {
            self.state.ceiling = ceiling;
            step.record(Record::Ceiling(self.group, ceiling));
        }
    }

    /// Records that the host has stored a transaction that another leader delivered.
    pub(crate) fn stored(&mut self, commit_vec: &Vector) {
        self.conflicts.raise_fence(commit_vec);
        self.state.delivered = self.state.delivered.max(commit_vec.strong);
    }

    /// Records that the host has stored all transactions up to this time.
    pub(crate) fn known(&mut self, upto: Timestamp) {
        self.state.delivered = self.state.delivered.max(upto);
    }

    /// Reports a new leader to the host, and to the coordinators that have sent requests since the
    /// former term began: these requests may have no answer.
    pub(crate) fn name_leader(&mut self, step: &mut Step<'_, W>, ballot: Ballot) {
        if self.election.begin(ballot) {
            step.outputs.push_back(Output::Leader { group: self.group, site: ballot.leader });
            for coordinator in std::mem::take(&mut self.asked_by) {
                step.send(coordinator, self.group, Body::NotLeader { ballot });
            }
        }
    }

    /// Returns the records that a checkpoint stores.
    pub(crate) fn save(&self) -> [Record<W>; 2] {
        let took = Record::Took(self.group, self.state.clone());
        [took, Record::Promised(self.group, self.election.ballot())]
    }

    /// Restores a record of the journal.
    pub(crate) fn restore(&mut self, record: Record<W>) {
        self.restored = true;
        match record {
            Record::Promised(_, ballot) => {
                self.election.promise(ballot);
            }
            Record::Took(_, mut state) => {
                state.ceiling = state.ceiling.max(self.state.ceiling);
                // The host reports what it has stored. The journal does not record that nothing
                // happened after the last transaction. This is not needed again, because that time
                // was below the ceiling.
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

    /// Returns the greatest time that this member knows. After a restart, it may not propose a
    /// lower one.
    pub(crate) fn latest(&self) -> Timestamp {
        self.state.latest()
    }
}

/// Remembers the outcome of a transaction that is being forgotten, if the outcome is known here,
/// for clients that ask later: the coordinator may not know it any more. No decision depends on it.
pub(crate) fn remember<W>(step: &mut Step<'_, W>, tid: TransactionId, entry: &Entry<W>) {
    if let Some(outcome) = entry.phase.outcome() {
        step.outcomes.add(tid, outcome);
    }
}

//! The state of a transaction at one group.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use solera_machine::Address;
use solera_time::Timestamp;

use crate::ids::{Ballot, GroupId, Serial, TransactionId};
use crate::payload::{GroupPayload, Outcome, Vote};

/// A transaction at one group: its vote and its phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry<W> {
    /// The transaction's part in this group. `None` if the leader never received it, or once a
    /// quorum has stored it.
    pub payload: Option<Arc<GroupPayload<W>>>,
    /// Every group that the transaction takes part in.
    pub participants: Arc<[GroupId]>,
    /// The group's vote.
    pub vote: Vote,
    /// The strong timestamp that the group proposes. The greatest proposal of all groups counts.
    pub ts: Timestamp,
    /// The phase of the transaction at this group.
    pub phase: Phase,
    /// Whether the member with this entry has acknowledged the vote in some term. A vote that no
    /// member of a quorum has acknowledged was not chosen.
    pub acknowledged: bool,
}

/// Phase of a transaction at one group. Later phases are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    /// Undecided, as far as this group knows.
    Undecided,
    /// To be delivered with this strong timestamp.
    Committed(Timestamp),
    /// Aborted, or delivered at a quorum (with its timestamp). The group remembers the transaction
    /// only to answer requests.
    Finished(Option<Timestamp>),
}

impl Phase {
    /// Returns the strong timestamp if the transaction is known to be committed, else zero.
    pub(crate) fn decided(self) -> Timestamp {
        match self {
            Phase::Committed(ts) | Phase::Finished(Some(ts)) => ts,
            Phase::Undecided | Phase::Finished(None) => Timestamp::ZERO,
        }
    }

    /// Returns the outcome, if known.
    pub(crate) fn outcome(self) -> Option<Outcome> {
        match self {
            Phase::Undecided => None,
            Phase::Committed(ts) | Phase::Finished(Some(ts)) => Some(Outcome::Committed(ts)),
            Phase::Finished(None) => Some(Outcome::Aborted(None)),
        }
    }
}

impl<W> Entry<W> {
    /// Returns the latest time that was proposed or decided.
    pub(crate) fn latest(&self) -> Timestamp {
        self.ts.max(self.phase.decided())
    }

    /// Returns whether the transaction has committed with a later time than `stored`, or may do so.
    pub(crate) fn may_commit_after(&self, stored: Timestamp) -> bool {
        match self.phase {
            Phase::Undecided => self.vote == Vote::Commit,
            Phase::Committed(ts) | Phase::Finished(Some(ts)) => ts > stored,
            Phase::Finished(None) => false,
        }
    }

    /// Returns whether the transaction may still commit, with a timestamp of at least the proposed
    /// one. Later transactions must wait for it.
    pub(crate) fn holds_back(&self) -> bool {
        self.phase == Phase::Undecided && self.vote == Vote::Commit
    }
}

/// The durable state of a member. A new leader merges the states of a quorum into its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State<W> {
    /// The leader's term that the entries belong to.
    pub accepted_in: Ballot,
    /// The transactions.
    pub entries: BTreeMap<TransactionId, Entry<W>>,
    /// First transaction that each coordinator may still submit.
    pub oldest: BTreeMap<Address, Serial>,
    /// Upper bound of the times up to which any leader has reported the history as complete.
    pub ceiling: Timestamp,
    /// Time up to which this member stores everything (Property 6).
    pub delivered: Timestamp,
}

impl<W> State<W> {
    /// Records that a coordinator will not submit any transaction earlier than `oldest` again.
    pub(crate) fn learn_oldest(&mut self, coordinator: Address, oldest: Serial) {
        let known = self.oldest.entry(coordinator).or_default();
        *known = (*known).max(oldest);
    }

    /// Returns the greatest time in the state.
    pub(crate) fn latest(&self) -> Timestamp {
        let entries = self.entries.values().map(Entry::latest).max();
        self.ceiling.max(self.delivered).max(entries.unwrap_or(Timestamp::ZERO))
    }
}

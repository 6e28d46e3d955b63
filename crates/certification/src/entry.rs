//! What a group remembers of a transaction.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use solera_machine::Address;
use solera_time::Timestamp;

use crate::ids::{Ballot, GroupId, Serial, TransactionId};
use crate::share::{Outcome, Share, Vote};

/// A transaction at one group: the vote, and how far it has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry<W> {
    /// What it does here. Nothing if the leader never got it, or when all that was stored.
    pub share: Option<Arc<Share<W>>>,
    /// Every group that it takes part in.
    pub participants: Arc<[GroupId]>,
    /// The group's vote.
    pub vote: Vote,
    /// The strong timestamp that the group proposes; the greatest of all groups counts.
    pub ts: Timestamp,
    /// How far it has come.
    pub phase: Phase,
    /// Whether the member that has this entry has acknowledged the vote in some term. What no
    /// member of a quorum has acknowledged was not chosen.
    pub told: bool,
}

/// How far a transaction has come at one group. Later phases are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    /// Not known to be decided.
    Undecided,
    /// It will be delivered with this strong timestamp.
    Committed(Timestamp),
    /// Nothing is left to do here: aborted, or delivered at a quorum. It is remembered only for
    /// those who may still ask.
    Finished(Option<Timestamp>),
}

impl Phase {
    /// The strong timestamp, if it is known to be committed.
    pub(crate) fn decided(self) -> Timestamp {
        match self {
            Phase::Committed(ts) | Phase::Finished(Some(ts)) => ts,
            Phase::Undecided | Phase::Finished(None) => Timestamp::ZERO,
        }
    }

    /// What it has come to, if that is known.
    pub(crate) fn outcome(self) -> Option<Outcome> {
        match self {
            Phase::Undecided => None,
            Phase::Committed(ts) | Phase::Finished(Some(ts)) => Some(Outcome::Committed(ts)),
            Phase::Finished(None) => Some(Outcome::Aborted(None)),
        }
    }
}

impl<W> Entry<W> {
    /// The latest time that was proposed or decided.
    pub(crate) fn latest(&self) -> Timestamp {
        self.ts.max(self.phase.decided())
    }

    /// Whether it may still commit with a timestamp of at least its own.
    pub(crate) fn holds_back(&self) -> bool {
        self.phase == Phase::Undecided && self.vote == Vote::Commit
    }
}

/// All that a member must find again after a restart, and that a new leader builds its own from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State<W> {
    /// The leader's term that the entries are of.
    pub accepted_in: Ballot,
    /// The transactions.
    pub entries: BTreeMap<TransactionId, Entry<W>>,
    /// Of each coordinator, the first transaction that it may still submit.
    pub oldest: BTreeMap<Address, Serial>,
    /// No leader may have shown more than this as complete.
    pub ceiling: Timestamp,
    /// Everything up to here is stored by this member (Property 6).
    pub delivered: Timestamp,
}

impl<W> State<W> {
    /// A coordinator will submit no transaction below this one again.
    pub(crate) fn learn_oldest(&mut self, coordinator: Address, oldest: Serial) {
        let known = self.oldest.entry(coordinator).or_default();
        *known = (*known).max(oldest);
    }

    /// The greatest time that is known of.
    pub(crate) fn latest(&self) -> Timestamp {
        let entries = self.entries.values().map(Entry::latest).max();
        self.ceiling.max(self.delivered).max(entries.unwrap_or(Timestamp::ZERO))
    }
}

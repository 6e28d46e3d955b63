//! What a transaction did at one partition, and which of it conflicts.

use serde::{Deserialize, Serialize};
use solera_data::Key;
use solera_time::{Timestamp, Vector};

/// An operation of a transaction, as far as it can conflict with others (the paper's `⋈`).
///
/// The submitter knows which kinds of operations conflict in the key's space and says so here, so that
/// voters need no configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// The key.
    pub key: Key,
    /// Whether it changes the key. Later transactions must have seen a conflicting change; of a
    /// conflicting read they need not know, once it is decided.
    pub update: bool,
    /// The kind of operation, below 64, by a numbering of the key's space.
    pub kind: u8,
    /// The kinds it conflicts with, one bit each.
    pub conflicts: u64,
}

impl Access {
    /// Whether the two need an order.
    pub fn conflicts_with(&self, other: &Access) -> bool {
        self.key == other.key && kinds_conflict(self.pair(), other.pair())
    }

    pub(crate) fn pair(&self) -> (u8, u64) {
        (self.kind, self.conflicts)
    }
}

/// Whether either of two kinds is among those that the other conflicts with.
pub(crate) fn kinds_conflict(one: (u8, u64), other: (u8, u64)) -> bool {
    let names = |(_, conflicts): (u8, u64), (kind, _): (u8, u64)| {
        conflicts.checked_shr(kind.into()).is_some_and(|bits| bits & 1 == 1)
    };
    names(one, other) || names(other, one)
}

/// A transaction's part in one group: the read and write sets that CERTIFY takes (UniStore §6.3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Share<W> {
    /// The snapshot that it executed on (`snapVec[tid]`).
    pub snap_vec: Vector,
    /// What it did here that may conflict.
    pub accesses: Vec<Access>,
    /// What it changes here (`wbuff[tid]`).
    pub writes: Vec<W>,
}

impl<W> Share<W> {
    /// The transaction's commit vector, once its strong timestamp is known (UniStore §6.3).
    pub fn commit_vec(&self, ts: Timestamp) -> Vector {
        let mut commit_vec = self.snap_vec;
        commit_vec.strong = ts;
        commit_vec
    }
}

/// What a group thinks of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Vote {
    /// Its snapshot holds every conflicting transaction before it.
    Commit,
    /// It does not, because of this key; or the leader never got the transaction.
    Abort(Option<Key>),
}

/// What became of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It committed with this strong timestamp.
    Committed(Timestamp),
    /// It had no effect. A key on which it conflicted, if that is known.
    Aborted(Option<Key>),
}

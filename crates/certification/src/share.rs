//! What a transaction did at one partition, and which of it conflicts.

use serde::{Deserialize, Serialize};
use solera_data::Key;
use solera_time::{Timestamp, Vector};

/// A kind of operation, and the kinds it conflicts with (the paper's `⋈`).
///
/// The submitter knows which kinds of operations conflict in a key's space and says so here, so
/// that voters need no configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kind {
    /// Below 64, by a numbering of the key's space.
    pub number: u8,
    /// The kinds it conflicts with, one bit each.
    pub conflicts: u64,
}

impl Kind {
    /// A read, where nothing else is declared: it conflicts with every update.
    pub const READ: Kind = Kind { number: 62, conflicts: 1 << 63 };
    /// An update, where nothing else is declared: it conflicts with every operation.
    pub const UPDATE: Kind = Kind { number: 63, conflicts: u64::MAX };

    /// Whether it conflicts with nothing, so that no voter needs to hear of it.
    pub fn is_free(self) -> bool {
        self.conflicts == 0
    }

    /// Whether operations of the two kinds on one key need an order: it is enough that one says so,
    /// unless the other is free.
    pub fn conflicts_with(self, other: Kind) -> bool {
        let names = |one: Kind, other: Kind| {
            one.conflicts.checked_shr(other.number.into()).is_some_and(|bits| bits & 1 == 1)
        };
        !self.is_free() && !other.is_free() && (names(self, other) || names(other, self))
    }
}

/// An operation of a transaction, as far as it can conflict with others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// The key.
    pub key: Key,
    /// Whether it changes the key. Later transactions must have seen a conflicting change; of a
    /// conflicting read they need not know, once it is decided.
    pub update: bool,
    /// What it conflicts with.
    pub kind: Kind,
}

impl Access {
    /// Whether the two need an order.
    pub fn conflicts_with(&self, other: &Access) -> bool {
        self.key == other.key && self.kind.conflicts_with(other.kind)
    }
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

/// What was in the way of a transaction that aborted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Obstacle {
    /// A key on which it conflicted, if that is known.
    pub key: Option<Key>,
    /// A snapshot that does not cover this has not seen all that was in the way, and is in vain. Of
    /// what is not decided yet it holds the strong timestamp that the group proposes: a partition
    /// that is complete up to there has it, or it aborted, unless another group proposes a later
    /// one.
    pub past: Vector,
}

/// What a group thinks of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Vote {
    /// Its snapshot holds every conflicting transaction before it.
    Commit,
    /// It does not, because of this; or the leader never got the transaction.
    Abort(Option<Obstacle>),
    /// The leader does not know the transaction, and the life of its coordinator's site has ended:
    /// the group never got it, or delivered and forgot it. From now on it does not commit here, but
    /// nobody may conclude from this vote that it aborted.
    Forgotten,
}

/// What became of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It committed with this strong timestamp.
    Committed(Timestamp),
    /// It had no effect. What was in its way, if that is known.
    Aborted(Option<Obstacle>),
}

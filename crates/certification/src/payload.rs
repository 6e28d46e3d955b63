//! A transaction's accesses and writes at one partition, and which accesses conflict.

use serde::{Deserialize, Serialize};
use solera_data::Key;
use solera_time::{Timestamp, Vector};

/// A kind of operation, and the kinds it conflicts with (the paper's `⋈`).
///
/// The submitter knows which kinds of operations conflict in a key's space and includes them here,
/// so that voters need no configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kind {
    /// Number of the kind in its key's space; below 64.
    pub number: u8,
    /// The kinds it conflicts with, one bit each.
    pub conflicts: u64,
}

impl Kind {
    /// A read, where the space declares nothing else: it conflicts with every update.
    pub const READ: Kind = Kind { number: 62, conflicts: 1 << 63 };
    /// An update, where the space declares nothing else: it conflicts with every operation.
    pub const UPDATE: Kind = Kind { number: 63, conflicts: u64::MAX };

    /// Returns whether the kind conflicts with nothing, so that voters need not know about the
    /// operation.
    pub fn is_free(self) -> bool {
        self.conflicts == 0
    }

    /// Returns whether operations of the two kinds on one key need an order. It suffices that one
    /// of them declares the conflict, unless the other one conflicts with nothing.
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
    /// Whether the access changes the key. Later transactions must have seen a conflicting change.
    /// They need not have seen a conflicting read once the read's transaction is decided.
    pub update: bool,
    /// The kind of operation.
    pub kind: Kind,
}

impl Access {
    /// Returns whether the two accesses need an order.
    pub fn conflicts_with(&self, other: &Access) -> bool {
        self.key == other.key && self.kind.conflicts_with(other.kind)
    }
}

/// A transaction's part in one group: the read and write sets that CERTIFY takes (UniStore §6.3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupPayload<W> {
    /// The snapshot that the transaction executed on (`snapVec[tid]`).
    pub snap_vec: Vector,
    /// The accesses in this group that may conflict.
    pub accesses: Vec<Access>,
    /// The writes in this group (`wbuff[tid]`).
    pub writes: Vec<W>,
}

impl<W> GroupPayload<W> {
    /// Returns the transaction's commit vector, given its strong timestamp (UniStore §6.3).
    pub fn commit_vec(&self, ts: Timestamp) -> Vector {
        let mut commit_vec = self.snap_vec;
        commit_vec.strong = ts;
        commit_vec
    }
}

/// The cause of an abort: a key and the least snapshot with which a retry can succeed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbortCause {
    /// A key on which the transaction conflicted, if known.
    pub key: Option<Key>,
    /// A retry fails if its snapshot does not cover this vector, because the retry has then not
    /// seen all conflicting transactions. For transactions that are not decided yet, the vector
    /// contains the strong timestamp that the group proposes. A partition that is complete up to
    /// this timestamp stores the transaction, or the transaction aborted, unless another group
    /// proposes a later time.
    pub past: Vector,
}

/// A group's vote on a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Vote {
    /// The snapshot contains every conflicting transaction before this one.
    Commit,
    /// The snapshot lacks a conflicting transaction, given here; or the leader never received the
    /// transaction.
    Abort(Option<AbortCause>),
    /// The leader does not know the transaction, and the generation of its coordinator's site has
    /// ended: either the group never received it, or it delivered and forgot it. The transaction
    /// cannot commit in this group any more, but this vote does not imply that it aborted.
    Forgotten,
}

/// Outcome of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// Committed with this strong timestamp.
    Committed(Timestamp),
    /// Aborted without any effect; with the cause, if known.
    Aborted(Option<AbortCause>),
}

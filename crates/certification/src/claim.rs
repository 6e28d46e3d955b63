//! What an abort leaves behind, so that the next attempt goes better.

use serde::{Deserialize, Serialize};
use solera_data::Key;
use solera_time::{Timestamp, Vector};

use crate::ids::TransactionId;

/// What was in the way of a transaction that aborted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Obstacle {
    /// A key on which it conflicted, if that is known.
    pub key: Option<Key>,
    /// A snapshot that does not cover this has not seen all that was in the way, and is in vain. Of what is
    /// not decided yet it holds the strong timestamp that the group proposes: a partition that is complete
    /// up to there has it, or it aborted, unless another group proposes a later one.
    pub past: Vector,
}

/// What a transaction that was aborted before shows, to go before those that were not.
///
/// The order of claims is the same for all groups, so that they do not let different ones go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Claim {
    /// When its first attempt was submitted, by the clock of its coordinator.
    since: Timestamp,
    /// The first attempt, which names all of them.
    first: TransactionId,
}

impl Claim {
    /// Of a transaction that has been submitted as `first` and aborted.
    pub fn new(since: Timestamp, first: TransactionId) -> Self {
        Claim { since, first }
    }

    /// The first attempt.
    pub fn first(&self) -> TransactionId {
        self.first
    }
}

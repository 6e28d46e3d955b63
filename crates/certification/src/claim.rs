//! What a transaction shows that was aborted before, so that the next attempt goes better.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use solera_data::Key;
use solera_time::Timestamp;

use crate::ids::TransactionId;
use crate::share::Share;

/// What a transaction that was aborted before shows, to go before those that were not.
///
/// The order of claims is the same for all groups, so that they do not let different ones go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Claim {
    /// When its first attempt was submitted, by the clock of its coordinator.
    since: Timestamp,
    /// The first attempt, which names all of them.
    first: TransactionId,
    /// Of what it was about: another transaction of its client is no next attempt, and what is kept
    /// free for one that does not come is kept from others in vain.
    footprint: u64,
}

/// Tells by their keys what transactions are about. Two that differ may have the same, which costs
/// only speed.
pub(crate) fn footprint<'a, W: 'a>(shares: impl IntoIterator<Item = &'a Arc<Share<W>>>) -> u64 {
    let accesses = shares.into_iter().flat_map(|share| &share.accesses);
    let keys: BTreeSet<&Key> = accesses.map(|access| &access.key).collect();
    let mut hasher = DefaultHasher::new();
    keys.hash(&mut hasher);
    hasher.finish()
}

impl Claim {
    /// Of a transaction that has been submitted as `first` and aborted.
    pub fn new(since: Timestamp, first: TransactionId, footprint: u64) -> Self {
        Claim { since, first, footprint }
    }

    /// Whether a transaction that is about this may be the next attempt.
    pub(crate) fn fits(&self, footprint: u64) -> bool {
        self.footprint == footprint
    }

    /// The first attempt.
    pub fn first(&self) -> TransactionId {
        self.first
    }
}

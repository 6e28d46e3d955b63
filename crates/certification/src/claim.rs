//! Claims, which give retries of aborted transactions priority.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use solera_data::{Fingerprint, Key};
use solera_time::Timestamp;

use crate::ids::TransactionId;
use crate::payload::GroupPayload;

/// Priority of a transaction that was aborted before.
///
/// All groups order claims in the same way, so that they give priority to the same transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Claim {
    /// Time when the coordinator submitted the first attempt, by its clock.
    since: Timestamp,
    /// The first attempt, which identifies all later ones.
    first: TransactionId,
    /// Hash of the keys of the attempts. Another transaction of the same client is not a retry, and
    /// must not use the claim: keys that a leader reserves for a retry that never comes block other
    /// transactions for nothing.
    footprint: u64,
}

/// Returns a hash of the keys that a transaction accesses. Two different sets of keys may have the
/// same hash, which costs only speed.
pub(crate) fn footprint<'a, W: 'a>(
    payloads: impl IntoIterator<Item = &'a Arc<GroupPayload<W>>>,
) -> u64 {
    let accesses = payloads.into_iter().flat_map(|payload| &payload.accesses);
    let keys: BTreeSet<&Key> = accesses.map(|access| &access.key).collect();
    let mut all = Fingerprint::default();
    keys.iter().for_each(|key| all.add(key.as_bytes()));
    all.finish()
}

impl Claim {
    /// Creates the claim of an aborted transaction whose first attempt was `first`.
    pub fn new(since: Timestamp, first: TransactionId, footprint: u64) -> Self {
        Claim { since, first, footprint }
    }

    /// Returns whether a transaction with this footprint may be a retry.
    pub(crate) fn is_retry_with(&self, footprint: u64) -> bool {
        self.footprint == footprint
    }

    /// Returns the identifier of the first attempt.
    pub fn first(&self) -> TransactionId {
        self.first
    }
}

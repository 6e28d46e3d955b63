//! What a transaction has seen of others, by the witnesses that it has found (MixT §5.4).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::place::Place;
use crate::witness::TransactionId;

/// What decides whether a group may commit. Whoever runs the group, here or next to its store,
/// decides by it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sight {
    /// Which transactions are seen as a whole in which places.
    pub(crate) covered: BTreeSet<(TransactionId, Place)>,
    /// Whether something may have been read before a transaction of which a part was seen then.
    pub(crate) suspicious: bool,
}

impl Sight {
    /// A transaction is seen as a whole in a place.
    pub(crate) fn cover(&mut self, id: TransactionId, place: Place) {
        self.covered.insert((id, place));
    }
}

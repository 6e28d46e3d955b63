//! Writes of other transactions that a transaction has seen, as their witnesses show (MixT §5.4).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::location::Location;
use crate::witness::TransactionId;

/// State by which a group decides whether it may commit. The coordinator and workers decide by the
/// same state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Visibility {
    /// Transactions that are visible as a whole, with the places where they are.
    pub(crate) covered: BTreeSet<(TransactionId, Location)>,
    /// Whether the transaction may have read a place before another transaction, part of which it
    /// saw later, wrote there.
    pub(crate) suspicious: bool,
}

impl Visibility {
    /// Records that a transaction is visible as a whole in a place.
    pub(crate) fn cover(&mut self, id: TransactionId, place: Location) {
        self.covered.insert((id, place));
    }
}

//! The spaces to which the stores of a module are bound.

use serde::{Deserialize, Serialize};
use solera_levels::Level;
use solera_program::types::StoreId;

use crate::location::Location;

/// A space to which a store is bound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// Location of the space.
    pub place: Location,
    /// Level of the space.
    pub level: Level,
    /// Number of the set of spaces to which it belongs, from 1. One transaction of the database can
    /// span all spaces of a set. Zero if it can span this space and no other.
    pub set: u8,
}

impl Bound {
    /// Returns whether the writes of a transaction take effect, and are read, as a whole there.
    pub fn atomic(&self) -> bool {
        self.level.at_least(Level::Causal)
    }

    /// Returns whether one transaction of a database can span this space and another.
    pub(crate) fn joins(&self, other: &Bound) -> bool {
        let is_in_set = self.set > 0 && self.set == other.set;
        self.place == other.place || (is_in_set && self.place.database == other.place.database)
    }

    /// Returns whether transactions there are ordered against others.
    pub fn strong(&self) -> bool {
        matches!(self.level, Level::Linearizable | Level::Por)
    }

    /// Returns whether transactions there are validated when they commit. Until then, what they
    /// have read may be wrong. Of two concurrent transactions that create the same name, one fails.
    pub fn validated(&self) -> bool {
        self.strong() || self.level == Level::PcPsi
    }
}

/// The spaces to which the stores of a module are bound, in the order of the stores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bindings(pub(crate) Vec<Bound>);

impl Bindings {
    /// Returns the space to which a store is bound.
    pub fn of(&self, store: StoreId) -> &Bound {
        &self.0[usize::from(store.0)]
    }

    /// Returns the spaces of all stores.
    pub(crate) fn all(&self) -> &[Bound] {
        &self.0
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

//! The spaces that the stores of a module are.

use serde::{Deserialize, Serialize};
use solera_levels::Level;
use solera_program::types::StoreId;

use crate::place::Place;

/// The space that a store is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// Where it lies.
    pub place: Place,
    /// The level of the space.
    pub level: Level,
    /// Whether a transaction of the database takes effect in several of its spaces at once.
    pub joint: bool,
}

impl Bound {
    /// Whether what a transaction writes there takes effect as a whole, and is read as a whole.
    pub fn atomic(&self) -> bool {
        self.level.at_least(Level::Causal)
    }

    /// Whether transactions there are ordered against others.
    pub fn strong(&self) -> bool {
        matches!(self.level, Level::Linearizable | Level::Por)
    }
}

/// The spaces of all stores of a module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bindings(pub(crate) Vec<Bound>);

impl Bindings {
    /// The space that a store is.
    pub fn of(&self, store: StoreId) -> &Bound {
        &self.0[usize::from(store.0)]
    }

    /// How many stores are bound.
    pub(crate) fn all(&self) -> &[Bound] {
        &self.0
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

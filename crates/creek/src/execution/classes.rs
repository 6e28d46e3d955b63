//! Classes of operations that probably conflict.

use std::collections::{BTreeMap, BTreeSet};

use crate::order::OrderPlace;

/// Operations that must be executed, by class. A job for an operation begins when all earlier ones
/// of its classes are executed, because it would probably have to be repeated otherwise.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    /// The operations of each class that must be executed.
    open: BTreeMap<u64, BTreeSet<OrderPlace>>,
    /// Operations that wait for earlier ones.
    parked: BTreeSet<OrderPlace>,
}

impl Classes {
    /// Notes that an operation must be executed.
    pub(crate) fn add(&mut self, classes: &[u64], place: OrderPlace) {
        for class in classes {
            self.open.entry(*class).or_default().insert(place);
        }
    }

    /// Notes that an operation is executed. Returns those that may no longer have to wait.
    pub(crate) fn remove(&mut self, classes: &[u64], place: OrderPlace) -> Vec<OrderPlace> {
        let mut free = Vec::new();
        for class in classes {
            let Some(open) = self.open.get_mut(class) else { continue };
            open.remove(&place);
            match open.first() {
                Some(first) if self.parked.remove(first) => free.push(*first),
                Some(_) => {}
                None => drop(self.open.remove(class)),
            }
        }
        free
    }

    /// Moves an operation to another place.
    pub(crate) fn relocate(&mut self, classes: &[u64], from: OrderPlace, to: OrderPlace) {
        for class in classes {
            if let Some(open) = self.open.get_mut(class)
                && open.remove(&from)
            {
                open.insert(to);
            }
        }
        if self.parked.remove(&from) {
            self.parked.insert(to);
        }
    }

    /// Returns whether an operation that has one of the classes, and a place before `place`, must
    /// be executed.
    pub(crate) fn has_before(&self, classes: &[u64], place: OrderPlace) -> bool {
        let first = |class| self.open.get(class).and_then(BTreeSet::first);
        classes.iter().filter_map(first).any(|first| *first < place)
    }

    /// Lets an operation wait until [`Classes::remove`] returns it.
    pub(crate) fn park(&mut self, place: OrderPlace) {
        self.parked.insert(place);
    }

    /// Returns the operations that wait.
    pub(crate) fn parked(&self) -> impl Iterator<Item = OrderPlace> + '_ {
        self.parked.iter().copied()
    }

    /// Returns whether an operation waits.
    pub(crate) fn is_parked(&self, place: OrderPlace) -> bool {
        self.parked.contains(&place)
    }

    /// Lets an operation wait no longer.
    pub(crate) fn unpark(&mut self, place: OrderPlace) {
        self.parked.remove(&place);
    }
}

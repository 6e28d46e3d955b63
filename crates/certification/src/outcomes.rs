//! Recent outcomes, for clients that missed the reply and know the transaction's identifier.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use crate::payload::Outcome;

/// Number of outcomes that are remembered: the latest ones.
const REMEMBERED: usize = 65_536;

/// The last outcomes that became known here. They do not survive the process.
#[derive(Debug)]
pub(crate) struct Outcomes<K> {
    known: BTreeMap<K, Outcome>,
    in_order: VecDeque<K>,
}

impl<K: Ord + Copy> Outcomes<K> {
    pub(crate) fn new() -> Self {
        Outcomes { known: BTreeMap::new(), in_order: VecDeque::new() }
    }

    /// Remembers an outcome. A known outcome is not overwritten: a transaction has one outcome.
    pub(crate) fn remember(&mut self, name: K, outcome: Outcome) {
        let Entry::Vacant(place) = self.known.entry(name) else { return };
        place.insert(outcome);
        self.in_order.push_back(name);
        if self.in_order.len() > REMEMBERED
            && let Some(forgotten) = self.in_order.pop_front()
        {
            self.known.remove(&forgotten);
        }
    }

    pub(crate) fn of(&self, name: K) -> Option<&Outcome> {
        self.known.get(&name)
    }
}

#[cfg(test)]
mod tests {
    use solera_time::Timestamp;

    use super::*;

    #[test]
    fn the_first_in_is_the_first_out_and_nothing_is_overwritten() {
        let mut outcomes = Outcomes::new();
        for name in 0..REMEMBERED {
            outcomes.remember(name, Outcome::Committed(Timestamp(1)));
        }
        outcomes.remember(0, Outcome::Aborted(None));
        assert_eq!(outcomes.of(0), Some(&Outcome::Committed(Timestamp(1))));
        outcomes.remember(REMEMBERED, Outcome::Aborted(None));
        assert_eq!(outcomes.of(0), None);
        assert_eq!(outcomes.of(1), Some(&Outcome::Committed(Timestamp(1))));
        assert_eq!(outcomes.of(REMEMBERED), Some(&Outcome::Aborted(None)));
        assert_eq!(outcomes.known.len(), REMEMBERED);
    }
}

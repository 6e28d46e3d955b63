//! Map of limited size that removes its oldest entries.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

/// Map that keeps the entries that were added last.
#[derive(Clone, Debug)]
pub struct Latest<K, V> {
    most: usize,
    known: BTreeMap<K, V>,
    in_order: VecDeque<K>,
}

impl<K: Ord + Copy, V> Latest<K, V> {
    /// Creates a map that keeps this many entries.
    pub fn new(most: usize) -> Self {
        Latest { most, known: BTreeMap::new(), in_order: VecDeque::new() }
    }

    /// Adds an entry. An existing entry is not overwritten.
    pub fn add(&mut self, key: K, value: V) {
        let Entry::Vacant(place) = self.known.entry(key) else { return };
        place.insert(value);
        self.in_order.push_back(key);
        if self.in_order.len() > self.most
            && let Some(forgotten) = self.in_order.pop_front()
        {
            self.known.remove(&forgotten);
        }
    }

    /// Returns the value of an entry.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.known.get(key)
    }

    /// Returns the entries, the latest last.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.in_order.iter().filter_map(|key| Some((key, self.known.get(key)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 1_000;

    #[test]
    fn the_first_in_is_the_first_out_and_nothing_is_overwritten() {
        let mut latest = Latest::new(MOST);
        for key in 0..MOST {
            latest.add(key, "first");
        }
        latest.add(0, "second");
        assert_eq!(latest.get(&0), Some(&"first"));
        latest.add(MOST, "second");
        assert_eq!(latest.get(&0), None);
        assert_eq!(latest.get(&1), Some(&"first"));
        assert_eq!(latest.get(&MOST), Some(&"second"));
        assert_eq!(latest.known.len(), MOST);
        assert!(latest.iter().map(|(key, _)| *key).eq(1..=MOST));
    }
}

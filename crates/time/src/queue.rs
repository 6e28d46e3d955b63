//! Queue of events in virtual time, ordered by the times at which they are due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Entries by time; entries with the same time are in the order in which they were added.
///
/// Entries are large and stay in their slots. Only times, numbers and slots move when the order
/// changes.
#[derive(Debug)]
pub struct Queue<T> {
    /// Time, number and slot of each entry.
    order: BinaryHeap<Reverse<(u64, u64, usize)>>,
    slots: Vec<Option<T>>,
    /// Empty slots.
    free: Vec<usize>,
    /// Number of the latest entry.
    number: u64,
}

impl<T> Queue<T> {
    /// Creates an empty queue.
    pub fn new() -> Self {
        Queue { order: BinaryHeap::new(), slots: Vec::new(), free: Vec::new(), number: 0 }
    }

    /// Adds an entry that is due at time `at`.
    pub fn push(&mut self, at: u64, entry: T) {
        self.number += 1;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(entry);
        self.order.push(Reverse((at, self.number, slot)));
    }

    /// Removes the first entry if it is due by `until`. Returns it with its time.
    pub fn pop(&mut self, until: u64) -> Option<(u64, T)> {
        let Reverse((at, _, slot)) = *self.order.peek()?;
        if at > until {
            return None;
        }
        self.order.pop();
        self.free.push(slot);
        let entry = self.slots[slot].take().expect("each slot in `order` contains an entry");
        Some((at, entry))
    }

    /// Returns the first entry that `matches`.
    pub fn first(&self, matches: impl Fn(&T) -> bool) -> Option<&T> {
        let entries = self.order.iter().filter_map(|Reverse((at, number, slot))| {
            self.slots[*slot]
                .as_ref()
                .filter(|entry| matches(entry))
                .map(|entry| (at, number, entry))
        });
        entries.min_by_key(|(at, number, _)| (*at, *number)).map(|(_, _, entry)| entry)
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Queue::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_in_the_order_of_their_times_and_then_of_their_addition() {
        let mut queue = Queue::new();
        for (at, entry) in [(5, 'c'), (3, 'a'), (5, 'd'), (3, 'b'), (9, 'f')] {
            queue.push(at, entry);
        }
        assert_eq!(queue.pop(2), None);
        assert_eq!(queue.pop(3), Some((3, 'a')));
        queue.push(7, 'e');
        assert_eq!(queue.first(|entry| *entry > 'c'), Some(&'d'));
        assert_eq!(queue.first(|entry| *entry > 'x'), None);
        let rest: Vec<_> = std::iter::from_fn(|| queue.pop(9)).collect();
        assert_eq!(rest, [(3, 'b'), (5, 'c'), (5, 'd'), (7, 'e'), (9, 'f')]);
    }
}

//! Protocols that share a link or a worker's time take turns.

use std::collections::VecDeque;

use crate::Protocol;

/// An empty queue keeps room for so many items.
const MAX_SPARE: usize = 1024;

/// A lane of the links between workers. Messages of one protocol in one lane stay in order; a
/// message in another lane may arrive before them. Lanes with smaller numbers go first where a link
/// is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lane(pub u8);

impl Lane {
    /// For what must not wait behind bulk data, and is short.
    pub const URGENT: Lane = Lane(0);
    /// For everything else.
    pub const USUAL: Lane = Lane(1);
}

/// How something takes part in [`Turns`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its lane.
    pub lane: Lane,
    /// The number of its protocol.
    pub protocol: u8,
    /// What it costs: bytes on a link, changes for a worker, of which the smallest thing is one.
    pub cost: u64,
}

impl Share {
    /// Of the smallest thing that a protocol has, which need not hurry.
    pub fn usual(protocol: Protocol) -> Share {
        Share { lane: Lane::USUAL, protocol: protocol.number, cost: 1 }
    }
}

/// What waits for something that several protocols share, such as a link: a queue for each protocol
/// and lane.
///
/// Lanes with smaller numbers go first. Within a lane the protocols take turns: whoever waits gets
/// as much as any other, so a protocol with a long queue delays no other one by more than one item.
/// Items of one protocol and lane stay in order.
#[derive(Clone, Debug)]
pub struct Turns<T> {
    /// Few; in the order of their lanes.
    queues: Vec<Queue<T>>,
}

#[derive(Clone, Debug)]
struct Queue<T> {
    lane: Lane,
    protocol: u8,
    items: VecDeque<(u64, T)>,
    /// The cost of what was taken. Those who wait are served until theirs are equal.
    served: u64,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Turns { queues: Vec::new() }
    }
}

impl<T> Turns<T> {
    /// Adds an item.
    pub fn push(&mut self, Share { lane, protocol, cost }: Share, item: T) {
        let of = |queue: &Queue<T>| (queue.lane, queue.protocol);
        let place = match self.queues.binary_search_by_key(&(lane, protocol), of) {
            Ok(place) => place,
            Err(place) => {
                let queue = Queue { lane, protocol, items: VecDeque::new(), served: 0 };
                self.queues.insert(place, queue);
                place
            }
        };
        if self.queues[place].items.is_empty() {
            // A protocol that did not wait has saved nothing up.
            let of_lane = || self.queues.iter().filter(|queue| queue.lane == lane);
            let waiting = of_lane().filter(|queue| !queue.items.is_empty());
            let least = waiting.map(|queue| queue.served).min();
            let least = least.or_else(|| of_lane().map(|queue| queue.served).max());
            self.queues[place].served = self.queues[place].served.max(least.unwrap_or(0));
        }
        self.queues[place].items.push_back((cost, item));
    }

    /// Takes the next item, with what it costs.
    pub fn pop(&mut self) -> Option<(u64, T)> {
        let waiting = self.queues.iter_mut().filter(|queue| !queue.items.is_empty());
        let next = waiting.min_by_key(|queue| (queue.lane, queue.served))?;
        let (cost, item) = next.items.pop_front()?;
        next.served = next.served.saturating_add(cost.max(1));
        if next.items.is_empty() && next.items.capacity() > MAX_SPARE {
            // What once waited takes no memory for ever.
            next.items = VecDeque::new();
        }
        Some((cost, item))
    }

    /// Drops what `keeps` says no of.
    pub fn retain(&mut self, mut keeps: impl FnMut(&T) -> bool) {
        self.queues.iter_mut().for_each(|queue| queue.items.retain(|(_, item)| keeps(item)));
    }

    /// Returns whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.queues.iter().all(|queue| queue.items.is_empty())
    }

    /// Drops all that waits.
    pub fn clear(&mut self) {
        self.queues.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(turns: &mut Turns<&'static str>) -> String {
        std::iter::from_fn(|| Some(turns.pop()?.1)).collect::<Vec<_>>().join(" ")
    }

    fn push(turns: &mut Turns<&'static str>, lane: Lane, of: (u8, u64), item: &'static str) {
        let (protocol, cost) = of;
        turns.push(Share { lane, protocol, cost }, item);
    }

    #[test]
    fn one_protocol_keeps_its_order() {
        let mut turns = Turns::default();
        for (cost, item) in [(9, "a"), (1, "b"), (5, "c")] {
            push(&mut turns, Lane::USUAL, (1, cost), item);
        }
        assert_eq!(order(&mut turns), "a b c");
        assert!(turns.is_empty());
    }

    #[test]
    fn a_long_queue_delays_no_other_protocol() {
        let mut turns = Turns::default();
        for item in ["a", "b", "c", "d", "e"] {
            push(&mut turns, Lane::USUAL, (1, 10), item);
        }
        assert_eq!(turns.pop(), Some((10, "a")));
        assert_eq!(turns.pop(), Some((10, "b")));
        push(&mut turns, Lane::USUAL, (2, 10), "x");
        push(&mut turns, Lane::USUAL, (2, 10), "y");
        assert_eq!(order(&mut turns), "c x d y e");
    }

    #[test]
    fn costs_count_and_nothing_is_saved_up() {
        let mut turns = Turns::default();
        push(&mut turns, Lane::USUAL, (1, 100), "long");
        for item in ["x", "y", "z"] {
            push(&mut turns, Lane::USUAL, (2, 10), item);
        }
        push(&mut turns, Lane::USUAL, (1, 1), "short");
        assert_eq!(order(&mut turns), "long x y z short");
        // Protocol 2 did nothing for long, and gets no more than its turn for that.
        for item in ["a", "b", "c"] {
            push(&mut turns, Lane::USUAL, (1, 10), item);
        }
        push(&mut turns, Lane::USUAL, (2, 10), "p");
        push(&mut turns, Lane::USUAL, (2, 10), "q");
        assert_eq!(order(&mut turns), "a p b q c");
        // Nor does it where it comes first, while nobody waits.
        for item in ["d", "e", "f", "g", "h"] {
            push(&mut turns, Lane::USUAL, (1, 10), item);
        }
        assert_eq!(order(&mut turns), "d e f g h");
        for item in ["r", "s", "t"] {
            push(&mut turns, Lane::USUAL, (2, 10), item);
        }
        push(&mut turns, Lane::USUAL, (1, 10), "i");
        push(&mut turns, Lane::USUAL, (1, 10), "j");
        assert_eq!(order(&mut turns), "i r j s t");
    }

    #[test]
    fn urgent_lanes_go_first() {
        let mut turns = Turns::default();
        push(&mut turns, Lane::USUAL, (1, 1), "bulk");
        push(&mut turns, Lane::URGENT, (2, 1000), "sign of life");
        push(&mut turns, Lane::URGENT, (2, 1000), "another");
        assert_eq!(order(&mut turns), "sign of life another bulk");
    }
}

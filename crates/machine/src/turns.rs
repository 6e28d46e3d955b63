//! Fair queueing of protocols that share a link or a worker's time.

use std::collections::VecDeque;

use crate::Protocol;

/// Largest capacity, in items, that an empty queue retains.
const MAX_SPARE: usize = 1024;

/// A lane of the links between workers. Messages of one protocol in one lane stay in order; a
/// message in another lane may overtake them. A busy link sends lanes with smaller numbers first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lane(pub u8);

impl Lane {
    /// Lane of short messages that must not wait behind bulk data.
    pub const URGENT: Lane = Lane(0);
    /// Lane of all other messages.
    pub const USUAL: Lane = Lane(1);
}

/// Queue and cost of an item in [`Turns`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its lane.
    pub lane: Lane,
    /// Number of its protocol.
    pub protocol: u8,
    /// Cost of the item: bytes on a link, changes for a worker. The smallest item costs one.
    pub cost: u64,
}

impl Share {
    /// Returns the share of an item of a protocol in the usual lane with the least cost.
    pub fn usual(protocol: Protocol) -> Share {
        Share { lane: Lane::USUAL, protocol: protocol.number, cost: 1 }
    }
}

/// Items that wait for a resource shared by several protocols, such as a link: one queue for each
/// protocol and lane.
///
/// Lanes with smaller numbers are served first. Within a lane, protocols with waiting items get
/// equal shares of the resource, so a protocol with a long queue delays others by no more than one
/// item. Items of one protocol and lane stay in order.
#[derive(Clone, Debug)]
pub struct Turns<T> {
    /// A small number of queues, ordered by lane.
    queues: Vec<Queue<T>>,
}

#[derive(Clone, Debug)]
struct Queue<T> {
    lane: Lane,
    protocol: u8,
    items: VecDeque<(u64, T)>,
    /// Total cost of the items that were taken. Among the queues with waiting items, the one with
    /// the smallest total is served next.
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
            // A protocol accumulates no credit while it has no waiting items.
            let of_lane = || self.queues.iter().filter(|queue| queue.lane == lane);
            let waiting = of_lane().filter(|queue| !queue.items.is_empty());
            let least = waiting.map(|queue| queue.served).min();
            let least = least.or_else(|| of_lane().map(|queue| queue.served).max());
            self.queues[place].served = self.queues[place].served.max(least.unwrap_or(0));
        }
        self.queues[place].items.push_back((cost, item));
    }

    /// Removes and returns the next item, with its cost.
    pub fn pop(&mut self) -> Option<(u64, T)> {
        let waiting = self.queues.iter_mut().filter(|queue| !queue.items.is_empty());
        let next = waiting.min_by_key(|queue| (queue.lane, queue.served))?;
        let (cost, item) = next.items.pop_front()?;
        next.served = next.served.saturating_add(cost.max(1));
        if next.items.is_empty() && next.items.capacity() > MAX_SPARE {
            // Releases the memory of a queue that was once long.
            next.items = VecDeque::new();
        }
        Some((cost, item))
    }

    /// Removes the items for which `keeps` returns false.
    pub fn retain(&mut self, mut keeps: impl FnMut(&T) -> bool) {
        self.queues.iter_mut().for_each(|queue| queue.items.retain(|(_, item)| keeps(item)));
    }

    /// Returns whether no item waits.
    pub fn is_empty(&self) -> bool {
        self.queues.iter().all(|queue| queue.items.is_empty())
    }

    /// Removes all items.
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
    fn costs_count_and_idle_protocols_save_up_nothing() {
        let mut turns = Turns::default();
        push(&mut turns, Lane::USUAL, (1, 100), "long");
        for item in ["x", "y", "z"] {
            push(&mut turns, Lane::USUAL, (2, 10), item);
        }
        push(&mut turns, Lane::USUAL, (1, 1), "short");
        assert_eq!(order(&mut turns), "long x y z short");
        // Protocol 2 was idle for long, and still gets no more than its equal share.
        for item in ["a", "b", "c"] {
            push(&mut turns, Lane::USUAL, (1, 10), item);
        }
        push(&mut turns, Lane::USUAL, (2, 10), "p");
        push(&mut turns, Lane::USUAL, (2, 10), "q");
        assert_eq!(order(&mut turns), "a p b q c");
        // The same holds for a protocol that is the first to use the queue.
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
        push(&mut turns, Lane::URGENT, (2, 1000), "heartbeat");
        push(&mut turns, Lane::URGENT, (2, 1000), "another");
        assert_eq!(order(&mut turns), "heartbeat another bulk");
    }
}

//! Network cards of the computers on which a virtual cluster's processes run.
//!
//! A card sends one byte after another, and receives one byte after another, both at the same time.
//! A message occupies the card of its sender while its bytes leave, and, after the delay of the
//! network, the card of its receiver while they arrive. Processes of one computer share its card,
//! and do not use the card for messages to one another. Headers of packets do not count.

/// Network card of a computer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Card {
    /// Bandwidth in each direction, at least 1.
    pub(crate) bits_per_second: u64,
    /// Number of processes that share the card, at least 1.
    pub(crate) processes: u8,
}

impl Default for Card {
    /// Returns a card of 1 Gbit/s for each process.
    fn default() -> Card {
        Card { bits_per_second: 1_000_000_000, processes: 1 }
    }
}

impl Card {
    /// Returns the time that bytes need, in nanoseconds.
    fn time_of(self, bytes: u64) -> u64 {
        let nanos = u128::from(bytes) * 8 * 1_000_000_000 / u128::from(self.bits_per_second.max(1));
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }
}

/// One direction of a card.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    free_at: u64,
    /// Bytes since the last call of [`Cards::reset`].
    bytes: u64,
}

impl Lane {
    /// Occupies the lane from `now` on, or as soon as it is free; returns the beginning.
    fn occupy(&mut self, now: u64, bytes: u64, time: u64) -> u64 {
        let begin = self.free_at.max(now);
        self.free_at = begin.saturating_add(time);
        self.bytes += bytes;
        begin
    }
}

/// Cards of all computers. Times are in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Cards {
    card: Card,
    /// For each computer, the sending and the receiving lane.
    computers: Vec<(Lane, Lane)>,
}

impl Cards {
    pub(crate) fn new(card: Card, computers: usize) -> Cards {
        Cards { card, computers: vec![Default::default(); computers] }
    }

    /// Sends a message at `now`, or as soon as the card is free. Returns the time at which its
    /// first byte leaves. Calls must be in the order of `now`.
    pub(crate) fn send(&mut self, computer: usize, now: u64, bytes: u64) -> u64 {
        self.computers[computer].0.occupy(now, bytes, self.card.time_of(bytes))
    }

    /// Receives a message whose first byte reaches the card at `now`. Returns the time at which its
    /// last byte has arrived. Calls must be in the order of `now`.
    pub(crate) fn receive(&mut self, computer: usize, now: u64, bytes: u64) -> u64 {
        let time = self.card.time_of(bytes);
        self.computers[computer].1.occupy(now, bytes, time).saturating_add(time)
    }

    /// Returns the bytes that each computer has sent and received since the last reset.
    pub(crate) fn bytes(&self) -> Vec<(u64, u64)> {
        self.computers.iter().map(|(sent, received)| (sent.bytes, received.bytes)).collect()
    }

    /// Begins a new count of bytes.
    pub(crate) fn reset(&mut self) {
        for (sent, received) in &mut self.computers {
            (sent.bytes, received.bytes) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cards that need 1 µs for 125 bytes.
    fn cards() -> Cards {
        Cards::new(Card::default(), 2)
    }

    #[test]
    fn messages_wait_for_the_bytes_before_them() {
        let mut cards = cards();
        assert_eq!(cards.send(0, 500, 125), 500);
        assert_eq!(cards.send(0, 500, 1250), 1500);
        assert_eq!(cards.send(0, 501, 125), 11_500);
        assert_eq!(cards.send(0, 20_000, 125), 20_000, "the card was idle");
        assert_eq!(cards.send(1, 500, 125), 500, "the other computer has its own card");
    }

    #[test]
    fn both_directions_are_independent_and_a_message_arrives_with_its_last_byte() {
        let mut cards = cards();
        cards.send(0, 0, 125_000);
        assert_eq!(cards.receive(0, 0, 125), 1000);
        assert_eq!(cards.receive(0, 200, 250), 3000);
        assert_eq!(cards.bytes(), [(125_000, 375), (0, 0)]);
        cards.reset();
        assert_eq!(cards.bytes(), [(0, 0), (0, 0)]);
        assert_eq!(cards.receive(0, 0, 125), 4000, "the card is still occupied");
    }

    #[test]
    fn a_card_without_bandwidth_only_takes_long() {
        let mut cards = Cards::new(Card { bits_per_second: 0, processes: 1 }, 1);
        assert_eq!(cards.receive(0, 1, u64::MAX), u64::MAX);
        assert_eq!(cards.receive(0, 1, 0), u64::MAX);
    }
}

use crate::{Lane, Physical, Timestamp};

/// A hybrid logical clock (Kulkarni et al., OPODIS 2014). It follows the wall clock, never goes
/// back, and moves past every timestamp that it observes.
///
/// UniStore waits until a physical clock has passed a timestamp (Alg. 1 l. 43). A hybrid clock
/// moves past it at once, so skew between sites makes reads less recent but never delays a request
/// (`docs/decisions/0002-hybrid-clocks.md`).
#[derive(Clone, Debug)]
pub struct HybridClock {
    last: Timestamp,
    lane: Lane,
}

impl HybridClock {
    /// Creates a clock that has observed nothing yet and issues timestamps of `lane`.
    pub fn new(lane: Lane) -> Self {
        HybridClock { last: Timestamp::ZERO, lane }
    }

    /// Returns the current time. Every timestamp that [`tick`](Self::tick) returns later is
    /// greater.
    pub fn read(&mut self, physical: Physical) -> Timestamp {
        self.last = self.last.max(Timestamp::from_physical(physical));
        self.last
    }

    /// Returns the greatest time that this clock has read, issued or observed.
    pub fn last(&self) -> Timestamp {
        self.last
    }

    /// Returns a new timestamp, unique within the site and greater than every time this clock has
    /// read, issued or observed.
    pub fn tick(&mut self, physical: Physical) -> Timestamp {
        self.last = self.read(physical).next_in(self.lane);
        self.last
    }

    /// Moves the clock forward to `seen` if it is behind.
    pub fn observe(&mut self, seen: Timestamp) {
        self.last = self.last.max(seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_increase_when_the_wall_clock_stands_still_or_jumps_back() {
        let mut clock = HybridClock::new(Lane(3));
        let mut previous = Timestamp::ZERO;
        for physical in [1000, 1000, 1000, 5, 0, 2000, 2000] {
            let tick = clock.tick(Physical(physical));
            assert!(tick > previous);
            previous = tick;
        }
    }

    #[test]
    fn ticks_follow_what_was_observed_and_read() {
        let mut clock = HybridClock::new(Lane(0));
        clock.observe(Timestamp(1 << 40));
        assert!(clock.tick(Physical(1)) > Timestamp(1 << 40));
        let read = clock.read(Physical(1 << 40));
        assert!(clock.tick(Physical(1)) > read);
    }

    #[test]
    fn lanes_never_issue_the_same_timestamp() {
        let mut a = HybridClock::new(Lane(0));
        let mut b = HybridClock::new(Lane(1));
        let of_a: std::collections::BTreeSet<_> = (0..100).map(|_| a.tick(Physical(7))).collect();
        assert!((0..100).all(|_| !of_a.contains(&b.tick(Physical(7)))));
    }
}

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// A reading of a clock that never goes back, in nanoseconds since the host started.
///
/// Deadlines and timeouts use it. Readings of different hosts are not comparable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Monotonic(pub u64);

impl Monotonic {
    /// Returns the instant `delay` later.
    pub fn after(self, delay: Duration) -> Self {
        let nanos = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        Monotonic(self.0.saturating_add(nanos))
    }

    /// Returns the time from `earlier` to this instant; zero if `earlier` is later.
    pub fn since(self, earlier: Monotonic) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A reading of a wall clock, in microseconds since the Unix epoch. It may jump, and it may be
/// wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Physical(pub u64);

/// Number of the worker that issued a timestamp. It makes timestamps unique within a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(pub u8);

/// A hybrid logical timestamp: wall-clock microseconds in the upper 52 bits, then a 4-bit counter,
/// then the 8-bit lane of the worker that issued it.
///
/// The counter overflows into the microseconds. That is harmless, because a hybrid timestamp may
/// run ahead of the wall clock. Two timestamps issued at one site are never equal (see [`Lane`]);
/// timestamps of different sites are ordered by value and then by site.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Timestamp(pub u64);

const LANE_BITS: u32 = 8;
const PHYSICAL_SHIFT: u32 = 12;

impl Timestamp {
    /// Less than or equal to the time of every transaction.
    pub const ZERO: Timestamp = Timestamp(0);
    /// Greater than or equal to the time of every transaction.
    pub const MAX: Timestamp = Timestamp(u64::MAX);

    /// Returns the first timestamp of a wall-clock microsecond.
    pub fn from_physical(physical: Physical) -> Self {
        Timestamp(physical.0.saturating_mul(1 << PHYSICAL_SHIFT))
    }

    /// Returns the wall-clock part, in microseconds since the Unix epoch.
    pub fn micros(self) -> u64 {
        self.0 >> PHYSICAL_SHIFT
    }

    /// Returns the timestamp just below this one (for UniStore Alg. 2 l. 3).
    pub fn just_below(self) -> Self {
        Timestamp(self.0.saturating_sub(1))
    }

    /// Returns this timestamp moved forward by `delay`.
    pub fn later(self, delay: Duration) -> Self {
        let micros = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
        Timestamp(self.0.saturating_add(Timestamp::from_physical(Physical(micros)).0))
    }

    /// Returns the smallest timestamp of `lane` that is greater than `self`.
    pub(crate) fn next_in(self, lane: Lane) -> Self {
        let lane = u64::from(lane.0);
        let floor = (self.0 >> LANE_BITS) << LANE_BITS;
        let candidate = floor | lane;
        if candidate > self.0 {
            Timestamp(candidate)
        } else {
            Timestamp(candidate.saturating_add(1 << LANE_BITS))
        }
    }

    /// Returns how far this timestamp is ahead of `other`, by their wall-clock parts; zero if it is
    /// not ahead.
    pub fn ahead_of(self, other: Timestamp) -> Duration {
        Duration::from_micros(self.micros().saturating_sub(other.micros()))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_timestamp_of_a_lane_is_greater_and_keeps_the_lane() {
        for start in [0u64, 1, 5, 255, 256, 257, 4096, 123_456_789] {
            for lane in [0u8, 1, 5, 255] {
                let next = Timestamp(start).next_in(Lane(lane));
                assert!(next > Timestamp(start));
                assert_eq!(next.0 & 0xff, u64::from(lane));
                assert!(next.0 - start <= 256);
            }
        }
    }
}

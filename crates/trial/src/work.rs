//! Jobs: a computation with a result that is easy to check.

use std::time::Duration;

use solera_machine::Job;

/// Returns the number that `steps` steps of a fixed pseudo-random walk lead to from `start`.
pub fn chain(start: u64, steps: u32) -> u64 {
    (0..steps).fold(start, |at, step| {
        let mixed = (at ^ u64::from(step)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed ^ (mixed >> 29)
    })
}

/// A piece of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Start of the piece.
    pub start: u64,
    /// The number of steps.
    pub steps: u32,
}

impl Job for Chain {
    type Result = u64;

    fn run(self) -> u64 {
        chain(self.start, self.steps)
    }

    fn cost(&self) -> Duration {
        Duration::from_micros(u64::from(self.steps))
    }
}

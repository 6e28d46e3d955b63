//! The only source of randomness of a simulated world.

use solera_random::Random as Generator;

/// Generator of the random numbers of a world.
#[derive(Clone, Debug)]
pub(crate) struct Random(Generator);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(Generator::new(seed ^ 0x5eed_0f50_1e2a_0001))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.draw()
    }

    /// Returns a number in `low..high`.
    pub(crate) fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low).max(1)
    }

    /// Returns an index below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0.index(n)
    }

    /// Returns true in `percent` of all cases.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.0.chance(percent)
    }

    /// Returns one of `choices`, by weight.
    pub(crate) fn weighted<T: Copy>(&mut self, choices: &[(u64, T)]) -> T {
        self.0.weighted(choices)
    }
}

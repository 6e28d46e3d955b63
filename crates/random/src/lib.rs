//! Random numbers that depend on a seed alone, for simulations, loads and tests.
//!
//! Secrets and identities need random numbers of the operating system instead.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A generator of random numbers: SplitMix64. A seed gives the same numbers on every platform and
/// in every version, because the seeds that tests and simulations keep stand for these numbers.
#[derive(Clone, Debug)]
pub struct Random(SplitMix64);

impl Random {
    /// Creates the generator of a seed. Its state is the seed itself.
    pub fn new(seed: u64) -> Random {
        Random(SplitMix64::seed_from_u64(seed))
    }

    /// Returns the next number.
    pub fn draw(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound.max(1)
    }

    /// Returns an index below `bound`; 0 if `bound` is 0.
    pub fn index(&mut self, bound: usize) -> usize {
        self.below(bound as u64) as usize
    }

    /// Returns `true` in `percent` of 100 cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns `true` in one of `n` cases.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SplitMix64 as its authors define it.
    fn defined(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    #[test]
    fn the_numbers_of_a_seed_never_change() {
        for seed in [0, 1, 7, 0x5eed_0f50_1e2a_0001, u64::MAX] {
            let (mut random, mut state) = (Random::new(seed), seed);
            for place in 0..10_000 {
                assert_eq!(random.draw(), defined(&mut state), "{seed}: {place}");
            }
        }
    }

    #[test]
    fn the_first_numbers_are_those_of_the_reference() {
        let mut random = Random::new(1_234_567);
        let first = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973];
        assert_eq!([random.draw(), random.draw()], first);
    }
}

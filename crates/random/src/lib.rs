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

    /// Returns one of `choices`, each of which has a weight.
    ///
    /// # Panics
    /// If there are no choices.
    pub fn weighted<T: Copy>(&mut self, choices: &[(u64, T)]) -> T {
        let mut at = self.below(choices.iter().map(|(weight, _)| weight).sum());
        for (weight, choice) in choices {
            if at < *weight {
                return *choice;
            }
            at -= weight;
        }
        choices[0].1
    }

    /// Returns `true` in one of `n` cases.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

impl AsMut<Random> for Random {
    fn as_mut(&mut self) -> &mut Random {
        self
    }
}

/// Zipf's distribution: the n-th number, counted from 0, has a probability proportional to
/// 1/(n + 1), to the power of an exponent.
#[derive(Clone, Debug)]
pub struct Zipf {
    /// Cumulative weights.
    sums: Vec<f64>,
}

impl Zipf {
    /// Creates the distribution of the numbers below `count`, which must be at least 1, with
    /// exponent 1.
    pub fn new(count: usize) -> Zipf {
        Zipf::with_exponent(count, 1.0)
    }

    /// Creates the distribution of the numbers below `count`, which must be at least 1.
    pub fn with_exponent(count: usize, exponent: f64) -> Zipf {
        let sums = (1..=count).scan(0.0, |sum, n| {
            *sum += (n as f64).powf(-exponent);
            Some(*sum)
        });
        Zipf { sums: sums.collect() }
    }

    /// Returns the next number.
    pub fn draw(&self, random: &mut impl AsMut<Random>) -> usize {
        let all = self.sums.last().copied().unwrap_or_default();
        let at = (random.as_mut().draw() >> 11) as f64 / (1_u64 << 53) as f64 * all;
        self.sums.partition_point(|sum| *sum <= at).min(self.sums.len() - 1)
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

    #[test]
    fn zipf_draws_the_first_number_twice_as_often_as_the_second() {
        let (zipf, mut random) = (Zipf::new(1000), Random::new(3));
        let mut drawn = [0_u32; 1000];
        (0..70_000).for_each(|_| drawn[zipf.draw(&mut random)] += 1);
        // The harmonic number of 1000 is 7.485.
        for (n, drawn) in drawn.iter().enumerate().take(4) {
            let expected = 70_000.0 / 7.485 / (n + 1) as f64;
            assert!((f64::from(*drawn) - expected).abs() < expected / 10.0, "{n}: {drawn}");
        }
        assert!(drawn[900..].iter().any(|drawn| *drawn > 0));
        assert_eq!(Zipf::new(1).draw(&mut random), 0);
    }

    #[test]
    fn choices_are_drawn_by_weight_and_never_with_weight_zero() {
        let mut random = Random::new(1);
        let mut drawn = [0_u32; 4];
        for _ in 0..40_000 {
            drawn[random.weighted(&[(10, 0), (0, 1), (30, 2), (60, 3)])] += 1;
        }
        assert_eq!(drawn[1], 0);
        for (drawn, expected) in drawn.iter().zip([4000, 0, 12_000, 24_000]) {
            assert!(drawn.abs_diff(expected) <= expected / 10, "{drawn} for {expected}");
        }
        assert_eq!(random.weighted(&[(0, 'a'), (0, 'b')]), 'a', "without weights, the first one");
    }
}

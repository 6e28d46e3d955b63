//! Random permutations whose places are computed in both directions.

use solera_random::Random;

/// Number of rounds of the network.
const ROUNDS: u64 = 4;

/// Bits of one half of a number.
const HALF: u32 = 6;

/// A permutation of the numbers below a bound of at most 4,096: a Feistel network, which is applied
/// until the result is below the bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permutation {
    seed: u64,
    bound: u32,
}

impl Permutation {
    pub(crate) fn new(seed: u64, bound: u32) -> Permutation {
        Permutation { seed, bound }
    }

    /// Returns the number at a place.
    pub(crate) fn at(self, place: u32) -> u32 {
        self.walk(place, |(left, right)| {
            let rounds = 0..ROUNDS;
            rounds.fold((left, right), |(left, right), n| (right, left ^ self.mix(n, right)))
        })
    }

    /// Returns the place of a number.
    pub(crate) fn place(self, number: u32) -> u32 {
        self.walk(number, |(left, right)| {
            let rounds = (0..ROUNDS).rev();
            rounds.fold((left, right), |(left, right), n| (right ^ self.mix(n, left), left))
        })
    }

    fn walk(self, from: u32, network: impl Fn((u32, u32)) -> (u32, u32)) -> u32 {
        let mask = (1 << HALF) - 1;
        let mut number = from;
        loop {
            let (left, right) = network((number >> HALF & mask, number & mask));
            number = left << HALF | right;
            if number < self.bound {
                return number;
            }
        }
    }

    fn mix(self, round: u64, half: u32) -> u32 {
        let input = round << HALF | u64::from(half);
        (Random::new(self.seed ^ input).draw() >> (64 - HALF)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_one_place() {
        for seed in [0, 1, 0x5eed_0000] {
            let permutation = Permutation::new(seed, 3000);
            let mut numbers: Vec<u32> = (0..3000).map(|place| permutation.at(place)).collect();
            assert!((0..3000).all(|place| permutation.place(numbers[place as usize]) == place));
            let fixed = (0..3000).filter(|place| numbers[*place as usize] == *place).count();
            assert!(fixed < 10, "a random permutation has about one fixed point, not {fixed}");
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..3000));
        }
    }
}

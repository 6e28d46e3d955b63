//! Keys of YCSB, and the distributions from which operations draw them.

use std::str::FromStr;

use crate::random::Random;

/// Distribution of the keys of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// A few keys are very frequent: Zipf's distribution with exponent 0.99, spread over all keys
    /// by a hash, as YCSB's scrambled Zipfian.
    Zipfian,
    /// All keys are equally frequent.
    Uniform,
}

impl FromStr for Distribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Distribution, String> {
        match text {
            "zipfian" => Ok(Distribution::Zipfian),
            "uniform" => Ok(Distribution::Uniform),
            _ => Err("the distributions are 'zipfian' and 'uniform'".to_owned()),
        }
    }
}

impl Distribution {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Distribution::Zipfian => "zipfian",
            Distribution::Uniform => "uniform",
        }
    }

    /// Draws a number below `count`, which must be at least 1.
    pub(crate) fn draw(self, random: &mut Random, count: u64) -> u64 {
        match self {
            Distribution::Zipfian => fnv(zipf(fraction(random))) % count,
            Distribution::Uniform => random.below(count),
        }
    }
}

/// Exponent of the distribution.
const THETA: f64 = 0.99;
/// Number of ranks. YCSB draws from more ranks than there are keys, so that the hash reaches all
/// keys.
const RANKS: f64 = 10_000_000_000.0;
/// Sum of `1 / n^THETA` over all ranks, a constant of YCSB.
const ZETA: f64 = 26.469_028_201_783_02;

/// Returns a number in `0..1`.
fn fraction(random: &mut Random) -> f64 {
    (random.next() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Returns the rank, from 0, of a uniformly distributed number in `0..1`, by the method of Gray et
/// al. (Quickly Generating Billion-Record Synthetic Databases, SIGMOD 1994). The probabilities of
/// the first two ranks are exact, the others approximate.
fn zipf(uniform: f64) -> u64 {
    let second = 0.5_f64.powf(THETA);
    let at = uniform * ZETA;
    if at < 1.0 {
        return 0;
    }
    if at < 1.0 + second {
        return 1;
    }
    let eta = (1.0 - (2.0 / RANKS).powf(1.0 - THETA)) / (1.0 - (1.0 + second) / ZETA);
    (RANKS * (eta * uniform - eta + 1.0).powf(1.0 / (1.0 - THETA))) as u64
}

/// Returns YCSB's hash of a number: FNV-1a of its eight bytes, without the sign.
fn fnv(number: u64) -> u64 {
    let bytes = number.to_le_bytes();
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash.cast_signed().unsigned_abs()
}

/// Returns the numbers of the most frequent keys of the Zipfian distribution, beginning with the
/// most frequent one, by the first `ranks` ranks.
pub(crate) fn hottest(count: u64, ranks: usize) -> Vec<u64> {
    (0..ranks as u64).map(|rank| fnv(rank) % count).collect()
}

/// Returns the name of a key, which has up to 23 bytes after the prefix.
pub(crate) fn name(prefix: &str, number: u64) -> String {
    format!("{prefix}user{}", fnv(number))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const DRAWS: u64 = 400_000;

    fn probability(rank: u64) -> f64 {
        1.0 / ((rank + 1) as f64).powf(THETA) / ZETA
    }

    #[test]
    fn ranks_have_the_frequencies_of_zipf() {
        let mut random = Random::new(5);
        let mut ranks: BTreeMap<u64, u64> = BTreeMap::new();
        for _ in 0..DRAWS {
            *ranks.entry(zipf(fraction(&mut random))).or_default() += 1;
        }
        assert!(ranks.keys().all(|rank| *rank < RANKS as u64));
        let share = |below: u64| {
            let counts = ranks.iter().filter(|(rank, _)| **rank < below).map(|(_, count)| *count);
            counts.sum::<u64>() as f64 / DRAWS as f64
        };
        // The method is exact for two ranks. For later ranks, it is at most 10% off.
        for (below, tolerance) in [(1, 0.02), (2, 0.02), (10, 0.1), (100, 0.1), (1000, 0.1)] {
            let expected: f64 = (0..below).map(probability).sum();
            let found = share(below);
            assert!((found - expected).abs() < tolerance * expected, "{below}: {found} {expected}");
        }
        // Ten orders of magnitude have about the same share each.
        assert!((0.5..0.8).contains(&share(1_000_000)), "{}", share(1_000_000));
    }

    #[test]
    fn the_hash_is_that_of_ycsb() {
        // Results of YCSB's Utils.hash for 0, 1 and 12,345.
        assert_eq!(fnv(0), 6_284_781_860_667_377_211);
        assert_eq!(fnv(1), 8_517_097_267_634_966_620);
        assert!(name("p:", 1) == "p:user8517097267634966620");
    }

    #[test]
    fn all_keys_are_drawn_and_no_others() {
        for (distribution, most) in [(Distribution::Zipfian, 0.038), (Distribution::Uniform, 0.0)] {
            let (mut random, count) = (Random::new(6), 1000);
            let mut drawn = vec![0_u64; count as usize];
            for _ in 0..DRAWS {
                drawn[distribution.draw(&mut random, count) as usize] += 1;
            }
            assert!(drawn.iter().all(|drawn| *drawn > 0), "{distribution:?}");
            let (mean, top) = (DRAWS / count, *drawn.iter().max().unwrap());
            let expected = mean as f64 + most * DRAWS as f64;
            assert!((top as f64) < 1.3 * expected && top as f64 > 0.9 * expected, "{top}");
        }
        assert_eq!(Distribution::Zipfian.draw(&mut Random::new(1), 1), 0);
    }
}

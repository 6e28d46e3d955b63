//! Seeded random numbers.

use std::time::Duration;

use solera_random::Random as Generator;
pub(crate) use solera_random::Zipf;

/// Generator of the random numbers of a load.
#[derive(Clone, Debug)]
pub(crate) struct Random(Generator);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        // Consecutive seeds must not give similar first numbers.
        Random(Generator::new(Generator::new(seed).draw()))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.draw()
    }

    /// Returns a number below `n`, which must be at least 1.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// Returns a number in `low..=high`.
    pub(crate) fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Returns `true` in `percent` percent of all cases.
    pub(crate) fn chance(&mut self, percent: u8) -> bool {
        self.below(100) < u64::from(percent)
    }

    /// Returns an index into `weights`, chosen by weight; at least one weight must not be 0.
    pub(crate) fn weighted(&mut self, weights: &[u32]) -> usize {
        let total: u64 = weights.iter().copied().map(u64::from).sum();
        let mut at = self.below(total);
        let found = weights.iter().position(|weight| {
            let here = at < u64::from(*weight);
            at = at.saturating_sub(u64::from(*weight));
            here
        });
        found.expect("the drawn number is below the sum")
    }

    /// Returns an exponentially distributed duration with this mean, truncated at ten times the
    /// mean, as the think times of RUBiS' clients are.
    pub(crate) fn think(&mut self, mean: Duration) -> Duration {
        // The value is in (0, 1], so its logarithm is finite.
        let uniform = ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        mean.mul_f64((-uniform.ln()).min(10.0))
    }

    /// Returns a string of letters that compresses about as poorly as text in a natural language.
    pub(crate) fn text(&mut self, length: u64) -> String {
        const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz eaito";
        (0..length).map(|_| char::from(LETTERS[self.below(32) as usize])).collect()
    }
}

impl AsMut<Generator> for Random {
    fn as_mut(&mut self) -> &mut Generator {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_drawn_by_weight_and_never_with_weight_zero() {
        let mut random = Random::new(1);
        let mut drawn = [0_u32; 4];
        for _ in 0..40_000 {
            drawn[random.weighted(&[10, 0, 30, 60])] += 1;
        }
        assert_eq!(drawn[1], 0);
        for (drawn, expected) in drawn.iter().zip([4000, 0, 12_000, 24_000]) {
            assert!(drawn.abs_diff(expected) <= expected / 10, "{drawn} for {expected}");
        }
    }

    #[test]
    fn pauses_have_the_given_mean() {
        let mut random = Random::new(2);
        let mean = Duration::from_millis(500);
        let times: Vec<Duration> = (0..20_000).map(|_| random.think(mean)).collect();
        let average = times.iter().sum::<Duration>() / 20_000;
        assert!(average.as_millis().abs_diff(500) < 25, "{average:?}");
        assert!(times.iter().all(|time| *time <= 10 * mean));
        assert_eq!(random.think(Duration::ZERO), Duration::ZERO);
    }
}

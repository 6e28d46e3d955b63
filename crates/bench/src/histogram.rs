//! Histograms of durations, with buckets of about 1.6% of their value.

use std::time::Duration;

/// Buckets per power of two.
const STEPS: u64 = 64;
/// Durations below this have a bucket per microsecond.
const EXACT: u64 = STEPS;
/// Number of buckets. The last one counts durations longer than about 19 hours.
const BUCKETS: usize = 32 * STEPS as usize;

/// Histogram of durations. Its quantiles are at most 1/64 too large.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// Buckets up to that of the largest duration.
    buckets: Vec<u64>,
    count: u64,
    total: Duration,
    max: Duration,
}

impl Histogram {
    /// Adds a duration.
    pub fn record(&mut self, duration: Duration) {
        let bucket = bucket_of(duration.as_micros().try_into().unwrap_or(u64::MAX));
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.count += 1;
        self.total += duration;
        self.max = self.max.max(duration);
    }

    /// Adds the durations of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(own, more)| *own += more);
        self.count += other.count;
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the exact mean; `None` without durations.
    pub fn mean(&self) -> Option<Duration> {
        (self.count > 0).then(|| self.total.div_f64(self.count as f64))
    }

    /// Returns the maximum.
    pub fn max(&self) -> Option<Duration> {
        (self.count > 0).then_some(self.max)
    }

    /// Returns the quantile `q`, from 0 to 1.
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        let rank = ((q * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let bucket = self.buckets.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        // The bucket may reach beyond the maximum.
        Some(Duration::from_micros(upper_end(bucket)).min(self.max))
    }
}

/// Returns the bucket of a duration. Each power of two from [`EXACT`] on has [`STEPS`] buckets of
/// equal width.
fn bucket_of(micros: u64) -> usize {
    if micros < EXACT {
        return micros as usize;
    }
    let doublings = u64::from(micros.ilog2() - EXACT.ilog2());
    let bucket = doublings * STEPS + (micros >> doublings);
    (bucket as usize).min(BUCKETS - 1)
}

/// Returns the largest duration of a bucket, in microseconds.
fn upper_end(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * STEPS {
        return bucket;
    }
    let doublings = bucket / STEPS - 1;
    ((bucket % STEPS + STEPS + 1) << doublings) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_in_a_bucket_that_ends_at_most_a_64th_above() {
        let mut previous = 0;
        for micros in (0..10_000).chain((14..35).flat_map(|power| {
            let power = 1_u64 << power;
            [power - 1, power, power + power / 3, power + power / 2]
        })) {
            let bucket = bucket_of(micros);
            let end = upper_end(bucket);
            assert!(bucket >= previous, "{micros}");
            assert!(end >= micros && end - micros <= micros / STEPS, "{micros} up to {end}");
            // Buckets do not overlap.
            assert_eq!(bucket_of(end), bucket, "{micros}");
            assert_eq!(bucket_of(end + 1), bucket + 1, "{micros}");
            previous = bucket;
        }
    }

    #[test]
    fn quantiles_match_the_recorded_durations() {
        let mut one = Histogram::default();
        let mut other = Histogram::default();
        for ms in 1..=1000 {
            if ms % 3 == 0 { &mut one } else { &mut other }.record(Duration::from_millis(ms));
        }
        one.merge(&other);
        assert_eq!((one.count(), one.max()), (1000, Some(Duration::from_millis(1000))));
        assert_eq!(one.mean(), Some(Duration::from_micros(500_500)));
        for (q, ms) in [(0.0, 1), (0.5, 500), (0.95, 950), (0.99, 990), (1.0, 1000)] {
            let found = one.quantile(q).unwrap();
            let exact = Duration::from_millis(ms);
            assert!(found >= exact && found - exact <= exact / 64, "{q}: {found:?}");
        }
    }

    #[test]
    fn extremes_are_counted() {
        let mut histogram = Histogram::default();
        assert_eq!(
            (histogram.quantile(0.5), histogram.mean(), histogram.max()),
            (None, None, None)
        );
        histogram.record(Duration::ZERO);
        histogram.record(Duration::MAX / 2);
        assert_eq!(histogram.count(), 2);
        assert_eq!(histogram.quantile(0.5), Some(Duration::ZERO));
    }
}

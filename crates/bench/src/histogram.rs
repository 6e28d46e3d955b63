//! Histograms of durations, with buckets whose width is at most 1/128 of their value.

use std::time::Duration;

use hdrhistogram::Histogram as Buckets;

/// Significant decimal digits of a bucket.
const DIGITS: u8 = 2;
/// Longest recorded duration, about 19 hours, in microseconds. Longer ones count as this one.
const LONGEST: u64 = 1 << 36;

/// Histogram of durations. Its quantiles are at most 1/128 too large; its mean and maximum are
/// exact.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// Number of durations in each bucket; the values are in microseconds.
    buckets: Buckets<u64>,
    total: Duration,
    max: Duration,
}

impl Default for Histogram {
    fn default() -> Self {
        let buckets = Buckets::new(DIGITS).expect("this number of digits is supported");
        Histogram { buckets, total: Duration::ZERO, max: Duration::ZERO }
    }
}

impl Histogram {
    /// Adds a duration.
    pub fn record(&mut self, duration: Duration) {
        let micros = duration.as_micros().try_into().unwrap_or(LONGEST).min(LONGEST);
        self.buckets.record(micros).expect("the histogram grows");
        self.total += duration;
        self.max = self.max.max(duration);
    }

    /// Adds the durations of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        self.buckets.add(&other.buckets).expect("the histogram grows");
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.buckets.len()
    }

    /// Returns the exact mean; `None` without durations.
    pub fn mean(&self) -> Option<Duration> {
        (self.count() > 0).then(|| self.total.div_f64(self.count() as f64))
    }

    /// Returns the maximum.
    pub fn max(&self) -> Option<Duration> {
        (self.count() > 0).then_some(self.max)
    }

    /// Returns the quantile `q`, from 0 to 1.
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        let micros = self.buckets.value_at_quantile(q);
        // The bucket may reach beyond the maximum.
        (self.count() > 0).then(|| Duration::from_micros(micros).min(self.max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert!(found >= exact && found - exact <= exact / 128, "{q}: {found:?}");
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

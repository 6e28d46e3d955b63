//! Counts of reads at a chosen level and of intervals, for metrics.

use solera_levels::Level;
use solera_reservations::Cannot;

/// Levels of answers in [`ReadCounts`], in order.
pub const READ_LEVELS: [Level; 4] =
    [Level::Linearizable, Level::Por, Level::Causal, Level::Eventual];

/// Names of the reasons in [`ReadCounts::interval_failures`], in order.
pub const INTERVAL_FAILURES: [&str; 7] =
    ["no_bound", "not_reader", "no_lease", "behind", "too_wide", "uncounted", "unreachable"];

/// Numbers of reads since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// Answers to `SOLERA.READ … AT`, in the order of [`READ_LEVELS`].
    pub at: [u64; READ_LEVELS.len()],
    /// Answers to `SOLERA.READ … WITHIN`, in the order of [`READ_LEVELS`].
    pub within: [u64; READ_LEVELS.len()],
    /// Strong reads that `WITHIN` has attempted.
    pub attempts: Attempts,
    /// Intervals that SOLERA.INTERVAL has returned.
    pub intervals: u64,
    /// Failures of SOLERA.INTERVAL, in the order of [`INTERVAL_FAILURES`].
    pub interval_failures: [u64; INTERVAL_FAILURES.len()],
}

/// Numbers of strong reads that `SOLERA.READ … WITHIN` has attempted, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    /// Those whose result is the answer.
    pub answered: u64,
    /// Those that were late, and were cancelled.
    pub cancelled: u64,
    /// Those that failed in time.
    pub failed: u64,
}

impl ReadCounts {
    /// Adds the counts of another worker.
    pub fn add(&mut self, other: &ReadCounts) {
        let sum = |sums: &mut [u64], more: &[u64]| {
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        };
        sum(&mut self.at, &other.at);
        sum(&mut self.within, &other.within);
        self.attempts.answered += other.attempts.answered;
        self.attempts.cancelled += other.attempts.cancelled;
        self.attempts.failed += other.attempts.failed;
        self.intervals += other.intervals;
        sum(&mut self.interval_failures, &other.interval_failures);
    }

    /// Counts an answer at a level. `within` is whether the reader gave a bound of time.
    pub(crate) fn note_answer(&mut self, within: bool, level: Level) {
        let counts = if within { &mut self.within } else { &mut self.at };
        let place = READ_LEVELS.iter().position(|it| *it == level);
        if let Some(count) = place.and_then(|place| counts.get_mut(place)) {
            *count += 1;
        }
    }

    /// Counts an interval that could not be read. `None` means that no reply came.
    pub(crate) fn note_failure(&mut self, reason: Option<&Cannot>) {
        let place = match reason {
            Some(Cannot::NoPolicy) => 0,
            Some(Cannot::NotReader { .. }) => 1,
            Some(Cannot::NoLease) => 2,
            Some(
                Cannot::Behind
                | Cannot::Nothing
                | Cannot::TooMany { .. }
                | Cannot::NoTokens
                | Cannot::AtFloor,
            ) => 3,
            Some(Cannot::TooWide { .. } | Cannot::OutOfRange) => 4,
            Some(Cannot::Uncounted | Cannot::SoldOut { .. }) => 5,
            None => 6,
        };
        self.interval_failures[place] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_counts_at_its_level() {
        let mut counts = ReadCounts::default();
        for level in READ_LEVELS {
            counts.note_answer(false, level);
        }
        counts.note_answer(true, Level::Causal);
        counts.note_failure(None);
        counts.note_failure(Some(&Cannot::NoLease));
        let mut sum = counts;
        sum.add(&counts);
        assert_eq!((sum.at, sum.within), ([2; 4], [0, 0, 2, 0]));
        assert_eq!(sum.interval_failures, [0, 0, 2, 0, 0, 0, 2]);
    }
}

//! Counts of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::histogram::Histogram;

/// Class of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Reads only, in one causal snapshot.
    Read,
    /// Updates causally.
    Causal,
    /// Strong.
    Strong,
    /// Weak, in a speculative space.
    Weak,
    /// Tentative result of a strong transaction in a speculative space, which also counts as
    /// stable.
    Tentative,
    /// Stable result of a strong transaction in a speculative space.
    Stable,
}

impl Class {
    /// All classes.
    pub const ALL: [Class; 6] =
        [Class::Read, Class::Causal, Class::Strong, Class::Weak, Class::Tentative, Class::Stable];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Class::Read => "read-only",
            Class::Causal => "causal update",
            Class::Strong => "strong",
            Class::Weak => "weak",
            Class::Tentative => "tentative",
            Class::Stable => "stable",
        }
    }
}

/// A type of transaction of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// Its class.
    pub class: Class,
}

/// Result of a transaction that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// The transaction succeeded.
    Well,
    /// The application's rules forbid it, for example because the auction is closed. It commits all
    /// the same, because its reads must be valid.
    Refused,
}

/// Counts of the transactions of one kind at one site, within the measured window.
#[derive(Clone, Debug, Default)]
pub struct Count {
    /// Latencies of transactions that did not fail, including all their attempts.
    pub latency: Histogram,
    /// Number of them that the application's rules rejected.
    pub refused: u64,
    /// Number of attempts that aborted because of a conflict.
    pub aborts: u64,
    /// Number of failed transactions.
    pub failed: u64,
}

impl Count {
    /// Adds the counts of another one.
    pub fn merge(&mut self, other: &Count) {
        self.latency.merge(&other.latency);
        self.refused += other.refused;
        self.aborts += other.aborts;
        self.failed += other.failed;
    }
}

/// All counts within the measured window.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// Counts, by kind and site.
    counts: Vec<Vec<Count>>,
    /// Failures, by error code.
    pub(crate) errors: BTreeMap<String, Failures>,
    /// Aborted attempts of all kinds, by cause.
    pub(crate) aborts: Aborts,
    /// Sums of the counters that servers keep for connections.
    pub(crate) counters: Counters,
}

/// Numbers of aborted attempts of transactions, by cause.
pub(crate) type Aborts = BTreeMap<String, u64>;

/// Counters that a server keeps for a connection, by name.
pub(crate) type Counters = BTreeMap<String, u64>;

/// Failures of one code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failures {
    /// Number of failures.
    pub count: u64,
    /// Message of the first one.
    pub first: String,
}

impl Tally {
    pub(crate) fn new(kinds: usize, sites: usize) -> Tally {
        Tally {
            counts: vec![vec![Count::default(); sites]; kinds],
            errors: BTreeMap::new(),
            aborts: Aborts::new(),
            counters: Counters::new(),
        }
    }

    pub(crate) fn done(
        &mut self,
        kind: usize,
        site: usize,
        took: Duration,
        done: Done,
        aborts: &Aborts,
    ) {
        let count = &mut self.counts[kind][site];
        count.latency.record(took);
        count.refused += u64::from(done == Done::Refused);
        self.aborted(kind, site, aborts);
    }

    fn aborted(&mut self, kind: usize, site: usize, aborts: &Aborts) {
        self.counts[kind][site].aborts += aborts.values().sum::<u64>();
        add(&mut self.aborts, aborts);
    }

    /// Adds the difference between two readings of the counters that a server keeps for a
    /// connection.
    pub(crate) fn counted(&mut self, end: &Counters, begin: &Counters) {
        let since = |(name, count): (&String, &u64)| {
            (name.clone(), count.saturating_sub(begin.get(name).copied().unwrap_or(0)))
        };
        add(&mut self.counters, &end.iter().map(since).collect());
    }

    pub(crate) fn failed(
        &mut self,
        kind: usize,
        site: usize,
        error: &solera::Error,
        aborts: &Aborts,
    ) {
        let code = error.code().unwrap_or(match error {
            solera::Error::Connection(_) => "connection",
            _ => "protocol",
        });
        self.aborted(kind, site, aborts);
        self.fail(kind, site, code, || error.to_string());
    }

    /// Counts a transaction that was cancelled, because it had no answer this long after the end of
    /// the run.
    pub(crate) fn stalled(&mut self, kind: usize, site: usize, after: Duration) {
        let seconds = after.as_secs();
        let first = || format!("no answer until {seconds} s after the end");
        self.fail(kind, site, "stalled", first);
    }

    fn fail(&mut self, kind: usize, site: usize, code: &str, first: impl FnOnce() -> String) {
        self.counts[kind][site].failed += 1;
        let failures = self.errors.entry(code.to_owned());
        failures.or_insert_with(|| Failures { count: 0, first: first() }).count += 1;
    }

    pub(crate) fn merge(&mut self, other: Tally) {
        let pairs = self.counts.iter_mut().flatten().zip(other.counts.iter().flatten());
        pairs.for_each(|(own, more)| own.merge(more));
        add(&mut self.aborts, &other.aborts);
        add(&mut self.counters, &other.counters);
        for (code, more) in other.errors {
            let none = Failures { count: 0, first: more.first };
            self.errors.entry(code).or_insert(none).count += more.count;
        }
    }

    /// Returns the counts of a kind at all sites.
    pub(crate) fn of_kind(&self, kind: usize) -> Count {
        sum(self.counts[kind].iter())
    }

    /// Returns the counts of some kinds at one site.
    pub(crate) fn of_kinds_at(&self, kinds: impl Iterator<Item = usize>, site: usize) -> Count {
        sum(kinds.map(|kind| &self.counts[kind][site]))
    }
}

/// Adds counts by name.
fn add(sums: &mut BTreeMap<String, u64>, more: &BTreeMap<String, u64>) {
    for (name, count) in more {
        *sums.entry(name.clone()).or_default() += count;
    }
}

fn sum<'a>(counts: impl Iterator<Item = &'a Count>) -> Count {
    let mut sum = Count::default();
    counts.for_each(|count| sum.merge(count));
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_threads_are_combined() {
        let ms = Duration::from_millis;
        let mut one = Tally::new(2, 2);
        let conflicts = |count| Aborts::from([("conflict".to_owned(), count)]);
        let none = Aborts::new();
        one.done(0, 1, ms(10), Done::Well, &none);
        one.done(1, 1, ms(20), Done::Refused, &conflicts(3));
        one.failed(1, 0, &solera::Error::server("TRYAGAIN one"), &conflicts(2));
        let mut other = Tally::new(2, 2);
        other.done(1, 1, ms(40), Done::Well, &Aborts::from([("locked".to_owned(), 1)]));
        other.failed(0, 0, &solera::Error::server("TRYAGAIN two"), &none);
        one.counted(
            &Counters::from([("stale".to_owned(), 9)]),
            &Counters::from([("stale".to_owned(), 4)]),
        );
        other.counted(&Counters::from([("stale".to_owned(), 2)]), &none);
        other.stalled(0, 0, Duration::from_secs(1));
        one.merge(other);

        let count = one.of_kind(1);
        assert_eq!((count.latency.count(), count.latency.mean()), (2, Some(ms(30))));
        assert_eq!((count.refused, count.aborts, count.failed), (1, 6, 1));
        let at_first = one.of_kinds_at([0, 1].into_iter(), 0);
        assert_eq!((at_first.latency.count(), at_first.failed), (0, 3));
        let at_second = one.of_kinds_at([0, 1].into_iter(), 1);
        assert_eq!((at_second.latency.count(), at_second.aborts), (3, 4));
        assert_eq!(
            one.aborts,
            Aborts::from([("conflict".to_owned(), 5), ("locked".to_owned(), 1)])
        );
        assert_eq!(one.counters, Counters::from([("stale".to_owned(), 7)]));
        let again = Failures { count: 2, first: "TRYAGAIN one".to_owned() };
        assert_eq!(one.errors["TRYAGAIN"], again);
        assert_eq!(one.errors["stalled"].count, 1);
    }
}

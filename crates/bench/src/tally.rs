//! What a run has counted.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::histogram::Histogram;

/// What a transaction asks of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// It only reads, in one causal snapshot.
    Read,
    /// It updates, causally.
    Causal,
    /// It is strong.
    Strong,
}

impl Class {
    /// All of them.
    pub const ALL: [Class; 3] = [Class::Read, Class::Causal, Class::Strong];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Class::Read => "read-only",
            Class::Causal => "causal update",
            Class::Strong => "strong",
        }
    }
}

/// A type of transaction of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// What it asks of the database.
    pub class: Class,
}

/// How a transaction ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// It did what it was for.
    Well,
    /// The application's rules forbid it, say because the auction is closed. It is committed all
    /// the same: that the rules forbid it is an answer, too.
    Refused,
}

/// The transactions of one kind at one site, within the measured window.
#[derive(Clone, Debug, Default)]
pub struct Count {
    /// How long those took that did not fail, with all their attempts.
    pub latency: Histogram,
    /// How many of them the application's rules forbade.
    pub refused: u64,
    /// How many attempts met a conflict.
    pub aborts: u64,
    /// How many failed.
    pub failed: u64,
}

impl Count {
    /// Adds another one's.
    pub fn merge(&mut self, other: &Count) {
        self.latency.merge(&other.latency);
        self.refused += other.refused;
        self.aborts += other.aborts;
        self.failed += other.failed;
    }
}

/// All that is counted within the measured window.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// By kind, by site.
    counts: Vec<Vec<Count>>,
    /// Failures by their code.
    pub(crate) errors: BTreeMap<String, Failures>,
}

/// Failures of one code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failures {
    /// How many there were.
    pub count: u64,
    /// What the first one said.
    pub first: String,
}

impl Tally {
    pub(crate) fn new(kinds: usize, sites: usize) -> Tally {
        Tally { counts: vec![vec![Count::default(); sites]; kinds], errors: BTreeMap::new() }
    }

    pub(crate) fn done(
        &mut self,
        kind: usize,
        site: usize,
        took: Duration,
        done: Done,
        aborts: u64,
    ) {
        let count = &mut self.counts[kind][site];
        count.latency.record(took);
        count.refused += u64::from(done == Done::Refused);
        count.aborts += aborts;
    }

    pub(crate) fn failed(&mut self, kind: usize, site: usize, error: &solera::Error, aborts: u64) {
        let code = error.code().unwrap_or(match error {
            solera::Error::Connection(_) => "connection",
            _ => "protocol",
        });
        self.counts[kind][site].aborts += aborts;
        self.fail(kind, site, code, || error.to_string());
    }

    /// A transaction was given up that had no answer so long after the end of the run.
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
        for (code, more) in other.errors {
            let none = Failures { count: 0, first: more.first };
            self.errors.entry(code).or_insert(none).count += more.count;
        }
    }

    /// All of a kind.
    pub(crate) fn of_kind(&self, kind: usize) -> Count {
        sum(self.counts[kind].iter())
    }

    /// All of some kinds at one site.
    pub(crate) fn of_kinds_at(&self, kinds: impl Iterator<Item = usize>, site: usize) -> Count {
        sum(kinds.map(|kind| &self.counts[kind][site]))
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
    fn what_threads_have_counted_is_put_together() {
        let ms = Duration::from_millis;
        let mut one = Tally::new(2, 2);
        one.done(0, 1, ms(10), Done::Well, 0);
        one.done(1, 1, ms(20), Done::Refused, 3);
        one.failed(1, 0, &solera::Error::server("TRYAGAIN one"), 2);
        let mut other = Tally::new(2, 2);
        other.done(1, 1, ms(40), Done::Well, 0);
        other.failed(0, 0, &solera::Error::server("TRYAGAIN two"), 0);
        other.stalled(0, 0, Duration::from_secs(1));
        one.merge(other);

        let count = one.of_kind(1);
        assert_eq!((count.latency.count(), count.latency.mean()), (2, Some(ms(30))));
        assert_eq!((count.refused, count.aborts, count.failed), (1, 5, 1));
        let at_first = one.of_kinds_at([0, 1].into_iter(), 0);
        assert_eq!((at_first.latency.count(), at_first.failed), (0, 3));
        let at_second = one.of_kinds_at([0, 1].into_iter(), 1);
        assert_eq!((at_second.latency.count(), at_second.aborts), (3, 3));
        let again = Failures { count: 2, first: "TRYAGAIN one".to_owned() };
        assert_eq!(one.errors["TRYAGAIN"], again);
        assert_eq!(one.errors["stalled"].count, 1);
    }
}

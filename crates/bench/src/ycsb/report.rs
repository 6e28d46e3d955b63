//! The report of a run, as text and as JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use crate::closed_loop::Pace;
use crate::histogram::Histogram;
use crate::tally::{Aborts, Count, Counters, Failures, Kind, Tally};

/// Report of a run.
#[derive(Clone, Debug)]
pub struct YcsbReport {
    /// Settings of the workload.
    pub workload: String,
    /// Duration and intensity of the run.
    pub pace: Pace,
    /// Number of operations of a transaction.
    pub operations: u64,
    /// Results by kind of operation or transaction.
    pub kinds: Vec<(Kind, Count)>,
    /// Results by site.
    pub sites: Vec<(String, Count)>,
    /// Aborted attempts, by cause.
    pub aborts: Aborts,
    /// Counters of the server for the clients' sessions; empty if it has none.
    pub counters: Counters,
    /// Failures, by error code.
    pub errors: BTreeMap<String, Failures>,
}

/// Quantiles of latencies that are reported, beside the mean and the maximum.
const QUANTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p75", 0.75), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)];
/// Width of the names of rows.
const WIDTH: usize = 24;

impl YcsbReport {
    pub(crate) fn new(
        workload: String,
        pace: &Pace,
        operations: u64,
        sites: Vec<String>,
        kinds: &[Kind],
        tally: Tally,
    ) -> YcsbReport {
        let of_kind = |(number, kind): (usize, &Kind)| (*kind, tally.of_kind(number));
        let at =
            |(number, site): (usize, String)| (site, tally.of_kinds_at(0..kinds.len(), number));
        YcsbReport {
            workload,
            pace: pace.clone(),
            operations,
            kinds: kinds.iter().enumerate().map(of_kind).collect(),
            sites: sites.into_iter().enumerate().map(at).collect(),
            aborts: tally.aborts,
            counters: tally.counters,
            errors: tally.errors,
        }
    }

    /// Returns the results of all operations or transactions.
    pub fn total(&self) -> Count {
        let mut total = Count::default();
        self.kinds.iter().for_each(|(_, count)| total.merge(count));
        total
    }

    /// Returns the successful operations per second. An operation counts once, even if the client
    /// or the server had to repeat it.
    pub fn goodput(&self) -> f64 {
        self.per_second(self.total().latency.count())
    }

    /// Returns the operations per second that clients sent, including those of attempts that
    /// aborted or failed.
    pub fn throughput(&self) -> f64 {
        let total = self.total();
        self.per_second(total.latency.count() + total.aborts + total.failed)
    }

    fn per_second(&self, transactions: u64) -> f64 {
        (transactions * self.operations) as f64 / self.pace.window.as_secs_f64()
    }

    /// Returns the report as JSON.
    pub fn json(&self) -> Value {
        let count = |name: &str, count: &Count| {
            json!({
                "name": name,
                "count": count.latency.count(),
                "aborts": count.aborts,
                "failed": count.failed,
                "latency_ms": latencies(&count.latency),
            })
        };
        let errors = self.errors.iter().map(|(code, failures)| {
            (code.clone(), json!({ "count": failures.count, "first": failures.first }))
        });
        json!({
            "workload": self.workload,
            "clients": self.pace.clients,
            "seconds": self.pace.window.as_secs_f64(),
            "operations_per_transaction": self.operations,
            "goodput": self.goodput(),
            "throughput": self.throughput(),
            "total": count("all", &self.total()),
            "kinds": self.kinds.iter().map(|(kind, of)| count(kind.name, of)).collect::<Vec<_>>(),
            "sites": self.sites.iter().map(|(site, at)| count(site, at)).collect::<Vec<_>>(),
            "aborts": self.aborts,
            "counters": self.counters,
            "errors": Value::Object(errors.collect()),
        })
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn latencies(histogram: &Histogram) -> Value {
    let quantiles =
        QUANTILES.map(|(name, q)| (name.to_owned(), json!(histogram.quantile(q).map(ms))));
    let others = [("mean", histogram.mean()), ("max", histogram.max())];
    let others = others.map(|(name, time)| (name.to_owned(), json!(time.map(ms))));
    Value::Object(quantiles.into_iter().chain(others).collect())
}

fn row(f: &mut fmt::Formatter<'_>, name: &str, count: &Count) -> fmt::Result {
    let Count { latency, aborts, failed, .. } = count;
    write!(f, "{name:WIDTH$} {:>10} {aborts:>8} {failed:>7}", latency.count())?;
    let quantiles = QUANTILES.map(|(_, q)| latency.quantile(q));
    for time in [latency.mean()].into_iter().chain(quantiles).chain([latency.max()]) {
        match time {
            Some(time) => write!(f, " {:>9.2}", ms(time))?,
            None => write!(f, " {:>9}", "-")?,
        }
    }
    writeln!(f)
}

/// Writes a list of counts with a title, unless it is empty.
fn list(f: &mut fmt::Formatter<'_>, title: &str, counts: &BTreeMap<String, u64>) -> fmt::Result {
    if !counts.is_empty() {
        writeln!(f, "\n{title}:")?;
    }
    counts.iter().try_for_each(|(name, count)| writeln!(f, "  {count:>10}  {name}"))
}

impl fmt::Display for YcsbReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pace, seconds) = (&self.pace, self.pace.window.as_secs_f64());
        writeln!(
            f,
            "{}; {} clients at {} site(s), measured for {seconds} s\n",
            self.workload,
            pace.clients,
            self.sites.len(),
        )?;
        writeln!(f, "goodput    {:>12.1} operations/s", self.goodput())?;
        writeln!(f, "throughput {:>12.1} operations/s, with aborted ones\n", self.throughput())?;
        let what = if self.operations == 1 { "operation" } else { "transaction" };
        write!(f, "{what:WIDTH$} {:>10} {:>8} {:>7}", "count", "aborts", "failed")?;
        write!(f, " {:>9}", "mean ms")?;
        QUANTILES.iter().try_for_each(|(name, _)| write!(f, " {name:>9}"))?;
        writeln!(f, " {:>9}", "max")?;
        for (kind, count) in &self.kinds {
            row(f, kind.name, count)?;
        }
        for (site, count) in self.sites.iter().filter(|_| self.sites.len() > 1) {
            row(f, &format!("at {site}"), count)?;
        }
        row(f, "all", &self.total())?;
        list(f, "Aborts by cause", &self.aborts)?;
        list(f, "Counters of the sessions", &self.counters)?;
        if !self.errors.is_empty() {
            writeln!(f, "\nFailures:")?;
        }
        for (code, failures) in &self.errors {
            writeln!(f, "  {:>10}  {code}, the first: {}", failures.count, failures.first)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::{Class, Done};

    #[test]
    fn goodput_counts_a_repeated_transaction_once() {
        let ms = Duration::from_millis;
        let pace = Pace {
            clients: 1,
            threads: 1,
            think: Duration::ZERO,
            ramp_up: Duration::ZERO,
            warm_up: Duration::ZERO,
            window: Duration::from_secs(2),
        };
        let kinds = [Kind { name: "read-only", class: Class::Read }];
        let mut tally = Tally::new(1, 2);
        tally.done(0, 0, ms(4), Done::Well, &Aborts::from([("locked".to_owned(), 3)]));
        tally.done(0, 1, ms(4), Done::Well, &Aborts::new());
        tally.failed(0, 1, &solera::Error::server("OOM"), &Aborts::new());
        tally.counted(&Counters::from([("stale".to_owned(), 8)]), &Counters::new());
        let sites = vec!["a".to_owned(), "b".to_owned()];
        let report = YcsbReport::new("ycsb".to_owned(), &pace, 10, sites, &kinds, tally);
        assert_eq!((report.goodput(), report.throughput()), (10.0, 30.0));
        let json = report.json();
        assert_eq!(json["aborts"]["locked"], 3);
        assert_eq!(json["counters"]["stale"], 8);
        assert_eq!(json["sites"][1]["failed"], 1);
        let text = report.to_string();
        let widths: Vec<usize> = text
            .lines()
            .skip_while(|line| !line.starts_with("transaction"))
            .take_while(|line| !line.is_empty())
            .map(str::len)
            .collect();
        assert_eq!(widths.len(), 5, "{text}");
        assert!(widths.iter().all(|width| *width == widths[0]), "the table aligns:\n{text}");
    }
}

//! Reports of runs, as text and as JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use solera_commands::counted;

use serde_json::{Value, json};

use crate::closed_loop::Pace;
use crate::histogram::Histogram;
use crate::invariant::Invariant;
use crate::session::Strong;
use crate::tally::{Class, Count, Failures, Kind, Tally};

/// Report of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// Name of the workload.
    pub workload: String,
    /// How strong transactions were run.
    pub strong: Strong,
    /// Duration and intensity of the run.
    pub pace: Pace,
    /// Names of the sites.
    pub sites: Vec<String>,
    /// Results by type of transaction.
    pub kinds: Vec<(Kind, Count)>,
    /// Results by class and site, in the order of `sites`.
    pub classes: Vec<(Class, Vec<Count>)>,
    /// Failures, by error code.
    pub errors: BTreeMap<String, Failures>,
    /// Invariants that were checked at the end.
    pub invariants: Vec<Invariant>,
}

impl Report {
    #[expect(clippy::too_many_arguments, reason = "one per section of the report")]
    pub(crate) fn new(
        workload: String,
        strong: Strong,
        pace: &Pace,
        sites: Vec<String>,
        kinds: &[Kind],
        tally: Tally,
        invariants: Vec<Invariant>,
    ) -> Report {
        let of_class = |class| {
            let of_class = kinds.iter().enumerate().filter(move |(_, kind)| kind.class == class);
            of_class.map(|(i, _)| i)
        };
        let there = Class::ALL.into_iter().filter(|class| of_class(*class).next().is_some());
        let at_sites = |class| {
            let at = |site| tally.of_kinds_at(of_class(class), site);
            (class, (0..sites.len()).map(at).collect())
        };
        Report {
            workload,
            strong,
            pace: pace.clone(),
            kinds: kinds.iter().enumerate().map(|(i, kind)| (*kind, tally.of_kind(i))).collect(),
            classes: there.map(at_sites).collect(),
            sites,
            errors: tally.errors,
            invariants,
        }
    }

    /// Returns the results of all transactions of a class.
    pub fn class(&self, class: Class) -> Count {
        self.sum(|of| of == class)
    }

    /// Returns the results of all transactions. Those with a tentative result count once.
    pub fn total(&self) -> Count {
        self.sum(|class| class != Class::Tentative)
    }

    fn sum(&self, is_asked: impl Fn(Class) -> bool) -> Count {
        let mut sum = Count::default();
        let asked = self.kinds.iter().filter(|(kind, _)| is_asked(kind.class));
        asked.for_each(|(_, count)| sum.merge(count));
        sum
    }

    /// Returns the number of successful transactions per second.
    pub fn throughput(&self) -> f64 {
        self.per_second(&self.total())
    }

    fn per_second(&self, count: &Count) -> f64 {
        count.latency.count() as f64 / self.pace.window.as_secs_f64()
    }

    /// Returns whether no invariant is broken.
    pub fn holds(&self) -> bool {
        self.invariants.iter().all(|invariant| invariant.broken == 0)
    }

    /// Returns the report as JSON.
    pub fn json(&self) -> Value {
        let count = |count: &Count| {
            json!({
                "count": count.latency.count(),
                "per_second": self.per_second(count),
                "refused": count.refused,
                "aborts": count.aborts,
                "failed": count.failed,
                "latency_ms": latencies(&count.latency),
            })
        };
        let kinds = self.kinds.iter().map(|(kind, of)| {
            let mut row = json!({ "name": kind.name, "class": kind.class.name() });
            extend(&mut row, count(of));
            row
        });
        let classes = self.classes.iter().map(|(class, at)| {
            let sites = self.sites.iter().zip(at).map(|(site, of)| (site.clone(), count(of)));
            let mut row = json!({ "name": class.name() });
            extend(&mut row, count(&self.class(*class)));
            row["sites"] = Value::Object(sites.collect());
            row
        });
        let errors = self.errors.iter().map(|(code, failures)| {
            (code.clone(), json!({ "count": failures.count, "first": failures.first }))
        });
        let invariants = self.invariants.iter().map(|invariant| {
            json!({
                "rule": invariant.rule,
                "checked": invariant.checked,
                "broken": invariant.broken,
                "examples": invariant.examples,
            })
        });
        json!({
            "workload": self.workload,
            "strong": self.strong.name(),
            "clients": self.pace.clients,
            "sites": self.sites,
            "think_ms": self.pace.think.as_secs_f64() * 1000.0,
            "seconds": self.pace.window.as_secs_f64(),
            "total": count(&self.total()),
            "transactions": kinds.collect::<Vec<_>>(),
            "classes": classes.collect::<Vec<_>>(),
            "errors": Value::Object(errors.collect()),
            "invariants": invariants.collect::<Vec<_>>(),
        })
    }

    /// Writes failures and invariants, each with a title.
    pub(crate) fn write_details(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.errors.is_empty() {
            writeln!(f, "\nFailures:")?;
        }
        for (code, failures) in &self.errors {
            writeln!(f, "  {:>6} {code}, the first: {}", failures.count, failures.first)?;
        }
        if !self.invariants.is_empty() {
            writeln!(f, "\nInvariants:")?;
        }
        for invariant in &self.invariants {
            let Invariant { rule, checked, broken, examples } = invariant;
            match broken {
                0 => writeln!(f, "  {rule}: holds ({checked} checked)")?,
                _ => writeln!(
                    f,
                    "  {rule}: BROKEN {} ({checked} checked)",
                    counted(*broken, "time")
                )?,
            }
            examples.iter().try_for_each(|example| writeln!(f, "    {example}"))?;
        }
        Ok(())
    }

    fn row(&self, f: &mut fmt::Formatter<'_>, name: &str, count: &Count) -> fmt::Result {
        write!(
            f,
            "{name:width$} {:>9} {:>10.1} {:>8} {:>8} {:>7}",
            count.latency.count(),
            self.per_second(count),
            count.refused,
            count.aborts,
            count.failed,
            width = WIDTH,
        )?;
        let latency = &count.latency;
        for time in [latency.mean()].into_iter().chain(QUANTILES.map(|(_, q)| latency.quantile(q)))
        {
            match time {
                Some(time) => write!(f, " {:>9.2}", ms(time))?,
                None => write!(f, " {:>9}", "-")?,
            }
        }
        writeln!(f)
    }
}

/// Quantiles of latencies that are reported, beside the mean.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0)];
/// Column width of the names of transactions.
const WIDTH: usize = 26;

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn latencies(histogram: &Histogram) -> Value {
    let quantiles =
        QUANTILES.map(|(name, q)| (name.to_owned(), json!(histogram.quantile(q).map(ms))));
    let mean = ("mean".to_owned(), json!(histogram.mean().map(ms)));
    Value::Object(quantiles.into_iter().chain([mean]).collect())
}

fn extend(row: &mut Value, more: Value) {
    if let (Value::Object(row), Value::Object(more)) = (row, more) {
        row.extend(more);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pace = &self.pace;
        writeln!(
            f,
            "{}; {} at {}, thinking {} ms; measured for {} s; strong: {}\n",
            self.workload,
            counted(pace.clients, "client"),
            counted(self.sites.len(), "site"),
            ms(pace.think),
            pace.window.as_secs_f64(),
            self.strong.name(),
        )?;
        write!(
            f,
            "{:WIDTH$} {:>9} {:>10} {:>8} {:>8} {:>7}",
            "transaction", "count", "per s", "refused", "aborts", "failed"
        )?;
        writeln!(f, " {:>9} {:>9} {:>9} {:>9} {:>9}", "mean ms", "p50", "p95", "p99", "max")?;
        let ran = |count: &Count| count.latency.count() + count.failed > 0;
        for (kind, count) in self.kinds.iter().filter(|(_, count)| ran(count)) {
            self.row(f, kind.name, count)?;
        }
        writeln!(f)?;
        for (class, at) in self.classes.iter().filter(|(class, _)| ran(&self.class(*class))) {
            self.row(f, class.name(), &self.class(*class))?;
            for (site, count) in self.sites.iter().zip(at) {
                self.row(f, &format!("  at {site}"), count)?;
            }
        }
        self.row(f, "all", &self.total())?;
        self.write_details(f)
    }
}

//! The variants of a service side by side, as text and as JSON.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};
use solera_commands::counted;

use super::observations::{CANNOT_TELL, INTERVALS, PPM, READ, SOLD, SOLD_OUT, WIDTHS};
use super::variant::Variant;
use crate::report::Report;
use crate::tally::{Counters, Kind};

/// Report of a variant.
#[derive(Clone, Debug)]
pub struct VariantReport {
    /// The variant.
    pub variant: Variant,
    /// Its operations.
    pub report: Report,
    /// Numbers that its clients have counted.
    pub(super) counters: Counters,
}

/// Reports of variants of a service, in the order in which they ran.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Name of the workload.
    pub workload: String,
    /// Reports of the variants, at least one.
    pub reports: Vec<VariantReport>,
}

/// A row of the table.
struct Row {
    name: String,
    /// Numbers of the variants.
    numbers: Vec<Option<f64>>,
    /// Number of decimals.
    digits: usize,
    /// The numbers, divided by that of the variant `weak`; empty if they are not compared.
    over_weak: Vec<Option<f64>>,
}

/// Column widths of numbers and of ratios.
const COLUMNS: [usize; 2] = [13, 9];

impl VariantReport {
    fn number(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or_default()
    }

    /// Returns the numbers of reads by level.
    fn levels(&self) -> Vec<(&str, u64)> {
        let numbers = self.counters.iter();
        numbers.filter_map(|(name, number)| Some((name.strip_prefix(READ)?, *number))).collect()
    }

    /// Returns the share of reads that had a level, in percent.
    fn share(&self, level: &str) -> Option<f64> {
        let levels = self.levels();
        let all: u64 = levels.iter().map(|(_, number)| number).sum();
        let of_level = levels.iter().find(|(name, _)| *name == level)?.1;
        Some(100.0 * of_level as f64 / all as f64)
    }

    /// Returns a sum over all intervals, divided by their number.
    fn mean(&self, sum: &str) -> Option<f64> {
        let intervals = self.number(INTERVALS);
        (intervals > 0).then(|| self.number(sum) as f64 / intervals as f64)
    }

    /// Returns the mean width of intervals, and the same in percent of their minimum.
    fn width(&self) -> Option<(f64, f64)> {
        Some((self.mean(WIDTHS)?, self.mean(PPM)? / 10_000.0))
    }

    fn json(&self) -> Value {
        let mut json = self.report.json();
        if let Value::Object(fields) = &mut json {
            fields.remove("strong");
            fields.remove("workload");
        }
        let levels = self.levels().into_iter();
        let levels = levels.map(|(level, number)| (level.to_owned(), json!(number)));
        let intervals = self.width().map(|(width, percent)| {
            let count = self.number(INTERVALS);
            json!({ "count": count, "mean_width": width, "mean_width_percent": percent })
        });
        let purchases = [SOLD, SOLD_OUT, CANNOT_TELL];
        let purchases = purchases.map(|name| (name.to_owned(), json!(self.number(name))));
        json["variant"] = json!(self.variant.name());
        json["levels"] = Value::Object(levels.collect());
        json["intervals"] = json!(intervals);
        json["purchases"] = Value::Object(purchases.into_iter().collect());
        json
    }
}

impl Comparison {
    /// Returns whether no invariant is broken.
    pub fn holds(&self) -> bool {
        self.reports.iter().all(|variant| variant.report.holds())
    }

    /// Returns whether each variant has run an operation.
    pub fn has_run(&self) -> bool {
        let has_run = |variant: &VariantReport| variant.report.total().latency.count() > 0;
        self.reports.iter().all(has_run)
    }

    /// Returns the reports as JSON.
    pub fn json(&self) -> Value {
        let rows = self.rows();
        let variants = self.reports.iter().enumerate().map(|(index, variant)| {
            let mut json = variant.json();
            let ratios = rows.iter().filter_map(|row| {
                Some((row.name.clone(), json!(row.over_weak.get(index).copied()??)))
            });
            json["over_weak"] = Value::Object(ratios.collect());
            json
        });
        json!({ "workload": self.workload, "variants": variants.collect::<Vec<_>>() })
    }

    /// Returns the rows of the table, without those that are empty.
    fn rows(&self) -> Vec<Row> {
        let ms = |time: Option<Duration>| Some(time?.as_secs_f64() * 1000.0);
        let mut rows = vec![self.compared("operations/s", 1, |it| Some(it.report.throughput()))];
        for (kind, (Kind { name, .. }, _)) in self.reports[0].report.kinds.iter().enumerate() {
            let latency = |it: &'_ VariantReport| it.report.kinds[kind].1.latency.clone();
            rows.push(self.compared(&format!("{name}, mean ms"), 2, |it| ms(latency(it).mean())));
            let p95 = |it: &VariantReport| ms(latency(it).quantile(0.95));
            rows.push(self.compared(&format!("{name}, p95 ms"), 2, p95));
        }
        let latency = |it: &VariantReport| it.report.total().latency;
        rows.push(self.compared("all, mean ms", 2, |it| ms(latency(it).mean())));
        rows.push(self.compared("all, p95 ms", 2, |it| ms(latency(it).quantile(0.95))));
        let levels = self.reports.iter().flat_map(|it| it.levels().into_iter().map(|(it, _)| it));
        for level in levels.collect::<BTreeSet<_>>() {
            rows.push(self.row(&format!("{level} reads, %"), 1, |it| it.share(level)));
        }
        rows.push(self.row("width of intervals, mean", 1, |it| Some(it.width()?.0)));
        rows.push(self.row("width of intervals, mean %", 2, |it| Some(it.width()?.1)));
        let some = |number: u64| (number > 0).then_some(number as f64);
        for name in [SOLD, SOLD_OUT, CANNOT_TELL] {
            rows.push(self.row(name, 0, |it| some(it.number(name))));
        }
        rows.push(self.row("aborted attempts", 0, |it| some(it.report.total().aborts)));
        rows.push(self.row("failed", 0, |it| some(it.report.total().failed)));
        rows.retain(|row| row.numbers.iter().any(Option::is_some));
        rows
    }

    /// Returns the index of the variant `weak`.
    fn weak(&self) -> Option<usize> {
        self.reports.iter().position(|report| report.variant == Variant::Weak)
    }

    fn row(
        &self,
        name: &str,
        digits: usize,
        number: impl Fn(&VariantReport) -> Option<f64>,
    ) -> Row {
        let numbers = self.reports.iter().map(number).collect();
        Row { name: name.to_owned(), numbers, digits, over_weak: Vec::new() }
    }

    /// Returns a row whose numbers are compared with that of the variant `weak`.
    fn compared(
        &self,
        name: &str,
        digits: usize,
        number: impl Fn(&VariantReport) -> Option<f64>,
    ) -> Row {
        let row = self.row(name, digits, number);
        let weak = self.weak().and_then(|weak| row.numbers[weak]).filter(|weak| *weak > 0.0);
        let over_weak = row.numbers.iter().map(|number| Some((*number)? / weak?)).collect();
        Row { over_weak, ..row }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { pace, sites, .. } = &self.reports[0].report;
        let legend = match self.weak() {
            Some(_) => "; (n): n times as much as weak",
            None => "",
        };
        writeln!(
            f,
            "{}; {} at {}, thinking {} ms; measured for {} s each{legend}\n",
            self.workload,
            counted(pace.clients, "client"),
            counted(sites.len(), "site"),
            pace.think.as_secs_f64() * 1000.0,
            pace.window.as_secs_f64(),
        )?;
        let rows = self.rows();
        let width = rows.iter().map(|row| row.name.len()).max().unwrap_or_default();
        let [column, ratio] = COLUMNS;
        let mut title = " ".repeat(width);
        for VariantReport { variant, .. } in &self.reports {
            title += &format!(" {variant:>column$}{:ratio$}", "");
        }
        writeln!(f, "{}", title.trim_end())?;
        for Row { name, numbers, digits, over_weak } in rows {
            let mut line = format!("{name:width$}");
            for (index, number) in numbers.into_iter().enumerate() {
                let number = number.map(|number| format!("{number:.digits$}"));
                let over_weak = over_weak.get(index).copied().flatten();
                let over_weak = over_weak.map(|over_weak| format!("({over_weak:.2})"));
                line += &format!(
                    " {:>column$}{:>ratio$}",
                    number.as_deref().unwrap_or("-"),
                    over_weak.unwrap_or_default()
                );
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        for VariantReport { variant, report, .. } in &self.reports {
            writeln!(f, "\n{variant}")?;
            report.write_details(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use solera_levels::Level;

    use super::*;
    use crate::closed_loop::Pace;
    use crate::services::observations::{numbers, widths};
    use crate::services::store::Observed;
    use crate::session::Strong;
    use crate::tally::{Aborts, Class, Done, Tally};

    /// A report of one operation in two seconds.
    fn report(variant: Variant, ms: u64, observed: &Observed) -> VariantReport {
        let pace = Pace {
            clients: 1,
            threads: 1,
            think: Duration::ZERO,
            ramp_up: Duration::ZERO,
            warm_up: Duration::ZERO,
            window: Duration::from_secs(2),
        };
        let kinds = [Kind { name: "view", class: Class::Read }];
        let mut tally = Tally::new(1, 1);
        tally.done(0, 0, Duration::from_millis(ms), Done::Well, &Aborts::new());
        let (name, sites) = (variant.to_string(), vec!["a".to_owned()]);
        let mut counters = Counters::new();
        for (name, number) in numbers(observed) {
            *counters.entry(name).or_default() += number;
        }
        let rules = widths(&counters).into_iter().collect();
        let report = Report::new(name, Strong::Solera, &pace, sites, &kinds, tally, rules);
        VariantReport { variant, report, counters }
    }

    fn comparison(intervals: &[(i64, i64)]) -> Comparison {
        let levels = vec![Level::Linearizable, Level::Causal, Level::Causal, Level::Causal];
        let levelled = Observed { levels, ..Observed::default() };
        let intervals = Observed { intervals: intervals.to_vec(), ..Observed::default() };
        let reports = vec![
            report(Variant::Strong, 40, &Observed::default()),
            report(Variant::Weak, 10, &Observed::default()),
            report(Variant::LatencyBound, 10, &levelled),
            report(Variant::ErrorBound, 15, &intervals),
        ];
        Comparison { workload: "tickets".to_owned(), reports }
    }

    #[test]
    fn variants_are_compared_with_the_weak_one() {
        let comparison = comparison(&[(200, 208), (100, 100)]);
        assert!(comparison.holds() && comparison.has_run());
        let json = comparison.json();
        let over_weak = |variant: usize| json["variants"][variant]["over_weak"].clone();
        assert_eq!(over_weak(0)["operations/s"], 1.0);
        assert_eq!(over_weak(0)["view, mean ms"], 4.0);
        assert_eq!(over_weak(3)["view, p95 ms"], 1.5);
        let levels = json!({ "causal": 3, "linearizable": 1 });
        assert_eq!(json["variants"][2]["levels"], levels);
        let intervals = json!({ "count": 2, "mean_width": 4.0, "mean_width_percent": 2.0 });
        assert_eq!(json["variants"][3]["intervals"], intervals);
        let text = comparison.to_string();
        let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
        let words = |name| line(name).split_whitespace().skip(3).collect::<Vec<_>>();
        let mean = ["40.00", "(4.00)", "10.00", "(1.00)", "10.00", "(1.00)", "15.00", "(1.50)"];
        assert_eq!(words("view, mean"), mean);
        assert_eq!(words("linearizable reads"), ["-", "-", "25.0", "-"]);
        let width = ["mean", "%", "-", "-", "-", "2.00"];
        assert_eq!(words("width of intervals, mean %"), width);
        assert!(!text.contains("sold out"), "{text}");

        let alone = Comparison { reports: comparison.reports[..1].to_vec(), ..comparison };
        assert_eq!(alone.json()["variants"][0]["over_weak"], json!({}));
        assert!(!alone.to_string().contains("("), "{alone}");
    }

    #[test]
    fn intervals_that_are_too_wide_break_a_rule() {
        for (intervals, broken) in
            [(&[(100, 105), (-105, -100), (0, 0)][..], 0), (&[(100, 106), (0, 1)], 2)]
        {
            let comparison = comparison(intervals);
            let rules = &comparison.reports[3].report.invariants;
            assert_eq!((rules[0].checked, rules[0].broken), (intervals.len() as u64, broken));
            assert_eq!(comparison.holds(), broken == 0);
        }
    }
}

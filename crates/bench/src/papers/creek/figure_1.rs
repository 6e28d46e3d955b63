//! Figure 1: latency, accuracy and execution ratio by throughput; processor load and traffic.

use solera_creek::{Replies, Scheme};

use super::measured::{Measured, quantile_ms};
use super::search::Searched;
use super::setting::Setting;
use super::{Findings, Laboratory, name_of, our_costs};
use crate::error::BenchError;
use crate::papers::Row;
use crate::papers::plot::{Plot, Series};

const FIGURE: &str = "Fig. 1";
/// The schemes, with the paper's peaks, at which searches begin.
const SCHEMES: [(Scheme, f64); 4] = [
    (Scheme::Creek, 32_500.0),
    (Scheme::Archie, 35_000.0),
    (Scheme::Bayou, 2_700.0),
    (Scheme::Smr, 2_700.0),
];
/// Three message delays in milliseconds, without which no stable reply is possible.
const THREE_DELAYS_MS: f64 = 0.75;

/// Peaks of the schemes with 5 warehouses.
pub(super) struct Peaks([Searched; 4]);

impl Peaks {
    pub(super) fn of(&self, scheme: Scheme) -> &Searched {
        let place = SCHEMES.iter().position(|(it, _)| *it == scheme);
        &self.0[place.expect("all schemes are measured")]
    }

    /// Returns the lower one of the peaks of Creek and Archie.
    pub(super) fn of_both(&self) -> f64 {
        self.of(Scheme::Creek).peak().min(self.of(Scheme::Archie).peak())
    }
}

/// Finds the peaks of the schemes.
pub(super) fn peaks(laboratory: &Laboratory<'_>) -> Result<Peaks, BenchError> {
    let settings = SCHEMES.map(|(scheme, load)| Setting::of(scheme, load)).to_vec();
    let searched = laboratory.search_all("peaks of the schemes", settings)?;
    let searched = <[Searched; 4]>::try_from(searched).ok();
    Ok(Peaks(searched.expect("each search has a result")))
}

/// Shares of the peak at which the schemes are compared. One of them is 0.5.
fn shares(laboratory: &Laboratory<'_>) -> &'static [f64] {
    laboratory
        .effort
        .pick(&[0.1, 0.25, 0.5, 0.75, 0.9], &[0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
}

/// Runs of two schemes at the same load.
pub(super) struct Pair {
    pub(super) creek: Measured,
    pub(super) archie: Measured,
}

impl Pair {
    /// Returns the ratio of two median latencies of weak operations: that of Creek's replies over
    /// that of Archie's last replies.
    pub(super) fn weak(&self) -> f64 {
        median(&self.creek.weak()) / median(&self.archie.weak_last())
    }

    /// Returns the ratio of the median latencies of stable replies to strong operations: Creek's
    /// over Archie's.
    pub(super) fn stable(&self) -> f64 {
        median(&self.creek.strong.stable) / median(&self.archie.strong.stable)
    }
}

fn median(of: &crate::histogram::Histogram) -> f64 {
    quantile_ms(of, 0.5)
}

/// Runs Creek and Archie at each setting, in place of the setting's own scheme.
pub(super) fn run_pairs(
    laboratory: &Laboratory<'_>,
    what: &str,
    settings: Vec<Setting>,
) -> Result<Vec<Pair>, BenchError> {
    let both = |setting: Setting| {
        [Scheme::Creek, Scheme::Archie].map(|scheme| Setting { scheme, ..setting.clone() })
    };
    let settings = settings.into_iter().flat_map(both).collect();
    let mut measured = laboratory.run_all(what, settings)?.into_iter();
    let mut pairs = Vec::new();
    while let (Some(creek), Some(archie)) = (measured.next(), measured.next()) {
        pairs.push(Pair { creek, archie });
    }
    Ok(pairs)
}

/// Measures the schemes below their peaks.
pub(super) fn run(laboratory: &Laboratory<'_>, peaks: &Peaks) -> Result<Findings, BenchError> {
    let base = Setting::of(Scheme::Creek, 1.0);
    let shares = shares(laboratory);
    let load = |share: &f64| peaks.of_both() * share;
    let mut settings: Vec<Setting> =
        shares.iter().map(|share| laboratory.at(&base, load(share))).collect();
    let ours = Setting { costs: our_costs(), ..base };
    settings.push(laboratory.at(&ours, load(&0.5)));
    let mut pairs = run_pairs(laboratory, "Creek and Archie by load", settings)?;
    let ours = pairs.pop().expect("our execution times come last");
    let single = [Scheme::Bayou, Scheme::Smr].into_iter().flat_map(|scheme| {
        let setting = Setting::of(scheme, 1.0);
        let peak = peaks.of(scheme).peak();
        shares.iter().map(move |share| (setting.clone(), peak * share))
    });
    let single = single.map(|(setting, load)| laboratory.at(&setting, load)).collect();
    let single = laboratory.run_all("Bayou and SMR by load", single)?;
    let half = shares.iter().position(|share| *share == 0.5).expect("the half is measured");

    let mut rows = rows_of_peaks(peaks);
    rows.extend(rows_of_latencies(shares, &pairs, half, &ours));
    rows.extend(rows_of_exact_replies(laboratory, peaks, &pairs[half])?);
    let half_of =
        |scheme: Scheme| single.iter().filter(move |it| it.setting.scheme == scheme).nth(half);
    let others = [Scheme::Bayou, Scheme::Smr].into_iter().filter_map(half_of);
    let halves: Vec<&Measured> =
        [&pairs[half].creek, &pairs[half].archie].into_iter().chain(others).collect();
    rows.extend(rows_of_resources(&halves));
    let runs = SCHEMES.map(|(scheme, _)| points(scheme, peaks, &pairs, &single));
    rows.extend(rows_of_speculation(&runs[0], &runs[1]));
    Ok(Findings { rows, plots: plots(&runs), ..Findings::default() })
}

/// Returns all sustained runs of a scheme, by throughput.
fn points<'a>(
    scheme: Scheme,
    peaks: &'a Peaks,
    pairs: &'a [Pair],
    single: &'a [Measured],
) -> Vec<&'a Measured> {
    let Searched { peak, lower } = peaks.of(scheme);
    let pairs = pairs.iter().flat_map(|pair| [&pair.creek, &pair.archie]);
    let all = [peak].into_iter().chain(lower).chain(pairs).chain(single);
    let mut points: Vec<&Measured> =
        all.filter(|it| it.setting.scheme == scheme && it.is_sustained()).collect();
    points.sort_by(|one, other| one.throughput().total_cmp(&other.throughput()));
    points
}

fn rows_of_peaks(peaks: &Peaks) -> Vec<Row> {
    let of = |(scheme, of_paper): (Scheme, f64)| {
        let quantity = format!("peak of {}", name_of(scheme));
        Row::new(FIGURE, quantity, of_paper, peaks.of(scheme).peak(), "1/s")
    };
    let over = |scheme| peaks.of(Scheme::Creek).peak() / peaks.of(scheme).peak();
    let mut rows: Vec<Row> = SCHEMES.into_iter().map(of).collect();
    rows.push(
        Row::new(FIGURE, "peak of Creek over SMR", 12.0, over(Scheme::Smr), "").at_least(14.0),
    );
    let row = Row::new(FIGURE, "peak of Creek over Archie", 0.93, over(Scheme::Archie), "");
    rows.push(row.at_least(0.95));
    rows
}

fn rows_of_latencies(shares: &[f64], pairs: &[Pair], half: usize, ours: &Pair) -> Vec<Row> {
    let row = |quantity: String, of_paper: Option<f64>, number, unit| {
        Row::new(FIGURE, quantity, of_paper, number, unit)
    };
    let mut rows = Vec::new();
    for (share, Pair { creek, archie }) in shares.iter().zip(pairs) {
        let at = format!("at {:.0}% of the peak", 100.0 * share);
        for (what, number) in [
            ("weak replies of Creek", median(&creek.weak())),
            ("tentative replies of Archie to weak operations", median(&archie.weak())),
            ("stable replies of Archie to weak operations", median(&archie.weak_last())),
            ("tentative replies of Creek to strong operations", median(&creek.strong.first)),
            ("stable replies of Creek to strong operations", median(&creek.strong.stable)),
            ("stable replies of Archie to strong operations", median(&archie.strong.stable)),
        ] {
            rows.push(row(format!("{what}, {at}"), None, number, "ms"));
        }
    }
    let most = |of: fn(&Pair) -> f64| pairs.iter().map(of).fold(0.0, f64::max);
    let weak = |what: &str| format!("weak latency of Creek over Archie, {what}");
    rows.push(row(weak("most at any load"), Some(0.61), most(Pair::weak), "").at_most(0.61));
    rows.push(row(weak("half of the peak"), None, pairs[half].weak(), "").at_most(0.5));
    rows.push(row(weak("our execution times"), None, ours.weak(), "").at_most(0.15));
    let stable = |what: &str| format!("stable latency of Creek over Archie, {what}");
    rows.push(row(stable("most at any load"), Some(0.85), most(Pair::stable), "").at_most(0.85));
    rows.push(row(stable("half of the peak"), None, pairs[half].stable(), "").at_most(0.8));
    rows.push(row(stable("our execution times"), None, ours.stable(), ""));
    for (what, pair) in [("half of the peak", &pairs[half]), ("our execution times", ours)] {
        let mut beyond = pair.creek.read_only.beyond.clone();
        beyond.merge(&pair.creek.update.beyond);
        let quantity = format!("latency of weak replies in excess of one execution, {what}");
        rows.push(row(quantity, None, median(&beyond), "ms").at_most(0.05));
        let beyond = median(&pair.creek.strong.stable) - THREE_DELAYS_MS;
        let quantity =
            format!("latency of stable replies in excess of three message delays, {what}");
        rows.push(row(quantity, None, beyond, "ms").at_most(0.05));
    }
    rows
}

/// Measures Creek with exact replies, as servers give them, at the highest load and at half of the
/// peak.
fn rows_of_exact_replies(
    laboratory: &Laboratory<'_>,
    peaks: &Peaks,
    half: &Pair,
) -> Result<Vec<Row>, BenchError> {
    let exact = Setting { replies: Replies::Exact, ..Setting::of(Scheme::Creek, 25_000.0) };
    let load = half.creek.setting.load;
    let searched = laboratory.search_all("the peak with exact replies", vec![exact.clone()])?;
    let runs = laboratory.run_all("exact replies", vec![laboratory.at(&exact, load)])?;
    let row = |what: &str, number, unit| {
        Row::new(FIGURE, format!("{what}, with exact replies"), None, number, unit)
    };
    let mut rows = Vec::new();
    for peak in searched.iter().map(Searched::peak) {
        rows.push(row("peak of Creek", peak, "1/s"));
        rows.push(row("peak of Creek over SMR", peak / peaks.of(Scheme::Smr).peak(), ""));
    }
    for run in runs {
        let accuracy = run.update.accuracy.percent();
        let pair = Pair { creek: run, archie: half.archie.clone() };
        rows.push(row("weak latency of Creek over Archie, half of the peak", pair.weak(), ""));
        rows.push(row("stable latency of Creek over Archie, half of the peak", pair.stable(), ""));
        rows.push(row("accuracy of weak operations, half of the peak", accuracy, "%"));
    }
    Ok(rows)
}

/// Returns rows about runs at half of the peak.
fn rows_of_resources(halves: &[&Measured]) -> Vec<Row> {
    let mut rows = Vec::new();
    for it in halves {
        let at = format!("of {}, half of the peak", name_of(it.setting.scheme));
        for (what, number, unit) in [
            ("load of the cores", it.core_load(), "%"),
            ("load of the busiest protocol thread", it.thread_load(), "%"),
            ("bytes sent per operation", it.bytes_per_operation(), "B"),
            ("load of the busiest card", it.card_load(), "%"),
        ] {
            rows.push(Row::new(FIGURE, format!("{what} {at}"), None, number, unit));
        }
    }
    let machine = halves.iter().find(|it| it.setting.scheme == Scheme::Creek);
    if let Some(it) = machine {
        let quantity = "real time of Creek's machine per operation and replica";
        rows.push(Row::new(FIGURE, quantity, None, it.machine_us(), "µs").at_most(3.0));
        let quantity = "load at which this time fills one thread";
        rows.push(Row::new(FIGURE, quantity, None, 1e6 / it.machine_us(), "1/s"));
    }
    rows
}

fn rows_of_speculation(creek: &[&Measured], archie: &[&Measured]) -> Vec<Row> {
    let accuracy = |quantity: &str, of_paper: Option<f64>, of: fn(&&Measured) -> f64| {
        let least = creek.iter().map(of).fold(100.0, f64::min);
        Row::new(FIGURE, format!("accuracy of {quantity}, least at any load"), of_paper, least, "%")
    };
    let ratio = |scheme: Scheme, runs: &[&Measured]| {
        let most = runs.iter().map(|it| it.execution_ratio()).fold(0.0, f64::max);
        let quantity = format!("execution ratio of {}, most at any load", name_of(scheme));
        Row::new(FIGURE, quantity, None, most, "")
    };
    vec![
        accuracy("weak operations", Some(98.0), |it| it.update.accuracy.percent()).at_least(99.0),
        accuracy("strong operations", None, |it| it.strong.accuracy.percent()),
        ratio(Scheme::Creek, creek),
        ratio(Scheme::Archie, archie),
    ]
}

fn plots(runs: &[Vec<&Measured>; 4]) -> Vec<Plot> {
    /// Index of a scheme, a text that follows the scheme's name, and a function that returns the
    /// plotted number.
    type Line = (usize, &'static str, fn(&Measured) -> f64);
    let plot = |title: &str, y: &'static str, lines: &[Line]| {
        let series = |(scheme, what, of): &Line| Series {
            name: format!("{} {what}", name_of(SCHEMES[*scheme].0)),
            points: runs[*scheme].iter().map(|it| (it.throughput() / 1e3, of(it))).collect(),
        };
        let series = lines.iter().map(series).collect();
        Plot { title: title.to_owned(), x: "throughput (1000 operations/s)", y, series }
    };
    let [creek, archie, bayou, smr] = [0, 1, 2, 3];
    let weak = |it: &Measured| median(&it.weak());
    let last = |it: &Measured| median(&it.weak_last());
    let tentative = |it: &Measured| median(&it.strong.first);
    let stable = |it: &Measured| median(&it.strong.stable);
    let accuracy = |it: &Measured| it.update.accuracy.percent();
    let each = |of: fn(&Measured) -> f64| [0, 1, 2, 3].map(|scheme| (scheme, "", of));
    vec![
        plot(
            "Figure 1a: weak operations",
            "median latency (ms)",
            &[
                (creek, "", weak),
                (archie, "tent.", weak),
                (archie, "", last),
                (bayou, "", weak),
                (smr, "", last),
            ],
        ),
        plot(
            "Figure 1a: strong operations",
            "median latency (ms)",
            &[
                (creek, "tent.", tentative),
                (creek, "stable", stable),
                (archie, "stable", stable),
                (bayou, "tent.", tentative),
                (bayou, "stable", stable),
                (smr, "stable", stable),
            ],
        ),
        plot(
            "Figure 1b: accuracy of weak operations",
            "first response is final (%)",
            &[(creek, "", accuracy), (archie, "", accuracy), (bayou, "", accuracy)],
        ),
        plot(
            "Figure 1c: execution ratio",
            "executions per operation",
            &each(Measured::execution_ratio),
        ),
        plot("Processor load", "load of the cores (%)", &each(Measured::core_load)),
        plot("Traffic", "bytes sent per operation", &each(Measured::bytes_per_operation)),
    ]
}

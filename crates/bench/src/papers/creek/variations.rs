//! §6.3: other numbers of warehouses, shares of strong operations, times of executions, numbers of
//! replicas and cores.

use solera_creek::Scheme;
use solera_tpcc::{Costs, Weights};

use super::figure_1::{Peaks, run_pairs};
use super::measured::Measured;
use super::search::Searched;
use super::setting::Setting;
use super::{Findings, Laboratory, name_of};
use crate::error::BenchError;
use crate::papers::Row;
use crate::papers::plot::{Plot, Series};

const FIGURE: &str = "§6.3";

/// Runs all variations.
pub(super) fn run(laboratory: &Laboratory<'_>, peaks: &Peaks) -> Result<Findings, BenchError> {
    let mut findings = warehouses(laboratory, peaks)?;
    findings.rows.extend(strong(laboratory, peaks)?);
    findings.rows.extend(sizes(laboratory, peaks)?);
    Ok(findings)
}

/// Statements of the paper about a number of warehouses, and our targets.
struct Contention {
    warehouses: u16,
    /// Peak over that with 5 warehouses: the paper's, which is our target, too.
    peak: f64,
    /// Load at which the search for the peak begins.
    load: f64,
    /// The paper's least accuracy and ours, in percent.
    accuracy: (f64, f64),
    /// The paper's highest execution ratio and ours.
    ratio: (f64, f64),
}

const CONTENTION: [Contention; 2] = [
    Contention {
        warehouses: 1,
        peak: 0.34,
        load: 11_000.0,
        accuracy: (92.0, 95.0),
        ratio: (1.8, 1.6),
    },
    Contention {
        warehouses: 20,
        peak: 1.23,
        load: 40_000.0,
        accuracy: (100.0, 100.0),
        ratio: (1.1, 1.05),
    },
];

fn warehouses(laboratory: &Laboratory<'_>, peaks: &Peaks) -> Result<Findings, BenchError> {
    let schemes = laboratory.effort.pick(&[Scheme::Creek][..], &[Scheme::Creek, Scheme::Archie]);
    let settings = schemes.iter().flat_map(|scheme| {
        CONTENTION
            .iter()
            .map(|it| Setting { warehouses: it.warehouses, ..Setting::of(*scheme, it.load) })
    });
    let searched = laboratory.search_all("peaks by warehouses", settings.collect())?;
    let shares =
        laboratory.effort.pick(&[0.25, 0.5, 0.75][..], &[0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9]);
    let below = |it: &Searched| {
        let (setting, peak) = (it.peak.setting.clone(), it.peak());
        shares.iter().map(move |share| laboratory.at(&setting, peak * share))
    };
    let settings = searched.iter().flat_map(below).collect();
    let measured = laboratory.run_all("loads by warehouses", settings)?;
    let mut findings = Findings::default();
    let mut accuracy = Vec::new();
    let runs = searched.iter().zip(measured.chunks(shares.len()));
    for ((searched, runs), stated) in runs.zip(CONTENTION.iter().cycle()) {
        let runs: Vec<&Measured> =
            runs.iter().chain(&searched.lower).chain([&searched.peak]).collect();
        findings.rows.extend(rows_of_contention(stated, peaks, searched, &runs));
        let mut points: Vec<(f64, f64)> =
            runs.iter().map(|it| (it.throughput() / 1e3, it.update.accuracy.percent())).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        let scheme = name_of(searched.peak.setting.scheme);
        accuracy.push(Series { name: format!("{scheme}, {}", stated.warehouses), points });
    }
    findings.plots.push(Plot {
        title: "Accuracy of weak operations by number of warehouses".to_owned(),
        x: "throughput (1000 operations/s)",
        y: "first response is final (%)",
        series: accuracy,
    });
    Ok(findings)
}

fn rows_of_contention(
    stated: &Contention,
    peaks: &Peaks,
    searched: &Searched,
    runs: &[&Measured],
) -> Vec<Row> {
    let scheme = searched.peak.setting.scheme;
    let is_creek = scheme == Scheme::Creek;
    let row = |what: &str, of_paper: f64, number, unit| {
        let quantity = format!("{what} of {}, warehouses: {}", name_of(scheme), stated.warehouses);
        Row::new(FIGURE, quantity, of_paper, number, unit)
    };
    let over = searched.peak() / peaks.of(scheme).peak();
    let least = runs.iter().map(|it| it.update.accuracy.percent()).fold(100.0, f64::min);
    let most = runs.iter().map(|it| it.execution_ratio()).fold(0.0, f64::max);
    let peak = row("peak", stated.load, searched.peak(), "1/s");
    let over = row("peak over that with 5 warehouses", stated.peak, over, "");
    let accuracy = row("accuracy, least at any load,", stated.accuracy.0, least, "%");
    let ratio = row("execution ratio, most at any load,", stated.ratio.0, most, "");
    match is_creek {
        true => vec![
            peak,
            over.at_least(stated.peak),
            accuracy.at_least(stated.accuracy.1),
            ratio.at_most(stated.ratio.1),
        ],
        false => vec![peak, over, ratio],
    }
}

/// Measures shares of strong operations, also with executions that take five times as long.
fn strong(laboratory: &Laboratory<'_>, peaks: &Peaks) -> Result<Vec<Row>, BenchError> {
    let shares: &[u64] = laboratory.effort.pick(&[10, 50], &[10, 20, 30, 40, 50]);
    let half = peaks.of_both() / 2.0;
    let setting = |percent: u64, factor: u32| {
        let costs = Costs { factor, ..Costs::default() };
        let weights = Weights::with_payments(percent);
        let setting = Setting { weights, costs, ..Setting::of(Scheme::Creek, 1.0) };
        laboratory.at(&setting, half / f64::from(factor))
    };
    let cases: Vec<(u64, u32)> =
        shares.iter().map(|percent| (*percent, 1)).chain([(10, 5), (50, 5)]).collect();
    let settings = cases.iter().map(|(percent, factor)| setting(*percent, *factor)).collect();
    let pairs = run_pairs(laboratory, "shares of strong operations", settings)?;
    let mut rows = Vec::new();
    for ((percent, factor), pair) in cases.into_iter().zip(pairs) {
        let longer = if factor == 1 { String::new() } else { format!(", {factor} times longer") };
        let what = |what: &str| format!("{what} latency over Archie, {percent}% strong{longer}");
        let of_paper = ((percent, factor) == (50, 5)).then_some(1.0);
        let row = Row::new(FIGURE, what("stable"), of_paper, pair.stable(), "");
        rows.push(if of_paper.is_some() { row.at_most(1.0) } else { row });
        rows.push(Row::new(FIGURE, what("weak"), None, pair.weak(), ""));
        let quantity = format!("execution ratio, {percent}% strong{longer}");
        rows.push(Row::new(FIGURE, quantity, None, pair.creek.execution_ratio(), ""));
    }
    Ok(rows)
}

/// Measures the peaks with other numbers of replicas and cores, and with long executions.
fn sizes(laboratory: &Laboratory<'_>, peaks: &Peaks) -> Result<Vec<Row>, BenchError> {
    /// A name, the paper's peak over the usual one, and a setting with its expected peak over the
    /// usual one.
    type Case = (&'static str, Option<f64>, fn(&mut Setting), f64);
    let cases: [Case; 5] = [
        ("3 replicas", Some(1.0), |it| it.replicas = 3, 1.0),
        ("7 replicas", Some(1.0), |it| it.replicas = 7, 1.0),
        ("8 cores", None, |it| it.cores = 8, 0.5),
        ("32 cores", None, |it| it.cores = 32, 1.5),
        ("executions 5 times longer", Some(0.2), |it| it.costs.factor = 5, 0.2),
    ];
    // The quick experiments compare the number of cores only.
    let cases = laboratory.effort.pick(&cases[2..3], &cases[..]);
    let schemes = laboratory.effort.pick(&[Scheme::Creek][..], &[Scheme::Creek, Scheme::Archie]);
    let all: Vec<(Scheme, &Case)> =
        schemes.iter().flat_map(|scheme| cases.iter().map(move |case| (*scheme, case))).collect();
    let setting = |(scheme, (.., change, expected)): &(Scheme, &Case)| {
        let mut setting = Setting::of(*scheme, peaks.of(*scheme).peak() * expected);
        change(&mut setting);
        setting
    };
    let searched = laboratory.search_all("peaks by size", all.iter().map(setting).collect())?;
    let row = |((scheme, (name, of_paper, ..)), searched): (&(Scheme, &Case), Searched)| {
        let over = searched.peak() / peaks.of(*scheme).peak();
        let quantity = format!("peak of {} over the usual one, {name}", name_of(*scheme));
        Row::new(FIGURE, quantity, *of_paper, over, "")
    };
    Ok(all.iter().zip(searched).map(row).collect())
}

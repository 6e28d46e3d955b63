//! Figure 3's latencies and our own targets, on real processes with emulated delays.

use std::sync::Arc;
use std::time::Duration;

use super::{Findings, Laboratory};
use crate::closed_loop::{Pace, Workload as _, run_workload};
use crate::error::BenchError;
use crate::histogram::Histogram;
use crate::pairs::{self, FEW_PAIRS, PAIRS};
use crate::papers::Row;
use crate::papers::processes::{Process, Wan};
use crate::report::Report;
use crate::rubis::{self, Rubis, Scale};
use crate::session::{BenchSessions, Strong};
use crate::tally::Class;

/// Number of clients that leaves some of two cores idle, so that latencies do not include queueing.
const CLIENTS: usize = 150;

const FIGURE: &str = "Fig. 3";

/// A cluster whose strong transactions are strong, or run causally.
struct Arm {
    process: Process,
    strong: Strong,
    scale: Scale,
}

pub(super) fn run(laboratory: &Laboratory<'_>) -> Result<Findings, BenchError> {
    // Both clusters run all the time, so that each is measured while the other one is idle.
    let mut arms = [Arm::up(laboratory, Strong::Solera)?, Arm::up(laboratory, Strong::Causal)?];
    let pairs = laboratory.effort.pick(FEW_PAIRS, PAIRS);
    let measured = pairs::alternate(pairs, |pair, arm| {
        (laboratory.report)(&format!("RUBiS on real processes, pair {} of {pairs}", pair + 1));
        arms[arm].measure(laboratory, pair as u64)
    })?;
    let (beside, without): (Vec<Report>, Vec<Report>) =
        measured.into_iter().map(|[beside, without]| (beside, without)).unzip();
    let causal = [Class::Read, Class::Causal];
    let own = merged(&beside, |report| latencies(report, &causal));
    let strong = merged(&beside, |report| latencies(report, &[Class::Strong]));
    let alone = merged(&without, |report| latencies(report, &causal));
    let strong_at = |report: &Report, site: usize| {
        let at = report.classes.iter().find(|(class, _)| *class == Class::Strong);
        at.map(|(_, counts)| counts[site].latency.clone()).unwrap_or_default()
    };
    let row_at = |site: usize, quantity: &'static str, paper: Option<f64>| {
        let ours = median(&merged(&beside, |report| strong_at(report, site)));
        let rounds = beside.iter().map(|report| median(&strong_at(report, site)));
        Row::new(FIGURE, quantity, paper, ours, "ms").of_rounds(rounds)
    };
    let p50 = |report: &Report| median(&latencies(report, &causal));
    let both = || beside.iter().zip(&without);
    let ratios = both().map(|(beside, without)| p50(beside) / p50(without));
    let throughputs = both().map(|(beside, without)| beside.throughput() / without.throughput());
    let mean_of = |classes: &[Class], all: &Histogram, quantity, paper: f64| {
        let rounds = beside.iter().map(|report| mean(&latencies(report, classes)));
        Row::new(FIGURE, quantity, paper, mean(all), "ms").of_rounds(rounds)
    };

    let rows = vec![
        mean_of(&causal, &own, "average latency of causal transactions", 1.2),
        mean_of(&[Class::Strong], &strong, "average latency of strong transactions", 73.9),
        // Round trips: 61 ms to California, 90 ms to Frankfurt.
        row_at(0, "strong latency at the leader's site, p50 (paper: mean)", Some(65.4))
            .at_most(61.0 + 5.0),
        row_at(1, "strong latency at California, p50", None).at_most(61.0 + 10.0),
        row_at(2, "strong latency at Frankfurt, p50 (paper: mean)", Some(93.2))
            .at_most(90.0 + 10.0),
        Row::new(
            FIGURE,
            "causal latency, p50, with 10% strong beside over without",
            None,
            pairs::median(ratios.clone()),
            "ratio",
        )
        .of_rounds(ratios)
        .at_most(1.05),
        Row::new(
            FIGURE,
            "throughput of as many clients over CAUSAL, real processes",
            None,
            pairs::median(throughputs.clone()),
            "ratio",
        )
        .of_rounds(throughputs),
    ];
    let pace = pace(laboratory);
    let notes = vec![format!(
        "Latencies: RUBiS' bidding mix by {CLIENTS} clients that think 500 ms, on `solera up --wan aws` of three sites with one \
         worker each, in one process beside the clients'; a cluster with strong transactions and one where all of \
         them are causal in turn, {pairs} pairs of {:.1} s each, of whose ratios the medians are shown. Medians of causal \
         transactions over all pairs: {:.2} ms and {:.2} ms; averages {:.2} ms and {:.2} ms. Strong transactions read and write in three to four \
         round trips to their own site before they commit, which is part of their latency.",
        pace.window.as_secs_f64(),
        median(&own),
        median(&alone),
        mean(&own),
        mean(&alone),
    )];
    Ok(Findings { rows, plots: Vec::new(), notes })
}

fn pace(laboratory: &Laboratory<'_>) -> Pace {
    Pace {
        clients: CLIENTS,
        threads: 1,
        think: Duration::from_millis(500),
        ramp_up: Duration::from_millis(300),
        warm_up: Duration::from_millis(laboratory.effort.pick(300, 1000)),
        window: Duration::from_millis(laboratory.effort.pick(1000, 6000)),
    }
}

impl Arm {
    /// Starts the cluster, and loads the data.
    fn up(laboratory: &Laboratory<'_>, strong: Strong) -> Result<Arm, BenchError> {
        let scale: Scale =
            laboratory.effort.pick("tiny", "small").parse().map_err(BenchError::Settings)?;
        let config = match strong {
            Strong::Solera => rubis::schema::SPACES,
            Strong::Causal => "",
        };
        let mut process = Process::up(config, 3, Wan::Named("aws"))?;
        let runtime = crate::runtime()?;
        let place = process.place(&runtime)?;
        let rubis = Arc::new(Rubis::new(scale, 1, crate::run_name(), None));
        runtime.block_on(rubis::load::load(&rubis, &place, strong))?;
        Ok(Arm { process, strong, scale })
    }

    /// Loads the cluster for a while, with the same clients in each round as the other cluster.
    fn measure(&mut self, laboratory: &Laboratory<'_>, round: u64) -> Result<Report, BenchError> {
        let place = self.process.place(&crate::runtime()?)?;
        let rubis = Arc::new(Rubis::new(self.scale, 1 + round, crate::run_name(), None));
        let pace = pace(laboratory);
        let ran = run_workload(&rubis, &BenchSessions::new(&place, self.strong), &pace)?;
        Ok(Report::new(
            format!("rubis, {}", self.scale),
            self.strong,
            &pace,
            place.sites(),
            &rubis.kinds(),
            ran.tally,
            Vec::new(),
        ))
    }
}

fn latencies(report: &Report, classes: &[Class]) -> Histogram {
    let mut all = Histogram::default();
    classes.iter().for_each(|class| all.merge(&report.class(*class).latency));
    all
}

fn merged(reports: &[Report], of: impl Fn(&Report) -> Histogram) -> Histogram {
    let mut all = Histogram::default();
    reports.iter().for_each(|report| all.merge(&of(report)));
    all
}

fn mean(histogram: &Histogram) -> f64 {
    histogram.mean().unwrap_or_default().as_secs_f64() * 1000.0
}

fn median(histogram: &Histogram) -> f64 {
    histogram.quantile(0.5).unwrap_or_default().as_secs_f64() * 1000.0
}

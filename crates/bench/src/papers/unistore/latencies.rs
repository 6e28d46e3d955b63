//! Figure 3's latencies and our own targets, on real processes with emulated delays.

use std::sync::Arc;
use std::time::Duration;

use super::{Findings, Laboratory};
use crate::driver::{Pace, Workload as _, drive};
use crate::error::BenchError;
use crate::histogram::Histogram;
use crate::papers::Row;
use crate::papers::processes::Process;
use crate::report::Report;
use crate::rubis::{self, Rubis, Scale};
use crate::session::Strong;
use crate::tally::Class;

/// A few hundred clients leave some of two cores idle, so that latencies are not those of a queue.
const CLIENTS: usize = 150;

/// What is run, and whether its strong transactions are.
const UNISTORE: (&str, Strong) = ("unistore", Strong::Solera);
const CAUSAL: (&str, Strong) = ("causal", Strong::Causal);

pub(super) fn run(laboratory: &Laboratory<'_>) -> Result<Findings, BenchError> {
    let rounds = laboratory.pick(1, 3);
    let (mut beside, mut without) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        beside.push(measure(laboratory, UNISTORE)?);
        without.push(measure(laboratory, CAUSAL)?);
    }
    let causal = [Class::Read, Class::Causal];
    let own = merged(&beside, |report| latencies(report, &causal));
    let strong = merged(&beside, |report| latencies(report, &[Class::Strong]));
    let alone = merged(&without, |report| latencies(report, &causal));
    let at = |site: usize| {
        median(&merged(&beside, |report| {
            let at = report.classes.iter().find(|(class, _)| *class == Class::Strong);
            at.map(|(_, counts)| counts[site].latency.clone()).unwrap_or_default()
        }))
    };
    let throughput = |reports: &[Report]| reports.iter().map(Report::throughput).sum::<f64>();

    let figure = "Fig. 3";
    let rows = vec![
        Row::new(figure, "average latency of causal transactions", 1.2, mean(&own), "ms"),
        Row::new(figure, "average latency of strong transactions", 73.9, mean(&strong), "ms"),
        // Round trips: 61 ms to California, 90 ms to Frankfurt.
        Row::new(
            figure,
            "strong latency at the leader's site, p50 (paper: mean)",
            65.4,
            at(0),
            "ms",
        )
        .at_most(61.0 + 5.0),
        Row::new(figure, "strong latency at California, p50", None, at(1), "ms")
            .at_most(61.0 + 10.0),
        Row::new(figure, "strong latency at Frankfurt, p50 (paper: mean)", 93.2, at(2), "ms")
            .at_most(90.0 + 10.0),
        Row::new(
            figure,
            "causal latency, p50, with 10% strong beside over without",
            None,
            median(&own) / median(&alone),
            "ratio",
        )
        .at_most(1.05),
        Row::new(
            figure,
            "throughput of as many clients over CAUSAL, real processes",
            None,
            throughput(&beside) / throughput(&without),
            "ratio",
        ),
    ];
    let pace = pace(laboratory);
    let notes = vec![format!(
        "Latencies: RUBiS' bidding mix by {CLIENTS} clients that think 500 ms, on `solera up --wan aws` of three sites with one \
         worker each, in one process beside the clients'; {} round(s) of {} s each, with strong \
         transactions and with all of them causal in turn. Medians of causal transactions: {:.2} ms and \
         {:.2} ms; averages {:.2} ms and {:.2} ms. Strong transactions read and write in three to four \
         round trips to their own site before they commit, which is part of their latency.",
        rounds,
        pace.window.as_secs(),
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
        ramp_up: Duration::from_secs(1),
        warm_up: Duration::from_secs(laboratory.pick(1, 5)),
        window: Duration::from_secs(laboratory.pick(7, 25)),
    }
}

fn measure(
    laboratory: &Laboratory<'_>,
    (protocol, strong): (&str, Strong),
) -> Result<Report, BenchError> {
    (laboratory.tell)(&format!("RUBiS on real processes, protocol '{protocol}'"));
    let scale: Scale = laboratory.pick("tiny", "small").parse().map_err(BenchError::Settings)?;
    let config = match strong {
        Strong::Solera => format!("protocol = \"{protocol}\"\n{}", rubis::schema::SPACES),
        Strong::Causal => String::new(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(BenchError::Threads)?;
    let mut process = Process::up(&config)?;
    let place = process.place(&runtime)?;
    let rubis = Arc::new(Rubis::new(scale, 1, crate::run_name(), None));
    runtime.block_on(rubis::load::load(&rubis, &place, strong))?;
    let pace = pace(laboratory);
    let ran = drive(&rubis, &place, strong, &pace)?;
    let report = Report::new(
        format!("rubis, {scale}"),
        strong,
        &pace,
        place.sites(),
        &rubis.kinds(),
        ran.tally,
        Vec::new(),
    );
    Ok(report)
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

//! Figure 15: throughput by the share of causal transactions, and the cost of witnesses.

use std::sync::Arc;

use super::counters::{COUNTERS, Counting, SOURCE};
use super::load::Ran;
use super::place::{Deployment, MIXED, Setting};
use super::shaped::Tracking;
use super::{Findings, Laboratory};
use crate::error::BenchError;
use crate::pairs::{self, FEW_PAIRS, PAIRS};
use crate::papers::Row;
use crate::papers::plot::{Plot, Series};
use crate::random::Zipf;

const FIGURE: &str = "Fig. 15";

/// Series: name, treatment of witnesses, and whether transactions span both stores.
const SERIES: [(&str, Tracking, bool); 5] = [
    ("one store each", Tracking::Off, false),
    ("mixed, no witnesses", Tracking::Off, true),
    ("mixed, witnesses", Tracking::On, true),
    ("1% late", Tracking::Late(1), true),
    ("all late", Tracking::Late(100), true),
];

/// The two series that show the cost of witnesses.
const WITHOUT: usize = 1;
const WITH: usize = 2;

#[expect(
    clippy::too_many_lines,
    reason = "an experiment, in the order in which it runs and is reported"
)]
pub(super) fn run(laboratory: &Laboratory<'_>, place: &Deployment) -> Result<Findings, BenchError> {
    let popular = Arc::new(Zipf::new(COUNTERS));
    let shares = laboratory.effort.pick(&[0, 90, 100][..], &[0, 20, 40, 60, 80, 90, 95, 100]);
    let rounds = laboratory.effort.pick(1, 4);
    let pace = laboratory.pace(place);
    let measure = |causal: u8, reads: u8, series: usize, round: u64| {
        let (_, tracking, bridging) = SERIES[series];
        let bound = place.bind(SOURCE, ["strong", "weak"], Setting { tracking, ..MIXED })?;
        let popular = Arc::clone(&popular);
        let script = Counting { causal, reads, bridging, popular, weak: None };
        let scripts = std::iter::repeat_n(script, pace.clients);
        bound.load(scripts, pace, u64::from(causal) << 8 | round)
    };
    // With long delays between sites, results vary little from round to round, so more rounds would
    // add little information.
    let mut points = vec![vec![Ran::default(); SERIES.len()]; shares.len()];
    let mut dearest = (f64::NEG_INFINITY, 0);
    for (causal, series) in shares.iter().zip(&mut points) {
        (laboratory.report)(&format!("{}: {causal}% causal counters", place.title));
        for round in 0..rounds {
            for (number, ran) in series.iter_mut().enumerate() {
                let all_alike = matches!(causal, 0 | 100) && number > 0;
                let seldom = number > WITH && round > 0;
                if !all_alike && !seldom {
                    let once = measure(*causal, 70, number, round)?;
                    ran.add(&once);
                }
            }
        }
        // If all counters are in one store, all series are the same, so only the first is measured.
        let first = series[0].clone();
        series.iter_mut().filter(|ran| ran.window.is_zero()).for_each(|ran| *ran = first.clone());
        let together = cost(series[WITH].per_second(), series[WITHOUT].per_second());
        if together > dearest.0 && !matches!(causal, 0 | 100) {
            dearest = (together, *causal);
        }
    }
    let (_, dearest) = dearest;
    let pairs = laboratory.effort.pick(FEW_PAIRS, PAIRS);
    let costs = pairs::alternate(pairs, |pair, arm| {
        (laboratory.report)(&format!(
            "{}: what witnesses cost, pair {} of {pairs}",
            place.title,
            pair + 1
        ));
        let series = [WITHOUT, WITH][arm];
        measure(dearest, 70, series, rounds + pair as u64).map(|ran| ran.per_second())
    })?;
    let costs = costs.into_iter().map(|[without, with]| cost(with, without));
    (laboratory.report)(&format!("{}: only reading, only writing", place.title));
    let reading = measure(80, 100, WITH, 0)?.per_second();
    let writing = measure(80, 0, WITH, 0)?.per_second();

    let title = place.title;
    let per_second = |share: usize, series: usize| points[share][series].per_second();
    let last = shares.len() - 1;
    let mut rows = vec![
        Row::new(FIGURE, format!("{title}: all linearizable"), None, per_second(0, 0), "tps"),
        Row::new(FIGURE, format!("{title}: all causal"), None, per_second(last, 0), "tps"),
        Row::new(
            FIGURE,
            format!("{title}: witnesses cost at most (at {dearest}% causal)"),
            10.0,
            pairs::median(costs.clone()),
            "%",
        )
        .of_rounds(costs)
        .at_most(5.0),
        Row::new(
            FIGURE,
            format!("{title}: only reading over only writing"),
            1.2,
            reading / writing,
            "ratio",
        ),
    ];
    for (share, causal) in shares.iter().enumerate().filter(|(_, causal)| **causal == 60) {
        let ratio = per_second(share, WITH) / per_second(0, 0);
        let what = format!("{title}: {causal}% causal over all linearizable");
        rows.push(Row::new(FIGURE, what, None, ratio, "ratio"));
    }
    let series = SERIES.iter().enumerate().map(|(number, (name, ..))| Series {
        name: (*name).to_owned(),
        points: shares
            .iter()
            .enumerate()
            .map(|(share, causal)| (f64::from(*causal), per_second(share, number)))
            .collect(),
    });
    let plot = Plot {
        title: format!("Counters, {title}"),
        x: "causal transactions, %",
        y: "transactions per second",
        series: series.collect(),
    };
    let notes = vec![format!(
        "Figure 15, {title}: {} clients, 70% reads, {COUNTERS} counters in each store, read by Zipf's distribution and \
         written alike. A client chooses anew between causal and linearizable transactions before one of ten on \
         average; in the series called mixed, what follows a change has a phase in both stores. Each number is of \
         {rounds} rounds of {:.1} s, in turn with the other series; late ones of one round. What witnesses cost is the median of \
         {pairs} alternating pairs at the share where the curves differ most.",
        pace.clients,
        pace.window.as_secs_f64()
    )];
    Ok(Findings { rows, plots: vec![plot], notes })
}

/// Returns the loss of throughput due to witnesses, in percent.
fn cost(with: f64, without: f64) -> f64 {
    100.0 * (1.0 - with / without)
}

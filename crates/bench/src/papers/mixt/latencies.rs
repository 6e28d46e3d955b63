//! Figure 16: latencies of transactions, with late witnesses and without witnesses.

use std::sync::Arc;
use std::time::Duration;

use super::counters::{self, COUNTERS, Counting, SOURCE};
use super::load::{Pace, Ran};
use super::place::{Deployment, MIXED, Setting};
use super::shaped::Tracking;
use super::{Findings, Laboratory};
use crate::error::BenchError;
use crate::papers::Row;
use crate::papers::plot::{Plot, Series};
use crate::random::Zipf;

const FIGURE: &str = "Fig. 16";

/// Kinds of transactions that the paper plots.
const KINDS: [&str; 4] =
    [counters::READ_WEAK, counters::ADD_WEAK, counters::READ_STRONG, counters::ADD_STRONG];

pub(super) fn run(laboratory: &Laboratory<'_>, place: &Deployment) -> Result<Findings, BenchError> {
    (laboratory.report)(&format!("{}: latencies", place.title));
    let popular = Arc::new(Zipf::new(COUNTERS));
    let measure = |tracking, pace: Pace| {
        let bound = place.bind(SOURCE, ["strong", "weak"], Setting { tracking, ..MIXED })?;
        let popular = Arc::clone(&popular);
        let script = Counting { causal: 75, reads: 75, bridging: true, popular, weak: None };
        bound.load(std::iter::repeat_n(script, pace.clients), pace, 16)
    };
    // The clients pause so that they reach 60% of their maximum throughput.
    let full = laboratory.pace(place);
    let most = measure(Tracking::Off, full)?.per_second();
    let cycle = full.clients as f64 / most;
    let think = Duration::from_secs_f64(cycle * (1.0 / 0.6 - 1.0));
    let pace = Pace { think, window: full.window * 2, ..full };
    let mut untracked = Ran::default();
    let mut tracked = Ran::default();
    for _ in 0..laboratory.effort.pick(1, 3) {
        untracked.add(&measure(Tracking::Off, pace)?);
        tracked.add(&measure(Tracking::Late(100), pace)?);
    }
    let mut rows = Vec::new();
    for kind in KINDS {
        let [without, with] = [&untracked, &tracked].map(|ran| at(ran, kind, 0.5));
        let row = |what, ours| Row::new(FIGURE, format!("{kind}, p50, {what}"), None, ours, "ms");
        rows.push(row("untracked", without));
        rows.push(row("tracked", with));
        if kind == counters::READ_STRONG || kind == counters::ADD_STRONG {
            let what = format!("{kind}, p50, tracked over untracked");
            rows.push(Row::new(FIGURE, what, 1.0, with / without, "ratio").at_most(1.05));
        }
    }
    let mut series = Vec::new();
    for (name, ran) in [("U", &untracked), ("T", &tracked)] {
        for kind in KINDS {
            let percents = (1..=99)
                .map(|percent| (at(ran, kind, f64::from(percent) / 100.0), f64::from(percent)));
            series.push(Series { name: format!("{kind}, {name}"), points: percents.collect() });
        }
    }
    let plot = Plot {
        title: "Latencies of counters".to_owned(),
        x: "ms",
        y: "transactions done, %",
        series,
    };
    let notes = vec![format!(
        "Figure 16, {}: 75% reads, 75% causal, at 60% of what {} clients can do. T: with witnesses, and wherever they \
         are looked for, that takes 30 ms longer; U: without.",
        place.title, pace.clients
    )];
    Ok(Findings { rows, plots: vec![plot], notes })
}

/// Returns a quantile of a kind's latencies, in milliseconds.
fn at(ran: &Ran, kind: &str, part: f64) -> f64 {
    let time = ran.latencies.get(kind).and_then(|latency| latency.quantile(part));
    time.unwrap_or_default().as_secs_f64() * 1000.0
}

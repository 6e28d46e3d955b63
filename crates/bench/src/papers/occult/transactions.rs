//! Figures 7 and 9c: transactions of T operations, the causes of their aborts, and their latency.

use std::time::Duration;

use solera_occult::Scheme;

use super::{CARD, Findings, KEYS, Laboratory, Run, Setting, ms};
use crate::papers::plot::{Plot, Series};
use crate::papers::{Effort, Row};
use crate::virtual_cluster::occult::clients::{Measured, Sessions};
use crate::ycsb::Distribution;

const FIGURE: &str = "Fig. 7";
/// Size of transactions for which the causes of aborts are compared.
const LARGE: u64 = 20;
const CAUSES: [&str; 3] = ["locked", "read set", "overwrite set"];

/// The scale of the clusters that run transactions.
pub(super) struct Scale {
    /// Bandwidth of a card, in bits per second. Fewer operations saturate a slower card, so a run
    /// takes less work.
    pub(super) card: u64,
    pub(super) keys: u64,
    pub(super) clients: usize,
}

impl Scale {
    pub(super) fn of(effort: Effort) -> Scale {
        match effort {
            Effort::Quick => Scale { card: 20_000_000, keys: 2_000, clients: 240 },
            Effort::Full => Scale { card: CARD, keys: KEYS, clients: 12_000 },
        }
    }
}

pub(super) fn run(laboratory: &Laboratory<'_>) -> Findings {
    let sizes: &[u64] = laboratory.effort.pick(&[2, 20], &[2, 5, 10, 15, 20]);
    let stamps: &[u16] = laboratory.effort.pick(&[2, 8], &[2, 4, 6, 8]);
    let of = |operations: u64, per_site: u16| {
        let mut workload = laboratory.workload(95, Sessions::Causal);
        let scale = Scale::of(laboratory.effort);
        (workload.operations, workload.keys) = (operations, scale.keys);
        let name = format!("T {operations}, {} stamps", 2 * per_site);
        let run = laboratory.saturated(name, Scheme::PerSite(per_site), workload);
        let setting = Setting { card: Some(scale.card), ..run.setting };
        let (warm_up, window) = (Duration::from_millis(300), Duration::from_millis(700));
        Run { setting, clients: scale.clients, warm_up, window, ..run }
    };
    let single = of(1, 4);
    let by_size: Vec<Run> = sizes.iter().map(|size| of(*size, 4)).collect();
    let by_stamps: Vec<Run> = stamps.iter().map(|stamps| of(LARGE, *stamps)).collect();
    let mut once = of(LARGE, 4);
    (once.setting.lock_tries, once.name) = (1, "one lock attempt".to_owned());
    let mut uniform = of(LARGE, 4);
    uniform.workload.distribution = Distribution::Uniform;
    uniform.name = "uniform".to_owned();
    let (of_size, of_stamps) = (by_size.len(), by_stamps.len());
    let runs: Vec<Run> =
        [single].into_iter().chain(by_size).chain(by_stamps).chain([once, uniform]).collect();
    let measured = laboratory.run_all("transactions", runs);
    let (single, measured) = measured.split_first().expect("single operations are first");
    let (by_size, measured) = measured.split_at(of_size);
    let (by_stamps, others) = measured.split_at(of_stamps);

    let mut rows = Vec::new();
    for (size, measured) in sizes.iter().zip(by_size) {
        let share = 100.0 * measured.goodput() / single.goodput();
        let quantity = format!("goodput with T = {size}, of single operations'");
        // The paper gives 60 to 70% for all sizes.
        rows.push(Row::new(FIGURE, quantity, 60.0, share, "%").at_least(70.0));
        rows.extend(aborts(measured, &format!("T = {size}, 8 stamps")));
        let quantity = format!("mean latency with T = {size}, from begin to commit");
        rows.push(Row::new("Fig. 9", quantity, None, ms(measured.latency.mean()), "ms"));
        let quantity = format!("mean latency of a commit with T = {size}");
        rows.push(Row::new("Fig. 9", quantity, None, ms(measured.commits.mean()), "ms"));
    }
    for (stamps, measured) in stamps.iter().zip(by_stamps) {
        rows.extend(aborts(measured, &format!("T = 20, {} stamps", 2 * stamps)));
    }
    let locked = |measured: &Measured| measured.aborts.get("locked").copied().unwrap_or(0);
    if let Some(last) = by_size.last() {
        let share = 100.0 * last.locked_hot as f64 / locked(last).max(1) as f64;
        let quantity = "failed locks on the 50 hottest keys, T = 20";
        rows.push(Row::new(FIGURE, quantity, 80.0, share, "%"));
    }
    for (measured, what) in others.iter().zip(["one lock attempt", "uniform keys"]) {
        rows.extend(aborts(measured, &format!("T = 20, {what}")));
    }
    let points = |of: fn(&Measured) -> f64| {
        sizes.iter().zip(by_size).map(|(size, measured)| (*size as f64, of(measured))).collect()
    };
    let plot = Plot {
        title: "Aborts by the size of transactions".to_owned(),
        x: "operations of a transaction",
        y: "aborted (%)",
        series: vec![Series {
            name: "8 stamps".to_owned(),
            points: points(|measured| 100.0 * measured.abort_rate()),
        }],
    };
    Findings { rows, plots: vec![plot], ..Findings::default() }
}

/// Returns the rows of the aborts of a run, all and by cause.
fn aborts(measured: &Measured, what: &str) -> Vec<Row> {
    let all: u64 = measured.aborts.values().sum();
    let ended = (all + measured.latency.count()).max(1) as f64;
    let row = |cause: &str, count: u64| {
        let quantity = format!("aborts with {what}{cause}");
        Row::new(FIGURE, quantity, None, 100.0 * count as f64 / ended, "%")
    };
    let of_cause = |cause: &&'static str| {
        row(&format!(": {cause}"), measured.aborts.get(cause).copied().unwrap_or(0))
    };
    [row("", all)].into_iter().chain(CAUSES.iter().map(of_cause)).collect()
}

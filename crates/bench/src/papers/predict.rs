//! Whether virtual clusters predict real ones: `solera papers calibrate --predict`.
//!
//! Throughput where workers have no time left, of one site in memory with one and two workers. Of the real one it is told by
//! the processor time of a transaction: clients and server share the cores of this machine, so that the server is
//! never alone in being busy.

use std::sync::Arc;
use std::time::Duration;

use solera_node::Baseline;

use super::processes::{Process, Wan};
use crate::driver::{Pace, Workload as _, drive};
use crate::error::BenchError;
use crate::load;
use crate::micro::{self, Micro};
use crate::requests::processor_time;
use crate::session::Strong;
use crate::virtual_cluster::cluster::VirtualCluster;
use crate::virtual_cluster::cost::Costs;
use crate::virtual_cluster::meter::Meter;
use crate::virtual_cluster::shape::{Shape, VIRGINIA};
use crate::virtual_cluster::three_items::ThreeItems;

/// Enough that workers find something to do whenever they look.
const CLIENTS: usize = 64;
const PARTITIONS: u16 = 16;
/// How often the real cluster is measured; the median counts.
const REPEATS: usize = 5;

/// Predicts and measures. Returns a line for each shape.
///
/// # Errors
/// The real cluster cannot be started, or does not answer.
pub fn predict(tell: &dyn Fn(&str)) -> Result<Vec<String>, BenchError> {
    let mut lines = Vec::new();
    for workers in [1, 2] {
        for updates in [15, 100] {
            let micro =
                Micro { keys: 10_000, updates, strong: 0, hot: 0, value_bytes: 100, seed: 1 };
            tell(&format!("{workers} workers, {updates}% updates"));
            let (predicted, real) = (predicted(workers, &micro), measured(workers, &micro)?);
            lines.push(format!(
                "one site, {workers} workers, {updates}% updates: {predicted:.0} transactions per second predicted, {real:.0} \
                 measured: {:+.0}%",
                100.0 * (predicted / real - 1.0)
            ));
        }
    }
    Ok(lines)
}

fn predicted(workers: u8, micro: &Micro) -> f64 {
    let shape = Shape {
        variant: Baseline::UniStore,
        regions: vec![VIRGINIA],
        partitions: PARTITIONS,
        workers,
        cores_per_node: workers,
        f: 0,
        slowness: 1.0,
    };
    let meter = Meter::Table(Costs::shipped().of(shape.variant));
    let items = ThreeItems::new(micro.clone(), PARTITIONS, true);
    let mut cluster = VirtualCluster::new(shape, meter, items, Duration::ZERO);
    cluster.set_clients(CLIENTS);
    let measured = cluster.measure(Duration::from_millis(200), Duration::from_millis(500));
    measured.per_second() / measured.busy.0
}

fn measured(workers: u8, micro: &Micro) -> Result<f64, BenchError> {
    let spaces = micro::SPACES;
    let config = format!("partitions = {PARTITIONS}\nworkers = {workers}\n{spaces}");
    let mut process = Process::up(&config, 1, Wan::Named("none"))?;
    let runtime = crate::runtime()?;
    let place = process.place(&runtime)?;
    let filled = load::fill(&place, Strong::Solera, micro.parts());
    runtime.block_on(filled).map_err(BenchError::Load)?;
    let micro = Arc::new(micro.clone());
    let pace = Pace {
        clients: CLIENTS,
        threads: 1,
        think: Duration::ZERO,
        ramp_up: Duration::ZERO,
        warm_up: Duration::ZERO,
        window: Duration::from_secs(2),
    };
    let spent = || processor_time(process.id()).map_err(BenchError::Start);
    let mut rates = Vec::new();
    for _ in 0..REPEATS {
        let before = spent()?;
        let ran = drive(&micro, &place, Strong::Solera, &pace)?;
        let spent = spent()?.saturating_sub(before);
        let of_kind = |kind| ran.tally.of_kind(kind).latency.count();
        let transactions: u64 = (0..micro.kinds().len()).map(of_kind).sum();
        rates.push(f64::from(workers) * 1e9 * transactions as f64 / spent.max(1) as f64);
    }
    Ok(crate::pairs::median(rates))
}

//! Compares predictions of virtual clusters with real ones, for `solera papers calibrate
//! --predict`.
//!
//! Measures transactions per second of the workers' processor time, at one site in memory with one
//! and two workers. Clients and server share the cores of this machine, so workers sometimes wait
//! for a core, and receive transactions at a lower rate. At lower rates fewer transactions share
//! one system call that waits for input. The pauses of virtual clients are therefore chosen so that
//! virtual workers receive transactions at the rate of the real ones; they are zero if that rate
//! cannot be reached.

use std::sync::Arc;
use std::time::Duration;

use super::processes::{Process, Wan};
use crate::closed_loop::{Pace, Workload as _, run_workload};
use crate::error::BenchError;
use crate::load;
use crate::micro::{self, Micro};
use crate::place::TargetCluster;
use crate::requests::processor_time;
use crate::session::{BenchSessions, Strong};
use crate::virtual_cluster::cluster::VirtualCluster;
use crate::virtual_cluster::cost::Costs;
use crate::virtual_cluster::host::Reference;
use crate::virtual_cluster::meter::Meter;
use crate::virtual_cluster::shape::Shape;
use crate::virtual_cluster::three_items::ThreeItems;

/// Number of clients, enough that workers always find work.
const CLIENTS: usize = 64;
const PARTITIONS: u16 = 16;
/// Number of measurements of the real cluster; the median counts.
const REPEATS: usize = 5;
/// Number of bisections of the clients' pause: to less than 2% of the time between transactions.
const HALVINGS: usize = 6;

/// Predicts and measures, and returns a line for each shape.
///
/// Remeasures the factors between counts and times before each measurement of the real cluster,
/// because other programs slow both down.
///
/// # Errors
/// Fails if the real cluster cannot be started, or does not answer.
pub fn predict(report: &dyn Fn(&str)) -> Result<Vec<String>, BenchError> {
    let mut lines = Vec::new();
    for workers in [1, 2] {
        for updates in [15, 100] {
            let micro =
                Micro { keys: 10_000, updates, strong: 0, hot: 0, value_bytes: 100, seed: 1 };
            report(&format!("{workers} workers, {updates}% updates"));
            let [predicted, real, ratio] = compare(workers, &micro)?;
            lines.push(format!(
                "one site, {workers} workers, {updates}% updates: {predicted:.0} transactions per busy second predicted, {real:.0} \
                 measured: {:+.0}%",
                100.0 * (ratio - 1.0)
            ));
        }
    }
    Ok(lines)
}

/// Returns the medians of the prediction, of the measurement, and of their ratio.
fn compare(workers: u8, micro: &Micro) -> Result<[f64; 3], BenchError> {
    let mut costs = (*Costs::shipped()).clone();
    let (reference, real) = (Reference::of(&costs), Real::start(workers, micro)?);
    let (mut predictions, mut rates, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        let factors = reference.factors();
        costs.factors = factors.map_err(|error| BenchError::Start(error.to_string()))?;
        let rate = real.rate()?;
        let predicted = predicted(workers, micro, &costs, rate.elapsed);
        predictions.push(predicted);
        rates.push(rate.busy);
        ratios.push(predicted / rate.busy);
    }
    Ok([predictions, rates, ratios].map(crate::pairs::median))
}

/// Predicts the throughput at a rate of `rate` transactions per second.
fn predicted(workers: u8, micro: &Micro, costs: &Costs, rate: f64) -> f64 {
    let run = |think| {
        let shape = Shape::one_site(PARTITIONS, workers);
        let meter = Meter::Table(costs.of(shape.variant));
        let items = ThreeItems::new(micro.clone(), PARTITIONS, true);
        let mut cluster = VirtualCluster::new(shape, meter, items, Duration::from_secs_f64(think));
        cluster.set_clients(CLIENTS);
        cluster.measure(Duration::from_millis(200), Duration::from_millis(500))
    };
    // With the pause `most`, the rate would be too low even if transactions took no time.
    let (mut least, mut most) = (0.0, CLIENTS as f64 / rate);
    let mut measured = run(least);
    for _ in 0..HALVINGS {
        let think = (least + most) / 2.0;
        let next = run(think);
        if next.per_second() < rate {
            most = think;
        } else {
            (least, measured) = (think, next);
        }
    }
    measured.per_second() / measured.busy.0
}

/// Transactions per second.
struct Rate {
    /// Per second of elapsed time.
    elapsed: f64,
    /// Per second of processor time of all workers.
    busy: f64,
}

/// A real cluster.
struct Real {
    workers: u8,
    micro: Arc<Micro>,
    process: Process,
    place: TargetCluster,
}

impl Real {
    fn start(workers: u8, micro: &Micro) -> Result<Real, BenchError> {
        let spaces = micro::SPACES;
        let config = format!("partitions = {PARTITIONS}\nworkers = {workers}\n{spaces}");
        let mut process = Process::up(&config, 1, Wan::Named("none"))?;
        let runtime = crate::runtime()?;
        let place = process.place(&runtime)?;
        let filled = load::fill(&place, Strong::Solera, micro.parts());
        runtime.block_on(filled).map_err(BenchError::Load)?;
        Ok(Real { workers, micro: Arc::new(micro.clone()), process, place })
    }

    /// Measures while the clients run for a while.
    fn rate(&self) -> Result<Rate, BenchError> {
        let pace = Pace {
            clients: CLIENTS,
            threads: 1,
            think: Duration::ZERO,
            ramp_up: Duration::ZERO,
            warm_up: Duration::ZERO,
            window: Duration::from_secs(2),
        };
        let spent = || processor_time(self.process.id()).map_err(BenchError::Start);
        let before = spent()?;
        let ran =
            run_workload(&self.micro, &BenchSessions::new(&self.place, Strong::Solera), &pace)?;
        let spent = spent()?.saturating_sub(before);
        let of_kind = |kind| ran.tally.of_kind(kind).latency.count();
        let transactions: u64 = (0..self.micro.kinds().len()).map(of_kind).sum();
        Ok(Rate {
            elapsed: transactions as f64 / pace.window.as_secs_f64(),
            busy: f64::from(self.workers) * 1e9 * transactions as f64 / spent.max(1) as f64,
        })
    }
}

//! Figure 2: queues of writes at replicas, one of which is too slow.

use std::time::Duration;

use solera_data::{Key, Op};
use solera_levels::Level;
use solera_machine::Address;
use solera_occult::{Scheme, Shows};
use solera_time::SiteId;
use solera_unistore::Kind;

use super::{Findings, Laboratory, Setting, World};
use crate::papers::Row;
use crate::papers::plot::{Plot, Series};
use crate::random::Random;
use crate::tally::Class;
use crate::virtual_cluster::cluster::VirtualCluster;
use crate::virtual_cluster::cost::Costs;
use crate::virtual_cluster::meter::Meter;
use crate::virtual_cluster::occult::clients::{Sessions, Workload, key};
use crate::virtual_cluster::occult::processes::PROCESSES;
use crate::virtual_cluster::occult::world::by_load;
use crate::virtual_cluster::shape::{CALIFORNIA, Shape, VIRGINIA};
use crate::virtual_cluster::source::{Source, Step, Transaction};

const FIGURE: &str = "Fig. 2";
/// Number of clients, as in the paper. The clients of the other site only read there, and do not
/// affect the queues.
pub(super) const CLIENTS: usize = 10;
/// Time that a write takes at the slow replica, which receives more writes than it can apply.
const TAKES: Duration = Duration::from_millis(100);
/// Number of points in time at which the queues are measured.
const SAMPLES: u32 = 20;
/// Number of keys. Exact timestamps grow with the number of their shards.
pub(super) const KEYS: u64 = 200;

/// Lengths of the queues beside the slow replica, by time in seconds.
type Lengths = Vec<(f64, f64)>;

pub(super) fn run(laboratory: &Laboratory<'_>) -> Findings {
    let workload = laboratory.workload(95, Sessions::Causal).with_keys(KEYS);
    let middle = by_load(&workload).into_iter().filter(|address| address.site == SiteId(1));
    let worker = middle.map(|Address { worker, .. }| worker).nth(PROCESSES / 2).unwrap_or(0);
    let slow = Address { site: SiteId(1), worker };
    let time: Duration = laboratory.effort.pick(Duration::from_secs(2), Duration::from_secs(6));
    let mut rows = Vec::new();
    let mut queues: Vec<(&str, Lengths)> = Vec::new();
    let runs = [
        ("pessimistic, none slow", Shows::AfterDependencies, None),
        ("pessimistic, one slow", Shows::AfterDependencies, Some((slow, TAKES))),
        ("Occult, one slow", Shows::AtOnce, Some((slow, TAKES))),
    ];
    for (kind, shows, overloaded) in runs {
        let setting = Setting { one_home: true, shows, overloaded, ..Setting::of(Scheme::Exact) };
        let mut world = World::new(setting, workload.clone());
        world.add_clients(CLIENTS);
        let sample = |length| {
            world.run_for(length);
            world.held_beside(slow)
        };
        queues.push((kind, sampled(time, sample)));
        rows.push(arrivals(kind, world.arrived as f64, time));
        if shows == Shows::AtOnce {
            let waiting = world.at_slow() as f64;
            let quantity = format!("writes that wait at the slow replica: {kind}");
            rows.push(Row::new(FIGURE, quantity, None, waiting, ""));
        }
        (laboratory.report)(&format!("queues of writes at replicas: {kind}"));
    }
    let (lengths, arrived) = unistore(&workload, worker, time);
    queues.push(("UniStore, one slow", lengths));
    rows.push(arrivals("UniStore, one slow", arrived, time));
    (laboratory.report)("queues of writes at replicas: UniStore, one slow");
    for (kind, lengths) in &queues {
        for (at, length) in [lengths[lengths.len() / 2 - 1], lengths[lengths.len() - 1]] {
            let quantity =
                format!("writes that wait at each other replica after {at:.0} s: {kind}");
            rows.push(Row::new(FIGURE, quantity, None, length, ""));
        }
    }
    let series = queues.into_iter().map(|(kind, points)| Series { name: kind.to_owned(), points });
    let plot = Plot {
        title: "Writes that wait at replicas beside a slow one".to_owned(),
        x: "time (s)",
        y: "writes waiting at each replica",
        series: series.collect(),
    };
    Findings { rows, plots: vec![plot], ..Findings::default() }
}

/// Calls `sample` for each part of a time.
fn sampled(time: Duration, mut sample: impl FnMut(Duration) -> f64) -> Lengths {
    let at = |part: u32| (time / SAMPLES * part).as_secs_f64();
    (1..=SAMPLES).map(|part| (at(part), sample(time / SAMPLES))).collect()
}

/// Returns a row of the rate at which writes arrive at the replicas.
fn arrivals(kind: &str, arrived: f64, time: Duration) -> Row {
    let quantity = format!("writes that arrive at all replicas: {kind}");
    Row::new(FIGURE, quantity, None, arrived / time.as_secs_f64(), "1/s")
}

/// Runs the workload on UniStore, whose workers take no time but for the slow one. Also returns the
/// number of writes that have arrived.
fn unistore(workload: &Workload, worker: u8, time: Duration) -> (Lengths, f64) {
    // A site has at most so many workers.
    let workers: u8 = 32;
    let shape = Shape {
        regions: vec![VIRGINIA, CALIFORNIA],
        cores_per_node: 1,
        slowness: 0.0,
        ..Shape::three_sites(u16::from(workers), workers)
    };
    let meter = Meter::Table(Costs::shipped().of(shape.variant));
    let source = Single(workload.clone());
    let mut cluster = VirtualCluster::new(shape, meter, source, Duration::ZERO);
    cluster.slow_down(Address { site: SiteId(1), worker }, TAKES);
    cluster.set_clients_at(1, CLIENTS);
    let lengths = sampled(time, |length| cluster.waiting_after(length));
    (lengths, cluster.arrived() as f64)
}

/// The workload's operations, as transactions of one operation.
struct Single(Workload);

impl Single {
    fn step(&self, number: u64, op: Op) -> Step {
        Step { key: key(number), op, level: Level::Causal, kind: Kind { number: 0, conflicts: 0 } }
    }
}

impl Source for Single {
    fn load(&self) -> Vec<(Key, Op)> {
        let set = |number| {
            let Step { key, op, .. } = self.step(number, Op::Set(self.0.value.clone()));
            (key, op)
        };
        (0..self.0.keys).map(set).collect()
    }

    fn next(&mut self, random: &mut Random) -> Transaction {
        let number = self.0.distribution.draw(random, self.0.keys);
        let (class, op) = match random.chance(self.0.reads) {
            true => (Class::Read, Op::Get),
            false => (Class::Causal, Op::Set(self.0.value.clone())),
        };
        Transaction { class, rounds: vec![vec![self.step(number, op)]] }
    }
}

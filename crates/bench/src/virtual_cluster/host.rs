//! Costs of servers in addition to their machines.
//!
//! Counts whole servers under loads of reading and writing transactions. A virtual cluster with the
//! same load gives the share of their machines, by the table of steps. The rest counts as the
//! host's cost, including cost differences between steps that are in one class of the table, such
//! as commits of different sizes.

use std::time::Duration;

use solera_data::{Key, Op};
use solera_levels::Level;
use solera_unistore::Kind;

use super::cluster::VirtualCluster;
use super::cost::{Costs, Factors, Host};
use super::meter::Meter;
use super::shape::Shape;
use super::source::{Source, Step, Transaction};
use crate::random::Random;
use crate::requests::{CountError, Load, server_instructions, server_time};
use crate::tally::Class;

/// Loads of short transactions, of long ones, and of long ones that write.
const SHORT: Load = Load { operations: 1, writes: false };
const LONG: Load = Load { operations: 10, writes: false };
const WRITING: Load = Load { operations: 10, writes: true };
/// Number of batches that a client sends per transaction: its beginning, its operations, and its
/// end.
const REQUESTS: f64 = 3.0;
/// Number of clients, the same as for the servers.
const CLIENTS: usize = 32;
/// Number of time measurements; the minimum counts, because other programs only increase the time.
const REPEATS: usize = 5;
/// Default number of partitions of servers.
const PARTITIONS: u16 = 16;

/// Counts the work of hosts in addition to their machines, whose steps `costs` contains, and
/// measures its time. Reports progress to `report`.
///
/// # Errors
/// Fails if a tool cannot be run, or if a server under it fails.
pub(crate) fn complete(costs: &mut Costs, report: &dyn Fn(&str)) -> Result<(), CountError> {
    report("counting the instructions of servers");
    // Only their order of magnitude matters, for the time in virtual clusters.
    costs.factors = Costs::shipped().factors;
    let of_host = |workers, load| {
        let machines = Machines::of(costs, workers, load);
        Ok((server_instructions(workers, load)? - machines.instructions, machines.hops))
    };
    let ((short, _), (long, _)) = (of_host(1, SHORT)?, of_host(1, LONG)?);
    let ((writing, _), (of_two, hops)) = (of_host(1, WRITING)?, of_host(2, LONG)?);
    let command = (long - short) / (LONG.operations - SHORT.operations) as f64;
    let write = (writing - long) / WRITING.operations as f64;
    let request = (short - commands(SHORT) * command) / REQUESTS;
    costs.host = Host { request, command, write, hop: ((of_two - long) / hops).max(0.0) };
    report("measuring how long instructions and system calls take");
    let reference = Reference::of(costs);
    let measured = (0..REPEATS).map(|_| reference.factors()).collect::<Result<Vec<_>, _>>()?;
    let least = |of: fn(&Factors) -> f64| measured.iter().map(of).fold(f64::INFINITY, f64::min);
    costs.factors = Factors {
        ns_per_instruction: least(|factors| factors.ns_per_instruction),
        ns_per_system_call: least(|factors| factors.ns_per_system_call),
    };
    Ok(())
}

/// Work of a server for one short and one long transaction, by the table.
pub(crate) struct Reference {
    instructions: f64,
    system_calls: f64,
}

impl Reference {
    pub(crate) fn of(costs: &Costs) -> Reference {
        let (mut instructions, mut system_calls) = (0.0, 0.0);
        for load in [SHORT, LONG] {
            let machines = Machines::of(costs, 1, load);
            let Host { request, command, .. } = costs.host;
            instructions += machines.instructions + REQUESTS * request + commands(load) * command;
            system_calls += machines.system_calls;
        }
        Reference { instructions, system_calls }
    }

    /// Measures the time of this work on this machine.
    ///
    /// # Errors
    /// Fails if a server cannot be started, or does not answer.
    pub(crate) fn factors(&self) -> Result<Factors, CountError> {
        let (short, long) = (server_time(SHORT)?, server_time(LONG)?);
        Ok(Factors {
            ns_per_instruction: (short.0 + long.0) / self.instructions,
            ns_per_system_call: (short.1 + long.1) / self.system_calls,
        })
    }
}

/// Returns the number of commands of a transaction, including its beginning and its end.
fn commands(load: Load) -> f64 {
    load.operations as f64 + 2.0
}

/// Work of a site for a transaction, by the table.
struct Machines {
    /// Instructions of its machines only.
    instructions: f64,
    /// Messages between its workers.
    hops: f64,
    system_calls: f64,
}

impl Machines {
    fn of(costs: &Costs, workers: u8, load: Load) -> Machines {
        let shape = Shape::one_site(PARTITIONS, workers);
        let meter = Meter::Table(costs.of(shape.variant));
        let mut cluster = VirtualCluster::new(shape, meter, Repeated(load), Duration::ZERO);
        cluster.set_clients(CLIENTS);
        cluster.measure(Duration::ZERO, Duration::from_millis(100));
        let measured = cluster.measure(Duration::ZERO, Duration::from_millis(200));
        let each = |all: f64| all / measured.total().latency.count().max(1) as f64;
        Machines {
            instructions: each(measured.charged.of_machines()),
            hops: each(measured.charged.hops as f64),
            system_calls: each(measured.charged.system_calls as f64),
        }
    }
}

/// Source of the transactions of a load, on values of 100 bytes.
struct Repeated(Load);

const KEYS: u64 = 1000;

fn set() -> Op {
    Op::Set([b'v'; 100].as_slice().into())
}

fn key(number: u64) -> Key {
    format!("key:{number}").as_bytes().into()
}

impl Source for Repeated {
    fn load(&self) -> Vec<(Key, Op)> {
        (0..KEYS).map(|number| (key(number), set())).collect()
    }

    fn next(&mut self, random: &mut Random) -> Transaction {
        let Load { operations, writes } = self.0;
        let (class, kind) =
            if writes { (Class::Causal, Kind::UPDATE) } else { (Class::Read, Kind::READ) };
        let step = |_| Step {
            key: key(random.below(KEYS)),
            op: if writes { set() } else { Op::Get },
            level: Level::Causal,
            kind,
        };
        Transaction { class, rounds: vec![(0..operations).map(step).collect()] }
    }
}

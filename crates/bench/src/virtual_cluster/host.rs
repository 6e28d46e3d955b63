//! What servers do beside their machines.
//!
//! Whole servers are counted under a load of transactions that read. What their machines take of it, by the table of
//! steps, is known from a virtual cluster with the same load; the rest is the host's.

use std::time::Duration;

use solera_data::{Key, Op};
use solera_levels::Level;
use solera_unistore::Kind;

use super::cluster::VirtualCluster;
use super::cost::Costs;
use super::meter::Meter;
use super::shape::Shape;
use super::source::{Source, Step, Transaction};
use crate::random::Random;
use crate::requests::{CountError, server_instructions, server_time};
use crate::tally::Class;

/// Operations of short and of long transactions.
const SHORT: u64 = 1;
const LONG: u64 = 10;
/// What a client sends together in a transaction: its beginning, its operations, and its end.
const REQUESTS: f64 = 3.0;
/// Clients, as many as of the servers.
const CLIENTS: usize = 32;
/// How often time is measured; the least counts, as other programs only make it longer.
const REPEATS: usize = 5;
/// As servers have if nobody says otherwise.
const PARTITIONS: u16 = 16;

/// Counts what hosts do beside their machines, whose steps `costs` has, and measures how long it takes. `tell` hears what
/// is going on.
///
/// # Errors
/// A tool cannot be run, or a server under it fails.
pub(crate) fn complete(costs: &mut Costs, tell: &dyn Fn(&str)) -> Result<(), CountError> {
    tell("counting the instructions of servers");
    // Only by their order of magnitude, for the time that passes in virtual clusters.
    let earlier = Costs::shipped();
    costs.ns_per_instruction = earlier.ns_per_instruction;
    costs.ns_per_system_call = earlier.ns_per_system_call;
    let of_host = |costs: &Costs, workers, operations| {
        let machines = Machines::of(costs, workers, operations);
        Ok((server_instructions(workers, operations)? - machines.instructions, machines.hops))
    };
    let ((short, _), (long, _)) = (of_host(costs, 1, SHORT)?, of_host(costs, 1, LONG)?);
    costs.command = (long - short) / (LONG - SHORT) as f64;
    costs.request = (short - commands(SHORT) * costs.command) / REQUESTS;
    let (of_two, hops) = of_host(costs, 2, LONG)?;
    costs.hop = ((of_two - long) / hops).max(0.0);
    tell("measuring how long instructions and system calls take");
    let mut least = (f64::INFINITY, f64::INFINITY);
    for _ in 0..REPEATS {
        let factors = factors(costs)?;
        least = (least.0.min(factors.0), least.1.min(factors.1));
    }
    (costs.ns_per_instruction, costs.ns_per_system_call) = least;
    Ok(())
}

/// Measures how many nanoseconds an instruction and a system call of a server take here and now.
///
/// # Errors
/// A server cannot be started, or does not answer.
pub(crate) fn factors(costs: &Costs) -> Result<(f64, f64), CountError> {
    let (mut instructions, mut calls, mut time) = (0.0, 0.0, (0.0, 0.0));
    for operations in [SHORT, LONG] {
        let machines = Machines::of(costs, 1, operations);
        let of_host = REQUESTS * costs.request + commands(operations) * costs.command;
        let spent = server_time(operations)?;
        instructions += machines.instructions + of_host;
        calls += machines.system_calls;
        time = (time.0 + spent.0, time.1 + spent.1);
    }
    Ok((time.0 / instructions, time.1 / calls))
}

/// Commands of a transaction: its beginning and its end, too.
fn commands(operations: u64) -> f64 {
    operations as f64 + 2.0
}

/// What a site does for a transaction by the table.
struct Machines {
    /// Of its machines alone.
    instructions: f64,
    /// Messages between its workers.
    hops: f64,
    system_calls: f64,
}

impl Machines {
    fn of(costs: &Costs, workers: u8, operations: u64) -> Machines {
        let shape = Shape::one_site(PARTITIONS, workers);
        let meter = Meter::Table(costs.of(shape.variant));
        let mut cluster = VirtualCluster::new(shape, meter, Reads { operations }, Duration::ZERO);
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

/// Transactions that read values of 100 bytes.
struct Reads {
    operations: u64,
}

const KEYS: u64 = 1000;

fn key(number: u64) -> Key {
    format!("key:{number}").as_bytes().into()
}

impl Source for Reads {
    fn load(&self) -> Vec<(Key, Op)> {
        let value = [b'v'; 100];
        (0..KEYS).map(|number| (key(number), Op::Set(value.as_slice().into()))).collect()
    }

    fn next(&mut self, random: &mut Random) -> Transaction {
        let step = |_| Step {
            key: key(random.below(KEYS)),
            op: Op::Get,
            level: Level::Causal,
            kind: Kind::READ,
        };
        Transaction { class: Class::Read, rounds: vec![(0..self.operations).map(step).collect()] }
    }
}

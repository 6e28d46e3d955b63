//! Clients that run transactions in closed loops.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use solera::mixed::System;
use solera_language::compile::compile;
use solera_mixt::binding::{Bindings, Module, Modules};
use solera_mixt::collect::Collector;
use solera_mixt::coordinator::{Coordinator, TransactionId};
use solera_mixt::executor::{self, Clock, Connections};
use solera_mixt::outcome::{IN_DOUBT_MS, Limits, Outcome, Why};
use solera_mixt::record::Record;
use solera_mixt::store::Database;
use solera_program::value::{Handle, Value};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use crate::error::BenchError;
use crate::histogram::Histogram;
use crate::random::Random;

/// A program with bound stores.
#[derive(Clone)]
pub(super) struct Bound {
    databases: Vec<Arc<dyn Database>>,
    module: Module,
    bindings: Bindings,
    modules: Arc<Modules>,
    limits: Limits,
}

/// A call of a transaction.
pub(super) struct Call {
    /// Kind under which it is counted.
    pub(super) kind: &'static str,
    pub(super) transaction: &'static str,
    pub(super) args: Vec<Value>,
}

/// Source of the calls of a client.
pub(super) trait Script: Send + 'static {
    fn next(&mut self, random: &mut Random) -> Call;
}

/// Duration and pace of a measurement.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    pub(super) clients: usize,
    /// Minimum time that each client runs before the measurement; it also runs at least one
    /// transaction.
    pub(super) warm_up: Duration,
    pub(super) window: Duration,
    /// Average pause of a client between transactions.
    pub(super) think: Duration,
}

/// Results of a measurement.
#[derive(Clone, Debug, Default)]
pub(super) struct Ran {
    pub(super) latencies: BTreeMap<&'static str, Histogram>,
    /// Number of transactions that failed because of conflicts or because a store did not answer.
    pub(super) failed: u64,
    /// Number of retries of groups of phases.
    pub(super) retries: u64,
    pub(super) window: Duration,
}

impl Ran {
    pub(super) fn count(&self) -> u64 {
        self.latencies.values().map(Histogram::count).sum()
    }

    pub(super) fn per_second(&self) -> f64 {
        self.count() as f64 / self.window.as_secs_f64()
    }

    /// Returns retries and failures, in percent of the successful transactions.
    pub(super) fn aborts(&self) -> f64 {
        100.0 * (self.retries + self.failed) as f64 / self.count().max(1) as f64
    }

    pub(super) fn add(&mut self, other: &Ran) {
        for (kind, latency) in &other.latencies {
            self.latencies.entry(kind).or_default().merge(latency);
        }
        self.failed += other.failed;
        self.retries += other.retries;
        self.window += other.window;
    }
}

/// Returns limits with which obsolete witnesses and records are removed as early as possible. A
/// client tries for two seconds to complete a transaction, and its last request may take effect
/// [`IN_DOUBT_MS`] later. Only after that time does no client wait for the transaction.
fn limits() -> Limits {
    let finish_ms = 2_000;
    let orphan_ms = finish_ms + IN_DOUBT_MS + 100;
    let (blocked_ms, keep_ms) = (orphan_ms + 100, orphan_ms + 200);
    Limits { finish_ms, orphan_ms, blocked_ms, keep_ms, ..Limits::default() }
}

/// Returns the time after the start of a load from which witnesses are removed as fast as clients
/// write them.
pub(super) fn cleaning_from() -> Duration {
    Duration::from_millis(limits().keep_ms)
}

/// Interval at which obsolete witnesses and records are collected.
const CLEANING: Duration = Duration::from_millis(250);

impl Bound {
    /// Compiles a program, and binds its stores by name to spaces of databases.
    ///
    /// # Errors
    /// Fails if a store's space is missing or too weak.
    pub(super) fn new(
        source: &str,
        databases: Vec<Arc<dyn Database>>,
        bind: &[(&str, usize, &str)],
    ) -> Result<Bound, BenchError> {
        let program =
            compile(source).program.expect("the benchmark's programs are checked by a test");
        let program = Arc::new(program);
        let bindings = Bindings::new(&program, &databases, bind)
            .map_err(|error| BenchError::Start(error.to_string()))?;
        let module = Module::new(&solera::mixed::digest(source), program)
            .expect("the compiler generates well-formed programs");
        let modules = Arc::new(BTreeMap::from([(Arc::clone(module.name()), module.clone())]));
        Ok(Bound { databases, module, bindings, modules, limits: limits() })
    }

    fn connections(&self) -> Connections {
        Connections::new(self.databases.iter().cloned())
    }

    /// Runs one transaction.
    pub(super) async fn call(
        &self,
        connections: &mut Connections,
        call: Call,
        ids: &mut Random,
    ) -> (Outcome, Vec<Record>) {
        let index = self.module.transaction(call.transaction);
        let index = index.expect("scripts call transactions of their program");
        let start = (self.module.clone(), index);
        let known = (Arc::clone(&self.modules), self.limits);
        let id = TransactionId::new(ids.next());
        let bindings = self.bindings.clone();
        let now_ms = System.now_ms();
        let coordinator = Coordinator::new(start, call.args, bindings, id, known, now_ms);
        let mut coordinator = coordinator.expect("scripts pass arguments of the right types");
        let outcome = executor::run(&mut coordinator, connections, &System).await;
        (outcome, coordinator.garbage())
    }

    /// Runs clients concurrently, each with its own sessions, and measures them.
    ///
    /// # Errors
    /// Fails if a transaction fails for reasons other than conflicts or a store that does not
    /// answer.
    pub(super) fn load<S: Script>(
        &self,
        scripts: impl IntoIterator<Item = S>,
        pace: Pace,
        seed: u64,
    ) -> Result<Ran, BenchError> {
        crate::runtime()?.block_on(async {
            let (left, mut work) = unbounded_channel();
            let scripts = scripts.into_iter().take(pace.clients);
            let warm = Instant::now() + pace.warm_up;
            let clients: Vec<_> = scripts
                .enumerate()
                .map(|(number, script)| {
                    let random = Random::new(seed ^ ((number as u64) << 32));
                    let (bound, left, ids) = (self.clone(), left.clone(), ids(number));
                    let (connections, think) = (self.connections(), pace.think);
                    let client = Client { bound, connections, script, think, left, random, ids };
                    tokio::spawn(client.warm_up(warm))
                })
                .collect();
            drop(left);
            let mut connections = self.connections();
            let mut collector = Collector::new(self.limits);
            let collecting = tokio::spawn(async move {
                loop {
                    tokio::time::sleep(CLEANING).await;
                    while let Ok(records) = work.try_recv() {
                        collector.add(records, System.now_ms());
                    }
                    // On an error, the next round retries.
                    let _ = collector.collect(&mut connections, System.now_ms()).await;
                }
            });
            let warmed = all(clients).await?;
            let end = Instant::now() + pace.window;
            let mut together = Ran::default();
            let clients = warmed.into_iter().map(|client| tokio::spawn(client.run(end)));
            all(clients.collect::<Vec<_>>()).await?.iter().for_each(|ran| together.add(ran));
            collecting.abort();
            together.window = pace.window;
            Ok(together)
        })
    }

    /// Runs transactions, several at a time, all of which must succeed. Returns their results in
    /// order.
    ///
    /// # Errors
    /// Fails if a transaction fails.
    pub(super) fn all(&self, calls: Vec<Call>) -> Result<Vec<Value>, BenchError> {
        const AT_A_TIME: usize = 16;
        crate::runtime()?.block_on(async {
            let share = calls.len().div_ceil(AT_A_TIME).max(1);
            let mut calls = calls.into_iter();
            let mut workers = Vec::new();
            loop {
                let mine: Vec<Call> = calls.by_ref().take(share).collect();
                if mine.is_empty() {
                    break;
                }
                let bound = self.clone();
                let mut ids = ids(workers.len());
                workers.push(tokio::spawn(async move {
                    let mut connections = bound.connections();
                    let mut results = Vec::new();
                    for call in mine {
                        match bound.call(&mut connections, call, &mut ids).await.0 {
                            Outcome::Done { result, .. } => results.push(result),
                            other => return Err(BenchError::Transaction(other.to_string())),
                        }
                    }
                    Ok(results)
                }));
            }
            Ok(all(workers).await?.into_iter().flatten().collect())
        })
    }
}

struct Client<S> {
    bound: Bound,
    connections: Connections,
    script: S,
    /// Average pause between transactions.
    think: Duration,
    left: UnboundedSender<Vec<Record>>,
    random: Random,
    ids: Random,
}

/// Result of a client's transaction.
struct Ended {
    kind: &'static str,
    outcome: Outcome,
    took: Duration,
    at: Instant,
}

impl<S: Script> Client<S> {
    /// Runs transactions until `until`, and at least one, so that connections are open and
    /// statements are prepared.
    async fn warm_up(mut self, until: Instant) -> Result<Self, BenchError> {
        loop {
            self.next().await?;
            if Instant::now() >= until {
                return Ok(self);
            }
        }
    }

    /// Runs transactions until `end`; counts those that end before.
    async fn run(mut self, end: Instant) -> Result<Ran, BenchError> {
        let mut ran = Ran::default();
        while Instant::now() < end {
            let Ended { kind, outcome, took, at } = self.next().await?;
            match outcome {
                _ if at >= end => {}
                Outcome::Done { attempts, .. } => {
                    ran.latencies.entry(kind).or_default().record(took);
                    ran.retries += u64::from(attempts.begun.saturating_sub(attempts.groups));
                }
                Outcome::Failed(_) | Outcome::Incomplete { .. } => ran.failed += 1,
            }
        }
        Ok(ran)
    }

    async fn next(&mut self) -> Result<Ended, BenchError> {
        if !self.think.is_zero() {
            tokio::time::sleep(self.random.think(self.think)).await;
        }
        let started = Instant::now();
        let call = self.script.next(&mut self.random);
        let kind = call.kind;
        let (outcome, left) = self.bound.call(&mut self.connections, call, &mut self.ids).await;
        if !left.is_empty() {
            // The receiver lives until all clients have ended.
            let _ = self.left.send(left);
        }
        if let Outcome::Failed(Why::Program(_) | Why::Refused { .. }) = outcome {
            return Err(BenchError::Transaction(outcome.to_string()));
        }
        let at = Instant::now();
        Ok(Ended { kind, outcome, took: at - started, at })
    }
}

/// Waits for all tasks, or until one fails.
async fn all<T>(
    tasks: impl IntoIterator<Item = JoinHandle<Result<T, BenchError>>>,
) -> Result<Vec<T>, BenchError> {
    let mut results = Vec::new();
    for task in tasks {
        let done = task.await.map_err(|error| BenchError::Start(error.to_string()))?;
        results.push(done?);
    }
    Ok(results)
}

/// Creates the random names of a client's transactions, which differ from those of any other run.
fn ids(client: usize) -> Random {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = since.map_or(0, |since| since.as_nanos() as u64);
    Random::new(now ^ (client as u64) << 48)
}

/// Creates a handle of a store.
pub(super) fn handle(store: &'static str, key: impl Into<Arc<str>>) -> Value {
    Value::Handle(Handle { store: store.into(), key: key.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_do_not_contradict_one_another() {
        assert_eq!(limits().check(), Ok(()));
    }
}

//! Measures the cost of witnesses (MixT Fig. 15):
//! `cargo run --release -p solera-mixt --example witnesses`.
//!
//! There are two counters, one linearizable and one causal, and 70% of the transactions read. A
//! transaction that follows one of the other level increments both counters. With witnesses it is
//! one transaction; without, it is one for each counter, so that others may see one of them alone.
//! All databases are in memory. The first measurement is their processing time. In the second, each
//! request also takes the time that it would take over a network, in virtual time.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use solera_language::compile::compile;
use solera_levels::Level;
use solera_mixt::binding::{Bindings, Module};
use solera_mixt::collect::Collector;
use solera_mixt::coordinator::{Coordinator, TransactionId};
use solera_mixt::executor::{Clock, Connections, run};
use solera_mixt::memory::Memory;
use solera_mixt::outcome::{Limits, Outcome};
use solera_mixt::store::{
    Answer, Begin, BoxFuture, Connection, Database, Fields, List, NameWrite, ObjectCall, StoreError,
};
use solera_program::value::{Handle, Value};
use solera_random::Random;

const SOURCE: &str = "
store strong : linearizable;
store weak : causal;
transaction read_strong(a: handle<counter> in strong) -> int { return a.value(); }
transaction add_strong(a: handle<counter> in strong) { a.add(1); }
transaction read_weak(b: handle<counter> in weak) -> int { return b.value(); }
transaction add_weak(b: handle<counter> in weak) { b.add(1); }
transaction add_both(a: handle<counter> in strong, b: handle<counter> in weak) { a.add(1); b.add(1); }
";

/// Transactions of a round: enough for garbage to be removed as fast as it appears.
const TRANSACTIONS: u64 = 4_000;
/// Number of rounds, of which the fastest counts.
const ROUNDS: usize = 9;
/// Time by which the clock advances with each transaction.
const STEP_MS: u64 = 100;
/// Duration of a request over a network, in microseconds.
const FAR_US: [u64; 2] = [85_000, 1_000];

/// A database that counts its requests.
struct Far {
    memory: Memory,
    requests: Arc<AtomicU64>,
}

struct Line {
    inner: Box<dyn Connection>,
    requests: Arc<AtomicU64>,
}

impl Database for Far {
    fn name(&self) -> Arc<str> {
        self.memory.name()
    }

    fn spans(&self, one: &str, other: &str) -> bool {
        self.memory.spans(one, other)
    }

    fn level(&self, space: &str) -> Option<Level> {
        self.memory.level(space)
    }

    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, StoreError>> {
        Box::pin(async {
            let requests = Arc::clone(&self.requests);
            let line = Line { inner: self.memory.connect().await?, requests };
            Ok(Box::new(line) as Box<dyn Connection>)
        })
    }
}

impl Line {
    fn count(&mut self) -> &mut dyn Connection {
        self.requests.fetch_add(1, Ordering::Relaxed);
        &mut *self.inner
    }
}

impl Connection for Line {
    fn begin<'a>(&'a mut self, begin: &'a Begin) -> BoxFuture<'a, Result<Vec<Fields>, StoreError>> {
        self.count().begin(begin)
    }

    fn perform<'a>(
        &'a mut self,
        call: &'a ObjectCall,
    ) -> BoxFuture<'a, Result<Answer, StoreError>> {
        self.count().perform(call)
    }

    fn commit<'a>(&'a mut self, writes: &'a [NameWrite]) -> BoxFuture<'a, Result<(), StoreError>> {
        self.count().commit(writes)
    }

    fn certify(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.count().certify()
    }

    fn abort(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.count().abort()
    }

    fn list<'a>(&'a mut self, list: &'a List) -> BoxFuture<'a, Result<Vec<Arc<str>>, StoreError>> {
        self.count().list(list)
    }
}

#[derive(Default)]
struct Counted(AtomicU64);

impl Clock for Counted {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn sleep(&self, ms: u64) -> BoxFuture<'_, ()> {
        self.0.fetch_add(ms, Ordering::Relaxed);
        Box::pin(std::future::ready(()))
    }
}

/// Durations of the transactions of a round.
struct Durations {
    here: Duration,
    /// Duration including the time of requests over a network.
    far: Duration,
}

struct Bench {
    module: Module,
    bindings: Bindings,
    connections: Connections,
    requests: [Arc<AtomicU64>; 2],
    clock: Counted,
    random: Random,
    begun: u64,
    collector: Collector,
}

impl Bench {
    fn new() -> Bench {
        let program = compile(SOURCE).program.expect("the source is right");
        let module = Module::new("witnesses", Arc::new(program)).expect("the compiler made it");
        let requests = [Arc::<AtomicU64>::default(), Arc::default()];
        let far = |index: usize, name, level| {
            let memory = Memory::new(name, &[("all", level)]);
            Arc::new(Far { memory, requests: Arc::clone(&requests[index]) }) as Arc<dyn Database>
        };
        let databases = [far(0, "one", Level::Linearizable), far(1, "two", Level::Causal)];
        let bind = [("strong", 0, "all"), ("weak", 1, "all")];
        let bindings = Bindings::new(module.program(), &databases, &bind).expect("they fit");
        Bench {
            module,
            bindings,
            connections: Connections::new(databases),
            requests,
            clock: Counted(AtomicU64::new(1)),
            random: Random::new(1),
            begun: 0,
            collector: Collector::new(Limits::default()),
        }
    }

    fn transaction(&mut self, name: &str) {
        let index = self.module.transaction(name).expect("it is in the source");
        let params = &self.module.program().transactions[index].params;
        let handle = |name: &str| {
            let store = if name == "a" { "strong" } else { "weak" };
            Value::Handle(Handle { store: store.into(), key: "counter".into() })
        };
        let args = params.iter().map(|(name, _)| handle(name)).collect();
        let start = (self.module.clone(), index);
        self.begun += 1;
        // Numbers are unique, and not in order.
        let id = TransactionId::new(self.begun.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let known = (Arc::default(), Limits::default());
        let now_ms = self.clock.now_ms();
        let made = Coordinator::new(start, args, self.bindings.clone(), id, known, now_ms);
        let mut coordinator = made.expect("the arguments fit");
        let outcome = now(run(&mut coordinator, &mut self.connections, &self.clock));
        assert!(matches!(outcome, Outcome::Done { .. }), "{outcome}");
        self.collector.add(coordinator.garbage(), self.clock.now_ms());
    }

    /// Runs a round in which `strong` of a hundred transactions are at the strong level.
    fn round(&mut self, strong: u64, witnesses: bool) -> Durations {
        self.random = Random::new(7);
        let mut was_strong = false;
        self.requests.iter().for_each(|requests| requests.store(0, Ordering::Relaxed));
        let began = Instant::now();
        for number in 0..TRANSACTIONS {
            let is_strong = self.random.draw() % 100 < strong;
            let reads = self.random.draw() % 100 < 70;
            match (is_strong != std::mem::replace(&mut was_strong, is_strong), is_strong, reads) {
                (true, ..) if witnesses => self.transaction("add_both"),
                (true, ..) => {
                    self.transaction("add_strong");
                    self.transaction("add_weak");
                }
                (false, true, true) => self.transaction("read_strong"),
                (false, true, false) => self.transaction("add_strong"),
                (false, false, true) => self.transaction("read_weak"),
                (false, false, false) => self.transaction("add_weak"),
            }
            self.clock.0.fetch_add(STEP_MS, Ordering::Relaxed);
            if number % 50 == 0 {
                let now_ms = self.clock.now_ms();
                // In practice, this runs in the background: its requests do not count, but its work
                // does.
                let before = self.requests.each_ref().map(|one| one.load(Ordering::Relaxed));
                now(self.collector.collect(&mut self.connections, now_ms)).expect("all is there");
                for (requests, before) in self.requests.iter().zip(before) {
                    requests.store(before, Ordering::Relaxed);
                }
            }
        }
        let here = began.elapsed();
        let requests = self.requests.each_ref().map(|one| one.load(Ordering::Relaxed));
        let far: u64 = requests.iter().zip(FAR_US).map(|(requests, us)| requests * us).sum();
        Durations { here, far: here + Duration::from_micros(far) }
    }
}

/// Returns the result of a future that is ready at once.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => unreachable!("databases in memory answer at once"),
    }
}

fn main() {
    let only: Option<u64> = std::env::args().nth(1).and_then(|share| share.parse().ok());
    println!(
        "share of strong transactions; microseconds per transaction without, with witnesses; ratio of throughput"
    );
    for strong in [0, 5, 25, 50, 75, 100] {
        if only.is_some_and(|only| only != strong) {
            continue;
        }
        let mut best = [[f64::INFINITY; 2]; 2];
        let mut benches = [Bench::new(), Bench::new()];
        for _ in 0..ROUNDS {
            for (index, bench) in benches.iter_mut().enumerate() {
                let taken = bench.round(strong, index == 1);
                for (which, time) in [taken.here, taken.far].into_iter().enumerate() {
                    let each = time.as_secs_f64() * 1e6 / TRANSACTIONS as f64;
                    best[which][index] = best[which][index].min(each);
                }
            }
        }
        for (name, [without, with]) in ["in memory", "85 ms, 1 ms"].iter().zip(best) {
            println!(
                "{strong:>3}%  {name:<12} {without:>10.2} {with:>10.2}  {:.3}",
                without / with
            );
        }
    }
}

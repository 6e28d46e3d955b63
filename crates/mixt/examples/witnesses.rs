//! What witnesses cost: the counter benchmark of MixT §8 on databases in memory, with and without them.
//!
//! `cargo run --release -p solera-mixt --example witnesses`

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use solera_language::compile::compile;
use solera_language::value::{Handle, Value};
use solera_levels::Level;
use solera_mixt::binding::{Bindings, Module};
use solera_mixt::collect::Collector;
use solera_mixt::coordinator::{Coordinator, TransactionId};
use solera_mixt::drive::{Clock, Connections, run};
use solera_mixt::memory::Memory;
use solera_mixt::outcome::{Limits, Outcome};
use solera_mixt::store::{BoxFuture, Database};

const SOURCE: &str = "
store strong : linearizable;
store weak : causal;
transaction read_one(a: handle<counter> in strong) -> int { return a.value(); }
transaction read_two(b: handle<counter> in weak) -> int { return b.value(); }
transaction add_one(a: handle<counter> in strong) { a.add(1); }
transaction add_two(b: handle<counter> in weak) { b.add(1); }
transaction add_both(a: handle<counter> in strong, b: handle<counter> in weak) { a.add(1); b.add(1); }
";

/// How many counters there are.
const COUNTERS: u64 = 400_000;
/// How many transactions are measured at a time.
const TRANSACTIONS: u64 = 100_000;

/// Time that passes when it is told to.
struct Still;

impl Clock for Still {
    fn now_ms(&self) -> u64 {
        1
    }

    fn sleep(&self, _: u64) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Databases in memory answer at once.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("a database in memory does not wait"),
    }
}

struct Random(u64);

impl Random {
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}

/// Nanoseconds per transaction. `mixed` is how many of a hundred write both stores; `apart` whether these are two
/// databases, so that witnesses are due.
fn measure(module: &Module, mixed: u64, apart: bool) -> u128 {
    let (strong, weak) = (("strong", Level::Linearizable), ("weak", Level::Causal));
    let memories = if apart {
        vec![Memory::new("one", &[strong]), Memory::new("two", &[weak])]
    } else {
        vec![Memory::new("one", &[strong, weak])]
    };
    let databases: Vec<Arc<dyn Database>> =
        memories.into_iter().map(|memory| Arc::new(memory) as Arc<dyn Database>).collect();
    let bind = [("strong", 0, "strong"), ("weak", usize::from(apart), "weak")];
    let bindings = Bindings::new(module.program(), &databases, &bind).expect("the levels fit");
    let mut connections = Connections::new(databases);
    let limits = Limits { keep_ms: 0, ..Limits::default() };
    let (modules, mut collector) = (Arc::new(BTreeMap::new()), Collector::new(limits));
    let mut random = Random(1);
    let begun = Instant::now();
    for count in 0..TRANSACTIONS {
        let handle = |store: &str, number: u64| {
            let key = format!("counter{number}").into();
            Value::Handle(Handle { store: store.into(), key })
        };
        let number = random.draw() % COUNTERS;
        let (one, two) = (handle("strong", number), handle("weak", number));
        // Of the others 70 of a hundred read, as in Fig. 15.
        let (name, args) = match (random.draw() % 100 < mixed, random.draw() % 100 < 70, number % 2)
        {
            (true, ..) => ("add_both", vec![one, two]),
            (false, true, 0) => ("read_one", vec![one]),
            (false, true, _) => ("read_two", vec![two]),
            (false, false, 0) => ("add_one", vec![one]),
            (false, false, _) => ("add_two", vec![two]),
        };
        let transaction = module.transaction(name).expect("it is in the module");
        let start = (module.clone(), transaction);
        let id = TransactionId::new(random.draw());
        let shared = (Arc::clone(&modules), limits);
        let mut coordinator = Coordinator::new(start, args, bindings.clone(), id, shared, 1)
            .expect("the arguments fit");
        let outcome = now(run(&mut coordinator, &mut connections, &Still));
        assert!(matches!(outcome, Outcome::Done { .. }), "{outcome}");
        collector.add(coordinator.leftovers(), 1);
        if count % 1000 == 0 {
            now(collector.collect(&mut connections, 1)).expect("memory does not fail");
        }
    }
    begun.elapsed().as_nanos() / u128::from(TRANSACTIONS)
}

fn main() {
    let program = compile(SOURCE).program.expect("the program is right");
    let module = Module::new("counters@1", Arc::new(program)).expect("compiled programs are right");
    println!("mixed   one database   two, with witnesses, records and marks");
    for mixed in [0, 5, 20, 100] {
        let [together, apart] = [false, true].map(|apart| measure(&module, mixed, apart));
        println!("{mixed:>4} %   {together:>9} ns   {apart:>9} ns");
    }
}

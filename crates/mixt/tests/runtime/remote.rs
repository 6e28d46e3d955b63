//! Groups of phases that run next to their stores: their cost, and the handling of invalid ones.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use solera_language::compile::compile;
use solera_levels::Level;
use solera_mixt::binding::{Bindings, Module, Modules};
use solera_mixt::coordinator::{Ask, Coordinator, Next, Reply, Request, TransactionId};
use solera_mixt::executor::{Clock, Connections, run};
use solera_mixt::memory::Memory;
use solera_mixt::outcome::{Limits, Outcome, Why};
use solera_mixt::remote_group::{RemoteGroup, RemoteReplies};
use solera_mixt::store::{
    Answer, Begin, BoxFuture, Connection, Database, Fields, List, NameWrite, ObjectCall, StoreError,
};
use solera_mixt::worker::{ExecuteError, Worker};
use solera_program::value::{Handle, Value};

const SOURCE: &str = r#"
store strong : linearizable;
store weak : causal;

transaction many(a: handle<counter> in strong, b: handle<counter> in weak) -> int {
    var before = a.value();
    a.add(1);
    a.add(2);
    b.add(before);
    return before + b.value();
}

transaction limited(a: handle<counter> in strong, b: handle<counter> in weak) -> int {
    if a.value() > 0 { abort("only once"); }
    a.add(1);
    return a.value();
}

transaction forever(a: handle<counter> in strong, b: handle<counter> in weak) -> int {
    var n = 0;
    while n >= 0 { n = a.value(); }
    return n;
}
"#;

/// A clock that advances only for sleepers, and by a fixed number of milliseconds at each reading.
#[derive(Default)]
struct Still(AtomicU64, u64);

impl Clock for Still {
    fn now_ms(&self) -> u64 {
        1_000 + self.0.fetch_add(self.1, Ordering::Relaxed)
    }

    fn sleep(&self, ms: u64) -> BoxFuture<'_, ()> {
        self.0.fetch_add(ms, Ordering::Relaxed);
        Box::pin(std::future::ready(()))
    }
}

/// Function that changes the bytes of an answer.
type Spoil = Arc<dyn Fn(Vec<u8>) -> Vec<u8> + Send + Sync>;

/// A distant database with a worker next to it.
#[derive(Clone)]
struct Far {
    memory: Memory,
    /// Modules that the worker has.
    modules: Arc<Modules>,
    worker: Arc<Worker>,
    clock: Arc<Still>,
    requests: Arc<AtomicU64>,
    sent: Arc<Mutex<Vec<Vec<u8>>>>,
    spoil: Option<Spoil>,
    near: bool,
}

struct Line {
    far: Far,
    inner: Box<dyn Connection>,
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

    fn executes(&self) -> bool {
        !self.near
    }

    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, StoreError>> {
        Box::pin(async {
            let line = Line { far: self.clone(), inner: self.memory.connect().await? };
            Ok(Box::new(line) as Box<dyn Connection>)
        })
    }
}

impl Line {
    fn count(&self) {
        self.far.requests.fetch_add(1, Ordering::Relaxed);
    }
}

impl Connection for Line {
    fn begin<'a>(&'a mut self, begin: &'a Begin) -> BoxFuture<'a, Result<Vec<Fields>, StoreError>> {
        self.count();
        self.inner.begin(begin)
    }

    fn perform<'a>(
        &'a mut self,
        call: &'a ObjectCall,
    ) -> BoxFuture<'a, Result<Answer, StoreError>> {
        self.count();
        self.inner.perform(call)
    }

    fn commit<'a>(&'a mut self, writes: &'a [NameWrite]) -> BoxFuture<'a, Result<(), StoreError>> {
        self.count();
        self.inner.commit(writes)
    }

    fn certify(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.count();
        self.inner.certify()
    }

    fn abort(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.count();
        self.inner.abort()
    }

    fn list<'a>(&'a mut self, list: &'a List) -> BoxFuture<'a, Result<Vec<Arc<str>>, StoreError>> {
        self.count();
        self.inner.list(list)
    }

    fn execute<'a>(
        &'a mut self,
        remote_group: &'a RemoteGroup,
    ) -> BoxFuture<'a, Result<RemoteReplies, StoreError>> {
        self.count();
        Box::pin(async {
            let bytes = remote_group.encode();
            self.far.sent.lock().unwrap().push(bytes.to_vec());
            let executed = self.far.execute(&bytes).await;
            let remote_replies = executed.map_err(ExecuteError::into_store_error)?;
            let bytes = remote_replies.encode().to_vec();
            let bytes = self.far.spoil.as_ref().map_or(bytes.clone(), |spoil| spoil(bytes));
            RemoteReplies::decode(&bytes)
                .map_err(|error| StoreError::OutcomeUnknown(error.to_string()))
        })
    }
}

impl Far {
    async fn execute(&self, bytes: &[u8]) -> Result<RemoteReplies, ExecuteError> {
        let remote_group = RemoteGroup::decode(bytes).unwrap();
        let memory: Arc<dyn Database> = Arc::new(self.memory.clone());
        let (mut own, known) = (Connections::new([memory]), (&*self.modules, Limits::default()));
        self.worker.execute(&remote_group, known, &mut own, &*self.clock).await
    }
}

struct Bench {
    databases: Vec<Far>,
    module: Module,
    bindings: Bindings,
    clock: Arc<Still>,
    /// Number of transactions that have begun.
    begun: AtomicU64,
}

impl Bench {
    fn new() -> Bench {
        Bench::with_clock(Still::default())
    }

    fn with_clock(clock: Still) -> Bench {
        let program = compile(SOURCE).program.unwrap();
        let module = Module::new("test@1", Arc::new(program)).unwrap();
        let modules: Arc<Modules> =
            Arc::new(BTreeMap::from([(Arc::clone(module.name()), module.clone())]));
        let clock = Arc::new(clock);
        let far = |name, level| Far {
            memory: Memory::new(name, &[("all", level)]),
            modules: Arc::clone(&modules),
            worker: Arc::default(),
            clock: Arc::clone(&clock),
            requests: Arc::default(),
            sent: Arc::default(),
            spoil: None,
            near: false,
        };
        let databases = vec![far("one", Level::Linearizable), far("two", Level::Causal)];
        let known: Vec<_> =
            databases.iter().map(|far| Arc::new(far.clone()) as Arc<dyn Database>).collect();
        let bind = [("strong", 0, "all"), ("weak", 1, "all")];
        let bindings = Bindings::new(module.program(), &known, &bind).unwrap();
        Bench { databases, module, bindings, clock, begun: AtomicU64::new(0) }
    }

    fn connections(&self) -> Connections {
        let known = self.databases.iter();
        Connections::new(known.map(|far| Arc::new(far.clone()) as Arc<dyn Database>))
    }

    fn coordinator(&self, name: &str) -> Coordinator {
        let transaction = self.module.transaction(name).unwrap();
        let handle = |store: &str| Value::Handle(Handle { store: store.into(), key: "x".into() });
        let args = vec![handle("strong"), handle("weak")];
        let known = (Arc::clone(&self.databases[0].modules), Limits::default());
        let id = TransactionId::new(self.begun.fetch_add(1, Ordering::Relaxed) << 8);
        let start = (self.module.clone(), transaction);
        Coordinator::new(start, args, self.bindings.clone(), id, known, self.clock.now_ms())
            .unwrap()
    }

    fn run(&self, name: &str) -> Outcome {
        let mut coordinator = self.coordinator(name);
        now(run(&mut coordinator, &mut self.connections(), &*self.clock))
    }

    fn done(&self, name: &str) -> i64 {
        match self.run(name) {
            Outcome::Done { result: Value::Int(result), .. } => result,
            other => panic!("{name}: {other}"),
        }
    }

    /// Returns the number of requests since the last call, by database.
    fn requests(&self) -> [u64; 2] {
        [0, 1].map(|index: usize| self.databases[index].requests.swap(0, Ordering::Relaxed))
    }
}

/// Returns the result of a future that is ready at once.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("it waits"),
    }
}

#[test]
fn a_group_of_phases_costs_one_request() {
    let mut bench = Bench::new();
    assert_eq!(bench.done("many"), 0);
    assert_eq!(bench.requests(), [1, 1]);
    for far in &mut bench.databases {
        far.near = true;
    }
    assert_eq!(bench.done("many"), 6, "3 before, and 3 of them added to the weak counter");
    // Three operations and two; in addition, each transaction has a begin and a commit.
    assert_eq!(bench.requests(), [5, 4]);
}

#[test]
fn failures_of_a_program_at_a_worker_are_reported() {
    let bench = Bench::new();
    assert_eq!(bench.done("limited"), 1);
    let reported = bench.run("limited").to_string();
    assert!(reported.contains("only once"), "{reported}");
    assert_eq!(bench.requests(), [2, 0]);
}

#[test]
fn a_worker_without_the_module_is_bypassed() {
    let mut bench = Bench::new();
    bench.databases[0].modules = Arc::default();
    assert_eq!(bench.done("many"), 0);
    assert_eq!(bench.requests(), [6, 1]);
}

#[test]
fn late_and_duplicate_groups_do_not_run() {
    let bench = Bench::new();
    bench.done("limited");
    let far = &bench.databases[0];
    let bytes = far.sent.lock().unwrap()[0].clone();
    assert_eq!(now(far.execute(&bytes)).unwrap_err(), ExecuteError::Duplicate);
    // A restarted process does not remember the number.
    let anew = Far { worker: Arc::default(), ..far.clone() };
    bench.clock.0.fetch_add(Limits::default().finish_ms, Ordering::Relaxed);
    assert_eq!(now(anew.execute(&bytes)).unwrap_err(), ExecuteError::Late);
}

#[test]
fn an_endless_loop_at_a_worker_is_stopped() {
    let bench = Bench::with_clock(Still(AtomicU64::new(0), 1));
    let reported = bench.run("forever").to_string();
    let reason = "nothing was changed: it takes more than 30000 ms, perhaps in an endless loop";
    assert!(reported.starts_with(reason), "{reported}");
    // The worker stopped by itself, and its coordinator continued with single requests.
    let [one, _] = bench.requests();
    assert!((10_000..30_000).contains(&one), "{one}");
}

#[test]
fn a_settled_group_does_not_run_later() {
    let bench = Bench::new();
    let mut coordinator = bench.coordinator("limited");
    coordinator.use_workers_of(["one".into()]);
    let Next::Ask(Ask::Store { request: Request::Execute(remote_group), .. }) =
        coordinator.next(bench.clock.now_ms(), None)
    else {
        panic!("it sends a remote group")
    };
    let far = &bench.databases[0];
    assert!(far.worker.settle(remote_group.number(), remote_group.until_ms(), 0));
    assert_eq!(now(far.execute(&remote_group.encode())).unwrap_err(), ExecuteError::Duplicate);
    assert_eq!(bench.done("limited"), 1);
}

/// Flips every bit of a remote group. A worker that cannot read it reports an error, and nothing
/// panics.
#[test]
fn corrupted_remote_groups_are_rejected_or_run() {
    let bench = Bench::new();
    bench.done("many");
    for far in &bench.databases {
        let bytes = far.sent.lock().unwrap()[0].clone();
        for place in 0..bytes.len() * 8 {
            let mut spoilt = bytes.clone();
            spoilt[place / 8] ^= 1 << (place % 8);
            let Ok(remote_group) = RemoteGroup::decode(&spoilt) else { continue };
            let fresh = Far { worker: Arc::default(), ..far.clone() };
            // The result may be anything.
            let _ = now(fresh.execute(&remote_group.encode()));
        }
        for length in 0..bytes.len() {
            assert!(RemoteGroup::decode(&bytes[..length]).is_err(), "{length}");
        }
    }
}

/// Flips every bit of an answer: the transaction ends with some outcome.
#[test]
fn a_transaction_ends_after_any_corrupted_answer() {
    let length = Arc::new(AtomicU64::new(0));
    let mut bench = Bench::new();
    let total = Arc::clone(&length);
    bench.databases[0].spoil = Some(Arc::new(move |bytes| {
        total.store(bytes.len() as u64 * 8, Ordering::Relaxed);
        bytes
    }));
    bench.done("many");
    for place in 0..length.load(Ordering::Relaxed) as usize {
        let mut bench = Bench::new();
        bench.databases[0].spoil = Some(Arc::new(move |mut bytes: Vec<u8>| {
            if let Some(byte) = bytes.get_mut(place / 8) {
                *byte ^= 1 << (place % 8);
            }
            bytes
        }));
        bench.run("many");
    }
}

/// An answer of another kind than the request expects may hide a commit.
#[test]
fn an_answer_of_another_kind_leaves_the_outcome_unknown() {
    let bench = Bench::new();
    let mut coordinator = bench.coordinator("limited");
    coordinator.use_workers_of(["one".into()]);
    let Next::Ask(Ask::Store { request: Request::Execute(remote_group), .. }) =
        coordinator.next(1_000, None)
    else {
        panic!("it sends a remote group")
    };
    let mut bytes =
        now(bench.databases[0].execute(&remote_group.encode())).unwrap().encode().to_vec();
    // The bytes are the version, the number of replies, and the first reply: it is not an error,
    // and its kind is Committed instead of Began.
    assert_eq!(bytes[2..4], [0, 0]);
    bytes[3] = 2;
    // The rest of Began would be read as the next reply.
    bytes.remove(4);
    let remote_replies = RemoteReplies::decode(&bytes).unwrap();
    let next = coordinator.next(1_000, Some(Ok(Reply::Executed(remote_replies))));
    let Next::Finished(Outcome::Incomplete { ticket: None, why: Why::Unknown { .. }, .. }) = next
    else {
        panic!("{next:?}")
    };
}

//! A module over PostgreSQL and a database in memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use solera_language::compile::compile;
use solera_levels::Level;
use solera_mixt::binding::{Bindings, Module, Modules};
use solera_mixt::collect::Collector;
use solera_mixt::coordinator::{Ask, Coordinator, Next, Reply, Request, TransactionId};
use solera_mixt::executor::{Clock, Connections, run};
use solera_mixt::memory::Memory;
use solera_mixt::outcome::{Limits, Outcome};
use solera_mixt::record::Record;
use solera_mixt::recovery::{Recovered, recover};
use solera_mixt::store::{BoxFuture, Database, Location, StoreError};
use solera_postgres::Postgres;
use solera_program::value::{Handle, Value};

pub(crate) struct Bench {
    pub(crate) module: Module,
    pub(crate) modules: Arc<Modules>,
    pub(crate) databases: Vec<Arc<dyn Database>>,
    pub(crate) memory: Memory,
    bindings: Bindings,
    pub(crate) limits: Limits,
    pub(crate) clock: HostClock,
}

impl Bench {
    /// Binds the first store of the module to the space in PostgreSQL, and the second one to a
    /// causal space in memory.
    pub(crate) fn new(source: &str, postgres: Postgres, space: &str) -> Bench {
        let memory = Memory::new("memory", &[("weak", Level::Causal)]);
        Bench::beside(source, postgres, space, memory)
    }

    pub(crate) fn beside(source: &str, postgres: Postgres, space: &str, memory: Memory) -> Bench {
        let compiled = compile(source);
        assert!(compiled.program.is_some(), "{:?}", compiled.diagnostics);
        let module = Module::new("test@1", Arc::new(compiled.program.unwrap())).unwrap();
        let databases: Vec<Arc<dyn Database>> = vec![Arc::new(postgres), Arc::new(memory.clone())];
        let stores: Vec<_> = module.program().stores.iter().map(|store| &*store.name).collect();
        let bind = [(stores[0], 0, space), (stores[1], 1, "weak")];
        let bindings = Bindings::new(module.program(), &databases, &bind).unwrap();
        let modules = Arc::new(BTreeMap::from([(Arc::clone(module.name()), module.clone())]));
        let (limits, clock) = (Limits::default(), HostClock::default());
        Bench { module, modules, databases, memory, bindings, limits, clock }
    }

    pub(crate) fn connections(&self) -> Connections {
        Connections::new(self.databases.iter().cloned())
    }

    pub(crate) fn coordinator(&self, name: &str, args: Vec<Value>) -> Coordinator {
        static IDS: AtomicU64 = AtomicU64::new(1 << 32);
        let transaction = self.module.transaction(name).unwrap();
        let id = TransactionId::new(IDS.fetch_add(1 << 32, Ordering::Relaxed));
        let (start, shared) =
            ((self.module.clone(), transaction), (Arc::clone(&self.modules), self.limits));
        let now_ms = self.clock.now_ms();
        Coordinator::new(start, args, self.bindings.clone(), id, shared, now_ms).unwrap()
    }

    /// Runs a transaction, and returns its outcome and its garbage.
    pub(crate) async fn run(
        &self,
        connections: &mut Connections,
        name: &str,
        args: Vec<Value>,
    ) -> (Outcome, Vec<Record>) {
        let mut coordinator = self.coordinator(name, args);
        let outcome = run(&mut coordinator, connections, &self.clock).await;
        (outcome, coordinator.garbage())
    }

    pub(crate) async fn done(&self, name: &str, args: Vec<Value>) -> Value {
        match self.run(&mut self.connections(), name, args).await.0 {
            Outcome::Done { result, .. } => result,
            other => panic!("{name}: {other}"),
        }
    }

    /// Removes the garbage of these transactions.
    pub(crate) async fn collect(&self, records: impl IntoIterator<Item = Record>) {
        let (mut collector, mut connections) = (Collector::new(self.limits), self.connections());
        collector.add(records, self.clock.now_ms());
        for _ in 0..3 {
            collector.collect(&mut connections, self.clock.now_ms()).await.unwrap();
            self.clock.pass(self.limits.keep_ms);
        }
        assert_eq!(collector.waiting(), 0);
    }

    /// Completes transactions that count as orphaned.
    pub(crate) async fn recover(&self, place: &Location) -> Result<Recovered, StoreError> {
        self.clock.pass(self.limits.orphan_ms);
        let (rules, none) = ((&self.modules, self.limits), Collector::new(self.limits));
        recover(place, &mut self.connections(), rules, &none, &self.clock).await
    }

    /// Runs a transaction to its end, from an answer on. Calls `before` before each request.
    pub(crate) async fn run_from(
        &self,
        coordinator: &mut Coordinator,
        connections: &mut Connections,
        answer: Option<Answer>,
        mut before: impl FnMut(&str, &Request),
    ) -> Outcome {
        let stop = |database: &str, request: &Request| {
            before(database, request);
            false
        };
        match self.steps(coordinator, connections, answer, stop).await {
            Ok(outcome) => outcome,
            Err(request) => panic!("nothing stops it before {request:?}"),
        }
    }

    /// Runs until a matching request is due, and returns it without executing it.
    pub(crate) async fn until(
        &self,
        coordinator: &mut Coordinator,
        connections: &mut Connections,
        wanted: impl FnMut(&str, &Request) -> bool,
    ) -> (Arc<str>, Request) {
        match self.steps(coordinator, connections, None, wanted).await {
            Err(request) => request,
            Ok(outcome) => panic!("it has ended: {outcome}"),
        }
    }

    /// Returns the outcome, or the request before which it stopped.
    async fn steps(
        &self,
        coordinator: &mut Coordinator,
        connections: &mut Connections,
        mut answer: Option<Answer>,
        mut stop: impl FnMut(&str, &Request) -> bool,
    ) -> Result<Outcome, (Arc<str>, Request)> {
        loop {
            match coordinator.next(self.clock.now_ms(), answer.take()) {
                Next::Finished(outcome) => return Ok(outcome),
                Next::Ask(Ask::Store { database, request }) if stop(&database, &request) => {
                    return Err((database, request));
                }
                Next::Ask(Ask::Store { database, request }) => {
                    answer = Some(connections.ask(&database, &request).await);
                }
                Next::Ask(Ask::Wait { ms }) => {
                    self.clock.sleep(ms).await;
                    answer = Some(Ok(Reply::Done));
                }
            }
        }
    }
}

/// Answer of a database.
pub(crate) type Answer = Result<Reply, StoreError>;

pub(crate) fn handle(store: &str, key: &str) -> Value {
    Value::Handle(Handle { store: store.into(), key: key.into() })
}

pub(crate) fn is_commit(request: &Request) -> bool {
    matches!(request, Request::Commit(_))
}

/// The clock of the machine, plus the time that a test lets pass.
#[derive(Clone, Default)]
pub(crate) struct HostClock(Arc<AtomicU64>);

impl HostClock {
    pub(crate) fn pass(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::Relaxed);
    }
}

impl Clock for HostClock {
    fn now_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        u64::try_from(since.as_millis()).unwrap() + self.0.load(Ordering::Relaxed)
    }

    fn sleep(&self, ms: u64) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(Duration::from_millis(ms)))
    }
}

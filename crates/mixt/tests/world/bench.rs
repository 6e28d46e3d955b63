//! Databases, and transactions that run over them one by one, or step by step.

use std::collections::BTreeMap;
use std::sync::Arc;

use solera_language::compile::compile;
use solera_levels::Level;
use solera_mixt::binding::{Bindings, Module, Modules};
use solera_mixt::collect::Collector;
use solera_mixt::coordinator::{Ask, Coordinator, Next, Reply, Request, TransactionId};
use solera_mixt::executor::{Clock, Connections, run};
use solera_mixt::memory::Memory;
use solera_mixt::outcome::{Limits, Outcome};
use solera_mixt::record::Record;
use solera_mixt::store::{Database, StoreError};
use solera_program::value::{Handle, Value};

use super::{Faults, Faulty, World, WorldClock, finish};

const SOURCE: &str = r#"
store strong : linearizable;
store weak : causal;

transaction both(a: handle<counter> in strong, b: handle<counter> in weak) {
    a.add(1);
    b.add(1);
}

transaction limited(a: handle<counter> in strong, b: handle<counter> in weak) {
    a.add(1);
    b.add(9223372036854775807);
}

transaction one(a: handle<counter> in strong) -> int {
    a.add(1);
    if a.value() > 2 { abort("no more than two"); }
    return a.value();
}

transaction weakly(b: handle<counter> in weak) { b.add(1); }

transaction endorsed(a: handle<register<int>> in strong, b: handle<counter> in weak) {
    a.set(endorse(linearizable, b.value()));
}

transaction put(r: handle<register<int>> in strong) { r.set(7); }

transaction must(r: handle<register<int>> in strong) -> int { return *r; }

transaction read(a: handle<counter> in strong, b: handle<counter> in weak) -> list<int> {
    return [a.value(), b.value()];
}
"#;

/// A program whose stores merge commits.
pub(crate) const MERGING: &str = r#"
store one : causal;
store other : causal;

transaction merging(o: handle<counter> in one, p: handle<counter> in other) {
    o.add(1);
    p.add(1);
}

transaction look(o: handle<counter> in one, p: handle<counter> in other) -> list<int> {
    return [o.value(), p.value()];
}
"#;

pub(crate) struct Bench {
    pub(crate) world: Arc<World>,
    pub(crate) databases: Vec<Arc<dyn Database>>,
    pub(crate) memories: Vec<Memory>,
    pub(crate) bindings: Bindings,
    pub(crate) module: Module,
    pub(crate) modules: Arc<Modules>,
    pub(crate) clock: WorldClock,
    pub(crate) limits: Limits,
}

impl Bench {
    /// Puts both stores into databases of their own.
    pub(crate) fn apart() -> Bench {
        let strong = Memory::new("one", &[("all", Level::Linearizable)]);
        let weak = Memory::new("two", &[("all", Level::Causal)]);
        Bench::new(vec![strong, weak], &[("strong", 0, "all"), ("weak", 1, "all")])
    }

    pub(crate) fn new(memories: Vec<Memory>, bind: &[(&str, usize, &str)]) -> Bench {
        Bench::of(SOURCE, memories, bind)
    }

    /// Uses another program.
    pub(crate) fn of(source: &str, memories: Vec<Memory>, bind: &[(&str, usize, &str)]) -> Bench {
        let module = compiled(source);
        let world = World::new(1, Faults::default());
        let faulty = |memory: &Memory| Faulty::new(memory.clone(), Arc::clone(&world));
        let databases: Vec<_> =
            memories.iter().map(|memory| Arc::new(faulty(memory)) as Arc<dyn Database>).collect();
        let bindings = Bindings::new(module.program(), &databases, bind).unwrap();
        let modules = Arc::new(BTreeMap::from([(Arc::clone(module.name()), module.clone())]));
        let (clock, limits) = (WorldClock(Arc::clone(&world)), Limits::default());
        Bench { world, databases, memories, bindings, module, modules, clock, limits }
    }

    pub(crate) fn connections(&self) -> Connections {
        Connections::new(self.databases.iter().cloned())
    }

    pub(crate) fn coordinator(&self, name: &str) -> Coordinator {
        let transaction = self.module.transaction(name).unwrap();
        let params = &self.module.program().transactions[transaction].params;
        let args = params.iter().map(|(name, _)| handle(name)).collect();
        let start = (self.module.clone(), transaction);
        let id = TransactionId::new(self.world.draw());
        let shared = (Arc::clone(&self.modules), self.limits);
        let now_ms = self.clock.now_ms();
        Coordinator::new(start, args, self.bindings.clone(), id, shared, now_ms).unwrap()
    }

    pub(crate) fn run(&self, name: &str) -> (Outcome, Vec<Record>) {
        let mut coordinator = self.coordinator(name);
        let mut connections = self.connections();
        let outcome = finish(&self.world, run(&mut coordinator, &mut connections, &self.clock));
        (outcome, coordinator.garbage())
    }

    pub(crate) fn done(&self, name: &str) -> Value {
        match self.run(name).0 {
            Outcome::Done { result, .. } => result,
            other => panic!("{name}: {other}"),
        }
    }

    pub(crate) fn pass(&self, ms: u64) {
        self.world.pass(ms);
    }

    pub(crate) fn names(&self) -> usize {
        self.memories.iter().map(|memory| memory.names("all").len()).sum()
    }

    /// Removes the garbage of these transactions at once.
    pub(crate) fn collect(&self, records: Vec<Record>) {
        let (mut collector, mut connections) = (Collector::new(self.limits), self.connections());
        collector.add(records, self.clock.now_ms());
        for _ in 0..3 {
            let now_ms = self.clock.now_ms();
            finish(&self.world, collector.collect(&mut connections, now_ms)).unwrap();
            self.pass(self.limits.keep_ms);
        }
        assert_eq!(collector.waiting(), 0);
    }

    /// Runs until a matching request is due, and returns it without executing it.
    pub(crate) fn until(
        &self,
        coordinator: &mut Coordinator,
        connections: &mut Connections,
        answer: Option<Result<Reply, StoreError>>,
        wanted: impl Fn(&str, &Request) -> bool,
    ) -> (Arc<str>, Request) {
        let mut answer = answer;
        loop {
            match coordinator.next(self.clock.now_ms(), answer.take()) {
                Next::Ask(Ask::Store { database, request }) if wanted(&database, &request) => {
                    return (database, request);
                }
                Next::Ask(Ask::Store { database, request }) => {
                    answer = Some(finish(&self.world, connections.ask(&database, &request)));
                }
                Next::Ask(Ask::Wait { ms }) => {
                    self.pass(ms);
                    answer = Some(Ok(Reply::Done));
                }
                Next::Finished(outcome) => panic!("it has ended: {outcome}"),
            }
        }
    }
}

pub(crate) fn module() -> Module {
    compiled(SOURCE)
}

fn compiled(source: &str) -> Module {
    let compiled = compile(source);
    assert!(compiled.program.is_some(), "{:?}", compiled.diagnostics);
    Module::new("test@1", Arc::new(compiled.program.unwrap())).unwrap()
}

pub(crate) fn handle(param: &str) -> Value {
    let (store, key) = match param {
        "a" => ("strong", "x"),
        "r" => ("strong", "y"),
        "o" => ("one", "x"),
        "p" => ("other", "x"),
        "c" => ("last", "x"),
        _ => ("weak", "x"),
    };
    Value::Handle(Handle { store: store.into(), key: key.into() })
}

pub(crate) fn ints(numbers: [i64; 2]) -> Value {
    Value::list(numbers.map(Value::Int))
}

pub(crate) fn is_commit(request: &Request) -> bool {
    matches!(request, Request::Commit(_))
}

//! Many transactions over several databases, with faults, in virtual time.

mod world;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Waker};

use solera_language::compile::compile;
use solera_language::run::Limits as PhaseLimits;
use solera_language::value::{Handle, Value};
use solera_levels::Level;
use solera_mixt::binding::{Bindings, Module, Modules};
use solera_mixt::collect::Collector;
use solera_mixt::coordinator::{Coordinator, TransactionId};
use solera_mixt::drive::{Clock, Connections, run};
use solera_mixt::memory::Memory;
use solera_mixt::outcome::{Limits, Outcome};
use solera_mixt::record::Record;
use solera_mixt::recovery::{Recovered, recover};
use solera_mixt::store::{Database, Place};
use world::{Faults, Faulty, Remote, World, WorldClock, finish};

/// Every transaction that writes puts its number into sets of all stores, and counts itself in each.
const SOURCE: &str = r#"
store directory : linearizable;
store mail : causal;
store shop : causal;
store audit : eventual;



transaction write_two(a: handle<set<int>> in directory, an: handle<counter> in directory,
    b: handle<set<int>> in mail, bn: handle<counter> in mail, number: int) -> int {
    var before = an.value();
    a.add(number);
    an.add(1);
    b.add(number);
    bn.add(1);
    return before;
}

transaction write_three(a: handle<set<int>> in directory, an: handle<counter> in directory,
    b: handle<set<int>> in mail, bn: handle<counter> in mail,
    c: handle<set<int>> in shop, cn: handle<counter> in shop,
    log: handle<log<int>> in audit, number: int) -> int {
    a.add(number);
    an.add(1);
    b.add(number);
    bn.add(1);
    c.add(number);
    cn.add(1);
    log.append(number);
    return number;
}

transaction read(a: handle<set<int>> in directory, b: handle<set<int>> in mail,
    c: handle<set<int>> in shop) -> list<set<int>> {
    return [a.elements(), b.elements(), c.elements()];
}

transaction counts(a: handle<counter> in directory, b: handle<counter> in mail,
    c: handle<counter> in shop) -> list<int> {
    return [a.value(), b.value(), c.value()];
}
"#;

const LIMITS: Limits = Limits {
    phase: PhaseLimits {
        fuel: 1_000_000,
        depth: 200,
        value_bytes: 1 << 20,
        held_bytes: 4 << 20,
        tape_bytes: 1 << 20,
    },
    run_ms: 60_000,
    attempts: 12,
    backoff_first_ms: 2,
    backoff_last_ms: 40,
    finish_ms: 200,
    orphan_ms: 600,
    blocked_ms: 1_500,
    keep_ms: 5_000,
};

/// How many look for what others have left.
const CLEANERS: usize = 2;

/// How many objects of each kind there are.
const OBJECTS: u64 = 2;

/// The databases of a world, by their names.
struct Databases {
    directory: Memory,
    mail: Memory,
    shop: Memory,
    audit: Memory,
    /// What runs groups of phases next to them.
    remote: Option<Arc<Remote>>,
}

impl Databases {
    fn new(remote: Option<Arc<Remote>>) -> Databases {
        Databases {
            remote,
            directory: Memory::new("directory", &[("all", Level::Linearizable)]),
            mail: Memory::lagging("mail", &[("all", Level::Causal)], 2),
            shop: Memory::new("shop", &[("all", Level::Causal)]),
            audit: Memory::new("audit", &[("all", Level::Eventual)]),
        }
    }

    /// As they are seen at a site.
    fn at(&self, site: usize, world: &Arc<World>) -> Vec<Arc<dyn Database>> {
        let mail = self.mail.at(site);
        let all = [&self.directory, &mail, &self.shop, &self.audit].map(Memory::clone);
        let remote = &self.remote;
        let faulty =
            |memory| Arc::new(Faulty { memory, world: Arc::clone(world), remote: remote.clone() });
        all.map(|memory| faulty(memory) as Arc<dyn Database>).into()
    }
}

/// What is known of what clients did.
#[derive(Default)]
struct Known {
    /// By the number of a transaction, the object it was about and how it ended, if its client lived on.
    writes: BTreeMap<i64, (u64, bool, Option<Outcome>)>,
    reads: u32,
    /// What readers saw of only some stores.
    torn: Vec<String>,
    /// Of those who clean up.
    collectors: [Option<Collector>; CLEANERS],
    /// Of transactions that were left incomplete.
    tickets: Vec<Record>,
}

#[derive(Clone)]
struct Setting {
    world: Arc<World>,
    databases: Rc<Databases>,
    module: Module,
    modules: Arc<Modules>,
    bindings: Bindings,
    known: Rc<RefCell<Known>>,
}

fn setting(seed: u64, faults: Faults, remote: bool) -> Setting {
    let compiled = compile(SOURCE);
    assert!(compiled.program.is_some(), "{:?}", compiled.diagnostics);
    let module = Module::new("test@1", Arc::new(compiled.program.unwrap())).unwrap();
    let world = World::new(seed, faults);
    let modules = Arc::new(BTreeMap::from([(Arc::clone(module.name()), module.clone())]));
    let remote = remote.then(|| Remote::new(Arc::clone(&modules), LIMITS));
    let databases = Rc::new(Databases::new(remote));
    let bind =
        [("directory", 0, "all"), ("mail", 1, "all"), ("shop", 2, "all"), ("audit", 3, "all")];
    let bindings = Bindings::new(module.program(), &databases.at(0, &world), &bind).unwrap();
    let collectors = [(); CLEANERS].map(|()| Some(Collector::new(LIMITS)));
    let known = Known { collectors, ..Known::default() };
    Setting { world, databases, module, modules, bindings, known: Rc::new(RefCell::new(known)) }
}

impl Setting {
    fn coordinator(&self, name: &str, args: Vec<Value>) -> Coordinator {
        let transaction = self.module.transaction(name).unwrap();
        let now_ms = self.world.now.load(Ordering::Relaxed);
        Coordinator::new(
            (self.module.clone(), transaction),
            args,
            self.bindings.clone(),
            TransactionId::new(self.world.draw()),
            (Arc::clone(&self.modules), LIMITS),
            now_ms,
        )
        .unwrap()
    }

    async fn client(self) {
        let clock = WorldClock(Arc::clone(&self.world));
        let site = self.world.below(2) as usize;
        let mut connections = Connections::new(self.databases.at(site, &self.world));
        loop {
            self.resume_some(&mut connections, &clock).await;
            let object = self.world.below(OBJECTS);
            let handle = |store: &str, kind: &str| {
                Value::Handle(Handle { store: store.into(), key: format!("{kind}{object}").into() })
            };
            let pair = |store: &str| [handle(store, "set"), handle(store, "count")];
            let kind = self.world.below(3);
            if kind == 2 {
                let args = ["directory", "mail", "shop"].map(|store| handle(store, "set"));
                let mut coordinator = self.coordinator("read", args.into());
                let outcome = run(&mut coordinator, &mut connections, &clock).await;
                self.judge_read(&coordinator, outcome);
                self.collect(&mut coordinator);
                continue;
            }
            let three = kind == 1;
            let number = {
                let mut known = self.known.borrow_mut();
                let number = known.writes.len() as i64;
                known.writes.insert(number, (object, three, None));
                number
            };
            let mut args: Vec<Value> = [pair("directory"), pair("mail")].concat();
            if three {
                args.extend(pair("shop"));
                args.push(handle("audit", "log"));
            }
            args.push(Value::Int(number));
            let name = if three { "write_three" } else { "write_two" };
            let mut coordinator = self.coordinator(name, args);
            let outcome = run(&mut coordinator, &mut connections, &clock).await;
            if let Outcome::Incomplete { ticket: Some(ticket), .. } = &outcome {
                let mut known = self.known.borrow_mut();
                known.tickets.push((**ticket).clone());
                // A host that lives goes on with what it has given up, while callers may do so, too.
                let whose = self.world.below(CLEANERS as u64) as usize;
                if let Some(collector) = &mut known.collectors[whose] {
                    collector.give_up((**ticket).clone());
                }
            }
            self.known.borrow_mut().writes.insert(number, (object, three, Some(outcome)));
            self.collect(&mut coordinator);
        }
    }

    /// Now and then goes on from a ticket, also from one that others go on from.
    async fn resume_some(&self, connections: &mut Connections, clock: &WorldClock) {
        let ticket = {
            let known = self.known.borrow();
            let count = known.tickets.len() as u64;
            if count == 0 || self.world.below(4) > 0 {
                return;
            }
            // Often the latest, of which most may still be under way.
            let which = if self.world.below(2) == 0 { count - 1 } else { self.world.below(count) };
            known.tickets[which as usize].clone()
        };
        let now_ms = clock.now_ms();
        let modules = Arc::clone(&self.modules);
        let mut resumed = Coordinator::resume(ticket, modules, LIMITS, now_ms).unwrap();
        run(&mut resumed, connections, clock).await;
        self.collect(&mut resumed);
    }

    fn collect(&self, coordinator: &mut Coordinator) {
        let mut known = self.known.borrow_mut();
        let now = self.world.now.load(Ordering::Relaxed);
        let whose = self.world.below(CLEANERS as u64) as usize;
        // While one is at work, what is left is lost with its host's memory.
        if let Some(collector) = &mut known.collectors[whose] {
            collector.add(coordinator.leftovers(), now);
            coordinator.given_up().into_iter().for_each(|ticket| collector.give_up(ticket));
        }
    }

    /// Of what is written in several stores, a reader sees all or nothing.
    fn judge_read(&self, coordinator: &Coordinator, outcome: Outcome) {
        let Outcome::Done { result: Value::List(sets), .. } = outcome else { return };
        let sets: Vec<BTreeSet<i64>> = sets.iter().map(numbers).collect();
        let mut known = self.known.borrow_mut();
        known.reads += 1;
        let threes: BTreeSet<i64> =
            sets[0].iter().copied().filter(|number| known.writes[number].1).collect();
        if sets[0] != sets[1] || threes != sets[2] {
            known.torn.push(format!("{}: {sets:?}", coordinator.id()));
        }
    }

    async fn recover_all(
        &self,
        collector: &Collector,
        connections: &mut Connections,
    ) -> Vec<Recovered> {
        let clock = WorldClock(Arc::clone(&self.world));
        let mut all = Vec::new();
        for database in ["directory", "mail", "shop"] {
            let place = Place { database: database.into(), space: "all".into() };
            let known = (&self.modules, LIMITS);
            let found = recover(&place, connections, known, collector, &clock).await;
            all.extend(found);
        }
        all
    }

    /// Recovers and collects from time to time.
    async fn cleaner(self, which: usize) {
        let clock = WorldClock(Arc::clone(&self.world));
        let mut connections = Connections::new(self.databases.at(which, &self.world));
        loop {
            clock.sleep(200 + self.world.below(400)).await;
            self.clean(which, &mut connections).await;
        }
    }

    async fn clean(&self, which: usize, connections: &mut Connections) {
        let collector = self.known.borrow_mut().collectors[which].take();
        let mut collector = collector.unwrap_or(Collector::new(LIMITS));
        let recovered = self.recover_all(&collector, connections).await;
        let now = self.world.now.load(Ordering::Relaxed);
        for mut found in recovered {
            collector.take(&mut found, now);
        }
        // What fails is done the next time.
        let _ = collector.collect(connections, now).await;
        self.known.borrow_mut().collectors[which] = Some(collector);
    }
}

fn numbers(set: &Value) -> BTreeSet<i64> {
    let Value::Set(set) = set else { panic!("{set:?} is no set") };
    let number = |value: &Value| match value {
        Value::Int(number) => *number,
        other => panic!("{other:?} is no number"),
    };
    set.iter().map(number).collect()
}

/// Something that runs.
type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Lets a task go on by one step; whether it is over.
fn poll(task: &mut Task) -> bool {
    task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// Runs clients for some steps, then heals the world and cleans up.
fn live(setting: &Setting, clients: usize, steps: u64) {
    let world = &setting.world;
    let mut tasks: Vec<Task> = Vec::new();
    for _ in 0..clients {
        tasks.push(Box::pin(setting.clone().client()));
    }
    for which in 0..CLEANERS {
        tasks.push(Box::pin(setting.clone().cleaner(which)));
    }
    if let Some(remote) = setting.databases.remote.clone() {
        let world = Arc::clone(world);
        tasks.push(Box::pin(async move { remote.deliver(world).await }));
    }
    for _ in 0..steps {
        world.pass(u64::from(world.below(4) == 0));
        let which = world.below(tasks.len() as u64) as usize;
        assert!(!poll(&mut tasks[which]), "clients and cleaners go on for ever");
        if which < clients && world.below(1000) < DEATHS {
            tasks[which] = Box::pin(setting.clone().client());
        }
        if world.below(40) == 0 {
            setting.databases.mail.at(world.below(2) as usize).catch_up();
        }
    }
    drop(tasks);
    heal(setting);
}

fn heal(setting: &Setting) {
    let world = &setting.world;
    let blind = world.faults.lock().unwrap().blind;
    *world.faults.lock().unwrap() = Faults { blind, ..Faults::default() };
    let mut connections = Connections::new(setting.databases.at(0, world));
    for _ in 0..8 {
        setting.databases.mail.at(0).catch_up();
        setting.databases.mail.at(1).catch_up();
        for which in 0..CLEANERS {
            finish(world, setting.clean(which, &mut connections));
        }
        world.pass(LIMITS.keep_ms);
    }
}

/// What must hold when all has come to rest.
fn judge(setting: &Setting, seed: u64) {
    let databases = &setting.databases;
    for memory in [&databases.directory, &databases.mail, &databases.shop] {
        let left = memory.names("all");
        assert!(left.is_empty(), "seed {seed}: left in {memory:?}: {left:?}");
    }
    let world = &setting.world;
    let clock = WorldClock(Arc::clone(world));
    let known = setting.known.borrow();
    for object in 0..OBJECTS {
        let mut connections = Connections::new(setting.databases.at(0, world));
        let handle = |store: &str, kind: &str| {
            Value::Handle(Handle { store: store.into(), key: format!("{kind}{object}").into() })
        };
        let args = ["directory", "mail", "shop"].map(|store| handle(store, "set"));
        let mut coordinator = setting.coordinator("read", args.into());
        let outcome = finish(world, run(&mut coordinator, &mut connections, &clock));
        let Outcome::Done { result: Value::List(sets), .. } = outcome else {
            panic!("seed {seed}: {outcome}")
        };
        let sets: Vec<BTreeSet<i64>> = sets.iter().map(numbers).collect();
        for (number, (_, three, outcome)) in
            known.writes.iter().filter(|(_, (of, ..))| *of == object)
        {
            let there: Vec<bool> = sets.iter().map(|set| set.contains(number)).collect();
            let expected = match outcome {
                Some(Outcome::Done { .. }) => Some(true),
                Some(Outcome::Failed(_)) => Some(false),
                Some(Outcome::Incomplete { .. }) | None => None,
            };
            let done = expected.unwrap_or(there[0]);
            assert_eq!(there, [done, done, done && *three], "seed {seed}: {number}: {outcome:?}");
        }
        let mut args = vec![];
        for store in ["directory", "mail", "shop"] {
            args.push(handle(store, "count"));
        }
        let mut coordinator = setting.coordinator("counts", args);
        let outcome = finish(world, run(&mut coordinator, &mut connections, &clock));
        let Outcome::Done { result: Value::List(counts), .. } = outcome else {
            panic!("seed {seed}: {outcome}")
        };
        let sizes: Vec<_> = sets.iter().map(|set| Value::Int(set.len() as i64)).collect();
        assert_eq!(**counts, sizes, "seed {seed}: something was done twice, or not at all");
    }
}

const FAULTS: Faults =
    Faults { unavailable: 15, conflict: 15, lost_reply: 40, late_ms: LATE_MS, blind: false };

/// How long a commit is under way at most whose answer was lost. What is left until others may go on covers how long a
/// request takes to leave.
const LATE_MS: u64 = (LIMITS.orphan_ms - LIMITS.finish_ms) * 3 / 4;

/// How many of a thousand steps of clients are their last.
const DEATHS: u64 = 2;

fn run_seed(seed: u64, faults: Faults, remote: bool) -> Setting {
    let setting = setting(seed, faults, remote);
    live(&setting, 5, 30_000);
    setting
}

#[test]
fn nothing_is_torn_lost_or_done_twice() {
    all_seeds(false);
}

/// Shipments and answers are lost, come late and twice, and workers die.
#[test]
fn nothing_is_torn_lost_or_done_twice_next_to_the_stores() {
    let (run, late) = all_seeds(true);
    assert!(run > 100 && late > 0, "{run} shipments, {late} late: too few to tell");
    println!("{run} shipments, {late} late");
}

/// How many shipments were run, and how many late.
fn all_seeds(remote: bool) -> (u64, u64) {
    let (mut reads, mut done, mut open) = (0, 0, 0);
    let (mut run, mut late) = (0, 0);
    for seed in 0..seeds() {
        let setting = run_seed(seed, FAULTS, remote);
        let known = setting.known.borrow();
        assert!(known.torn.is_empty(), "seed {seed}: {:?}", known.torn);
        drop(known);
        judge(&setting, seed);
        let known = setting.known.borrow();
        reads += known.reads;
        let ended = |test: fn(&Outcome) -> bool| {
            known.writes.values().filter(|(.., outcome)| outcome.as_ref().is_some_and(test)).count()
        };
        done += ended(|outcome| matches!(outcome, Outcome::Done { .. }));
        open += ended(|outcome| matches!(outcome, Outcome::Incomplete { .. }));
        if let Some(remote) = &setting.databases.remote {
            run += remote.run.load(Ordering::Relaxed);
            late += remote.came_late.load(Ordering::Relaxed);
        }
    }
    assert!(reads > 100 && done > 100, "{reads} reads and {done} writes: too few to tell");
    println!("{reads} reads, {done} writes, {open} incomplete");
    (run, late)
}

/// A write witness stood for another one's, whose transaction its own had missed in a stronger store.
#[test]
fn seed_89_a_replaced_witness_was_needed() {
    let setting = run_seed(89, FAULTS, false);
    assert_eq!(setting.known.borrow().torn, [""; 0]);
}

/// How many seeds are tried: `MIXT_SEEDS`, or a few. If a ticket does not tell that a commit of it is in doubt, seed 21 finds a
/// group that takes effect twice.
fn seeds() -> u64 {
    std::env::var("MIXT_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(24)
}

/// Without witnesses readers do see parts, so the world can tell.
#[test]
fn without_witnesses_transactions_are_torn() {
    let blind = Faults { blind: true, ..FAULTS };
    let torn = (0..4).map(|seed| run_seed(seed, blind, false).known.borrow().torn.len());
    assert!(torn.sum::<usize>() > 0, "no part of a transaction was seen");
}

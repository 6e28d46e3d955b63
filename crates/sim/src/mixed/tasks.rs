//! The hosts' tasks: clients call transactions that write or read in all stores, and one cleaner
//! recovers transactions and collects garbage.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use solera_language::compile::compile;
use solera_levels::Level;
use solera_mixt::binding::{Bindings, Module, Modules};
use solera_mixt::collect::Collector;
use solera_mixt::coordinator::{Coordinator, TransactionId};
use solera_mixt::executor::{Clock, Connections, run};
use solera_mixt::outcome::{Limits, Outcome};
use solera_mixt::record::Record;
use solera_mixt::recovery::recover;
use solera_mixt::store::{Database, Location};
use solera_program::value::{Handle, Value};
use solera_time::SiteId;

use super::cluster::Task;
use super::exchange::{Exchange, HostClock};
use super::probe::{self, Probes};
use super::store::{Rule, Spaces};
use super::users::{DATABASES, USERS, Users};

/// Every writing transaction adds its number to sets in its stores, and increments a counter in
/// each.
const SOURCE: &str = "
store directory : linearizable;
store mail : causal;
store shop : causal;

transaction write_two(a: handle<set<int>> in directory, an: handle<counter> in directory,
    b: handle<set<int>> in mail, bn: handle<counter> in mail, number: int) -> int {
    a.add(number);
    an.add(1);
    b.add(number);
    bn.add(1);
    return number;
}

transaction write_three(a: handle<set<int>> in directory, an: handle<counter> in directory,
    b: handle<set<int>> in mail, bn: handle<counter> in mail,
    c: handle<set<int>> in shop, cn: handle<counter> in shop, number: int) -> int {
    a.add(number);
    an.add(1);
    b.add(number);
    bn.add(1);
    c.add(number);
    cn.add(1);
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
";

/// Number of clients of each host.
const CLIENTS: usize = 2;
/// Number of objects of each kind.
pub(super) const OBJECTS: usize = 3;

/// Limits that agree with one another as [`Limits`] requires. After `finish_ms` a command runs for
/// at most 1.5 seconds, and clocks differ by less than the rest until `orphan_ms`.
pub(super) fn limits() -> Limits {
    Limits {
        run_ms: 20_000,
        attempts: 12,
        backoff_first_ms: 5,
        backoff_last_ms: 200,
        finish_ms: 1_000,
        orphan_ms: 3_000,
        blocked_ms: 4_500,
        keep_ms: 6_000,
        ..Limits::default()
    }
}

/// A writing transaction.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) object: usize,
    pub(super) three: bool,
    /// Outcome, if its host did not stop meanwhile.
    pub(super) outcome: Option<Outcome>,
}

/// Knowledge about the clients' transactions.
#[derive(Default)]
pub(super) struct Known {
    /// Writes by the number of the transaction.
    pub(super) writes: BTreeMap<i64, Write>,
    pub(super) reads: u32,
    /// Number of calls that were rejected for a right that was missing from their beginning to
    /// their end.
    pub(super) refused: u32,
    /// Number of transactions that other hosts have completed.
    pub(super) recovered: u32,
    /// Number of times that a completion was denied.
    pub(super) denied: u32,
    pub(super) violations: Vec<String>,
    pub(super) probes: Probes,
    /// Records of transactions that were left incomplete.
    tickets: Vec<Record>,
}

/// Garbage that clients of a host hand to its cleaner.
#[derive(Default)]
struct Left {
    complete: Vec<Record>,
    given_up: Vec<Record>,
}

type Inbox = Rc<RefCell<Left>>;

/// A host, and the state that all hosts share.
#[derive(Clone)]
pub(super) struct Host {
    pub(super) index: usize,
    pub(super) epoch_ms: u64,
    pub(super) shared: Rc<Shared>,
}

pub(super) struct Shared {
    pub(super) exchange: Exchange,
    pub(super) users: Users,
    without: Option<Rule>,
    /// Whether each host also probes for numbers.
    probing: bool,
    module: Module,
    modules: Arc<Modules>,
    pub(super) known: RefCell<Known>,
}

impl Shared {
    pub(super) fn new(exchange: Exchange, without: Option<Rule>, probing: bool) -> Shared {
        let compiled = compile(&format!("{SOURCE}{}", probe::SOURCE));
        let program = compiled.program.expect("the program is right");
        let module = Module::new("test@1", Arc::new(program)).expect("it can be run");
        let modules = Arc::new(BTreeMap::from([(Arc::clone(module.name()), module.clone())]));
        let (users, known) = (Users::new(), RefCell::default());
        Shared { exchange, users, without, probing, module, modules, known }
    }
}

impl Host {
    fn databases(&self, user: Option<&str>) -> Vec<Arc<dyn Database>> {
        let levels = [Level::Linearizable, Level::Causal, Level::Causal];
        let all = DATABASES.into_iter().zip(levels).map(|(name, level)| {
            Arc::new(Spaces {
                exchange: self.shared.exchange.clone(),
                users: self.shared.users.clone(),
                name,
                level,
                site: SiteId(self.index as u8),
                user: user.map(Arc::from),
                without: self.shared.without,
            }) as Arc<dyn Database>
        });
        all.collect()
    }

    pub(super) fn connections(&self, user: Option<&str>) -> Connections {
        Connections::new(self.databases(user))
    }

    pub(super) fn clock(&self) -> HostClock {
        HostClock { exchange: self.shared.exchange.clone(), epoch_ms: self.epoch_ms }
    }

    /// Returns a host's tasks: two clients, a cleaner, a prober if the run has them, and at the
    /// first host the administrator.
    pub(super) fn work(&self) -> Vec<Task> {
        let inbox = Inbox::default();
        let mut tasks: Vec<Task> = Vec::new();
        for client in 0..CLIENTS {
            let user = USERS[(self.index + client) % USERS.len()];
            tasks.push(Box::pin(self.clone().client(user, Rc::clone(&inbox))));
        }
        tasks.push(Box::pin(self.clone().cleaner(inbox)));
        if self.shared.probing {
            tasks.push(Box::pin(self.clone().prober()));
        }
        if self.index == 0 {
            tasks.push(Box::pin(self.clone().administrator()));
        }
        tasks
    }

    /// Returns the tasks while the world settles: only the cleaner.
    pub(super) fn rest(&self) -> Vec<Task> {
        vec![Box::pin(self.clone().cleaner(Inbox::default()))]
    }

    /// Repeatedly grants a right to a user, or revokes it.
    async fn administrator(self) {
        let (clock, exchange) = (self.clock(), &self.shared.exchange);
        loop {
            clock.sleep(exchange.within(50, 800)).await;
            let user = USERS[exchange.below(USERS.len())];
            let database = DATABASES[exchange.below(DATABASES.len())];
            self.shared.users.grant(user, database, exchange.below(6) > 0);
        }
    }

    pub(super) fn coordinator(&self, name: &str, args: Vec<Value>) -> Coordinator {
        let shared = &self.shared;
        let program = shared.module.program();
        let bind: Vec<_> = (0..).zip(DATABASES).map(|(at, name)| (name, at, "all")).collect();
        let bindings =
            Bindings::new(program, &self.databases(None), &bind).expect("the levels fit");
        let transaction = shared.module.transaction(name).expect("the program has it");
        let exchange = &shared.exchange;
        let id = TransactionId::new(exchange.within(0, u64::MAX));
        let known = (Arc::clone(&shared.modules), limits());
        let start = (shared.module.clone(), transaction);
        let made = Coordinator::new(start, args, bindings, id, known, self.clock().now_ms());
        made.expect("the arguments fit")
    }

    async fn client(self, user: &'static str, inbox: Inbox) {
        let (clock, exchange) = (self.clock(), &self.shared.exchange);
        let mut connections = self.connections(Some(user));
        loop {
            clock.sleep(exchange.within(20, 700)).await;
            self.resume_some(&mut connections, &inbox).await;
            if exchange.below(4) == 0 {
                self.read(&mut connections, &inbox).await;
            } else {
                self.write(user, &mut connections, &inbox).await;
            }
        }
    }

    async fn read(&self, connections: &mut Connections, inbox: &RefCell<Left>) {
        let object = self.shared.exchange.below(OBJECTS);
        let mut coordinator =
            self.coordinator("read", DATABASES.map(|store| handle(store, "set", object)).into());
        let outcome = run(&mut coordinator, connections, &self.clock()).await;
        self.leave(&mut coordinator, inbox);
        let Outcome::Done { result: Value::List(sets), .. } = outcome else { return };
        let sets: Vec<BTreeSet<i64>> = sets.iter().map(numbers).collect();
        let mut known = self.shared.known.borrow_mut();
        known.reads += 1;
        let threes: BTreeSet<i64> =
            sets[0].iter().copied().filter(|number| known.writes[number].three).collect();
        if sets[0] != sets[1] || threes != sets[2] {
            known.violations.push(format!("{} sees parts: {sets:?}", coordinator.id()));
        }
    }

    async fn write(
        &self,
        user: &'static str,
        connections: &mut Connections,
        inbox: &RefCell<Left>,
    ) {
        let (users, exchange) = (&self.shared.users, &self.shared.exchange);
        let (object, three) = (exchange.below(OBJECTS), exchange.below(2) == 0);
        let number = {
            let writes = &mut self.shared.known.borrow_mut().writes;
            let number = writes.len() as i64;
            writes.insert(number, Write { object, three, outcome: None });
            number
        };
        users.begins(number, user);
        let stores = if three { &DATABASES[..] } else { &DATABASES[..2] };
        let lacks = stores.iter().any(|store| !users.may(user, store));
        let changes = users.changes();
        let pair = |store: &&str| [handle(store, "set", object), handle(store, "count", object)];
        let mut args: Vec<Value> = stores.iter().flat_map(pair).collect();
        args.push(Value::Int(number));
        let name = if three { "write_three" } else { "write_two" };
        let mut coordinator = self.coordinator(name, args);
        let outcome = run(&mut coordinator, connections, &self.clock()).await;
        self.leave(&mut coordinator, inbox);
        let mut known = self.shared.known.borrow_mut();
        if lacks && changes == users.changes() {
            known.refused += 1;
            if !matches!(outcome, Outcome::Failed(_)) {
                let violation = format!("{number} began although {user} lacked a right: {outcome}");
                known.violations.push(violation);
            }
        }
        if let Outcome::Incomplete { ticket: Some(ticket), .. } = &outcome {
            known.tickets.push((**ticket).clone());
            inbox.borrow_mut().given_up.push((**ticket).clone());
        }
        known.writes.get_mut(&number).expect("it was noted").outcome = Some(outcome);
    }

    /// Sometimes resumes from a ticket, possibly while other hosts resume from the same one.
    async fn resume_some(&self, connections: &mut Connections, inbox: &RefCell<Left>) {
        let ticket = {
            let tickets = &self.shared.known.borrow().tickets;
            let count = tickets.len();
            if count == 0 || self.shared.exchange.below(4) > 0 {
                return;
            }
            // Often the latest ticket, whose transaction may still be under way.
            let any = self.shared.exchange.below(count);
            tickets[if self.shared.exchange.below(2) == 0 { count - 1 } else { any }].clone()
        };
        let (modules, clock) = (Arc::clone(&self.shared.modules), self.clock());
        let resumed = Coordinator::resume(ticket, modules, limits(), clock.now_ms());
        let mut resumed = resumed.expect("its module is known");
        run(&mut resumed, connections, &clock).await;
        self.leave(&mut resumed, inbox);
    }

    /// Hands a coordinator's garbage to its host's cleaner.
    fn leave(&self, coordinator: &mut Coordinator, inbox: &RefCell<Left>) {
        let mut inbox = inbox.borrow_mut();
        inbox.complete.extend(coordinator.garbage());
        inbox.given_up.extend(coordinator.given_up());
    }

    /// Periodically recovers transactions and collects garbage.
    async fn cleaner(self, inbox: Inbox) {
        let clock = self.clock();
        let mut collector = Collector::new(limits());
        let mut connections = self.connections(None);
        let place = Location { database: DATABASES[0].into(), space: "all".into() };
        loop {
            clock.sleep(self.shared.exchange.within(200, 800)).await;
            let left = inbox.take();
            collector.add(left.complete, clock.now_ms());
            left.given_up.into_iter().for_each(|ticket| collector.give_up(ticket));
            let known = (&self.shared.modules, limits());
            let found = recover(&place, &mut connections, known, &collector, &clock).await;
            if let Ok(mut found) = found {
                let denied = found.open.iter().filter(|(_, outcome)| outcome.denied().is_some());
                let mut known = self.shared.known.borrow_mut();
                known.denied += denied.count() as u32;
                known.recovered += found.completed.len() as u32;
                collector.take(&mut found, clock.now_ms());
            }
            // The next round repeats failed steps.
            let _ = collector.collect(&mut connections, clock.now_ms()).await;
        }
    }

    /// Reads both sets and counters of an object in all stores.
    pub(super) async fn look(self, object: usize, into: Rc<RefCell<Option<Outcome>>>, sets: bool) {
        let mut connections = self.connections(None);
        let (name, kind) = if sets { ("read", "set") } else { ("counts", "count") };
        let args = DATABASES.map(|store| handle(store, kind, object));
        let mut coordinator = self.coordinator(name, args.into());
        let outcome = run(&mut coordinator, &mut connections, &self.clock()).await;
        *into.borrow_mut() = Some(outcome);
    }
}

pub(super) fn handle(store: &str, kind: &str, object: usize) -> Value {
    Value::Handle(Handle { store: store.into(), key: format!("{kind}{object}").into() })
}

pub(super) fn numbers(set: &Value) -> BTreeSet<i64> {
    let Value::Set(set) = set else { panic!("{set:?} is no set") };
    let number = |value: &Value| match value {
        Value::Int(number) => *number,
        other => panic!("{other:?} is no number"),
    };
    set.iter().map(number).collect()
}

//! Transactions as functions, over databases in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use solera_levels::Level;
use solera_mixt::binding::BindError;
use solera_mixt::executor::Clock;
use solera_mixt::memory::Memory;
use solera_mixt::outcome::Limits;
use solera_mixt::store::{
    Answer, Begin, BoxFuture, Connection, Database, Fields, List, NameWrite, ObjectCall, StoreError,
};
use solera_mixt::typed::{Counter, Error, Handle, Host, Program, Space, TypedSession};

mod groups {
    solera_mixt::mixt_file!("../../examples/message_groups.mixt");
}

mod all {
    solera_mixt::mixt! {
        /// The first store of a program with values of every type.
        store strong : linearizable;
        store weak : causal;
        struct Line { product: string, count: int }
        struct Tree { value: float, type: bool, next: option<Tree>, below: list<Tree> }

        // A parameter and a result of each type.
        transaction echo(
            a: int, b: float, c: bool, d: string, e: bytes, f: option<string>, g: list<bytes>,
            h: set<Line>, i: map<string, list<int>>, j: Tree, k: option<handle<counter> in weak>,
        ) -> Tree {
            if a != 1_000 || !c || d != "ö\n\u{FC}" || e != b"\x00a" || f != none || g.len() != 1 { abort "other"; }
            if !h.contains(Line { product: "tea", count: 2 }) || i["a"] != [1, 2] { abort "another"; }
            match k { some(counter) => { counter.add(a); } none => {} }
            return Tree { value: b, type: c, next: some(j), below: [] };
        }
        transaction bump(n: handle<counter> in weak) -> int @ causal { n.add(1); return n.value(); }
        transaction limited(n: handle<counter> in strong, most: int) {
            if n.value() >= most { abort "no more than " + string(most); }
            n.add(1);
        }
        fn count_of(name: string) -> handle<counter> in weak {
            return handle<counter>("count:" + name) in weak;
        }
        transaction count(name: string) -> handle<counter> in weak {
            count_of(name).add(1);
            if (handle<set<list<string>>>("names") in weak).size() >= 1 { abort "there are names"; }
            return count_of(name);
        }
        transaction divide(a: int, self: int) -> int { return a / self; }
        transaction both(a: handle<counter> in strong, b: handle<counter> in weak) -> int {
            var before = a.value();
            a.add(1);
            b.add(1);
            return before;
        }
    }
}

/// Clock that advances only when a coordinator waits.
#[derive(Default)]
struct Still {
    now_ms: AtomicU64,
    drawn: AtomicU64,
}

impl Clock for Still {
    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed)
    }

    fn sleep(&self, ms: u64) -> BoxFuture<'_, ()> {
        self.now_ms.fetch_add(ms, Ordering::Relaxed);
        Box::pin(async {})
    }
}

impl Host for Still {
    fn random(&self) -> u64 {
        (self.drawn.fetch_add(1, Ordering::Relaxed) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn module_name(&self, source: &str) -> String {
        format!("module of {} bytes", source.len())
    }
}

/// Returns the result of a future that is ready at once.
fn now<R>(future: impl Future<Output = R>) -> R {
    let mut context = Context::from_waker(Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        Poll::Ready(ready) => ready,
        Poll::Pending => panic!("nothing in memory has to wait"),
    }
}

fn memory() -> Memory {
    Memory::disjoint("db", &[("strong", Level::Linearizable), ("weak", Level::Causal)])
}

fn session() -> TypedSession<all::Program> {
    all::Stores::within(&memory()).bind(Still::default()).unwrap()
}

#[test]
fn message_groups_are_functions() {
    let spaces =
        [("dir", Level::Linearizable), ("mail", Level::Causal), ("audit", Level::Eventual)];
    let memory = Memory::new("db", &spaces);
    let stores =
        groups::Stores { directory: Space::new(&memory, "dir"), ..groups::Stores::within(&memory) };
    let mut on = stores.bind(Still::default()).unwrap();
    let ann = now(groups::create_user(&mut on, "Ann")).unwrap();
    let tea = now(groups::create_group(&mut on, "tea")).unwrap();
    assert!(now(groups::join(&mut on, &tea, &ann)).unwrap());
    assert!(!now(groups::join(&mut on, &tea, &ann)).unwrap());
    let log = Handle::new("all");
    assert_eq!(now(groups::post(&mut on, &tea, &log, "hello")).unwrap(), 1);
    let inbox: BTreeSet<String> = now(groups::inbox(&mut on.another(), &ann)).unwrap();
    assert_eq!(inbox, BTreeSet::from(["hello".to_owned()]));
    assert!(ann.to_string().starts_with("mail:"), "{ann}");
}

#[test]
fn values_of_all_types_are_returned_unchanged() {
    let tree = all::Tree { value: 0.5, r#type: true, next: None, below: vec![] };
    let tree = all::Tree { below: vec![tree.clone()], ..tree };
    let line = all::Line { product: "tea".into(), count: 2 };
    let mut on = session();
    let counter: Handle<Counter, all::stores::weak> = Handle::new("k");
    let echoed = now(all::echo(
        &mut on,
        1000,
        0.5,
        true,
        "ö\nü",
        b"\0a",
        &None,
        &[vec![1, 2]],
        &BTreeSet::from([line]),
        &BTreeMap::from([("a".to_owned(), vec![1, 2])]),
        &tree,
        &Some(counter.clone()),
    ));
    let expected =
        all::Tree { value: 0.5, r#type: true, next: Some(Box::new(tree)), below: vec![] };
    assert_eq!(echoed.unwrap(), expected);
    assert_eq!(now(all::bump(&mut on, &counter)).unwrap(), 1001);
}

#[test]
fn a_store_cannot_be_bound_to_a_weaker_space() {
    let memory = memory();
    let stores =
        all::Stores { strong: Space::new(&memory, "weak"), ..all::Stores::within(&memory) };
    let refused = stores.bind(Still::default()).unwrap_err();
    assert!(matches!(refused, BindError::TooWeak { .. }), "{refused}");
    let stores = all::Stores { weak: Space::new(&memory, "none"), ..all::Stores::within(&memory) };
    let refused = stores.bind(Still::default()).unwrap_err();
    assert!(matches!(refused, BindError::NoSpace { .. }), "{refused}");
}

#[test]
fn programs_fail_with_their_reasons() {
    let mut on = session();
    let n = Handle::new("n");
    now(all::limited(&mut on, &n, 1)).unwrap();
    let error = now(all::limited(&mut on, &n, 1)).unwrap_err();
    assert_eq!(error, Error::Aborted("no more than 1".into()));
    assert_eq!(error.to_string(), "aborted: no more than 1; nothing was changed");
    let error = now(all::divide(&mut on, 1, 0)).unwrap_err();
    let Error::Program(failure) = &error else { panic!("{error}") };
    let line = failure.describe(all::Program::SOURCE);
    assert!(line.contains("divided by zero (in transaction `divide`)"), "{line}");
}

#[test]
fn a_transaction_among_rust_code_captures_variables() {
    let mut on = session();
    let n: Handle<Counter, all::stores::weak> = Handle::new("n");
    let line = all::Line { product: "tea".to_owned(), count: 2 };
    let times = 3;
    let reported = now(all::transaction!(
        &mut on,
        |n: handle<counter> in weak, line: Line, times: int = times + 1, texts: list<string> = [String::from("a")]|
            -> option<Line> {
            n.add(line.count * times);
            return some(Line { product: line.product + texts[0], count: n.value() });
        }
    ));
    assert_eq!(reported.unwrap(), Some(all::Line { product: "teaa".to_owned(), count: 8 }));
    // Runs in a function that has only a reference. Its transaction returns nothing.
    fn add(on: &mut TypedSession<all::Program>, n: &Handle<Counter, all::stores::weak>) {
        now(all::transaction!(on, |n: handle<counter> in weak| { n.add(1); })).unwrap();
    }
    add(&mut on, &n);
    assert_eq!(now(all::bump(&mut on, &n)).unwrap(), 10);
}

/// A database with configured failures.
#[derive(Clone)]
struct Failing {
    memory: Memory,
    /// Errors of commits, by the number of the commit from 0.
    commits: Arc<Mutex<(u32, BTreeMap<u32, StoreError>)>>,
}

impl Failing {
    fn new(memory: Memory, commits: impl IntoIterator<Item = (u32, StoreError)>) -> Failing {
        Failing { memory, commits: Arc::new(Mutex::new((0, commits.into_iter().collect()))) }
    }

    fn with(self, host: &Arc<Still>) -> TypedSession<all::Program> {
        all::Stores::within(&self).bind(Arc::clone(host)).unwrap()
    }
}

struct FailingConnection(Box<dyn Connection>, Failing);

impl Database for Failing {
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
            let inner = self.memory.connect().await?;
            Ok(Box::new(FailingConnection(inner, self.clone())) as Box<dyn Connection>)
        })
    }
}

impl Connection for FailingConnection {
    fn begin<'a>(&'a mut self, begin: &'a Begin) -> BoxFuture<'a, Result<Vec<Fields>, StoreError>> {
        self.0.begin(begin)
    }

    fn perform<'a>(
        &'a mut self,
        call: &'a ObjectCall,
    ) -> BoxFuture<'a, Result<Answer, StoreError>> {
        self.0.perform(call)
    }

    fn commit<'a>(&'a mut self, writes: &'a [NameWrite]) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async {
            let failed = {
                let mut commits = self.1.commits.lock().unwrap();
                let number = commits.0;
                commits.0 += 1;
                commits.1.get(&number).cloned()
            };
            match failed {
                Some(error) => {
                    self.0.abort().await?;
                    Err(error)
                }
                None => self.0.commit(writes).await,
            }
        })
    }

    fn certify(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.0.certify()
    }

    fn abort(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.0.abort()
    }

    fn list<'a>(&'a mut self, list: &'a List) -> BoxFuture<'a, Result<Vec<Arc<str>>, StoreError>> {
        self.0.list(list)
    }
}

/// Rust's tokens of `handle<…>(…) in …` are those of the language.
#[test]
fn programs_in_rust_make_handles_of_keys() {
    let mut on = all::Stores::within(&memory()).bind(Still::default()).unwrap();
    let count = now(all::count(&mut on, "a")).unwrap();
    assert_eq!(count, Handle::new("count:a"));
    assert_eq!(now(all::bump(&mut on, &count)).unwrap(), 2);
}

#[test]
fn databases_fail_with_their_reasons() {
    let n = Handle::new("n");
    let fails = |error: StoreError, from: u32, to: u32| {
        let mut on =
            Failing::new(memory(), (from..to).map(|n| (n, error.clone()))).with(&Arc::default());
        now(all::bump(&mut on, &n)).unwrap_err()
    };
    let error = fails(StoreError::Conflict, 0, 1000);
    assert!(matches!(error, Error::Conflict { attempts: 2.. }), "{error:?}");
    let error = fails(StoreError::Unavailable("no line".into()), 0, 1000);
    let Error::Unavailable(reported) = &error else { panic!("{error:?}") };
    assert!(reported.contains("`db`") && reported.contains("no line"), "{reported}");
    let error = fails(StoreError::OutcomeUnknown("no line".into()), 0, 1000);
    assert!(matches!(error, Error::Unknown(_)), "{error:?}");
    let error = fails(StoreError::Refused("no room".into()), 0, 1000);
    let expected = Error::Refused { by: "db".into(), reason: "no room".into() };
    assert_eq!(error, expected);
}

#[test]
fn incomplete_transactions_are_resumed_or_completed_by_upkeep() {
    let memory = memory();
    let b = Handle::new("b");
    let unavailable = StoreError::Unavailable("no line".into());
    let host = Arc::new(Still::default());
    // The first commit is that of the strong store.
    let lost = (1..100).map(|number| (number, unavailable.clone()));
    let begin = |a: &str| {
        let mut on = Failing::new(memory.clone(), lost.clone()).with(&host);
        match now(all::both(&mut on, &Handle::new(a), &b)).unwrap_err() {
            Error::Incomplete(ticket) => ticket,
            other => panic!("{other:?}"),
        }
    };
    let ticket = begin("one");
    assert_eq!(ticket.record().transaction(), "both");
    let mut on = all::Stores::within(&memory).bind(Arc::clone(&host)).unwrap();
    let result = now(on.resume(ticket)).unwrap();
    assert_eq!(result, solera_program::value::Value::Int(0));
    assert_eq!(now(all::bump(&mut on, &b)).unwrap(), 2);
    begin("two");
    host.now_ms.store(10 * Limits::default().orphan_ms, Ordering::Relaxed);
    now(on.upkeep()).unwrap();
    assert_eq!(now(all::bump(&mut on, &b)).unwrap(), 4);
}

//! Transactions of users whose rights change while they run.

use std::sync::Arc;

use crate::world::bench::Bench;
use crate::world::users::Lax;
use crate::world::{Faulty, finish};
use solera_levels::Level;
use solera_mixt::collect::Collector;
use solera_mixt::coordinator::{Ask, Coordinator, Next, Reply, Request};
use solera_mixt::executor::{Clock, Connections, run};
use solera_mixt::memory::Memory;
use solera_mixt::outcome::{Outcome, Why};
use solera_mixt::record::Record;
use solera_mixt::recovery::{Progress, Recovered, denied, forget, progress, recover};
use solera_mixt::store::{Database, Location};
use solera_program::value::Value;

const SOURCE: &str = "
store strong : linearizable;
store weak : causal;
store last : causal;

transaction three(a: handle<counter> in strong, b: handle<counter> in weak, c: handle<counter> in last) {
    a.add(1);
    b.add(1);
    c.add(1);
}

transaction two(a: handle<counter> in strong, b: handle<counter> in weak) {
    a.add(1);
    b.add(1);
}

transaction first(a: handle<counter> in strong) -> int { return a.value(); }
transaction second(b: handle<counter> in weak) -> int { return b.value(); }
transaction third(c: handle<counter> in last) -> int { return c.value(); }
transaction others(b: handle<counter> in weak, c: handle<counter> in last) -> int { return b.value() + c.value(); }
";

const NAMES: [&str; 3] = ["one", "two", "three"];

fn bench() -> Bench {
    let levels = [Level::Linearizable, Level::Causal, Level::Causal];
    let memories =
        NAMES.iter().zip(levels).map(|(name, level)| Memory::new(name, &[("all", level)]));
    let bind = [("strong", 0, "all"), ("weak", 1, "all"), ("last", 2, "all")];
    let bench = Bench::of(SOURCE, memories.collect(), &bind);
    bench.world.users.add(&["alice", "bob"], &NAMES, Lax::No);
    bench
}

/// Returns sessions that act as a user, or as a host.
fn connections(bench: &Bench, user: Option<&str>) -> Connections {
    let all = bench.memories.iter().map(|memory| {
        let (memory, world) = (memory.clone(), Arc::clone(&bench.world));
        let user = user.map(Arc::from);
        Arc::new(Faulty { user, ..Faulty::new(memory, world) }) as Arc<dyn Database>
    });
    Connections::new(all)
}

fn call(bench: &Bench, name: &str, user: &str) -> Outcome {
    let (mut coordinator, mut connections) =
        (bench.coordinator(name), connections(bench, Some(user)));
    finish(&bench.world, run(&mut coordinator, &mut connections, &bench.clock))
}

/// Returns the values in each store. A transaction that reads several would wait for incomplete
/// ones.
fn values(bench: &Bench) -> [i64; 3] {
    ["first", "second", "third"].map(|name| match call(bench, name, "bob") {
        Outcome::Done { result: Value::Int(value), .. } => value,
        outcome => panic!("{outcome}"),
    })
}

/// Begins a transaction of a user, and abandons it after its commit in a database.
fn left(bench: &Bench, name: &str, user: &str, after: &str) {
    let (mut coordinator, mut connections) =
        (bench.coordinator(name), connections(bench, Some(user)));
    coordinator.act_as(connections.users(), [].into());
    let mut answer = None;
    loop {
        let Next::Ask(ask) = coordinator.next(bench.clock.now_ms(), answer.take()) else {
            panic!("it is left before it is over")
        };
        let Ask::Store { database, request } = ask else { panic!("nothing is in its way") };
        let asked = connections.ask_for(coordinator.users(), &database, &request);
        let reply = finish(&bench.world, asked);
        if *database == *after
            && matches!((&request, &reply), (Request::Commit(_), Ok(Reply::Committed)))
        {
            return;
        }
        answer = Some(reply);
    }
}

fn recovered(bench: &Bench) -> Recovered {
    bench.world.pass(bench.limits.orphan_ms);
    let place = Location { database: "one".into(), space: "all".into() };
    let (known, none) = ((&bench.modules, bench.limits), Collector::new(bench.limits));
    let mut connections = connections(bench, None);
    finish(&bench.world, recover(&place, &mut connections, known, &none, &bench.clock)).unwrap()
}

#[test]
fn a_call_without_a_right_is_rejected_before_any_effect() {
    let bench = bench();
    bench.world.users.grant("alice", "three", false);
    let outcome = call(&bench, "three", "alice");
    let Outcome::Failed(Why::Denied { database, .. }) = outcome else { panic!("{outcome}") };
    assert_eq!((&*database, values(&bench)), ("three", [0, 0, 0]));
    assert!(matches!(call(&bench, "three", "bob"), Outcome::Done { .. }));
}

/// A transaction that waits for one which its user may not complete continues where no right is
/// missing.
#[test]
fn a_transaction_passes_one_that_waits_for_a_right() {
    let bench = bench();
    left(&bench, "three", "alice", "two");
    left(&bench, "two", "bob", "one");
    bench.world.users.grant("alice", "three", false);
    let found = recovered(&bench);
    let [(_, outcome)] = &found.open[..] else { panic!("{found:?}") };
    assert!(outcome.denied().is_some(), "{outcome}");
    assert_eq!((found.completed.len(), found.skipped.len()), (1, 0), "{found:?}");
    assert_eq!(values(&bench), [2, 2, 0]);
    // The denied transaction continues once the right is granted, and is denied again without it.
    bench.world.users.grant("alice", "three", true);
    bench.world.users.grant("alice", "three", false);
    assert_eq!(recovered(&bench).open.len(), 1);
    assert_eq!(values(&bench), [2, 2, 0]);
    bench.world.users.grant("alice", "three", true);
    assert_eq!(recovered(&bench).open.len(), 0);
    assert_eq!(values(&bench), [2, 2, 1]);
}

/// A transaction that waits for another, and cannot complete that one because its user lacks a
/// right, pauses between its attempts.
#[test]
fn a_transaction_that_waits_for_a_denied_one_pauses_between_attempts() {
    let bench = bench();
    left(&bench, "three", "alice", "two");
    bench.world.users.grant("alice", "three", false);
    bench.world.pass(bench.limits.orphan_ms);
    let (mut waiting, mut connections) =
        (bench.coordinator("others"), connections(&bench, Some("bob")));
    waiting.act_as(connections.users(), NAMES.map(Arc::from).into());
    let (mut answer, mut asked) = (None, 0);
    let outcome = loop {
        answer = Some(match waiting.next(bench.clock.now_ms(), answer.take()) {
            Next::Ask(Ask::Store { database, request }) => {
                asked += 1;
                assert!(asked < 1_000, "it asks again and again");
                let asking = connections.ask_for(waiting.users(), &database, &request);
                finish(&bench.world, asking)
            }
            Next::Ask(Ask::Wait { ms }) => {
                bench.world.pass(ms);
                Ok(Reply::Done)
            }
            Next::Finished(outcome) => break outcome,
        });
    };
    assert!(matches!(outcome, Outcome::Failed(Why::Blocked { .. })), "{outcome}");
}

fn record(found: &Recovered) -> Record {
    found.given_up.first().expect("it was tried in vain").clone()
}

#[test]
fn a_transaction_that_waits_for_a_right_can_be_given_up() {
    let bench = bench();
    left(&bench, "three", "alice", "two");
    bench.world.users.grant("alice", "three", false);
    let record = record(&recovered(&bench));
    assert_eq!(record.user("three").map(|user| &**user), Some("alice"));
    let mut host = connections(&bench, None);
    let known = (&*bench.modules, bench.limits);
    let come = finish(&bench.world, progress(&record, known, &mut host)).unwrap();
    assert_eq!(come, Progress { done: vec![0, 1], left: vec![2] });
    let known = (&bench.modules, bench.limits);
    let why = denied(record.clone(), known, &mut host, bench.clock.now_ms());
    let why = finish(&bench.world, why).unwrap();
    assert!(matches!(why, Some(Why::Denied { .. })), "{why:?}");

    // A user with the right could complete the transaction; here it is given up instead.
    let named = NAMES.iter().fold(record, |record, name| record.in_name_of(name, "bob"));
    let why = denied(named.clone(), known, &mut host, bench.clock.now_ms());
    assert_eq!(finish(&bench.world, why).unwrap(), None);
    let start = (bench.clock.now_ms(), "by bob");
    let mut given_up =
        Coordinator::give_up(named, Arc::clone(&bench.modules), bench.limits, start).unwrap();
    let mut bobs = connections(&bench, Some("bob"));
    let outcome = finish(&bench.world, run(&mut given_up, &mut bobs, &bench.clock));
    let Outcome::Incomplete { ticket: Some(ticket), .. } = outcome else { panic!("{outcome}") };
    assert_eq!(ticket.failed(), Some("it was given up: by bob"));
    assert!(forget(*ticket).is_some());
    // The transaction stays incomplete whatever is granted, and no other transaction waits for it.
    bench.world.users.grant("alice", "three", true);
    let found = recovered(&bench);
    assert_eq!((found.failed.len(), found.completed.len(), found.open.len()), (1, 0, 0));
    assert_eq!(values(&bench), [1, 1, 0]);
}

#[test]
fn a_transaction_without_a_user_is_not_completed() {
    let bench = bench();
    // Its coordinator names no user.
    let (mut coordinator, mut host) =
        (bench.coordinator("three"), connections(&bench, Some("bob")));
    let mut answer = None;
    loop {
        let Next::Ask(Ask::Store { database, request }) =
            coordinator.next(bench.clock.now_ms(), answer.take())
        else {
            panic!("it is left before it is over")
        };
        answer = Some(finish(&bench.world, host.ask(&database, &request)));
        if matches!(request, Request::Commit(_)) {
            break;
        }
    }
    let found = recovered(&bench);
    let [(_, outcome)] = &found.open[..] else { panic!("{found:?}") };
    assert!(outcome.denied().is_some(), "{outcome}");
}

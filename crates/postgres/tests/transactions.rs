//! Mixed transactions with PostgreSQL as the linearizable store, and a causal one in memory.

mod server;

use std::sync::Arc;

use server::bench::{Bench, handle, is_commit};
use server::proxy::{Loss, Proxy};
use server::{Url, with_database};
use solera_mixt::coordinator::{Coordinator, Request};
use solera_mixt::executor::{Clock, run};
use solera_mixt::outcome::{Limits, Outcome, Why};
use solera_mixt::store::{Location, StoreError};
use solera_program::value::Value;

const SOURCE: &str = r#"
store strong : linearizable;
store weak : causal;

transaction both(a: handle<counter> in strong, b: handle<counter> in weak) {
    a.add(1);
    b.add(1);
}

transaction one(a: handle<counter> in strong) -> int {
    a.add(1);
    if a.value() > 2 { abort("no more than two"); }
    return a.value();
}

transaction count(a: handle<register<int>> in strong) -> int {
    *a = a.get().or(0) + 1;
    return *a;
}

transaction read(a: handle<counter> in strong, b: handle<counter> in weak) -> list<int> {
    return [a.value(), b.value()];
}
"#;

fn bench(url: &Url) -> Bench {
    Bench::new(SOURCE, url.postgres(), "all")
}

fn args(name: &str) -> Vec<Value> {
    let a = handle("strong", if name == "count" { "register" } else { "x" });
    match name {
        "one" | "count" => vec![a],
        _ => vec![a, handle("weak", "x")],
    }
}

async fn read(bench: &Bench) -> Value {
    bench.done("read", args("read")).await
}

fn ints(numbers: [i64; 2]) -> Value {
    Value::list(numbers.map(Value::Int))
}

fn place() -> Location {
    Location { database: "pg".into(), space: "all".into() }
}

fn is_strong_commit(database: &str, request: &Request) -> bool {
    database == "pg" && is_commit(request)
}

fn is_weak_commit(database: &str, request: &Request) -> bool {
    database == "memory" && is_commit(request)
}

#[test]
fn both_stores_are_written_and_no_garbage_stays() {
    with_database(|url| async move {
        let bench = bench(&url);
        let (outcome, left) = bench.run(&mut bench.connections(), "both", args("both")).await;
        assert!(matches!(outcome, Outcome::Done { .. }), "{outcome}");
        assert_eq!(read(&bench).await, ints([1, 1]));
        // PostgreSQL has the write witness, the commit witness and the record. The other store has
        // the write witness, the commit witness and the mark.
        assert_eq!((url.count("solera.names").await, bench.memory.names("weak").len()), (3, 3));
        bench.collect(left).await;
        assert_eq!((url.count("solera.names").await, bench.memory.names("weak").len()), (0, 0));
        assert_eq!(read(&bench).await, ints([1, 1]));
    });
}

#[test]
fn what_fails_before_it_commits_has_no_effect() {
    with_database(|url| async move {
        let bench = bench(&url);
        assert_eq!(bench.done("one", args("one")).await, Value::Int(1));
        assert_eq!(bench.done("one", args("one")).await, Value::Int(2));
        let (outcome, left) = bench.run(&mut bench.connections(), "one", args("one")).await;
        assert!(matches!(outcome, Outcome::Failed(Why::Program(_))), "{outcome}");
        assert_eq!(read(&bench).await, ints([2, 0]));
        assert_eq!((left.len(), url.count("solera.names").await), (0, 0));
    });
}

#[test]
fn concurrent_increments_add_up() {
    with_database(|url| async move {
        let mut bench = bench(&url);
        bench.limits.attempts = 1000;
        bench.limits.backoff_last_ms = 20;
        let bench = Arc::new(bench);
        let each = 10;
        let tasks = (0..6).map(|_| {
            let bench = Arc::clone(&bench);
            tokio::spawn(async move {
                let mut connections = bench.connections();
                for _ in 0..each {
                    let (outcome, _) = bench.run(&mut connections, "count", args("count")).await;
                    assert!(matches!(outcome, Outcome::Done { .. }), "{outcome}");
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        assert_eq!(bench.done("count", args("count")).await, Value::Int(6 * each + 1));
    });
}

#[test]
fn a_transaction_that_conflicts_is_retried() {
    with_database(|url| async move {
        let bench = bench(&url);
        let mut slow = bench.coordinator("count", args("count"));
        let mut connections = bench.connections();
        let writes = |_: &str, request: &Request| matches!(request, Request::Perform(call) if call.op.mutates());
        let (database, write) = bench.until(&mut slow, &mut connections, writes).await;
        assert_eq!(bench.done("count", args("count")).await, Value::Int(1));
        let answer = connections.ask(&database, &write).await;
        assert_eq!(answer, Err(StoreError::Conflict));
        let outcome = bench.run_from(&mut slow, &mut connections, Some(answer), |_, _| {}).await;
        let Outcome::Done { result, attempts } = outcome else { panic!("{outcome}") };
        assert_eq!((result, attempts.begun), (Value::Int(2), 2));
    });
}

/// A coordinator dies between its commits, and a reader that finds its witness completes it.
#[test]
fn a_reader_completes_the_transaction_of_a_dead_coordinator() {
    with_database(|url| async move {
        let bench = bench(&url);
        let (mut dead, mut connections) =
            (bench.coordinator("both", args("both")), bench.connections());
        bench.until(&mut dead, &mut connections, is_weak_commit).await;
        drop((dead, connections));
        // The reader waits until the record counts as orphaned.
        bench.clock.pass(bench.limits.orphan_ms);
        let mut reader = bench.coordinator("read", args("read"));
        let outcome = run(&mut reader, &mut bench.connections(), &bench.clock).await;
        assert!(
            matches!(&outcome, Outcome::Done { result, .. } if *result == ints([1, 1])),
            "{outcome:?}"
        );
        let left = reader.garbage();
        assert_eq!(left.len(), 1);
        bench.collect(left).await;
        assert_eq!((url.count("solera.names").await, bench.memory.names("weak").len()), (0, 0));
    });
}

#[test]
fn recovery_completes_what_a_dead_coordinator_has_begun_and_nothing_else() {
    with_database(|url| async move {
        let bench = bench(&url);
        // One coordinator dies before anything has committed, one after.
        for wanted in [is_strong_commit, is_weak_commit] {
            let mut dead = bench.coordinator("both", args("both"));
            let mut connections = bench.connections();
            bench.until(&mut dead, &mut connections, wanted).await;
        }
        let recovered = bench.recover(&place()).await.unwrap();
        assert_eq!((recovered.completed.len(), recovered.open.len()), (1, 0), "{recovered:?}");
        assert_eq!(read(&bench).await, ints([1, 1]));
        bench.collect(recovered.completed).await;
        assert_eq!((url.count("solera.names").await, bench.memory.names("weak").len()), (0, 0));
        let again = bench.recover(&place()).await.unwrap();
        assert_eq!(again.completed.len(), 0);
    });
}

#[test]
fn a_lost_answer_to_the_first_commit_is_found_out() {
    with_database(|url| async move {
        for loss in [Loss::CommitAnswer, Loss::NextRequest] {
            let proxy = Proxy::new(&url).await;
            let bench = Bench::new(SOURCE, proxy.url.postgres(), "all");
            let args = vec![handle("strong", &format!("{loss:?}")), handle("weak", "x")];
            let mut connections = bench.connections();
            // All statements are prepared then: the second transaction replaces the witness of the
            // first one.
            for _ in 0..2 {
                bench.run(&mut connections, "both", args.clone()).await;
            }
            let mut coordinator = bench.coordinator("both", args.clone());
            let mut due = true;
            let before = |database: &str, request: &Request| {
                if is_strong_commit(database, request) && std::mem::take(&mut due) {
                    proxy.lose(loss);
                }
            };
            let outcome = bench.run_from(&mut coordinator, &mut connections, None, before).await;
            assert!(!due && proxy.has_lost());
            assert!(matches!(outcome, Outcome::Done { .. }), "{outcome}");
            assert_eq!(bench.done("read", args).await, ints([3, 3]), "{loss:?}");
        }
    });
}

/// The server vanishes before each request in turn. Either the error says that nothing has taken
/// effect, or the transaction has a ticket and is completed when the server is back.
#[test]
fn an_incomplete_transaction_of_a_vanished_server_is_always_reported() {
    with_database(|url| async move {
        let (mut failed, mut incomplete) = (0, 0);
        for vanishes in 0.. {
            let proxy = Proxy::new(&url).await;
            let mut bench = Bench::new(SOURCE, proxy.url.postgres(), "all");
            let args = vec![handle("strong", &format!("{vanishes}")), handle("weak", "x")];
            let mut connections = bench.connections();
            // All statements are prepared then: the second transaction replaces the witness of the
            // first one.
            for _ in 0..2 {
                bench.run(&mut connections, "both", args.clone()).await;
            }
            (bench.limits.attempts, bench.limits.finish_ms) = (3, 40);
            let mut coordinator = bench.coordinator("both", args.clone());
            let mut asked = 0;
            let before = |_: &str, _: &Request| {
                if asked == vanishes {
                    proxy.lose(Loss::Everything);
                }
                asked += 1;
            };
            let outcome = bench.run_from(&mut coordinator, &mut connections, None, before).await;
            proxy.lose(Loss::Nothing);
            let done = match &outcome {
                Outcome::Done { .. } if asked <= vanishes => break,
                // From there on only the other store was needed.
                Outcome::Done { .. } => true,
                Outcome::Failed(Why::Unavailable { database, reason }) => {
                    assert_eq!(&**database, "pg");
                    assert!(!reason.is_empty());
                    failed += 1;
                    false
                }
                Outcome::Incomplete { ticket: Some(ticket), .. } => {
                    incomplete += 1;
                    let modules = Arc::clone(&bench.modules);
                    let now_ms = bench.clock.now_ms();
                    let resumed =
                        Coordinator::resume((**ticket).clone(), modules, Limits::default(), now_ms);
                    let mut resumed = resumed.unwrap();
                    let end = run(&mut resumed, &mut connections, &bench.clock).await;
                    assert!(matches!(end, Outcome::Done { .. }), "{end}");
                    true
                }
                other => panic!("after {vanishes} requests: {other}"),
            };
            bench.limits = Limits::default();
            let found = bench.done("read", args).await;
            let times = 2 + i64::from(done);
            assert_eq!(found, ints([times, times]), "after {vanishes} requests: {outcome}");
        }
        assert!(failed >= 2 && incomplete >= 1, "{failed} failed, {incomplete} were incomplete");
    });
}

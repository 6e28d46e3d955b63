//! Calls whose future is dropped, at each point of each statement.

mod server;

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use server::bench::{Bench, handle};
use server::{Url, with_database};
use solera_mixt::executor::{Connections, run};
use solera_mixt::outcome::Outcome;
use solera_mixt::store::Location;
use solera_program::value::Value;

const SOURCE: &str = r#"
store strong : linearizable {
    query echo(number: int) -> int;
}
store weak : causal;

transaction transfer(
    from: handle<counter> in strong,
    to: handle<counter> in strong,
    number: int,
) -> int {
    from.add(0 - 1);
    to.add(1);
    return strong.echo(number);
}

transaction both(a: handle<counter> in strong, b: handle<counter> in weak) {
    a.add(1);
    b.add(1);
}

transaction echo(number: int) -> int {
    return strong.echo(number);
}

transaction balance(from: handle<counter> in strong, to: handle<counter> in strong) -> list<int> {
    return [from.value(), to.value()];
}

transaction seen(a: handle<counter> in strong, b: handle<counter> in weak) -> list<int> {
    return [a.value(), b.value()];
}
"#;

/// Time that the server may take to notice the closed connection.
const PATIENCE: Duration = Duration::from_secs(60);

/// Counts the other sessions of the database that are in a transaction.
const OPEN: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                    AND pid <> pg_backend_pid() AND backend_type = 'client backend' AND xact_start IS NOT NULL";

fn bench(url: &Url) -> Bench {
    let postgres = url.builder().space("all").operation("echo", "SELECT $1::int8").build();
    Bench::new(SOURCE, postgres.unwrap(), "all")
}

fn accounts() -> [Value; 2] {
    [handle("strong", "from"), handle("strong", "to")]
}

/// Polls a future that many times. Answers to its requests may arrive before it is dropped, and are
/// then never read.
async fn cut<T>(future: impl Future<Output = T>, polls: usize, linger: bool) -> Option<T> {
    let mut future = pin!(future);
    let mut left = polls;
    let done = poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => {
            left -= 1;
            if left == 0 { Poll::Ready(None) } else { Poll::Pending }
        }
    })
    .await;
    if linger && done.is_none() {
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    done
}

/// Returns the result of a call after a dropped one, over the same connections.
async fn next(bench: &Bench, connections: &mut Connections, name: &str, args: Vec<Value>) -> Value {
    match bench.run(connections, name, args).await.0 {
        Outcome::Done { result, .. } => result,
        other => panic!("{name}: {other}"),
    }
}

/// Returns once no transaction is open.
async fn all_is_over(url: &Url) {
    let admin = url.client().await;
    let over = async {
        while admin.query_one(OPEN, &[]).await.unwrap().get::<_, i64>(0) > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, over).await.expect("a transaction stays open");
}

#[test]
fn a_call_that_is_dropped_takes_effect_as_a_whole_or_not_at_all_and_the_next_gets_its_own_answer() {
    with_database(|url| async move {
        let bench = bench(&url);
        let mut connections = bench.connections();
        let (mut number, mut dropped, mut done) = (0, 0, 0);
        // How many answers come at once depends on the machine, so rounds continue until a call was
        // dropped after its first answer.
        let mut after_an_answer = 0;
        for round in 0..60 {
            if round >= 6 && after_an_answer > 0 {
                break;
            }
            for polls in 1.. {
                number += 1;
                let args = accounts().into_iter().chain([Value::Int(number)]).collect();
                let mut transfer = bench.coordinator("transfer", args);
                let run = run(&mut transfer, &mut connections, &bench.clock);
                let outcome = cut(run, polls, round % 2 == 1).await;

                number += 1;
                let own = Value::Int(number);
                let found = next(&bench, &mut connections, "echo", vec![own.clone()]).await;
                assert_eq!(found, own, "after {polls} polls");
                let balance = next(&bench, &mut connections, "balance", accounts().into()).await;
                let Value::List(balance) = &balance else { panic!("{balance:?}") };
                let [Value::Int(from), Value::Int(to)] = balance[..] else { panic!() };
                assert_eq!(from + to, 0, "after {polls} polls");
                assert!((done..=done + dropped).contains(&to), "{to} after {done} and {dropped}");
                match outcome {
                    None => {
                        dropped += 1;
                        after_an_answer += u32::from(polls > 1);
                    }
                    Some(Outcome::Done { result, .. }) => {
                        assert_eq!(result, Value::Int(number - 1));
                        done += 1;
                        break;
                    }
                    Some(other) => panic!("{other}"),
                }
            }
        }
        assert!(after_an_answer > 0, "{dropped} calls were dropped before their first answer");
        all_is_over(&url).await;
    });
}

#[test]
fn a_call_that_is_dropped_between_stores_is_completed() {
    with_database(|url| async move {
        let bench = bench(&url);
        let mut connections = bench.connections();
        let both = || vec![handle("strong", "x"), handle("weak", "x")];
        for linger in [false, true] {
            for polls in 1.. {
                let mut called = bench.coordinator("both", both());
                let run = run(&mut called, &mut connections, &bench.clock);
                let outcome = cut(run, polls, linger).await;
                let own = Value::Int(polls as i64);
                let found = next(&bench, &mut connections, "echo", vec![own.clone()]).await;
                assert_eq!(found, own);
                match outcome {
                    None => {}
                    Some(Outcome::Done { .. }) => break,
                    Some(other) => panic!("{other}"),
                }
                // Recovery completes a transaction that has committed before it was dropped.
                all_is_over(&url).await;
                let place = Location { database: "pg".into(), space: "all".into() };
                bench.recover(&place).await.unwrap();
                let seen = next(&bench, &mut connections, "seen", both()).await;
                let Value::List(seen) = &seen else { panic!("{seen:?}") };
                assert_eq!(seen[0], seen[1], "after {polls} polls");
            }
        }
    });
}

#[test]
fn a_call_that_is_dropped_while_it_waits_for_a_lock_leaves_no_transaction_open() {
    with_database(|url| async move {
        let bench = bench(&url);
        let mut connections = bench.connections();
        let args = |number| accounts().into_iter().chain([Value::Int(number)]).collect();
        next(&bench, &mut connections, "transfer", args(1)).await;
        let mut other = url.client().await;
        let locked = other.transaction().await.unwrap();
        locked.execute("SELECT FROM solera.objects FOR UPDATE", &[]).await.unwrap();
        let admin = url.client().await;
        let waits = async {
            let waiting = "SELECT count(*) FROM pg_stat_activity \
                           WHERE datname = current_database() AND wait_event_type = 'Lock'";
            while admin.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let mut transfer = bench.coordinator("transfer", args(2));
        tokio::select! {
            outcome = run(&mut transfer, &mut connections, &bench.clock) => panic!("{outcome}"),
            () = waits => {}
        }
        let found = next(&bench, &mut connections, "echo", vec![Value::Int(3)]).await;
        assert_eq!(found, Value::Int(3));
        locked.commit().await.unwrap();
        all_is_over(&url).await;
        let balance = next(&bench, &mut connections, "balance", accounts().into()).await;
        assert_eq!(balance, Value::list([-1, 1].map(Value::Int)));
    });
}

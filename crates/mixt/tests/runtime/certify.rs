//! Certification of the values that a failed program has read.

use crate::world::bench::Bench;
use crate::world::finish;
use solera_levels::Level;
use solera_mixt::coordinator::{Ask, Coordinator, Next, Reply, Request};
use solera_mixt::executor::{Clock, Connections, run};
use solera_mixt::memory::Memory;
use solera_mixt::outcome::{Outcome, Why};
use solera_mixt::store::StoreError;
use solera_program::value::Value;

const SOURCE: &str = r#"
store strong : linearizable;
store weak : causal;

transaction fill(a: handle<counter> in strong) { a.add(1); }

transaction take(a: handle<counter> in strong) {
    a.add(-1);
    if a.value() < 0 { abort "none left"; }
}

transaction look(a: handle<counter> in strong) {
    if a.value() == 0 { abort "none left"; }
}

transaction overflow(a: handle<counter> in strong) { a.add(9223372036854775807); }

transaction weakly(b: handle<counter> in weak) {
    b.add(1);
    if b.value() == 1 { abort "the first"; }
}

transaction left(a: handle<counter> in strong) -> int { return a.value(); }
"#;

fn bench() -> Bench {
    let strong = Memory::new("one", &[("all", Level::Linearizable)]);
    let weak = Memory::new("two", &[("all", Level::Causal)]);
    Bench::of(SOURCE, vec![strong, weak], &[("strong", 0, "all"), ("weak", 1, "all")])
}

/// Returns the reason of a program's own, certified failure.
fn aborted(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Failed(Why::Program(failure)) => failure.kind.to_string(),
        other => panic!("{other}"),
    }
}

/// Runs the transaction to its end, with this answer to each request to certify. Returns the
/// outcome and the number of these requests.
fn end(
    bench: &Bench,
    coordinator: &mut Coordinator,
    connections: &mut Connections,
    certified: &Result<Reply, StoreError>,
) -> (Outcome, u32) {
    let (mut answer, mut asked) = (None, 0);
    loop {
        answer = Some(match coordinator.next(bench.clock.now_ms(), answer) {
            Next::Ask(Ask::Store { request: Request::Certify, .. }) => {
                asked += 1;
                certified.clone()
            }
            Next::Ask(Ask::Store { database, request }) => {
                finish(&bench.world, connections.ask(&database, &request))
            }
            Next::Ask(Ask::Wait { ms }) => {
                bench.pass(ms);
                Ok(Reply::Done)
            }
            Next::Finished(outcome) => return (outcome, asked),
        });
    }
}

#[test]
fn a_failure_on_values_that_have_changed_is_retried() {
    let is_certify = |_: &str, request: &Request| matches!(request, Request::Certify);
    for (name, after) in [("take", 0), ("look", 1)] {
        let bench = bench();
        assert_eq!(aborted(&bench.run(name).0), "aborted: none left");
        let (mut one, mut connections) = (bench.coordinator(name), bench.connections());
        let (database, certify) = bench.until(&mut one, &mut connections, None, is_certify);
        // Meanwhile another transaction adds one.
        bench.done("fill");
        let answer = finish(&bench.world, connections.ask(&database, &certify));
        assert_eq!(answer, Err(StoreError::Conflict), "{name}");
        let next = one.next(bench.clock.now_ms(), Some(answer));
        assert!(matches!(next, Next::Ask(Ask::Wait { .. })), "{name}: {next:?}");
        let outcome = finish(&bench.world, run(&mut one, &mut connections, &bench.clock));
        assert!(matches!(outcome, Outcome::Done { .. }), "{name}: {outcome}");
        assert_eq!(bench.done("left"), Value::Int(after), "{name}");
    }
}

#[test]
fn a_failure_that_cannot_be_certified_is_reported_as_uncertified() {
    let bench = bench();
    let (mut take, mut connections) = (bench.coordinator("take"), bench.connections());
    let away = Err(StoreError::Unavailable("the line is down".to_owned()));
    let (outcome, asked) = end(&bench, &mut take, &mut connections, &away);
    assert!(matches!(&outcome, Outcome::Failed(Why::Uncertified { .. })), "{outcome}");
    assert_eq!(asked, bench.limits.attempts);
    let reported = outcome.to_string();
    let expected = "nothing was changed: aborted: none left (in transaction `take`); this is uncertified, because `one` has not \
                    confirmed the program's reads: it cannot be reached: the line is down";
    assert_eq!(reported, expected);
    // A store that can never certify the reads is not asked again.
    let (mut take, mut connections) = (bench.coordinator("take"), bench.connections());
    let never = Err(StoreError::Refused("it has ended".to_owned()));
    let (outcome, asked) = end(&bench, &mut take, &mut connections, &never);
    assert!(outcome.to_string().ends_with("reads: it has ended"), "{outcome}");
    assert_eq!(asked, 1);
}

#[test]
fn a_rejection_by_a_store_is_certified() {
    let bench = bench();
    bench.done("fill");
    let (mut one, mut connections) = (bench.coordinator("overflow"), bench.connections());
    let certify = |_: &str, request: &Request| matches!(request, Request::Certify);
    let (database, request) = bench.until(&mut one, &mut connections, None, certify);
    bench.done("take");
    let answer = finish(&bench.world, connections.ask(&database, &request));
    assert_eq!(answer, Err(StoreError::Conflict));
}

#[test]
fn reads_of_a_causal_store_are_not_certified() {
    let bench = bench();
    let (mut weakly, mut connections) = (bench.coordinator("weakly"), bench.connections());
    let never = Err(StoreError::Conflict);
    let (outcome, asked) = end(&bench, &mut weakly, &mut connections, &never);
    assert_eq!((aborted(&outcome).as_str(), asked), ("aborted: the first", 0));
}

/// A transaction that has begun to take effect is completed. It is not given up for a failure that
/// may not follow from the current data.
#[test]
fn an_uncertified_failure_after_a_commit_is_retried() {
    let source = r#"
store strong : linearizable;
store weak : linearizable;

transaction move(a: handle<counter> in strong, b: handle<counter> in weak) {
    a.add(1);
    b.add(1 / b.value());
}
"#;
    let [one, two] = ["one", "two"].map(|name| Memory::new(name, &[("all", Level::Linearizable)]));
    let bench = Bench::of(source, vec![one, two], &[("strong", 0, "all"), ("weak", 1, "all")]);
    let (mut both, mut connections) = (bench.coordinator("move"), bench.connections());
    let never = Err(StoreError::Refused("it has ended".to_owned()));
    let (outcome, asked) = end(&bench, &mut both, &mut connections, &never);
    let Outcome::Incomplete { ticket: Some(_), why: Why::Uncertified { .. }, .. } = outcome else {
        panic!("{outcome}");
    };
    assert!(asked > 1, "{asked}");
}

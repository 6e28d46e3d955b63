//! Single transactions under adverse conditions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::world::bench::{Bench, handle, ints, is_commit};
use crate::world::finish;
use solera_language::compile::compile;
use solera_levels::Level;
use solera_mixt::binding::{Bindings, Module};
use solera_mixt::collect::Collector;
use solera_mixt::coordinator::{Ask, Coordinator, Next, Reply, Request, TransactionId};
use solera_mixt::executor::{Clock, Connections};
use solera_mixt::memory::Memory;
use solera_mixt::outcome::{Outcome, Why};
use solera_mixt::record::Record;
use solera_mixt::recovery::{Recovered, recover};
use solera_mixt::store::{Location, StoreError};
use solera_program::value::{Handle, Value};

/// Runs the first transaction of a program whose stores are both in one database.
fn run_in_one_database(source: &str, args: Vec<Value>) -> Outcome {
    let module = Module::new("x@1", Arc::new(compile(source).program.unwrap())).unwrap();
    let memory = Memory::new("m", &[("all", Level::Linearizable), ("weak", Level::Causal)]);
    let bind = [("strong", 0, "all"), ("weak", 0, "weak")];
    let bench = Bench::new(vec![memory], &bind);
    let bindings = Bindings::new(module.program(), &bench.databases, &bind).unwrap();
    let shared = (Arc::clone(&bench.modules), bench.limits);
    let (id, now_ms) = (TransactionId::new(77), bench.clock.now_ms());
    let mut coordinator =
        Coordinator::new((module, 0), args, bindings, id, shared, now_ms).unwrap();
    ends(&bench, &mut coordinator, |_, _| {})
}

/// Runs the transaction to its end. `meanwhile` runs after each request.
fn ends(
    bench: &Bench,
    coordinator: &mut Coordinator,
    meanwhile: impl FnMut(&str, &Request),
) -> Outcome {
    ends_from(bench, coordinator, None, meanwhile)
}

/// Runs the transaction to its end, beginning with an answer.
fn ends_from(
    bench: &Bench,
    coordinator: &mut Coordinator,
    first: Option<Result<Reply, StoreError>>,
    mut meanwhile: impl FnMut(&str, &Request),
) -> Outcome {
    let mut connections = bench.connections();
    let mut answer = first;
    for _ in 0..5_000 {
        match coordinator.next(bench.clock.now_ms(), answer.take()) {
            Next::Ask(Ask::Store { database, request }) => {
                answer = Some(finish(&bench.world, connections.ask(&database, &request)));
                meanwhile(&database, &request);
            }
            Next::Ask(Ask::Wait { ms }) => {
                bench.pass(ms);
                answer = Some(Ok(Reply::Done));
            }
            Next::Finished(outcome) => return outcome,
        }
    }
    panic!("it goes on for ever");
}

#[test]
fn an_endorsed_object_may_be_written_in_the_same_database() {
    let source = "store strong : linearizable; store weak : causal; \
        transaction t(a: handle<register<int>> in strong, b: handle<counter> in weak) -> int { \
          var x = endorse(linearizable, b.value()); a.set(x); b.add(1); return x; }";
    let outcome = run_in_one_database(source, vec![handle("a"), handle("b")]);
    assert!(matches!(outcome, Outcome::Done { result: Value::Int(0), .. }), "{outcome}");
}

#[test]
fn an_endorsed_object_may_be_written_after_a_decision_on_it() {
    let source = "store strong : linearizable; store weak : causal; \
        transaction deliver(w: handle<set<string>> in weak, winner: handle<register<string>> in strong, \
          text: string) { \
          if endorse(linearizable, w.size() >= 3) { winner.set(\"A\"); } w.add(text); }";
    let args = vec![handle("w"), handle("a"), Value::string("hello")];
    let outcome = run_in_one_database(source, args);
    assert!(matches!(outcome, Outcome::Done { .. }), "{outcome}");
}

#[test]
fn endorsing_a_value_that_keeps_changing_fails_with_contention() {
    let bench = Bench::apart();
    let mut coordinator = bench.coordinator("endorsed");
    let outcome = ends(&bench, &mut coordinator, |database, request| {
        if database == "two" && is_commit(request) {
            bench.done("weakly");
        }
    });
    let attempts = bench.limits.attempts;
    assert_eq!(outcome, Outcome::Failed(Why::Contention { attempts }));
}

/// In one database, another transaction changes the endorsed value before the group that writes has
/// begun.
#[test]
fn a_changed_endorsed_value_is_detected_within_one_database() {
    let memory = Memory::new("m", &[("all", Level::Linearizable), ("weak", Level::Causal)]);
    let bench = Bench::new(vec![memory], &[("strong", 0, "all"), ("weak", 0, "weak")]);
    let (mut coordinator, mut begun) = (bench.coordinator("endorsed"), 0);
    let outcome = ends(&bench, &mut coordinator, |_, request| {
        begun += usize::from(matches!(request, Request::Begin(_)));
        if begun == 1 && is_commit(request) {
            bench.done("weakly");
        }
    });
    assert!(matches!(outcome, Outcome::Done { .. }), "{outcome}");
    assert_eq!(begun, 4, "it has not read anew");
}

/// Returns the ticket of a transaction whose first group has committed.
fn ticket(bench: &Bench, coordinator: &mut Coordinator) -> Record {
    let mut connections = bench.connections();
    let commit = |database: &str, request: &Request| database == "two" && is_commit(request);
    bench.until(coordinator, &mut connections, None, commit);
    finish(&bench.world, connections.ask("two", &Request::Abort)).unwrap();
    bench.pass(bench.limits.finish_ms);
    let away = Err(StoreError::Unavailable("gone".to_owned()));
    match coordinator.next(bench.clock.now_ms(), Some(away)) {
        Next::Finished(Outcome::Incomplete { ticket: Some(ticket), .. }) => *ticket,
        other => panic!("{other:?}"),
    }
}

fn resume(bench: &Bench, ticket: Record) -> Coordinator {
    let modules = Arc::clone(&bench.modules);
    Coordinator::resume(ticket, modules, bench.limits, bench.clock.now_ms()).unwrap()
}

/// The damaged mark names another next group than the one after the marked group.
#[test]
fn a_damaged_mark_is_rejected() {
    let bench = Bench::apart();
    let ticket = ticket(&bench, &mut bench.coordinator("both"));
    let form = ticket.encode()[0];
    for next in [0, 1, 3, 100] {
        // The lease of the previous holder has expired.
        bench.pass(bench.limits.orphan_ms);
        let (mut coordinator, mut connections) =
            (resume(&bench, ticket.clone()), bench.connections());
        let begin = |database: &str, request: &Request| {
            database == "two" && matches!(request, Request::Begin(_))
        };
        let asked = bench.until(&mut coordinator, &mut connections, None, begin);
        let (_, Request::Begin(begin)) = asked else { panic!("{asked:?}") };
        // The mark has no tapes, result, worklist, or names.
        let mark: Arc<[u8]> = Arc::from([form, next, 0, 0, 0, 0]);
        let mut fields = vec![BTreeMap::new(); begin.names.len()];
        fields[0] = BTreeMap::from([(0, mark)]);
        coordinator.next(bench.clock.now_ms(), Some(Ok(Reply::Began(fields))));
        let outcome = ends_from(&bench, &mut coordinator, Some(Ok(Reply::Done)), |_, _| {});
        let Outcome::Incomplete { why: Why::Refused { reason, .. }, .. } = &outcome else {
            panic!("{next}: {outcome}")
        };
        assert!(reason.contains(&format!("next group is {next}")), "{reason}");
    }
}

#[test]
fn custom_operations_with_handles_are_seen_by_those_without() {
    let source = "store strong : linearizable { operation take(product: string, cart: *list<int>); \
          query left(product: string) -> int; } \
        store weak : causal; \
        transaction buy(c: handle<list<int>> in strong, b: handle<counter> in weak) { \
          strong.take(\"x\", c); b.add(1); } \
        transaction look(b: handle<counter> in weak) -> list<int> { \
          var n = strong.left(\"x\"); return [n, b.value()]; }";
    let module = Module::new("c@1", Arc::new(compile(source).program.unwrap())).unwrap();
    let bench = Bench::apart();
    let bind = [("strong", 0, "all"), ("weak", 1, "all")];
    let bindings = Bindings::new(module.program(), &bench.databases, &bind).unwrap();
    let looks = |name: &str, args: Vec<Value>| {
        let start = (module.clone(), module.transaction(name).unwrap());
        let shared = (Arc::clone(&bench.modules), bench.limits);
        let (id, now_ms) = (TransactionId::new(77), bench.clock.now_ms());
        let mut coordinator =
            Coordinator::new(start, args, bindings.clone(), id, shared, now_ms).unwrap();
        let custom = |_: &str, request: &Request| matches!(request, Request::Custom(_));
        match bench.until(&mut coordinator, &mut bench.connections(), None, custom) {
            (_, Request::Custom(call)) => call.look,
            other => panic!("{other:?}"),
        }
    };
    let cart = Value::Handle(Handle { store: "strong".into(), key: "cart".into() });
    let written = looks("buy", vec![cart, handle("b")]);
    let read = looks("look", vec![handle("b")]);
    assert_eq!((written.len(), read.len()), (2, 1));
    assert!(written.contains(&read[0]), "{read:?} is not among {written:?}");
}

#[test]
fn a_clock_that_is_set_back_does_not_end_waiting() {
    let bench = Bench::apart();
    let (mut dead, mut connections) = (bench.coordinator("both"), bench.connections());
    let commit = |database: &str, request: &Request| database == "two" && is_commit(request);
    bench.until(&mut dead, &mut connections, None, commit);
    drop((dead, connections));
    let (mut reader, mut connections) = (bench.coordinator("read"), bench.connections());
    let (mut answer, mut now_ms, mut waits) = (None, bench.clock.now_ms(), 0);
    let outcome = loop {
        match reader.next(now_ms, answer.take()) {
            Next::Ask(Ask::Store { database, request }) => {
                answer = Some(finish(&bench.world, connections.ask(&database, &request)));
            }
            Next::Ask(Ask::Wait { ms }) => {
                waits += 1;
                now_ms = if waits == 3 { now_ms - 500 } else { now_ms + ms };
                answer = Some(Ok(Reply::Done));
            }
            Next::Finished(outcome) => break outcome,
        }
    };
    assert!(waits > 3, "{waits}");
    assert!(
        matches!(&outcome, Outcome::Done { result, .. } if *result == ints([1, 1])),
        "{outcome}"
    );
}

#[test]
fn an_unreachable_database_does_not_block_the_collection_in_others() {
    let bench = Bench::apart();
    let (_, left) = bench.run("both");
    let memories = vec![bench.memories[0].clone(), Memory::new("three", &[("all", Level::Causal)])];
    let other = Bench::new(memories, &[("strong", 0, "all"), ("weak", 1, "all")]);
    // Otherwise the worlds would draw the same number.
    other.world.draw();
    let (_, also) = other.run("both");
    let (mut collector, mut connections) = (Collector::new(bench.limits), bench.connections());
    collector.add(left.into_iter().chain(also), bench.clock.now_ms());
    for _ in 0..4 {
        let now_ms = bench.clock.now_ms();
        let collected = finish(&bench.world, collector.collect(&mut connections, now_ms));
        assert!(matches!(collected, Err(StoreError::Unavailable(_))), "{collected:?}");
        bench.pass(bench.limits.keep_ms);
    }
    assert_eq!(bench.memories[1].names("all"), []);
    // The collector keeps a transaction until it knows that every session sees its commits.
    assert_eq!((collector.waiting(), other.memories[1].names("all").len()), (1, 3));
}

#[test]
fn garbage_is_removed_in_batches() {
    let bench = Bench::apart();
    let left = (0..1000).flat_map(|_| bench.run("both").1).collect::<Vec<_>>();
    assert_eq!(left.len(), 1000);
    bench.world.most_written.store(0, Ordering::Relaxed);
    bench.collect(left);
    assert_eq!(bench.names(), 0);
    let most = bench.world.most_written.load(Ordering::Relaxed);
    assert!(most < 1000, "{most} names are written at once");
}

fn recover_over(bench: &Bench, connections: &mut Connections) -> Recovered {
    let place = Location { database: "one".into(), space: "all".into() };
    let (rules, none) = ((&bench.modules, bench.limits), Collector::new(bench.limits));
    finish(&bench.world, recover(&place, connections, rules, &none, &bench.clock)).unwrap()
}

#[test]
fn recovery_tries_an_unreachable_database_only_once() {
    let bench = Bench::apart();
    for _ in 0..5 {
        let (mut dead, mut connections) = (bench.coordinator("both"), bench.connections());
        let second = |database: &str, _: &Request| database == "two";
        bench.until(&mut dead, &mut connections, None, second);
    }
    bench.pass(bench.limits.orphan_ms);
    let only_one = bench.databases[0].clone();
    let found = recover_over(&bench, &mut Connections::new([only_one]));
    assert_eq!((found.open.len(), found.skipped.len()), (1, 4), "{found:?}");
    let found = recover_over(&bench, &mut bench.connections());
    assert_eq!((found.completed.len(), found.skipped.len()), (5, 0), "{found:?}");
}

#[test]
fn a_ticket_of_a_completed_and_collected_transaction_runs_nothing() {
    let bench = Bench::apart();
    let ticket = ticket(&bench, &mut bench.coordinator("both"));
    bench.pass(bench.limits.orphan_ms);
    let recovered = recover_over(&bench, &mut bench.connections());
    assert_eq!(recovered.completed.len(), 1);
    bench.collect(recovered.completed);
    let mut resumed = resume(&bench, ticket);
    let outcome = ends(&bench, &mut resumed, |_, _| {});
    assert!(matches!(outcome, Outcome::Done { .. }), "{outcome}");
    assert_eq!((resumed.garbage().len(), bench.names()), (0, 0));
    assert_eq!(bench.done("read"), ints([1, 1]), "it was done twice");
}

/// The answer to the first commit is lost. The commit has not taken effect, and the next
/// transaction sees that.
#[test]
fn a_first_commit_that_has_not_taken_effect_is_reported_as_a_failure() {
    let bench = Bench::apart();
    let (mut coordinator, mut connections) = (bench.coordinator("both"), bench.connections());
    bench.until(&mut coordinator, &mut connections, None, |_, request| is_commit(request));
    finish(&bench.world, connections.ask("one", &Request::Abort)).unwrap();
    let mut answer = Err(StoreError::OutcomeUnknown("lost".to_owned()));
    let outcome = loop {
        match coordinator.next(bench.clock.now_ms(), Some(answer)) {
            Next::Ask(Ask::Store { database, request }) if is_commit(&request) => {
                finish(&bench.world, connections.ask(&database, &Request::Abort)).unwrap();
                answer = Err(StoreError::Conflict);
            }
            Next::Ask(Ask::Store { database, request }) => {
                answer = finish(&bench.world, connections.ask(&database, &request));
            }
            Next::Ask(Ask::Wait { .. }) => answer = Ok(Reply::Done),
            Next::Finished(outcome) => break outcome,
        }
    };
    assert!(matches!(outcome, Outcome::Failed(Why::Contention { .. })), "{outcome}");
}

/// A strong read was old when it made the program fail, and its certification finds that out.
#[test]
fn a_failure_on_old_values_is_retried() {
    let lost = StoreError::OutcomeUnknown("lost".to_owned());
    let away = StoreError::Unavailable("gone".to_owned());
    for error in [StoreError::Conflict, lost, away] {
        let bench = Bench::apart();
        bench.done("put");
        let (mut coordinator, mut connections) = (bench.coordinator("must"), bench.connections());
        let (mut answer, mut ends) = (None, 0);
        let outcome = loop {
            match coordinator.next(bench.clock.now_ms(), answer.take()) {
                Next::Ask(Ask::Store { database, request }) => {
                    let found = finish(&bench.world, connections.ask(&database, &request));
                    ends += usize::from(is_commit(&request) || matches!(request, Request::Certify));
                    answer = Some(match (&request, ends) {
                        (Request::Perform(_), 0) => Err(StoreError::Missing),
                        (Request::Certify, 1) => Err(error.clone()),
                        _ => found,
                    });
                }
                Next::Ask(Ask::Wait { ms }) => {
                    bench.pass(ms);
                    answer = Some(Ok(Reply::Done));
                }
                Next::Finished(outcome) => break outcome,
            }
        };
        let Outcome::Done { result, .. } = outcome else { panic!("{error}: {outcome}") };
        assert_eq!((result, ends), (Value::Int(7), 2));
    }
}

/// A reader finds a witness of a transaction whose commit witness was removed long ago.
#[test]
fn a_waiting_transaction_notices_removed_garbage_in_time() {
    let limits = Bench::apart().limits;
    assert!(limits.keep_ms / 2 < limits.blocked_ms && limits.blocked_ms < limits.keep_ms);
}

/// A program fails after its first commit. The other database is unreachable, or the coordinator
/// dies, before all commit witnesses are written. Others write them, and no transaction stays
/// blocked.
#[test]
fn the_witnesses_of_a_failure_after_a_commit_are_completed_by_others() {
    for dies in [false, true] {
        let bench = Bench::apart();
        bench.done("weakly");
        let (mut coordinator, mut connections) =
            (bench.coordinator("limited"), bench.connections());
        let failed = |database: &str, request: &Request| {
            database == "two" && matches!(request, Request::Abort)
        };
        let mut asked = bench.until(&mut coordinator, &mut connections, None, failed);
        let mut refused = 0;
        loop {
            let away = refused > 0 && *asked.0 == *"two";
            if away && dies {
                break;
            }
            let answer = match away {
                true => Err(StoreError::Unavailable("gone".to_owned())),
                false => finish(&bench.world, connections.ask(&asked.0, &asked.1)),
            };
            refused += 1;
            let mut answer = Some(answer);
            asked = loop {
                match coordinator.next(bench.clock.now_ms(), answer.take()) {
                    Next::Ask(Ask::Store { database, request }) => break (database, request),
                    Next::Ask(Ask::Wait { ms }) => {
                        bench.pass(ms);
                        answer = Some(Ok(Reply::Done));
                    }
                    Next::Finished(_) => break ("".into(), Request::Abort),
                }
            };
            if asked.0.is_empty() {
                break;
            }
        }
        drop((coordinator, connections));
        bench.pass(bench.limits.orphan_ms);
        let found = recover_over(&bench, &mut bench.connections());
        assert_eq!((found.open.len(), found.failed.len()), (1, 0), "{found:?}");
        assert!(matches!(found.open[0].1, Outcome::Incomplete { why: Why::Program(_), .. }));
        assert_eq!(bench.done("read"), ints([1, 1]));
        let found = recover_over(&bench, &mut bench.connections());
        assert_eq!((found.open.len(), found.failed.len()), (0, 1), "{found:?}");
    }
}

/// A conflict after a long wait for a witness counts as one attempt, and the polls do not count.
#[test]
fn polls_for_a_witness_do_not_count_as_attempts() {
    let bench = Bench::apart();
    let (mut writer, mut of_writer) = (bench.coordinator("both"), bench.connections());
    let commit = |database: &str, request: &Request| database == "two" && is_commit(request);
    let second = bench.until(&mut writer, &mut of_writer, None, commit);
    let (mut reader, mut connections) = (bench.coordinator("read"), bench.connections());
    let (mut answer, mut polls, mut conflicts) = (None, 0, 0);
    let outcome = loop {
        match reader.next(bench.clock.now_ms(), answer.take()) {
            Next::Ask(Ask::Store { database, request }) => {
                let begins = *database == *"two" && matches!(request, Request::Begin(_));
                polls += u32::from(begins);
                if begins && polls == bench.limits.attempts + 10 {
                    finish(&bench.world, of_writer.ask(&second.0, &second.1)).unwrap();
                    conflicts += 1;
                    answer = Some(Err(StoreError::Conflict));
                } else {
                    answer = Some(finish(&bench.world, connections.ask(&database, &request)));
                }
            }
            // Time hardly passes: the test counts the polls.
            Next::Ask(Ask::Wait { .. }) => {
                bench.pass(10);
                answer = Some(Ok(Reply::Done));
            }
            Next::Finished(outcome) => break outcome,
        }
    };
    assert_eq!(conflicts, 1);
    let done = matches!(&outcome, Outcome::Done { result, .. } if *result == ints([1, 1]));
    assert!(done, "{outcome}");
}

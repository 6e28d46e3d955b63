//! Order and time in which incomplete transactions that wait for one another are completed.

use std::sync::Arc;

use crate::world::bench::{Bench, ints, is_commit};
use crate::world::finish;
use solera_mixt::collect::Collector;
use solera_mixt::coordinator::{Coordinator, Request};
use solera_mixt::executor::{Clock, run};
use solera_mixt::outcome::Outcome;
use solera_mixt::record::Record;
use solera_mixt::recovery::{Recovered, recover};
use solera_mixt::store::Location;

fn recover_all(bench: &Bench, collector: &Collector) -> Recovered {
    let place = Location { database: "one".into(), space: "all".into() };
    let (mut connections, known) = (bench.connections(), (&bench.modules, bench.limits));
    finish(&bench.world, recover(&place, &mut connections, known, collector, &bench.clock)).unwrap()
}

/// Runs the transaction until its first group has committed, and abandons it there.
fn abandon(bench: &Bench, coordinator: &mut Coordinator) {
    let first = |database: &str, request: &Request| database == "one" && is_commit(request);
    let mut connections = bench.connections();
    let (database, commit) = bench.until(coordinator, &mut connections, None, first);
    finish(&bench.world, connections.ask(&database, &commit)).unwrap();
}

/// Runs the transaction until it has waited too long for another one.
fn blocked(bench: &Bench, coordinator: &mut Coordinator) -> Record {
    let mut connections = bench.connections();
    match finish(&bench.world, run(coordinator, &mut connections, &bench.clock)) {
        Outcome::Incomplete { ticket: Some(ticket), .. } => *ticket,
        other => panic!("{other}"),
    }
}

/// Several transactions began in a different order than the one in which they wait for one another.
#[test]
fn transactions_are_completed_after_those_that_they_wait_for() {
    let bench = Bench::apart();
    let begin = |_| {
        bench.pass(1);
        bench.coordinator("both")
    };
    let mut all: Vec<_> = (0..6).map(begin).collect();
    all.iter_mut().rev().for_each(|coordinator| abandon(&bench, coordinator));
    bench.pass(bench.limits.orphan_ms);
    let before = bench.clock.now_ms();
    let recovered = recover_all(&bench, &Collector::new(bench.limits));
    assert_eq!((recovered.completed.len(), recovered.open.len()), (6, 0), "{recovered:?}");
    // A transaction that waits looks for the record of the other only after this time.
    assert!(bench.clock.now_ms() < before + bench.limits.finish_ms / 8, "some have waited");
    assert_eq!(bench.done("read"), ints([6, 6]));
}

/// Transactions that wait for a young one are skipped until it is complete.
#[test]
fn transactions_that_wait_for_a_young_one_are_skipped() {
    let bench = Bench::apart();
    let (mut early, mut late) = (bench.coordinator("both"), bench.coordinator("both"));
    abandon(&bench, &mut late);
    abandon(&bench, &mut early);
    let mut collector = Collector::new(bench.limits);
    collector.give_up(blocked(&bench, &mut bench.coordinator("both")));
    let recovered = recover_all(&bench, &collector);
    assert_eq!((recovered.young, recovered.skipped.len()), (2, 1), "{recovered:?}");
    assert!(recovered.completed.is_empty() && recovered.open.is_empty(), "{recovered:?}");
}

/// A host can complete a transaction that it has given up at once, without waiting until the
/// transaction counts as orphaned. Otherwise other transactions would wait for it, and be given up
/// themselves.
#[test]
fn transactions_given_up_by_this_host_are_completed_at_once() {
    let bench = Bench::apart();
    let mut collector = Collector::new(bench.limits);
    let mut first = bench.coordinator("both");
    abandon(&bench, &mut first);
    // Each waits for the earlier ones.
    let mut tickets = Vec::new();
    for _ in 0..3 {
        tickets.push(blocked(&bench, &mut bench.coordinator("both")));
    }
    for ticket in &tickets {
        collector.give_up(ticket.clone());
    }
    // The first is orphaned by now, and the others are young.
    let without = recover_all(&bench, &Collector::new(bench.limits));
    assert!(without.young > 0 && without.completed.len() < 4, "{without:?}");
    collector.take(&mut Recovered { completed: without.completed, ..Recovered::default() }, 0);
    let mut recovered = recover_all(&bench, &collector);
    assert_eq!(
        (recovered.young, recovered.open.len(), recovered.skipped.len()),
        (0, 0, 0),
        "{recovered:?}"
    );
    assert_eq!(bench.done("read"), ints([4, 4]));

    // Resuming a ticket now reports that the transaction is complete.
    let now_ms = bench.clock.now_ms();
    let finished = recovered.finished.clone();
    assert!(!finished.is_empty());
    collector.take(&mut recovered, now_ms);
    for ticket in finished {
        let modules = Arc::clone(&bench.modules);
        let mut resumed = Coordinator::resume(ticket, modules, bench.limits, now_ms).unwrap();
        finish(&bench.world, collector.collect(&mut bench.connections(), now_ms)).unwrap();
        let outcome =
            finish(&bench.world, run(&mut resumed, &mut bench.connections(), &bench.clock));
        assert!(matches!(outcome, Outcome::Done { .. }), "{outcome}");
    }
    assert_eq!(bench.done("read"), ints([4, 4]));
}

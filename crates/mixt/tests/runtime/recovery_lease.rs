//! Only one coordinator at a time completes a transaction that has begun to take effect.

use std::sync::Arc;

use crate::world::bench::{Bench, ints, is_commit};
use crate::world::finish;
use solera_levels::Level;
use solera_mixt::collect::Collector;
use solera_mixt::coordinator::{Ask, Coordinator, Next, Reply, Request};
use solera_mixt::executor::{Clock, Connections};
use solera_mixt::memory::Memory;
use solera_mixt::outcome::{Outcome, Why};
use solera_mixt::record::Record;
use solera_mixt::recovery::{Recovered, recover};
use solera_mixt::store::{Location, StoreError};

/// Returns the next request to a database, after `answer` to the last one. Waits end at once.
fn next(
    bench: &Bench,
    coordinator: &mut Coordinator,
    mut answer: Option<Result<Reply, StoreError>>,
) -> Result<(Arc<str>, Request), Box<Outcome>> {
    loop {
        match coordinator.next(bench.clock.now_ms(), answer.take()) {
            Next::Ask(Ask::Store { database, request }) => return Ok((database, request)),
            Next::Ask(Ask::Wait { ms }) => {
                bench.pass(ms);
                answer = Some(Ok(Reply::Done));
            }
            Next::Finished(outcome) => return Err(Box::new(outcome)),
        }
    }
}

fn ask(
    bench: &Bench,
    connections: &mut Connections,
    (database, request): &(Arc<str>, Request),
) -> Option<Result<Reply, StoreError>> {
    Some(finish(&bench.world, connections.ask(database, request)))
}

/// Runs the transaction to its end.
fn end(
    bench: &Bench,
    coordinator: &mut Coordinator,
    connections: &mut Connections,
    mut answer: Option<Result<Reply, StoreError>>,
) -> Outcome {
    for _ in 0..5_000 {
        match next(bench, coordinator, answer.take()) {
            Ok(asked) => answer = ask(bench, connections, &asked),
            Err(outcome) => return *outcome,
        }
    }
    panic!("it goes on for ever");
}

fn recover_all(bench: &Bench) -> Recovered {
    let place = Location { database: "one".into(), space: "all".into() };
    let mut connections = bench.connections();
    let (known, none) = ((&bench.modules, bench.limits), Collector::new(bench.limits));
    finish(&bench.world, recover(&place, &mut connections, known, &none, &bench.clock)).unwrap()
}

fn commits_in_two(database: &str, request: &Request) -> bool {
    database == "two" && is_commit(request)
}

/// Returns the ticket of a transaction whose first group has committed, and whose second database
/// then became unreachable.
fn ticket(bench: &Bench) -> Record {
    let (mut coordinator, mut connections) = (bench.coordinator("both"), bench.connections());
    bench.until(&mut coordinator, &mut connections, None, commits_in_two);
    finish(&bench.world, connections.ask("two", &Request::Abort)).unwrap();
    bench.pass(bench.limits.finish_ms);
    let away = Some(Err(StoreError::Unavailable("gone".to_owned())));
    match next(bench, &mut coordinator, away).map_err(|outcome| *outcome) {
        Err(Outcome::Incomplete { ticket: Some(ticket), .. }) => *ticket,
        other => panic!("{other:?}"),
    }
}

fn resume(bench: &Bench, ticket: &Record) -> Coordinator {
    let modules = Arc::clone(&bench.modules);
    Coordinator::resume(ticket.clone(), modules, bench.limits, bench.clock.now_ms()).unwrap()
}

/// A transaction that was blocked for long before its first commit is young afterwards.
#[test]
fn age_counts_from_the_first_commit() {
    let bench = Bench::apart();
    let (mut slow, mut connections) = (bench.coordinator("both"), bench.connections());
    let asked = bench.until(&mut slow, &mut connections, None, |_, request| {
        matches!(request, Request::Begin(_))
    });
    bench.pass(bench.limits.orphan_ms);
    let answer = ask(&bench, &mut connections, &asked);
    let commit = bench.until(&mut slow, &mut connections, answer, commits_in_two);
    let recovered = recover_all(&bench);
    assert!(recovered.completed.is_empty() && recovered.open.is_empty(), "{recovered:?}");
    let answer = ask(&bench, &mut connections, &commit);
    let outcome = end(&bench, &mut slow, &mut connections, answer);
    assert!(matches!(outcome, Outcome::Done { .. }), "{outcome}");
    assert_eq!(bench.done("read"), ints([1, 1]));
}

/// A coordinator that was delayed within a group does not commit it after others may have taken
/// over.
#[test]
fn a_late_coordinator_stops() {
    let bench = Bench::apart();
    let (mut slow, mut connections) = (bench.coordinator("both"), bench.connections());
    let perform = |database: &str, request: &Request| {
        database == "two" && matches!(request, Request::Perform(_))
    };
    let asked = bench.until(&mut slow, &mut connections, None, perform);
    bench.pass(bench.limits.orphan_ms);
    assert_eq!(recover_all(&bench).completed.len(), 1);
    let answer = ask(&bench, &mut connections, &asked);
    let outcome = end(&bench, &mut slow, &mut connections, answer);
    assert!(matches!(outcome, Outcome::Incomplete { why: Why::Late, .. }), "{outcome}");
    assert_eq!(bench.done("read"), ints([1, 1]));
}

/// The first commit succeeded, but its answer arrived after others had taken over.
#[test]
fn a_coordinator_with_a_late_answer_to_its_commit_stops() {
    let bench = Bench::apart();
    let (mut slow, mut connections) = (bench.coordinator("both"), bench.connections());
    let commit = bench.until(&mut slow, &mut connections, None, |_, request| is_commit(request));
    ask(&bench, &mut connections, &commit);
    bench.pass(bench.limits.orphan_ms);
    assert_eq!(recover_all(&bench).completed.len(), 1);
    let lost = Some(Err(StoreError::OutcomeUnknown("lost".to_owned())));
    let outcome = end(&bench, &mut slow, &mut connections, lost);
    assert!(matches!(outcome, Outcome::Incomplete { ticket: Some(_), .. }), "{outcome}");
    assert_eq!(bench.done("read"), ints([1, 1]));
}

/// Two coordinators resume one ticket at the same time. One acquires the lease. The other waits,
/// and acquires the next lease if the first one dies. In the causal store nothing else would
/// separate them.
#[test]
fn two_coordinators_that_resume_a_ticket_acquire_the_lease_in_turn() {
    let bench = Bench::apart();
    let ticket = ticket(&bench);
    let mut both = [(); 2].map(|()| (resume(&bench, &ticket), bench.connections()));
    // Both have seen that the lease is free.
    let mut commits = Vec::new();
    for (coordinator, connections) in &mut both {
        commits.push(bench.until(coordinator, connections, None, |_, request| is_commit(request)));
    }
    let [(first, of_first), (second, of_second)] = &mut both;
    let answer = ask(&bench, of_first, &commits[0]);
    bench.until(first, of_first, answer, commits_in_two);
    let refused = ask(&bench, of_second, &commits[1]);
    assert_eq!(refused, Some(Err(StoreError::Conflict)));
    let outcome = end(&bench, second, of_second, refused);
    let Outcome::Incomplete { ticket: Some(ticket), why: Why::Taken, .. } = outcome else {
        panic!("{outcome}")
    };
    // The first coordinator makes no more requests.
    bench.pass(bench.limits.orphan_ms);
    let mut third = resume(&bench, &ticket);
    let outcome = end(&bench, &mut third, &mut bench.connections(), None);
    assert!(matches!(outcome, Outcome::Done { .. }), "{outcome}");
    assert_eq!(bench.done("read"), ints([1, 1]));
    bench.collect(third.garbage());
    assert_eq!(bench.names(), 0);
}

/// Runs until the first commit, whose answer is lost, and returns the ticket.
fn lose_first_commit(bench: &Bench, coordinator: &mut Coordinator) -> Record {
    bench.until(coordinator, &mut bench.connections(), None, |_, request| is_commit(request));
    commit_in_doubt(bench, coordinator)
}

/// Returns the ticket of a coordinator that gets no answer to its commit, and cannot begin another
/// transaction meanwhile.
fn commit_in_doubt(bench: &Bench, coordinator: &mut Coordinator) -> Record {
    let mut answer = Some(Err(StoreError::OutcomeUnknown("lost".to_owned())));
    loop {
        match next(bench, coordinator, answer.take()).map_err(|outcome| *outcome) {
            Ok(_) => answer = Some(Err(StoreError::Unavailable("gone".to_owned()))),
            Err(Outcome::Incomplete { ticket: Some(ticket), .. }) => return *ticket,
            Err(other) => panic!("{other}"),
        }
    }
}

/// The outcome of the first commit is unknown, and several coordinators retry it.
#[test]
fn coordinators_that_retry_the_first_commit_acquire_the_lease_in_turn() {
    for again in [false, true] {
        let bench = Bench::apart();
        let first = lose_first_commit(&bench, &mut bench.coordinator("both"));
        let ticket = if again {
            lose_first_commit(&bench, &mut resume(&bench, &first))
        } else {
            first.clone()
        };
        let (mut one, mut of_one) = (resume(&bench, &first), bench.connections());
        let commit = bench.until(&mut one, &mut of_one, None, commits_in_two);
        let mut other = resume(&bench, &ticket);
        let outcome = end(&bench, &mut other, &mut bench.connections(), None);
        assert!(matches!(outcome, Outcome::Incomplete { why: Why::Taken, .. }), "{outcome}");
        ask(&bench, &mut of_one, &commit);
        assert_eq!(bench.done("read"), ints([1, 1]));
    }
}

/// A coordinator that is cut off with its site continues there, and cannot report that it is done.
#[test]
fn a_coordinator_that_does_not_see_other_commits_repeats_nothing() {
    let strong = Memory::new("one", &[("all", Level::Linearizable)]);
    let weak = Memory::lagging("two", &[("all", Level::Causal)], 2);
    let bind = [("strong", 0, "all"), ("weak", 1, "all")];
    let here = Bench::new(vec![strong.clone(), weak.at(0)], &bind);
    assert!(matches!(here.run("both").0, Outcome::Done { .. }));
    let mut there = Bench::new(vec![strong, weak.at(1)], &bind);
    there.limits.finish_ms = 1_000;
    there.pass(there.limits.orphan_ms);
    let recovered = recover_all(&there);
    assert!(recovered.completed.is_empty(), "{recovered:?}");
    let why = &recovered.open[0].1;
    assert!(why.to_string().contains("not yet visible here"), "{why}");
    weak.at(1).catch_up();
    assert_eq!(recover_all(&there).completed.len(), 1);
    assert_eq!(there.done("read"), ints([1, 1]));
}

/// A right is missing after something has committed: the transaction waits for it.
#[test]
fn a_transaction_denied_after_a_commit_completes_once_allowed() {
    for at_operation in [false, true] {
        let bench = Bench::apart();
        let (mut coordinator, mut connections) = (bench.coordinator("both"), bench.connections());
        let wanted = |database: &str, request: &Request| {
            let operation = matches!(request, Request::Perform(_));
            database == "two" && (!at_operation || operation)
        };
        let mut answer = None;
        let outcome = loop {
            match next(&bench, &mut coordinator, answer.take()) {
                Ok((database, request)) if wanted(&database, &request) => {
                    let denied = StoreError::Denied("no right to write".to_owned());
                    answer = Some(match request {
                        Request::Abort => Ok(Reply::Done),
                        _ => Err(denied),
                    });
                }
                Ok(asked) => answer = ask(&bench, &mut connections, &asked),
                Err(outcome) => break *outcome,
            }
        };
        let Outcome::Incomplete { ticket: Some(ticket), why: Why::Denied { reason, .. }, .. } =
            outcome
        else {
            panic!("{outcome}")
        };
        assert_eq!((reason.as_str(), ticket.failed()), ("no right to write", None));
        bench.pass(bench.limits.orphan_ms);
        assert_eq!(recover_all(&bench).completed.len(), 1);
        assert_eq!(bench.done("read"), ints([1, 1]));
    }
}

/// A coordinator that stopped while a commit was outstanding has not seen the end of its lease.
/// This holds for the first lease and for later ones. A coordinator that sees the commit in doubt
/// need not wait.
#[test]
fn a_ticket_with_a_commit_in_doubt_waits_until_the_commit_cannot_arrive() {
    for again in [false, true] {
        let bench = Bench::apart();
        let (mut coordinator, mut connections) = (bench.coordinator("both"), bench.connections());
        if again {
            coordinator = resume(&bench, &ticket(&bench));
        }
        let sent = bench.until(&mut coordinator, &mut connections, None, commits_in_two);
        let ticket = commit_in_doubt(&bench, &mut coordinator);
        let mut early = resume(&bench, &ticket);
        let outcome = end(&bench, &mut early, &mut bench.connections(), None);
        let Outcome::Incomplete { ticket: Some(ticket), why: Why::Taken, .. } = outcome else {
            panic!("{outcome}")
        };
        // The commit arrives before its latest possible time, so that no coordinator waits for that
        // time.
        assert_eq!(ask(&bench, &mut connections, &sent), Some(Ok(Reply::Committed)));
        let began_ms = bench.clock.now_ms();
        let mut late = resume(&bench, &ticket);
        let outcome = end(&bench, &mut late, &mut bench.connections(), None);
        assert!(matches!(outcome, Outcome::Done { .. }), "{outcome}");
        // Only the coordinator's own requests take time.
        assert!(bench.clock.now_ms() < began_ms + 100);
        assert_eq!(bench.done("read"), ints([1, 1]));
    }
}

/// A commit that is lost for good is repeated when it cannot arrive any more.
#[test]
fn a_lost_commit_is_repeated_when_it_cannot_arrive_any_more() {
    let bench = Bench::apart();
    let (mut coordinator, mut connections) = (bench.coordinator("both"), bench.connections());
    bench.until(&mut coordinator, &mut connections, None, commits_in_two);
    let ticket = commit_in_doubt(&bench, &mut coordinator);
    drop(connections);
    bench.pass(bench.limits.orphan_ms);
    let outcome = end(&bench, &mut resume(&bench, &ticket), &mut bench.connections(), None);
    assert!(matches!(outcome, Outcome::Done { .. }), "{outcome}");
    assert_eq!(bench.done("read"), ints([1, 1]));
}

/// Two coordinators that see the commit in doubt acquire the lease one after the other.
#[test]
fn two_coordinators_that_see_the_commit_in_doubt_acquire_the_lease_in_turn() {
    let bench = Bench::apart();
    let (mut coordinator, mut connections) = (bench.coordinator("both"), bench.connections());
    let sent = bench.until(&mut coordinator, &mut connections, None, commits_in_two);
    let ticket = commit_in_doubt(&bench, &mut coordinator);
    ask(&bench, &mut connections, &sent);
    let (mut one, mut of_one) = (resume(&bench, &ticket), bench.connections());
    // The coordinator is about to acquire the lease.
    let lease = bench.until(&mut one, &mut of_one, None, |_, request| is_commit(request));
    assert_eq!(&*lease.0, "one");
    let mut other = resume(&bench, &ticket);
    let outcome = end(&bench, &mut other, &mut bench.connections(), None);
    assert!(matches!(outcome, Outcome::Done { .. }), "{outcome}");
    let conflict = ask(&bench, &mut of_one, &lease);
    assert_eq!(conflict, Some(Err(StoreError::Conflict)));
    assert_eq!(bench.done("read"), ints([1, 1]));
}

/// The first commit is in doubt in a store where commits merge. Only time shows whether it can
/// still arrive.
#[test]
fn where_commits_merge_a_first_commit_is_repeated_only_when_it_cannot_arrive() {
    let memory = |name| Memory::new(name, &[("all", Level::Causal)]);
    let bind = [("one", 0, "all"), ("other", 1, "all")];
    let bench = Bench::of(crate::world::bench::MERGING, vec![memory("one"), memory("two")], &bind);
    let mut coordinator = bench.coordinator("merging");
    let mut connections = bench.connections();
    let sent =
        bench.until(&mut coordinator, &mut connections, None, |_, request| is_commit(request));
    let ticket = commit_in_doubt(&bench, &mut coordinator);
    let mut early = resume(&bench, &ticket);
    let outcome = end(&bench, &mut early, &mut bench.connections(), None);
    let Outcome::Incomplete { ticket: Some(ticket), why: Why::Taken, .. } = outcome else {
        panic!("{outcome}")
    };
    assert_eq!(ask(&bench, &mut connections, &sent), Some(Ok(Reply::Committed)));
    let mut late = resume(&bench, &ticket);
    let outcome = end(&bench, &mut late, &mut bench.connections(), None);
    assert!(matches!(outcome, Outcome::Done { .. }), "{outcome}");
    assert_eq!(bench.done("look"), ints([1, 1]));
}

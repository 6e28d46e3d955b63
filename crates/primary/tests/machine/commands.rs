//! Guarantees of the machine, step by step, with every message under the test's control.

#[allow(dead_code, reason = "each test file uses a part of it")]
use crate::cluster::{
    A, B, C, Cluster, PARTITIONS, RETRY_MS, accepted_at, address, applied_at, assert_equal, at,
    attach, barrier, key_at, past, without,
};
use solera_data::{Key, Value};
use solera_machine::{PartitionId, Protocol, RequestId};
use solera_membership::Members;
use solera_primary::{Body, Failure, Input, List, Message, PROTOCOL, Past, Response, Update};
use solera_time::SiteId;

fn cluster() -> Cluster {
    Cluster::new(|_| {})
}

/// A key whose home is at A.
fn key() -> Key {
    key_at([(&Members::new(3), A)])
}

// Replies.

#[test]
fn a_remote_update_is_accepted_and_then_applied() {
    let (mut cluster, key) = (cluster(), key());
    let request = cluster.append(B, &key, "x");
    assert!(cluster.replies(request).is_empty());
    cluster.deliver();
    assert_eq!(
        cluster.replies(request),
        [(accepted_at(0, 1), false), (applied_at(0, 1), true)],
        "the home has answered before the entry came"
    );
}

#[test]
fn an_update_at_its_home_is_answered_once() {
    let (mut cluster, key) = (cluster(), key());
    let request = cluster.append(A, &key, "x");
    assert_eq!(cluster.replies(request), [(applied_at(0, 1), true)]);
    cluster.run();
    assert_eq!(cluster.replies(request).len(), 1);
}

#[test]
fn updates_are_answered_with_what_they_count() {
    let (mut cluster, key) = (cluster(), key());
    for site in [A, B] {
        let updates = [
            (Update::Append(Value::from("12")), 2),
            (Update::Append(Value::from("0")), 3),
            (Update::IncrBy(-20), 100),
            (Update::Delete, 1),
            (Update::Delete, 0),
        ];
        for (update, number) in updates {
            let request = cluster.update(site, &key, update.clone());
            cluster.run();
            let replies = if site == A { 1 } else { 2 };
            let expected = vec![Some(number); replies];
            assert_eq!(cluster.numbers[&request], expected, "{update:?} at {site}");
        }
        let request = cluster.update(site, &key, Update::Set(Value::from("1")));
        cluster.run();
        assert!(cluster.numbers[&request].iter().all(Option::is_none));
        cluster.update(site, &key, Update::Delete);
        cluster.run();
    }
}

#[test]
fn a_past_is_read_back_and_has_no_partition_that_there_is_not() {
    let mut past = Past::default();
    past.note(PartitionId(3), at(1, 200));
    past.note(PartitionId(0), at(0, 7));
    let mut bytes = Vec::new();
    past.encode(&mut bytes);
    let (protocol, rest) = Protocol::read_past(&[PROTOCOL], &bytes).unwrap();
    assert_eq!((protocol, Past::decode(rest, 4)), (PROTOCOL, Some(past)));
    assert_eq!(Past::decode(rest, 3), None);
    assert_eq!(Past::decode(&rest[1..], 4), None);
    assert_eq!(Past::decode(&[rest, &[0]].concat(), 4), None);
}

#[test]
fn an_update_that_fails_is_answered_once_and_changes_nothing() {
    let (mut cluster, key) = (cluster(), key());
    cluster.append(A, &key, "x");
    for site in [A, B] {
        let request = cluster.update(site, &key, Update::IncrBy(1));
        cluster.deliver();
        assert_eq!(cluster.answer(request), Some(&Response::Failed(Failure::NotANumber)));
    }
    assert_eq!(cluster.applied(A, &key), (1, true));
}

#[test]
fn an_update_is_accepted_once_however_often_the_home_says_so() {
    let (mut cluster, key) = (cluster(), key());
    let request = cluster.append(B, &key, "x");
    for _ in 0..3 {
        cluster.deliver_on(B, A);
        keep_answers(&mut cluster, A, B);
        cluster.deliver_on(A, B);
        assert_eq!(cluster.replies(request), [(accepted_at(0, 1), false)]);
        cluster.pass(RETRY_MS);
    }
    cluster.run();
    assert_eq!(cluster.replies(request)[1..], [(applied_at(0, 1), true)]);
}

/// Loses all messages of a link except answers.
fn keep_answers(cluster: &mut Cluster, from: SiteId, to: SiteId) {
    cluster.keep(from, to, |body| matches!(body, Body::Answers(_)));
}

#[test]
fn an_unanswered_update_times_out() {
    let (mut cluster, key) = (cluster(), key());
    cluster.stop(A);
    let request = cluster.append(B, &key, "x");
    cluster.pass(4_999);
    assert_eq!(cluster.answer(request), None);
    cluster.pass(10);
    assert_eq!(cluster.answer(request), Some(&Response::Failed(Failure::TimedOut)));
    assert_eq!(cluster.at(B).pending(), 0);
}

// Requests that are cancelled.

#[test]
fn a_cancelled_update_is_answered_no_more() {
    let (mut cluster, key) = (cluster(), key());
    let unanswered = cluster.append(B, &key, "x");
    cluster.cancel(B, unanswered);
    let accepted = cluster.append(B, &key, "y");
    cluster.deliver_on(B, A);
    keep_answers(&mut cluster, A, B);
    cluster.deliver_on(A, B);
    assert_eq!(cluster.replies(accepted), [(accepted_at(0, 2), false)]);
    cluster.cancel(B, accepted);
    cluster.run();
    assert!(cluster.replies(unanswered).is_empty());
    assert_eq!(cluster.replies(accepted).len(), 1);
    assert_eq!(cluster.at(B).pending(), 0);
    assert_eq!(cluster.value(B, &key), Some("xy".into()), "they were on their way");
    // It does not time out either.
    let silent = cluster.append(B, &key, "z");
    cluster.cut_off(B);
    cluster.cancel(B, silent);
    cluster.pass(60_000);
    assert!(cluster.replies(silent).is_empty());
}

#[test]
fn a_cancelled_wait_is_answered_no_more() {
    let (mut cluster, key) = (cluster(), key());
    cluster.append(A, &key, "x");
    let past = past(&key, at(0, 1));
    let waits = [cluster.command(B, attach(&past)), cluster.command(B, barrier(&past))];
    let other = cluster.command(B, attach(&past));
    for request in waits {
        cluster.cancel(B, request);
    }
    cluster.run();
    cluster.pass(60_000);
    for request in waits {
        assert!(cluster.replies(request).is_empty());
    }
    assert_eq!(cluster.answer(other), Some(&Response::Attached));
}

#[test]
fn cancelling_what_is_unknown_or_over_does_nothing() {
    let (mut cluster, key) = (cluster(), key());
    let over = cluster.append(B, &key, "x");
    cluster.run();
    let waits = cluster.append(B, &key, "y");
    let (kept, sent) = (cluster.workers[B.index()].records.len(), cluster.queued(B, A).len());
    cluster.cancel(B, over);
    cluster.cancel(B, RequestId(1_000));
    assert_eq!(cluster.workers[B.index()].records.len(), kept);
    assert_eq!(cluster.queued(B, A).len(), sent);
    cluster.run();
    assert_eq!(cluster.replies(over).len(), 2);
    assert_eq!(cluster.replies(waits).last(), Some(&(applied_at(0, 2), true)));
}

// Messages that are lost.

#[test]
fn an_update_whose_answer_was_lost_is_ordered_once() {
    let (mut cluster, key) = (cluster(), key());
    let request = cluster.append(B, &key, "x");
    cluster.deliver_on(B, A);
    cluster.lose(A, B);
    cluster.append(A, &key, "y");
    cluster.lose(A, B);
    cluster.pass(RETRY_MS);
    assert!(cluster.queued(B, A).iter().any(|body| matches!(body, Body::Forward(_))));
    cluster.deliver();
    assert!(cluster.rare.contains(&"primary: a home was given an update that it had ordered"));
    assert_eq!(cluster.value(B, &key), Some("xy".into()));
    assert_eq!(cluster.applied(A, &key), (2, true));
    assert_eq!(cluster.replies(request).last(), Some(&(applied_at(0, 1), true)));
}

/// A client that received the answer that nothing changed must not see the change later.
#[test]
fn an_update_that_was_refused_stays_refused_when_it_comes_again() {
    let (mut cluster, key) = (cluster(), key());
    cluster.append(A, &key, "x");
    cluster.deliver();
    let request = cluster.update(B, &key, Update::IncrBy(1));
    // The answer is in transit when the update is sent again.
    cluster.deliver_on(B, A);
    cluster.pass(RETRY_MS);
    assert!(cluster.queued(B, A).iter().any(|body| matches!(body, Body::Forward(_))));
    cluster.update(A, &key, Update::Set(Value::from(&b"5"[..])));
    cluster.deliver();
    let failed = Response::Failed(Failure::NotANumber);
    assert_eq!(cluster.replies(request), [(failed, true)]);
    assert_eq!(cluster.value(A, &key), Some("5".into()));
}

#[test]
fn an_update_that_was_lost_is_sent_again_when_its_time_has_come() {
    let (mut cluster, key) = (cluster(), key());
    cluster.append(B, &key, "x");
    cluster.lose(B, A);
    cluster.pass(299);
    assert!(cluster.queued(B, A).is_empty());
    cluster.pass(10);
    assert!(matches!(cluster.queued(B, A)[..], [Body::Forward(_)]));
}

/// The home must know the update from the values that it was filled with, too.
#[test]
fn an_update_is_ordered_once_although_the_home_moved() {
    let (list, fewer) = (Members::new(3), without(&Members::new(3), A));
    for log_entries in [1, 1024] {
        let mut cluster = Cluster::new(|config| config.log_entries = log_entries);
        let key = key_at([(&list, A), (&fewer, B)]);
        let request = cluster.append(C, &key, "x");
        cluster.deliver_on(C, A);
        // C learns nothing of it until B is the home.
        cluster.append(A, &key, "y");
        cluster.lose(A, C);
        cluster.deliver_among(&[A, B]);
        cluster.stop(A);
        cluster.set_members(B, &fewer);
        cluster.set_members(C, &fewer);
        cluster.run();
        assert_eq!(cluster.value(B, &key), Some("xy".into()), "{log_entries}");
        assert_eq!(cluster.replies(request).last(), Some(&(applied_at(0, 1), true)));
        assert_equal(&cluster, &[B, C], &[key]);
    }
}

// Barriers.

#[test]
fn a_barrier_waits_for_f_plus_one_sites_and_not_longer() {
    let (mut cluster, key) = (cluster(), key());
    cluster.append(A, &key, "x");
    assert_eq!(cluster.at(A).unsettled(), 1);
    assert_eq!(cluster.at(A).at_risk().collect::<Vec<_>>(), [&key]);
    let past = past(&key, at(0, 1));
    let (here, there) = (cluster.command(A, barrier(&past)), cluster.command(B, barrier(&past)));
    cluster.deliver_on(A, B);
    assert_eq!((cluster.answer(here), cluster.answer(there)), (None, None));
    // B has it, and A does not know that yet.
    assert_eq!((cluster.at(B).unsettled(), cluster.at(A).unsettled()), (1, 1));
    cluster.deliver_on(B, A);
    assert_eq!(cluster.answer(here), Some(&Response::Stored));
    assert_eq!((cluster.at(A).unsettled(), cluster.at(A).at_risk().count()), (0, 0));
    assert_eq!(cluster.answer(there), None);
    cluster.deliver_on(A, B);
    assert_eq!(cluster.answer(there), Some(&Response::Stored));
    assert_eq!((cluster.at(B).unsettled(), cluster.at(B).at_risk().count()), (0, 0));
    assert_eq!(cluster.applied(C, &key), (0, false), "C was not needed");
}

#[test]
fn a_barrier_needs_all_members_if_these_are_fewer() {
    let list = Members::new(3);
    let (fewer, fewest) = (without(&list, C), without(&without(&list, C), B));
    let (mut cluster, key) = (cluster(), key());
    cluster.stop(C);
    for site in [A, B] {
        cluster.set_members(site, &fewer);
    }
    cluster.run();
    cluster.append(A, &key, "x");
    let request = cluster.command(A, barrier(&past(&key, at(0, 1))));
    cluster.cut_off(B);
    cluster.pass(RETRY_MS);
    cluster.lose(A, B);
    assert_eq!((cluster.answer(request), cluster.at(A).unsettled()), (None, 1));
    cluster.stop(B);
    cluster.set_members(A, &fewest);
    cluster.append(A, &key, "y");
    assert_eq!(cluster.answer(request), Some(&Response::Stored));
    assert_eq!(cluster.at(A).unsettled(), 0);
}

#[test]
fn a_barrier_and_an_attach_without_progress_time_out() {
    let (mut cluster, key) = (cluster(), key());
    cluster.append(A, &key, "x");
    cluster.stop(B);
    cluster.stop(C);
    let barrier = cluster.command(A, barrier(&past(&key, at(0, 1))));
    let attach = cluster.command(A, attach(&past(&key, at(0, 2))));
    cluster.pass(4_990);
    assert_eq!((cluster.answer(barrier), cluster.answer(attach)), (None, None));
    cluster.pass(20);
    let timed_out = Response::Failed(Failure::TimedOut);
    assert_eq!(cluster.answer(barrier), Some(&timed_out));
    assert_eq!(cluster.answer(attach), Some(&timed_out));
}

#[test]
fn a_removed_key_is_at_risk_until_the_removal_is_stored() {
    let (mut cluster, key) = (cluster(), key());
    cluster.append(A, &key, "x");
    cluster.run();
    cluster.update(A, &key, Update::Delete);
    assert_eq!(cluster.at(A).unsettled(), 1);
    assert_eq!(cluster.at(A).at_risk().collect::<Vec<_>>(), [&key]);
    cluster.run();
    assert_eq!(cluster.at(A).at_risk().count(), 0);
}

// Messages that are dropped.

#[test]
fn messages_of_another_list_or_generation_are_dropped() {
    let fewer = without(&Members::new(3), C);
    let (mut cluster, key) = (cluster(), key());
    cluster.append(A, &key, "x");
    let (generation, message) = cluster.links[&(A, B)][0].clone();
    assert!(matches!(message.body, Body::Append { .. }));
    cluster.cut_off(B);
    let give = |cluster: &mut Cluster, generation: u32, message: &Message| {
        let (from, message) = (address(A), message.clone());
        cluster.input(B, Input::Message { from, generation, message });
        let answers = cluster.queued(B, A).len();
        cluster.cut_off(B);
        (cluster.applied(B, &key).0, answers)
    };
    assert_eq!(give(&mut cluster, generation + 1, &message), (0, 0), "another generation");
    cluster.set_members(B, &fewer);
    cluster.cut_off(B);
    assert_eq!(give(&mut cluster, generation, &message), (0, 0), "the sender's list is older");
    let list = List::of(&fewer);
    let newer = Message { list, body: message.body.clone() };
    assert_eq!(give(&mut cluster, generation, &newer), (1, 1), "the same list");
    let newest = List::of(&without(&fewer, A));
    let body = Body::Ask(PartitionId::of(&key, PARTITIONS));
    assert_eq!(give(&mut cluster, generation, &Message { list: newest, body }), (1, 0), "newer");
}

#[test]
fn a_replica_listens_to_its_home_only() {
    let (mut cluster, key) = (cluster(), key());
    cluster.append(A, &key, "x");
    let (generation, message) = cluster.links[&(A, B)][0].clone();
    cluster.cut_off(B);
    cluster.input(B, Input::Message { from: address(C), generation, message: message.clone() });
    assert_eq!(cluster.applied(B, &key).0, 0);
    cluster.input(B, Input::Message { from: address(A), generation, message });
    assert_eq!(cluster.applied(B, &key).0, 1);
}

#[test]
fn entries_that_leave_a_gap_are_asked_for() {
    let (mut cluster, key) = (cluster(), key());
    cluster.append(A, &key, "x");
    cluster.lose(A, B);
    cluster.append(A, &key, "y");
    cluster.deliver_on(A, B);
    assert_eq!(cluster.applied(B, &key).0, 0);
    let asks = |body: &&Body| matches!(body, Body::Stored { asks: true, applied: 0, .. });
    assert!(cluster.queued(B, A).iter().any(asks));
    cluster.deliver();
    assert_eq!(cluster.value(B, &key), Some("xy".into()));
    // Updates that it has already change nothing.
    cluster.pass(RETRY_MS);
    cluster.deliver();
    assert_eq!(cluster.value(B, &key), Some("xy".into()));
}

// Numbers of updates.

/// Returns the number of the last update that B has forwarded to A.
fn number_of_the_next(cluster: &mut Cluster, key: &Key) -> u64 {
    cluster.append(B, key, "x");
    let queued = cluster.queued(B, A);
    let Some(Body::Forward(requests)) = queued.last() else { panic!("no update: {queued:?}") };
    requests.last().unwrap().number
}

#[test]
fn numbers_of_updates_are_never_used_again() {
    let (list, key) = (Members::new(3), key());
    let mut cluster = Cluster::new(|config| config.first_number = 7);
    let mut last = number_of_the_next(&mut cluster, &key);
    assert_eq!(last, 7);
    for round in 0..8 {
        // Sometimes uses more numbers than one record reserves, and sometimes none.
        for _ in 0..[0, 1, 2_500][round % 3] {
            let number = number_of_the_next(&mut cluster, &key);
            assert!(number > last);
            last = number;
            cluster.cut_off(B);
        }
        if round % 2 == 0 {
            let worker = &mut cluster.workers[B.index()];
            let mut checkpoint = worker.begin_checkpoint();
            while worker.take_part(&mut checkpoint, 10) {}
        }
        cluster.restart(B, &list);
        let number = number_of_the_next(&mut cluster, &key);
        assert!(number > last, "round {round}: {number} comes after {last}");
        last = number;
        if round % 3 == 0 {
            // Restarts again, although the worker needed no new record of numbers.
            cluster.restart(B, &list);
        }
    }
}

/// The home would treat the next update as the last one.
#[test]
fn an_update_after_a_restart_is_ordered() {
    let (list, key) = (Members::new(3), key());
    let mut cluster = cluster();
    cluster.append(B, &key, "x");
    cluster.run();
    cluster.restart(B, &list);
    cluster.append(B, &key, "y");
    cluster.run();
    assert_eq!(cluster.value(C, &key), Some("xy".into()));
}

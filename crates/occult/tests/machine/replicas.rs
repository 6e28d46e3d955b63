//! Replicas whose messages are late or missing while homes move: in the end, they have the data of
//! the homes.

use std::cell::Cell;

use solera_data::{Key, Op, Outcome};
use solera_machine::{Address, Machine, RequestId};
use solera_membership::{Change, Members, Participant};
use solera_occult::{
    Body, CausalTimestamp, Command, Config, Input, Message, Occult, OnStale, Output, Response,
    Scheme, Shows,
};
use solera_time::SiteId;

use crate::net::{
    A, C, Do, Net, P, Sent, at, bulk, cut, cut_link, empty, key_of, now, pass, set, topology,
};

/// A has moved a shard to C and taken it back. P has dropped an increment of A's first tenure,
/// because P had learned of the first move only. P gets the next increment after it has learned of
/// both moves.
#[test]
fn writes_of_an_earlier_tenure_do_not_hide_what_came_before_them() {
    let mut net = Net::new(3);
    let key = net.key(0, 0);
    net.execute(A, &empty(), &key, Op::IncrBy(1));
    net.run(200, pass);
    let hold = |(from, to, _): Sent| if (from == A) != (to == A) { Do::Hold } else { Do::Pass };
    let to_p = |(from, to, body): Sent| match (from, to) {
        (A, P) => Do::Pass,
        _ => hold((from, to, body)),
    };
    net.run(10, hold);
    net.execute(A, &empty(), &key, Op::IncrBy(1));
    net.run(10, hold);
    net.shift(0, (A, C), false);
    net.run(20, hold);
    // P knows that A is not the home.
    net.run(1, to_p);
    net.run(10, hold);
    net.execute(A, &empty(), &key, Op::IncrBy(1));
    net.run(10, hold);
    net.shift(0, (C, A), false);
    net.run(20, hold);
    // P knows that A is the home again.
    net.run(1, to_p);
    net.run(5_000, pass);
    assert_eq!([A, P, C].map(|site| net.local(site, &key)), [bulk(3), bulk(3), bulk(3)]);
}

/// P lacks writes of A in a shard that moves to C. C sends P more than one group of copies, and C's
/// clock is ahead of A's writes.
#[test]
fn each_group_of_copies_contains_what_a_former_home_has_written() {
    let mut net = Net::new(3);
    for n in 0..300 {
        let key = net.key(0, n);
        net.execute(A, &empty(), &key, set(n as u64));
        if n % 20 == 0 {
            net.run(1, cut_link(A, P));
        }
    }
    net.run(300, cut_link(A, P));
    net.run(10, cut(P));
    net.shift(0, (A, C), false);
    net.run(1_000, cut(P));
    net.flood(C, 2, cut(P));
    net.run(5_000, pass);
    for n in 0..300 {
        let key = net.key(0, n);
        assert_eq!(net.local(P, &key), bulk(n as u64));
    }
}

/// C takes a shard over between two groups of copies for P.
#[test]
fn a_takeover_between_groups_of_copies_arrives() {
    let mut net = Net::new(3);
    let key = net.key(0, 0);
    net.run(10, cut(P));
    net.execute(A, &empty(), &key, set(9));
    for n in 0..600 {
        let other = net.key(2, n);
        net.execute(C, &empty(), &other, set(n as u64));
        if n % 20 == 0 {
            net.run(1, cut(P));
        }
    }
    net.flood(C, 2, cut(P));
    // P is connected to C only, and its request for the second group is slow.
    let slow = |(from, to, body): Sent| match body {
        Body::CopyRequest(_) => Do::Hold,
        _ => cut_link(A, P)((from, to, body)),
    };
    net.run(60, slow);
    net.shift(0, (A, C), false);
    net.run(100, slow);
    net.run(100, cut_link(A, P));
    net.run(5_000, pass);
    assert_eq!([P, C].map(|site| net.local(site, &key)), [bulk(9), bulk(9)]);
}

/// A was cut off, and its shard was taken by force. A comes back after C's stream has dropped the
/// takeover, and is filled by copies.
#[test]
fn copies_end_a_lost_write_of_a_home_that_comes_back() {
    let mut net = Net::new(3);
    let key = net.key(0, 0);
    lose_write_of_a(&mut net, &key);
    net.flood(C, 2, cut(A));
    net.run(5_000, pass);
    assert_eq!([A, P, C].map(|site| net.local(site, &key)), [bulk(1), bulk(1), bulk(1)]);
}

/// Writes 1 at A, then 666 while A is cut off, and gives A's shard to C by force.
fn lose_write_of_a(net: &mut Net, key: &Key) {
    net.execute(A, &empty(), key, set(1));
    net.run(200, pass);
    net.run(50, cut(A));
    net.execute(A, &empty(), key, set(666));
    net.run(50, cut(A));
    net.shift(0, (A, C), true);
    net.run(1_000, cut(A));
}

/// A comes back after C has handed the shard over to P by a planned move. P's takeover is the only
/// one that A receives.
#[test]
fn a_planned_takeover_ends_a_lost_write_of_a_forced_one() {
    let mut net = Net::new(3);
    let key = net.key(0, 0);
    lose_write_of_a(&mut net, &key);
    net.shift(0, (C, P), false);
    net.run(1_000, cut(A));
    net.run(5_000, pass);
    assert_eq!([A, P, C].map(|site| net.local(site, &key)), [bulk(1), bulk(1), bulk(1)]);
}

/// A comes back while C, which has taken its shard by force, is cut off in turn. P takes the shard
/// by force, and collects what A has.
#[test]
fn a_second_forced_move_does_not_collect_what_the_first_one_has_lost() {
    let mut net = Net::new(3);
    let key = net.key(0, 0);
    lose_write_of_a(&mut net, &key);
    let of_c = |(from, to, body): Sent| match body {
        // A learns of the move, and receives no data.
        Body::Table(_) | Body::TableRequest => Do::Pass,
        _ => cut(C)((from, to, body)),
    };
    net.run(1_000, of_c);
    net.shift(0, (C, P), true);
    net.run(2_000, of_c);
    net.run(2_000, pass);
    assert_eq!([A, P, C].map(|site| net.local(site, &key)), [bulk(1), bulk(1), bulk(1)]);
}

/// Copies of A arrive at P when C has taken A's shard by force.
#[test]
fn copies_of_a_home_taken_by_force_have_no_effect() {
    let mut net = Net::new(3);
    let key = net.key(0, 0);
    net.execute(A, &empty(), &key, set(1));
    net.run(200, pass);
    // P misses so much that A sends copies, which are slow.
    net.run(5, cut_link(A, P));
    net.flood(A, 0, cut_link(A, P));
    let slow = |(from, to, body): Sent| match (from, to) {
        (A, P) if matches!(body, Body::Copies(_)) => Do::Hold,
        _ => cut_link(A, C)((from, to, body)),
    };
    net.run(20, slow);
    // C never gets the last write.
    net.execute(A, &empty(), &key, set(666));
    net.run(500, |(from, to, body): Sent| match (from, to) {
        (A, P) if matches!(body, Body::Copies(_)) => Do::Hold,
        (A, P) if matches!(body, Body::Batch(_)) => Do::Pass,
        (P, A) => Do::Pass,
        _ => cut(A)((from, to, body)),
    });
    assert!(
        net.queue
            .iter()
            .any(|(_, to, message)| { matches!(&message.body, Body::Copies(_)) && *to == at(P) })
    );
    net.shift(0, (A, C), true);
    net.run(1_000, |(from, to, body): Sent| match body {
        Body::Copies(_) if from == A => Do::Hold,
        _ => cut(A)((from, to, body)),
    });
    net.run(2_000, pass);
    assert_eq!(net.local(P, &key), net.local(C, &key));
}

/// A read waits at P while its shard moves from A to C. P learns of the move, of C's progress, and
/// then of A's progress. A's clock is ahead of the session's past.
#[test]
fn a_waiting_read_is_answered_with_the_stamp_of_the_present_home() {
    let mut net = Net::new(3);
    let key = net.key(0, 0);
    net.execute(A, &empty(), &key, set(1));
    net.run(100, pass);
    let hold = |(_, to, _): Sent| if to == P { Do::Hold } else { Do::Pass };
    net.shift(0, (A, C), false);
    net.run(100, hold);
    let early: Vec<_> = net.queue.drain(..).collect();
    let wrote = net.execute(C, &empty(), &key, set(2));
    let Response::Committed { past, .. } = net.replies[&wrote].clone() else { panic!("it is") };
    net.run(20, hold);
    let late: Vec<_> = net.queue.drain(..).collect();
    let read = net.execute(P, &past, &key, Op::Get);
    net.queue.clear();
    let batches = |of: &[(Address, Address, Message)], site| {
        let is_one = |(from, to, message): &&(Address, Address, Message)| {
            (*from, *to) == (at(site), at(P)) && matches!(message.body, Body::Batch(_))
        };
        of.iter().filter(is_one).cloned().collect::<Vec<_>>()
    };
    let table = early.iter().find(|(_, _, message)| matches!(message.body, Body::Table(_)));
    net.queue.extend(table.cloned());
    net.queue.extend(batches(&early, A));
    net.queue.extend(batches(&early, C));
    net.queue.extend(batches(&late, A));
    net.run(12, |(_, to, body): Sent| match body {
        Body::Batch(_) | Body::Table(_) if to == P => Do::Pass,
        _ => Do::Drop,
    });
    // The session has seen 2.
    let old = bulk(1).expect("a value");
    let reply = net.replies.get(&read);
    assert!(!matches!(reply, Some(Response::Committed { outcomes, .. }) if outcomes[0] == old));
}

/// A worker that joins assumes a wrong number of founders until it knows the table.
#[test]
fn a_joining_worker_takes_no_writes_before_it_knows_the_homes() {
    let config = |site, founders, generation| Config {
        journal: false,
        founders,
        generation,
        ..Config::new(at(site), topology(), 3)
    };
    let members = Members::founded(2, 3);
    let mut first = Occult::new(config(A, 2, 0), &members);
    let key = key_of(&first, 2, 0);
    let command = Command::Execute { past: empty(), key, op: set(1), on_stale: OnStale::Home };
    first.handle(now(1_000), Input::Client { request: RequestId(1), command });
    let members = members.changed(SiteId(A), SiteId(C), Change::Add).expect("it can join");
    first.set_members(now(1_001), &members);
    let mut joining = Occult::new(config(C, 3, 1), &members);
    joining.on_deadline(now(1_000));
    for millis in 1_001..3_000 {
        first.on_deadline(now(millis));
        joining.on_deadline(now(millis));
        deliver(millis, (A, &mut first), (C, &mut joining), 0);
        let generation = members.generation(SiteId(C));
        deliver(millis, (C, &mut joining), (A, &mut first), generation);
    }
    assert_eq!((first.keys(), joining.keys()), (1, 1));
}

/// Gives the messages of one worker to another one.
fn deliver(millis: u64, sender: (u8, &mut Occult), receiver: (u8, &mut Occult), generation: u32) {
    while let Some(output) = sender.1.poll_output() {
        match output {
            Output::Send { to, message } if to == at(receiver.0) => {
                let from = at(sender.0);
                let input = Input::Message { from, generation, message };
                receiver.1.handle(now(millis), input);
            }
            _ => {}
        }
    }
}

/// A fill with copies takes longer than the time after which a replica asks again.
#[test]
fn a_slow_fill_ends() {
    let mut net = Net::new(3);
    for n in 0..3_000 {
        let key = net.key(2, n);
        net.execute(C, &empty(), &key, set(1));
        if n % 100 == 0 {
            net.run(1, cut(P));
        }
    }
    net.flood(C, 2, cut(P));
    // Each request waits about 60 ms.
    let waited = Cell::new(0);
    net.run(10_000, |(_, to, body): Sent| match body {
        Body::CopyRequest(_) if to == C => {
            waited.set(waited.get() + 1);
            if waited.get() % 60 == 0 { Do::Pass } else { Do::Hold }
        }
        _ => Do::Pass,
    });
    assert_eq!(net.workers[usize::from(P)].keys(), net.workers[usize::from(C)].keys());
}

/// C writes after it has read a write of A. P gets the write of C first.
#[test]
fn in_the_pessimistic_baseline_a_replica_shows_a_write_after_its_dependencies() {
    for shows in [Shows::AtOnce, Shows::AfterDependencies] {
        let (mut net, [first, second]) = with_exact(shows);
        write_after_a(&mut net, &first, &second);
        let is_shown = net.local(P, &second) == bulk(2);
        assert_eq!(is_shown, shows == Shows::AtOnce);
        assert_eq!(net.workers[usize::from(P)].held(), usize::from(!is_shown));
        net.run(1_000, pass);
        assert_eq!([&first, &second].map(|key| net.local(P, key)), [bulk(1), bulk(2)]);
        assert_eq!(net.workers[usize::from(P)].held(), 0);
    }
}

/// The writes of a transaction depend on each other.
#[test]
fn in_the_pessimistic_baseline_the_writes_of_a_transaction_are_shown() {
    let (mut net, keys) = with_exact(Shows::AfterDependencies);
    net.write_both(C, keys.clone(), 1);
    let drop_first = |(from, to, _): Sent| if (from, to) == (A, P) { Do::Drop } else { Do::Pass };
    net.run(50, drop_first);
    assert_eq!(keys.each_ref().map(|key| net.local(P, key)), [nil(), nil()]);
    net.run(1_000, pass);
    assert_eq!(keys.each_ref().map(|key| net.local(P, key)), [bulk(1), bulk(1)]);
}

/// Two writes of C depend on one write of A each. P gets the first write of A alone.
#[test]
fn in_the_pessimistic_baseline_each_write_waits_for_its_own_dependencies() {
    let (mut net, [first, second]) = with_exact(Shows::AfterDependencies);
    let hold = |(from, to, _): Sent| if (from, to) == (A, P) { Do::Hold } else { Do::Pass };
    let mut past = CausalTimestamp::new(Scheme::Exact);
    for n in [1, 3] {
        net.execute(A, &past, &first, set(n));
        net.run(50, hold);
        past = net.past_of(C, &past, &first, Op::Get);
        past = net.past_of(C, &past, &second, set(n + 1));
        net.run(50, hold);
    }
    let passed = Cell::new(false);
    let one = |(from, to, body): Sent| match body {
        _ if (from, to) != (A, P) => Do::Pass,
        Body::Batch(batch) if passed.get() || batch.entries.len() > 1 => Do::Hold,
        Body::Batch(batch) => {
            passed.set(!batch.entries.is_empty());
            Do::Pass
        }
        _ => Do::Hold,
    };
    net.run(20, one);
    assert_eq!([&first, &second].map(|key| net.local(P, key)), [bulk(1), bulk(2)]);
    net.run(1_000, pass);
    assert_eq!([&first, &second].map(|key| net.local(P, key)), [bulk(3), bulk(4)]);
}

/// A write that P holds back depends on a shard whose home moves to P.
#[test]
fn in_the_pessimistic_baseline_a_home_here_shows_what_writes_depend_on() {
    let (mut net, [first, second]) = with_exact(Shows::AfterDependencies);
    write_after_a(&mut net, &first, &second);
    net.shift(0, (A, P), false);
    net.run(3_000, pass);
    assert_eq!([&first, &second].map(|key| net.local(P, key)), [bulk(1), bulk(2)]);
}

/// A writes 1. C reads it, and writes 2. P gets the write of C alone.
fn write_after_a(net: &mut Net, first: &Key, second: &Key) {
    let new = CausalTimestamp::new(Scheme::Exact);
    net.execute(A, &new, first, set(1));
    net.run(50, cut_link(A, P));
    let past = net.past_of(C, &new, first, Op::Get);
    net.execute(C, &past, second, set(2));
    net.run(50, cut_link(A, P));
}

/// Returns workers with exact timestamps, and keys whose homes are A and C.
fn with_exact(shows: Shows) -> (Net, [Key; 2]) {
    let exact =
        |site| Config { scheme: Scheme::Exact, shows, ..Config::new(at(site), topology(), 3) };
    let net = Net::with(exact);
    let keys = [net.key(0, 0), net.key(2, 0)];
    (net, keys)
}

fn nil() -> Option<Outcome> {
    Some(Outcome::Nil)
}

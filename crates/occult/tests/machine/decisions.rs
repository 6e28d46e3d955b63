//! Decisions of homes that fail or hand their shards over, at participants and clients that have
//! not learned them.

use solera_occult::{Body, Command, Fate, Response, Unknown};

use crate::net::{A, C, Do, Net, P, Sent, bulk, cut, cut_link, empty, set};

/// Loses the decisions that A sends to P, and A's stream to P.
fn only_c_learns((from, to, body): Sent<'_>) -> Do {
    match body {
        Body::Decided(..) | Body::Batch(_) if (from, to) == (A, P) => Do::Drop,
        _ => Do::Pass,
    }
}

/// A decides to commit, and its decision reaches C only. Other homes decide about many transactions
/// before A's shard is taken by force.
#[test]
fn decisions_of_other_homes_do_not_replace_those_of_a_home() {
    let mut net = Net::new(6);
    let keys = [net.key(0, 0), net.key(1, 0)];
    net.write_both(C, keys.clone(), 7);
    net.run(4, |(from, to, body): Sent| match body {
        Body::Decided(..) => Do::Drop,
        Body::Batch(_) if (from, to) == (A, P) => Do::Drop,
        _ => Do::Pass,
    });
    net.run(40, cut_link(A, P));
    for n in 0..4_200 {
        let others = [4, 5].map(|shard| net.key(shard, 1 + n % 50));
        net.write_both(C, others, n as u64);
        if n % 25 == 24 {
            net.run(8, cut(A));
        }
    }
    net.run(10, cut(A));
    net.shift(0, (A, C), true);
    net.run(3_000, cut(A));
    assert_eq!(net.local(C, &keys[0]), bulk(7));
    assert_eq!(net.local(P, &keys[1]), bulk(7));
}

/// A decides to commit, and its decision reaches C only. A decides about many later transactions,
/// which all participants confirm, before its shard is taken by force.
#[test]
fn later_decisions_of_a_home_do_not_replace_one_that_is_not_confirmed() {
    let mut net = Net::new(6);
    let keys = [net.key(0, 0), net.key(1, 0)];
    net.write_both(A, keys.clone(), 7);
    net.run(10, only_c_learns);
    for n in 0..4_200 {
        let others = [0, 2].map(|shard| net.key(shard, 1 + n % 50));
        net.write_both(A, others, n as u64);
        if n % 25 == 24 {
            net.run(8, only_c_learns);
        }
    }
    net.run(10, cut(A));
    net.shift(0, (A, C), true);
    net.run(3_000, cut(A));
    assert_eq!(net.local(C, &keys[0]), bulk(7));
    assert_eq!(net.local(P, &keys[1]), bulk(7));
}

/// A decides to commit while C is cut off, and decides so much since that it sends C copies instead
/// of its stream.
#[test]
fn copies_contain_decisions_that_are_not_confirmed() {
    let mut net = Net::new(3);
    let keys = [net.key(0, 0), net.key(1, 0)];
    let nobody_learns = |sent: Sent| match sent.2 {
        Body::Decided(..) => Do::Drop,
        _ => only_c_learns(sent),
    };
    net.write_both(A, keys.clone(), 7);
    net.run(10, |sent| match cut(C)(sent) {
        Do::Pass => nobody_learns(sent),
        other => other,
    });
    net.flood(A, 0, cut(C));
    net.run(2_000, cut_link(A, P));
    net.run(10, cut(A));
    net.shift(0, (A, C), true);
    net.run(3_000, cut(A));
    assert_eq!(net.local(C, &keys[0]), bulk(7));
    assert_eq!(net.local(P, &keys[1]), bulk(7));
}

/// A decides to commit, hands its shard over to C, and fails before P has learned the decision.
#[test]
fn a_home_that_has_taken_a_shard_over_knows_what_the_former_home_has_decided() {
    let mut net = Net::new(3);
    let keys = [net.key(0, 0), net.key(1, 0)];
    net.write_both(A, keys.clone(), 7);
    net.run(10, only_c_learns);
    net.shift(0, (A, C), false);
    net.run(100, cut_link(A, P));
    net.run(3_000, cut(A));
    assert_eq!(net.local(C, &keys[0]), bulk(7));
    assert_eq!(net.local(P, &keys[1]), bulk(7));
}

/// A has decided to commit, and its outcome is lost. A client at C learns it from C, which takes
/// A's shard by force.
#[test]
fn a_client_learns_the_outcome_from_the_new_home() {
    let mut net = Net::new(3);
    let keys = [net.key(0, 0), net.key(1, 0)];
    let transaction = net.write_both(C, keys.clone(), 7);
    net.run(200, |(from, to, body): Sent| match body {
        Body::Outcome(..) | Body::Decided(..) if from == A && to != A => Do::Drop,
        _ => Do::Pass,
    });
    net.run(10, cut(A));
    net.shift(0, (A, C), true);
    net.run(3_000, cut(A));
    assert_eq!(net.local(P, &keys[1]), bulk(7));
    let incarnation = net.workers[usize::from(C)].config().incarnation;
    let request = net.ask(C, Command::Outcome { incarnation, number: transaction });
    assert_eq!(net.replies[&request], Response::Outcome(Fate::Committed));
}

/// A executes a client's update, and its answer is lost. A hands the shard over, and fails. When
/// another of its shards is taken by force, the client learns that there will be no answer.
#[test]
fn an_update_whose_home_fails_after_a_handover_ends() {
    let mut net = Net::new(6);
    let key = net.key(0, 0);
    let update = net.execute(C, &empty(), &key, set(7));
    let unanswered = |(_, _, body): Sent| match body {
        Body::Executed(..) => Do::Drop,
        _ => Do::Pass,
    };
    net.run(50, unanswered);
    net.shift(0, (A, P), false);
    net.run(100, unanswered);
    net.run(6_000, cut(A));
    let Response::Unknown(Unknown::Pending(transaction)) = net.replies[&update] else {
        panic!("{:?}", net.replies[&update])
    };
    let waits = net.ask(C, Command::Await { transaction });
    net.run(1_000, cut(A));
    net.shift(3, (A, C), true);
    net.run(1_000, cut(A));
    assert_eq!(net.replies[&waits], Response::Unknown(Unknown::Lost));
}

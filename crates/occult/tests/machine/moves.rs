//! Moves of homes, by agreement and by force, as sessions and transactions experience them.

use solera_occult::{Body, CausalTimestamp, Command, Decision, OnStale, Response, ShardId};

use crate::net::{A, C, Do, Net, P, Sent, at, bulk, cut, cut_link, empty, pass, set};

/// Has a site write a value, and returns the session's past.
fn write(
    net: &mut Net,
    site: u8,
    past: &CausalTimestamp,
    shard: u16,
    value: u64,
) -> CausalTimestamp {
    let key = net.key(shard, 0);
    let wrote = net.execute(site, past, &key, set(value));
    match net.replies.get(&wrote) {
        Some(Response::Committed { past, .. }) => past.clone(),
        other => panic!("{other:?}"),
    }
}

/// Returns whether a session that has seen this number of moves depends on a lost write.
fn has_lost(net: &Net, site: u8, past: &CausalTimestamp, epoch: u64) -> bool {
    net.workers[usize::from(site)].has_lost(past, epoch)
}

fn nobody(_: Sent<'_>) -> Do {
    Do::Drop
}

/// C has taken A's shard by force and given it back, and A decides transactions again. A
/// participant once asked about such a transaction as if A had lost it with the shard, and aborted
/// its half.
#[test]
fn a_home_that_is_home_again_decides_its_transactions() {
    let mut net = Net::new(3);
    let (k0, k1) = (net.key(0, 0), net.key(1, 0));
    net.shift(0, (A, C), true);
    net.run(1_000, pass);
    net.shift(0, (C, A), false);
    net.run(1_000, pass);
    let begun = net.ask(C, Command::Begin { past: empty(), on_stale: OnStale::Home });
    let Response::Begun(transaction) = net.replies[&begun] else { panic!("it has begun") };
    for key in [&k0, &k1] {
        let (key, op) = (key.clone(), set(7));
        net.ask(C, Command::Operate { transaction, key, op, validates: false });
    }
    let commit = net.ask(C, Command::Commit { transaction });
    // The link between A and P breaks after PREPARED, and loses one more decision when it is back.
    net.run(2, pass);
    net.run(2_000, cut_link(A, P));
    net.run(310, |(_, _, body)| match body {
        Body::Decided(_, Decision::Commit(_)) => Do::Drop,
        _ => Do::Pass,
    });
    net.run(1_500, pass);
    assert!(matches!(net.replies[&commit], Response::Committed { .. }));
    assert_eq!(net.local(A, &k0), bulk(7));
    assert_eq!(net.local(P, &k1), bulk(7));
}

/// A participant that has not learned the decision asks the present home once the site that has
/// decided is removed. That site had handed the decision over with its shard.
#[test]
fn a_decision_outlives_the_site_that_has_made_it() {
    let mut net = Net::new(3);
    let (k0, k1) = (net.key(0, 0), net.key(1, 0));
    net.write_both(C, [k0.clone(), k1.clone()], 7);
    net.run(2, pass);
    net.run(500, cut(P));
    net.shift(0, (A, C), false);
    net.run(1_000, cut(P));
    net.run(2_000, cut(A));
    net.remove(A);
    net.run(20_000, cut(A));
    assert_eq!(net.workers[usize::from(P)].unfinished().0, 0, "nothing stays prepared");
    assert_eq!((net.local(C, &k0), net.local(P, &k1)), (bulk(7), bulk(7)));
}

/// C has prepared a write when A takes its shard by force. The decision arrives later, and C does
/// not show a write that no other worker has.
#[test]
fn a_home_forgets_what_is_prepared_in_a_shard_that_is_taken_by_force() {
    let mut net = Net::new(3);
    let (k1, k2) = (net.key(1, 0), net.key(2, 0));
    net.write_both(A, [k1, k2.clone()], 7);
    net.run(30, cut_link(C, P));
    net.shift(2, (C, A), true);
    net.run(1_000, cut(C));
    net.run(3_000, pass);
    let all = [A, P, C].map(|site| net.local(site, &k2));
    assert!(all.iter().all(|copy| *copy == all[0]), "{all:?}");
}

/// A session that has written since a home came back has lost nothing, regardless of later moves.
#[test]
fn sessions_have_lost_nothing_by_moves_that_they_have_seen() {
    let mut net = Net::new(3);
    net.shift(0, (A, C), true);
    net.run(1_000, pass);
    net.shift(0, (C, A), false);
    net.run(1_000, pass);
    let epoch = net.workers[usize::from(A)].homes().epoch();
    let past = write(&mut net, A, &empty(), 0, 5);
    net.shift(1, (P, C), false);
    net.run(1_000, pass);
    assert!(!has_lost(&net, A, &past, epoch));
}

/// A lost write stays lost for a token, however often the shard moves afterwards.
#[test]
fn tokens_have_lost_what_an_earlier_move_has_lost() {
    let mut net = Net::new(3);
    net.run(50, cut(A));
    let past = write(&mut net, A, &empty(), 0, 6);
    net.run(50, cut(A));
    net.shift(0, (A, C), true);
    net.run(1_000, cut(A));
    net.run(1_000, pass);
    assert!(has_lost(&net, P, &past, 0));
    for (from, to) in [(C, A), (A, C)] {
        net.shift(0, (from, to), false);
        net.run(1_000, pass);
        assert!(has_lost(&net, P, &past, 0), "after the move to {to}");
    }
}

/// P is to take A's shard by force, and fails before it has the data; C takes the shard from P.
#[test]
fn sessions_have_lost_what_a_forced_move_that_another_one_replaced_has_lost() {
    let mut net = Net::new(3);
    net.run(50, nobody);
    let past = write(&mut net, A, &empty(), 0, 6);
    net.run(50, nobody);
    net.shift(0, (A, P), true);
    net.run(500, nobody);
    net.remove(A);
    net.shift(0, (P, C), true);
    net.run(1_000, nobody);
    let worker = &net.workers[usize::from(C)];
    assert_eq!(worker.arriving(), 0);
    assert!(!worker.homes().is_undecided(ShardId(0)));
    assert!(has_lost(&net, C, &past, 0));
}

/// A forced move from a site that has handed the shard over takes the shard from its present home.
/// The stamps that the present home has assigned still count for the shard.
#[test]
fn a_session_keeps_its_writes_if_a_live_home_loses_its_shard() {
    let mut net = Net::new(3);
    net.shift(0, (A, C), false);
    net.run(1_000, pass);
    let past = write(&mut net, C, &empty(), 0, 1);
    let past = write(&mut net, C, &past, 2, 1);
    net.run(100, pass);
    let stamp = |net: &Net| past.stamp(ShardId(0), net.workers[usize::from(P)].homes());
    let before = stamp(&net);
    net.shift(0, (A, P), true);
    net.run(1_000, pass);
    assert!(stamp(&net) >= before);
    let key = net.key(0, 0);
    assert_eq!(net.local(P, &key), bulk(1), "nothing is lost");
}

/// A fails during a planned move to C. P, which is neither home, knows that the shard waits for A,
/// and takes it by force.
#[test]
fn a_third_site_completes_a_move_that_waits_for_a_dead_home() {
    let mut net = Net::new(3);
    let key = net.key(0, 0);
    let past = write(&mut net, A, &empty(), 0, 7);
    net.run(50, pass);
    net.run(5, cut(A));
    net.shift(0, (A, C), false);
    net.run(500, cut(A));
    let waits =
        |net: &Net| net.workers[usize::from(P)].homes().arrives_from(ShardId(0), at(A).site);
    assert!(waits(&net));
    net.shift(0, (A, P), true);
    net.run(2_000, cut(A));
    assert!(!waits(&net));
    let wrote = net.execute(P, &past, &key, set(8));
    net.run(50, cut(A));
    assert!(matches!(net.replies.get(&wrote), Some(Response::Committed { .. })));
}

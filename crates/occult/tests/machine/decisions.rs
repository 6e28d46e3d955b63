//! Decisions of homes that fail or hand their shards over, at participants and clients that have
//! not learned them.

use solera_data::{Effect, Key};
use solera_machine::Machine;
use solera_membership::Members;
use solera_occult::{
    Body, Checkpoint, ClientId, Command, Commit, Fate, Message, Occult, Part, Prepare, Recovery,
    Response, ShardId, Stamp, TransactionId, Unknown,
};
use solera_time::SiteId;

use crate::net::{A, C, Do, Net, P, Sent, at, bulk, cut, cut_link, empty, pass, set};

/// Loses the decisions that A sends to P, and A's stream to P.
fn only_c_learns((from, to, body): Sent<'_>) -> Do {
    match body {
        Body::Decided(..) | Body::Batch(_) if (from, to) == (A, P) => Do::Drop,
        _ => Do::Pass,
    }
}

/// A does not come back. C, the home of the first key, and P, that of the second one, have both
/// writes of the transaction.
fn survives_without_a(mut net: Net, keys: &[Key; 2]) {
    net.run(3_000, cut(A));
    assert_eq!(net.local(C, &keys[0]), bulk(7));
    assert_eq!(net.local(P, &keys[1]), bulk(7));
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
    survives_without_a(net, &keys);
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
    survives_without_a(net, &keys);
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
    survives_without_a(net, &keys);
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
    survives_without_a(net, &keys);
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

/// Replaces a worker by one that is rebuilt from a checkpoint.
fn restart(net: &mut Net, site: u8) {
    let at = usize::from(site);
    let mut checkpoint = Checkpoint::default();
    let mut recovery = Recovery::new(net.workers[at].config().clone(), &Members::new(3));
    while let Some(part) = net.workers[at].next_part(&mut checkpoint, 10) {
        let mut bytes = Vec::new();
        Occult::encode_part(&part, &mut bytes);
        recovery.take_part(&bytes).unwrap();
    }
    net.workers[at] = recovery.into_machine(&Members::new(3));
    net.collect(site);
}

/// Returns the number of decisions of other homes that a worker keeps.
fn kept(net: &Net, site: u8) -> usize {
    let mut checkpoint = Checkpoint::default();
    match net.workers[usize::from(site)].next_part(&mut checkpoint, 1) {
        Some(Part::Rest(rest)) => rest.decided.len(),
        part => panic!("{part:?}"),
    }
}

/// A decides to commit, and is restarted from a checkpoint before anybody has learned it. It hands
/// its shard over, and fails.
#[test]
fn a_decision_outlives_a_checkpoint_and_a_handover() {
    let mut net = Net::new(3);
    let keys = [net.key(0, 0), net.key(1, 0)];
    let nobody_learns = |sent: Sent| match sent {
        (A, _, Body::Decided(..) | Body::Batch(_) | Body::Copies(_)) => Do::Drop,
        _ => Do::Pass,
    };
    net.write_both(A, keys.clone(), 7);
    net.run(50, nobody_learns);
    restart(&mut net, A);
    net.run(100, nobody_learns);
    net.shift(0, (A, C), false);
    net.run(400, nobody_learns);
    survives_without_a(net, &keys);
}

/// All participants have confirmed a commit, and the client's outcome is lost. The shard moves, and
/// the client asks the new home, too.
#[test]
fn a_new_home_knows_commits_that_all_participants_have_confirmed() {
    for fails in [false, true] {
        let mut net = Net::new(3);
        let keys = [net.key(0, 0), net.key(1, 0)];
        let transaction = net.write_both(C, keys.clone(), 7);
        let lost = |sent: Sent| match sent {
            (A, C, Body::Outcome(..)) => Do::Drop,
            _ => Do::Pass,
        };
        net.run(100, lost);
        net.shift(0, (A, C), false);
        net.run(150, lost);
        net.run(3_000, |sent| if fails { cut(A)(sent) } else { Do::Pass });
        let incarnation = net.workers[usize::from(C)].config().incarnation;
        let request = net.ask(C, Command::Outcome { incarnation, number: transaction });
        assert_eq!(net.replies[&request], Response::Outcome(Fate::Committed), "{fails}");
    }
}

/// C takes A's shard by force while P, a participant, learns nothing. The shard returns to A.
#[test]
fn a_participant_learns_the_decision_of_a_home_that_is_home_again() {
    let mut net = Net::new(3);
    let keys = [net.key(0, 0), net.key(1, 0)];
    net.write_both(A, keys.clone(), 7);
    let prepared_is_lost = |sent: Sent| match sent.2 {
        Body::Prepared(..) | Body::Abort(_) | Body::Resolve(_) => Do::Drop,
        _ => Do::Pass,
    };
    let p_learns_nothing = |sent: Sent| match sent.2 {
        Body::ResolveMoved(..) | Body::Decided(..) | Body::Resolve(_) | Body::Abort(_) => Do::Drop,
        _ => Do::Pass,
    };
    net.run(20, prepared_is_lost);
    net.run(10, cut(A));
    net.shift(0, (A, C), true);
    net.run(1_000, |sent| match cut(A)(sent) {
        Do::Pass => p_learns_nothing(sent),
        other => other,
    });
    net.run(500, p_learns_nothing);
    net.shift(0, (C, A), false);
    net.run(500, p_learns_nothing);
    net.run(5_000, pass);
    let prepared: usize = net.workers.iter().map(|worker| worker.unfinished().0).sum();
    assert_eq!(prepared, 0);
}

/// A has committed, and nobody has learned it before C takes the shard by force. After the shard's
/// return to A, P asks A.
#[test]
fn a_lost_commit_stays_lost_after_the_return_of_its_shard() {
    let mut net = Net::new(3);
    let keys = [net.key(0, 0), net.key(1, 0)];
    let commit = net.write_both(A, keys.clone(), 7);
    let nobody_learns = |sent: Sent| match sent {
        (A, _, Body::Decided(..) | Body::Batch(_)) => Do::Drop,
        _ => Do::Pass,
    };
    net.run(5, nobody_learns);
    let incarnation = net.workers[usize::from(A)].config().incarnation;
    let request = net.ask(A, Command::Outcome { incarnation, number: commit });
    assert_eq!(net.replies[&request], Response::Outcome(Fate::Committed));
    net.run(5, cut(A));
    net.shift(0, (A, C), true);
    let p_waits = |(from, to, body): Sent| match body {
        Body::ResolveMoved(..) | Body::Decided(..) if from == P || to == P => Do::Drop,
        _ => Do::Pass,
    };
    net.run(2_000, |sent| match cut(A)(sent) {
        Do::Pass => p_waits(sent),
        other => other,
    });
    net.run(500, p_waits);
    net.shift(0, (C, A), false);
    net.run(500, p_waits);
    restart(&mut net, A);
    net.run(5_000, pass);
    let found = [A, P, C].map(|site| [net.local(site, &keys[0]), net.local(site, &keys[1])]);
    let lost = [net.local(A, &net.key(0, 9)), net.local(A, &net.key(1, 9))];
    assert_eq!(found, [lost.clone(), lost.clone(), lost]);
    assert_eq!(net.workers[usize::from(P)].unfinished().0, 0);
}

/// C knows a commit of A that P has not learned. C takes the shard by force, gives it back, and
/// takes it again.
#[test]
fn decisions_of_a_former_tenure_are_kept() {
    let mut net = Net::new(3);
    let keys = [net.key(0, 0), net.key(1, 0)];
    net.write_both(A, keys.clone(), 7);
    net.run(10, only_c_learns);
    net.run(10, cut(A));
    let p_waits = |(from, to, body): Sent| match body {
        Body::ResolveMoved(..) | Body::Decided(..) if from == P || to == P => Do::Drop,
        _ => Do::Pass,
    };
    let a_is_away = |sent: Sent| match cut(A)(sent) {
        Do::Pass => p_waits(sent),
        other => other,
    };
    net.shift(0, (A, C), true);
    net.run(1_000, a_is_away);
    net.shift(0, (C, A), false);
    net.run(1_000, a_is_away);
    net.run(7_000, p_waits);
    net.run(10, a_is_away);
    net.shift(0, (A, C), true);
    survives_without_a(net, &keys);
}

/// P is away, and has not confirmed a commit. A decides about many later transactions.
#[test]
fn a_replica_forgets_decisions_about_which_nobody_asks() {
    let mut net = Net::new(6);
    let keys = [net.key(0, 0), net.key(1, 0)];
    net.write_both(A, keys, 7);
    net.run(10, |sent| match sent {
        (A, P, Body::Decided(..)) => Do::Drop,
        _ => Do::Pass,
    });
    for n in 0..500 {
        let others = [0, 2].map(|shard| net.key(shard, 1 + n % 50));
        net.write_both(A, others, n as u64);
        if n % 25 == 24 {
            net.run(8, cut(P));
        }
    }
    assert!(kept(&net, C) > 400);
    net.run(6_000, cut(P));
    assert_eq!(kept(&net, C), 1);
    net.run(12_000, pass);
    assert_eq!(kept(&net, C), 0);
}

/// A gets its own decision back with the shard that it has handed over.
#[test]
fn a_home_forgets_its_own_decisions() {
    let mut net = Net::new(3);
    let keys = [net.key(0, 0), net.key(1, 0)];
    net.write_both(A, keys, 7);
    let p_learns_nothing = |sent: Sent| match sent {
        (_, P, Body::Decided(..)) => Do::Drop,
        _ => Do::Pass,
    };
    net.run(10, p_learns_nothing);
    net.shift(0, (A, C), false);
    net.run(200, p_learns_nothing);
    assert_eq!([A, C].map(|site| kept(&net, site)), [1, 1]);
    net.run(12_000, pass);
    assert_eq!([A, P, C].map(|site| kept(&net, site)), [0, 0, 0]);
}

/// P sends PREPARE before two moves of the shard, and fails. The message arrives after them.
#[test]
fn a_home_refuses_a_prepare_from_before_a_move() {
    let mut net = Net::new(3);
    let keys = [net.key(0, 0), net.key(2, 0)];
    let late = |(from, to, body): Sent| match body {
        Body::Prepare(_) if to == A => Do::Hold,
        _ if from == P || to == P => Do::Drop,
        _ => Do::Pass,
    };
    let moves = |sent: Sent| match sent {
        (_, A, Body::Prepare(_)) => Do::Hold,
        (P, _, Body::Handover(_)) | (_, P, Body::HandoverRequest(_) | Body::Table(_)) => Do::Pass,
        sent => late(sent),
    };
    net.write_both(P, keys, 7);
    net.run(10, late);
    net.run(5, |sent| match (cut(A)(sent), sent.2) {
        (Do::Drop, Body::Prepare(_)) => Do::Hold,
        (Do::Drop, _) => Do::Drop,
        _ => late(sent),
    });
    net.shift(0, (A, C), true);
    net.run(1_000, moves);
    net.shift(0, (C, A), false);
    net.run(1_000, moves);
    let queue = std::mem::take(&mut net.queue);
    let is_late = |to: u8, message: &Message| to == A && matches!(message.body, Body::Prepare(_));
    let (from, _, message) =
        queue.into_iter().find(|(_, to, message)| is_late(to.site.0, message)).unwrap();
    net.deliver(A, from, message);
    assert_eq!(net.workers[usize::from(A)].unfinished().0, 0);
}

/// PREPARE names a decision shard that does not exist, or that is another worker's.
#[test]
fn a_prepare_with_an_impossible_decision_shard_has_no_effect() {
    let mut net = Net::new(3);
    let key = net.key(0, 0);
    let client = ClientId { address: at(C), incarnation: 9 };
    let tid = TransactionId { client, number: 1 };
    for (shard, epoch) in [(60_000, 0), (3, 0), (0, 1)] {
        let body = Body::Prepare(Prepare {
            tid,
            above: Stamp::ZERO,
            writes: vec![(key.clone(), Effect::default())],
            decision_home: at(A),
            decision_shard: ShardId(shard),
            epoch,
            oldest: 1,
        });
        net.deliver(A, at(C), Message { epoch: 0, body });
        assert_eq!(net.workers[usize::from(A)].unfinished().0, 0, "{shard} {epoch}");
    }
    let stamps = vec![(SiteId(0), Stamp(net.millis * 1_000))];
    let commit = Commit { timestamp: empty(), stamps };
    let body = Body::Commit(tid, Box::new(commit), vec![at(A), at(P)]);
    net.deliver(A, at(C), Message { epoch: 0, body });
    net.run(10, pass);
}

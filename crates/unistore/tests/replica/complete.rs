//! Complete reads: what they contain, and what they wait for.

use solera_data::{Key, Op, Outcome, Value};
use solera_levels::Level;
use solera_machine::{Address, Machine, PartitionId, RequestId};
use solera_membership::{Change, SiteStatus};
use solera_time::{SiteId, Vector};
use solera_unistore::{Command, CommandError, Input, Kind, Message, Response, Rule};

use crate::paper::{PARTITIONS, Stage, always, at, key_of};

fn read(stage: &mut Stage, reader: Address, key: &str) -> RequestId {
    let (past, key, op) = (Vector::zero(3), Key::from(key), Op::Get);
    stage.ask(reader, Command::ReadComplete { past, key, op })
}

fn number(value: i64) -> Outcome {
    Outcome::Bulk(Value::from(value.to_string().as_str()))
}

/// Returns the worker that owns a key at a site with two workers.
fn owner(site: u8, key: &str) -> Address {
    at(site, (PartitionId::of(key.as_bytes(), PARTITIONS).0 % 2) as u8)
}

#[test]
fn a_read_contains_what_any_site_has_acknowledged() {
    for (without, value) in [(None, number(5)), (Some(Rule::AskEverySite), Outcome::Nil)] {
        let mut stage = Stage::new(&[1, 1, 1], without);
        stage.pass(200, always);
        let add = stage.execute(at(1, 0), Vector::zero(3), "n", Op::IncrBy(5));
        assert!(matches!(stage.reply(add), Response::Executed { .. }));
        let request = read(&mut stage, at(0, 0), "n");
        // The history of site 1 arrives nowhere yet.
        stage.deliver(|_, _| true);
        assert_eq!(!stage.replies.contains_key(&request), without.is_none());
        stage.pass(200, always);
        assert_eq!(stage.outcome(request), value);
    }
}

/// The client of a transaction over two workers has its answer, and the other worker has not
/// received the decision.
#[test]
fn a_site_answers_when_transactions_that_change_the_key_are_decided() {
    for (without, value) in [(None, number(7)), (Some(Rule::DecideBeforeAnswer), Outcome::Nil)] {
        let mut stage = Stage::new(&[2, 2, 2], without);
        stage.pass(200, always);
        let (here, there) = (at(1, 0), at(1, 1));
        let tx = stage.begin(here, Vector::zero(3));
        for worker in [0, 1] {
            let (key, op) = (Key::from(key_of(worker).as_str()), Op::IncrBy(7));
            let (level, kind) = (Level::Causal, Kind::UPDATE);
            stage.ask(here, Command::Operate { tx, level, key, op, kind });
            stage.deliver(always);
        }
        let commit = stage.ask(here, Command::Commit { tx, claim: None });
        // PREPARE and PREPARE_ACK arrive. The decision stays on its link.
        stage.deliver(|from, _| from == here);
        stage.deliver(|from, _| from == there);
        assert!(matches!(stage.reply(commit), Response::Committed { .. }));
        let held = |from: Address, to: Address| (from, to) == (here, there);
        let other = key_of(1);
        let request = read(&mut stage, owner(0, &other), &other);
        stage.pass(300, |from, to| !held(from, to));
        assert_eq!(!stage.replies.contains_key(&request), without.is_none());
        stage.pass(300, always);
        assert_eq!(stage.outcome(request), value);
    }
}

/// The client of a strong transaction has its answer, and no site that owns the key has learned the
/// decision.
#[test]
fn a_site_answers_when_strong_transactions_that_change_the_key_are_stored() {
    for (without, value) in [(None, number(3)), (Some(Rule::DecideBeforeAnswer), Outcome::Nil)] {
        let mut stage = Stage::new(&[2, 2, 2], without);
        stage.pass(200, always);
        let (text, coordinator) = (key_of(0), at(1, 1));
        let (past, key, op, kind) =
            (Vector::zero(3), Key::from(&*text), Op::IncrBy(3), Kind::UPDATE);
        let add = stage.ask(coordinator, Command::ExecuteStrong { past, key, op, kind });
        // The owner at site 1 executes the operation, and the leader gets the request for its vote.
        for _ in 0..4 {
            stage.deliver(|from, _| from.site == SiteId(1));
        }
        let held = |from: Address, _: Address| from != coordinator;
        stage.pass(300, held);
        assert!(matches!(stage.reply(add), Response::Executed { .. }));
        let request = read(&mut stage, at(2, 0), &text);
        stage.pass(300, held);
        assert_eq!(!stage.replies.contains_key(&request), without.is_none());
        stage.pass(1000, always);
        assert_eq!(stage.outcome(request), value);
    }
}

#[test]
fn a_site_that_does_not_answer_is_named() {
    let mut stage = Stage::new(&[1, 1, 1], None);
    stage.pass(200, always);
    let silent = |from: Address, to: Address| from.site.0 != 2 && to.site.0 != 2;
    let request = read(&mut stage, at(0, 0), "n");
    stage.pass(20_000, silent);
    let named = Response::Failed(CommandError::SiteTimedOut { site: SiteId(2) });
    assert_eq!(*stage.reply(request), named);
    // A suspected site is not asked for long.
    let request = read(&mut stage, at(0, 0), "n");
    stage.pass(20, silent);
    assert_eq!(*stage.reply(request), named);
    stage.pass(2000, always);
    let request = read(&mut stage, at(0, 0), "n");
    stage.pass(200, always);
    assert_eq!(stage.outcome(request), Outcome::Nil);
}

#[test]
fn a_lost_question_is_sent_again() {
    let mut stage = Stage::new(&[1, 1, 1], None);
    stage.pass(200, always);
    let request = read(&mut stage, at(0, 0), "n");
    for messages in stage.links.values_mut() {
        messages.retain(|message| !matches!(message, Message::AskChanges { .. }));
    }
    stage.pass(500, always);
    assert!(!stage.replies.contains_key(&request));
    stage.pass(700, always);
    assert_eq!(stage.outcome(request), Outcome::Nil);
}

#[test]
fn a_cancelled_read_is_not_answered() {
    let mut stage = Stage::new(&[1, 1, 1], None);
    stage.pass(200, always);
    let request = read(&mut stage, at(0, 0), "n");
    let now = stage.now();
    stage.replicas.get_mut(&at(0, 0)).unwrap().handle(now, Input::Cancel { request });
    stage.pass(500, always);
    assert!(!stage.replies.contains_key(&request));
}

/// A snapshot contains an update only with everything on which it depends, and no site forgets the
/// update while the snapshot is live.
#[test]
fn an_update_outside_of_the_snapshot_is_not_forgotten() {
    let mut stage = Stage::new(&[1, 1, 1], None);
    stage.pass(200, always);
    let slow = |from: Address, to: Address| (from, to) != (at(2, 0), at(0, 0));
    stage.pass(60, slow);
    // The update depends on times of site 2 that site 0 has not received.
    let add = stage.execute(at(1, 0), Vector::zero(3), "n", Op::IncrBy(5));
    assert!(matches!(stage.reply(add), Response::Executed { .. }));
    stage.pass(60, slow);
    let request = read(&mut stage, at(0, 0), "n");
    // The question to site 1 is lost, and sent again later.
    let lost = stage.links.get_mut(&(at(0, 0), at(1, 0))).unwrap();
    lost.retain(|message| !matches!(message, Message::AskChanges { .. }));
    stage.pass(900, always);
    assert!(!stage.replies.contains_key(&request));
    stage.pass(700, always);
    assert_eq!(stage.outcome(request), number(5));
}

/// Lets `ms` milliseconds pass. No STABLEVEC arrives at site 0.
fn pass_without_vectors(stage: &mut Stage, ms: u64, open: impl Fn(Address, Address) -> bool) {
    for _ in 0..ms / 10 {
        stage.pass(10, |_, _| false);
        for _ in 0..2 {
            for ((_, to), messages) in &mut stage.links {
                if *to == at(0, 0) {
                    messages.retain(|message| !matches!(message, Message::StableVec { .. }));
                }
            }
            stage.deliver(&open);
        }
    }
}

/// A site is removed when all others store the same history of it. One of them may not show it yet,
/// although another one has shown it.
#[test]
fn updates_of_a_removed_site_are_not_missed() {
    let mut stage = Stage::new(&[1, 1, 1], None);
    stage.pass(200, always);
    let add = stage.execute(at(2, 0), Vector::zero(3), "n", Op::IncrBy(5));
    assert!(matches!(stage.reply(add), Response::Executed { .. }));
    pass_without_vectors(&mut stage, 100, always);
    let first = read(&mut stage, at(1, 0), "n");
    pass_without_vectors(&mut stage, 50, always);
    assert_eq!(stage.outcome(first), number(5));
    let now = stage.now();
    let removes = stage.replicas.get_mut(&at(1, 0)).unwrap();
    removes.change_members(now, SiteId(2), Change::Remove).unwrap();
    let cut = |from: Address, to: Address| from.site.0 != 2 && to.site.0 != 2;
    pass_without_vectors(&mut stage, 1000, cut);
    for site in [0, 1] {
        let members = stage.replicas[&at(site, 0)].members();
        assert_eq!(members.status(SiteId(2)), SiteStatus::Gone);
    }
    let second = read(&mut stage, at(0, 0), "n");
    pass_without_vectors(&mut stage, 200, cut);
    stage.pass(500, cut);
    assert_eq!(stage.outcome(second), number(5));
}

/// A site answers with its list of sites. If it differs, the reader learns the later one and asks
/// those sites.
#[test]
fn sites_are_asked_again_when_their_lists_differ() {
    let mut stage = Stage::new(&[1, 1, 1], None);
    stage.pass(200, always);
    let now = stage.now();
    let removes = stage.replicas.get_mut(&at(1, 0)).unwrap();
    removes.change_members(now, SiteId(2), Change::Remove).unwrap();
    // Site 1 sends nothing but its answer.
    let request = read(&mut stage, at(0, 0), "n");
    for messages in stage.links.values_mut() {
        messages.retain(|message| matches!(message, Message::AskChanges { .. }));
    }
    let cut = |from: Address, to: Address| from.site.0 != 2 && to.site.0 != 2;
    stage.deliver(cut);
    stage.pass(500, cut);
    assert_eq!(stage.outcome(request), Outcome::Nil, "the removed site need not answer");
}

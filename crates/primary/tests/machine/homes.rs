//! Histories of homes that are lost, restarted or new, and of sites that join.

#[allow(dead_code, reason = "each test file uses a part of it")]
use crate::cluster::{
    A, B, C, Cluster, PARTITIONS, RETRY_MS, applied_at, assert_equal, at, attach, barrier, home_of,
    joining, key_at, key_in, past, without,
};
use solera_data::{Key, Value};
use solera_machine::PartitionId;
use solera_membership::{Members, Participant};
use solera_primary::{Body, Config, Failure, Response, Rule, Update};
use solera_time::{SiteId, Timestamp};

const LOST: Response = Response::Failed(Failure::Lost);

fn cluster() -> Cluster {
    Cluster::new(|_| {})
}

/// A key whose home is at A.
fn key() -> Key {
    key_at([(&Members::new(3), A)])
}

// A home that is lost.

/// A has ordered three updates. B, which follows it, has one of them, and C has two.
fn with_a_lost_home(adapt: impl Fn(&mut Config)) -> (Cluster, Key, Members) {
    let list = Members::new(3);
    let fewer = without(&list, A);
    let (mut cluster, key) = (Cluster::new(adapt), key_at([(&list, A), (&fewer, B)]));
    cluster.append(A, &key, "x");
    cluster.deliver();
    cluster.append(A, &key, "y");
    cluster.lose(A, B);
    cluster.deliver_on(A, C);
    cluster.append(A, &key, "z");
    assert_eq!(cluster.position(A, &key), at(0, 3));
    cluster.stop(A);
    (cluster, key, fewer)
}

#[test]
fn a_new_home_takes_the_longest_history_before_it_orders_anything() {
    // The new home gets the history from a log, or as values.
    for log_entries in [1024, 0] {
        let (mut cluster, key, fewer) = with_a_lost_home(|it| it.log_entries = log_entries);
        cluster.set_members(B, &fewer);
        assert!(!cluster.has_completed_removals(B), "the new home lacks the history");
        let request = cluster.append(B, &key, "!");
        cluster.pass(RETRY_MS);
        assert_eq!((cluster.applied(B, &key), cluster.replies(request)), ((1, false), &[][..]));
        // C ignores messages until it has the same list.
        cluster.deliver();
        cluster.pass(RETRY_MS);
        assert_eq!((cluster.applied(B, &key), cluster.replies(request)), ((1, false), &[][..]));
        cluster.set_members(C, &fewer);
        // The length of the longer history is not enough: the new home needs the history itself.
        cluster.deliver_on(B, C);
        cluster.step(C, B);
        cluster.pass(RETRY_MS);
        assert_eq!(cluster.applied(B, &key), (1, false));
        cluster.deliver();
        assert_eq!(cluster.applied(B, &key), (2, true));
        assert!(cluster.has_completed_removals(B) && cluster.has_completed_removals(C));
        cluster.run();
        assert_eq!(cluster.answer(request), Some(&applied_at(1, 3)));
        assert_eq!(cluster.value(C, &key), Some("xy!".into()));
        assert_equal(&cluster, &[B, C], &[key]);
        let taken = "primary: a new home took the end of the history from another site";
        assert!(cluster.rare.contains(&taken));
    }
}

#[test]
fn updates_that_only_the_lost_home_had_are_reported_as_lost() {
    let (mut cluster, key, fewer) = with_a_lost_home(|_| {});
    // One command waits already, and the others come later.
    let early = cluster.command(C, attach(&past(&key, at(0, 3))));
    let bystander = cluster.command(B, attach(&past(&key, at(0, 2))));
    assert_eq!((cluster.answer(early), cluster.answer(bystander)), (None, None));
    cluster.set_members(B, &fewer);
    cluster.set_members(C, &fewer);
    cluster.run();
    assert_eq!(cluster.answer(early), Some(&LOST));
    assert_eq!(cluster.answer(bystander), Some(&Response::Attached));
    for moment in ["before the new home ordered anything", "after that"] {
        for site in [B, C] {
            let (lost, kept) = (past(&key, at(0, 3)), past(&key, at(0, 2)));
            for (command, answer) in [
                (attach(&lost), &LOST),
                (barrier(&lost), &LOST),
                (attach(&kept), &Response::Attached),
                (barrier(&kept), &Response::Stored),
            ] {
                let request = cluster.command(site, command.clone());
                cluster.run();
                assert_eq!(cluster.answer(request), Some(answer), "{site} {moment}: {command:?}");
            }
        }
        cluster.append(B, &key, "!");
        cluster.append(B, &key, "!");
        cluster.run();
    }
    assert!(cluster.rare.contains(&"primary: a session had seen what is lost"));
}

/// The lost home was one of the sites that stored the update.
#[test]
fn a_new_home_finds_out_anew_what_enough_sites_store() {
    let list = Members::new(3);
    let fewer = without(&list, A);
    let (mut cluster, key) = (cluster(), key_at([(&list, A), (&fewer, B)]));
    cluster.append(A, &key, "x");
    cluster.deliver_among(&[A, B]);
    assert_eq!((cluster.at(B).unsettled(), cluster.applied(C, &key).0), (0, 0));
    cluster.stop(A);
    cluster.set_members(B, &fewer);
    cluster.set_members(C, &fewer);
    let request = cluster.command(B, barrier(&past(&key, at(0, 1))));
    assert_eq!((cluster.at(B).unsettled(), cluster.answer(request)), (1, None));
    cluster.run();
    assert_eq!(cluster.applied(C, &key).0, 1);
    assert_eq!((cluster.at(B).unsettled(), cluster.answer(request)), (0, Some(&Response::Stored)));
}

/// No other site has received the epoch that the second home began.
#[test]
fn updates_that_only_a_second_lost_home_had_are_reported_as_lost() {
    let list = Members::new(3);
    let (fewer, fewest) = (without(&list, A), without(&without(&list, A), B));
    let (mut cluster, key) = (cluster(), key_at([(&list, A), (&fewer, B), (&fewest, C)]));
    cluster.append(A, &key, "x");
    cluster.deliver();
    cluster.stop(A);
    cluster.set_members(B, &fewer);
    cluster.set_members(C, &fewer);
    cluster.deliver_on(B, C);
    cluster.deliver_on(C, B);
    assert_eq!(cluster.applied(B, &key), (1, true));
    cluster.append(B, &key, "y");
    let seen = cluster.position(B, &key);
    cluster.stop(B);
    cluster.set_members(C, &fewest);
    cluster.append(C, &key, "z");
    cluster.run();
    assert_eq!(cluster.value(C, &key), Some("xz".into()));
    let request = cluster.command(C, attach(&past(&key, seen)));
    assert_eq!(cluster.answer(request), Some(&LOST), "{seen:?}");
}

// A site that joins.

/// C joins again after A and B have ordered more updates of each partition than their logs hold.
fn with_a_joining_site(updates: usize) -> (Cluster, Vec<Key>, Members) {
    let left = without(&Members::new(3), C);
    let mut cluster = Cluster::new(|config| config.log_entries = 2);
    let keys: Vec<Key> =
        (0..PARTITIONS).flat_map(|id| (0..3).map(move |it| key_in(PartitionId(id), it))).collect();
    cluster.stop(C);
    cluster.set_members(A, &left);
    cluster.set_members(B, &left);
    cluster.run();
    for number in 0..updates {
        for key in &keys {
            cluster.append(A, key, &format!("{number} "));
        }
        cluster.deliver_among(&[A, B]);
    }
    cluster.run();
    (cluster, keys, joining(&left, C))
}

#[test]
fn a_joining_site_is_filled_with_values_and_says_so_only_then() {
    let (mut cluster, keys, list) = with_a_joining_site(3);
    cluster.set_members(A, &list);
    cluster.set_members(B, &list);
    cluster.begin_generation(C, &list);
    let is_like_the_others =
        |cluster: &Cluster| keys.iter().all(|key| cluster.value(C, key) == cluster.value(A, key));
    let mut turns_true = 0;
    for _ in 0..500 {
        let mut moved = false;
        for (from, to) in [(A, C), (B, C), (C, A), (C, B)] {
            let before = cluster.at(C).is_filled();
            moved |= cluster.step(from, to);
            assert!(!cluster.at(C).is_filled() || is_like_the_others(&cluster));
            turns_true += u32::from(!before && cluster.at(C).is_filled());
        }
        if !moved {
            cluster.deliver_among(&[A, B]);
            cluster.pass(RETRY_MS);
        }
    }
    assert_eq!(turns_true, 1);
    assert!(cluster.rare.contains(&"primary: a replica was filled with values"));
    cluster.run();
    assert_equal(&cluster, &[A, B, C], &keys);
    // It is still filled after a restart.
    cluster.restart(C, &list);
    assert!(cluster.at(C).is_filled());
    assert_equal(&cluster, &[A, B, C], &keys);
}

/// It may lack updates that were ordered since the values were sent.
#[test]
fn a_joining_site_without_the_end_of_the_history_is_not_filled() {
    let (mut cluster, keys, list) = with_a_joining_site(3);
    cluster.set_members(A, &list);
    cluster.set_members(B, &list);
    cluster.begin_generation(C, &list);
    cluster.pass(RETRY_MS);
    for home in [A, B] {
        cluster.deliver_on(home, C);
        cluster.deliver_on(C, home);
        cluster.keep(home, C, |body| matches!(body, Body::Piece(..)));
    }
    for key in &keys {
        cluster.append(A, key, "late ");
    }
    cluster.deliver_among(&[A, B]);
    for home in [A, B] {
        cluster.keep(home, C, |body| matches!(body, Body::Piece(..)));
        cluster.deliver_on(home, C);
    }
    for key in &keys {
        assert_eq!(cluster.value(C, key), Some("0 1 2 ".into()));
    }
    assert!(!cluster.at(C).is_filled());
    cluster.run();
    assert!(cluster.at(C).is_filled());
    assert_equal(&cluster, &[A, B, C], &keys);
}

/// The history comes in several messages.
#[test]
fn a_joining_site_that_has_the_beginning_of_a_history_is_not_filled() {
    let left = without(&Members::new(3), C);
    let list = joining(&left, C);
    let (mut cluster, key) = (cluster(), key());
    for site in [A, B] {
        cluster.set_members(site, &list);
    }
    for _ in 0..300 {
        cluster.append(A, &key, "x");
        cluster.deliver_among(&[A, B]);
    }
    cluster.begin_generation(C, &list);
    cluster.pass(RETRY_MS);
    // C first receives all data of the other partitions.
    cluster.deliver_among(&[B, C]);
    let mut steps = 0;
    while !cluster.at(C).is_filled() {
        for (from, to) in [(C, A), (C, B), (A, C), (B, C)] {
            cluster.step(from, to);
        }
        assert!(!cluster.at(C).is_filled() || cluster.applied(C, &key).0 == 300);
        steps += 1;
        assert!(steps < 200, "it is never filled");
        if steps % 50 == 0 {
            cluster.pass(RETRY_MS);
        }
    }
    assert_equal(&cluster, &[A, C], &[key]);
}

#[test]
fn a_joining_site_begins_anew_when_the_home_moves() {
    let (mut cluster, keys, list) = with_a_joining_site(2);
    let fewer = without(&list, A);
    cluster.set_members(A, &list);
    cluster.set_members(B, &list);
    cluster.begin_generation(C, &list);
    cluster.run();
    assert!(cluster.at(C).is_filled());
    let moves = |key: &&Key| home_of(&list, PartitionId::of(key, PARTITIONS)) == A;
    let (moved, stays): (Vec<&Key>, Vec<&Key>) = keys.iter().partition(|key| moves(key));
    assert!(!moved.is_empty() && !stays.is_empty());
    // C receives an update that the new home will not have.
    cluster.append(A, moved[0], "lost ");
    cluster.deliver_on(A, C);
    assert!(cluster.value(C, moved[0]).unwrap().ends_with("lost "));
    cluster.stop(A);
    cluster.set_members(C, &fewer);
    assert!(!cluster.at(C).is_filled());
    for key in &moved {
        assert_eq!((cluster.value(C, key), cluster.applied(C, key).0), (None, 0));
    }
    for key in &stays {
        assert!(cluster.value(C, key).is_some());
    }
    // It stays so after a restart.
    cluster.restart(C, &fewer);
    assert!(!cluster.at(C).is_filled());
    assert_eq!(cluster.applied(C, moved[0]).0, 0);
    cluster.set_members(B, &fewer);
    cluster.append(B, moved[0], "kept ");
    cluster.run();
    assert!(cluster.at(C).is_filled());
    assert_eq!(cluster.value(C, moved[0]), Some("0 1 kept ".into()));
    assert_equal(&cluster, &[B, C], &keys);
}

/// It records the list of sites, and is stopped before it records that it starts again.
#[test]
fn a_joining_site_that_is_stopped_when_the_home_moves_ends_like_the_new_home() {
    let (mut cluster, keys, list) = with_a_joining_site(2);
    let fewer = without(&list, A);
    cluster.set_members(A, &list);
    cluster.set_members(B, &list);
    cluster.begin_generation(C, &list);
    cluster.run();
    let key = key_at([(&list, A)]);
    cluster.append(A, &key, "only C has it");
    cluster.deliver_on(A, C);
    cluster.stop(A);
    cluster.restart(C, &fewer);
    cluster.set_members(B, &fewer);
    let request = cluster.append(B, &key, "!");
    cluster.run();
    assert!(matches!(cluster.answer(request), Some(Response::Applied(_))));
    assert_equal(&cluster, &[B, C], &keys);
}

/// A removal and the end of a join cross: B does not know that C has joined, and C does not know
/// that A was removed.
#[test]
fn a_site_that_joins_while_the_home_is_removed_ends_like_the_new_home() {
    let (mut cluster, keys, list) = with_a_joining_site(2);
    let (removed, joined) = (without(&list, A), list.joined(C, Timestamp(9)));
    let mut both = joined.clone();
    both.merge(&removed);
    let fits = |key: &&Key| {
        let id = PartitionId::of(key, PARTITIONS);
        home_of(&joined, id) == A && home_of(&both, id) == B
    };
    let key = keys.iter().find(fits).unwrap().clone();
    for site in [A, B] {
        cluster.set_members(site, &list);
    }
    cluster.begin_generation(C, &list);
    cluster.run();
    // C takes part, and stores an update that B does not.
    cluster.set_members(C, &joined);
    cluster.set_members(A, &joined);
    cluster.deliver_among(&[A, C]);
    cluster.append(A, &key, "first ");
    cluster.pass(RETRY_MS);
    cluster.deliver_among(&[A, C]);
    assert!(cluster.value(C, &key).unwrap().ends_with("first "));
    cluster.stop(A);
    // B removes A and receives an update, before it learns of C.
    cluster.set_members(B, &removed);
    cluster.pass(RETRY_MS);
    cluster.append(B, &key, "second ");
    cluster.cut_off(C);
    cluster.set_members(B, &both);
    cluster.set_members(C, &both);
    cluster.run();
    assert_eq!(cluster.value(B, &key), Some("0 1 first second ".into()));
    assert_equal(&cluster, &[B, C], &keys);
}

// A home that is restarted.

#[test]
fn a_home_that_was_restarted_goes_on_if_the_list_is_the_same() {
    let list = Members::new(3);
    let (mut cluster, key) = (cluster(), key());
    cluster.append(A, &key, "x");
    cluster.run();
    cluster.append(A, &key, "y");
    cluster.restart(A, &list);
    assert_eq!(cluster.applied(A, &key), (2, true));
    let request = cluster.append(A, &key, "z");
    assert_eq!(cluster.answer(request), Some(&applied_at(0, 3)), "in the same epoch");
    cluster.pass(RETRY_MS);
    for site in [B, C] {
        let queued = cluster.queued(A, site);
        assert!(!queued.iter().any(|body| matches!(body, Body::Ask(_) | Body::Take(..))));
    }
    cluster.run();
    assert_eq!(cluster.value(C, &key), Some("xyz".into()));
    assert_equal(&cluster, &[A, B, C], &[key]);
}

/// The list changed while the worker was the home, and it has been the home for that list since.
#[test]
fn a_home_that_was_restarted_goes_on_with_the_list_that_it_came_to_know() {
    let fewer = without(&Members::new(3), C);
    let (mut cluster, key) = (cluster(), key());
    cluster.append(A, &key, "x");
    cluster.run();
    cluster.set_members(A, &fewer);
    assert_eq!(cluster.applied(A, &key), (1, true), "it was the home before");
    cluster.restart(A, &fewer);
    assert_eq!(cluster.applied(A, &key), (1, true));
}

#[test]
fn a_home_that_was_restarted_asks_all_members_if_the_list_is_another() {
    let list = Members::new(4);
    let fewer = without(&list, SiteId(3));
    let (mut cluster, key) = (Cluster::of(4, |_| {}), key_at([(&list, A), (&fewer, A)]));
    cluster.append(A, &key, "x");
    cluster.run();
    cluster.stop(SiteId(3));
    cluster.stop(A);
    for site in [B, C] {
        cluster.set_members(site, &fewer);
    }
    cluster.restart(A, &fewer);
    assert_eq!(cluster.applied(A, &key), (1, false));
    let request = cluster.append(A, &key, "y");
    cluster.pass(RETRY_MS);
    assert!(cluster.replies(request).is_empty());
    let asks =
        |body: &&Body| matches!(body, Body::Ask(id) if *id == PartitionId::of(&key, PARTITIONS));
    for site in [B, C] {
        assert!(cluster.queued(A, site).iter().any(asks), "{site}");
    }
    cluster.deliver_among(&[A, B]);
    assert_eq!(cluster.applied(A, &key), (1, false), "C has not answered");
    cluster.deliver();
    assert_eq!(cluster.applied(A, &key), (1, true));
    cluster.run();
    assert_eq!(cluster.answer(request), Some(&applied_at(1, 2)), "in a new epoch");
    assert_equal(&cluster, &[A, B, C], &[key]);
}

// The rules that tests of the checks take out hold in the tests above.

#[test]
fn without_its_rules_a_home_does_not_wait() {
    let (mut cluster, key, fewer) = with_a_lost_home(|it| it.without = Some(Rule::Gather).into());
    cluster.set_members(B, &fewer);
    assert_eq!(cluster.applied(B, &key), (1, true), "it does not wait for C");

    let mut cluster = Cluster::new(|config| config.without = Some(Rule::Quorum).into());
    cluster.update(A, &key, Update::Set(Value::from("1")));
    assert_eq!(cluster.at(A).unsettled(), 0);
}

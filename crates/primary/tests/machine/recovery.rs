//! A rebuilt machine equals the one that wrote the journal, wherever the checkpoint began.

#[allow(dead_code, reason = "each test file uses a part of it")]
use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::{
    A, B, C, Cluster, PARTITIONS, RETRY_MS, address, joining, key_at, key_in, without,
};
use solera_data::{Key, Value};
use solera_machine::{Machine, Now, PartitionId};
use solera_membership::{Members, Participant};
use solera_primary::{
    Answer, Body, Checkpoint, Input, List, Message, Output, PROTOCOL, Part, Primary, Record,
    Recovery, Request, Response, Update,
};
use solera_random::Random;

fn update(random: &mut Random) -> Update {
    match random.below(8) {
        0..3 => Update::IncrBy(random.below(100) as i64 - 50),
        3 => Update::Set(Value::from(random.below(50).to_string().as_str())),
        4 => Update::Set(Value::from("word")),
        5..7 => Update::Append(Value::from(random.below(10).to_string().as_str())),
        _ => Update::Delete,
    }
}

/// Keys of six partitions, four of each.
fn keys() -> Vec<Key> {
    let of = |id| (0..4).map(move |place| key_in(PartitionId(id), place));
    (0..6).flat_map(of).collect()
}

fn values(machine: &Primary, keys: &[Key]) -> Vec<Option<String>> {
    keys.iter().map(|key| machine.value(key).map(ToString::to_string)).collect()
}

/// B's last requests to A, for each partition: A knows these updates.
#[derive(Default)]
struct Asked(BTreeMap<PartitionId, Request>);

impl Asked {
    fn note(&mut self, cluster: &Cluster) {
        for body in cluster.queued(B, A) {
            let Body::Forward(requests) = body else { continue };
            for request in requests {
                let id = PartitionId::of(&request.key, PARTITIONS);
                self.0.insert(id, request.clone());
            }
        }
    }
}

/// Returns the machine's answers if B asks again, and the number of records that it emits.
fn ask_again(machine: &mut Primary, request: &Request, now: Now) -> (Vec<Answer>, usize) {
    let list = List::of(machine.members());
    let message = Message { list, body: Body::Forward(vec![request.clone()]) };
    machine.handle(now, Input::Message { from: address(B), generation: 0, message });
    let (mut answers, mut kept) = (Vec::new(), 0);
    while let Some(output) = machine.poll_output() {
        match output {
            Output::Send { message: Message { body: Body::Answers(all), .. }, .. } => {
                answers.extend(all);
            }
            Output::Records(records) => kept += records.iter().count(),
            Output::Send { .. } | Output::Reply { .. } | Output::Trace(_) => {}
        }
    }
    (answers, kept)
}

/// Random updates at both sites, with a checkpoint of A that proceeds between them.
fn run(seed: u64) {
    let mut random = Random::new(seed);
    let log_entries = [0, 3, 1024][random.below(3) as usize];
    let list = Members::new(2);
    let mut cluster = Cluster::of(2, |config| config.log_entries = log_entries);
    let (keys, mut asked) = (keys(), Asked::default());
    let mut checkpoint: Option<Checkpoint> = None;
    let (mut failed, mut begun, begins) = (0, 0, random.below(60));
    for round in 0..220 {
        let site = [A, B][random.below(2) as usize];
        let key = keys[random.below(keys.len() as u64) as usize].clone();
        let request = cluster.update(site, &key, update(&mut random));
        asked.note(&cluster);
        match random.below(10) {
            // Sometimes a message is lost, and A is filled with values if the log is short.
            0 => cluster.lose(B, A),
            1 => cluster.pass(RETRY_MS),
            _ => {}
        }
        cluster.deliver();
        let failure = |(response, _): &(_, bool)| matches!(response, Response::Failed(_));
        failed += usize::from(cluster.replies(request).iter().any(failure));
        let worker = &mut cluster.workers[A.index()];
        if round == begins {
            checkpoint = Some(worker.begin_checkpoint());
        }
        if let Some(going) = &mut checkpoint
            && random.below(2) == 0
        {
            // Each part has few keys, so that the checkpoint takes long.
            begun += usize::from(worker.take_part(going, 1 + random.below(2) as usize));
        }
        // Before its first and last parts, the checkpoint cannot be used: the host keeps the
        // previous one.
        let complete = checkpoint.as_ref().is_some_and(Primary::is_complete);
        if complete || checkpoint.is_none() && random.below(8) == 0 {
            let (live, rebuilt) = (cluster.at(A), cluster.workers[A.index()].rebuilt(&list));
            let what = format!("seed {seed}, round {round}");
            assert_eq!(values(&rebuilt, &keys), values(live, &keys), "{what}");
            assert!(rebuilt.applied().eq(live.applied()), "{what}");
        }
    }
    assert!(failed > 0 && begun > 20, "seed {seed}: {failed} failed, {begun} parts");
    let complete = checkpoint.as_ref().is_some_and(Primary::is_complete);
    assert!(complete, "seed {seed}: the rounds are too few for a checkpoint");
    cluster.run();
    let mut rebuilt = cluster.workers[A.index()].rebuilt(&list);
    let now = cluster.now();
    let live = cluster.workers[A.index()].machine.as_mut().expect("the worker runs");
    let mut known = 0;
    for request in asked.0.values() {
        let expected = ask_again(live, request, now);
        // A restarted home has forgotten its rejections. Its links are new, so that the updates do
        // not arrive again.
        if expected.0.iter().any(|answer| answer.result.is_err()) {
            continue;
        }
        let found = ask_again(&mut rebuilt, request, now);
        assert_eq!(found, expected, "seed {seed}: {request:?}");
        known += usize::from(found.1 == 0 && found.0.iter().any(|answer| answer.result.is_ok()));
    }
    assert!(known > 0, "seed {seed}: nothing was asked again");
}

#[test]
fn a_machine_is_rebuilt_from_parts_and_records_whenever_the_parts_were_taken() {
    for seed in 0..60 {
        run(seed);
    }
}

/// A follower whose log is too short is filled with values in more than one message. A checkpoint
/// may begin between two of them.
#[test]
fn a_replica_that_was_filled_while_a_checkpoint_began_is_rebuilt() {
    let list = Members::new(3);
    let key = key_at([(&list, A)]);
    let id = PartitionId::of(&key, PARTITIONS);
    let keys: Vec<Key> = (0..6).map(|place| key_in(id, place)).collect();
    for taken in 0..=4 {
        let mut cluster = Cluster::new(|config| config.log_entries = 2);
        for key in &keys {
            cluster.update(A, key, Update::Set(Value::from(vec![b'x'; 40_000])));
            cluster.deliver_among(&[A, C]);
            cluster.lose(A, B);
        }
        // The entries that B lacks are no longer in the log.
        cluster.pass(RETRY_MS);
        let queued = cluster.queued(A, B);
        let pieces = queued.iter().filter(|body| matches!(body, Body::Piece(..))).count();
        assert!(pieces >= 3, "{queued:?}");
        for _ in 0..taken {
            cluster.step(A, B);
        }
        let worker = &mut cluster.workers[B.index()];
        let mut checkpoint = worker.begin_checkpoint();
        while worker.take_part(&mut checkpoint, 2) {}
        let rebuilt = worker.rebuilt(&list);
        assert!(rebuilt.applied().eq(cluster.at(B).applied()), "{taken} messages");
        cluster.run();
        cluster.append(A, &keys[0], "y");
        cluster.run();
        let (live, rebuilt) = (cluster.at(B), cluster.workers[B.index()].rebuilt(&list));
        assert_eq!(values(live, &keys), values(cluster.at(A), &keys));
        assert!(rebuilt.applied().eq(live.applied()), "{taken} messages before the checkpoint");
        assert_eq!(values(&rebuilt, &keys), values(live, &keys), "{taken} messages");
    }
}

/// A joining site starts again while a checkpoint is written.
#[test]
fn a_replica_that_began_anew_during_a_checkpoint_is_rebuilt() {
    let left = without(&Members::new(3), C);
    let list = joining(&left, C);
    let fewer = without(&list, A);
    let keys = keys();
    for (before, between) in (0..40).flat_map(|before| [(before, 3), (before, 30)]) {
        let mut cluster = Cluster::new(|config| config.log_entries = 2);
        cluster.set_members(A, &list);
        cluster.set_members(B, &list);
        cluster.begin_generation(C, &list);
        for key in &keys {
            cluster.append(A, key, "x");
        }
        cluster.run();
        assert!(cluster.at(C).is_filled());
        let worker = &mut cluster.workers[C.index()];
        let mut checkpoint = worker.begin_checkpoint();
        for _ in 0..before {
            worker.take_part(&mut checkpoint, 1);
        }
        // Only C receives these.
        for key in &keys {
            cluster.append(A, key, "lost");
        }
        cluster.deliver_among(&[A, C]);
        cluster.stop(A);
        cluster.set_members(C, &fewer);
        for _ in 0..between {
            cluster.workers[C.index()].take_part(&mut checkpoint, 1);
        }
        cluster.set_members(B, &fewer);
        cluster.update(B, &keys[0], Update::Delete);
        cluster.run();
        let worker = &mut cluster.workers[C.index()];
        while worker.take_part(&mut checkpoint, 1) {}
        let (live, rebuilt) = (cluster.at(C), cluster.workers[C.index()].rebuilt(&fewer));
        let what = format!("{before} parts before, and {between}");
        assert!(rebuilt.applied().eq(live.applied()), "{what}");
        assert_eq!(values(&rebuilt, &keys), values(live, &keys), "{what}");
        assert_eq!(values(live, &keys), values(cluster.at(B), &keys), "{what}");
        assert!(rebuilt.is_filled() && live.is_filled(), "{what}");
    }
}

/// A home that was rebuilt from a checkpoint alone knows for which list it is the home, and the
/// epochs.
#[test]
fn a_checkpoint_alone_names_the_home() {
    let fewer = without(&Members::new(3), C);
    let mut cluster = Cluster::new(|_| {});
    let key = key_at([(&Members::new(3), C), (&fewer, A)]);
    cluster.append(C, &key, "x");
    cluster.run();
    cluster.stop(C);
    cluster.set_members(A, &fewer);
    cluster.set_members(B, &fewer);
    cluster.run();
    cluster.append(A, &key, "y");
    let position = cluster.position(A, &key);
    let worker = &mut cluster.workers[A.index()];
    let mut checkpoint = worker.begin_checkpoint();
    while worker.take_part(&mut checkpoint, 5) {}
    cluster.restart(A, &fewer);
    assert_eq!(cluster.applied(A, &key), (2, true));
    assert_eq!((cluster.position(A, &key), position.epoch), (position, 1));
}

/// It also remembers the end of the history, and which updates are in it.
#[test]
fn a_checkpoint_alone_has_the_updates_that_may_be_sent_again() {
    let list = Members::new(2);
    let mut cluster = Cluster::of(2, |_| {});
    let (key, mut asked) = (key_at([(&list, A)]), Asked::default());
    cluster.append(B, &key, "x");
    asked.note(&cluster);
    cluster.deliver_on(B, A);
    cluster.lose(A, B);
    let worker = &mut cluster.workers[A.index()];
    let mut checkpoint = worker.begin_checkpoint();
    while worker.take_part(&mut checkpoint, 5) {}
    cluster.restart(A, &list);
    let now = cluster.now();
    let request = asked.0.values().next().expect("B has asked");
    let (answers, kept) = ask_again(&mut cluster.workers[A.index()].rebuilt(&list), request, now);
    assert!(answers[0].result.is_ok() && kept == 0);
    cluster.run();
    assert_eq!(cluster.value(B, &key), Some("x".into()));
    assert!(cluster.rare.iter().all(|path| !path.contains("filled with values")));
}

#[test]
fn a_part_holds_as_many_keys_as_it_may_or_one() {
    let mut cluster = Cluster::new(|_| {});
    let keys = keys();
    for key in &keys {
        cluster.append(A, key, "x");
    }
    cluster.run();
    for (most, keys_in_one) in [(0, 1), (1, 1), (3, 3), (100, 4)] {
        let machine = cluster.at(A);
        let mut checkpoint = Checkpoint::default();
        let (mut largest, mut held) = (0, BTreeSet::new());
        assert!(!Primary::is_complete(&checkpoint));
        while let Some(part) = machine.next_part(&mut checkpoint, most) {
            assert!(!Primary::is_complete(&checkpoint));
            let Part::Values(_, values) = part else { continue };
            largest = largest.max(values.len());
            held.extend(values.into_iter().map(|(key, ..)| key));
        }
        assert!(Primary::is_complete(&checkpoint));
        assert_eq!((largest, held), (keys_in_one, keys.iter().cloned().collect()));
    }
}

// Bytes that cannot be decoded.

fn record() -> Vec<u8> {
    let mut bytes = Vec::new();
    Record::Numbers(1024).encode(&mut bytes);
    bytes
}

fn part() -> Vec<u8> {
    let mut bytes = Vec::new();
    Part::Worker { numbers: 1024 }.encode(&mut bytes);
    bytes
}

/// Returns the reasons why changed bytes of a record and of a part are rejected.
fn refusals(change: impl Fn(&mut Vec<u8>)) -> [String; 4] {
    let (mut record, mut part) = (record(), part());
    change(&mut record);
    change(&mut part);
    let recovery =
        || Recovery::new(Cluster::new(|_| {}).workers[0].config.clone(), &Members::new(3));
    [
        Record::decode(&record).unwrap_err().to_string(),
        Part::decode(&part).unwrap_err().to_string(),
        recovery().take_record(&record).unwrap_err(),
        recovery().take_part(&part).unwrap_err(),
    ]
}

#[test]
fn bytes_of_another_protocol_or_version_are_refused() {
    for refusal in refusals(|bytes| bytes[0] = 77) {
        let words = "they are of protocol 77, and this build knows 2 (primary)";
        assert!(refusal.contains(words), "{refusal}");
    }
    for refusal in refusals(|bytes| bytes[1] = PROTOCOL.records + 1) {
        let words = "they are of version 2 of primary, and this build reads version 1";
        assert!(refusal.contains(words), "{refusal}");
    }
}

#[test]
fn cut_bytes_and_bytes_that_are_left_over_are_refused() {
    for refusal in refusals(|bytes| bytes.truncate(1)) {
        assert!(refusal.contains("too short"), "{refusal}");
    }
    for refusal in refusals(|bytes| bytes.truncate(bytes.len() - 1)) {
        assert!(refusal.starts_with("no record: "), "{refusal}");
    }
    for refusal in refusals(|bytes| bytes.push(0)) {
        assert!(refusal.contains("bytes are left over"), "{refusal}");
    }
    for refusal in refusals(|bytes| bytes[2] = 99) {
        assert!(refusal.starts_with("no record: "), "{refusal}");
    }
}

#[test]
fn what_is_about_a_partition_of_another_worker_is_refused() {
    let config = Cluster::new(|_| {}).workers[0].config.clone();
    let mut recovery = Recovery::new(config, &Members::new(3));
    let words = Err(format!("partition {PARTITIONS} belongs to another worker"));
    let (mut record, mut part) = (Vec::new(), Vec::new());
    Record::Filled(PartitionId(PARTITIONS)).encode(&mut record);
    Part::Values(PartitionId(PARTITIONS), Vec::new()).encode(&mut part);
    assert_eq!(recovery.take_record(&record), words);
    assert_eq!(recovery.take_part(&part), words);
}

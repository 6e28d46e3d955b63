//! Reading a whole partition in the snapshot of an open transaction.

use std::sync::Arc;
use std::time::Duration;

use solera_data::{CellChange, Effect, Key, Op, Outcome, Value};
use solera_levels::Level;
use solera_machine::{Address, Machine, Now, PartitionId, RequestId, Topology};
use solera_time::{Monotonic, Physical, SiteId, Vector};
use solera_unistore::{
    Command, Config, Input, Message, Output, Pasts, Replica, Response, TxId, Write,
};

const PARTITION: PartitionId = PartitionId(0);

fn at(worker: u8) -> Address {
    Address { site: SiteId(0), worker }
}

fn now(ms: u64) -> Now {
    Now {
        monotonic: Monotonic(ms * 1_000_000),
        physical: Physical(1_800_000_000_000_000 + ms * 1000),
    }
}

fn replica(worker: u8, workers: u8, partitions: u16) -> Replica {
    let topology = Arc::new(Topology { partitions, workers: vec![workers] });
    let mut config = Config::new(at(worker), topology);
    config.timing.idle_transaction_timeout = Duration::from_secs(1);
    Replica::new(config, 1)
}

fn run(replica: &mut Replica, ms: u64, key: &str, op: Op) {
    let pasts = &mut Pasts::none(1);
    let level = Level::Causal;
    replica.execute_at_once(now(ms), pasts, level, key.as_bytes(), &op).unwrap().unwrap();
}

fn begin(replica: &mut Replica, ms: u64) -> TxId {
    let command = Command::Begin { past: Vector::zero(1), strong: false };
    replica.handle(now(ms), Input::Client { request: RequestId(1), command });
    loop {
        match replica.poll_output() {
            Some(Output::Reply { response: Response::Begun(tx), .. }) => return tx,
            Some(_) => {}
            None => panic!("no transaction was begun"),
        }
    }
}

/// Returns all keys of a snapshot, a few at a time.
fn scan(replica: &Replica, snapshot: &Vector) -> Vec<(String, Outcome)> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let keys = replica.keys_after(PARTITION, after.as_ref(), 3);
        for key in &keys {
            let content = replica.content(snapshot, Level::Causal, key);
            found.extend(content.map(|content| (key.to_string(), content)));
        }
        match keys.last() {
            Some(last) => after = Some(last.clone()),
            None => break,
        }
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    found
}

fn text(value: &str) -> Outcome {
    Outcome::Bulk(Value::from(value))
}

#[test]
fn a_scan_finds_the_keys_of_its_transactions_snapshot() {
    let mut replica = replica(0, 1, 1);
    for i in 0..10 {
        run(&mut replica, 1, &format!("k{i}"), Op::Set(Value::from("old")));
    }
    run(&mut replica, 1, "set", Op::SetAdd(vec![Value::from("a")]));
    run(&mut replica, 1, "hash", Op::HashSet(vec![(Value::from("f"), Value::from("1"))]));
    run(&mut replica, 1, "n", Op::IncrBy(7));
    let tx = begin(&mut replica, 2);
    let snapshot = replica.snapshot_of(now(2), tx).unwrap();
    let before = scan(&replica, &snapshot);
    assert_eq!(before.len(), 13);

    // Removes, changes and adds keys, with time for all of that to be folded.
    for i in 0..5 {
        run(&mut replica, 3, &format!("k{i}"), Op::Delete);
        run(&mut replica, 3, &format!("k{}", i + 5), Op::Set(Value::from("new")));
        run(&mut replica, 3, &format!("new{i}"), Op::Set(Value::from("new")));
    }
    run(&mut replica, 3, "set", Op::Delete);
    for ms in (10..900).step_by(10) {
        replica.on_deadline(now(ms));
        while replica.poll_output().is_some() {}
    }
    assert!(replica.covers(now(900), &snapshot));
    assert_eq!(scan(&replica, &snapshot), before);
    assert_eq!(before[0], ("hash".into(), Outcome::Pairs(vec![("f".into(), "1".into())])));
    assert_eq!(before[1], ("k0".into(), text("old")));
    assert_eq!(before[11], ("n".into(), text("7")));
    assert_eq!(before[12], ("set".into(), Outcome::Members(vec!["a".into()])));

    // A scanning client is not idle; another one is.
    assert_eq!(replica.snapshot_of(now(900), tx), Some(snapshot));
    replica.on_deadline(now(1500));
    assert_eq!(replica.snapshot_of(now(1500), tx), Some(snapshot));
    replica.on_deadline(now(4000));
    assert_eq!(replica.snapshot_of(now(4000), tx), None);
    replica.on_deadline(now(5000));
    let keys = replica.keys_after(PARTITION, None, 100);
    assert_eq!(keys.len(), 12 + 5 - 5, "removed keys are forgotten now");
}

#[test]
fn a_scan_waits_for_transactions_prepared_within_its_snapshot() {
    let mut replica = replica(1, 2, 2);
    let key = (0..)
        .map(|i| format!("k{i}"))
        .find(|key| PartitionId::of(key.as_bytes(), 2) == PartitionId(1));
    let key = Key::from(key.unwrap().as_str());
    let tx = TxId { coordinator: 0, sequence: 1 };
    let cell = CellChange { assign: Some(Value::from("x")), add: None };
    let writes = vec![Write { key: key.clone(), effect: Effect { cell, ..Effect::default() } }];
    let message = Message::Prepare { tx, snap_vec: Vector::zero(1), writes, eventual: Vec::new() };
    replica.handle(now(1), Input::Message { from: at(0), generation: 0, message });
    let ts = loop {
        let output = replica.poll_output().unwrap();
        if let Output::Send { message: Message::PrepareAck { ts, .. }, .. } = output {
            break ts;
        }
    };
    let before = Vector::zero(1).with(SiteId(0), solera_time::Timestamp(ts.0 - 1));
    let after = Vector::zero(1).with(SiteId(0), ts);
    assert!(replica.covers(now(2), &before));
    assert!(!replica.covers(now(2), &after), "it may be part of the snapshot");
    let message = Message::Commit { tx, ts };
    replica.handle(now(3), Input::Message { from: at(0), generation: 0, message });
    assert!(replica.covers(now(3), &after));
    assert_eq!(replica.content(&after, Level::Causal, &key), Some(text("x")));
    assert_eq!(replica.content(&before, Level::Causal, &key), None);
}

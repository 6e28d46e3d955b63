//! The size that a worker reports of its data.

use std::sync::Arc;

use solera_data::{Op, Value};
use solera_levels::Level;
use solera_machine::{Address, Machine, Now, Topology};
use solera_time::{Monotonic, Physical, SiteId};
use solera_unistore::{Config, Held, Pasts, Replica};

fn now(ms: u64) -> Now {
    Now {
        monotonic: Monotonic(ms * 1_000_000),
        physical: Physical(1_800_000_000_000_000 + ms * 1000),
    }
}

fn replica() -> Replica {
    let topology = Arc::new(Topology { partitions: 4, workers: vec![1] });
    Replica::new(Config::new(Address { site: SiteId(0), worker: 0 }, topology), 1)
}

fn run(replica: &mut Replica, ms: u64, key: &str, op: Op) {
    let pasts = &mut Pasts::none(1);
    let executed = replica.execute_at_once(now(ms), pasts, Level::Causal, key.as_bytes(), &op);
    executed.unwrap().unwrap();
}

/// Executes a tick at this time, which folds all updates that can be folded.
fn rest(replica: &mut Replica, ms: u64) {
    replica.on_deadline(now(ms));
    while replica.poll_output().is_some() {}
}

#[test]
fn the_largest_size_since_the_last_query_is_reported() {
    let mut replica = replica();
    let large = Value::from("x".repeat(10_000).as_str());
    for i in 0..10 {
        run(&mut replica, i, &format!("k{i}"), Op::Set(large.clone()));
    }
    let Held { now, most } = replica.take_held();
    assert!(now >= 100_000 && most >= now, "{now} {most}");
    run(&mut replica, 20, "k10", Op::Set(large.clone()));
    for i in 0..11 {
        run(&mut replica, 30, &format!("k{i}"), Op::Delete);
    }
    rest(&mut replica, 1000);
    let Held { now, most } = replica.take_held();
    assert_eq!(replica.status().keys(), 0);
    assert_eq!(now, 0);
    assert!(most >= 110_000, "{most}");
    // The query has reset the largest size.
    assert_eq!(replica.take_held(), Held::default());
}

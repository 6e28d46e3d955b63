//! Histories of sessions on real clusters with failures, judged by the rules of PC-PSI.

mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use solera_occult::ShardId;
use solera_occult_redis::{Error, slot_of};
use solera_resp::Value;
use tokio::task::JoinSet;
use world::sessions::{KEYS, Load};
use world::{Cluster, text};

fn begin(load: &Arc<Load>, seed: u64) -> JoinSet<()> {
    let mut sessions = JoinSet::new();
    for number in 0..8 {
        sessions.spawn(Arc::clone(load).run(seed * 100 + number));
    }
    sessions
}

async fn until(load: &Load, committed: usize) {
    let limit = tokio::time::Instant::now() + Duration::from_secs(30);
    while load.committed() < committed {
        assert!(tokio::time::Instant::now() < limit, "only {} commits", load.committed());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Moves a key's slot to another master, key by key, and returns how many keys it had.
fn move_slot(cluster: &Cluster, key: &str) -> usize {
    let from = cluster.master_of(key);
    let slot = slot_of(key.as_bytes()).0.to_string();
    let to = (0..cluster.nodes.len())
        .find(|node| *node != from && cluster.nodes[*node].role() == "master")
        .unwrap();
    let (from, to) = (&cluster.nodes[from], &cluster.nodes[to]);
    let id = |node: &world::Server| text(&node.raw(&["CLUSTER", "MYID"]));
    let (source, target) = (id(from), id(to));
    to.raw(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source]);
    from.raw(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target]);
    let port = to.port.to_string();
    let mut moved = 0;
    loop {
        let Value::Array(keys) = from.raw(&["CLUSTER", "GETKEYSINSLOT", &slot, "1"]) else {
            panic!()
        };
        let Some(key) = keys.first().map(text) else { break };
        let reply = from.raw(&["MIGRATE", "127.0.0.1", &port, &key, "0", "5000"]);
        assert!(matches!(&reply, Value::Simple(_)), "{reply:?}");
        moved += 1;
        std::thread::sleep(Duration::from_millis(3));
    }
    for node in [to, from] {
        node.raw(&["CLUSTER", "SETSLOT", &slot, "NODE", &target]);
    }
    moved
}

/// Stops and continues all replicas again and again, so that they are behind.
fn hold_replicas_back(cluster: &Cluster, until: &AtomicBool) {
    let replicas: Vec<_> = cluster.nodes.iter().filter(|node| node.role() == "slave").collect();
    while !until.load(Ordering::Relaxed) {
        replicas.iter().for_each(|node| node.freeze());
        std::thread::sleep(Duration::from_millis(40));
        replicas.iter().for_each(|node| node.thaw());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_satisfy_pcpsi_while_slots_move_and_replicas_and_clients_stop() {
    let cluster = Arc::new(Cluster::start());
    let load = Load::new(&cluster).await;
    let mut sessions = begin(&load, 1);
    until(&load, 200).await;
    let moving = Arc::clone(&cluster);
    let moved = tokio::task::spawn_blocking(move || {
        ["k0", "k1", "k0", "k2"].map(|key| move_slot(&moving, key))
    });
    assert!(moved.await.unwrap().iter().all(|keys| *keys >= 3), "value, timestamp, records");
    let now = load.committed();
    let replica = cluster.replica_of(cluster.master_of("k3"));
    cluster.nodes[replica].freeze();
    until(&load, now + 200).await;
    cluster.nodes[replica].thaw();
    let (holding, ended) = (Arc::clone(&cluster), Arc::new(AtomicBool::new(false)));
    let end = Arc::clone(&ended);
    let holding = tokio::task::spawn_blocking(move || hold_replicas_back(&holding, &end));
    until(&load, now + 600).await;
    ended.store(true, Ordering::Relaxed);
    holding.await.unwrap();
    load.stop();
    while sessions.join_next().await.transpose().unwrap().is_some() {}
    let found = load.judge().await;
    println!("{} commits, {:?}", found.committed, found.counters);
    assert!(found.counters.stale > 0, "no replica was behind");
    let says_lost = found.errors.iter().find(|error| matches!(error, Error::Lost { .. }));
    assert_eq!(says_lost, None, "no master has failed");
    assert!(found.lost.is_empty(), "{:?} of {}", found.lost, found.committed);
    assert!(found.violations.is_empty(), "{:#?}", found.violations);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_depend_on_writes_lost_with_a_master_get_lost() {
    let mut cluster = Cluster::start();
    let load = Load::new(&cluster).await;
    let mut sessions = begin(&load, 2);
    until(&load, 200).await;
    let master = cluster.master_of("k0");
    let replica = cluster.replica_of(master);
    let of_master: Vec<ShardId> = (0..KEYS)
        .map(|key| format!("k{key}"))
        .filter(|key| cluster.master_of(key) == master)
        .map(|key| slot_of(key.as_bytes()))
        .collect();
    cluster.nodes[replica].freeze();
    // The replica must not find the last writes in its socket.
    cluster.nodes[master].raw(&["CLIENT", "KILL", "TYPE", "replica"]);
    let now = load.committed();
    until(&load, now + 150).await;
    cluster.nodes[master].kill();
    cluster.nodes[replica].thaw();
    tokio::task::block_in_place(|| {
        world::wait("the replica is not promoted", || cluster.nodes[replica].role() == "master");
    });
    let now = load.committed();
    until(&load, now + 300).await;
    load.stop();
    while sessions.join_next().await.transpose().unwrap().is_some() {}
    let found = load.judge().await;
    let lost = found.errors.iter().filter_map(|error| match error {
        Error::Lost { slot, .. } => Some(slot),
        _ => None,
    });
    assert!(lost.clone().all(|slot| of_master.contains(slot)), "{:?}", found.errors);
    let lost = lost.count();
    println!("{} commits, {} lost, {lost} LOST", found.committed, found.lost.len());
    assert!(!found.lost.is_empty(), "the master had answered writes that the replica had not");
    assert!(lost > 0, "{:?}", found.errors);
    assert!(found.silent.is_empty(), "{:#?}", found.silent);
    assert!(found.violations.is_empty(), "{:#?}", found.violations);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_comes_back_after_its_successor_began_misleads_nobody() {
    let cluster = Cluster::start();
    let load = Load::new(&cluster).await;
    let mut sessions = begin(&load, 3);
    until(&load, 150).await;
    let master = cluster.master_of("k0");
    let replica = cluster.replica_of(master);
    for (stopped, successor) in [(master, replica), (replica, master)] {
        cluster.nodes[stopped].freeze();
        let promoted = || cluster.nodes[successor].role() == "master";
        tokio::task::block_in_place(|| world::wait("nothing is promoted", promoted));
        let now = load.committed();
        until(&load, now + 50).await;
        // It answers what has waited in its sockets before it learns of its successor.
        cluster.nodes[stopped].thaw();
        until(&load, now + 150).await;
        let follows = || {
            let info = text(&cluster.nodes[stopped].raw(&["INFO", "replication"]));
            info.contains("role:slave") && info.contains("master_link_status:up")
        };
        tokio::task::block_in_place(|| world::wait("it does not follow", follows));
    }
    load.stop();
    while sessions.join_next().await.transpose().unwrap().is_some() {}
    let found = load.judge().await;
    println!("{} commits, {:?}, {:?}", found.committed, found.lost, found.counters);
    assert!(found.silent.is_empty(), "{:#?}", found.silent);
    assert!(found.violations.is_empty(), "{:#?}", found.violations);
}

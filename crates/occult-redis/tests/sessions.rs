//! Histories of sessions on real clusters with failures, judged by the rules of PC-PSI.

mod world;

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use solera_occult::ShardId;
use solera_occult_redis::{Error, Layout, Options, slot_of};
use solera_resp::Value;
use tokio::task::JoinSet;
use world::sessions::{KEYS, Load};
use world::{Cluster, bulk, call, text};

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
        let late = tokio::time::Instant::now() >= limit;
        assert!(!late, "only {} commits: {:?}", load.committed(), load.errors());
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

/// Stops and continues all replicas repeatedly, so that they are behind.
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
    let load = Load::new(&cluster, Layout::Plain).await;
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

/// Moves slots from a key's master to another one, up to the key's slot, as an operator does.
fn reshard(cluster: &Cluster, key: &str) {
    let from = cluster.master_of(key);
    let to = (0..cluster.nodes.len())
        .find(|node| *node != from && cluster.nodes[*node].role() == "master")
        .unwrap();
    let id = |node: usize| text(&cluster.nodes[node].raw(&["CLUSTER", "MYID"]));
    let Value::Array(ranges) = cluster.nodes[from].raw(&["CLUSTER", "SLOTS"]) else { panic!() };
    let slot = i64::from(slot_of(key.as_bytes()).0);
    let first = ranges.iter().find_map(|range| match range {
        Value::Array(parts) => match parts[..2] {
            [Value::Integer(first), Value::Integer(last)] if (first..=last).contains(&slot) => {
                Some(first)
            }
            _ => None,
        },
        _ => None,
    });
    let count = (slot - first.unwrap() + 1).to_string();
    let moved = Command::new("redis-cli")
        .args(["--cluster", "reshard", &cluster.nodes[from].address()])
        .args(["--cluster-from", &id(from), "--cluster-to", &id(to)])
        .args(["--cluster-slots", &count, "--cluster-yes"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(moved.status.success(), "{}", String::from_utf8_lossy(&moved.stdout));
    assert_ne!(cluster.master_of(key), from);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_satisfy_pcpsi_while_a_cluster_is_resharded_and_gateways_die() {
    let layout = Layout::Envelope;
    let cluster = Arc::new(Cluster::start());
    let load = Load::new(&cluster, layout).await;
    let mut sessions = begin(&load, 4);
    until(&load, 200).await;
    let resharded = Arc::clone(&cluster);
    // Its slot is among the first ones of its master.
    let resharding = tokio::task::spawn_blocking(move || reshard(&resharded, "k6"));
    for _ in 0..3 {
        load.die_prepared(&cluster, ["k0", "k1"], layout).await;
    }
    resharding.await.unwrap();
    let now = load.committed();
    until(&load, now + 200).await;
    load.stop();
    while sessions.join_next().await.transpose().unwrap().is_some() {}
    let found = load.judge().await;
    println!("{} commits, {:?}", found.committed, found.counters);
    let says_lost = found.errors.iter().find(|error| matches!(error, Error::Lost { .. }));
    assert_eq!(says_lost, None, "no master has failed");
    assert!(found.lost.is_empty(), "{:?} of {}", found.lost, found.committed);
    assert!(found.violations.is_empty(), "{:#?}", found.violations);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_depend_on_writes_lost_with_a_master_get_lost() {
    let mut cluster = Cluster::start();
    let load = Load::new(&cluster, Layout::Plain).await;
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
async fn no_transaction_sees_a_part_of_one_that_a_failed_master_has_lost_in_part() {
    let mut cluster = Cluster::start();
    let gateway = cluster.gateway(Options::default()).await;
    let (master, replica) = (cluster.master_of("a"), cluster.replica_of(cluster.master_of("a")));
    assert_ne!(master, cluster.master_of("b"));
    cluster.nodes[replica].freeze();
    cluster.nodes[master].raw(&["CLIENT", "KILL", "TYPE", "replica"]);
    let mut writer = gateway.session();
    writer.update_all(vec![call("SET a 1"), call("SET b 1")]).await.unwrap();
    cluster.nodes[master].kill();
    cluster.nodes[replica].thaw();
    tokio::task::block_in_place(|| {
        world::wait("the replica is not promoted", || cluster.nodes[replica].role() == "master");
    });

    let reads = ["GET a", "GET b"].map(call);
    let mut session = gateway.session();
    assert_eq!(
        session.read(&reads[0]).await,
        Ok(Value::Null),
        "a fresh session depends on nothing"
    );
    for pair in [[0, 1], [1, 0]] {
        let pair = pair.map(|at| reads[at].clone());
        let error = gateway.session().read_all(&pair).await.unwrap_err();
        assert!(matches!(error, Error::Lost { .. }), "{pair:?}: {error}");
    }
    let both = vec![call("APPEND a x"), call("APPEND b x")];
    let error = gateway.session().update_all(both).await.unwrap_err();
    assert!(matches!(error, Error::Lost { .. }), "it overwrites both: {error}");
    let mut session = gateway.session();
    let mut open = session.begin().await.unwrap();
    assert_eq!(session.read_open(&mut open, &reads[0]).await, Ok(Value::Null));
    let error = session.read_open(&mut open, &reads[1]).await.unwrap_err();
    assert!(matches!(error, Error::Lost { .. }), "{error}");
    // It does not read the values that it overwrites.
    gateway.session().update_all(vec![call("SET a 2"), call("SET b 2")]).await.unwrap();
    let both = gateway.session().read_all(&reads[..2]).await;
    assert_eq!(both, Ok(vec![bulk("2"), bulk("2")]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_comes_back_after_its_successor_began_misleads_nobody() {
    let cluster = Cluster::start();
    let load = Load::new(&cluster, Layout::Plain).await;
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

//! Sessions on a real cluster without failures.

mod world;

use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use solera_occult_redis::{Error, Gateway, Options, Policy, record_key, slot_of};
use solera_resp::Value;
use world::{Cluster, bulk, call};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_read_and_write_at_a_real_cluster() {
    let cluster = Cluster::start();
    let gateway = cluster.gateway(Options::default()).await;
    let mut session = gateway.session();
    assert_eq!(session.read(&call("GET a")).await, Ok(Value::Null));
    assert_eq!(session.update(call("SET a 1")).await, Ok(Value::Simple("OK".to_owned())));
    assert_eq!(session.read(&call("GET a")).await, Ok(bulk("1")));
    assert_eq!(session.update(call("INCRBY a 5")).await, Ok(Value::Integer(6)));
    for key in 0..50 {
        session.update(call(&format!("SET k{key} {key}"))).await.unwrap();
        assert_eq!(session.read(&call(&format!("GET k{key}"))).await, Ok(bulk(&key.to_string())));
    }
    assert_eq!(session.read(&call("GET a")).await, Ok(bulk("6")));
    assert_eq!(session.update(call("HSET h x 1 y 2")).await, Ok(Value::Integer(2)));
    let Ok(Value::Error(error)) = session.read(&call("GET h")).await else { panic!() };
    assert!(error.starts_with("WRONGTYPE"), "{error}");
    let all = session.update_all(vec![call("SET a 7"), call("SET k1 8"), call("INCR k2")]).await;
    let ok = || Value::Simple("OK".to_owned());
    assert_eq!(all, Ok(vec![ok(), ok(), Value::Integer(3)]));
    let calls = [call("GET a"), call("GET k1"), call("GET k2")];
    assert_eq!(session.read_all(&calls).await, Ok(vec![bulk("7"), bulk("8"), bulk("3")]));
    assert_eq!(session.update(call("DEL a")).await, Ok(Value::Integer(1)));
    assert_eq!(session.read(&call("GET a")).await, Ok(Value::Null));

    let mut other = gateway.session();
    let mut open = other.begin().await.unwrap();
    assert_eq!(other.read_open(&mut open, &call("GET k1")).await, Ok(bulk("8")));
    session.update(call("SET k1 9")).await.unwrap();
    open.write(b"k1", Some(b"10".to_vec()));
    open.write(b"k3", None);
    let error = other.commit_open(open).await.unwrap_err();
    assert!(matches!(error, Error::Aborted(_)), "{error}");
    assert_eq!(other.read(&call("GET k3")).await, Ok(bulk("3")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_reads_two_states_aborts() {
    let cluster = Cluster::start();
    let gateway = cluster.gateway(Options::default()).await;
    let (mut one, mut two) = (gateway.session(), gateway.session());
    two.update_all(vec![call("SET x 1"), call("SET y 1")]).await.unwrap();
    let mut open = one.begin().await.unwrap();
    assert_eq!(one.read_open(&mut open, &call("GET x")).await, Ok(bulk("1")));
    two.update_all(vec![call("SET x 2"), call("SET y 2")]).await.unwrap();
    assert_eq!(two.read(&call("GET y")).await, Ok(bulk("2")));
    one.attach(&two.token()).unwrap();
    assert_eq!(one.read(&call("GET y")).await, Ok(bulk("2")), "it is there, and replicated soon");
    world::wait("the replica does not follow", || {
        let replica = cluster.replica_of(cluster.master_of("y"));
        cluster.nodes[replica].raw(&["GET", "y"]) == bulk("2")
    });
    assert_eq!(one.read_open(&mut open, &call("GET y")).await, Ok(bulk("2")));
    let error = one.commit_open(open).await.unwrap_err().to_string();
    assert!(error.contains("too old a copy of slot 16287 of key `x`"), "{error}");
}

/// Starts a gateway that reads at the replica of a key's slot. Returns the replica, too.
async fn beside_a_replica(cluster: &Cluster, key: &str) -> (usize, Arc<Gateway>) {
    let replica = cluster.replica_of(cluster.master_of(key));
    cluster.wait_until_listed(replica);
    let near = vec![cluster.nodes[replica].address()];
    (replica, cluster.gateway(Options { near, ..Options::default() }).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_replica_is_treated_by_the_policy() {
    let cluster = Cluster::start();
    let master = cluster.master_of("x");
    let writer = cluster.gateway(Options::default()).await;
    writer.session().update(call("SET x 1")).await.unwrap();
    world::wait("the replica does not follow", || {
        cluster.nodes[cluster.replica_of(master)].raw(&["GET", "x"]) == bulk("1")
    });
    let (replica, gateway) = beside_a_replica(&cluster, "x").await;
    let mut writer = gateway.session();
    // The replica serves, and cannot follow its master any more.
    let master = &cluster.nodes[master];
    master.raw(&["ACL", "SETUSER", "default", "-psync", "-sync"]);
    master.raw(&["CLIENT", "KILL", "TYPE", "replica"]);
    writer.update(call("SET x 2")).await.unwrap();
    writer.update(call("SET y seen")).await.unwrap();

    let mut reader = gateway.session();
    assert_eq!(reader.read(&call("GET x")).await, Ok(bulk("1")), "it depends on nothing yet");
    assert_eq!(reader.read(&call("GET y")).await, Ok(bulk("seen")));
    reader.set_policy(Policy::Fail);
    let error = reader.read(&call("GET x")).await.unwrap_err();
    assert!(
        matches!(&error, Error::Stale { node, .. } if *node == cluster.nodes[replica].address())
    );
    reader.set_policy(Policy::Accept);
    assert_eq!(reader.read(&call("GET x")).await, Ok(bulk("1")));
    reader.set_policy(Policy::Home);
    assert_eq!(reader.read(&call("GET x")).await, Ok(bulk("2")));
    assert_eq!(reader.read(&call("STRLEN x")).await, Ok(Value::Integer(1)));
    let counters = reader.counters();
    assert_eq!((counters.accepted, counters.stale >= 8), (1, true), "{counters:?}");
    let all = reader.read_all(&[call("GET y"), call("GET x")]).await;
    assert_eq!(all, Ok(vec![bulk("seen"), bulk("2")]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_without_writes_is_read_at_its_master_at_once() {
    let cluster = Cluster::start();
    let (replica, gateway) = beside_a_replica(&cluster, "quiet").await;
    let mut session = gateway.session();
    session.update(call("SET quiet 1")).await.unwrap();
    world::wait("the replica does not follow", || {
        cluster.nodes[replica].raw(&["GET", "quiet"]) == bulk("1")
    });
    // Writes to more slots than the timestamp has entries, for longer than a copy may be behind.
    let began = Instant::now();
    for number in 0.. {
        session.update(call(&format!("SET busy:{number} 1"))).await.unwrap();
        if number > 20 && began.elapsed() > Duration::from_millis(300) {
            break;
        }
    }
    // The record names no clock, as after a write of a gateway that advanced none.
    let record = String::from_utf8(record_key(slot_of(b"quiet"))).unwrap();
    let unnamed = "local s = redis.call('GET', KEYS[1]) \
        redis.call('SET', KEYS[1], (s:gsub(' @%d+:%d+:%d+', '')))";
    let master = &cluster.nodes[cluster.master_of("quiet")];
    master.raw(&["EVAL", unnamed, "1", &record]);
    world::wait("the replica does not follow", || {
        !world::text(&cluster.nodes[replica].raw(&["GET", &record])).contains('@')
    });
    assert_eq!(session.read(&call("GET quiet")).await, Ok(bulk("1")));
    let counters = session.counters();
    assert_eq!((counters.stale, counters.home, counters.replica), (1, 1, 0), "{counters:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clock_of_its_master_shows_that_a_quiet_slot_is_recent() {
    let cluster = Cluster::start();
    let (_, gateway) = beside_a_replica(&cluster, "quiet").await;
    let mut session = gateway.session();
    session.update(call("SET quiet 1")).await.unwrap();
    session.update(call("RPUSH {quiet}:list 1")).await.unwrap();
    let calls = [(call("GET quiet"), bulk("1")), (call("LLEN {quiet}:list"), Value::Integer(1))];
    for (read, value) in calls {
        let mut attempts = 0;
        loop {
            // The session then depends on writes that are newer than all writes of the slot.
            let mut session = gateway.session();
            for number in 0..20 {
                session.update(call(&format!("SET busy:{number} 1"))).await.unwrap();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert_eq!(session.read(&read).await.as_ref(), Ok(&value));
            if session.counters().replica == 1 {
                break;
            }
            attempts += 1;
            assert!(attempts < 200, "the replica never shows enough: {read:?}");
        }
    }
}

#[test]
fn with_redis_cluster_runs_a_command_beside_a_cluster() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/with-redis-cluster");
    let command = "echo $SOLERA_TEST_REDIS_CLUSTER; echo \"$SOLERA_TEST_REDIS_CLUSTER_NODES\"; \
        redis-cli -p ${SOLERA_TEST_REDIS_CLUSTER##*:} cluster info; exit 7";
    let ran = Command::new(script).args(["bash", "-c", command]).output().unwrap();
    let text = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(ran.status.code(), Some(7), "{text}{}", String::from_utf8_lossy(&ran.stderr));
    assert!(text.starts_with("redis-cluster://127.0.0.1:"), "{text}");
    assert!(text.contains("cluster_state:ok") && text.contains("cluster_known_nodes:6"), "{text}");
    let nodes = text.lines().filter_map(|line| line.split_once(' '));
    let ports: Vec<u16> = nodes.filter_map(|(port, _)| port.parse().ok()).collect();
    assert_eq!(ports.len(), 6, "{text}");
    for port in ports {
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "{port} is still served");
    }
}

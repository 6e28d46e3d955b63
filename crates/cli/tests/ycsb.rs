//! Tests `solera bench ycsb` on a cluster of Solera, a Redis server and a Redis Cluster.

mod common;

use std::process::{Command, Output, Stdio};

use common::{Folder, Process, SOLERA, Up, free_ports, solera, text, wait_until};
use serde_json::Value;

/// Options of a short run.
const SHORT: [&str; 12] = [
    "--ramp-up",
    "0",
    "--warm-up",
    "0",
    "--seconds",
    "1",
    "--keys",
    "200",
    "--value-bytes",
    "100",
    "--clients",
    "4",
];

fn ycsb(arguments: &[&str]) -> Output {
    solera(&[&["bench", "ycsb"], arguments, &SHORT].concat())
}

/// Runs without failures, and returns the report.
fn measured(arguments: &[&str]) -> Value {
    let output = ycsb(&[arguments, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["errors"], serde_json::json!({}), "{report}");
    assert!(report["goodput"].as_f64() > Some(0.0), "{report}");
    report
}

#[tokio::test]
async fn a_cluster_of_solera_is_measured_at_all_sites_and_in_transactions() {
    let folder = Folder::new();
    let spaces = "[[space]]\nname = \"carts\"\nprefix = \"cart:\"\nlevel = \"causal\"\n\
                  [[space]]\nname = \"stock\"\nprefix = \"stock:\"\nlevel = \"pcpsi\"\n";
    let config = folder.file("solera.toml", spaces);
    let up = Up::start(&["--sites", "2", "--config", config.to_str().unwrap()]);
    let at = format!("{},{}", up.at(1), up.at(2));
    let report = measured(&["--at", &at, "--space", "carts", "--reads", "50"]);
    for rows in [&report["kinds"], &report["sites"]] {
        let rows = rows.as_array().unwrap();
        assert!(rows.len() == 2 && rows.iter().all(|row| row["count"].as_u64() > Some(0)));
    }
    // All keys were loaded, into the space.
    let mut client = up.client(2).await;
    let keys = client.command(&["DBSIZE"]).await.unwrap();
    assert_eq!(keys, solera::Value::Integer(200));
    // This is YCSB's first key.
    let value = client.get("cart:user6284781860667377211").await.unwrap();
    assert_eq!(value.map(|value| value.len()), Some(100));
    for sending in ["interactive", "multi"] {
        let options = ["--space", "carts", "--no-load", "--ops-per-transaction", "6"];
        let report = measured(&[&["--at", &at, "--transactions", sending], &options[..]].concat());
        let (count, goodput) = (&report["total"]["count"], &report["goodput"]);
        assert_eq!(goodput.as_f64(), count.as_u64().map(|count| count as f64 * 6.0));
    }
    assert_eq!(client.command(&["DBSIZE"]).await.unwrap(), keys);
    // Another command begins transactions over these keys.
    let options = ["--space", "stock", "--no-load", "--ops-per-transaction", "2"];
    measured(&[&["--at", &at], &options[..]].concat());
}

/// A server of Redis, killed at the end of the test.
struct Redis {
    _folder: Folder,
    _process: Process,
    port: u16,
}

impl Redis {
    fn start(arguments: &[&str]) -> Redis {
        let (folder, port) = (Folder::new(), free_ports(&["127.0.0.1"]));
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", "", "--port", &port.to_string()]);
        command.arg("--dir").arg(folder.at("")).args(arguments).stdout(Stdio::null());
        assert!(
            Command::new("redis-server").arg("--version").stdout(Stdio::null()).status().is_ok(),
            "this test needs redis-server: ./test install"
        );
        let redis = Redis { _process: Process::start(&mut command), _folder: folder, port };
        wait_until("redis-server answers", || redis.try_ask("PING").contains("PONG"));
        redis
    }

    fn start_of_cluster() -> Redis {
        let bus = free_ports(&["127.0.0.1"]).to_string();
        Redis::start(&["--cluster-enabled", "yes", "--cluster-port", &bus])
    }

    fn try_ask(&self, command: &str) -> String {
        let words = command.split(' ');
        let port = self.port.to_string();
        let output = Command::new("redis-cli").args(["-p", &port]).args(words).output().unwrap();
        text(&output.stdout)
    }

    /// Returns the number of calls of a command.
    fn calls(&self, command: &str) -> u64 {
        let stats = self.try_ask("INFO commandstats");
        let prefix = format!("cmdstat_{command}:calls=");
        let line = stats.lines().find_map(|line| line.strip_prefix(&prefix));
        line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
    }

    fn at(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

#[test]
fn a_server_of_redis_is_measured_in_transactions_too() {
    let redis = Redis::start(&[]);
    let url = format!("redis://{}", redis.at());
    let report = measured(&["--redis", &url, "--distribution", "uniform"]);
    assert_eq!(redis.try_ask("DBSIZE").trim(), "200");
    assert!(redis.calls("get") >= report["kinds"][0]["count"].as_u64().unwrap());
    let options = ["--no-load", "--ops-per-transaction", "3", "--transactions", "multi"];
    let report = measured(&[&["--redis", &url], &options[..]].concat());
    assert!(redis.calls("exec") >= report["total"]["count"].as_u64().unwrap());
    // Redis has no interactive transactions.
    let output = ycsb(&["--redis", &url, "--no-load", "--ops-per-transaction", "3"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("ERR, the first: ERR unknown command 'SOLERA.BEGIN'"));
}

#[test]
fn a_redis_cluster_is_read_at_near_replicas() {
    let (master, replica) = (Redis::start_of_cluster(), Redis::start_of_cluster());
    let bus =
        |redis: &Redis| redis.try_ask("CONFIG GET cluster-port").lines().nth(1).map(str::to_owned);
    master.try_ask("CLUSTER ADDSLOTSRANGE 0 16383");
    let meet = format!("CLUSTER MEET 127.0.0.1 {} {}", master.port, bus(&master).unwrap());
    replica.try_ask(&meet);
    let id = master.try_ask("CLUSTER MYID");
    let follow = format!("CLUSTER REPLICATE {}", id.trim());
    wait_until("the nodes have met", || replica.try_ask(&follow).contains("OK"));
    wait_until("the replica is up to date", || {
        replica.try_ask("INFO replication").contains("master_link_status:up")
            && master.try_ask("CLUSTER SLOTS").contains(&replica.port.to_string())
            && replica.try_ask("CLUSTER INFO").contains("cluster_state:ok")
    });
    let url = format!("redis-cluster://{}", master.at());
    let calls = || (master.calls("get"), replica.calls("get"));
    let report = measured(&["--redis-cluster", &url]);
    let of_master = report["kinds"][0]["count"].as_u64().unwrap();
    let (at_master, at_replica) = calls();
    assert!(at_master >= of_master && at_replica == 0, "{at_master} {at_replica}");
    let report = measured(&["--redis-cluster", &url, "--near", &replica.at()]);
    let reads = report["kinds"][0]["count"].as_u64().unwrap();
    assert_eq!(calls().0, at_master, "the master answers no read");
    assert!(calls().1 >= reads && replica.calls("set") >= 200);
    measured(&["--redis-cluster", &url, "--near", &format!("{},{}", master.at(), replica.at())]);
    assert!(calls().0 > at_master, "the master is nearer");

    let output = ycsb(&["--redis-cluster", &url, "--ops-per-transaction", "2"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("a Redis Cluster runs no transactions over several"));
}

#[test]
fn invalid_options_are_reported() {
    for (arguments, code, reason) in [
        (vec![], 2, "choose a server: --at HOST:PORT,…, --up SITES, --redis URL or"),
        (vec!["--up", "1", "--reads", "101"], 2, "reads: 101% is more than 100%"),
        (vec!["--up", "1", "--ops-per-transaction", "0"], 2, "at least 1 operation"),
        (vec!["--up", "1", "--distribution", "normal"], 2, "are 'zipfian' and 'uniform'"),
        (vec!["--up", "1", "--redis", "redis://h"], 2, "cannot be used with"),
        (vec!["--up", "1", "--near", "h:1"], 2, "cannot be used with"),
        (vec!["--redis", "redis://h", "--near", "h:1"], 2, "cannot be used with"),
        (vec!["--redis", "redis-cluster://h"], 2, "--redis needs a URL of redis://"),
        (vec!["--redis-cluster", "redis://h"], 2, "needs a URL of redis-cluster://"),
        (vec!["--redis", "127.0.0.1:1"], 2, "the URL of a Redis server looks like redis://"),
        (vec!["--redis", "redis://127.0.0.1:1"], 1, "127.0.0.1:1: Connection refused"),
        (vec!["--at", "127.0.0.1:1"], 1, "127.0.0.1:1: the connection failed"),
    ] {
        let output = ycsb(&arguments);
        let error = text(&output.stderr);
        assert!(output.status.code() == Some(code) && error.contains(reason), "{error}");
    }
    let up = Up::start(&["--sites", "1"]);
    let output = ycsb(&["--at", &up.at(1), "--space", "carts"]);
    assert_eq!(output.status.code(), Some(2));
    let error = text(&output.stderr);
    assert!(error.contains("there is no space 'carts'; the spaces are"), "{error}");
    // The other workloads have options of their own.
    let output = Command::new(SOLERA).args(["bench", "--scale", "tiny", "ycsb"]).output().unwrap();
    assert!(text(&output.stderr).contains("cannot be used with"), "{}", text(&output.stderr));
}

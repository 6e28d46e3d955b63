//! Tests `solera serve`: nodes in separate processes, which are killed with SIGKILL.

mod common;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use common::load::{Recording, judge};
use common::{Folder, Node, SOLERA, eventually, free_ports};
use solera::{Client, Error, Value};
use solera_random::Random;

const SITES: [&str; 2] = ["eu", "us"];
const NODES: usize = 2;

/// Configuration of a cluster on its own ports.
struct Plan {
    /// The first of its ports, on 127.0.0.1 for site eu and 127.0.0.2 for us.
    port: u16,
    file: PathBuf,
    /// Directory of the nodes' data; `None` in memory.
    data: Option<PathBuf>,
    folder: Folder,
}

impl Plan {
    /// Creates a plan whose configuration begins with `head`. Tests run at the same time, so each
    /// uses its own ports.
    fn new(head: &str) -> Plan {
        let port = free_ports(&["127.0.0.1", "127.0.0.2"]);
        let folder = Folder::new();
        let file = folder.at("solera.toml");
        let plan = Plan { port, file, data: None, folder };
        plan.write(head, SITES);
        plan
    }

    fn write(&self, head: &str, sites: [&str; 2]) {
        let mut text = format!("{head}\n");
        for (site, name) in sites.iter().enumerate() {
            text += &format!("[[site]]\nname = '{name}'\n");
            for node in 0..NODES {
                text += &format!(
                    "[[site.node]]\nresp = '{}'\npeer = '{}'\nadmin = '{}'\nworkers = {}\n",
                    self.at(site, node, 0),
                    self.at(site, node, 1),
                    self.at(site, node, 2),
                    node + 1
                );
            }
        }
        std::fs::write(&self.file, text).unwrap();
    }

    fn at(&self, site: usize, node: usize, purpose: u16) -> SocketAddr {
        let port = self.port + node as u16 * 3 + purpose;
        SocketAddr::from(([127, 0, 0, site as u8 + 1], port))
    }

    fn start(&self, site: usize, node: usize) -> Node {
        self.start_as(SITES[site], site, node)
    }

    fn start_as(&self, name: &str, site: usize, node: usize) -> Node {
        self.started(self.command(name, node), site, node)
    }

    fn started(&self, mut command: Command, site: usize, node: usize) -> Node {
        Node::start(&mut command, self.at(site, node, 0), self.at(site, node, 2))
    }

    /// Starts a node of a site that joins in this generation.
    fn start_joining(&self, site: usize, node: usize, generation: u32) -> Node {
        let mut command = self.command(SITES[site], node);
        command.args(["--join", &generation.to_string()]);
        self.started(command, site, node)
    }

    /// Returns the data directory of a node.
    fn data_of(&self, site: usize, node: usize) -> PathBuf {
        self.data.as_ref().unwrap().join(format!("{}-{node}", SITES[site]))
    }

    /// Runs `solera site` against a node of the first site.
    fn site(&self, arguments: &[&str]) -> Output {
        let at = self.at(0, 1, 0).to_string();
        Command::new(SOLERA)
            .arg("site")
            .args(arguments)
            .args(["--at", &at, "--json"])
            .output()
            .unwrap()
    }

    fn command(&self, site: &str, node: usize) -> Command {
        let mut command = Command::new(SOLERA);
        command.args(["serve", "--site", site, "--node", &(node + 1).to_string(), "--config"]);
        command.arg(&self.file);
        if let Some(data) = &self.data {
            command.arg("--data").arg(data.join(format!("{site}-{node}")));
        }
        command
    }
}

/// Starts two sites of two nodes each, and waits until they are connected; `nodes[site][node]`.
async fn cluster(plan: &Plan) -> Vec<Vec<Node>> {
    let nodes: Vec<Vec<Node>> = (0..SITES.len())
        .map(|site| (0..NODES).map(|node| plan.start(site, node)).collect())
        .collect();
    for node in nodes.iter().flatten() {
        eventually(node, async || node.reaches_all()).await;
    }
    nodes
}

fn keys() -> Vec<String> {
    (0..24).map(|i| format!("k{i}")).collect()
}

async fn mget(client: &mut Client, keys: &[String]) -> Result<Vec<Value>, Error> {
    let mut command = vec!["MGET".to_owned()];
    command.extend(keys.iter().cloned());
    match client.command(&command).await? {
        Value::Array(values) => Ok(values),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn every_gateway_serves_every_key_and_sites_replicate_writes() {
    let plan = Plan::new("");
    let nodes = cluster(&plan).await;
    let (mut first, mut second) = (nodes[0][0].client().await, nodes[0][1].client().await);
    for (i, key) in keys().iter().enumerate() {
        let writer = if i % 2 == 0 { &mut first } else { &mut second };
        writer.set(key, key).await.unwrap();
    }
    for client in [&mut first, &mut second] {
        for key in keys() {
            assert_eq!(client.get(&key).await.unwrap().as_ref(), Some(&key));
        }
        assert_eq!(client.command(&["DBSIZE"]).await.unwrap(), Value::Integer(24));
    }
    for node in &nodes[1] {
        let mut client = node.client().await;
        for key in keys() {
            eventually(node, async || client.get(&key).await.unwrap().as_ref() == Some(&key)).await;
        }
    }
    // A token carries a session's past to another site.
    first.incr_by("n", 5).await.unwrap();
    let token = first.token().await.unwrap();
    let mut elsewhere = nodes[1][1].client().await;
    elsewhere.attach(&token).await.unwrap();
    assert_eq!(elsewhere.get("n").await.unwrap().as_deref(), Some("5"));

    let status = nodes[0][1].status();
    assert_eq!((&status["node"], &status["own_site"]["keys"]), (&2.into(), &25.into()), "{status}");
    assert_eq!(status["missing_nodes"].as_array().unwrap().len(), 0, "{status}");
    let (code, metrics) = nodes[0][1].http("/metrics").unwrap();
    assert_eq!(code, 200);
    assert!(metrics.contains("solera_link_up{to_site=\"us\",to_node=\"2\"} 1"), "{metrics}");
    assert_eq!(nodes[0][0].http("/health").unwrap().0, 200);
    assert_eq!(nodes[0][0].http("/faults").unwrap().0, 404);
}

#[tokio::test]
async fn transactions_are_atomic_over_nodes() {
    let plan = Plan::new("");
    let nodes = cluster(&plan).await;
    let mut writer = nodes[0][0].client().await;
    let mut readers = Vec::new();
    for node in [&nodes[0][1], &nodes[1][0], &nodes[1][1]] {
        readers.push((node, node.client().await));
    }
    for round in 1..=20 {
        let value = Value::Bulk(round.to_string().into_bytes());
        writer.command(&["MULTI"]).await.unwrap();
        for key in keys() {
            writer.command(&["SET".to_owned(), key, round.to_string()]).await.unwrap();
        }
        writer.command(&["EXEC"]).await.unwrap();
        for (_, reader) in &mut readers {
            let seen = mget(reader, &keys()).await.unwrap();
            assert!(seen.iter().all(|other| *other == seen[0]), "round {round}: {seen:?}");
        }
        let own = mget(&mut readers[0].1, &keys()).await.unwrap();
        assert_eq!(own[0], value, "the own site sees it at once");
    }
    for (node, reader) in &mut readers {
        let last = Value::Bulk(b"20".to_vec());
        eventually(node, async || mget(reader, &keys()).await.unwrap()[0] == last).await;
    }
}

#[tokio::test]
async fn a_killed_node_makes_only_its_own_partitions_unavailable() {
    let mut plan = Plan::new("");
    plan.data = Some(plan.folder.at("data"));
    let mut nodes = cluster(&plan).await;
    let mut client = nodes[0][0].client().await;
    for key in keys() {
        client.set(&key, "before").await.unwrap();
    }
    nodes[0][1].kill();
    let (survivor, other_site) = (&nodes[0][0], &nodes[1][0]);
    eventually(survivor, async || !survivor.is_ready()).await;
    // Until the loss is noticed, the outcome of a write is unknown.
    let mut served = BTreeMap::new();
    for key in keys() {
        let mut error = None;
        eventually(survivor, async || match client.set(&key, "after").await {
            Ok(()) => {
                served.insert(key.clone(), true);
                true
            }
            Err(refused) if refused.code() == Some("TRYAGAIN") => {
                error = Some(refused.to_string());
                served.insert(key.clone(), false);
                true
            }
            Err(unknown) => {
                assert_eq!(unknown.code(), Some("UNKNOWN"), "{unknown}");
                false
            }
        })
        .await;
        if let Some(error) = error {
            assert!(error.contains("node 2 of site eu is unreachable"), "{error}");
        }
    }
    let lost: Vec<String> = keys().into_iter().filter(|key| !served[key]).collect();
    assert!(!lost.is_empty() && lost.len() < keys().len(), "{served:?}");
    assert_eq!(mget(&mut client, &lost).await.unwrap_err().code(), Some("TRYAGAIN"));
    client.command(&["MULTI"]).await.unwrap();
    client.command(&["SET", &lost[0], "x"]).await.unwrap();
    let error = client.command(&["EXEC"]).await.unwrap_err();
    assert_eq!(error.code(), Some("TRYAGAIN"), "{error}");
    assert_eq!(client.command(&["DBSIZE"]).await.unwrap_err().code(), Some("TRYAGAIN"));
    assert_eq!(survivor.status()["missing_nodes"][0], 2);
    let error = client.command(&["SOLERA.BARRIER", "100"]).await.unwrap_err();
    assert_eq!(error.code(), Some("TIMEOUT"), "{error}");
    assert!(error.to_string().contains("node 2 of site eu cannot be reached"), "{error}");
    // The other site serves all keys.
    let mut far = other_site.client().await;
    for key in keys() {
        far.set(&key, "elsewhere").await.unwrap();
    }

    nodes[0][1] = plan.start(0, 1);
    for node in nodes.iter().flatten() {
        eventually(node, async || node.reaches_all()).await;
    }
    nodes[0][0].says("link to node 2 of site eu is down");
    let mut again = nodes[0][1].client().await;
    for key in keys() {
        client.set(&key, "again").await.unwrap();
        assert_eq!(again.get(&key).await.unwrap().as_deref(), Some("again"));
    }
}

#[tokio::test]
async fn a_node_that_hangs_temporarily_loses_no_messages() {
    let plan = Plan::new("");
    let nodes = cluster(&plan).await;
    let mut client = nodes[0][0].client().await;
    let (mut sure, mut unsure) = (BTreeMap::new(), BTreeMap::new());
    nodes[0][1].signal("-STOP");
    // A command waits for the hanging node until its timeout, or until the links are given up.
    for key in keys() {
        match client.incr_by(&key, 1).await {
            Ok(_) => *sure.entry(key).or_insert(0) += 1,
            Err(error) if error.code() == Some("UNKNOWN") => *unsure.entry(key).or_insert(0) += 1,
            Err(error) => assert_eq!(error.code(), Some("TRYAGAIN"), "{error}"),
        }
    }
    assert!(!sure.is_empty(), "the other node's keys are served");
    nodes[0][1].signal("-CONT");
    for node in nodes.iter().flatten() {
        eventually(node, async || node.reaches_all()).await;
    }
    for key in keys() {
        client.incr_by(&key, 1).await.unwrap();
        let found: u64 = client.get(&key).await.unwrap().unwrap().parse().unwrap();
        let least = sure.get(&key).unwrap_or(&0) + 1;
        let most = least + unsure.get(&key).unwrap_or(&0);
        assert!((least..=most).contains(&found), "{key}: {found} is not in {least}..={most}");
    }
    // Messages between the site's nodes were not lost either: other sites' writes are visible.
    let mut far = nodes[1][0].client().await;
    far.set("news", "good").await.unwrap();
    for node in &nodes[0] {
        let mut client = node.client().await;
        let news = async || client.get("news").await.unwrap().as_deref() == Some("good");
        eventually(node, news).await;
    }
}

/// The nodes of site us are lost for good. The site is removed and joins again with empty
/// directories, while the other site accepts writes.
#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one scenario, in the order of its steps")]
async fn a_site_is_removed_and_joins_again_while_the_other_serves() {
    let mut plan = Plan::new("");
    plan.data = Some(plan.folder.at("data"));
    let mut nodes = cluster(&plan).await;
    let mut eu = nodes[0][0].client().await;
    for key in keys() {
        eu.set(&key, "old").await.unwrap();
        eu.incr_by(&format!("{key}:n"), 2).await.unwrap();
    }
    let mut us = nodes[1][1].client().await;
    eventually(&nodes[1][0], async || us.get("k23:n").await.ok().flatten().is_some()).await;
    us.incr_by("k0:n", 5).await.unwrap();
    eventually(&nodes[0][0], async || eu.get("k0:n").await.unwrap().as_deref() == Some("7")).await;
    nodes[1].iter_mut().for_each(|node| node.kill());
    for key in keys() {
        eu.set(&key, "new").await.unwrap();
    }

    let removed = plan.site(&["remove", "us"]);
    assert!(removed.status.success(), "{}", String::from_utf8_lossy(&removed.stderr));
    assert!(String::from_utf8_lossy(&removed.stdout).contains(r#""status":"removed""#));
    // Nothing is retained for the removed site.
    let unsettled = |node: &Node| node.status()["own_site"]["unsettled_updates"].as_u64();
    eventually(&nodes[0][0], async || unsettled(&nodes[0][0]) == Some(0)).await;
    // A removed site that is alive receives an error.
    let mut former = plan.start(1, 0);
    assert!(!former.child.wait().unwrap().success());
    eventually(&former, async || former.log().contains("site us was removed from the cluster"))
        .await;

    let added = plan.site(&["add", "us"]);
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    assert!(!plan.site(&["add", "us"]).status.success(), "it joins already");
    let mut former = plan.start_joining(1, 0, 1);
    assert!(!former.child.wait().unwrap().success());
    eventually(&former, async || former.log().contains("it is the data of generation 0")).await;
    for (node, place) in nodes[1].iter_mut().enumerate() {
        std::fs::remove_dir_all(plan.data_of(1, node)).unwrap();
        *place = plan.start_joining(1, node, 1);
        if node == 0 {
            eventually(&*place, async || place.http("/health").is_some()).await;
            let mut us = place.client().await;
            for command in [["DBSIZE"].as_slice(), &["GET", "k0:n"], &["SOLERA.AT-RISK"]] {
                let refused = us.command(command).await.unwrap_err();
                assert_eq!(refused.code(), Some("LOADING"), "{command:?}: {refused}");
            }
        }
    }
    let mut written = 0;
    while !nodes[1][0].is_ready() || !nodes[1][1].is_ready() {
        eu.incr_by("k1:n", 1).await.unwrap();
        written += 1;
        assert!(written < 100_000, "{}", nodes[1][0].log());
    }
    for expected in ["us worker 0 joins: it gets", "partitions from eu", "has joined, and serves"] {
        nodes[1][0].says(expected);
    }
    let mut us = nodes[1][0].client().await;
    for key in keys() {
        assert_eq!(us.get(&key).await.unwrap().as_deref(), Some("new"), "{key}");
    }
    assert_eq!(us.get("k0:n").await.unwrap().as_deref(), Some("7"));
    let all = (2 + written).to_string();
    eventually(&nodes[1][0], async || us.get("k1:n").await.unwrap() == Some(all.clone())).await;
    us.incr_by("k0:n", 1).await.unwrap();
    eventually(&nodes[0][0], async || eu.get("k0:n").await.unwrap().as_deref() == Some("8")).await;

    // The site now behaves like any other: it restarts with its data, and is rejected without it.
    nodes[1][0].kill();
    nodes[1][0] = plan.start(1, 0);
    eventually(&nodes[1][0], async || nodes[1][0].is_ready()).await;
    // A restarted node knows the site's membership from the first handshake.
    nodes[0][1].kill();
    nodes[0][1] = plan.start(0, 1);
    let restarted = &nodes[0][1];
    eventually(restarted, async || restarted.reaches_all()).await;
    assert!(!restarted.log().contains("does not know the number"), "{restarted}");
    nodes[1][0].kill();
    std::fs::remove_dir_all(plan.data_of(1, 0)).unwrap();
    let amnesiac = plan.start_joining(1, 0, 1);
    eventually(&amnesiac, async || amnesiac.log().contains("does not have the data that it had"))
        .await;
    assert!(!amnesiac.is_ready());
}

#[tokio::test]
async fn peers_with_other_settings_are_rejected_with_the_reason() {
    let plan = Plan::new("cluster = 'ours'");
    let ours = plan.start(0, 0);
    // The process has read the file before it is overwritten.
    eventually(&ours, async || ours.http("/health").is_some()).await;
    for (head, sites, reason) in [
        ("cluster = 'theirs'", SITES, "another cluster: the caller belongs to 'theirs'"),
        ("cluster = 'ours'", ["eu", "ap"], "the sites: 'eu, ap' at the caller, 'eu, us' at"),
        ("cluster = 'ours'\npartitions = 8", SITES, "partitions: '8' at the caller, '16' at"),
    ] {
        plan.write(head, sites);
        let theirs = plan.start_as(sites[1], 1, 0);
        for node in [&theirs, &ours] {
            eventually(node, async || node.log().contains(reason)).await;
        }
        // Its own call may end later than the one that it has answered.
        theirs.says("WARN  link to node 1 of site eu is refused");
        assert!(!ours.log().contains("link from node 1 of site us is up"), "{}", ours.log());
    }
}

#[tokio::test]
async fn faults_are_refused_with_the_reason() {
    let plan = Plan::new("");
    let node = plan.start(0, 0);
    eventually(&node, async || node.http("/health").is_some()).await;
    let (host, port) = (node.admin.ip().to_string(), node.admin.port().to_string());
    for fault in ["status", "heal"] {
        let output =
            Command::new(SOLERA).args(["fault", fault, "--host", &host, "--port", &port]).output();
        let output = output.unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.stdout.is_empty() && !output.status.success(), "{output:?}");
        assert!(
            error.contains("a node of `solera serve`, which has no injected faults"),
            "{error}"
        );
    }
}

#[test]
fn invalid_sites_nodes_and_ports_are_rejected() {
    let plan = Plan::new("");
    let refused = |output: Output| {
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let error = refused(plan.command("atlantis", 0).output().unwrap());
    assert!(error.contains("no site 'atlantis'; the sites are eu, us"), "{error}");
    let error = refused(plan.command("eu", 2).output().unwrap());
    assert!(error.contains("site eu has no node 3; its nodes are 1 to 2"), "{error}");
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/solera.toml");
    let example = ["serve", "--site", "us", "--node", "3", "--config", example];
    let error = refused(Command::new(SOLERA).args(example).output().unwrap());
    assert!(error.contains("site us has no node 3; its nodes are 1 to 2"), "{error}");
    let taken = TcpListener::bind(plan.at(0, 0, 1)).unwrap();
    let error = refused(plan.command("eu", 0).output().unwrap());
    let expected = format!("cannot listen on {} (peer): the port is in use", plan.at(0, 0, 1));
    assert!(error.contains(&expected), "{error}");
    drop(taken);
    plan.write("partitions = 2", SITES);
    let error = refused(plan.command("eu", 0).output().unwrap());
    assert!(error.contains("line 13: the nodes of site 'eu' have 3 workers"), "{error}");
}

#[tokio::test]
async fn a_node_stops_on_sigterm() {
    let plan = Plan::new("");
    let mut node = plan.start(0, 0);
    eventually(&node, async || node.http("/health").is_some()).await;
    node.signal("-TERM");
    assert!(node.child.wait().unwrap().success());
    // The end of another node's connection may be logged after the line.
    let has_stopped = async || node.log().lines().any(|line| line.ends_with(" stopped"));
    eventually(&node, has_stopped).await;
}

#[tokio::test]
async fn a_stopping_node_reports_transactions_at_risk() {
    let plan = Plan::new("f = 1\ndrain_ms = 100");
    let mut nodes: Vec<_> = (0..NODES).map(|node| plan.start(0, node)).collect();
    for node in &nodes {
        eventually(node, async || node.is_ready()).await;
    }
    let mut client = nodes[0].client().await;
    for key in keys() {
        client.set(&key, "v").await.unwrap();
    }
    drop(client);
    // The other site is not running.
    nodes[0].signal("-TERM");
    assert!(nodes[0].child.wait().unwrap().success());
    let expected =
        "the time to stop is up: 0 clients were not done, 0 transactions not decided, and";
    eventually(&nodes[0], async || nodes[0].log().contains(expected)).await;
    nodes[1].kill();
}

#[tokio::test]
async fn a_second_sigterm_ends_a_node_at_once() {
    let plan = Plan::new("");
    let mut node = plan.start(0, 0);
    eventually(&node, async || node.http("/health").is_some()).await;
    // Without the second signal, the process would wait a second for this request.
    let mut half = TcpStream::connect(node.admin).unwrap();
    half.write_all(b"GET /st").unwrap();
    eventually(&node, async || node.http("/health").is_some()).await;
    node.signal("-TERM");
    eventually(&node, async || node.log().contains("stopping")).await;
    node.signal("-TERM");
    assert_eq!(node.child.wait().unwrap().code(), Some(130));
    assert!(!node.log().contains(" stopped"), "{}", node.log());
}

/// Nodes with data are killed and stopped in random order under a recorded load. The history must
/// be causal, and all acknowledged writes must be present at the end.
#[tokio::test]
async fn the_history_is_causal_and_nothing_acknowledged_is_lost() {
    let mut plan = Plan::new("");
    plan.data = Some(plan.folder.at("data"));
    let mut nodes = cluster(&plan).await;
    let seed = u64::from(std::process::id());
    let mut random = Random::new(seed);
    let gateway = |name: usize| {
        let (site, node) = (name % 2, name / 2 % 2);
        (site, plan.at(site, node, 0))
    };
    let recording = Recording::start(seed, &(0..8).map(gateway).collect::<Vec<_>>());
    for _ in 0..6 {
        let (site, node) = (random.index(2), random.index(2));
        tokio::time::sleep(Duration::from_millis(50 + random.index(400) as u64)).await;
        if random.index(2) == 0 {
            nodes[site][node].kill();
            tokio::time::sleep(Duration::from_millis(random.index(1500) as u64)).await;
            nodes[site][node] = plan.start(site, node);
            let node = &nodes[site][node];
            eventually(node, async || node.is_ready()).await;
        } else {
            nodes[site][node].signal("-STOP");
            tokio::time::sleep(Duration::from_millis(random.index(2500) as u64)).await;
            nodes[site][node].signal("-CONT");
        }
    }
    for node in nodes.iter().flatten() {
        eventually(node, async || node.reaches_all()).await;
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let transactions = recording.stop().await;
    let mut gateways: Vec<(usize, SocketAddr, &dyn Display)> = Vec::new();
    for (site, nodes) in nodes.iter().enumerate() {
        gateways.extend(nodes.iter().map(|node| (site, node.resp, node as &dyn Display)));
    }
    judge(seed, 2, transactions, &gateways).await;
}

/// Starts a node with these limits of open files, as set by `ulimit`.
fn start_limited(plan: &Plan, limits: &str, options: &[&str]) -> Node {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit {limits}; exec \"$0\" \"$@\""), SOLERA]);
    command.args(["serve", "--site", "eu", "--config"]).arg(&plan.file).args(options);
    plan.started(command, 0, 0)
}

#[test]
fn a_low_limit_of_open_files_reduces_the_number_of_clients() {
    let plan = Plan::new("");
    start_limited(&plan, "-n 300", &[]).says("may have only 300 open files");
}

#[test]
fn a_process_raises_its_limit_of_open_files() {
    let plan = Plan::new("");
    let node = start_limited(&plan, "-Sn 300; ulimit -Hn 4000", &["--log-level", "debug"]);
    node.says("this process may have 4000 open files; the limit was 300 at the start");
    node.says("may have only 4000 open files");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", node.child.id())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(line.split_whitespace().nth(3), Some("4000"), "{line}");
}

/// Every node of a site serves the keys of a space that `primary` runs, even after all nodes were
/// killed and after a site was lost.
#[tokio::test]
async fn every_node_of_a_site_serves_keys_of_primary_and_keeps_them() {
    let mut plan = Plan::new(
        "f = 1\n[development]\nexamples = true\n[[space]]\nname = 'n'\nprefix = 'k'\nlevel = 'primary'",
    );
    plan.data = Some(plan.folder.at("data"));
    let mut nodes = cluster(&plan).await;
    for round in 0..2 {
        let (mut first, mut second) = (nodes[0][0].client().await, nodes[0][1].client().await);
        let mut other = nodes[1][0].client().await;
        for key in keys() {
            let before = 4 * round;
            assert_eq!(first.incr_by(&key, 1).await.unwrap(), before + 1);
            assert_eq!(second.incr_by(&key, 1).await.unwrap(), before + 2);
            assert_eq!(first.get(&key).await.unwrap(), Some((before + 2).to_string()));
            assert_eq!(other.incr_by(&key, 2).await.unwrap(), before + 4);
        }
        other.barrier(Some(Duration::from_secs(10))).await.unwrap();
        let token = other.token().await.unwrap();
        second.attach(&token).await.unwrap();
        for key in keys() {
            assert_eq!(second.get(&key).await.unwrap(), Some((4 * round + 4).to_string()));
        }
        nodes.iter_mut().flatten().for_each(|node| node.kill());
        nodes = cluster(&plan).await;
    }
    // A node with other spaces is rejected.
    nodes[1][1].kill();
    let text = std::fs::read_to_string(&plan.file).unwrap();
    std::fs::write(&plan.file, text.replace("'primary'", "'causal'")).unwrap();
    std::fs::remove_dir_all(plan.data_of(1, 1)).unwrap();
    let mut stranger = plan.started(plan.command(SITES[1], 1), 1, 1);
    eventually(&stranger, async || stranger.log().contains("the spaces")).await;
    stranger.kill();
    // The site's homes are lost, but not the updates that the barrier has covered.
    nodes[1][0].kill();
    let removed = plan.site(&["remove", "us"]);
    assert!(removed.status.success(), "{}", String::from_utf8_lossy(&removed.stderr));
    let mut first = nodes[0][0].client().await;
    for key in keys() {
        assert_eq!(first.get(&key).await.unwrap().as_deref(), Some("8"));
        assert_eq!(first.incr_by(&key, 1).await.unwrap(), 9);
    }
}

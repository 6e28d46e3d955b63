//! Nodes with stale data, or with other settings than their peers. Each site is one real node.

mod common;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use common::{Folder, Node, SOLERA, eventually, free_ports, solera};
use solera::Value;

const SITES: [&str; 3] = ["eu", "us", "ap"];

/// Configuration of a cluster of some of the sites, with a range of ports and a folder.
struct Plan {
    port: u16,
    folder: Folder,
    sites: usize,
}

impl Plan {
    fn new(sites: usize) -> Plan {
        let plan = Plan { port: free_ports(&["127.0.0.1"]), folder: Folder::new(), sites };
        plan.write("f = 1");
        plan
    }

    fn write(&self, head: &str) {
        let mut text = format!("{head}\n");
        for (site, name) in SITES.iter().enumerate().take(self.sites) {
            let [resp, peer, admin] = [0, 1, 2].map(|purpose| self.at(site, purpose));
            text += &format!(
                "[[site]]\nname = '{name}'\n[[site.node]]\nresp = '{resp}'\npeer = '{peer}'\n\
                 admin = '{admin}'\n"
            );
        }
        fs::write(self.folder.join("solera.toml"), text).unwrap();
    }

    fn at(&self, site: usize, purpose: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port + 3 * site as u16 + purpose))
    }

    fn data_of(&self, site: usize) -> PathBuf {
        self.folder.join(SITES[site])
    }

    fn start(&self, site: usize) -> Node {
        self.start_with(site, &[])
    }

    fn start_with(&self, site: usize, more: &[&str]) -> Node {
        let mut command = Command::new(SOLERA);
        command.args(["serve", "--site", SITES[site], "--config"]);
        command.arg(self.folder.join("solera.toml")).arg("--data").arg(self.data_of(site));
        command.args(more);
        Node::start(&mut command, self.at(site, 0), self.at(site, 2))
    }

    /// Starts all sites, and waits until they are connected.
    async fn cluster(&self) -> Vec<Node> {
        let nodes: Vec<Node> = (0..self.sites).map(|site| self.start(site)).collect();
        for node in &nodes {
            eventually(&node, async || node.reaches_all()).await;
        }
        nodes
    }

    /// Runs `solera site` against a site.
    fn site(&self, at: usize, arguments: &[&str]) -> Output {
        let at = self.at(at, 0).to_string();
        solera(&[&["site"], arguments, &["--at", &at]].concat())
    }
}

/// Requires that peers reject the node, and that it logs the reason.
async fn is_expelled(node: &mut Node, reason: &str) {
    let started = Instant::now();
    while node.child.try_wait().unwrap().is_none() {
        assert!(started.elapsed() < Duration::from_secs(30), "it goes on:\n{node}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(node.wait().code(), Some(3), "{node}");
    assert!(node.log().contains("this node can no longer take part in the cluster"), "{node}");
    assert!(node.log().contains(reason), "{node}");
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            // The journal may remove a file during the copy.
            false => drop(fs::copy(entry.path(), target)),
        }
    }
}

/// Writes at one node, and waits until another one has the write.
async fn write(at: &Node, seen_at: &Node, key: &str) {
    at.client().await.set(key, "some value that can be found").await.unwrap();
    let mut other = seen_at.client().await;
    eventually(&seen_at, async || other.get(key).await.unwrap().is_some()).await;
}

#[tokio::test]
async fn a_copy_of_the_data_from_before_the_last_start_is_rejected() {
    let plan = Plan::new(2);
    let mut nodes = plan.cluster().await;
    write(&nodes[1], &nodes[0], "before").await;
    nodes[1].kill();
    let older = plan.folder.join("older");
    copy(&plan.data_of(1), &older);
    nodes[1] = plan.start(1);
    eventually(&nodes[1], async || nodes[1].reaches_all()).await;
    write(&nodes[1], &nodes[0], "after").await;
    nodes[1].kill();
    // Its peer must remember this across a restart.
    nodes[0].kill();
    nodes[0] = plan.start(0);
    eventually(&nodes[0], async || nodes[0].http("/ready").is_some()).await;
    fs::rename(plan.data_of(1), plan.folder.join("real")).unwrap();
    copy(&older, &plan.data_of(1));
    let mut copied = plan.start(1);
    is_expelled(&mut copied, "runs with an older copy of its data").await;
    assert!(copied.log().contains(&*plan.data_of(1).to_string_lossy()), "{}", copied.log());
    // The node is accepted with its real data.
    fs::remove_dir_all(plan.data_of(1)).unwrap();
    fs::rename(plan.folder.join("real"), plan.data_of(1)).unwrap();
    let again = plan.start(1);
    eventually(&again, async || again.reaches_all()).await;
}

#[tokio::test]
async fn a_copy_of_the_data_from_after_the_last_start_is_rejected() {
    let plan = Plan::new(2);
    let mut nodes = plan.cluster().await;
    write(&nodes[1], &nodes[0], "before").await;
    let older = plan.folder.join("older");
    copy(&plan.data_of(1), &older);
    // This is longer than the time by which a node may promise in advance.
    tokio::time::sleep(Duration::from_millis(500)).await;
    write(&nodes[1], &nodes[0], "after").await;
    nodes[1].kill();
    copy(&older, &plan.data_of(1));
    let mut copied = plan.start(1);
    is_expelled(&mut copied, "lacks data that it has sent to others").await;
}

/// Nothing was written at the copied site since the copy, and the other node has restarted. The
/// other node remembers the times that it received.
#[tokio::test]
async fn a_copy_that_lacks_only_promised_times_is_rejected() {
    let plan = Plan::new(2);
    let mut nodes = plan.cluster().await;
    write(&nodes[0], &nodes[1], "before").await;
    let older = plan.folder.join("older");
    copy(&plan.data_of(1), &older);
    // This is longer than the time by which a node may promise in advance, so that the other node
    // has recorded the promise.
    tokio::time::sleep(Duration::from_secs(2)).await;
    write(&nodes[0], &nodes[1], "after").await;
    nodes[1].kill();
    nodes[0].kill();
    nodes[0] = plan.start(0);
    copy(&older, &plan.data_of(1));
    let mut copied = plan.start(1);
    is_expelled(&mut copied, "lacks data that it has sent to others").await;
}

#[tokio::test]
async fn a_node_with_a_repaired_journal_is_rejected() {
    let plan = Plan::new(2);
    let mut nodes = plan.cluster().await;
    for i in 0..20 {
        write(&nodes[1], &nodes[0], &format!("k{i}")).await;
    }
    nodes[1].kill();
    let folder = plan.data_of(1).join("us/worker-0");
    let segment = folder.join("0000000001.segment");
    let mut bytes = fs::read(&segment).unwrap();
    let found = |(_, window): &(usize, &[u8])| *window == b"some value";
    let (at, _) = bytes.windows(10).enumerate().filter(found).nth(10).unwrap();
    bytes[at] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let repaired = Command::new(SOLERA).args(["journal", "repair"]).arg(&folder).output().unwrap();
    let output = String::from_utf8_lossy(&repaired.stdout);
    assert!(repaired.status.success() && output.contains("has a new id"), "{output}");
    nodes[0].kill();
    nodes[0] = plan.start(0);
    let mut amnesiac = plan.start(1);
    is_expelled(&mut amnesiac, "does not have the data that it had").await;
}

#[tokio::test]
async fn a_node_rejects_writes_until_another_site_accepts_it() {
    let plan = Plan::new(2);
    let ours = plan.start(0);
    eventually(&ours, async || ours.http("/ready").is_some()).await;
    plan.write("f = 0");
    let mut theirs = plan.start(1);
    eventually(&theirs, async || theirs.log().contains("takes no writes: no other site")).await;
    let (code, reason) = theirs.http("/ready").unwrap();
    assert_eq!(code, 503);
    assert!(
        reason.contains("node 1 of site eu reports: contradictory configurations: f"),
        "{reason}"
    );
    let mut client = theirs.client().await;
    let error = client.set("k", "v").await.unwrap_err();
    assert_eq!(error.code(), Some("REFUSED"), "{error}");
    assert!(error.to_string().contains("f: '0' at the caller, '1' at the called"), "{error}");
    assert_eq!(client.get("k").await.unwrap(), None);
    client.command(&["MULTI"]).await.unwrap();
    assert!(client.set("k", "v").await.is_err() && client.command(&["EXEC"]).await.is_err());
    // Read-only transactions continue.
    for [begin, end] in [["MULTI", "EXEC"], ["SOLERA.BEGIN", "SOLERA.COMMIT"]] {
        client.command(&[begin]).await.unwrap();
        client.command(&["GET", "k"]).await.unwrap();
        client.command(&[end]).await.unwrap();
    }
    theirs.kill();
    plan.write("f = 1");
    let theirs = plan.start(1);
    eventually(&theirs, async || theirs.reaches_all()).await;
    eventually(&ours, async || ours.reaches_all()).await;
    write(&ours, &theirs, "k").await;
}

#[tokio::test]
async fn a_rejected_node_does_not_block_the_cluster() {
    // A cluster of one site lists a second site, whose node has a different configuration.
    let mut plan = Plan::new(2);
    plan.sites = 1;
    plan.write("f = 0");
    let mut only = plan.start(0);
    eventually(&only, async || only.http("/ready").is_some()).await;
    only.kill();
    plan.sites = 2;
    plan.write("f = 0");
    only = plan.start(0);
    eventually(&only, async || only.http("/ready").is_some()).await;
    plan.write("f = 1");
    let newcomer = plan.start_with(1, &["--join", "1"]);
    eventually(&newcomer, async || newcomer.log().contains("takes no writes")).await;
    let refused = async || only.log().contains("link to node 1 of site us is refused");
    eventually(&only, refused).await;
    only.client().await.set("k", "v").await.unwrap();
    assert_eq!(only.http("/ready").unwrap().0, 200);
}

/// The other sites call the node as well, and close the connection after its handshake. This must
/// not be logged as a link that goes up and down.
#[tokio::test]
async fn a_node_that_joins_with_a_wrong_number_gets_no_links() {
    let plan = Plan::new(3);
    let mut nodes = plan.cluster().await;
    nodes[2].kill();
    let removed = plan.site(0, &["remove", "ap", "--force"]);
    assert!(removed.status.success(), "{}", String::from_utf8_lossy(&removed.stderr));
    eventually(&nodes[0], async || plan.site(0, &["add", "ap"]).status.success()).await;
    fs::remove_dir_all(plan.data_of(2)).unwrap();
    let newcomer = plan.start_with(2, &["--join", "7"]);
    eventually(&newcomer, async || newcomer.log().contains("takes no writes")).await;
    let refused = async || nodes[0].log().contains("link to node 1 of site ap is refused");
    eventually(&nodes[0], refused).await;
    let log = newcomer.log();
    assert!(log.contains("the number that `solera site add ap` printed"), "{log}");
    assert!(!log.contains("is up") && !log.contains("is down"), "{log}");
    // The refused join does not bind the directory to the wrong number.
    drop(newcomer);
    let newcomer = plan.start_with(2, &["--join", "1"]);
    eventually(&newcomer, async || newcomer.http("/ready").is_some_and(|(code, _)| code == 200))
        .await;
    drop(newcomer);
    let mut newcomer = plan.start_with(2, &["--join", "2"]);
    assert!(!newcomer.wait().success());
    let log = newcomer.log();
    assert!(log.contains("it is the data of generation 1 of the site"), "{log}");
}

#[tokio::test]
async fn a_removed_site_with_other_settings_learns_that_it_was_removed() {
    let plan = Plan::new(2);
    let mut nodes = plan.cluster().await;
    nodes[1].kill();
    let removed = plan.site(0, &["remove", "us", "--force"]);
    assert!(removed.status.success(), "{}", String::from_utf8_lossy(&removed.stderr));
    plan.write("f = 0");
    nodes[1] = plan.start(1);
    is_expelled(&mut nodes[1], "site us was removed from the cluster").await;
    nodes[0].client().await.set("k", "v").await.unwrap();
    assert_eq!(nodes[0].http("/ready").unwrap().0, 200);
}

#[tokio::test]
async fn the_last_site_gives_no_durability_and_removing_a_live_one_needs_force() {
    let plan = Plan::new(2);
    let mut nodes = plan.cluster().await;
    let mut client = nodes[0].client().await;
    client.set("k", "v").await.unwrap();
    assert_eq!(client.command(&["WAIT", "1", "0"]).await.unwrap(), Value::Integer(1));
    let refused = plan.site(0, &["remove", "us"]);
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && errors.contains("node 1 of site us answers"), "{errors}");
    assert!(nodes[0].reaches_all());
    let removed = plan.site(0, &["remove", "us", "--force"]);
    assert!(removed.status.success(), "{}", String::from_utf8_lossy(&removed.stderr));
    is_expelled(&mut nodes[1], "site us was removed from the cluster").await;
    assert_eq!(client.command(&["WAIT", "1", "0"]).await.unwrap(), Value::Integer(0));
    for command in ["SOLERA.BARRIER", "SOLERA.AT-RISK"] {
        let error = client.command(&[command]).await.unwrap_err();
        assert_eq!(error.code(), Some("TOOFEW"), "{error}");
    }
    client.set("k", "w").await.unwrap();
    let (_, status) = nodes[0].http("/status").unwrap();
    assert!(status.contains(r#""f":1,"survives":0"#), "{status}");
}

#[tokio::test]
async fn a_waiting_removal_reports_that_it_continues() {
    let plan = Plan::new(3);
    let mut nodes = plan.cluster().await;
    nodes[1].kill();
    nodes[2].kill();
    let unreached =
        async || !nodes[0].http("/status").unwrap().1.contains(r#""reached":true,"nodes":[{"#);
    eventually(&nodes[0], unreached).await;
    let waiting = plan.site(0, &["remove", "us", "--timeout", "0"]);
    let errors = String::from_utf8_lossy(&waiting.stderr);
    assert!(!waiting.status.success(), "{errors}");
    assert!(errors.contains("us is leaving") && errors.contains("cannot be undone"), "{errors}");
    nodes[2] = plan.start(2);
    let finished =
        async || String::from_utf8_lossy(&plan.site(0, &["list"]).stdout).contains("removed");
    eventually(&nodes[0], finished).await;
}

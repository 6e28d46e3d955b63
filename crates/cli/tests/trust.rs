//! Nodes that are not what they were, or not what the others are: each site is one real node.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use solera::{Client, Value};

const SOLERA: &str = env!("CARGO_BIN_EXE_solera");
const SITES: [&str; 3] = ["eu", "us", "ap"];

static NEXT: AtomicU16 = AtomicU16::new(0);

/// A cluster of some of the sites, on ports and in a folder of its own.
struct Plan {
    port: u16,
    folder: PathBuf,
    sites: usize,
}

impl Plan {
    fn new(sites: usize) -> Plan {
        let port = loop {
            let offset = NEXT.fetch_add(10, Ordering::Relaxed);
            let port = 20_000 + (std::process::id() % 900) as u16 * 10 + offset;
            if (port..port + 9).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
                break port;
            }
        };
        let folder = std::env::temp_dir().join(format!("solera-trust-{port}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let plan = Plan { port, folder, sites };
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
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (stderr, copy) = (BufReader::new(child.stderr.take().unwrap()), log.clone());
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                *copy.lock().unwrap() += &(line + "\n");
            }
        });
        Node { child, log, resp: self.at(site, 0), admin: self.at(site, 2) }
    }

    /// All sites, connected.
    async fn cluster(&self) -> Vec<Node> {
        let nodes: Vec<Node> = (0..self.sites).map(|site| self.start(site)).collect();
        for node in &nodes {
            node.eventually(async || node.reaches_all()).await;
        }
        nodes
    }

    /// What `solera site` says, asked at a site.
    fn site(&self, at: usize, arguments: &[&str]) -> Output {
        let at = self.at(at, 0).to_string();
        Command::new(SOLERA).arg("site").args(arguments).args(["--at", &at]).output().unwrap()
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A running node, killed at the end of the test.
struct Node {
    child: Child,
    log: Arc<Mutex<String>>,
    resp: SocketAddr,
    admin: SocketAddr,
}

impl Node {
    fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    async fn eventually(&self, mut holds: impl AsyncFnMut() -> bool) {
        let started = Instant::now();
        while !holds().await {
            assert!(started.elapsed() < Duration::from_secs(30), "it did not:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Its peers end it, and it says why.
    async fn is_expelled(&mut self, reason: &str) {
        let started = Instant::now();
        let code = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status.code();
            }
            assert!(started.elapsed() < Duration::from_secs(30), "it goes on:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        let told = async || self.log().contains("this node can take no part any more");
        self.eventually(told).await;
        assert_eq!(code, Some(3), "{}", self.log());
        assert!(self.log().contains(reason), "{}", self.log());
    }

    fn http(&self, path: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(self.admin).ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
    }

    fn reaches_all(&self) -> bool {
        self.http("/ready").is_some_and(|(code, _)| code == 200)
            && self.http("/status").is_some_and(|(_, status)| {
                let status: serde_json::Value = serde_json::from_str(&status).unwrap();
                let sites = status["sites"].as_array().unwrap();
                sites.iter().all(|site| site["reached"].as_bool() == Some(true))
            })
    }

    async fn client(&self) -> Client {
        Client::connect(self.resp).await.unwrap()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            // The journal may remove a file meanwhile.
            false => drop(fs::copy(entry.path(), target)),
        }
    }
}

/// Writes at one node, and waits until another has it.
async fn write(at: &Node, seen_at: &Node, key: &str) {
    at.client().await.set(key, "some value that can be found").await.unwrap();
    let mut other = seen_at.client().await;
    seen_at.eventually(async || other.get(key).await.unwrap().is_some()).await;
}

#[tokio::test]
async fn a_copy_from_before_the_last_start_is_refused() {
    let plan = Plan::new(2);
    let mut nodes = plan.cluster().await;
    write(&nodes[1], &nodes[0], "before").await;
    nodes[1].kill();
    let older = plan.folder.join("older");
    copy(&plan.data_of(1), &older);
    nodes[1] = plan.start(1);
    nodes[1].eventually(async || nodes[1].reaches_all()).await;
    write(&nodes[1], &nodes[0], "after").await;
    nodes[1].kill();
    // Its peer has to remember through a restart.
    nodes[0].kill();
    nodes[0] = plan.start(0);
    nodes[0].eventually(async || nodes[0].http("/ready").is_some()).await;
    fs::rename(plan.data_of(1), plan.folder.join("real")).unwrap();
    copy(&older, &plan.data_of(1));
    let mut copied = plan.start(1);
    copied.is_expelled("runs with an older copy of its data").await;
    assert!(copied.log().contains(&*plan.data_of(1).to_string_lossy()), "{}", copied.log());
    // What it really was is let in.
    fs::remove_dir_all(plan.data_of(1)).unwrap();
    fs::rename(plan.folder.join("real"), plan.data_of(1)).unwrap();
    let again = plan.start(1);
    again.eventually(async || again.reaches_all()).await;
}

#[tokio::test]
async fn a_copy_from_since_the_last_start_is_refused() {
    let plan = Plan::new(2);
    let mut nodes = plan.cluster().await;
    write(&nodes[1], &nodes[0], "before").await;
    let older = plan.folder.join("older");
    copy(&plan.data_of(1), &older);
    // Beyond what a node may promise ahead of its time.
    tokio::time::sleep(Duration::from_millis(500)).await;
    write(&nodes[1], &nodes[0], "after").await;
    nodes[1].kill();
    copy(&older, &plan.data_of(1));
    let mut copied = plan.start(1);
    copied.is_expelled("does not remember all that it has told").await;
}

#[tokio::test]
async fn a_repaired_journal_is_refused() {
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
    let told = String::from_utf8_lossy(&repaired.stdout);
    assert!(repaired.status.success() && told.contains("has a new id"), "{told}");
    nodes[0].kill();
    nodes[0] = plan.start(0);
    let mut amnesiac = plan.start(1);
    amnesiac.is_expelled("has not the data that it had").await;
}

#[tokio::test]
async fn a_node_that_no_site_accepts_takes_no_writes_until_one_does() {
    let plan = Plan::new(2);
    let ours = plan.start(0);
    ours.eventually(async || ours.http("/ready").is_some()).await;
    plan.write("f = 0");
    let mut theirs = plan.start(1);
    theirs.eventually(async || theirs.log().contains("takes no writes: no other site")).await;
    let (code, reason) = theirs.http("/ready").unwrap();
    assert_eq!(code, 503);
    assert!(reason.contains("node 1 of site eu says: contradictory configurations: f"), "{reason}");
    let mut client = theirs.client().await;
    let error = client.set("k", "v").await.unwrap_err();
    assert_eq!(error.code(), Some("REFUSED"), "{error}");
    assert!(error.to_string().contains("f: '0' at the caller, '1' at the called"), "{error}");
    assert_eq!(client.get("k").await.unwrap(), None);
    client.command(&["MULTI"]).await.unwrap();
    assert!(client.set("k", "v").await.is_err() && client.command(&["EXEC"]).await.is_err());
    theirs.kill();
    plan.write("f = 1");
    let theirs = plan.start(1);
    theirs.eventually(async || theirs.reaches_all()).await;
    ours.eventually(async || ours.reaches_all()).await;
    write(&ours, &theirs, "k").await;
}

#[tokio::test]
async fn who_takes_no_part_stops_nobody() {
    // A site of its own lists a second one, and that one has another file.
    let mut plan = Plan::new(2);
    plan.sites = 1;
    plan.write("f = 0");
    let mut only = plan.start(0);
    only.eventually(async || only.http("/ready").is_some()).await;
    only.kill();
    plan.sites = 2;
    plan.write("f = 0");
    only = plan.start(0);
    only.eventually(async || only.http("/ready").is_some()).await;
    plan.write("f = 1");
    let newcomer = plan.start_with(1, &["--join", "1"]);
    newcomer.eventually(async || newcomer.log().contains("takes no writes")).await;
    let refused = async || only.log().contains("link to node 1 of site us is refused");
    only.eventually(refused).await;
    only.client().await.set("k", "v").await.unwrap();
    assert_eq!(only.http("/ready").unwrap().0, 200);
}

#[tokio::test]
async fn a_removed_site_with_other_settings_is_still_told_that_it_was_removed() {
    let plan = Plan::new(2);
    let mut nodes = plan.cluster().await;
    nodes[1].kill();
    let removed = plan.site(0, &["remove", "us", "--force"]);
    assert!(removed.status.success(), "{}", String::from_utf8_lossy(&removed.stderr));
    plan.write("f = 0");
    nodes[1] = plan.start(1);
    nodes[1].is_expelled("site us was removed from the cluster").await;
    nodes[0].client().await.set("k", "v").await.unwrap();
    assert_eq!(nodes[0].http("/ready").unwrap().0, 200);
}

#[tokio::test]
async fn the_last_site_promises_nothing_and_a_live_one_is_not_removed_unasked() {
    let plan = Plan::new(2);
    let mut nodes = plan.cluster().await;
    let mut client = nodes[0].client().await;
    client.set("k", "v").await.unwrap();
    assert_eq!(client.command(&["WAIT", "1", "0"]).await.unwrap(), Value::Integer(1));
    let refused = plan.site(0, &["remove", "us"]);
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && told.contains("node 1 of site us answers"), "{told}");
    assert!(nodes[0].reaches_all());
    let removed = plan.site(0, &["remove", "us", "--force"]);
    assert!(removed.status.success(), "{}", String::from_utf8_lossy(&removed.stderr));
    nodes[1].is_expelled("site us was removed from the cluster").await;
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
async fn a_removal_that_has_to_wait_says_how_it_ends() {
    let plan = Plan::new(3);
    let mut nodes = plan.cluster().await;
    nodes[1].kill();
    nodes[2].kill();
    let unreached =
        async || !nodes[0].http("/status").unwrap().1.contains(r#""reached":true,"nodes":[{"#);
    nodes[0].eventually(unreached).await;
    let waiting = plan.site(0, &["remove", "us", "--timeout", "0"]);
    let told = String::from_utf8_lossy(&waiting.stderr);
    assert!(!waiting.status.success(), "{told}");
    assert!(told.contains("us is leaving") && told.contains("cannot be taken back"), "{told}");
    nodes[2] = plan.start(2);
    let finished =
        async || String::from_utf8_lossy(&plan.site(0, &["list"]).stdout).contains("removed");
    nodes[0].eventually(finished).await;
}

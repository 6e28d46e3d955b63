//! Private Redis Clusters on loopback, and direct access to their nodes.
#![allow(dead_code, reason = "each test uses a part")]

pub(crate) mod sessions;

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use solera_occult_redis::{Call, Gateway, Options};
use solera_redis::Target;
use solera_resp::{Value, encode_command, parse_value};

/// Longest time to wait for the cluster.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Cluster {
    /// The nodes that have been started: masters first, then a replica of each.
    pub(crate) nodes: Vec<Server>,
    folder: PathBuf,
}

pub(crate) struct Server {
    pub(crate) port: u16,
    process: Child,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            signal(&node.process, "CONT");
            let _ = node.process.kill();
            let _ = node.process.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn signal(process: &Child, name: &str) {
    let id = process.id().to_string();
    let _ = Command::new("kill").args([&format!("-{name}"), &id]).stderr(Stdio::null()).status();
}

/// Returns a port that is free, as is the port 10000 above, on which nodes communicate with each
/// other.
fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = std::process::id() * 67 + NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 20_000 + (number % 10_000) as u16;
        let free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if free(port) && free(port + 10_000) {
            return port;
        }
    }
}

/// Starts a server at a free port. Another program may take the port before the server does, which
/// then ends; it gets another port.
fn start(folder: &std::path::Path) -> Server {
    for _ in 0..10 {
        let mut server = start_at(folder, free_port());
        let mut ended = false;
        wait("a node does not start", || {
            ended = server.process.try_wait().unwrap().is_some();
            ended || TcpStream::connect(("127.0.0.1", server.port)).is_ok()
        });
        if !ended {
            return server;
        }
    }
    panic!("no node finds a free port");
}

fn start_at(folder: &std::path::Path, port: u16) -> Server {
    let folder = folder.join(port.to_string());
    std::fs::create_dir_all(&folder).unwrap();
    let log = File::create(folder.join("log")).unwrap();
    let timeout = "1500";
    let process = Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--cluster-enabled", "yes"])
        .args(["--save", "", "--appendonly", "no", "--cluster-node-timeout", timeout])
        .args(["--repl-diskless-sync-delay", "0", "--enable-debug-command", "local"])
        .arg("--dir")
        .arg(&folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .expect("redis-server must be installed");
    Server { port, process }
}

impl Cluster {
    /// Starts three masters with a replica each.
    pub(crate) fn start() -> Cluster {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("solera-occult-redis-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let nodes = (0..6).map(|_| start(&folder)).collect();
        let cluster = Cluster { nodes, folder };
        let addresses = cluster.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port));
        let created = Command::new("redis-cli")
            .args(["--cluster", "create"])
            .args(addresses)
            .args(["--cluster-replicas", "1", "--cluster-yes"])
            .stdin(Stdio::null())
            .output()
            .expect("redis-cli must be installed");
        assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stdout));
        cluster.wait_until_ready();
        cluster
    }

    fn wait_until_ready(&self) {
        wait("the cluster does not become ready", || {
            self.nodes.iter().all(|node| {
                let text = |words: &[&str]| text(&node.raw(words));
                let replication = text(&["INFO", "replication"]);
                text(&["CLUSTER", "INFO"]).contains("cluster_state:ok")
                    && text(&["CLUSTER", "NODES"]).matches(" slave ").count()
                        + text(&["CLUSTER", "NODES"]).matches("slave ").count()
                        >= 3
                    && (replication.contains("master_link_status:up")
                        || replication.contains("connected_slaves:1"))
            })
        });
    }

    pub(crate) fn url(&self) -> String {
        let addresses: Vec<String> =
            self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        format!("redis-cluster://{}", addresses.join(","))
    }

    pub(crate) async fn gateway(&self, options: Options) -> Arc<Gateway> {
        Gateway::connect(&Target::parse(&self.url()).unwrap(), options).await.unwrap()
    }

    /// Returns the index of the master of a key's slot, according to the first node that answers.
    pub(crate) fn master_of(&self, key: &str) -> usize {
        self.nodes
            .iter()
            .position(|node| {
                node.role() == "master" && !matches!(node.raw(&["EXISTS", key]), Value::Error(_))
            })
            .expect("a master has the key")
    }

    /// Waits until all nodes list a replica, which they do once it has data.
    pub(crate) fn wait_until_listed(&self, replica: usize) {
        let port = Value::Integer(self.nodes[replica].port.into());
        let lists = |reply: &Value| format!("{reply:?}").contains(&format!("{port:?}"));
        wait("the replica is not listed", || {
            self.nodes.iter().all(|node| lists(&node.raw(&["CLUSTER", "SLOTS"])))
        });
    }

    /// Waits until the replica of a master has all its writes.
    pub(crate) fn wait_until_replicated(&self, master: usize) {
        let offset = |node: &Server| {
            let info = text(&node.raw(&["INFO", "replication"]));
            let offset = info.lines().find_map(|line| line.strip_prefix("master_repl_offset:"));
            offset.unwrap().to_owned()
        };
        let [master, replica] = [master, self.replica_of(master)].map(|at| &self.nodes[at]);
        wait("the replica does not follow", || offset(master) == offset(replica));
    }

    /// Returns the index of the replica of a master.
    pub(crate) fn replica_of(&self, master: usize) -> usize {
        let wanted = format!("master_port:{}\r", self.nodes[master].port);
        let found = self
            .nodes
            .iter()
            .position(|node| text(&node.raw(&["INFO", "replication"])).contains(&wanted));
        found.expect("a master has a replica")
    }
}

impl Server {
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn role(&self) -> String {
        let info = self.try_raw(&["INFO", "replication"]).map(|value| text(&value));
        let info = info.unwrap_or_default();
        let role = info.lines().find_map(|line| line.strip_prefix("role:"));
        role.unwrap_or_default().to_owned()
    }

    pub(crate) fn raw(&self, words: &[&str]) -> Value {
        self.try_raw(words).unwrap()
    }

    pub(crate) fn try_raw(&self, words: &[&str]) -> std::io::Result<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut bytes = Vec::new();
        encode_command(&mut bytes, &["READONLY"]);
        encode_command(&mut bytes, words);
        stream.write_all(&bytes)?;
        let (mut buffer, mut chunk) = (Vec::new(), [0; 65536]);
        let mut first = true;
        loop {
            while let Some((value, length)) = parse_value(&buffer).unwrap() {
                if !std::mem::take(&mut first) {
                    return Ok(value);
                }
                buffer.drain(..length);
            }
            let count = stream.read(&mut chunk)?;
            if count == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            buffer.extend_from_slice(&chunk[..count]);
        }
    }

    /// Stops the process, which keeps its connections.
    pub(crate) fn freeze(&self) {
        signal(&self.process, "STOP");
    }

    pub(crate) fn thaw(&self) {
        signal(&self.process, "CONT");
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

pub(crate) fn wait(why: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < until, "{why}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Simple(text) | Value::Error(text) => text.clone(),
        Value::Verbatim { text, .. } => text.clone(),
        other => panic!("{other:?} is no text"),
    }
}

pub(crate) fn call(words: &str) -> Call {
    let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
    Call::new(&words).unwrap()
}

pub(crate) fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

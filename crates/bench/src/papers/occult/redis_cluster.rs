//! A Redis Cluster of real servers at two sites.
//!
//! The first site has one of the three masters and the replicas of the other two. The nodes of the
//! second site announce the ports of proxies that delay each message, so that clients and nodes
//! reach them like nodes that are far away.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use solera_redis::{Reads, Target};

use crate::error::BenchError;
use crate::papers::network::Network;
use crate::ports::free_ports;

/// Round trip between the sites.
pub(super) const RTT: Duration = Duration::from_millis(39);
/// Number of masters; each has a replica.
const MASTERS: usize = 3;
/// Timeout for the cluster to become ready.
const PATIENCE: Duration = Duration::from_secs(60);

/// A child process. Dropping it stops the process.
pub(super) struct Running(Child);

impl Running {
    /// Returns the process id.
    pub(super) fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has no durable data, and may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running cluster. Dropping it stops its servers.
pub(super) struct RedisCluster {
    pub(super) servers: Vec<Running>,
    /// URL of the cluster, with the nodes of the first site.
    pub(super) url: String,
    /// Ports of the nodes of the first site.
    near: Vec<u16>,
    folder: PathBuf,
    _network: Network,
}

impl Drop for RedisCluster {
    fn drop(&mut self) {
        self.servers.clear();
        // What cannot be removed remains in the temporary directory.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn failed(what: &str, why: impl std::fmt::Display) -> BenchError {
    BenchError::Start(format!("the Redis Cluster: {what}: {why}"))
}

/// Returns whether redis-server and redis-cli are installed.
pub(super) fn is_installed() -> bool {
    ["redis-server", "redis-cli"].iter().all(|name| {
        let mut command = Command::new(name);
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    })
}

/// Runs a command of a node, or of redis-cli, and returns its output.
fn redis_cli(words: &[&str]) -> Result<String, BenchError> {
    let what = format!("redis-cli {}", words.join(" "));
    let ran = Command::new("redis-cli").args(words).stdin(Stdio::null()).output();
    let Output { status, stdout, stderr } = ran.map_err(|error| failed(&what, error))?;
    let text = String::from_utf8_lossy(&stdout).into_owned();
    match status.success() {
        true => Ok(text),
        false => Err(failed(&what, text + &String::from_utf8_lossy(&stderr))),
    }
}

fn ask(port: u16, words: &[&str]) -> Result<String, BenchError> {
    redis_cli(&[&["-p", &port.to_string()], words].concat())
}

/// Waits until a condition holds; `what` says what does not happen otherwise.
fn wait(what: &str, mut holds: impl FnMut() -> Result<bool, BenchError>) -> Result<(), BenchError> {
    let begin = Instant::now();
    loop {
        let now = holds();
        if matches!(now, Ok(true)) {
            return Ok(());
        }
        if begin.elapsed() >= PATIENCE {
            return now.and(Err(failed("it does not start", what)));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

impl RedisCluster {
    /// Starts the servers and the proxies.
    ///
    /// # Errors
    /// Fails if a server or a proxy cannot be started, or the cluster does not become ready.
    pub(super) fn start() -> Result<RedisCluster, BenchError> {
        let nodes = 2 * MASTERS as u16;
        let base = free_ports(2 * nodes - 1).map_err(|error| failed("no free ports", error))?;
        let folder = format!("solera-papers-redis-{}-{base}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        let mut cluster = RedisCluster {
            servers: Vec::new(),
            url: String::new(),
            near: Vec::new(),
            folder,
            _network: Network::new()?,
        };
        let ports: Vec<u16> = (base..base + nodes).collect();
        for port in &ports {
            cluster.start_server(*port, port + nodes)?;
        }
        wait("a server does not answer", || {
            let answers = ports.iter().map(|port| ask(*port, &["PING"]));
            answers.collect::<Result<Vec<_>, _>>().map(|_| true)
        })?;
        let addresses: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let mut create = vec!["--cluster", "create"];
        create.extend(addresses.iter().map(String::as_str));
        create.extend(["--cluster-replicas", "1", "--cluster-yes"]);
        redis_cli(&create)?;
        cluster.place(&ports, nodes)?;
        Ok(cluster)
    }

    /// Starts a server that communicates with other nodes on the port `bus`.
    fn start_server(&mut self, port: u16, bus: u16) -> Result<(), BenchError> {
        let start = |error: std::io::Error| failed("a server cannot be started", error);
        let folder = self.folder.join(port.to_string());
        std::fs::create_dir_all(&folder).map_err(start)?;
        let log = std::fs::File::create(folder.join("log")).map_err(start)?;
        let (port, bus) = (port.to_string(), bus.to_string());
        let spawned = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &port, "--cluster-port", &bus])
            .args(["--cluster-enabled", "yes", "--save", "", "--appendonly", "no"])
            .args(["--cluster-announce-ip", "127.0.0.1", "--repl-diskless-sync-delay", "0"])
            .arg("--dir")
            .arg(&folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(start)?)
            .stderr(log)
            .spawn();
        self.servers.push(Running(spawned.map_err(start)?));
        Ok(())
    }

    /// Places the first master and the replicas of the others at the first site, and the other
    /// nodes behind proxies.
    fn place(&mut self, ports: &[u16], nodes: u16) -> Result<(), BenchError> {
        let masters = &ports[..MASTERS];
        let mut far = vec![masters[1], masters[2]];
        wait("the replicas do not follow their masters", || {
            for port in &ports[MASTERS..] {
                let info = ask(*port, &["INFO", "replication"])?;
                if !info.contains("master_link_status:up") {
                    return Ok(false);
                }
                if info.contains(&format!("master_port:{}\r", masters[0])) {
                    far.truncate(2);
                    far.push(*port);
                }
            }
            Ok(far.len() == 3)
        })?;
        let mut announced = Vec::new();
        for port in &far {
            for (of, setting) in
                [(*port, "cluster-announce-port"), (port + nodes, "cluster-announce-bus-port")]
            {
                let proxy = self._network.at(&format!("127.0.0.1:{of}"), (RTT, Duration::ZERO))?;
                let proxy = proxy.port().to_string();
                ask(*port, &["CONFIG", "SET", setting, &proxy])?;
                announced.push(proxy);
            }
        }
        self.near = ports.iter().copied().filter(|port| !far.contains(port)).collect();
        wait("the nodes do not learn of the proxies", || {
            for port in ports {
                let known = ask(*port, &["CLUSTER", "NODES"])?;
                let knows = |pair: &[String]| known.contains(&format!(":{}@{}", pair[0], pair[1]));
                let state = ask(*port, &["CLUSTER", "INFO"])?;
                let role = ask(*port, &["INFO", "replication"])?;
                let follows = role.contains("role:master") || role.contains("link_status:up");
                if !announced.chunks(2).all(knows)
                    || !state.contains("cluster_state:ok")
                    || !follows
                {
                    return Ok(false);
                }
            }
            Ok(true)
        })?;
        let near: Vec<String> = self.near.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        self.url = format!("redis-cluster://{}", near.join(","));
        Ok(())
    }

    /// Returns the cluster as a target of plain commands, with reads at the first site.
    pub(super) fn plain(&self) -> Result<(Target, Reads), BenchError> {
        let target = Target::parse(&self.url).map_err(|error| failed(&self.url, error))?;
        let near = self.near.iter().map(|port| ("127.0.0.1".to_owned(), *port));
        Ok((target, Reads::Near(near.collect())))
    }

    /// Starts `solera occult` at the first site. Returns its process, and the process as a target.
    ///
    /// # Errors
    /// Fails if it does not start.
    pub(super) fn gateway(&self, entries: u16) -> Result<(Running, Target), BenchError> {
        let start = |error: std::io::Error| failed("solera occult cannot be started", error);
        let port = free_ports(0).map_err(start)?.to_string();
        let near: Vec<String> = self.near.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let spawned = Command::new(std::env::current_exe().map_err(start)?)
            .args(["occult", &self.url, "--site", "first", "--port", &port])
            .args(["--near", &near.join(","), "--entries", &entries.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let running = Running(spawned.map_err(start)?);
        wait("solera occult does not answer", || {
            Ok(std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_ok())
        })?;
        let url = format!("redis://127.0.0.1:{port}");
        Ok((running, Target::parse(&url).map_err(|error| failed(&url, error))?))
    }
}

//! The list of sites grows while real nodes serve: two sites take writes, a third is listed at their nodes,
//! one after another, is added, and joins.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use solera::Client;

const SOLERA: &str = env!("CARGO_BIN_EXE_solera");
/// The sites, with their numbers of nodes.
const SITES: [(&str, usize); 3] = [("eu", 2), ("us", 1), ("ap", 1)];

/// The nodes' configuration and data.
struct Plan {
    port: u16,
    root: PathBuf,
}

impl Plan {
    fn new() -> Plan {
        let free = |port: &u16| {
            let hosts = ["127.0.0.1", "127.0.0.2", "127.0.0.3"];
            hosts
                .iter()
                .all(|host| (*port..port + 6).all(|port| TcpListener::bind((*host, port)).is_ok()))
        };
        let first = 20_000 + (std::process::id() % 900) as u16 * 10;
        let port = (first..first + 1000).step_by(10).find(free).unwrap();
        let root = std::env::temp_dir().join(format!("solera-grow-{port}"));
        std::fs::create_dir_all(&root).unwrap();
        let plan = Plan { port, root };
        plan.list(2);
        plan
    }

    /// Lists so many sites in the file.
    fn list(&self, sites: usize) {
        let mut text = String::new();
        for (site, (name, nodes)) in SITES.iter().enumerate().take(sites) {
            text += &format!("[[site]]\nname = '{name}'\n");
            for node in 0..*nodes {
                let [resp, peer, admin] = [0, 1, 2].map(|purpose| self.at(site, node, purpose));
                text += &format!(
                    "[[site.node]]\nresp = '{resp}'\npeer = '{peer}'\nadmin = '{admin}'\n"
                );
            }
        }
        std::fs::write(self.root.join("solera.toml"), text).unwrap();
    }

    fn at(&self, site: usize, node: usize, purpose: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, site as u8 + 1], self.port + node as u16 * 3 + purpose))
    }

    fn start(&self, site: usize, node: usize, more: &[&str]) -> Node {
        let name = SITES[site].0;
        let mut command = Command::new(SOLERA);
        command.args(["serve", "--site", name, "--node", &(node + 1).to_string(), "--config"]);
        command.arg(self.root.join("solera.toml")).arg("--data");
        command.arg(self.root.join(format!("{name}-{node}"))).args(more);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (stderr, copy) = (BufReader::new(child.stderr.take().unwrap()), log.clone());
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                *copy.lock().unwrap() += &(line + "\n");
            }
        });
        Node { child, log, admin: self.at(site, node, 2) }
    }

    /// `solera site add ap`, asked at a site.
    fn add(&self, site: usize) -> Result<(), String> {
        let at = self.at(site, 0, 0).to_string();
        let done: Output =
            Command::new(SOLERA).args(["site", "add", "ap", "--at", &at]).output().unwrap();
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        if done.status.success() { Ok(()) } else { Err(told) }
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// A running node, killed at the end of the test.
struct Node {
    child: Child,
    log: Arc<Mutex<String>>,
    admin: SocketAddr,
}

impl Node {
    fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    fn is_ready(&self) -> bool {
        let answer = || {
            let mut stream = TcpStream::connect(self.admin).ok()?;
            let request = "GET /ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
            stream.write_all(request.as_bytes()).ok()?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).ok()?;
            Some(answer.starts_with("HTTP/1.1 200"))
        };
        answer().unwrap_or(false)
    }

    /// Stops it as an operator does.
    fn stop(&mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.child.wait().unwrap();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn eventually(node: &Node, mut holds: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !holds().await {
        assert!(started.elapsed() < Duration::from_secs(60), "it did not happen:\n{}", node.log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Writes one key after another until it shall end, at whichever of these nodes answers, and returns
/// what was acknowledged.
async fn write(name: &'static str, nodes: Vec<SocketAddr>, end: Arc<AtomicBool>) -> Vec<String> {
    let (mut acknowledged, mut number) = (Vec::new(), 0);
    while !end.load(Ordering::Relaxed) {
        number += 1;
        tokio::time::sleep(Duration::from_millis(2)).await;
        let Ok(mut client) = Client::connect(nodes[number % nodes.len()]).await else { continue };
        while !end.load(Ordering::Relaxed) {
            number += 1;
            let key = format!("{name}:{number}");
            // Nobody takes the keys of a node that is down; whether one got there is not known then.
            match client.set(&key, &key).await {
                Ok(()) => acknowledged.push(key),
                Err(_) => break,
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    acknowledged
}

#[tokio::test]
async fn a_third_site_is_listed_added_and_joins_while_two_serve() {
    let plan = Plan::new();
    let mut nodes = vec![plan.start(0, 0, &[]), plan.start(0, 1, &[]), plan.start(1, 0, &[])];
    for node in &nodes {
        eventually(node, async || node.is_ready()).await;
    }
    let end = Arc::new(AtomicBool::new(false));
    let writers =
        [("eu", vec![plan.at(0, 0, 0), plan.at(0, 1, 0)]), ("us", vec![plan.at(1, 0, 0)])]
            .map(|(name, nodes)| tokio::spawn(write(name, nodes, end.clone())));
    let mut old = Client::connect(plan.at(0, 0, 0)).await.unwrap();
    old.set("before", "1").await.unwrap();
    let token = old.token().await.unwrap();

    plan.list(3);
    assert!(plan.add(0).unwrap_err().contains("there is no site 'ap'"));
    for (turn, (site, node)) in [(1, 0), (0, 0), (0, 1)].into_iter().enumerate() {
        let place = &mut nodes[if site == 1 { 2 } else { node }];
        place.stop();
        *place = plan.start(site, node, &[]);
        eventually(place, async || place.is_ready()).await;
        if turn < 2 {
            let refused = plan.add(site).unwrap_err();
            let lacking =
                if turn == 0 { "of site eu does not" } else { "node 2 of site eu does not" };
            assert!(refused.contains(lacking), "{refused}");
        }
    }
    // Who is not added gets no data, and says why.
    let new = plan.start(2, 0, &["--join", "1"]);
    let why = |error: &solera::Error| {
        let error = error.to_string();
        error.contains("LOADING") && error.contains("no other site accepts this node")
    };
    eventually(&new, async || {
        let Ok(mut ap) = Client::connect(plan.at(2, 0, 0)).await else { return false };
        ap.command(&["DBSIZE"]).await.is_err_and(|error| why(&error))
    })
    .await;
    let mut added = plan.add(0);
    eventually(&nodes[0], async || {
        if added.is_err() {
            added = plan.add(0);
        }
        added.is_ok()
    })
    .await;
    eventually(&new, async || new.is_ready()).await;
    end.store(true, Ordering::Relaxed);

    let mut ap = Client::connect(plan.at(2, 0, 0)).await.unwrap();
    ap.attach(&token).await.unwrap();
    assert_eq!(ap.get("before").await.unwrap().as_deref(), Some("1"));
    for writer in writers {
        let acknowledged = writer.await.unwrap();
        assert!(!acknowledged.is_empty());
        for key in &acknowledged {
            eventually(&new, async || ap.get(key).await.unwrap().as_ref() == Some(key)).await;
        }
    }
    ap.set("after", "2").await.unwrap();
    let mut us = Client::connect(plan.at(1, 0, 0)).await.unwrap();
    eventually(&nodes[2], async || us.get("after").await.unwrap().is_some()).await;

    // The list does not shrink again.
    nodes[2].stop();
    plan.list(2);
    let mut short = plan.start(1, 0, &[]);
    assert!(!short.child.wait().unwrap().success());
    let told = "it knows the sites eu, us, ap, and the configuration lists only eu, us";
    eventually(&short, async || short.log().contains(told)).await;
    plan.list(3);
    nodes[2] = plan.start(1, 0, &[]);
    eventually(&nodes[2], async || nodes[2].is_ready()).await;
}

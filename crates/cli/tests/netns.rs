//! Cuts real links: three sites, each in a network namespace of its own, are connected by a bridge.
//!
//! Everything is in a namespace that ends with the test, even if the test fails. Namespaces require
//! root and iproute2; without them, the test reports that it was skipped.

mod common;

use std::fmt::Display;
use std::net::SocketAddr;
use std::process::{Child, Command, Output, Stdio};

use common::load::{Recording, judge};
use common::{Folder, Node, SOLERA, eventually, ok, text, wait_until};
use solera::Client;

const TEST: &str = "sites_continue_and_catch_up_when_links_are_cut";
/// Environment variable that is set for the process within the namespace.
const INSIDE: &str = "SOLERA_TEST_INSIDE_NAMESPACE";
const SITES: [&str; 3] = ["eu", "us", "ap"];

#[test]
fn sites_continue_and_catch_up_when_links_are_cut() {
    if std::env::var_os(INSIDE).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        return runtime.unwrap().block_on(cut_links());
    }
    let tried = "ip link add bridge type bridge && ip link add one type veth peer name two && \
                 ip link set one master bridge && ip link set one type bridge_slave isolated on && \
                 nsenter -V";
    let possible = Command::new("unshare").args(["--net", "sh", "-c", tried]).output();
    if let Some(reason) = match possible {
        Ok(done) if done.status.success() => None,
        Ok(done) => Some(text(&done.stderr)),
        Err(error) => Some(error.to_string()),
    } {
        common::skipped(TEST, &format!("no network namespaces here: {reason}"));
        return;
    }
    let inside = Command::new("unshare")
        .arg("--net")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", TEST, "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    assert!(inside.status.success(), "{}{}", text(&inside.stdout), text(&inside.stderr));
}

/// Network namespace of a site. It exists as long as the process that was started in it.
struct SiteNamespace {
    number: usize,
    holder: Child,
}

impl SiteNamespace {
    /// Creates a namespace. `peer` connects it to the bridge, and `client`, which is never cut, to
    /// the test.
    fn new(number: usize) -> SiteNamespace {
        // The process ends with its input, and so at the latest with this process.
        let mut holder = Command::new("unshare");
        let holder = holder.args(["--net", "cat"]).stdin(Stdio::piped()).spawn().unwrap();
        let place = SiteNamespace { number, holder };
        let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net")).unwrap();
        let pid = place.holder.id().to_string();
        wait_until("a namespace", || namespace(&pid) != namespace("self"));
        for (name, address) in [("peer", place.peer()), ("client", place.client())] {
            let (here, host) = (format!("{name}{number}"), format!("{}/24", address.ip()));
            ip(&["link", "add", &here, "type", "veth", "peer", "name", name, "netns", &pid]);
            ip(&["link", "set", &here, "up"]);
            place.run(&["ip", "address", "add", &host, "dev", name]);
            place.run(&["ip", "link", "set", name, "up"]);
        }
        ip(&["link", "set", &format!("peer{number}"), "master", "bridge"]);
        ip(&["address", "add", &format!("10.77.{number}.1/24"), "dev", &format!("client{number}")]);
        place
    }

    fn peer(&self) -> SocketAddr {
        SocketAddr::from(([10, 77, 0, self.number as u8], 7201))
    }

    fn client(&self) -> SocketAddr {
        SocketAddr::from(([10, 77, self.number as u8, 2], 7101))
    }

    fn admin(&self) -> SocketAddr {
        SocketAddr::new(self.client().ip(), 7301)
    }

    /// Returns a command that runs in the namespace.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.holder.id())).arg(program);
        command
    }

    fn run(&self, words: &[&str]) {
        ok(&self.command(words[0]).args(&words[1..]).output().unwrap());
    }
}

impl Drop for SiteNamespace {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn ip(words: &[&str]) {
    let done: Output = Command::new("ip").args(words).output().unwrap();
    assert!(done.status.success(), "ip {}: {}", words.join(" "), text(&done.stderr));
}

/// A temporary fault of links.
struct Cut {
    what: &'static str,
    how: How,
    /// Numbers of the sites whose ports of the bridge are affected, from 1.
    ports: &'static [usize],
    /// Pairs of sites that cannot reach each other, numbered from 0.
    apart: &'static [(usize, usize)],
}

enum How {
    /// The interface is down, so that the other end notices the fault.
    Unplugged,
    /// An isolated port reaches only ports that are not isolated. The bridge drops other packets
    /// silently.
    Isolated,
}

const CUTS: [Cut; 3] = [
    Cut {
        what: "the first site is unplugged",
        how: How::Unplugged,
        ports: &[1],
        apart: &[(0, 1), (0, 2)],
    },
    Cut {
        what: "packets vanish between all",
        how: How::Isolated,
        ports: &[1, 2, 3],
        apart: &[(0, 1), (0, 2), (1, 2)],
    },
    Cut {
        what: "packets vanish between the first two sites, and both reach the third",
        how: How::Isolated,
        ports: &[1, 2],
        apart: &[(0, 1)],
    },
];

impl Cut {
    fn begin(&self) {
        match self.how {
            How::Unplugged => self.each_port(&["down"]),
            How::Isolated => self.each_port(&["type", "bridge_slave", "isolated", "on"]),
        }
    }

    fn end(&self) {
        match self.how {
            How::Unplugged => self.each_port(&["up"]),
            How::Isolated => self.each_port(&["type", "bridge_slave", "isolated", "off"]),
        }
    }

    fn each_port(&self, change: &[&str]) {
        for port in self.ports {
            ip(&[&["link", "set", &format!("peer{port}")], change].concat());
        }
    }
}

async fn cut_links() {
    let folder = Folder::new();
    ip(&["link", "add", "bridge", "type", "bridge"]);
    ip(&["link", "set", "bridge", "up"]);
    let places: Vec<SiteNamespace> = (1..=SITES.len()).map(SiteNamespace::new).collect();
    let mut config = "f = 1\n".to_owned();
    for (name, place) in SITES.iter().zip(&places) {
        let (resp, peer, admin) = (place.client(), place.peer(), place.admin());
        config += &format!("[[site]]\nname = '{name}'\n[[site.node]]\n");
        config += &format!("resp = '{resp}'\npeer = '{peer}'\nadmin = '{admin}'\nworkers = 2\n");
    }
    let config = folder.file("solera.toml", &config);
    let start = |(name, place): (&&str, &SiteNamespace)| {
        let mut command = place.command(SOLERA);
        command.args(["serve", "--site", name, "--config"]).arg(&config);
        Node::start(&mut command, place.client(), place.admin())
    };
    let nodes: Vec<Node> = SITES.iter().zip(&places).map(start).collect();
    for node in &nodes {
        eventually(node, async || node.reaches_all()).await;
    }
    let gateways: Vec<_> = nodes.iter().map(|node| node.resp).enumerate().collect();
    let seed = u64::from(std::process::id());
    let recording = Recording::start(seed, &[gateways.clone(), gateways].concat());
    let mut clients = Vec::new();
    for node in &nodes {
        clients.push(node.client().await);
    }
    let mut counted = 0;
    for (number, cut) in CUTS.iter().enumerate() {
        cut.begin();
        let what = cut.what;
        for &(a, b) in cut.apart {
            for (node, other) in [(&nodes[a], SITES[b]), (&nodes[b], SITES[a])] {
                eventually(format_args!("{what}\n{node}"), async || !reaches(node, other)).await;
            }
        }
        counted += go_on(&recording, &mut clients, what).await;
        let (a, b) = cut.apart[0];
        let key = format!("news{number}");
        clients[a].set(&key, what).await.unwrap();
        if cut.apart.len() > 1 {
            assert_eq!(clients[b].get(&key).await.unwrap(), None, "{what}: it is not cut");
        } else {
            // The third site forwards the transaction.
            sees(&nodes[b], &mut clients[b], &key, what).await;
        }
        cut.end();
        for node in &nodes {
            eventually(format_args!("{what}\n{node}"), async || node.reaches_all()).await;
        }
        for (node, client) in nodes.iter().zip(&mut clients) {
            sees(node, client, &key, what).await;
            sees(node, client, "count", &counted.to_string()).await;
        }
    }
    let transactions = recording.stop().await;
    let gateways: Vec<_> = nodes.iter().map(|node| (node.resp, node as &dyn Display)).collect();
    let gateways = gateways.into_iter().enumerate().map(|(site, (resp, node))| (site, resp, node));
    judge(seed, SITES.len(), transactions, &gateways.collect::<Vec<_>>()).await;
    // No increment was applied twice, not even late.
    for client in &mut clients {
        assert_eq!(client.get("count").await.unwrap(), Some(counted.to_string()));
    }
}

fn reaches(node: &Node, site: &str) -> bool {
    let status = node.status();
    let sites = status["sites"].as_array().unwrap();
    sites.iter().any(|other| other["name"] == site && other["reached"] == true)
}

/// Requires that every site serves its clients; returns the number of increments.
async fn go_on(recording: &Recording, clients: &mut [Client], what: &str) -> usize {
    let before: Vec<_> = (0..SITES.len()).map(|site| recording.committed_at(site)).collect();
    let mut counted = 0;
    for (site, client) in clients.iter_mut().enumerate() {
        for _ in 0..20 {
            client.incr_by("count", 1).await.unwrap();
            counted += 1;
        }
        eventually(format_args!("{what}: {} goes on", SITES[site]), async || {
            recording.committed_at(site) >= before[site] + 20
        })
        .await;
    }
    counted
}

async fn sees(node: &Node, client: &mut Client, key: &str, value: &str) {
    eventually(format_args!("{key} is '{value}'\n{node}"), async || {
        client.get(key).await.unwrap().as_deref() == Some(value)
    })
    .await;
}

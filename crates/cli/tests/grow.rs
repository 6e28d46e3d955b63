//! Adds a site to running nodes: two sites accept writes while a third one is listed in the
//! configuration of their nodes, one after another, is added, and joins.

mod common;

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Folder, Node, SOLERA, eventually, free_ports, solera, text};
use solera::Client;

/// Names of the sites, with their numbers of nodes.
const SITES: [(&str, usize); 3] = [("eu", 2), ("us", 1), ("ap", 1)];

/// Configuration and data of the nodes.
struct Plan {
    port: u16,
    folder: Folder,
}

impl Plan {
    fn new() -> Plan {
        let port = free_ports(&["127.0.0.1", "127.0.0.2", "127.0.0.3"]);
        let plan = Plan { port, folder: Folder::new() };
        plan.list(2);
        plan
    }

    /// Lists this number of sites in the configuration file.
    fn list(&self, sites: usize) {
        let mut file = String::new();
        for (site, (name, nodes)) in SITES.iter().enumerate().take(sites) {
            file += &format!("[[site]]\nname = '{name}'\n");
            for node in 0..*nodes {
                let [resp, peer, admin] = [0, 1, 2].map(|purpose| self.at(site, node, purpose));
                file += &format!(
                    "[[site.node]]\nresp = '{resp}'\npeer = '{peer}'\nadmin = '{admin}'\n"
                );
            }
        }
        self.folder.file("solera.toml", &file);
    }

    fn at(&self, site: usize, node: usize, purpose: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, site as u8 + 1], self.port + node as u16 * 3 + purpose))
    }

    fn start(&self, site: usize, node: usize, more: &[&str]) -> Node {
        let name = SITES[site].0;
        let mut command = Command::new(SOLERA);
        command.args(["serve", "--site", name, "--node", &(node + 1).to_string(), "--config"]);
        command.arg(self.folder.join("solera.toml")).arg("--data");
        command.arg(self.folder.join(format!("{name}-{node}"))).args(more);
        Node::start(&mut command, self.at(site, node, 0), self.at(site, node, 2))
    }

    /// Runs `solera site add ap` against a site.
    fn add(&self, site: usize) -> Result<(), String> {
        let at = self.at(site, 0, 0).to_string();
        let done = solera(&["site", "add", "ap", "--at", &at]);
        if done.status.success() { Ok(()) } else { Err(text(&done.stderr)) }
    }
}

/// Stops a node as an operator does.
fn stop(node: &mut Node) {
    node.signal("-TERM");
    node.wait();
}

/// Writes one key after another until `end` is set, at whichever of these nodes answers. Returns
/// the acknowledged keys.
async fn write(name: &'static str, nodes: Vec<SocketAddr>, end: Arc<AtomicBool>) -> Vec<String> {
    let (mut acknowledged, mut number) = (Vec::new(), 0);
    while !end.load(Ordering::Relaxed) {
        number += 1;
        tokio::time::sleep(Duration::from_millis(2)).await;
        let Ok(mut client) = Client::connect(nodes[number % nodes.len()]).await else { continue };
        while !end.load(Ordering::Relaxed) {
            number += 1;
            let key = format!("{name}:{number}");
            // No other node serves the keys of a stopped node. Whether this write took effect is
            // unknown.
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
        stop(place);
        *place = plan.start(site, node, &[]);
        eventually(&*place, async || place.is_ready()).await;
        if turn < 2 {
            let refused = plan.add(site).unwrap_err();
            let lacking =
                if turn == 0 { "of site eu does not" } else { "node 2 of site eu does not" };
            assert!(refused.contains(lacking), "{refused}");
        }
    }
    // A node of a site that was not added receives no data, and reports the reason.
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

    // A site cannot be removed from the list of the configuration.
    stop(&mut nodes[2]);
    plan.list(2);
    let mut short = plan.start(1, 0, &[]);
    assert!(!short.child.wait().unwrap().success());
    let expected = "it knows the sites eu, us, ap, and the configuration lists only eu, us";
    eventually(&short, async || short.log().contains(expected)).await;
    plan.list(3);
    nodes[2] = plan.start(1, 0, &[]);
    eventually(&nodes[2], async || nodes[2].is_ready()).await;
}

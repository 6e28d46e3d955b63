//! Tests homes of spaces of level `pcpsi` that move, fail, leave and join, through the user's
//! interfaces.

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Folder, Node, Process, SOLERA, Up, eventually, free_ports, ok, solera, text};
use solera::{Client, Error, Value};
use tokio::task::JoinSet;

const SITES: [&str; 3] = ["eu", "us", "ap"];

/// Homes of `s:` keys are at all sites, those of `w:` keys at the second one.
const SPACES: &str = "\
workers = 2
f = 1
[[space]]
name = 'stock'
prefix = 's:'
level = 'pcpsi'
[[space]]
name = 'west'
prefix = 'w:'
level = 'pcpsi'
home = 'us'
";

/// A single site.
const SITE: &str = "[[site]]\nname = 'us'\n";

/// Configuration of `solera up` with three sites.
fn in_one_process() -> Up {
    let sites = SITES.map(|name| format!("[[site]]\nname = '{name}'\n")).concat();
    Up::configured(Box::leak(format!("{SPACES}{sites}").into_boxed_str()), "")
}

/// Runs `solera home` against a site of `solera up`, while other tasks continue.
async fn home(up: &Up, at: u16, arguments: &[&str]) -> Output {
    let mut command = Command::new(SOLERA);
    command.arg("home").args(arguments).args(["--at", &up.at(at)]);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// Starts `solera up` with a changed configuration over existing data, and returns its error.
fn refused(port: u16, folder: &Folder, settings: &str) -> String {
    let (file, data) = (folder.file("changed.toml", settings), folder.at("data"));
    let mut up = Command::new(SOLERA);
    up.args(["up", "--port", &port.to_string()]).args(common::keeping(&file, &data));
    let mut up = Process::start(up.stdout(Stdio::piped()));
    let mut said = BufReader::new(up.child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(!said.any(|line| line.contains("Ctrl-C")), "it has started with\n{settings}");
    assert!(!up.wait().success());
    up.log()
}

#[tokio::test]
async fn a_space_that_has_data_keeps_its_home() {
    let sites = SITES.map(|name| format!("[[site]]\nname = '{name}'\n")).concat();
    let (settings, folder) = (format!("{SPACES}{sites}"), Folder::new());
    let (file, data) = (folder.file("s.toml", &settings), folder.at("data"));
    let mut up = Up::start(&common::keeping(&file, &data));
    let mut client = up.client(1).await;
    for key in ["w:1", "w:2", "w:3"] {
        client.set(key, "1").await.unwrap();
    }
    // Until every site has the writes in its journal.
    client.command(&["SOLERA.BARRIER"]).await.unwrap();
    drop(client);
    up.kill();
    let to_eu = settings.replace("home = 'us'", "home = 'eu'");
    let to_hash = settings.replace("home = 'us'", "home = 'hash'");
    for changed in [to_eu, to_hash] {
        let said = refused(up.port, &folder, &changed);
        assert!(said.contains("the space with the prefix 'w:' had another `home`"), "{said}");
        assert!(said.contains("`solera home move`"), "{said}");
    }
    // The space `stock` has no data.
    let stock = settings.replacen("level = 'pcpsi'\n", "level = 'pcpsi'\nhome = 'ap'\n", 1);
    let file = folder.file("stock.toml", &stock);
    let up = Up::again(up.port, &common::keeping(&file, &data));
    let mut client = up.client(2).await;
    assert_eq!(client.get("w:1").await.unwrap().as_deref(), Some("1"));
}

#[tokio::test]
async fn a_space_that_has_data_keeps_or_lacks_the_level_pcpsi() {
    let settings = format!("[[space]]\nname = 'c'\nprefix = 'c:'\nlevel = 'causal'\n{SITE}");
    let settings = format!("{}{settings}", SPACES.replace("f = 1", "f = 0"));
    let folder = Folder::new();
    let (file, data) = (folder.file("s.toml", &settings), folder.at("data"));
    let mut up = Up::start(&common::keeping(&file, &data));
    let mut client = up.client(1).await;
    client.set("s:1", "1").await.unwrap();
    client.command(&["HSET", "c:1", "a", "1"]).await.unwrap();
    drop(client);
    up.kill();
    let said = refused(up.port, &folder, &settings.replace("'causal'", "'pcpsi'"));
    assert!(said.contains("'c:1' was written while its space had another level than"), "{said}");
    assert!(said.contains("`solera backup`, and `solera restore`"), "{said}");
    // The space `west` still has level pcpsi, so that the nodes run its protocol.
    let said = refused(up.port, &folder, &settings.replacen("'pcpsi'", "'causal'", 1));
    assert!(said.contains("'s:1' was written while its space had level 'pcpsi'"), "{said}");
    let up = Up::again(up.port, &common::keeping(&file, &data));
    let mut client = up.client(1).await;
    assert_eq!(client.get("s:1").await.unwrap().as_deref(), Some("1"));
}

/// Three sites of one node each.
struct Nodes {
    port: u16,
    folder: Folder,
    nodes: Vec<Node>,
}

impl Nodes {
    async fn start() -> Nodes {
        let mut all =
            Nodes { port: free_ports(&["127.0.0.1"]), folder: Folder::new(), nodes: Vec::new() };
        let mut settings = SPACES.to_owned();
        for (site, name) in SITES.iter().enumerate() {
            let [resp, peer, admin] = [0, 1, 2].map(|purpose| all.at(site, purpose));
            settings += &format!(
                "[[site]]\nname = '{name}'\n[[site.node]]\nresp = '{resp}'\npeer = '{peer}'\n\
                 admin = '{admin}'\n"
            );
        }
        all.folder.file("solera.toml", &settings);
        all.nodes = (0..3).map(|site| all.node(site, SITES[site], &[])).collect();
        for node in &all.nodes {
            eventually(node, async || node.reaches_all()).await;
        }
        all
    }

    fn at(&self, site: usize, purpose: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port + 3 * site as u16 + purpose))
    }

    /// Starts the node of a site with this data directory.
    fn node(&self, site: usize, data: &str, more: &[&str]) -> Node {
        let mut command = Command::new(SOLERA);
        command.args(["serve", "--site", SITES[site], "--config"]);
        command.arg(self.folder.join("solera.toml")).arg("--data").arg(self.folder.join(data));
        command.args(more);
        Node::start(&mut command, self.at(site, 0), self.at(site, 2))
    }

    /// Runs a command of `solera` against a site.
    fn run(&self, at: usize, arguments: &[&str]) -> Output {
        let at = self.at(at, 0).to_string();
        solera(&[arguments, &["--at", &at]].concat())
    }

    /// Starts a client of each of these sites that increments until `end` is set.
    fn incrementers(&self, sites: &[usize], end: &Arc<AtomicBool>) -> JoinSet<Counted> {
        let mut all = JoinSet::new();
        for site in sites {
            all.spawn(increment(self.at(*site, 0), end.clone()));
        }
        all
    }
}

/// Keys of counters, with homes at all sites.
fn counters() -> Vec<String> {
    (0..12).map(|place| format!("{}{place}", if place % 4 == 0 { "w:" } else { "s:" })).collect()
}

/// Increments of each counter that were acknowledged, and those whose outcome is unknown.
#[derive(Debug, Default)]
struct Counted {
    done: BTreeMap<String, i64>,
    unknown: BTreeMap<String, i64>,
}

/// Increments one counter after another, alone and by two in a transaction, until `end` is set.
/// Connects again after each error.
async fn increment(at: SocketAddr, end: Arc<AtomicBool>) -> Counted {
    let (mut counted, keys) = (Counted::default(), counters());
    let mut turn = 0;
    while !end.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(2)).await;
        let Ok(mut client) = Client::connect(at).await else { continue };
        while !end.load(Ordering::Relaxed) {
            turn += 1;
            let (one, other) = (&keys[turn % keys.len()], &keys[(turn * 5 + 1) % keys.len()]);
            let both = turn % 3 == 0 && one != other;
            let changed = if both { vec![one, other] } else { vec![one] };
            let done = match both {
                true => increment_both(&mut client, one, other).await,
                false => client.incr_by(one, 1).await.map(|_| true),
            };
            let without_effect = |error: &Error| {
                matches!(error.code(), Some("TRYAGAIN" | "LOADING" | "LOST" | "ABORTED"))
            };
            let into = match &done {
                Ok(true) => Some(&mut counted.done),
                Ok(false) => None,
                Err(error) if without_effect(error) => None,
                Err(_) => Some(&mut counted.unknown),
            };
            if let Some(into) = into {
                changed.iter().for_each(|key| *into.entry((*key).clone()).or_default() += 1);
            }
            if done.is_err() {
                break;
            }
        }
    }
    counted
}

/// Increments two counters in one transaction. Returns whether it was committed.
async fn increment_both(client: &mut Client, one: &str, other: &str) -> Result<bool, Error> {
    client.command(&["MULTI"]).await?;
    client.command(&["INCR", one]).await?;
    client.command(&["INCR", other]).await?;
    Ok(client.command(&["EXEC"]).await? != Value::Null)
}

/// Requires that no acknowledged increment is lost, and that none was done twice.
async fn is_all_there(counts: Vec<Counted>, client: &mut Client) {
    for key in counters() {
        let of = |map: &BTreeMap<String, i64>| map.get(&key).copied().unwrap_or(0);
        let done: i64 = counts.iter().map(|counted| of(&counted.done)).sum();
        let unknown: i64 = counts.iter().map(|counted| of(&counted.unknown)).sum();
        assert!(done > 0, "{key}: {counts:?}");
        let mut found = None;
        // An update of zero is executed at the home.
        eventually(format_args!("{key} is served"), async || {
            found = client.incr_by(&key, 0).await.ok();
            found.is_some()
        })
        .await;
        let found = found.unwrap();
        assert!((done..=done + unknown).contains(&found), "{key}: {done} + {unknown}, not {found}");
    }
}

#[tokio::test]
async fn moves_of_homes_lose_no_update_of_clients_that_write_meanwhile() {
    let up = in_one_process();
    let end = Arc::new(AtomicBool::new(false));
    let mut all = JoinSet::new();
    for site in [1, 2, 3, 1] {
        all.spawn(increment(up.address(site), end.clone()));
    }
    for to in ["us", "ap", "eu", "us"] {
        for key in counters() {
            ok(&home(&up, 1, &["move", "--shard-of", &key, "--to", to]).await);
        }
    }
    ok(&home(&up, 2, &["move", "--shards", "0-99", "200", "--to", "ap"]).await);
    end.store(true, Ordering::Relaxed);
    let counts = all.join_all().await;
    is_all_there(counts, &mut up.client(3).await).await;
    eventually("the other sites know all moves", async || {
        let listed = home(&up, 3, &["list", "--json"]).await;
        let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
        listed["moves"] == 49
    })
    .await;
    for (arguments, reason) in [
        (&["move", "--from", "mars", "--to", "eu"][..], "mars"),
        (&["move", "--shards", "7-3", "--to", "eu"], "'7-3' is no shard"),
        (&["move", "--shard-of", "causal", "--to", "eu"], "in no space of level pcpsi"),
        (&["move", "--shards", "1", "--from", "us", "--to", "eu"], "cannot be used with"),
    ] {
        let refused = home(&up, 1, arguments).await;
        let said = text(&refused.stderr);
        assert!(!refused.status.success() && said.contains(reason), "{said}");
    }
}

/// The second site is cut off, and accepts a write that no other site gets. Then it fails, and its
/// homes are taken by force.
#[tokio::test]
async fn sessions_that_saw_a_write_which_is_lost_get_an_error() {
    let up = in_one_process();
    let mut two = up.client(2).await;
    two.set("w:1", "kept").await.unwrap();
    two.barrier(None).await.unwrap();
    let before = two.token().await.unwrap();
    ok(&up.fault(&["cut", "2", "1"]));
    ok(&up.fault(&["cut", "2", "3"]));
    two.set("w:1", "lost").await.unwrap();
    let token = two.token().await.unwrap();
    let mut depends = up.client(1).await;
    depends.attach(&token).await.unwrap();
    let mut waits = up.client(3).await;
    waits.attach(&token).await.unwrap();
    ok(&up.fault(&["kill", "2"]));
    // A read that has begun before does not return the older value either.
    let read = tokio::spawn(async move { waits.get("w:1").await });
    ok(&home(&up, 1, &["move", "--from", "us", "--to", "eu", "--force"]).await);
    let read = read.await.unwrap().unwrap_err();
    assert!(matches!(read.code(), Some("LOST" | "TRYAGAIN")), "{read}");
    let lost = |error: Error| {
        assert_eq!(error.code(), Some("LOST"), "{error}");
        assert!(error.to_string().contains("RESET"), "{error}");
    };
    for command in [&["GET", "w:1"][..], &["SET", "s:1", "x"], &["SOLERA.TOKEN"]] {
        lost(depends.command(command).await.unwrap_err());
    }
    for site in [1, 3] {
        let mut other = up.client(site).await;
        eventually("the site knows what is lost", async || {
            other.attach(&token).await.is_err_and(|error| error.code() == Some("LOST"))
        })
        .await;
        other.attach(&before).await.unwrap();
        assert_eq!(other.get("w:1").await.unwrap().as_deref(), Some("kept"), "at site {site}");
    }
    depends.set("causal", "x").await.unwrap();
    depends.command(&["RESET"]).await.unwrap();
    assert_eq!(depends.get("w:1").await.unwrap().as_deref(), Some("kept"));
    depends.set("w:1", "new").await.unwrap();
    let after = depends.token().await.unwrap();
    // When the site is back, it has the new home's data, and not its own.
    ok(&up.fault(&["heal"]));
    ok(&up.fault(&["restart", "2"]));
    let mut back = None;
    eventually("the site is back", async || {
        back = up.try_client(2).await.ok();
        match &mut back {
            Some(back) => back.attach(&after).await.is_ok(),
            None => false,
        }
    })
    .await;
    let mut back = back.unwrap();
    assert_eq!(back.get("w:1").await.unwrap().as_deref(), Some("new"));
    eventually("it learns what was lost", async || {
        let mut other = up.client(2).await;
        other.attach(&token).await.is_err_and(|error| error.code() == Some("LOST"))
    })
    .await;
    assert_eq!(back.incr_by("s:7", 1).await.unwrap(), 1);
}

/// A node that is killed during transactions keeps what it has acknowledged, and decides what it
/// had not.
#[tokio::test]
async fn killed_nodes_keep_acknowledged_updates_and_finish_transactions() {
    let mut all = Nodes::start().await;
    let end = Arc::new(AtomicBool::new(false));
    let clients = all.incrementers(&[0, 1, 2, 0], &end);
    for site in [1, 0, 2] {
        tokio::time::sleep(Duration::from_millis(400)).await;
        all.nodes[site].kill();
        all.nodes[site] = all.node(site, SITES[site], &[]);
        eventually(&all.nodes[site], async || all.nodes[site].is_ready()).await;
    }
    tokio::time::sleep(Duration::from_millis(400)).await;
    end.store(true, Ordering::Relaxed);
    is_all_there(clients.join_all().await, &mut all.nodes[2].client().await).await;
    // No lock is left, and nothing is undecided.
    for node in &all.nodes {
        eventually(node, async || {
            let status = node.status();
            let own = &status["own_site"]["occult"];
            own["prepared_transactions"] == 0 && own["hidden_writes"] == 0
        })
        .await;
    }
}

#[tokio::test]
async fn a_removed_site_leaves_its_homes_to_others_and_joins_again() {
    let mut all = Nodes::start().await;
    let mut eu = all.nodes[0].client().await;
    let keys: Vec<String> = (0..60)
        .map(|place| format!("{}{place}", if place % 3 == 0 { "w:" } else { "s:" }))
        .collect();
    for key in &keys {
        eu.set(key, key).await.unwrap();
    }
    eu.barrier(None).await.unwrap();
    let token = eu.token().await.unwrap();
    all.nodes[1].kill();
    let removed = all.run(0, &["site", "remove", "us", "--force"]);
    ok(&removed);
    let listed = text(&all.run(0, &["home", "list"]).stdout);
    assert!(listed.lines().any(|line| line.starts_with("us") && line.ends_with(" 0")), "{listed}");
    let mut ap = all.nodes[2].client().await;
    ap.attach(&token).await.unwrap();
    for (place, key) in keys.iter().enumerate() {
        eventually(format_args!("{key} is readable"), async || ap.get(key).await.is_ok()).await;
        assert_eq!(ap.get(key).await.unwrap().as_ref(), Some(key));
        if place % 2 == 0 {
            eventually(format_args!("{key} is writable"), async || {
                ap.set(key, "new").await.is_ok()
            })
            .await;
        }
    }
    let token = ap.token().await.unwrap();
    eventually(&all.nodes[0], async || all.run(0, &["site", "add", "us"]).status.success()).await;
    all.nodes[1] = all.node(1, "us-again", &["--join", "1"]);
    eventually(&all.nodes[1], async || all.nodes[1].is_ready()).await;
    let mut us = all.nodes[1].client().await;
    us.attach(&token).await.unwrap();
    for (place, key) in keys.iter().enumerate() {
        let expected = if place % 2 == 0 { "new" } else { key };
        assert_eq!(us.get(key).await.unwrap().as_deref(), Some(expected), "{key}");
    }
    assert_eq!(us.command(&["DBSIZE"]).await.unwrap(), Value::Integer(60), "without the moves");
    ok(&all.run(1, &["home", "move", "--from", "eu", "--to", "us"]));
    assert_eq!(us.incr_by("s:counter", 5).await.unwrap(), 5);
    assert_eq!(ap.incr_by("s:counter", 5).await.unwrap(), 10);
}

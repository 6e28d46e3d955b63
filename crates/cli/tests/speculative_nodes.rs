//! A space of level `speculative` whose sites are processes: they are killed, stopped, removed, and
//! join without data.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use common::nodes::{Plan, SITES, try_ask};
use common::{Inline, Node, agree, eventually, field_of, wait_until};

const SPACE: &str = "[[space]]\nname = 'stock'\nprefix = 's:'\nlevel = 'speculative'\n";

/// Calls strong and weak operations at a site until `end` is set, and reports the tickets.
fn load(at: SocketAddr, end: &AtomicBool, tickets: &Sender<String>) {
    let mut client = None;
    while !end.load(Ordering::Relaxed) {
        try_ask(&mut client, at, "INCRBY s:n 3");
        match try_ask(&mut client, at, "SOLERA.CALL STRONG INCRBY s:n 1") {
            Some(called) if called.starts_with("ticket") => {
                tickets.send(field_of(&called, "ticket")).unwrap();
            }
            _ => thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Fetches the stable results of tickets, each at the site to which its turn falls, as long as the
/// clients make tickets.
fn collect(
    addresses: [SocketAddr; 3],
    tickets: mpsc::Receiver<String>,
    count: &AtomicUsize,
) -> BTreeMap<String, String> {
    let mut clients = [None, None, None];
    let mut results = BTreeMap::new();
    for (turn, ticket) in (0..).zip(tickets) {
        let mut site: usize = turn % 3;
        let result = loop {
            let line = format!("SOLERA.STABLE {ticket} 2000");
            match try_ask(&mut clients[site], addresses[site], &line) {
                Some(result) if !result.starts_with('-') => break result,
                // The site is stopped or killed, or cut off.
                _ => site = (site + 1) % 3,
            }
        };
        results.insert(ticket, result);
        count.fetch_add(1, Ordering::Relaxed);
    }
    results
}

fn leader(plan: &Plan, site: usize) -> usize {
    let name = field_of(&plan.client(site).ask("SOLERA.STATE stock"), "leader");
    SITES.iter().position(|it| *it == name).unwrap_or(site)
}

/// Leaders are stopped and killed under load. A replay of the log gives each stable result.
#[tokio::test]
async fn stable_results_are_those_of_the_log_though_leaders_stop_and_die() {
    let (plan, mut nodes) = Plan::start(SPACE).await;
    let end = Arc::new(AtomicBool::new(false));
    let addresses = [0, 1, 2].map(|site| plan.at(site, 0));
    let (sender, tickets) = mpsc::channel();
    let loads = addresses.map(|at| {
        let (end, sender) = (Arc::clone(&end), sender.clone());
        thread::spawn(move || load(at, &end, &sender))
    });
    drop(sender);
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let collector = thread::spawn(move || collect(addresses, tickets, &counted));
    for round in 0..4 {
        let before = count.load(Ordering::Relaxed);
        wait_until("results", || count.load(Ordering::Relaxed) > before + 10);
        let leads = leader(&plan, round % 3);
        if round % 2 == 0 {
            nodes[leads].signal("-STOP");
            // The others elect another leader meanwhile.
            let other = (leads + 1) % 3;
            wait_until("another leader", || leader(&plan, other) != leads);
            nodes[leads].signal("-CONT");
        } else {
            nodes[leads].kill();
            nodes[leads] = plan.run(leads, &[]);
        }
        for node in &nodes {
            eventually(node, async || node.is_ready()).await;
        }
    }
    end.store(true, Ordering::Relaxed);
    loads.into_iter().for_each(|load| load.join().unwrap());
    let results = collector.join().unwrap();
    agree(&mut [0, 1, 2].map(|site| plan.client(site)));
    let mut client = plan.client(1);
    let count: usize = field_of(&client.ask("SOLERA.STATE stock"), "final").parse().unwrap();
    let (mut value, mut found) = (0, 0);
    for position in 1..=count {
        let entry = client.ask(&format!("SOLERA.LOG stock {position} 1"));
        let words: Vec<&str> = entry.split(' ').collect();
        assert_eq!(words[0], format!(":{position}"), "{entry}");
        value += words.get(5).map_or(0, |by| by.parse::<i64>().unwrap());
        if let Some(result) = results.get(words[1]) {
            assert_eq!(*result, format!(":{value}"), "{entry}");
            found += 1;
        }
    }
    assert!(found == results.len() && found > 20, "{found} of {}", results.len());
    assert_eq!(client.ask("GET s:n"), value.to_string());
}

/// Returns how much of the space a joining site has.
fn fetched(node: &Node) -> serde_json::Value {
    node.status()["own_site"]["speculative"]["joining"].clone()
}

/// A site fails for good, with operations that no other site has. It is removed, and joins again
/// without data, while the others serve.
#[tokio::test]
async fn a_site_that_failed_is_removed_and_joins_again() {
    let (plan, mut nodes) = Plan::start(SPACE).await;
    let [mut eu, mut ap] = [0, 2].map(|site| plan.client(site));
    assert_eq!(eu.ask("SET s:a first"), "+OK");
    assert_eq!(ap.ask("SADD s:set x y"), ":2");
    // More than fits into one piece of a transfer.
    let text = "x".repeat(30_000);
    for number in 0..40 {
        assert_eq!(eu.ask(&format!("SET s:long{number} {text}")), "+OK");
    }
    assert_eq!(ap.ask("SOLERA.BARRIER 20000"), "+OK");
    // Only the site itself has what it does while the others are down.
    nodes[..2].iter_mut().for_each(|node| node.kill());
    let lost = ap.ask("SOLERA.CALL TRACK WEAK SET s:lost 1");
    let lost = field_of(&lost, "ticket");
    let token = ap.ask("SOLERA.TOKEN");
    nodes[2].kill();
    for (site, node) in nodes[..2].iter_mut().enumerate() {
        *node = plan.run(site, &[]);
    }
    for node in &nodes[..2] {
        eventually(node, async || node.is_ready()).await;
    }
    plan.site(&["remove", "ap", "--force"]);
    let [mut eu, mut us] = [0, 1].map(|site| plan.client(site));
    assert_eq!(eu.ask("SOLERA.CALL INCR s:n"), ":1");
    let answer = us.ask(&format!("SOLERA.STABLE {lost}"));
    let expected = format!("-LOST the operation {lost} was invoked at site ap");
    assert!(answer.starts_with(&expected), "{answer}");
    let answer = us.ask(&format!("SOLERA.ATTACH {token}"));
    assert!(answer.starts_with("-LOST"), "{answer}");
    agree(&mut [0, 1].map(|site| plan.client(site)));

    fs::remove_dir_all(plan.folder.join("ap")).unwrap();
    plan.site(&["add", "ap"]);
    let stop = Arc::new(AtomicBool::new(false));
    let counted = Arc::new(Mutex::new(0));
    let writer = {
        let (stop, counted, at) = (Arc::clone(&stop), Arc::clone(&counted), plan.at(1, 0));
        thread::spawn(move || {
            let mut us = Inline::at(at);
            while !stop.load(Ordering::Relaxed) {
                assert!(us.ask("SOLERA.CALL INCR s:m").starts_with(':'));
                *counted.lock().unwrap() += 1;
            }
        })
    };
    // Of another generation, which the others refuse.
    let wrong = plan.run(2, &["--join", "7"]);
    eventually(&wrong, async || wrong.http("/ready").is_some()).await;
    let answer = plan.client(2).ask(&format!("SOLERA.STABLE {lost}"));
    assert!(answer.starts_with("-LOADING site ap"), "{answer}");
    assert_eq!(fetched(&wrong), serde_json::json!({ "bytes": 0, "of_bytes": 0 }));
    drop(wrong);
    nodes[2] = plan.run(2, &["--join", "1"]);
    eventually(&nodes[2], async || nodes[2].is_ready()).await;
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    assert_eq!(fetched(&nodes[2]), serde_json::Value::Null);
    agree(&mut [0, 1, 2].map(|site| plan.client(site)));
    let mut ap = plan.client(2);
    assert_eq!(ap.ask("MGET s:a s:n s:lost"), "first 1 nil");
    assert_eq!(ap.ask("SMEMBERS s:set"), "x y");
    assert_eq!(ap.ask("GET s:long39"), text);
    assert_eq!(ap.ask("GET s:m"), counted.lock().unwrap().to_string());
    let again = ap.ask("SOLERA.CALL STRONG INCR s:n");
    let ticket = field_of(&again, "ticket");
    assert_eq!(eu.ask(&format!("SOLERA.STABLE {ticket} 20000")), ":2");
    // It survives a restart, and the failure of another site.
    nodes[2].kill();
    nodes[2] = plan.run(2, &[]);
    eventually(&nodes[2], async || nodes[2].is_ready()).await;
    nodes[0].kill();
    let mut ap = plan.client(2);
    assert_eq!(ap.ask("SOLERA.CALL INCR s:n"), ":3");
    agree(&mut [1, 2].map(|site| plan.client(site)));
}

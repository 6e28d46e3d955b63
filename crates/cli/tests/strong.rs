//! Tests strong transactions with real clients: partitions, remote leaders, contention, and
//! vanished clients.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use common::{Folder, Inline, STRONG_SPACES, Up, eventually, named, number, ok, solera, text};
use solera::{Client, Error, Value};
use tokio::task::JoinHandle;

/// `solera up` with three sites and both levels of strong spaces.
fn up(folder: &Folder, arguments: &[&str]) -> Up {
    let config = folder.file("strong.toml", STRONG_SPACES);
    Up::start(&[&["--config", config.to_str().unwrap()], arguments].concat())
}

async fn outcome(client: &mut Client, transaction: &str) -> String {
    match client.command(&["SOLERA.OUTCOME", transaction]).await.unwrap() {
        Value::Simple(outcome) => outcome,
        other => panic!("{other:?}"),
    }
}

// An unreachable site.

#[tokio::test]
async fn an_unreachable_site_reports_unknown_outcomes_and_later_resolves_them() {
    let folder = Folder::new();
    let up = up(&folder, &[]);
    let mut other = up.client(1).await;
    // With a leader at another site, the transaction never arrives there; with the leader at this
    // site, no other site votes.
    for (round, led_by) in ["virginia", "frankfurt"].into_iter().enumerate() {
        let (account, many) = (format!("account:{round}"), format!("account:many:{round}"));
        ok(&solera(&["leader", "move", led_by, "--at", &up.at(1)]));
        let mut client = up.client(3).await;
        client.set(&account, "10").await.unwrap();
        client.set(&many, "10").await.unwrap();
        for site in ["1", "2"] {
            ok(&up.fault(&["cut", "3", site]));
        }
        let single = ["DECRBY", &account, "1"];
        let (single, transaction, exec, read, causal) = tokio::join!(
            strong_alone(&up, &single),
            strong_transaction(&up, &["SOLERA.BEGIN", "STRONG"], &many, "SOLERA.COMMIT"),
            strong_transaction(&up, &["MULTI"], &many, "EXEC"),
            strong_alone(&up, &["GET", "lock:none"]),
            causal_work(&up, round),
        );
        assert_eq!(causal, 20, "causal work does not go on");
        assert!(read.to_string().contains("nothing was changed"), "{read}");
        let mut open = Vec::new();
        for error in [&single, &transaction, &exec] {
            assert_eq!(error.code(), Some("UNAVAILABLE"), "{error}");
            assert!(error.to_string().contains("is not known"), "{error}");
            open.push(named(error));
        }
        // The other sites continue, whichever site led before.
        eventually(&*up, async || other.command(&["INCRBY", "account:rest", "1"]).await.is_ok())
            .await;
        ok(&up.fault(&["heal"]));
        let mut outcomes = Vec::new();
        for transaction in &open {
            let mut found = String::new();
            for site in [3, 1, 2] {
                let mut client = up.client(site).await;
                let what = format_args!("{transaction} is decided at {site}\n{}", *up);
                eventually(what, async || {
                    found = outcome(&mut client, transaction).await;
                    found != "unknown"
                })
                .await;
            }
            outcomes.push(found);
        }
        let done =
            |outcomes: &[String]| outcomes.iter().filter(|found| *found == "committed").count();
        for (key, before) in [(&account, done(&outcomes[..1])), (&many, done(&outcomes[1..]))] {
            let what = format_args!("{key} shows {outcomes:?}\n{}", *up);
            let expected = (10 - before).to_string();
            eventually(what, async || client.get(key).await.unwrap().as_deref() == Some(&expected))
                .await;
        }
    }
}

/// Runs a strong command at the third site, which must fail.
async fn strong_alone(up: &Up, command: &[&str]) -> Error {
    up.client(3).await.command(command).await.unwrap_err()
}

/// Runs a transaction of several operations at the third site, which must fail.
async fn strong_transaction(up: &Up, begin: &[&str], key: &str, end: &str) -> Error {
    let mut client = up.client(3).await;
    client.command(begin).await.unwrap();
    client.command(&["DECRBY", key, "1"]).await.unwrap();
    client.command(&["SET", &format!("of:{key}"), end]).await.unwrap();
    client.command(&[end]).await.unwrap_err()
}

/// Returns the number of successful causal commands at the third site.
async fn causal_work(up: &Up, round: usize) -> usize {
    let mut client = up.client(3).await;
    let mut done = 0;
    for _ in 0..20 {
        done += usize::from(client.incr_by(&format!("visits:{round}"), 1).await.is_ok());
    }
    done
}

/// Only the link between two sites is broken; the third site reaches both of them.
#[tokio::test]
async fn a_leader_that_cannot_reach_one_site_is_replaced() {
    let folder = Folder::new();
    let up = up(&folder, &["--wan", "lan"]);
    let mut client = up.client(3).await;
    ok(&up.fault(&["cut", "1", "3"]));
    eventually(&*up, async || client.command(&["SET", "lock:here", "x"]).await.is_ok()).await;
    let mut other = up.client(1).await;
    eventually(&*up, async || other.command(&["SET", "lock:there", "x"]).await.is_ok()).await;
}

// Names of transactions.

#[tokio::test]
async fn the_outcome_of_a_named_transaction_can_be_requested_after_a_lost_reply() {
    let folder = Folder::new();
    let up = up(&folder, &["--wan", "lan", "--workers", "2"]);
    let mut asking = up.client(2).await;
    for round in 0..9 {
        let key = format!("lock:{round}");
        let mut client = Inline::at(up.address(1 + round % 3));
        client.send("SOLERA.BEGIN STRONG\r\nSOLERA.TXID\r\nSOLERA.TXID");
        assert_eq!(client.reply(), "+OK");
        let name = client.reply();
        assert_eq!(client.reply(), name, "it has one name");
        assert_eq!(outcome(&mut asking, &name).await, "unknown", "it is open");
        client.send(&format!("SET {key} {round}"));
        assert_eq!(client.reply(), "+OK");
        let expected = match round % 3 {
            // The client receives the answer, closes the connection before the answer, or sends no
            // commit.
            0 => {
                client.send("SOLERA.COMMIT");
                assert_eq!(client.reply(), "+OK");
                Some("committed")
            }
            1 => {
                client.send("SOLERA.COMMIT");
                None
            }
            _ => Some("aborted"),
        };
        drop(client);
        let mut found = String::new();
        eventually(&*up, async || {
            found = outcome(&mut asking, &name).await;
            found != "unknown"
        })
        .await;
        assert_eq!(found, expected.unwrap_or(&found), "{name}");
        let held = asking.get(&key).await.unwrap();
        assert_eq!(held.is_some(), found == "committed", "{key} holds {held:?}");
    }
}

// Clients that disconnect.

#[tokio::test]
async fn transactions_of_disconnected_clients_do_not_block_others() {
    let folder = Folder::new();
    let up = up(&folder, &["--wan", "lan", "--workers", "2"]);
    let mut client = up.client(1).await;
    for round in 0..12u16 {
        let site = 1 + round % 3;
        let (one, two) = (format!("account:one:{round}"), format!("account:two:{round}"));
        let begun = format!("SOLERA.BEGIN STRONG\r\nSET {one} {round}\r\nSET {two} {round}");
        match round % 4 {
            // The client disconnects before the commit, after the replies or without reading them.
            0 => {
                let mut gone = Inline::at(up.address(site));
                gone.send(&begun);
                (0..3).for_each(|_| assert_eq!(gone.reply(), "+OK"));
            }
            1 => Inline::at(up.address(site)).send(&begun),
            // The client disconnects during certification.
            2 => Inline::at(up.address(site)).send(&format!("{begun}\r\nSOLERA.COMMIT")),
            _ => Inline::at(up.address(site)).send(&format!("SET {one} {round}")),
        }
        // Both writes or none are visible, and later writes of the keys succeed.
        let both = client.command(&["MGET", &one, &two]).await.unwrap();
        if round % 4 < 3 {
            assert!(matches!(&both, Value::Array(both) if both[0] == both[1]), "{both:?}");
        }
        for key in [&one, &two] {
            client.command(&["SET", key, "later"]).await.unwrap();
        }
    }
    eventually(&*up, async || {
        let (_, status) = common::http(up.admin(), "/status", "").unwrap();
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        let sites = status["sites"].as_array().unwrap();
        let none = |site: &serde_json::Value, what: &str| site[what].as_u64() == Some(0);
        let kinds = ["open_transactions", "prepared_transactions"];
        sites.iter().all(|site| kinds.iter().all(|kind| none(site, kind)))
    })
    .await;
}

// Moving leaders, and contention.

/// Clients of every site that increment one counter, until they are stopped.
struct Counting {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<Vec<i64>>>,
}

impl Counting {
    fn start(up: &Up, key: &'static str) -> Counting {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let count = |site: u16| {
            let (address, stop, done) = (up.address(site), stop.clone(), done.clone());
            tokio::spawn(async move {
                let mut client = Client::connect(address).await.unwrap();
                let mut numbers = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    numbers.push(number(&client.command(&["INCR", key]).await.unwrap()));
                    done.fetch_add(1, Ordering::Relaxed);
                }
                numbers
            })
        };
        let clients = (1..=3).map(count).collect();
        Counting { stop, done, clients }
    }

    /// Waits until ten more increments have succeeded.
    async fn goes_on(&self, up: &Up) {
        let before = self.done.load(Ordering::Relaxed);
        eventually(&**up, async || self.done.load(Ordering::Relaxed) >= before + 10).await;
    }

    /// Stops the clients, and returns the numbers that each of them received.
    async fn stop(self) -> Vec<Vec<i64>> {
        self.stop.store(true, Ordering::Relaxed);
        let mut numbers = Vec::new();
        for client in self.clients {
            numbers.push(client.await.unwrap());
        }
        numbers
    }
}

#[tokio::test]
async fn increments_return_unique_numbers_while_leaders_move() {
    let folder = Folder::new();
    let up = up(&folder, &["--wan", "lan"]);
    let counting = Counting::start(&up, "account:count");
    counting.goes_on(&up).await;
    for name in ["frankfurt", "california", "virginia", "california"] {
        let moved = solera(&["leader", "move", name, "--at", &up.at(2), "--json"]);
        ok(&moved);
        let leaders: serde_json::Value = serde_json::from_slice(&moved.stdout).unwrap();
        for site in leaders["leaders"].as_array().unwrap() {
            let partitions = if site["site"] == name { 16 } else { 0 };
            assert_eq!(site["partitions"], partitions, "{leaders}");
        }
        counting.goes_on(&up).await;
    }
    let numbers = counting.stop().await;
    assert!(numbers.iter().all(|numbers| numbers.is_sorted()), "{numbers:?}");
    let mut all: Vec<i64> = numbers.concat();
    all.sort_unstable();
    assert_eq!(all, (1..=all.len() as i64).collect::<Vec<_>>());
}

#[tokio::test]
async fn distant_clients_make_progress_on_a_contended_key() {
    let folder = Folder::new();
    let up = up(&folder, &["--wan", "aws"]);
    let mut stop = up.client(1).await;
    let busy = {
        let address = up.address(1);
        tokio::spawn(async move {
            let (mut client, mut count) = (Client::connect(address).await.unwrap(), 0);
            while client.command(&["EXISTS", "stop"]).await.unwrap() == Value::Integer(0) {
                client.command(&["INCR", "lock:hot"]).await.unwrap();
                count += 1;
            }
            count
        })
    };
    let singles = async {
        let mut client = up.client(2).await;
        for _ in 0..10 {
            client.command(&["INCR", "lock:hot"]).await.unwrap();
        }
    };
    let transactions = async {
        let mut client = up.client(3).await;
        for _ in 0..4 {
            client.strong(async |tx| tx.incr_by("lock:hot", 1).await).await.unwrap();
            client.command(&["MULTI"]).await.unwrap();
            client.command(&["INCR", "lock:hot"]).await.unwrap();
            client.command(&["SET", "other", "1"]).await.unwrap();
            let done = client.command(&["EXEC"]).await.unwrap();
            assert!(matches!(&done, Value::Array(of) if of.len() == 2), "{done:?}");
        }
    };
    tokio::join!(singles, transactions);
    stop.command(&["SET", "stop", "1"]).await.unwrap();
    let count = busy.await.unwrap();
    let total = stop.command(&["GET", "lock:hot"]).await.unwrap();
    assert_eq!(total, Value::Bulk((count + 10 + 8).to_string().into_bytes()));
    let (_, metrics) = common::http(up.admin(), "/metrics", "").unwrap();
    let reserved = "solera_certification_reserved_total{site=\"virginia\"} ";
    let reserved = metrics.lines().find_map(|line| line.strip_prefix(reserved)).unwrap();
    assert_ne!(reserved, "0");
}

#[tokio::test]
async fn leaders_are_listed_and_moved_only_to_known_and_reachable_sites() {
    let folder = Folder::new();
    let up = up(&folder, &[]);
    let listed = solera(&["leader", "list", "--at", &up.at(3)]);
    ok(&listed);
    assert_eq!(
        text(&listed.stdout),
        "virginia    leads 16 partitions\ncalifornia  leads 0 partitions\nfrankfurt   leads 0 partitions\n"
    );
    let nobody = solera(&["leader", "move", "atlantis", "--at", &up.at(1)]);
    assert_eq!(nobody.status.code(), Some(1));
    let said = text(&nobody.stderr);
    assert!(said.contains("no site 'atlantis'; the sites are virginia, california,"), "{said}");
    let led = |arguments: &[&str]| {
        let moved = solera(&[&["leader", "move"], arguments, &["--at", &up.at(1)]].concat());
        ok(&moved);
        text(&moved.stdout)
    };
    assert_eq!(
        led(&["3", "1", "2", "3", "9"]),
        "virginia    leads 12 partitions: 0, 4-8, 10-15\ncalifornia  leads 0 partitions\n\
         frankfurt   leads 4 partitions: 1-3, 9\n"
    );
    assert!(led(&["california", "all"]).contains("california  leads 16 partitions\n"));
    assert!(led(&["1"]).contains("virginia    leads 16 partitions\n"));
    for (arguments, reason) in [
        (["virginia", "16"], "no partition '16'; partitions are 0 to 15, or ALL"),
        (["virginia", "some"], "no partition 'some'; partitions are"),
        (["all", "virginia"], "no site 'all'; the sites are virginia,"),
        (["4", "all"], "no site '4'; the sites are virginia,"),
    ] {
        let refused = solera(&[&["leader", "move"], &arguments[..], &["--at", &up.at(1)]].concat());
        let said = text(&refused.stderr);
        assert!(refused.status.code() == Some(1) && said.contains(reason), "{said}");
    }
    ok(&up.fault(&["kill", "frankfurt"]));
    let dead = solera(&["leader", "move", "Frankfurt", "--at", &up.at(1), "--timeout", "0"]);
    assert_eq!(dead.status.code(), Some(1));
    let said = text(&dead.stderr);
    assert!(said.contains("frankfurt leads 0 of 16 partitions"), "{said}");
    let mut client = up.client(1).await;
    assert_eq!(number(&client.command(&["INCR", "account:1"]).await.unwrap()), 1);
}

// WATCH.

#[tokio::test]
async fn exec_has_no_effect_after_another_client_wrote_a_watched_key() {
    let folder = Folder::new();
    let up = up(&folder, &["--workers", "2"]);
    for round in 0..100 {
        let (mut watching, mut other) = (up.client(1).await, up.client(1).await);
        let key = format!("cart:{round}");
        watching.command(&["WATCH", &key]).await.unwrap();
        other.command(&["SET", &key, "theirs"]).await.unwrap();
        watching.command(&["MULTI"]).await.unwrap();
        watching.command(&["SET", &key, "ours"]).await.unwrap();
        assert_eq!(watching.command(&["EXEC"]).await.unwrap(), Value::Null, "round {round}");
    }
}

// A lock.

#[tokio::test]
async fn a_lock_is_held_by_one_client_at_a_time() {
    let folder = Folder::new();
    let up = up(&folder, &["--wan", "lan"]);
    let held = Arc::new(AtomicBool::new(false));
    let client = |site: u16| {
        let (address, held) = (up.address(site), held.clone());
        tokio::spawn(async move {
            let (mut client, mut taken) = (Client::connect(address).await.unwrap(), 0);
            let name = site.to_string();
            while taken < 5 {
                let got = match client.command(&["SET", "lock:l", &name, "NX"]).await {
                    Ok(Value::Simple(_)) => true,
                    Ok(Value::Null) => false,
                    // Conflicts with other clients used up all attempts.
                    Err(error) if error.code() == Some("ABORTED") => false,
                    other => panic!("{other:?}"),
                };
                if !got {
                    continue;
                }
                assert!(!held.swap(true, Ordering::SeqCst), "two hold the lock");
                assert_eq!(client.get("lock:l").await.unwrap().as_deref(), Some(&*name));
                tokio::time::sleep(Duration::from_millis(1)).await;
                held.store(false, Ordering::SeqCst);
                assert_eq!(number(&client.command(&["DEL", "lock:l"]).await.unwrap()), 1);
                taken += 1;
            }
        })
    };
    let clients: Vec<JoinHandle<()>> = (1..=3).map(client).collect();
    for client in clients {
        client.await.unwrap();
    }
}

// The demo.

#[test]
fn the_demo_breaks_invariants_causally_and_keeps_them_strongly() {
    let output = solera(&["demo", "--fast"]);
    ok(&output);
    let output = text(&output.stdout);
    let lines = |how: &str| output.lines().filter_map(|line| line.trim().strip_prefix(how)).count();
    assert_eq!((lines("causal "), lines("strong ")), (3, 3), "{output}");
    for line in [
        "causal     all 3 withdrawals succeed, and the account holds -200",
        "strong     1 withdrawal succeeds; the others retry, see 0, and withdraw nothing",
        "causal     all 3 registrations succeed",
        "causal     100 wins, of the accepted bids 100, 110, 120",
    ] {
        assert!(output.contains(line), "{line}\n{output}");
    }
}

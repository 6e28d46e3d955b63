//! Tests spaces of level `pcpsi` through the user's interfaces, at two sites in one process.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::{Folder, SOLERA, Up, eventually, http, keeping, number, ok, solera, text};
use solera::{Client, Error, Value};
use solera_backup::{BackupReader, Content};
use solera_node::hash_password;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Two sites with two workers each. Homes of `s:` keys are at both sites, those of `w:` keys at the
/// second one.
const SPACES: &str = "\
workers = 2
f = 1
[[site]]
name = 'virginia'
[[site]]
name = 'california'
[[space]]
name = 'stock'
prefix = 's:'
level = 'pcpsi'
[[space]]
name = 'west'
prefix = 'w:'
level = 'pcpsi'
home = 'california'
";

/// Returns keys of both spaces, with homes at both sites and on all workers.
fn keys() -> Vec<String> {
    (0..24).map(|place| format!("{}{place}", if place % 3 == 0 { "w:" } else { "s:" })).collect()
}

fn up() -> Up {
    Up::configured(SPACES, "")
}

/// Transfers the causal past of a session to another one.
async fn hand_on(from: &mut Client, to: &mut Client) {
    let token = from.token().await.unwrap();
    to.attach(&token).await.unwrap();
}

/// Requires an error that contains these texts.
fn fails<T: std::fmt::Debug>(reply: Result<T, Error>, code: &str, texts: &[&str]) {
    let error = reply.unwrap_err();
    assert_eq!(error.code(), Some(code), "{error}");
    for part in texts {
        assert!(error.to_string().contains(part), "'{part}' is not in: {error}");
    }
}

/// Returns one of the fields of a reply of SOLERA.STALE or SOLERA.HOME.
async fn field(client: &mut Client, command: &str, name: &str) -> Value {
    let Value::Map(fields) = client.command(&[command]).await.unwrap() else { panic!() };
    let named = |(field, _): &(Value, Value)| *field == Value::Bulk(name.into());
    fields.into_iter().find(named).unwrap().1
}

async fn stale(client: &mut Client, policy: &str) {
    client.command(&["SOLERA.STALE", policy]).await.unwrap();
}

#[tokio::test]
async fn a_token_shows_the_own_writes_at_the_other_site_at_once() {
    let up = up();
    ok(&up.fault(&["delay", "1", "2", "30"]));
    let (mut one, mut two) = (up.client(1).await, up.client(2).await);
    for key in keys() {
        one.set(&key, "20").await.unwrap();
        assert_eq!(one.get(&key).await.unwrap().as_deref(), Some("20"));
        hand_on(&mut one, &mut two).await;
        assert_eq!(two.get(&key).await.unwrap().as_deref(), Some("20"), "{key}");
        assert_eq!(two.incr_by(&key, 22).await.unwrap(), 42);
        hand_on(&mut two, &mut one).await;
        assert_eq!(one.get(&key).await.unwrap().as_deref(), Some("42"), "{key}");
    }
    two.barrier(Some(Duration::from_secs(20))).await.unwrap();
    let kept = two.command(&["WAIT", "1", "20000"]).await.unwrap();
    assert_eq!(kept, Value::Integer(1));
}

#[tokio::test]
async fn tokens_are_followed_with_timestamps_of_every_kind() {
    let folder = Folder::new();
    for (kind, stamps) in [("exact", ""), ("structural", "3"), ("temporal", "3"), ("per-site", "1")]
    {
        let stamps = match stamps {
            "" => String::new(),
            number => format!("pcpsi_stamps = {number}\n"),
        };
        let settings = format!("pcpsi_timestamps = '{kind}'\n{stamps}{SPACES}");
        let file = folder.file(&format!("{kind}.toml"), &settings);
        let up = Up::start(&["--config", file.to_str().unwrap()]);
        ok(&up.fault(&["delay", "1", "2", "30"]));
        let (mut one, mut two) = (up.client(1).await, up.client(2).await);
        for key in ["s:1", "s:2", "s:3", "w:1"] {
            one.set(key, "20").await.unwrap();
            hand_on(&mut one, &mut two).await;
            assert_eq!(two.get(key).await.unwrap().as_deref(), Some("20"), "{kind}: {key}");
            assert_eq!(two.incr_by(key, 22).await.unwrap(), 42);
            hand_on(&mut two, &mut one).await;
            assert_eq!(one.get(key).await.unwrap().as_deref(), Some("42"), "{kind}: {key}");
        }
    }
}

#[tokio::test]
async fn no_increment_of_two_sites_is_lost() {
    const EACH: i64 = 60;
    let up = up();
    let mut all = JoinSet::new();
    for session in 0..8 {
        let mut client = up.client(1 + session % 2).await;
        all.spawn(async move {
            for _ in 0..EACH {
                for key in ["s:1", "s:2", "w:1"] {
                    client.incr_by(key, 1).await.unwrap();
                }
                client.hincr_by("s:hash", "field", 1).await.unwrap();
            }
            client.token().await.unwrap()
        });
    }
    let mut reader = up.client(1).await;
    for token in all.join_all().await {
        reader.attach(&token).await.unwrap();
    }
    for key in ["s:1", "s:2", "w:1"] {
        assert_eq!(reader.get(key).await.unwrap(), Some((8 * EACH).to_string()), "{key}");
    }
    let sum = reader.hget("s:hash", "field").await.unwrap();
    assert_eq!(sum, Some((8 * EACH).to_string()));
}

/// A reader at the other site reads the keys with MGET, which is a transaction, and in MULTI.
#[tokio::test]
async fn a_transaction_over_several_homes_is_atomic_for_readers_elsewhere() {
    const ROUNDS: usize = 60;
    let up = up();
    let (mut one, mut two) = (up.client(1).await, up.client(2).await);
    let written = ["s:1", "s:2", "s:3", "s:4", "w:1"];
    let writer = tokio::spawn(async move {
        for round in 1..=ROUNDS {
            one.command(&["MULTI"]).await.unwrap();
            for key in written {
                one.command(&["SET", key, &round.to_string()]).await.unwrap();
            }
            one.command(&["EXEC"]).await.unwrap();
        }
    });
    let last = Value::Bulk(ROUNDS.to_string().into());
    for turn in 0.. {
        let values = if turn % 2 == 0 {
            two.command(&[&["MGET"], &written[..]].concat()).await.unwrap()
        } else {
            two.command(&["MULTI"]).await.unwrap();
            for key in written {
                two.command(&["GET", key]).await.unwrap();
            }
            two.command(&["EXEC"]).await.unwrap()
        };
        let Value::Array(values) = values else { panic!("{values:?}") };
        assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
        if values[0] == last {
            break;
        }
    }
    writer.await.unwrap();
}

#[tokio::test]
async fn watched_keys_that_are_only_read_protect_a_transaction() {
    let up = up();
    let (mut one, mut two) = (up.client(1).await, up.client(2).await);
    for read in ["s:1", "s:2", "s:3", "w:1"] {
        for changes in [true, false] {
            one.command(&["WATCH", read]).await.unwrap();
            one.get(read).await.unwrap();
            if changes {
                two.incr_by(read, 1).await.unwrap();
            }
            one.command(&["MULTI"]).await.unwrap();
            one.command(&["SET", "s:result", "x"]).await.unwrap();
            let done = one.command(&["EXEC"]).await.unwrap();
            let expected = match changes {
                true => Value::Null,
                false => Value::Array(vec![Value::Simple("OK".into())]),
            };
            assert_eq!(done, expected, "{read}");
            let result = one.get("s:result").await.unwrap();
            assert_eq!(result.is_some(), !changes, "{read}");
            one.del("s:result").await.unwrap();
            hand_on(&mut two, &mut one).await;
        }
    }
}

#[tokio::test]
async fn a_conflict_aborts_an_interactive_transaction_with_key_and_cause() {
    let up = up();
    let (mut one, mut two) = (up.client(1).await, up.client(2).await);
    for key in ["s:1", "s:2", "s:3", "w:1"] {
        one.command(&["SOLERA.BEGIN", "PCPSI"]).await.unwrap();
        let read = one.get(key).await.unwrap();
        assert_eq!(read, None);
        two.set(key, "theirs").await.unwrap();
        one.set(key, "mine").await.unwrap();
        assert_eq!(one.get(key).await.unwrap().as_deref(), Some("mine"), "its own write");
        let done = one.command(&["SOLERA.COMMIT"]).await;
        let Err(error @ Error::Aborted { .. }) = done else { panic!("{done:?}") };
        let Error::Aborted { key: named, .. } = &error else { unreachable!() };
        assert_eq!(named, key, "{error}");
        hand_on(&mut two, &mut one).await;
        assert_eq!(one.get(key).await.unwrap().as_deref(), Some("theirs"));
    }
    one.command(&["SOLERA.BEGIN", "PCPSI"]).await.unwrap();
    one.set("s:1", "mine").await.unwrap();
    one.command(&["SOLERA.ABORT"]).await.unwrap();
    assert_eq!(one.get("s:1").await.unwrap().as_deref(), Some("theirs"));
    let mut raw = up.inline();
    assert_eq!(raw.ask("SOLERA.BEGIN PCPSI"), "+OK");
    assert_eq!(raw.ask("GET s:7"), "nil");
    two.set("s:7", "theirs").await.unwrap();
    assert_eq!(raw.ask("SET s:7 mine"), "+OK");
    let said = raw.ask("SOLERA.COMMIT");
    assert!(
        said.starts_with("-ABORTED conflict on 's:7'; another transaction has changed"),
        "{said}"
    );
}

#[test]
fn transactions_over_two_protocols_are_rejected_by_name() {
    let up = up();
    let mut client = up.inline();
    let (ours, other) = ("'s:1' (space 'stock')", "'x' (space 'default')");
    let refused = |reply: String, names: &[&str]| {
        assert!(reply.contains("one transaction cannot span both"), "{reply}");
        assert!(names.iter().all(|name| reply.contains(name)), "{reply}");
    };
    for line in ["MGET s:1 x", "MGET x s:1", "MSET s:1 a x a", "DEL x s:1", "EXISTS s:1 x"] {
        refused(client.ask(line), &[ours, other]);
    }
    for (first, second, named) in [("s:1", "x", other), ("x", "s:1", ours)] {
        assert_eq!(client.ask("MULTI"), "+OK");
        assert_eq!(client.ask(&format!("SET {first} a")), "+QUEUED");
        refused(client.ask(&format!("SET {second} a")), &[named]);
        assert!(client.ask("EXEC").starts_with("-EXECABORT"));
    }
    for (level, key, named) in
        [("PCPSI", "x", other), ("CAUSAL", "s:1", ours), ("STRONG", "s:1", ours)]
    {
        assert_eq!(client.ask(&format!("SOLERA.BEGIN {level}")), "+OK");
        refused(client.ask(&format!("GET {key}")), &[named]);
        assert!(client.ask("SOLERA.COMMIT").starts_with("-EXECABORT"));
    }
    for (watched, used) in [("s:1", "x"), ("x", "s:1")] {
        assert_eq!(client.ask(&format!("WATCH {watched}")), "+OK");
        assert_eq!(client.ask("MULTI"), "+OK");
        assert_eq!(client.ask(&format!("SET {used} a")), "+QUEUED");
        let said = client.ask("EXEC");
        assert!(said.contains("one transaction cannot span both"), "{said}");
    }
    assert_eq!(client.ask("EXISTS s:1"), ":0");
    assert_eq!(client.ask("EXISTS x"), ":0");
    // One session can use both spaces in turn, and its token covers both.
    assert_eq!(client.ask("SET s:1 a"), "+OK");
    assert_eq!(client.ask("SET x a"), "+OK");
    let token = client.ask("SOLERA.TOKEN");
    let mut two = common::Inline::at(up.address(2));
    assert_eq!(two.ask(&format!("SOLERA.ATTACH {token}")), "+OK");
    assert_eq!(two.ask("GET s:1"), "a");
    assert_eq!(two.ask("GET x"), "a");
}

/// While the sites are cut off, the first one has an old copy of a key of the second one.
#[tokio::test]
async fn a_session_chooses_what_its_stale_reads_do() {
    let up = up();
    let (mut one, mut two) = (up.client(1).await, up.client(2).await);
    two.set("w:1", "old").await.unwrap();
    eventually("it arrives", async || one.get("w:1").await.unwrap().is_some()).await;
    ok(&up.fault(&["cut", "1", "2"]));
    two.set("w:1", "new").await.unwrap();
    assert_eq!(one.get("w:1").await.unwrap().as_deref(), Some("old"), "it knows of no other");
    hand_on(&mut two, &mut one).await;
    fails(one.get("w:1").await, "TRYAGAIN", &["'w:1' (space 'west')", "nothing was done"]);
    stale(&mut one, "FAIL").await;
    let before = number(&field(&mut one, "SOLERA.STALE", "stale").await);
    fails(one.get("w:1").await, "STALE", &["'w:1' (space 'west')", "SOLERA.STALE HOME"]);
    fails(one.command(&["MGET", "s:1", "w:1"]).await, "STALE", &["'w:1'"]);
    stale(&mut one, "ACCEPT").await;
    assert_eq!(one.get("w:1").await.unwrap().as_deref(), Some("old"));
    let counted = number(&field(&mut one, "SOLERA.STALE", "stale").await);
    assert_eq!(counted, before + 3);
    let at_home = number(&field(&mut one, "SOLERA.STALE", "at-home").await);
    ok(&up.fault(&["heal"]));
    ok(&up.fault(&["delay", "1", "2", "50"]));
    stale(&mut one, "HOME").await;
    two.set("w:1", "newer").await.unwrap();
    hand_on(&mut two, &mut one).await;
    assert_eq!(one.get("w:1").await.unwrap().as_deref(), Some("newer"));
    let policy = field(&mut one, "SOLERA.STALE", "on-stale").await;
    assert_eq!(policy, Value::Bulk("home".into()));
    assert!(number(&field(&mut one, "SOLERA.STALE", "at-home").await) > at_home);
}

/// The session must learn the outcome of an update before it continues, and a barrier does not
/// ignore that update.
#[tokio::test]
async fn an_update_without_its_home_is_unknown_and_holds_its_session() {
    let up = up();
    ok(&up.fault(&["cut", "1", "2"]));
    let mut one = up.client(1).await;
    fails(one.set("w:1", "x").await, "UNKNOWN", &["the home of 'w:1' (space 'west')"]);
    for held in [&["GET", "s:1"][..], &["SOLERA.TOKEN"], &["SOLERA.BARRIER", "100"]] {
        fails(one.command(held).await, "TRYAGAIN", &["the outcome of an earlier command"]);
    }
    assert_eq!(one.command(&["WAIT", "1", "100"]).await.unwrap(), Value::Integer(0));
    one.set("causal", "x").await.unwrap();
    ok(&up.fault(&["heal"]));
    eventually("the outcome arrives", async || one.get("w:1").await.is_ok()).await;
    assert_eq!(one.get("w:1").await.unwrap().as_deref(), Some("x"), "the request was repeated");
}

#[tokio::test]
async fn unreplicated_updates_are_at_risk_until_other_sites_store_them() {
    let up = up();
    ok(&up.fault(&["cut", "1", "2"]));
    let mut two = up.client(2).await;
    two.set("w:1", "x").await.unwrap();
    let at_risk = field(&mut two, "SOLERA.AT-RISK", "keys").await;
    assert_eq!(at_risk, Value::Array(vec![Value::Bulk("w:1".into())]));
    let homes = field(&mut two, "SOLERA.AT-RISK", "session").await;
    assert_eq!(homes, Value::Array(vec![Value::Bulk("california".into())]));
    fails(two.command(&["SOLERA.BARRIER", "200"]).await, "TIMEOUT", &["pcpsi"]);
    assert_eq!(two.command(&["WAIT", "1", "200"]).await.unwrap(), Value::Integer(0));
    let mut other = up.client(2).await;
    other.barrier(Some(Duration::from_millis(200))).await.unwrap();
    ok(&up.fault(&["heal"]));
    two.barrier(None).await.unwrap();
    eventually("nothing is at risk", async || {
        field(&mut two, "SOLERA.AT-RISK", "keys").await == Value::Array(vec![])
    })
    .await;
}

#[tokio::test]
async fn values_homes_and_tokens_survive_a_restart() {
    let folder = Folder::new();
    let file = folder.file("s.toml", SPACES);
    let data = folder.at("data");
    let arguments = keeping(&file, &data);
    let mut up = Up::start(&arguments);
    ok(&solera(&["home", "move", "--from", "virginia", "--to", "california", "--at", &up.at(1)]));
    let homes = |up: &Up| {
        let listed = solera(&["home", "list", "--json", "--at", &up.at(1)]);
        ok(&listed);
        serde_json::from_slice::<serde_json::Value>(&listed.stdout).unwrap()
    };
    let moved = homes(&up);
    assert_eq!(moved["shards"]["virginia"], 0, "{moved}");
    let mut token = None;
    for round in 1..=3 {
        let mut clients = [up.client(1).await, up.client(2).await];
        for (place, key) in keys().iter().enumerate() {
            let client = &mut clients[place % 2];
            if let Some(token) = &token {
                client.attach(token).await.unwrap();
            }
            assert_eq!(client.incr_by(key, 1).await.unwrap(), round, "{key}");
            token = Some(client.token().await.unwrap());
        }
        up.kill();
        up = Up::again(up.port, &arguments);
        eventually("the workers know that the move is complete", async || homes(&up) == moved)
            .await;
    }
    let mut one = up.client(1).await;
    one.attach(&token.unwrap()).await.unwrap();
    for key in keys() {
        assert_eq!(one.get(&key).await.unwrap().as_deref(), Some("3"), "{key}");
    }
    drop(one);
    up.kill();
    let dumped = text(&solera(&["journal", "dump", data.to_str().unwrap()]).stdout);
    assert!(dumped.contains("occult "), "{dumped}");
    assert!(!dumped.contains("foreign") && !dumped.contains("no protocol"), "{dumped}");
}

/// Returns the string of each key of a backup.
fn strings_of(file: &Path) -> BTreeMap<String, String> {
    let mut backup = BackupReader::open(File::open(file).unwrap()).unwrap();
    let mut found = BTreeMap::new();
    while let Some(entry) = backup.next_entry().unwrap() {
        if let Content::String(value) = entry.content {
            found.insert(text(&entry.key), text(&value));
        }
    }
    found
}

#[tokio::test]
async fn a_backup_contains_transactions_as_a_whole_and_what_they_depend_on() {
    let up = up();
    ok(&up.fault(&["delay", "1", "2", "8"]));
    let folder = Folder::new();
    let (stop, stopped) = watch::channel(false);
    let mut writers = JoinSet::new();
    for writer in 0..3 {
        let mut clients = [up.client(1).await, up.client(2).await];
        let stopped = stopped.clone();
        writers.spawn(async move {
            let mut round = 0_usize;
            while !*stopped.borrow() {
                // The session roams, and writes keys whose homes are at different sites.
                let (one, other) = clients.split_at_mut(1);
                let (here, there) = match round % 2 {
                    0 => (&mut one[0], &mut other[0]),
                    _ => (&mut other[0], &mut one[0]),
                };
                let keys = [("s", 0), ("w", 1), ("s", 2), ("s", 3)];
                let number = round.to_string();
                let names = keys.map(|(space, at)| format!("{space}:{writer}-{at}"));
                let mut set = vec!["MSET"];
                names.iter().for_each(|name| set.extend([name.as_str(), &number]));
                here.command(&set).await.unwrap();
                // This write depends on the transaction.
                here.set(&format!("s:{writer}-after"), &number).await.unwrap();
                hand_on(here, there).await;
                round += 1;
            }
        });
    }
    let mut numbers = BTreeSet::new();
    for round in 0..300 {
        if numbers.len() > 8 {
            break;
        }
        let file = folder.at(&format!("{round}.backup"));
        let (from, to) = (up.at(1 + round % 2), file.to_str().unwrap().to_owned());
        // The writers continue meanwhile.
        let taken = tokio::task::spawn_blocking(move || solera(&["backup", "--from", &from, &to]));
        ok(&taken.await.unwrap());
        let found = strings_of(&file);
        for writer in 0..3 {
            let of = |name: String| found.get(&name).map(|value| value.parse::<usize>().unwrap());
            let first = of(format!("s:{writer}-0"));
            for (space, at) in [("w", 1), ("s", 2), ("s", 3)] {
                assert_eq!(of(format!("{space}:{writer}-{at}")), first, "{found:?}");
            }
            let after = of(format!("s:{writer}-after"));
            assert!(after <= first && first <= after.map_or(Some(0), |n| Some(n + 1)), "{found:?}");
            numbers.insert((writer, first));
        }
    }
    stop.send(true).unwrap();
    writers.join_all().await;
    assert!(numbers.len() > 8, "the backups show different moments: {numbers:?}");
}

/// Returns the number of a key's shard, and its home.
async fn shard_of(client: &mut Client, key: &str) -> (String, String) {
    let reply = client.command(&["SOLERA.HOME", "KEY", key]).await.unwrap();
    let Value::Map(fields) = reply else { panic!("{reply:?}") };
    match fields.as_slice() {
        [(_, Value::Integer(shard)), (_, Value::Bulk(home))] => (shard.to_string(), text(home)),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn only_reads_of_a_slow_shard_go_home() {
    let up = up();
    let (mut one, mut two) = (up.client(1).await, up.client(2).await);
    let mut other = up.client(1).await;
    let (slow, home) = shard_of(&mut one, "w:slow").await;
    let (quick, _) = shard_of(&mut one, "w:quick").await;
    assert!(slow != quick && home == "california");
    two.set("w:first", "7").await.unwrap();
    eventually("virginia has copies of california's shards", async || {
        other.get("w:first").await.unwrap().is_some()
    })
    .await;
    ok(&up.fault(&["slow", "virginia", &slow, "60000"]));
    let line = format!("shard {slow} at virginia: writes are shown after 60000 ms");
    assert!(text(&up.fault(&["status"]).stdout).contains(&line));
    two.set("w:slow", "7").await.unwrap();
    two.set("w:quick", "7").await.unwrap();
    hand_on(&mut two, &mut one).await;
    eventually("virginia shows the write of the other shard", async || {
        other.get("w:quick").await.unwrap().is_some()
    })
    .await;
    // A session that does not depend on the write reads the copy, which lacks it.
    let mut fresh = up.client(1).await;
    assert_eq!(fresh.get("w:slow").await.unwrap(), None);
    for (key, at_home) in [("w:quick", 0), ("w:slow", 1)] {
        assert_eq!(one.get(key).await.unwrap().as_deref(), Some("7"), "{key}");
        let went = field(&mut one, "SOLERA.STALE", "at-home").await;
        assert_eq!(went, Value::Integer(at_home), "{key}");
    }
    ok(&up.fault(&["slow", "1", &slow, "off"]));
    assert_eq!(fresh.get("w:slow").await.unwrap().as_deref(), Some("7"));
    assert!(!text(&up.fault(&["status"]).stdout).contains("writes are shown after"));
    for (site, shard, ms, reason) in [
        ("california", slow.as_str(), "9", "site california is the home of shard"),
        ("virginia", &slow, "60001", "is more than a minute"),
        ("virginia", &slow, "soon", "give a number of milliseconds, or off"),
        ("virginia", "16384", "9", "there is no shard 16384"),
        ("atlantis", &slow, "9", "no site 'atlantis'"),
    ] {
        let refused = up.fault(&["slow", site, shard, ms]);
        let error = text(&refused.stderr);
        assert!(!refused.status.success() && error.contains(reason), "{error}");
    }
    fails(one.command(&["SOLERA.HOME", "KEY", "other"]).await, "ERR", &["no space of level pcpsi"]);
}

#[tokio::test]
async fn the_outcome_of_a_transaction_is_returned_for_its_name() {
    let up = up();
    let mut asks = up.client(2).await;
    let mut names = Vec::new();
    for (end, outcome) in [("SOLERA.COMMIT", "committed"), ("SOLERA.ABORT", "aborted")] {
        let mut client = up.client(1).await;
        client.command(&["SOLERA.BEGIN", "PCPSI"]).await.unwrap();
        let named = client.command(&["SOLERA.TXID"]).await.unwrap();
        let Value::Bulk(name) = named else { panic!("{named:?}") };
        let name = text(&name);
        for (key, value) in [("s:1", "7"), ("s:2", "7"), ("s:3", "7"), ("w:1", "7")] {
            client.set(key, value).await.unwrap();
        }
        let answer = asks.command(&["SOLERA.OUTCOME", &name]).await.unwrap();
        assert_eq!(answer, Value::Simple("unknown".to_owned()));
        client.command(&[end]).await.unwrap();
        names.push((name, outcome));
    }
    // A transaction whose connection breaks is aborted.
    let mut client = up.client(1).await;
    client.command(&["SOLERA.BEGIN", "PCPSI"]).await.unwrap();
    let Value::Bulk(name) = client.command(&["SOLERA.TXID"]).await.unwrap() else { panic!() };
    client.set("s:1", "8").await.unwrap();
    drop(client);
    names.push((text(&name), "aborted"));
    for (name, outcome) in &names {
        eventually(format!("{name} is {outcome}"), async || {
            let answer = asks.command(&["SOLERA.OUTCOME", name]).await.unwrap();
            answer == Value::Simple((*outcome).to_owned())
        })
        .await;
    }
    assert_eq!(asks.get("s:1").await.unwrap().as_deref(), Some("7"));
    for (name, code, reason) in [
        ("p0.0.1.999999", "UNKNOWN", "does not know transaction p0.0.1.999999"),
        ("p0.0.77.1", "UNKNOWN", "was restarted since transaction p0.0.77.1 began"),
        ("p7.0.1.1", "ERR", "refers to an unknown site or worker"),
        ("px", "ERR", "is named by p and four numbers, as in p0.1.3.42"),
    ] {
        fails(asks.command(&["SOLERA.OUTCOME", name]).await, code, &[reason]);
    }
}

#[tokio::test]
async fn a_move_is_complete_at_every_worker_when_the_command_ends() {
    let up = up();
    for (from, to) in [("virginia", "california"), ("california", "virginia")] {
        ok(&solera(&["home", "move", "--from", from, "--to", to, "--at", &up.at(1)]));
        for site in [1, 2, 1, 2] {
            let mut client = up.client(site).await;
            let (_, home) = shard_of(&mut client, "s:1").await;
            assert_eq!(home, to);
            client.set("s:1", to).await.unwrap();
        }
    }
    // The list of moves is in keys, too.
    let mut client = up.client(1).await;
    assert_eq!(client.command(&["DBSIZE"]).await.unwrap(), Value::Integer(1));
}

#[tokio::test]
async fn a_backup_of_pcpsi_keys_is_restored() {
    let up = up();
    let mut client = up.client(1).await;
    ok(&solera(&["home", "move", "--shard-of", "s:1", "--to", "virginia", "--at", &up.at(1)]));
    for place in 0..600 {
        client.set(&format!("s:{place}"), &place.to_string()).await.unwrap();
    }
    for number in 0..2_500 {
        let element = format!("element-{number:0100}");
        client.command(&["SADD", "w:set", &element]).await.unwrap();
    }
    client.command(&["HSET", "w:hash", "a", "1", "b", "2"]).await.unwrap();
    client.set("w:gone", "7").await.unwrap();
    client.command(&["DEL", "w:gone"]).await.unwrap();
    client.set("other", "7").await.unwrap();
    let folder = Folder::new();
    let file = folder.at("backup");
    let file = file.to_str().unwrap();
    // The site has the writes that it has acknowledged, including those of homes at the other site.
    let taken = solera(&["backup", "--from", &up.at(1), file]);
    ok(&taken);
    let amount = "603 keys: 601 strings, 1 set with 2500 elements, 1 hash with 2 fields";
    for said in
        [amount, "space stock: keys with 's:' are pcpsi", "space west: keys with 'w:' are pcpsi"]
    {
        assert!(text(&taken.stdout).contains(said), "{said}: {}", text(&taken.stdout));
    }
    ok(&solera(&["backup", "check", file]));
    let data = folder.at("data");
    let refused = solera(&["restore", file, "--data", data.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(4));
    let settings = "level = \"pcpsi\"\nhome = \"california\"\n";
    assert!(text(&refused.stderr).contains(settings), "{}", text(&refused.stderr));
    let new = Up::configured(SPACES, "");
    let restored = solera(&["restore", file, "--to", &new.at(2)]);
    ok(&restored);
    for said in [amount, "read back and compared: all data is identical\n"] {
        assert!(text(&restored.stdout).contains(said), "{said}: {}", text(&restored.stdout));
    }
    let mut reader = new.client(1).await;
    assert_eq!(reader.get("s:599").await.unwrap().as_deref(), Some("599"));
    assert_eq!(number(&reader.command(&["SCARD", "w:set"]).await.unwrap()), 2_500);
    // The list of moves belongs to the old cluster alone.
    assert_eq!(field(&mut reader, "SOLERA.HOME", "moves").await, Value::Integer(0));
}

#[tokio::test]
async fn a_backup_names_the_site_whose_writes_are_missing() {
    let up = up();
    let (mut one, mut two) = (up.client(1).await, up.client(2).await);
    // A key of virginia depends on one of california that virginia's copies lack.
    ok(&up.fault(&["cut", "1", "2"]));
    two.set("w:1", "x").await.unwrap();
    hand_on(&mut two, &mut one).await;
    let mut key = "s:0".to_owned();
    for place in 1.. {
        if shard_of(&mut one, &key).await.1 == "virginia" {
            break;
        }
        key = format!("s:{place}");
    }
    one.set(&key, "y").await.unwrap();
    let folder = Folder::new();
    let file = folder.at("backup");
    let failed = solera(&["backup", "--from", &up.at(1), file.to_str().unwrap()]);
    assert_eq!(failed.status.code(), Some(1));
    let why =
        "site 'virginia' lacks writes of site 'california' on which its keys of level pcpsi depend";
    assert!(text(&failed.stderr).contains(why), "{}", text(&failed.stderr));
    assert!(!file.exists());
    ok(&up.fault(&["heal"]));
    ok(&solera(&["backup", "--from", &up.at(1), file.to_str().unwrap()]));
    assert_eq!(strings_of(&file)[&key], "y");
}

#[tokio::test]
async fn damaged_and_foreign_tokens_are_rejected() {
    let up = up();
    let mut one = up.client(1).await;
    one.set("s:1", "x").await.unwrap();
    let Value::Bulk(token) = one.command(&["SOLERA.TOKEN"]).await.unwrap() else { panic!() };
    let token = text(&token);
    let mut other = up.client(2).await;
    for at in (10..token.len()).step_by(3) {
        let mut forged = token.clone().into_bytes();
        forged[at] = if forged[at] == b'0' { b'1' } else { b'0' };
        let reply = other.command(&[b"SOLERA.ATTACH".as_slice(), &forged]).await;
        fails(reply, "BADTOKEN", &["token"]);
    }
    for length in [0, 9, 10, token.len() - 2] {
        let reply = other.command(&["SOLERA.ATTACH", &token[..length]]).await;
        fails(reply, "BADTOKEN", &["token"]);
    }
    let elsewhere = Up::configured(SPACES, "");
    let reply = elsewhere.client(1).await.command(&["SOLERA.ATTACH", &token]).await;
    fails(reply, "BADTOKEN", &["another cluster"]);
    assert_eq!(other.get("s:1").await.unwrap().as_deref(), Some("x"), "the session goes on");
}

/// Returns a token with another past of Occult: a write of the second site at this time, in all of
/// its shards.
fn forged(token: &str, micros: u64) -> String {
    const UNISTORE: usize = 11;
    let hex = token.strip_prefix("solera-3-").unwrap();
    let mut bytes = data_encoding::HEXLOWER.decode(hex.as_bytes()).unwrap();
    let length = usize::from(u16::from_be_bytes([bytes[9], bytes[10]]));
    bytes.truncate(UNISTORE + length);
    bytes[8] = 2;
    let mut past = vec![3, 1];
    past.extend_from_slice(&0_u64.to_be_bytes());
    // A timestamp per site with two entries each: one group, of the second site, without entries.
    past.extend_from_slice(&[3, 2, 1, 1]);
    let sevens = (0_u32..8).map(|place| (micros >> (7 * place)) as u8 & 0x7f);
    let used = sevens.clone().rposition(|seven| seven != 0).map_or(1, |last| last + 1);
    past.extend(
        sevens.enumerate().take(used).map(
            |(at, seven)| {
                if at + 1 < used { seven | 0x80 } else { seven }
            },
        ),
    );
    past.push(0);
    bytes.extend_from_slice(&(past.len() as u16).to_be_bytes());
    bytes.extend_from_slice(&past);
    bytes.extend_from_slice(&crc32c(&bytes).to_be_bytes());
    format!("solera-3-{}", data_encoding::HEXLOWER.encode(&bytes))
}

fn crc32c(bytes: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ (0x82f6_3b78 * (sum & 1)))
    };
    !bytes.iter().fold(!0, step)
}

/// No home moves its clock to the stamp of a client that is far ahead, and no read passes it over.
#[tokio::test]
async fn a_token_from_the_far_future_is_rejected_where_it_matters() {
    const HOUR: u64 = 3_600_000_000;
    let up = up();
    let mut two = up.client(2).await;
    for key in keys() {
        two.set(&key, "x").await.unwrap();
    }
    let Value::Bulk(token) = two.command(&["SOLERA.TOKEN"]).await.unwrap() else { panic!() };
    let token = text(&token);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = since.as_micros() as u64;
    for ahead in [2 * HOUR, 1000 * HOUR, (1 << 53) - 1 - now] {
        let mut client = up.client(1).await;
        let attached = client.command(&["SOLERA.ATTACH", &forged(&token, now + ahead)]).await;
        if attached.is_err() {
            fails(attached, "BADTOKEN", &["token"]);
            continue;
        }
        fails(
            client.get("w:0").await,
            "BADTOKEN",
            &["'w:0' (space 'west')", "california", "RESET"],
        );
        fails(client.set("w:0", "y").await, "BADTOKEN", &["california", "RESET"]);
        client.command(&["SOLERA.BEGIN", "PCPSI"]).await.unwrap();
        fails(client.get("w:0").await, "BADTOKEN", &["california"]);
        client.command(&["SOLERA.ABORT"]).await.unwrap();
        client.command(&["RESET"]).await.unwrap();
        assert_eq!(client.get("w:0").await.unwrap().as_deref(), Some("x"));
    }
    two.set("w:0", "y").await.unwrap();
    let Value::Bulk(token) = two.command(&["SOLERA.TOKEN"]).await.unwrap() else { panic!() };
    let mut one = up.client(1).await;
    one.command(&["SOLERA.ATTACH", &text(&token)]).await.unwrap();
    assert_eq!(one.get("w:0").await.unwrap().as_deref(), Some("y"), "clocks are not dragged along");
}

#[tokio::test]
async fn a_full_memory_rejects_updates_that_need_more() {
    let settings = SPACES.replace("workers = 2", "workers = 2\nmax_memory = '200 MiB'");
    let up = Up::configured(Box::leak(settings.into_boxed_str()), "");
    let mut client = up.client(1).await;
    let long = "x".repeat(1 << 20);
    let mut written = 0;
    let error = loop {
        assert!(written < 300, "each is at two sites");
        match client.set(&format!("s:{written}"), &long).await {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.code(), Some("OOM"), "{error}");
    assert_eq!(client.get("s:0").await.unwrap().map(|value| value.len()), Some(long.len()));
    client.command(&["SOLERA.BEGIN", "PCPSI"]).await.unwrap();
    fails(client.set("s:0", &long).await, "OOM", &[]);
    let _ = client.command(&["SOLERA.ABORT"]).await;
    assert!(client.del("s:0").await.unwrap(), "what needs no memory is done");
}

#[tokio::test]
async fn status_and_metrics_describe_the_protocol() {
    let up = up();
    let mut one = up.client(1).await;
    for key in keys() {
        one.set(&key, "x").await.unwrap();
    }
    one.set("causal", "x").await.unwrap();
    let count = keys().len() as i64;
    let mut two = up.client(2).await;
    eventually("all keys are counted at the other site", async || {
        number(&two.command(&["DBSIZE"]).await.unwrap()) == count + 1
    })
    .await;
    let body = http(up.admin(), "/metrics", "").unwrap().1;
    let value = |name: &str, site: &str| -> f64 {
        let start = format!("solera_occult_{name}{{site=\"{site}\"}} ");
        let line = body.lines().find_map(|line| line.strip_prefix(&start));
        line.unwrap_or_else(|| panic!("no {start} in {body}")).parse().unwrap()
    };
    for site in ["virginia", "california"] {
        assert_eq!(value("keys", site), count as f64);
        assert_eq!(value("open_transactions", site), 0.0);
    }
    let shards = value("home_shards", "virginia") + value("home_shards", "california");
    assert_eq!(shards, 16_384.0);
    one.command(&["SOLERA.BEGIN", "PCPSI"]).await.unwrap();
    one.get("s:1").await.unwrap();
    eventually("the open transaction is counted", async || {
        let status = http(up.admin(), "/status", "").unwrap().1;
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        status["sites"][0]["occult"]["open_transactions"] == 1
            && status["sites"][1]["occult"]["keys"] == count
    })
    .await;
}

#[test]
fn rights_apply_as_in_other_spaces_and_moves_need_an_administrator() {
    let user = |name: &str, rest: &str| {
        let hash = hash_password(b"pw");
        format!("[[user]]\nname = '{name}'\npassword_sha256 = ['{hash}']\n{rest}\n")
    };
    let users = user("default", "commands = ['+@all']\nkeys = ['*']")
        + &user("ada", "commands = ['+@all', '-@admin']\nkeys = ['s:own:*', '%R~s:other:*']");
    let up = Up::configured(SPACES, &users);
    let mut client = up.inline();
    assert!(client.ask("SOLERA.HOME").starts_with("-NOAUTH"));
    assert_eq!(client.ask("AUTH ada pw"), "+OK");
    assert_eq!(client.ask("SET s:own:1 x"), "+OK");
    assert_eq!(client.ask("GET s:other:1"), "nil");
    for line in ["SET s:other:1 x", "GET s:1", "MGET s:own:1 s:1", "WATCH s:1"] {
        let said = client.ask(line);
        assert!(said.starts_with("-NOPERM this user has no permissions to access"), "{said}");
    }
    for line in ["SOLERA.HOME", "SOLERA.HOME MOVE KEY s:own:1 TO california"] {
        let said = client.ask(line);
        assert!(said.starts_with("-NOPERM this user has no permissions to run"), "{said}");
    }
    assert!(client.ask("SOLERA.STALE").starts_with("on-stale home"));
    let home = |user: &str, arguments: &[&str]| {
        let mut command = std::process::Command::new(SOLERA);
        command.arg("home").args(arguments).args(["--at", &up.at(1), "--user", user]);
        command.env("SOLERA_PASSWORD", "pw").output().unwrap()
    };
    assert!(!home("ada", &["list"]).status.success());
    ok(&home("default", &["move", "--shard-of", "s:own:1", "--to", "california"]));
}

//! Tests spaces that the example protocol `primary` runs, through the user's interfaces.

mod common;

use std::process::Command;
use std::time::Duration;

use common::{Folder, SOLERA, Up, eventually, free_ports, http, keeping, ok, solera, text};
use solera::{Client, Value};
use solera_node::hash_password;

/// Configuration with two workers per site, so that half of the keys belong to another worker than
/// the connection.
const SPACES: &str = "\
workers = 2
[development]
examples = true
[[space]]
name = 'counters'
prefix = 'n:'
level = 'primary'
[[space]]
name = 'fast'
prefix = 'f:'
level = 'primary'
answer = 'accepted'
";

/// Returns keys of many partitions, with all homes and workers.
fn keys(prefix: &str) -> Vec<String> {
    (0..24).map(|place| format!("{prefix}{place}")).collect()
}

async fn clients(up: &Up) -> [Client; 3] {
    [up.client(1).await, up.client(2).await, up.client(3).await]
}

/// Transfers the causal past of a session to another one.
async fn hand_on(from: &mut Client, to: &mut Client) {
    let token = from.token().await.unwrap();
    to.attach(&token).await.unwrap();
}

#[test]
fn errors_in_spaces_are_reported_with_file_and_line() {
    let folder = Folder::new();
    let of = |settings: &str| {
        let file = folder.file("s.toml", settings);
        let port = free_ports(&["127.0.0.1"]).to_string();
        let mut up = Command::new(SOLERA);
        up.args(["up", "--port", &port, "--config"]).arg(file);
        let output = up.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        text(&output.stderr)
    };
    let without = SPACES.replace("examples = true", "");
    let said = of(&without);
    assert!(said.contains("s.toml, line 7: space 'counters': 'primary' is an example"), "{said}");
    let said = of(&SPACES.replace("'accepted'", "'soon'"));
    assert!(said.contains("s.toml, line 12: space 'fast': answer is 'applied' or"), "{said}");
}

#[tokio::test]
async fn applied_updates_are_visible_after_their_reply_and_with_tokens() {
    let up = Up::configured(SPACES, "");
    let [mut one, mut two, mut three] = clients(&up).await;
    for key in keys("n:") {
        assert_eq!(two.get(&key).await.unwrap(), None);
        two.set(&key, "20").await.unwrap();
        assert_eq!(two.get(&key).await.unwrap().as_deref(), Some("20"), "it is applied here");
        hand_on(&mut two, &mut three).await;
        assert_eq!(three.get(&key).await.unwrap().as_deref(), Some("20"));
        assert_eq!(three.incr_by(&key, 22).await.unwrap(), 42);
        three.barrier(Some(Duration::from_secs(10))).await.unwrap();
        hand_on(&mut three, &mut one).await;
        assert!(one.exists(&key).await.unwrap() && one.del(&key).await.unwrap());
        assert!(!one.del(&key).await.unwrap());
    }
    let kept = one.command(&["WAIT", "1", "10000"]).await.unwrap();
    assert_eq!(kept, Value::Integer(1));
    let folder = Folder::new();
    let file = folder.at("backup");
    let taken = solera(&["backup", "--from", &up.at(1), file.to_str().unwrap()]);
    ok(&taken);
    let said = text(&taken.stdout);
    let left_out = "space counters: keys with 'n:' are NOT in the backup, because protocol primary (2) stores them";
    assert!(said.contains(left_out), "{said}");
}

#[tokio::test]
async fn accepted_updates_are_visible_after_attaching_their_token() {
    let up = Up::configured(SPACES, "");
    let [mut one, _, mut three] = clients(&up).await;
    for (place, key) in keys("f:").into_iter().enumerate() {
        let by = place as i64;
        assert_eq!(one.incr_by(&key, by).await.unwrap(), by);
        let token = one.token().await.unwrap();
        for client in [&mut one, &mut three] {
            client.attach(&token).await.unwrap();
            assert_eq!(client.get(&key).await.unwrap(), Some(by.to_string()));
        }
    }
    one.barrier(Some(Duration::from_secs(10))).await.unwrap();
}

#[test]
fn unsupported_commands_are_rejected_with_the_supported_ones() {
    let up = Up::configured(SPACES, "");
    let mut client = up.inline();
    assert_eq!(client.ask("SET n:1 a"), "+OK");
    let refused = |reply: &str| {
        assert!(
            reply.starts_with("-ERR 'n:1' is in space 'counters', which 'primary' runs"),
            "{reply}"
        );
        assert!(reply.contains("it takes GET, SET without options, INCR"), "{reply}");
    };
    for line in [
        "MGET n:1",
        "MGET n:1 n:2",
        "MGET a n:1",
        "MSET n:1 b",
        "DEL n:1 n:2",
        "EXISTS n:1 n:2",
        "SET n:1 b NX",
        "SETNX n:1 b",
        "TYPE n:1",
        "HSET n:1 f v",
        "SADD n:1 x",
        "WATCH n:1",
    ] {
        refused(&client.ask(line));
    }
    assert_eq!(client.ask("MULTI"), "+OK");
    refused(&client.ask("SET n:1 b"));
    assert!(client.ask("EXEC").starts_with("-EXECABORT"));
    for level in ["CAUSAL", "STRONG"] {
        assert_eq!(client.ask(&format!("SOLERA.BEGIN {level}")), "+OK");
        refused(&client.ask("GET n:1"));
        assert!(client.ask("SOLERA.COMMIT").starts_with("-EXECABORT"));
    }
    assert_eq!(client.ask("GET n:1"), "a");
    assert_eq!(client.ask("INCR n:1"), "-ERR value is not an integer or out of range");
    assert_eq!(client.ask("SOLERA.LEVEL n:1"), "primary");
    assert_eq!(client.ask("SOLERA.LEVEL x"), "causal");
    let spaces = client.ask("SOLERA.SPACES");
    assert!(
        spaces.contains(
            "name fast prefix f: level primary protocol primary protocol-number :2 answer accepted"
        ),
        "{spaces}"
    );
    let token = client.ask("SOLERA.TOKEN");
    let mut other = up.inline();
    let empty = other.ask("SOLERA.TOKEN");
    assert_eq!(other.ask("GET n:nothing"), "nil");
    assert_eq!(other.ask("SOLERA.TOKEN").len(), empty.len(), "there was nothing to see");
    assert_eq!(client.ask("RESET"), "+RESET");
    assert!(client.ask("SOLERA.TOKEN").len() < token.len(), "RESET forgets");
    let source = "\"store s : causal; transaction t(x: handle<counter> in s) { x.add(1); }\"";
    let bound = client.ask(&format!("SOLERA.MODULE LOAD m {source} BIND s=counters"));
    assert!(bound.contains("counters, which runs a protocol that has no transactions"), "{bound}");
}

#[tokio::test]
async fn a_restore_reports_keys_of_primary_that_it_does_not_verify() {
    let folder = Folder::new();
    let file = folder.at("a.backup");
    let file = file.to_str().unwrap();
    {
        let old = Up::configured("", "");
        let mut client = old.client(1).await;
        for key in ["n:1", "n:2", "other"] {
            client.set(key, "7").await.unwrap();
        }
        ok(&solera(&["backup", "--from", &old.at(1), file]));
    }
    let new = Up::configured(SPACES, "");
    let to = new.at(1);
    let refused = solera(&["restore", file, "--to", &to]);
    assert_eq!(refused.status.code(), Some(4));
    // In the other direction the settings to add are those of this cluster.
    let other = folder.at("b.backup");
    let other = other.to_str().unwrap();
    ok(&solera(&["backup", "--from", &to, other]));
    let data = folder.at("data");
    let refused = solera(&["restore", other, "--data", data.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(4));
    let said = text(&refused.stderr);
    assert!(said.contains("level = \"primary\"\nanswer = \"accepted\"\n"), "{said}");
    assert!(said.contains("[development]\nexamples = true\n"), "{said}");
    let restored = solera(&["restore", file, "--to", &to, "--allow-other-spaces"]);
    ok(&restored);
    let said = text(&restored.stdout);
    assert!(said.contains("except 2 keys in spaces outside snapshots"), "{said}");
    let mut client = new.client(1).await;
    for key in ["n:1", "n:2", "other"] {
        assert_eq!(client.get(key).await.unwrap().as_deref(), Some("7"), "{key}");
    }
}

#[test]
fn rights_apply_as_in_other_spaces() {
    let user = |name: &str, rest: &str| {
        let hash = hash_password(b"pw");
        format!("[[user]]\nname = '{name}'\npassword_sha256 = ['{hash}']\n{rest}\n")
    };
    let users = user("default", "commands = ['+@all']\nkeys = ['*']")
        + &user("bob", "commands = ['+@all', '-incr']\nkeys = ['n:own:*', '%R~n:other:*']");
    let up = Up::configured(SPACES, &users);
    let mut client = up.inline();
    assert!(client.ask("SET n:own:1 x").starts_with("-NOAUTH"));
    assert_eq!(client.ask("AUTH bob pw"), "+OK");
    for place in 0..8 {
        assert_eq!(client.ask(&format!("SET n:own:{place} x")), "+OK");
        assert_eq!(client.ask(&format!("GET n:other:{place}")), "nil");
        for line in [format!("SET n:other:{place} x"), format!("GET n:{place}")] {
            assert!(
                client.ask(&line).starts_with("-NOPERM this user has no permissions to access")
            );
        }
        let refused = client.ask(&format!("INCR n:own:n{place}"));
        assert!(refused.starts_with("-NOPERM this user has no permissions to run the 'incr'"));
        assert_eq!(client.ask(&format!("INCRBY n:own:n{place} 2")), ":2");
    }
}

/// While its home is cut off, an update fails after a timeout. The error does not claim that the
/// update had no effect.
#[tokio::test]
async fn updates_without_their_home_are_unknown_and_unreplicated_ones_at_risk() {
    let up = Up::configured(SPACES, "");
    let mut one = up.client(1).await;
    ok(&up.fault(&["cut", "1", "2"]));
    ok(&up.fault(&["cut", "1", "3"]));
    let mut asked = tokio::task::JoinSet::new();
    for key in keys("n:") {
        let mut client = up.client(1).await;
        asked.spawn(async move { (client.set(&key, "x").await, key) });
    }
    let (mut kept, mut unknown) = (Vec::new(), 0);
    while let Some(answered) = asked.join_next().await {
        match answered.unwrap() {
            (Ok(()), key) => kept.push(key),
            (Err(error), key) => {
                assert_eq!(error.code(), Some("UNKNOWN"), "{key}: {error}");
                unknown += 1;
            }
        }
    }
    assert!(!kept.is_empty() && unknown > 0, "keys have different homes: {kept:?}");
    let at_risk = one.command(&["SOLERA.AT-RISK", "COUNT", "100"]).await.unwrap();
    let at_risk = format!("{at_risk:?}");
    let bytes = |key: &str| format!("{:?}", Value::Bulk(key.into()));
    assert!(kept.iter().all(|key| at_risk.contains(&bytes(key))), "{kept:?}: {at_risk}");
    let late = up.client(1).await.barrier(Some(Duration::from_millis(100))).await;
    assert!(late.is_ok(), "that session has seen nothing");
    one.get(&kept[0]).await.unwrap();
    let late = one.barrier(Some(Duration::from_millis(300))).await.unwrap_err();
    assert_eq!(late.code(), Some("TIMEOUT"), "{late}");
    ok(&up.fault(&["heal"]));
    one.barrier(None).await.unwrap();
    let metrics = || http(up.admin(), "/metrics", "").unwrap().1;
    eventually("all is settled", async || {
        ["virginia", "california", "frankfurt"].iter().all(|site| {
            let none = format!("solera_primary_unsettled_updates{{site=\"{site}\"}} 0\n");
            metrics().contains(&none)
        })
    })
    .await;
    let homes = metrics();
    let homes = homes.lines().filter(|line| line.starts_with("solera_primary_home_partitions{"));
    let homes = homes.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u32>().unwrap());
    assert_eq!(homes.sum::<u32>(), 16, "each partition has one");
}

#[tokio::test]
async fn acknowledged_updates_survive_a_restart() {
    let folder = Folder::new();
    let file = folder.file("s.toml", SPACES);
    let data = folder.at("data");
    let arguments = keeping(&file, &data);
    let mut up = Up::start(&arguments);
    for round in 1..=3 {
        let mut clients = clients(&up).await;
        for (place, key) in keys("n:").iter().enumerate() {
            let client = &mut clients[place % 3];
            assert_eq!(client.incr_by(key, 1).await.unwrap(), round, "{key}");
        }
        up.kill();
        up = Up::again(up.port, &arguments);
    }
    let [mut one, ..] = clients(&up).await;
    one.set("n:0", "x").await.unwrap();
    drop(one);
    up.kill();
    let dumped = solera(&["journal", "dump", data.to_str().unwrap()]);
    assert!(text(&dumped.stdout).contains("primary Applied {"), "{}", text(&dumped.stdout));
    let other = folder.file("t.toml", "workers = 2\n");
    let port = up.port.to_string();
    let mut up = Command::new(SOLERA);
    up.args(["up", "--port", &port, "--data"]).arg(&data).arg("--config").arg(other);
    let output = up.output().unwrap();
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains("is missing in solera.toml"), "{said}");
    assert!(said.contains("add the missing lines again. To get rid of the space"), "{said}");
}

#[tokio::test]
async fn a_full_memory_rejects_updates_that_need_more() {
    let up = Up::configured(SPACES, "");
    let mut client = up.client(1).await;
    let long = "x".repeat(1 << 20);
    let error = client.set("n:long", long.clone() + "x").await.unwrap_err();
    assert_eq!(error.code(), Some("TOOLARGE"), "{error}");
    drop(up);
    let settings = SPACES.replace("workers = 2", "workers = 2\nmax_memory = '200 MiB'");
    let up = Up::configured(Box::leak(settings.into_boxed_str()), "");
    let mut client = up.client(1).await;
    let mut written = 0;
    let error = loop {
        assert!(written < 300, "each is at three sites");
        match client.set(&format!("n:{written}"), &long).await {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.code(), Some("OOM"), "{error}");
    assert_eq!(client.get("n:0").await.unwrap().map(|value| value.len()), Some(long.len()));
    assert!(client.del("n:0").await.unwrap(), "what needs no memory is done");
}

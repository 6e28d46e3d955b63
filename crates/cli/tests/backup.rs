//! Tests `solera backup` under load, and `solera restore`.

mod common;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use common::{Node, SOLERA, Up, eventually, free_ports, solera};
use solera::{Client, Error, Value};

const ACCOUNTS: i64 = 40;
const OPENING: i64 = 1000;

/// A folder for a test's files; the names of these files are used in commands.
struct Folder(common::Folder);

impl Folder {
    fn new() -> Folder {
        Folder(common::Folder::new())
    }

    fn text(&self, name: &str) -> String {
        self.0.at(name).to_str().unwrap().to_owned()
    }
}

/// Runs a command that must succeed, and returns its output.
fn ok(arguments: &[&str]) -> String {
    let output = solera(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command that must fail, and returns its error.
fn refused(arguments: &[&str]) -> String {
    let output = solera(arguments);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

fn account(number: i64) -> String {
    format!("account:{number}")
}

async fn number(client: &mut Client, key: &str) -> i64 {
    client.get(key).await.unwrap().map_or(0, |text| text.parse().unwrap())
}

/// Moves money between accounts, and writes and removes posts with their index entries, until
/// `stop` is set.
async fn load(mut client: Client, site: u16, stop: Arc<AtomicBool>, rounds: Arc<AtomicU64>) {
    let mut seed = u64::from(site);
    let mut random = move |below: i64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as i64 % below
    };
    let mut round: i64 = 0;
    while !stop.load(Ordering::Relaxed) {
        round += 1;
        let (from, to, amount) = (account(random(ACCOUNTS)), account(random(ACCOUNTS)), random(50));
        client
            .transaction(async |tx| {
                tx.incr_by(&from, -amount).await?;
                tx.incr_by(&to, amount).await.map(drop)
            })
            .await
            .unwrap();
        // The index names only existing posts: a post is written before its entry, and removed
        // after it.
        let post = format!("post:{site}:{round}");
        client.set(&post, format!("{post} by {site}")).await.unwrap();
        client.sadd("index", &post).await.unwrap();
        client.hincr_by("posted", &site.to_string(), 1).await.unwrap();
        client.incr_by("writes", 1).await.unwrap();
        if round > 10 {
            let old = format!("post:{site}:{}", round - 10);
            client.srem("index", &old).await.unwrap();
            client.del(&old).await.unwrap();
        }
        rounds.fetch_add(1, Ordering::Relaxed);
    }
}

/// Checks invariants that hold in every causal snapshot.
async fn check_invariants(client: &mut Client) {
    let mut total = 0;
    for number_of in 0..ACCOUNTS {
        total += number(client, &account(number_of)).await;
    }
    assert_eq!(total, ACCOUNTS * OPENING, "a transfer was cut in two");
    let index = client.smembers("index").await.unwrap();
    for post in &index {
        assert!(client.exists(post).await.unwrap(), "{post} is in the index, and is not there");
    }
    // Each site writes its posts in order, and counts each post after writing it.
    let mut highest = BTreeMap::<String, i64>::new();
    for post in index {
        let parts: Vec<&str> = post.split(':').collect();
        let place = highest.entry(parts[1].to_owned()).or_default();
        *place = parts[2].parse::<i64>().unwrap().max(*place);
    }
    let posted = client.hgetall("posted").await.unwrap();
    let mut sum = 0;
    for (site, count) in &posted {
        let count: i64 = count.parse().unwrap();
        let highest = highest.get(site).copied().unwrap_or(0);
        assert!((count..=count + 1).contains(&highest), "{site}: {count} posts, {highest} indexed");
        sum += count;
    }
    let writes = number(client, "writes").await;
    assert!((sum - 4..=sum).contains(&writes), "{writes} writes of {sum}");
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one scenario, in the order of its steps")]
async fn a_backup_under_load_is_a_causal_snapshot_and_becomes_a_new_cluster() {
    let folder = Folder::new();
    let config = folder.text("solera.toml");
    std::fs::write(&config, "[[space]]\nname = 'log'\nprefix = 'log:'\nlevel = 'eventual'\n")
        .unwrap();
    let up = Up::start(&["--wan", "lan", "--workers", "2", "--config", &config]);
    let mut one = up.client(1).await;
    for number in 0..ACCOUNTS {
        one.incr_by(&account(number), OPENING).await.unwrap();
    }
    one.command(&["SET", "bytes", "a\r\nb"]).await.unwrap();
    one.set("log:1", "logged").await.unwrap();
    for i in 0..30 {
        let elements: Vec<String> = (0..500).map(|j| format!("element {i} {j}")).collect();
        let mut command = vec!["SADD".to_owned(), "big".to_owned()];
        command.extend(elements);
        one.command(&command).await.unwrap();
    }
    one.barrier(Some(Duration::from_secs(20))).await.unwrap();
    let token = one.token().await.unwrap();

    let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut loads = Vec::new();
    for site in 1..=3 {
        for _ in 0..if site == 1 { 2 } else { 1 } {
            let mut client = up.client(site).await;
            client.attach(&token).await.unwrap();
            let name = site + 10 * loads.len() as u16;
            loads.push(tokio::spawn(load(client, name, stop.clone(), rounds.clone())));
        }
    }
    let mut files = Vec::new();
    for (i, site) in [1, 2, 3, 1].into_iter().enumerate() {
        let before = rounds.load(Ordering::Relaxed);
        eventually("load", async || rounds.load(Ordering::Relaxed) > before + 50).await;
        let (file, from) = (folder.text(&format!("{i}.backup")), up.at(site));
        let taken = file.clone();
        let said =
            tokio::task::spawn_blocking(move || ok(&["backup", "--from", &from, "--json", &taken]));
        let said: serde_json::Value = serde_json::from_str(&said.await.unwrap()).unwrap();
        assert_eq!(said["content"]["elements"].as_u64().map(|n| n >= 15_000), Some(true), "{said}");
        files.push(file);
    }
    stop.store(true, Ordering::Relaxed);
    for load in loads {
        load.await.unwrap();
    }
    drop(up);

    for (i, file) in files.iter().enumerate() {
        let checked = ok(&["backup", "check", file]);
        assert!(checked.contains("space log: keys with 'log:' are eventual"), "{checked}");
        let data = folder.text(&format!("data-{i}"));
        let shape = ["--sites", "2", "--partitions", "7", "--workers", "3", "--config", &config];
        let said = ok(&[&["restore", file, "--data", &data][..], &shape].concat());
        assert!(said.contains("all data is identical"), "{said}");
        let up = Up::start(&[&["--data", &data][..], &shape].concat());
        for site in 1..=2 {
            let mut client = up.client(site).await;
            eventually("all is at both sites", async || {
                number(&mut client, &account(0)).await != 0
                    && client.command(&["SCARD", "big"]).await.unwrap() == Value::Integer(15_000)
                    && client.get("log:1").await.unwrap().as_deref() == Some("logged")
            })
            .await;
            // Writes become visible at another site in causal order, and this one is the last.
            if site == 1 {
                check_invariants(&mut client).await;
            }
            eventually("bytes", async || {
                let bytes = client.command(&["GET", "bytes"]).await.unwrap();
                bytes == Value::Bulk(b"a\r\nb".to_vec())
            })
            .await;
            for (key, kind) in [("writes", "string"), ("index", "set"), ("posted", "hash")] {
                eventually(key, async || {
                    client.command(&["TYPE", key]).await.unwrap() == Value::Simple(kind.to_owned())
                })
                .await;
            }
        }
        // Counters continue from the restored values.
        let mut client = up.client(1).await;
        let writes = number(&mut client, "writes").await;
        assert_eq!(client.incr_by("writes", 1).await.unwrap(), writes + 1);
    }
}

#[tokio::test]
async fn one_command_starts_a_new_cluster_from_a_backup() {
    let folder = Folder::new();
    let (file, data) = (folder.text("a.backup"), folder.text("data"));
    let up = Up::start(&["--sites", "1"]);
    let mut client = up.client(1).await;
    client.set("k", "v").await.unwrap();
    client.incr_by("n", 7).await.unwrap();
    ok(&["backup", "--from", &up.at(1), &file]);
    client.set("k", "later").await.unwrap();
    drop(up);

    let up = Up::start(&["--sites", "2", "--data", &data, "--restore", &file]);
    let mut client = up.client(1).await;
    assert_eq!(client.get("k").await.unwrap().as_deref(), Some("v"));
    assert_eq!(client.incr_by("n", 1).await.unwrap(), 8);
    // The command rejects a data directory that is not empty.
    let error = refused(&["up", "--sites", "2", "--data", &data, "--restore", &file]);
    assert!(error.contains("is not empty"), "{error}");
    let error = refused(&["restore", &file, "--data", &data]);
    assert!(error.contains("is not empty"), "{error}");
}

#[tokio::test]
async fn a_running_cluster_is_restored_only_if_it_is_empty_and_has_the_same_spaces() {
    let folder = Folder::new();
    let (file, config) = (folder.text("a.backup"), folder.text("solera.toml"));
    std::fs::write(&config, "[[space]]\nname = 'log'\nprefix = 'log:'\nlevel = 'eventual'\n")
        .unwrap();
    let old = Up::start(&["--sites", "1", "--config", &config]);
    let mut client = old.client(1).await;
    client.set("k", "old").await.unwrap();
    client.sadd("s", "a").await.unwrap();
    ok(&["backup", "--from", &old.at(1), &file]);
    // An existing file is not replaced.
    let error = refused(&["backup", "--from", &old.at(1), &file]);
    assert!(error.contains("exists"), "{error}");
    let error = refused(&["restore", &file, "--to", &old.at(1)]);
    assert!(error.contains("not empty: number of its keys: 2"), "{error}");
    client.set("k", "new").await.unwrap();
    client.sadd("s", "b").await.unwrap();
    ok(&["restore", &file, "--to", &old.at(1), "--force"]);
    assert_eq!(client.get("k").await.unwrap().as_deref(), Some("old"));
    assert_eq!(client.smembers("s").await.unwrap().len(), 2);

    let other = Up::start(&["--sites", "1"]);
    let (error, _) = other_spaces(&["restore", &file, "--to", &other.at(1)]);
    assert!(error.contains("prefix = \"log:\"\nlevel = \"eventual\""), "{error}");
    // Existing data and other spaces are separate reasons for a rejection, each with its own
    // option.
    other_spaces(&["restore", &file, "--to", &other.at(1), "--force"]);
    assert_eq!(other.client(1).await.command(&["DBSIZE"]).await.unwrap(), Value::Integer(0));
    let same = Up::start(&["--sites", "3", "--config", &config]);
    let said = ok(&["restore", &file, "--to", &same.at(2), "--json"]);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (&said["keys"], &said["compared"], &said["durable"]),
        (&2.into(), &true.into(), &true.into())
    );
    assert_eq!(same.client(2).await.get("k").await.unwrap().as_deref(), Some("old"));
}

#[tokio::test]
async fn counters_with_an_error_bound_are_restored_by_increments() {
    let folder = Folder::new();
    let (file, config) = (folder.text("a.backup"), folder.text("solera.toml"));
    let data = folder.text("data");
    let space = "[[space]]\nname = 'views'\nprefix = 'views:'\nlevel = 'causal'\ntype = 'counter'\n\
                 error = '5%'\nlease_ms = 300\n";
    std::fs::write(&config, space).unwrap();
    let old = Up::start(&["--sites", "3", "--config", &config]);
    let mut client = old.client(1).await;
    client.incr_by("views:a", 1000).await.unwrap();
    client.incr_by("views:b", -7).await.unwrap();
    client.set("k", "v").await.unwrap();
    ok(&["backup", "--from", &old.at(1), &file]);
    let checked = ok(&["backup", "check", &file]);
    assert!(checked.contains("counter, error bound 5%"), "{checked}");
    // A repeated restore has the same result.
    client.incr_by("views:a", 30).await.unwrap();
    for _ in 0..2 {
        ok(&["restore", &file, "--to", &old.at(1), "--force"]);
        assert_eq!(number(&mut client, "views:a").await, 1000);
    }
    drop(old);

    let said = ok(&["restore", &file, "--data", &data, "--config", &config]);
    assert!(said.contains("all data is identical"), "{said}");
    let new = Up::start(&["--data", &data, "--config", &config]);
    for site in 1..=3 {
        let mut client = new.client(site).await;
        for (key, value) in [("views:a", 1000), ("views:b", -7)] {
            eventually(key, async || number(&mut client, key).await == value).await;
            let exact = Value::Array(vec![Value::Integer(value); 2]);
            let read = ["SOLERA.INTERVAL", key];
            eventually(key, async || client.command(&read).await.is_ok_and(|it| it == exact)).await;
        }
    }
}

/// Runs a restore that must reject the cluster's spaces; returns its standard error and output.
fn other_spaces(arguments: &[&str]) -> (String, String) {
    let output = solera(arguments);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    (String::from_utf8(output.stderr).unwrap(), String::from_utf8(output.stdout).unwrap())
}

fn stock(settings: &str) -> String {
    format!("[[space]]\nname = 'stock'\nprefix = 'stock:'\n{settings}\n")
}

fn log(level: &str) -> String {
    format!("[[space]]\nname = 'log'\nprefix = 'log:'\nlevel = '{level}'\n")
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one scenario, in the order of its steps")]
async fn different_spaces_are_listed_and_rejected_unless_allowed() {
    let folder = Folder::new();
    let (file, config) = (folder.text("a.backup"), folder.text("solera.toml"));
    let write = |text: String| std::fs::write(&config, text).unwrap();
    let decrby = "level = 'por'\nstrong = ['DECRBY', 'INCRBY']\nconflicts = [['DECRBY', 'DECRBY'], ['INCRBY', 'INCRBY']]";
    write(stock(decrby) + &log("eventual"));
    let old = Up::start(&["--sites", "1", "--config", &config]);
    let mut client = old.client(1).await;
    client.incr_by("stock:tea", 5).await.unwrap();
    client.set("log:1", "logged").await.unwrap();
    ok(&["backup", "--from", &old.at(1), &file]);
    let checked = ok(&["backup", "check", &file]);
    assert!(checked.contains("strong: INCRBY DECRBY\n"), "{checked}");
    assert!(checked.contains("conflicts: INCRBY+INCRBY DECRBY+DECRBY\n"), "{checked}");
    drop(old);

    let data = folder.text("data");
    let restore = ["restore", &file, "--data", &data, "--sites", "1", "--config", &config];
    for (spaces, rows) in [
        (
            stock(
                "level = 'por'\nstrong = ['SADD', 'INCRBY']\nconflicts = [['INCRBY', 'INCRBY'], ['SADD', 'SADD']]",
            ) + &log("eventual"),
            &["'stock:'   DECRBY  strong      not strong", "'stock:'   SADD    not strong  strong"]
                [..],
        ),
        (
            stock(
                "level = 'por'\nstrong = ['DECRBY', 'INCRBY']\nconflicts = [['DECRBY', '*'], ['INCRBY', 'DECRBY']]",
            ) + &log("eventual"),
            &[
                "'stock:'   DECRBY+INCRBY  no conflict  conflict",
                "'stock:'   INCRBY+INCRBY  conflict     no conflict",
            ],
        ),
        (stock(decrby) + &log("causal"), &["'log:'     level  eventual  causal"]),
        (stock(decrby), &["'log:'     space  eventual  none; in space 'default', causal"]),
        (
            stock(decrby)
                + &log("eventual")
                + "[[space]]\nname = 'audit'\nprefix = 'log:audit:'\nlevel = 'causal'\n",
            &["'log:audit:'  space  none; in space 'log', eventual  causal"],
        ),
    ] {
        write(spaces);
        let (error, _) = other_spaces(&restore);
        for row in rows {
            assert!(error.contains(row), "no row {row} in {error}");
        }
        let listed = error.lines().filter(|line| line.starts_with("  '")).count();
        assert_eq!(listed, rows.len(), "{error}");
        assert!(error.contains("--allow-other-spaces"), "{error}");
        assert!(!Path::new(&data).exists());
        // The new cluster is configured with the tables from the error message.
        let (_, tables) = error.split_once("like the old one:\n").unwrap();
        write(tables.to_owned());
        ok(&restore);
        std::fs::remove_dir_all(&data).unwrap();
    }

    // Equal spaces in another spelling and order are accepted.
    write(
        log("eventual")
            + &stock(
                "level = 'por'\nstrong = ['INCR', 'DECR']\nconflicts = [['INCR', 'INCRBY'], ['DECRBY', 'DECR']]",
            ),
    );
    ok(&restore);
    std::fs::remove_dir_all(&data).unwrap();

    write(stock("level = 'por'\nstrong = ['SADD']") + &log("eventual"));
    let (_, report) = other_spaces(&[&restore[..], &["--json"]].concat());
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let differences = report["differences"].as_array().unwrap();
    let whats: Vec<_> = differences.iter().map(|one| one["what"].as_str().unwrap()).collect();
    assert_eq!(whats, ["DECRBY", "INCRBY", "SADD"]);
    let first = serde_json::json!({
        "prefix": "stock:", "what": "DECRBY", "backup": "strong", "cluster": "not strong",
    });
    assert_eq!(differences[0], first);
    let error =
        refused(&["up", "--sites", "1", "--data", &data, "--config", &config, "--restore", &file]);
    assert!(error.contains("DECRBY") && error.contains("--allow-other-spaces"), "{error}");
    let said = ok(&[&restore[..], &["--allow-other-spaces"]].concat());
    assert!(said.contains("'stock:'   DECRBY  strong      not strong"), "{said}");
    assert!(said.contains("all data is identical"), "{said}");
    let new = Up::start(&["--sites", "1", "--data", &data, "--config", &config]);
    assert_eq!(new.client(1).await.get("stock:tea").await.unwrap().as_deref(), Some("5"));
    let json = ["restore", &file, "--to", &new.at(1), "--force", "--allow-other-spaces", "--json"];
    let said: serde_json::Value = serde_json::from_str(&ok(&json)).unwrap();
    assert_eq!(said["differences"], report["differences"]);
}

#[tokio::test]
async fn a_damaged_or_incomplete_backup_is_rejected_before_anything_is_written() {
    let folder = Folder::new();
    let (file, data) = (folder.text("a.backup"), folder.text("data"));
    let up = Up::start(&["--sites", "1"]);
    let mut client = up.client(1).await;
    for i in 0..100 {
        client.set(&format!("k{i}"), "value").await.unwrap();
    }
    ok(&["backup", "--from", &up.at(1), &file]);
    let good = std::fs::read(&file).unwrap();
    let empty = Up::start(&["--sites", "1"]);
    let place = good.len() / 2;
    let mut changed = good.clone();
    changed[place] ^= 1;
    let older = [b"solera backup 1\n", &good[16..]].concat();
    for (bytes, what) in [
        (changed, "damaged at byte "),
        (good[..place].to_vec(), "incomplete"),
        (good[..good.len() - 1].to_vec(), "incomplete"),
        (b"something else".to_vec(), "not a backup of Solera"),
        (older, "version 1 of the format, and this program reads version 3 only"),
    ] {
        std::fs::write(&file, bytes).unwrap();
        for arguments in [
            &["backup", "check", &file][..],
            &["restore", &file, "--to", &empty.at(1)],
            &["restore", &file, "--data", &data],
        ] {
            let error = refused(arguments);
            assert!(error.contains(what), "{error}");
        }
    }
    assert_eq!(empty.client(1).await.command(&["DBSIZE"]).await.unwrap(), Value::Integer(0));
    assert_eq!(std::fs::read_dir(&*folder.0).unwrap().count(), 1, "something was left behind");
}

#[tokio::test]
async fn a_backup_requires_a_user_who_may_read_everything() {
    let folder = Folder::new();
    let (file, config) = (folder.text("a.backup"), folder.text("solera.toml"));
    let hash = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
    let user = |name: &str, commands: &str, keys: &str| {
        format!(
            "[[user]]\nname = '{name}'\npassword_sha256 = ['{hash}']\ncommands = {commands}\nkeys = {keys}\n"
        )
    };
    let narrow = "['+solera.begin', '+solera.commit', '+solera.spaces', '+solera.export']";
    let text = user("backup", narrow, "['%R~*']")
        + &user("some", narrow, "['cart:*']")
        + &user("none", "['+@all', '-@admin']", "['*']");
    std::fs::write(&config, text).unwrap();
    let up = Up::start(&["--sites", "1", "--config", &config]);
    let from = up.at(1);
    let with = |user: &'static str, password: &'static str| {
        ["backup", "--from", &from, "--user", user, "--password", password, &file]
            .map(str::to_owned)
    };
    for (user, password, what) in [
        ("some", "secret", "NOPERM SOLERA.EXPORT shows every key"),
        ("none", "secret", "NOPERM this user has no permissions to run the 'solera.export'"),
        ("backup", "wrong", "the user or the password is wrong"),
    ] {
        let arguments = with(user, password);
        let error = refused(&arguments.each_ref().map(String::as_str));
        assert!(error.contains(what), "{error}");
    }
    assert!(
        refused(&["backup", "--from", &from, &file])
            .contains("the cluster has users; log in with --user")
    );
    assert!(!Path::new(&file).exists());
    let arguments = with("backup", "secret");
    ok(&arguments.each_ref().map(String::as_str));
    let done = Command::new(SOLERA)
        .args(["backup", "--from", &from, "--user", "backup", &folder.text("b.backup")])
        .env("SOLERA_PASSWORD", "secret")
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn start_node(config: &str, number: u16, port: u16) -> Node {
    let at = |purpose| SocketAddr::from(([127, 0, 0, 1], port + 3 * (number - 1) + purpose));
    let mut command = Command::new(SOLERA);
    command.args(["serve", "--config", config, "--site", "eu", "--node", &number.to_string()]);
    Node::start(&mut command, at(0), at(2))
}

/// Connects to a node that may not listen yet.
async fn client_of(node: &Node) -> Client {
    let mut client = Err(Error::Connection(ErrorKind::NotConnected.into()));
    eventually("a client", async || {
        client = Client::connect(node.resp).await;
        client.is_ok()
    })
    .await;
    client.unwrap()
}

#[tokio::test]
async fn every_node_can_back_up_its_site_unless_a_node_is_unreachable() {
    let folder = Folder::new();
    let (config, port) = (folder.text("solera.toml"), free_ports(&["127.0.0.1"]));
    let node = |number: u16| {
        let at = |purpose: u16| format!("127.0.0.1:{}", port + 3 * number + purpose);
        let (resp, peer, admin) = (at(0), at(1), at(2));
        format!("[[site.node]]\nresp = '{resp}'\npeer = '{peer}'\nadmin = '{admin}'\nworkers = 2\n")
    };
    std::fs::write(&config, format!("[[site]]\nname = 'eu'\n{}{}", node(0), node(1))).unwrap();
    let (one, two) = (start_node(&config, 1, port), start_node(&config, 2, port));
    let (mut client, _) = (client_of(&one).await, client_of(&two).await);
    eventually("the nodes are linked", async || client.command(&["DBSIZE"]).await.is_ok()).await;
    for i in 0..200 {
        let key = format!("k{i}");
        eventually("a write", async || client.set(&key, "v").await.is_ok()).await;
    }
    let elements: Vec<String> = (0..9000).map(|i| format!("element {i}")).collect();
    for name in ["s1", "s2", "s3", "s4"] {
        let mut command = vec!["SADD".to_owned(), name.to_owned()];
        command.extend(elements.iter().cloned());
        client.command(&command).await.unwrap();
    }
    for (i, node) in [&one, &two].into_iter().enumerate() {
        let (file, from) = (folder.text(&format!("{i}.backup")), node.resp.to_string());
        let said = ok(&["backup", "--from", &from, &file]);
        assert!(said.contains("204 keys: 200 strings, 4 sets with 36000 elements"), "{said}");
    }

    // An export that began before the node's restart cannot be completed afterwards.
    client.command(&["SOLERA.BEGIN"]).await.unwrap();
    client.command(&["SOLERA.EXPORT"]).await.unwrap();
    drop(two);
    let file = folder.text("c.backup");
    let error = refused(&["backup", "--from", &one.resp.to_string(), &file]);
    assert!(error.contains("TRYAGAIN node 2 of site eu is unreachable"), "{error}");
    assert_eq!(std::fs::read_dir(&*folder.0).unwrap().count(), 3, "something was left behind");
    let _two = start_node(&config, 2, port);
    let mut again = client_of(&one).await;
    eventually("the node is back", async || again.command(&["DBSIZE"]).await.is_ok()).await;
    let mut errors = Vec::new();
    for partition in 0..16 {
        let page = client.command(&["SOLERA.EXPORT", &partition.to_string(), "0"]).await;
        errors.extend(page.err().map(|error| error.to_string()));
    }
    // The first page from the restarted node fails and ends the transaction.
    assert!(errors[0].contains("restarted during the export"), "{errors:?}");
    assert!(errors.len() >= 8, "{errors:?}");
    assert!(errors[1..].iter().all(|error| error.starts_with("EXECABORT")), "{errors:?}");
}

#[tokio::test]
async fn an_export_fails_after_its_transaction_was_given_up() {
    let folder = Folder::new();
    let config = folder.text("solera.toml");
    std::fs::write(&config, "transaction_timeout_ms = 100\ntransaction_max_age_ms = 100\n")
        .unwrap();
    let up = Up::start(&["--sites", "1", "--config", &config]);
    let mut client = up.client(1).await;
    client.set("k", "v").await.unwrap();
    let error = client.command(&["SOLERA.EXPORT"]).await.unwrap_err();
    assert!(error.to_string().contains("send SOLERA.BEGIN first"), "{error}");
    client.command(&["SOLERA.BEGIN"]).await.unwrap();
    eventually("it is given up", async || {
        client.command(&["SOLERA.EXPORT", "0", "0"]).await.is_err_and(|error| {
            assert_eq!(error.code(), Some("NOTX"), "{error}");
            true
        })
    })
    .await;
    assert_eq!(client.command(&["SOLERA.COMMIT"]).await.unwrap_err().code(), Some("NOTX"));
    for (arguments, what) in [
        (&["16", "0"][..], "there are 16 partitions"),
        (&["x", "0"], "there are 16 partitions"),
        (&["0", "x"], "invalid cursor"),
        (&["0"], "wrong number of arguments"),
    ] {
        // The transaction may have been given up already.
        eventually(what, async || {
            let _ = client.command(&["SOLERA.ABORT"]).await;
            client.command(&["SOLERA.BEGIN"]).await.unwrap();
            let command = [&["SOLERA.EXPORT"], arguments].concat();
            client.command(&command).await.unwrap_err().to_string().contains(what)
        })
        .await;
    }
}

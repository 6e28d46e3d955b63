//! Tests `solera backup` and `solera restore` of a space of level `speculative`.

mod common;

use std::collections::BTreeMap;
use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use common::{
    Folder, Inline, Node, SOLERA, Up, eventually, free_ports, ok, solera, text, wait_until,
};
use solera::Value;
use solera_backup::{BackupReader, Content, Header};
use solera_node::hash_password;

const SPACES: &str = "\
workers = 2
[[space]]
name = 'stock'
prefix = 's:'
level = 'speculative'
strong = ['DECRBY', 'SADD']
";

/// A module with an object of each kind.
const KINDS: &str = "store shop : speculative; \
    transaction fill(n: handle<counter> in shop, r: handle<register<string>> in shop, \
        s: handle<set<int>> in shop, m: handle<map<string, int>> in shop, \
        l: handle<log<string>> in shop, text: string) -> int { \
        n.add(3); r.set(text); s.add(n.value()); m.put(text, n.value()); l.append(text); \
        return l.size(); } \
    struct Kinds { n: int, r: string, s: set<int>, m: map<string, int>, l: list<string> } \
    transaction show(n: handle<counter> in shop, r: handle<register<string>> in shop, \
        s: handle<set<int>> in shop, m: handle<map<string, int>> in shop, \
        l: handle<log<string>> in shop) -> Kinds { \
        return Kinds { n: n.value(), r: *r, s: s.elements(), m: m.entries(), l: l.values() }; }";

fn load(client: &mut Inline) {
    let source = KINDS.replace('"', "\\\"");
    let loaded = client.ask(&format!("SOLERA.MODULE LOAD kinds \"{source}\" BIND shop=stock"));
    assert_eq!(loaded, "+OK");
}

/// Runs a command that must succeed, and returns its output.
fn said(arguments: &[&str]) -> String {
    let output = solera(arguments);
    ok(&output);
    text(&output.stdout)
}

fn read(file: &Path) -> (Header, BTreeMap<String, Content>) {
    let mut backup = BackupReader::open(File::open(file).unwrap()).unwrap();
    let mut found = BTreeMap::new();
    while let Some(entry) = backup.next_entry().unwrap() {
        assert!(!entry.continued, "the values are short");
        assert!(found.insert(text(&entry.key), entry.content).is_none(), "each key occurs once");
    }
    (backup.header().clone(), found)
}

fn string(text: &str) -> Content {
    Content::String(text.into())
}

/// Returns the replies that show all data of the test of kinds.
fn shown(client: &mut Inline) -> Vec<String> {
    let lines = [
        "MGET s:text s:n",
        "SMEMBERS s:set",
        "HGETALL s:hash",
        "SOLERA.NEWEST s:list 10",
        "TYPE s:list",
        "GET other",
        "SOLERA.CALL WEAK kinds.show n r set2 m l",
    ];
    lines.map(|line| client.ask(line)).into()
}

#[test]
fn all_kinds_of_values_come_back_and_are_continued() {
    let folder = Folder::new();
    let (file, data) = (folder.at("a.backup"), folder.at("data"));
    let (file, data) = (file.to_str().unwrap(), data.to_str().unwrap());
    let config = folder.file("solera.toml", SPACES);
    let config = config.to_str().unwrap();
    let old = Up::start(&["--config", config]);
    let (mut one, mut two) = (old.inline(), Inline::at(old.address(2)));
    assert_eq!(one.ask("SET s:text hello"), "+OK");
    assert_eq!(one.ask("INCRBY s:n 10"), ":10");
    assert_eq!(one.ask("DECRBY s:n 3"), ":7");
    assert_eq!(one.ask("SET s:bytes \"a\\r\\nb\\x00\\xff\""), "+OK");
    assert_eq!(one.ask("HSET s:hash f 1 g two"), ":2");
    assert_eq!(one.ask("SADD s:set x y z"), ":3");
    assert_eq!(one.ask("SET s:gone 1"), "+OK");
    assert_eq!(one.ask("DEL s:gone"), ":1");
    assert_eq!(one.ask("SET other causal"), "+OK");
    for element in ["first", "second", "third"] {
        assert!(!one.ask(&format!("SOLERA.PUSH s:list {element}")).starts_with('-'));
    }
    load(&mut one);
    assert_eq!(one.ask("SOLERA.CALL kinds.fill n r set2 m l tea"), ":1");
    assert_eq!(one.ask("SOLERA.CALL WEAK kinds.fill n r set2 m l pie"), ":2");
    // An operation of another site that this one has seen.
    let token = one.ask("SOLERA.TOKEN");
    assert_eq!(two.ask(&format!("SOLERA.ATTACH {token}")), "+OK");
    assert_eq!(two.ask("HSET s:hash h 3"), ":1");
    let token = two.ask("SOLERA.TOKEN");
    assert_eq!(one.ask(&format!("SOLERA.ATTACH {token}")), "+OK");
    let expected = shown(&mut one);
    let module = "n :13 r pie s :10 :13 m pie :13 tea :10 l tea pie";
    assert_eq!(expected[6], module);
    let saved = said(&["backup", "--from", &old.at(1), file]);
    assert!(saved.contains("space stock: keys with 's:' are speculative\n"), "{saved}");
    assert!(saved.contains("    strong: DECRBY SADD\n    after "), "{saved}");
    assert!(!saved.contains("WARNING"), "{saved}");
    let (header, entries) = read(Path::new(file));
    assert_eq!(header.protocols, [1, 5]);
    assert!(!entries.contains_key("s:gone"), "{:?}", entries.keys());
    assert_eq!(entries["s:bytes"], Content::String(b"a\r\nb\0\xff".to_vec()));
    assert!(entries.keys().all(|key| !key.starts_with('\0')), "modules are no keys");
    drop(old);

    let shape = ["--sites", "2", "--partitions", "7", "--workers", "3", "--config", config];
    let restored = said(&[&["restore", file, "--data", data][..], &shape].concat());
    assert!(restored.contains("read back and compared: all data is identical\n"), "{restored}");
    let new = Up::start(&[&["--data", data][..], &shape].concat());
    for site in [1, 2] {
        let mut client = Inline::at(new.address(site));
        wait_until("the data is here", || shown(&mut client) == expected);
    }
    let mut client = new.inline();
    assert_eq!(client.ask("DECRBY s:n 1"), ":12");
    assert_eq!(client.ask("SADD s:set x"), ":0");
    assert_eq!(client.ask("HINCRBY s:hash f 1"), ":2");
    assert_eq!(client.ask("SOLERA.CALL kinds.fill n r set2 m l jam"), ":3");
    assert!(!client.ask("SOLERA.PUSH s:list fourth").starts_with('-'));
    let newest = client.ask("SOLERA.NEWEST s:list 2");
    assert!(newest.find("fourth") < newest.find("third"), "{newest}");
}

#[test]
fn a_restore_into_a_running_cluster_happens_once_unless_it_is_forced() {
    let folder = Folder::new();
    let file = folder.at("a.backup");
    let file = file.to_str().unwrap();
    let old = Up::configured(SPACES, "");
    let mut client = old.inline();
    client.ask("MSET s:a 1 s:b 2");
    client.ask("SADD s:set x y");
    said(&["backup", "--from", &old.at(1), file]);
    let new = Up::configured(SPACES, "");
    let to = new.at(2);
    let restored = said(&["restore", file, "--to", &to]);
    assert!(restored.contains("all data is identical\n"), "{restored}");
    let again = solera(&["restore", file, "--to", &to]);
    assert_eq!(again.status.code(), Some(1));
    let error = text(&again.stderr);
    assert!(error.contains("the cluster is not empty: number of its keys: 3"), "{error}");
    let mut client = Inline::at(new.address(2));
    assert_eq!(client.ask("INCRBY s:a 50"), ":51");
    assert_eq!(client.ask("SADD s:set z"), ":1");
    said(&["restore", file, "--to", &to, "--force"]);
    assert_eq!(client.ask("MGET s:a s:b"), "1 2");
    assert_eq!(client.ask("SMEMBERS s:set"), "x y z");
    // A key of another type stops the restore.
    assert_eq!(client.ask("DEL s:set"), ":1");
    assert_eq!(client.ask("SET s:set text"), "+OK");
    let wrong = solera(&["restore", file, "--to", &to, "--force"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(text(&wrong.stderr).contains("WRONGTYPE"), "{wrong:?}");
}

/// What a site has acknowledged is in its backup, though the operations are not final yet.
#[test]
fn a_backup_makes_the_operations_of_its_site_final() {
    let up = Up::configured(SPACES, "");
    let folder = Folder::new();
    let mut client = Inline::at(up.address(2));
    for round in 1..=3 {
        client.ask("INCR s:n");
        client.ask(&format!("HSET s:hash f{round} {round}"));
        let file = folder.at(&round.to_string());
        said(&["backup", "--from", &up.at(2), file.to_str().unwrap()]);
        let (header, entries) = read(&file);
        assert_eq!(entries["s:n"], string(&round.to_string()));
        assert_eq!(entries["s:hash"].len(), round);
        let state = header.speculative.unwrap();
        assert_eq!(state.left_out, 0);
        assert!(state.finals >= 2 * round as u64 && state.digest.len() == 16, "{state:?}");
    }
}

#[test]
fn a_backup_of_a_site_that_is_cut_off_reports_the_operations_that_it_lacks() {
    let up = Up::configured(SPACES, "");
    let folder = Folder::new();
    let at = |name: &str| folder.at(name).to_str().unwrap().to_owned();
    let mut client = up.inline();
    assert_eq!(client.ask("INCRBY s:n 5"), ":5");
    assert_eq!(client.ask("SOLERA.BARRIER 10000"), "+OK");
    ok(&up.fault(&["cut", "1", "2"]));
    ok(&up.fault(&["cut", "1", "3"]));
    assert_eq!(client.ask("INCRBY s:n 2"), ":7");
    assert_eq!(client.ask("SET s:new x"), "+OK");
    assert!(client.ask("SOLERA.CALL STRONG INCRBY s:n 1").contains("tentative :8"));
    assert_eq!(client.ask("GET s:n"), "8");
    let warning = "WARNING: the backup lacks 3 operations of this space that the site had executed";
    let saved = said(&["backup", "--from", &up.at(1), &at("cut")]);
    assert!(saved.contains(warning), "{saved}");
    let checked = said(&["backup", "check", "--json", &at("cut")]);
    let checked: serde_json::Value = serde_json::from_str(&checked).unwrap();
    assert_eq!(checked["speculative"]["left_out"], 3, "{checked}");
    let (_, entries) = read(&folder.at("cut"));
    assert_eq!(entries, BTreeMap::from([("s:n".to_owned(), string("5"))]));
    // The site goes on, and the other sites have complete backups.
    assert_eq!(client.ask("INCRBY s:n 1"), ":9");
    let saved = said(&["backup", "--from", &up.at(2), &at("other")]);
    assert!(!saved.contains("WARNING"), "{saved}");
    ok(&up.fault(&["heal"]));
    assert_eq!(client.ask("SOLERA.BARRIER 30000"), "+OK");
    let saved = said(&["backup", "--from", &up.at(1), &at("healed")]);
    assert!(!saved.contains("WARNING"), "{saved}");
    let (_, entries) = read(&folder.at("healed"));
    assert_eq!((&entries["s:n"], &entries["s:new"]), (&string("9"), &string("x")));

    let new = Up::configured(SPACES, "");
    let restored = said(&["restore", &at("cut"), "--to", &new.at(1)]);
    assert!(restored.contains(warning) && restored.contains("identical"), "{restored}");
    assert_eq!(new.inline().ask("MGET s:n s:new"), "5 nil");
    // A restore cannot be compared while the site is cut off.
    let new = Up::configured(SPACES, "");
    ok(&new.fault(&["cut", "1", "2"]));
    ok(&new.fault(&["cut", "1", "3"]));
    let refused = solera(&["restore", &at("cut"), "--to", &new.at(1)]);
    assert_eq!(refused.status.code(), Some(1));
    let error = text(&refused.stderr);
    let reason = "cannot be compared; number of operations of space 'stock' that are not final: 1";
    assert!(error.contains(reason), "{error}");
}

#[test]
fn a_cluster_without_the_space_is_refused_with_the_space() {
    let folder = Folder::new();
    let file = folder.at("a.backup");
    let file = file.to_str().unwrap();
    {
        let old = Up::configured(SPACES, "");
        assert_eq!(old.inline().ask("SADD s:set x"), ":1");
        said(&["backup", "--from", &old.at(1), file]);
    }
    let new = Up::start(&["--sites", "1"]);
    let to = new.at(1);
    let refused = solera(&["restore", file, "--to", &to]);
    assert_eq!(refused.status.code(), Some(4));
    let error = text(&refused.stderr);
    for part in [
        "  's:'       space  speculative  none; in space 'default', causal\n",
        "name = \"stock\"\nprefix = \"s:\"\nlevel = \"speculative\"\nstrong = [\"DECRBY\", \"SADD\"]\n",
    ] {
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(new.inline().ask("DBSIZE"), ":0");
    let restored = said(&["restore", file, "--to", &to, "--allow-other-spaces"]);
    assert!(restored.contains("all data is identical\n"), "{restored}");
    assert_eq!(new.inline().ask("SMEMBERS s:set"), "x");
}

#[test]
fn an_export_requires_the_right_to_read_the_space() {
    let user = |name: &str, commands: &str, keys: &str| {
        let hash = hash_password(b"pw");
        format!(
            "[[user]]\nname = '{name}'\npassword_sha256 = ['{hash}']\ncommands = {commands}\nkeys = {keys}\n"
        )
    };
    let narrow = "['+solera.begin', '+solera.commit', '+solera.spaces', '+solera.export']";
    let users = user("default", "['+@all']", "['*']")
        + &user("reader", narrow, "['%R~*']")
        + &user("other", narrow, "['cart:*', '%R~list:*']")
        + &user("writer", narrow, "['%W~*']")
        + &user("plain", "['+@all', '-@admin']", "['*']");
    let up = Up::configured(SPACES, &users);
    let mut client = up.inline();
    assert_eq!(client.ask("AUTH pw"), "+OK");
    assert_eq!(client.ask("SET s:secret x"), "+OK");
    let folder = Folder::new();
    let take = |user: &str| {
        let file = folder.at(user);
        let from = up.at(1);
        let login = ["--user", user, "--password", "pw"];
        solera(&[&["backup", "--from", &from, file.to_str().unwrap()][..], &login].concat())
    };
    for (user, reason) in [
        ("other", "NOPERM SOLERA.EXPORT shows every key"),
        ("writer", "NOPERM SOLERA.EXPORT shows every key"),
        ("plain", "NOPERM this user has no permissions to run the 'solera.export'"),
    ] {
        let refused = take(user);
        assert_eq!(refused.status.code(), Some(1));
        assert!(text(&refused.stderr).contains(reason), "{refused:?}");
        assert!(!folder.at(user).exists());
        // The cursor of the space's keys gives no access, either.
        let mut client = up.inline();
        client.ask(&format!("AUTH {user} pw"));
        client.ask("SOLERA.BEGIN");
        assert!(client.ask("SOLERA.EXPORT 0 s0").starts_with("-NOPERM"));
    }
    ok(&take("reader"));
    assert_eq!(read(&folder.at("reader")).1["s:secret"], string("x"));
}

const ACCOUNTS: usize = 3000;

/// Transactions that run meanwhile are in the backup as a whole or not at all.
#[tokio::test]
async fn a_backup_under_load_is_one_state_of_the_order() {
    let up = Up::configured(SPACES, "");
    let folder = Folder::new();
    let mut client = up.client(1).await;
    for chunk in (0..ACCOUNTS).collect::<Vec<_>>().chunks(500) {
        let pairs = chunk.iter().flat_map(|it| [format!("s:{it}"), "100".to_owned()]);
        let command: Vec<String> = std::iter::once("MSET".to_owned()).chain(pairs).collect();
        client.command(&command).await.unwrap();
    }
    let token = client.token().await.unwrap();
    let (stop, stopped) = tokio::sync::watch::channel(0);
    let mut writers = tokio::task::JoinSet::new();
    for site in 1..=3 {
        let (mut client, stopped) = (up.client(site).await, stopped.clone());
        client.attach(&token).await.unwrap();
        writers.spawn(async move {
            let mut seed = usize::from(site);
            let mut random = move || {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_041);
                (seed >> 33) % ACCOUNTS
            };
            while *stopped.borrow() == 0 {
                let (from, to) = (format!("s:{}", random()), format!("s:{}", random()));
                let lines = [
                    vec!["MULTI".as_bytes()],
                    vec![b"INCRBY", from.as_bytes(), b"-7"],
                    vec![b"INCRBY", to.as_bytes(), b"7"],
                    vec![b"EXEC"],
                ];
                client.pipeline(&lines).await.unwrap();
            }
        });
    }
    let mut digests = Vec::new();
    for round in 0..4 {
        let file = folder.at(&round.to_string());
        let (path, from) = (file.to_str().unwrap().to_owned(), up.at(1 + round % 3));
        let taken = tokio::task::spawn_blocking(move || said(&["backup", "--from", &from, &path]));
        let taken = taken.await.unwrap();
        assert!(!taken.contains("WARNING"), "{taken}");
        let (header, entries) = read(&file);
        let amount = |content: &Content| match content {
            Content::String(value) => text(value).parse::<i64>().unwrap(),
            other => panic!("{other:?}"),
        };
        assert_eq!(entries.len(), ACCOUNTS);
        let sum: i64 = entries.values().map(amount).sum();
        assert_eq!(sum, 100 * ACCOUNTS as i64, "a transfer was cut in two");
        digests.push(header.speculative.unwrap().digest);
    }
    stop.send(1).unwrap();
    while let Some(done) = writers.join_next().await {
        done.unwrap();
    }
    assert!(digests.windows(2).all(|two| two[0] != two[1]), "the load went on: {digests:?}");
}

fn start_node(config: &str, number: u16, port: u16) -> Node {
    let at = |purpose| SocketAddr::from(([127, 0, 0, 1], port + 3 * (number - 1) + purpose));
    let mut command = Command::new(SOLERA);
    command.args(["serve", "--config", config, "--site", "eu", "--node", &number.to_string()]);
    Node::start(&mut command, at(0), at(2))
}

/// The space's worker is on the first node. The other node exports its keys as well.
#[tokio::test]
async fn each_node_exports_the_space_unless_its_worker_restarts() {
    let folder = Folder::new();
    let port = free_ports(&["127.0.0.1"]);
    let node = |number: u16| {
        let at = |purpose: u16| format!("127.0.0.1:{}", port + 3 * number + purpose);
        let (resp, peer, admin) = (at(0), at(1), at(2));
        format!("[[site.node]]\nresp = '{resp}'\npeer = '{peer}'\nadmin = '{admin}'\n")
    };
    let settings = format!(
        "[[site]]\nname = 'eu'\n{}{}[[space]]\nname = 'stock'\nprefix = 's:'\nlevel = 'speculative'\n",
        node(0),
        node(1)
    );
    let config = folder.file("solera.toml", &settings);
    let config = config.to_str().unwrap();
    let (one, two) = (start_node(config, 1, port), start_node(config, 2, port));
    wait_until("the nodes are ready", || one.is_ready() && two.is_ready());
    let mut client = Inline::at(two.resp);
    wait_until("a write", || client.ask("SET s:a 7") == "+OK");
    let file = folder.at("a.backup");
    let saved = said(&["backup", "--from", &two.resp.to_string(), file.to_str().unwrap()]);
    assert!(saved.contains("1 key: 1 string"), "{saved}");
    assert_eq!(read(&file).1["s:a"], string("7"));

    let mut client = two.client().await;
    client.command(&["SOLERA.BEGIN"]).await.unwrap();
    client.command(&["SOLERA.EXPORT"]).await.unwrap();
    let page = client.command(&["SOLERA.EXPORT", "0", "s0"]).await.unwrap();
    let entry =
        Value::Array([&b"s:a"[..], b"string", b"7"].map(|it| Value::Bulk(it.into())).into());
    assert_eq!(page, Value::Array(vec![Value::Bulk(b"0".to_vec()), Value::Array(vec![entry])]));
    let error = client.command(&["SOLERA.EXPORT", "0", "s0"]).await.unwrap_err().to_string();
    assert!(error.contains("does not hold the final state of space 'stock'"), "{error}");
    client.command(&["SOLERA.ABORT"]).await.unwrap();
    client.command(&["SOLERA.BEGIN"]).await.unwrap();
    client.command(&["SOLERA.EXPORT"]).await.unwrap();
    drop(one);
    let _one = start_node(config, 1, port);
    let mut other = two.client().await;
    eventually("the space is back", async || other.command(&["GET", "s:a"]).await.is_ok()).await;
    let error = client.command(&["SOLERA.EXPORT", "0", "s0"]).await.unwrap_err().to_string();
    assert!(error.contains("node 1 of site eu does not hold the final state"), "{error}");
}

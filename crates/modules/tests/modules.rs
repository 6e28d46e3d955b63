//! Tests of modules on clusters in this process.

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{SPACES, spec};
use solera::mixed::{Spaces, System};
use solera::{Client, Error, Value};
use solera_embedded::{ClusterSpec, Embedded, Fault, Overrides, Settings};
use solera_mixt::binding::{Bindings, Module};
use solera_mixt::coordinator::{Ask, Coordinator, Next, Reply, Request, TransactionId};
use solera_mixt::executor::{Clock, Connections, run};
use solera_mixt::outcome::{Limits, Outcome};
use solera_mixt::store::Database;
use solera_program::run::Limits as PhaseLimits;
use solera_program::value::Value as RunValue;

const GROUPS: &str = include_str!("../../../examples/message_groups.mixt");

async fn with_groups() -> (Embedded, Client) {
    let cluster = Embedded::with(spec()).unwrap();
    let mut client = cluster.client(0).await.unwrap();
    client.command(&["SOLERA.MODULE", "LOAD", "groups", GROUPS]).await.unwrap();
    (cluster, client)
}

fn text(value: &Value) -> String {
    match value {
        Value::Bulk(bytes) => String::from_utf8(bytes.clone()).unwrap(),
        other => panic!("{other:?} is no text"),
    }
}

async fn call(client: &mut Client, words: &[&str]) -> Result<Value, Error> {
    let words: Vec<&str> = ["SOLERA.CALL"].into_iter().chain(words.iter().copied()).collect();
    client.command(&words).await
}

async fn eventually<R>(mut what: impl AsyncFnMut() -> Option<R>) -> R {
    let began = Instant::now();
    loop {
        if let Some(found) = what().await {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "it never came about");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn members(group: &str) -> BTreeSet<String> {
    let inner = group.trim_matches(['[', ']']);
    inner.split(',').filter(|one| !one.is_empty()).map(|one| one.trim_matches('"').into()).collect()
}

#[tokio::test]
async fn a_module_loaded_at_one_site_is_called_at_another() {
    let (cluster, mut here) = with_groups().await;
    let token = here.token().await.unwrap();
    let mut there = cluster.client(1).await.unwrap();
    there.attach(&token).await.unwrap();
    let ann = text(&call(&mut there, &["groups.create_user", "Ann"]).await.unwrap());
    assert!(ann.starts_with("mail:"), "{ann}");
    let group = text(&call(&mut there, &["groups.create_group", "tea"]).await.unwrap());
    let joined = call(&mut there, &["groups.join", &group, &ann]).await.unwrap();
    assert_eq!(joined, Value::Boolean(true));
    assert_eq!(
        call(&mut there, &["groups.join", &group, &ann]).await.unwrap(),
        Value::Boolean(false)
    );
    let sent = call(&mut there, &["groups.post", &group, "audit:all", "hello"]).await.unwrap();
    assert_eq!(sent, Value::Integer(1));
    // The session sees what a call wrote, even without a module.
    let inbox = call(&mut there, &["groups.inbox", &ann]).await.unwrap();
    assert_eq!(inbox, Value::Set(vec![Value::Bulk(b"hello".to_vec())]));
    let user = there.hgetall(&ann).await.unwrap();
    assert_eq!(user["name"], "Ann");
    let inbox = there.smembers(&format!("mail:{}", user["inbox"])).await.unwrap();
    assert_eq!(inbox, BTreeSet::from(["hello".to_owned()]));
    let log = there.hgetall("log:all").await.unwrap();
    assert_eq!(log.values().collect::<Vec<_>>(), ["hello"]);
    // Its token transfers this to another session.
    let token = there.token().await.unwrap();
    here.attach(&token).await.unwrap();
    let inbox = call(&mut here, &["groups.inbox", &ann]).await.unwrap();
    assert_eq!(inbox, Value::Set(vec![Value::Bulk(b"hello".to_vec())]));
}

/// A module with one transaction for each kind of object.
const OBJECTS: &str = "
store mail : causal;
struct Pair { left: int, right: list<string> }
transaction texts(at: handle<register<string>> in mail) -> option<string> {
    at.set(\"new\"); return at.get();
}
transaction counts(at: handle<counter> in mail) -> int { at.add(5); return at.value(); }
transaction sets(at: handle<set<int>> in mail) -> set<int> {
    at.add(1); at.add(2); at.remove(1); return at.elements();
}
transaction maps(at: handle<map<string, int>> in mail) -> map<string, int> {
    at.put(\"a\", 1); at.put(\"b\", 2); at.remove(\"a\"); return at.entries();
}
transaction lists(at: handle<list<string>> in mail) -> list<string> {
    at.append(\"x\"); at.append(\"y\"); return at.values();
}
transaction pairs(at: handle<Pair> in mail) -> list<string> { at.left = at.left + 1; return at.right; }
transaction gone(at: handle<register<string>> in mail) { at.delete(); }
";

#[tokio::test]
async fn objects_are_stored_as_redis_types() {
    let cluster = Embedded::with(spec()).unwrap();
    let mut client = cluster.client(0).await.unwrap();
    let checked = client.command(&["SOLERA.MODULE", "CHECK", "o", OBJECTS]).await.unwrap();
    assert_eq!(text(&checked), "");
    client.command(&["SOLERA.MODULE", "LOAD", "o", OBJECTS]).await.unwrap();
    let bulk = |text: &str| Value::Bulk(text.as_bytes().to_vec());
    assert_eq!(call(&mut client, &["o.texts", "r"]).await.unwrap(), bulk("new"));
    assert_eq!(client.get("mail:r").await.unwrap().as_deref(), Some("new"));
    client.set("mail:n", "37").await.unwrap();
    assert_eq!(call(&mut client, &["o.counts", "n"]).await.unwrap(), Value::Integer(42));
    assert_eq!(client.incr_by("mail:n", 1).await.unwrap(), 43);
    client.sadd("mail:s", "7").await.unwrap();
    let set = call(&mut client, &["o.sets", "s"]).await.unwrap();
    assert_eq!(set, Value::Set(vec![Value::Integer(2), Value::Integer(7)]));
    client.hset("mail:m", "c", "3").await.unwrap();
    let map = call(&mut client, &["o.maps", "m"]).await.unwrap();
    let entry = |name: &str, value| (bulk(name), Value::Integer(value));
    assert_eq!(map, Value::Map(vec![entry("b", 2), entry("c", 3)]));
    let list = call(&mut client, &["o.lists", "l"]).await.unwrap();
    assert_eq!(list, Value::Array(vec![bulk("x"), bulk("y")]));
    let names: Vec<_> = client.hgetall("mail:l").await.unwrap().into_values().collect();
    assert_eq!(names, ["x", "y"]);
    client.hset("mail:p", "left", "1").await.unwrap();
    client.hset("mail:p", "right", r#"["a"]"#).await.unwrap();
    let pair = call(&mut client, &["o.pairs", "p"]).await.unwrap();
    assert_eq!(pair, Value::Array(vec![bulk("a")]));
    assert_eq!(client.hget("mail:p", "left").await.unwrap().as_deref(), Some("2"));
}

#[tokio::test]
async fn keys_of_another_type_are_left_alone() {
    let cluster = Embedded::with(spec()).unwrap();
    let mut client = cluster.client(0).await.unwrap();
    client.command(&["SOLERA.MODULE", "LOAD", "o", OBJECTS]).await.unwrap();
    client.sadd("mail:s", "dear").await.unwrap();
    for transaction in ["o.texts", "o.counts", "o.maps", "o.pairs", "o.gone"] {
        let error = call(&mut client, &[transaction, "s"]).await.unwrap_err();
        assert_eq!(error.code(), Some("FAILED"), "{error}");
        assert!(error.to_string().contains("`s` holds a set"), "{transaction}: {error}");
    }
    assert_eq!(client.smembers("mail:s").await.unwrap(), BTreeSet::from(["dear".to_owned()]));
    client.set("mail:t", "text").await.unwrap();
    let error = call(&mut client, &["o.counts", "t"]).await.unwrap_err().to_string();
    assert!(error.contains("not a number"), "{error}");
    client.set("mail:max", i64::MAX.to_string()).await.unwrap();
    let error = call(&mut client, &["o.counts", "max"]).await.unwrap_err().to_string();
    assert!(error.contains("would not fit 64 bits"), "{error}");
    // Handles do not lead to keys that Solera reserves.
    let error = call(&mut client, &["o.texts", "solera:x"]).await.unwrap_err().to_string();
    assert!(error.contains("reserved"), "{error}");
    // A failed transaction leaves the session as it was.
    assert_eq!(call(&mut client, &["o.counts", "n"]).await.unwrap(), Value::Integer(5));
}

/// A key without a user must not make a group useless for the others.
#[tokio::test]
async fn posts_skip_members_that_do_not_exist() {
    let (_cluster, mut client) = with_groups().await;
    let user = text(&call(&mut client, &["groups.create_user", "Ann"]).await.unwrap());
    let group = text(&call(&mut client, &["groups.create_group", "tea"]).await.unwrap());
    for user in ["mail:nobody", &user] {
        let joined = call(&mut client, &["groups.join", &group, user]).await;
        assert_eq!(joined.unwrap(), Value::Boolean(true));
    }
    let posted = call(&mut client, &["groups.post", &group, "all", "hello"]).await;
    assert_eq!(posted.unwrap(), Value::Integer(1));
    let inbox = call(&mut client, &["groups.inbox", &user]).await.unwrap();
    assert_eq!(inbox, Value::Set(vec![Value::Bulk(b"hello".to_vec())]));
    let error = call(&mut client, &["groups.inbox", "mail:nobody"]).await.unwrap_err();
    assert!(error.to_string().contains("mail:nobody does not exist"), "{error}");
}

/// A strong phase beyond a limit of the site is rejected as a command would be.
#[tokio::test]
async fn a_strong_phase_that_is_too_large_is_rejected() {
    let config = format!("strong_max_bytes = '1 KiB'\nstrong_max_operations = 5\n{SPACES}");
    let spec = ClusterSpec::parse("config", &config, Overrides::default()).unwrap();
    let cluster = Embedded::with(spec).unwrap();
    let mut client = cluster.client(0).await.unwrap();
    let source = "store directory : linearizable;
        transaction put(at: handle<register<string>> in directory, x: string) { at.set(x); }
        transaction add(n: handle<counter> in directory, times: list<int>) {
            for time in times { n.add(time); }
        }";
    client.command(&["SOLERA.MODULE", "LOAD", "big", source]).await.unwrap();
    let text = "x".repeat(2000);
    for (words, limit) in [
        (
            ["big.put", "k", &text],
            "1024 bytes of keys and values (strong_max_bytes in solera.toml)",
        ),
        (
            ["big.add", "n", "[1,2,3,4,5,6,7]"],
            "5 operations (strong_max_operations in solera.toml)",
        ),
    ] {
        let error = call(&mut client, &words).await.unwrap_err();
        assert_eq!(error.code(), Some("TOOLARGE"), "{error}");
        let error = error.to_string();
        assert!(error.contains(&format!("a strong transaction has at most {limit}")), "{error}");
        assert_eq!(error.matches("nothing was changed").count(), 1, "{error}");
        assert_eq!(error.matches("TOOLARGE").count(), 1, "{error}");
    }
}

/// The transaction reads its store in an endless loop. The limit of steps would end it only after
/// hours.
#[tokio::test]
async fn an_endless_loop_times_out() {
    let phase = PhaseLimits { fuel: u64::MAX, ..PhaseLimits::default() };
    let limits = Limits { phase, run_ms: 200, ..Limits::default() };
    let settings = Settings { limits, ..Settings::default() };
    let cluster = Embedded::with_modules(spec(), settings, Vec::new()).unwrap();
    let mut client = cluster.client(0).await.unwrap();
    let source = "store audit : eventual; store mail : causal;
        transaction once(at: handle<counter> in mail) { at.add(1); }
        transaction ever(at: handle<counter> in mail) {
            at.add(1);
            while at.value() > 0 { }
        }
        transaction weakly(at: handle<counter> in audit) {
            while at.value() == 0 { }
        }";
    client.command(&["SOLERA.MODULE", "LOAD", "loops", source]).await.unwrap();
    for (transaction, place) in [
        ("loops.ever", "(in transaction `ever`, line 5); nothing was changed"),
        ("loops.weakly", "(in transaction `weakly`, line 8); nothing was changed"),
    ] {
        let words = [transaction, "n"];
        let ended = call(&mut client, &words);
        let ended = tokio::time::timeout(Duration::from_secs(60), ended).await;
        let error = ended.expect("it is given up").unwrap_err();
        let reason = "it takes more than 200 ms, perhaps in an endless loop";
        assert_eq!(error.to_string(), format!("TIMEOUT {reason} {place}"));
    }
    assert_eq!(client.get("mail:n").await.unwrap(), None);
    // Later calls are served, with their full time.
    call(&mut client, &["loops.once", "n"]).await.unwrap();
    assert_eq!(client.get("mail:n").await.unwrap().as_deref(), Some("1"));
}

#[tokio::test]
async fn joins_at_three_sites_lose_no_member() {
    let (cluster, mut client) = with_groups().await;
    let group = text(&call(&mut client, &["groups.create_group", "tea"]).await.unwrap());
    let token = client.token().await.unwrap();
    let mut joins = Vec::new();
    for number in 0..9 {
        let (cluster, group, token) = (cluster.clone(), group.clone(), token.clone());
        joins.push(tokio::spawn(async move {
            let mut client = cluster.client(number % 3).await.unwrap();
            client.attach(&token).await.unwrap();
            let user = format!("mail:user{number}");
            call(&mut client, &["groups.join", &group, &user]).await
        }));
    }
    for join in joins {
        assert_eq!(join.await.unwrap().unwrap(), Value::Boolean(true));
    }
    let key = group.replacen("directory:", "dir:", 1);
    let list = client.hget(&key, "members").await.unwrap().unwrap();
    assert_eq!(members(&list), (0..9).map(|number| format!("user{number}")).collect());
}

#[tokio::test]
async fn a_site_that_dies_loses_no_answered_call() {
    let (cluster, mut client) = with_groups().await;
    let group = text(&call(&mut client, &["groups.create_group", "tea"]).await.unwrap());
    let token = client.token().await.unwrap();
    let mut joins = Vec::new();
    for site in 0..3 {
        let (cluster, group, token) = (cluster.clone(), group.clone(), token.clone());
        joins.push(tokio::spawn(async move {
            let mut client = cluster.client(site).await.unwrap();
            client.attach(&token).await.unwrap();
            let mut done = BTreeSet::new();
            for number in 0..6 {
                let user = format!("{site}-{number}");
                let joined =
                    call(&mut client, &["groups.join", &group, &format!("mail:{user}")]).await;
                match joined {
                    Ok(_) => drop(done.insert(user)),
                    Err(_) => break,
                }
                if (site, number) == (2, 2) {
                    let name = cluster.cluster().spec().sites[2].name.clone();
                    let fault = Fault::Kill { site: name.as_str().into() };
                    cluster.inject(fault).await.unwrap();
                }
            }
            done
        }));
    }
    let mut done = BTreeSet::new();
    for join in joins {
        done.extend(join.await.unwrap());
    }
    assert!((0..2).all(|site| done.contains(&format!("{site}-5"))), "{done:?}");
    let key = group.replacen("directory:", "dir:", 1);
    let list = client.hget(&key, "members").await.unwrap().unwrap();
    let found = members(&list);
    assert!(found.is_superset(&done), "{done:?} have joined, and {found:?} are members");
    assert_eq!(list.matches("0-0").count(), 1);
}

#[tokio::test]
async fn a_transaction_whose_coordinator_died_is_completed() {
    let limits = Limits {
        finish_ms: 100,
        orphan_ms: 200,
        blocked_ms: 300,
        keep_ms: 400,
        ..Limits::default()
    };
    let settings = Settings { limits, upkeep: Duration::from_millis(50), ..Settings::default() };
    let cluster = Embedded::with_modules(spec(), settings, Vec::new()).unwrap();
    let mut client = cluster.client(0).await.unwrap();
    client.command(&["SOLERA.MODULE", "LOAD", "groups", GROUPS]).await.unwrap();
    let Value::Array(modules) = client.command(&["SOLERA.MODULE", "LIST"]).await.unwrap() else {
        panic!("it is a list")
    };
    let Value::Map(module) = &modules[0] else { panic!("{modules:?}") };
    let digest = text(&module[1].1);
    let user = text(&call(&mut client, &["groups.create_user", "Ann"]).await.unwrap());
    let group = text(&call(&mut client, &["groups.create_group", "tea"]).await.unwrap());
    call(&mut client, &["groups.join", &group, &user]).await.unwrap();

    // Does the same as a program with Solera as its store that dies.
    let embedded = cluster.clone();
    let spaces = Spaces::of(move || {
        let cluster = embedded.clone();
        Box::pin(async move { cluster.client(0).await })
    });
    let databases: [Arc<dyn Database>; 1] = [Arc::new(spaces.await.unwrap())];
    let program = Arc::new(solera_language::compile::compile(GROUPS).program.unwrap());
    let module = Module::new(&digest, program.clone()).unwrap();
    let binds = [("directory", 0, "directory"), ("mail", 0, "mail"), ("audit", 0, "audit")];
    let bindings = Bindings::new(&program, &databases, &binds).unwrap();
    let codec = solera_program::codec::Codec::new(&program);
    let index = module.transaction("post").unwrap();
    let params = &program.transactions[index].params;
    let words: [&[u8]; 3] = [group.as_bytes(), b"all", b"late"];
    let args = params.iter().zip(words).map(|((_, ty), word)| codec.argument(word, ty).unwrap());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let now = u64::try_from(now.as_millis()).unwrap();
    let known = (Arc::default(), limits);
    let id = TransactionId::new(77);
    let args = args.collect();
    let mut dying = Coordinator::new((module, index), args, bindings, id, known, now).unwrap();
    let mut connections = Connections::new(databases);
    let mut answer = None;
    loop {
        answer = Some(match dying.next(now, answer) {
            Next::Ask(Ask::Store { database, request }) => {
                let reply = connections.ask(&database, &request).await;
                if matches!((&request, &reply), (Request::Commit(_), Ok(Reply::Committed))) {
                    break;
                }
                reply
            }
            // A call before it may not be finished yet and conflict.
            Next::Ask(Ask::Wait { ms }) => {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                Ok(Reply::Done)
            }
            Next::Finished(outcome) => panic!("nothing is in the way: {outcome:?}"),
        });
    }
    assert!(client.hgetall("log:all").await.unwrap().is_empty());

    eventually(async || {
        let log = client.hgetall("log:all").await.unwrap();
        (log.values().eq(["late"])).then_some(())
    })
    .await;
    // Nothing is left behind.
    let records = "solera:mixt:records:mail";
    eventually(async || client.smembers(records).await.unwrap().is_empty().then_some(())).await;
}

/// One part is strong and one is eventual, so that each call leaves a record and marks.
const BURST: &str = "
store one : linearizable;
store two : eventual;
transaction both(a: handle<counter> in one, b: handle<counter> in two) { a.add(1); b.add(1); }
";

#[tokio::test]
async fn garbage_of_many_calls_is_removed_in_transactions_of_allowed_size() {
    const CLIENTS: usize = 16;
    const CALLS: usize = 100;
    let limits = Limits {
        finish_ms: 10_000,
        orphan_ms: 20_000,
        blocked_ms: 21_000,
        keep_ms: 2_000,
        ..Limits::default()
    };
    // The first pass begins when most calls are over, so that their garbage is due at the same
    // time.
    let settings = Settings { limits, upkeep: Duration::from_secs(3), ..Settings::default() };
    // Allow fewer operations in a strong transaction than there are records to remove.
    let text = SPACES.replace("sites = 3", "sites = 1\nstrong_max_operations = 1000");
    let spec = ClusterSpec::parse("config", &text, Overrides::default()).unwrap();
    let cluster = Embedded::with_modules(spec, settings, Vec::new()).unwrap();
    let mut client = cluster.client(0).await.unwrap();
    let load =
        ["SOLERA.MODULE", "LOAD", "burst", BURST, "BIND", "one=directory", "BIND", "two=audit"];
    client.command(&load).await.unwrap();
    let loaded = client.token().await.unwrap();
    let mut callers = tokio::task::JoinSet::new();
    for number in 0..CLIENTS {
        let mut client = cluster.client(0).await.unwrap();
        client.attach(&loaded).await.unwrap();
        callers.spawn(async move {
            let keys: Vec<String> = (0..CALLS).map(|call| format!("{number}-{call}")).collect();
            let calls = keys
                .iter()
                .map(|key| [&b"SOLERA.CALL"[..], b"burst.both", key.as_bytes(), b"all"].to_vec());
            client.pipeline(&calls.collect::<Vec<_>>()).await.unwrap()
        });
    }
    for answers in callers.join_all().await {
        assert!(answers.iter().all(|answer| !matches!(answer, Value::Error(_))), "{answers:?}");
    }
    let all = (CLIENTS * CALLS).to_string();
    assert_eq!(client.get("log:all").await.unwrap(), Some(all));
    let records = "solera:mixt:records:directory";
    assert!(!client.smembers(records).await.unwrap().is_empty(), "nothing is left to be removed");
    eventually(async || client.smembers(records).await.unwrap().is_empty().then_some(())).await;
    let left = client.command(&["SOLERA.CALL", "INCOMPLETE"]).await.unwrap();
    assert_eq!(left, Value::Array(Vec::new()));
}

#[test]
fn all_examples_compile_except_the_one_to_reject() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "mixt") {
            continue;
        }
        let source = std::fs::read_to_string(&path).unwrap();
        let compiled = solera_language::compile::compile(&source);
        let rejected = path.ends_with("contest_rejected.mixt");
        let codes: Vec<_> = compiled.diagnostics.iter().map(|one| one.code).collect();
        assert_eq!(compiled.program.is_none(), rejected, "{}: {codes:?}", path.display());
        assert!(!rejected || codes.iter().all(|code| *code == "E0101"), "{codes:?}");
        seen += 1;
    }
    assert!(seen >= 5);
}

#[tokio::test]
async fn a_call_has_the_rights_of_its_user() {
    let users = format!(
        "[[user]]\nname = 'default'\nnopass = true\ncommands = ['+@all']\nkeys = ['*']\n\
         [[user]]\nname = 'clerk'\npassword_sha256 = ['{}']\nkeys = ['mail:*']\n\
         commands = ['+solera.call', '+@read', '+@write']\n",
        solera_node::hash_password(b"pw")
    );
    let config = format!("{SPACES}{users}");
    let spec = ClusterSpec::parse("config", &config, Overrides::default()).unwrap();
    let cluster = Embedded::with(spec).unwrap();
    let mut chief = cluster.client(0).await.unwrap();
    chief.command(&["SOLERA.MODULE", "LOAD", "o", OBJECTS]).await.unwrap();
    let elsewhere = ["SOLERA.MODULE", "LOAD", "dir", OBJECTS, "BIND", "mail=directory"];
    chief.command(&elsewhere).await.unwrap();
    let mut clerk = cluster.client(0).await.unwrap();
    clerk.attach(&chief.token().await.unwrap()).await.unwrap();
    clerk.command(&["AUTH", "clerk", "pw"]).await.unwrap();
    assert_eq!(call(&mut clerk, &["o.counts", "n"]).await.unwrap(), Value::Integer(5));
    let error = call(&mut clerk, &["dir.counts", "n"]).await.unwrap_err();
    assert!(error.to_string().contains("NOPERM"), "{error}");
    assert_eq!(chief.get("dir:n").await.unwrap(), None);
    // The user has no right to the other commands and keys that calls use.
    for command in [
        &["SOLERA.BEGIN"][..],
        &["HGET", "solera:modules", "o"],
        &["SOLERA.MODULE", "DROP", "o"],
        // These commands forge a record that a server would complete with its own rights, and read
        // other users' records.
        &["HSET", "mail:solera:mixt:r:1", "0", "forged"],
        &["HGETALL", "mail:solera:mixt:r:1"],
        &["MGET", "mail:a", "mail:solera:mixt:r:1"],
        &["MSET", "mail:a", "1", "mail:solera:mixt:r:1", "forged"],
    ] {
        let error = clerk.command(command).await.unwrap_err();
        assert_eq!(error.code(), Some("NOPERM"), "{command:?}");
    }
}

/// Runs `counts` on `n` in a space, with this process as the coordinator and the cluster as its
/// database.
async fn count_from_here(spaces: &Spaces, space: &str, id: u64) -> Outcome {
    let databases: [Arc<dyn Database>; 1] = [Arc::new(spaces.clone())];
    let program = Arc::new(solera_language::compile::compile(OBJECTS).program.unwrap());
    let module = Module::new(&solera::mixed::digest(OBJECTS), program.clone()).unwrap();
    let bindings = Bindings::new(&program, &databases, &[("mail", 0, space)]).unwrap();
    let index = module.transaction("counts").unwrap();
    let codec = solera_program::codec::Codec::new(&program);
    let args = vec![codec.argument(b"n", &program.transactions[index].params[0].1).unwrap()];
    let limits = Limits { attempts: 3, ..Limits::default() };
    let (id, known) = (TransactionId::new(id << 1), (Arc::default(), limits));
    let now_ms = System.now_ms();
    let made = Coordinator::new((module, index), args, bindings, id, known, now_ms);
    run(&mut made.unwrap(), &mut Connections::new(databases), &System).await
}

/// Single requests need the right to begin transactions, which the clerk does not have.
#[tokio::test]
async fn phases_of_coordinators_elsewhere_run_at_the_server_as_their_user() {
    let user = |name: &str, commands: &str| {
        let password = solera_node::hash_password(b"pw");
        format!(
            "[[user]]\nname = '{name}'\npassword_sha256 = ['{password}']\nkeys = ['mail:*']\n\
             commands = ['+solera.spaces', '+solera.token', '+@read', '+@write'{commands}]\n"
        )
    };
    let everybody =
        "[[user]]\nname = 'default'\nnopass = true\ncommands = ['+@all']\nkeys = ['*']\n";
    let (clerk, guest) = (user("clerk", ", '+solera.phase'"), user("guest", ""));
    let config = format!("{SPACES}{everybody}{clerk}{guest}");
    let spec = ClusterSpec::parse("config", &config, Overrides::default()).unwrap();
    let cluster = Embedded::with(spec).unwrap();
    let as_user = async |name: &'static str| {
        let cluster = cluster.clone();
        let spaces = Spaces::of(move || {
            let cluster = cluster.clone();
            Box::pin(async move { cluster.client_as(0, name, "pw").await })
        });
        spaces.await.unwrap()
    };
    let clerk = as_user("clerk").await;
    // The site learns the module and runs it.
    let taught = clerk.clone().executing([OBJECTS]);
    let outcome = count_from_here(&taught, "mail", 1).await;
    assert!(matches!(outcome, Outcome::Done { result: RunValue::Int(5), .. }), "{outcome}");
    let outcome = count_from_here(&taught, "mail", 2).await;
    assert!(matches!(outcome, Outcome::Done { result: RunValue::Int(10), .. }), "{outcome}");
    let mut chief = cluster.client(0).await.unwrap();
    assert_eq!(chief.get("mail:n").await.unwrap().as_deref(), Some("10"));
    // The clerk has no right to other keys, nor to the commands needed without phases.
    for (spaces, space) in [(&taught, "directory"), (&clerk, "mail")] {
        let outcome = count_from_here(spaces, space, 3).await;
        assert!(matches!(outcome, Outcome::Failed(_)), "{space}: {outcome}");
        assert!(outcome.to_string().contains("NOPERM"), "{space}: {outcome}");
    }
    // A user who may not ship phases sends single requests.
    let guest = as_user("guest").await.executing([OBJECTS]);
    let outcome = count_from_here(&guest, "mail", 4).await;
    assert!(outcome.to_string().contains("NOPERM"), "{outcome}");
    assert_eq!(chief.get("dir:n").await.unwrap(), None);
    assert_eq!(chief.get("mail:n").await.unwrap().as_deref(), Some("10"));
}

#[tokio::test]
async fn invalid_remote_groups_are_rejected() {
    let cluster = Embedded::with(spec()).unwrap();
    let mut client = cluster.client(0).await.unwrap();
    for (words, code) in [
        (&["SOLERA.PHASE", "RUN", ""][..], "NOTRUN"),
        (&["SOLERA.PHASE", "RUN", "no remote group"], "NOTRUN"),
        (&["SOLERA.PHASE", "LEARN", "transaction t() { nothing; }"], "BADMODULE"),
        (&["SOLERA.PHASE", "SETTLE", "1", "x"], "ERR"),
    ] {
        let error = client.command(words).await.unwrap_err();
        assert_eq!(error.code(), Some(code), "{words:?}: {error}");
    }
    let settled = client.command(&["SOLERA.PHASE", "SETTLE", "1", "2"]).await.unwrap();
    assert_eq!(settled, Value::Integer(1));
}

#[tokio::test]
async fn calls_beyond_the_limit_are_rejected() {
    let settings =
        Settings { calls: 1, patience: Duration::from_millis(20), ..Settings::default() };
    let cluster = Embedded::with_modules(spec(), settings, Vec::new()).unwrap();
    let mut client = cluster.client(0).await.unwrap();
    let source = "store audit : eventual;
        transaction wait(at: handle<counter> in audit) { while at.value() == 0 { } }
        transaction once(at: handle<counter> in audit) { at.add(1); }";
    client.command(&["SOLERA.MODULE", "LOAD", "m", source]).await.unwrap();
    let mut other = cluster.client(0).await.unwrap();
    other.attach(&client.token().await.unwrap()).await.unwrap();
    let waiting = tokio::spawn(async move { call(&mut other, &["m.wait", "n"]).await });
    let refused = eventually(async || call(&mut client, &["m.once", "x"]).await.err()).await;
    assert_eq!(refused.code(), Some("TRYAGAIN"), "{refused}");
    assert!(refused.to_string().contains("runs 1 calls of modules at once"), "{refused}");
    // Requests that run no transaction are answered.
    client.command(&["SOLERA.MODULE", "LIST"]).await.unwrap();
    client.set("log:n", "1").await.unwrap();
    waiting.await.unwrap().unwrap();
    eventually(async || call(&mut client, &["m.once", "x"]).await.ok()).await;
}

#[tokio::test]
async fn stores_bound_to_one_space_cause_a_warning() {
    let cluster = Embedded::with(spec()).unwrap();
    let mut client = cluster.client(0).await.unwrap();
    let source = "store left : causal; store right : causal; store mail : causal;
        transaction t(a: handle<counter> in left, b: handle<counter> in right) {
            a.add(1); b.add(1);
        }";
    let load = ["SOLERA.MODULE", "LOAD", "m", source, "BIND", "left=mail", "BIND"];
    client.command(&[&load[..], &["right=directory"]].concat()).await.unwrap();
    let listed = client.command(&["SOLERA.MODULE", "LIST"]).await.unwrap();
    let Value::Array(modules) = listed else { panic!("it is a list") };
    let Value::Map(module) = &modules[0] else { panic!("{modules:?}") };
    let Some((_, Value::Array(warnings))) = module.last() else { panic!("{module:?}") };
    let texts: Vec<_> = warnings.iter().map(text).collect();
    let about = |one: &&String| one.contains("are all bound to the space");
    let found: Vec<_> = texts.iter().filter(about).collect();
    let [warning] = found[..] else { panic!("{found:?}") };
    assert!(
        warning.starts_with("the stores `left`, `mail` are all bound to the space mail: "),
        "{warning}"
    );
}

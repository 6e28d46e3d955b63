//! Tests of modules with stores other than the cluster's own spaces.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use solera::mixed::{Remote, Spaces, System};
use solera::{Client, Error, Value};
use solera_embedded::{ClusterSpec, Embedded, Overrides, Settings, Store};
use solera_language::compile::compile;
use solera_levels::Level;
use solera_mixt::binding::{Bindings, Module};
use solera_mixt::coordinator::{Coordinator, TransactionId};
use solera_mixt::executor::{Clock, Connections, run};
use solera_mixt::memory::Memory;
use solera_mixt::outcome::{Limits, Outcome};
use solera_mixt::record::Record;
use solera_mixt::store::{BoxFuture, Connection, Database, StoreError};
use solera_node::Incomplete;
use solera_program::codec::Codec;

const GROUPS: &str = include_str!("../../../examples/message_groups.mixt");

const READER: &str = "
store audit : eventual;
transaction read(at: handle<log<string>> in audit) -> list<string> { return at.values(); }
";

/// A database in memory that can be switched off.
struct Switched {
    memory: Memory,
    off: Arc<AtomicBool>,
}

impl Database for Switched {
    fn name(&self) -> Arc<str> {
        self.memory.name()
    }

    fn spans(&self, one: &str, other: &str) -> bool {
        self.memory.spans(one, other)
    }

    fn level(&self, space: &str) -> Option<Level> {
        self.memory.level(space)
    }

    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, StoreError>> {
        if self.off.load(Ordering::Relaxed) {
            let away = StoreError::Unavailable("it is switched off".to_owned());
            return Box::pin(std::future::ready(Err(away)));
        }
        self.memory.connect()
    }
}

/// Starts a cluster with a store `cache`. Returns it with a client and the switch.
async fn start(limits: Limits, upkeep: Duration) -> (Embedded, Client, Arc<AtomicBool>) {
    let (cluster, off) = start_with(common::spec(), limits, upkeep);
    let client = cluster.client(0).await.unwrap();
    (cluster, client, off)
}

fn start_with(spec: ClusterSpec, limits: Limits, upkeep: Duration) -> (Embedded, Arc<AtomicBool>) {
    let off = Arc::new(AtomicBool::new(false));
    let memory = Memory::disjoint("cache", &[("log", Level::Eventual)]);
    let database = Arc::new(Switched { memory, off: off.clone() });
    let stores = vec![Store { database, spaces: vec!["log".into()] }];
    let settings = Settings { limits, upkeep, ..Settings::default() };
    (Embedded::with_modules(spec, settings, stores).unwrap(), off)
}

async fn load(client: &mut Client, name: &str, source: &str, bind: &str) -> Result<Value, Error> {
    client.command(&["SOLERA.MODULE", "LOAD", name, source, "BIND", bind]).await
}

fn text(value: &Value) -> String {
    match value {
        Value::Bulk(bytes) => String::from_utf8(bytes.clone()).unwrap(),
        other => panic!("{other:?} is no text"),
    }
}

/// Loads both modules and creates a group with one member.
async fn with_group(client: &mut Client) -> String {
    load(client, "groups", GROUPS, "audit=cache/log").await.unwrap();
    load(client, "reader", READER, "audit=cache/log").await.unwrap();
    let user = client.command(&["SOLERA.CALL", "groups.create_user", "Ann"]).await.unwrap();
    let group = client.command(&["SOLERA.CALL", "groups.create_group", "tea"]).await.unwrap();
    let (user, group) = (text(&user), text(&group));
    client.command(&["SOLERA.CALL", "groups.join", &group, &user]).await.unwrap();
    group
}

async fn post(client: &mut Client, group: &str, text: &str) -> Result<Value, Error> {
    client.command(&["SOLERA.CALL", "groups.post", group, "all", text]).await
}

async fn log(client: &mut Client) -> Vec<String> {
    match client.command(&["SOLERA.CALL", "reader.read", "all"]).await.unwrap() {
        Value::Array(texts) => texts.iter().map(text).collect(),
        other => panic!("{other:?} is no list"),
    }
}

/// Returns the ticket in the error of an incomplete call.
fn ticket(answer: Result<Value, Error>) -> String {
    let error = answer.unwrap_err().to_string();
    assert!(error.starts_with("INCOMPLETE") && error.contains("it is switched off"), "{error}");
    // The line of `log.append(text)`
    let line = GROUPS.lines().position(|line| line.contains("log.append")).unwrap() + 1;
    let place = format!("(in transaction `post`, in the phase from line {line} on); ");
    assert!(error.contains(&place), "{error}");
    let (_, rest) = error.split_once("SOLERA.CALL RESUME ").unwrap_or_else(|| panic!("{error}"));
    rest.split(' ').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_module_is_bound_to_another_database_and_errors_are_reported_at_load() {
    let (_cluster, mut client, _) = start(Limits::default(), Duration::from_secs(5)).await;
    for (bind, reason) in [
        (
            "audit=cash/log",
            "solera.toml has no [[store]] 'cash'; there are cache; did you mean BIND audit=cache/log?",
        ),
        (
            "audit=cache/none",
            "no such space; did you mean BIND audit=cache/log? matching spaces: mail, directory, audit, default, cache/log",
        ),
        (
            "audit=log",
            "there is no such space; did you mean BIND audit=cache/log? matching spaces:",
        ),
        (
            "audit=cache",
            "to solera/cache: there is no such space; did you mean BIND audit=cache/log?",
        ),
        ("mail=cache/log", "declared causal, but cache/log is eventual: it must be"),
        (
            "mail=cache/log",
            "; bind it by BIND mail=SPACE to one of these spaces: mail, directory, default",
        ),
        ("cache=audit", "the module declares no store `cache`; it declares directory, mail, audit"),
    ] {
        let error = load(&mut client, "groups", GROUPS, bind).await.unwrap_err().to_string();
        assert!(error.starts_with("BADBIND") && error.contains(reason), "{bind}: {error}");
    }
    // Neither space has any operation.
    let source = "store stock : eventual { operation take(n: int) -> bool; }";
    for place in ["cache/log", "mail"] {
        let bind = format!("stock={place}");
        let error = load(&mut client, "shop", source, &bind).await.unwrap_err().to_string();
        let reason = "the store `stock` cannot be";
        assert!(error.starts_with("BADBIND") && error.contains(reason), "{error}");
        assert!(
            error.contains(&format!("{place}: it has no operation `take`; bind it by")),
            "{error}"
        );
    }
    let group = with_group(&mut client).await;
    assert_eq!(post(&mut client, &group, "hello").await.unwrap(), Value::Integer(1));
    assert_eq!(log(&mut client).await, ["hello"]);
}

#[tokio::test]
async fn an_incomplete_transaction_is_resumed_from_its_ticket() {
    // No background pass completes the transaction during the test.
    let limits = Limits { finish_ms: 100, ..Limits::default() };
    let (_cluster, mut client, off) = start(limits, Duration::from_secs(600)).await;
    let group = with_group(&mut client).await;
    off.store(true, Ordering::Relaxed);
    let ticket_of_post = ticket(post(&mut client, &group, "hello").await);
    let resume = ["SOLERA.CALL", "RESUME", &ticket_of_post];
    assert_eq!(ticket(client.command(&resume).await), ticket_of_post);
    off.store(false, Ordering::Relaxed);
    assert_eq!(log(&mut client).await, [""; 0]);
    assert_eq!(client.command(&resume).await.unwrap(), Value::Integer(1));
    assert_eq!(log(&mut client).await, ["hello"]);
    let error = client.command(&resume).await.unwrap_err().to_string();
    assert!(error.contains("there is no ticket"), "{error}");
}

#[tokio::test]
async fn an_incomplete_transaction_is_completed_when_the_store_is_back() {
    let limits = Limits {
        finish_ms: 100,
        orphan_ms: 200,
        blocked_ms: 300,
        keep_ms: 400,
        ..Limits::default()
    };
    let (cluster, mut client, off) = start(limits, Duration::from_millis(50)).await;
    let group = with_group(&mut client).await;
    off.store(true, Ordering::Relaxed);
    ticket(post(&mut client, &group, "hello").await);
    let counted = async |wanted: Incomplete| {
        let began = Instant::now();
        while cluster.cluster().incomplete() != Some(wanted) {
            let found = cluster.cluster().incomplete();
            assert!(began.elapsed() < Duration::from_secs(60), "{found:?}, not {wanted:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let none = Incomplete::default();
    counted(Incomplete { open: 1, unasked_spaces: 1, ..none }).await;
    off.store(false, Ordering::Relaxed);
    let began = Instant::now();
    while log(&mut client).await != ["hello"] {
        assert!(began.elapsed() < Duration::from_secs(60), "it is never completed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    counted(Incomplete { recovered: 1, ..none }).await;
    fail_for_good(&mut client).await;
    counted(Incomplete { recovered: 1, failed: 1, ..none }).await;
}

/// Returns the name, call and state of each line of SOLERA.CALL INCOMPLETE.
async fn incomplete(client: &mut Client) -> Vec<[String; 3]> {
    let listed = client.command(&["SOLERA.CALL", "INCOMPLETE"]).await.unwrap();
    let Value::Array(listed) = listed else { panic!("{listed:?} is no list") };
    let one = |one: &Value| {
        let Value::Map(pairs) = one else { panic!("{one:?} is no map") };
        let named = |name: &str| pairs.iter().find(|(key, _)| text(key) == name).unwrap();
        ["transaction", "call", "state"].map(|name| match &named(name).1 {
            Value::Null => String::new(),
            error => text(error),
        })
    };
    listed.iter().map(one).collect()
}

const BIG: &str = "store directory : linearizable; store audit : eventual; \
    transaction grow(a: handle<counter> in directory, b: handle<counter> in audit) {\n\
      a.add(1);\n b.add(9223372036854775807); }";

/// Calls a transaction that fails after a part of it has committed. Returns its name.
async fn fail_for_good(client: &mut Client) -> String {
    load(client, "big", BIG, "audit=cache/log").await.unwrap();
    let grow = ["SOLERA.CALL", "big.grow", "a", "b"];
    client.command(&grow).await.unwrap();
    let error = client.command(&grow).await.unwrap_err().to_string();
    assert!(error.starts_with("INCOMPLETE") && error.contains("never can"), "{error}");
    assert!(error.contains("(in transaction `grow`, line 3); SOLERA.CALL FORGET "), "{error}");
    let (_, name) = error.split_once("SOLERA.CALL FORGET ").unwrap_or_else(|| panic!("{error}"));
    name.split(' ').next().unwrap().to_owned()
}

#[tokio::test]
async fn incomplete_transactions_are_listed_and_failed_ones_forgotten() {
    let limits = Limits { finish_ms: 100, ..Limits::default() };
    // No background pass removes or completes anything during the test.
    let (cluster, mut client, off) = start(limits, Duration::from_secs(600)).await;
    let group = with_group(&mut client).await;
    assert_eq!(incomplete(&mut client).await, [[""; 3]; 0]);
    off.store(true, Ordering::Relaxed);
    let open = ticket(post(&mut client, &group, "hello").await);
    // A space that cannot be reached has a line of its own.
    let listed = incomplete(&mut client).await;
    assert_eq!(listed[0], [open.as_str(), "groups.post", "open"]);
    let [name, _, state] = &listed[1];
    assert!(name.is_empty() && state.starts_with("away: "), "{listed:?}");
    assert!(state.ends_with("it is switched off") && listed.len() == 2, "{listed:?}");
    let error = client.command(&["SOLERA.CALL", "FORGET", "nobody"]).await.unwrap_err().to_string();
    assert!(error.starts_with("UNAVAILABLE") && error.contains("cache/log: it cannot"), "{error}");
    off.store(false, Ordering::Relaxed);
    assert_eq!(incomplete(&mut client).await, [[open.as_str(), "groups.post", "open"]]);
    let error = client.command(&["SOLERA.CALL", "FORGET", &open]).await.unwrap_err().to_string();
    assert!(error.contains("can be completed"), "{error}");
    client.command(&["SOLERA.CALL", "RESUME", &open]).await.unwrap();

    let failed = fail_for_good(&mut client).await;
    // The first transaction is complete, even if its record does not say so yet.
    assert_eq!(incomplete(&mut client).await.len(), 1);
    let error = client.command(&["SOLERA.CALL", "FORGET", &open]).await.unwrap_err().to_string();
    assert!(error.contains("that is incomplete"), "{error}");
    let [name, call, state] = incomplete(&mut client).await.remove(0);
    assert!(call == "big.grow" && state.starts_with("failed: "), "{call} {state}");
    assert_eq!(name, failed);
    // Modules with the same source are distinguished by the bindings of their stores.
    load(&mut client, "aside", BIG, "audit=audit").await.unwrap();
    load(&mut client, "wider", BIG, "audit=audit").await.unwrap();
    assert_eq!(incomplete(&mut client).await[0][1], "big.grow");
    load(&mut client, "alias", BIG, "audit=cache/log").await.unwrap();
    assert_eq!(incomplete(&mut client).await[0][1], "alias.grow, big.grow");
    assert_eq!(
        client.command(&["SOLERA.CALL", "FORGET", &name]).await.unwrap(),
        Value::Simple("OK".to_owned())
    );
    let mut elsewhere = cluster.client(1).await.unwrap();
    elsewhere.attach(&client.token().await.unwrap()).await.unwrap();
    for client in [&mut client, &mut elsewhere] {
        assert_eq!(incomplete(client).await, [[""; 3]; 0]);
    }
    let error = client.command(&["SOLERA.CALL", "FORGET", "nobody"]).await.unwrap_err().to_string();
    assert!(error.contains("there is no transaction 'nobody' that is incomplete"), "{error}");
}

/// Two clusters keep their records in one place of a database. A cluster that cannot complete a
/// transaction reports the reason.
#[tokio::test]
async fn a_transaction_of_another_cluster_cannot_be_forgotten() {
    let limits = Limits { finish_ms: 100, ..Limits::default() };
    let settings = Settings { limits, upkeep: Duration::from_secs(600), ..Settings::default() };
    let shop = Memory::new("shop", &[("stock", Level::Linearizable)]);
    let off = Arc::new(AtomicBool::new(true));
    let memory = Memory::disjoint("cache", &[("log", Level::Eventual)]);
    let cache = Switched { memory, off };
    let shared = || Store { database: Arc::new(shop.clone()), spaces: vec!["stock".into()] };
    let own = Store { database: Arc::new(cache), spaces: vec!["log".into()] };
    let one = Embedded::with_modules(common::spec(), settings, vec![shared(), own]);
    let other = Embedded::with_modules(common::spec(), settings, vec![shared()]).unwrap();
    let (one, mut other) = (one.unwrap(), other.client(0).await.unwrap());
    let mut one = one.client(0).await.unwrap();
    let binds =
        ["SOLERA.MODULE", "LOAD", "big", BIG, "BIND", "directory=shop/stock", "audit=cache/log"];
    one.command(&binds).await.unwrap();
    let begun = one.command(&["SOLERA.CALL", "big.grow", "a", "b"]).await;
    let begun = begun.unwrap_err().to_string();
    assert!(begun.starts_with("INCOMPLETE"), "{begun}");

    let [name, call, state] = incomplete(&mut other).await.remove(0);
    assert!(call.ends_with(".grow") && state == "open", "{call} {state}");
    let forget = ["SOLERA.CALL", "FORGET", &name];
    let error = other.command(&forget).await.unwrap_err().to_string();
    assert!(error.contains("is of a module that was never loaded here"), "{error}");
    assert!(error.contains("give each a schema of its own"), "{error}");
    load(&mut other, "big", BIG, "directory=shop/stock").await.unwrap();
    let error = other.command(&forget).await.unwrap_err().to_string();
    assert!(
        error.contains("has its store `audit` in cache/log, and that is not known here"),
        "{error}"
    );
    let error = one.command(&forget).await.unwrap_err().to_string();
    assert!(error.contains("can be completed"), "{error}");
}

#[tokio::test]
async fn a_transaction_that_wrote_everything_but_lost_its_result_reports_it() {
    let limits = Limits { finish_ms: 100, ..Limits::default() };
    let (_cluster, mut client, off) = start(limits, Duration::from_secs(600)).await;
    let source = "struct Note { x: int } store directory : linearizable; store audit : eventual; \
        store mail : causal; \
        transaction one(a: handle<counter> in directory, s: handle<Note> in audit) -> int { \
          a.add(1); return s.x; } \
        transaction two(a: handle<counter> in directory, b: handle<register<int>> in audit, \
            s: handle<Note> in audit) -> int { a.add(1); b.set(3); return s.x; }";
    load(&mut client, "notes", source, "audit=cache/log").await.unwrap();
    let one = ["SOLERA.CALL", "notes.one", "a", "s"];
    for call in [&one[..], &["SOLERA.CALL", "notes.one", "b", "s"]] {
        let error = client.command(call).await.unwrap_err();
        assert_eq!(error.code(), Some("NORESULT"), "{error}");
        let error = error.to_string();
        assert!(error.contains("cannot be returned") && !error.contains("SOLERA.CALL"), "{error}");
    }
    assert_eq!(client.get("dir:a").await.unwrap().as_deref(), Some("1"));
    assert_eq!(incomplete(&mut client).await, [[""; 3]; 0]);
    // While the store is unreachable, the result may still arrive.
    off.store(true, Ordering::Relaxed);
    let error = client.command(&one).await.unwrap_err().to_string();
    assert!(error.starts_with("NORESULT") && error.contains("is not known yet"), "{error}");
    let (_, resume) = error.split_once("SOLERA.CALL RESUME ").unwrap_or_else(|| panic!("{error}"));
    let ticket = resume.split(' ').next().unwrap();
    off.store(false, Ordering::Relaxed);
    let error = client.command(&["SOLERA.CALL", "RESUME", ticket]).await.unwrap_err().to_string();
    assert!(error.starts_with("NORESULT") && error.contains("cannot be returned"), "{error}");
    assert_eq!(client.get("dir:a").await.unwrap().as_deref(), Some("2"));
    // A transaction that has left a write undone is INCOMPLETE.
    let two = ["SOLERA.CALL", "notes.two", "a", "b", "s"];
    let error = client.command(&two).await.unwrap_err().to_string();
    assert!(error.starts_with("INCOMPLETE") && error.contains("SOLERA.CALL FORGET"), "{error}");
}

/// Returns the configuration of a cluster in which every user has a password.
fn guarded() -> ClusterSpec {
    let user = |name: &str, commands: &str| {
        let password = solera_node::hash_password(b"pw");
        format!(
            "[[user]]\nname = '{name}'\npassword_sha256 = ['{password}']\nkeys = ['*']\n\
             commands = [{commands}]\n"
        )
    };
    let (chief, clerk) = (user("chief", "'+@all'"), user("clerk", "'+solera.call', '+@read'"));
    let author =
        user("author", "'+solera.call', '+@read', '+@write', '+solera.attach', '+solera.token'");
    let config = format!("{}{chief}{clerk}{author}", common::SPACES);
    ClusterSpec::parse("config", &config, Overrides::default()).unwrap()
}

/// Returns the number of listed records.
async fn records(client: &mut Client) -> usize {
    let mut count = 0;
    for space in ["directory", "mail", "audit"] {
        let index = format!("solera:mixt:records:{space}");
        match client.command(&["SCARD", &index]).await.unwrap() {
            Value::Integer(found) => count += usize::try_from(found).unwrap(),
            other => panic!("{other:?} is no number"),
        }
    }
    count
}

#[tokio::test]
async fn transactions_are_completed_and_garbage_removed_with_access_control() {
    let limits = Limits {
        finish_ms: 100,
        orphan_ms: 200,
        blocked_ms: 300,
        keep_ms: 400,
        ..Limits::default()
    };
    let (cluster, off) = start_with(guarded(), limits, Duration::from_millis(50));
    let mut client = cluster.client_as(0, "chief", "pw").await.unwrap();
    let group = with_group(&mut client).await;
    off.store(true, Ordering::Relaxed);
    ticket(post(&mut client, &group, "hello").await);
    off.store(false, Ordering::Relaxed);
    let began = Instant::now();
    while log(&mut client).await != ["hello"] || records(&mut client).await != 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "it is never completed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let name = fail_for_good(&mut client).await;
    // Users who may only call have no access to incomplete transactions.
    let mut clerk = cluster.client_as(0, "clerk", "pw").await.unwrap();
    for words in [&["SOLERA.CALL", "INCOMPLETE"][..], &["SOLERA.CALL", "FORGET", &name]] {
        let error = clerk.command(words).await.unwrap_err();
        assert_eq!(error.code(), Some("NOPERM"), "{error}");
    }
    assert_ne!(records(&mut client).await, 0);
    client.command(&["SOLERA.CALL", "FORGET", &name]).await.unwrap();
    while records(&mut client).await != 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "its record stays");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns the user in the record of a ticket.
async fn user_of_ticket(client: &mut Client, ticket: &str) -> Option<String> {
    let kept = client.command(&["GET", &format!("solera:ticket:{ticket}")]).await.unwrap();
    let Value::Bulk(bytes) = kept else { panic!("{kept:?} is no ticket") };
    let record = Record::decode(&bytes).unwrap();
    record.user("solera").map(|user| user.to_string())
}

/// The caller may have no right to the remaining writes. They must not be completed later with the
/// administrator's rights.
#[tokio::test]
async fn a_transaction_that_an_administrator_failed_to_complete_stays_its_callers() {
    let limits = Limits { finish_ms: 100, ..Limits::default() };
    // No background pass completes the transaction during the test.
    let (cluster, off) = start_with(guarded(), limits, Duration::from_secs(600));
    let mut chief = cluster.client_as(0, "chief", "pw").await.unwrap();
    let group = with_group(&mut chief).await;
    let mut author = cluster.client_as(0, "author", "pw").await.unwrap();
    author.attach(&chief.token().await.unwrap()).await.unwrap();
    off.store(true, Ordering::Relaxed);
    let name = ticket(post(&mut author, &group, "hello").await);
    chief.attach(&author.token().await.unwrap()).await.unwrap();
    let complete = ["SOLERA.CALL", "COMPLETE", &name];
    for _ in 0..2 {
        assert_eq!(ticket(chief.command(&complete).await), name);
        assert_eq!(user_of_ticket(&mut chief, &name).await.as_deref(), Some("author"));
        let listed = chief.command(&["SOLERA.CALL", "INCOMPLETE"]).await.unwrap();
        assert!(format!("{listed:?}").contains(&format!("{:?}", Value::Bulk("author".into()))));
    }
    off.store(false, Ordering::Relaxed);
    assert_eq!(log(&mut chief).await, [""; 0]);
    assert_eq!(chief.command(&complete).await.unwrap(), Value::Integer(1));
    assert_eq!(log(&mut chief).await, ["hello"]);
    assert_eq!(incomplete(&mut chief).await, [[""; 3]; 0]);
}

#[tokio::test]
async fn a_cluster_runs_phases_of_a_store_that_is_near_it() {
    const SOURCE: &str = "
        store audit : eventual;
        transaction note(at: handle<log<string>> in audit, text: string) { at.append(text); }
        ";
    let (cluster, mut client, off) = start(Limits::default(), Duration::from_secs(5)).await;
    load(&mut client, "reader", READER, "audit=cache/log").await.unwrap();
    let connect = {
        let cluster = cluster.clone();
        move || -> BoxFuture<'static, Result<Client, Error>> {
            let cluster = cluster.clone();
            Box::pin(async move { cluster.client(0).await })
        }
    };
    let beside = Spaces::of(connect).await.unwrap().executing([SOURCE]);
    // The database cannot be reached from here; only its name and its space are known.
    let memory = Memory::disjoint("cache", &[("log", Level::Eventual)]);
    let away = Switched { memory, off: Arc::new(AtomicBool::new(true)) };
    let databases: [Arc<dyn Database>; 1] = [Arc::new(Remote::new(Arc::new(away), beside))];
    let program = Arc::new(compile(SOURCE).program.unwrap());
    let module = Module::new(&solera::mixed::digest(SOURCE), program.clone()).unwrap();
    let bindings = Bindings::new(&program, &databases, &[("audit", 0, "log")]).unwrap();
    let mut outcomes = Vec::new();
    for text in ["one", "two"] {
        let codec = Codec::new(&program);
        let params = program.transactions[0].params.iter().zip(["all", text]);
        let args = params.map(|((_, ty), word)| codec.argument(word.as_bytes(), ty).unwrap());
        let (args, limits) = (args.collect(), Limits { attempts: 3, ..Limits::default() });
        let (id, known) = (TransactionId::new(text.len() as u64), (Arc::default(), limits));
        let start = (module.clone(), 0);
        let made = Coordinator::new(start, args, bindings.clone(), id, known, System.now_ms());
        let mut connections = Connections::new(databases.clone());
        outcomes.push(run(&mut made.unwrap(), &mut connections, &System).await);
        // The second time the cluster cannot reach it either.
        off.store(true, Ordering::Relaxed);
    }
    assert!(matches!(outcomes[0], Outcome::Done { .. }), "{}", outcomes[0]);
    assert!(outcomes[1].to_string().contains("switched off"), "{}", outcomes[1]);
    off.store(false, Ordering::Relaxed);
    assert_eq!(log(&mut client).await, ["one"]);
}

//! Objects and named objects on a real server.

mod world;

use std::sync::Arc;

use redis::Value as Raw;
use solera_mixt::outcome::Outcome;
use solera_mixt::store::{Begin, Connection, Database, List, Name, NameWrite, StoreError};
use solera_redis::{Redis, TIMEOUT};
use world::{Bench, any_server, prefix, raw, redis};

const OBJECTS: &str = "
store all : eventual;
struct Pair { left: int, right: string }
struct Empty {}
transaction text(at: handle<register<string>> in all, v: string) -> list<option<string>> {
    var before = at.get(); at.set(v); return [before, at.get()];
}
transaction load(at: handle<register<string>> in all) -> string { return *at; }
transaction there(at: handle<register<string>> in all) -> bool { return at.is_valid(); }
transaction gone(at: handle<register<string>> in all) { at.delete(); }
transaction count(at: handle<counter> in all, by: int) -> int { at.add(by); return at.value(); }
transaction value(at: handle<counter> in all) -> int { return at.value(); }
transaction insert(at: handle<set<int>> in all, v: int) { at.add(v); }
transaction remove(at: handle<set<int>> in all, v: int) { at.remove(v); }
transaction contains(at: handle<set<int>> in all, v: int) -> bool { return at.contains(v); }
transaction elements(at: handle<set<int>> in all) -> set<int> { return at.elements(); }
transaction set_size(at: handle<set<int>> in all) -> int { return at.size(); }
transaction put(at: handle<map<string, float>> in all, k: string, v: float) { at.put(k, v); }
transaction without(at: handle<map<string, float>> in all, k: string) { at.remove(k); }
transaction get(at: handle<map<string, float>> in all, k: string) -> option<float> { return at.get(k); }
transaction has(at: handle<map<string, float>> in all, k: string) -> bool { return at.contains(k); }
transaction entries(at: handle<map<string, float>> in all) -> map<string, float> { return at.entries(); }
transaction map_size(at: handle<map<string, float>> in all) -> int { return at.size(); }
transaction append(at: handle<list<bool>> in all, v: bool) { at.append(v); }
transaction place(at: handle<list<bool>> in all, i: int) -> option<bool> { return at.at(i); }
transaction values(at: handle<list<bool>> in all) -> list<bool> { return at.values(); }
transaction list_size(at: handle<list<bool>> in all) -> int { return at.size(); }
transaction logged(at: handle<log<string>> in all, v: string) -> list<string> { at.append(v); return at.values(); }
transaction pair(v: int, w: string) -> handle<Pair> in all { return new Pair { left: v, right: w } in all; }
transaction raise(at: handle<Pair> in all) -> string { at.left = at.left + 1; return at.right; }
transaction empty() -> handle<Empty> in all { return new Empty {} in all; }
transaction is_empty(at: handle<Empty> in all) -> bool { return at.is_valid(); }
";

/// Returns a bench, and direct access to its data: commands with the space's prefix before their
/// key.
async fn bench() -> (Bench, impl AsyncFn(&[&str]) -> Raw, Option<world::Server>) {
    let (url, server) = any_server();
    let prefix = prefix();
    let database: Arc<dyn Database> = Arc::new(redis(&url, &prefix, TIMEOUT));
    let bench = Bench::new(OBJECTS, vec![database], &[("all", 0, "all")]);
    let around = async move |words: &[&str]| {
        let key = format!("{prefix}{}", words[1]);
        let words: Vec<&str> = [words[0], &key].into_iter().chain(words[2..].to_vec()).collect();
        raw(&url, &words).await
    };
    (bench, around, server)
}

fn bulk(text: &str) -> Raw {
    Raw::BulkString(text.as_bytes().to_vec())
}

fn array(items: &[&str]) -> Raw {
    Raw::Array(items.iter().map(|item| bulk(item)).collect())
}

#[tokio::test]
async fn objects_are_what_other_clients_know() {
    let (bench, raw, _server) = bench().await;
    assert_eq!(bench.text_of("text", &["r", "new"]).await, "[null,[\"new\"]]");
    assert_eq!(raw(&["GET", "r"]).await, bulk("new"));
    raw(&["SET", "r", "other"]).await;
    assert_eq!(bench.text_of("load", &["r"]).await, "other");
    assert_eq!(bench.text_of("there", &["r"]).await, "true");
    bench.done("gone", &["r"]).await;
    assert_eq!(bench.text_of("there", &["r"]).await, "false");
    assert!(matches!(bench.run("load", &["r"]).await, Outcome::Failed(_)));

    assert_eq!(bench.text_of("value", &["c"]).await, "0");
    raw(&["INCRBY", "c", "37"]).await;
    assert_eq!(bench.text_of("count", &["c", "5"]).await, "42");
    assert_eq!(raw(&["GET", "c"]).await, bulk("42"));

    assert_eq!(bench.text_of("elements", &["s"]).await, "[]");
    raw(&["SADD", "s", "7", "10"]).await;
    bench.done("insert", &["s", "-3"]).await;
    bench.done("remove", &["s", "10"]).await;
    assert_eq!(bench.text_of("elements", &["s"]).await, "[-3,7]");
    assert_eq!(bench.text_of("contains", &["s", "7"]).await, "true");
    assert_eq!(bench.text_of("contains", &["s", "10"]).await, "false");
    assert_eq!(bench.text_of("set_size", &["s"]).await, "2");

    assert_eq!(bench.text_of("entries", &["m"]).await, "[]");
    raw(&["HSET", "m", "a", "0.5"]).await;
    bench.done("put", &["m", "b", "2"]).await;
    assert_eq!(raw(&["HGET", "m", "b"]).await, bulk("2.0"));
    assert_eq!(bench.text_of("get", &["m", "a"]).await, "[0.5]");
    assert_eq!(bench.text_of("map_size", &["m"]).await, "2");
    bench.done("without", &["m", "a"]).await;
    assert_eq!(bench.text_of("get", &["m", "a"]).await, "null");
    assert_eq!(bench.text_of("has", &["m", "a"]).await, "false");
    assert_eq!(bench.text_of("has", &["m", "b"]).await, "true");
    assert_eq!(bench.text_of("entries", &["m"]).await, "[[\"b\",2.0]]");

    bench.done("append", &["l", "true"]).await;
    raw(&["RPUSH", "l", "false"]).await;
    assert_eq!(bench.text_of("values", &["l"]).await, "[true,false]");
    assert_eq!(bench.text_of("place", &["l", "1"]).await, "[false]");
    assert_eq!(bench.text_of("place", &["l", "2"]).await, "null");
    assert_eq!(bench.text_of("place", &["l", "-1"]).await, "null");
    assert_eq!(bench.text_of("list_size", &["l"]).await, "2");
    assert_eq!(bench.text_of("logged", &["log", "x"]).await, "[\"x\"]");
    assert_eq!(raw(&["LRANGE", "log", "0", "-1"]).await, array(&["x"]));

    let pair = bench.text_of("pair", &["41", "text"]).await;
    let pair = pair.strip_prefix("all:").unwrap();
    assert_eq!(bench.text_of("raise", &[pair]).await, "text");
    assert_eq!(raw(&["HGET", pair, "left"]).await, bulk("42"));
    let empty = bench.text_of("empty", &[]).await;
    let empty = empty.strip_prefix("all:").unwrap();
    assert_eq!(bench.text_of("is_empty", &[empty]).await, "true");
}

#[tokio::test]
async fn what_others_keep_is_left_alone() {
    let (bench, raw, _server) = bench().await;
    raw(&["RPUSH", "l", "x"]).await;
    raw(&["SET", "text", "many"]).await;
    raw(&["SET", "most", "9223372036854775807"]).await;
    for (name, args, reason) in [
        ("text", &["l", "new"][..], "`l` holds a list, not a register (string)"),
        ("gone", &["l"], "`l` holds a list, not a register (string)"),
        ("count", &["l", "1"], "`l` holds a list, not a counter (string)"),
        ("insert", &["l", "1"], "`l` holds a list, not a set"),
        ("set_size", &["text"], "`text` holds a string, not a set"),
        ("put", &["l", "a", "1"], "`l` holds a list, not a map (hash)"),
        ("append", &["text", "true"], "`text` holds a string, not a list"),
        ("raise", &["text"], "`text` holds a string, not a struct (hash)"),
        ("count", &["text", "1"], "`text` holds a string that is not a number, not a counter"),
        ("value", &["text"], "`text` holds"),
        ("values", &["l"], "`l` holds"),
        ("count", &["most", "1"], "the counter `most` would not fit 64 bits"),
        ("gone", &["{solera:all}"], "`{solera:all}` is a reserved key"),
    ] {
        match bench.run(name, args).await {
            Outcome::Failed(why) => assert!(why.to_string().contains(reason), "{name}: {why}"),
            other => panic!("{name}: {other}"),
        }
    }
    assert_eq!(raw(&["LRANGE", "l", "0", "-1"]).await, array(&["x"]));
    assert_eq!(raw(&["GET", "text"]).await, bulk("many"));
}

fn name(key: &str) -> Name {
    Name { space: "all".into(), key: key.into() }
}

fn set(key: &str, field: u64, value: &[u8], new: bool) -> NameWrite {
    NameWrite::Set { name: name(key), field, value: value.into(), new }
}

fn remove(key: &str, field: u64) -> NameWrite {
    NameWrite::Remove { name: name(key), field }
}

async fn commit(session: &mut dyn Connection, writes: &[NameWrite]) -> Result<(), StoreError> {
    session.begin(&Begin::default()).await?;
    session.commit(writes).await
}

async fn listed(session: &mut dyn Connection, after: &str, limit: usize) -> Vec<String> {
    let (space, prefix, after) = ("all".into(), "r:".into(), after.into());
    let found = session.list(&List { space, prefix, after, limit }).await.unwrap();
    found.iter().map(ToString::to_string).collect()
}

async fn named_objects(database: &Redis) {
    let mut session = database.connect().await.unwrap();
    let session = &mut *session;
    let big = u64::MAX >> 1;
    let writes: Vec<_> =
        ["r:c", "r:a", "r:b", "q", "s"].map(|key| set(key, big, b"\0\xff", true)).into();
    commit(session, &writes).await.unwrap();
    assert_eq!(listed(session, "", 9).await, ["r:a", "r:b", "r:c"]);
    assert_eq!(listed(session, "r:a", 1).await, ["r:b"]);
    assert_eq!(listed(session, "r:c", 9).await, [""; 0]);
    let again = commit(session, &[set("r:d", 1, b"", false), set("r:a", big, b"", true)]).await;
    assert_eq!(again, Err(StoreError::Conflict));
    commit(session, &[set("r:a", 2, b"two", true), remove("r:b", big), remove("r:x", 1)])
        .await
        .unwrap();
    assert_eq!(listed(session, "", 9).await, ["r:a", "r:c"]);
    let names = vec![name("r:a"), name("r:b")];
    let found = session.begin(&Begin { names, ..Begin::default() }).await.unwrap();
    let fields: Vec<_> = found[0].iter().map(|(field, value)| (*field, &**value)).collect();
    assert_eq!(fields, [(2, &b"two"[..]), (big, b"\0\xff")]);
    assert!(found[1].is_empty());
    session.abort().await.unwrap();
    commit(session, &[remove("r:a", 2)]).await.unwrap();
    assert_eq!(listed(session, "", 9).await, ["r:a", "r:c"]);
    commit(session, &[remove("r:a", big), remove("r:c", big)]).await.unwrap();
    assert_eq!(listed(session, "", 9).await, [""; 0]);
    assert!(matches!(session.commit(&[]).await, Err(StoreError::Refused(_))), "nothing is open");
}

#[tokio::test]
async fn named_objects_are_written_at_once_and_listed_in_order() {
    let (url, _server) = any_server();
    named_objects(&redis(&url, &prefix(), TIMEOUT)).await;
}

#[tokio::test]
async fn a_cluster_is_used_as_a_server_is() {
    let nodes = world::cluster();
    let addresses: Vec<_> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
    let database = redis(&format!("redis-cluster://{}", addresses[0]), "p:", TIMEOUT);
    let bench = Bench::new(OBJECTS, vec![Arc::new(database.clone())], &[("all", 0, "all")]);
    // The nodes may take a while to form the cluster.
    world::eventually("the cluster answers", async || {
        let session = database.connect().await.unwrap();
        let mut session = session;
        commit(&mut *session, &[set("first", 1, b"", false)]).await.is_ok()
    })
    .await;
    for key in 0..30 {
        assert_eq!(bench.text_of("count", &[&key.to_string(), "2"]).await, "2");
        assert_eq!(bench.text_of("text", &[&format!("t{key}"), "x"]).await, "[null,[\"x\"]]");
    }
    let mut held = 0;
    for node in &nodes {
        match raw(&node.url(), &["DBSIZE"]).await {
            Raw::Int(some @ 2..) => held += some,
            other => panic!("a node has {other:?} keys"),
        }
    }
    // The named object and its index are there, too.
    assert_eq!(held, 62);
    named_objects(&database).await;
}

//! Mixed transactions with phases in Redis, and servers that vanish.

mod world;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use redis::Value as Raw;
use solera_levels::Level;
use solera_mixt::memory::Memory;
use solera_mixt::outcome::{Outcome, Why};
use solera_mixt::store::{Begin, Database, Name, NameWrite, StoreError};
use solera_program::value::Value;
use solera_redis::TIMEOUT;
use world::{Bench, Server, any_server, eventually, prefix, raw, redis};

/// Binds the log of Message Groups to Redis.
fn groups(url: &str, prefix: &str, timeout: Duration) -> Bench {
    let source = std::fs::read_to_string(world::examples().join("message_groups.mixt")).unwrap();
    let strong = Memory::new("one", &[("directory", Level::Linearizable)]);
    let weak = Memory::new("two", &[("mail", Level::Causal)]);
    let databases: Vec<Arc<dyn Database>> =
        vec![Arc::new(strong), Arc::new(weak), Arc::new(redis(url, prefix, timeout))];
    Bench::new(
        &source,
        databases,
        &[("directory", 0, "directory"), ("mail", 1, "mail"), ("audit", 2, "all")],
    )
}

/// Creates a group with a member.
async fn with_ann(bench: &Bench) -> (String, String) {
    let ann = bench.text_of("create_user", &["Ann"]).await;
    let group = bench.text_of("create_group", &["tea"]).await;
    assert_eq!(bench.text_of("join", &[&group, &ann]).await, "true");
    (group, ann)
}

fn texts(values: &[&str]) -> Value {
    Value::Set(Arc::new(
        values.iter().map(|text| Value::String((*text).into())).collect::<BTreeSet<_>>(),
    ))
}

#[tokio::test]
async fn a_post_is_in_the_inbox_and_in_the_log_that_redis_keeps() {
    let (url, _server) = any_server();
    let prefix = prefix();
    let bench = groups(&url, &prefix, TIMEOUT);
    let (group, ann) = with_ann(&bench).await;
    for text in ["one", "two"] {
        assert_eq!(bench.text_of("post", &[&group, "log", text]).await, "1");
    }
    assert_eq!(bench.done("inbox", &[&ann]).await, texts(&["one", "two"]));
    let log = raw(&url, &["LRANGE", &format!("{prefix}log"), "0", "-1"]).await;
    let texts = ["one", "two"].map(|text| Raw::BulkString(text.into()));
    assert_eq!(log, Raw::Array(texts.into()));
}

#[tokio::test]
async fn a_server_that_vanishes_holds_up_nobody_for_ever_and_is_used_again() {
    let mut server = Server::start(false);
    let (url, timeout) = (server.url(), Duration::from_millis(500));
    let mut bench = groups(&url, "p:", timeout);
    bench.limits.finish_ms = 300;
    let (group, ann) = with_ann(&bench).await;
    assert_eq!(bench.text_of("post", &[&group, "log", "one"]).await, "1");
    // The server is running but does not answer.
    server.signal("-STOP");
    match bench.run("post", &[&group, "log", "two"]).await {
        Outcome::Incomplete {
            ticket: Some(_), why: Why::Unavailable { database, reason }, ..
        }
        | Outcome::Incomplete { ticket: Some(_), why: Why::Unknown { database, reason }, .. } => {
            assert_eq!((&*database, &*reason), ("cache", "it has not answered within 500 ms"));
        }
        other => panic!("{other}"),
    }
    server.signal("-CONT");
    server.kill();
    match bench.run("post", &[&group, "log", "three"]).await {
        Outcome::Incomplete { ticket: Some(_), why: Why::Unavailable { database, .. }, .. } => {
            assert_eq!(&*database, "cache");
        }
        other => panic!("{other}"),
    }
    // The stronger stores have committed before.
    assert_eq!(bench.done("inbox", &[&ann]).await, texts(&["one", "two", "three"]));
    server.again();
    eventually("it is used again", async || {
        matches!(bench.run("post", &[&group, "log", "four"]).await, Outcome::Done { .. })
    })
    .await;
    let log = raw(&url, &["LINDEX", "p:log", "-1"]).await;
    assert_eq!(log, Raw::BulkString("four".into()));
}

#[tokio::test]
async fn a_commit_whose_answer_was_lost_is_certain_when_the_next_transaction_begins() {
    let mut server = Server::start(false);
    let database = redis(&server.url(), "p:", Duration::from_millis(500));
    let mut session = database.connect().await.unwrap();
    let name = Name { space: "all".into(), key: "d:1".into() };
    let write =
        NameWrite::Set { name: name.clone(), field: 7, value: (*b"done").into(), new: false };
    let begin = Begin { names: vec![name], ..Begin::default() };
    // This opens a connection.
    session.begin(&begin).await.unwrap();
    server.signal("-STOP");
    let lost = session.commit(&[write]).await;
    assert!(matches!(lost, Err(StoreError::OutcomeUnknown(_))), "{lost:?}");
    server.kill();
    let away = session.begin(&begin).await;
    assert!(matches!(away, Err(StoreError::Unavailable(_))), "{away:?}");
    server.again();
    let found = session.begin(&begin).await.unwrap();
    assert_eq!(found[0].get(&7).map(|value| &**value), Some(&b"done"[..]));
}

#[tokio::test]
async fn a_missing_password_is_reported() {
    let server = Server::start(false);
    raw(&server.url(), &["CONFIG", "SET", "requirepass", "secret"]).await;
    let source = "store all : eventual; transaction add(at: handle<counter> in all) { at.add(1); }";
    let bench = |password: Option<&str>| {
        let target = solera_redis::Target::parse(&server.url()).unwrap();
        let target = match password {
            Some(password) => target.with_password(password),
            None => target,
        };
        let database = solera_redis::Redis::new("cache", target, [("all", "")], TIMEOUT);
        Bench::new(source, vec![Arc::new(database)], &[("all", 0, "all")])
    };
    for wrong in [None, Some("guess")] {
        match bench(wrong).run("add", &["c"]).await {
            Outcome::Failed(Why::Denied { reason, .. }) => {
                assert!(!reason.contains("guess"), "{reason}");
            }
            other => panic!("{other}"),
        }
    }
    assert_eq!(bench(Some("secret")).done("add", &["c"]).await, Value::Unit);
}

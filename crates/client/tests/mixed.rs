//! Tests of the commands that a session of mixed transactions sends to a scripted server.

use std::sync::Arc;

use solera::mixed::{Cluster, Pool, Spaces};
use solera::{Client, Error};
use solera_embedded::{ClusterSpec, Embedded, Fault, Overrides};
use solera_language::compile::compile;
use solera_levels::Level;
use solera_mixt::conformance;
use solera_mixt::outcome::IN_DOUBT_MS;
use solera_mixt::store::{Begin, Connection, Database, Name, NameWrite, ObjectCall, StoreError};
use solera_program::operation::ObjectOp;
use solera_program::types::{StoreId, Type};
use solera_program::value::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

type Script = &'static [(&'static str, &'static str)];

/// Reply after which the connection breaks.
const BREAKS: &str = "breaks";

/// Starts a server that answers each command from the script, and fails the test at any other
/// command.
fn server(script: Script) -> DuplexStream {
    let (client, mut stream) = tokio::io::duplex(4096);
    tokio::spawn(async move {
        let mut script = script.iter();
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = stream.read(&mut buffer).await {
            let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
            // The session may send several commands at once.
            for request in text.split('*').skip(1) {
                let words = request.lines().skip(1).filter(|line| !line.starts_with('$'));
                let command = words.collect::<Vec<_>>().join(" ");
                let reply = match script.next() {
                    Some((expected, reply)) if *expected == command => *reply,
                    other => panic!("the session said {command:?} and not {other:?}"),
                };
                if reply == BREAKS {
                    return;
                }
                if !reply.is_empty() {
                    stream.write_all(format!("{reply}\r\n").as_bytes()).await.unwrap();
                }
            }
        }
    });
    client
}

const SPACES: &str = "*1\r\n%3\r\n$4\r\nname\r\n$4\r\nbank\r\n$6\r\nprefix\r\n$2\r\nb:\r\n$5\r\nlevel\r\n\
                      $12\r\nlinearizable";

const PCPSI: &str = "*1\r\n%3\r\n$4\r\nname\r\n$5\r\ncarts\r\n$6\r\nprefix\r\n$2\r\nc:\r\n$5\r\nlevel\r\n\
                     $5\r\npcpsi";

async fn session(script: Script) -> Box<dyn Connection> {
    session_over(&[script]).await
}

/// Opens a session that uses the next script after its connection has broken.
async fn session_over(connections: &[Script]) -> Box<dyn Connection> {
    let asked: Script = &[("HELLO 3", "%0"), ("SOLERA.SPACES", SPACES)];
    session_with(asked, connections).await
}

/// Opens such a session. The first script answers with the spaces.
async fn session_with(asked: Script, connections: &[Script]) -> Box<dyn Connection> {
    let scripts = connections.iter().rev().copied().chain([asked]).collect();
    let scripts = std::sync::Mutex::<Vec<Script>>::new(scripts);
    let connect = move || -> solera_mixt::store::BoxFuture<'static, _> {
        let script = scripts.lock().unwrap().pop().unwrap();
        Box::pin(async move { Client::over(server(script)).await })
    };
    Spaces::of(connect).await.unwrap().connect().await.unwrap()
}

fn add(by: i64) -> ObjectCall {
    let source =
        "store bank : linearizable; transaction t(c: handle<counter> in bank) { c.add(1); }";
    ObjectCall {
        program: Arc::new(compile(source).program.unwrap()),
        space: "bank".into(),
        key: "k".into(),
        object: 0,
        op: ObjectOp::Increment,
        args: vec![Value::Int(by)],
        result: Type::Unit,
        look: None,
    }
}

#[tokio::test]
async fn nothing_is_written_if_no_transaction_could_begin() {
    let script = &[
        ("HELLO 3", "%0"),
        ("SOLERA.BEGIN STRONG", "-LOADING site x"),
        ("SOLERA.TXID", "-ERR no transaction"),
        ("SOLERA.BEGIN STRONG", "+OK"),
        ("SOLERA.TXID", "$3\r\n1-7"),
        ("INCRBY b:k 2", ":2"),
        ("SOLERA.COMMIT", "+OK"),
        ("SOLERA.TOKEN", "$1\r\nt"),
    ];
    let mut session = session(script).await;
    let begin = Begin { strong: true, ..Begin::default() };
    session.begin(&begin).await.unwrap();
    let failed = session.perform(&add(1)).await.unwrap_err();
    assert!(matches!(failed, StoreError::Unavailable(_)), "{failed}");
    session.begin(&begin).await.unwrap();
    session.perform(&add(2)).await.unwrap();
    session.commit(&[]).await.unwrap();
}

#[tokio::test]
async fn a_lost_commit_of_level_pcpsi_is_settled_by_a_transaction_that_conflicts_with_it() {
    let asked: Script = &[("HELLO 3", "%0"), ("SOLERA.SPACES", PCPSI)];
    let lost: Script = &[
        ("HELLO 3", "%0"),
        ("SOLERA.BEGIN PCPSI", "+OK"),
        ("INCRBY c:k 1", ":1"),
        ("SOLERA.COMMIT", BREAKS),
    ];
    let settled: Script = &[
        ("HELLO 3", "%0"),
        ("SOLERA.BEGIN PCPSI", "+OK"),
        ("WATCH c:k", "+OK"),
        ("SOLERA.COMMIT", "-ABORTED another transaction holds the lock of key 'c:k'"),
        ("SOLERA.TOKEN", "$1\r\nt"),
        ("SOLERA.BEGIN PCPSI", "+OK"),
        ("WATCH c:k", "+OK"),
        ("SOLERA.COMMIT", "+OK"),
        ("SOLERA.TOKEN", "$1\r\nt"),
        ("SOLERA.BEGIN PCPSI", "+OK"),
        ("INCRBY c:k 1", ":2"),
        ("SOLERA.ABORT CERTIFY", "-ABORTED what it has read misses a write"),
        ("SOLERA.TOKEN", "$1\r\nt"),
    ];
    let mut session = session_with(asked, &[lost, settled]).await;
    let add = ObjectCall { space: "carts".into(), ..add(1) };
    session.begin(&Begin::default()).await.unwrap();
    session.perform(&add).await.unwrap();
    let failed = session.commit(&[]).await.unwrap_err();
    assert!(matches!(failed, StoreError::OutcomeUnknown(_)), "{failed}");
    // The lost transaction may still commit.
    let failed = session.begin(&Begin::default()).await.unwrap_err();
    assert!(matches!(failed, StoreError::Unavailable(_)), "{failed}");
    session.begin(&Begin::default()).await.unwrap();
    session.perform(&add).await.unwrap();
    assert_eq!(session.certify().await, Err(StoreError::Conflict));
}

#[tokio::test]
async fn after_a_commit_of_unknown_outcome_it_waits_for_the_outcome() {
    let script = &[
        ("HELLO 3", "%0"),
        ("SOLERA.BEGIN STRONG", "+OK"),
        ("SOLERA.TXID", "$3\r\n1-7"),
        ("INCRBY b:k 1", ":1"),
        ("SOLERA.COMMIT", "-UNAVAILABLE no quorum in time; ask SOLERA.OUTCOME 1-7"),
        ("SOLERA.TOKEN", "$1\r\nt"),
        ("SOLERA.OUTCOME 1-7", "+unknown"),
        ("SOLERA.OUTCOME 1-7", "+aborted"),
        ("SOLERA.BEGIN STRONG", "+OK"),
        ("SOLERA.TXID", "$3\r\n1-7"),
        ("INCRBY b:k 2", "-ABORTED conflict on 'b:k'; nothing was changed"),
        ("SOLERA.ABORT", "+OK"),
    ];
    let mut session = session(script).await;
    let begin = Begin { strong: true, ..Begin::default() };
    session.begin(&begin).await.unwrap();
    session.perform(&add(1)).await.unwrap();
    let failed = session.commit(&[]).await.unwrap_err();
    assert!(matches!(failed, StoreError::OutcomeUnknown(_)), "{failed}");
    let failed = session.begin(&begin).await.unwrap_err();
    assert!(matches!(failed, StoreError::Unavailable(_)), "{failed}");
    session.begin(&begin).await.unwrap();
    assert_eq!(session.perform(&add(2)).await.unwrap_err(), StoreError::Conflict);
}

const HELLO: &str = "%1\r\n$11\r\nsolera_site\r\n$2\r\neu";

/// Opens a session whose first commit of a named object gets `answer`, and which continues with
/// `then`.
async fn session_in_doubt(
    answer: &'static str,
    then: Script,
    connections: &[Script],
) -> Box<dyn Connection> {
    let begun: Script = &[
        ("HELLO 3", HELLO),
        ("SOLERA.BEGIN STRONG", "+OK"),
        ("SOLERA.TXID", "$3\r\n1-7"),
        ("HSET b:solera:mixt:m 3 x", ":1"),
    ];
    let end: Script = Box::leak(Box::new([("SOLERA.COMMIT", answer)]));
    let first: Script = [begun, end, then].concat().leak();
    let connections: Vec<Script> = [first].into_iter().chain(connections.iter().copied()).collect();
    let mut session = session_over(&connections).await;
    session.begin(&STRONG).await.unwrap();
    let name = Name { space: "bank".into(), key: "m".into() };
    let mark = NameWrite::Set { name, field: 3, value: (*b"x").into(), new: true };
    let failed = session.commit(&[mark]).await.unwrap_err();
    assert!(matches!(failed, StoreError::OutcomeUnknown(_)), "{failed}");
    session
}

const STRONG: Begin = Begin { strong: true, read_only: false, once: false, names: Vec::new() };

/// Asserts that a transaction cannot begin, for the reason `why`.
async fn fails_to_begin(session: &mut Box<dyn Connection>, begin: &Begin, why: &str) {
    let failed = session.begin(begin).await.unwrap_err();
    assert!(matches!(failed, StoreError::Unavailable(_)), "{failed}");
    assert!(failed.to_string().contains(why), "{failed}");
}

#[tokio::test]
async fn a_session_waits_until_the_site_shows_its_commit() {
    let then = &[
        ("SOLERA.TOKEN", "$1\r\nt"),
        ("SOLERA.OUTCOME 1-7", "+committed"),
        ("SOLERA.BEGIN STRONG", "+OK"),
        ("WATCH b:solera:mixt:m", "+OK"),
        ("HGETALL b:solera:mixt:m", "%0"),
        ("SOLERA.COMMIT", "-ABORTED conflict on 'b:solera:mixt:m'; nothing was changed"),
        ("SOLERA.TOKEN", "$1\r\nt"),
        ("SOLERA.OUTCOME 1-7", "+committed"),
        ("SOLERA.BEGIN STRONG", "+OK"),
        ("WATCH b:solera:mixt:m", "+OK"),
        ("HGETALL b:solera:mixt:m", "%1\r\n$1\r\n3\r\n$1\r\nx"),
        ("SOLERA.COMMIT", "+OK"),
        ("SOLERA.TOKEN", "$1\r\nu"),
        ("SOLERA.BEGIN STRONG", "+OK"),
        ("SOLERA.TXID", "$3\r\n1-8"),
        ("INCRBY b:k 2", BREAKS),
    ];
    // The next connection sees what was seen before.
    let after: Script = &[
        ("HELLO 3", HELLO),
        ("SOLERA.ATTACH u", "+OK"),
        ("SOLERA.BEGIN STRONG", "+OK"),
        ("SOLERA.TXID", "$3\r\n1-9"),
        ("INCRBY b:k 2", ":2"),
    ];
    let answer = "-UNAVAILABLE no quorum in time; ask SOLERA.OUTCOME 1-7";
    let mut session = session_in_doubt(answer, then, &[after]).await;
    fails_to_begin(&mut session, &STRONG, "not yet visible at the site").await;
    session.begin(&STRONG).await.unwrap();
    session.perform(&add(2)).await.unwrap_err();
    session.begin(&STRONG).await.unwrap();
    session.perform(&add(2)).await.unwrap();
}

#[tokio::test]
async fn a_forgotten_commit_is_ruled_out() {
    let after: Script = &[
        ("HELLO 3", HELLO),
        ("SOLERA.OUTCOME 1-7", "+unknown"),
        ("SOLERA.OUTCOME 1-7", "+unknown"),
        ("SOLERA.BEGIN STRONG", "+OK"),
        ("WATCH b:solera:mixt:m", "+OK"),
        ("HSET b:solera:mixt:m 18446744073709551615 ", ":1"),
        ("HDEL b:solera:mixt:m 18446744073709551615", ":1"),
        ("SOLERA.COMMIT", "+OK"),
        ("SOLERA.TOKEN", "$1\r\nu"),
        ("SOLERA.BEGIN STRONG", "+OK"),
        ("SOLERA.TXID", "$3\r\n1-8"),
        ("INCRBY b:k 2", ":2"),
    ];
    let mut session = session_in_doubt(BREAKS, &[], &[after]).await;
    fails_to_begin(&mut session, &STRONG, "not decided yet").await;
    tokio::time::sleep(std::time::Duration::from_millis(IN_DOUBT_MS)).await;
    session.begin(&STRONG).await.unwrap();
    session.perform(&add(2)).await.unwrap();
}

/// Runs the commands that rule out a commit against a real cluster.
#[tokio::test]
async fn ruling_out_a_commit_changes_nothing_and_aborts_it() {
    let config = "[[space]]\nname = 'bank'\nprefix = 'b:'\nlevel = 'linearizable'\n";
    let spec = ClusterSpec::parse("config", config, Overrides::default()).unwrap();
    let cluster = Embedded::with(spec).unwrap();
    let (mut one, mut other) = (cluster.client(0).await.unwrap(), cluster.client(1).await.unwrap());
    for words in [&["SOLERA.BEGIN", "STRONG"][..], &["HSET", "b:m", "3", "x"]] {
        one.command(words).await.unwrap();
    }
    let field = u64::MAX.to_string();
    for words in [
        &["SOLERA.BEGIN", "STRONG"][..],
        &["WATCH", "b:m"],
        &["HSET", "b:m", &field, ""],
        &["HDEL", "b:m", &field],
        &["SOLERA.COMMIT"],
    ] {
        other.command(words).await.unwrap();
    }
    let failed = one.command(&["SOLERA.COMMIT"]).await.unwrap_err();
    assert_eq!(failed.code(), Some("ABORTED"), "{failed}");
    let left = one.command(&["HGETALL", "b:m"]).await.unwrap();
    assert_eq!(left, solera::Value::Map(Vec::new()));
}

#[tokio::test]
async fn a_session_waits_for_a_commit_during_which_the_connection_broke() {
    let before: Script = &[
        ("HELLO 3", HELLO),
        ("SOLERA.BEGIN CAUSAL", "+OK"),
        ("INCRBY b:k 1", ":1"),
        ("SOLERA.COMMIT", BREAKS),
    ];
    let after: Script = &[
        ("HELLO 3", HELLO),
        ("SOLERA.ATTACH HORIZON", "*2\r\n:7000\r\n:5000"),
        ("SOLERA.ATTACH UNTIL 7000 3000 eu", "-TIMEOUT node 2 of site eu cannot be reached"),
        ("SOLERA.TOKEN", "$1\r\nt"),
        ("SOLERA.ATTACH HORIZON", "*2\r\n:8000\r\n:5000"),
        ("SOLERA.ATTACH UNTIL 8000 3000 eu", "+OK"),
        ("SOLERA.TOKEN", "$1\r\nu"),
        ("SOLERA.BEGIN CAUSAL", "+OK"),
        ("INCRBY b:k 2", ":3"),
    ];
    let mut session = session_over(&[before, after]).await;
    let begin = Begin::default();
    session.begin(&begin).await.unwrap();
    session.perform(&add(1)).await.unwrap();
    let failed = session.commit(&[]).await.unwrap_err();
    assert!(matches!(failed, StoreError::OutcomeUnknown(_)), "{failed}");
    fails_to_begin(&mut session, &begin, "may still be in progress").await;
    tokio::time::sleep(std::time::Duration::from_millis(IN_DOUBT_MS)).await;
    fails_to_begin(&mut session, &begin, "node 2 of site eu cannot be reached").await;
    session.begin(&begin).await.unwrap();
    session.perform(&add(2)).await.unwrap();
}

/// Returns a call that reads what [`add`] changes.
fn value() -> ObjectCall {
    ObjectCall { op: ObjectOp::Value, args: vec![], result: Type::Int, ..add(0) }
}

#[tokio::test]
async fn a_single_read_takes_one_round_trip() {
    // The server answers only after it has received all commands.
    let script = &[
        ("HELLO 3", "%0"),
        ("SOLERA.BEGIN STRONG", ""),
        ("GET b:k", ""),
        ("SOLERA.COMMIT", ""),
        ("SOLERA.TOKEN", "+OK\r\n$1\r\n5\r\n+OK\r\n$1\r\nt"),
        ("SOLERA.BEGIN STRONG", ""),
        ("GET b:k", ""),
        ("SOLERA.COMMIT", ""),
        (
            "SOLERA.TOKEN",
            "+OK\r\n$1\r\n5\r\n-ABORTED conflict on 'b:k'; nothing was changed\r\n$1\r\nt",
        ),
        ("SOLERA.BEGIN STRONG", ""),
        ("GET b:k", ""),
        ("SOLERA.COMMIT", ""),
        ("SOLERA.TOKEN", "-LOADING site x\r\n$1\r\n5\r\n-ERR no transaction\r\n$1\r\nt"),
    ];
    let mut session = session(script).await;
    let begin = Begin { strong: true, read_only: true, once: true, ..Begin::default() };
    session.begin(&begin).await.unwrap();
    assert_eq!(session.perform(&value()).await.unwrap().value, Some(Value::Int(5)));
    session.commit(&[]).await.unwrap();
    session.begin(&begin).await.unwrap();
    // The value that was read may be wrong, so it is not returned.
    assert_eq!(session.perform(&value()).await.unwrap_err(), StoreError::Conflict);
    session.begin(&begin).await.unwrap();
    let failed = session.perform(&value()).await.unwrap_err();
    assert!(matches!(failed, StoreError::Unavailable(_)), "{failed}");
}

#[tokio::test]
async fn spaces_conform_as_a_database() {
    let space = |level: &str| {
        format!("[[space]]\nname = '{level}'\nprefix = '{level}:'\nlevel = '{level}'\n")
    };
    let config = ["linearizable", "causal", "eventual"].map(space).concat();
    let spec = ClusterSpec::parse("config", &config, Overrides::default()).unwrap();
    let cluster = Embedded::with(spec).unwrap();
    let connect = move || -> solera_mixt::store::BoxFuture<'static, _> {
        let cluster = cluster.clone();
        Box::pin(async move { cluster.client(0).await })
    };
    let spaces = Spaces::of(connect).await.unwrap();
    for space in ["linearizable", "causal", "eventual"] {
        conformance::of_redis_types(&spaces, space).await;
    }
}

#[tokio::test]
async fn another_cluster_conforms_as_a_database() {
    let space = |level: &str| {
        format!("[[space]]\nname = '{level}'\nprefix = '{level}:'\nlevel = '{level}'\n")
    };
    let levels = [Level::Linearizable, Level::Causal, Level::Eventual];
    let config = levels.map(|level| space(level.name())).concat();
    let config = format!("cluster = 'far'\n{config}");
    let spec = ClusterSpec::parse("config", &config, Overrides::default()).unwrap();
    let cluster = Embedded::with(spec).unwrap();
    let connect = move || -> solera_mixt::store::BoxFuture<'static, _> {
        let cluster = cluster.clone();
        Box::pin(async move { cluster.client(0).await })
    };
    let names = levels.map(|level| (level.name(), level));
    let far: Arc<dyn Database> = Arc::new(Cluster::new("far", names, connect.clone()));
    // The connections are pooled, as in the server.
    let far = Pool::new(far, 4, std::time::Duration::from_secs(60));
    let [linearizable, causal, eventual] = levels.map(Level::name);
    conformance::transactions_are_atomic(&far, causal).await;
    conformance::names_are_kept(&far, causal).await;
    // This test comes last: after a connection has seen a strong transaction, others see its causal
    // writes only once they see that transaction too.
    conformance::transactions_are_serializable(&far, linearizable).await;
    for space in [linearizable, causal, eventual] {
        conformance::objects_do_what_the_language_says(&far, space).await;
    }
    // The declaration must match the cluster.
    let other = Cluster::new("near", [("causal", Level::Causal)], connect.clone());
    let error = other.connect().await.err().unwrap().to_string();
    assert_eq!(
        error,
        "the cluster there is named `far`, but must have the name of the store, `near`"
    );
}

#[tokio::test]
async fn another_cluster_is_checked_against_its_declaration_each_time() {
    let start = |name: &str, level: &str| {
        let config = format!(
            "cluster = '{name}'\n[[space]]\nname = 'mail'\nprefix = 'm:'\nlevel = '{level}'\n\
             [[space]]\nname = 'log'\nprefix = 'l:'\nlevel = 'eventual'\n"
        );
        let spec = ClusterSpec::parse("config", &config, Overrides::default()).unwrap();
        Embedded::with(spec).unwrap()
    };
    let there = Arc::new(std::sync::Mutex::new(Some(start("far", "causal"))));
    let connect = {
        let there = Arc::clone(&there);
        move || -> solera_mixt::store::BoxFuture<'static, _> {
            let cluster = there.lock().unwrap().clone();
            Box::pin(async move {
                match cluster {
                    Some(cluster) => cluster.client(0).await,
                    None => Err(Error::Connection(std::io::ErrorKind::NotConnected.into())),
                }
            })
        }
    };
    let declared = [("mail", Level::Causal), ("none", Level::Causal), ("log", Level::Causal)];
    let far = Cluster::new("far", declared, connect);
    let program = compile("store mail : causal;").program.unwrap();
    let check = async |space: &str| far.check_operations(&program, StoreId(0), space).await;
    let denied = |why: &str| Err(StoreError::Denied(why.to_owned()));
    // An error in one space does not affect the others.
    check("mail").await.unwrap();
    assert_eq!(check("none").await, denied("it has no space `none`; it has mail, log, default"));
    assert_eq!(check("log").await, denied("its space `log` is eventual, not causal"));
    let name = |space: &str| Name { space: space.into(), key: "w:a".into() };
    let reads = |space: &str| Begin { names: vec![name(space)], ..Begin::default() };
    let mut session = far.connect().await.unwrap();
    session.begin(&reads("mail")).await.unwrap();
    let refused = session.begin(&reads("log")).await.unwrap_err();
    assert_eq!(refused.to_string(), "its space `log` is eventual, not causal");
    // Another cluster takes its place.
    *there.lock().unwrap() = Some(start("further", "causal"));
    let why = "the cluster there is named `further`, but must have the name of the store, `far`";
    assert_eq!(check("mail").await, denied(why));
    assert_eq!(far.connect().await.err().unwrap(), StoreError::Denied(why.to_owned()));
    *there.lock().unwrap() = Some(start("far", "eventual"));
    assert_eq!(check("mail").await, denied("its space `mail` is eventual, not causal"));
    let refused = far.connect().await.unwrap().begin(&reads("mail")).await.unwrap_err();
    assert_eq!(refused.to_string(), "its space `mail` is eventual, not causal");
    *there.lock().unwrap() = None;
    assert!(matches!(check("mail").await, Err(StoreError::Unavailable(_))));
}

#[tokio::test]
async fn commits_are_not_seen_by_all_while_a_site_is_cut_off() {
    let spec = ClusterSpec::parse("config", "sites = 3", Overrides::default()).unwrap();
    let cluster = Embedded::with(spec).unwrap();
    let mut session = cluster.spaces(0).await.unwrap().connect().await.unwrap();
    let mut horizon = async || session.horizon().await.unwrap().expect("a site reports it");
    let began = std::time::Instant::now();
    let mut seen_since = async |latest: u64| {
        while horizon().await.stable < latest {
            assert!(began.elapsed() < std::time::Duration::from_secs(60), "it is never seen");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        horizon().await
    };
    let latest = seen_since(0).await.latest;
    seen_since(latest).await;
    for site in ["1", "2"] {
        cluster.inject(Fault::Cut { a: site.into(), b: "3".into() }).await.unwrap();
    }
    // The third site does not have commits from now on.
    let cut = seen_since(0).await;
    cluster.client(0).await.unwrap().set("a", "1").await.unwrap();
    for _ in 0..30 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        let now = seen_since(0).await;
        assert!(now.latest >= cut.latest && now.stable < cut.latest, "{now:?} after {cut:?}");
    }
    cluster.inject(Fault::Heal {}).await.unwrap();
    seen_since(cut.latest).await;
}

/// The server certifies the reads of a strong transaction that is given up. It does not certify a
/// causal transaction or one that the server gave up itself.
#[tokio::test]
async fn the_reads_of_a_failed_transaction_are_certified() {
    let script = &[
        ("HELLO 3", "%0"),
        ("SOLERA.BEGIN STRONG", "+OK"),
        ("SOLERA.TXID", "$3\r\n1-7"),
        ("INCRBY b:k 1", ":1"),
        ("SOLERA.ABORT CERTIFY", "+OK"),
        ("SOLERA.TOKEN", "$1\r\nt"),
        ("SOLERA.BEGIN STRONG", "+OK"),
        ("SOLERA.TXID", "$3\r\n1-8"),
        ("INCRBY b:k 2", ":2"),
        ("SOLERA.ABORT CERTIFY", "-ABORTED conflict on 'b:k'; nothing was changed"),
        ("SOLERA.TOKEN", "$1\r\nt"),
        ("SOLERA.BEGIN CAUSAL", "+OK"),
        ("INCRBY b:k 3", ":3"),
        ("SOLERA.ABORT", "+OK"),
        ("SOLERA.BEGIN STRONG", "+OK"),
        ("SOLERA.TXID", "$3\r\n1-9"),
        ("INCRBY b:k 4", "-ERR increment or decrement would overflow"),
        ("SOLERA.ABORT", "+OK"),
        ("SOLERA.BEGIN STRONG", "+OK"),
        ("SOLERA.TXID", "$3\r\n2-1"),
        ("INCRBY b:k 5", ":5"),
        ("SOLERA.ABORT CERTIFY", BREAKS),
    ];
    let mut session = session(script).await;
    for (by, strong, certified) in [
        (1, true, Ok(())),
        (2, true, Err(StoreError::Conflict)),
        (3, false, Ok(())),
        (
            4,
            true,
            Err(StoreError::Refused(
                "the transaction has ended with the operation that was refused".to_owned(),
            )),
        ),
    ] {
        session.begin(&Begin { strong, ..Begin::default() }).await.unwrap();
        assert_eq!(session.perform(&add(by)).await.is_err(), by == 4);
        assert_eq!(session.certify().await, certified, "{by}");
    }
    session.begin(&Begin { strong: true, ..Begin::default() }).await.unwrap();
    session.perform(&add(5)).await.unwrap();
    // The transaction was not going to write, so nothing is in doubt.
    let broken = session.certify().await;
    assert!(matches!(broken, Err(StoreError::Unavailable(_))), "{broken:?}");
}

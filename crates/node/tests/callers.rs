//! Server-side code that uses sessions by values has the same transactions and the same rights as
//! clients.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use solera_config::{ClusterSpec, Overrides};
use solera_data::{Op, Outcome, Value};
use solera_node::{Cluster, Fault, Incomplete, Local, Modules};
use solera_resp::Value as Reply;
use solera_session::{
    Abort, Answer, AttachUntil, Begin, Command, Commit, OnKey, TransactionKind, Watch,
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::timeout;

const CONFIG: &str = "[[user]]\nname = \"default\"\nnopass = true\n\
                      commands = [\"+@all\", \"-hget\"]\nkeys = [\"a:*\"]\n";

/// Runs the call of a test.
struct Test(Handle);

/// Passes on the means to open sessions.
struct Handing(UnboundedSender<Local>);

impl Modules for Handing {
    fn run(&self, local: Local, _: Vec<Vec<u8>>) -> oneshot::Receiver<Reply> {
        self.0.send(local).unwrap();
        let (answer, answered) = oneshot::channel();
        answer.send(Reply::Simple("OK".to_owned())).unwrap();
        answered
    }

    fn incomplete(&self) -> Option<Incomplete> {
        None
    }
}

/// Starts a cluster, and returns it with the means to open sessions at its first site.
async fn start(over: Overrides) -> (Cluster, Local) {
    let (sender, mut locals) = unbounded_channel();
    let modules = Arc::new(Handing(sender));
    let spec = ClusterSpec::parse("test", "", over).unwrap();
    let cluster = Cluster::start(spec, Some(modules)).unwrap();
    let mut client = cluster.connect(0).unwrap();
    client.write_all(b"SOLERA.CALL m.t\r\n").await.unwrap();
    (cluster, locals.recv().await.unwrap())
}

fn get(key: &str) -> Vec<Command> {
    vec![on(key, Op::Get).into()]
}

impl Modules for Test {
    fn run(&self, local: Local, _: Vec<Vec<u8>>) -> oneshot::Receiver<Reply> {
        let (answer, answered) = oneshot::channel();
        self.0.spawn(async move {
            let reply = match call(&local).await {
                Ok(()) => Reply::Simple("OK".to_owned()),
                Err(error) => Reply::Error(error),
            };
            let _ = answer.send(reply);
        });
        answered
    }

    fn incomplete(&self) -> Option<Incomplete> {
        None
    }
}

fn on(key: &str, op: Op) -> OnKey {
    OnKey::new(key, op).unwrap()
}

fn set(key: &str, value: &str) -> OnKey {
    on(key, Op::Set(Value::from(value)))
}

async fn call(local: &Local) -> Result<(), String> {
    let caller = local.call()?;
    assert_eq!(caller.execute(on("a:1", Op::Get)).await?, Outcome::Bulk(Value::from("given")));
    // This is a transaction of several keys.
    caller.execute(Begin { kind: TransactionKind::Causal }).await?;
    caller.execute(set("a:1", "one")).await?;
    caller.execute(set("a:2", "two")).await?;
    caller.execute(Commit).await?;
    assert_eq!(caller.execute(on("a:2", Op::Get)).await?, Outcome::Bulk(Value::from("two")));
    // This transaction is aborted.
    caller.execute(Begin { kind: TransactionKind::Strong }).await?;
    caller.execute(Watch { keys: vec![b"a:1".to_vec()] }).await?;
    caller.execute(set("a:2", "other")).await?;
    caller.execute(Abort::default()).await?;
    assert_eq!(caller.execute(on("a:2", Op::Get)).await?, Outcome::Bulk(Value::from("two")));
    // The user's rights to commands and to keys are checked.
    let field = Op::HashGet(Value::from("f"));
    let refused = caller.execute(on("a:1", field.clone())).await.unwrap_err();
    assert!(refused.starts_with("NOPERM") && refused.contains("'hget'"), "{refused}");
    let refused = caller.execute(set("b:1", "x")).await.unwrap_err();
    assert!(refused.starts_with("NOPERM") && refused.contains("keys"), "{refused}");
    let server = local.call_as_server();
    assert_eq!(server.execute(on("b:1", field)).await?, Outcome::Nil);
    // An error ends a transaction, as a client's error does.
    caller.execute(Begin { kind: TransactionKind::Causal }).await?;
    caller.execute(set("a:2", "other")).await?;
    let wrong = caller.execute(on("a:1", Op::SetMembers)).await.unwrap_err();
    assert!(wrong.starts_with("WRONGTYPE"), "{wrong}");
    let refused = caller.execute(set("a:2", "other")).await.unwrap_err();
    assert!(refused.starts_with("EXECABORT"), "{refused}");
    let discarded = caller.execute(Commit).await.unwrap_err();
    assert!(discarded.contains(&wrong), "{discarded}");
    assert_eq!(caller.execute(on("a:2", Op::Get)).await?, Outcome::Bulk(Value::from("two")));
    Ok(())
}

#[tokio::test]
async fn sessions_are_used_by_values_with_the_rights_of_the_caller() {
    let over = Overrides { sites: Some(1), workers: Some(2), ..Overrides::default() };
    let spec = ClusterSpec::parse("test", CONFIG, over).unwrap();
    let modules = Arc::new(Test(Handle::current()));
    let cluster = Cluster::start(spec, Some(modules)).unwrap();
    let mut client = BufReader::new(cluster.connect(0).unwrap());
    for (request, expected) in [
        ("SET a:1 given\r\n", "+OK"),
        ("SOLERA.CALL m.t\r\n", "+OK"),
        // The client has seen the call's writes.
        ("EXISTS a:2\r\n", ":1"),
        // The call's commands are not counted among those of clients.
        ("RESET\r\n", "+RESET"),
    ] {
        client.write_all(request.as_bytes()).await.unwrap();
        let mut line = String::new();
        client.read_line(&mut line).await.unwrap();
        assert_eq!(line.trim_end(), expected, "{request}");
    }
    let commands = &cluster.status(true).await.sites[0].commands;
    let counted = commands.iter().filter(|(_, count)| **count > 0);
    let counted: Vec<_> = counted.map(|(name, count)| format!("{name} {count}")).collect();
    assert_eq!(counted, ["exists 1", "reset 1", "set 1", "solera.call 1"]);
}

#[tokio::test]
async fn commands_of_a_batch_run_in_order_whatever_the_ones_before_come_to() {
    let (_cluster, local) = start(Overrides { sites: Some(1), ..Overrides::default() }).await;
    let caller = local.call().unwrap();
    let field = on("k", Op::HashGet(Value::from("f")));
    let batch = vec![set("k", "v").into(), field.into(), on("k", Op::Get).into()];
    let [set, refused, read] = &caller.run(batch).await.unwrap()[..] else { panic!("three") };
    assert_eq!(*set, Ok(Answer::OnKey(Outcome::Ok)));
    assert!(refused.as_ref().unwrap_err().starts_with("WRONGTYPE"), "{refused:?}");
    assert_eq!(*read, Ok(Answer::OnKey(Outcome::Bulk(Value::from("v")))));
}

/// Later results of such a session may depend on lost writes.
#[tokio::test]
async fn a_session_ends_when_its_journal_fails() {
    let folder = std::env::temp_dir().join(format!("solera-callers-{}", std::process::id()));
    let gone = folder.with_extension("gone");
    let (sites, workers, data) = (Some(1), Some(1), Some(folder.clone()));
    let (cluster, local) = start(Overrides { sites, workers, data, ..Overrides::default() }).await;
    let [caller, other] = [local.call().unwrap(), local.call().unwrap()];
    caller.execute(set("k", "v")).await.unwrap();
    // A value that needs a segment of its own finds no folder for it.
    std::fs::rename(&folder, &gone).unwrap();
    let large = Op::Set(Value::from(vec![b'x'; 65 << 20]));
    let batch = vec![on("k", large).into(), on("k", Op::Get).into()];
    let failed = caller.run(batch).await.unwrap_err();
    assert!(failed.starts_with("MISCONF ") && failed.contains("is unknown"), "{failed}");
    let ended = caller.run(get("k")).await.unwrap_err();
    assert_eq!(ended, "UNAVAILABLE the session has ended");
    assert!(caller.has_ended());
    // Other sessions do not see data either that is only in memory.
    let failed = other.run(get("k")).await.unwrap().remove(0).unwrap_err();
    assert!(failed.starts_with("MISCONF ") && failed.contains("nothing is answered"), "{failed}");
    let ended = other.run(get("k")).await.unwrap_err();
    assert_eq!(ended, "UNAVAILABLE the session has ended");
    drop(cluster);
    let _ = std::fs::remove_dir_all(&folder);
    let _ = std::fs::remove_dir_all(&gone);
}

/// A commit for which no caller waits is over after a while. Recovery, which asks for its outcome,
/// relies on that.
#[tokio::test]
async fn a_session_ends_some_time_after_nobody_waits_for_its_batch() {
    let (cluster, local) = start(Overrides { sites: Some(2), ..Overrides::default() }).await;
    let other = cluster.sites()[1].name.clone();
    cluster.inject(Fault::Kill { site: other.as_str().into() }).await.unwrap();
    let caller = local.call().unwrap();
    caller.execute(set("k", "v")).await.unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let (hour, sites) = (Duration::from_secs(3_600), [other.as_bytes()]);
    let attach = AttachUntil::new(local.spec(), now + 9_000, hour, sites).unwrap();
    // Each command waits some seconds until the site is suspected. Together they take far longer
    // than a batch may run for which no caller waits.
    let waiting = caller.run(vec![attach.into(); 20]);
    assert!(timeout(Duration::from_millis(1), waiting).await.is_err(), "it waits for the site");
    // This would be answered once all of them are.
    let ended = timeout(Duration::from_secs(300), caller.run(get("k"))).await;
    assert_eq!(ended.expect("it hangs").unwrap_err(), "UNAVAILABLE the session has ended");
}

//! Server-side code that uses sessions by values: the same transactions and the same rights as clients.

use solera_config::{ClusterSpec, LogLevel, Overrides};
use solera_data::{Op, Outcome, Value};
use solera_node::{Cluster, Incomplete, Local, Log, Modules};
use solera_resp::Value as Reply;
use solera_session::{Abort, Begin, Commit, OnKey, TakeToken, Watch};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

const CONFIG: &str = "[[user]]\nname = \"default\"\nnopass = true\n\
                      commands = [\"+@all\", \"-hget\"]\nkeys = [\"a:*\"]\n";

struct Test(Handle);

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
    // A transaction of several keys.
    caller.execute(Begin { strong: false }).await?;
    caller.execute(set("a:1", "one")).await?;
    caller.execute(set("a:2", "two")).await?;
    caller.execute(Commit).await?;
    assert_eq!(caller.execute(on("a:2", Op::Get)).await?, Outcome::Bulk(Value::from("two")));
    caller.execute(TakeToken).await?;
    // One that is dropped.
    caller.execute(Begin { strong: true }).await?;
    caller.execute(Watch { keys: vec![b"a:1".to_vec()] }).await?;
    caller.execute(set("a:2", "other")).await?;
    caller.execute(Abort).await?;
    assert_eq!(caller.execute(on("a:2", Op::Get)).await?, Outcome::Bulk(Value::from("two")));
    // Rights, of commands and of keys.
    let field = Op::HashGet(Value::from("f"));
    let refused = caller.execute(on("a:1", field.clone())).await.unwrap_err();
    assert!(refused.starts_with("NOPERM") && refused.contains("'hget'"), "{refused}");
    let refused = caller.execute(set("b:1", "x")).await.unwrap_err();
    assert!(refused.starts_with("NOPERM") && refused.contains("keys"), "{refused}");
    let server = local.call_as_server();
    assert_eq!(server.execute(on("b:1", field)).await?, Outcome::Nil);
    // An error ends a transaction, as a client's does.
    caller.execute(Begin { strong: false }).await?;
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
    let modules = std::sync::Arc::new(Test(Handle::current()));
    let cluster = Cluster::start(spec, Log::new(LogLevel::Error), Some(modules)).unwrap();
    let mut client = BufReader::new(cluster.connect(0).unwrap());
    for (request, expected) in [
        ("SET a:1 given\r\n", "+OK"),
        ("SOLERA.CALL m.t\r\n", "+OK"),
        // What the call has written its client has seen.
        ("EXISTS a:2\r\n", ":1"),
    ] {
        client.write_all(request.as_bytes()).await.unwrap();
        let mut line = String::new();
        client.read_line(&mut line).await.unwrap();
        assert_eq!(line.trim_end(), expected, "{request}");
    }
}

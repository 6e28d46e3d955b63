//! Rights of module calls: a call has the rights of its user, even when servers complete it.

mod common;

use std::sync::Arc;

use common::{Up, eventually, http, wait_until};
use solera::mixed::{Spaces, digest};
use solera::{Client, Error, Value as Reply};
use solera_language::compile::compile;
use solera_mixt::binding::{Bindings, Module};
use solera_mixt::coordinator::{Ask, Coordinator, Next, Request, TransactionId};
use solera_mixt::outcome::Limits;
use solera_mixt::store::Database;
use solera_node::hash_password;
use solera_program::value::{Handle, Value};

/// A program with two phases: the linearizable and causal spaces commit together, and the eventual
/// one afterwards.
const HEAD: &str = "\
sites = 1
workers = 2
[modules]
finish_ms = 300
orphan_ms = 12400
blocked_ms = 12500
keep_ms = 12600
upkeep_ms = 40
[[space]]
name = 'directory'
prefix = 'dir:'
level = 'linearizable'
[[space]]
name = 'audit'
prefix = 'log:'
level = 'eventual'
";

const SOURCE: &str = "\
store directory : linearizable;
store audit : eventual;

transaction count(n: handle<counter> in directory, to: handle<counter> in audit) -> int {
    n.add(1);
    to.add(1);
    return n.value();
}

transaction some(n: handle<counter> in directory, lists: list<handle<counter> in audit>) {
    n.add(1);
    for to in lists { to.add(1); }
}

transaction follow(n: handle<counter> in directory,
    next: handle<register<handle<counter> in audit>> in directory) -> int {
    n.add(1);
    var to = next.get().or_fail();
    to.add(1);
    return n.value();
}

transaction copy(n: handle<counter> in directory,
    next: handle<register<handle<register<string>> in audit>> in directory,
    out: handle<register<string>> in audit) {
    n.add(1);
    var from = next.get().or_fail();
    out.set(from.get().or_fail());
}
";

const ALL: &str = "commands = ['+@all']\nkeys = ['*']";

fn user(name: &str, rest: &str) -> String {
    let hash = hash_password(b"pw");
    format!("[[user]]\nname = '{name}'\npassword_sha256 = ['{hash}']\n{rest}\n")
}

/// Returns the configuration of an administrator, and of Bob with these rules.
fn users(bob: &str) -> String {
    user("admin", ALL) + &user("bob", bob)
}

const CALLS: &str = "commands = ['+@all', '-@admin']";

fn bobs(keys: &str) -> String {
    users(&format!("{CALLS}\nkeys = [{keys}]"))
}

struct World {
    up: Up,
    admin: Client,
    bob: Client,
}

async fn start(users: &str) -> World {
    let up = Up::configured(HEAD, users);
    let connect = |name: &'static str| Client::connect_as(up.address(1), name, "pw");
    let (mut admin, mut bob) = (connect("admin").await.unwrap(), connect("bob").await.unwrap());
    admin.command(&["SOLERA.MODULE", "LOAD", "m", SOURCE]).await.unwrap();
    bob.attach(&admin.token().await.unwrap()).await.unwrap();
    World { up, admin, bob }
}

impl World {
    async fn get(&mut self, key: &str) -> Option<String> {
        self.admin.get(key).await.unwrap()
    }

    async fn admin(&mut self, words: &[&str]) -> Result<Reply, Error> {
        self.admin.command(words).await
    }

    /// Returns the list of SOLERA.CALL INCOMPLETE: a map for each transaction.
    async fn incomplete(&mut self) -> Vec<Vec<(String, String)>> {
        let listed = self.admin(&["SOLERA.CALL", "INCOMPLETE"]).await.unwrap();
        let Reply::Array(listed) = listed else { panic!("{listed:?}") };
        let one = |one: Reply| {
            let Reply::Map(pairs) = one else { panic!("{one:?}") };
            pairs.into_iter().map(|(name, value)| (text(name), text(value))).collect()
        };
        listed.into_iter().map(one).collect()
    }

    /// Waits until the only incomplete transaction has a state that begins with this, and returns
    /// its name.
    async fn waits(&mut self, state: &str) -> String {
        let mut found = String::new();
        eventually(format!("it is {state}"), async || {
            let listed = self.incomplete().await;
            let [one] = &listed[..] else { return false };
            found = field(one, "transaction");
            field(one, "state").starts_with(state)
        })
        .await;
        found
    }

    async fn none_is_incomplete(&mut self) {
        eventually("all is complete", async || self.incomplete().await.is_empty()).await;
    }

    /// Sets the key to which Bob's calls that follow a handle are led, and makes it visible to Bob.
    async fn lead_to(&mut self, key: &str) {
        self.admin(&["SET", "dir:next", key]).await.unwrap();
        let token = self.admin.token().await.unwrap();
        self.bob.attach(&token).await.unwrap();
    }

    /// Makes a call of Bob that commits its first phase and then lacks the right to a key that only
    /// the first phase reveals.
    async fn stopped(&mut self) -> String {
        self.lead_to("secret").await;
        let call = ["SOLERA.CALL", "m.follow", "n", "next"];
        let error = self.bob.command(&call).await.unwrap_err().to_string();
        assert!(error.starts_with("INCOMPLETE"), "{error}");
        assert!(error.contains("user 'bob'") && error.contains("`log:secret`"), "{error}");
        assert!(error.contains("(SOLERA.CALL COMPLETE), or gives it up (FORGET)"), "{error}");
        assert_eq!(self.get("dir:n").await.as_deref(), Some("1"));
        self.waits("denied: ").await
    }
}

fn field(of: &[(String, String)], name: &str) -> String {
    of.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone()).unwrap()
}

fn text(value: Reply) -> String {
    match value {
        Reply::Bulk(bytes) => String::from_utf8(bytes).unwrap(),
        Reply::Simple(text) | Reply::Error(text) => text,
        Reply::Array(values) => values.into_iter().map(text).collect::<Vec<_>>().join("; "),
        other => format!("{other:?}"),
    }
}

#[tokio::test]
async fn calls_without_rights_known_beforehand_are_rejected_before_any_effect() {
    let mut world = start(&bobs("'dir:*', 'log:bob*'")).await;
    let in_phase = ", as the store `audit` needs (in transaction";
    for (words, expected) in [
        (
            &["m.count", "n", "secret"][..],
            "NOPERM user 'bob' may not read and write the key `log:secret`",
        ),
        (
            &["m.some", "n", "[\"bob\", \"secret\"]"],
            "NOPERM user 'bob' may not read and write the key `log:secret`",
        ),
    ] {
        let call = [&["SOLERA.CALL"], words].concat();
        let error = world.bob.command(&call).await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("{expected}{in_phase} `")), "{error}");
        assert!(error.ends_with("; nothing was changed"), "{error}");
    }
    assert_eq!(world.get("dir:n").await, None);
    let done = world.bob.command(&["SOLERA.CALL", "m.count", "n", "bob"]).await;
    assert_eq!(done.unwrap(), Reply::Integer(1));
    // A permitted call takes effect completely.
    assert_eq!(world.get("log:bob").await.as_deref(), Some("1"));

    // These rules lack the right to a command, and to a space.
    for (rules, expected) in [
        (
            "commands = ['+@all', '-incrby']\nkeys = ['*']".to_owned(),
            "NOPERM user 'bob' may not run the 'incrby' command, as the store `",
        ),
        (
            format!("{CALLS}\nkeys = ['dir:*']"),
            "NOPERM user 'bob' may not read and write any key of the space 'audit'",
        ),
    ] {
        let list = ["ACL", "LIST"];
        let before = world.admin(&list).await.unwrap();
        world.up.reload(&users(&rules));
        // If the rules change during a call, the call may be stopped after its first phase.
        eventually("the rules change", async || world.admin(&list).await.unwrap() != before).await;
        world.lead_to("bob").await;
        let call = ["SOLERA.CALL", "m.follow", "other", "next"];
        let error = world.bob.command(&call).await.unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    assert_eq!(world.get("dir:n").await.as_deref(), Some("1"));
    assert_eq!(world.incomplete().await, Vec::<Vec<_>>::new());
}

#[tokio::test]
async fn servers_complete_calls_only_with_the_rights_of_their_users() {
    let mut world = start(&bobs("'dir:*', 'log:bob*'")).await;
    let transaction = world.stopped().await;
    let [listed] = &world.incomplete().await[..] else { panic!("one is left") };
    for (name, expected) in [
        ("user", "bob"),
        ("call", "m.follow"),
        ("done", "directory (in transaction `follow`, in the phase from line "),
        ("left", "audit (in transaction `follow`, in the phase from line "),
    ] {
        assert!(field(listed, name).starts_with(expected), "{name}: {}", field(listed, name));
    }
    // Only the user or an administrator can resume the transaction, and it runs with the user's
    // rights.
    let resume = ["SOLERA.CALL", "RESUME", &transaction];
    for client in [&mut world.bob, &mut world.admin] {
        let error = client.command(&resume).await.unwrap_err().to_string();
        assert!(error.starts_with("INCOMPLETE") && error.contains("user 'bob'"), "{error}");
    }
    let metrics = |world: &World| {
        let admin = "Authorization: Basic YWRtaW46cHc=\r\n";
        http(world.up.admin(), "/metrics", admin).map(|(_, text)| text).unwrap_or_default()
    };
    wait_until("the server has tried it, too", || {
        metrics(&world).contains("solera_incomplete_transactions{state=\"denied\"} 1")
    });
    assert_eq!(world.get("log:secret").await, None);

    // The transaction is completed without a request once the right exists, here after another
    // right was revoked and granted again.
    world.up.reload(&bobs("'dir:*', 'log:alice*'"));
    world.waits("denied: `solera` denies it: NOPERM user 'bob'").await;
    let calls_nothing =
        "commands = ['+@all', '-@admin', '-solera.call']\nkeys = ['dir:*', 'log:*']";
    world.up.reload(&users(calls_nothing));
    world
        .waits(
            "denied: `solera` denies it: NOPERM user 'bob' may not run the 'solera.call' command",
        )
        .await;
    assert_eq!(world.get("log:secret").await, None);
    world.up.reload(&bobs("'dir:*', 'log:*'"));
    world.none_is_incomplete().await;
    assert_eq!(world.get("log:secret").await.as_deref(), Some("1"));
    assert_eq!(world.get("dir:n").await.as_deref(), Some("1"));
}

#[tokio::test]
async fn a_call_does_not_copy_values_that_its_user_may_not_read() {
    let mut world = start(&bobs("'dir:*', 'log:bob*'")).await;
    world.admin(&["SET", "log:secret", "42"]).await.unwrap();
    world.lead_to("secret").await;
    let call = ["SOLERA.CALL", "m.copy", "n", "next", "bob"];
    let error = world.bob.command(&call).await.unwrap_err().to_string();
    assert!(error.starts_with("INCOMPLETE") && error.contains("`log:secret`"), "{error}");
    world.waits("denied: ").await;
    assert_eq!(world.get("log:bob").await, None);
}

#[tokio::test]
async fn an_administrator_can_complete_a_denied_call() {
    let mut world = start(&bobs("'dir:*', 'log:bob*'")).await;
    let transaction = world.stopped().await;
    let complete = ["SOLERA.CALL", "COMPLETE", &transaction];
    let error = world.bob.command(&complete).await.unwrap_err().to_string();
    assert!(error.starts_with("NOPERM") && error.contains("+solera.phase"), "{error}");
    assert_eq!(world.admin(&complete).await.unwrap(), Reply::Integer(1));
    world.up.says(&format!("user 'admin' has completed transaction {transaction}"));
    assert_eq!(world.get("log:secret").await.as_deref(), Some("1"));
    world.none_is_incomplete().await;
    let error = world.admin(&complete).await.unwrap_err().to_string();
    assert!(error.contains("complete"), "{error}");
}

#[tokio::test]
async fn an_administrator_can_give_up_a_denied_call() {
    let mut world = start(&bobs("'dir:*', 'log:bob*'")).await;
    let transaction = world.stopped().await;
    let forgotten = world.admin(&["SOLERA.CALL", "FORGET", &transaction]).await.unwrap();
    assert_eq!(forgotten, Reply::Simple("OK".to_owned()));
    world.up.says(&format!("user 'admin' has given up transaction {transaction}"));
    assert_eq!(world.incomplete().await, Vec::<Vec<_>>::new());
    // The transaction stays incomplete whatever is granted.
    world.up.reload(&bobs("'*'"));
    eventually("he may", async || {
        world.bob.command(&["SOLERA.CALL", "m.count", "other", "some"]).await.is_ok()
    })
    .await;
    let resume = ["SOLERA.CALL", "RESUME", &transaction];
    let error = world.bob.command(&resume).await.unwrap_err().to_string();
    assert!(error.starts_with("ERR there is no ticket"), "{error}");
    assert_eq!(world.get("log:secret").await, None);
    assert_eq!(world.get("dir:n").await.as_deref(), Some("1"), "what was done stays");
}

#[tokio::test]
async fn an_incomplete_call_of_a_deleted_user_names_the_user() {
    let mut world = start(&bobs("'dir:*', 'log:bob*'")).await;
    let transaction = world.stopped().await;
    world.up.reload(&user("admin", ALL));
    world.waits("denied: `solera` denies it: NOPERM there is no user 'bob' in this cluster").await;
    let error = world.admin(&["SOLERA.CALL", "RESUME", &transaction]).await.unwrap_err();
    assert!(error.to_string().contains("there is no user 'bob'"), "{error}");
    world.up.reload(&users(&format!("enabled = false\n{ALL}")));
    world.waits("denied: `solera` denies it: NOPERM user 'bob' is disabled").await;
    assert_eq!(world.get("log:secret").await, None);
    let complete = ["SOLERA.CALL", "COMPLETE", &transaction];
    assert_eq!(world.admin(&complete).await.unwrap(), Reply::Integer(1));
    assert_eq!(world.get("log:secret").await.as_deref(), Some("1"));
}

/// A phase that a program's own coordinator sends runs as the user who sends it.
#[tokio::test]
async fn phases_in_the_name_of_another_user_are_rejected() {
    let world = start(&bobs("'*'")).await;
    let address = world.up.address(1);
    let spaces = Spaces::of(move || Box::pin(Client::connect_as(address, "admin", "pw")));
    let spaces = Arc::new(spaces.await.unwrap().executing([SOURCE])) as Arc<dyn Database>;
    let program = Arc::new(compile(SOURCE).program.unwrap());
    let module = Module::new(&digest(SOURCE), Arc::clone(&program)).unwrap();
    let bind = [("directory", 0, "directory"), ("audit", 0, "audit")];
    let bindings = Bindings::new(&program, &[Arc::clone(&spaces)], &bind).unwrap();
    let mut admin = world.admin;
    for (user, refused) in [("bob", true), ("admin", false)] {
        let handle = |store: &str| Value::Handle(Handle { store: store.into(), key: "x".into() });
        let args = ["directory", "audit"].map(handle).to_vec();
        let modules = Arc::new([(digest(SOURCE).into(), module.clone())].into());
        let (id, limits) = (TransactionId::new(7), Limits::default());
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis();
        let now_ms = u64::try_from(now).unwrap();
        let made = Coordinator::new(
            (module.clone(), 0),
            args,
            bindings.clone(),
            id,
            (modules, limits),
            now_ms,
        );
        let mut coordinator = made.unwrap();
        coordinator.act_as([("solera".into(), user.into())].into(), [].into());
        coordinator.use_workers_of(["solera".into()]);
        let Next::Ask(Ask::Store { request: Request::Execute(remote_group), .. }) =
            coordinator.next(now_ms, None)
        else {
            panic!("the first group is sent to a worker")
        };
        let run = [&b"SOLERA.PHASE"[..], b"RUN", &remote_group.encode()];
        let answer = admin.command(&run).await;
        match answer {
            Err(error) if refused => {
                let text = error.to_string();
                assert!(text.starts_with("NOTRUN") && text.contains("user 'bob'"), "{text}");
            }
            Ok(Reply::Bulk(_)) if !refused => {}
            other => panic!("{user}: {other:?}"),
        }
    }
    assert_eq!(admin.get("dir:x").await.unwrap().as_deref(), Some("1"));
}

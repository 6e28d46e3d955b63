//! Users from the point of view of Redis clients: AUTH, ACL, and rejected commands.

mod common;

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use common::{SOLERA, Up, http, solera, text, wait_until};
use solera_node::hash_password;

const NOAUTH: &str = "-NOAUTH Authentication required.";
const WRONGPASS: &str = "-WRONGPASS invalid username-password pair or user is disabled.";
const NO_KEY: &str =
    "-NOPERM this user has no permissions to access one of the keys used as arguments";

/// Starts `solera up` with these users. It has two workers, so that half of the keys belong to
/// another worker than the connection.
fn start(users: &str) -> Up {
    Up::configured("sites = 1\nworkers = 2\n", users)
}

fn user(name: &str, password: &str, rest: &str) -> String {
    let hash = hash_password(password.as_bytes());
    format!("[[user]]\nname = '{name}'\npassword_sha256 = ['{hash}']\n{rest}\n")
}

#[test]
fn without_users_every_client_may_do_everything() {
    let up = start("");
    let mut client = up.inline();
    for (line, reply) in [
        ("SET a 1", "+OK"),
        ("ACL WHOAMI", "default"),
        ("ACL LIST", "user default on nopass ~* resetchannels +@all"),
        (
            "AUTH x",
            "-ERR AUTH <password> called without any password configured for the default user. Are \
             you sure your configuration is correct?",
        ),
        ("AUTH default x", "+OK"),
        ("AUTH bob x", WRONGPASS),
        ("AUTH a b c", "-ERR syntax error"),
        ("ACL USERS", "default"),
        (
            "ACL CAT transaction",
            "multi exec discard watch unwatch solera.begin solera.commit solera.abort",
        ),
        ("ACL CAT foo", "-ERR Unknown category 'foo'"),
        ("ACL FOO", "-ERR unknown subcommand 'FOO'. Try ACL HELP."),
        ("ACL WHOAMI x", "-ERR wrong number of arguments for 'acl|whoami' command"),
        ("ACL GENPASS x", "-ERR value is not an integer or out of range"),
        ("ACL GETUSER nobody", "nil"),
    ] {
        assert_eq!(client.ask(line), reply, "{line}");
    }
    assert_eq!(client.ask("ACL GENPASS").len(), 64);
    assert_eq!(client.ask("ACL GENPASS 5").len(), 2);
    assert!(client.ask("ACL GENPASS 0").starts_with("-ERR ACL GENPASS argument must be"));
    assert!(client.ask("ACL SETUSER x").contains("solera.toml"));
}

#[test]
fn clients_without_a_login_are_rejected() {
    let up = start(&user("alice", "pw", "commands = ['+@all']\nkeys = ['*']"));
    let mut client = up.inline();
    for (line, reply) in [
        ("GET a", NOAUTH),
        ("GET b", NOAUTH),
        ("GET", "-ERR wrong number of arguments for 'get' command"),
        ("MULTI", NOAUTH),
        ("ACL WHOAMI", NOAUTH),
        ("INFO", NOAUTH),
        ("SOLERA.TOKEN", NOAUTH),
        ("AUTH pw", WRONGPASS),
        ("AUTH alice wrong", WRONGPASS),
        ("AUTH default pw", WRONGPASS),
        ("HELLO 3 AUTH alice wrong", WRONGPASS),
        ("HELLO 3 AUTH alice pw FOO", "-ERR Syntax error in HELLO option 'FOO'"),
        ("GET a", NOAUTH),
        ("AUTH alice pw", "+OK"),
        ("SET a 1", "+OK"),
        ("SET b 1", "+OK"),
        ("ACL WHOAMI", "alice"),
        ("AUTH alice wrong", WRONGPASS),
        ("ACL WHOAMI", "alice"),
        ("RESET", "+RESET"),
        ("GET a", NOAUTH),
    ] {
        assert_eq!(client.ask(line), reply, "{line}");
    }
    let mut hog = up.inline();
    let part = [b"*2\r\n$3\r\nGET\r\n$500000000\r\n".as_slice(), &[b'x'; 20_000]].concat();
    hog.0.get_mut().write_all(&part).unwrap();
    assert_eq!(hog.reply(), "-ERR Protocol error: unauthenticated bulk length");
    assert!(client.ask("HELLO 3").starts_with("-NOAUTH HELLO must be called with the client"));
    assert!(client.ask("HELLO 3 AUTH alice pw SETNAME x").contains("proto :3"));
    assert_eq!(client.ask("CLIENT GETNAME"), "x");
    // User alice with the password pw.
    let alice = "Authorization: Basic YWxpY2U6cHc=\r\n";
    let (_, metrics) = http(up.admin(), "/metrics", alice).unwrap();
    assert!(metrics.contains("solera_failed_logins_total{site=\"virginia\"} 5"));
    assert_eq!(client.ask("QUIT"), "+OK");
}

#[test]
fn users_may_do_only_what_their_rules_permit() {
    let all = user("default", "pw", "commands = ['+@all']\nkeys = ['*']");
    let rules = "commands = ['+@all', '-@dangerous', '-incr']\nkeys = ['cart:*', '%R~price:*']";
    let up = start(&(all + &user("bob", "pw", rules)));
    let mut client = up.inline();
    let no =
        |name: &str| format!("-NOPERM this user has no permissions to run the '{name}' command");
    assert_eq!(client.ask("AUTH bob pw"), "+OK");
    // These keys belong to both workers.
    for i in 0..8 {
        assert_eq!(client.ask(&format!("SET cart:{i} x")), "+OK");
        assert_eq!(client.ask(&format!("GET other:{i}")), NO_KEY);
        assert_eq!(client.ask(&format!("SET price:{i} x")), NO_KEY);
        assert_eq!(client.ask(&format!("GET price:{i}")), "nil");
        assert_eq!(client.ask(&format!("INCR cart:n{i}")), no("incr"));
    }
    let aborted = format!(
        "-EXECABORT Transaction discarded because of previous errors, first: {}",
        &NO_KEY[1..]
    );
    for (line, reply) in [
        ("MGET cart:1 other", NO_KEY),
        ("MSET cart:1 y price:1 z", NO_KEY),
        ("GET cart:1", "x"),
        ("CLIENT SETNAME b", "+OK"),
        ("CLIENT LIST", &no("client|list")),
        ("CONFIG GET save", &no("config|get")),
        ("ACL LIST", &no("acl|list")),
        ("SOLERA.BEGIN", "+OK"),
        ("SET cart:1 z", "+OK"),
        ("GET other", NO_KEY),
        ("SOLERA.COMMIT", &aborted),
        ("SET cart:1 y", "+OK"),
        ("MULTI", "+OK"),
        ("SET cart:1 z", "+QUEUED"),
        ("SET other z", NO_KEY),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
        ("GET cart:1", "y"),
        ("MULTI", "+OK"),
        ("SET cart:1 z", "+QUEUED"),
        ("GET price:1", "+QUEUED"),
        ("EXEC", "+OK nil"),
        ("AUTH pw", "+OK"),
        ("ACL WHOAMI", "default"),
        ("GET other:1", "nil"),
        ("ACL USERS", "bob default"),
    ] {
        assert_eq!(client.ask(line), reply, "{line}");
    }
    let hash = hash_password(b"pw");
    assert_eq!(
        client.ask("ACL GETUSER bob"),
        format!(
            "flags on passwords {hash} commands +@all -@dangerous -incr keys ~cart:* %R~price:* \
             channels  selectors "
        )
    );
}

#[test]
fn connections_list_their_users_and_can_be_killed_by_user() {
    let all = "commands = ['+@all']\nkeys = ['*']";
    let up = start(
        &(user("admin", "pw", all)
            + &user("bob", "pw", "commands = ['+@connection', '-@dangerous']")),
    );
    let connect = |name: &str| {
        let mut client = up.inline();
        assert_eq!(client.ask(&format!("AUTH {name} pw")), "+OK");
        client
    };
    let (mut admin, mut bob, mut other) = (connect("admin"), connect("bob"), connect("bob"));
    let mut nobody = up.inline();
    let no = "-NOPERM this user has no permissions to run the 'client|kill' command";
    assert_eq!(bob.ask("CLIENT KILL SKIPME yes"), no);
    assert!(bob.ask("CLIENT INFO").contains(" user=bob "));
    // The text itself ends with a line end.
    assert_eq!(bob.line(), "");
    // This connection has not authenticated.
    assert_eq!(nobody.ask("PING"), NOAUTH);
    let mut lines = String::new();
    wait_until("both are listed", || {
        admin.0.get_mut().write_all(b"CLIENT LIST\r\n").unwrap();
        let length = admin.line()[1..].parse::<usize>().unwrap();
        let mut bytes = vec![0; length + 2];
        admin.0.read_exact(&mut bytes).unwrap();
        lines = String::from_utf8(bytes).unwrap();
        lines.matches(" user=bob ").count() == 2
    });
    assert_eq!(lines.matches(" user=admin ").count(), 1, "{lines}");
    assert_eq!(lines.matches(" user= ").count(), 1, "{lines}");
    assert_eq!(admin.ask("CLIENT KILL USER eve"), "-ERR No such user 'eve'");
    assert_eq!(admin.ask("CLIENT KILL USER bob"), ":2");
    assert!(bob.is_closed() && other.is_closed());
    assert_eq!(nobody.ask("PING"), NOAUTH);
}

#[test]
fn a_transaction_commits_only_with_the_user_and_rules_of_its_beginning() {
    let rules = |keys: &str| user("bob", "pw", &format!("commands = ['+@all']\nkeys = ['{keys}']"));
    let alice = user("alice", "pw", "commands = ['+@all']\nkeys = ['*']");
    let up = start(&(alice.clone() + &rules("cart:*")));
    let begin = |name: &str, key: &str| {
        let mut client = up.inline();
        assert_eq!(client.ask(&format!("AUTH {name} pw")), "+OK");
        assert_eq!(client.ask("SOLERA.BEGIN"), "+OK");
        assert_eq!(client.ask(&format!("SET {key} 1")), "+OK");
        client
    };
    let mut changed = begin("alice", "other");
    assert_eq!(changed.ask("AUTH bob pw"), "+OK");
    assert_eq!(
        changed.ask("SOLERA.COMMIT"),
        "-NOPERM user 'alice' sent SOLERA.BEGIN, and the connection is user 'bob' by now; nothing of \
         the transaction was done"
    );
    let (mut stays, mut loses) = (begin("alice", "kept"), begin("bob", "cart:1"));
    assert_eq!(
        (loses.ask("AUTH alice pw"), loses.ask("AUTH bob pw")),
        ("+OK".into(), "+OK".into())
    );
    let (mut outside, mut queued) = (up.inline(), up.inline());
    assert_eq!(outside.ask("AUTH bob pw"), "+OK");
    assert_eq!(queued.ask("AUTH bob pw"), "+OK");
    assert_eq!(queued.ask("MULTI"), "+OK");
    assert_eq!(queued.ask("SET cart:2 1"), "+QUEUED");
    up.reload(&(alice + &rules("shop:*")));
    wait_until("the rules have changed", || {
        outside.ask("GET cart:1") == NO_KEY && stays.ask("ACL GETUSER bob").contains("shop")
    });
    assert_eq!(
        loses.ask("SOLERA.COMMIT"),
        "-NOPERM the rules of user 'bob' have changed since SOLERA.BEGIN; nothing of the transaction \
         was done"
    );
    assert_eq!(stays.ask("SOLERA.COMMIT"), "+OK", "alice has not changed");
    wait_until("it is queued", || queued.ask("PING") == "+QUEUED");
    let reply = queued.ask("EXEC");
    let denied = "-NOPERM ACLs rules changed between the moment the transaction was accumulated and \
                  the EXEC call. This command is no longer allowed for the following reason: no \
                  permission to touch the specified keys";
    assert!(reply.starts_with(denied), "{reply}");
    for (key, value) in [("kept", "1"), ("other", "nil"), ("cart:1", "nil"), ("cart:2", "nil")] {
        assert_eq!(stays.ask(&format!("GET {key}")), value, "{key}");
    }
}

#[test]
fn the_size_of_a_queue_of_commands_is_limited() {
    let up = start("");
    let mut client = up.inline();
    assert_eq!(client.ask("MULTI"), "+OK");
    let value = vec![b'x'; 20 << 20];
    let mut queue = || {
        let head = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", value.len());
        let bytes = [head.as_bytes(), &value, b"\r\n"].concat();
        client.0.get_mut().write_all(&bytes).unwrap();
        client.reply()
    };
    for _ in 0..3 {
        assert_eq!(queue(), "+QUEUED");
    }
    let full = "-ERR the commands since MULTI take more than 64 MiB together; nothing will be done";
    assert_eq!(queue(), full);
    assert_eq!(client.ask("EXEC"), "-EXECABORT Transaction discarded because of previous errors.");
    assert_eq!(client.ask("GET k"), "nil");
}

#[tokio::test]
async fn rust_clients_authenticate_when_they_connect() {
    let up = start(&user("alice", "pw", "commands = ['+@all']\nkeys = ['*']"));
    let address = ([127, 0, 0, 1], up.port + 1).into();
    let mut client = solera::Client::connect_as(address, "alice", "pw").await.unwrap();
    client.set("k", "v").await.unwrap();
    client.reconnect().await.unwrap();
    assert_eq!(client.get("k").await.unwrap().as_deref(), Some("v"));
    let error = solera::Client::connect_as(address, "alice", "x").await.unwrap_err();
    assert_eq!(error.code(), Some("WRONGPASS"), "{error}");
    let error = solera::Client::connect(address).await.unwrap_err();
    assert_eq!(error.code(), Some("NOAUTH"), "{error}");
}

#[test]
fn login_options_are_accepted_before_and_after_a_subcommand() {
    let up = start(&user("alice", "pw", "commands = ['+@all']\nkeys = ['*']"));
    let (at, login) = (up.at(1), ["--user", "alice", "--password", "pw"]);
    for words in [
        [&["site", "--at", &at][..], &login, &["list"]].concat(),
        [&["site", "list", "--at", &at][..], &login].concat(),
    ] {
        let output = solera(&words);
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        assert!(text(&output.stdout).contains("virginia"), "{words:?}");
    }
    let refused = solera(&["site", "list", "--at", &at, "--user", "alice", "--password", "no"]);
    let error = text(&refused.stderr);
    assert!(error.contains("the user or the password is wrong, or the user is dis"), "{error}");
    for (login, reason) in [
        (&["--user", "alice"][..], "the user 'alice' or the password in SOLERA_PASSWORD is wrong"),
        (&[], "the cluster has users; log in with --user, and the password in SOLERA_PASSWORD"),
    ] {
        let mut command = Command::new(SOLERA);
        command.args(["fault", "status", "--port", &up.port.to_string()]).args(login);
        let error = text(&command.env("SOLERA_PASSWORD", "wrong").output().unwrap().stderr);
        assert!(error.contains(&format!("{}: {reason}", up.admin())), "{error}");
    }
    // A command that only reads a file rejects login options.
    let refused = solera(&[&["backup", "check", "file"][..], &login].concat());
    assert!(text(&refused.stderr).contains("--user"), "{}", text(&refused.stderr));
}

#[test]
fn users_change_while_the_server_runs() {
    let everything = "commands = ['+@all']\nkeys = ['*']";
    let bob = user("bob", "pw", everything);
    let up = start(&(user("alice", "pw", everything) + &bob));
    let (mut alice, mut bobs) = (up.inline(), up.inline());
    assert_eq!((alice.ask("AUTH alice pw"), bobs.ask("AUTH bob pw")), ("+OK".into(), "+OK".into()));
    assert_eq!(bobs.ask("MULTI"), "+OK");
    assert_eq!(bobs.ask("SET a 1"), "+QUEUED");
    up.reload("[[user]]\nname = 'broken'");
    up.reload(&user("bob", "new", "commands = ['+exec', '+acl|whoami']\nkeys = ['*']"));
    assert!(alice.is_closed(), "the user is no more");
    // An authenticated connection keeps its user, with the user's new rights.
    wait_until("bob has other rights", || bobs.ask("SET b 1").starts_with("-NOPERM"));
    assert_eq!(bobs.ask("EXEC"), "-EXECABORT Transaction discarded because of previous errors.");
    assert_eq!(bobs.ask("ACL WHOAMI"), "bob");
    // The workers apply new settings at slightly different times.
    wait_until("the old password is refused", || up.inline().ask("AUTH bob pw") == WRONGPASS);
    wait_until("the new one is good", || up.inline().ask("AUTH bob new") == "+OK");
    // An empty configuration does not remove the need to authenticate.
    up.reload("");
    up.reload(&user("bob", "newer", ""));
    wait_until("bob has another password", || up.inline().ask("AUTH bob newer") == "+OK");
    assert_eq!(up.inline().ask("GET a"), NOAUTH);
    wait_until("bob may nothing", || bobs.ask("ACL WHOAMI").starts_with("-NOPERM"));
}

fn hash(input: &str) -> (bool, String) {
    let mut child = Command::new(SOLERA)
        .args(["user", "hash"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

#[test]
fn user_hash_prints_a_line_for_the_configuration() {
    let line = format!("password_sha256 = [\"{}\"]\n", hash_password(b"pa ss"));
    assert_eq!(hash("pa ss\n"), (true, line.clone()));
    assert_eq!(hash("pa ss"), (true, line.clone()));
    let up = start(&format!("[[user]]\nname = 'default'\n{line}"));
    let mut client = up.inline();
    assert_eq!(client.ask("AUTH \"pa ss\""), "+OK");
    for input in ["", "\n", "a\nb\n"] {
        let (done, errors) = hash(input);
        assert!(!done && errors.contains("standard input holds"), "{errors}");
    }
}

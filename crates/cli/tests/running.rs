//! Tests changes to a running server: other settings after SIGHUP, and an orderly shutdown.

mod common;

use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use common::{Folder, Node, SOLERA, Up, free_ports, text, wait_until};

fn start(settings: &str) -> Up {
    Up::configured("sites = 1\n", settings)
}

/// Returns the status code of an HTTP request.
fn http(up: &Up, path: &str) -> u16 {
    common::http(up.admin(), path, "").unwrap().0
}

#[test]
fn settings_change_while_the_server_runs() {
    let up = start("log_level = 'info'\nmax_connections = 1");
    let mut first = up.inline();
    assert_eq!(first.ask("PING"), "+PONG");
    assert_eq!(up.inline().reply(), "-ERR max number of clients reached");
    up.reload("log_level = 'info'\nmax_connections = 2");
    up.says("s.toml again: max_connections is 2 (was 1)");
    assert_eq!(up.inline().ask("PING"), "+PONG");
    // An invalid configuration, or a change that needs a restart, changes nothing.
    up.reload("log_level = 'info'\nmax_connections = 0");
    up.says("the settings stay as they were:");
    up.says("s.toml, line 3: max_connections is at least 1");
    up.reload("log_level = 'info'\nmax_connections = 9\npartitions = 8");
    up.says("s.toml, line 4: partitions cannot change while the process runs");
    up.reload("log_level = 'info'\nmax_connections = 2\ntransaction_timeout_ms = 1");
    up.says("s.toml again: transaction_timeout_ms is 1 (was 60000)");
    assert_eq!(first.ask("SOLERA.BEGIN"), "+OK");
    wait_until("the transaction was idle", || first.ask("GET k").starts_with("-NOTX"));
    // This is more than a process can have.
    up.reload("log_level = 'info'\nmax_connections = 4000000000\ntransaction_timeout_ms = 1");
    up.says("instead of 4000000000, because this process may have only");
    up.reload("log_level = 'error'\nmax_connections = 2\ntransaction_timeout_ms = 1");
    up.says("log_level is error (was info)");
}

#[test]
fn format_and_levels_of_the_log_change_while_the_server_runs() {
    let up = start("max_connections = 1");
    up.reload("max_connections = 2\n[log]\nformat = 'json'\nareas = { server = 'debug' }");
    up.says("log.areas.server is debug (was the default); log.format is json (was text)");
    // The line about this change is the first in the new format.
    up.reload("max_connections = 3\n[log]\nformat = 'json'\nlevel = 'warn'");
    up.says("max_connections is 3 (was 2)");
    let log = up.log();
    let line: serde_json::Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    assert_eq!((&line["level"], &line["target"]), (&"INFO".into(), &"server".into()));
    // Now the level hides what it showed before.
    up.reload("max_connections = 4\n[log]\nformat = 'json'\nlevel = 'warn'");
    up.reload("max_connections = 0");
    up.says(r#""level":"ERROR","message":"the settings stay as they were:"#);
    assert!(!up.log().contains("max_connections is 4"), "{}", up.log());
}

#[test]
fn a_configuration_with_a_data_directory_can_be_reloaded() {
    let (folder, port) = (Folder::new(), free_ports(&["127.0.0.1"]));
    let [resp, peer, admin] = [0, 1, 2].map(|n| SocketAddr::from(([127, 0, 0, 1], port + n)));
    let write = |data: &str, connections: usize| {
        let data = folder.at(data);
        let settings = format!(
            "data = '{}'\nmax_connections = {connections}\n[[site]]\nname = 'eu'\n\
             [[site.node]]\nresp = '{resp}'\npeer = '{peer}'\nadmin = '{admin}'\n",
            data.display()
        );
        folder.file("s.toml", &settings)
    };
    let file = write("data", 5);
    let mut command = Command::new(SOLERA);
    let node =
        Node::start(command.args(["serve", "--site", "eu", "--config"]).arg(file), resp, admin);
    wait_until(&node, || node.is_ready());
    node.says("data/eu/node-1");
    node.signal("-HUP");
    node.says("s.toml again: nothing has changed");
    write("elsewhere", 5);
    node.signal("-HUP");
    node.says("s.toml, line 1: data cannot change while the process runs; stop it, move the");
    // These changes still apply after reloads.
    for (connections, changed) in [(6, "max_connections is 6 (was 5)"), (7, "is 7 (was 6)")] {
        write("data", connections);
        node.signal("-HUP");
        node.says(changed);
    }
}

#[test]
fn a_shutdown_waits_for_open_transactions() {
    let mut up = start("drain_ms = 3600000");
    let (mut idle, mut open, mut queued) = (up.inline(), up.inline(), up.inline());
    assert_eq!(idle.ask("PING"), "+PONG");
    assert_eq!(open.ask("SOLERA.BEGIN"), "+OK");
    assert_eq!(queued.ask("MULTI"), "+OK");
    assert_eq!(http(&up, "/ready"), 200);
    up.signal("-TERM");
    assert_eq!(idle.reply(), "", "it is closed");
    wait_until("nobody is let in", || TcpStream::connect(("127.0.0.1", up.port + 1)).is_err());
    assert_eq!((http(&up, "/ready"), http(&up, "/health")), (503, 200));
    assert_eq!(open.ask("SET k v"), "+OK");
    assert_eq!(open.ask("SOLERA.COMMIT"), "+OK");
    assert_eq!(open.reply(), "", "it is closed");
    assert_eq!(up.child.try_wait().unwrap(), None);
    assert_eq!(queued.ask("INCR n"), "+QUEUED");
    // All commands that arrived together are answered.
    queued.send("EXEC\r\nINCR n");
    assert_eq!([queued.reply(), queued.reply()], [":1", ":2"]);
    assert_eq!(queued.reply(), "", "it is closed");
    assert!(up.child.wait().unwrap().success());
}

#[test]
fn a_shutdown_closes_open_transactions_after_the_drain_time() {
    let mut up = start("drain_ms = 50");
    let mut open = up.inline();
    assert_eq!(open.ask("SOLERA.BEGIN"), "+OK");
    up.signal("-TERM");
    assert_eq!(open.reply(), "", "it is closed");
    assert!(up.child.wait().unwrap().success());
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    let mut up = start("drain_ms = 3600000");
    let mut open = up.inline();
    assert_eq!(open.ask("SOLERA.BEGIN"), "+OK");
    up.signal("-TERM");
    wait_until("it is about to stop", || http(&up, "/ready") == 503);
    up.signal("-TERM");
    assert_eq!(up.child.wait().unwrap().code(), Some(130));
}

fn user(name: &str, commands: &str) -> String {
    let hash = solera_node::hash_password(b"pw");
    format!("[[user]]\nname = '{name}'\npassword_sha256 = ['{hash}']\ncommands = [{commands}]\n")
}

#[test]
fn http_requires_a_user_if_users_are_configured() {
    let users = user("root", "'+@all'") + &user("watcher", "'+info'") + &user("bob", "'+get'");
    let up = start(&users);
    let fault = |user: &str, password: &str, what: &[&str]| {
        let mut command = Command::new(SOLERA);
        command.arg("fault").args(what).args(["--port", &up.port.to_string()]);
        if !user.is_empty() {
            command.args(["--user", user]).env("SOLERA_PASSWORD", password);
        }
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    // Probes send no password.
    assert_eq!([http(&up, "/health"), http(&up, "/ready")], [200, 200]);
    let closed = ["/", "/status", "/metrics", "/faults", "/x"].map(|path| http(&up, path));
    assert_eq!(closed, [401; 5]);
    for (user, password, what, expected) in [
        ("", "", ["status"].as_slice(), "the cluster has users"),
        ("watcher", "", &["status"], "the password in SOLERA_PASSWORD is wrong"),
        ("watcher", "pw", &["status"], ""),
        ("watcher", "pw", &["heal"], "user 'watcher' may not do this"),
        ("bob", "pw", &["status"], "needs the right to run INFO"),
        ("root", "pw", &["status"], ""),
        ("root", "pw", &["heal"], ""),
    ] {
        let (done, error) = fault(user, password, what);
        assert_eq!(done, expected.is_empty(), "{user} {what:?}: {error}");
        assert!(error.contains(expected), "{user} {what:?}: {error}");
    }
    // The status is available to more users than the keys in it.
    let status = |user: &str| {
        let mut command = Command::new(SOLERA);
        command.args(["fault", "status", "--json", "--port", &up.port.to_string()]);
        command.args(["--user", user]).env("SOLERA_PASSWORD", "pw");
        text(&command.output().unwrap().stdout)
    };
    assert!(status("root").contains("at_risk_keys"));
    assert!(!status("watcher").contains("at_risk_keys"));
    up.says("127.0.0.1 failed to authenticate as 'watcher'");
    // Requests without a user are those of the default user.
    up.reload(&(users + "[[user]]\nname = 'default'\nnopass = true\ncommands = ['+info']"));
    wait_until("the default user may look", || http(&up, "/status") == 200);
    assert!(!fault("", "", &["heal"]).0);
}

#[test]
fn writes_are_rejected_when_the_memory_limit_is_reached() {
    let up = start("log_level = 'info'\nmax_memory = '64 MiB'");
    let mut client = up.inline();
    let value = "x".repeat(1 << 20);
    let set = |i: usize| format!("*3\r\n$3\r\nSET\r\n$4\r\nk{i:03}\r\n$1048576\r\n{value}");
    let full = "-OOM command not allowed when used memory > 'maxmemory'.";
    let written = (0..1000).position(|i| match client.ask(&set(i)) {
        reply if reply == "+OK" => false,
        reply => reply == full || panic!("{reply}"),
    });
    let written = written.expect("a gigabyte is too much");
    up.says("memory is full");
    for (line, reply) in [
        ("INCR n", full),
        ("EXISTS k000", ":1"),
        ("MULTI", "+OK"),
        ("SADD s x", full),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
        ("SREM s x", ":0"),
    ] {
        assert_eq!(client.ask(line), reply, "{line}");
    }
    for i in 0..written {
        assert_eq!(client.ask(&format!("DEL k{i:03}")), ":1");
    }
    wait_until("there is room again", || client.ask("SET k000 x") == "+OK");
    up.says("memory is no longer full");
    up.reload("log_level = 'info'");
    up.says("max_memory is unlimited (was 67108864 bytes)");
}

//! What can be done with a server while it runs: other settings, on SIGHUP; and an orderly end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const SOLERA: &str = env!("CARGO_BIN_EXE_solera");

/// A running `solera up` of one site, killed at the end of the test.
struct Up {
    child: Child,
    port: u16,
    folder: PathBuf,
    log: Arc<Mutex<String>>,
}

static NEXT_PORT: AtomicU16 = AtomicU16::new(0);

impl Up {
    fn start(settings: &str) -> Up {
        for _ in 0..20 {
            let offset = NEXT_PORT.fetch_add(4, Ordering::Relaxed);
            let port = 20_000 + (std::process::id() % 900) as u16 * 10 + offset;
            let folder = std::env::temp_dir().join(format!("solera-running-{port}"));
            std::fs::create_dir_all(&folder).unwrap();
            let mut up = Up::spawn(port, folder, settings);
            let lines = BufReader::new(up.child.stdout.take().unwrap()).lines();
            if lines.map_while(Result::ok).any(|line| line.contains("Ctrl-C")) {
                return up;
            }
        }
        panic!("no free ports");
    }

    fn spawn(port: u16, folder: PathBuf, settings: &str) -> Up {
        write(&folder, settings);
        let mut child = Command::new(SOLERA)
            .args(["up", "--port", &port.to_string(), "--config"])
            .arg(folder.join("s.toml"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (stderr, copy) = (BufReader::new(child.stderr.take().unwrap()), log.clone());
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                *copy.lock().unwrap() += &(line + "\n");
            }
        });
        Up { child, port, folder, log }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    fn reload(&self, settings: &str) {
        write(&self.folder, settings);
        self.signal("-HUP");
    }

    fn says(&self, what: &str) {
        eventually(what, || self.log.lock().unwrap().contains(what));
    }

    /// The status code of an HTTP request.
    fn http(&self, path: &str) -> u16 {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().parse().unwrap()
    }

    fn client(&self) -> Client {
        let stream = TcpStream::connect(("127.0.0.1", self.port + 1)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Client(BufReader::new(stream))
    }
}

/// At once, so that no half of it is read.
fn write(folder: &std::path::Path, settings: &str) {
    std::fs::write(folder.join("new"), format!("sites = 1\n{settings}")).unwrap();
    std::fs::rename(folder.join("new"), folder.join("s.toml")).unwrap();
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(30), "it did not happen: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// One connection that sends inline commands and reads the first lines of replies.
struct Client(BufReader<TcpStream>);

impl Client {
    fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.reply()
    }

    fn send(&mut self, line: &str) {
        self.0.get_mut().write_all(format!("{line}\r\n").as_bytes()).unwrap();
    }

    fn reply(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

#[test]
fn settings_change_while_the_server_runs() {
    let up = Up::start("log_level = 'info'\nmax_connections = 1");
    let mut first = up.client();
    assert_eq!(first.ask("PING"), "+PONG");
    assert_eq!(up.client().reply(), "-ERR max number of clients reached");
    up.reload("log_level = 'info'\nmax_connections = 2");
    up.says("s.toml again: max_connections is 2 (was 1)");
    assert_eq!(up.client().ask("PING"), "+PONG");
    // What is wrong, or cannot change, leaves all as it was.
    up.reload("log_level = 'info'\nmax_connections = 0");
    up.says("the settings stay as they were:");
    up.says("s.toml, line 3: nobody could connect");
    up.reload("log_level = 'info'\nmax_connections = 9\npartitions = 8");
    up.says("s.toml, line 4: partitions cannot change while the process runs");
    up.reload("log_level = 'info'\nmax_connections = 2\ntransaction_timeout_ms = 1");
    up.says("s.toml again: transaction_timeout_ms is 1 (was 60000)");
    assert_eq!(first.ask("SOLERA.BEGIN"), "+OK");
    eventually("the transaction was idle", || first.ask("GET k").starts_with("-NOTX"));
    // No process can have so many.
    up.reload("log_level = 'info'\nmax_connections = 4000000000\ntransaction_timeout_ms = 1");
    up.says("instead of 4000000000, because this process may have only");
    up.reload("log_level = 'error'\nmax_connections = 2\ntransaction_timeout_ms = 1");
    up.says("log_level is error (was info)");
}

#[test]
fn who_is_not_done_is_let_come_to_an_end() {
    let mut up = Up::start("drain_ms = 3600000");
    let (mut idle, mut open, mut queued) = (up.client(), up.client(), up.client());
    assert_eq!(idle.ask("PING"), "+PONG");
    assert_eq!(open.ask("SOLERA.BEGIN"), "+OK");
    assert_eq!(queued.ask("MULTI"), "+OK");
    assert_eq!(up.http("/ready"), 200);
    up.signal("-TERM");
    assert_eq!(idle.reply(), "", "it is closed");
    eventually("nobody is let in", || TcpStream::connect(("127.0.0.1", up.port + 1)).is_err());
    assert_eq!((up.http("/ready"), up.http("/health")), (503, 200));
    assert_eq!(open.ask("SET k v"), "+OK");
    assert_eq!(open.ask("SOLERA.COMMIT"), "+OK");
    assert_eq!(open.reply(), "", "it is closed");
    assert_eq!(up.child.try_wait().unwrap(), None);
    assert_eq!(queued.ask("INCR n"), "+QUEUED");
    // All that came together is answered.
    queued.send("EXEC\r\nINCR n");
    assert_eq!([queued.reply(), queued.reply(), queued.reply()], ["*1", ":1", ":2"]);
    assert_eq!(queued.reply(), "", "it is closed");
    assert!(up.child.wait().unwrap().success());
}

#[test]
fn who_takes_too_long_is_cut_off() {
    let mut up = Up::start("drain_ms = 50");
    let mut open = up.client();
    assert_eq!(open.ask("SOLERA.BEGIN"), "+OK");
    up.signal("-TERM");
    assert_eq!(open.reply(), "", "it is closed");
    assert!(up.child.wait().unwrap().success());
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let mut up = Up::start("drain_ms = 3600000");
    let mut open = up.client();
    assert_eq!(open.ask("SOLERA.BEGIN"), "+OK");
    up.signal("-TERM");
    eventually("it is about to stop", || up.http("/ready") == 503);
    up.signal("-TERM");
    assert_eq!(up.child.wait().unwrap().code(), Some(130));
}

fn user(name: &str, commands: &str) -> String {
    let hash = solera_node::hash_password(b"pw");
    format!("[[user]]\nname = '{name}'\npassword_sha256 = ['{hash}']\ncommands = [{commands}]\n")
}

#[test]
fn http_is_for_users_where_there_are_any() {
    let users = user("root", "'+@all'") + &user("watcher", "'+info'") + &user("bob", "'+get'");
    let up = Up::start(&users);
    let fault = |user: &str, password: &str, what: &[&str]| {
        let mut command = Command::new(SOLERA);
        command.arg("fault").args(what).args(["--port", &up.port.to_string()]);
        if !user.is_empty() {
            command.args(["--user", user]).env("SOLERA_PASSWORD", password);
        }
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    // Probes have no password.
    assert_eq!([up.http("/health"), up.http("/ready")], [200, 200]);
    let closed = ["/", "/status", "/metrics", "/faults", "/x"].map(|path| up.http(path));
    assert_eq!(closed, [401; 5]);
    for (user, password, what, told) in [
        ("", "", ["status"].as_slice(), "needs a user"),
        ("watcher", "", &["status"], "needs a user and its password"),
        ("watcher", "pw", &["status"], ""),
        ("watcher", "pw", &["heal"], "user 'watcher' may not do this"),
        ("bob", "pw", &["status"], "needs the right to run INFO"),
        ("root", "pw", &["status"], ""),
        ("root", "pw", &["heal"], ""),
    ] {
        let (done, error) = fault(user, password, what);
        assert_eq!(done, told.is_empty(), "{user} {what:?}: {error}");
        assert!(error.contains(told), "{user} {what:?}: {error}");
    }
    up.says("127.0.0.1 failed to authenticate as 'watcher'");
    // The default user is who says nothing.
    up.reload(&(users + "[[user]]\nname = 'default'\nnopass = true\ncommands = ['+info']"));
    eventually("the default user may look", || up.http("/status") == 200);
    assert!(!fault("", "", &["heal"]).0);
}

#[test]
fn a_process_takes_no_more_memory_than_it_may() {
    let up = Up::start("log_level = 'info'\nmax_memory = '64 MiB'");
    let mut client = up.client();
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
    eventually("there is room again", || client.ask("SET k000 x") == "+OK");
    up.says("memory is no longer full");
    up.reload("log_level = 'info'");
    up.says("max_memory is unlimited (was 67108864 bytes)");
}

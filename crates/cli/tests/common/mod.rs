//! Shared by the tests of the binary: processes, temporary folders, ports, and timeouts.

// Each test file is a separate program, and none uses everything in here.
#![allow(dead_code)]

pub(crate) mod load;
pub(crate) mod nodes;

use std::fmt;
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use solera::{Client, Error, Value};

/// Spaces of both levels that need agreement.
pub(crate) const STRONG_SPACES: &str = "\
[[space]]
name = 'account'
prefix = 'account:'
level = 'por'
[[space]]
name = 'lock'
prefix = 'lock:'
level = 'linearizable'
";

/// Path of the binary.
pub(crate) const SOLERA: &str = env!("CARGO_BIN_EXE_solera");

/// Time for which a test waits for an event.
const PATIENCE: Duration = Duration::from_secs(30);

/// Number of the next folder or port of this program; several tests run at the same time.
static NEXT: AtomicU16 = AtomicU16::new(0);

/// Sockets that keep other test programs from the ports that this one uses, until it ends. Nothing
/// else binds UDP ports here.
static CLAIMS: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());

/// Returns the first of ten ports that are free on all of these hosts. They are below the system's
/// range for outgoing connections.
pub(crate) fn free_ports(hosts: &[&str]) -> u16 {
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 10_000 + ((std::process::id() % 100) as u16 * 20 + number) % 2200 * 10;
        let Ok(claim) = UdpSocket::bind(("127.0.0.1", port)) else { continue };
        let free = |port| hosts.iter().all(|host| TcpListener::bind((*host, port)).is_ok());
        if (port..port + 10).all(free) {
            CLAIMS.lock().unwrap().push(claim);
            return port;
        }
    }
}

/// A test's own folder, which is removed with its content.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("solera-test-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file with this content.
    pub(crate) fn file(&self, name: &str, content: &str) -> PathBuf {
        // Renames the file into place, so that no process reads a part of it.
        std::fs::write(self.at("new"), content).unwrap();
        std::fs::rename(self.at("new"), self.at(name)).unwrap();
        self.at(name)
    }
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running process of the binary, killed at the end of the test.
pub(crate) struct Process {
    pub(crate) child: Child,
    log: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Process {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (stderr, copy) = (BufReader::new(child.stderr.take().unwrap()), log.clone());
        let reader = std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                *copy.lock().unwrap() += &(line + "\n");
            }
        });
        Process { child, log, reader: Some(reader) }
    }

    /// Returns its standard error so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits until its log contains this text.
    pub(crate) fn says(&self, what: &str) {
        wait_until(format_args!("the log says '{what}'\n{self}"), || self.log().contains(what));
    }

    pub(crate) fn signal(&self, name: &str) {
        let done = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(done.unwrap().success());
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits until it has exited by itself and its log is complete.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let status = self.child.wait().unwrap();
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        status
    }
}

/// Shows the log, for failures.
impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.log.lock().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        self.wait();
        if !std::thread::panicking() {
            assert!(!self.log().contains("panicked"), "{self}");
        }
    }
}

/// A running `solera up`.
pub(crate) struct Up {
    process: Process,
    pub(crate) port: u16,
    settings: Option<Settings>,
    /// What the process prints before it serves.
    pub(crate) intro: String,
    /// Kept open, because the process prints a line when it stops.
    _said: Lines<BufReader<ChildStdout>>,
}

/// A configuration with fixed first lines and changeable settings below.
struct Settings {
    head: &'static str,
    folder: Folder,
}

impl Settings {
    fn write(&self, settings: &str) -> PathBuf {
        self.folder.file("s.toml", &format!("{}{settings}", self.head))
    }
}

impl Up {
    pub(crate) fn start(arguments: &[&str]) -> Up {
        for _ in 0..20 {
            if let Some(up) = Up::try_start(free_ports(&["127.0.0.1"]), arguments) {
                return up;
            }
        }
        panic!("`solera up` does not start");
    }

    /// Starts a process at the port of an earlier one, which has ended.
    pub(crate) fn again(port: u16, arguments: &[&str]) -> Up {
        Up::try_start(port, arguments).expect("the port is still free")
    }

    /// Starts a process with a configuration that begins with `head`; [`Up::reload`] can change the
    /// rest.
    pub(crate) fn configured(head: &'static str, settings: &str) -> Up {
        let place = Settings { head, folder: Folder::new() };
        let file = place.write(settings);
        let mut up = Up::start(&["--config", file.to_str().unwrap()]);
        up.settings = Some(place);
        up
    }

    /// Returns `None` if a port was taken meanwhile.
    fn try_start(port: u16, arguments: &[&str]) -> Option<Up> {
        let mut command = Command::new(SOLERA);
        command.args(["up", "--port", &port.to_string()]).args(arguments);
        let mut process = Process::start(command.stdout(Stdio::piped()));
        let mut said = BufReader::new(process.child.stdout.take().unwrap()).lines();
        let mut intro = String::new();
        for line in said.by_ref().map_while(Result::ok) {
            intro += &(line + "\n");
            if intro.contains("Ctrl-C") {
                break;
            }
        }
        if !intro.contains("Ctrl-C") {
            process.wait();
            assert!(process.log().contains("the port is in use"), "{process}");
            return None;
        }
        Some(Up { process, port, settings: None, intro, _said: said })
    }

    /// Makes it read other settings, below the same head.
    pub(crate) fn reload(&self, settings: &str) {
        self.settings.as_ref().expect("it was started with settings").write(settings);
        self.signal("-HUP");
    }

    /// Returns the address of a site for clients.
    pub(crate) fn address(&self, site: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port + site))
    }

    /// Returns the address of a site as text.
    pub(crate) fn at(&self, site: u16) -> String {
        self.address(site).to_string()
    }

    pub(crate) async fn client(&self, site: u16) -> Client {
        self.try_client(site).await.unwrap()
    }

    pub(crate) async fn try_client(&self, site: u16) -> Result<Client, Error> {
        Client::connect(self.address(site)).await
    }

    /// Returns a client of the first site that sends inline commands.
    pub(crate) fn inline(&self) -> Inline {
        Inline::at(self.address(1))
    }

    /// Returns the address of its HTTP interface.
    pub(crate) fn admin(&self) -> SocketAddr {
        self.address(0)
    }

    pub(crate) fn fault(&self, arguments: &[&str]) -> Output {
        let port = self.port.to_string();
        solera(&[&["fault"], arguments, &["--port", &port]].concat())
    }
}

impl Deref for Up {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

impl DerefMut for Up {
    fn deref_mut(&mut self) -> &mut Process {
        &mut self.process
    }
}

/// A running `solera serve`.
pub(crate) struct Node {
    process: Process,
    pub(crate) resp: SocketAddr,
    pub(crate) admin: SocketAddr,
}

impl Node {
    pub(crate) fn start(command: &mut Command, resp: SocketAddr, admin: SocketAddr) -> Node {
        Node { process: Process::start(command), resp, admin }
    }

    /// Returns the status code and body of an HTTP request; `None` if the node does not answer.
    pub(crate) fn http(&self, path: &str) -> Option<(u16, String)> {
        http(self.admin, path, "")
    }

    pub(crate) fn status(&self) -> serde_json::Value {
        serde_json::from_str(&self.http("/status").unwrap().1).unwrap()
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.http("/ready").is_some_and(|(code, _)| code == 200)
    }

    /// Returns whether it reaches every other node.
    pub(crate) fn reaches_all(&self) -> bool {
        self.is_ready()
            && self.status()["sites"]
                .as_array()
                .unwrap()
                .iter()
                .all(|site| site["reached"].as_bool() == Some(true))
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.resp).await.unwrap()
    }
}

impl Deref for Node {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

impl DerefMut for Node {
    fn deref_mut(&mut self) -> &mut Process {
        &mut self.process
    }
}

/// Shows the log, for failures.
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.process.fmt(f)
    }
}

/// Runs the binary to its end.
pub(crate) fn solera(arguments: &[&str]) -> Output {
    Command::new(SOLERA).args(arguments).env_remove("SOLERA_PASSWORD").output().unwrap()
}

/// Requires that a command was successful.
pub(crate) fn ok(output: &Output) {
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// Reports that a test was skipped.
pub(crate) fn skipped(test: &str, reason: &str) {
    // Macros such as `eprintln!` are not used, because their output is hidden when a test passes.
    let _ = writeln!(std::io::stderr(), "skipped {test}: {reason}");
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns a reply as a number; it is an integer or a string of digits.
pub(crate) fn number(value: &Value) -> i64 {
    match value {
        Value::Integer(number) => *number,
        Value::Bulk(digits) => text(digits).parse().unwrap(),
        other => panic!("{other:?} is no number"),
    }
}

/// Returns the transaction that an error names, as in `… transaction 0.1.2.3 …`.
pub(crate) fn named(error: &Error) -> String {
    let words = error.to_string();
    let (_, after) = words.split_once("transaction ").unwrap_or_else(|| panic!("{words}"));
    let end = after.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(after.len());
    after[..end].to_owned()
}

/// Returns the status code and body of an HTTP request; `None` if there is no answer. Each of
/// `headers` includes its line end.
pub(crate) fn http(address: SocketAddr, path: &str, headers: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

/// Waits until a condition holds; `what` describes it in the failure.
pub(crate) async fn eventually(what: impl fmt::Display, mut holds: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !holds().await {
        assert!(started.elapsed() < PATIENCE, "it did not happen: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits like [`eventually`], in code that is not asynchronous.
pub(crate) fn wait_until(what: impl fmt::Display, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "it did not happen: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the arguments of `solera up` with a configuration and data that survive a restart,
/// without delays between the sites.
pub(crate) fn keeping<'a>(config: &'a Path, data: &'a Path) -> [&'a str; 6] {
    let text = |path: &'a Path| path.to_str().unwrap();
    ["--config", text(config), "--data", text(data), "--wan", "none"]
}

/// Returns a field of a reply that lists fields and values, as [`Inline::ask`] returns it.
pub(crate) fn field_of(reply: &str, name: &str) -> String {
    let words: Vec<&str> = reply.split(' ').collect();
    let at = words.iter().position(|word| *word == name).expect(reply);
    words[at + 1].trim_start_matches(':').to_owned()
}

/// Waits until all sites have executed the same operations of the speculative space `stock` in the
/// same order, and nothing is tentative.
pub(crate) fn agree(clients: &mut [Inline]) {
    wait_until("the sites have the same final operations", || {
        let ask = |client: &mut Inline| client.ask("SOLERA.STATE stock");
        let states: Vec<String> = clients.iter_mut().map(ask).collect();
        let of = |name: &str| states.iter().map(|it| field_of(it, name)).collect::<Vec<_>>();
        let same = |name: &str| of(name).windows(2).all(|two| two[0] == two[1]);
        same("final") && same("digest") && of("tentative").iter().all(|it| it == "0")
    });
}

/// One connection that sends inline commands and reads replies line by line.
pub(crate) struct Inline(pub(crate) BufReader<TcpStream>);

impl Inline {
    pub(crate) fn at(address: SocketAddr) -> Inline {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Inline(BufReader::new(stream))
    }

    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.reply()
    }

    pub(crate) fn send(&mut self, line: &str) {
        self.0.get_mut().write_all(format!("{line}\r\n").as_bytes()).unwrap();
    }

    /// Returns the first line of the reply. For a bulk string, returns the string; for an array,
    /// its items separated by spaces.
    pub(crate) fn reply(&mut self) -> String {
        let line = self.line();
        match line.split_at_checked(1) {
            Some(("$", "-1")) | Some(("*", "-1")) => "nil".to_owned(),
            Some(("$", _)) => self.line(),
            Some(("*" | "%" | "~" | ">", count)) => {
                let items =
                    count.parse::<usize>().unwrap() * if line.starts_with('%') { 2 } else { 1 };
                (0..items).map(|_| self.reply()).collect::<Vec<_>>().join(" ")
            }
            _ => line,
        }
    }

    /// Returns the next line; it is empty once the connection is closed.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub(crate) fn is_closed(&mut self) -> bool {
        matches!(self.0.read(&mut [0; 64]), Ok(0) | Err(_))
    }
}

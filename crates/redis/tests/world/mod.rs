//! Servers, and modules that run over them, for all tests.

// Each file of tests is a program of its own, and none uses all of this.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use solera_language::compile::compile;
use solera_mixt::binding::{Bindings, Module};
use solera_mixt::coordinator::{Coordinator, TransactionId};
use solera_mixt::executor::{self, Clock, Connections};
use solera_mixt::outcome::{Limits, Outcome};
use solera_mixt::store::{BoxFuture, Database};
use solera_program::codec::Codec;
use solera_program::value::Value;
use solera_redis::{Redis, Target};

/// Time limit for a condition to become true.
const PATIENCE: Duration = Duration::from_secs(30);

/// Counter for unique names.
static NEXT: AtomicU64 = AtomicU64::new(1);

pub(crate) fn next() -> u64 {
    (u64::from(std::process::id()) << 32) + NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A server of one test, killed at the end of the test.
pub(crate) struct Server {
    child: Option<Child>,
    pub(crate) port: u16,
    folder: PathBuf,
    cluster: bool,
}

impl Server {
    pub(crate) fn start(cluster: bool) -> Server {
        let folder = std::env::temp_dir().join(format!("solera-redis-{}", next()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut server = Server { child: None, port: free_port(), folder, cluster };
        server.again();
        server
    }

    /// Starts it again at its address.
    pub(crate) fn again(&mut self) {
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", "", "--port", &self.port.to_string()]);
        if self.cluster {
            command.args(["--cluster-enabled", "yes", "--cluster-port", &free_port().to_string()]);
        }
        command.arg("--dir").arg(&self.folder).stdout(Stdio::null());
        let started = command.spawn().unwrap_or_else(|error| {
            panic!(
                "this test needs redis-server ({error}): install it, as `scripts/with-stores` describes, \
                 and run `scripts/with-stores cargo test -p solera-redis`"
            )
        });
        self.child = Some(started);
        let began = Instant::now();
        while !self.answers() {
            assert!(began.elapsed() < PATIENCE, "redis-server does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns whether it answers a PING. A connection that opens is not enough: one to a port
    /// without a listener can connect to itself.
    fn answers(&self) -> bool {
        let ask = || -> std::io::Result<[u8; 5]> {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
            stream.set_read_timeout(Some(Duration::from_secs(1)))?;
            stream.write_all(b"PING\r\n")?;
            let mut answer = [0; 5];
            stream.read_exact(&mut answer)?;
            Ok(answer)
        };
        ask().is_ok_and(|answer| answer == *b"+PONG")
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Sends it a signal, such as STOP or CONT.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Returns a port below those of outgoing connections. One of these could take the port while its
/// server is away.
fn free_port() -> u16 {
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed) + u64::from(std::process::id()) * 50;
        let port = 10_000 + (number % 10_000) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Returns the server that the environment names, or a new one.
pub(crate) fn any_server() -> (String, Option<Server>) {
    match std::env::var("SOLERA_TEST_REDIS") {
        Ok(url) if url.contains("://") => (url, None),
        Ok(address) => (format!("redis://{address}"), None),
        Err(_) => {
            let server = Server::start(false);
            (server.url(), Some(server))
        }
    }
}

/// Starts three nodes that form a cluster.
pub(crate) fn cluster() -> Vec<Server> {
    let nodes: Vec<_> = (0..3).map(|_| Server::start(true)).collect();
    let addresses = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port));
    let created = Command::new("redis-cli")
        .args(["--cluster", "create"])
        .args(addresses)
        .arg("--cluster-yes")
        .output()
        .unwrap();
    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stdout));
    nodes
}

/// Returns a prefix that no other test has.
pub(crate) fn prefix() -> String {
    format!("test-{:x}:", next())
}

/// Returns a database with one space `all`.
pub(crate) fn redis(url: &str, prefix: &str, timeout: Duration) -> Redis {
    Redis::new("cache", Target::parse(url).unwrap(), [("all", prefix)], timeout)
}

/// Sends a command directly, as another client does.
pub(crate) async fn raw(url: &str, words: &[&str]) -> redis::Value {
    let client = redis::Client::open(url).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    redis::cmd(words[0]).arg(&words[1..]).query_async(&mut connection).await.unwrap()
}

/// A module over databases.
pub(crate) struct Bench {
    module: Module,
    databases: Vec<Arc<dyn Database>>,
    bindings: Bindings,
    pub(crate) limits: Limits,
}

impl Bench {
    pub(crate) fn new(
        source: &str,
        databases: Vec<Arc<dyn Database>>,
        bind: &[(&str, usize, &str)],
    ) -> Bench {
        let compiled = compile(source);
        assert!(compiled.program.is_some(), "{:?}", compiled.diagnostics);
        let module = Module::new("tested", Arc::new(compiled.program.unwrap())).unwrap();
        let bindings = Bindings::new(module.program(), &databases, bind).unwrap();
        Bench { module, databases, bindings, limits: Limits::default() }
    }

    pub(crate) async fn run(&self, name: &str, args: &[&str]) -> Outcome {
        let transaction = self.module.transaction(name).unwrap();
        let program = self.module.program();
        let codec = Codec::new(program);
        let params = program.transactions[transaction].params.iter().zip(args);
        let args = params.map(|((_, ty), text)| codec.argument(text.as_bytes(), ty).unwrap());
        let mut coordinator = Coordinator::new(
            (self.module.clone(), transaction),
            args.collect(),
            self.bindings.clone(),
            // Its lowest bit is not used.
            TransactionId::new(next() << 1),
            (Arc::new(BTreeMap::new()), self.limits),
            SystemClock.now_ms(),
        )
        .unwrap();
        let mut connections = Connections::new(self.databases.iter().cloned());
        executor::run(&mut coordinator, &mut connections, &SystemClock).await
    }

    pub(crate) async fn done(&self, name: &str, args: &[&str]) -> Value {
        match self.run(name, args).await {
            Outcome::Done { result, .. } => result,
            other => panic!("{name}: {other}"),
        }
    }

    /// Returns a result as text.
    pub(crate) async fn text_of(&self, name: &str, args: &[&str]) -> String {
        let value = self.done(name, args).await;
        let program = self.module.program();
        let transaction = &program.transactions[self.module.transaction(name).unwrap()];
        let bytes = Codec::new(program).result(&value, &transaction.result).unwrap();
        String::from_utf8(bytes).unwrap()
    }
}

struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
    }

    fn sleep(&self, ms: u64) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(Duration::from_millis(ms)))
    }
}

/// Waits until the condition holds.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < PATIENCE, "it never came about: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns the folder of the examples.
pub(crate) fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

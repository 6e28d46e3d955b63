//! Counts instructions under callgrind and system calls under strace, by running this program again.
//!
//! Each kind is run twice, the second time with three times as many requests. The difference between the runs is that
//! of the requests alone: what starting and loading cost is the same in both.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;

use super::kind::Kind;
use super::session::Session;
use super::table::{Counted, Table};

/// How long a server under strace may take until it listens.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why requests cannot be counted.
#[derive(Debug)]
pub enum CountError {
    /// A tool cannot be run.
    Tool {
        /// Its name.
        tool: &'static str,
        /// Why not.
        error: std::io::Error,
    },
    /// What runs under a tool has failed.
    Failed {
        /// The tool's name.
        tool: &'static str,
        /// The requests.
        kind: Kind,
        /// What was said about the failure.
        reason: String,
    },
    /// This program cannot be run again, or its server cannot be reached.
    Server(String),
}

impl fmt::Display for CountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CountError::Tool { tool, error } => {
                write!(f, "{tool} cannot be run: {error}; on Debian, apt-get install {tool}")
            }
            CountError::Failed { tool, kind, reason } => {
                write!(f, "counting {kind} under {tool} failed: {}", reason.trim_end())
            }
            CountError::Server(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for CountError {}

/// Counts what the requests of these kinds cost. `tell` hears what is going on.
///
/// # Errors
/// See [`CountError`].
pub fn count(kinds: &[Kind], tell: &dyn Fn(&str)) -> Result<Table, CountError> {
    let mut rows = Vec::new();
    for kind in kinds {
        tell(&format!("counting {kind}"));
        let instructions = per_request(*kind, instructions)?;
        let system_calls = match kind {
            Kind::Client => 0.0,
            kind => per_request(*kind, system_calls)?,
        };
        rows.push(Counted { kind: *kind, instructions, system_calls });
    }
    Ok(Table { rows })
}

/// What one request adds to what is counted.
fn per_request(
    kind: Kind,
    count: fn(Kind, u64) -> Result<u64, CountError>,
) -> Result<f64, CountError> {
    let times = kind.times();
    let (fewer, more) = (count(kind, times)?, count(kind, 3 * times)?);
    Ok(more.saturating_sub(fewer) as f64 / (2 * times) as f64)
}

/// Clients that send transactions at once while a server is counted or measured, and transactions of each.
const CLIENTS: u64 = 32;
const TRANSACTIONS: u64 = 100;
/// Transactions of each client while a server's time is measured: the kernel counts it in hundredths of a second.
const TIMED: u64 = 2000;

/// What a transaction of a server under load takes: a `SOLERA.BEGIN`, so many `GET`s together, a `SOLERA.COMMIT`.
///
/// # Errors
/// See [`CountError`].
pub(crate) fn server_instructions(workers: u8, operations: u64) -> Result<f64, CountError> {
    per_transaction(&mut |transactions| {
        let mut command = Command::new("valgrind");
        command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(this_program()?);
        let output = serve(command, "valgrind", workers, async |port, server| {
            run_clients(port, server, operations, transactions).await
        })?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        collected(&said).ok_or_else(|| failed("valgrind", said))
    })
}

/// Processor time of the same transaction at one worker, in nanoseconds: outside the kernel, and in it.
///
/// # Errors
/// See [`CountError`].
pub(crate) fn server_time(operations: u64) -> Result<(f64, f64), CountError> {
    let mut spent = (0, 0);
    let command = Command::new(this_program()?);
    serve(command, "solera", 1, async |port, server| {
        let before = times_of(server.pid())?;
        run_clients(port, server, operations, TIMED).await?;
        let after = times_of(server.pid())?;
        spent = (after.0 - before.0, after.1 - before.1);
        Ok(())
    })?;
    let of_one = |spent: u64| spent as f64 / (CLIENTS * TIMED) as f64;
    Ok((of_one(spent.0), of_one(spent.1)))
}

/// The requests for which the servers are started; what they are asked is up to the clients.
const KIND: Kind = Kind::Get;

fn failed(tool: &'static str, reason: String) -> CountError {
    CountError::Failed { tool, kind: KIND, reason }
}

/// What one transaction adds to what is counted.
fn per_transaction(
    count: &mut dyn FnMut(u64) -> Result<u64, CountError>,
) -> Result<f64, CountError> {
    let (fewer, more) = (count(TRANSACTIONS)?, count(3 * TRANSACTIONS)?);
    Ok(more.saturating_sub(fewer) as f64 / (2 * CLIENTS * TRANSACTIONS) as f64)
}

/// Starts this program as a server, has clients ask it, and ends it.
fn serve(
    mut command: Command,
    tool: &'static str,
    workers: u8,
    ask: impl AsyncFnOnce(u16, &mut Server) -> Result<(), String>,
) -> Result<Output, CountError> {
    let port = free_port()?;
    command.args(["costs", "--of", KIND.name(), "--listen", &port.to_string()]);
    command.args(["--workers", &workers.to_string()]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let server = command.spawn().map_err(|error| CountError::Tool { tool, error })?;
    let mut server = Server(Some(server));
    let runtime = crate::runtime().map_err(|error| CountError::Server(error.to_string()))?;
    runtime.block_on(ask(port, &mut server)).map_err(|reason| failed(tool, reason))?;
    let output = server.end().map_err(|error| CountError::Tool { tool, error })?;
    successful(tool, KIND, &output)?;
    Ok(output)
}

async fn run_clients(
    port: u16,
    server: &mut Server,
    operations: u64,
    transactions: u64,
) -> Result<(), String> {
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        let mut session = Session::new(connect(port, server).await?, None);
        running.spawn(async move { session.run_transactions(operations, transactions).await });
    }
    while let Some(ran) = running.join_next().await {
        ran.map_err(|error| error.to_string())??;
    }
    Ok(())
}

/// Nanoseconds for which a process has run outside the kernel, and in it.
fn times_of(pid: u32) -> Result<(u64, u64), String> {
    /// Of the kernel's clock for processor times, on every architecture that Linux has today.
    const TICK: u64 = 10_000_000;
    let file = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
    // The program's name may have spaces, and ends with a parenthesis.
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut fields = fields.split_whitespace().skip(11).map(str::parse::<u64>);
    match (fields.next(), fields.next()) {
        (Some(Ok(user)), Some(Ok(system))) => Ok((user * TICK, system * TICK)),
        _ => Err(format!("{file}: no processor times in '{text}'")),
    }
}

/// Nanoseconds for which the threads of a process have run, as the kernel counts them.
pub(crate) fn processor_time(pid: u32) -> Result<u64, String> {
    let folder = format!("/proc/{pid}/task");
    let failed = |error: std::io::Error| format!("{folder}: {error}");
    let mut sum = 0;
    for thread in std::fs::read_dir(&folder).map_err(failed)? {
        let times = std::fs::read_to_string(thread.map_err(failed)?.path().join("schedstat"));
        let times = times.map_err(failed)?;
        sum += times.split(' ').next().and_then(|time| time.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(sum)
}

fn instructions(kind: Kind, times: u64) -> Result<u64, CountError> {
    let tool = "valgrind";
    let mut command = Command::new(tool);
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(this_program()?);
    command.args(["costs", "--of", kind.name(), "--times", &times.to_string()]);
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| CountError::Tool { tool, error })?;
    let said = successful(tool, kind, &output)?;
    collected(&said).ok_or(CountError::Failed { tool, kind, reason: said })
}

/// Instructions, as callgrind says at its end.
fn collected(said: &str) -> Option<u64> {
    let (_, count) = said.lines().find_map(|line| line.split_once("Collected :"))?;
    count.trim().parse().ok()
}

fn system_calls(kind: Kind, times: u64) -> Result<u64, CountError> {
    let tool = "strace";
    let failed = |reason: String| CountError::Failed { tool, kind, reason };
    let (port, summary) = (free_port()?, Temporary::new(kind));
    let mut command = Command::new(tool);
    command.args(["-f", "-c", "-o"]).arg(&summary.0).arg(this_program()?);
    command.args(["costs", "--of", kind.name(), "--listen", &port.to_string()]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let server = command.spawn().map_err(|error| CountError::Tool { tool, error })?;
    let mut server = Server(Some(server));
    let runtime = crate::runtime().map_err(|error| CountError::Server(error.to_string()))?;
    runtime.block_on(async {
        let stream = connect(port, &mut server).await.map_err(failed)?;
        Session::new(stream, None).run(kind, times).await.map_err(failed)
    })?;
    let output = server.end().map_err(|error| CountError::Tool { tool, error })?;
    successful(tool, kind, &output)?;
    let summary = std::fs::read_to_string(&summary.0).map_err(|error| failed(error.to_string()))?;
    total_calls(&summary).ok_or_else(|| failed(format!("its summary has no total:\n{summary}")))
}

/// The calls in the last line of a summary: percent, seconds, microseconds for each call, calls, errors if any, `total`.
fn total_calls(summary: &str) -> Option<u64> {
    let line = summary.lines().rfind(|line| line.trim_end().ends_with(" total"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

async fn connect(port: u16, server: &mut Server) -> Result<TcpStream, String> {
    let (address, begin) = (SocketAddr::from((Ipv4Addr::LOCALHOST, port)), Instant::now());
    loop {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                stream.set_nodelay(true).map_err(|error| error.to_string())?;
                return Ok(stream);
            }
            Err(error) if begin.elapsed() >= PATIENCE => return Err(error.to_string()),
            Err(_) if server.has_ended() => return Err("the server has ended".to_owned()),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// A server that ends when its standard input is closed.
struct Server(Option<Child>);

impl Server {
    fn pid(&self) -> u32 {
        self.0.as_ref().expect("a server ends once").id()
    }

    fn has_ended(&mut self) -> bool {
        let child = self.0.as_mut();
        child.is_none_or(|child| child.try_wait().is_ok_and(|status| status.is_some()))
    }

    fn end(mut self) -> std::io::Result<Output> {
        let mut child = self.0.take().expect("a server ends once");
        drop(child.stdin.take());
        child.wait_with_output()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            drop(child.stdin.take());
            // It has nothing to lose, and may have ended by itself.
            let _ = child.wait();
        }
    }
}

/// A file that is removed when it is dropped.
struct Temporary(PathBuf);

impl Temporary {
    fn new(kind: Kind) -> Temporary {
        let name = format!("solera-costs-{}-{kind:?}", std::process::id());
        Temporary(std::env::temp_dir().join(name))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // What cannot be removed is in a folder for what may be lost.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn successful(tool: &'static str, kind: Kind, output: &Output) -> Result<String, CountError> {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.success() {
        true => Ok(said),
        false => {
            Err(CountError::Failed { tool, kind, reason: format!("{}: {said}", output.status) })
        }
    }
}

fn this_program() -> Result<PathBuf, CountError> {
    std::env::current_exe().map_err(|error| CountError::Server(error.to_string()))
}

fn free_port() -> Result<u16, CountError> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = bound.and_then(|listener| listener.local_addr());
    address.map(|address| address.port()).map_err(|error| CountError::Server(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_read_with_and_without_errors() {
        let head = "% time     seconds  usecs/call     calls    errors syscall\n\
                    ------ ----------- ----------- --------- --------- ----------------\n\
                     60.00    0.000006           0        11         2 read\n\
                    ------ ----------- ----------- --------- --------- ----------------\n";
        let with = format!("{head}100.00    0.000010           1        17         2 total\n");
        assert_eq!(total_calls(&with), Some(17));
        let without = format!("{head}100.00    0.000010           1        15           total\n");
        assert_eq!(total_calls(&without), Some(15));
        assert_eq!(total_calls(head), None);
    }
}

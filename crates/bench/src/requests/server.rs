//! Measures the cost of each transaction of many clients in server processes of this program.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;

use super::kind::{Kind, Load};
use super::session::RequestSession;
use super::tool::{CountError, collected, successful, this_program, what_one_adds};
use crate::ports::free_ports;

/// Timeout until a server under strace listens.
const PATIENCE: Duration = Duration::from_secs(30);
/// Number of concurrent clients, and number of transactions per client while instructions are
/// counted.
const CLIENTS: u64 = 32;
const TRANSACTIONS: u64 = 100;
/// Number of transactions of each client while a server's time is measured, which the kernel counts
/// in hundredths of a second.
const TIMED: u64 = 2000;
/// Kind with which servers under load are started; the clients choose their own requests.
const KIND: Kind = Kind::Get;

/// Counts a server's instructions per transaction under load.
///
/// # Errors
/// See [`CountError`].
pub(crate) fn server_instructions(workers: u8, load: Load) -> Result<f64, CountError> {
    let tool = "valgrind";
    let of_all = what_one_adds(TRANSACTIONS, |transactions| {
        let mut command = Command::new(tool);
        command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(this_program()?);
        let output = serve(command, (tool, KIND), workers, async |server| {
            run_clients(server, load, transactions).await
        })?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        collected(&said).ok_or(CountError::Failed { tool, kind: KIND, reason: said })
    })?;
    Ok(of_all / CLIENTS as f64)
}

/// Measures the processor time per transaction at one worker, in nanoseconds: in user mode, and in
/// the kernel.
///
/// # Errors
/// See [`CountError`].
pub(crate) fn server_time(load: Load) -> Result<(f64, f64), CountError> {
    let mut spent = (0, 0);
    let command = Command::new(this_program()?);
    serve(command, ("solera", KIND), 1, async |server| {
        let before = times_of(server.pid())?;
        run_clients(server, load, TIMED).await?;
        let after = times_of(server.pid())?;
        spent = (after.0 - before.0, after.1 - before.1);
        Ok(())
    })?;
    let of_one = |spent: u64| spent as f64 / (CLIENTS * TIMED) as f64;
    Ok((of_one(spent.0), of_one(spent.1)))
}

/// Starts this program as a server by `command`, which ends with the path of the program. Then runs
/// the clients, and stops the server.
///
/// # Errors
/// See [`CountError`].
pub(super) fn serve(
    mut command: Command,
    (tool, kind): (&'static str, Kind),
    workers: u8,
    ask: impl AsyncFnOnce(&mut Server) -> Result<(), String>,
) -> Result<Output, CountError> {
    let port = free_ports(0).map_err(|error| CountError::Server(error.to_string()))?;
    command.args(["costs", "--of", kind.name(), "--listen", &port.to_string()]);
    command.args(["--workers", &workers.to_string()]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|error| CountError::Tool { tool, error })?;
    let mut server = Server { child: Some(child), port };
    let runtime = crate::runtime().map_err(|error| CountError::Server(error.to_string()))?;
    let asked = runtime.block_on(ask(&mut server));
    asked.map_err(|reason| CountError::Failed { tool, kind, reason })?;
    let output = server.end().map_err(|error| CountError::Tool { tool, error })?;
    successful(tool, kind, &output)?;
    Ok(output)
}

async fn run_clients(server: &mut Server, load: Load, transactions: u64) -> Result<(), String> {
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        let mut session = server.connect().await?;
        running.spawn(async move { session.run_transactions(load, transactions).await });
    }
    while let Some(ran) = running.join_next().await {
        ran.map_err(|error| error.to_string())??;
    }
    Ok(())
}

/// Returns the processor time of a process in user mode and in the kernel, in nanoseconds.
fn times_of(pid: u32) -> Result<(u64, u64), String> {
    /// Clock tick in which the kernel counts processor time, in nanoseconds. It is the same on all
    /// current architectures of Linux.
    const TICK: u64 = 10_000_000;
    let file = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
    // The program's name may contain spaces, and ends with a parenthesis.
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut fields = fields.split_whitespace().skip(11).map(str::parse::<u64>);
    match (fields.next(), fields.next()) {
        (Some(Ok(user)), Some(Ok(system))) => Ok((user * TICK, system * TICK)),
        _ => Err(format!("{file}: no processor times in '{text}'")),
    }
}

/// Returns the processor time of a process's threads in nanoseconds, as the kernel counts it.
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

/// A server that ends when its standard input is closed.
pub(super) struct Server {
    /// `None` after it was stopped.
    child: Option<Child>,
    port: u16,
}

impl Server {
    fn pid(&self) -> u32 {
        self.child.as_ref().expect("a server ends once").id()
    }

    /// Connects to the server, as soon as it listens.
    pub(super) async fn connect(&mut self) -> Result<RequestSession<TcpStream>, String> {
        let (address, begin) = (SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)), Instant::now());
        loop {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    stream.set_nodelay(true).map_err(|error| error.to_string())?;
                    return Ok(RequestSession::new(stream, None));
                }
                Err(error) if begin.elapsed() >= PATIENCE => return Err(error.to_string()),
                Err(_) if self.has_ended() => return Err("the server has ended".to_owned()),
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    fn has_ended(&mut self) -> bool {
        let child = self.child.as_mut();
        child.is_none_or(|child| child.try_wait().is_ok_and(|status| status.is_some()))
    }

    fn end(mut self) -> std::io::Result<Output> {
        let mut child = self.child.take().expect("a server ends once");
        drop(child.stdin.take());
        child.wait_with_output()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.stdin.take());
            // The server has no durable data, and may have exited already.
            let _ = child.wait();
        }
    }
}

//! One worker, and one session that sends requests to it.

use std::sync::Arc;
use std::time::Duration;

use solera_config::{ClusterSpec, Overrides};
use solera_modules::{Host, Settings};
use solera_node::{Clock, Cluster};
use solera_resp::{ReplyParser, Value};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream};
use tokio::sync::oneshot;
use tokio::task::spawn_local;
use tokio::time::timeout;

use super::kind::{Commands, Kind, Load, SPACES};
use crate::error::BenchError;

/// Time by which the workers' clock advances with each request: the protocol ticks every 20
/// requests, since its interval is 1 ms under load.
const PER_REQUEST: Duration = Duration::from_micros(50);
/// Time by which the workers' clock advances while a reply waits for a tick.
const TICK: Duration = Duration::from_millis(1);
/// Timeout of a reply, in real time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts one worker and sends `times` requests from its own thread, over an in-memory connection.
///
/// # Errors
/// Fails if the cluster cannot be started, or if a request fails.
pub fn in_memory(kind: Kind, times: u64) -> Result<(), BenchError> {
    let clock = Clock::manual();
    let cluster = Arc::new(start(&clock, 1, None)?);
    let mut stream = cluster.connect(0).map_err(|down| BenchError::Start(down.to_string()))?;
    let (done, ended) = oneshot::channel();
    cluster.spawn_at(0, 0, move || async move {
        if kind == Kind::Client {
            let (client, server) = tokio::io::duplex(64 * 1024);
            drop(spawn_local(echo(server)));
            stream = client;
        }
        let mut session = RequestSession::new(stream, Some(clock));
        let _ = done.send(session.run(kind, times).await);
    });
    let ran = ended.blocking_recv();
    ran.unwrap_or_else(|_| Err("its worker ended".to_owned())).map_err(BenchError::Transaction)
}

/// Starts workers that serve clients at a port of 127.0.0.1 until `end` returns. Their clock stands
/// still, so that they only work for requests, unless the requests wait for the protocol's ticks.
///
/// # Errors
/// Fails if the cluster cannot be started.
pub fn listen(kind: Kind, port: u16, workers: u8, end: impl FnOnce()) -> Result<(), BenchError> {
    let clock = if kind.waits_for_ticks() { Clock::system() } else { Clock::manual() };
    let cluster = start(&clock, workers, Some(port))?;
    end();
    drop(cluster);
    Ok(())
}

fn start(clock: &Clock, workers: u8, port: Option<u16>) -> Result<Cluster, BenchError> {
    let failed = |error: &dyn std::fmt::Display| BenchError::Start(error.to_string());
    let over = Overrides { sites: Some(1), workers: Some(workers), ..Overrides::default() };
    let spec = ClusterSpec::parse("the counted cluster's spaces", SPACES, over);
    let mut spec = spec.map_err(|error| failed(&error))?;
    spec.sites[0].listen = port.map(|port| ([127, 0, 0, 1], port).into());
    let modules = Host::start(Settings::default(), Vec::new()).map_err(|error| failed(&error))?;
    let modules = Some(Arc::new(modules) as _);
    Cluster::start_with_clock(spec, modules, clock.clone()).map_err(|error| failed(&error))
}

/// A session that sends one request after another.
pub(super) struct RequestSession<S> {
    stream: S,
    /// Clock of the workers, if the session must advance it.
    clock: Option<Clock>,
    parser: ReplyParser,
    input: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> RequestSession<S> {
    pub(super) fn new(stream: S, clock: Option<Clock>) -> RequestSession<S> {
        let input = Vec::with_capacity(64 * 1024);
        RequestSession { stream, clock, parser: ReplyParser::default(), input }
    }

    /// Creates the data of the requests, and sends `times` requests.
    ///
    /// # Errors
    /// Fails if a reply is an error, or if none arrives.
    pub(super) async fn run(&mut self, kind: Kind, times: u64) -> Result<(), String> {
        self.ask(kind, &kind.set_up()).await?;
        for number in 0..times {
            if let Some(clock) = &self.clock {
                clock.advance(PER_REQUEST);
            }
            self.ask(kind, &kind.request(number)).await?;
        }
        Ok(())
    }

    /// Runs a number of transactions.
    ///
    /// # Errors
    /// The same as those of [`RequestSession::run`].
    pub(super) async fn run_transactions(
        &mut self,
        load: Load,
        transactions: u64,
    ) -> Result<(), String> {
        self.ask(Kind::Get, &Kind::Get.set_up()).await?;
        for number in 0..transactions {
            for commands in Kind::transaction(number, load) {
                self.ask(Kind::Get, &commands).await?;
            }
        }
        Ok(())
    }

    async fn ask(&mut self, kind: Kind, commands: &Commands) -> Result<(), String> {
        let clock = self.clock.clone();
        let asked = async {
            tokio::select! {
                biased;
                exchanged = self.exchange(commands) => exchanged,
                () = tick(kind, clock) => unreachable!("the ticks never end"),
            }
        };
        let asked = timeout(PATIENCE, asked).await;
        asked.unwrap_or_else(|_| Err("no reply has come for a minute".to_owned()))
    }

    async fn exchange(&mut self, commands: &Commands) -> Result<(), String> {
        let broken = |error: std::io::Error| error.to_string();
        let (mut reading, mut writing) = tokio::io::split(&mut self.stream);
        let write = async { writing.write_all(&commands.bytes).await.map_err(broken) };
        let read = async {
            let mut replies = 0;
            while replies < commands.replies {
                let mut used = 0;
                while let Some((reply, length)) =
                    self.parser.next(&self.input[used..]).map_err(|error| error.to_string())?
                {
                    check(&reply)?;
                    replies += 1;
                    used += length;
                }
                self.input.drain(..used);
                if replies < commands.replies
                    && reading.read_buf(&mut self.input).await.map_err(broken)? == 0
                {
                    return Err("the server has closed the connection".to_owned());
                }
            }
            Ok(())
        };
        // Replies must be read while requests are still being written.
        tokio::try_join!(write, read).map(|_| ())
    }
}

/// Advances the clock whenever all threads are idle, because the request then waits for a tick.
async fn tick(kind: Kind, clock: Option<Clock>) {
    let Some(clock) = clock else { return std::future::pending().await };
    loop {
        match kind {
            // Other threads have work, which takes less than this even under callgrind.
            Kind::Call => tokio::time::sleep(Duration::from_millis(20)).await,
            // All other requests run on this thread.
            _ => {
                for _ in 0..16 {
                    tokio::task::yield_now().await;
                }
            }
        }
        clock.advance(TICK);
    }
}

/// Answers every request like a server answers PING, so that only the client's share is counted.
async fn echo(mut stream: DuplexStream) {
    let mut input = [0; 1024];
    while let Ok(1..) = stream.read(&mut input).await {
        if stream.write_all(b"+PONG\r\n").await.is_err() {
            return;
        }
    }
}

fn check(reply: &Value) -> Result<(), String> {
    match reply {
        Value::Error(error) => Err(error.clone()),
        Value::Array(replies) => replies.iter().try_for_each(check),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_requests_are_answered_without_an_error() {
        for kind in Kind::ALL {
            in_memory(kind, 3).unwrap_or_else(|error| panic!("{kind}: {error}"));
        }
    }

    #[test]
    fn an_error_in_a_reply_ends_the_count() {
        let error = |text: &str| Value::Error(text.to_owned());
        assert_eq!(
            check(&Value::Array(vec![Value::Integer(1), error("ERR no")])),
            Err("ERR no".to_owned())
        );
        assert_eq!(check(&Value::Simple("OK".to_owned())), Ok(()));
    }
}

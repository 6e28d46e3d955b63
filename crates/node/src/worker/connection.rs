//! A connection: bytes in, commands, bytes out.

use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use solera_resp::{Arguments, RequestParser};
use solera_session::{Ends, Next, Session};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::Worker;
use super::leaving::unless_left;
use crate::tls::client_problem;

/// The longest command, in bytes, of a client that has not said who it is, as in Redis: such a one
/// must not take the server's memory.
const UNKNOWN_COMMAND: usize = 16 * 1024;
/// How long a client may stay that must say who it is, and has not.
const UNKNOWN_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a client's TLS may take to begin, and to end.
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);
const READ_SIZE: usize = 64 * 1024;
/// Output is written when there is more of it, so that a client that does not read stops being
/// read.
const WRITE_SIZE: usize = 256 * 1024;

/// How long a client may take to notice that the process leaves. What it sends until then is read
/// and thrown away: otherwise the system would tell it of a broken connection before it has read
/// its answers.
const LEAVE_TIMEOUT: Duration = Duration::from_millis(200);

/// Serves a connection until it closes, breaks the protocol, is killed, its site dies, its user is
/// no more, or the process leaves and the client has its answers.
pub(crate) async fn serve<S>(
    mut stream: S,
    worker: Rc<Worker>,
    ends: Ends,
    from: Option<SocketAddr>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let limit = worker.network.settings().max_connections;
    let clients = worker.network.clients(worker.address.site);
    let Some(member) = clients.admit(worker.new_client(), ends, limit) else {
        worker.count(|counters| counters.refused_connections += 1);
        // The client may be gone already.
        let _ = stream.write_all(b"-ERR max number of clients reached\r\n").await;
        return;
    };
    worker.count(|counters| counters.connections += 1);
    let mut session = Session::new(worker.clone(), member.client.clone(), from);
    session.publish();
    let identity = session.identity.clone();
    let mut connection = Connection {
        stream: &mut stream,
        session: &mut session,
        ahead: Vec::new(),
        had_stopped: false,
    };
    let death = worker.death();
    tokio::select! {
        biased;
        () = death => {}
        () = member.client.death() => {}
        () = identity.ends(worker.users_to_come()) => {}
        () = identity.stays_unknown(UNKNOWN_TIMEOUT) => {}
        // A broken connection ends like a closed one.
        _ = connection.run() => {}
    }
    let stream = connection.stream;
    session.close();
    if worker.network.is_draining() {
        let _ = timeout(LEAVE_TIMEOUT, leave(stream)).await;
    }
    worker.count(|counters| counters.connections -= 1);
}

/// Tells a client that nothing more comes, and waits until it has understood.
async fn leave(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
    let mut rest = [0; 1024];
    if stream.shutdown().await.is_ok() {
        while let Ok(1..) = stream.read(&mut rest).await {}
    }
}

/// The same over TLS. A client that does not greet in time, or has no right certificate, is let go.
pub(crate) async fn serve_tls(
    stream: TcpStream,
    tls: TlsAcceptor,
    worker: Rc<Worker>,
    ends: Ends,
    from: SocketAddr,
) {
    let clients = worker.network.clients(worker.address.site);
    let limit = worker.network.settings().max_connections;
    let Some(place) = clients.greet(from.ip(), limit) else {
        return worker.tls_refused("there are max_connections clients already", from);
    };
    let greeted = tokio::select! {
        greeted = timeout(GREETING_TIMEOUT, tls.accept(stream)) => greeted,
        () = place.dismissed() => {
            return worker.tls_refused("it had to make way before its greeting was complete", from);
        }
    };
    drop(place);
    match greeted {
        Ok(Ok(mut stream)) => {
            serve(&mut stream, worker, ends, Some(from)).await;
            // The client is told that this is the end. It may be gone.
            let _ = timeout(GREETING_TIMEOUT, stream.shutdown()).await;
        }
        Ok(Err(error)) => worker.tls_refused(&client_problem(&error), from),
        Err(_) => worker.tls_refused("its greeting was not complete in time", from),
    }
}

/// Reads ahead until the stream ends or enough has been read.
async fn end_of(stream: &mut (impl AsyncRead + Unpin), ahead: &mut Vec<u8>) {
    while ahead.len() < READ_SIZE {
        match stream.read_buf(ahead).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
    std::future::pending().await
}

struct Connection<'a, S> {
    stream: S,
    session: &'a mut Session<Worker>,
    /// What was read while a command waited.
    ahead: Vec<u8>,
    /// Whether the worker's journal had failed before the current batch.
    had_stopped: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<'_, S> {
    async fn run(&mut self) -> std::io::Result<()> {
        let mut parser = RequestParser::new();
        let mut input: Vec<u8> = Vec::with_capacity(READ_SIZE);
        let draining = self.session.worker.network.draining();
        tokio::pin!(draining);
        loop {
            self.session.worker.keep_pace().await;
            if input.capacity() - input.len() < READ_SIZE / 4 {
                input.reserve(READ_SIZE.max(input.len()));
            }
            if !self.ahead.is_empty() {
                input.append(&mut self.ahead);
            } else {
                let between = input.is_empty() && !self.session.in_transaction();
                let read = tokio::select! {
                    // What has come before the end is answered.
                    biased;
                    read = self.stream.read_buf(&mut input) => read?,
                    () = &mut draining, if between => 0,
                };
                if read == 0 {
                    return Ok(());
                }
            }
            let started = Instant::now();
            let mut used = 0;
            let mut commands = 0u64;
            if !self.session.worker.answers() {
                let reason = self.session.worker.refuses().unwrap_or_default();
                let out = &mut self.session.out;
                out.error(&format!("MISCONF {reason}; nothing is answered until then"));
                return self.write().await;
            }
            self.had_stopped = self.session.worker.has_stopped();
            let open = self.batch(&mut parser, &input, &mut used, &mut commands).await?;
            let worker = self.session.worker.clone();
            worker.flush();
            if let Err(reason) = worker.durable(self.had_stopped).await {
                let out = &mut self.session.out;
                out.bytes.clear();
                out.error(&format!(
                    "MISCONF {reason}; whether the last writes were done is unknown"
                ));
                return self.write().await;
            }
            self.session.publish();
            self.write().await?;
            if commands > 0 {
                let micros = started.elapsed().as_micros() as u64;
                let bucket = (64 - micros.leading_zeros()) as usize;
                worker.count(|counters| {
                    counters.batches[bucket.min(23)] += 1;
                    counters.batch_sum_us += micros;
                });
            }
            if !open {
                return Ok(());
            }
            input.drain(..used);
            if input.len() > UNKNOWN_COMMAND && self.session.is_unknown() {
                self.session.out.error("ERR Protocol error: unauthenticated bulk length");
                return self.write().await;
            }
            if input.is_empty() && input.capacity() > 4 * READ_SIZE {
                input = Vec::with_capacity(READ_SIZE);
            }
        }
    }

    /// Runs all complete commands in `input`. Returns whether the connection stays open.
    async fn batch(
        &mut self,
        parser: &mut RequestParser,
        input: &[u8],
        used: &mut usize,
        commands: &mut u64,
    ) -> std::io::Result<bool> {
        self.session.now = self.session.worker.now();
        loop {
            match parser.next(&input[*used..]) {
                Ok(None) => return Ok(true),
                Ok(Some((arguments, length))) => {
                    *used += length;
                    if arguments.is_empty() {
                        continue;
                    }
                    *commands += 1;
                    let start = self.session.out.bytes.len();
                    if !self.session.run_at_once(&arguments) {
                        if self.run_command(&arguments).await == Next::Close {
                            self.session.hush(start);
                            return Ok(false);
                        }
                        self.session.now = self.session.worker.now();
                    }
                    self.session.hush(start);
                    if self.session.out.bytes.len() > WRITE_SIZE {
                        self.session.worker.flush();
                        if self.session.worker.durable(self.had_stopped).await.is_err() {
                            return Ok(true);
                        }
                        self.write().await?;
                    }
                }
                Err(error) => {
                    self.session.out.error(&format!("ERR {error}"));
                    return Ok(false);
                }
            }
        }
    }

    /// Runs a command that may have to wait. If the client leaves meanwhile, the command does not
    /// wait for much longer: a script that pipes commands in gets its answers.
    async fn run_command(&mut self, arguments: &Arguments<'_>) -> Next {
        let Connection { stream, session, ahead, .. } = self;
        let running = pin!(session.run(arguments));
        unless_left(running, end_of(stream, ahead)).await.unwrap_or(Next::Close)
    }

    async fn write(&mut self) -> std::io::Result<()> {
        if self.session.out.bytes.is_empty() {
            return Ok(());
        }
        self.stream.write_all(&self.session.out.bytes).await?;
        // TLS may hold some back.
        self.stream.flush().await?;
        self.session.out.bytes.clear();
        if self.session.out.bytes.capacity() > 4 * WRITE_SIZE {
            self.session.out.bytes = Vec::new();
        }
        Ok(())
    }
}

//! A connection: bytes in, commands, bytes out.

use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::{Duration, Instant};

use solera_resp::{Arguments, RequestParser};
use solera_session::{ClientSession, Ends, Next};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::Worker;
use super::disconnect::unless_disconnected;
use crate::tls::client_problem;

/// Longest command, in bytes, of an unauthenticated client, as in Redis. Such a client must not
/// fill the server's memory.
const UNKNOWN_COMMAND: usize = 16 * 1024;
/// Time after which an unauthenticated client is disconnected where authentication is required.
const UNKNOWN_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout of a client's TLS handshake and of its shutdown.
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);
const READ_SIZE: usize = 64 * 1024;
/// Output size above which output is written at once. While the write waits for a client that does
/// not read, the worker reads no further commands of this client.
const WRITE_SIZE: usize = 256 * 1024;

/// Time for a client to notice that the process shuts down. The worker reads and discards the
/// client's bytes until then; otherwise the operating system would reset the connection before the
/// client has read its answers.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(200);

/// Serves a connection until it closes, violates the protocol or is killed, its site dies, its user
/// is removed, or the process shuts down and the client has its answers.
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
    let mut session = ClientSession::new(worker.clone(), member.client.clone(), from);
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
        () = identity.ends(worker.watch_users()) => {}
        () = identity.stays_unknown(UNKNOWN_TIMEOUT) => {}
        // A broken connection ends like a closed one.
        _ = connection.run() => {}
    }
    let stream = connection.stream;
    session.close();
    if worker.network.is_draining() {
        let _ = timeout(CLOSE_TIMEOUT, close(stream)).await;
    }
    worker.count(|counters| counters.connections -= 1);
}

/// Shuts the sending side down, and waits until the client closes the connection.
async fn close(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
    let mut rest = [0; 1024];
    if stream.shutdown().await.is_ok() {
        while let Ok(1..) = stream.read(&mut rest).await {}
    }
}

/// Serves a connection over TLS. A client that is too slow with its handshake, or has no valid
/// certificate, is disconnected.
pub(crate) async fn serve_tls(
    stream: TcpStream,
    tls: TlsAcceptor,
    worker: Rc<Worker>,
    ends: Ends,
    from: SocketAddr,
) {
    let clients = worker.network.clients(worker.address.site);
    let limit = worker.network.settings().max_connections;
    let Some(permit) = clients.greet(from.ip(), limit) else {
        return worker.tls_refused("there are max_connections clients already", from);
    };
    let greeted = tokio::select! {
        greeted = timeout(GREETING_TIMEOUT, tls.accept(stream)) => greeted,
        () = permit.must_close() => {
            return worker.tls_refused("too many clients were connecting", from);
        }
    };
    drop(permit);
    match greeted {
        Ok(Ok(mut stream)) => {
            serve(&mut stream, worker, ends, Some(from)).await;
            // A TLS client expects a closing message. It may be gone.
            let _ = timeout(GREETING_TIMEOUT, stream.shutdown()).await;
        }
        Ok(Err(error)) => worker.tls_refused(&client_problem(&error), from),
        Err(_) => worker.tls_refused("its TLS handshake took too long", from),
    }
}

/// Reads ahead until the stream ends or enough bytes have arrived.
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
    session: &'a mut ClientSession<Worker>,
    /// Bytes read while a command waited.
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
            self.session.worker.wait_for_disk().await;
            if input.capacity() - input.len() < READ_SIZE / 4 {
                input.reserve(READ_SIZE.max(input.len()));
            }
            if !self.read(&mut input, draining.as_mut()).await? {
                return Ok(());
            }
            let started = Instant::now();
            let mut used = 0;
            let mut commands = 0u64;
            if !self.session.worker.answers() {
                let reason = self.session.worker.why_no_writes().unwrap_or_default();
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
            self.session.push_ready();
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

    /// Reads more bytes, and writes pushes meanwhile. Returns whether the connection stays open.
    async fn read(
        &mut self,
        input: &mut Vec<u8>,
        mut draining: Pin<&mut impl Future<Output = ()>>,
    ) -> std::io::Result<bool> {
        if !self.ahead.is_empty() {
            input.append(&mut self.ahead);
            return Ok(true);
        }
        loop {
            let between = input.is_empty() && !self.session.in_transaction();
            tokio::select! {
                // Commands that arrived before the shutdown are still answered.
                biased;
                read = self.stream.read_buf(input) => return Ok(read? > 0),
                () = &mut draining, if between => return Ok(false),
                () = self.session.next_push() => self.write().await?,
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
                        // Other inputs may have changed the machine meanwhile.
                        self.session.now = self.session.worker.now();
                    }
                }
                Err(error) => {
                    self.session.out.error(&format!("ERR {error}"));
                    return Ok(false);
                }
            }
        }
    }

    /// Runs a command that may have to wait. If the client closes its sending side meanwhile, the
    /// command may run only a little longer. It is not stopped at once, because a script that pipes
    /// commands in does the same and waits for its answers.
    async fn run_command(&mut self, arguments: &Arguments<'_>) -> Next {
        let Connection { stream, session, ahead, .. } = self;
        let running = pin!(session.run(arguments));
        unless_disconnected(running, end_of(stream, ahead)).await.unwrap_or(Next::Close)
    }

    async fn write(&mut self) -> std::io::Result<()> {
        if self.session.out.bytes.is_empty() {
            return Ok(());
        }
        self.stream.write_all(&self.session.out.bytes).await?;
        // TLS may have buffered some bytes.
        self.stream.flush().await?;
        self.session.out.bytes.clear();
        if self.session.out.bytes.capacity() > 4 * WRITE_SIZE {
            self.session.out.bytes = Vec::new();
        }
        Ok(())
    }
}

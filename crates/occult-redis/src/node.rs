//! Connections to the nodes of a cluster.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use solera_resp::{Limits, ReplyParser, Value, encode_command};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// Credentials of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Login {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
}

/// Reason why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// It was not sent.
    NotSent(String),
    /// It may have been executed.
    Lost(String),
}

type Waiter = oneshot::Sender<Result<Value, NoAnswer>>;

struct Sending {
    bytes: Vec<u8>,
    /// Number of replies that precede the reply to the request, such as the reply to ASKING.
    skip: usize,
    waiter: Waiter,
}

/// A connection to a node. Requests of all sessions share it, in the order in which they are sent.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) address: String,
    requests: mpsc::UnboundedSender<Sending>,
    /// Its tasks, which end with the node.
    _tasks: JoinSet<()>,
}

/// Waiters in the order of their requests, each with the number of replies to skip; `None` once the
/// connection has ended.
type Waiting = Arc<Mutex<Option<VecDeque<(usize, Waiter)>>>>;

impl Node {
    /// Connects, logs in and allows reads at a replica.
    pub(crate) async fn connect(address: &str, login: &Login) -> Result<Node, NoAnswer> {
        let not_sent = |error: io::Error| NoAnswer::NotSent(format!("{address}: {error}"));
        let stream = TcpStream::connect(address).await.map_err(not_sent)?;
        stream.set_nodelay(true).map_err(not_sent)?;
        let (reader, writer) = stream.into_split();
        let (requests, queue) = mpsc::unbounded_channel();
        let waiting: Waiting = Arc::new(Mutex::new(Some(VecDeque::new())));
        let mut tasks = JoinSet::new();
        tasks.spawn(write(writer, queue, Arc::clone(&waiting)));
        tasks.spawn(read(reader, waiting, address.to_owned()));
        let node = Node { address: address.to_owned(), requests, _tasks: tasks };
        if let Some(password) = &login.password {
            let mut auth = vec!["AUTH"];
            auth.extend(login.user.as_deref());
            auth.push(password);
            if let Value::Error(text) = node.command(&auth).await? {
                return Err(NoAnswer::NotSent(format!("{address} refuses the login: {text}")));
            }
        }
        node.command(&["READONLY"]).await?;
        Ok(node)
    }

    /// Returns whether the connection has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.requests.is_closed()
    }

    pub(crate) async fn command(&self, words: &[&str]) -> Result<Value, NoAnswer> {
        let mut bytes = Vec::new();
        encode_command(&mut bytes, words);
        self.ask(bytes, 0).await
    }

    /// Sends encoded commands. Skips the first `skip` replies, and returns the next one.
    pub(crate) async fn ask(&self, bytes: Vec<u8>, skip: usize) -> Result<Value, NoAnswer> {
        let (waiter, answer) = oneshot::channel();
        let closed = || NoAnswer::NotSent(format!("the connection to {} has ended", self.address));
        self.requests.send(Sending { bytes, skip, waiter }).map_err(|_| closed())?;
        answer.await.unwrap_or_else(|_| Err(closed()))
    }
}

async fn write(
    mut writer: OwnedWriteHalf,
    mut queue: mpsc::UnboundedReceiver<Sending>,
    waiting: Waiting,
) {
    let mut bytes = Vec::new();
    while let Some(first) = queue.recv().await {
        bytes.clear();
        let mut next = Some(first);
        while let Some(sending) = next {
            let mut waiting = waiting.lock().expect("no panic holds it");
            let Some(waiting) = &mut *waiting else { return };
            bytes.extend_from_slice(&sending.bytes);
            waiting.push_back((sending.skip, sending.waiter));
            next = queue.try_recv().ok();
        }
        // The reader notices a broken connection, and ends the waiters.
        if writer.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

async fn read(mut reader: OwnedReadHalf, waiting: Waiting, address: String) {
    let why = match replies(&mut reader, &waiting).await {
        Ok(()) => "it has closed the connection".to_owned(),
        Err(error) => error.to_string(),
    };
    let left = waiting.lock().expect("no panic holds it").take();
    for (_, waiter) in left.into_iter().flatten() {
        let _ = waiter.send(Err(NoAnswer::Lost(format!("{address}: {why}"))));
    }
}

async fn replies(reader: &mut OwnedReadHalf, waiting: &Waiting) -> io::Result<()> {
    let mut parser = ReplyParser::new(Limits::default());
    let mut buffer = Vec::with_capacity(16 * 1024);
    loop {
        if reader.read_buf(&mut buffer).await? == 0 {
            return Ok(());
        }
        let mut start = 0;
        while let Some((value, length)) = parser.next(&buffer[start..]).map_err(io::Error::other)? {
            start += length;
            let mut waiting = waiting.lock().expect("no panic holds it");
            let Some(queue) = &mut *waiting else { return Ok(()) };
            match queue.front_mut() {
                Some((skip, _)) if *skip > 0 => *skip -= 1,
                Some(_) => {
                    if let Some((_, waiter)) = queue.pop_front() {
                        let _ = waiter.send(Ok(value));
                    }
                }
                None => return Err(io::Error::other("it sends a reply without a request")),
            }
        }
        buffer.drain(..start);
    }
}

/// Limits the time of an answer. The request may still be executed.
pub(crate) async fn within(
    limit: Duration,
    address: &str,
    answer: impl Future<Output = Result<Value, NoAnswer>>,
) -> Result<Value, NoAnswer> {
    let late =
        || NoAnswer::Lost(format!("{address} has not answered within {} ms", limit.as_millis()));
    tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| Err(late()))
}

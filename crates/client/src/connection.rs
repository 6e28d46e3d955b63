//! One connection, which sends commands and receives replies.

use std::io::ErrorKind::{NotConnected, TimedOut};
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use solera_resp::{ReplyParser, Value, encode_command};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::error::Error;
use crate::pushes::Pushes;

/// A bidirectional byte stream.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

pub(crate) struct Connection {
    /// Name of the cluster at the other end.
    pub(crate) cluster: String,
    /// Name of the site, if the server reported it.
    pub(crate) site: Option<String>,
    /// Maximal time to wait for a reply, if any.
    pub(crate) timeout: Option<Duration>,
    /// Shortest time that a reply took.
    pub(crate) round_trip: Duration,
    /// Inboxes of the pushes that arrive between replies.
    pub(crate) pushes: Pushes,
    /// Whether the caller has stopped waiting for a reply that is still outstanding.
    late: bool,
    stream: Box<dyn Stream>,
    parser: ReplyParser,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Connection {
    pub(crate) fn new(stream: impl Stream + 'static) -> Self {
        Connection {
            cluster: "solera".to_owned(),
            site: None,
            timeout: None,
            round_trip: Duration::MAX,
            pushes: Pushes::default(),
            late: false,
            stream: Box::new(stream),
            parser: ReplyParser::default(),
            input: Vec::new(),
            output: Vec::new(),
        }
    }

    /// Sends a command and waits for its reply. Errors of the server are returned as values.
    pub(crate) async fn call(&mut self, command: &[&[u8]]) -> Result<Value, Error> {
        self.output.clear();
        encode_command(&mut self.output, command);
        let began = Instant::now();
        let reply = self.replies(1).await?.remove(0);
        self.round_trip = self.round_trip.min(began.elapsed());
        Ok(reply)
    }

    /// Sends commands at once and waits for all replies. Reads replies while it sends the commands.
    pub(crate) async fn call_all(&mut self, commands: &[Vec<&[u8]>]) -> Result<Vec<Value>, Error> {
        self.output.clear();
        commands.iter().for_each(|command| encode_command(&mut self.output, command));
        self.replies(commands.len()).await
    }

    /// Sends the output and waits for `count` replies.
    async fn replies(&mut self, count: usize) -> Result<Vec<Value>, Error> {
        if self.late {
            return Err(Error::Connection(NotConnected.into()));
        }
        // If the caller stops waiting, it drops this future. The next command must not take the
        // late reply for its own.
        self.late = true;
        let Connection { stream, parser, input, output, pushes, .. } = self;
        let (mut read, mut write) = tokio::io::split(stream);
        let sending = async {
            write.write_all(output).await?;
            write.flush().await?;
            Ok::<_, Error>(())
        };
        // Replies are read while commands are sent: a server that cannot send its replies does not
        // read more commands.
        let receiving = async {
            let mut replies = Vec::with_capacity(count);
            for _ in 0..count {
                replies.push(reply(&mut read, parser, input, pushes).await?);
            }
            Ok(replies)
        };
        let both = async { tokio::try_join!(sending, receiving) };
        let ((), replies) = bounded(self.timeout, both).await?;
        self.late = false;
        Ok(replies)
    }

    /// Waits for the next push and takes it. Dropping the future loses nothing.
    pub(crate) async fn take_push(&mut self) -> Result<(), Error> {
        if self.late {
            return Err(Error::Connection(NotConnected.into()));
        }
        match next_value(&mut self.stream, &mut self.parser, &mut self.input).await? {
            Value::Push(push) => {
                self.pushes.take(push);
                Ok(())
            }
            _ => Err(Error::Protocol("a reply without a command".to_owned())),
        }
    }

    /// Returns whether nothing unexpected has arrived, not even the end of the connection.
    pub(crate) fn is_quiet(&mut self) -> bool {
        let mut byte = [0];
        let mut buffer = ReadBuf::new(&mut byte);
        let mut context = Context::from_waker(Waker::noop());
        !self.late
            && self.input.is_empty()
            && Pin::new(&mut self.stream).poll_read(&mut context, &mut buffer).is_pending()
    }
}

/// Waits for a reply, and takes the pushes before it.
async fn reply(
    stream: &mut (impl AsyncRead + Unpin),
    parser: &mut ReplyParser,
    input: &mut Vec<u8>,
    pushes: &mut Pushes,
) -> Result<Value, Error> {
    loop {
        match next_value(stream, parser, input).await? {
            Value::Push(push) => pushes.take(push),
            value => return Ok(value),
        }
    }
}

/// Waits for a reply or a push. Dropping the future loses nothing.
async fn next_value(
    stream: &mut (impl AsyncRead + Unpin),
    parser: &mut ReplyParser,
    input: &mut Vec<u8>,
) -> Result<Value, Error> {
    loop {
        let parsed = parser.next(input).map_err(|error| Error::Protocol(error.to_string()))?;
        if let Some((value, length)) = parsed {
            input.drain(..length);
            return Ok(value);
        }
        if stream.read_buf(input).await? == 0 {
            return Err(Error::Connection(std::io::ErrorKind::UnexpectedEof.into()));
        }
    }
}

/// Waits for a future, but at most for `limit`, if there is one.
pub(crate) async fn bounded<T, E: From<std::io::Error>>(
    limit: Option<Duration>,
    asked: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let Some(limit) = limit else { return asked.await };
    let late = |_| {
        let text = format!("there was no answer within {} ms", limit.as_millis());
        std::io::Error::new(TimedOut, text)
    };
    tokio::time::timeout(limit, asked).await.map_err(late)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_reply_that_comes_too_late_is_not_taken_for_the_next() {
        let (client, mut server) = tokio::io::duplex(1000);
        let mut connection = Connection::new(client);
        connection.timeout = Some(Duration::from_millis(20));
        let late = connection.call(&[b"GET", b"a"]).await.unwrap_err().to_string();
        assert!(late.contains("there was no answer within 20 ms"), "{late}");
        server.write_all(b"+late\r\n").await.unwrap();
        let next = connection.call(&[b"GET", b"b"]).await;
        assert!(matches!(&next, Err(Error::Connection(_))), "{next:?}");
    }

    #[tokio::test]
    async fn a_reply_that_was_not_awaited_is_not_taken_for_the_next() {
        let (client, mut server) = tokio::io::duplex(1000);
        let mut connection = Connection::new(client);
        let mut context = Context::from_waker(Waker::noop());
        let mut dropped = Box::pin(connection.call(&[b"GET", b"a"]));
        assert!(dropped.as_mut().poll(&mut context).is_pending());
        drop(dropped);
        server.write_all(b"+a\r\n").await.unwrap();
        assert!(!connection.is_quiet());
        let next = connection.call(&[b"GET", b"b"]).await;
        assert!(matches!(&next, Err(Error::Connection(_))), "{next:?}");
    }

    /// The server answers each command before it reads the next.
    #[tokio::test]
    async fn commands_and_replies_may_exceed_the_buffers() {
        let (client, mut server) = tokio::io::duplex(64);
        let mut connection = Connection::new(client);
        let serving = async {
            for _ in 0..100 {
                server.read_exact(&mut [0; b"*1\r\n$4\r\nPING\r\n".len()]).await.unwrap();
                server.write_all(b"+PONG\r\n").await.unwrap();
            }
        };
        let commands = vec![vec![&b"PING"[..]]; 100];
        let both = async { tokio::join!(connection.call_all(&commands), serving).0 };
        let replies = tokio::time::timeout(Duration::from_secs(60), both).await;
        let replies = replies.expect("neither side blocks").unwrap();
        assert_eq!(replies, vec![Value::Simple("PONG".to_owned()); 100]);
    }

    #[tokio::test]
    async fn a_connection_is_quiet_until_bytes_arrive_or_it_ends() {
        let (client, server) = tokio::io::duplex(1000);
        let mut connection = Connection::new(client);
        assert!(connection.is_quiet());
        drop(server);
        assert!(!connection.is_quiet());
        let (client, mut server) = tokio::io::duplex(1000);
        let mut connection = Connection::new(client);
        server.write_all(b"+x").await.unwrap();
        assert!(!connection.is_quiet());
    }
}

//! One connection: commands out, replies in.

use solera_resp::{ReplyParser, Value, encode_command};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::error::Error;

/// Anything that carries bytes both ways.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

pub(crate) struct Connection {
    stream: Box<dyn Stream>,
    parser: ReplyParser,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Connection {
    pub(crate) fn new(stream: impl Stream + 'static) -> Self {
        Connection {
            stream: Box::new(stream),
            parser: ReplyParser::default(),
            input: Vec::new(),
            output: Vec::new(),
        }
    }

    /// Sends a command and waits for its reply. Errors of the server are values here.
    pub(crate) async fn call(&mut self, command: &[&[u8]]) -> Result<Value, Error> {
        self.output.clear();
        encode_command(&mut self.output, command);
        self.stream.write_all(&self.output).await?;
        self.stream.flush().await?;
        self.reply().await
    }

    /// Sends commands at once and waits for all replies. Together, commands and replies should fit
    /// into the buffers on the way: nothing is read before all is sent.
    pub(crate) async fn call_all(&mut self, commands: &[Vec<&[u8]>]) -> Result<Vec<Value>, Error> {
        self.output.clear();
        commands.iter().for_each(|command| encode_command(&mut self.output, command));
        self.stream.write_all(&self.output).await?;
        self.stream.flush().await?;
        let mut replies = Vec::with_capacity(commands.len());
        for _ in commands {
            replies.push(self.reply().await?);
        }
        Ok(replies)
    }

    async fn reply(&mut self) -> Result<Value, Error> {
        loop {
            let parsed = self
                .parser
                .next(&self.input)
                .map_err(|error| Error::Protocol(error.to_string()))?;
            if let Some((value, length)) = parsed {
                self.input.drain(..length);
                if !matches!(value, Value::Push(_)) {
                    return Ok(value);
                }
            } else if self.stream.read_buf(&mut self.input).await? == 0 {
                return Err(Error::Connection(std::io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }
}

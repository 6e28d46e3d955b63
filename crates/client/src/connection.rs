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

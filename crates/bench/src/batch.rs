//! Batches of commands, and their replies.

use std::collections::{BTreeMap, BTreeSet};

use solera::{Client, Error, Value};

/// Commands that are sent together; the replies arrive in the same order.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    commands: Vec<Vec<Vec<u8>>>,
    bytes: usize,
}

impl Batch {
    /// Size of commands that fits into the buffers of a connection, in bytes.
    const ROOM: usize = 32 << 10;

    pub(crate) fn add<A: AsRef<[u8]>>(&mut self, command: &[A]) {
        let command: Vec<Vec<u8>> = command.iter().map(|word| word.as_ref().to_vec()).collect();
        // Includes the encoded length of each word.
        self.bytes += command.iter().map(|word| word.len() + 16).sum::<usize>();
        self.commands.push(command);
    }

    /// Adds a command.
    pub(crate) fn with<A: AsRef<[u8]>>(mut self, command: &[A]) -> Batch {
        self.add(command);
        self
    }

    /// Returns the commands as lists of words.
    pub(crate) fn into_commands(self) -> Vec<Vec<Vec<u8>>> {
        self.commands
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Returns whether it should be sent before more is added.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= Batch::ROOM
    }

    /// Sends the commands; fails with the first error reply.
    pub(crate) async fn send(&self, client: &mut Client) -> Result<Replies, Error> {
        let commands: Vec<Vec<&[u8]>> =
            self.commands.iter().map(|words| words.iter().map(Vec::as_slice).collect()).collect();
        let replies = client.pipeline(&commands).await?;
        let refused = replies.iter().find_map(|reply| match reply {
            Value::Error(text) => Some(Error::server(text)),
            _ => None,
        });
        match refused {
            Some(error) => Err(error),
            None => Ok(Replies(replies.into_iter())),
        }
    }
}

/// Replies to a [`Batch`], which must be taken in order.
#[derive(Debug)]
pub(crate) struct Replies(std::vec::IntoIter<Value>);

impl Replies {
    fn value(&mut self) -> Value {
        self.0.next().expect("there is a reply to each command, and each is taken once")
    }

    /// Takes the reply to a GET or HGET.
    pub(crate) fn text(&mut self) -> Result<Option<String>, Error> {
        text(self.value())
    }

    /// Takes the reply to a GET or HGET as a number; an absent value counts as 0.
    pub(crate) fn number(&mut self) -> Result<i64, Error> {
        match self.text()? {
            None => Ok(0),
            Some(text) => number(&text),
        }
    }

    /// Takes the reply to an HMGET.
    pub(crate) fn fields(&mut self) -> Result<Vec<Option<String>>, Error> {
        match self.value() {
            Value::Array(items) => items.into_iter().map(text).collect(),
            other => Err(unexpected(&other)),
        }
    }

    /// Takes the reply to an SMEMBERS.
    pub(crate) fn set(&mut self) -> Result<BTreeSet<String>, Error> {
        match self.value() {
            Value::Set(items) | Value::Array(items) => {
                items.into_iter().filter_map(|item| text(item).transpose()).collect()
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Takes the reply to an HGETALL.
    pub(crate) fn map(&mut self) -> Result<BTreeMap<String, String>, Error> {
        let Value::Map(pairs) = self.value() else {
            return Err(Error::UnexpectedReply("no map for HGETALL".to_owned()));
        };
        let pairs = pairs.into_iter().map(|(field, value)| {
            Ok((text(field)?.unwrap_or_default(), text(value)?.unwrap_or_default()))
        });
        pairs.collect()
    }
}

/// Parses a number that the workload has written.
pub(crate) fn number(text: &str) -> Result<i64, Error> {
    text.parse().map_err(|_| Error::UnexpectedReply(format!("'{text}' is no number")))
}

fn text(value: Value) -> Result<Option<String>, Error> {
    match value {
        Value::Null => Ok(None),
        Value::Bulk(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        other => Err(unexpected(&other)),
    }
}

fn unexpected(value: &Value) -> Error {
    Error::UnexpectedReply(format!("{value:?}"))
}

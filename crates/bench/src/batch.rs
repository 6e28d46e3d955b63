//! Commands that are sent together, and reading their replies.

use std::collections::{BTreeMap, BTreeSet};

use solera::{Client, Error, Value};

/// Commands that are sent together; the replies come in their order.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    commands: Vec<Vec<Vec<u8>>>,
    bytes: usize,
}

impl Batch {
    /// Commands of so many bytes fit into the buffers on the way.
    const ROOM: usize = 32 << 10;

    pub(crate) fn add<A: AsRef<[u8]>>(&mut self, command: &[A]) {
        let command: Vec<Vec<u8>> = command.iter().map(|word| word.as_ref().to_vec()).collect();
        // The length of each word is told, too.
        self.bytes += command.iter().map(|word| word.len() + 16).sum::<usize>();
        self.commands.push(command);
    }

    /// The same with one more command.
    pub(crate) fn with<A: AsRef<[u8]>>(mut self, command: &[A]) -> Batch {
        self.add(command);
        self
    }

    /// The commands, word by word.
    pub(crate) fn into_commands(self) -> Vec<Vec<Vec<u8>>> {
        self.commands
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Whether it should be sent before more is added.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= Batch::ROOM
    }

    /// Sends the commands; the first one that is refused fails all.
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

/// The replies to a [`Batch`], to be taken in order.
#[derive(Debug)]
pub(crate) struct Replies(std::vec::IntoIter<Value>);

impl Replies {
    fn value(&mut self) -> Value {
        self.0.next().expect("there is a reply to each command, and each is taken once")
    }

    /// Of GET and HGET.
    pub(crate) fn text(&mut self) -> Result<Option<String>, Error> {
        text(self.value())
    }

    /// Of GET and HGET, where what is absent counts as 0.
    pub(crate) fn number(&mut self) -> Result<i64, Error> {
        match self.text()? {
            None => Ok(0),
            Some(text) => number(&text),
        }
    }

    /// Of HMGET.
    pub(crate) fn fields(&mut self) -> Result<Vec<Option<String>>, Error> {
        match self.value() {
            Value::Array(items) => items.into_iter().map(text).collect(),
            other => Err(unexpected(&other)),
        }
    }

    /// Of SMEMBERS.
    pub(crate) fn set(&mut self) -> Result<BTreeSet<String>, Error> {
        match self.value() {
            Value::Set(items) | Value::Array(items) => {
                items.into_iter().filter_map(|item| text(item).transpose()).collect()
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Of HGETALL.
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

/// A number that the workload has written.
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

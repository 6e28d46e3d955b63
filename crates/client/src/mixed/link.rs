//! Port of mixed transactions over RESP.

use std::sync::{Arc, PoisonError};

use solera_data::{Op, Outcome, Type, Value as Bytes};
use solera_mixt::remote_group::RemoteGroup;
use solera_mixt::store::{Horizon, StoreError};
use solera_resp::Value;
use solera_spaces::failure::of_connect;
use solera_spaces::{Answer, Broken, Command, Kind, Port, Reply, UNKNOWN_MODULE};

use super::{Connect, Sources};
use crate::client::{Client, Token};
use crate::error::Error;

/// The words of a command.
type Words = Vec<Vec<u8>>;

/// Connections to a cluster, each of which continues the session of the one before.
pub(super) struct Link {
    connect: Connect,
    /// `None` if the connection broke.
    client: Option<Client>,
    /// Token of what the session had seen at the last commit or attach.
    seen: Option<Token>,
    /// Site of the last connection, if it reported one.
    site: Option<Arc<str>>,
    /// Sources of modules whose phases the server runs.
    sources: Option<Sources>,
}

impl Link {
    pub(super) fn new(connect: Connect, sources: Option<Sources>) -> Link {
        Link { connect, client: None, seen: None, site: None, sources }
    }

    /// Returns the link with an open connection.
    pub(super) fn over(self, client: Client) -> Link {
        let site = client.connected_site().map(Arc::from);
        Link { client: Some(client), site, ..self }
    }

    /// Sends commands at once. Errors of the server are among the replies.
    async fn send(&mut self, commands: &[Words]) -> Result<Vec<Value>, Broken> {
        let Some(client) = &mut self.client else {
            let error = Error::Connection(std::io::ErrorKind::NotConnected.into());
            return Err(Broken(error.to_string()));
        };
        let borrowed: Vec<Vec<&[u8]>> =
            commands.iter().map(|words| words.iter().map(Vec::as_slice).collect()).collect();
        let replies = client.pipeline(&borrowed).await;
        replies.map_err(|error| {
            self.client = None;
            Broken(error.to_string())
        })
    }

    /// Sends commands at once and records what the session has seen then.
    async fn send_and_note(&mut self, mut commands: Vec<Words>) -> Result<Vec<Value>, Broken> {
        commands.push(words(b"SOLERA.TOKEN", []));
        let mut replies = self.send(&commands).await?;
        // A user without the right to read tokens continues without one.
        if let Some(Value::Bulk(token)) = replies.pop() {
            self.seen = Some(Token(token));
        }
        Ok(replies)
    }

    async fn send_one(&mut self, command: Words) -> Result<Value, Broken> {
        Ok(self.send(&[command]).await?.pop().unwrap_or(Value::Null))
    }

    fn source(&self, module: &str) -> Option<Arc<str>> {
        let sources = self.sources.as_ref()?;
        sources.read().unwrap_or_else(PoisonError::into_inner).get(module).cloned()
    }
}

impl Port for Link {
    fn is_local(&self) -> bool {
        false
    }

    async fn open(&mut self) -> Result<(), StoreError> {
        if self.client.is_none() {
            let connected = (self.connect)().await;
            let mut client = connected.map_err(|error| of_connect(&error.to_string()))?;
            if let Some(seen) = &self.seen {
                let attached = client.attach(seen).await;
                attached.map_err(|error| StoreError::Unavailable(error.to_string()))?;
            }
            self.site = client.connected_site().map(Arc::from);
            self.client = Some(client);
        }
        Ok(())
    }

    async fn run(&mut self, commands: Vec<Command>) -> Result<Vec<Answer>, Broken> {
        let notes = |command: &Command| {
            matches!(command, Command::Commit | Command::Certify | Command::AttachUntil { .. })
        };
        let all = commands.iter().map(words_of).collect();
        let replies = match commands.iter().any(notes) {
            true => self.send_and_note(all).await?,
            false => self.send(&all).await?,
        };
        Ok(commands.iter().zip(replies).map(|(command, reply)| answer(command, reply)).collect())
    }

    /// Sends the module to a server that does not know it.
    async fn ship(
        &mut self,
        remote_group: &RemoteGroup,
    ) -> Result<Result<Vec<u8>, String>, Broken> {
        let mut source = self.source(remote_group.module());
        let run = words(b"SOLERA.PHASE", [b"RUN".to_vec(), remote_group.encode().to_vec()]);
        loop {
            let reply = self.send_and_note(vec![run.clone()]).await?.pop();
            let text = match reply {
                Some(Value::Bulk(bytes)) => return Ok(Ok(bytes)),
                Some(Value::Error(text)) => text,
                // After any other reply, the phases may have run.
                other => return Err(Broken(format!("it answers {other:?}"))),
            };
            let Some(source) = source.take().filter(|_| text.starts_with(UNKNOWN_MODULE)) else {
                return Ok(Err(text));
            };
            let learn = [b"LEARN".to_vec(), source.as_bytes().to_vec()];
            if let Value::Error(text) = self.send_one(words(b"SOLERA.PHASE", learn)).await? {
                return Ok(Err(text));
            }
        }
    }

    async fn settle(&mut self, number: u64, until_ms: u64) -> Result<Result<bool, String>, Broken> {
        let [number, until_ms] = [number, until_ms].map(|number| number.to_string().into_bytes());
        let settle = words(b"SOLERA.PHASE", [b"SETTLE".to_vec(), number, until_ms]);
        Ok(match self.send_one(settle).await? {
            Value::Integer(number) => Ok(number == 1),
            Value::Error(text) => Err(text),
            other => Err(format!("it answers {other:?}")),
        })
    }

    fn site(&self) -> Option<Arc<str>> {
        self.site.clone()
    }

    fn is_quiet(&mut self) -> bool {
        self.client.as_mut().is_some_and(Client::is_quiet)
    }
}

fn words(name: &[u8], rest: impl IntoIterator<Item = Vec<u8>>) -> Words {
    [name.to_vec()].into_iter().chain(rest).collect()
}

fn words_of(command: &Command) -> Words {
    match command {
        Command::Begin { kind } => {
            let kind: &[u8] = match kind {
                Kind::Causal => b"CAUSAL",
                Kind::Strong => b"STRONG",
                Kind::PcPsi => b"PCPSI",
            };
            words(b"SOLERA.BEGIN", [kind.to_vec()])
        }
        Command::Name => words(b"SOLERA.TXID", []),
        Command::Commit => words(b"SOLERA.COMMIT", []),
        Command::Abort => words(b"SOLERA.ABORT", []),
        Command::Certify => words(b"SOLERA.ABORT", [b"CERTIFY".to_vec()]),
        Command::Watch { key } => words(b"WATCH", [key.clone()]),
        Command::OnKey { key, op } => {
            let name = match op {
                // The sign of the number makes no difference.
                Op::IncrBy(_) => "INCRBY",
                Op::HashGetMany(_) => "HMGET",
                Op::HashNewest(_) => "SOLERA.NEWEST",
                op => op.operation().name(),
            };
            words(name.as_bytes(), [key.clone()].into_iter().chain(arguments(op)))
        }
        Command::Outcome { transaction } => {
            words(b"SOLERA.OUTCOME", [transaction.as_bytes().to_vec()])
        }
        Command::AttachUntil { until_ms, timeout_ms, sites } => {
            let numbers = [until_ms, timeout_ms].map(|number| number.to_string().into_bytes());
            let sites = sites.iter().map(|site| site.as_bytes().to_vec());
            let rest = [b"UNTIL".to_vec()].into_iter().chain(numbers).chain(sites);
            words(b"SOLERA.ATTACH", rest)
        }
        Command::Horizon => words(b"SOLERA.ATTACH", [b"HORIZON".to_vec()]),
    }
}

/// Returns the words of an operation after the key.
fn arguments(op: &Op) -> Words {
    let word = |value: &Bytes| value.as_bytes().to_vec();
    match op {
        Op::Set(value) | Op::SetNew(value) | Op::SetContains(value) | Op::HashGet(value) => {
            vec![word(value)]
        }
        Op::IncrBy(by) => vec![by.to_string().into_bytes()],
        Op::SetAdd(values)
        | Op::SetRemove(values)
        | Op::HashGetMany(values)
        | Op::HashDelete(values) => values.iter().map(word).collect(),
        Op::HashSet(pairs) => {
            pairs.iter().flat_map(|(name, value)| [word(name), word(value)]).collect()
        }
        Op::HashNewest(most) => vec![most.to_string().into_bytes()],
        Op::HashIncrBy(field, by) => vec![word(field), by.to_string().into_bytes()],
        Op::Get
        | Op::Delete
        | Op::Exists
        | Op::Type
        | Op::SetMembers
        | Op::SetLen
        | Op::HashGetAll
        | Op::Digest => Vec::new(),
    }
}

/// Converts the reply to a command.
fn answer(command: &Command, reply: Value) -> Answer {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(match (command, reply) {
        (_, Value::Error(text)) => return Err(text),
        (Command::OnKey { op, .. }, reply) => on_key(op, reply),
        (Command::Name, Value::Bulk(name)) => Reply::Name(text(&name)),
        (Command::Outcome { .. }, reply) => outcome(&reply),
        (Command::Horizon, Value::Array(times)) => match times[..] {
            [Value::Integer(latest), Value::Integer(stable)] => {
                let ms = |time: i64| u64::try_from(time).unwrap_or(0);
                Reply::Horizon(Horizon { latest: ms(latest), stable: ms(stable) })
            }
            _ => other(&Value::Array(times)),
        },
        (Command::Name | Command::Horizon, reply) => other(&reply),
        (
            Command::Begin { .. }
            | Command::Commit
            | Command::Abort
            | Command::Certify
            | Command::Watch { .. }
            | Command::AttachUntil { .. },
            _,
        ) => Reply::Done,
    })
}

/// Converts the reply to SOLERA.OUTCOME.
fn outcome(reply: &Value) -> Reply {
    match crate::transaction::Outcome::from_reply(reply) {
        Some(crate::transaction::Outcome::Committed) => Reply::Outcome(Some(true)),
        Some(crate::transaction::Outcome::Aborted) => Reply::Outcome(Some(false)),
        Some(crate::transaction::Outcome::Unknown) => Reply::Outcome(None),
        None => other(reply),
    }
}

/// Converts the reply to an operation on a key.
fn on_key(op: &Op, reply: Value) -> Reply {
    let found = match (op, &reply) {
        (Op::Type, Value::Simple(found)) => {
            let types = [Type::String, Type::Set, Type::Hash];
            match types.into_iter().find(|known| known.name() == found) {
                None if found != "none" => return Reply::Other(found.clone()),
                known => Some(Outcome::Type(known)),
            }
        }
        (Op::HashGetMany(_) | Op::HashNewest(_), Value::Array(values)) => {
            let one = |value: &Value| match value {
                Value::Null => Some(None),
                value => bytes(value).map(Some),
            };
            values.iter().map(one).collect::<Option<_>>().map(Outcome::Values)
        }
        (_, Value::Simple(_)) => Some(Outcome::Ok),
        (_, Value::Null) => Some(Outcome::Nil),
        (_, Value::Integer(number)) => Some(Outcome::Int(*number)),
        (_, Value::Set(members) | Value::Array(members)) => {
            members.iter().map(bytes).collect::<Option<_>>().map(Outcome::Members)
        }
        (_, Value::Map(pairs)) => {
            let pairs = pairs.iter().map(|(name, value)| Some((bytes(name)?, bytes(value)?)));
            pairs.collect::<Option<_>>().map(Outcome::Pairs)
        }
        (_, value) => bytes(value).map(Outcome::Bulk),
    };
    found.map_or_else(|| other(&reply), Reply::Key)
}

fn bytes(value: &Value) -> Option<Bytes> {
    match value {
        Value::Bulk(bytes) => Some(Bytes::from(bytes.as_slice())),
        _ => None,
    }
}

fn other(reply: &Value) -> Reply {
    Reply::Other(format!("{reply:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_converted_by_their_command() {
        let read = |op: Op, reply: Value| {
            answer(&Command::OnKey { key: b"k".to_vec(), op }, reply).unwrap()
        };
        let bulk = |text: &str| Value::Bulk(text.into());
        let typed = |text: &str| read(Op::Type, Value::Simple(text.into()));
        assert_eq!(typed("none"), Reply::Key(Outcome::Type(None)));
        assert_eq!(typed("hash"), Reply::Key(Outcome::Type(Some(Type::Hash))));
        assert_eq!(typed("zset"), Reply::Other("zset".into()));
        assert_eq!(read(Op::Get, bulk("v")), Reply::Key(Outcome::Bulk("v".into())));
        assert_eq!(read(Op::Get, Value::Null), Reply::Key(Outcome::Nil));
        assert_eq!(read(Op::Set("v".into()), Value::Simple("OK".into())), Reply::Key(Outcome::Ok));
        let many = Op::HashGetMany(vec!["a".into(), "b".into()]);
        let values = Outcome::Values(vec![Some("v".into()), None]);
        let reply = Value::Array(vec![bulk("v"), Value::Null]);
        assert_eq!(read(many, reply), Reply::Key(values));
        let members = Outcome::Members(vec!["a".into()]);
        // The reply is an array in RESP2 and a set in RESP3.
        assert_eq!(
            read(Op::SetMembers, Value::Array(vec![bulk("a")])),
            Reply::Key(members.clone())
        );
        assert_eq!(read(Op::SetMembers, Value::Set(vec![bulk("a")])), Reply::Key(members));
        assert_eq!(read(Op::Get, Value::Double(1.5)), Reply::Other("Double(1.5)".into()));
        let refused = answer(&Command::Commit, Value::Error("NOTX gone".into()));
        assert_eq!(refused, Err("NOTX gone".to_owned()));
    }

    #[test]
    fn operations_are_commands_of_redis() {
        let sent = |op: Op| {
            let words = words_of(&Command::OnKey { key: b"k".to_vec(), op });
            String::from_utf8(words.join(&b' ')).unwrap()
        };
        assert_eq!(sent(Op::IncrBy(-3)), "INCRBY k -3");
        assert_eq!(sent(Op::HashGetMany(vec!["a".into(), "b".into()])), "HMGET k a b");
        assert_eq!(sent(Op::HashSet(vec![("f".into(), "v".into())])), "HSET k f v");
        assert_eq!(sent(Op::Exists), "EXISTS k");
    }
}

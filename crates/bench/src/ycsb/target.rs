//! Servers that YCSB measures, and connections with them.

use std::time::Duration;

use solera::{Client, Error, Token, Value};
use solera_redis::{Plain, PlainError, Reads, Reply};

use crate::closed_loop::{Sessions, WorkloadSession};
use crate::place::TargetCluster;
use crate::session::{multi, repeat};
use crate::tally::{Aborts, Counters};

/// Time limit of a request to a server that is not Solera.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Command that returns the counters of a session, on servers that have it.
const COUNTERS: &str = "SOLERA.STALE";

/// Servers that are measured.
#[derive(Clone)]
pub enum Target {
    /// A cluster of Solera.
    Solera(TargetCluster),
    /// Another server with the Redis protocol, or a Redis Cluster.
    Redis(solera_redis::Target, Reads),
}

/// Way in which a transaction of several operations is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// SOLERA.BEGIN, each operation after the reply to the previous one, and SOLERA.COMMIT: the
    /// client can use results in its next operations.
    Interactive,
    /// MULTI, all operations and EXEC at once.
    Multi,
}

/// An operation, as a command.
pub(crate) type Operation = Vec<Vec<u8>>;

/// Returns the command of a read.
pub(crate) fn get(key: &str) -> Operation {
    vec![b"GET".to_vec(), key.as_bytes().to_vec()]
}

/// Returns the command of an update.
pub(crate) fn set(key: &str, value: &str) -> Operation {
    vec![b"SET".to_vec(), key.as_bytes().to_vec(), value.as_bytes().to_vec()]
}

impl Sessions for Target {
    type Session = YcsbSession;

    fn sites(&self) -> Vec<String> {
        match self {
            Target::Solera(place) => place.sites(),
            Target::Redis(..) => vec!["redis".to_owned()],
        }
    }

    fn site_of(&self, client: usize) -> usize {
        match self {
            Target::Solera(place) => place.site_of(client),
            Target::Redis(..) => 0,
        }
    }

    async fn connect(&self, client: usize) -> Result<YcsbSession, Error> {
        let link = self.open(client).await?;
        let (target, aborts) = (self.clone(), Aborts::new());
        Ok(YcsbSession { link, target, client, begin: &["SOLERA.BEGIN"], aborts })
    }
}

impl Target {
    async fn open(&self, client: usize) -> Result<Link, Error> {
        Ok(match self {
            Target::Solera(place) => Link::Solera(Box::new(place.connect(client).await?)),
            Target::Redis(target, reads) => {
                let connected = Plain::connect(target, reads, TIMEOUT).await;
                Link::Redis(connected.map_err(error)?)
            }
        })
    }
}

enum Link {
    Solera(Box<Client>),
    Redis(Plain),
}

/// Connection of one client.
pub(crate) struct YcsbSession {
    link: Link,
    target: Target,
    client: usize,
    /// The command that begins an interactive transaction.
    begin: &'static [&'static str],
    aborts: Aborts,
}

/// The command for transactions over keys of level pcpsi.
const BEGIN_PCPSI: &[&str] = &["SOLERA.BEGIN", "PCPSI"];

impl YcsbSession {
    /// Runs one operation.
    pub(crate) async fn run(&mut self, operation: &Operation) -> Result<(), Error> {
        match &mut self.link {
            Link::Solera(client) => client.command(operation).await.map(drop),
            Link::Redis(plain) => plain.run(operation).await.map(drop).map_err(error),
        }
    }

    /// Runs a transaction, and repeats it after aborts.
    pub(crate) async fn transaction(
        &mut self,
        operations: &[Operation],
        sending: Sending,
    ) -> Result<(), Error> {
        let mut aborts = std::mem::take(&mut self.aborts);
        let attempt = async || self.attempt(operations, sending).await;
        let result =
            repeat(attempt, |error| *aborts.entry(cause_of(error)).or_default() += 1).await;
        self.aborts = aborts;
        result
    }

    async fn attempt(&mut self, operations: &[Operation], sending: Sending) -> Result<(), Error> {
        let committed = match (sending, &mut self.link) {
            (Sending::Multi, Link::Solera(client)) => {
                multi(client, operations).await.map(|_| true)?
            }
            (Sending::Multi, Link::Redis(plain)) => {
                plain.transaction(operations).await.map_err(error)?
            }
            (Sending::Interactive, _) => return self.interactive(operations).await,
        };
        match committed {
            true => Ok(()),
            false => Err(Error::server("ABORTED EXEC returned nil")),
        }
    }

    /// Runs a transaction step by step. Only the server knows the level of the keys.
    async fn interactive(&mut self, operations: &[Operation]) -> Result<(), Error> {
        match self.interactive_once(operations).await {
            Err(error)
                if self.begin != BEGIN_PCPSI
                    && error.to_string().contains(&BEGIN_PCPSI.join(" ")) =>
            {
                self.begin = BEGIN_PCPSI;
                self.interactive_once(operations).await
            }
            result => result,
        }
    }

    async fn interactive_once(&mut self, operations: &[Operation]) -> Result<(), Error> {
        let word = |word: &str| vec![word.as_bytes().to_vec()];
        let begin = self.begin.iter().map(|word| word.as_bytes().to_vec()).collect();
        self.run(&begin).await?;
        for operation in operations {
            if let Err(error) = self.run(operation).await {
                // The first error is the one to report.
                let _ = self.run(&word("SOLERA.ABORT")).await;
                return Err(error);
            }
        }
        self.run(&word("SOLERA.COMMIT")).await
    }
}

impl WorkloadSession for YcsbSession {
    fn take_aborts(&mut self) -> Aborts {
        std::mem::take(&mut self.aborts)
    }

    async fn counters(&mut self) -> Counters {
        // Servers that do not have the command answer with an error.
        match &mut self.link {
            Link::Solera(client) => match client.command(&[COUNTERS]).await {
                Ok(Value::Map(pairs)) => pairs.iter().filter_map(counter).collect(),
                _ => Counters::new(),
            },
            Link::Redis(plain) => match plain.run(&[COUNTERS]).await {
                Ok(Reply::Map(pairs)) => pairs.iter().filter_map(plain_counter).collect(),
                // With RESP2, a map is a list of names and values.
                Ok(Reply::Array(items)) => {
                    let pairs = items.chunks_exact(2);
                    let pairs = pairs.map(|pair| (pair[0].clone(), pair[1].clone()));
                    pairs.filter_map(|pair| plain_counter(&pair)).collect()
                }
                _ => Counters::new(),
            },
        }
    }

    async fn reconnect(&mut self) -> Result<(), Error> {
        match &mut self.link {
            Link::Solera(client) => client.reconnect().await,
            Link::Redis(plain) => {
                let Link::Redis(new) = self.target.open(self.client).await? else { return Ok(()) };
                *plain = new;
                Ok(())
            }
        }
    }

    async fn token(&mut self) -> Option<Token> {
        match &mut self.link {
            Link::Solera(client) => client.token().await.ok(),
            Link::Redis(_) => None,
        }
    }
}

/// Returns the cause of an abort: the server's message up to its first semicolon, without quoted
/// keys and without numbers of slots and shards.
fn cause_of(error: &Error) -> String {
    let message = match error {
        Error::Aborted { .. } => return "conflict".to_owned(),
        Error::Server { message, .. } => message,
        _ => return "unknown".to_owned(),
    };
    let unquoted: Vec<&str> = message.split(['\'', '`']).step_by(2).collect();
    let mut cause = unquoted.join("…").replace("keys …", "key …");
    while cause.contains("…, …") {
        cause = cause.replace("…, …", "…");
    }
    for name in ["slot ", "shard "] {
        let mut parts = cause.split(name);
        let first = parts.next().unwrap_or_default().to_owned();
        cause = parts.fold(first, |cause, part| {
            let rest = part.trim_start_matches(|each: char| each.is_ascii_digit());
            let number = if rest.len() < part.len() { "…" } else { "" };
            format!("{cause}{name}{number}{rest}")
        });
    }
    cause.split(';').next().unwrap_or_default().trim().to_owned()
}

fn counter((name, count): &(Value, Value)) -> Option<(String, u64)> {
    let name = match name {
        Value::Bulk(bytes) => String::from_utf8(bytes.clone()).ok()?,
        Value::Simple(text) => text.clone(),
        _ => return None,
    };
    let Value::Integer(count) = count else { return None };
    Some((name, u64::try_from(*count).ok()?))
}

fn plain_counter((name, count): &(Reply, Reply)) -> Option<(String, u64)> {
    let name = match name {
        Reply::BulkString(bytes) => String::from_utf8(bytes.clone()).ok()?,
        Reply::SimpleString(text) => text.clone(),
        _ => return None,
    };
    let Reply::Int(count) = count else { return None };
    Some((name, u64::try_from(*count).ok()?))
}

fn error(error: PlainError) -> Error {
    match error {
        PlainError::Reply(text) => Error::server(&text),
        other => Error::Connection(std::io::Error::other(other.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aborts_are_grouped_by_cause() {
        for (reply, cause) in [
            ("ABORTED conflict on 'user:1'; nothing was changed", "conflict"),
            ("ABORTED another transaction holds the lock of key 'k'; retry", CAUSE),
            ("ABORTED EXEC returned nil", "EXEC returned nil"),
            ("ABORTED", ""),
            ("ABORTED its read in shard 15 misses a write; nothing was changed", MISSES),
            ("ABORTED another transaction holds slot 15", "another transaction holds slot …"),
            ("ABORTED another transaction holds slot 7 of key `a`", HELD),
            ("ABORTED another transaction holds slot 15 of keys `a`, `b`, `c`", HELD),
            ("ABORTED it has read too old a copy of slot 7 of key `a`: another", OLD),
        ] {
            assert_eq!(cause_of(&Error::server(reply)), cause);
        }
    }

    const CAUSE: &str = "another transaction holds the lock of key …";
    const MISSES: &str = "its read in shard … misses a write";
    const HELD: &str = "another transaction holds slot … of key …";
    const OLD: &str = "it has read too old a copy of slot … of key …: another";
}

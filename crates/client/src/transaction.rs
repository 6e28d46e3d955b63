//! Interactive transactions: as guards and as closures.

use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use solera_resp::Value;

use crate::client::Client;
use crate::error::Error;

/// For how long the outcome of a transaction is asked for whose connection broke.
const FINDING_OUT: Duration = Duration::from_secs(5);

/// An open transaction: all its reads are from one snapshot, and its writes become visible
/// together.
///
/// Offers every command of [`Client`]. Must be ended by [`Transaction::commit`] or
/// [`Transaction::abort`]; one that is dropped without stays open on the connection, and the next
/// call of [`Client::begin`] aborts it first.
#[derive(Debug)]
pub struct Transaction<'a> {
    client: &'a mut Client,
    /// By which its outcome can be asked for, if it is strong.
    name: Option<String>,
}

impl Client {
    /// Opens a causal transaction.
    ///
    /// # Errors
    /// As [`Client::command`].
    pub async fn begin(&mut self) -> Result<Transaction<'_>, Error> {
        self.open_transaction(&[vec![b"SOLERA.BEGIN"]]).await?;
        Ok(Transaction { client: self, name: None })
    }

    /// Opens a strong transaction: it commits only if no conflicting one has come between, at any
    /// site. [`Client::strong`] runs it again if one has.
    ///
    /// What conflicts are the strong commands of the keys' spaces, and what is
    /// [watched](Client::watch). Everything else is read from the snapshot and merges, as in a
    /// causal transaction.
    ///
    /// # Errors
    /// As [`Client::command`].
    pub async fn begin_strong(&mut self) -> Result<Transaction<'_>, Error> {
        let begin = [vec![&b"SOLERA.BEGIN"[..], b"STRONG"], vec![b"SOLERA.TXID"]];
        match self.open_transaction(&begin).await? {
            Value::Bulk(name) => {
                let name = Some(String::from_utf8_lossy(&name).into_owned());
                Ok(Transaction { client: self, name })
            }
            other => Err(Error::unexpected(&other)),
        }
    }

    /// Sends what begins a transaction; returns the last reply.
    async fn open_transaction(&mut self, begin: &[Vec<&[u8]>]) -> Result<Value, Error> {
        match self.pipeline(begin).await.and_then(last_of) {
            // One that was dropped may still be open, or given up by the server; if none is, the
            // first error is the one to report.
            Err(error) if matches!(error.code(), Some("ERR" | "NOTX" | "EXECABORT")) => {
                if self.call(&[b"SOLERA.ABORT"]).await.is_err() {
                    return Err(error);
                }
                self.pipeline(begin).await.and_then(last_of)
            }
            other => other,
        }
    }

    /// Runs a closure in a transaction: commits if it succeeds, aborts if it fails.
    ///
    /// # Errors
    /// Those of the closure, and of the commit.
    pub async fn transaction<R>(
        &mut self,
        body: impl AsyncFnOnce(&mut Client) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.begin().await?.run(body).await
    }

    /// WATCH, in a strong transaction: has it commit only if no other strong transaction changes
    /// the key, whatever its space. To be sent before what the key decides about is read. Outside
    /// of transactions, the next strong one cannot be opened if the key has changed by then.
    ///
    /// # Errors
    /// As [`Client::command`].
    pub async fn watch(&mut self, key: &str) -> Result<(), Error> {
        self.call(&[b"WATCH", key.as_bytes()]).await.map(drop)
    }

    /// Runs a closure in a strong transaction, of which [`Client::begin_strong`] tells what
    /// conflicts: commits if it succeeds, aborts if it fails. When the transaction conflicts with
    /// another one, it is run again, up to [`Client::STRONG_ATTEMPTS`] times in all and after a
    /// pause that grows from 1 to 64 ms, so what the closure does besides must bear repetition.
    ///
    /// # Errors
    /// Those of the closure, and of the commit: [`Error::Aborted`] if every attempt met a conflict,
    /// and [`Error::Unavailable`] if too few sites could be reached. If the connection breaks while
    /// it commits, it is made again and the outcome asked for; what cannot be found out in five
    /// seconds is [`Error::Unavailable`], too, with the transaction's name.
    pub async fn strong<R>(
        &mut self,
        mut body: impl AsyncFnMut(&mut Client) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let mut attempts = 0;
        // What was in the way is visible here after a while; until then each attempt meets it
        // again.
        let mut pause = Duration::from_millis(1);
        loop {
            attempts += 1;
            match self.begin_strong().await?.run(&mut body).await {
                Err(error) if error.code() == Some("ABORTED") => {
                    if attempts == Client::STRONG_ATTEMPTS {
                        return Err(error.after(attempts));
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_millis(64));
                }
                other => return other,
            }
        }
    }

    /// What became of a strong transaction whose reply was lost, by [its name](Transaction::name),
    /// which [`Error::Unavailable`] tells, too.
    ///
    /// # Errors
    /// As [`Client::command`].
    pub async fn outcome(&mut self, transaction: &str) -> Result<Outcome, Error> {
        let reply = self.call(&[b"SOLERA.OUTCOME", transaction.as_bytes()]).await?;
        Outcome::told(&reply).ok_or_else(|| Error::unexpected(&reply))
    }
}

impl Client {
    /// The connection broke while a strong transaction committed: finds out what became of it.
    async fn find_outcome(&mut self, name: &str, broken: Error) -> Result<(), Error> {
        let until = Instant::now() + FINDING_OUT;
        let mut connected = false;
        loop {
            if !connected {
                connected = self.reconnect().await.is_ok();
            }
            let found = self.outcome(name).await;
            connected &= found.is_ok();
            match found {
                Ok(Outcome::Committed) => return Ok(()),
                Ok(Outcome::Aborted) => {
                    let message =
                        "the connection broke before it was committed; nothing was changed";
                    return Err(Error::Server { code: "ABORTED".into(), message: message.into() });
                }
                _ if Instant::now() >= until || !self.can_reconnect() => {
                    let message = format!(
                        "{broken}; the outcome of transaction {name} is not known: ask SOLERA.OUTCOME \
                         {name} until it is"
                    );
                    return Err(Error::Unavailable { transaction: Some(name.into()), message });
                }
                _ => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    /// How often [`Client::strong`] runs a transaction that meets conflicts.
    pub const STRONG_ATTEMPTS: u32 = 16;
}

/// The last of some replies, if none is an error.
fn last_of(replies: Vec<Value>) -> Result<Value, Error> {
    let mut last = Value::Null;
    for reply in replies {
        match reply {
            Value::Error(text) => return Err(Error::server(&text)),
            reply => last = reply,
        }
    }
    Ok(last)
}

/// What became of a strong transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its writes are there.
    Committed,
    /// It changed nothing, and never will.
    Aborted,
    /// The site does not know, or knows no more.
    Unknown,
}

impl Outcome {
    pub(crate) fn told(reply: &Value) -> Option<Outcome> {
        let word = match reply {
            Value::Simple(text) => text.as_bytes(),
            Value::Bulk(bytes) => bytes,
            _ => return None,
        };
        match word {
            b"committed" => Some(Outcome::Committed),
            b"aborted" => Some(Outcome::Aborted),
            b"unknown" => Some(Outcome::Unknown),
            _ => None,
        }
    }
}

impl Transaction<'_> {
    async fn run<R>(
        mut self,
        body: impl AsyncFnOnce(&mut Client) -> Result<R, Error>,
    ) -> Result<R, Error> {
        match body(&mut self).await {
            Ok(result) => {
                let broken = match self.client.call(&[b"SOLERA.COMMIT"]).await {
                    Err(error @ Error::Connection(_)) => error,
                    other => return other.map(|_| result),
                };
                match &self.name {
                    Some(name) => self.client.find_outcome(name, broken).await?,
                    None => return Err(broken),
                }
                Ok(result)
            }
            Err(error) => {
                // The first error is the one to report.
                let _ = self.abort().await;
                Err(error)
            }
        }
    }

    /// What to ask [`Client::outcome`] about if a strong transaction's connection breaks while it
    /// commits; it answers for any client, at any site. From then on it must be committed within a
    /// minute.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Makes the writes visible, all at once.
    ///
    /// # Errors
    /// `EXECABORT`, `TRYAGAIN` or `NOTX` if the transaction had no effect, the first if a command
    /// in it was answered with an error; a broken connection leaves it unknown. A strong one may
    /// fail with [`Error::Aborted`] or [`Error::Unavailable`].
    pub async fn commit(self) -> Result<(), Error> {
        self.client.call(&[b"SOLERA.COMMIT"]).await.map(drop)
    }

    /// Drops the writes.
    ///
    /// # Errors
    /// As [`Client::command`].
    pub async fn abort(self) -> Result<(), Error> {
        self.client.call(&[b"SOLERA.ABORT"]).await.map(drop)
    }
}

impl Deref for Transaction<'_> {
    type Target = Client;
    fn deref(&self) -> &Client {
        self.client
    }
}

impl DerefMut for Transaction<'_> {
    fn deref_mut(&mut self) -> &mut Client {
        self.client
    }
}

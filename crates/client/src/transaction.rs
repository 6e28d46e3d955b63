//! Interactive transactions, as guards and as closures.

use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use solera_resp::Value;

use crate::client::Client;
use crate::error::Error;

/// Maximal time to search for the outcome of a transaction whose connection broke during the
/// commit.
const FINDING_OUT: Duration = Duration::from_secs(5);

/// Kind of a transaction that is run again after conflicts.
#[derive(Clone, Copy)]
enum Validated {
    Strong,
    PcPsi,
}

/// An open transaction. All its reads are from one snapshot, and its writes become visible
/// together.
///
/// Offers every command of [`Client`]. The caller must end it with [`Transaction::commit`] or
/// [`Transaction::abort`]. If it is dropped, it stays open on the connection, and the next call of
/// [`Client::begin`] aborts it first.
#[derive(Debug)]
pub struct Transaction<'a> {
    client: &'a mut Client,
    /// Name to ask for the outcome, if the transaction is strong.
    name: Option<String>,
}

impl Client {
    /// Opens a causal transaction.
    ///
    /// # Errors
    /// See [`Client::command`].
    pub async fn begin(&mut self) -> Result<Transaction<'_>, Error> {
        self.open_transaction(&[vec![b"SOLERA.BEGIN"]]).await?;
        Ok(Transaction { client: self, name: None })
    }

    /// Opens a strong transaction. It commits only if no conflicting transaction, at any site, has
    /// committed since it began. [`Client::strong`] retries after conflicts.
    ///
    /// Conflicts come from the strong commands of the keys' spaces and from
    /// [watched](Client::watch) keys. Everything else is read from the snapshot and merges, as in a
    /// causal transaction.
    ///
    /// # Errors
    /// See [`Client::command`].
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

    /// Opens a transaction of level `pcpsi`, which can use keys of spaces of this level and no
    /// others. It commits only if what it has read belongs to one snapshot, and no other
    /// transaction has changed meanwhile what it reads and writes, or [watches](Client::watch).
    /// Until then, its reads may contradict one another. [`Client::pcpsi`] retries after conflicts.
    ///
    /// # Errors
    /// See [`Client::command`].
    pub async fn begin_pcpsi(&mut self) -> Result<Transaction<'_>, Error> {
        self.open_transaction(&[vec![b"SOLERA.BEGIN", b"PCPSI"]]).await?;
        Ok(Transaction { client: self, name: None })
    }

    /// Sends the commands that begin a transaction. Returns the last reply.
    async fn open_transaction(&mut self, begin: &[Vec<&[u8]>]) -> Result<Value, Error> {
        match self.pipeline(begin).await.and_then(last_of) {
            // A dropped transaction may still be open, or was given up by the server. If none is
            // open, the first error is the one to report.
            Err(error) if matches!(error.code(), Some("ERR" | "NOTX" | "EXECABORT")) => {
                if self.call(&[b"SOLERA.ABORT"]).await.is_err() {
                    return Err(error);
                }
                self.pipeline(begin).await.and_then(last_of)
            }
            other => other,
        }
    }

    /// Runs a closure in a transaction. Commits if the closure succeeds, aborts if it fails.
    ///
    /// # Errors
    /// Errors of the closure and of the commit.
    pub async fn transaction<R>(
        &mut self,
        body: impl AsyncFnOnce(&mut Client) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.begin().await?.run(body).await
    }

    /// Sends WATCH. Within a strong transaction, the transaction then commits only if no other
    /// strong transaction changes the key, in any space. The call must precede the reads that
    /// depend on the key. Outside a transaction, the next strong transaction fails to open if the
    /// key has changed by then.
    ///
    /// # Errors
    /// See [`Client::command`].
    pub async fn watch(&mut self, key: &str) -> Result<(), Error> {
        self.call(&[b"WATCH", key.as_bytes()]).await.map(drop)
    }

    /// Runs a closure in a strong transaction; see [`Client::begin_strong`] for what conflicts.
    /// Commits if the closure succeeds, aborts if it fails. Runs the closure again after a
    /// conflict, up to [`Client::ATTEMPTS`] times in all, after a pause that grows from 1 to 64 ms.
    /// Repeating other effects of the closure must therefore be harmless.
    ///
    /// # Errors
    /// Errors of the closure and of the commit: [`Error::Aborted`] if every attempt met a conflict,
    /// and [`Error::Unavailable`] if too few sites could be reached. If the connection breaks
    /// during the commit, the client reconnects and asks for the outcome. If it cannot find the
    /// outcome within five seconds, it returns [`Error::Unavailable`] with the transaction's name.
    pub async fn strong<R>(
        &mut self,
        body: impl AsyncFnMut(&mut Client) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.run_again(Validated::Strong, body).await
    }

    /// Runs a closure in a transaction of level `pcpsi`; see [`Client::begin_pcpsi`] for what
    /// conflicts. Commits if the closure succeeds, aborts if it fails. Runs the closure again after
    /// a conflict, as [`Client::strong`] does. What the closure reads may be contradictory in an
    /// attempt that does not commit, so it must not fail because of it.
    ///
    /// # Errors
    /// Errors of the closure and of the commit: `ABORTED` if every attempt met a conflict,
    /// `TRYAGAIN` if no copy of a key answers, and `UNKNOWN` if a home did not answer in time, so
    /// that the transaction may have been committed, and may still be. If the connection breaks
    /// during the commit, the outcome is unknown, too.
    pub async fn pcpsi<R>(
        &mut self,
        body: impl AsyncFnMut(&mut Client) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.run_again(Validated::PcPsi, body).await
    }

    /// Runs a closure in a transaction, and again after a conflict.
    async fn run_again<R>(
        &mut self,
        kind: Validated,
        mut body: impl AsyncFnMut(&mut Client) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let mut attempts = 0;
        // The conflicting transaction becomes visible here after a while. Until then each attempt
        // conflicts with it again.
        let mut pause = Duration::from_millis(1);
        loop {
            attempts += 1;
            let transaction = match kind {
                Validated::Strong => self.begin_strong().await?,
                Validated::PcPsi => self.begin_pcpsi().await?,
            };
            match transaction.run(&mut body).await {
                Err(error) if error.code() == Some("ABORTED") => {
                    if attempts == Client::ATTEMPTS {
                        return Err(error.after(attempts));
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_millis(64));
                }
                other => return other,
            }
        }
    }

    /// Returns the outcome of a strong transaction whose reply was lost. `transaction` is [its
    /// name](Transaction::name), which [`Error::Unavailable`] contains too.
    ///
    /// # Errors
    /// See [`Client::command`].
    pub async fn outcome(&mut self, transaction: &str) -> Result<Outcome, Error> {
        let reply = self.call(&[b"SOLERA.OUTCOME", transaction.as_bytes()]).await?;
        Outcome::from_reply(&reply).ok_or_else(|| Error::unexpected(&reply))
    }
}

impl Client {
    /// Finds the outcome of a strong transaction after the connection broke during its commit.
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
                        "{broken}; the outcome of transaction {name} is not known: repeat SOLERA.OUTCOME \
                         {name} until it is"
                    );
                    return Err(Error::Unavailable { transaction: Some(name.into()), message });
                }
                _ => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    /// Maximal number of attempts of [`Client::strong`] and [`Client::pcpsi`].
    pub const ATTEMPTS: u32 = 16;
}

/// Returns the last of some replies, if none is an error.
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

/// Outcome of a strong transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its writes took effect.
    Committed,
    /// It changed nothing, and never will.
    Aborted,
    /// The site does not know the outcome, or has forgotten it.
    Unknown,
}

impl Outcome {
    pub(crate) fn from_reply(reply: &Value) -> Option<Outcome> {
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

    /// Returns the transaction's name, with which [`Client::outcome`] finds the outcome if the
    /// connection breaks during the commit, for any client and at any site. Only strong
    /// transactions have one. The transaction must be committed within a minute.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Commits the transaction. Its writes become visible all at once.
    ///
    /// # Errors
    /// `EXECABORT`, `TRYAGAIN` or `NOTX` if the transaction had no effect; `EXECABORT` if one of
    /// its commands failed. If the connection breaks, the outcome is unknown. A strong transaction
    /// may fail with [`Error::Aborted`] or [`Error::Unavailable`], and one of level `pcpsi` with
    /// `ABORTED`, or with `UNKNOWN` if its outcome is unknown.
    pub async fn commit(self) -> Result<(), Error> {
        self.client.call(&[b"SOLERA.COMMIT"]).await.map(drop)
    }

    /// Aborts the transaction.
    ///
    /// # Errors
    /// See [`Client::command`].
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

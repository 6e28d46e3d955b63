//! Interactive transactions: their begin, their commit, and why they are given up.

use std::sync::Arc;

use solera_config::{Baseline, User};
use solera_unistore::{Claim, Command, CommandError, Response, TxId};

use super::Session;
use super::conflict::Conflict;
use crate::context::Context;

/// Why a transaction that its client has not ended has no effect: the error that the client was told.
#[derive(Debug)]
pub(crate) struct GivenUp(pub(crate) String);

impl GivenUp {
    /// Whether it ended by itself, and no command was at fault.
    fn is_expired(&self) -> bool {
        self.0.starts_with("NOTX ")
    }

    /// The answer to its commit.
    pub(crate) fn at_commit(self) -> String {
        match self.is_expired() {
            true => self.0,
            // The words of Redis, where EXEC follows a command that was refused.
            false => format!(
                "EXECABORT Transaction discarded because of previous errors, first: {}",
                self.0
            ),
        }
    }

    /// The answer to a command that belongs to it.
    pub(crate) fn before_the_end(&self) -> &'static str {
        match self.is_expired() {
            true => "NOTX the transaction was given up; SOLERA.ABORT it, then start again",
            false => {
                "EXECABORT the transaction was given up, because a command in it failed; SOLERA.ABORT it, \
                 then start again"
            }
        }
    }
}

/// Why a transaction was not committed.
#[derive(Debug)]
pub(crate) enum NotCommitted {
    /// The node takes no writes: what the client is told.
    Refused(String),
    Failed(CommandError),
    /// The worker does not say.
    Unanswered,
}

impl<W: Context> Session<W> {
    /// Whether a transaction can be begun.
    ///
    /// # Errors
    /// The error reply: one is open.
    pub(crate) fn may_begin(&self) -> Result<(), String> {
        match self.in_transaction() {
            true => {
                Err("ERR a transaction is already open; SOLERA.COMMIT or SOLERA.ABORT it first"
                    .to_owned())
            }
            false => Ok(()),
        }
    }

    /// SOLERA.BEGIN.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn begin(&mut self, strong: bool) -> Result<(), String> {
        self.may_begin()?;
        if self.worker.spec().protocol.certifies(strong) {
            self.wait_for_conflict().await;
            return self.begin_strong().await;
        }
        let begin = Command::Begin { past: self.pasts.causal, strong: false };
        let Some(Response::Begun(tx)) = self.worker.call(begin).await else {
            return Err(self.unanswered());
        };
        (self.tx, self.tx_is_strong, self.tx_writes) = (Some(tx), false, false);
        self.began_as = self.identity.user();
        Ok(())
    }

    /// SOLERA.COMMIT.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn commit_open(&mut self) -> Result<(), String> {
        let Some(tx) = self.tx.take() else {
            return Err(match self.given_up.take() {
                Some(given_up) => given_up.at_commit(),
                None => "ERR SOLERA.COMMIT without SOLERA.BEGIN".to_owned(),
            });
        };
        if let Err(reason) = self.may_commit() {
            self.worker.tell(Command::Abort { tx });
            return Err(format!("NOPERM {reason}; nothing of the transaction was done"));
        }
        self.commit(tx, self.tx_writes).await
    }

    /// SOLERA.ABORT.
    ///
    /// # Errors
    /// The error reply: there is nothing to abort.
    pub(crate) fn abort_open(&mut self) -> Result<(), String> {
        if self.given_up.take().is_some() {
            return Ok(());
        }
        match self.tx.take() {
            Some(tx) => {
                self.worker.tell(Command::Abort { tx });
                Ok(())
            }
            None => Err("ERR SOLERA.ABORT without SOLERA.BEGIN".to_owned()),
        }
    }

    /// SOLERA.ABORT CERTIFY: drops the open strong transaction after certification of what it has read.
    ///
    /// # Errors
    /// The error reply: what it has read is not certified, or there is nothing to certify.
    pub(crate) async fn certify_open(&mut self) -> Result<(), String> {
        let Some(tx) = self.tx.take() else {
            return Err(match self.given_up.take() {
                Some(given_up) => given_up.at_commit(),
                None => "ERR SOLERA.ABORT without SOLERA.BEGIN".to_owned(),
            });
        };
        // A protocol for comparisons may certify no transaction at all: its commits are certain without.
        if !self.tx_is_strong && self.worker.spec().protocol == Baseline::UniStore {
            self.worker.tell(Command::Abort { tx });
            return Err("ERR SOLERA.ABORT CERTIFY is for strong transactions, and this one is causal; it is \
                        over, and nothing of it was done"
                .to_owned());
        }
        let claim = self.claim();
        let certified = self.end(Command::Certify { tx, claim }).await;
        certified.map_err(|error| self.told_commit(error))
    }

    /// An error has come up: an open transaction has no effect, and unless the command `ends` it, what the
    /// client sends until it ends the transaction is refused.
    pub(crate) fn give_up(&mut self, error: String, ends: bool) {
        if let Some(tx) = self.tx.take() {
            self.worker.tell(Command::Abort { tx });
        }
        self.given_up = (!ends).then_some(GivenUp(error));
    }

    /// Commits a transaction that may have `writes`.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn commit(&mut self, tx: TxId, writes: bool) -> Result<(), String> {
        self.try_commit(tx, writes).await.map_err(|error| self.told_commit(error))
    }

    /// Why a transaction was not committed, as clients are told.
    pub(crate) fn told_commit(&self, error: NotCommitted) -> String {
        match error {
            NotCommitted::Refused(reason) => reason,
            NotCommitted::Failed(error) => self.told(&error),
            NotCommitted::Unanswered => self.unanswered(),
        }
    }

    /// Commits a transaction that may have `writes`.
    ///
    /// # Errors
    /// Why it was not, as far as that is known.
    pub(crate) async fn try_commit(&mut self, tx: TxId, writes: bool) -> Result<(), NotCommitted> {
        // What came before the commit may have taken its time.
        if writes && let Some(reason) = self.worker.takes_no_writes() {
            self.worker.tell(Command::Abort { tx });
            return Err(NotCommitted::Refused(reason));
        }
        let claim = self.claim();
        self.end(Command::Commit { tx, claim }).await
    }

    /// What the open transaction shows of an attempt before it that was aborted.
    fn claim(&self) -> Option<Claim> {
        let conflict = self.conflict.as_ref().filter(|_| self.tx_is_strong);
        conflict.and_then(Conflict::claim)
    }

    /// Ends a transaction by a command that is answered as commits are.
    async fn end(&mut self, command: Command) -> Result<(), NotCommitted> {
        match self.worker.call(command).await {
            Some(Response::Committed { pasts }) => {
                self.pasts.join(&pasts);
                if self.tx_is_strong {
                    self.conflict = None;
                }
                Ok(())
            }
            Some(Response::Failed(error)) => {
                if let CommandError::Aborted { claim, lacks, .. } = &error {
                    self.conflict = Some(Conflict::new(*claim, lacks.as_deref().copied()));
                }
                Err(NotCommitted::Failed(error))
            }
            _ => Err(NotCommitted::Unanswered),
        }
    }

    /// Whether what the open transaction has buffered is still allowed: each command was when it came,
    /// to who the client was then.
    pub(crate) fn may_commit(&mut self) -> Result<(), String> {
        let (then, now) = (self.began_as.take(), self.identity.user());
        if then == now {
            return Ok(());
        }
        let name =
            |user: Option<Arc<User>>| user.map_or_else(String::new, |user| user.name.clone());
        let (then, now) = (name(then), name(now));
        Err(if then == now {
            format!("the rules of user '{now}' have changed since SOLERA.BEGIN")
        } else {
            format!("user '{then}' sent SOLERA.BEGIN, and the connection is user '{now}' by now")
        })
    }
}

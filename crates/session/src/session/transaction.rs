//! Interactive transactions: their begin, their commit, and why they are given up.

use std::sync::Arc;

use solera_config::User;
use solera_resp::Arguments;
use solera_unistore::{Command, CommandError, Response, TxId};

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
    pub(crate) async fn begin(&mut self, arguments: &Arguments<'_>) {
        if self.in_transaction() {
            return self
                .fail("ERR a transaction is already open; SOLERA.COMMIT or SOLERA.ABORT it first");
        }
        if arguments.len() > 2 {
            return self.fail("ERR syntax error");
        }
        let strong = match arguments.from(1).next() {
            None => false,
            Some(level) if level.eq_ignore_ascii_case(b"causal") => false,
            Some(level) if level.eq_ignore_ascii_case(b"strong") => true,
            Some(level) => {
                let level = String::from_utf8_lossy(level).to_uppercase();
                return self.fail(format!(
                    "ERR there are no {level} transactions: SOLERA.BEGIN CAUSAL or SOLERA.BEGIN STRONG"
                ));
            }
        };
        if self.worker.spec().protocol.certifies(strong) {
            self.wait_for_conflict().await;
            return self.begin_strong().await;
        }
        if let Some(Response::Begun(tx)) =
            self.worker.call(Command::Begin { past: self.pasts.causal, strong: false }).await
        {
            (self.tx, self.tx_is_strong, self.tx_writes) = (Some(tx), false, false);
            self.began_as = self.identity.user();
            self.out.simple("OK");
        } else {
            self.fail_unanswered();
        }
    }

    /// Commits a transaction that may have `writes`; on failure appends the error.
    pub(crate) async fn commit(&mut self, tx: TxId, writes: bool) -> bool {
        match self.try_commit(tx, writes).await {
            Ok(()) => true,
            Err(error) => {
                self.fail_commit(error);
                false
            }
        }
    }

    /// Appends why a transaction was not committed.
    pub(crate) fn fail_commit(&mut self, error: NotCommitted) {
        match error {
            NotCommitted::Refused(reason) => self.fail(reason),
            NotCommitted::Failed(error) => self.fail_command(&error),
            NotCommitted::Unanswered => self.fail_unanswered(),
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
        let conflict = self.conflict.as_ref().filter(|_| self.tx_is_strong);
        let claim = conflict.and_then(Conflict::claim);
        match self.worker.call(Command::Commit { tx, claim }).await {
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

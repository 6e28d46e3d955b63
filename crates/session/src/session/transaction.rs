//! Interactive transactions: begin, commit and abort.

use std::sync::Arc;

use solera_commands::CommandId;
use solera_config::{Baseline, User};
use solera_unistore::{Claim, Command, CommandError, Response};

use super::ClientSession;
use super::conflict::Conflict;
use super::mode::{Current, Ended, Open, Transaction, TransactionKind};
use crate::context::Context;

/// Reason why a transaction was not committed.
#[derive(Debug)]
pub(crate) enum NotCommitted {
    /// The node accepts no writes; the error reply.
    Refused(String),
    Failed(CommandError),
    /// The worker gave no answer.
    Unanswered,
}

impl<W: Context> ClientSession<W> {
    /// Checks that a transaction can be begun.
    ///
    /// # Errors
    /// The error reply, if one is open.
    pub(crate) fn may_begin(&self) -> Result<(), String> {
        match self.in_transaction() {
            true => {
                Err("ERR a transaction is already open; SOLERA.COMMIT or SOLERA.ABORT it first"
                    .to_owned())
            }
            false => Ok(()),
        }
    }

    /// Returns a number for a snapshot of all keys, which no other session of the site uses.
    pub(super) fn new_export(&self) -> u64 {
        // Requests are numbered by each worker.
        u64::from(self.worker.address().worker) << 48 | self.worker.new_request().0
    }

    /// Ends the snapshots of all keys that the open transaction has.
    pub(crate) fn drop_snapshots(&mut self) {
        self.drop_pcpsi_snapshot();
        self.drop_speculative_export();
    }

    /// SOLERA.BEGIN: opens a transaction.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn begin(&mut self, kind: TransactionKind) -> Result<(), String> {
        self.may_begin()?;
        if kind != TransactionKind::Causal && self.speculative.watches() {
            return Err("ERR watched keys are of level speculative: EXEC validates them, and SOLERA.BEGIN cannot; \
                        UNWATCH first"
                .to_owned());
        }
        self.drop_snapshots();
        if kind == TransactionKind::PcPsi {
            return self.begin_open_on_occult().await;
        }
        if self.worker.spec().protocol.certifies(kind == TransactionKind::Strong) {
            self.wait_for_conflict().await;
            return self.begin_strong().await;
        }
        let transaction = self.begin_transaction(false).await?;
        self.mode.open(Current::UniStore(transaction), self.identity.user());
        Ok(())
    }

    /// SOLERA.COMMIT: commits the open transaction.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn commit_open(&mut self) -> Result<(), String> {
        self.drop_snapshots();
        let Open { transaction, writes, began_as, .. } = match self.mode.end() {
            Ended::Open(open) => open,
            Ended::GivenUp(given_up) => return Err(given_up.at_commit()),
            Ended::Nothing => return Err("ERR SOLERA.COMMIT without SOLERA.BEGIN".to_owned()),
        };
        if let Err(reason) = self.may_commit(began_as) {
            self.abort(transaction);
            return Err(format!("NOPERM {reason}; nothing of the transaction was done"));
        }
        match transaction {
            Current::UniStore(transaction) => self.commit(transaction, writes).await,
            Current::Occult(transaction) => self.commit_on_occult(transaction, writes).await,
        }
    }

    /// SOLERA.ABORT: aborts the open transaction.
    ///
    /// # Errors
    /// The error reply, if there is nothing to abort.
    pub(crate) fn abort_open(&mut self) -> Result<(), String> {
        self.drop_snapshots();
        match self.mode.end() {
            Ended::Open(Open { transaction, .. }) => {
                self.abort(transaction);
                Ok(())
            }
            Ended::GivenUp(_) => Ok(()),
            Ended::Nothing => Err("ERR SOLERA.ABORT without SOLERA.BEGIN".to_owned()),
        }
    }

    /// SOLERA.ABORT CERTIFY: certifies the reads of the open strong transaction, or validates those
    /// of one of level `pcpsi`, and drops it.
    ///
    /// # Errors
    /// The error reply, if the reads are not certified or there is nothing to certify.
    pub(crate) async fn certify_open(&mut self) -> Result<(), String> {
        let transaction = match self.mode.end() {
            Ended::Open(open) => open.transaction,
            Ended::GivenUp(given_up) => return Err(given_up.at_commit()),
            Ended::Nothing => return Err("ERR SOLERA.ABORT without SOLERA.BEGIN".to_owned()),
        };
        let transaction = match transaction {
            Current::UniStore(transaction) => transaction,
            Current::Occult(transaction) => return self.certify_on_occult(transaction).await,
        };
        let tx = transaction.id;
        // Baselines may certify no transactions. They accept CERTIFY for causal transactions, whose
        // commits cannot fail because of conflicts.
        if !transaction.strong && self.worker.spec().protocol == Baseline::UniStore {
            self.worker.send(Command::Abort { tx });
            return Err("ERR SOLERA.ABORT CERTIFY is for strong transactions, and this one is causal; it was \
                        aborted"
                .to_owned());
        }
        let claim = self.claim(transaction);
        let certified = self.end(transaction, Command::Certify { tx, claim }).await;
        certified.map_err(|error| self.commit_error(error))
    }

    /// Handles a command that failed with an error, after which an open transaction has no effect.
    /// SOLERA.COMMIT and SOLERA.ABORT end the transaction even then; after any other command it is
    /// given up.
    pub(crate) fn fail_transaction(&mut self, command: Option<CommandId>, error: String) {
        match command {
            Some(CommandId::SoleraCommit | CommandId::SoleraAbort) => {
                if let Ended::Open(Open { transaction, .. }) = self.mode.end() {
                    self.abort(transaction);
                }
            }
            _ => self.give_up(error),
        }
    }

    /// Commits a transaction that may have `writes`.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn commit(
        &mut self,
        transaction: Transaction,
        writes: bool,
    ) -> Result<(), String> {
        self.try_commit(transaction, writes).await.map_err(|error| self.commit_error(error))
    }

    /// Returns the error reply for a transaction that was not committed.
    pub(crate) fn commit_error(&self, error: NotCommitted) -> String {
        match error {
            NotCommitted::Refused(reason) => reason,
            NotCommitted::Failed(error) => self.error_reply(&error),
            NotCommitted::Unanswered => self.unanswered(),
        }
    }

    /// Commits a transaction that may have `writes`.
    ///
    /// # Errors
    /// The reason why it was not committed, as far as that is known.
    pub(crate) async fn try_commit(
        &mut self,
        transaction: Transaction,
        writes: bool,
    ) -> Result<(), NotCommitted> {
        let tx = transaction.id;
        // The commands before the commit may have taken long, so check again.
        if writes && let Some(reason) = self.worker.takes_no_writes() {
            self.worker.send(Command::Abort { tx });
            return Err(NotCommitted::Refused(reason));
        }
        let claim = self.claim(transaction);
        self.end(transaction, Command::Commit { tx, claim }).await
    }

    /// Returns the claim of the aborted attempt before this transaction, if there is one.
    fn claim(&self, transaction: Transaction) -> Option<Claim> {
        let conflict = self.conflict.as_ref().filter(|_| transaction.strong);
        conflict.and_then(Conflict::claim)
    }

    /// Ends a transaction with a command that gets the same replies as a commit.
    async fn end(
        &mut self,
        transaction: Transaction,
        command: Command,
    ) -> Result<(), NotCommitted> {
        match self.worker.call(command).await {
            Some(Response::Committed { pasts }) => {
                self.pasts.join(&pasts);
                if transaction.strong {
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

    /// Checks that the user may still do what the transaction has buffered. Each command was
    /// checked when it arrived, against the rules and the user of that time.
    ///
    /// # Errors
    /// If the user or the rules of the user have changed since then. The error names the change.
    fn may_commit(&self, then: Option<Arc<User>>) -> Result<(), String> {
        let now = self.identity.user();
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

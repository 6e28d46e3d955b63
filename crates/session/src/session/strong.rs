//! Strong transactions of a session: WATCH, SOLERA.BEGIN STRONG, and strong commands.

use std::time::Instant;

use solera_commands::CommandId;
use solera_config::{Baseline, Class};
use solera_data::{Key, Op, OpError, Outcome};
use solera_levels::Level;
use solera_unistore::{
    Command, CommandError, LONGEST_RETRY_WAIT, Pasts, RETRY_PAUSE, Response, TransactionId, TxId,
};

use super::ClientSession;
use super::conflict::{Conflict, PATIENCE};
use super::mode::{Current, Transaction};
use super::operations::{Failure, Results};
use super::queue::Runner;
use super::transaction::NotCommitted;
use crate::context::Context;
use crate::plan::{KeyOp, Plan};

/// A key that the next EXEC or SOLERA.BEGIN STRONG depends on, with its content at WATCH.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(super) key: Key,
    digest: Result<Outcome, OpError>,
}

/// Reason why a transaction that depends on watched keys was not begun.
pub(crate) enum NotBegun {
    /// The key has changed since WATCH.
    Changed(Key),
    /// Another error, as an error reply.
    Failed(String),
}

impl<W: Context> ClientSession<W> {
    /// Returns how certification must treat a command's operation.
    pub(crate) fn class_of(&self, command: CommandId, op: &KeyOp<'_>) -> Class {
        let spec = self.worker.spec();
        spec.protocol.class_of(&spec.spaces, &op.key, command, &op.op)
    }

    /// Returns whether a command outside a transaction runs as a strong transaction.
    pub(crate) fn is_strong(&self, plan: &Plan<'_>) -> bool {
        plan.ops.iter().any(|op| self.class_of(plan.command, op).strong)
    }

    /// Checks that a command may run in a strong or causal transaction.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) fn may_run(&self, plan: &Plan<'_>, strong: bool) -> Result<(), String> {
        self.fit_types(plan)?;
        let checks = self.worker.spec().protocol == Baseline::UniStore;
        for op in &plan.ops {
            if strong {
                self.may_be_strong(op)?;
            }
            let space = self.worker.spec().spaces.space_of(&op.key);
            let class = self.class_of(plan.command, op);
            let key = String::from_utf8_lossy(&op.key);
            let name = &space.name;
            // This holds for every protocol, because certification does not cover eventual writes.
            if strong && space.level == Level::Eventual && op.op.is_update() {
                return Err(format!(
                    "ERR '{key}' cannot be written in a strong transaction: its space '{name}' is eventual"
                ));
            }
            if !checks {
                continue;
            }
            if class.strong && !strong {
                return Err(format!(
                    "ERR this command needs agreement on '{key}', because space '{name}' is {}; a causal \
                     transaction provides none: use SOLERA.BEGIN STRONG",
                    space.level
                ));
            }
            if matches!(op.op, Op::SetNew(_)) && !strong {
                return Err(format!(
                    "ERR this command needs agreement on whether '{key}' exists; its space '{name}' is {} and \
                     provides none: use a key of a linearizable space, or SOLERA.BEGIN STRONG",
                    space.level
                ));
            }
        }
        Ok(())
    }

    /// Runs a strong command on one key. The worker retries it after aborts.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn execute_strong(
        &mut self,
        command: CommandId,
        op: &KeyOp<'_>,
    ) -> Result<Result<Outcome, OpError>, String> {
        self.worker.reach(&op.key).map_err(|error| error.to_string())?;
        let command = Command::ExecuteStrong {
            past: self.pasts.causal,
            key: (&*op.key).into(),
            op: op.op.clone(),
            kind: self.class_of(command, op).as_kind(),
        };
        let response = self.worker.call(command).await;
        self.executed(response)
    }

    /// Takes the response to a transaction of one operation.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) fn executed(
        &mut self,
        response: Option<Response>,
    ) -> Result<Result<Outcome, OpError>, String> {
        match response {
            Some(Response::Executed { outcome, pasts }) => {
                self.pasts.join(&pasts);
                Ok(outcome)
            }
            Some(Response::Failed(error)) => Err(self.error_reply(&error)),
            _ => Err(self.unanswered()),
        }
    }

    /// WATCH key …: makes EXEC do nothing, and SOLERA.BEGIN STRONG fail, if one of the keys has
    /// changed by then. Within a strong transaction, makes the commit fail if another strong
    /// transaction changes one of the keys.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn watch<'a>(
        &mut self,
        keys: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Result<(), String> {
        self.is_beside_primary(keys.clone())?;
        if self.mode.queue().is_some() {
            return Err("ERR WATCH inside MULTI is not allowed".to_owned());
        }
        match self.runner_of(keys.clone())? {
            Runner::Occult => return Box::pin(self.watch_on_occult(keys)).await,
            Runner::Speculative => return Box::pin(self.watch_on_speculative(keys)).await,
            Runner::UniStore => {}
        }
        // Baselines without certification accept WATCH and guarantee nothing.
        let transaction = self.mode.transaction();
        if transaction.is_some_and(|transaction| !transaction.strong)
            && self.worker.spec().protocol == Baseline::UniStore
        {
            return Err(
                "ERR WATCH needs agreement, and a causal transaction provides none: use SOLERA.BEGIN STRONG, or \
                 send WATCH before MULTI"
                    .to_owned(),
            );
        }
        self.wait_for_conflict().await;
        for key in keys {
            let space = self.worker.spec().spaces.space_of(key);
            if space.level == Level::Eventual {
                let (key, name) = (String::from_utf8_lossy(key), &space.name);
                return Err(format!(
                    "ERR '{key}' cannot be watched: its space '{name}' is eventual, and changes there have no order"
                ));
            }
            if let Some(Transaction { id, .. }) = transaction {
                if let Err(failure) = self.look(id, key).await {
                    let error = self.failure_reply(&failure);
                    self.give_up(error.clone());
                    return Err(error);
                }
                continue;
            }
            if self.watched.iter().any(|watched| watched.key.as_bytes() == key) {
                continue;
            }
            let op = KeyOp::new(key, Op::Digest);
            let digest = self.execute_causal(&op, Level::Causal).await?;
            self.watched.push(Watched { key: key.into(), digest });
        }
        Ok(())
    }

    /// Reads a key in the open transaction, which conflicts with changes of the key from now on.
    async fn look(&mut self, tx: TxId, key: &[u8]) -> Result<Result<Outcome, OpError>, Failure> {
        let op = KeyOp::new(key, Op::Digest);
        let kind = self.class_of(CommandId::Watch, &op).as_kind();
        self.operate(tx, &op, kind).await
    }

    /// SOLERA.BEGIN STRONG: begins a transaction that depends on the watched keys.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn begin_strong(&mut self) -> Result<(), String> {
        let watched = std::mem::take(&mut self.watched);
        match self.begin_watching(&watched).await {
            Ok(transaction) => {
                self.mode.finish();
                self.mode.open(Current::UniStore(transaction), self.identity.user());
                Ok(())
            }
            Err(NotBegun::Changed(key)) => {
                let key = String::from_utf8_lossy(key.as_bytes());
                Err(format!(
                    "ABORTED conflict on '{key}'; the key has changed since WATCH, no transaction was begun"
                ))
            }
            Err(NotBegun::Failed(error)) => Err(error),
        }
    }

    /// SOLERA.TXID: returns the name of the open strong transaction. With it, the client can ask
    /// for the outcome if the answer to the commit is lost.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn name_transaction(&mut self) -> Result<TransactionId, String> {
        let Some(Transaction { id: tx, strong: true }) = self.mode.transaction() else {
            return Err("ERR SOLERA.TXID needs an open strong transaction, and there is none: \
                        send SOLERA.BEGIN STRONG first"
                .to_owned());
        };
        match self.worker.call(Command::Name { tx }).await {
            Some(Response::Named(tid)) => Ok(tid),
            Some(Response::Failed(error)) => Err(self.error_reply(&error)),
            _ => Err(self.unanswered()),
        }
    }

    /// Begins a strong transaction that depends on the watched keys, and sets the session's mode to
    /// executing it.
    ///
    /// # Errors
    /// The reason why the transaction was not begun.
    pub(super) async fn begin_watching(
        &mut self,
        watched: &[Watched],
    ) -> Result<Transaction, NotBegun> {
        // These reads run at the workers that own the keys. They add to the session's past what
        // other sessions of this site have written to the keys, so the snapshot contains it.
        for Watched { key, digest } in watched {
            let op = KeyOp::new(key.as_bytes(), Op::Digest);
            match self.execute_causal(&op, Level::Causal).await {
                Ok(now) if now == *digest => {}
                Ok(_) => return Err(NotBegun::Changed(key.clone())),
                Err(error) => return Err(NotBegun::Failed(error)),
            }
        }
        let transaction = self.begin_transaction(true).await.map_err(NotBegun::Failed)?;
        self.mode.execute(Current::UniStore(transaction));
        for Watched { key, digest } in watched {
            let reason = match self.look(transaction.id, key.as_bytes()).await {
                Ok(now) if now == *digest => continue,
                Ok(_) => NotBegun::Changed(key.clone()),
                Err(failure) => NotBegun::Failed(self.failure_reply(&failure)),
            };
            self.mode.finish();
            self.worker.send(Command::Abort { tx: transaction.id });
            return Err(reason);
        }
        Ok(transaction)
    }

    /// Runs a command on several keys, such as MSET or DEL, as one strong transaction, because one
    /// of the keys needs agreement. Retries it after conflicts.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn run_as_strong_transaction(
        &mut self,
        plan: &Plan<'_>,
    ) -> Result<Results, String> {
        let began = Instant::now();
        loop {
            let transaction = self.begin_transaction(true).await?;
            self.mode.execute(Current::UniStore(transaction));
            let results = self.operate_all(transaction, plan).await;
            self.mode.finish();
            let results = results.map_err(|dropped| dropped.error)?;
            match self.try_commit(transaction, plan.ops.iter().any(|op| op.op.is_update())).await {
                Ok(()) => return Ok(results),
                Err(NotCommitted::Failed(CommandError::Aborted { .. }))
                    if began.elapsed() < PATIENCE =>
                {
                    self.pause_after_conflict().await;
                }
                Err(error) => return Err(self.commit_error(error)),
            }
        }
    }

    /// Waits until a retry of the transaction that was just aborted may succeed.
    pub(crate) async fn wait_for_conflict(&mut self) {
        if self.conflict.as_ref().is_some_and(|conflict| conflict.since.elapsed() >= PATIENCE) {
            // The conflict is too old to belong to the client's next transaction.
            self.conflict = None;
        }
        if let Some(past) = self.conflict.as_mut().and_then(|conflict| conflict.lacks.take()) {
            let timeout = Some(LONGEST_RETRY_WAIT);
            self.worker.call(Command::Attach { pasts: Pasts::causal(past), timeout }).await;
        }
    }

    /// Pauses between two attempts of the server.
    pub(super) async fn pause_after_conflict(&mut self) {
        match &self.conflict {
            Some(Conflict { lacks: Some(_), .. }) => self.wait_for_conflict().await,
            _ => tokio::time::sleep(RETRY_PAUSE).await,
        }
    }

    /// Returns the error reply for a failed operation.
    pub(crate) fn failure_reply(&self, failure: &Failure) -> String {
        match failure {
            Failure::Command(error) => self.error_reply(error),
            Failure::Unreachable(error) => error.to_string(),
            Failure::Unanswered => self.unanswered(),
        }
    }
}

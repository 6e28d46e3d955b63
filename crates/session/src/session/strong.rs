//! Strong transactions of a session: WATCH, SOLERA.BEGIN STRONG, and commands that are strong by
//! themselves.

use std::time::Instant;

use solera_commands::CommandId;
use solera_config::{Baseline, Class};
use solera_data::{Key, Op, OpError, Outcome};
use solera_levels::Level;
use solera_unistore::{
    Command, CommandError, LONGEST_RETRY_WAIT, Pasts, RETRY_PAUSE, Response, TransactionId, TxId,
};

use super::Session;
use super::conflict::{Conflict, PATIENCE};
use super::mode::Transaction;
use super::operations::{Failure, Results};
use super::transaction::NotCommitted;
use crate::context::Context;
use crate::plan::{KeyOp, Plan};

/// A key that the next EXEC or SOLERA.BEGIN STRONG depends on, and what it held.
#[derive(Debug)]
pub(crate) struct Watched {
    key: Key,
    digest: Result<Outcome, OpError>,
}

/// Why a transaction that depends on what was watched has not begun.
pub(crate) enum NotBegun {
    /// This key has changed since.
    Changed(Key),
    /// For this reason.
    Failed(String),
}

impl<W: Context> Session<W> {
    /// What a command's operation needs of certification.
    pub(crate) fn class_of(&self, command: CommandId, op: &KeyOp<'_>) -> Class {
        let spec = self.worker.spec();
        spec.protocol.class_of(&spec.spaces, &op.key, command, &op.op)
    }

    /// Whether a command is a strong transaction where it stands alone.
    pub(crate) fn is_strong(&self, plan: &Plan<'_>) -> bool {
        plan.ops.iter().any(|op| self.class_of(plan.command, op).strong)
    }

    /// Whether a command may run in a transaction of this kind.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) fn may_run(&self, plan: &Plan<'_>, strong: bool) -> Result<(), String> {
        let checks = self.worker.spec().protocol == Baseline::UniStore;
        for op in &plan.ops {
            let space = self.worker.spec().spaces.space_of(&op.key);
            let class = self.class_of(plan.command, op);
            let key = String::from_utf8_lossy(&op.key);
            let name = &space.name;
            // Whatever the protocol: certification knows nothing of eventual writes.
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
                    "ERR this needs agreement on '{key}' (space '{name}' is {}), which a causal transaction \
                     has not: use SOLERA.BEGIN STRONG",
                    space.level
                ));
            }
            if matches!(op.op, Op::SetNew(_)) && !strong {
                return Err(format!(
                    "ERR whether '{key}' exists takes agreement, which space '{name}' ({}) has not for this \
                     command: use a key of a linearizable space, or SOLERA.BEGIN STRONG",
                    space.level
                ));
            }
        }
        Ok(())
    }

    /// A strong command on one key. The worker executes it again when it aborts.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn execute_strong(
        &mut self,
        plan: &Plan<'_>,
        op: &KeyOp<'_>,
    ) -> Result<Result<Outcome, OpError>, String> {
        self.worker.reach(&op.key).map_err(|error| error.to_string())?;
        let command = Command::ExecuteStrong {
            past: self.pasts.causal,
            key: (&*op.key).into(),
            op: op.op.clone(),
            kind: self.class_of(plan.command, op).as_kind(),
        };
        match self.worker.call(command).await {
            Some(Response::Executed { outcome, pasts }) => {
                self.pasts.join(&pasts);
                Ok(outcome)
            }
            Some(Response::Failed(error)) => Err(self.told(&error)),
            _ => Err(self.unanswered()),
        }
    }

    /// WATCH key …: EXEC does nothing if one of them has changed by then, and SOLERA.BEGIN STRONG
    /// fails. In a strong transaction, its commit does if another strong transaction changes one of
    /// them.
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
        // What a protocol for comparisons certifies nothing of may be watched: there, nothing is
        // promised.
        let transaction = self.mode.transaction();
        if transaction.is_some_and(|transaction| !transaction.strong)
            && self.worker.spec().protocol == Baseline::UniStore
        {
            return Err(
                "ERR WATCH needs agreement, which a causal transaction has not: use SOLERA.BEGIN STRONG, or \
                 WATCH before MULTI"
                    .to_owned(),
            );
        }
        self.wait_for_conflict().await;
        for key in keys {
            if self.worker.spec().spaces.level_of(key) == Level::Eventual {
                let key = String::from_utf8_lossy(key);
                return Err(format!("ERR '{key}' is in an eventual space: nothing orders changes"));
            }
            if let Some(Transaction { id, .. }) = transaction {
                if let Err(failure) = self.look(id, key).await {
                    let error = self.told_failure(&failure);
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

    /// What a key holds in the open transaction, which conflicts with changes from now on.
    async fn look(&mut self, tx: TxId, key: &[u8]) -> Result<Result<Outcome, OpError>, Failure> {
        let op = KeyOp::new(key, Op::Digest);
        let kind = self.class_of(CommandId::Watch, &op).as_kind();
        self.operate(tx, &op, kind).await
    }

    /// SOLERA.BEGIN STRONG, which depends on the watched keys from here on.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn begin_strong(&mut self) -> Result<(), String> {
        let watched = std::mem::take(&mut self.watched);
        match self.begin_watching(&watched).await {
            Ok(transaction) => {
                self.mode.finish();
                self.mode.open(transaction, self.identity.user());
                Ok(())
            }
            Err(NotBegun::Changed(key)) => {
                let key = String::from_utf8_lossy(key.as_bytes());
                Err(format!(
                    "ABORTED conflict on '{key}'; it has changed since WATCH, nothing was begun"
                ))
            }
            Err(NotBegun::Failed(error)) => Err(error),
        }
    }

    /// SOLERA.TXID: the name of the open strong transaction, to ask for its outcome if the answer
    /// to its commit is lost.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn name_transaction(&mut self) -> Result<TransactionId, String> {
        let Some(Transaction { id: tx, strong: true }) = self.mode.transaction() else {
            return Err("ERR SOLERA.TXID names the open strong transaction, and there is none: \
                        SOLERA.BEGIN STRONG first"
                .to_owned());
        };
        match self.worker.call(Command::Name { tx }).await {
            Some(Response::Named(tid)) => Ok(tid),
            Some(Response::Failed(error)) => Err(self.told(&error)),
            _ => Err(self.unanswered()),
        }
    }

    /// Begins a strong transaction that depends on what was watched. The session is executing it
    /// from then on.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn begin_watching(
        &mut self,
        watched: &[Watched],
    ) -> Result<Transaction, NotBegun> {
        // Where the keys are, so that the snapshot has what others of this site have written to
        // them.
        for Watched { key, digest } in watched {
            let op = KeyOp::new(key.as_bytes(), Op::Digest);
            match self.execute_causal(&op, Level::Causal).await {
                Ok(now) if now == *digest => {}
                Ok(_) => return Err(NotBegun::Changed(key.clone())),
                Err(error) => return Err(NotBegun::Failed(error)),
            }
        }
        let transaction = self.begin_transaction(true).await.map_err(NotBegun::Failed)?;
        self.mode.execute(transaction);
        for Watched { key, digest } in watched {
            let reason = match self.look(transaction.id, key.as_bytes()).await {
                Ok(now) if now == *digest => continue,
                Ok(_) => NotBegun::Changed(key.clone()),
                Err(failure) => NotBegun::Failed(self.told_failure(&failure)),
            };
            self.mode.finish();
            self.worker.tell(Command::Abort { tx: transaction.id });
            return Err(reason);
        }
        Ok(transaction)
    }

    /// MSET, DEL, and others on several keys of which one needs agreement: one strong transaction,
    /// again after conflicts.
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
            self.mode.execute(transaction);
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
                Err(error) => return Err(self.told_commit(error)),
            }
        }
    }

    /// If the client is about to try again what has just aborted, waits until that may succeed.
    pub(crate) async fn wait_for_conflict(&mut self) {
        if self.conflict.as_ref().is_some_and(|conflict| conflict.since.elapsed() >= PATIENCE) {
            // It is about something else now.
            self.conflict = None;
        }
        if let Some(past) = self.conflict.as_mut().and_then(|conflict| conflict.lacks.take()) {
            let timeout = Some(LONGEST_RETRY_WAIT);
            self.worker.call(Command::Attach { pasts: Pasts::causal(past), timeout }).await;
        }
    }

    /// Between two attempts of the server.
    pub(super) async fn pause_after_conflict(&mut self) {
        match &self.conflict {
            Some(Conflict { lacks: Some(_), .. }) => self.wait_for_conflict().await,
            _ => tokio::time::sleep(RETRY_PAUSE).await,
        }
    }

    /// Why an operation could not be done, as clients are told.
    pub(crate) fn told_failure(&self, failure: &Failure) -> String {
        match failure {
            Failure::Command(error) => self.told(error),
            Failure::Unreachable(error) => error.to_string(),
            Failure::Unanswered => self.unanswered(),
        }
    }
}

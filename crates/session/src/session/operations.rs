//! Execution of commands on keys, in the open transaction or as one of their own.

use smallvec::{SmallVec, smallvec};
use solera_data::{OpError, Outcome};
use solera_levels::Level;
use solera_machine::Machine;
use solera_time::Vector;
use solera_unistore::{Command, CommandError, Input, Kind, Response, TxId};

use super::ClientSession;
use super::mode::{Current, Transaction};
use super::queue::Runner;
use crate::context::{Context, PeerTimeout, Unreachable};
use crate::plan::{self, KeyOp, Plan};

/// Result of each operation of a command, in order.
pub(crate) type Results = SmallVec<[Result<Outcome, OpError>; 1]>;

/// Reason why an operation of a transaction could not be done.
pub(crate) enum Failure {
    Command(CommandError),
    Unreachable(Unreachable),
    /// The worker gave no answer; see [`ClientSession::fail_unanswered`].
    Unanswered,
}

/// Reason why a command on keys has no result, as an error reply.
pub(crate) enum Stopped {
    /// The command was rejected or failed. Its transaction continues.
    Alone(String),
    /// The command's transaction was aborted.
    Aborted(Dropped),
}

/// A transaction that was aborted because one of its operations could not be done.
pub(crate) struct Dropped {
    /// The error reply.
    pub(crate) error: String,
    /// Whether the worker gave the reason. Otherwise the answer to the commit may contain it.
    pub(crate) is_answered: bool,
}

impl Stopped {
    /// Returns the error reply.
    pub(crate) fn into_error(self) -> String {
        match self {
            Stopped::Alone(error) | Stopped::Aborted(Dropped { error, .. }) => error,
        }
    }
}

impl From<String> for Stopped {
    fn from(error: String) -> Self {
        Stopped::Alone(error)
    }
}

impl<W: Context> ClientSession<W> {
    /// Runs a command on keys, in the open transaction or as a transaction of its own. An open
    /// transaction is given up if the command aborts it.
    ///
    /// # Errors
    /// The error reply. Nothing was done, or the effect is unknown.
    pub(crate) async fn run_plan(&mut self, plan: &Plan<'_>) -> Result<Results, Stopped> {
        if self.is_for_primary(plan) {
            return Ok(Box::pin(self.run_on_primary(plan)).await?);
        }
        match self.runner_of(plan.keys())? {
            Runner::Occult => return Box::pin(self.run_on_occult(plan)).await,
            Runner::Speculative => return Ok(Box::pin(self.run_on_speculative(plan)).await?),
            Runner::UniStore => {}
        }
        if let Some(transaction) = self.mode.transaction() {
            self.may_run(plan, transaction.strong)?;
            let results = self.operate_all(transaction, plan).await;
            return results.map_err(|dropped| {
                // The transaction is aborted already.
                self.mode.give_up(dropped.error.clone());
                Stopped::Aborted(dropped)
            });
        }
        Ok(self.run_alone(plan).await?)
    }

    /// Runs a command on keys as a transaction of its own.
    ///
    /// # Errors
    /// The error reply. Nothing was done, or the effect is unknown.
    async fn run_alone(&mut self, plan: &Plan<'_>) -> Result<Results, String> {
        let strong = self.is_strong(plan);
        if let Err(refused) = self.may_run(plan, strong) {
            return match self.misfit(plan) {
                Some(probe) => self.delete_misfit(plan, &probe, refused).await,
                None => Err(refused),
            };
        }
        if let [single] = plan.ops.as_slice() {
            let result = match strong {
                true => self.execute_strong(plan.command, single).await?,
                false => {
                    let level = self.worker.spec().spaces.level_of(&single.key);
                    self.execute_causal(single, level).await?
                }
            };
            Ok(smallvec![result])
        } else if strong {
            self.run_as_strong_transaction(plan).await
        } else {
            self.run_as_transaction(plan).await
        }
    }

    /// Runs DEL on a key if `probe` fails on it, and returns the error `refused` otherwise.
    ///
    /// # Errors
    /// The error reply.
    async fn delete_misfit(
        &mut self,
        plan: &Plan<'_>,
        probe: &Plan<'_>,
        refused: String,
    ) -> Result<Results, String> {
        // In one snapshot: an update that makes the value one of the type is not deleted.
        let transaction = self.begin_transaction(false).await?;
        self.mode.execute(Current::UniStore(transaction));
        let deleted = match self.operate_all(transaction, probe).await {
            Ok(results) if results.iter().all(Result::is_err) => {
                self.operate_all(transaction, plan).await.map_err(|dropped| dropped.error)
            }
            Ok(_) => {
                self.worker.send(Command::Abort { tx: transaction.id });
                Err(refused)
            }
            Err(dropped) => Err(dropped.error),
        };
        self.mode.finish();
        let results = deleted?;
        self.commit(transaction, true).await?;
        Ok(results)
    }

    /// Runs MGET, MSET or another command on several keys as one atomic causal transaction.
    async fn run_as_transaction(&mut self, plan: &Plan<'_>) -> Result<Results, String> {
        let transaction = self.begin_transaction(false).await?;
        self.mode.execute(Current::UniStore(transaction));
        let results = self.operate_all(transaction, plan).await;
        self.mode.finish();
        let results = results.map_err(|dropped| dropped.error)?;
        self.commit(transaction, plan.ops.iter().any(|op| op.op.is_update())).await?;
        Ok(results)
    }

    /// Begins a transaction that sees the session's causal past. The caller must record it in the
    /// mode; otherwise it is not ended when the connection ends.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn begin_transaction(&self, strong: bool) -> Result<Transaction, String> {
        self.begin_transaction_after(self.pasts.causal, strong).await
    }

    /// Begins a transaction that sees a past, which contains the session's causal past.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn begin_transaction_after(
        &self,
        past: Vector,
        strong: bool,
    ) -> Result<Transaction, String> {
        match self.worker.call(Command::Begin { past, strong }).await {
            Some(Response::Begun(id)) => Ok(Transaction { id, strong }),
            _ => Err(self.unanswered()),
        }
    }

    /// Runs a command's operations in a transaction. Aborts the transaction if one of them cannot
    /// be done.
    ///
    /// # Errors
    /// The reason for the abort.
    pub(crate) async fn operate_all(
        &mut self,
        transaction: Transaction,
        plan: &Plan<'_>,
    ) -> Result<Results, Dropped> {
        let tx = transaction.id;
        let mut results = Results::with_capacity(plan.ops.len());
        for op in &plan.ops {
            let kind = self.class_of(plan.command, op).as_kind();
            match self.operate(tx, op, kind).await {
                Ok(result) => results.push(result),
                Err(failure) => {
                    // Nothing of a transaction takes effect before it commits.
                    self.worker.send(Command::Abort { tx });
                    let is_answered = !matches!(failure, Failure::Unanswered);
                    return Err(Dropped { error: self.failure_reply(&failure), is_answered });
                }
            }
        }
        Ok(results)
    }

    pub(crate) async fn operate(
        &mut self,
        tx: TxId,
        op: &KeyOp<'_>,
        kind: Kind,
    ) -> Result<Result<Outcome, OpError>, Failure> {
        let owner = self.worker.reach(&op.key).map_err(Failure::Unreachable)?;
        let command = Command::Operate {
            tx,
            level: self.worker.spec().spaces.level_of(&op.key),
            key: (&*op.key).into(),
            op: op.op.clone(),
            kind,
        };
        let request = self.worker.new_request();
        let now = self.worker.now();
        self.worker.with(|replica| replica.handle(now, Input::Client { request, command }));
        match self.worker.reply_about(request, owner).await {
            Ok(Some(Response::Operated(result))) => Ok(result),
            Ok(Some(Response::Failed(error))) => Err(Failure::Command(error)),
            Ok(_) => Err(Failure::Unanswered),
            Err(PeerTimeout(node)) => Err(Failure::Unreachable(Unreachable(node))),
        }
    }

    /// Runs one operation as a causal transaction. For a key of this worker it costs no more than
    /// the call.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn execute_causal(
        &mut self,
        op: &KeyOp<'_>,
        level: Level,
    ) -> Result<Result<Outcome, OpError>, String> {
        let owner = self.worker.reach(&op.key).map_err(|error| error.to_string())?;
        let request = self.worker.new_request();
        let (now, pasts) = (self.now, &mut self.pasts);
        let executed = self
            .worker
            .with(|replica| replica.execute(now, request, pasts, level, &op.key, &op.op));
        if let Some(executed) = executed {
            return Ok(executed);
        }
        match self.worker.reply_about(request, owner).await {
            Ok(Some(Response::Executed { outcome, pasts })) => {
                self.pasts.join(&pasts);
                Ok(outcome)
            }
            Ok(Some(Response::Failed(error))) => Err(self.error_reply(&error)),
            Ok(_) => Err(self.unanswered()),
            Err(PeerTimeout(node)) if op.op.is_update() => {
                Err(format!("UNKNOWN {node} does not answer; the command may have been done"))
            }
            Err(PeerTimeout(node)) => Err(Unreachable(node).to_string()),
        }
    }

    pub(crate) fn answer(&mut self, plan: &Plan<'_>, results: &[Result<Outcome, OpError>]) {
        if !plan::write_results(&mut self.out, plan, results) {
            self.worker.count_error();
        }
    }
}

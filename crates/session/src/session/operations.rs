//! Commands on keys: in the open transaction, or as one of their own.

use solera_data::{OpError, Outcome};
use solera_levels::Level;
use solera_machine::Machine;
use solera_unistore::{Command, CommandError, Input, Kind, Response, TxId};

use super::Session;
use crate::context::{Context, Silent, Unreachable};
use crate::plan::{self, KeyOp, Plan};

/// Why an operation of a transaction could not be done.
pub(crate) enum Failure {
    Command(CommandError),
    Unreachable(Unreachable),
    /// See [`Session::fail_unanswered`].
    Unanswered,
}

impl<W: Context> Session<W> {
    /// Runs a command on keys: in the open transaction, or as one of its own.
    pub(crate) async fn run_plan(&mut self, plan: &Plan<'_>) {
        if let Some(tx) = self.tx {
            match self.may_run(plan, self.tx_is_strong) {
                Ok(()) => self.run_in(tx, plan).await,
                Err(error) => self.fail(error),
            }
            return;
        }
        let strong = self.is_strong(plan);
        if let Err(error) = self.may_run(plan, strong) {
            return self.fail(error);
        }
        if let [single] = plan.ops.as_slice() {
            let result = match strong {
                true => self.execute_strong(plan, single).await,
                false => {
                    let level = self.worker.spec().spaces.level_of(single.key);
                    self.execute_causal(single, level).await
                }
            };
            if let Some(result) = result {
                self.answer(plan, &[result]);
            }
        } else if strong {
            self.run_as_strong_transaction(plan).await;
        } else {
            self.run_as_transaction(plan).await;
        }
    }

    async fn run_in(&mut self, tx: TxId, plan: &Plan<'_>) {
        if let Some(results) = self.operate_all(tx, plan).await {
            self.answer(plan, &results);
        }
    }

    /// MGET, MSET, and others on several keys: one atomic causal transaction.
    async fn run_as_transaction(&mut self, plan: &Plan<'_>) {
        let Some(Response::Begun(tx)) =
            self.worker.call(Command::Begin { past: self.pasts.causal, strong: false }).await
        else {
            return self.fail_unanswered();
        };
        // If the connection ends meanwhile, the transaction ends with it.
        (self.tx, self.tx_is_strong) = (Some(tx), false);
        let results = self.operate_all(tx, plan).await;
        self.tx = None;
        if let Some(results) = results
            && self.commit(tx, plan.ops.iter().any(|op| op.op.is_update())).await
        {
            self.answer(plan, &results);
        }
    }

    /// Runs a command's operations in a transaction. If the server has given the transaction up,
    /// appends the error and leaves the transaction.
    pub(crate) async fn operate_all(
        &mut self,
        tx: TxId,
        plan: &Plan<'_>,
    ) -> Option<Vec<Result<Outcome, OpError>>> {
        let mut results = Vec::with_capacity(plan.ops.len());
        for op in &plan.ops {
            let kind = self.class_of(plan.command, op).as_kind();
            match self.operate(tx, op, kind).await {
                Ok(result) => results.push(result),
                Err(failure) => {
                    self.tx = None;
                    match failure {
                        Failure::Command(error) => {
                            self.worker.tell(Command::Abort { tx });
                            let text = self.told(&error);
                            self.fail(&text);
                            self.exec_failed = Some(text);
                        }
                        Failure::Unreachable(error) => {
                            // Nothing of a transaction is done before it commits.
                            self.worker.tell(Command::Abort { tx });
                            self.fail(error.to_string());
                            self.exec_failed = Some(error.to_string());
                        }
                        Failure::Unanswered => {
                            self.worker.tell(Command::Abort { tx });
                            self.fail_unanswered();
                        }
                    }
                    return None;
                }
            }
        }
        Some(results)
    }

    pub(crate) async fn operate(
        &mut self,
        tx: TxId,
        op: &KeyOp<'_>,
        kind: Kind,
    ) -> Result<Result<Outcome, OpError>, Failure> {
        let owner = self.worker.reach(op.key).map_err(Failure::Unreachable)?;
        let command = Command::Operate {
            tx,
            level: self.worker.spec().spaces.level_of(op.key),
            key: op.key.into(),
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
            Err(Silent(node)) => Err(Failure::Unreachable(Unreachable(node))),
        }
    }

    /// A transaction of one operation: the hot path. A key of this worker costs no more than the call.
    pub(crate) async fn execute_causal(
        &mut self,
        op: &KeyOp<'_>,
        level: Level,
    ) -> Option<Result<Outcome, OpError>> {
        let owner = match self.worker.reach(op.key) {
            Ok(owner) => owner,
            Err(error) => {
                self.fail(error.to_string());
                return None;
            }
        };
        let request = self.worker.new_request();
        let (now, pasts) = (self.now, &mut self.pasts);
        let executed =
            self.worker.with(|replica| replica.execute(now, request, pasts, level, op.key, &op.op));
        if executed.is_some() {
            return executed;
        }
        match self.worker.reply_about(request, owner).await {
            Ok(Some(Response::Executed { outcome, pasts })) => {
                self.pasts.join(&pasts);
                return Some(outcome);
            }
            Ok(Some(Response::Failed(error))) => self.fail_command(&error),
            Ok(_) => self.fail_unanswered(),
            Err(Silent(node)) if op.op.is_update() => {
                self.fail(format!(
                    "UNKNOWN {node} does not answer; the command may have been done"
                ));
            }
            Err(Silent(node)) => self.fail(Unreachable(node).to_string()),
        }
        None
    }

    pub(crate) fn answer(&mut self, plan: &Plan<'_>, results: &[Result<Outcome, OpError>]) {
        if !plan::write_results(&mut self.out, plan, results) {
            self.worker.count_error();
        }
    }
}

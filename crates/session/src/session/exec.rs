//! MULTI and EXEC: commands are queued, then run in one transaction.

use std::time::Instant;

use solera_commands::{Command as Described, CommandId, Unit};
use solera_resp::Arguments;
use solera_unistore::CommandError;

use super::ClientSession;
use super::conflict::PATIENCE;
use super::mode::Current;
use super::operations::{Dropped, Stopped};
use super::queue::{QUEUE_BYTES, Queue, Queued, Runner, Work};
use super::strong::{NotBegun, Watched};
use super::transaction::NotCommitted;
use crate::context::Context;
use crate::plan::Plan;

/// Most attempts of a causal transaction after the first one.
const MOST_RETRIES: u8 = 4;

/// Result of one attempt to run a queue.
enum Executed {
    Done,
    /// Another transaction conflicted, or a watched key has changed.
    Conflict,
    /// Nothing was done, for this reason.
    Failed(String),
}

impl<W: Context> ClientSession<W> {
    /// Queues a command for EXEC and appends the reply. Without `work`, the command is not allowed
    /// in a queue.
    pub(crate) fn enqueue(
        &mut self,
        command: &'static Described,
        arguments: &Arguments<'_>,
        work: Option<Work<W>>,
    ) {
        if command.id == CommandId::Watch {
            return self.fail("ERR WATCH inside MULTI is not allowed");
        }
        let Some(work) = work else {
            let name = command.name;
            return self.spoil(&format!("ERR Command not allowed inside a transaction: '{name}'"));
        };
        let plan = work.plan();
        if let Err(error) = self.is_beside_primary(plan.into_iter().flat_map(Plan::keys)) {
            return self.spoil(&error);
        }
        if let Some(plan) = plan
            && let Err(error) = self.note_runner(plan).and_then(|()| self.fit_types(plan))
        {
            return self.spoil(&error);
        }
        let plan = work.plan();
        let strong = plan.is_some_and(|plan| self.is_strong(plan));
        let other_keys = match work {
            Work::Keys(_) => Vec::new(),
            Work::Other(_) | Work::Wrong(_) => {
                command.keys(arguments.from(0)).map(<[u8]>::to_vec).collect()
            }
        };
        let queued = Queued { command, other_keys, work };
        if let Some(queue) = self.mode.queue_mut()
            && queue.push(queued, arguments)
        {
            queue.strong |= strong;
            self.out.simple("QUEUED");
        } else {
            self.spoil(&format!(
                "ERR the commands since MULTI take more than {} MiB together; nothing will be done",
                QUEUE_BYTES >> 20
            ));
        }
    }

    /// EXEC: runs all queued commands in one transaction. It is strong if a key is watched or a
    /// command needs agreement, and causal otherwise.
    pub(crate) async fn exec(&mut self) {
        let Some(queue) = self.mode.end_queue() else {
            self.fail("ERR EXEC without MULTI");
            return;
        };
        if queue.broken {
            self.unwatch();
            self.fail("EXECABORT Transaction discarded because of previous errors.");
            return;
        }
        if queue.runner == Some(Runner::Speculative) || self.speculative.watches() {
            return Box::pin(self.exec_on_speculative(&queue)).await;
        }
        if queue.runner == Some(Runner::Occult) || self.occult.watches() {
            return Box::pin(self.exec_on_occult(&queue)).await;
        }
        if self.worker.spec().protocol.certifies(queue.strong || !self.watched.is_empty()) {
            if let Err(error) = self.may_all_be_strong(&queue) {
                self.watched.clear();
                return self.fail(format!("EXECABORT Transaction discarded because of: {error}"));
            }
            return self.exec_strong(&queue).await;
        }
        match self.exec_causal(&queue).await {
            Ok(replies) => self.out.bytes.extend_from_slice(&replies),
            Err(error) => self.fail(error),
        }
    }

    /// Runs a queue as one causal transaction and returns the replies of its commands. If tokens or
    /// rights arrive while it commits that its snapshot does not contain, it runs again with a
    /// later snapshot.
    ///
    /// # Errors
    /// The error reply.
    async fn exec_causal(&mut self, queue: &Queue<W>) -> Result<Vec<u8>, String> {
        let mut past = self.pasts.causal;
        let mut retries = 0;
        loop {
            let transaction = self.begin_transaction_after(past, false).await?;
            self.mode.execute(Current::UniStore(transaction));
            let replies = self.run_queued(queue).await?;
            match self.try_commit(transaction, queue.writes).await {
                Ok(()) => return Ok(replies),
                Err(NotCommitted::Failed(CommandError::Guarded { later: Some(later), .. }))
                    if retries < MOST_RETRIES =>
                {
                    past.join(&later);
                    retries += 1;
                }
                Err(error) => return Err(self.commit_error(error)),
            }
        }
    }

    /// Runs a queue as one strong transaction. Retries after conflicts if no key is watched,
    /// because the commands then do not depend on what the client has read.
    async fn exec_strong(&mut self, queue: &Queue<W>) {
        let watched = std::mem::take(&mut self.watched);
        if !watched.is_empty() {
            // Otherwise strong reads between WATCH and EXEC would wait for keys that are reserved
            // for this EXEC.
            self.conflict = None;
        }
        let began = Instant::now();
        loop {
            match self.exec_strong_once(queue, &watched).await {
                Executed::Done => return,
                Executed::Failed(error) => return self.fail(error),
                Executed::Conflict if !watched.is_empty() || began.elapsed() >= PATIENCE => {
                    return self.out.null_array();
                }
                Executed::Conflict => self.pause_after_conflict().await,
            }
        }
    }

    async fn exec_strong_once(&mut self, queue: &Queue<W>, watched: &[Watched]) -> Executed {
        let transaction = match self.begin_watching(watched).await {
            Ok(transaction) => transaction,
            Err(NotBegun::Changed(_)) => return Executed::Conflict,
            Err(NotBegun::Failed(error)) => return Executed::Failed(error),
        };
        let replies = match self.run_queued(queue).await {
            Ok(replies) => replies,
            Err(error) => return Executed::Failed(error),
        };
        match self.try_commit(transaction, queue.writes).await {
            Ok(()) => {
                self.out.bytes.extend_from_slice(&replies);
                Executed::Done
            }
            Err(NotCommitted::Failed(CommandError::Aborted { .. })) => Executed::Conflict,
            Err(error) => Executed::Failed(self.commit_error(error)),
        }
    }

    /// Runs the queued commands in the transaction of [`Mode::Executing`](super::mode::Mode), and
    /// leaves this mode. Returns the replies of the commands.
    ///
    /// # Errors
    /// The reason why the transaction was aborted. Returns `Ok` if the worker gave no reason,
    /// because the answer to the commit will contain one.
    pub(super) async fn run_queued(&mut self, queue: &Queue<W>) -> Result<Vec<u8>, String> {
        let before = std::mem::take(&mut self.out.bytes);
        self.out.array(queue.commands.len());
        let mut aborted = None;
        for queued in &queue.commands {
            aborted = self.run_one(queued).await;
            // No later command may run outside the aborted transaction.
            if aborted.is_some() {
                break;
            }
        }
        self.mode.finish();
        let replies = std::mem::replace(&mut self.out.bytes, before);
        match aborted {
            Some(Dropped { error, is_answered: true }) => Err(error),
            Some(Dropped { is_answered: false, .. }) | None => Ok(replies),
        }
    }

    /// Runs one queued command and appends its reply. Returns the reason if the command aborted the
    /// transaction.
    async fn run_one(&mut self, queued: &Queued<W>) -> Option<Dropped> {
        // Rights may have changed since the command was queued.
        if let Err(refused) = self.may_use(Unit::of(queued.command, None), queued.keys()) {
            self.fail(refused.in_exec());
            return None;
        }
        let plan = match &queued.work {
            Work::Keys(plan) => plan,
            Work::Other(command) => {
                command.run(self).await;
                return None;
            }
            Work::Wrong(error) => {
                self.fail(error);
                return None;
            }
        };
        match self.run_plan(plan).await {
            Ok(results) => self.answer(plan, &results),
            Err(Stopped::Alone(error)) => self.fail(error),
            Err(Stopped::Aborted(dropped)) => {
                self.fail(&dropped.error);
                return Some(dropped);
            }
        }
        None
    }
}

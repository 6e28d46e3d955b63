//! MULTI and EXEC: commands that are queued, and then run in one transaction.

use solera_commands::{Command as Described, CommandId, lookup};
use solera_resp::Arguments;
use solera_unistore::{Command, Response};

use super::Session;
use crate::context::Context;
use crate::plan;

/// What the commands between MULTI and EXEC may take together, in bytes.
const QUEUE_BYTES: usize = 64 << 20;
/// What an argument takes beside its own bytes.
const ARGUMENT_BYTES: usize = 32;

/// A queue between MULTI and EXEC.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) commands: Vec<Vec<Vec<u8>>>,
    bytes: usize,
    pub(crate) broken: bool,
    /// Whether one of the commands needs agreement.
    strong: bool,
    /// Whether one of the commands may write.
    pub(crate) writes: bool,
}

impl Queue {
    /// Whether there was room for the command. If there was not, the queue is of no use any more.
    fn push(&mut self, arguments: &Arguments<'_>) -> bool {
        let bytes = arguments.from(0).map(|argument| argument.len() + ARGUMENT_BYTES);
        self.bytes += ARGUMENT_BYTES + bytes.sum::<usize>();
        if self.bytes > QUEUE_BYTES {
            self.commands = Vec::new();
        } else if !self.broken {
            self.commands.push(arguments.from(0).map(<[u8]>::to_vec).collect());
        }
        self.bytes <= QUEUE_BYTES
    }
}

impl<W: Context> Session<W> {
    pub(crate) fn enqueue(&mut self, command: &Described, arguments: &Arguments<'_>) {
        let inside = command.is_data() || is_allowed_in_exec(command.id);
        // What makes no sense is told when it is run, as Redis does.
        let plan = command.is_data().then(|| plan::plan(command.id, arguments).ok()).flatten();
        let keys = plan.iter().flat_map(|plan| &plan.ops).map(|op| op.key);
        if let Err(error) = self.is_beside_primary(keys) {
            return self.spoil(&error);
        }
        let strong = plan.is_some_and(|plan| self.is_strong(&plan));
        if command.id == CommandId::Watch {
            self.fail("ERR WATCH inside MULTI is not allowed");
        } else if !inside {
            let name = command.name;
            self.spoil(&format!("ERR Command not allowed inside a transaction: '{name}'"));
        } else if self.queue.as_mut().is_some_and(|queue| queue.push(arguments)) {
            if let Some(queue) = &mut self.queue {
                queue.strong |= strong;
                queue.writes |= command.has_flag("write");
            }
            self.out.simple("QUEUED");
        } else {
            self.spoil(&format!(
                "ERR the commands since MULTI take more than {} MiB together; nothing will be done",
                QUEUE_BYTES >> 20
            ));
        }
    }

    /// EXEC: all queued commands in one transaction, which is certified if a key is watched or a command
    /// needs agreement, and causal else.
    pub(crate) async fn exec(&mut self) {
        let Some(queue) = self.queue.take() else {
            self.fail("ERR EXEC without MULTI");
            return;
        };
        if queue.broken {
            self.watched.clear();
            self.fail("EXECABORT Transaction discarded because of previous errors.");
            return;
        }
        if self.worker.spec().protocol.certifies(queue.strong || !self.watched.is_empty()) {
            return self.exec_strong(&queue).await;
        }
        let Some(Response::Begun(tx)) =
            self.worker.call(Command::Begin { past: self.pasts.causal, strong: false }).await
        else {
            return self.fail_unanswered();
        };
        let before = std::mem::take(&mut self.out.bytes);
        (self.tx, self.tx_is_strong) = (Some(tx), false);
        self.run_queued(&queue).await;
        self.tx = None;
        let replies = std::mem::replace(&mut self.out.bytes, before);
        if let Some(error) = self.exec_failed.take() {
            return self.fail(error);
        }
        match self.commit(tx, queue.writes).await {
            Ok(()) => self.out.bytes.extend_from_slice(&replies),
            Err(error) => self.fail(error),
        }
    }

    /// Runs the queued commands in the open transaction.
    pub(crate) async fn run_queued(&mut self, queue: &Queue) {
        self.out.array(queue.commands.len());
        self.exec_failed = None;
        for command in &queue.commands {
            // The server has given the transaction up: nothing of it may run outside. Its commit
            // below tells the client.
            if self.tx.is_none() {
                break;
            }
            let mut bytes = Vec::new();
            solera_resp::encode_command(&mut bytes, command);
            let mut parser = solera_resp::RequestParser::new();
            if let Ok(Some((arguments, _))) = parser.next(&bytes)
                && let Some(command) = lookup(arguments.get(0))
            {
                // Users may have changed since it was queued.
                if let Err(refused) = self.may(command, &arguments) {
                    self.fail(refused.in_exec());
                    continue;
                }
                Box::pin(self.dispatch(command, &arguments)).await;
            }
        }
    }
}

/// Whether a command that is not about keys may be queued between MULTI and EXEC.
fn is_allowed_in_exec(command: CommandId) -> bool {
    matches!(
        command,
        CommandId::Ping
            | CommandId::Echo
            | CommandId::Time
            | CommandId::Unwatch
            | CommandId::Info
            | CommandId::Dbsize
            | CommandId::SoleraSite
            | CommandId::SoleraSpaces
            | CommandId::SoleraLevel
    )
}

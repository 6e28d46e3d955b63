//! Commands that are queued between MULTI and EXEC.

use std::pin::Pin;

use solera_commands::Command as Described;
use solera_resp::Arguments;

use super::ClientSession;
use crate::plan::Plan;

/// Maximal size in bytes of all commands between MULTI and EXEC.
pub(super) const QUEUE_BYTES: usize = 64 << 20;
/// Bytes that an argument counts in addition to its length.
const ARGUMENT_BYTES: usize = 32;

/// A protocol that runs all keys of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runner {
    /// UniStore, and the protocols without transactions.
    UniStore,
    /// Occult: keys of level `pcpsi`.
    Occult,
    /// Creek: keys of level `speculative`.
    Speculative,
}

impl Runner {
    /// Returns the level of its keys, if it has only one.
    pub(super) fn level(self) -> Option<&'static str> {
        match self {
            Runner::UniStore => None,
            Runner::Occult => Some("pcpsi"),
            Runner::Speculative => Some("speculative"),
        }
    }
}

/// A queue between MULTI and EXEC.
pub(crate) struct Queue<W> {
    pub(crate) commands: Vec<Queued<W>>,
    bytes: usize,
    /// Whether an error occurred before EXEC, which then runs nothing.
    pub(crate) broken: bool,
    /// Whether one of the commands needs agreement.
    pub(super) strong: bool,
    /// The protocol that runs the commands on keys; `None` before the first one.
    pub(super) runner: Option<Runner>,
    /// Whether one of the commands may write.
    pub(crate) writes: bool,
}

/// A command in a queue.
pub(crate) struct Queued<W> {
    /// The command's entry in the table, with which EXEC checks the user's rights again.
    pub(super) command: &'static Described,
    /// Keys that [`Work`] does not contain, for the same check.
    pub(super) other_keys: Vec<Vec<u8>>,
    pub(super) work: Work<W>,
}

/// Work that EXEC does for a command.
pub(crate) enum Work<W> {
    /// A command on keys.
    Keys(Plan<'static>),
    /// Any other command.
    Other(Box<dyn Later<W>>),
    /// A command with invalid arguments. EXEC answers this error, as Redis does.
    Wrong(String),
}

/// A parsed command that runs later. EXEC may run it several times after conflicts.
pub(crate) trait Later<W> {
    /// Runs the command and appends its reply.
    fn run<'a>(
        &'a self,
        session: &'a mut ClientSession<W>,
    ) -> Pin<Box<dyn Future<Output = ()> + 'a>>;
}

impl<W> Queue<W> {
    /// Queues a command with these arguments. Returns whether there was room. If there was none,
    /// the queue is empty and must not be run.
    pub(super) fn push(&mut self, queued: Queued<W>, arguments: &Arguments<'_>) -> bool {
        let bytes = arguments.from(0).map(|argument| argument.len() + ARGUMENT_BYTES);
        self.bytes += ARGUMENT_BYTES + bytes.sum::<usize>();
        if self.bytes > QUEUE_BYTES {
            self.commands = Vec::new();
            return false;
        }
        self.writes |= queued.command.has_flag("write");
        if !self.broken {
            self.commands.push(queued);
        }
        true
    }
}

impl<W> Default for Queue<W> {
    fn default() -> Self {
        Queue {
            commands: Vec::new(),
            bytes: 0,
            broken: false,
            strong: false,
            runner: None,
            writes: false,
        }
    }
}

impl<W> Work<W> {
    /// Returns the plan of a command on keys.
    pub(super) fn plan(&self) -> Option<&Plan<'static>> {
        match self {
            Work::Keys(plan) => Some(plan),
            Work::Other(_) | Work::Wrong(_) => None,
        }
    }
}

impl<W> Queued<W> {
    /// Returns the keys that the user must be allowed to use.
    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let planned = self.work.plan().into_iter().flat_map(Plan::keys);
        planned.chain(self.other_keys.iter().map(Vec::as_slice))
    }
}

//! Commands that are queued between MULTI and EXEC.

use std::pin::Pin;

use solera_commands::Command as Described;
use solera_resp::Arguments;

use super::Session;
use crate::plan::Plan;

/// What the commands between MULTI and EXEC may take together, in bytes.
pub(super) const QUEUE_BYTES: usize = 64 << 20;
/// What an argument takes beside its own bytes.
const ARGUMENT_BYTES: usize = 32;

/// A queue between MULTI and EXEC.
pub(crate) struct Queue<W> {
    pub(crate) commands: Vec<Queued<W>>,
    bytes: usize,
    /// Whether an error came before EXEC, which then runs nothing.
    pub(crate) broken: bool,
    /// Whether one of the commands needs agreement.
    pub(super) strong: bool,
    /// Whether one of the commands may write.
    pub(crate) writes: bool,
}

/// A command in a queue.
pub(crate) struct Queued<W> {
    /// Its line in the table, by which EXEC checks again whether the user may run it.
    pub(super) command: &'static Described,
    /// The keys that [`Work`] does not name, for the same check.
    pub(super) other_keys: Vec<Vec<u8>>,
    pub(super) work: Work<W>,
}

/// What EXEC has to do for a command.
pub(crate) enum Work<W> {
    /// It reads or changes keys.
    Keys(Plan<'static>),
    /// It does something else.
    Other(Box<dyn Later<W>>),
    /// Its arguments make no sense: EXEC answers this error, as in Redis.
    Wrong(String),
}

/// A command that is run after it was parsed. EXEC may run it several times, if other transactions
/// are in the way.
pub(crate) trait Later<W> {
    /// Runs the command and appends its reply.
    fn run<'a>(&'a self, session: &'a mut Session<W>) -> Pin<Box<dyn Future<Output = ()> + 'a>>;
}

impl<W> Queue<W> {
    /// Queues a command that came with these arguments. Returns whether there was room; if not, the
    /// queue is of no use any more.
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
        Queue { commands: Vec::new(), bytes: 0, broken: false, strong: false, writes: false }
    }
}

impl<W> Work<W> {
    /// The plan of a command on keys.
    pub(super) fn plan(&self) -> Option<&Plan<'static>> {
        match self {
            Work::Keys(plan) => Some(plan),
            Work::Other(_) | Work::Wrong(_) => None,
        }
    }
}

impl<W> Queued<W> {
    /// The keys that the user must be allowed to use.
    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let planned = self.work.plan().into_iter().flat_map(Plan::keys);
        planned.chain(self.other_keys.iter().map(Vec::as_slice))
    }
}

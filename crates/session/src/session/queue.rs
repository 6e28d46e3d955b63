//! Commands that are queued between MULTI and EXEC.

use solera_resp::Arguments;

/// What the commands between MULTI and EXEC may take together, in bytes.
pub(super) const QUEUE_BYTES: usize = 64 << 20;
/// What an argument takes beside its own bytes.
const ARGUMENT_BYTES: usize = 32;

/// A queue between MULTI and EXEC.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) commands: Vec<Vec<Vec<u8>>>,
    bytes: usize,
    pub(crate) broken: bool,
    /// Whether one of the commands needs agreement.
    pub(super) strong: bool,
    /// Whether one of the commands may write.
    pub(crate) writes: bool,
}

impl Queue {
    /// Whether there was room for the command. If there was not, the queue is of no use any more.
    pub(super) fn push(&mut self, arguments: &Arguments<'_>) -> bool {
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

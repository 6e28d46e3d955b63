//! The contract between protocol state machines and their hosts.
//!
//! A machine owns its state and performs no I/O: time, messages and commands come in, messages and
//! replies go out. The simulator and the server run the same machines.
//!
//! # Call order
//! 1. The host calls [`Machine::handle`] with one input and the time of its arrival.
//! 2. It then calls [`Machine::poll_output`] until that returns `None`, and carries out each output
//!    in the order given. Outputs may be collected over several inputs before they are carried out.
//! 3. It calls [`Machine::next_deadline`] and, when that instant has passed without another input,
//!    calls [`Machine::on_deadline`].
//!
//! Every call runs to completion and never blocks. Input of any content must not panic.

use serde::{Deserialize, Serialize};
use solera_time::{Monotonic, Physical, SiteId};

/// Where a machine runs: one worker of one site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Address {
    /// The site.
    pub site: SiteId,
    /// The worker's number within its site, from 0.
    pub worker: u8,
}

/// The time of an input, as the host read its clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// For deadlines; never goes back.
    pub monotonic: Monotonic,
    /// The replica's own wall clock; may be wrong, and may jump.
    pub physical: Physical,
}

/// A branch of a protocol that few runs take and on which correctness or progress depends, by what happens there.
///
/// Machines report that they take it; simulations count that, for a branch that no seed reaches is not tested at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RarePath(pub &'static str);

/// Declares constants of type [`RarePath`], and `ALL`, which lists them.
#[macro_export]
macro_rules! rare_paths {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        $($(#[$doc])* pub(crate) const $name: $crate::RarePath = $crate::RarePath($text);)*

        /// Every rare path of the protocol.
        pub const ALL: &[$crate::RarePath] = &[$($name),*];
    };
}

/// A protocol participant as a state machine without I/O.
pub trait Machine: Send {
    /// What can arrive: messages of peers, commands of clients.
    type Input;
    /// What can leave: messages to peers, replies to clients.
    type Output;

    /// Handles one input to completion.
    fn handle(&mut self, now: Now, input: Self::Input);

    /// Does what is due at `now`. Harmless when nothing is.
    fn on_deadline(&mut self, now: Now);

    /// The next output, in the order in which the machine produced them.
    fn poll_output(&mut self) -> Option<Self::Output>;

    /// When the machine wants [`on_deadline`](Self::on_deadline) next; `None` if it waits for input only.
    fn next_deadline(&self) -> Option<Monotonic>;
}

//! The contract between protocol state machines and their hosts.
//!
//! A machine owns its state and performs no I/O: time, messages and commands come in, messages and
//! replies go out. The simulator and the server run the same machines.
//!
//! # Call order
//! 1. The host calls [`Machine::handle`] with one input and the time of its arrival.
//! 2. It then calls [`Machine::poll_output`] until that returns `None`, and carries out each output
//!    in the order given. Outputs may be collected over several inputs before they are carried out.
//!    Nothing leaves before the records that the machine emitted earlier are durable.
//! 3. It calls [`Machine::next_deadline`] and, when that instant has passed without another input,
//!    calls [`Machine::hold_back`] with the links that are full, and [`Machine::on_deadline`].
//!
//! Every call runs to completion and never blocks. Input of any content must not panic.

pub mod codec;
mod exchange;
mod guarded;
mod partition;
mod protocol;
mod records;
mod topology;
mod turns;
mod wire;
mod without;

use serde::{Deserialize, Serialize};
use solera_time::{Monotonic, Physical, SiteId};

pub use codec::DecodeError;
pub use exchange::{AskId, Input, Job, JobId, Output, RequestId};
pub use guarded::{Guard, GuardAnswer, GuardQuestion, Guarded, PromiseId, Refusal, Verdict};
pub use partition::PartitionId;
pub use protocol::{Foreign, Protocol};
pub use records::Records;
pub use topology::Topology;
pub use turns::{Lane, Share, Turns};
pub use wire::{OfProtocol, Wire};
pub use without::Without;

/// Where a machine runs: one worker of one site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Address {
    /// The site.
    pub site: SiteId,
    /// The worker's number within its site, from 0.
    pub worker: u8,
}

/// A node by its site and its place there, from 0. People count nodes from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId {
    /// Its site.
    pub site: SiteId,
    /// Its place in the site's list.
    pub node: u8,
}

/// The time of an input, as the host read its clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// For deadlines; never goes back.
    pub monotonic: Monotonic,
    /// The replica's own wall clock; may be wrong, and may jump.
    pub physical: Physical,
}

/// A branch of a protocol that few runs take and on which correctness or progress depends, by what
/// happens there.
///
/// Machines report that they take it; simulations count that, for a branch that no seed reaches is
/// not tested at all.
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
    /// What participants say to one another.
    type Message;
    /// What clients ask for.
    type Command;
    /// What they are answered.
    type Response;
    /// What happened, for whoever judges a history.
    type Event;
    /// Work that the host does elsewhere; `Infallible` if there is none.
    type Job: Job;
    /// What the machine asks other protocols of its worker; `Infallible` if nothing.
    type Question;
    /// What they answer.
    type Answer;
    /// A part of a checkpoint.
    type Part;
    /// How far a checkpoint has come.
    type Checkpoint: Default;

    /// How an input takes part in [`Turns`] with others that wait for the machine. Those of a
    /// machine of one protocol keep their order, which is the default.
    fn share(_: &InputOf<Self>) -> Share {
        Share { lane: Lane::USUAL, protocol: 0, cost: 1 }
    }

    /// Handles one input to completion.
    fn handle(&mut self, now: Now, input: InputOf<Self>);

    /// Sends as little as possible to these workers until the next call, because the links to them
    /// are full. A protocol that keeps no more than a bounded amount on its way to each worker need
    /// not listen, which is the default.
    fn hold_back(&mut self, _full: Vec<Address>) {}

    /// Does what is due at `now`. Harmless when nothing is.
    fn on_deadline(&mut self, now: Now);

    /// The next output, in the order in which the machine produced them.
    fn poll_output(&mut self) -> Option<OutputOf<Self>>;

    /// When the machine wants [`on_deadline`](Self::on_deadline) next; `None` if it waits for input
    /// only.
    fn next_deadline(&self) -> Option<Monotonic>;

    /// The next part of a checkpoint, with at most so many keys; `None` when it is complete, and
    /// while the machine has nothing that a checkpoint could hold.
    ///
    /// # Panics
    /// If outputs were not taken: the part would know of records that have no number yet.
    fn next_part(&self, checkpoint: &mut Self::Checkpoint, keys: usize) -> Option<Self::Part>;

    /// Whether all parts of a checkpoint have been taken.
    fn is_complete(checkpoint: &Self::Checkpoint) -> bool;

    /// Appends the bytes of a part.
    fn encode_part(part: &Self::Part, bytes: &mut Vec<u8>);
}

/// What goes into a machine.
pub type InputOf<M> = Input<
    <M as Machine>::Message,
    <M as Machine>::Command,
    <<M as Machine>::Job as Job>::Result,
    <M as Machine>::Answer,
>;

/// What leaves a machine.
pub type OutputOf<M> = Output<
    <M as Machine>::Message,
    <M as Machine>::Response,
    <M as Machine>::Event,
    <M as Machine>::Job,
    <M as Machine>::Question,
>;

/// A machine that is built again from what its host has kept: first all parts of a checkpoint, if
/// there is one, then all records since the checkpoint began, in order. A part may know of some of
/// these records: of what the part holds, they change nothing.
pub trait Recovery {
    /// What is built.
    type Machine: Machine;

    /// Takes the bytes of a part, which knows of all records up to `lsn`.
    ///
    /// # Errors
    /// Why these are not a part of this machine's checkpoints, in words for people.
    fn take_part(&mut self, lsn: u64, part: &[u8]) -> Result<(), String>;

    /// Takes the bytes of the record with this number.
    ///
    /// # Errors
    /// Why this is not a record of this machine, in words for people.
    fn take_record(&mut self, lsn: u64, record: &[u8]) -> Result<(), String>;

    /// The machine, once everything was taken.
    fn into_machine(self) -> Self::Machine;
}

//! The contract between protocol state machines and their hosts.
//!
//! A machine owns its state and performs no I/O: its inputs are times, messages and commands, and
//! its outputs are messages and replies. The simulator and the server run the same machines.
//!
//! # Call order
//! 1. The host calls [`Machine::handle`] with one input and the time of its arrival.
//! 2. It then calls [`Machine::poll_output`] until that returns `None`, and carries out each output
//!    in the order given. Outputs may be collected over several inputs before they are carried out.
//!    No output leaves before the records that the machine emitted earlier are durable.
//! 3. It calls [`Machine::next_deadline`]. When that instant has passed without another input, it
//!    calls [`Machine::hold_back`] with the workers whose links are full, and
//!    [`Machine::on_deadline`].
//!
//! Every call runs to completion and never blocks. No input may cause a panic, whatever its
//! content.

pub mod codec;
mod exchange;
mod guarded;
mod latest;
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
pub use latest::Latest;
pub use partition::PartitionId;
pub use protocol::{Foreign, Protocol};
pub use records::Records;
pub use topology::Topology;
pub use turns::{Lane, Share, Turns};
pub use wire::{OfProtocol, Wire};
pub use without::Without;

/// Address of a machine: one worker of one site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Address {
    /// The site.
    pub site: SiteId,
    /// The worker's number within its site, from 0.
    pub worker: u8,
}

/// A node, by its site and its position in the site's list, from 0. User-facing text counts nodes
/// from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId {
    /// Its site.
    pub site: SiteId,
    /// Its position in the site's list of nodes.
    pub node: u8,
}

/// Time of an input, as the host read its clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Reading for deadlines; never goes back.
    pub monotonic: Monotonic,
    /// Reading of the replica's own wall clock; may be wrong, and may jump.
    pub physical: Physical,
}

/// A branch of a protocol that few runs take, and on which correctness or progress depends. Its
/// text describes the event that leads to the branch.
///
/// Machines report when they take such a branch, and simulations count the reports: a branch that
/// no seed reaches is not tested at all.
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
    /// Message between participants.
    type Message;
    /// Command of a client.
    type Command;
    /// Response to a command.
    type Response;
    /// Event for the checkers of histories.
    type Event;
    /// Work that the host runs elsewhere; `Infallible` if there is none.
    type Job: Job;
    /// Question to another protocol of the worker; `Infallible` if there is none.
    type Question;
    /// Answer to a question.
    type Answer;
    /// A part of a checkpoint.
    type Part;
    /// Progress of a checkpoint.
    type Checkpoint: Default;

    /// Returns the share with which an input waits in [`Turns`] for the machine. By default all
    /// inputs have the same share, so the inputs of a machine with one protocol keep their order.
    fn share(_: &InputOf<Self>) -> Share {
        Share { lane: Lane::USUAL, protocol: 0, cost: 1 }
    }

    /// Handles one input to completion.
    fn handle(&mut self, now: Now, input: InputOf<Self>);

    /// Asks the machine to send as little as possible to these workers until the next call, because
    /// the links to them are full. A protocol that limits the amount in transit to each worker may
    /// ignore the call, as the default implementation does.
    fn hold_back(&mut self, _full: Vec<Address>) {}

    /// Executes all actions that are due at `now`; has no effect if there are none.
    fn on_deadline(&mut self, now: Now);

    /// Returns the next output, in the order in which the machine produced them.
    fn poll_output(&mut self) -> Option<OutputOf<Self>>;

    /// Returns when the host should next call [`on_deadline`](Self::on_deadline); `None` if the
    /// machine waits for input only.
    fn next_deadline(&self) -> Option<Monotonic>;

    /// Returns the next part of a checkpoint, with at most `keys` keys. Returns `None` when the
    /// checkpoint is complete, and while the machine has no state that a checkpoint could hold.
    ///
    /// # Panics
    /// If outputs were not polled: the part would contain effects of records that have no number
    /// yet.
    fn next_part(&self, checkpoint: &mut Self::Checkpoint, keys: usize) -> Option<Self::Part>;

    /// Returns whether all parts of a checkpoint have been returned.
    fn is_complete(checkpoint: &Self::Checkpoint) -> bool;

    /// Appends the bytes of a part.
    fn encode_part(part: &Self::Part, bytes: &mut Vec<u8>);
}

/// Input of a machine.
pub type InputOf<M> = Input<
    <M as Machine>::Message,
    <M as Machine>::Command,
    <<M as Machine>::Job as Job>::Result,
    <M as Machine>::Answer,
>;

/// Output of a machine.
pub type OutputOf<M> = Output<
    <M as Machine>::Message,
    <M as Machine>::Response,
    <M as Machine>::Event,
    <M as Machine>::Job,
    <M as Machine>::Question,
>;

/// Rebuilds a machine from the data that its host has kept: first all parts of a checkpoint, if
/// there is one, then all records since the checkpoint began, in order. A part may contain the
/// effects of some of these records. Replaying them must not change the state that the part holds.
pub trait Recovery {
    /// The machine that is rebuilt.
    type Machine: Machine;

    /// Takes the bytes of a part, which contains the effects of all records up to `lsn`.
    ///
    /// # Errors
    /// A human-readable reason if the bytes are not a part of this machine's checkpoints.
    fn take_part(&mut self, lsn: u64, part: &[u8]) -> Result<(), String>;

    /// Takes the bytes of the record with this number.
    ///
    /// # Errors
    /// A human-readable reason if the bytes are not a record of this machine.
    fn take_record(&mut self, lsn: u64, record: &[u8]) -> Result<(), String>;

    /// Checks that the data as a whole fits the configuration. Called after all parts and records
    /// were taken.
    ///
    /// # Errors
    /// A human-readable reason.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Returns the machine. Must be called after all parts and records were taken.
    fn into_machine(self) -> Self::Machine;
}

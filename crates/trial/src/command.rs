//! Commands, their replies, and questions to other protocols.

use solera_data::Key;
use solera_machine::{Address, GuardAnswer, GuardQuestion};

/// What clients ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Computes [`chain`](crate::chain) in so many pieces, one job each; several replies, the last
    /// with the result.
    Compute {
        /// Where the computation begins.
        start: u64,
        /// How many steps a piece has.
        steps: u32,
        /// The number of pieces.
        pieces: u32,
    },
    /// Adds to a counter by a strong transaction of UniStore.
    Add {
        /// The counter.
        key: Key,
        /// What is added.
        amount: i64,
    },
    /// Sends messages to another worker, alternately in both lanes.
    Burst {
        /// The receiver.
        to: Address,
        /// How many in each lane.
        count: u32,
    },
    /// Of another protocol of the worker, about transactions that claim units of an allocation.
    Guard(GuardQuestion),
}

/// The reply to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// To [`Command::Compute`]: so many pieces are done, and this is where they lead.
    Computed {
        /// Pieces that are done.
        pieces: u32,
        /// The end of the last.
        end: u64,
    },
    /// To [`Command::Add`]: the counter's value, or why it was not changed for certain.
    Added(Answer),
    /// To [`Command::Burst`].
    Sent,
    /// To [`Command::Guard`].
    Guard(GuardAnswer),
}

/// A question to another protocol of the worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// To UniStore: add to a counter by a strong transaction.
    Add {
        /// The counter.
        key: Key,
        /// What is added.
        amount: i64,
    },
}

/// The answer to a [`Question`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The counter's value after it was changed.
    Value(i64),
    /// It was not changed.
    Refused(String),
    /// It may have been changed, or may still be.
    Unknown(String),
}

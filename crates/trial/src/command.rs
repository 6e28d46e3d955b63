//! Commands, their replies, and questions to other protocols.

use solera_data::Key;
use solera_machine::{Address, GuardAnswer, GuardQuestion};

/// A client's command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Computes [`chain`](crate::chain) in pieces, one job each. There are several replies, the
    /// last with the result.
    Compute {
        /// Start of the computation.
        start: u64,
        /// Number of steps of a piece.
        steps: u32,
        /// Number of pieces.
        pieces: u32,
    },
    /// Adds to a counter by a strong transaction of UniStore.
    Add {
        /// The counter.
        key: Key,
        /// The amount to add.
        amount: i64,
    },
    /// Sends messages to another worker, alternately in both lanes.
    Burst {
        /// The receiver.
        to: Address,
        /// Number of messages in each lane.
        count: u32,
    },
    /// A question of another protocol of the worker, about transactions that claim units of an
    /// allocation.
    Guard(GuardQuestion),
}

/// The reply to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// To [`Command::Compute`]: the number of finished pieces, and the result so far.
    Computed {
        /// Number of finished pieces.
        pieces: u32,
        /// Result of the last one.
        end: u64,
    },
    /// To [`Command::Add`]: the counter's value, or why it was certainly not changed.
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
        /// The amount to add.
        amount: i64,
    },
}

/// The answer to a [`Question`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The counter's value after it was changed.
    Value(i64),
    /// The counter was not changed.
    Refused(String),
    /// The counter may have been changed, or may still be.
    Unknown(String),
}

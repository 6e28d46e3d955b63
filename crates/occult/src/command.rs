//! Commands of clients, and the replies.

use solera_data::{Key, Op, OpError, Outcome};

use crate::shard::ShardId;
use crate::timestamp::CausalTimestamp;

/// A command of a client of this worker.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Begins a transaction.
    Begin {
        /// The session's causal past.
        past: CausalTimestamp,
    },
    /// Executes an operation in a transaction. Writes are buffered until COMMIT.
    Operate {
        /// The transaction.
        transaction: u64,
        /// The key.
        key: Key,
        /// The operation.
        op: Op,
    },
    /// Commits a transaction.
    Commit {
        /// The transaction.
        transaction: u64,
    },
    /// Aborts a transaction.
    Abort {
        /// The transaction.
        transaction: u64,
    },
    /// Executes one operation: a read at the local replica, an update atomically at the home.
    Execute {
        /// The session's causal past.
        past: CausalTimestamp,
        /// The key.
        key: Key,
        /// The operation.
        op: Op,
    },
}

/// Reason for which a transaction has aborted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AbortCause {
    /// Another transaction held the lock of a key for longer than this one tried.
    #[error("another transaction holds the lock of key {0:?}")]
    Locked(Key),
    /// The versions that it has read do not belong to one snapshot: its read in this shard has
    /// missed a write on which another version depends.
    #[error("what it has read in shard {} misses a write on which it depends", .0.0)]
    ReadSet(ShardId),
    /// A version that it overwrites depends on a write that it has missed in this shard.
    #[error("what it has read in shard {} is not the latest", .0.0)]
    OverwriteSet(ShardId),
    /// A participant or the decision home had aborted it before.
    #[error("it took too long, and its homes have aborted it")]
    Expired,
    /// The client aborted it.
    #[error("the client has aborted it")]
    Given,
    /// A participant did not answer in time. Nothing has changed.
    #[error("a home did not answer in time")]
    TimedOut,
}

/// A reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Response {
    /// The transaction's number.
    Begun(u64),
    /// An operation's outcome.
    Done(Result<Outcome, OpError>),
    /// A transaction has committed, or an operation without a transaction has been executed. The
    /// session continues with this past.
    Committed {
        /// Outcomes of operations that were executed at the home.
        outcomes: Vec<Outcome>,
        /// The session's causal past.
        past: CausalTimestamp,
    },
    /// A transaction has aborted. The session continues with the past that it began with.
    Aborted(AbortCause),
    /// An operation failed; nothing has changed.
    Failed(OpError),
    /// It is unknown whether the transaction has committed. The session continues with this past,
    /// which is right for both outcomes. Without a past, the session cannot continue.
    Unknown {
        /// The session's causal past.
        past: Option<CausalTimestamp>,
    },
    /// A copy of the key did not answer in time.
    TimedOut,
    /// There is no such transaction.
    NoSuchTransaction,
}

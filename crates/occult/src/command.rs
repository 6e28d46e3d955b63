//! Commands of clients, and the replies.

use serde::{Deserialize, Serialize};
use solera_data::{Key, Op, OpError, Outcome};
use solera_machine::Address;
use solera_time::SiteId;

use crate::shard::{Move, ShardId, Stamp};
use crate::snapshot::{SnapshotAnswer, SnapshotStep};
use crate::timestamp::CausalTimestamp;

/// Action of a client when the local replica has not applied a write on which the client depends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnStale {
    /// It waits for a short time, and then reads at the home.
    #[default]
    Home,
    /// It takes the value that the replica has.
    Accept,
    /// The read fails.
    Fail,
}

/// Counts of reads, for statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadCounts {
    /// Number of answers of replicas that were not recent enough.
    pub stale: u32,
    /// Number of reads that went to a home at another site.
    pub at_home: u32,
}

/// A command of a client of this worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// Begins a transaction.
    Begin {
        /// The session's causal past.
        past: CausalTimestamp,
        /// Action of reads when a replica is not recent enough.
        on_stale: OnStale,
    },
    /// Executes an operation in a transaction. Writes are buffered until COMMIT.
    Operate {
        /// The transaction.
        transaction: u64,
        /// The key.
        key: Key,
        /// The operation.
        op: Op,
        /// Whether the transaction commits only if the key has not changed since this operation
        /// read it, even if the transaction does not write the key.
        validates: bool,
    },
    /// Commits a transaction.
    Commit {
        /// The transaction.
        transaction: u64,
    },
    /// Checks whether all reads of a transaction belong to one snapshot, and aborts the
    /// transaction. The reply is [`Response::Aborted`] with [`AbortCause::Given`] if they do, and
    /// with [`AbortCause::ReadSet`] otherwise.
    Certify {
        /// The transaction.
        transaction: u64,
    },
    /// Waits for the outcome of a transaction that [`Response::Unknown`] names.
    Await {
        /// The transaction.
        transaction: u64,
    },
    /// Aborts a transaction. If the outcome of its commit is open, the client only stops waiting
    /// for it.
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
        /// Action of a read when a replica is not recent enough.
        on_stale: OnStale,
    },
    /// Waits until this many sites, the home's site included, store all writes of this worker's
    /// shards on which a session depends.
    Barrier {
        /// The session's causal past.
        past: CausalTimestamp,
        /// Number of sites.
        sites: usize,
    },
    /// Moves shards to other homes.
    Move(Move),
    /// Asks for the homes of writes on which a session depends, in this worker's shards, and that
    /// fewer than `sites` sites are known to store. The home's site counts as one of them.
    Unstored {
        /// The session's causal past.
        past: CausalTimestamp,
        /// Number of sites.
        sites: usize,
    },
    /// Asks up to which stamp every copy at every site shows all writes, as far as this worker
    /// knows.
    Horizon,
    /// A step of a reader of all keys in one snapshot.
    Snapshot(SnapshotStep),
    /// Asks for the outcome of a transaction that was begun with BEGIN at this worker.
    Outcome {
        /// Start of the worker's process.
        incarnation: u64,
        /// The transaction.
        number: u64,
    },
    /// Asks how far the moves of homes are carried out.
    Moves,
    /// Delays the writes of a shard at the replica here: a fault for tests.
    Slow {
        /// The shard.
        shard: ShardId,
        /// Delay in milliseconds; 0 ends it.
        delay_ms: u64,
    },
}

/// Outcome of a transaction of one of the worker's clients, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fate {
    /// It has committed.
    Committed,
    /// It has aborted.
    Aborted,
    /// It is open, or being committed.
    Undecided,
    /// Unknown, because the worker has restarted since.
    Restarted,
    /// Unknown: the transaction has never begun; or the worker has forgotten it, because many later
    /// ones have ended; or its home was taken by force.
    Forgotten,
}

/// Reason for which a transaction has aborted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum AbortCause {
    /// Another transaction held the lock of a key for longer than this transaction retried.
    #[error("another transaction holds the lock of key {0:?}")]
    Locked(Key),
    /// The versions that it has read do not belong to one snapshot: its read in this shard has
    /// missed a write on which another version depends.
    #[error("its read in shard {} misses a write on which another of its reads depends", .0.0)]
    ReadSet(ShardId),
    /// A version that the transaction overwrites depends on a write in this shard that the
    /// transaction's read has missed.
    #[error("another transaction has changed keys that it has read in shard {}", .0.0)]
    OverwriteSet(ShardId),
    /// A participant or the decision home had aborted it before.
    #[error("it took too long, and its homes have aborted it")]
    Expired,
    /// The home of a shard that it has used has changed.
    #[error("the home of a key has moved")]
    Moved,
    /// The client aborted it.
    #[error("the client has aborted it")]
    Given,
    /// A participant did not answer in time. Nothing has changed.
    #[error("a home did not answer in time")]
    TimedOut,
}

/// Continuation of a session after an unknown outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Unknown {
    /// The session continues with this past, which is valid for both outcomes.
    Past(CausalTimestamp),
    /// The session must first wait for the outcome with [`Command::Await`], because only the
    /// outcome contains the dependencies of the transaction's writes.
    Pending(u64),
    /// The session cannot continue: the home was taken by force. The transaction's writes may have
    /// survived at other sites, but their dependencies are unknown.
    Lost,
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Response {
    /// The transaction's number.
    Begun(u64),
    /// An operation's outcome, and counts of its read.
    Done(Result<Outcome, OpError>, ReadCounts),
    /// A transaction has committed, or an operation without a transaction has been executed. The
    /// session continues with this past.
    Committed {
        /// Outcomes of operations that were executed at the home.
        outcomes: Vec<Outcome>,
        /// The session's causal past.
        past: CausalTimestamp,
        /// Counts of the read, if it was a single one.
        counts: ReadCounts,
    },
    /// A transaction has aborted. The session continues with its past from before the transaction.
    Aborted(AbortCause),
    /// An operation failed; nothing has changed.
    Failed(OpError),
    /// It is unknown whether the transaction has committed.
    Unknown(Unknown),
    /// A copy of the key did not answer in time.
    TimedOut,
    /// There is no such transaction.
    NoSuchTransaction,
    /// The local copy lacks a write on which the session depends, and the session accepts only
    /// recent copies of this site.
    Stale,
    /// The session's timestamp is too far ahead of the clock of this site, which is the home of the
    /// key.
    Ahead(SiteId),
    /// The number of sites that are known to store the session's past. It is below the number that
    /// BARRIER requires if the barrier has timed out.
    Stored(usize),
    /// Sites of the homes, in ascending order.
    Unstored(Vec<SiteId>),
    /// The sites have agreed on the move, which begins now.
    Moving,
    /// The sites have not agreed on the move, for this reason.
    NotMoved(String),
    /// Every copy at every site shows all writes up to this stamp.
    Shown(Stamp),
    /// Answer to a step of a reader of all keys.
    Snapshot(SnapshotAnswer),
    /// Answer to OUTCOME.
    Outcome(Fate),
    /// Answer to MOVES.
    Moves {
        /// Number of shards whose data is on its way to their home.
        arriving: usize,
        /// Workers that are not known to have carried out all moves.
        behind: Vec<Address>,
    },
    /// Answer to SLOW: whether the worker has a replica of the shard, and is not its home.
    Slowed(bool),
}

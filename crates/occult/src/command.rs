//! Commands of clients, and the replies.

use serde::{Deserialize, Serialize};
use solera_data::{Key, Op, OpError, Outcome};
use solera_machine::Address;
use solera_time::SiteId;

use crate::shard::{Move, ShardId, Stamp};
use crate::snapshot::{SnapshotAnswer, SnapshotStep};
use crate::timestamp::CausalTimestamp;

/// What a client does when the local replica has not applied a write on which the client depends.
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
        /// What reads do when a replica is not recent enough.
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
    /// Checks that what a transaction has read belongs to one snapshot, and aborts it. The reply is
    /// [`Response::Aborted`] with [`AbortCause::Given`] if it does, and with
    /// [`AbortCause::ReadSet`] otherwise.
    Certify {
        /// The transaction.
        transaction: u64,
    },
    /// Waits for the outcome of a transaction that [`Response::Unknown`] names.
    Await {
        /// The transaction.
        transaction: u64,
    },
    /// Aborts a transaction. If its outcome is open, the client only stops waiting.
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
        /// What a read does when a replica is not recent enough.
        on_stale: OnStale,
    },
    /// Waits until this many sites store everything of this worker's shards on which a session
    /// depends. The site of a home counts as one of them.
    Barrier {
        /// The session's causal past.
        past: CausalTimestamp,
        /// Number of sites.
        sites: usize,
    },
    /// Moves shards to other homes.
    Move(Move),
    /// Asks from which homes a session depends on writes in this worker's shards that fewer sites
    /// than this are known to store. The site of a home counts as one of them.
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
    /// Has the replica here show the writes of a shard late: a fault for tests.
    Slow {
        /// The shard.
        shard: ShardId,
        /// Delay in milliseconds; 0 ends it.
        delay_ms: u64,
    },
}

/// What a worker knows about a transaction of one of its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fate {
    /// It has committed.
    Committed,
    /// It has aborted.
    Aborted,
    /// It is open, or being committed.
    Undecided,
    /// The worker was restarted since.
    Restarted,
    /// It has never begun, others have ended since, so that the worker has forgotten it, or a home
    /// that would know it was taken by force.
    Forgotten,
}

/// Reason for which a transaction has aborted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum AbortCause {
    /// Another transaction held the lock of a key for longer than this one tried.
    #[error("another transaction holds the lock of key {0:?}")]
    Locked(Key),
    /// The versions that it has read do not belong to one snapshot: its read in this shard has
    /// missed a write on which another version depends.
    #[error("what it has read in shard {} misses a write on which it depends", .0.0)]
    ReadSet(ShardId),
    /// A version that it overwrites depends on a write that it has missed in this shard.
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

/// How a session continues after an unknown outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Unknown {
    /// With this past, which is right for both outcomes.
    Past(CausalTimestamp),
    /// With [`Command::Await`] of this transaction, before anything else: only the outcome contains
    /// the dependencies of the transaction's writes.
    Pending(u64),
    /// Not at all: the home was taken by force. The writes may have survived at other sites, and
    /// nobody knows their dependencies.
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
    /// A transaction has aborted. The session continues with the past that it began with.
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
    /// The number of sites that are known to store the session's past: less than BARRIER asks for
    /// if the time is over.
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

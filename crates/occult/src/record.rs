//! Steps of a worker that must survive a restart.

use serde::{Deserialize, Serialize};
use solera_data::{Effect, Key};
use solera_machine::{Address, DecodeError, Protocol};
use solera_time::SiteId;

use crate::message::{
    Batch, Copied, Copies, DecidedCommit, DecidedOf, Decision, Entry, Executed, Handover, Table,
    TransactionId,
};
use crate::protocol::PROTOCOL;
use crate::shard::{ShardId, Stamp};
use crate::timestamp::CausalTimestamp;

/// A step that must be durable before a message that follows it leaves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Record {
    /// No stamp above this one was assigned or reported.
    Ceiling(Stamp),
    /// A participant has prepared a transaction.
    Prepared {
        /// The transaction.
        tid: TransactionId,
        /// Keys and effects.
        writes: Vec<(Key, Effect)>,
        /// The assigned stamp.
        assigned: Stamp,
        /// The merged timestamps of the versions that it will overwrite.
        overwritten: CausalTimestamp,
        /// The participant whose record decides.
        decision_home: Address,
        /// One of the shards that the transaction writes at the decision home.
        decision_shard: ShardId,
        /// See [`Prepare::epoch`](crate::message::Prepare::epoch).
        epoch: u64,
    },
    /// A participant has learned the decision.
    Ended(TransactionId, Decision),
    /// The decision home has decided; for a commit, this record is the commit point. Contains the
    /// participants, and the shard whose home has decided.
    Decided(TransactionId, Decision, Vec<Address>, Option<ShardId>),
    /// A participant has confirmed a commit to the decision home.
    Applied(TransactionId, Address),
    /// A transaction of one home has ended.
    Executed {
        /// The transaction.
        tid: TransactionId,
        /// The answer to its client.
        answer: Executed,
        /// The effects, if it has committed.
        writes: Vec<(Key, Effect)>,
        /// Their stamp.
        stamp: Stamp,
    },
    /// A replica has applied a part of a home's stream.
    Batch(Address, Batch),
    /// A replica has taken copies that a home's worker has sent.
    Copies(Address, Copies),
    /// A process of the worker has started, with this incarnation.
    Started(u64),
    /// The worker has learned of agreed moves of homes.
    Table(Box<Table>),
    /// A new home has received a part of a shard's data.
    Handover(Handover),
    /// A new home has all data of a shard.
    Took {
        /// The shard.
        shard: ShardId,
        /// Number of the move.
        number: u64,
        /// The greatest stamp of the former home's writes that are not lost.
        last: Stamp,
    },
    /// The worker's [`Config::home_of`](crate::Config::home_of) at the start of a process.
    HomeOf(Vec<(Vec<u8>, Option<SiteId>)>),
    /// The worker has decided to commit a transaction, and the shard was taken from it by force
    /// since. Checkpoints alone contain this.
    Taken(TransactionId),
}

/// A part of a checkpoint. Everything but the values comes first, in one part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Part {
    /// Versions of keys.
    Values(Vec<Copied>),
    /// The rest of the state.
    Rest(Box<Rest>),
}

/// The state of a worker without the values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rest {
    /// Incarnation of the process.
    pub incarnation: u64,
    /// See [`Record::Ceiling`].
    pub ceiling: Stamp,
    /// Open prepares and ended transactions, as the records that lead to them.
    pub records: Vec<Record>,
    /// Writes that are committed but not shown.
    pub hidden: Vec<(ShardId, Stamp, Key, Effect, CausalTimestamp)>,
    /// Decisions of this worker's homes. The replicas receive them when the hidden writes are
    /// shown.
    pub hidden_decisions: Vec<(ShardId, Stamp, DecidedCommit)>,
    /// Entries of streams that the replica holds back. They follow the values.
    pub held: Vec<Entry>,
    /// For each home's stream: its start, the replica's position in it, and whether the replica has
    /// ever had everything that the home had shown.
    pub positions: Vec<(Address, u64, u64, bool)>,
    /// The agreed homes; `None` if the worker does not know them yet.
    pub table: Option<Table>,
    /// Shards that have moved, each with the number of the last move after which its data here is
    /// complete.
    pub taken: Vec<(ShardId, u64)>,
    /// Decisions that came with writes of other homes.
    pub decided: Vec<DecidedOf>,
}

impl Record {
    /// Appends the record's bytes.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        PROTOCOL.append_record(self, bytes);
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn decode(bytes: &[u8]) -> Result<Record, DecodeError> {
        Protocol::decode_record(&[PROTOCOL], bytes)
    }
}

impl Part {
    /// Appends the part's bytes.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        PROTOCOL.append_record(self, bytes);
    }

    /// Decodes a part.
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn decode(bytes: &[u8]) -> Result<Part, DecodeError> {
        Protocol::decode_record(&[PROTOCOL], bytes)
    }
}

//! Steps of a worker that must survive a restart.

use serde::{Deserialize, Serialize};
use solera_data::{Effect, Key};
use solera_machine::Address;

use crate::message::{Batch, Copied, Decision, Executed, TransactionId};
use crate::shard::Stamp;
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
    },
    /// A participant has learned the decision.
    Ended(TransactionId, Decision),
    /// The decision home has decided. The commit point, if it commits.
    Decided(TransactionId, Decision, Vec<Address>),
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
    /// A replica has taken copies of versions, at a position of a home's stream.
    Copies {
        /// The home's worker.
        from: Address,
        /// Start of the home's process.
        start: u64,
        /// The position.
        position: u64,
        /// The versions.
        copies: Vec<Copied>,
    },
}

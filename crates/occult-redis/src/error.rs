//! Errors of sessions. Each text begins with the code that a client of the Redis protocol sees.

use solera_occult::ShardId;
use solera_resp::Value;

use crate::risk::Life;
use crate::stored::{Damage, Layout, NotARecord};

/// Error of a command.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The session depends on a write that no master has any more.
    #[error(
        "LOST slot {} does not have a write that this session depends on. It was lost from the \
         data with replication id {life}…: a master failed before its replica had the write, or \
         the data was removed (FLUSHALL). Begin a new session, or drop the dependencies with \
         SOLERA.ATTACH", slot.0
    )]
    Lost {
        /// The slot that was read or written.
        slot: ShardId,
        /// The beginning of the replication id, in hexadecimal digits.
        life: String,
    },
    /// All copies that could be read are too old, and the policy is FAIL.
    #[error(
        "STALE the copy of slot {} at {node} does not have all writes that this session depends \
         on, and the policy is SOLERA.STALE FAIL", slot.0
    )]
    Stale {
        /// The slot.
        slot: ShardId,
        /// Address of the replica.
        node: String,
    },
    /// The transaction had no effect.
    #[error("ABORTED {0}")]
    Aborted(String),
    /// A watched key has changed. EXEC returns nil.
    #[error("ABORTED a watched key has changed")]
    Changed,
    /// A write may or may not have taken effect.
    #[error(
        "UNKNOWN the write to slot {} may have taken effect: {why}. The session waits for its \
         outcome; run SOLERA.ATTACH to go on without its guarantees", slot.0
    )]
    Unknown {
        /// The slot whose master did not answer.
        slot: ShardId,
        /// The reason.
        why: String,
    },
    /// The transaction has committed, and the replies of some commands are missing.
    #[error("COMMITTED the transaction has committed, but its replies were lost: {0}")]
    RepliesLost(String),
    /// A slot cannot be used now.
    #[error("UNAVAILABLE slot {}: {why}", slot.0)]
    Unavailable {
        /// The slot.
        slot: ShardId,
        /// The reason.
        why: String,
    },
    /// No node of the cluster can be used.
    #[error("UNAVAILABLE {0}")]
    NoCluster(String),
    /// The timestamp of a key cannot be read.
    #[error("DAMAGED the timestamp of key `{key}` (slot {}) cannot be read: {why}", slot.0)]
    DamagedTimestamp {
        /// The key.
        key: String,
        /// Its slot.
        slot: ShardId,
        /// The reason.
        why: String,
    },
    /// The record of a slot cannot be read.
    #[error("DAMAGED the record of slot {} cannot be read: {why}", slot.0)]
    DamagedRecord {
        /// The slot.
        slot: ShardId,
        /// The reason.
        why: String,
    },
    /// A string has no envelope, and the layout is `envelope`.
    #[error(
        "FOREIGN key {key} holds a string without an envelope: another program has written it. \
         Remove it there first (slot {})", slot.0
    )]
    Foreign {
        /// The key.
        key: String,
        /// Its slot.
        slot: ShardId,
    },
    /// Another gateway stores the strings of the slot in another way.
    #[error(
        "LAYOUT the strings of the slot have layout {found}, and those of this gateway {own} \
         (slot {})", slot.0
    )]
    Layout {
        /// The slot.
        slot: ShardId,
        /// Layout of the slot.
        found: Layout,
        /// Layout of the gateway.
        own: Layout,
    },
    /// A function has refused the request; the text begins with a code.
    #[error("{text} (slot {})", slot.0)]
    Failed {
        /// The slot.
        slot: ShardId,
        /// The text.
        text: String,
    },
    /// The session or a key depends on a write that is too far ahead of the clocks. The text begins
    /// with the code and names the slot of that write.
    #[error("{0}")]
    Ahead(String),
    /// A token cannot be attached.
    #[error("BADTOKEN the token cannot be attached: {0}")]
    Token(String),
    /// An unchanged error reply of a node.
    #[error("{0}")]
    Reply(String),
    /// The command is not served.
    #[error("ERR {0}")]
    Refused(String),
}

impl Error {
    pub(crate) fn lost(slot: ShardId, life: Life) -> Error {
        Error::Lost { slot, life: life.to_string() }
    }

    pub(crate) fn damaged(key: &[u8], slot: ShardId, why: &Damage) -> Error {
        let key = String::from_utf8_lossy(key).into_owned();
        Error::DamagedTimestamp { key, slot, why: why.to_string() }
    }

    pub(crate) fn damaged_record(slot: ShardId, why: &NotARecord) -> Error {
        Error::DamagedRecord { slot, why: why.to_string() }
    }

    pub(crate) fn unexpected(slot: ShardId, found: &Value) -> Error {
        Error::Unavailable { slot, why: format!("a node gave the unexpected answer {found:?}") }
    }
}

//! Records of a worker's journal, and parts of its checkpoints.

use serde::{Deserialize, Serialize};
use solera_data::{Key, Value};
use solera_machine::{Address, DecodeError, PartitionId, Protocol};

use crate::history::{Entry, Epoch, Seen};
use crate::list::List;
use crate::message::Piece;
use crate::protocol::PROTOCOL;

/// A step that must survive a restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// Numbers below this one may have been used for updates.
    Numbers(u64),
    /// A replica has applied entries that come after an index.
    Applied {
        /// The partition.
        partition: PartitionId,
        /// The index before the entries.
        after: u64,
        /// The entries.
        entries: Vec<Entry>,
        /// The epochs that the replica knows.
        epochs: Vec<Epoch>,
    },
    /// The worker is the home of a partition while its list of sites is this one.
    Home {
        /// The partition.
        partition: PartitionId,
        /// The list.
        list: List,
        /// The epochs, including its own.
        epochs: Vec<Epoch>,
    },
    /// A joining replica has all data that the home had when the replica began to join.
    Filled(PartitionId),
    /// A joining replica has dropped its data and starts again.
    Emptied(PartitionId),
    /// A piece of a partition's values has arrived.
    Piece(PartitionId, Piece),
}

/// A part of a checkpoint. Parts of a partition follow one another: its keys, then the rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// Data that belongs to no partition.
    Worker {
        /// See [`Record::Numbers`].
        numbers: u64,
    },
    /// Keys, values, and the index of each key's last update.
    Values(PartitionId, Vec<(Key, Value, u64)>),
    /// Data of a partition other than its values.
    Partition {
        /// The partition.
        partition: PartitionId,
        /// Number of updates that it has applied.
        applied: u64,
        /// The last updates.
        log: Vec<Entry>,
        /// Updates that their origins may send again.
        seen: Vec<(Address, Seen)>,
        /// The epochs.
        epochs: Vec<Epoch>,
        /// See [`Record::Home`].
        home_for: Option<List>,
        /// See [`Record::Filled`].
        filled: bool,
    },
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

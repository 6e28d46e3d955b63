//! Steps of a worker that must survive a restart, and parts of checkpoints.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use solera_machine::{DecodeError, PartitionId, PromiseId, Protocol};
use solera_time::SiteId;

use crate::agreed::{Change, Changed, Key, KeyRecord, Reader, Removal};
use crate::command::Placed;
use crate::config::BoundKind;
use crate::numbers::{Epoch, Position, Term, Tokens, Version};
use crate::protocol::PROTOCOL;
use crate::rights::{Pasts, Tally};

/// Tokens that a promise sets aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Partition of the key.
    pub partition: PartitionId,
    /// The key.
    pub key: Key,
    /// Epoch of the tokens.
    pub epoch: Epoch,
    /// The tokens.
    pub tokens: Tokens,
}

/// Prefixes that a sponsor reports as seen until its offers end (S4, R5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// The offered prefixes.
    pub seen: Vec<Position>,
    /// Term of the sponsor's right.
    pub term: Term,
    /// Number of renewals of this right at the offer. The next renewal ends the offer.
    pub renewals: u64,
}

/// An admission by this site as the sponsor (R5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sponsored {
    /// Version with the admission.
    pub version: Version,
    /// The admitted site.
    pub site: SiteId,
    /// Prefixes that it must see before it answers.
    pub since: Vec<Position>,
}

/// A step that must be durable before a message that follows it leaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// A process of the worker has started.
    Started {
        /// The number.
        incarnation: u64,
        /// Prefixes of the keys with bounds. They cannot change, because the machine would lack
        /// updates of other keys.
        prefixes: Vec<(Vec<u8>, BoundKind)>,
    },
    /// The site has more of a stream.
    Stream {
        /// The partition.
        partition: PartitionId,
        /// The site whose stream it is.
        origin: SiteId,
        /// The new entries.
        entries: Vec<Placed>,
        /// The site has everything up to this position.
        upto: Position,
    },
    /// The copy is at a new version.
    Changed {
        /// The partition.
        partition: PartitionId,
        /// The version.
        version: Version,
        /// The version from which the change was derived.
        read: Version,
        /// The change. Whether it took effect follows from the state before it.
        change: Change,
    },
    /// The guard has given a promise.
    Promised(PromiseId, Vec<Held>),
    /// A promise has ended.
    Ended(PromiseId),
    /// The site refuses promises under this epoch and earlier ones (H7).
    Stopped {
        /// The partition.
        partition: PartitionId,
        /// The key.
        key: Key,
        /// The epoch.
        epoch: Epoch,
    },
    /// The site has offered to sponsor others (S4).
    Pinned {
        /// The partition.
        partition: PartitionId,
        /// The offer.
        pin: Pin,
    },
    /// Keys of the state that another site has sent. They count when [`Filled`](Self::Filled)
    /// follows.
    FilledKeys(Vec<KeyPart>),
    /// The site has the state that another one has sent, except its keys.
    Filled(Box<PartitionPart>),
    /// The site has no state that it can use, and gets another one.
    Emptied(PartitionId),
    /// The host's streams continue the state of a partition that came from another site.
    Continued(PartitionId),
}

/// The durable state of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyPart {
    /// Partition of the key.
    pub partition: PartitionId,
    /// The key.
    pub key: Key,
    /// Sum of all updates that the site has.
    pub value: i128,
    /// Last end that the site has seen of each holder: the epoch, and the entry's position.
    pub ended: Vec<(SiteId, Epoch, Position)>,
    /// Updates of this site that a reader may lack.
    pub unseen: Vec<(Position, Tokens)>,
    /// Epoch under which, and under earlier ones, the site gives no promises.
    pub stopped: Epoch,
    /// Floors that decrements respect, each with the version from which on it is in the record.
    pub floors: Vec<(Version, Option<i64>)>,
    /// The record of the key.
    pub record: KeyRecord,
    /// Rights of the site.
    pub tally: Tally,
    /// Data that snapshots must contain if they depend on these rights.
    pub pasts: Pasts,
}

/// The durable state of a partition without its keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionPart {
    /// The partition.
    pub partition: PartitionId,
    /// Prefixes of all streams that the site has.
    pub known: Vec<Position>,
    /// Version of the copy.
    pub version: Version,
    /// The readers.
    pub readers: Vec<Option<Reader>>,
    /// Number of admissions of each site.
    pub terms: Vec<Term>,
    /// Version that has closed the partition.
    pub closed: Option<Version>,
    /// The last removal of each site that was removed.
    pub removed: BTreeMap<SiteId, Removal>,
    /// Versions of the last changes of the record.
    pub changed: Changed,
    /// An offer that may be open.
    pub pin: Option<Pin>,
    /// Admissions that some site may not have confirmed.
    pub sponsored: Vec<Sponsored>,
    /// Whether the site has the state; `false` at a joining site.
    pub filled: bool,
    /// Whether the host's streams continue it.
    pub continues: bool,
}

/// A part of a checkpoint. Everything but the keys comes first, in one part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// The state of a worker without its keys.
    Rest {
        /// Number of the process.
        incarnation: u64,
        /// See [`Record::Started`].
        prefixes: Vec<(Vec<u8>, BoundKind)>,
        /// The partitions.
        partitions: Vec<PartitionPart>,
        /// Open promises.
        promises: Vec<(PromiseId, Vec<Held>)>,
    },
    /// Keys.
    Keys(Vec<KeyPart>),
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

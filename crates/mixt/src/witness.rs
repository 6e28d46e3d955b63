//! Witnesses (MixT §4.5, §5.4), and the names of all objects that transactions store besides data.
//!
//! A *write witness* is stored beside each object that a transaction has changed in a witnessed
//! place. It refers to the transaction's *commit witnesses*, one in each such place. Several
//! transactions may have write witnesses beside one object, each under its transaction's number.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::location::{Location, Name};
use crate::versioned::{Unreadable, decode, encode};

/// Identifier of a transaction: a random number of 63 bits (MixT §5.4), so that no two transactions
/// have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TransactionId(u64);

impl TransactionId {
    /// Creates an identifier from 63 bits of a random number.
    pub fn new(random: u64) -> TransactionId {
        TransactionId(random >> 1)
    }

    /// Returns it as a number below 2⁶³.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Content of a write witness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WriteWitness {
    /// The transaction that has written.
    pub(crate) id: TransactionId,
    /// Places in which its commit witnesses appear: all witnessed places.
    pub(crate) places: Arc<[Location]>,
    /// Location of its recovery record.
    pub(crate) record: Location,
}

impl WriteWitness {
    pub(crate) fn encode(&self) -> Arc<[u8]> {
        encode(self)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<WriteWitness, Unreadable> {
        decode(bytes, "a write witness")
    }
}

/// Returns the name of the write witnesses beside an object.
pub(crate) fn beside(space: &Arc<str>, key: &str) -> Name {
    name(space, format!("w:{key}"))
}

/// Returns the name of the write witnesses for all data that custom operations use without a
/// handle.
pub(crate) fn beside_all(space: &Arc<str>) -> Name {
    name(space, "a".to_owned())
}

/// Returns the name of a commit witness.
pub(crate) fn commit(space: &Arc<str>, id: TransactionId) -> Name {
    name(space, format!("c:{id}"))
}

/// Prefix of the names of recovery records.
pub(crate) const RECORDS: &str = "r:";

/// Returns the name of a recovery record. Field 0 is the record. The other fields are the recovery
/// leases acquired since, by their numbers.
pub(crate) fn record(space: &Arc<str>, id: TransactionId) -> Name {
    name(space, format!("{RECORDS}{id}"))
}

/// Returns the transaction whose recovery record has a key.
pub(crate) fn of_record(key: &str) -> Option<TransactionId> {
    let number = u64::from_str_radix(key.strip_prefix(RECORDS)?, 16).ok()?;
    Some(TransactionId(number))
}

/// Returns the name of the done mark of a group.
pub(crate) fn mark(space: &Arc<str>, id: TransactionId, group: usize) -> Name {
    name(space, format!("d:{id}:{group}"))
}

fn name(space: &Arc<str>, key: String) -> Name {
    Name { space: Arc::clone(space), key: key.into() }
}

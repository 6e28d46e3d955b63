//! Witnesses (MixT §4.5, §5.4), and the names of what transactions keep besides data.
//!
//! A *write witness* lies beside each object that a transaction has changed in a place that it
//! marks; it leads to the transaction's *commit witnesses*, one in each such place. Write witnesses
//! of several transactions may lie beside one object, each under its transaction's number.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::form::{Unreadable, decode, encode};
use crate::place::{Name, Place};

/// The name of a transaction: random, of 63 bits (MixT §5.4), so that no two transactions have the
/// same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TransactionId(u64);

impl TransactionId {
    /// From a random number, of which 63 bits are used.
    pub fn new(random: u64) -> TransactionId {
        TransactionId(random >> 1)
    }

    /// As a number below 2⁶³.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What a write witness tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WriteWitness {
    /// Who has written.
    pub(crate) id: TransactionId,
    /// Where its commit witnesses appear: all places that it marks.
    pub(crate) places: Arc<[Place]>,
    /// Where its recovery record is.
    pub(crate) record: Place,
}

impl WriteWitness {
    pub(crate) fn encode(&self) -> Arc<[u8]> {
        encode(self)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<WriteWitness, Unreadable> {
        decode(bytes, "a write witness")
    }
}

/// The name of the write witnesses beside an object.
pub(crate) fn beside(space: &Arc<str>, key: &str) -> Name {
    name(space, format!("w:{key}"))
}

/// The name of the write witnesses beside all that custom operations use without naming it by a
/// handle.
pub(crate) fn beside_all(space: &Arc<str>) -> Name {
    name(space, "a".to_owned())
}

/// The name of a commit witness.
pub(crate) fn commit(space: &Arc<str>, id: TransactionId) -> Name {
    name(space, format!("c:{id}"))
}

/// What the names of recovery records begin with.
pub(crate) const RECORDS: &str = "r:";

/// The name of a recovery record. Its value 0 is the record, the others are the turns of those who
/// have taken the transaction over since, by their numbers.
pub(crate) fn record(space: &Arc<str>, id: TransactionId) -> Name {
    name(space, format!("{RECORDS}{id}"))
}

/// Of which transaction there is a recovery record under a key.
pub(crate) fn of_record(key: &str) -> Option<TransactionId> {
    let number = u64::from_str_radix(key.strip_prefix(RECORDS)?, 16).ok()?;
    Some(TransactionId(number))
}

/// The name of the mark that a group of phases is done.
pub(crate) fn mark(space: &Arc<str>, id: TransactionId, group: usize) -> Name {
    name(space, format!("d:{id}:{group}"))
}

fn name(space: &Arc<str>, key: String) -> Name {
    Name { space: Arc::clone(space), key: key.into() }
}

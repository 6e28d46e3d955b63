//! Records of the guard.

use serde::{Deserialize, Serialize};
use solera_machine::PromiseId;

use crate::guard::{Allocations, SetAside};
use crate::message::PROTOCOL;

/// A step of the guard that must survive a restart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Record {
    /// A promise was given.
    Promised(PromiseId, Vec<SetAside>),
    /// A promise ended; whether the transaction committed.
    Ended(PromiseId, bool),
}

/// The whole of a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part(pub Allocations);

impl Record {
    /// Appends the record's bytes.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        PROTOCOL.append_record(self, bytes);
    }
}

impl Part {
    /// Appends the part's bytes.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        PROTOCOL.append_record(self, bytes);
    }
}

//! What the guard keeps, and building the machine again from it.

use serde::{Deserialize, Serialize};
use solera_machine::{PromiseId, Protocol};

use crate::guard::{Allocations, SetAside};
use crate::machine::{Config, Trial};
use crate::message::PROTOCOL;

/// A step of the guard that must survive a restart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Record {
    /// A promise was given.
    Promised(PromiseId, Vec<SetAside>),
    /// It ended; whether the transaction committed.
    Ended(PromiseId, bool),
}

/// The whole of a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part(pub Allocations);

/// A machine that is being built again.
#[derive(Debug)]
pub struct Recovery {
    config: Config,
    allocations: Allocations,
    /// The last record that the checkpoint knows of.
    known: u64,
}

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

impl Recovery {
    /// Creates a recovery that has taken nothing yet.
    pub fn new(config: Config) -> Recovery {
        Recovery { config, allocations: Allocations::default(), known: 0 }
    }

    /// Takes the part of a checkpoint, which knows of all records up to `lsn`.
    ///
    /// # Errors
    /// The bytes are no part of this protocol.
    pub fn take_part(&mut self, lsn: u64, part: &[u8]) -> Result<(), String> {
        let part = Protocol::decode_record::<Part>(&[PROTOCOL], part);
        self.allocations = part.map_err(|error| error.to_string())?.0;
        self.known = lsn;
        Ok(())
    }

    /// Takes the record with this number.
    ///
    /// # Errors
    /// The bytes are no record of this protocol.
    pub fn take_record(&mut self, lsn: u64, record: &[u8]) -> Result<(), String> {
        let record = Protocol::decode_record::<Record>(&[PROTOCOL], record);
        match record.map_err(|error| error.to_string())? {
            _ if lsn <= self.known => {}
            Record::Promised(id, set_aside) => self.allocations.promise(id, set_aside),
            Record::Ended(id, committed) => {
                self.allocations.end(id, committed);
            }
        }
        Ok(())
    }

    /// Returns the machine, as its guard was after the last record.
    pub fn into_machine(self) -> Trial {
        Trial::with_allocations(self.config, self.allocations)
    }
}

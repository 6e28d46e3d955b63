//! Recovery of the machine from the guard's records.

use solera_machine::Protocol;

use crate::guard::Allocations;
use crate::machine::{Config, Trial};
use crate::message::PROTOCOL;
use crate::record::{Part, Record};

/// A machine under recovery.
#[derive(Debug)]
pub struct Recovery {
    config: Config,
    allocations: Allocations,
    /// The last record that the checkpoint includes.
    known: u64,
}

impl Recovery {
    /// Creates a recovery without any data.
    pub fn new(config: Config) -> Recovery {
        Recovery { config, allocations: Allocations::default(), known: 0 }
    }

    /// Restores the part of a checkpoint, which includes all records up to `lsn`.
    ///
    /// # Errors
    /// The bytes are no part of this protocol.
    pub fn take_part(&mut self, lsn: u64, part: &[u8]) -> Result<(), String> {
        let part = Protocol::decode_record::<Part>(&[PROTOCOL], part);
        self.allocations = part.map_err(|error| error.to_string())?.0;
        self.known = lsn;
        Ok(())
    }

    /// Restores the record with this number.
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

    /// Returns the machine with the guard's state after the last record.
    pub fn into_machine(self) -> Trial {
        Trial::with_allocations(self.config, self.allocations)
    }
}

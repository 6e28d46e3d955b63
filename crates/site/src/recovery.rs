//! Rebuilds a worker's machine from its journal.

use solera_machine::{Foreign, Protocol};
use solera_unistore::Config;

use crate::{PROTOCOLS, Site};

/// Gives each part and record to the protocol whose number it begins with.
#[derive(Debug)]
pub struct Recovery {
    unistore: solera_unistore::Recovery,
}

impl Recovery {
    /// Creates a recovery that has taken nothing yet. `seed` only spreads keys over hash tables.
    pub fn new(config: Config, seed: u64) -> Recovery {
        Recovery { unistore: solera_unistore::Recovery::new(config, seed) }
    }

    /// Returns the recovery of the protocol whose number `bytes` begin with.
    fn of(&mut self, bytes: &[u8]) -> Result<&mut solera_unistore::Recovery, String> {
        let unreadable = |foreign: Foreign| format!("bytes that cannot be read: {foreign}");
        let (protocol, _) = Protocol::read_records(PROTOCOLS, bytes).map_err(unreadable)?;
        match protocol {
            solera_unistore::PROTOCOL => Ok(&mut self.unistore),
            other => unreachable!("{} is in no list of protocols", other.name),
        }
    }
}

impl solera_machine::Recovery for Recovery {
    type Machine = Site;

    fn take_part(&mut self, lsn: u64, part: &[u8]) -> Result<(), String> {
        self.of(part)?.take_part(lsn, part)
    }

    fn take_record(&mut self, lsn: u64, record: &[u8]) -> Result<(), String> {
        self.of(record)?.take_record(lsn, record)
    }

    fn into_machine(self) -> Site {
        Site::of(self.unistore.into_machine())
    }
}

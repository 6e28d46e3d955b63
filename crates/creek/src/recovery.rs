//! Recovery of a machine from a checkpoint and records.

use crate::checkpoint::PartOf;
use crate::config::Config;
use crate::machine::{Creek, Loading};
use crate::object::Procedures;
use crate::record::{Encoded, Record};

/// A machine under recovery.
pub struct Recovery<P: Procedures> {
    machine: Creek<P>,
    loading: Loading<P>,
    /// Parts of another site's data that a joining site has fetched.
    fetched: Vec<Encoded>,
}

impl<P: Procedures> Recovery<P> {
    /// Creates a recovery without any data.
    pub fn new(config: Config, procedures: P) -> Recovery<P> {
        let machine = Creek::empty(config, procedures);
        Recovery { machine, loading: Loading::own(), fetched: Vec::new() }
    }

    /// Restores a part of a checkpoint.
    ///
    /// All parts hold the state at the time of the first one, so records up to the number with
    /// which a later part was written are replayed as well. Replaying a record whose effect the
    /// parts contain changes nothing.
    ///
    /// # Errors
    /// The bytes are no part of this protocol.
    pub fn take_part(&mut self, part: &[u8]) -> Result<(), String> {
        let part = PartOf::<P>::decode(part).map_err(|error| error.to_string())?;
        self.loading.take(&mut self.machine, part);
        Ok(())
    }

    /// Restores a record.
    ///
    /// # Errors
    /// The bytes are no record of this protocol.
    pub fn take_record(&mut self, record: &[u8]) -> Result<(), String> {
        let record = Record::decode(record).map_err(|error| error.to_string())?;
        self.loading.place_kept(&mut self.machine.replica);
        let Creek { replica, consensus, .. } = &mut self.machine;
        match record {
            Record::Started { run } => {
                replica.run = run.max(replica.run);
                // A crash has interrupted the transfer.
                self.fetched.clear();
            }
            Record::Operation(request) => replica.restore(request),
            Record::Consensus(record) => {
                let delivery = consensus.restore(record).map_err(|error| error.to_string())?;
                if let Some(delivery) = delivery {
                    self.machine.redeliver(&delivery);
                }
            }
            Record::Fetched(part) => self.fetched.push(part),
            Record::Closed(closed) => replica.restore_closed(closed),
            Record::Filled => {
                let parts = std::mem::take(&mut self.fetched);
                self.machine.take_over(Creek::<P>::decode_parts(&parts)?);
            }
        }
        while self.machine.replica.poll_output().is_some() {}
        Ok(())
    }

    /// Returns the machine with the state after the last record. It begins a new run.
    pub fn into_machine(mut self) -> Creek<P> {
        let replica = &mut self.machine.replica;
        self.loading.end(replica);
        while replica.poll_output().is_some() {}
        replica.start();
        self.machine
    }
}

impl<P: Procedures> solera_machine::Recovery for Recovery<P> {
    type Machine = Creek<P>;

    fn take_part(&mut self, _: u64, part: &[u8]) -> Result<(), String> {
        Recovery::take_part(self, part)
    }

    fn take_record(&mut self, _: u64, record: &[u8]) -> Result<(), String> {
        Recovery::take_record(self, record)
    }

    fn into_machine(self) -> Creek<P> {
        Recovery::into_machine(self)
    }
}

//! Rebuilds the machine from its journal.

use solera_machine::Now;
use solera_membership::Members;
use solera_time::{Monotonic, Physical};

use crate::config::Config;
use crate::machine::Occult;
use crate::outbox::Outbox;
use crate::record::{Part, Record};

/// Rebuilds a machine from the parts of a checkpoint and the records since.
#[derive(Debug)]
pub struct Recovery {
    occult: Occult,
}

impl Recovery {
    /// Creates a recovery without any data. `first` is the list of sites with which the worker's
    /// generation began.
    pub fn new(config: Config, first: &Members) -> Recovery {
        Recovery { occult: Occult::empty(config, first) }
    }

    /// Restores a part of a checkpoint.
    ///
    /// # Errors
    /// The reason why the bytes are not a part of this worker's checkpoints.
    pub fn take_part(&mut self, part: &[u8]) -> Result<(), String> {
        let part = Part::decode(part).map_err(|error| error.to_string())?;
        if !part.is_within(self.occult.config()) {
            return Err("it belongs to a configuration with other shards or workers".to_owned());
        }
        self.occult.restore(part);
        Ok(())
    }

    /// Restores a record of the journal.
    ///
    /// # Errors
    /// The reason why the bytes are not a record of this worker.
    pub fn take_record(&mut self, record: &[u8]) -> Result<(), String> {
        let record = Record::decode(record).map_err(|error| error.to_string())?;
        if !record.is_within(self.occult.config()) {
            return Err("it belongs to a configuration with other shards or workers".to_owned());
        }
        self.occult.replay(record);
        Ok(())
    }

    /// Returns the machine with the sites `members`.
    pub fn into_machine(self, members: &Members) -> Occult {
        self.occult.recovered(members)
    }
}

impl Occult {
    /// Carries out a record again.
    pub(crate) fn replay(&mut self, record: Record) {
        let now = Now { monotonic: Monotonic(0), physical: Physical(0) };
        match record {
            Record::Started(incarnation) => self.note_incarnation(incarnation),
            Record::Batch(from, batch) => {
                self.replica.recover_batch(&mut self.store, from, batch);
            }
            Record::Copies(from, copies) => {
                let known = (&self.config, &self.homes);
                self.replica.take_copies(known, &mut self.store, from, copies);
            }
            Record::Table(table) => drop(self.apply_table(now, &table)),
            Record::Handover(handover) => self.apply_handover(&handover),
            Record::Took { shard, number, last } => self.took(now, shard, number, last),
            record => self.with_home(now, |home, context| home.recover(context, record)),
        }
        // The messages of this step were sent before the restart, or their sender repeats them.
        self.out = Outbox::default();
    }

    /// Chooses an incarnation above one of an earlier process.
    pub(crate) fn note_incarnation(&mut self, earlier: u64) {
        self.config.incarnation = self.config.incarnation.max(earlier + 1);
    }

    /// Ends the recovery. Open transactions of the worker's clients are lost.
    fn recovered(mut self, members: &Members) -> Occult {
        let now = Now { monotonic: Monotonic(0), physical: Physical(0) };
        self.members = members.clone();
        self.find_targets();
        self.resume_arrivals();
        self.restart_as(self.config.incarnation);
        self.with_home(now, |home, context| home.recovered(context));
        self.forget_gone();
        self.start();
        while let Some(out) = self.out.pop() {
            if let crate::outbox::Out::Record(record) = out {
                self.record(*record);
            }
        }
        self
    }
}

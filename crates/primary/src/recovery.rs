//! Rebuilds the machine from its journal.

use solera_machine::{Address, PartitionId};
use solera_membership::Members;

use crate::config::Config;
use crate::history::{Entry, Epoch, Held, Seen};
use crate::list::List;
use crate::machine::{Primary, Replica};
use crate::record::{Part, Record};

/// Rebuilds a machine from the parts of a checkpoint and the records since.
#[derive(Debug)]
pub struct Recovery {
    primary: Primary,
}

/// Content of a [`Part::Partition`].
struct Rest {
    applied: u64,
    log: Vec<Entry>,
    seen: Vec<(Address, Seen)>,
    epochs: Vec<Epoch>,
    home_for: Option<List>,
    filled: bool,
}

impl Recovery {
    /// Creates a recovery without any data. `first` is the list of sites with which the worker's
    /// generation began.
    pub fn new(config: Config, first: &Members) -> Recovery {
        let journal = config.journal;
        let mut primary = Primary::new(Config { journal: false, ..config }, first);
        primary.config.journal = journal;
        Recovery { primary }
    }

    /// Restores a part of a checkpoint.
    ///
    /// # Errors
    /// The reason why the bytes are not a part of this worker's checkpoints.
    pub fn take_part(&mut self, part: &[u8]) -> Result<(), String> {
        match Part::decode(part).map_err(|error| error.to_string())? {
            Part::Worker { numbers } => self.primary.requests.skip_to(numbers),
            Part::Values(id, values) => {
                let history = &mut self.replica(id)?.history;
                for (key, value, at) in values {
                    history.store.insert(key, Held { value, at });
                }
            }
            Part::Partition { partition, applied, log, seen, epochs, home_for, filled } => {
                let rest = Rest { applied, log, seen, epochs, home_for, filled };
                rest.restore(self.replica(partition)?);
            }
        }
        Ok(())
    }

    /// Restores a record of the journal.
    ///
    /// # Errors
    /// The reason why the bytes are not a record of this worker.
    pub fn take_record(&mut self, record: &[u8]) -> Result<(), String> {
        match Record::decode(record).map_err(|error| error.to_string())? {
            Record::Numbers(reserved) => self.primary.requests.skip_to(reserved),
            Record::Applied { partition, after, entries, epochs } => {
                let history = &mut self.replica(partition)?.history;
                // The partition was emptied after this record was written. The record of that
                // follows, so this one can be skipped.
                if after > history.applied {
                    return Ok(());
                }
                history.learn_epochs(&epochs);
                for (index, entry) in (after + 1..).zip(entries) {
                    if index > history.applied {
                        history.apply(entry);
                    } else {
                        // The checkpoint contains a later state of the partition than of this key.
                        history.change_value(index, &entry);
                    }
                }
            }
            Record::Home { partition, list, epochs } => {
                let replica = self.replica(partition)?;
                replica.home_for = Some(list);
                replica.history.learn_epochs(&epochs);
            }
            Record::Filled(id) => self.replica(id)?.filled = true,
            Record::Emptied(id) => self.replica(id)?.empty(),
            Record::Piece(id, piece) => {
                self.replica(id)?.stage(piece);
            }
        }
        Ok(())
    }

    /// Returns the machine with the sites `members`.
    pub fn into_machine(mut self, members: &Members) -> Primary {
        self.primary.members = members.clone();
        self.primary.list = List::of(members);
        for replica in &mut self.primary.replicas {
            replica.staging = None;
        }
        self.primary.take_roles();
        self.primary
    }

    fn replica(&mut self, id: PartitionId) -> Result<&mut Replica, String> {
        let place = self.primary.index_of(id);
        let place = place.ok_or_else(|| format!("partition {} belongs to another worker", id.0))?;
        Ok(&mut self.primary.replicas[place])
    }
}

impl Rest {
    fn restore(self, replica: &mut Replica) {
        let history = &mut replica.history;
        history.applied = self.applied;
        history.store.replace_log(self.log.into());
        history.seen = self.seen.into_iter().collect();
        history.epochs = self.epochs;
        (replica.home_for, replica.filled) = (self.home_for, self.filled);
    }
}

//! Parts of a checkpoint, which are written while the worker continues.
//!
//! Everything but the values comes first. Each value is therefore at least as recent as that first
//! part: the value contains all writes of transactions that had ended by then, and of batches up to
//! the positions in the first part. Records since the checkpoint began are replayed at recovery.
//! The prepares whose decisions come later are in the first part, and the stamp of each value shows
//! which writes it contains.

use solera_data::Key;

use super::Occult;
use crate::record::{Part, Record, Rest};
use crate::shard::ShardId;

/// Progress of a checkpoint.
#[derive(Debug, Default)]
pub struct Checkpoint {
    /// Whether everything but the values has been written.
    has_rest: bool,
    /// The last key that was written.
    after: Option<(ShardId, Key)>,
    complete: bool,
}

impl Checkpoint {
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }
}

impl Occult {
    /// See [`Machine::next_part`](solera_machine::Machine::next_part).
    pub(super) fn part_of(&self, checkpoint: &mut Checkpoint, keys: usize) -> Option<Part> {
        if !checkpoint.has_rest {
            checkpoint.has_rest = true;
            return Some(Part::Rest(Box::new(Rest {
                incarnation: self.config.incarnation,
                ceiling: self.home.ceiling(),
                records: (self.config.home_of_record().into_iter())
                    .chain(self.home.as_records())
                    .collect(),
                hidden: self.store.all_hidden(),
                hidden_decisions: self.home.hidden_decisions(),
                held: self.replica.held_entries(&self.homes),
                positions: self.replica.positions(),
                table: self.moving.knows_table().then(|| self.table()),
                taken: self.store.taken().collect(),
                decided: self.replica.decisions().all(),
            })));
        }
        if checkpoint.complete {
            return None;
        }
        let (values, last) = self.store.all_copies(checkpoint.after.as_ref(), keys.max(1));
        checkpoint.complete = last;
        let copied = values.last()?;
        checkpoint.after = Some((self.config.shard_of(&copied.key), copied.key.clone()));
        Some(Part::Values(values))
    }

    /// Applies the entries that the checkpoint has held back. All values are restored.
    pub(crate) fn apply_restored(&mut self) {
        for entry in std::mem::take(&mut self.restored) {
            self.store.apply(&entry);
        }
    }

    /// Restores a part.
    pub(crate) fn restore(&mut self, part: Part) {
        match part {
            Part::Values(values) => {
                for copied in values {
                    self.store.copy(self.config.shard_of(&copied.key), copied);
                }
            }
            Part::Rest(rest) => {
                let Rest {
                    incarnation,
                    ceiling,
                    records,
                    hidden,
                    hidden_decisions,
                    held,
                    positions,
                    table,
                    taken,
                    decided,
                } = *rest;
                self.note_incarnation(incarnation);
                if let Some(table) = table {
                    self.replay(Record::Table(Box::new(table)));
                }
                for (shard, number) in taken {
                    self.store.note_taken(shard, number);
                }
                self.replica.add_decided(decided);
                for record in records {
                    self.replay(record);
                }
                for (shard, stamp, key, effect, dependencies) in hidden {
                    self.store.hide(shard, stamp, (key, effect), &dependencies);
                }
                for decided in hidden_decisions {
                    self.home.restore_decision(decided);
                }
                // The values on which they act come in later parts.
                self.restored = held;
                for position in positions {
                    self.replica.restore(position);
                }
                self.replay(Record::Ceiling(ceiling));
            }
        }
    }
}

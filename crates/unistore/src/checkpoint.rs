//! Writing down all of a replica while it goes on, part by part.
//!
//! Each part is as of the last record before it. A partition's keys are listed when its turn comes; a
//! key that is new since then is in the records since the beginning of the checkpoint.

use std::sync::Arc;

use solera_data::Key;

use crate::message::Update;
use crate::record::Part;
use crate::replica::Replica;

/// How many updates are in one part.
const UPDATES: usize = 256;

/// How far a checkpoint has come.
#[derive(Debug, Default)]
pub struct Checkpoint {
    begun: bool,
    /// The owned partition whose turn it is.
    partition: usize,
    /// Of the partition before: what is still to be written.
    updates: Vec<Arc<Update>>,
    keys: Vec<Key>,
    complete: bool,
}

impl Checkpoint {
    /// Whether all parts have been written.
    pub fn is_complete(&self) -> bool {
        self.complete
    }
}

impl Replica {
    /// The next part of a checkpoint, with at most so many keys; `None` when it is complete, and
    /// at a joining site before it serves.
    ///
    /// # Panics
    /// If outputs were not taken: the part would know of records that have no number yet.
    pub fn next_part(&self, checkpoint: &mut Checkpoint, keys: usize) -> Option<Part> {
        assert!(
            self.has_no_outputs(),
            "records have to be written before a part that knows of them"
        );
        if !self.dissemination.view.serving {
            return None;
        }
        if !checkpoint.begun {
            checkpoint.begun = true;
            // What is folded no longer tells on which snapshots it was executed, and the last promise
            // may be older: all that has been seen is within what is uniform now.
            let mut promise = self.promised;
            promise.uniform_vec.join(&self.dissemination.view.uniform_vec);
            return Some(Part::Worker {
                promise,
                prepared: self.participant.to_save(),
                decided: self.coordinator.to_save(),
                members: self.dissemination.members.clone(),
            });
        }
        // The partition whose updates and keys are being written.
        let current = checkpoint.partition.checked_sub(1).map(|index| &self.partitions[index]);
        if let Some(partition) = current {
            if !checkpoint.updates.is_empty() {
                let rest = checkpoint.updates.split_off(checkpoint.updates.len().min(UPDATES));
                let updates = std::mem::replace(&mut checkpoint.updates, rest);
                return Some(Part::Updates(partition.id, updates));
            }
            if !checkpoint.keys.is_empty() {
                let rest = checkpoint.keys.len().saturating_sub(keys.max(1));
                let names = checkpoint.keys.split_off(rest);
                let saved = names.iter().map(|key| partition.save(key)).collect();
                return Some(Part::Keys(partition.id, saved));
            }
        }
        let Some(partition) = self.partitions.get(checkpoint.partition) else {
            checkpoint.complete = true;
            return None;
        };
        checkpoint.partition += 1;
        (checkpoint.updates, checkpoint.keys) = partition.to_save();
        Some(partition.summary())
    }
}

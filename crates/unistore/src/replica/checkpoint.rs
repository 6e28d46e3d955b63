//! Writing a checkpoint of a replica part by part, while the replica continues.
//!
//! Each part contains the effects of all records before it. The keys of a partition are listed when
//! the checkpoint reaches the partition. Keys that are added later are in the records since the
//! start of the checkpoint.

use std::sync::Arc;

use solera_data::Key;

use crate::command::TxId;
use crate::message::{Update, Write};
use crate::record::{Part, Prepared};
use crate::replica::Replica;

/// Number of updates in one part.
const UPDATES: usize = 256;
/// Approximate size of a part in bytes. A journal cannot store a part of 2^30 bytes, and clients
/// wait while one is written.
const PART_BYTES: usize = 1 << 20;

/// Progress of a checkpoint.
#[derive(Debug, Default)]
pub struct Checkpoint {
    begun: bool,
    /// Parts of the worker's own state that are still to be written.
    prepared: Vec<(TxId, Prepared)>,
    certification: Vec<solera_certification::Record<Write>>,
    guards: Vec<Part>,
    /// Index of the owned partition that comes next.
    partition: usize,
    /// Updates and keys of the partition before it that are still to be written.
    updates: Vec<Arc<Update>>,
    keys: Vec<Key>,
    /// Whether the times of other sites' workers are written.
    heard: bool,
    complete: bool,
}

impl Checkpoint {
    /// Returns whether all parts have been written.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }
}

impl Replica {
    /// See [`Machine::next_part`](solera_machine::Machine::next_part). At a joining site there are
    /// no parts before it serves.
    pub(crate) fn part_of(&self, checkpoint: &mut Checkpoint, keys: usize) -> Option<Part> {
        assert!(
            self.has_no_outputs(),
            "records have to be written before a part that knows of them"
        );
        if !self.worker.dissemination.view.serving {
            return None;
        }
        let first = !std::mem::replace(&mut checkpoint.begun, true);
        if first {
            checkpoint.prepared = self.participant.to_save();
            checkpoint.certification = self.strong.service.save();
            checkpoint.guards = self.participant.guarding.to_save(PART_BYTES);
        }
        if first || !checkpoint.prepared.is_empty() {
            let size = |(_, prepared): &(TxId, Prepared)| prepared.size();
            let prepared = take(&mut checkpoint.prepared, usize::MAX, size);
            let decided = if first { self.coordinator.to_save() } else { Vec::new() };
            // The folded state does not show on which snapshots its transactions were executed, and
            // the last promise may be older than these. `uniformVec` covers all of them.
            let mut promise = self.promised;
            promise.uniform_vec.join(&self.worker.dissemination.view.uniform_vec);
            let members = self.worker.dissemination.members.clone();
            return Some(Part::Worker { promise, prepared, decided, members });
        }
        if let Some(guards) = checkpoint.guards.pop() {
            return Some(guards);
        }
        if let Some(record) = checkpoint.certification.pop() {
            return Some(Part::Certification(Box::new(record)));
        }
        // The partition whose updates and keys are being written.
        let current =
            checkpoint.partition.checked_sub(1).map(|index| &self.worker.partitions[index]);
        if let Some(partition) = current {
            if !checkpoint.updates.is_empty() {
                let updates = take(&mut checkpoint.updates, UPDATES, |update| update.size());
                return Some(Part::Updates(partition.id, updates));
            }
            if !checkpoint.keys.is_empty() {
                let (mut saved, mut bytes) = (Vec::new(), 0);
                while saved.len() < keys.max(1)
                    && bytes < PART_BYTES
                    && let Some(key) = checkpoint.keys.pop()
                {
                    let key = partition.save(&key);
                    bytes += key.key.len() + key.base.size();
                    saved.push(key);
                }
                return Some(Part::Keys(partition.id, saved));
            }
        }
        let Some(partition) = self.worker.partitions.get(checkpoint.partition) else {
            if !std::mem::replace(&mut checkpoint.heard, true) {
                // This part comes after the partitions, because they have forgotten updates on the
                // basis of times that were received before.
                return Some(Part::Heard(self.heard_of.to_save()));
            }
            checkpoint.complete = true;
            return None;
        };
        checkpoint.partition += 1;
        (checkpoint.updates, checkpoint.keys) = partition.to_save();
        Some(partition.summary())
    }
}

/// Takes items from the front, up to and including the one that exceeds the size of a part.
fn take<T>(items: &mut Vec<T>, most: usize, size: impl Fn(&T) -> usize) -> Vec<T> {
    let mut bytes = 0;
    let large = |item: &T| {
        bytes += size(item);
        bytes >= PART_BYTES
    };
    let count = items.iter().take(most).position(large).map_or(items.len().min(most), |at| at + 1);
    let rest = items.split_off(count);
    std::mem::replace(items, rest)
}

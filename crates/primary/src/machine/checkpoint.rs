//! Parts of a checkpoint, which are written while the worker continues.
//!
//! Values of a partition are written before its other data. Records of updates that were applied in
//! between are replayed at recovery. Each value has the index of the last update that it includes.

use std::ops::Bound;

use solera_data::Key;

use super::Primary;
use crate::record::Part;

/// Approximate number of bytes of values after which a part ends.
const PART_BYTES: usize = 1 << 20;

/// Progress of a checkpoint.
#[derive(Debug, Default)]
pub struct Checkpoint {
    begun: bool,
    /// Index of the current partition.
    partition: usize,
    /// The last key of the current partition that was written.
    after: Option<Key>,
    /// Whether all keys of the current partition have been written.
    keys_done: bool,
    complete: bool,
}

impl Checkpoint {
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }
}

impl Primary {
    /// See [`Machine::next_part`](solera_machine::Machine::next_part).
    pub(crate) fn part_of(&self, checkpoint: &mut Checkpoint, keys: usize) -> Option<Part> {
        if !std::mem::replace(&mut checkpoint.begun, true) {
            return Some(Part::Worker { numbers: self.requests.reserved });
        }
        let Some(replica) = self.replicas.get(checkpoint.partition) else {
            checkpoint.complete = true;
            return None;
        };
        let history = &replica.history;
        if !checkpoint.keys_done {
            let from = checkpoint.after.clone().map_or(Bound::Unbounded, Bound::Excluded);
            let (mut values, mut bytes) = (Vec::new(), 0);
            for (key, held) in history.store.values().range((from, Bound::Unbounded)) {
                if values.len() >= keys.max(1) || bytes >= PART_BYTES {
                    break;
                }
                bytes += key.len() + held.value.len();
                values.push((key.clone(), held.value.clone(), held.at));
            }
            if let Some((last, ..)) = values.last() {
                checkpoint.after = Some(last.clone());
                return Some(Part::Values(history.id, values));
            }
            checkpoint.keys_done = true;
        }
        (checkpoint.partition, checkpoint.after) = (checkpoint.partition + 1, None);
        checkpoint.keys_done = false;
        Some(Part::Partition {
            partition: history.id,
            applied: history.applied,
            log: history.store.log().iter().cloned().collect(),
            seen: history.seen.iter().map(|(origin, seen)| (*origin, seen.clone())).collect(),
            epochs: history.epochs.clone(),
            home_for: replica.home_for.clone(),
            filled: replica.filled,
        })
    }
}

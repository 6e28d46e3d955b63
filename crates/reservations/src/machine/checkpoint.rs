//! Parts of a checkpoint, which are written while the worker continues.
//!
//! Everything but the keys comes first. A later part contains keys with the effects of all records
//! up to that time. Recovery therefore skips the effects of these records on these keys.

use std::ops::Bound;

use solera_machine::PartitionId;

use super::Reservations;
use crate::agreed::Key;
use crate::record::Part;

/// Progress of a checkpoint.
#[derive(Debug, Default)]
pub struct Checkpoint {
    /// Whether everything but the keys has been written.
    has_rest: bool,
    /// The last key that was written.
    after: Option<(PartitionId, Key)>,
    complete: bool,
}

impl Checkpoint {
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }
}

/// See [`Machine::next_part`](solera_machine::Machine::next_part).
pub(crate) fn next_part(
    worker: &Reservations,
    checkpoint: &mut Checkpoint,
    keys: usize,
) -> Option<Part> {
    if !checkpoint.has_rest {
        checkpoint.has_rest = true;
        let promises = worker.promises.iter().map(|(id, held)| (*id, held.clone()));
        return Some(Part::Rest {
            incarnation: worker.config.incarnation,
            prefixes: worker.config.prefixes(),
            partitions: worker.partitions.iter().map(|(id, it)| it.as_part(*id)).collect(),
            promises: promises.collect(),
        });
    }
    if checkpoint.complete {
        return None;
    }
    let mut parts = Vec::new();
    for (id, partition) in &worker.partitions {
        let after = match &checkpoint.after {
            Some((last, _)) if id < last => continue,
            Some((last, key)) if id == last => Bound::Excluded(key.clone()),
            _ => Bound::Unbounded,
        };
        let room = keys.max(1) - parts.len();
        parts.extend(partition.key_parts(*id, after, room));
        if let Some(last) = parts.last().filter(|_| parts.len() >= keys.max(1)) {
            checkpoint.after = Some((last.partition, last.key.clone()));
            return Some(Part::Keys(parts));
        }
    }
    checkpoint.complete = true;
    (!parts.is_empty()).then_some(Part::Keys(parts))
}

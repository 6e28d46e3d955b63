//! Checkpoints that writes overtake: homes show writes after the first part of Occult was written
//! and before the last one.

use std::collections::{BTreeMap, BTreeSet};

use solera_journal::Lsn;
use solera_machine::Address;

/// The present checkpoint of each worker, and those that writes have overtaken.
#[derive(Debug, Default)]
pub(crate) struct Overtaken {
    present: BTreeMap<Address, Present>,
    checkpoints: BTreeSet<(Address, Lsn)>,
}

#[derive(Debug)]
struct Present {
    /// The last record before the checkpoint.
    last: Lsn,
    /// Number of parts of Occult.
    parts: usize,
    /// Whether a home has shown writes after the last part.
    wrote: bool,
    /// Whether a part has followed such writes.
    is_overtaken: bool,
}

impl Overtaken {
    /// Notes that a worker begins a checkpoint after this record.
    pub(crate) fn begin(&mut self, worker: Address, last: Lsn) {
        let present = Present { last, parts: 0, wrote: false, is_overtaken: false };
        self.present.insert(worker, present);
    }

    /// Notes that a home of a worker shows writes.
    pub(crate) fn note_write(&mut self, worker: Address) {
        if let Some(present) = self.present.get_mut(&worker) {
            present.wrote |= present.parts > 0;
        }
    }

    /// Notes that a worker has written a part.
    pub(crate) fn note_part(&mut self, worker: Address) {
        let Some(present) = self.present.get_mut(&worker) else { return };
        present.is_overtaken |= std::mem::take(&mut present.wrote);
        present.parts += 1;
    }

    /// Notes that a worker's checkpoint is whole. Returns whether writes have overtaken it.
    pub(crate) fn end(&mut self, worker: Address) -> bool {
        let Some(present) = self.present.remove(&worker) else { return false };
        if present.is_overtaken {
            self.checkpoints.insert((worker, present.last));
        }
        present.is_overtaken
    }

    /// Returns whether a worker has written some parts of Occult, and the checkpoint is not whole.
    pub(crate) fn is_half_way(&self, worker: Address) -> bool {
        self.present.get(&worker).is_some_and(|present| present.parts > 0)
    }

    /// Returns whether writes have overtaken the checkpoint with which a worker starts.
    pub(crate) fn has(&self, worker: Address, checkpoint: Option<Lsn>) -> bool {
        checkpoint.is_some_and(|last| self.checkpoints.contains(&(worker, last)))
    }
}

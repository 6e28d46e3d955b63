//! Checkpoints, part by part.

use solera_journal::{Error, Lsn};
use solera_machine::Machine;

use crate::log::Snapshot;

/// A checkpoint is begun after so many bytes of records, or after as many as the last one has.
const CHECKPOINT_BYTES: u64 = 64 << 20;

/// The checkpoint that is being written, and when the next one is due.
pub(crate) struct Checkpoints<M: Machine, S> {
    saving: Option<Saving<M, S>>,
    /// The log puts a complete one in force.
    publishing: bool,
    /// Bytes of records since the last checkpoint began, and of that checkpoint.
    since: u64,
    last: u64,
    /// The next one is due whatever was written: the disk has little room left, and records that a
    /// checkpoint stands for may go.
    makes_room: bool,
    /// Why the last one failed, until somebody has asked.
    problem: Option<Error>,
    /// The bytes of a part.
    bytes: Vec<u8>,
}

struct Saving<M: Machine, S> {
    checkpoint: M::Checkpoint,
    snapshot: S,
    /// The last record that the parts so far know of.
    knows: Lsn,
    bytes: u64,
}

impl<M: Machine, S> Default for Checkpoints<M, S> {
    fn default() -> Self {
        Checkpoints {
            saving: None,
            publishing: false,
            since: 0,
            last: 0,
            makes_room: false,
            problem: None,
            bytes: Vec::new(),
        }
    }
}

impl<M: Machine, S: Snapshot> Checkpoints<M, S> {
    /// A record of so many bytes was written.
    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.since += bytes as u64;
    }

    pub(crate) fn is_due(&self) -> bool {
        let enough = self.since >= CHECKPOINT_BYTES.max(self.last);
        // Two at a time would need room for the data once more, and the log's events do not say
        // which they mean.
        let none = self.saving.is_none() && !self.publishing;
        none && (enough || self.makes_room)
    }

    /// Whether the next checkpoint is due at once, because the log needs room.
    pub(crate) fn need_room(&mut self, needs: bool) {
        self.makes_room = needs;
    }

    pub(crate) fn is_saving(&self) -> bool {
        self.saving.is_some()
    }

    pub(crate) fn backlog_bytes(&self) -> usize {
        self.saving.as_ref().map_or(0, |saving| saving.snapshot.backlog_bytes())
    }

    pub(crate) fn begin(&mut self, snapshot: S, lsn: Lsn) {
        (self.since, self.makes_room) = (0, false);
        let checkpoint = M::Checkpoint::default();
        self.saving = Some(Saving { checkpoint, snapshot, knows: lsn, bytes: 0 });
    }

    /// Writes the next part of what was begun; the last record is `lsn`.
    pub(crate) fn add_part(&mut self, machine: &M, lsn: Lsn, keys: usize) -> Option<M::Part> {
        let saving = self.saving.as_mut()?;
        let part = machine.next_part(&mut saving.checkpoint, keys)?;
        self.bytes.clear();
        self.bytes.extend_from_slice(&lsn.0.to_le_bytes());
        M::encode_part(&part, &mut self.bytes);
        saving.bytes += self.bytes.len() as u64;
        saving.knows = lsn;
        if let Err(error) = saving.snapshot.add(&self.bytes) {
            self.give_up(error);
        }
        Some(part)
    }

    /// The checkpoint, if it is complete and all records that it knows of are durable.
    pub(crate) fn take_complete(&mut self, durable: Lsn) -> Option<S> {
        let saving = self
            .saving
            .take_if(|saving| M::is_complete(&saving.checkpoint) && saving.knows <= durable)?;
        self.last = saving.bytes;
        self.publishing = true;
        Some(saving.snapshot)
    }

    /// The complete checkpoint is in force.
    pub(crate) fn published(&mut self) {
        self.publishing = false;
    }

    /// The next is begun when as much was written again.
    pub(crate) fn give_up(&mut self, error: Error) {
        (self.saving, self.publishing) = (None, false);
        (self.since, self.makes_room) = (0, false);
        self.problem = Some(error);
    }

    /// Nothing is written any more.
    pub(crate) fn stop(&mut self) {
        self.saving = None;
    }

    pub(crate) fn take_problem(&mut self) -> Option<Error> {
        self.problem.take()
    }
}

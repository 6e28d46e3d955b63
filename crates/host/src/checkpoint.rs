//! Checkpoints, written part by part.

use solera_journal::{Error, Lsn};
use solera_machine::Machine;

use crate::log::Snapshot;

/// Bytes of records after which a checkpoint is due. The size of the last checkpoint replaces this
/// number if it is larger.
const CHECKPOINT_BYTES: u64 = 64 << 20;

/// The checkpoint that is being written, and the state that determines when the next is due.
pub(crate) struct Checkpoints<M: Machine, S> {
    saving: Option<Saving<M, S>>,
    /// Whether the log is publishing a complete checkpoint.
    publishing: bool,
    /// Bytes of records since the last checkpoint began.
    since: u64,
    last: u64,
    /// Whether the next checkpoint is due regardless of the bytes written, because the disk has
    /// little space left and a checkpoint lets the log delete older records.
    makes_room: bool,
    /// Error that ended the last checkpoint, until the host has taken it.
    problem: Option<Error>,
    /// Buffer for the bytes of a part.
    bytes: Vec<u8>,
}

struct Saving<M: Machine, S> {
    checkpoint: M::Checkpoint,
    snapshot: S,
    /// Last record whose effects the parts so far contain.
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
    /// Counts a record of `bytes` bytes.
    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.since += bytes as u64;
    }

    pub(crate) fn is_due(&self) -> bool {
        let enough = self.since >= CHECKPOINT_BYTES.max(self.last);
        // Two checkpoints at a time would need space for the data twice, and the log's events do
        // not identify the checkpoint that they are about.
        let none = self.saving.is_none() && !self.publishing;
        none && (enough || self.makes_room)
    }

    /// Sets whether the next checkpoint is due at once, because the log needs space.
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

    /// Writes the next part of the checkpoint; `lsn` is the number of the last record.
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

    /// Returns the checkpoint, if it is complete and all records whose effects it contains are
    /// durable.
    pub(crate) fn take_complete(&mut self, durable: Lsn) -> Option<S> {
        let saving = self
            .saving
            .take_if(|saving| M::is_complete(&saving.checkpoint) && saving.knows <= durable)?;
        self.last = saving.bytes;
        self.publishing = true;
        Some(saving.snapshot)
    }

    /// Notes that the log has published the complete checkpoint.
    pub(crate) fn published(&mut self) {
        self.publishing = false;
    }

    /// Gives the checkpoint up. The next is due after as many bytes of records again.
    pub(crate) fn give_up(&mut self, error: Error) {
        (self.saving, self.publishing) = (None, false);
        (self.since, self.makes_room) = (0, false);
        self.problem = Some(error);
    }

    /// Discards the checkpoint, because the log writes nothing any more.
    pub(crate) fn stop(&mut self) {
        self.saving = None;
    }

    pub(crate) fn take_problem(&mut self) -> Option<Error> {
        self.problem.take()
    }
}

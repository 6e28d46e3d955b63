//! A worker's journal and checkpoints, as far as a replica can tell: what was written survives a crash
//! once it was synced, and what was not yet may survive in part.

use std::collections::VecDeque;

use solera_unistore::{Checkpoint, Config, Event, Output, Part, Record, Recovery, Replica};

use crate::random::Random;

/// Encoded parts of a checkpoint, each with the last record that it knows of.
type Parts = Vec<(u64, Vec<u8>)>;

/// Records, outputs that wait for them, and what a restart begins with.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    /// The encoded records after the checkpoint in force.
    records: VecDeque<Vec<u8>>,
    /// The number of the last record that is part of the checkpoint in force and no more kept.
    trimmed: u64,
    /// The last record that is durable.
    persisted: u64,
    /// Up to where the sync under way will make durable.
    syncing: Option<u64>,
    held: VecDeque<(u64, Output)>,
    /// How often power has failed.
    pub(crate) crashes: u64,
    /// Commits that a crash now would undo.
    undurable: VecDeque<(u64, Event)>,
    checkpoint: Parts,
    /// A checkpoint that is being written: its beginning, how far it is, and its parts.
    writing: Option<(u64, Checkpoint, Parts)>,
}

impl Disk {
    fn written(&self) -> u64 {
        self.trimmed + self.records.len() as u64
    }

    pub(crate) fn write(&mut self, record: &Record) {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        self.records.push_back(bytes);
    }

    /// An output leaves now, or once what was written before it is durable.
    pub(crate) fn pass(&mut self, output: Output) -> Option<Output> {
        if self.persisted == self.written() && self.held.is_empty() {
            return Some(output);
        }
        self.held.push_back((self.written(), output));
        None
    }

    pub(crate) fn note(&mut self, event: &Event) {
        if self.persisted < self.written() && matches!(event, Event::Committed { .. }) {
            self.undurable.push_back((self.written(), event.clone()));
        }
    }

    /// Whether something is written and not durable.
    pub(crate) fn is_syncing(&self) -> bool {
        self.persisted < self.written()
    }

    /// Whether a sync should begin.
    pub(crate) fn begin_sync(&mut self) -> bool {
        let due = self.syncing.is_none() && self.persisted < self.written();
        if due {
            self.syncing = Some(self.written());
        }
        due
    }

    /// The sync is done. Returns what may leave now.
    pub(crate) fn end_sync(&mut self) -> Vec<Output> {
        let Some(upto) = self.syncing.take() else { return Vec::new() };
        self.persisted = upto;
        self.undurable.retain(|(lsn, _)| *lsn > upto);
        self.finish_checkpoint();
        let free = self.held.partition_point(|(lsn, _)| *lsn <= upto);
        self.held.drain(..free).map(|(_, output)| output).collect()
    }

    /// Writes the next part of a checkpoint, or begins one.
    pub(crate) fn checkpoint(&mut self, replica: &Replica, keys: usize) -> Option<(u64, Part)> {
        let lsn = self.written();
        let (_, checkpoint, parts) =
            self.writing.get_or_insert_with(|| (lsn, Checkpoint::default(), Vec::new()));
        if let Some(part) = replica.next_part(checkpoint, keys) {
            let mut bytes = Vec::new();
            part.encode(&mut bytes);
            parts.push((lsn, bytes));
            Some((lsn, part))
        } else {
            self.finish_checkpoint();
            None
        }
    }

    /// What a restart would begin with.
    pub(crate) fn contents(&self) -> String {
        let (parts, first, last) = (self.checkpoint.len(), self.trimmed + 1, self.written());
        format!("{parts} parts of a checkpoint and records {first} to {last}")
    }

    /// A complete checkpoint is in force once all that it knows of is durable.
    fn finish_checkpoint(&mut self) {
        let Some((begun, checkpoint, parts)) = &mut self.writing else { return };
        let complete = checkpoint.is_complete();
        if complete && parts.last().is_some_and(|(lsn, _)| *lsn <= self.persisted) {
            self.checkpoint = std::mem::take(parts);
            let unneeded = (*begun - self.trimmed) as usize;
            self.records.drain(..unneeded);
            self.trimmed = *begun;
            self.writing = None;
        }
    }

    /// Power fails. Returns the commits that are undone.
    pub(crate) fn crash(&mut self, random: &mut Random) -> Vec<Event> {
        self.crashes += 1;
        let unsynced = self.written() - self.persisted;
        let kept = self.persisted + random.within(0, unsynced + 1);
        self.records.truncate((kept - self.trimmed) as usize);
        self.persisted = kept;
        (self.syncing, self.writing) = (None, None);
        self.held.clear();
        let undone = std::mem::take(&mut self.undurable).into_iter();
        undone.filter(|(lsn, _)| *lsn > kept).map(|(_, event)| event).collect()
    }

    /// The replica, from what is on the disk.
    pub(crate) fn recover(&self, config: Config, seed: u64) -> Replica {
        let mut recovery = Recovery::new(config, seed);
        for (lsn, bytes) in &self.checkpoint {
            let part = Part::decode(bytes).expect("it was written by this program");
            recovery.load(*lsn, part).expect("the partitions are the same");
        }
        for (lsn, bytes) in (self.trimmed + 1..).zip(&self.records) {
            let record = Record::decode(bytes).expect("it was written by this program");
            recovery.replay(lsn, record).expect("the partitions are the same");
        }
        recovery.finish()
    }
}

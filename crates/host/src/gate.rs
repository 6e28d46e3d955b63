//! Holds outputs of a machine until the records before them are durable.

use std::collections::VecDeque;

use solera_journal::{Error, Event, Lsn};
use solera_machine::{Machine, Output, OutputOf, Records};

use crate::checkpoint::Checkpoints;
use crate::log::Log;
use crate::options::{Options, Rule};

/// Number of bytes at which records are submitted to the disk if no output waits for them.
const SUBMIT_BYTES: usize = 256 << 10;

pub(crate) struct Gate<M: Machine, L: Log, C> {
    log: L,
    options: Options,
    persisted: Lsn,
    /// Last record that was submitted to the disk; the field below counts the bytes after it.
    submitted: Lsn,
    unsubmitted: usize,
    /// Outputs after records that are not durable yet.
    held: VecDeque<(Lsn, OutputOf<M>)>,
    /// Outputs whose records have become durable.
    released: VecDeque<OutputOf<M>>,
    /// Clients of direct calls that wait for records, and those whose records have become durable.
    waiting: VecDeque<(Lsn, C)>,
    durable: VecDeque<C>,
    /// Reason for which writes are rejected.
    failure: Option<Error>,
    /// Whether the log has failed for good.
    stopped: bool,
    /// Whether the log has failed for good and the host has not read this yet.
    just_stopped: bool,
    checkpoints: Checkpoints<M, L::Snapshot>,
}

impl<M: Machine, L: Log, C> Gate<M, L, C> {
    pub(crate) fn new(log: L, persisted: Lsn, options: Options) -> Self {
        Gate {
            log,
            options,
            persisted,
            submitted: persisted,
            unsubmitted: 0,
            held: VecDeque::new(),
            released: VecDeque::new(),
            waiting: VecDeque::new(),
            durable: VecDeque::new(),
            failure: None,
            stopped: false,
            just_stopped: false,
            checkpoints: Checkpoints::default(),
        }
    }

    pub(crate) fn log(&self) -> &L {
        &self.log
    }

    pub(crate) fn log_mut(&mut self) -> &mut L {
        &mut self.log
    }

    pub(crate) fn write(&mut self, records: &Records) {
        for record in records.iter() {
            if self.stopped {
                return;
            }
            self.checkpoints.wrote(record.len());
            self.unsubmitted += record.len();
            if let Err(error) = self.log.append(record) {
                self.fail(error);
            }
        }
    }

    /// Returns a message or reply that may leave now; holds one that must wait for the records
    /// before it.
    pub(crate) fn pass(&mut self, output: OutputOf<M>) -> Option<OutputOf<M>> {
        if self.stopped {
            // Other nodes must not receive anything that is not durable.
            let reply = matches!(output, Output::Reply { .. });
            return (reply && self.answers()).then_some(output);
        }
        if !self.must_wait() {
            return Some(output);
        }
        self.held.push_back((self.log.last(), output));
        None
    }

    /// Returns a client that may continue now; holds one that must wait for the records of its
    /// direct call.
    pub(crate) fn hold(&mut self, client: C) -> Option<C> {
        if self.stopped {
            return self.answers().then_some(client);
        }
        if !self.must_wait() || !self.options.without.keeps(Rule::HoldClients) {
            return Some(client);
        }
        self.waiting.push_back((self.log.last(), client));
        None
    }

    pub(crate) fn take_durable(&mut self) -> Option<C> {
        self.durable.pop_front()
    }

    /// Returns whether an output that is emitted now has to wait for records.
    pub(crate) fn must_wait(&self) -> bool {
        let waits = self.options.waits && !self.stopped && self.has_undurable();
        waits && self.options.without.keeps(Rule::SyncFirst)
    }

    pub(crate) fn take_released(&mut self) -> Option<OutputOf<M>> {
        self.released.pop_front()
    }

    pub(crate) fn waits(&self) -> bool {
        self.options.waits
    }

    pub(crate) fn has_undurable(&self) -> bool {
        self.persisted < self.log.last()
    }

    pub(crate) fn wants_submit(&self) -> bool {
        if self.stopped || self.submitted == self.log.last() {
            return false;
        }
        match self.options.waits {
            true => self.submitted <= self.persisted,
            false => self.unsubmitted >= SUBMIT_BYTES,
        }
    }

    pub(crate) fn submit(&mut self) {
        if self.stopped {
            return;
        }
        self.submitted = self.log.last();
        self.unsubmitted = 0;
        if let Err(error) = self.log.submit() {
            self.fail(error);
        }
    }

    pub(crate) fn on_event(&mut self, event: Event) {
        match event {
            Event::Persisted(lsn) => {
                self.persisted = self.persisted.max(lsn);
                self.publish();
                let free = self.held.partition_point(|(of, _)| *of <= lsn);
                self.released.extend(self.held.drain(..free).map(|(_, output)| output));
                let durable = self.waiting.partition_point(|(of, _)| *of <= lsn);
                self.durable.extend(self.waiting.drain(..durable).map(|(_, client)| client));
            }
            Event::SpaceLow(error) => {
                self.failure.get_or_insert(error);
                self.checkpoints.need_room(true);
            }
            Event::SpaceRegained => {
                self.failure.take_if(|_| !self.stopped);
                self.checkpoints.need_room(false);
            }
            Event::Failed(error) => self.fail(error),
            Event::SnapshotPublished(_) => self.checkpoints.published(),
            Event::SnapshotFailed(error) => self.checkpoints.give_up(error),
        }
    }

    /// Stops all writing. Held outputs and clients are dropped, because their records are not
    /// durable.
    fn fail(&mut self, error: Error) {
        if !self.stopped {
            // The error of the failure is more specific than that the disk was nearly full.
            self.failure = Some(error);
            (self.stopped, self.just_stopped) = (true, true);
        }
        self.held.clear();
        self.waiting.clear();
        self.checkpoints.stop();
    }

    pub(crate) fn refuses(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    pub(crate) fn has_stopped(&self) -> bool {
        self.stopped
    }

    pub(crate) fn has_just_stopped(&mut self) -> bool {
        std::mem::take(&mut self.just_stopped)
    }

    pub(crate) fn answers(&self) -> bool {
        let has_log = !self.stopped || !self.options.waits;
        has_log || !self.options.without.keeps(Rule::LogToAnswer)
    }

    pub(crate) fn wants_checkpoint(&self) -> bool {
        !self.stopped && self.checkpoints.is_due()
    }

    pub(crate) fn need_checkpoint(&mut self) {
        self.checkpoints.need_room(true);
    }

    pub(crate) fn is_saving(&self) -> bool {
        self.checkpoints.is_saving()
    }

    pub(crate) fn checkpoint_backlog(&self) -> usize {
        self.checkpoints.backlog_bytes()
    }

    pub(crate) fn begin_checkpoint(&mut self) {
        if self.stopped {
            return;
        }
        let lsn = self.log.last();
        match self.log.begin_snapshot(lsn) {
            Ok(snapshot) => self.checkpoints.begin(snapshot, lsn),
            Err(error) => self.checkpoints.give_up(error),
        }
    }

    pub(crate) fn save(&mut self, machine: &M, keys: usize) -> Option<(Lsn, M::Part)> {
        let lsn = self.log.last();
        let part = self.checkpoints.add_part(machine, lsn, keys);
        self.publish();
        Some((lsn, part?))
    }

    /// Publishes a complete checkpoint once all records whose effects it contains are durable.
    fn publish(&mut self) {
        let durable = match self.options.without.keeps(Rule::PublishDurable) {
            true => self.persisted,
            false => self.log.last(),
        };
        let Some(snapshot) = self.checkpoints.take_complete(durable) else { return };
        match self.log.publish(snapshot) {
            Ok(true) => self.checkpoints.published(),
            Ok(false) => {}
            Err(error) => self.checkpoints.give_up(error),
        }
    }

    pub(crate) fn take_problem(&mut self) -> Option<Error> {
        self.checkpoints.take_problem()
    }
}

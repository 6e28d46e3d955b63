//! Runs a journal on its own thread, so that appending never waits for a disk.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::disk::Disk;
use crate::error::Error;
use crate::identity::Identity;
use crate::journal::Journal;
use crate::lsn::Lsn;
use crate::record::{Batch, Encoder};
use crate::snapshot::{SnapshotFile, WrittenSnapshot, snapshot_header};
use crate::stats::{Counters, Stats};
use crate::writer::Writer;

/// Number of written bytes after which the thread syncs, even if more batches are waiting.
const BURST_BYTES: usize = 8 << 20;
/// Number of buffers kept for later batches, and their maximum size. The first use of new memory
/// costs more than filling it.
const SPARE_BUFFERS: usize = 4;
const SPARE_BYTES: usize = 1 << 20;
/// Number of bytes of a snapshot that are passed to its thread at once.
const HAND_OVER_BYTES: usize = 256 << 10;

/// Policy that determines when written records are synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Syncs immediately. The next sync covers all records that arrive during a sync.
    Always,
    /// Syncs records at most this many milliseconds after they were written. A power failure may
    /// lose the records of such an interval; a crash of the process loses no written records.
    Interval {
        /// Maximum time that a record waits, in milliseconds.
        interval_ms: u64,
    },
}

/// Event of a journal's thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// All records up to this one are durable.
    Persisted(Lsn),
    /// The disk is full except for the rest of the current segment. The owner should stop accepting
    /// writes and free space with a snapshot.
    SpaceLow(Error),
    /// The disk has space for another segment again, after `SpaceLow`.
    SpaceRegained,
    /// A snapshot of all records up to this one is current.
    SnapshotPublished(Lsn),
    /// A snapshot failed. The journal continues, with the previous snapshot.
    SnapshotFailed(Error),
    /// The journal has failed permanently. Records that were not reported as persisted must be
    /// considered lost.
    Failed(Error),
}

/// The worker's handle of a journal that a thread writes and syncs.
///
/// Dropping it waits until all submitted records are synced, like [`close`](Self::close), but
/// reports errors to the callback only.
#[derive(Debug)]
pub struct Syncer<D: Disk> {
    encoder: Encoder,
    disk: D,
    identity: Identity,
    snapshots: u64,
    /// Number and bytes of records appended since the start.
    appended: (u64, u64),
    counters: Arc<Counters>,
    commands: Sender<Command>,
    /// Empty buffers that the thread returns.
    spares: Receiver<Vec<u8>>,
    failure: Arc<OnceLock<Error>>,
    thread: Option<JoinHandle<()>>,
}

/// A snapshot that a separate thread writes; see [`Syncer::begin_snapshot`].
#[derive(Debug)]
pub struct BackgroundSnapshot {
    encoder: Encoder,
    pieces: Sender<Piece>,
    backlog: Arc<AtomicUsize>,
}

#[derive(Debug)]
enum Command {
    Write(Batch),
    Policy(SyncPolicy),
    Publish(WrittenSnapshot),
    SnapshotFailed(Error),
    LookForRoom,
    Close,
}

#[derive(Debug)]
enum Piece {
    Frames(Vec<u8>),
    /// End of the snapshot, with the number after the last record.
    End(u64),
}

impl<D: Disk> Syncer<D> {
    /// Starts a thread for `journal`. The thread calls `on_event`, which should only forward the
    /// event.
    ///
    /// Records that were appended to the journal before are written with the first batch.
    pub fn start(
        journal: Journal<D>,
        policy: SyncPolicy,
        on_event: impl FnMut(Event) + Send + 'static,
    ) -> io::Result<Syncer<D>> {
        let Journal { encoder, writer } = journal;
        let (disk, identity) = (writer.disk().clone(), writer.identity().clone());
        let (commands, inbox) = channel();
        let (spare, spares) = sync_channel(SPARE_BUFFERS);
        let failure = Arc::new(OnceLock::new());
        let reported = writer.persisted();
        let failed = failure.clone();
        let counters = Arc::new(Counters::default());
        counters.set_segments(writer.segments());
        let counting = counters.clone();
        // Of the records appended before the start, only the bytes of their frames are known.
        let before = encoder.waiting_bytes() as u64;
        let sync_at = None;
        let thread =
            Thread { writer, policy, inbox, spare, on_event, counting, failed, reported, sync_at };
        let thread = Builder::new().name("solera-journal".to_owned()).spawn(|| thread.run())?;
        let thread = Some(thread);
        let (snapshots, appended) = (0, (0, before));
        Ok(Syncer {
            encoder,
            disk,
            identity,
            snapshots,
            appended,
            counters,
            commands,
            spares,
            failure,
            thread,
        })
    }

    /// Retries preparing the next segment if the disk was full: space may have been freed.
    pub fn look_for_room(&self) {
        // A journal that has ended needs no space.
        let _ = self.commands.send(Command::LookForRoom);
    }

    /// Appends a record and returns its number. The record stays in memory until
    /// [`submit`](Self::submit).
    pub fn append(&mut self, record: &[u8]) -> Result<Lsn, Error> {
        self.usable()?;
        let before = self.encoder.waiting_bytes();
        let lsn = self.encoder.append(record).map(Lsn)?;
        self.appended.0 += 1;
        self.appended.1 += (self.encoder.waiting_bytes() - before) as u64;
        Ok(lsn)
    }

    /// Passes the appended records to the thread, to be written and synced. Never waits, so a slow
    /// disk makes the queue grow; see [`waiting_bytes`](Self::waiting_bytes).
    pub fn submit(&mut self) -> Result<(), Error> {
        self.usable()?;
        if self.encoder.waiting_bytes() == 0 {
            return Ok(());
        }
        let batch = self.encoder.take_for(self.spares.try_recv().unwrap_or_default());
        // The thread may have failed just now; it reports its error before it ends.
        let sent = self.commands.send(Command::Write(batch));
        sent.or_else(|_| self.usable().and(Err(Error::Stopped)))
    }

    /// Sets the sync policy.
    pub fn set_policy(&self, policy: SyncPolicy) {
        // If sending fails, the thread has ended and does not sync any more.
        let _ = self.commands.send(Command::Policy(policy));
    }

    /// Returns the number of bytes of records in memory that were not written yet. A caller that
    /// appends faster than the disk writes should wait when this grows.
    pub fn waiting_bytes(&self) -> u64 {
        self.counters.waiting(self.appended.1)
    }

    /// Returns statistics of the journal since it was opened.
    pub fn stats(&self) -> Stats {
        let (records, bytes) = self.appended;
        self.counters.stats(records, bytes)
    }

    /// Returns the last appended record; 0 if there is none.
    pub fn last_lsn(&self) -> Lsn {
        Lsn(self.encoder.next()).before()
    }

    /// Returns the error that ended the journal.
    pub fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    /// Begins a snapshot of all records up to `lsn`, which must have been appended. A separate
    /// thread writes it; [`Event::SnapshotPublished`] or [`Event::SnapshotFailed`] reports its end.
    pub fn begin_snapshot(&mut self, lsn: Lsn) -> Result<BackgroundSnapshot, Error> {
        if lsn > self.last_lsn() {
            let (from, to) = (Lsn(0), self.last_lsn());
            return Err(Error::SnapshotOutOfOrder { snapshot: lsn, from, to });
        }
        // A snapshot is published after its records are on the disk, so they must be submitted.
        self.submit()?;
        self.snapshots += 1;
        let (pieces, inbox) = channel();
        let backlog = Arc::new(AtomicUsize::new(0));
        let header = snapshot_header(&self.identity, lsn);
        let encoder = Encoder::new(1);
        let (disk, attempt, written) = (self.disk.clone(), self.snapshots, backlog.clone());
        let commands = self.commands.clone();
        let work = move || {
            let result = SnapshotFile::create(disk, header, attempt)
                .and_then(|file| write_snapshot(file, inbox, &written));
            // The thread takes no more pieces, so the backlog must not make callers wait.
            written.store(0, Ordering::Relaxed);
            let command = match result {
                Ok(Some(snapshot)) => Command::Publish(snapshot),
                Ok(None) => return,
                Err(error) => Command::SnapshotFailed(error),
            };
            // If the journal is closed, the next opening removes the unfinished file.
            let _ = commands.send(command);
        };
        let thread = Builder::new().name("solera-snapshot".to_owned()).spawn(work);
        thread.map_err(|error| Error::io("start a thread for", "a snapshot", &error))?;
        Ok(BackgroundSnapshot { encoder, pieces, backlog })
    }

    /// Writes and syncs all that was appended, and ends the thread.
    pub fn close(mut self) -> Result<(), Error> {
        let submitted = self.submit();
        self.stop()?;
        match self.failure() {
            Some(failure) => Err(failure.clone()),
            None => submitted,
        }
    }

    fn stop(&mut self) -> Result<(), Error> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        // If this fails, the thread has ended already.
        let _ = self.commands.send(Command::Close);
        thread.join().map_err(|_| Error::Stopped)
    }

    fn usable(&self) -> Result<(), Error> {
        match self.failure() {
            Some(cause) => Err(Error::Failed(Box::new(cause.clone()))),
            None => Ok(()),
        }
    }
}

impl<D: Disk> Drop for Syncer<D> {
    fn drop(&mut self) {
        // The callback has received the errors.
        let _ = self.submit();
        let _ = self.stop();
    }
}

impl BackgroundSnapshot {
    /// Appends a record. Never waits; see [`backlog_bytes`](Self::backlog_bytes).
    pub fn add(&mut self, record: &[u8]) -> Result<(), Error> {
        self.encoder.append(record)?;
        if self.encoder.waiting_bytes() >= HAND_OVER_BYTES {
            self.hand_over();
        }
        Ok(())
    }

    /// Returns the number of bytes that were passed to the thread and not written yet. A caller
    /// that adds faster than the disk writes should wait when this grows.
    pub fn backlog_bytes(&self) -> usize {
        self.backlog.load(Ordering::Relaxed)
    }

    /// Finishes the snapshot; its thread syncs and publishes it. Dropping it instead discards it.
    pub fn finish(mut self) {
        self.hand_over();
        self.send(Piece::End(self.encoder.next()));
    }

    fn hand_over(&mut self) {
        let frames = self.encoder.take().bytes;
        self.backlog.fetch_add(frames.len(), Ordering::Relaxed);
        self.send(Piece::Frames(frames));
    }

    fn send(&self, piece: Piece) {
        if self.pieces.send(piece).is_err() {
            // The snapshot has failed, and the callback has received the error.
            self.backlog.store(0, Ordering::Relaxed);
        }
    }
}

/// Writes the pieces that arrive; returns `None` if the snapshot was discarded.
fn write_snapshot<D: Disk>(
    mut file: SnapshotFile<D>,
    pieces: Receiver<Piece>,
    backlog: &AtomicUsize,
) -> Result<Option<WrittenSnapshot>, Error> {
    while let Ok(piece) = pieces.recv() {
        match piece {
            Piece::Frames(frames) => {
                let bytes = frames.len();
                file.write_frames(frames)?;
                backlog.fetch_sub(bytes, Ordering::Relaxed);
            }
            Piece::End(next) => return file.finish(next).map(Some),
        }
    }
    Ok(None)
}

/// State of the journal's thread.
struct Thread<D: Disk, E> {
    writer: Writer<D>,
    policy: SyncPolicy,
    inbox: Receiver<Command>,
    spare: SyncSender<Vec<u8>>,
    on_event: E,
    counting: Arc<Counters>,
    failed: Arc<OnceLock<Error>>,
    /// Last record that was reported as persisted.
    reported: Lsn,
    /// Time by which the written records must be synced.
    sync_at: Option<Instant>,
}

impl<D: Disk, E: FnMut(Event)> Thread<D, E> {
    fn run(mut self) {
        let ended = self.serve();
        self.report_persisted();
        if let Err(error) = ended {
            // The flag is set before the event, so that the callback can rely on it.
            let _ = self.failed.set(error.clone());
            (self.on_event)(Event::Failed(error));
        }
    }

    fn serve(&mut self) -> Result<(), Error> {
        loop {
            let mut open = match self.wait() {
                Ok(command) => self.take(command)?,
                Err(RecvTimeoutError::Timeout) => true,
                Err(RecvTimeoutError::Disconnected) => false,
            };
            // All batches that arrived during the last sync share the next one.
            let mut room = BURST_BYTES;
            while open && room > 0 {
                let Ok(command) = self.inbox.try_recv() else { break };
                room = room.saturating_sub(command.bytes());
                open = self.take(command)?;
            }
            if !open {
                self.sync()?;
                return self.writer.seal();
            }
            if self.sync_is_due() {
                self.sync()?;
                self.sync_at = None;
            }
            self.report_persisted();
            // Prepares the next segment when no record waits for a sync.
            if self.writer.is_preparation_due() {
                self.prepare()?;
            }
            self.counting.set_segments(self.writer.segments());
        }
    }

    fn wait(&self) -> Result<Command, RecvTimeoutError> {
        match self.sync_at {
            Some(at) => self.inbox.recv_timeout(at.saturating_duration_since(Instant::now())),
            None => self.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    /// Processes a command; returns whether more may follow.
    fn take(&mut self, command: Command) -> Result<bool, Error> {
        match command {
            Command::Write(mut batch) => {
                self.writer.write(&mut batch)?;
                self.counting.wrote(batch.bytes.len() as u64);
                self.give_back(batch.bytes);
            }
            Command::Policy(policy) => self.change_policy(policy),
            Command::Publish(snapshot) => self.publish(snapshot)?,
            Command::SnapshotFailed(error) => (self.on_event)(Event::SnapshotFailed(error)),
            Command::LookForRoom => self.writer.look_for_room(),
            Command::Close => return Ok(false),
        }
        Ok(true)
    }

    fn give_back(&self, mut bytes: Vec<u8>) {
        if bytes.capacity() <= SPARE_BYTES {
            bytes.clear();
            // Drops the buffer if there are enough, or if the owner is gone.
            let _ = self.spare.try_send(bytes);
        }
    }

    fn change_policy(&mut self, policy: SyncPolicy) {
        self.policy = policy;
        if let SyncPolicy::Interval { interval_ms } = policy {
            // Waiting records keep their deadline, unless the new policy gives an earlier one.
            let at = Instant::now() + Duration::from_millis(interval_ms);
            self.sync_at = self.sync_at.map(|before| before.min(at));
        }
    }

    fn publish(&mut self, snapshot: WrittenSnapshot) -> Result<(), Error> {
        // The batches with its records were written before.
        self.sync()?;
        self.report_persisted();
        let lsn = snapshot.lsn();
        match self.writer.publish(snapshot) {
            Ok(()) => (self.on_event)(Event::SnapshotPublished(lsn)),
            Err(error @ Error::SnapshotOutOfOrder { .. }) => {
                (self.on_event)(Event::SnapshotFailed(error));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        if self.writer.unsynced() {
            let began = Instant::now();
            self.writer.sync()?;
            self.counting.synced(began.elapsed());
        }
        Ok(())
    }

    fn sync_is_due(&mut self) -> bool {
        if !self.writer.unsynced() {
            // A snapshot or a full segment may have caused a sync meanwhile.
            self.sync_at = None;
            return false;
        }
        match self.policy {
            SyncPolicy::Always => true,
            SyncPolicy::Interval { interval_ms } => {
                let now = Instant::now();
                let interval = Duration::from_millis(interval_ms);
                *self.sync_at.get_or_insert(now + interval) <= now
            }
        }
    }

    fn prepare(&mut self) -> Result<(), Error> {
        match self.writer.prepare() {
            Ok(false) => {}
            Ok(true) => (self.on_event)(Event::SpaceRegained),
            Err(full) if full.is_disk_full() => (self.on_event)(Event::SpaceLow(full)),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn report_persisted(&mut self) {
        let persisted = self.writer.persisted();
        if persisted > self.reported {
            self.reported = persisted;
            (self.on_event)(Event::Persisted(persisted));
        }
    }
}

impl Command {
    fn bytes(&self) -> usize {
        if let Command::Write(batch) = self { batch.bytes.len() } else { 0 }
    }
}

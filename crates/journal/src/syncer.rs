//! A journal on a thread of its own, so that whoever appends never waits for a disk.

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

/// After so much was written it is synced, even if more has come in.
const BURST_BYTES: usize = 8 << 20;
/// How many buffers are kept for the batches to come, and how large they may be: memory that is new
/// to the process costs more than what is written to it.
const SPARE_BUFFERS: usize = 4;
const SPARE_BYTES: usize = 1 << 20;
/// How much of a snapshot is handed over at once.
const HAND_OVER_BYTES: usize = 256 << 10;

/// When written records are synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncPolicy {
    /// At once. What comes in during a sync is synced together by the next one.
    Always,
    /// At most so many milliseconds after they were written. A loss of power may cost as much; the
    /// death of the process costs nothing that was written.
    Interval {
        /// The longest that a record waits.
        interval_ms: u64,
    },
}

/// What a journal's thread has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// All records up to this one are durable.
    Persisted(Lsn),
    /// The disk is full, but for what is left of the current segment: time to stop taking writes,
    /// and to make room by a snapshot.
    SpaceLow(Error),
    /// After that, the disk has room for another segment.
    SpaceRegained,
    /// A snapshot of all records up to this one is in force.
    SnapshotPublished(Lsn),
    /// A snapshot came to nothing. The journal goes on; the old snapshot is still in force.
    SnapshotFailed(Error),
    /// The journal has failed for good. What was not told to be persisted must be taken for lost.
    Failed(Error),
}

/// The worker's end of a journal whose writing and syncing is done by a thread.
///
/// Dropping it waits for what was submitted to be synced, as [`close`](Self::close) does, but tells
/// errors to the callback alone.
#[derive(Debug)]
pub struct Syncer<D: Disk> {
    encoder: Encoder,
    disk: D,
    identity: Identity,
    snapshots: u64,
    /// Records appended since the start, and their bytes.
    appended: (u64, u64),
    counters: Arc<Counters>,
    commands: Sender<Command>,
    /// Empty buffers that come back from the thread.
    spares: Receiver<Vec<u8>>,
    failure: Arc<OnceLock<Error>>,
    thread: Option<JoinHandle<()>>,
}

/// A snapshot that a thread of its own writes; see [`Syncer::begin_snapshot`].
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
    /// The number after the last record's.
    End(u64),
}

impl<D: Disk> Syncer<D> {
    /// Gives `journal` a thread. `on_event` is called there, and should only pass on what it is
    /// told.
    ///
    /// What was appended to the journal before is written with the first batch.
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
        let told = writer.persisted();
        let failed = failure.clone();
        let counters = Arc::new(Counters::default());
        counters.set_segments(writer.segments());
        let counting = counters.clone();
        // Of these nothing is known but their frames.
        let before = encoder.waiting_bytes() as u64;
        let sync_at = None;
        let thread =
            Thread { writer, policy, inbox, spare, on_event, counting, failed, told, sync_at };
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

    /// If the disk had no room for the next segment, it is asked once more: something may have gone
    /// from it.
    pub fn look_for_room(&self) {
        // A journal that has ended needs none.
        let _ = self.commands.send(Command::LookForRoom);
    }

    /// Takes a record and returns its number. It goes nowhere before [`submit`](Self::submit).
    pub fn append(&mut self, record: &[u8]) -> Result<Lsn, Error> {
        self.usable()?;
        let before = self.encoder.waiting_bytes();
        let lsn = self.encoder.append(record).map(Lsn)?;
        self.appended.0 += 1;
        self.appended.1 += (self.encoder.waiting_bytes() - before) as u64;
        Ok(lsn)
    }

    /// Hands over what was appended, to be written and synced. Never waits, so that a slow disk
    /// makes the queue grow: [`waiting_bytes`](Self::waiting_bytes) shows it.
    pub fn submit(&mut self) -> Result<(), Error> {
        self.usable()?;
        if self.encoder.waiting_bytes() == 0 {
            return Ok(());
        }
        let batch = self.encoder.take_for(self.spares.try_recv().unwrap_or_default());
        // The thread may have failed just now; it says so before it goes.
        let sent = self.commands.send(Command::Write(batch));
        sent.or_else(|_| self.usable().and(Err(Error::Stopped)))
    }

    /// Syncs by this policy from now on.
    pub fn set_policy(&self, policy: SyncPolicy) {
        // A thread that has failed syncs no more.
        let _ = self.commands.send(Command::Policy(policy));
    }

    /// How many bytes of records are in memory because the disk has not taken them yet. Who appends
    /// faster than the disk writes should wait when this grows.
    pub fn waiting_bytes(&self) -> u64 {
        self.counters.waiting(self.appended.1)
    }

    /// What the journal has done since it was opened.
    pub fn stats(&self) -> Stats {
        let (records, bytes) = self.appended;
        self.counters.stats(records, bytes)
    }

    /// The last record that was appended; 0 if there is none.
    pub fn last_lsn(&self) -> Lsn {
        Lsn(self.encoder.next()).before()
    }

    /// The error that ended the journal.
    pub fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    /// Begins a snapshot of all records up to `lsn`, which must have been appended. It has a thread
    /// of its own; [`Event::SnapshotPublished`] or [`Event::SnapshotFailed`] tells how it ended.
    pub fn begin_snapshot(&mut self, lsn: Lsn) -> Result<BackgroundSnapshot, Error> {
        if lsn > self.last_lsn() {
            let (from, to) = (Lsn(0), self.last_lsn());
            return Err(Error::SnapshotOutOfOrder { snapshot: lsn, from, to });
        }
        // A snapshot is published when its records are on the disk, so they have to be on their
        // way.
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
            // Nobody takes pieces any more, and nobody should wait for that.
            written.store(0, Ordering::Relaxed);
            let command = match result {
                Ok(Some(snapshot)) => Command::Publish(snapshot),
                Ok(None) => return,
                Err(error) => Command::SnapshotFailed(error),
            };
            // If the journal is closed, the unfinished file is removed when it is opened again.
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
        // If nobody receives it, the thread has ended already.
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
        // Errors were told to the callback.
        let _ = self.submit();
        let _ = self.stop();
    }
}

impl BackgroundSnapshot {
    /// Takes the next record. Never waits; see [`backlog_bytes`](Self::backlog_bytes).
    pub fn add(&mut self, record: &[u8]) -> Result<(), Error> {
        self.encoder.append(record)?;
        if self.encoder.waiting_bytes() >= HAND_OVER_BYTES {
            self.hand_over();
        }
        Ok(())
    }

    /// How many bytes were handed over and are not written yet. Who adds faster than the disk
    /// writes should wait a little when this grows.
    pub fn backlog_bytes(&self) -> usize {
        self.backlog.load(Ordering::Relaxed)
    }

    /// Ends the snapshot. It is synced and published when its thread gets to it. Dropping it
    /// instead gives it up.
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
            // The snapshot has failed, and the callback was told.
            self.backlog.store(0, Ordering::Relaxed);
        }
    }
}

/// Writes what comes in. Nothing if the snapshot was given up.
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

/// What the journal's thread works with.
struct Thread<D: Disk, E> {
    writer: Writer<D>,
    policy: SyncPolicy,
    inbox: Receiver<Command>,
    spare: SyncSender<Vec<u8>>,
    on_event: E,
    counting: Arc<Counters>,
    failed: Arc<OnceLock<Error>>,
    /// The last record that was told to be persisted.
    told: Lsn,
    /// When what was written must be synced.
    sync_at: Option<Instant>,
}

impl<D: Disk, E: FnMut(Event)> Thread<D, E> {
    fn run(mut self) {
        let ended = self.serve();
        self.tell_persisted();
        if let Err(error) = ended {
            // First the flag: whoever is told can rely on it.
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
            // All that has come in during the last sync shares the next one.
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
            self.tell_persisted();
            // When nobody waits for it any more.
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

    /// Returns whether more may come.
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
            // If there are enough, or nobody is left to use it, it goes.
            let _ = self.spare.try_send(bytes);
        }
    }

    fn change_policy(&mut self, policy: SyncPolicy) {
        self.policy = policy;
        if let SyncPolicy::Interval { interval_ms } = policy {
            // What waits already waits for no longer than before, nor than it would from now on.
            let at = Instant::now() + Duration::from_millis(interval_ms);
            self.sync_at = self.sync_at.map(|before| before.min(at));
        }
    }

    fn publish(&mut self, snapshot: WrittenSnapshot) -> Result<(), Error> {
        // The batches with its records came before it.
        self.sync()?;
        self.tell_persisted();
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
            // A snapshot or a full segment called for a sync meanwhile.
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

    fn tell_persisted(&mut self) {
        let persisted = self.writer.persisted();
        if persisted > self.told {
            self.told = persisted;
            (self.on_event)(Event::Persisted(persisted));
        }
    }
}

impl Command {
    fn bytes(&self) -> usize {
        if let Command::Write(batch) = self { batch.bytes.len() } else { 0 }
    }
}

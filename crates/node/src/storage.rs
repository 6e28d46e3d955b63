//! A worker's journal: what its replica must find again, and who waits for it.
//!
//! Records are appended as the replica emits them; a thread writes and syncs them. What the replica says
//! after a record waits until the record is durable (`docs/decisions/0007-durability.md`).

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use solera_journal::{
    BackgroundSnapshot, Disk, Entry, Error, Event, Identity, Journal, Lsn, Options, RealDisk,
    Recovered, SyncPolicy, Syncer,
};
use solera_time::{Physical, Timestamp};
use solera_unistore::{
    Address, Checkpoint, Config, Output, Part, Record, Records, Recovery, Replica,
};
use tokio::sync::oneshot;

use crate::recovering::Progress;
use crate::status::JournalSample;

/// A checkpoint is begun after so many bytes of records, or after as many as the last one has.
const CHECKPOINT_BYTES: u64 = 64 << 20;
/// How many keys are saved at once.
const KEYS_PER_PART: usize = 64;
/// How long a worker writes at a checkpoint before it looks after its clients again.
const CHECKPOINT_SLICE: Duration = Duration::from_micros(500);
/// More than this the checkpoint's thread need not have waiting.
const CHECKPOINT_BACKLOG: usize = 8 << 20;

/// Where no client waits for it, so much is handed to the disk at once.
const SUBMIT_BYTES: usize = 256 << 10;

/// When an acknowledged write is on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Before it is acknowledged.
    Always,
    /// At most so much later.
    Interval(Duration),
    /// Never.
    Memory,
}

/// A worker's data cannot be used.
#[derive(Debug)]
pub struct StorageError {
    /// Where it is.
    pub folder: PathBuf,
    /// Why not, in the user's words.
    pub reason: String,
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the data in {} cannot be used: {}", self.folder.display(), self.reason)
    }
}

impl std::error::Error for StorageError {}

/// What was found in a data directory.
#[derive(Clone, Debug)]
pub struct Found {
    /// Whose data.
    pub worker: String,
    /// What the journal found.
    pub journal: Recovered,
    /// How many keys there are.
    pub keys: usize,
    /// How long it took.
    pub took: Duration,
    /// See [`Replica::begin_run`].
    pub(crate) run: (Timestamp, Timestamp),
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Found { worker, journal, keys, took, .. } = self;
        write!(
            f,
            "{worker}: {keys} keys recovered in {} ms, from {} parts of a snapshot and {} records",
            took.as_millis(),
            journal.snapshot_records,
            journal.records
        )?;
        if let Some(torn) = &journal.torn {
            write!(f, "; {torn}")?;
        }
        Ok(())
    }
}

/// Somebody who waits for what was written before.
enum Waiting {
    Output(Box<Output>),
    Client(oneshot::Sender<()>),
}

/// A worker's journal while it runs.
pub(crate) struct Storage<D: Disk = RealDisk> {
    syncer: Syncer<D>,
    gates: bool,
    bytes: Vec<u8>,
    persisted: Lsn,
    /// What was handed to the disk, and how many bytes were not yet.
    submitted: Lsn,
    unsubmitted: usize,
    waiting: VecDeque<(Lsn, Waiting)>,
    /// Why writes are refused.
    failure: Option<String>,
    /// The disk can take no more than what is needed to end well.
    stopped: bool,
    /// The same, until somebody has asked.
    just_stopped: bool,
    saving: Option<Saving>,
    /// Bytes of records since the last checkpoint began, and of that checkpoint.
    since: u64,
    last_checkpoint: u64,
    /// Where its files are.
    folder: PathBuf,
    checkpoints: Checkpoints,
    /// Why the last checkpoint came to nothing, until somebody has asked.
    problem: Option<String>,
}

/// What is told of checkpoints.
#[derive(Debug, Default)]
struct Checkpoints {
    published: u64,
    /// When the one that is being made was begun.
    begun: Option<Instant>,
    /// When the last was published, and how long it took.
    last: Option<(SystemTime, Duration)>,
    /// The last record that the one in force stands for.
    upto: Lsn,
}

struct Saving {
    checkpoint: Checkpoint,
    snapshot: BackgroundSnapshot,
    /// The last record that the parts so far know of.
    knows: Lsn,
    bytes: u64,
}

impl<D: Disk> Storage<D> {
    /// Opens or begins the journal of a worker on `disk`, which people know as `folder`, and builds its
    /// replica.
    #[expect(clippy::too_many_arguments, reason = "one caller, and all of them differ in type")]
    pub(crate) fn open(
        disk: D,
        folder: &Path,
        durability: Durability,
        cluster: u64,
        config: Config,
        seed: u64,
        on_event: impl FnMut(Event) + Send + 'static,
        worker: String,
        progress: &Progress,
    ) -> Result<(Storage<D>, Replica, Found), StorageError> {
        let began = Instant::now();
        let unusable = |reason: String| StorageError { folder: folder.to_owned(), reason };
        let identity = identity(cluster, &config);
        let mut recovery = Recovery::new(config, seed);
        let (journal, found) = Journal::open(disk, &Options::new(identity), |entry| match entry {
            Entry::Snapshot { payload, .. } => {
                progress.read(payload.len());
                let (lsn, part) = payload.split_first_chunk::<8>().ok_or("it is too short")?;
                let part = Part::decode(part).map_err(|error| error.to_string())?;
                recovery.load(u64::from_le_bytes(*lsn), part).map_err(|error| error.to_string())
            }
            Entry::Record { lsn, payload } => {
                progress.read(payload.len());
                let record = Record::decode(payload).map_err(|error| error.to_string())?;
                recovery.replay(lsn.0, record).map_err(|error| error.to_string())
            }
        })
        .map_err(|error| unusable(in_words(&error)))?;
        let mut replica = recovery.finish();
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let run = replica.begin_run(Physical(since_epoch.as_micros() as u64));
        let persisted = journal.persisted_lsn();
        let syncer = Syncer::start(journal, policy(durability), on_event)
            .map_err(|error| unusable(error.to_string()))?;
        let storage = Storage {
            syncer,
            gates: durability == Durability::Always,
            bytes: Vec::new(),
            persisted,
            submitted: persisted,
            unsubmitted: 0,
            waiting: VecDeque::new(),
            failure: None,
            stopped: false,
            just_stopped: false,
            saving: None,
            since: 0,
            last_checkpoint: 0,
            folder: folder.to_owned(),
            checkpoints: Checkpoints {
                upto: found.snapshot.unwrap_or_default(),
                ..Checkpoints::default()
            },
            problem: None,
        };
        let (keys, took) = (replica.status().keys(), began.elapsed());
        Ok((storage, replica, Found { worker, journal: found, keys, took, run }))
    }

    /// Changes how long writes may wait for the disk. Whether replies wait for it stays.
    pub(crate) fn set_durability(&self, durability: Durability) {
        self.syncer.set_policy(policy(durability));
    }

    /// Appends records.
    pub(crate) fn write(&mut self, records: &Records) {
        for record in records.iter() {
            if self.stopped {
                return;
            }
            self.since += record.len() as u64;
            self.unsubmitted += record.len();
            if let Err(error) = self.syncer.append(record) {
                self.fail(&error);
            }
        }
    }

    /// An output goes out now, or waits for the records before it.
    pub(crate) fn pass(&mut self, output: Output) -> Option<Output> {
        if self.stopped {
            // Nothing may be said to others that is not durable.
            let reply = matches!(output, Output::Reply { .. });
            return (reply && self.answers()).then_some(output);
        }
        if !self.must_wait() {
            return Some(output);
        }
        self.waiting.push_back((self.syncer.last_lsn(), Waiting::Output(Box::new(output))));
        None
    }

    /// Whether [`Self::submit`] should be called when those who are ready to write have done so. While
    /// a sync is under way what comes in is collected for the next; where nobody waits, for longer.
    pub(crate) fn has_work(&self) -> bool {
        let last = self.syncer.last_lsn();
        if self.stopped || self.submitted == last {
            return false;
        }
        match self.gates {
            true => self.submitted <= self.persisted,
            false => self.unsubmitted >= SUBMIT_BYTES,
        }
    }

    /// Hands what was appended to the disk.
    pub(crate) fn submit(&mut self) {
        if self.stopped {
            return;
        }
        self.submitted = self.syncer.last_lsn();
        self.unsubmitted = 0;
        if let Err(error) = self.syncer.submit() {
            self.fail(&error);
        }
    }

    /// Whether replies wait for the disk.
    pub(crate) fn gates(&self) -> bool {
        self.gates
    }

    fn must_wait(&self) -> bool {
        self.gates && (self.persisted < self.syncer.last_lsn() || !self.waiting.is_empty())
    }

    /// Whether nothing can be written any more.
    pub(crate) fn has_stopped(&self) -> bool {
        self.stopped
    }

    /// Whether clients are answered. Where replies wait for the disk, they do not come any more when it
    /// has failed: what is in memory and was not written is gone when the worker starts again, and
    /// nobody may have seen it.
    pub(crate) fn answers(&self) -> bool {
        !(self.stopped && self.gates)
    }

    /// Whether it has stopped, but only once: whoever waits for a reply now may wait in vain.
    pub(crate) fn has_just_stopped(&mut self) -> bool {
        std::mem::take(&mut self.just_stopped)
    }

    /// Told when all that was written until now is durable; nothing if it is, or need not be. The
    /// sender is dropped if that will never be. Of one that has stopped nothing can be said here: what
    /// came before may be lost.
    pub(crate) fn durable(&mut self) -> Option<oneshot::Receiver<()>> {
        if self.stopped || !self.must_wait() {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        self.waiting.push_back((self.syncer.last_lsn(), Waiting::Client(sender)));
        Some(receiver)
    }

    /// Why this worker takes no writes.
    pub(crate) fn refuses(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// The journal's thread has something to say. Returns the outputs that may go now.
    pub(crate) fn on_event(&mut self, event: Event) -> Vec<Output> {
        match event {
            Event::Persisted(lsn) => {
                self.persisted = lsn;
                self.finish_checkpoint();
                return self.release(lsn);
            }
            Event::SpaceLow(error) => {
                self.failure.get_or_insert_with(|| in_words(&error));
            }
            Event::Failed(error) => self.fail(&error),
            Event::SnapshotPublished(upto) => self.count_checkpoint(upto),
            Event::SnapshotFailed(error) => self.give_up_saving(&error),
        }
        Vec::new()
    }

    /// Whether more than this waits to be written, in bytes. Of a journal that has failed nothing does.
    pub(crate) fn is_behind(&self, bytes: u64) -> bool {
        !self.stopped && self.syncer.waiting_bytes() > bytes
    }

    /// What there is to tell of the journal.
    pub(crate) fn sample(&self) -> JournalSample {
        let last = self.checkpoints.last;
        let published = last.and_then(|(at, _)| at.duration_since(UNIX_EPOCH).ok());
        JournalSample {
            stats: self.syncer.stats(),
            disk_bytes: disk_bytes(&self.folder),
            checkpoints: self.checkpoints.published,
            checkpoint_at_s: published.map(|at| at.as_secs_f64()),
            checkpoint_took_s: last.map(|(_, took)| took.as_secs_f64()),
            since_checkpoint: self.syncer.last_lsn().0.saturating_sub(self.checkpoints.upto.0),
        }
    }

    fn count_checkpoint(&mut self, upto: Lsn) {
        let checkpoints = &mut self.checkpoints;
        checkpoints.published += 1;
        checkpoints.upto = upto;
        if let Some(began) = checkpoints.begun.take() {
            checkpoints.last = Some((SystemTime::now(), began.elapsed()));
        }
    }

    fn release(&mut self, upto: Lsn) -> Vec<Output> {
        let mut outputs = Vec::new();
        let free = self.waiting.partition_point(|(lsn, _)| *lsn <= upto);
        for (_, waiting) in self.waiting.drain(..free) {
            match waiting {
                Waiting::Output(output) => outputs.push(*output),
                // A client that is gone needs no word.
                Waiting::Client(client) => drop(client.send(())),
            }
        }
        outputs
    }

    /// From now on nothing is written. Who waits is not told that it is durable.
    fn fail(&mut self, error: &Error) {
        self.failure.get_or_insert_with(|| in_words(error));
        self.just_stopped |= !self.stopped;
        self.stopped = true;
        self.waiting.clear();
        self.saving = None;
    }

    /// Goes on with a checkpoint, or begins one when enough was written.
    pub(crate) fn save(&mut self, replica: &Replica) {
        if self.stopped {
            return;
        }
        let enough = CHECKPOINT_BYTES.max(self.last_checkpoint);
        if self.saving.is_none() && self.since >= enough {
            self.begin_checkpoint();
        }
        let lsn = self.syncer.last_lsn();
        let Some(saving) = &mut self.saving else { return };
        let began = Instant::now();
        while !saving.checkpoint.is_complete()
            && saving.snapshot.backlog_bytes() < CHECKPOINT_BACKLOG
            && began.elapsed() < CHECKPOINT_SLICE
        {
            let Some(part) = replica.next_part(&mut saving.checkpoint, KEYS_PER_PART) else {
                break;
            };
            self.bytes.clear();
            self.bytes.extend_from_slice(&lsn.0.to_le_bytes());
            part.encode(&mut self.bytes);
            saving.bytes += self.bytes.len() as u64;
            saving.knows = lsn;
            if let Err(error) = saving.snapshot.add(&self.bytes) {
                return self.give_up_saving(&error);
            }
        }
        self.finish_checkpoint();
    }

    /// The next is begun when as much was written again.
    fn give_up_saving(&mut self, error: &Error) {
        (self.saving, self.since) = (None, 0);
        self.problem = Some(in_words(error));
    }

    /// Why the last checkpoint failed, once.
    pub(crate) fn take_problem(&mut self) -> Option<String> {
        self.problem.take()
    }

    fn begin_checkpoint(&mut self) {
        let lsn = self.syncer.last_lsn();
        self.since = 0;
        match self.syncer.begin_snapshot(lsn) {
            Ok(snapshot) => {
                self.checkpoints.begun = Some(Instant::now());
                let checkpoint = Checkpoint::default();
                self.saving = Some(Saving { checkpoint, snapshot, knows: lsn, bytes: 0 });
            }
            Err(error) => self.give_up_saving(&error),
        }
    }

    /// A checkpoint counts once all that it knows of is durable.
    fn finish_checkpoint(&mut self) {
        let durable =
            |saving: &mut Saving| saving.checkpoint.is_complete() && saving.knows <= self.persisted;
        if let Some(saving) = self.saving.take_if(durable) {
            self.last_checkpoint = saving.bytes;
            saving.snapshot.finish();
        }
    }
}

fn policy(durability: Durability) -> SyncPolicy {
    match durability {
        Durability::Interval(interval) => {
            SyncPolicy::Interval { interval_ms: interval.as_millis() as u64 }
        }
        Durability::Always | Durability::Memory => SyncPolicy::Always,
    }
}

/// The files in a folder, together. What cannot be read does not count.
fn disk_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}

/// Binds a journal to its cluster's shape and its worker.
fn identity(cluster: u64, config: &Config) -> Identity {
    let Address { site, worker } = config.address;
    let shape = &config.topology;
    let workers = shape.workers[site.index()];
    // Not to the number of sites, for their list may grow.
    let text = format!(
        "{cluster:x} site {} worker {worker}/{workers} partitions {}",
        site.0, shape.partitions
    );
    Identity::new(text.as_bytes()).expect("numbers of a byte or two are short")
}

fn in_words(error: &Error) -> String {
    match error {
        Error::Locked => "another process uses it".to_owned(),
        Error::OtherIdentity { expected, found, .. } => {
            format!("it was written as {found}, and this is {expected}")
        }
        error if error.is_disk_full() => format!("the disk is full ({error})"),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use solera_data::{Op, Value};
    use solera_journal::SimDisk;
    use solera_levels::Level;
    use solera_machine::{Machine, Now};
    use solera_time::{Monotonic, Physical, SiteId};
    use solera_unistore::{Pasts, RequestId, Response, Topology};

    use super::*;

    /// Events come from the journal's thread, which is waited for.
    fn open(disk: &SimDisk) -> (Storage<SimDisk>, Replica, mpsc::Receiver<Event>) {
        let (sender, events) = mpsc::channel();
        let on_event = move |event| {
            let _ = sender.send(event);
        };
        let (storage, replica) = open_with(disk, on_event);
        (storage, replica, events)
    }

    fn open_with(
        disk: &SimDisk,
        on_event: impl FnMut(Event) + Send + 'static,
    ) -> (Storage<SimDisk>, Replica) {
        let topology = Topology { partitions: 1, workers: vec![1] };
        let address = Address { site: SiteId(0), worker: 0 };
        let mut config = Config::new(address, Arc::new(topology));
        config.journal = true;
        let (folder, name) = (Path::new("simulated"), "worker".to_owned());
        let always = Durability::Always;
        let opened = Storage::open(
            disk.clone(),
            folder,
            always,
            1,
            config,
            1,
            on_event,
            name,
            &Progress::default(),
        );
        let (storage, replica, _) = opened.unwrap();
        (storage, replica)
    }

    #[test]
    fn a_slow_disk_is_noticed_until_it_has_caught_up() {
        let disk = SimDisk::new(1);
        let (resume, paused) = mpsc::channel::<()>();
        let (sender, events) = mpsc::channel();
        let on_event = move |event| {
            let _ = sender.send(event);
            // Nothing is written until the test goes on.
            let _ = paused.recv();
        };
        let (mut storage, mut replica) = open_with(&disk, on_event);
        let mut write = |storage: &mut Storage<SimDisk>| {
            let record = set(&mut replica, &[b'x'; 1000]);
            storage.write(&record);
            storage.submit();
        };
        write(&mut storage);
        events.recv().unwrap();
        assert!(!storage.is_behind(0));
        write(&mut storage);
        write(&mut storage);
        assert!(storage.is_behind(2000) && !storage.is_behind(4000));
        drop(resume);
        while storage.is_behind(0) {
            std::thread::yield_now();
        }
        let told = storage.sample();
        assert_eq!((told.stats.records, told.since_checkpoint), (3, 3));
    }

    fn set(replica: &mut Replica, value: &[u8]) -> Records {
        let now = Now { monotonic: Monotonic(1), physical: Physical(1_000_000) };
        let op = Op::Set(Value::from(value));
        let mut pasts = Pasts::none(1);
        // What it recorded when it began.
        while replica.poll_output().is_some() {}
        replica.execute_at_once(now, &mut pasts, Level::Causal, b"k", &op).unwrap().unwrap();
        let outputs = std::iter::from_fn(|| replica.poll_output());
        let records = outputs.filter_map(|output| match output {
            Output::Records(records) => Some(records),
            _ => None,
        });
        records.last().unwrap()
    }

    fn reply() -> Output {
        Output::Reply { request: RequestId(1), response: Response::Uniform }
    }

    #[test]
    fn what_is_said_waits_for_what_was_written_before() {
        let disk = SimDisk::new(1);
        let (mut storage, mut replica, events) = open(&disk);
        assert!(storage.pass(reply()).is_some());
        storage.write(&set(&mut replica, b"v"));
        assert!(storage.pass(reply()).is_none());
        let mut told = storage.durable().unwrap();
        assert!(storage.has_work());
        storage.submit();
        assert!(told.try_recv().is_err());
        let mut released = Vec::new();
        while released.is_empty() {
            released = storage.on_event(events.recv().unwrap());
        }
        assert_eq!(released, [reply()]);
        assert_eq!(told.try_recv(), Ok(()));
        assert!(storage.durable().is_none() && storage.pass(reply()).is_some());
    }

    #[test]
    fn a_checkpoint_that_fails_is_told_of_once() {
        let (mut storage, _, _) = open(&SimDisk::new(1));
        assert_eq!(storage.take_problem(), None);
        storage.on_event(Event::SnapshotFailed(Error::Stopped));
        assert!(storage.take_problem().is_some() && storage.take_problem().is_none());
    }

    #[test]
    fn a_disk_that_fails_makes_nobody_believe_that_a_write_is_done() {
        let disk = SimDisk::new(1);
        let (mut storage, mut replica, events) = open(&disk);
        disk.set_capacity(disk.used());
        // The first may find room in what is allocated.
        let large = vec![b'x'; 100 << 20];
        storage.write(&set(&mut replica, &large));
        assert!(storage.pass(reply()).is_none());
        let mut told = storage.durable().unwrap();
        storage.submit();
        while !storage.has_stopped() {
            assert_eq!(storage.on_event(events.recv().unwrap()), []);
        }
        assert!(storage.has_just_stopped() && !storage.has_just_stopped());
        assert!(storage.refuses().unwrap().contains("disk is full"), "{:?}", storage.refuses());
        assert_eq!(told.try_recv(), Err(oneshot::error::TryRecvError::Closed));
        // Nobody is told anything more: who reads now would see what is gone after a restart.
        storage.write(&set(&mut replica, b"v"));
        let to = Address { site: SiteId(0), worker: 0 };
        let message = solera_unistore::Message::Replicate(Vec::new());
        assert!(storage.pass(Output::Send { to, message }).is_none());
        assert!(storage.pass(reply()).is_none() && !storage.answers());
    }
}

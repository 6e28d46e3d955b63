//! A worker's journal: opening it, and its statistics.
//!
//! A thread writes and syncs records. The driver appends them, and holds back the replica's later
//! outputs until they are durable (`docs/decisions/0007-durability.md`).

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use solera_commands::counted;
use solera_config::Durability;
use solera_host::Driver;
use solera_journal::{
    Disk, Error, Event, Identity, Lsn, Options, RealDisk, Recovered, SyncPolicy, Syncer,
};
use solera_machine::Address;
use solera_site::{Config, Recovery, Site};
use solera_time::{Physical, Timestamp};
use tokio::sync::oneshot;

use crate::progress::Progress;
use crate::status::JournalSample;

/// Number of keys that are saved at once.
const KEYS_PER_PART: usize = 64;
/// Time that a worker spends on a checkpoint before it serves its clients again.
const CHECKPOINT_SLICE: Duration = Duration::from_micros(500);
/// First pause before a full disk is tried again. The pauses grow up to [`LAST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LAST_PAUSE: Duration = Duration::from_secs(300);
/// Bytes queued for the checkpoint's thread above which saving pauses.
const CHECKPOINT_BACKLOG: usize = 8 << 20;

/// Error of a worker's data that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the data in {} cannot be used: {}", .folder.display(), .reason)]
pub struct StorageError {
    /// Folder of the data.
    pub folder: PathBuf,
    /// Reason, for users.
    pub reason: String,
}

/// Result of recovery from a data directory.
#[derive(Clone, Debug)]
pub struct Found {
    /// Name of the worker.
    pub worker: String,
    /// Address of the worker.
    pub address: Address,
    /// Result of opening the journal.
    pub journal: Recovered,
    /// Number of keys of all protocols. Those of a speculative space count once they are final.
    pub keys: usize,
    /// Duration of recovery.
    pub took: Duration,
    /// See [`Site::begin_run`].
    pub(crate) run: (Timestamp, Timestamp),
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Found { worker, journal, keys, took, .. } = self;
        if (journal.snapshot_records, journal.records) == (0, 0) {
            return write!(f, "{worker}: its journal is new");
        }
        let what = match keys {
            0 => "its journal was read".to_owned(),
            keys => format!("{} recovered", counted(*keys, "key")),
        };
        write!(
            f,
            "{worker}: {what} in {} ms, from {} of a snapshot and {}",
            took.as_millis(),
            counted(journal.snapshot_records, "part"),
            counted(journal.records, "record")
        )?;
        if let Some(torn) = &journal.torn {
            write!(f, "; {torn}")?;
        }
        Ok(())
    }
}

/// The driver of a worker. It notifies clients that wait for the journal over a channel.
pub(crate) type Engine<D = RealDisk> = Driver<Site, Syncer<D>, oneshot::Sender<()>>;

/// State of a worker's journal for its statistics and checkpoints.
#[derive(Debug)]
pub(crate) struct Storage {
    /// Folder of the journal.
    folder: PathBuf,
    checkpoints: Checkpoints,
    /// While the disk is full, the time of the next attempt and the pause before it.
    again: Option<(Instant, Duration)>,
}

/// Statistics of checkpoints.
#[derive(Debug, Default)]
struct Checkpoints {
    published: u64,
    /// Start of the checkpoint that is being written.
    begun: Option<Instant>,
    /// Time of the last publication, and the duration of that checkpoint.
    last: Option<(SystemTime, Duration)>,
    /// Last record that the published checkpoint covers.
    upto: Lsn,
}

impl Storage {
    /// Opens or creates the journal of a worker on `disk`, and builds the worker. `folder` is the
    /// path of the journal in messages for users.
    #[expect(clippy::too_many_arguments, reason = "one caller, and all of them differ in type")]
    pub(crate) fn open<D: Disk>(
        disk: D,
        folder: &Path,
        durability: Durability,
        cluster: u64,
        config: Config,
        seed: u64,
        on_event: impl FnMut(Event) + Send + 'static,
        worker: String,
        progress: &Progress,
    ) -> Result<(Storage, Engine<D>, Found), StorageError> {
        let began = Instant::now();
        let unusable = |reason: String| StorageError { folder: folder.to_owned(), reason };
        let identity = identity(cluster, &config.unistore);
        let address = config.unistore.address;
        let recovery = Recovery::new(config, seed);
        let read = |bytes| progress.read(bytes);
        let (mut journal, found, mut site) =
            solera_host::open(disk, &Options::new(identity), recovery, read)
                .map_err(|error| unusable(in_words(&error)))?;
        let (keys, took) = (keys_of(&mut site), began.elapsed());
        let space_low = match found.last {
            Lsn(0) => None,
            _ => match journal.prepare_whole() {
                Err(full) if full.is_disk_full() => Some(full),
                prepared => prepared.map(|()| None).map_err(|error| unusable(in_words(&error)))?,
            },
        };
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let run = site.begin_run(Physical(since_epoch.as_micros() as u64));
        let persisted = journal.persisted_lsn();
        let syncer = Syncer::start(journal, policy(durability), on_event)
            .map_err(|error| unusable(error.to_string()))?;
        let waits = durability == Durability::Always;
        let options = solera_host::Options { waits, without: Default::default() };
        let mut engine = Driver::with_log(site, syncer, persisted, options);
        if let Some(full) = space_low {
            engine.on_log_event(Event::SpaceLow(full));
        }
        let storage = Storage {
            folder: folder.to_owned(),
            checkpoints: Checkpoints {
                upto: found.snapshot.unwrap_or_default(),
                ..Checkpoints::default()
            },
            again: None,
        };
        Ok((storage, engine, Found { worker, address, journal: found, keys, took, run }))
    }

    /// Handles an event of the journal's thread.
    pub(crate) fn on_event<D: Disk>(&mut self, engine: &mut Engine<D>, event: Event) {
        if let Event::SnapshotPublished(upto) = event {
            self.count_checkpoint(upto);
        }
        engine.on_log_event(event);
    }

    /// Returns the journal's statistics.
    pub(crate) fn sample<D: Disk>(&self, syncer: &Syncer<D>) -> JournalSample {
        let last = self.checkpoints.last;
        let published = last.and_then(|(at, _)| at.duration_since(UNIX_EPOCH).ok());
        JournalSample {
            stats: syncer.stats(),
            disk_bytes: disk_bytes(&self.folder),
            checkpoints: self.checkpoints.published,
            checkpoint_at_s: published.map(|at| at.as_secs_f64()),
            checkpoint_took_s: last.map(|(_, took)| took.as_secs_f64()),
            since_checkpoint: syncer.last_lsn().0.saturating_sub(self.checkpoints.upto.0),
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

    /// Continues a checkpoint, or begins one when enough was written.
    pub(crate) fn save<D: Disk>(&mut self, engine: &mut Engine<D>) {
        let began = Instant::now();
        self.look_for_room(engine, began);
        if engine.wants_checkpoint() {
            engine.begin_checkpoint();
            self.checkpoints.begun = engine.is_saving().then_some(began);
        }
        while engine.checkpoint_backlog() < CHECKPOINT_BACKLOG
            && began.elapsed() < CHECKPOINT_SLICE
            && engine.save(KEYS_PER_PART).is_some()
        {}
    }

    /// Looks for space on a full disk again. Other programs may have freed space, and the next
    /// checkpoint may be smaller than the failed one: just after a start, a checkpoint holds
    /// versions that are removed a moment later.
    fn look_for_room<D: Disk>(&mut self, engine: &mut Engine<D>, now: Instant) {
        if engine.refuses().is_none() || engine.has_stopped() {
            self.again = None;
            return;
        }
        let (at, pause) = *self.again.get_or_insert((now + FIRST_PAUSE, FIRST_PAUSE));
        if now < at {
            return;
        }
        let pause = (pause * 2).min(LAST_PAUSE);
        self.again = Some((now + pause, pause));
        engine.need_checkpoint();
        if let Some(log) = engine.log() {
            log.look_for_room();
        }
    }
}

/// Changes the time for which writes may wait for the disk. It does not change whether replies wait
/// for it.
pub(crate) fn set_durability<D: Disk>(syncer: &Syncer<D>, durability: Durability) {
    syncer.set_policy(policy(durability));
}

/// Returns whether more than `bytes` bytes wait to be written. A failed journal writes none.
pub(crate) fn is_behind<D: Disk>(engine: &Engine<D>, bytes: u64) -> bool {
    let waiting = engine.log().map_or(0, Syncer::waiting_bytes);
    !engine.has_stopped() && waiting > bytes
}

fn policy(durability: Durability) -> SyncPolicy {
    match durability {
        Durability::Interval(interval) => {
            SyncPolicy::Interval { interval_ms: interval.as_millis() as u64 }
        }
        Durability::Always | Durability::Memory => SyncPolicy::Always,
    }
}

/// Returns the total size of the files in a folder. Unreadable files do not count.
fn disk_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}

/// Returns the identity that binds a journal to its cluster's shape and its worker.
fn identity(cluster: u64, config: &solera_unistore::Config) -> Identity {
    let Address { site, worker } = config.address;
    let shape = &config.topology;
    let workers = shape.workers[site.index()];
    // The identity does not contain the number of sites, because their list may grow.
    let text = format!(
        "{cluster:x} site {} worker {worker}/{workers} partitions {}",
        site.0, shape.partitions
    );
    Identity::new(text.as_bytes()).expect("numbers of a byte or two are short")
}

/// Describes a journal's failure for users.
pub(crate) fn in_words(error: &Error) -> String {
    match error {
        Error::Locked => "another process uses it".to_owned(),
        Error::OtherIdentity { expected, found, .. } => {
            format!("it was written as {found}, and this is {expected}")
        }
        // The caller adds that the journal has failed.
        Error::Failed(cause) => in_words(cause),
        error => error.to_string(),
    }
}

/// Returns the number of keys of all protocols of a worker.
fn keys_of(site: &mut Site) -> usize {
    let of_occult = site.occult_mut().map_or(0, |occult| occult.keys());
    let of_primary = site.primary().map_or(0, |primary| primary.keys());
    let of_speculative = site.creek().map_or(0, |creek| creek.status().keys);
    site.unistore().status().keys() + of_occult + of_primary + of_speculative
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use solera_data::{Op, Value};
    use solera_journal::SimDisk;
    use solera_levels::Level;
    use solera_machine::{Now, Topology};
    use solera_time::{Monotonic, Physical, SiteId};
    use solera_unistore::Pasts;

    use super::*;

    fn open_with(
        disk: &SimDisk,
        on_event: impl FnMut(Event) + Send + 'static,
    ) -> (Storage, Engine<SimDisk>) {
        let topology = Topology { partitions: 1, workers: vec![1] };
        let address = Address { site: SiteId(0), worker: 0 };
        let mut config = solera_unistore::Config::new(address, Arc::new(topology));
        config.journal = true;
        let (folder, name) = (Path::new("simulated"), "worker".to_owned());
        let always = Durability::Always;
        let opened = Storage::open(
            disk.clone(),
            folder,
            always,
            1,
            config.into(),
            1,
            on_event,
            name,
            &Progress::default(),
        );
        let (storage, engine, _) = opened.unwrap();
        (storage, engine)
    }

    /// Appends records to the journal without submitting them to the disk.
    fn write(engine: &mut Engine<SimDisk>, value: &[u8]) {
        let now = Now { monotonic: Monotonic(1), physical: Physical(1_000_000) };
        let op = Op::Set(Value::from(value));
        let replica = engine.machine_mut().unistore_mut();
        replica
            .execute_at_once(now, &mut Pasts::none(1), Level::Causal, b"k", &op)
            .unwrap()
            .unwrap();
        while engine.poll().is_some() {}
    }

    fn hold(engine: &mut Engine<SimDisk>) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        assert!(engine.must_wait() && engine.hold(sender).is_none());
        receiver
    }

    #[test]
    fn a_slow_disk_is_noticed_until_it_has_caught_up() {
        let disk = SimDisk::new(1);
        let (resume, paused) = mpsc::channel::<()>();
        let (sender, events) = mpsc::channel();
        let on_event = move |event| {
            let _ = sender.send(event);
            // Nothing is written until the test continues.
            let _ = paused.recv();
        };
        let (storage, mut engine) = open_with(&disk, on_event);
        let write = |engine: &mut Engine<SimDisk>| {
            write(engine, &[b'x'; 1000]);
            engine.submit();
        };
        write(&mut engine);
        events.recv().unwrap();
        assert!(!is_behind(&engine, 0));
        write(&mut engine);
        write(&mut engine);
        assert!(is_behind(&engine, 2000) && !is_behind(&engine, 4000));
        drop(resume);
        while is_behind(&engine, 0) {
            std::thread::yield_now();
        }
        let sample = storage.sample(engine.log().unwrap());
        // Three records of the test, and one from the creation of the worker.
        assert_eq!((sample.stats.records, sample.since_checkpoint), (4, 4));
    }

    #[test]
    fn a_disk_without_room_is_tried_again_and_again() {
        let disk = SimDisk::new(1);
        let (sender, events) = mpsc::channel();
        let (mut storage, mut engine) = open_with(&disk, move |event| drop(sender.send(event)));
        let full = Error::DiskFull { doing: "allocate", file: "spare.tmp".to_owned() };
        storage.on_event(&mut engine, Event::SpaceLow(full));
        engine.begin_checkpoint();
        storage.on_event(&mut engine, Event::SnapshotFailed(Error::Stopped));
        let begin = Instant::now();
        let mut tries = Vec::new();
        for seconds in 0..100 {
            storage.look_for_room(&mut engine, begin + Duration::from_secs(seconds));
            if engine.wants_checkpoint() {
                tries.push(seconds);
                storage.on_event(&mut engine, Event::SnapshotFailed(Error::Stopped));
            }
        }
        assert_eq!(tries, [5, 15, 35, 75]);
        storage.on_event(&mut engine, Event::SpaceRegained);
        storage.look_for_room(&mut engine, begin + Duration::from_secs(1000));
        assert!(!engine.wants_checkpoint() && storage.again.is_none());
        drop(events);
    }

    #[test]
    fn clients_wait_until_what_was_written_is_durable_or_may_never_be() {
        let disk = SimDisk::new(1);
        let (sender, events) = mpsc::channel();
        let (mut storage, mut engine) = open_with(&disk, move |event| drop(sender.send(event)));
        write(&mut engine, b"v");
        let mut durable = hold(&mut engine);
        engine.submit();
        assert!(durable.try_recv().is_err());
        while engine.must_wait() {
            storage.on_event(&mut engine, events.recv().unwrap());
        }
        engine.take_durable().unwrap().send(()).unwrap();
        assert_eq!(durable.try_recv(), Ok(()));
        disk.set_capacity(disk.used());
        // The first write may fit into allocated space.
        write(&mut engine, &vec![b'x'; 100 << 20]);
        let mut durable = hold(&mut engine);
        engine.submit();
        while !engine.has_stopped() {
            storage.on_event(&mut engine, events.recv().unwrap());
        }
        assert!(in_words(engine.refuses().unwrap()).contains("disk is full"));
        assert_eq!(durable.try_recv(), Err(oneshot::error::TryRecvError::Closed));
        assert!(!is_behind(&engine, 0));
    }
}

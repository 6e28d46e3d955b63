//! A worker's journal: the one that servers have, on a simulated disk, driven in virtual time.
//!
//! It does what `solera-node`'s storage and the journal's thread do, without a thread: records are
//! appended as the replica emits them, written out when a sync begins, and durable when it ends; what
//! came in meanwhile waits for the next one.

use std::collections::VecDeque;
use std::io::ErrorKind;

use solera_journal::{
    Disk, Entry, Error, FaultyCall, Identity, Journal, Lsn, Options, Recovered, SimDisk,
    SnapshotWriter, repair,
};
use solera_unistore::{
    Checkpoint, Command, Config, Event, Output, Part, Record, Records, Recovery, Replica,
};

use crate::random::Random;
use crate::scenario::Weakness;

/// A worker's disk, the journal on it while the worker runs, and what waits for it.
#[derive(Debug)]
pub(crate) struct Storage {
    disk: SimDisk,
    options: Options,
    weakness: Option<Weakness>,
    journal: Option<Journal<SimDisk>>,
    /// What the replica said after records that are not durable yet.
    held: VecDeque<(Lsn, Output)>,
    /// Commits that a crash may undo.
    undurable: VecDeque<(Lsn, Event)>,
    saving: Option<Saving>,
    syncing: bool,
    stopped: bool,
    space_low: bool,
    /// How much longer a sync takes than usual, in nanoseconds.
    pub(crate) slow: u64,
    /// How often the worker was started.
    pub(crate) starts: u64,
    /// The last record that counted as durable: it must come back.
    promised: Lsn,
    /// The disk has spoilt something.
    harmed: bool,
    lost_power: bool,
}

/// A checkpoint that is being written.
#[derive(Debug)]
struct Saving {
    checkpoint: Checkpoint,
    snapshot: SnapshotWriter<SimDisk>,
    /// The last record that the parts so far know of.
    knows: Lsn,
}

/// How a journal is after it was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Well,
    /// It has just failed for good: nothing is written any more.
    Stopped,
    /// The power has failed in the middle of a call.
    PowerLost,
}

/// A worker that runs again.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) replica: Replica,
    pub(crate) recovered: Recovered,
    /// Commits of which nobody was told, and which are undone.
    pub(crate) undone: Vec<Event>,
}

/// Why a worker does not start.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The power failed again, there is no space, or a call failed: it may start later.
    NotNow,
    /// The journal is damaged, and says so.
    Damaged(Error),
    /// Records that counted as durable are missing, and nothing is said of it.
    Lost {
        promised: Lsn,
        found: Lsn,
        /// The disk spoilt the last batch and then lost its power, before the batch's mark reached
        /// it. `docs/formats/journal.md` says that this cannot be seen.
        unseeable: bool,
    },
}

impl Storage {
    /// A new disk. `seed` decides its accidents.
    pub(crate) fn new(
        config: &Config,
        seed: u64,
        segment_bytes: u64,
        weakness: Option<Weakness>,
    ) -> Self {
        let name = format!("{:?}", config.address);
        let identity = Identity::new(name.as_bytes()).expect("an address is short");
        Storage {
            disk: SimDisk::new(seed),
            options: Options { segment_bytes, ..Options::new(identity) },
            weakness,
            journal: None,
            held: VecDeque::new(),
            undurable: VecDeque::new(),
            saving: None,
            syncing: false,
            stopped: false,
            space_low: false,
            slow: 0,
            starts: 0,
            promised: Lsn(0),
            harmed: false,
            lost_power: false,
        }
    }

    /// Another machine takes the worker's place, with a disk of its own.
    pub(crate) fn replace(&mut self, config: &Config, seed: u64) {
        let (bytes, starts) = (self.options.segment_bytes, self.starts);
        *self = Storage { starts, ..Storage::new(config, seed, bytes, self.weakness) };
    }

    /// Whether something is written and not durable.
    pub(crate) fn is_syncing(&self) -> bool {
        self.persisted() < self.last()
    }

    /// Whether a checkpoint is being written.
    pub(crate) fn is_saving(&self) -> bool {
        self.saving.is_some()
    }

    /// Starts the worker from what is on the disk.
    pub(crate) fn start(&mut self, config: &Config, seed: u64) -> Result<Started, Refusal> {
        let (journal, recovered, replica) = match self.open(config, seed) {
            Ok(opened) => opened,
            Err(_) if self.disk.power_failed() => {
                self.crash(true);
                return Err(Refusal::NotNow);
            }
            Err(Error::Io { .. } | Error::DiskFull { .. }) => return Err(Refusal::NotNow),
            Err(damage) if self.weakness == Some(Weakness::StartsFromDamage) => {
                let repaired = repair(&self.disk, &SimDisk::new(0));
                self.promised = Lsn(0);
                repaired.map_err(|_| Refusal::Damaged(damage.clone()))?;
                self.open(config, seed).map_err(|_| Refusal::Damaged(damage))?
            }
            Err(damage) => return Err(Refusal::Damaged(damage)),
        };
        let found = recovered.last;
        if found < self.promised {
            let unseeable = self.harmed && self.lost_power;
            return Err(Refusal::Lost { promised: self.promised, found, unseeable });
        }
        self.promised = journal.persisted_lsn();
        self.journal = Some(journal);
        self.starts += 1;
        self.lost_power = false;
        let undone = std::mem::take(&mut self.undurable).into_iter();
        let undone = undone.filter(|(lsn, _)| *lsn > found).map(|(_, event)| event).collect();
        Ok(Started { replica, recovered, undone })
    }

    fn open(
        &self,
        config: &Config,
        seed: u64,
    ) -> Result<(Journal<SimDisk>, Recovered, Replica), Error> {
        let mut recovery = Recovery::new(config.clone(), seed);
        let replay = |entry: Entry<'_>| match entry {
            Entry::Snapshot { payload, .. } => {
                let (lsn, part) = payload.split_first_chunk::<8>().ok_or("it is too short")?;
                let part = Part::decode(part).map_err(|error| error.to_string())?;
                recovery.load(u64::from_le_bytes(*lsn), part).map_err(|error| error.to_string())
            }
            Entry::Record { lsn, payload } => {
                let record = Record::decode(payload).map_err(|error| error.to_string())?;
                recovery.replay(lsn.0, record).map_err(|error| error.to_string())
            }
        };
        let (journal, recovered) = Journal::open(self.disk.clone(), &self.options, replay)?;
        Ok((journal, recovered, recovery.finish()))
    }

    /// The worker dies; with its machine's power, or alone.
    pub(crate) fn crash(&mut self, power: bool) {
        // Who is dead does not tidy up: an unfinished checkpoint stays where it is.
        self.disk.fail_power_after(0);
        (self.journal, self.saving) = (None, None);
        if power {
            self.disk.crash();
            self.lost_power = true;
        } else {
            self.disk.kill();
        }
        (self.syncing, self.stopped, self.space_low) = (false, false, false);
        self.held.clear();
    }

    /// How the last use of the disk went. Of a failure it tells once.
    pub(crate) fn health(&mut self) -> Health {
        if self.disk.power_failed() {
            return Health::PowerLost;
        }
        let failed = self.journal.as_ref().is_some_and(|journal| journal.failure().is_some());
        if !failed || self.stopped {
            return Health::Well;
        }
        // As `solera-node` does: who waits is not told that anything is durable.
        self.stopped = true;
        self.held.clear();
        self.saving = None;
        Health::Stopped
    }

    /// Whether the worker answers anybody. One whose journal has failed does not: what is in its memory
    /// may be undone.
    pub(crate) fn answers(&self) -> bool {
        !self.stopped || self.weakness == Some(Weakness::AnswersWithoutJournal)
    }

    /// Whether the worker takes a client's command: one without space takes no writes.
    pub(crate) fn takes(&self, command: &Command) -> bool {
        let writes = match command {
            Command::Execute { op, .. } | Command::Operate { op, .. } => op.is_update(),
            Command::ExecuteStrong { .. } | Command::Commit { .. } => true,
            _ => false,
        };
        self.answers() && !(writes && (self.stopped || self.space_low))
    }

    /// Whether the worker should be started anew once its disk is well.
    pub(crate) fn is_failing(&self) -> bool {
        self.stopped || self.space_low
    }

    fn last(&self) -> Lsn {
        self.journal.as_ref().map(Journal::last_lsn).unwrap_or_default()
    }

    fn persisted(&self) -> Lsn {
        self.journal.as_ref().map(Journal::persisted_lsn).unwrap_or_default()
    }

    pub(crate) fn write(&mut self, records: &Records) {
        let Some(journal) = &mut self.journal else { return };
        for record in records.iter() {
            // Its failure is noticed by `health`.
            let _ = journal.append(record);
        }
    }

    /// An output leaves now, or once what was written before it is durable.
    pub(crate) fn pass(&mut self, output: Output) -> Option<Output> {
        if self.stopped {
            let reply = matches!(output, Output::Reply { .. });
            return (reply && self.answers()).then_some(output);
        }
        let durable = self.persisted() == self.last() && self.held.is_empty();
        if durable || self.weakness == Some(Weakness::AcknowledgesBeforeSync) {
            return Some(output);
        }
        self.held.push_back((self.last(), output));
        None
    }

    pub(crate) fn note(&mut self, event: &Event) {
        let undurable = self.stopped || self.persisted() < self.last();
        if undurable && matches!(event, Event::Committed { .. } | Event::Certified { .. }) {
            // What a stopped worker does is in no record.
            let lsn = if self.stopped { Lsn(u64::MAX) } else { self.last() };
            self.undurable.push_back((lsn, event.clone()));
        }
    }

    /// Writes out what was appended, unless a sync is under way. Whether one is to begin.
    pub(crate) fn begin_sync(&mut self) -> bool {
        let waiting = self.persisted() < self.last();
        let Some(journal) = &mut self.journal else { return false };
        if self.syncing || self.stopped || !waiting {
            return false;
        }
        self.syncing = journal.write_out().is_ok();
        self.syncing
    }

    /// The sync is done. Returns what may leave now.
    pub(crate) fn end_sync(&mut self) -> Vec<Output> {
        self.syncing = false;
        let Some(journal) = &mut self.journal else { return Vec::new() };
        if journal.sync().is_err() {
            return Vec::new();
        }
        let persisted = journal.persisted_lsn();
        self.promised = persisted;
        self.space_low |= journal.prepare().is_err_and(|error| error.is_disk_full());
        self.undurable.retain(|(lsn, _)| *lsn > persisted);
        self.finish_checkpoint();
        let free = self.held.partition_point(|(lsn, _)| *lsn <= persisted);
        self.held.drain(..free).map(|(_, output)| output).collect()
    }

    /// Writes the next part of a checkpoint, or begins one. Nothing when it is complete.
    pub(crate) fn checkpoint(&mut self, replica: &Replica, keys: usize) -> Option<(Lsn, Part)> {
        let lsn = self.last();
        let journal = self.journal.as_mut().filter(|_| !self.stopped)?;
        if self.saving.is_none() {
            let snapshot = journal.begin_snapshot(lsn).ok()?;
            self.saving = Some(Saving { checkpoint: Checkpoint::default(), snapshot, knows: lsn });
        }
        let saving = self.saving.as_mut()?;
        let Some(part) = replica.next_part(&mut saving.checkpoint, keys) else {
            self.finish_checkpoint();
            return None;
        };
        let mut bytes = lsn.0.to_le_bytes().to_vec();
        part.encode(&mut bytes);
        saving.knows = lsn;
        if saving.snapshot.add(&bytes).is_err() {
            self.saving = None;
        }
        Some((lsn, part))
    }

    /// A complete checkpoint is in force once all that it knows of is durable.
    fn finish_checkpoint(&mut self) {
        let persisted = self.persisted();
        let Some(journal) = &mut self.journal else { return };
        let ready =
            |saving: &mut Saving| saving.checkpoint.is_complete() && saving.knows <= persisted;
        if let Some(saving) = self.saving.take_if(ready)
            && let Ok(written) = saving.snapshot.finish()
        {
            // Its failure is noticed by `health`.
            let _ = journal.publish(written);
        }
    }

    /// Lets the power fail in the middle of one of the next calls.
    pub(crate) fn fail_power_after(&self, calls: u64) {
        self.disk.fail_power_after(calls);
    }

    /// Leaves so many bytes of space.
    pub(crate) fn fill(&self, room: u64) {
        self.disk.set_capacity(self.disk.used() + room);
    }

    /// Ends all that the disk does slowly or not at all; what is spoilt stays so.
    pub(crate) fn heal(&mut self) {
        self.disk.heal();
        self.slow = 0;
    }

    /// Lets one of the next calls of this kind fail.
    pub(crate) fn fail_call(&self, call: FaultyCall, skip: u64) {
        self.disk.fail_call(call, skip, ErrorKind::Other);
    }

    /// Flips a bit of what is written. Returns where.
    pub(crate) fn rot(&mut self, random: &mut Random) -> Option<(String, u64)> {
        let (file, used) = self.some_file(random)?;
        let offset = random.within(0, used);
        self.disk.flip_bit(&file, offset, random.below(8) as u8);
        self.harmed = true;
        Some((file, offset))
    }

    /// Lets the next write go to another place. Returns which.
    pub(crate) fn misdirect(&mut self, random: &mut Random) -> Option<(String, u64)> {
        let (file, used) = self.some_file(random)?;
        let offset = random.within(0, used) / 8 * 8;
        self.disk.misdirect_next_write(&file, offset);
        self.harmed = true;
        Some((file, offset))
    }

    /// A segment or snapshot, and how many of its bytes are not the zeros at the end.
    fn some_file(&self, random: &mut Random) -> Option<(String, u64)> {
        let mut files = self.disk.list().ok()?;
        files.retain(|name| name.ends_with(".segment") || name.ends_with(".snapshot"));
        let file = files.get(random.below(files.len()))?.clone();
        let content = self.disk.content(&file)?;
        let used = content.iter().rposition(|byte| *byte != 0)? as u64 + 1;
        Some((file, used))
    }
}

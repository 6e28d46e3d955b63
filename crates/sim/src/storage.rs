//! A worker's journal: the one that servers have, on a simulated disk, in virtual time.
//!
//! The thread of a server's journal is missing: a sync begins with [`Log::submit`] and ends when
//! the world calls [`VirtualLog::end_sync`]. What waits for it is the driver's concern, as in
//! servers.

use std::collections::VecDeque;
use std::io::ErrorKind;

use solera_host::{Driver, Log, VirtualLog};
use solera_journal::{
    Disk, Error, Event as LogEvent, FaultyCall, Identity, Journal, Lsn, Options, Recovered,
    SimDisk, repair,
};
use solera_machine::{RequestId, Without};
use solera_site::{Recovery, Site};
use solera_unistore::{Command, Config, Event, Response};

use crate::random::Random;
use crate::weakness::Weakness;

/// What runs a worker. Clients whose commands it executes directly wait for their responses.
pub(crate) type Worker = Driver<Site, VirtualLog<SimDisk>, (RequestId, Response)>;

/// A worker's disk, and what the world knows of the journal on it.
#[derive(Debug)]
pub(crate) struct Storage {
    disk: SimDisk,
    options: Options,
    weakness: Option<Weakness>,
    /// Commits that a crash may undo.
    undurable: VecDeque<(Lsn, Event)>,
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
    pub(crate) worker: Worker,
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
            undurable: VecDeque::new(),
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

    /// Starts the worker from what is on the disk.
    pub(crate) fn start(
        &mut self,
        config: &solera_site::Config,
        seed: u64,
    ) -> Result<Started, Refusal> {
        let (journal, recovered, site) = match self.open(config, seed) {
            Ok(opened) => opened,
            Err(_) if self.disk.power_failed() => {
                self.crash(None, true);
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
        self.starts += 1;
        self.lost_power = false;
        let undone = std::mem::take(&mut self.undurable).into_iter();
        let undone = undone.filter(|(lsn, _)| *lsn > found).map(|(_, event)| event).collect();
        let without = match self.weakness {
            Some(Weakness::Driver(without)) => without,
            _ => Without::default(),
        };
        let options = solera_host::Options { waits: true, without };
        let worker = Driver::with_log(site, VirtualLog::new(journal), self.promised, options);
        Ok(Started { worker, recovered, undone })
    }

    fn open(
        &self,
        config: &solera_site::Config,
        seed: u64,
    ) -> Result<(Journal<SimDisk>, Recovered, Site), Error> {
        let recovery = Recovery::new(config.clone(), seed);
        solera_host::open(self.disk.clone(), &self.options, recovery, |_| ())
    }

    /// The worker dies, if it runs; with its machine's power, or alone.
    pub(crate) fn crash(&mut self, worker: Option<Worker>, power: bool) {
        // Who is dead does not tidy up: an unfinished checkpoint stays where it is.
        self.disk.fail_power_after(0);
        drop(worker);
        if power {
            self.disk.crash();
            self.lost_power = true;
        } else {
            self.disk.kill();
        }
    }

    /// How the last use of the disk went. Of a failure it tells once.
    pub(crate) fn health(&self, worker: &mut Worker) -> Health {
        if self.disk.power_failed() {
            return Health::PowerLost;
        }
        if let Some(failed) = worker.log().and_then(VirtualLog::failure) {
            worker.on_log_event(failed);
        }
        if worker.has_just_stopped() { Health::Stopped } else { Health::Well }
    }

    pub(crate) fn note(&mut self, worker: &Worker, event: &Event) {
        let undurable = worker.has_stopped() || worker.has_undurable();
        if undurable && matches!(event, Event::Committed { .. } | Event::Certified { .. }) {
            // What a stopped worker does is in no record.
            let last = worker.log().map(Log::last).unwrap_or_default();
            let lsn = if worker.has_stopped() { Lsn(u64::MAX) } else { last };
            self.undurable.push_back((lsn, event.clone()));
        }
    }

    /// The sync is done; what may leave now is the driver's.
    pub(crate) fn end_sync(&mut self, worker: &mut Worker) {
        let Some(log) = worker.log_mut() else { return };
        for event in log.end_sync() {
            if let LogEvent::Persisted(persisted) = event {
                self.promised = persisted;
                self.undurable.retain(|(lsn, _)| *lsn > persisted);
            }
            worker.on_log_event(event);
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

/// Whether a worker takes a client's command: one without space takes no writes, and one whose
/// journal has failed answers nobody, for what is in its memory may be undone.
pub(crate) fn takes(worker: &Worker, command: &Command) -> bool {
    worker.answers() && !(writes(command) && worker.refuses().is_some())
}

/// Whether a command may change something.
pub(crate) fn writes(command: &Command) -> bool {
    match command {
        Command::Execute { op, .. } | Command::Operate { op, .. } => op.is_update(),
        Command::ExecuteStrong { .. } | Command::ExecuteGuarded(_) | Command::Commit { .. } => true,
        _ => false,
    }
}

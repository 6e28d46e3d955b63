//! A worker's journal: that of servers, on a simulated disk, in virtual time.
//!
//! There is no journal thread as in a server: a sync begins with [`Log::submit`] and ends when the
//! world calls [`VirtualLog::end_sync`]. The driver decides which outputs wait for it, as in
//! servers.

use std::collections::VecDeque;
use std::io::ErrorKind;

use solera_host::{Driver, Log, VirtualLog};
use solera_journal::{
    Disk, Error, Event as LogEvent, FaultyCall, Identity, Journal, Lsn, Options, Recovered,
    SimDisk, repair,
};
use solera_machine::{RequestId, Without};
use solera_site::{Recovery, Response, Site};
use solera_unistore::{Command, Config, Event};

use crate::random::Random;
use crate::weakness::Weakness;

/// The driver of a worker. Clients whose commands it executes directly wait for their responses.
pub(crate) type Worker = Driver<Site, VirtualLog<SimDisk>, (RequestId, Response)>;

/// A worker's disk, and the world's knowledge of the journal on it.
#[derive(Debug)]
pub(crate) struct Storage {
    disk: SimDisk,
    options: Options,
    weakness: Option<Weakness>,
    /// Commits that a crash may undo.
    undurable: VecDeque<(Lsn, Event)>,
    /// Steps of `creek` that a crash would undo, and that no other worker and no client knows.
    held: VecDeque<(Lsn, solera_creek::Event)>,
    /// Extra time of a sync, in nanoseconds.
    pub(crate) slow: u64,
    /// Number of starts of the worker.
    pub(crate) starts: u64,
    /// The last record that counted as durable. It must be in the journal after a restart.
    promised: Lsn,
    /// Whether the disk has damaged data.
    harmed: bool,
    lost_power: bool,
}

/// State of a journal after it was used.
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
    /// Undone commits. Their outcomes were not sent to any client.
    pub(crate) undone: Vec<Event>,
    /// Steps of `creek` in the previous incarnation that are durable.
    pub(crate) shown: Vec<solera_creek::Event>,
}

/// Reason why a worker does not start.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The power failed again, there is no space, or a call failed: it may start later.
    NotNow,
    /// The journal is damaged, and reports it.
    Damaged(Error),
    /// Records that counted as durable are missing, and the journal reports no damage.
    Lost {
        promised: Lsn,
        found: Lsn,
        /// Whether the disk damaged the last batch and then lost its power before the batch's mark
        /// reached it. This cannot be detected (`docs/formats/journal.md`).
        unseeable: bool,
    },
}

impl Storage {
    /// Creates a new disk. `seed` determines its faults.
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
            held: VecDeque::new(),
            slow: 0,
            starts: 0,
            promised: Lsn(0),
            harmed: false,
            lost_power: false,
        }
    }

    /// Replaces the worker's machine by another one, with a disk of its own.
    pub(crate) fn replace(&mut self, config: &Config, seed: u64) {
        let (bytes, starts) = (self.options.segment_bytes, self.starts);
        *self = Storage { starts, ..Storage::new(config, seed, bytes, self.weakness) };
    }

    /// Starts the worker from its disk.
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
        let kept = self.held.partition_point(|(lsn, _)| *lsn <= found);
        let shown = self.held.drain(..).take(kept).map(|(_, step)| step).collect();
        let undone = std::mem::take(&mut self.undurable).into_iter();
        let undone = undone.filter(|(lsn, _)| *lsn > found).map(|(_, event)| event).collect();
        let without = match self.weakness {
            Some(Weakness::Driver(without)) => without,
            _ => Without::default(),
        };
        let options = solera_host::Options { waits: true, without };
        let worker = Driver::with_log(site, VirtualLog::new(journal), self.promised, options);
        Ok(Started { worker, recovered, undone, shown })
    }

    fn open(
        &self,
        config: &solera_site::Config,
        seed: u64,
    ) -> Result<(Journal<SimDisk>, Recovered, Site), Error> {
        let recovery = Recovery::new(config.clone(), seed);
        solera_host::open(self.disk.clone(), &self.options, recovery, |_| ())
    }

    /// Handles the death of the worker, with or without a power loss of its machine.
    pub(crate) fn crash(&mut self, worker: Option<Worker>, power: bool) {
        // A dead process does not clean up: an unfinished checkpoint stays where it is.
        self.disk.fail_power_after(0);
        drop(worker);
        if power {
            self.disk.crash();
            self.lost_power = true;
        } else {
            self.disk.kill();
        }
    }

    /// Returns the result of the last use of the disk. A failure is reported once.
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
            // A stopped worker writes no records.
            let last = worker.log().map(Log::last).unwrap_or_default();
            let lsn = if worker.has_stopped() { Lsn(u64::MAX) } else { last };
            self.undurable.push_back((lsn, event.clone()));
        }
    }

    /// Keeps a step of `creek` if a crash would undo it. Returns whether it does.
    pub(crate) fn hold(&mut self, worker: &Worker, step: &solera_creek::Event) -> bool {
        let undurable = worker.has_stopped() || worker.has_undurable();
        if undurable {
            let last = worker.log().map(Log::last).unwrap_or_default();
            let lsn = if worker.has_stopped() { Lsn(u64::MAX) } else { last };
            self.held.push_back((lsn, step.clone()));
        }
        undurable
    }

    /// Returns the kept steps that a crash does not undo any more.
    pub(crate) fn durable_steps(&mut self) -> Vec<solera_creek::Event> {
        let durable = self.held.partition_point(|(lsn, _)| *lsn <= self.promised);
        self.held.drain(..durable).map(|(_, step)| step).collect()
    }

    /// Ends the sync; the driver decides what may be sent now.
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

    /// Has the power fail in the middle of one of the next calls.
    pub(crate) fn fail_power_after(&self, calls: u64) {
        self.disk.fail_power_after(calls);
    }

    /// Leaves `room` bytes of space.
    pub(crate) fn fill(&self, room: u64) {
        self.disk.set_capacity(self.disk.used() + room);
    }

    /// Ends all slowness and failures of the disk; damaged data stays damaged.
    pub(crate) fn heal(&mut self) {
        self.disk.heal();
        self.slow = 0;
    }

    /// Has one of the next calls of this kind fail.
    pub(crate) fn fail_call(&self, call: FaultyCall, skip: u64) {
        self.disk.fail_call(call, skip, ErrorKind::Other);
    }

    /// Flips a bit of the data on disk. Returns its place.
    pub(crate) fn rot(&mut self, random: &mut Random) -> Option<(String, u64)> {
        let (file, used) = self.some_file(random)?;
        let offset = random.within(0, used);
        self.disk.flip_bit(&file, offset, random.below(8) as u8);
        self.harmed = true;
        Some((file, offset))
    }

    /// Has the next write go to a wrong place. Returns which.
    pub(crate) fn misdirect(&mut self, random: &mut Random) -> Option<(String, u64)> {
        let (file, used) = self.some_file(random)?;
        let offset = random.within(0, used) / 8 * 8;
        self.disk.misdirect_next_write(&file, offset);
        self.harmed = true;
        Some((file, offset))
    }

    /// Returns a segment or snapshot, and its length without the zeros at the end.
    fn some_file(&self, random: &mut Random) -> Option<(String, u64)> {
        let mut files = self.disk.list().ok()?;
        files.retain(|name| name.ends_with(".segment") || name.ends_with(".snapshot"));
        let file = files.get(random.below(files.len()))?.clone();
        let content = self.disk.content(&file)?;
        let used = content.iter().rposition(|byte| *byte != 0)? as u64 + 1;
        Some((file, used))
    }
}

/// Returns whether a worker accepts a client's command. One without space rejects writes, and one
/// whose journal has failed answers no client, because the data in its memory may be undone.
pub(crate) fn takes(worker: &Worker, command: &Command) -> bool {
    worker.answers() && !(writes(command) && worker.refuses().is_some())
}

/// Returns whether a command may change data.
pub(crate) fn writes(command: &Command) -> bool {
    match command {
        Command::Execute { op, .. } | Command::Operate { op, .. } => op.is_update(),
        Command::ExecuteStrong { .. } | Command::ExecuteGuarded(_) | Command::Commit { .. } => true,
        _ => false,
    }
}

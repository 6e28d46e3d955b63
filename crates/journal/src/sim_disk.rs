//! A simulated disk that loses and damages data within its contract, controlled by a seed.
//!
//! It holds one directory in memory. A crash keeps synced data, and a random subset of the other
//! sectors and names. All work happens in the calling thread, and in the same order for the same
//! seed and calls.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use solera_random::Random;

use crate::disk::{Disk, DiskFile};

/// Size of a sector. Writes are torn between sectors, never within one.
const SECTOR: usize = 512;

/// A simulated disk. Clones refer to the same disk.
#[derive(Clone, Debug)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

/// An open file of a [`SimDisk`].
#[derive(Debug)]
pub struct SimFile {
    state: Arc<Mutex<State>>,
    file: u64,
    boot: u64,
}

/// A lock on a file of a [`SimDisk`], until it is dropped or the machine crashes.
#[derive(Debug)]
pub struct SimLock {
    state: Arc<Mutex<State>>,
    name: String,
    boot: u64,
}

/// A call that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultyCall {
    /// [`DiskFile::read_at`].
    Read,
    /// [`DiskFile::write_at`] and [`DiskFile::allocate`].
    Write,
    /// [`DiskFile::sync`].
    Sync,
    /// [`Disk::sync_dir`].
    SyncDir,
    /// [`Disk::create`], [`Disk::rename`] and [`Disk::remove`].
    Names,
}

#[derive(Debug)]
struct State {
    random: Random,
    files: BTreeMap<u64, Content>,
    next_file: u64,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    /// Changes of names since the directory was last synced.
    pending_names: Vec<NameChange>,
    locks: BTreeSet<String>,
    boot: u64,
    /// Number of changing calls until the power fails.
    power: Option<u64>,
    capacity: u64,
    fault: Option<(FaultyCall, u64, ErrorKind)>,
    /// File and offset to which the next write is misdirected.
    misdirect: Option<(String, u64)>,
    sync_latency_us: (u64, u64),
    latency_us: u64,
    changes: u64,
}

#[derive(Debug, Default)]
struct Content {
    /// Content that readers see.
    now: Vec<u8>,
    /// Content that certainly survives.
    durable: Vec<u8>,
    /// Versions of sectors since the last sync; any may survive a crash.
    pending: BTreeMap<usize, Vec<[u8; SECTOR]>>,
}

/// State of the power during a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Power {
    On,
    Failing,
}

impl Power {
    fn or_fail(self) -> io::Result<()> {
        match self {
            Power::On => Ok(()),
            Power::Failing => Err(io::Error::other("the power fails")),
        }
    }
}

#[derive(Clone, Debug)]
enum NameChange {
    Link(String, u64),
    Unlink(String),
    Rename(String, String, u64),
}

impl SimDisk {
    /// Creates an empty disk; `seed` determines its faults.
    pub fn new(seed: u64) -> SimDisk {
        let state = State {
            random: Random::new(seed),
            files: BTreeMap::new(),
            next_file: 0,
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            pending_names: Vec::new(),
            locks: BTreeSet::new(),
            boot: 0,
            power: None,
            capacity: u64::MAX,
            fault: None,
            misdirect: None,
            sync_latency_us: (0, 0),
            latency_us: 0,
            changes: 0,
        };
        SimDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// Simulates a power failure and restart: a random part of the unsynced data survives. Open
    /// files and locks become invalid; drop their users first. Cancels injected failures that have
    /// not happened yet.
    pub fn crash(&self) {
        self.restart(State::lose);
    }

    /// Simulates a crash of the process only: nothing written is lost, and nothing more becomes
    /// durable.
    pub fn kill(&self) {
        self.restart(|_| {});
    }

    /// Makes the power fail at the `calls`th changing call from now, which may take effect in part.
    /// After that every call fails until [`crash`](Self::crash).
    pub fn fail_power_after(&self, calls: u64) {
        self.state().power = Some(calls);
    }

    /// Returns whether the power has failed.
    pub fn power_failed(&self) -> bool {
        self.state().power == Some(0)
    }

    /// Returns the number of changing calls so far: writes, syncs, changes of names.
    pub fn changes(&self) -> u64 {
        self.state().changes
    }

    /// Limits the space for all files together.
    pub fn set_capacity(&self, bytes: u64) {
        self.state().capacity = bytes;
    }

    /// Returns the total length of all files.
    pub fn used(&self) -> u64 {
        self.state().used()
    }

    /// Makes the `skip + 1`th call of this kind fail once. After a failed sync, the data remains
    /// readable, but later syncs do not cover it, as on Linux.
    pub fn fail_call(&self, call: FaultyCall, skip: u64, error: ErrorKind) {
        self.state().fault = Some((call, skip, error));
    }

    /// Misdirects the next write to `offset` of the file `name`.
    pub fn misdirect_next_write(&self, name: &str, offset: u64) {
        self.state().misdirect = Some((name.to_owned(), offset));
    }

    /// Flips a bit of a file, durably. Panics if the file has no such byte.
    pub fn flip_bit(&self, name: &str, offset: u64, bit: u8) {
        let mut state = self.state();
        let file = state.names[name];
        let content = state.files.get_mut(&file).expect("a name means a file");
        let mask = 1 << (bit % 8);
        let (sector, within) = (offset as usize / SECTOR, offset as usize % SECTOR);
        content.now[offset as usize] ^= mask;
        if let Some(byte) = content.durable.get_mut(offset as usize) {
            *byte ^= mask;
        }
        for version in content.pending.get_mut(&sector).into_iter().flatten() {
            version[within] ^= mask;
        }
    }

    /// Truncates a file to `bytes`, durably. Panics if there is no such file.
    pub fn truncate(&self, name: &str, bytes: u64) {
        let mut state = self.state();
        let file = state.names[name];
        let content = state.files.get_mut(&file).expect("a name means a file");
        content.now.truncate(bytes as usize);
        content.durable.truncate(bytes as usize);
        content.pending.retain(|sector, _| ((sector * SECTOR) as u64) < bytes);
    }

    /// Returns a file's content as readers see it.
    pub fn content(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        Some(state.files[state.names.get(name)?].now.clone())
    }

    /// Creates a file with this content, durably.
    pub fn put(&self, name: &str, content: &[u8]) {
        let mut state = self.state();
        let file = state.new_file();
        let content = content.to_vec();
        let durable = content.clone();
        state.files.insert(file, Content { now: content, durable, pending: BTreeMap::new() });
        state.names.insert(name.to_owned(), file);
        state.durable_names.insert(name.to_owned(), file);
    }

    /// Cancels injected failures that have not happened yet, and removes the space limit. Damaged
    /// data remains damaged.
    pub fn heal(&self) {
        let mut state = self.state();
        (state.power, state.fault, state.misdirect) = (None, None, None);
        state.capacity = u64::MAX;
    }

    /// Sets the latency of syncs to between `least` and `most` microseconds of virtual time.
    pub fn set_sync_latency_us(&self, least: u64, most: u64) {
        self.state().sync_latency_us = (least, most);
    }

    /// Returns the virtual time that syncs took since the last call.
    pub fn take_latency_us(&self) -> u64 {
        std::mem::take(&mut self.state().latency_us)
    }

    fn restart(&self, lose: impl FnOnce(&mut State)) {
        let mut state = self.state();
        lose(&mut state);
        state.locks.clear();
        state.power = None;
        state.fault = None;
        state.misdirect = None;
        state.boot += 1;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Returns the state for a call that creates, renames or removes a file, or an injected
    /// failure.
    fn names(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        state.change()?.or_fail()?;
        state.stumble(FaultyCall::Names)?;
        Ok(state)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // Poisoning is ignored: the thread that panicked reports the panic.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// Checks before any call that the machine runs.
    fn alive(&self) -> io::Result<()> {
        if self.power == Some(0) {
            return Err(io::Error::other("the machine has crashed"));
        }
        Ok(())
    }

    /// Checks before any call on a file opened in the given boot.
    fn alive_in(&self, boot: u64) -> io::Result<()> {
        let same = boot == self.boot;
        self.alive().and(if same { Ok(()) } else { Err(io::Error::other("from before a crash")) })
    }

    /// Counts a changing call, and returns the state of the power.
    fn change(&mut self) -> io::Result<Power> {
        self.alive()?;
        self.changes += 1;
        let Some(calls) = &mut self.power else { return Ok(Power::On) };
        *calls -= 1;
        Ok(if *calls == 0 { Power::Failing } else { Power::On })
    }

    fn stumble(&mut self, call: FaultyCall) -> io::Result<()> {
        match &mut self.fault {
            Some((faulty, skip, _)) if *faulty == call && *skip > 0 => *skip -= 1,
            Some((faulty, _, error)) if *faulty == call => {
                let error = *error;
                self.fault = None;
                return Err(error.into());
            }
            _ => {}
        }
        Ok(())
    }

    fn new_file(&mut self) -> u64 {
        self.next_file += 1;
        self.files.insert(self.next_file, Content::default());
        self.next_file
    }

    fn used(&self) -> u64 {
        self.names.values().map(|file| self.files[file].now.len() as u64).sum()
    }

    fn rename(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.pending_names.push(change);
    }

    fn write(&mut self, file: u64, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let (file, offset) = self.target(file, offset);
        let length = self.files[&file].now.len() as u64;
        let growth = (offset + bytes.len() as u64).saturating_sub(length);
        // Most writes go to allocated space.
        let room = if growth > 0 { self.capacity.saturating_sub(self.used()) } else { 0 };
        let content = self.files.get_mut(&file).expect("an open file has a content");
        if growth > room {
            // Writes as much as the space permits, like file systems.
            let writable = (length + room).saturating_sub(offset).min(bytes.len() as u64);
            content.write(offset as usize, &bytes[..writable as usize]);
            return Err(ErrorKind::StorageFull.into());
        }
        content.write(offset as usize, bytes);
        Ok(())
    }

    fn target(&mut self, file: u64, offset: u64) -> (u64, u64) {
        match self.misdirect.take() {
            Some((name, offset)) => (self.names.get(&name).copied().unwrap_or(file), offset),
            None => (file, offset),
        }
    }

    /// Simulates a power failure.
    fn lose(&mut self) {
        for change in std::mem::take(&mut self.pending_names) {
            if self.random.one_in(2) {
                change.apply(&mut self.durable_names);
            }
        }
        self.names = self.durable_names.clone();
        let kept: BTreeSet<u64> = self.names.values().copied().collect();
        self.files.retain(|file, _| kept.contains(file));
        for content in self.files.values_mut() {
            content.lose(&mut self.random);
        }
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            NameChange::Link(name, file) => {
                names.insert(name.clone(), *file);
            }
            NameChange::Unlink(name) => {
                names.remove(name);
            }
            NameChange::Rename(from, to, file) => {
                names.remove(from);
                names.insert(to.clone(), *file);
            }
        }
    }
}

impl Content {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if self.now.len() < end {
            self.now.resize(end, 0);
        }
        self.now[offset..end].copy_from_slice(bytes);
        if bytes.is_empty() {
            return;
        }
        for sector in offset / SECTOR..=(end - 1) / SECTOR {
            let version = sector_of(&self.now, sector);
            self.pending.entry(sector).or_default().push(version);
        }
    }

    /// Makes the writes since the last sync durable.
    fn keep(&mut self) {
        self.durable.resize(self.now.len(), 0);
        for (sector, _) in std::mem::take(&mut self.pending) {
            let start = sector * SECTOR;
            let end = self.now.len().min(start + SECTOR);
            self.durable[start..end].copy_from_slice(&self.now[start..end]);
        }
    }

    /// Reduces the content to what survives a crash.
    fn lose(&mut self, random: &mut Random) {
        for (sector, versions) in std::mem::take(&mut self.pending) {
            // Any of the versions survives, or none.
            let choice = random.below(versions.len() as u64 + 1) as usize;
            let Some(version) = versions.get(choice) else { continue };
            let start = sector * SECTOR;
            if self.durable.len() < start + SECTOR {
                self.durable.resize((start + SECTOR).min(self.now.len()), 0);
            }
            let end = self.durable.len().min(start + SECTOR);
            self.durable[start..end].copy_from_slice(&version[..end - start]);
        }
        self.now = self.durable.clone();
    }
}

fn sector_of(content: &[u8], sector: usize) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    let held = &content[sector * SECTOR..content.len().min((sector + 1) * SECTOR)];
    bytes[..held.len()].copy_from_slice(held);
    bytes
}

impl Disk for SimDisk {
    type File = SimFile;
    type Lock = SimLock;

    fn make_dir(&self) -> io::Result<()> {
        self.state().alive()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let state = self.state();
        state.alive()?;
        Ok(state.names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<SimFile> {
        let mut state = self.names()?;
        let (file, boot) = (state.new_file(), state.boot);
        state.rename(NameChange::Link(name.to_owned(), file));
        Ok(SimFile { state: self.state.clone(), file, boot })
    }

    fn open(&self, name: &str) -> io::Result<SimFile> {
        let state = self.state();
        state.alive()?;
        let (file, boot) = (*state.names.get(name).ok_or(ErrorKind::NotFound)?, state.boot);
        Ok(SimFile { state: self.state.clone(), file, boot })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.names()?;
        let file = *state.names.get(from).ok_or(ErrorKind::NotFound)?;
        state.rename(NameChange::Rename(from.to_owned(), to.to_owned(), file));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.names()?;
        if !state.names.contains_key(name) {
            return Err(ErrorKind::NotFound.into());
        }
        state.rename(NameChange::Unlink(name.to_owned()));
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.state();
        state.change()?.or_fail()?;
        state.stumble(FaultyCall::SyncDir)?;
        state.pending_names.clear();
        state.durable_names = state.names.clone();
        Ok(())
    }

    fn lock(&self, name: &str) -> io::Result<Option<SimLock>> {
        let mut state = self.state();
        state.alive()?;
        let (free, boot) = (state.locks.insert(name.to_owned()), state.boot);
        Ok(free.then(|| SimLock { state: self.state.clone(), name: name.to_owned(), boot }))
    }
}

impl DiskFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        let state = lock(&self.state);
        state.alive_in(self.boot)?;
        Ok(state.files[&self.file].now.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.alive_in(self.boot)?;
        state.stumble(FaultyCall::Read)?;
        let content = &state.files[&self.file].now;
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let end = start.checked_add(buffer.len());
        let held = end.and_then(|end| content.get(start..end));
        buffer.copy_from_slice(held.ok_or(ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.alive_in(self.boot)?;
        let power = state.change()?;
        state.stumble(FaultyCall::Write)?;
        // If the power fails during a write, a part of it may reach the disk.
        state.write(self.file, offset, bytes)?;
        power.or_fail()
    }

    fn allocate(&self, offset: u64, end: u64) -> io::Result<()> {
        self.write_at(offset, &vec![0; end.saturating_sub(offset) as usize])
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.alive_in(self.boot)?;
        state.change()?.or_fail()?;
        let (least, most) = state.sync_latency_us;
        let latency = least + state.random.below(most.saturating_sub(least) + 1);
        state.latency_us += latency;
        let stumbled = state.stumble(FaultyCall::Sync);
        let State { files, random, .. } = &mut *state;
        let content = files.get_mut(&self.file).expect("an open file has a content");
        if let Err(error) = stumbled {
            // Readers still see the content; which part is durable is random, and later syncs do
            // not retry.
            let seen = content.now.clone();
            content.lose(random);
            content.now = seen;
            return Err(error);
        }
        content.keep();
        Ok(())
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        if state.boot == self.boot {
            state.locks.remove(&self.name);
        }
    }
}

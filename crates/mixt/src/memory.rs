//! A database in memory, for programs that use no other database.
//!
//! It has spaces of every level and one history of commits. Linearizable and por spaces are
//! serializable: a transaction aborts if an object that it has read there has changed since. In
//! spaces of the level pcpsi it aborts if an object that it writes has changed. Causal and
//! speculative spaces are read in a snapshot. Their writes apply to the latest version at the
//! commit, operation by operation, so that counters, sets, maps and lists merge. In spaces of the
//! levels eventual, quorum and local_quorum every operation takes effect at once, even if the
//! transaction aborts. As in a cluster of Solera, one transaction can span spaces of the level
//! pcpsi, or others, but not both.
//!
//! A store may declare `query strong_size(of: *set<T>) -> int`, the custom operation that the MixT
//! paper (§6.1) assumes: the size in the newest version, independent of the transaction's snapshot.
//! The same works for maps, lists and logs.
//!
//! For tests it can have sites that lag. A session at such a site reads, in spaces that are not
//! strong, the commits that [`Memory::catch_up`] has delivered to the site, and its own.

mod cell;
mod strong_size;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use solera_levels::Level;
use solera_program::ir::Program;
use solera_program::types::StoreId;

use self::cell::Cell;
use crate::location::{Fields, Name};
use crate::request::calls::{
    Answer, Begin, Commits, CustomCall, Horizon, List, NameWrite, ObjectCall, StoreError,
};
use crate::store::{BoxFuture, Connection, Database};

/// A database in memory. Clones share the same data.
#[derive(Clone)]
pub struct Memory {
    shared: Arc<Shared>,
    site: usize,
}

struct Shared {
    name: Arc<str>,
    spaces: BTreeMap<Arc<str>, Level>,
    /// Whether each transaction uses one space.
    is_disjoint: bool,
    history: Mutex<History>,
}

/// All data, with as many versions as a session may still read.
struct History {
    /// Number of the last commit.
    version: u64,
    data: BTreeMap<Key, Versions>,
    /// Number of transactions that read at each version.
    snapshots: BTreeMap<u64, usize>,
    /// Version that each site has received; empty if no site lags.
    sites: Vec<u64>,
    /// Removed keys with the versions that removed them. They are forgotten when no transaction
    /// reads an older version.
    removed: VecDeque<(u64, Key)>,
}

/// Values with the numbers of their commits, ascending.
type Versions = Vec<(u64, Option<Cell>)>;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    space: Arc<str>,
    /// Whether it is a named object.
    named: bool,
    key: Arc<str>,
}

impl Key {
    fn of(call: &ObjectCall) -> Key {
        Key { space: Arc::clone(&call.space), named: false, key: Arc::clone(&call.key) }
    }

    fn name(name: &Name) -> Key {
        Key { space: Arc::clone(&name.space), named: true, key: Arc::clone(&name.key) }
    }
}

impl Memory {
    /// Creates an empty database with some spaces.
    pub fn new(name: &str, spaces: &[(&str, Level)]) -> Memory {
        Memory::with(name, spaces, false, 0)
    }

    /// Creates a database in which each transaction uses one space, as if each space were a
    /// database.
    pub fn disjoint(name: &str, spaces: &[(&str, Level)]) -> Memory {
        Memory::with(name, spaces, true, 0)
    }

    /// Creates a database with sites that lag until they [catch up](Self::catch_up).
    pub fn lagging(name: &str, spaces: &[(&str, Level)], sites: usize) -> Memory {
        Memory::with(name, spaces, false, sites)
    }

    fn with(name: &str, spaces: &[(&str, Level)], is_disjoint: bool, sites: usize) -> Memory {
        let history = History {
            version: 0,
            data: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            sites: vec![0; sites],
            removed: VecDeque::new(),
        };
        let spaces = spaces.iter().map(|(name, level)| (Arc::from(*name), *level)).collect();
        let history = Mutex::new(history);
        Memory {
            shared: Arc::new(Shared { name: name.into(), spaces, is_disjoint, history }),
            site: 0,
        }
    }

    /// Returns the database as a client of another site sees it.
    ///
    /// # Panics
    /// If there is no such site.
    pub fn at(&self, site: usize) -> Memory {
        assert!(site < self.shared.history().sites.len(), "the database has no site {site}");
        Memory { shared: Arc::clone(&self.shared), site }
    }

    /// Delivers all commits to this site.
    pub fn catch_up(&self) {
        let mut history = self.shared.history();
        let version = history.version;
        if let Some(received) = history.sites.get_mut(self.site) {
            *received = version;
        }
    }

    /// Returns the keys of a space's named objects.
    pub fn names(&self, space: &str) -> Vec<Arc<str>> {
        let history = self.shared.history();
        let held = history.data.iter().filter(|(key, versions)| {
            key.named
                && *key.space == *space
                && versions.last().is_some_and(|(_, cell)| cell.is_some())
        });
        held.map(|(key, _)| Arc::clone(&key.key)).collect()
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("name", &self.shared.name).finish_non_exhaustive()
    }
}

impl Shared {
    fn history(&self) -> MutexGuard<'_, History> {
        // A panic elsewhere leaves the history consistent: commits check before they write.
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether one transaction can span two spaces.
    fn spans(&self, one: &str, other: &str) -> bool {
        let is_pcpsi = |space: &str| self.spaces.get(space) == Some(&Level::PcPsi);
        !self.is_disjoint && is_pcpsi(one) == is_pcpsi(other)
    }

    /// Checks that a transaction that has used a space can use these as well.
    fn enter<'s>(
        &self,
        used: &mut Option<Arc<str>>,
        spaces: impl IntoIterator<Item = &'s Arc<str>>,
    ) -> Result<(), StoreError> {
        for space in spaces {
            let used = used.get_or_insert_with(|| Arc::clone(space));
            if used != space && !self.spans(used, space) {
                let text = format!("one transaction cannot span `{used}` and `{space}`");
                return Err(StoreError::Refused(text));
            }
        }
        Ok(())
    }

    fn level(&self, space: &str) -> Result<Level, StoreError> {
        let found = self.spaces.get(space).copied();
        found.ok_or_else(|| StoreError::Refused(format!("there is no space `{space}`")))
    }
}

impl Database for Memory {
    fn name(&self) -> Arc<str> {
        Arc::clone(&self.shared.name)
    }

    fn spans(&self, one: &str, other: &str) -> bool {
        self.shared.spans(one, other)
    }

    fn level(&self, space: &str) -> Option<Level> {
        self.shared.spaces.get(space).copied()
    }

    fn commit_replica(&self) -> Option<Arc<str>> {
        (!self.shared.history().sites.is_empty()).then(|| self.site.to_string().into())
    }

    fn check_operations<'a>(
        &'a self,
        program: &'a Program,
        store: StoreId,
        _space: &'a str,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let mut operations = program.stores[usize::from(store.0)].operations.iter();
        Box::pin(std::future::ready(operations.try_for_each(strong_size::check)))
    }

    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, StoreError>> {
        let shared = Arc::clone(&self.shared);
        let session = MemorySession { shared, site: self.site, seen: 0, until: None, open: None };
        Box::pin(std::future::ready(Ok(Box::new(session) as Box<dyn Connection>)))
    }
}

struct MemorySession {
    shared: Arc<Shared>,
    site: usize,
    /// The newest version that it has seen.
    seen: u64,
    /// Latest time with which `sees` was called, and the number of the last commit at that call.
    until: Option<(u64, u64)>,
    open: Option<Open>,
}

/// An open transaction.
struct Open {
    /// Versions that it reads in strong spaces, and in others.
    snapshots: [u64; 2],
    /// Keys that it has read in strong spaces.
    reads: BTreeSet<Key>,
    writes: Vec<ObjectCall>,
    /// A space that it has used.
    space: Option<Arc<str>>,
}

impl MemorySession {
    fn begin(&mut self, begin: &Begin) -> Result<Vec<Fields>, StoreError> {
        self.close();
        let mut space = None;
        self.shared.enter(&mut space, begin.names.iter().map(|name| &name.space))?;
        let mut history = self.shared.history();
        let latest = history.version;
        let received = history.sites.get(self.site).copied().unwrap_or(latest);
        let weak = if begin.strong { latest } else { received.max(self.seen) };
        let (reads, writes) = (BTreeSet::new(), Vec::new());
        let open = Open { snapshots: [latest, weak], reads, writes, space };
        for version in open.snapshots {
            *history.snapshots.entry(version).or_default() += 1;
        }
        let names = begin.names.iter();
        let fields =
            names.map(|name| history.fields(name, open.snapshot(&self.shared, &name.space)));
        let fields = fields.collect();
        drop(history);
        self.seen = self.seen.max(weak);
        self.open = Some(open);
        Ok(fields)
    }

    /// Executes an operation, in the newest version instead of the snapshot if `newest`.
    fn perform(&mut self, call: &ObjectCall, newest: bool) -> Result<Answer, StoreError> {
        let level = self.shared.level(&call.space)?;
        let Some(open) = &mut self.open else {
            return Err(StoreError::Refused("no transaction is open".to_owned()));
        };
        self.shared.enter(&mut open.space, [&call.space])?;
        let mut history = self.shared.history();
        let key = Key::of(call);
        if matches!(level, Level::Eventual | Level::Quorum | Level::LocalQuorum) {
            if call.op.mutates() {
                cell::check(history.latest(&key), &[call])?;
                history.version += 1;
                history.change(key, |cell| cell::change(cell, call));
                return Ok(Answer {
                    value: Some(solera_program::value::Value::Unit),
                    ..Answer::default()
                });
            }
            let value = cell::read(history.latest(&key), call)?;
            return Ok(Answer { value, ..Answer::default() });
        }
        let snapshot = match newest {
            true => history.version,
            false => open.snapshot(&self.shared, &call.space),
        };
        let seen =
            call.look.as_ref().map(|name| history.fields(name, snapshot)).unwrap_or_default();
        let cell = history.at(&key, snapshot);
        let own: Vec<_> = open.writes.iter().filter(|write| Key::of(write) == key).collect();
        let value = if call.op.mutates() {
            if own.is_empty() {
                // An error depends on the content of the key, so it counts as a read.
                cell::check(cell, &[call]).inspect_err(|_| note(&mut open.reads, level, &key))?;
            }
            open.writes.push(call.clone());
            Some(solera_program::value::Value::Unit)
        } else {
            note(&mut open.reads, level, &key);
            if own.is_empty() {
                cell::read(cell, call)?
            } else {
                let mut cell = cell.cloned();
                own.into_iter().try_for_each(|write| cell::change(&mut cell, write))?;
                cell::read(cell.as_ref(), call)?
            }
        };
        Ok(Answer { value, seen })
    }

    fn commit(&mut self, names: &[NameWrite]) -> Result<(), StoreError> {
        let Some(mut open) = self.close() else {
            return Err(StoreError::Refused("no transaction is open".to_owned()));
        };
        let spaces = names.iter().map(|write| &write.name().space);
        self.shared.enter(&mut open.space, spaces)?;
        let mut history = self.shared.history();
        history.certify(&open)?;
        let changed = |key: &Key, since: u64| history.last_change(key) > since;
        // In spaces that merge, a commit since the snapshot is not visible and causes no conflict.
        let seen = |space: &str| match self.shared.level(space) {
            Ok(Level::Linearizable | Level::Por | Level::PcPsi) => u64::MAX,
            _ => open.snapshots[1],
        };
        for name in names {
            if let NameWrite::Set { name, field, new: true, .. } = name
                && let Some(Cell::Fields(fields)) = history.at(&Key::name(name), seen(&name.space))
                && fields.contains_key(field)
            {
                return Err(StoreError::Conflict);
            }
        }
        let mut by_key: BTreeMap<Key, Vec<&ObjectCall>> = BTreeMap::new();
        for call in &open.writes {
            by_key.entry(Key::of(call)).or_default().push(call);
        }
        for (key, calls) in &by_key {
            let exclusive = self.shared.level(&key.space)? == Level::PcPsi;
            if exclusive && changed(key, open.snapshots[1]) {
                return Err(StoreError::Conflict);
            }
            cell::check(history.latest(key), calls)?;
        }
        if by_key.is_empty() && names.is_empty() {
            return Ok(());
        }
        history.version += 1;
        for (key, calls) in by_key {
            history.change(key, |cell| calls.iter().try_for_each(|call| cell::change(cell, call)));
        }
        for write in names {
            history.write_name(write);
        }
        self.seen = history.version;
        Ok(())
    }

    fn certify(&mut self) -> Result<(), StoreError> {
        match self.close() {
            Some(open) => self.shared.history().certify(&open),
            None => Err(StoreError::Refused("no transaction is open".to_owned())),
        }
    }

    fn sees(&mut self, until_ms: u64) -> bool {
        let history = self.shared.history();
        let (known, mut version) = self.until.unwrap_or_default();
        if known < until_ms {
            version = history.version;
            self.until = Some((until_ms, version));
        }
        let received = history.sites.get(self.site).copied().unwrap_or(version);
        received.max(self.seen) >= version
    }

    /// Removes the open transaction, and releases its snapshots.
    fn close(&mut self) -> Option<Open> {
        let open = self.open.take()?;
        let mut history = self.shared.history();
        for version in open.snapshots {
            let readers = history.snapshots.get_mut(&version).expect("a snapshot is counted");
            *readers -= 1;
            if *readers == 0 {
                history.snapshots.remove(&version);
            }
        }
        Some(open)
    }

    fn list(&self, list: &List) -> Vec<Arc<str>> {
        let history = self.shared.history();
        let after = list.after.clone().max(list.prefix.clone());
        let from = Key { space: Arc::clone(&list.space), named: true, key: after };
        let names = history.data.range(from..).take_while(|(key, _)| {
            key.named && key.space == list.space && key.key.starts_with(&*list.prefix)
        });
        let held = names.filter(|(key, versions)| {
            key.key > list.after && versions.last().is_some_and(|(_, cell)| cell.is_some())
        });
        held.take(list.limit).map(|(key, _)| Arc::clone(&key.key)).collect()
    }
}

impl Drop for MemorySession {
    fn drop(&mut self) {
        self.close();
    }
}

impl Open {
    fn snapshot(&self, shared: &Shared, space: &str) -> u64 {
        let strong = matches!(shared.spaces.get(space), Some(Level::Linearizable | Level::Por));
        self.snapshots[usize::from(!strong)]
    }
}

/// Records that a key was read, if spaces of this level are certified.
fn note(reads: &mut BTreeSet<Key>, level: Level, key: &Key) {
    if matches!(level, Level::Linearizable | Level::Por) {
        reads.insert(key.clone());
    }
}

impl History {
    fn at(&self, key: &Key, version: u64) -> Option<&Cell> {
        let versions = self.data.get(key)?;
        let found = versions.iter().rev().find(|(of, _)| *of <= version)?;
        found.1.as_ref()
    }

    fn latest(&self, key: &Key) -> Option<&Cell> {
        self.at(key, u64::MAX)
    }

    fn last_change(&self, key: &Key) -> u64 {
        self.data.get(key).and_then(|versions| versions.last()).map_or(0, |(version, _)| *version)
    }

    /// Checks that the reads of a transaction in strong spaces are still current.
    fn certify(&self, open: &Open) -> Result<(), StoreError> {
        let changed = |key: &Key| self.last_change(key) > open.snapshots[0];
        if open.reads.iter().any(changed) { Err(StoreError::Conflict) } else { Ok(()) }
    }

    fn fields(&self, name: &Name, version: u64) -> Fields {
        match self.at(&Key::name(name), version) {
            Some(Cell::Fields(fields)) => fields.clone(),
            _ => Fields::new(),
        }
    }

    /// Returns the oldest version that may be read.
    fn floor(&self) -> u64 {
        let read = self.snapshots.keys().next().copied().unwrap_or(u64::MAX);
        self.sites.iter().copied().min().unwrap_or(u64::MAX).min(read)
    }

    /// Changes a key in the newest version. A version that no transaction reads is changed in
    /// place.
    fn change(
        &mut self,
        key: Key,
        change: impl FnOnce(&mut Option<Cell>) -> Result<(), StoreError>,
    ) {
        let (version, floor) = (self.version, self.floor());
        let versions = self.data.entry(key.clone()).or_default();
        let mut cell = match versions.last() {
            // Readers at the floor or after see this version or a later one.
            Some((last, _)) if *last == version || floor >= version => {
                versions.pop().and_then(|(_, cell)| cell)
            }
            Some((_, cell)) => cell.clone(),
            None => None,
        };
        change(&mut cell).expect("it was checked before");
        // No reader sees versions older than the one that the oldest reader sees.
        let seen = versions.iter().rposition(|(of, _)| *of <= floor).unwrap_or(0);
        versions.drain(..seen);
        let gone = cell.is_none();
        versions.push((version, cell));
        if gone {
            self.removed.push_back((version, key));
        }
        self.forget(floor);
    }

    /// Forgets removed keys of which no reader can see a version any more.
    fn forget(&mut self, floor: u64) {
        while let Some((version, key)) =
            self.removed.front().filter(|(version, _)| *version <= floor)
        {
            let last = self.data.get(key).and_then(|versions| versions.last());
            if last.is_some_and(|(of, cell)| of == version && cell.is_none()) {
                self.data.remove(key);
            }
            self.removed.pop_front();
        }
    }

    fn write_name(&mut self, write: &NameWrite) {
        let (name, field) = match write {
            NameWrite::Set { name, field, .. } | NameWrite::Remove { name, field } => (name, field),
        };
        let key = Key::name(name);
        if matches!(write, NameWrite::Remove { .. }) && self.latest(&key).is_none() {
            return;
        }
        self.change(key, |cell| {
            let mut fields = match cell.take() {
                Some(Cell::Fields(fields)) => fields,
                _ => Fields::new(),
            };
            match write {
                NameWrite::Set { value, .. } => fields.insert(*field, Arc::clone(value)),
                NameWrite::Remove { .. } => fields.remove(field),
            };
            *cell = (!fields.is_empty()).then_some(Cell::Fields(fields));
            Ok(())
        });
    }
}

impl Connection for MemorySession {
    fn begin<'a>(&'a mut self, begin: &'a Begin) -> BoxFuture<'a, Result<Vec<Fields>, StoreError>> {
        Box::pin(std::future::ready(MemorySession::begin(self, begin)))
    }

    fn perform<'a>(
        &'a mut self,
        call: &'a ObjectCall,
    ) -> BoxFuture<'a, Result<Answer, StoreError>> {
        Box::pin(std::future::ready(MemorySession::perform(self, call, false)))
    }

    fn custom<'a>(&'a mut self, call: &'a CustomCall) -> BoxFuture<'a, Result<Answer, StoreError>> {
        let answered = strong_size::calls(call).and_then(|(size, looks)| {
            let mut answer = MemorySession::perform(self, &size, true)?;
            for look in looks {
                answer.seen.extend(MemorySession::perform(self, &look, true)?.seen);
            }
            Ok(answer)
        });
        Box::pin(std::future::ready(answered))
    }

    fn commit<'a>(&'a mut self, writes: &'a [NameWrite]) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(std::future::ready(MemorySession::commit(self, writes)))
    }

    fn certify(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(std::future::ready(MemorySession::certify(self)))
    }

    fn abort(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.close();
        Box::pin(std::future::ready(Ok(())))
    }

    fn sees<'a>(&'a mut self, commits: &'a Commits) -> BoxFuture<'a, Result<bool, StoreError>> {
        let seen = MemorySession::sees(self, commits.until_ms);
        Box::pin(std::future::ready(Ok(seen)))
    }

    fn list<'a>(&'a mut self, list: &'a List) -> BoxFuture<'a, Result<Vec<Arc<str>>, StoreError>> {
        Box::pin(std::future::ready(Ok(MemorySession::list(self, list))))
    }

    fn horizon(&mut self) -> BoxFuture<'_, Result<Option<Horizon>, StoreError>> {
        let history = self.shared.history();
        let latest = history.version;
        let stable = history.sites.iter().copied().min().unwrap_or(latest);
        drop(history);
        Box::pin(std::future::ready(Ok(Some(Horizon { latest, stable }))))
    }
}

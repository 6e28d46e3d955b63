//! Logs of a partition's keys, and their size in bytes.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use hashbrown::hash_map::EntryRef;
use solera_data::Key;

use crate::op_log::OpLog;

/// Approximate size of data in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Current size.
    pub now: usize,
    /// Largest size since the last query.
    pub most: usize,
}

impl Held {
    /// Returns the sum of both. Their largest sizes may have occurred at different times, so the
    /// sum is an upper bound of the largest total.
    #[must_use]
    pub fn and(self, other: Held) -> Held {
        Held { now: self.now + other.now, most: self.most + other.most }
    }

    fn replace(&mut self, before: usize, after: usize) {
        self.now = self.now - before + after;
        self.most = self.most.max(self.now);
    }
}

/// Logs by key. Every change of a log goes through this type, so the total size is always known.
#[derive(Debug)]
pub(crate) struct Keys {
    logs: HashMap<Key, OpLog, FixedState>,
    held: Held,
}

impl Keys {
    pub(crate) fn new(seed: u64) -> Self {
        let logs = HashMap::with_hasher(FixedState::with_seed(seed));
        Keys { logs, held: Held::default() }
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&OpLog> {
        self.logs.get(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.logs.len()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &Key> {
        self.logs.keys()
    }

    /// Reserves space for `count` more keys.
    pub(crate) fn reserve(&mut self, count: usize) {
        self.logs.reserve(count);
    }

    /// Returns the entry of a key, which may be absent.
    pub(crate) fn at<'a, 'k>(&'a mut self, key: &'k [u8]) -> At<'a, 'k> {
        At { entry: self.logs.entry_ref(key), held: &mut self.held }
    }

    /// Changes the log of a key, if there is one.
    pub(crate) fn change<R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut OpLog) -> R,
    ) -> Option<R> {
        Some(change_log(self.logs.get_mut(key)?, &mut self.held, change))
    }

    /// Changes the log of a key, which is created if there is none.
    pub(crate) fn change_or_insert<R>(
        &mut self,
        key: &Key,
        new: impl FnOnce() -> OpLog,
        change: impl FnOnce(&mut OpLog) -> R,
    ) -> R {
        let held = &mut self.held;
        let log = self.logs.entry_ref(key).or_insert_with(|| inserted(new(), key, held));
        change_log(log, held, change)
    }

    pub(crate) fn insert(&mut self, key: Key, log: OpLog) {
        self.remove(&key);
        let log = inserted(log, &key, &mut self.held);
        self.logs.insert(key, log);
    }

    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<OpLog> {
        let log = self.logs.remove(key)?;
        self.held.replace(bytes_of(key, &log), 0);
        Some(log)
    }

    pub(crate) fn clear(&mut self) {
        self.logs.clear();
        self.held.now = 0;
    }

    /// Returns the current size of all logs, in constant time.
    pub(crate) fn bytes(&self) -> usize {
        self.held.now
    }

    /// Returns the size of all logs and resets the largest size.
    pub(crate) fn take_held(&mut self) -> Held {
        let held = self.held;
        self.held.most = held.now;
        held
    }

    /// Returns the number of versions and their current size. Visits all keys.
    pub(crate) fn versions_and_bytes(&self) -> (usize, usize) {
        self.logs.iter().fold((0, 0), |(versions, bytes), (key, log)| {
            (versions + log.versions(), bytes + bytes_of(key, log))
        })
    }
}

/// Entry of one key.
pub(crate) struct At<'a, 'k> {
    entry: EntryRef<'a, 'k, Key, [u8], OpLog, FixedState>,
    held: &'a mut Held,
}

impl At<'_, '_> {
    /// Returns the key and its log, if there is one.
    pub(crate) fn found(&self) -> Option<(&Key, &OpLog)> {
        match &self.entry {
            EntryRef::Occupied(entry) => Some((entry.key(), entry.get())),
            EntryRef::Vacant(_) => None,
        }
    }

    /// Changes the log, if there is one.
    pub(crate) fn change<R>(&mut self, change: impl FnOnce(&mut OpLog) -> R) -> Option<R> {
        match &mut self.entry {
            EntryRef::Occupied(entry) => Some(change_log(entry.get_mut(), self.held, change)),
            EntryRef::Vacant(_) => None,
        }
    }

    /// Changes the log, which is created if there is none.
    pub(crate) fn change_or_insert<R>(
        self,
        new: impl FnOnce() -> OpLog,
        change: impl FnOnce(&mut OpLog) -> R,
    ) -> R {
        let At { entry, held } = self;
        let log = match entry {
            EntryRef::Occupied(entry) => entry.into_mut(),
            EntryRef::Vacant(entry) => {
                let log = inserted(new(), entry.key(), held);
                entry.insert(log)
            }
        };
        change_log(log, held, change)
    }
}

fn bytes_of(key: &[u8], log: &OpLog) -> usize {
    key.len() + size_of::<(Key, OpLog)>() + log.bytes()
}

/// Counts a log that is about to be inserted.
fn inserted(log: OpLog, key: &[u8], held: &mut Held) -> OpLog {
    held.replace(0, bytes_of(key, &log));
    log
}

fn change_log<R>(log: &mut OpLog, held: &mut Held, change: impl FnOnce(&mut OpLog) -> R) -> R {
    let before = log.bytes();
    let result = change(log);
    held.replace(before, log.bytes());
    result
}

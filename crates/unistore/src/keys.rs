//! The logs of a partition's keys, and how many bytes they take.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use hashbrown::hash_map::EntryRef;
use solera_data::Key;

use crate::op_log::OpLog;

/// How much data there is, in approximate bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// At this moment.
    pub now: usize,
    /// At most since this was asked for the last time.
    pub most: usize,
}

impl Held {
    /// What both hold. Their greatest amounts need not have been at the same time: together there
    /// was no more than this.
    #[must_use]
    pub fn and(self, other: Held) -> Held {
        Held { now: self.now + other.now, most: self.most + other.most }
    }

    fn replace(&mut self, before: usize, after: usize) {
        self.now = self.now - before + after;
        self.most = self.most.max(self.now);
    }
}

/// The logs by key. Whatever changes one of them goes through here, so that it is known at any time
/// what all of them take.
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

    /// About so many more will be inserted.
    pub(crate) fn reserve(&mut self, count: usize) {
        self.logs.reserve(count);
    }

    /// Where a key is or would be.
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

    /// Changes the log of a key, which may be a new one.
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

    /// What all logs take now. Cheap.
    pub(crate) fn bytes(&self) -> usize {
        self.held.now
    }

    /// What all logs take. From now on the most is counted anew.
    pub(crate) fn take_held(&mut self) -> Held {
        let held = self.held;
        self.held.most = held.now;
        held
    }

    /// How many versions there are, and what they take now. Walks all keys.
    pub(crate) fn versions_and_bytes(&self) -> (usize, usize) {
        self.logs.iter().fold((0, 0), |(versions, bytes), (key, log)| {
            (versions + log.versions(), bytes + bytes_of(key, log))
        })
    }
}

/// The place of one key.
pub(crate) struct At<'a, 'k> {
    entry: EntryRef<'a, 'k, Key, [u8], OpLog, FixedState>,
    held: &'a mut Held,
}

impl At<'_, '_> {
    /// The key and its log, if there is one.
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

    /// Changes the log, which may be a new one.
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

/// A log that is about to be inserted.
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

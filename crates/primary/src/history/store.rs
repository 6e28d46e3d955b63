//! The values and the last updates of a partition, and the number of bytes that they take.

use std::collections::{BTreeMap, VecDeque};

use solera_data::{Key, Value};

use super::Entry;
use crate::command::Update;

/// Approximate size of a value in a tree, without the bytes of the key and of the value.
const VALUE_BYTES: usize = size_of::<Key>() + size_of::<Held>() + 16;

/// Approximate limit of the log's size in bytes; the log always keeps one entry. Replicas that lack
/// earlier entries are sent values.
const LOG_BYTES: usize = 4 << 20;

/// A value, and the index of the last update of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) value: Value,
    pub(crate) at: u64,
}

/// Approximate size of the data, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Bytes {
    now: usize,
    /// Greatest size since the last call of [`Store::take_held`].
    most: usize,
}

impl Bytes {
    fn add(&mut self, bytes: usize) {
        self.now += bytes;
        self.most = self.most.max(self.now);
    }

    fn remove(&mut self, bytes: usize) {
        self.now = self.now.checked_sub(bytes).expect("what goes away has been counted");
    }
}

/// Data of a partition. All changes go through this type, so that the size is known at any time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Store {
    values: BTreeMap<Key, Held>,
    /// The last updates.
    log: VecDeque<Entry>,
    log_bytes: usize,
    /// Size of values and log.
    bytes: Bytes,
}

impl Store {
    pub(crate) fn values(&self) -> &BTreeMap<Key, Held> {
        &self.values
    }

    pub(crate) fn log(&self) -> &VecDeque<Entry> {
        &self.log
    }

    pub(crate) fn insert(&mut self, key: Key, held: Held) {
        self.bytes.add(value_bytes(&key, &held));
        let length = key.len();
        if let Some(before) = self.values.insert(key, held) {
            self.bytes.remove(VALUE_BYTES + length + before.value.len());
        }
    }

    pub(crate) fn remove(&mut self, key: &Key) {
        if let Some(before) = self.values.remove(key) {
            self.bytes.remove(value_bytes(key, &before));
        }
    }

    /// Removes the values whose last update has at most this index.
    pub(crate) fn remove_until(&mut self, index: u64) {
        let bytes = &mut self.bytes;
        self.values.retain(|key, held| {
            let stays = held.at > index;
            if !stays {
                bytes.remove(value_bytes(key, held));
            }
            stays
        });
    }

    /// Appends to the log, which keeps at most `limit` entries.
    pub(crate) fn push(&mut self, entry: Entry, limit: usize) {
        let bytes = entry_bytes(&entry);
        self.bytes.add(bytes);
        self.log_bytes += bytes;
        self.log.push_back(entry);
        while self.log.len() > limit || (self.log_bytes > LOG_BYTES && self.log.len() > 1) {
            let Some(first) = self.log.pop_front() else { return };
            let bytes = entry_bytes(&first);
            self.bytes.remove(bytes);
            self.log_bytes -= bytes;
        }
    }

    pub(crate) fn replace_log(&mut self, log: VecDeque<Entry>) {
        self.log = log;
        let bytes = self.log.iter().map(entry_bytes).sum();
        let before = std::mem::replace(&mut self.log_bytes, bytes);
        self.bytes.add(bytes);
        self.bytes.remove(before);
    }

    /// Returns the present size, and the largest size since the last call.
    pub(crate) fn take_held(&mut self) -> (usize, usize) {
        let Bytes { now, most } = self.bytes;
        self.bytes.most = now;
        (now, most)
    }
}

fn value_bytes(key: &Key, held: &Held) -> usize {
    VALUE_BYTES + key.len() + held.value.len()
}

fn entry_bytes(entry: &Entry) -> usize {
    let value = match &entry.update {
        Update::Set(value) | Update::Append(value) => value.len(),
        Update::IncrBy(_) | Update::Delete => 0,
    };
    size_of::<Entry>() + entry.key.len() + value
}

#[cfg(test)]
mod tests {
    use solera_machine::Address;
    use solera_time::SiteId;

    use super::*;

    /// Computes the size from the contents.
    fn recount(store: &Store) -> usize {
        let values: usize = store.values.iter().map(|(key, held)| value_bytes(key, held)).sum();
        values + store.log.iter().map(entry_bytes).sum::<usize>()
    }

    fn entry(length: usize) -> Entry {
        let origin = Address { site: SiteId(0), worker: 0 };
        let update = Update::Append(Value::from(&vec![b'x'; length][..]));
        Entry { origin, number: 1, oldest: 1, key: Key::from(&b"key"[..]), update }
    }

    #[test]
    fn bytes_are_counted_with_every_change() {
        let mut store = Store::default();
        let held = |length: usize, at| Held { value: Value::from(&vec![b'v'; length][..]), at };
        let key = |name: &str| Key::from(name.as_bytes());
        let changes: [&dyn Fn(&mut Store); 9] = [
            &|store| store.insert(key("a"), held(100, 1)),
            &|store| store.insert(key("a"), held(7, 2)),
            &|store| store.insert(key("long key"), held(50, 3)),
            &|store| store.push(entry(1000), 2),
            &|store| (0..4).for_each(|length| store.push(entry(length), 2)),
            &|store| (0..3).for_each(|_| store.push(entry(LOG_BYTES), 9)),
            &|store| store.remove(&key("none")),
            &|store| store.remove_until(2),
            &|store| store.replace_log([entry(5)].into()),
        ];
        for (place, change) in changes.iter().enumerate() {
            change(&mut store);
            assert_eq!(store.bytes.now, recount(&store), "change {place}");
            assert!(store.log.len() == 1 || store.log_bytes <= LOG_BYTES);
        }
        let (now, most) = store.take_held();
        assert!(now < most, "{now} {most}");
        assert_eq!(store.take_held(), (now, now));
        store.remove(&key("long key"));
        store.replace_log(VecDeque::new());
        assert_eq!(store.take_held(), (0, now));
    }
}

//! One partition: its values and its history, without communication.

mod store;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use solera_data::{Key, Value};
use solera_machine::{Address, PartitionId};

pub(crate) use self::store::Held;
use self::store::Store;
use crate::command::{Failure, Update};
use crate::position::Position;

/// Number of epochs that a partition remembers. Positions before the oldest of them count as not
/// lost.
const EPOCHS: usize = 16;

/// The updates that one home has ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epoch {
    /// The number grows with each home, including homes whose epoch no other site has received.
    pub number: u64,
    /// The epoch begins after this index.
    pub after: u64,
}

/// An update in a partition's history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The worker whose client sent it.
    pub origin: Address,
    /// Number of the update, unique at its origin.
    pub number: u64,
    /// The smallest number of an update for which the origin still waits.
    pub oldest: u64,
    /// The key.
    pub key: Key,
    /// The change.
    pub update: Update,
}

/// The updates of one origin in a partition's history that the origin may send again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Smaller numbers are finished.
    pub oldest: u64,
    /// Numbers from `oldest` on that are in the history, with their index.
    pub numbers: BTreeMap<u64, u64>,
}

/// Whether a replica has the update at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Has {
    Yes,
    NotYet,
    /// Another update has this position permanently.
    Lost,
}

/// A partition's values and the end of its history.
#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) id: PartitionId,
    /// The values, and the last updates up to `applied`.
    pub(crate) store: Store,
    /// Number of updates that have been applied.
    pub(crate) applied: u64,
    pub(crate) seen: BTreeMap<Address, Seen>,
    /// The last epochs, in order; never empty.
    pub(crate) epochs: Vec<Epoch>,
    log_limit: usize,
}

impl History {
    pub(crate) fn new(id: PartitionId, log_limit: usize) -> History {
        History {
            id,
            store: Store::default(),
            applied: 0,
            seen: BTreeMap::new(),
            epochs: vec![Epoch { number: 0, after: 0 }],
            log_limit,
        }
    }

    pub(crate) fn log_limit(&self) -> usize {
        self.log_limit
    }

    pub(crate) fn position(&self) -> Position {
        Position { epoch: self.epoch_at(self.applied), index: self.applied }
    }

    /// Returns the position of an origin's update in the history, if it is known.
    pub(crate) fn find(&self, origin: Address, number: u64) -> Option<Position> {
        let index = *self.seen.get(&origin)?.numbers.get(&number)?;
        Some(Position { epoch: self.epoch_at(index), index })
    }

    /// Returns whether the origin no longer waits for an update.
    pub(crate) fn is_over(&self, origin: Address, number: u64) -> bool {
        self.seen.get(&origin).is_some_and(|seen| number < seen.oldest)
    }

    /// Returns the value of the key after `update`.
    pub(crate) fn preview(&self, key: &Key, update: &Update) -> Result<Option<Value>, Failure> {
        update.apply(self.store.values().get(key).map(|held| &held.value))
    }

    /// Appends an entry, which the home has checked. Returns the update's
    /// [`Done::number`](crate::Done::number).
    pub(crate) fn apply(&mut self, entry: Entry) -> Option<i64> {
        self.applied += 1;
        let number = self.change_value(self.applied, &entry);
        let seen = self.seen.entry(entry.origin).or_default();
        seen.numbers.insert(entry.number, self.applied);
        if entry.oldest > seen.oldest {
            seen.oldest = entry.oldest;
            seen.numbers = seen.numbers.split_off(&entry.oldest);
        }
        self.store.push(entry, self.log_limit);
        number
    }

    /// Applies the entry at `index` to its key, unless the value includes it already. Returns the
    /// update's number.
    pub(crate) fn change_value(&mut self, index: u64, entry: &Entry) -> Option<i64> {
        let held = self.store.values().get(&entry.key);
        if held.is_some_and(|held| held.at >= index) {
            return None;
        }
        let before = held.map(|held| &held.value);
        // The home orders no update that fails, and all replicas apply the same updates to the same
        // values.
        let value = entry.update.apply(before).ok()?;
        let number = entry.update.number(before, value.as_ref());
        match value {
            Some(value) => self.store.insert(entry.key.clone(), Held { value, at: index }),
            None => self.store.remove(&entry.key),
        }
        number
    }

    /// Returns at most `count` entries after an index, or `None` if the log no longer has them.
    pub(crate) fn since(&self, after: u64, count: usize) -> Option<Vec<Entry>> {
        let log = self.store.log();
        let first = self.applied - log.len() as u64;
        let skip = after.checked_sub(first)?;
        Some(log.iter().skip(skip as usize).take(count).cloned().collect())
    }

    /// Returns whether the history contains the update at a position, may still receive it, or has
    /// lost it.
    pub(crate) fn has(&self, position: Position) -> Has {
        let replaced = self
            .epochs
            .iter()
            .any(|epoch| epoch.number > position.epoch && epoch.after < position.index);
        match replaced {
            true => Has::Lost,
            // A replica has no updates of an epoch whose start it does not know yet.
            false if position.epoch > self.last_epoch() => Has::NotYet,
            false if position.index <= self.applied => Has::Yes,
            false => Has::NotYet,
        }
    }

    /// Begins the next epoch, with at least this number.
    pub(crate) fn begin_epoch(&mut self, least: u64) {
        let number = least.max(self.last_epoch() + 1);
        self.learn_epochs(&[Epoch { number, after: self.applied }]);
    }

    /// Adds the epochs that another replica knows.
    pub(crate) fn learn_epochs(&mut self, epochs: &[Epoch]) {
        for epoch in epochs {
            if epoch.number > self.last_epoch() {
                self.epochs.push(*epoch);
            }
        }
        let excess = self.epochs.len().saturating_sub(EPOCHS);
        self.epochs.drain(..excess);
    }

    fn last_epoch(&self) -> u64 {
        self.epochs.last().map_or(0, |epoch| epoch.number)
    }

    fn epoch_at(&self, index: u64) -> u64 {
        let began = self.epochs.iter().rev().find(|epoch| epoch.after < index);
        began.or(self.epochs.first()).map_or(0, |epoch| epoch.number)
    }

    /// Returns the keys whose last update comes after an index. Includes keys without a value as
    /// long as the log contains their removal.
    pub(crate) fn changed_since(&self, index: u64) -> BTreeSet<&Key> {
        let (values, log) = (self.store.values(), self.store.log());
        let changed = values.iter().filter(|(_, held)| held.at > index).map(|(key, _)| key);
        let first = self.applied - log.len() as u64;
        let logged = (first + 1..).zip(log).filter(|(at, _)| *at > index);
        changed.chain(logged.map(|(_, entry)| &entry.key)).collect()
    }
}

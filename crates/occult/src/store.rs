//! The versions of keys at one worker, shown and hidden.

use std::collections::BTreeMap;

use solera_data::{Context, Dot, Effect, Key, Op, OpError, Outcome, State, View, execute};
use solera_time::{SiteId, Timestamp, Vector};

use crate::message::{Copied, Entry};
use crate::shard::{ShardId, Stamp};
use crate::timestamp::{CausalTimestamp, Scheme};

/// A version of a key.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) state: State,
    pub(crate) dependencies: CausalTimestamp,
    pub(crate) stamp: Stamp,
}

/// A committed write that is not shown yet.
#[derive(Clone, Debug)]
struct Hidden {
    stamp: Stamp,
    effect: Effect,
    dependencies: CausalTimestamp,
}

/// The keys of a worker's shards. A deleted key keeps its version, because readers depend on the
/// deletion.
#[derive(Debug)]
pub(crate) struct Store {
    scheme: Scheme,
    versions: BTreeMap<Key, Version>,
    /// Hidden writes of each key, by ascending stamps.
    hidden: BTreeMap<Key, Vec<Hidden>>,
    /// Keys of hidden writes, by shard and stamp.
    queue: BTreeMap<ShardId, BTreeMap<Stamp, Vec<Key>>>,
}

/// Outcome and effect of an operation, or its error.
pub(crate) type Executed = Result<(Outcome, Option<Effect>), OpError>;

impl Version {
    fn apply(&mut self, effect: &Effect, stamp: Stamp) {
        let dot = Dot::of(SiteId(0), Timestamp(stamp.0));
        // Writes of a key are totally ordered, so each one has observed all that precede it.
        let observed = Vector::zero(1).with(SiteId(0), dot.ts.just_below());
        self.state.apply(effect, Context { dot, observed: &observed });
        self.state.settle(effect, dot);
        self.stamp = stamp;
    }
}

impl Store {
    pub(crate) fn new(scheme: Scheme) -> Store {
        let (versions, hidden, queue) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Store { scheme, versions, hidden, queue }
    }

    /// Returns the number of writes that are committed but not shown yet.
    pub(crate) fn hidden(&self) -> usize {
        self.hidden.values().map(Vec::len).sum()
    }

    fn absent(&self) -> Version {
        let dependencies = CausalTimestamp::new(self.scheme);
        Version { state: State::new(), dependencies, stamp: Stamp::ZERO }
    }

    /// Executes an operation on the shown version. Also returns the version's timestamp.
    pub(crate) fn read(
        &self,
        key: &Key,
        op: &Op,
        own: Option<&Effect>,
    ) -> (Executed, CausalTimestamp) {
        match self.versions.get(key) {
            Some(found) => {
                let view = View::new(&found.state).own(own);
                (execute(op, &view), found.dependencies.clone())
            }
            None => {
                let absent = State::new();
                let view = View::new(&absent).own(own);
                (execute(op, &view), CausalTimestamp::new(self.scheme))
            }
        }
    }

    /// Returns the timestamp of the latest committed version of a key, shown or not.
    pub(crate) fn dependencies(&self, key: &Key) -> Option<&CausalTimestamp> {
        match self.hidden.get(key).and_then(|hidden| hidden.last()) {
            Some(hidden) => Some(&hidden.dependencies),
            None => self.versions.get(key).map(|version| &version.dependencies),
        }
    }

    /// Returns the latest committed version of a key, shown or not.
    pub(crate) fn latest(&self, key: &Key) -> Version {
        let mut version = self.versions.get(key).cloned().unwrap_or_else(|| self.absent());
        for hidden in self.hidden.get(key).into_iter().flatten() {
            version.apply(&hidden.effect, hidden.stamp);
            version.dependencies = hidden.dependencies.clone();
        }
        version
    }

    /// Adds a committed write, which is not shown yet.
    pub(crate) fn hide(
        &mut self,
        shard: ShardId,
        stamp: Stamp,
        (key, effect): (Key, Effect),
        dependencies: CausalTimestamp,
    ) {
        let hidden = self.hidden.entry(key.clone()).or_default();
        assert!(hidden.last().is_none_or(|last| last.stamp < stamp), "locks order writes of a key");
        hidden.push(Hidden { stamp, effect, dependencies });
        self.queue.entry(shard).or_default().entry(stamp).or_default().push(key);
    }

    /// Shows the hidden writes of a shard whose stamps are below `before`, and returns them in the
    /// order of their stamps. Writes with equal stamps are shown together, because a shardstamp
    /// identifies one state of the shard.
    pub(crate) fn show(&mut self, shard: ShardId, before: Stamp) -> Vec<Entry> {
        let mut entries = Vec::new();
        let Some(queue) = self.queue.get_mut(&shard) else { return entries };
        let rest = queue.split_off(&before);
        let due = std::mem::replace(queue, rest);
        if queue.is_empty() {
            self.queue.remove(&shard);
        }
        for (stamp, keys) in due {
            let writes = keys.into_iter().map(|key| self.take_hidden(key)).collect();
            let entry = Entry { shard, stamp, writes };
            self.apply(&entry);
            entries.push(entry);
        }
        entries
    }

    fn take_hidden(&mut self, key: Key) -> (Key, Effect, CausalTimestamp) {
        let hidden = self.hidden.get_mut(&key).expect("a queued key has hidden writes");
        let first = hidden.remove(0);
        if hidden.is_empty() {
            self.hidden.remove(&key);
        }
        (key, first.effect, first.dependencies)
    }

    /// Applies a group of writes. Writes that have been applied before have no effect.
    pub(crate) fn apply(&mut self, entry: &Entry) {
        for (key, effect, dependencies) in &entry.writes {
            let absent = self.absent();
            let version = self.versions.entry(key.clone()).or_insert(absent);
            if version.stamp < entry.stamp {
                version.apply(effect, entry.stamp);
                version.dependencies = dependencies.clone();
            }
        }
    }

    /// Takes a copy of a version, unless the version here is newer.
    pub(crate) fn copy(&mut self, copied: Copied) {
        let Copied { key, state, dependencies, stamp } = copied;
        let version = Version { state, dependencies, stamp };
        let known = self.versions.get(&key).map_or(Stamp::ZERO, |known| known.stamp);
        if known < stamp {
            self.versions.insert(key, version);
        }
    }

    /// Returns copies of the shown versions above a stamp.
    pub(crate) fn copies(&self, above: Stamp) -> Vec<Copied> {
        let newer = self.versions.iter().filter(|(_, version)| version.stamp > above);
        let copied = newer.map(|(key, version)| Copied {
            key: key.clone(),
            state: version.state.clone(),
            dependencies: version.dependencies.clone(),
            stamp: version.stamp,
        });
        copied.collect()
    }
}

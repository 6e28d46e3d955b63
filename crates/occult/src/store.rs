//! The versions of keys at one worker, shown and hidden.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Range};

use solera_data::{Effect, Key, Op, OpError, Outcome, State, View, execute};

use crate::message::{Copied, Entry, Takeover};
use crate::shard::{Homes, ShardId, Stamp};
use crate::snapshot::Snapshots;
use crate::timestamp::{CausalTimestamp, Scheme};
use crate::version::{Dependencies, Version};

/// Approximate overhead of a key in bytes.
const KEY_BYTES: usize = size_of::<(Key, Version)>();
/// Approximate number of bytes of values after which a group of copies ends.
const GROUP_BYTES: usize = 64 << 10;

/// A committed write that is not shown yet.
#[derive(Clone, Debug)]
struct Hidden {
    stamp: Stamp,
    effect: Effect,
    dependencies: Dependencies,
}

/// Function that removes from a timestamp what no reader can miss any more. Its second argument is
/// whether the key is deleted.
pub(crate) type Forget<'a> = &'a dyn Fn(&mut CausalTimestamp, bool);

/// The keys of a worker's shards. A deleted key keeps its version for as long as readers depend on
/// the deletion.
#[derive(Debug)]
pub(crate) struct Store {
    scheme: Scheme,
    shards: BTreeMap<ShardId, BTreeMap<Key, Version>>,
    /// Hidden writes of each key, by ascending stamps.
    hidden: BTreeMap<Key, Vec<Hidden>>,
    /// Keys of hidden writes, by shard and stamp.
    queue: BTreeMap<ShardId, BTreeMap<Stamp, Vec<Key>>>,
    /// Number of keys with a value.
    keys: usize,
    /// Approximate size of the versions in bytes: now, and its maximum since the last query.
    held: (usize, usize),
    /// For shards that have moved: the number of the last move after which the data here is
    /// complete.
    taken: BTreeMap<ShardId, u64>,
    /// For shards whose data here is not complete after their last move: the move's number.
    missing: BTreeMap<ShardId, u64>,
    /// Key after which the removal of old timestamps continues.
    sweep_after: Option<(ShardId, Key)>,
    /// Versions that are kept for readers of all keys.
    pub(crate) snapshots: Snapshots,
}

/// Outcome and effect of an operation, or its error.
pub(crate) type Executed = Result<(Outcome, Option<Effect>), OpError>;

impl Store {
    pub(crate) fn new(scheme: Scheme) -> Store {
        Store {
            scheme,
            shards: BTreeMap::new(),
            hidden: BTreeMap::new(),
            queue: BTreeMap::new(),
            keys: 0,
            held: (0, 0),
            taken: BTreeMap::new(),
            missing: BTreeMap::new(),
            sweep_after: None,
            snapshots: Snapshots::default(),
        }
    }

    /// Returns the number of writes that are committed but not shown yet.
    pub(crate) fn hidden(&self) -> usize {
        self.hidden.values().map(Vec::len).sum()
    }

    /// Returns the number of keys with a value.
    pub(crate) fn keys(&self) -> usize {
        self.keys
    }

    /// Returns the approximate size of the data in bytes, and the largest size since the last call.
    pub(crate) fn take_held(&mut self) -> (usize, usize) {
        let (held, kept) = (self.held, self.snapshots.bytes());
        self.held.1 = self.held.0;
        (held.0 + kept, held.1 + kept)
    }

    /// Returns the keys of all versions.
    pub(crate) fn each_key(&self) -> impl Iterator<Item = &Key> {
        self.shards.values().flat_map(BTreeMap::keys)
    }

    pub(crate) fn version(&self, shard: ShardId, key: &Key) -> Option<&Version> {
        self.shards.get(&shard)?.get(key)
    }

    /// Changes or creates the version of a key, and counts the change.
    fn change(&mut self, shard: ShardId, key: &Key, change: impl FnOnce(&mut Version)) {
        let versions = self.shards.entry(shard).or_default();
        let (mut before, mut had) = (0, 0);
        let version = match versions.get_mut(key) {
            Some(version) => {
                before = version.bytes() + key.len() + KEY_BYTES;
                had = usize::from(!version.state.is_empty());
                version
            }
            None => versions.entry(key.clone()).or_insert_with(Version::absent),
        };
        change(version);
        let after = version.bytes() + key.len() + KEY_BYTES;
        self.keys = self.keys - had + usize::from(!version.state.is_empty());
        self.held.0 = self.held.0 - before + after;
        self.held.1 = self.held.1.max(self.held.0);
    }

    /// Executes an operation on the shown version. Also returns the version's timestamp.
    pub(crate) fn read(
        &self,
        shard: ShardId,
        key: &Key,
        op: &Op,
        own: Option<&Effect>,
    ) -> (Executed, CausalTimestamp) {
        match self.version(shard, key) {
            Some(found) => {
                let view = View::new(&found.state).own(own);
                (execute(op, &view), found.dependencies.timestamp(self.scheme))
            }
            None => {
                let absent = State::new();
                let view = View::new(&absent).own(own);
                (execute(op, &view), CausalTimestamp::new(self.scheme))
            }
        }
    }

    /// Returns the timestamp of the latest committed version of a key, shown or not.
    pub(crate) fn dependencies(&self, shard: ShardId, key: &Key) -> Option<CausalTimestamp> {
        let found = match self.hidden.get(key).and_then(|hidden| hidden.last()) {
            Some(hidden) => &hidden.dependencies,
            None => &self.version(shard, key)?.dependencies,
        };
        (!found.is_empty()).then(|| found.timestamp(self.scheme))
    }

    /// Returns the state of the latest committed version of a key, shown or not, and its timestamp.
    pub(crate) fn latest(&self, shard: ShardId, key: &Key) -> (State, CausalTimestamp) {
        let mut version = self.version(shard, key).cloned().unwrap_or_else(Version::absent);
        for hidden in self.hidden.get(key).into_iter().flatten() {
            version.apply(&hidden.effect, hidden.stamp, hidden.dependencies.clone());
        }
        let dependencies = version.dependencies.timestamp(self.scheme);
        (version.state, dependencies)
    }

    /// Adds a committed write, which is not shown yet. Has no effect if the write was added before,
    /// which happens only at recovery.
    pub(crate) fn hide(
        &mut self,
        shard: ShardId,
        stamp: Stamp,
        (key, effect): (Key, Effect),
        dependencies: &CausalTimestamp,
    ) {
        if self.version(shard, &key).is_some_and(|version| version.stamp >= stamp) {
            return;
        }
        let hidden = self.hidden.entry(key.clone()).or_default();
        let place = hidden.partition_point(|write| write.stamp < stamp);
        if hidden.get(place).is_some_and(|write| write.stamp == stamp) {
            return;
        }
        let dependencies = Dependencies::of(dependencies);
        hidden.insert(place, Hidden { stamp, effect, dependencies });
        self.queue.entry(shard).or_default().entry(stamp).or_default().push(key);
    }

    /// Returns the hidden writes, for a checkpoint.
    pub(crate) fn all_hidden(&self) -> Vec<(ShardId, Stamp, Key, Effect, CausalTimestamp)> {
        let mut all = Vec::new();
        for (shard, queue) in &self.queue {
            for (stamp, keys) in queue {
                for key in keys {
                    let hidden = self.hidden.get(key).into_iter().flatten();
                    for write in hidden.filter(|write| write.stamp == *stamp) {
                        let dependencies = write.dependencies.timestamp(self.scheme);
                        let effect = write.effect.clone();
                        all.push((*shard, *stamp, key.clone(), effect, dependencies));
                    }
                }
            }
        }
        all
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
            let entry = Entry { shard, stamp, writes, decided: Vec::new(), takeover: None };
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
        (key, first.effect, first.dependencies.timestamp(self.scheme))
    }

    /// Drops the hidden writes of a shard, which are lost.
    pub(crate) fn drop_hidden(&mut self, shard: ShardId) {
        for key in self.queue.remove(&shard).into_iter().flatten().flat_map(|(_, keys)| keys) {
            self.hidden.remove(&key);
        }
    }

    /// Returns whether the data of a shard here is complete after the shard's last move.
    pub(crate) fn is_current(&self, shard: ShardId, homes: &Homes) -> bool {
        let moved = homes.moved_by(shard);
        moved == 0 || self.taken_by(shard) >= moved
    }

    /// Returns the number of the last move after which the data of a shard here is complete.
    pub(crate) fn taken_by(&self, shard: ShardId) -> u64 {
        self.taken.get(&shard).copied().unwrap_or_default()
    }

    /// Returns the shards whose data was taken over, and the number of each move.
    pub(crate) fn taken(&self) -> impl Iterator<Item = (ShardId, u64)> + '_ {
        self.taken.iter().map(|(shard, number)| (*shard, *number))
    }

    /// Notes that the data of a shard is complete after a move.
    pub(crate) fn note_taken(&mut self, shard: ShardId, number: u64) {
        let known = self.taken.entry(shard).or_default();
        *known = number.max(*known);
        if self.missing.get(&shard).is_some_and(|missing| *missing <= *known) {
            self.missing.remove(&shard);
        }
    }

    /// Notes that a shard moves. Its data here is complete again when
    /// [`note_taken`](Self::note_taken) has this number.
    pub(crate) fn note_moved(&mut self, shard: ShardId, number: u64) {
        if self.taken_by(shard) < number {
            self.missing.insert(shard, number);
        }
    }

    /// Returns the shards whose data here is not complete after their last move.
    pub(crate) fn missing(&self) -> impl Iterator<Item = ShardId> + '_ {
        self.missing.keys().copied()
    }

    /// Returns whether writes of the shard are hidden.
    pub(crate) fn hides(&self, shard: ShardId) -> bool {
        self.queue.contains_key(&shard)
    }

    /// Returns whether writes of the shard with this stamp are hidden.
    pub(crate) fn hides_at(&self, shard: ShardId, stamp: Stamp) -> bool {
        self.queue.get(&shard).is_some_and(|hidden| hidden.contains_key(&stamp))
    }

    /// Returns the greatest stamp of a shard's versions.
    pub(crate) fn greatest(&self, shard: ShardId) -> Stamp {
        let versions = self.shards.get(&shard).into_iter().flat_map(BTreeMap::values);
        versions.map(|version| version.stamp).max().unwrap_or_default()
    }

    /// Drops the versions of a shard above a stamp, because they were lost with a former home.
    fn drop_above(&mut self, shard: ShardId, last: Stamp) {
        let Some(versions) = self.shards.get_mut(&shard) else { return };
        let (mut bytes, mut keys) = (0, 0);
        let snapshots = &mut self.snapshots;
        versions.retain(|key, version| {
            let stays = version.stamp <= last;
            if !stays {
                snapshots.keep(shard, key, Some(version));
                bytes += version.bytes() + key.len() + KEY_BYTES;
                keys += usize::from(!version.state.is_empty());
            }
            stays
        });
        self.held.0 -= bytes;
        self.keys -= keys;
    }

    /// Drops the versions of a shard that were lost in forced moves since the data here was
    /// written.
    pub(crate) fn drop_lost(&mut self, shard: ShardId, losses: &[(u64, Stamp)]) {
        let taken = self.taken_by(shard);
        let unknown = losses.iter().filter(|(number, _)| *number > taken);
        if let Some(last) = unknown.map(|(_, last)| *last).min() {
            self.drop_above(shard, last);
        }
    }

    /// Takes a part of the data that a shard's new home has taken over.
    fn take_over(&mut self, shard: ShardId, takeover: &Takeover) {
        if self.taken.get(&shard).is_some_and(|taken| *taken >= takeover.number) {
            return;
        }
        self.drop_lost(shard, &takeover.losses);
        for copied in &takeover.copies {
            self.copy(shard, copied.clone());
        }
        if takeover.done {
            self.note_taken(shard, takeover.number);
        }
    }

    /// Applies a group of writes. Writes that have been applied before have no effect.
    pub(crate) fn apply(&mut self, entry: &Entry) {
        if let Some(takeover) = &entry.takeover {
            self.take_over(entry.shard, takeover);
        }
        for (key, effect, dependencies) in &entry.writes {
            let known = self.version(entry.shard, key).map_or(Stamp::ZERO, |known| known.stamp);
            if known < entry.stamp {
                self.keep_old(entry.shard, key, dependencies);
                let dependencies = Dependencies::of(dependencies);
                let apply =
                    |version: &mut Version| version.apply(effect, entry.stamp, dependencies);
                self.change(entry.shard, key, apply);
            }
        }
    }

    /// Keeps a key's version for open snapshots before a version with this timestamp replaces it.
    fn keep_old(&mut self, shard: ShardId, key: &Key, timestamp: &CausalTimestamp) {
        self.snapshots.note_peaks(timestamp.peaks());
        let version = self.shards.get(&shard).and_then(|versions| versions.get(key));
        self.snapshots.keep(shard, key, version);
    }

    /// Returns the first `most` keys after a key in the order of shards and keys.
    pub(crate) fn keys_after(
        &self,
        after: Option<&(ShardId, Key)>,
        shards: Range<ShardId>,
        most: usize,
    ) -> BTreeSet<(ShardId, Key)> {
        let first = after.map_or(shards.start, |(shard, _)| *shard).min(shards.end);
        let shards = self.shards.range(first..shards.end);
        let keys = shards.flat_map(|(shard, versions)| {
            let from = match after {
                Some((last, key)) if last == shard => Bound::Excluded(key),
                _ => Bound::Unbounded,
            };
            versions.range::<Key, _>((from, Bound::Unbounded)).map(|(key, _)| (*shard, key.clone()))
        });
        keys.take(most).collect()
    }

    /// Takes a copy of a version, unless the version here is newer.
    pub(crate) fn copy(&mut self, shard: ShardId, copied: Copied) {
        let Copied { key, state, dependencies, stamp } = copied;
        let known = self.version(shard, &key).map_or(Stamp::ZERO, |known| known.stamp);
        if known < stamp {
            self.snapshots.drop_beginning();
            self.keep_old(shard, &key, &dependencies);
            let dependencies = Dependencies::of(&dependencies);
            let version = Version { state, dependencies, stamp };
            self.change(shard, &key, |known| *known = version);
        }
    }

    /// Returns copies of versions in the order of shards and keys: those after `after`, of shards
    /// that `of` accepts, with stamps above `above`. Returns at most `keys` versions, fewer if they
    /// are large, and whether they are the last ones.
    pub(crate) fn copies(
        &self,
        after: Option<&(ShardId, Key)>,
        of: impl Fn(ShardId) -> bool,
        above: Stamp,
        keys: usize,
    ) -> (Vec<Copied>, bool) {
        let (mut copies, mut bytes) = (Vec::new(), 0);
        let first = after.map_or(ShardId(0), |(shard, _)| *shard);
        for (shard, versions) in self.shards.range(first..).filter(|(shard, _)| of(**shard)) {
            let from = match after {
                Some((last, key)) if last == shard => Bound::Excluded(key),
                _ => Bound::Unbounded,
            };
            for (key, version) in versions.range::<Key, _>((from, Bound::Unbounded)) {
                if version.stamp <= above {
                    continue;
                }
                if copies.len() >= keys || bytes >= GROUP_BYTES {
                    return (copies, false);
                }
                bytes += key.len() + version.bytes();
                copies.push(Copied {
                    key: key.clone(),
                    state: version.state.clone(),
                    dependencies: version.dependencies.timestamp(self.scheme),
                    stamp: version.stamp,
                });
            }
        }
        (copies, true)
    }

    /// Returns copies of all versions after `after`, as [`copies`](Self::copies) does.
    pub(crate) fn all_copies(
        &self,
        after: Option<&(ShardId, Key)>,
        keys: usize,
    ) -> (Vec<Copied>, bool) {
        // No version of a key that was written has the stamp zero.
        self.copies(after, |_| true, Stamp::ZERO, keys)
    }

    /// Visits up to `keys` keys in turn. Removes from their timestamps what no reader can miss any
    /// more, and removes deleted keys whose timestamps are then empty.
    pub(crate) fn sweep(&mut self, keys: usize, forget: Forget<'_>) {
        let after = self.sweep_after.take();
        let first = after.as_ref().map_or(ShardId(0), |(shard, _)| *shard);
        let mut found = Vec::new();
        let mut visited = 0;
        'all: for (shard, versions) in self.shards.range(first..) {
            let from = match &after {
                Some((last, key)) if last == shard => Bound::Excluded(key),
                _ => Bound::Unbounded,
            };
            for (key, version) in versions.range::<Key, _>((from, Bound::Unbounded)) {
                if visited >= keys {
                    break 'all;
                }
                visited += 1;
                self.sweep_after = Some((*shard, key.clone()));
                if !version.dependencies.is_empty() || version.state.is_empty() {
                    found.push((*shard, key.clone()));
                }
            }
        }
        if visited < keys {
            self.sweep_after = None;
        }
        for (shard, key) in found {
            self.forget(shard, &key, forget);
        }
    }

    fn forget(&mut self, shard: ShardId, key: &Key, forget: Forget<'_>) {
        let Some(version) = self.version(shard, key) else { return };
        let mut timestamp = version.dependencies.timestamp(self.scheme);
        let is_deleted = version.state.is_empty();
        forget(&mut timestamp, is_deleted);
        let is_gone = timestamp.is_empty() && is_deleted;
        let dependencies = Dependencies::of(&timestamp);
        if dependencies != version.dependencies {
            self.change(shard, key, |version| version.dependencies = dependencies);
        }
        // A hidden write of the key finds an absent version, which is what the deletion left.
        if is_gone && let Some(versions) = self.shards.get_mut(&shard) {
            let removed = versions.remove(key).map_or(0, |version| version.bytes());
            self.held.0 -= removed + key.len() + KEY_BYTES;
            if versions.is_empty() {
                self.shards.remove(&shard);
            }
        }
    }
}

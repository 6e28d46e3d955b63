//! The steps of a reader of all keys.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use solera_data::{Key, Op, Outcome, State, Type, View, execute};
use solera_machine::{Address, Now, PartitionId};
use solera_time::SiteId;

use super::Occult;
use crate::message::Body;
use crate::shard::{ShardId, Stamp};
use crate::snapshot::{MOST, Old, Peaks, Snapshot, SnapshotAnswer, SnapshotStep, Stage, raise};
use crate::version::Version;

/// A page ends after this number of keys, or after this number of bytes.
const PAGE_KEYS: usize = 1_024;
const PAGE_BYTES: usize = 64 << 10;

impl Occult {
    /// Executes a step of a reader.
    pub(crate) fn on_snapshot(&mut self, now: Now, step: SnapshotStep) -> SnapshotAnswer {
        self.store.snapshots.expire(now.monotonic);
        match step {
            SnapshotStep::Mark { id, lasts_ms } => self.mark(now, id, lasts_ms),
            SnapshotStep::Poll { id, marks } => match self.store.snapshots.open.contains_key(&id) {
                true => self.poll(now, &marks),
                false => SnapshotAnswer::Gone,
            },
            SnapshotStep::Fix { id, shown } => self.fix(id, &shown),
            SnapshotStep::Page { id, partition, after } => {
                let found = self.store.snapshots.open.get(&id).map(|snapshot| &snapshot.stage);
                match found {
                    Some(Stage::Fixed(kept)) => self.page(kept, partition, after),
                    _ => SnapshotAnswer::Gone,
                }
            }
            SnapshotStep::Drop { id } => {
                self.store.snapshots.open.remove(&id);
                SnapshotAnswer::Done
            }
        }
    }

    fn mark(&mut self, now: Now, id: u64, lasts_ms: u64) -> SnapshotAnswer {
        if let Some(home) = self.unheard().next() {
            return SnapshotAnswer::Unheard(home.site);
        }
        let snapshots = &mut self.store.snapshots;
        snapshots.open.remove(&id);
        if snapshots.open.len() >= MOST {
            return SnapshotAnswer::TooMany;
        }
        let snapshot = Snapshot {
            stage: Stage::Marked(BTreeMap::new()),
            begun: now.monotonic,
            lasts: Duration::from_millis(lasts_ms),
            bytes: 0,
        };
        snapshots.open.insert(id, snapshot);
        let mut peaks = snapshots.peaks.clone();
        raise(&mut peaks, self.gateway.written().clone());
        // A write that is only prepared here may be committed elsewhere, and acknowledged.
        let group = self.config.scheme.group_of(self.config.address.site);
        raise(&mut peaks, [(group, self.home.clock())]);
        // A former process may have acknowledged writes of homes that have moved since.
        let former = ShardId::all(self.config.shards).flat_map(|it| self.homes.former_stamps(it));
        let lasts = former.filter_map(|it| Some((self.config.scheme.group_of(it.site), it.last?)));
        raise(&mut peaks, lasts);
        SnapshotAnswer::Marked(peaks)
    }

    /// Returns the workers of other sites with homes that have not sent their clocks to this
    /// process. A former process may have acknowledged writes of any of them.
    fn unheard(&self) -> impl Iterator<Item = Address> + '_ {
        let me = self.config.address.site;
        let homes: BTreeSet<SiteId> = self.homes.sites().filter(|site| *site != me).collect();
        let workers = self.config.topology.all_workers().filter(move |it| homes.contains(&it.site));
        workers.filter(|home| !self.store.snapshots.heard.contains(home))
    }

    /// Requests the clocks of homes that have not sent them to this process, from time to time.
    pub(crate) fn request_clocks(&mut self, now: Now) {
        let last = self.store.snapshots.requested;
        if last.is_some_and(|last| now.monotonic.since(last) < self.config.timing.retry) {
            return;
        }
        self.store.snapshots.requested = Some(now.monotonic);
        let unheard: Vec<Address> = self.unheard().collect();
        for home in unheard {
            self.out.send(home, Body::ClockRequest(self.config.incarnation));
        }
    }

    /// Takes the clock of a home, which is not below the stamps of its writes that a former process
    /// of this worker has acknowledged.
    pub(crate) fn on_clock(&mut self, home: Address, incarnation: u64, clock: Stamp) {
        // An answer to a former process may have been sent before that process acknowledged writes.
        if incarnation == self.config.incarnation {
            let group = self.config.scheme.group_of(home.site);
            self.store.snapshots.note_peaks([(group, clock)]);
            self.store.snapshots.heard.insert(home);
        }
    }

    fn poll(&mut self, now: Now, marks: &Peaks) -> SnapshotAnswer {
        let me = self.config.address.site;
        let mark = marks.get(&Some(me)).or(marks.get(&None)).copied().unwrap_or_default();
        self.with_home(now, |home, context| home.report(context, mark));
        self.want_progress(now);
        let is_mine = |shard: &ShardId| self.config.is_mine(*shard);
        let mut shown: BTreeMap<SiteId, Stamp> = BTreeMap::new();
        let mut note = |site: SiteId, stamp: Stamp| {
            let known = shown.entry(site).or_insert(stamp);
            *known = stamp.min(*known);
        };
        for shard in ShardId::all(self.config.shards).filter(is_mine) {
            let is_here = self.store.is_current(shard, &self.homes);
            if !is_here || self.homes.is_undecided(shard) {
                return SnapshotAnswer::Arriving;
            }
            note(self.homes.home(shard), self.shown_here(shard));
        }
        // A shard may move to one of these homes now. That home then assigns stamps above this
        // floor.
        for home in self.homes_elsewhere() {
            note(home.site, self.replica.floor(home));
        }
        SnapshotAnswer::Shown(shown)
    }

    fn fix(&mut self, id: u64, shown: &Peaks) -> SnapshotAnswer {
        let scheme = self.config.scheme;
        let is_within = |version: &Version| {
            let peaks = version.dependencies.timestamp(scheme).peaks();
            let bound = |site| shown.get(&site).copied().unwrap_or_default();
            peaks.into_iter().all(|(site, stamp)| stamp <= bound(site))
        };
        let Some(mut snapshot) = self.store.snapshots.open.remove(&id) else {
            return SnapshotAnswer::Gone;
        };
        if let Stage::Marked(log) = snapshot.stage {
            let mut kept = BTreeMap::new();
            for ((shard, key), mut old) in log {
                if self.store.version(shard, &key).is_some_and(is_within) {
                    continue;
                }
                let last = old.iter().rposition(|old| old.as_ref().is_none_or(is_within));
                let version = last.and_then(|last| old.swap_remove(last));
                kept.insert((shard, key), version);
            }
            snapshot.stage = Stage::Fixed(kept);
        }
        self.store.snapshots.open.insert(id, snapshot);
        SnapshotAnswer::Done
    }

    fn page(
        &self,
        kept: &BTreeMap<(ShardId, Key), Old>,
        partition: PartitionId,
        after: Option<Key>,
    ) -> SnapshotAnswer {
        let of_partition = self.config.shards / self.config.topology.partitions;
        let first = partition.0.saturating_mul(of_partition);
        let shards = ShardId(first)..ShardId(first.saturating_add(of_partition));
        let after = after.map(|key| (self.config.shard_of(key.as_bytes()), key));
        let mut keys = self.store.keys_after(after.as_ref(), shards.clone(), PAGE_KEYS);
        let is_later = |place: &&(ShardId, Key)| {
            shards.contains(&place.0) && after.as_ref().is_none_or(|after| *place > after)
        };
        keys.extend(kept.keys().filter(is_later).take(PAGE_KEYS).cloned());
        let (mut entries, mut bytes) = (Vec::new(), 0);
        for (looked, place) in keys.iter().enumerate() {
            if looked == PAGE_KEYS || bytes >= PAGE_BYTES {
                let last = looked.checked_sub(1).and_then(|last| keys.iter().nth(last));
                return SnapshotAnswer::Page(entries, last.map(|(_, key)| key.clone()));
            }
            let (shard, key) = place;
            let version = match kept.get(place) {
                Some(version) => version.as_ref(),
                None => self.store.version(*shard, key),
            };
            let Some(version) = version else { continue };
            bytes += key.len() + version.bytes();
            entries.extend(content(&version.state).map(|content| (key.clone(), content)));
        }
        SnapshotAnswer::Page(entries, None)
    }
}

/// Returns the content of a key as clients see it; `None` if the key does not exist.
fn content(state: &State) -> Option<Outcome> {
    let view = View::new(state);
    let answer = |op: &Op| execute(op, &view).ok().map(|(outcome, _)| outcome);
    let op = match answer(&Op::Type)? {
        Outcome::Type(Some(Type::String)) => Op::Get,
        Outcome::Type(Some(Type::Set)) => Op::SetMembers,
        Outcome::Type(Some(Type::Hash)) => Op::HashGetAll,
        _ => return None,
    };
    answer(&op)
}

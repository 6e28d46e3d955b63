//! Shards whose writes a replica holds back: because of an injected fault, with which tests check
//! that only reads of these shards wait; or, in the baseline
//! [`Shows::AfterDependencies`](crate::Shows::AfterDependencies), until the site shows what the
//! writes depend on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use solera_machine::Address;
use solera_time::Monotonic;

use super::streams::shown_in;
use crate::message::{Batch, Entry};
use crate::shard::{Homes, ShardId, Stamp};
use crate::store::Store;

/// The part of a batch that is about one shard.
#[derive(Debug)]
struct Part {
    due: Monotonic,
    /// Position of the home's stream before the batch.
    after: u64,
    entries: Vec<Entry>,
    /// Stamp up to which the part shows the shard; `None` if it has no progress.
    shown: Option<Stamp>,
    /// Number of the checks of the writes' dependencies, and when they were last sent.
    check: (u64, Monotonic),
    /// The workers of the site that have not confirmed that they show these dependencies.
    unconfirmed: BTreeMap<Address, Dependencies>,
}

/// Shards and stamps on which a write depends.
type Dependencies = Vec<(ShardId, Stamp)>;

impl Part {
    /// Returns the checks that are not confirmed.
    fn needed(&self, shard: ShardId) -> Vec<Needed> {
        let Some(entry) = self.entries.first() else { return Vec::new() };
        let (check, of) = (self.check.0, (shard, entry.stamp));
        let needed = |(worker, needs): (&Address, &Dependencies)| Needed {
            check,
            worker: *worker,
            of,
            needs: needs.clone(),
        };
        self.unconfirmed.iter().map(needed).collect()
    }
}

#[derive(Debug)]
struct Held {
    /// Injected delay of each part.
    delay: Duration,
    /// The home whose stream is held back.
    home: Address,
    /// The shard is shown up to this stamp.
    shown: Stamp,
    parts: VecDeque<Part>,
}

impl Held {
    fn of(home: Address, shown: Stamp) -> Held {
        Held { delay: Duration::ZERO, home, shown, parts: VecDeque::new() }
    }
}

/// Dependencies of a write that a worker of the site stores.
#[derive(Debug)]
pub(super) struct Needed {
    pub(super) check: u64,
    pub(super) worker: Address,
    /// The shard and the stamp of the write.
    pub(super) of: (ShardId, Stamp),
    pub(super) needs: Dependencies,
}

/// The shards of a worker that are held back, and the parts of batches that have arrived for them.
#[derive(Debug, Default)]
pub(super) struct HeldShards {
    shards: BTreeMap<ShardId, Held>,
    /// Number of the last check.
    checks: u64,
    /// Writes that have arrived and wait for their dependencies, since they were last asked for.
    arrived: BTreeSet<(ShardId, Stamp)>,
}

impl HeldShards {
    /// Delays a shard that this home's stream shows up to a stamp so far.
    pub(super) fn delay(
        &mut self,
        shard: ShardId,
        delay: Duration,
        (home, shown): (Address, Stamp),
    ) {
        self.shards.entry(shard).or_insert(Held::of(home, shown)).delay = delay;
    }

    /// Ends the delay of a shard, and applies what waits for it.
    pub(super) fn end(&mut self, shard: ShardId, store: &mut Store, homes: &Homes) {
        let Some(held) = self.shards.remove(&shard) else { return };
        if homes.home(shard) == held.home.site {
            held.parts.iter().flat_map(|part| &part.entries).for_each(|entry| store.apply(entry));
        }
    }

    /// Removes the parts of delayed shards from a batch, and keeps them for later. `homes` returns
    /// the home of a shard.
    pub(super) fn take(
        &mut self,
        (from, now): (Address, Monotonic),
        batch: &mut Batch,
        home_of: impl Fn(ShardId) -> Address,
    ) {
        let delayed = self.shards.iter_mut().filter(|(_, held)| !held.delay.is_zero());
        for (shard, held) in delayed.filter(|(shard, _)| home_of(**shard) == from) {
            if held.home != from {
                // The last writes of the former home arrive with the takeover of the new one.
                held.home = from;
                held.parts.clear();
            }
            let is_held = |entry: &mut Entry| entry.shard == *shard;
            let entries: Vec<Entry> = batch.entries.extract_if(.., is_held).collect();
            let shown = batch.progress.as_ref().map(|progress| shown_in(progress, *shard));
            if !entries.is_empty() || shown.is_some() {
                let (due, after) = (now.after(held.delay), batch.after);
                let (check, unconfirmed) = ((0, now), BTreeMap::new());
                held.parts.push_back(Part { due, after, entries, shown, check, unconfirmed });
            }
        }
    }

    /// Removes all entries from a batch, and keeps each until its dependencies are shown. `shown`
    /// returns the stamp up to which a shard is shown so far, and `needs` the dependencies of an
    /// entry by the workers that store them. Returns these dependencies.
    pub(super) fn take_dependent(
        &mut self,
        (from, now): (Address, Monotonic),
        batch: &mut Batch,
        shown: impl Fn(ShardId) -> Stamp,
        needs: impl Fn(&Entry) -> BTreeMap<Address, Dependencies>,
    ) -> Vec<Needed> {
        let mut all = Vec::new();
        for entry in std::mem::take(&mut batch.entries) {
            self.checks += 1;
            let (shard, stamp) = (entry.shard, entry.stamp);
            let part = Part {
                due: now,
                after: batch.after,
                shown: Some(stamp),
                check: (self.checks, now),
                unconfirmed: needs(&entry),
                entries: vec![entry],
            };
            all.extend(part.needed(shard));
            // All earlier writes of the shard are here, and no write below this stamp follows.
            let shown = || shown(shard).max(Stamp(stamp.0.saturating_sub(1)));
            let held = self.shards.entry(shard).or_insert_with(|| Held::of(from, shown()));
            held.parts.push_back(part);
            self.arrived.insert((shard, stamp));
        }
        if let Some(progress) = &batch.progress {
            // After the last write of a shard, the shard is shown up to the home's progress.
            for (shard, held) in self.shards.iter_mut().filter(|(_, held)| held.home == from) {
                if let Some(last) = held.parts.back_mut() {
                    last.shown = last.shown.max(Some(shown_in(progress, *shard)));
                }
            }
        }
        all
    }

    /// Notes that a worker shows the dependencies of a check.
    pub(super) fn confirm(&mut self, shard: ShardId, check: u64, worker: Address) {
        let parts = self.shards.get_mut(&shard).into_iter().flat_map(|held| &mut held.parts);
        for part in parts.filter(|part| part.check.0 == check) {
            part.unconfirmed.remove(&worker);
        }
    }

    /// Returns the checks to send again, because they were sent this time ago.
    pub(super) fn unconfirmed(&mut self, now: Monotonic, retry: Duration) -> Vec<Needed> {
        let mut all = Vec::new();
        for (shard, held) in &mut self.shards {
            for part in held.parts.iter_mut().filter(|part| now.since(part.check.1) >= retry) {
                part.check.1 = now;
                all.extend(part.needed(*shard));
            }
        }
        all
    }

    /// Returns whether a shard holds back a write with this stamp that itself depends on this
    /// write. Both are then writes of one transaction, which do not wait for each other once they
    /// have arrived.
    pub(super) fn has_arrived(
        &self,
        (shard, stamp): (ShardId, Stamp),
        of: (ShardId, Stamp),
        homes: &Homes,
    ) -> bool {
        let parts = self.shards.get(&shard).into_iter().flat_map(|held| &held.parts);
        let entries = parts.flat_map(|part| &part.entries).filter(|entry| entry.stamp == stamp);
        let mut pasts = entries.flat_map(|entry| &entry.writes).map(|(.., past)| past);
        pasts.any(|past| past.stamp(of.0, homes) == of.1)
    }

    /// Returns the shards that hold back writes that have arrived since the last call, each with
    /// the stamps of these writes.
    pub(super) fn take_arrived(&mut self) -> BTreeSet<(ShardId, Stamp)> {
        std::mem::take(&mut self.arrived)
    }

    /// Applies the parts that need not wait any more.
    pub(super) fn apply_due(&mut self, now: Monotonic, store: &mut Store, homes: &Homes) {
        for (shard, held) in &mut self.shards {
            let may = |part: &Part| part.due <= now && part.unconfirmed.is_empty();
            while held.parts.front().is_some_and(may) {
                let Some(part) = held.parts.pop_front() else { break };
                if homes.home(*shard) == held.home.site {
                    part.entries.iter().for_each(|entry| store.apply(entry));
                    held.shown = part.shown.unwrap_or_default().max(held.shown);
                }
            }
        }
        self.shards.retain(|_, held| !held.delay.is_zero() || !held.parts.is_empty());
    }

    /// Ends the wait of writes of this home for their dependencies, before copies of versions
    /// arrive. Copies do not wait, so other writes would wait for them in vain.
    pub(super) fn release(&mut self, home: Address) {
        let of_home = self.shards.values_mut().filter(|held| held.home == home);
        for part in of_home.flat_map(|held| &mut held.parts) {
            part.unconfirmed.clear();
        }
    }

    /// Returns whether data of a shard's takeover by this home waits here.
    pub(super) fn takes_over(&self, shard: ShardId, home: Address) -> bool {
        let held = self.shards.get(&shard).filter(|held| held.home == home);
        let mut entries = held.into_iter().flat_map(|held| &held.parts).flat_map(|it| &it.entries);
        entries.any(|entry| entry.takeover.is_some())
    }

    /// Returns whether something waits.
    pub(super) fn waits(&self) -> bool {
        self.shards.values().any(|held| !held.parts.is_empty())
    }

    /// Returns the entries that wait, in the order of each shard.
    pub(super) fn entries(&self, homes: &Homes) -> impl Iterator<Item = &Entry> {
        let valid = self.shards.iter();
        let valid = valid.filter(|(shard, held)| homes.home(**shard) == held.home.site);
        valid.flat_map(|(_, held)| &held.parts).flat_map(|part| &part.entries)
    }

    /// Returns the number of writes that wait.
    pub(super) fn writes(&self) -> usize {
        let parts = self.shards.values().flat_map(|held| &held.parts);
        parts.flat_map(|part| &part.entries).map(|entry| entry.writes.len()).sum()
    }

    /// Returns the stamp up to which a held shard of this home is shown.
    pub(super) fn shown(&self, home: Address, shard: ShardId) -> Option<Stamp> {
        self.shards.get(&shard).filter(|held| held.home == home).map(|held| held.shown)
    }

    fn of_home(&self, home: Address) -> impl Iterator<Item = &Held> {
        self.shards.values().filter(move |held| held.home == home)
    }

    /// Returns the stamp up to which all held shards of this home are shown; `None` if there are
    /// none.
    pub(super) fn floor(&self, home: Address) -> Option<Stamp> {
        self.of_home(home).map(|held| held.shown).min()
    }

    /// Returns the position of this home's stream up to which everything is applied; `None` if
    /// nothing waits.
    pub(super) fn position(&self, home: Address) -> Option<u64> {
        let first = self.of_home(home).filter_map(|held| held.parts.front());
        first.map(|part| part.after).min()
    }
}

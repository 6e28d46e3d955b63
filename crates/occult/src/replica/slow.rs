//! Shards whose writes a replica shows late on purpose: an injected fault, with which tests check
//! that only reads of these shards wait.

use std::collections::{BTreeMap, VecDeque};
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
    /// Stamp up to which the batch shows the shard; `None` if the batch has no progress.
    shown: Option<Stamp>,
}

#[derive(Debug)]
struct Slow {
    delay: Duration,
    /// The home whose stream is delayed.
    home: Address,
    /// The shard is shown up to this stamp.
    shown: Stamp,
    parts: VecDeque<Part>,
}

/// The slow shards of a worker, and the parts of batches that have arrived for them.
#[derive(Debug, Default)]
pub(super) struct SlowShards(BTreeMap<ShardId, Slow>);

impl SlowShards {
    /// Delays a shard that this home's stream shows up to a stamp so far.
    pub(super) fn delay(
        &mut self,
        shard: ShardId,
        delay: Duration,
        (home, shown): (Address, Stamp),
    ) {
        let slow = Slow { delay, home, shown, parts: VecDeque::new() };
        self.0.entry(shard).or_insert(slow).delay = delay;
    }

    /// Ends the delay of a shard, and applies what waits for it.
    pub(super) fn end(&mut self, shard: ShardId, store: &mut Store, homes: &Homes) {
        let Some(slow) = self.0.remove(&shard) else { return };
        if homes.home(shard) == slow.home.site {
            slow.parts.iter().flat_map(|part| &part.entries).for_each(|entry| store.apply(entry));
        }
    }

    /// Removes the parts of slow shards from a batch, and keeps them for later. `homes` returns the
    /// home of a shard.
    pub(super) fn take(
        &mut self,
        (from, now): (Address, Monotonic),
        batch: &mut Batch,
        home_of: impl Fn(ShardId) -> Address,
    ) {
        for (shard, slow) in self.0.iter_mut().filter(|(shard, _)| home_of(**shard) == from) {
            if slow.home != from {
                // The last writes of the former home arrive with the takeover of the new one.
                slow.home = from;
                slow.parts.clear();
            }
            let is_slow = |entry: &mut Entry| entry.shard == *shard;
            let entries: Vec<Entry> = batch.entries.extract_if(.., is_slow).collect();
            let shown = batch.progress.as_ref().map(|progress| shown_in(progress, *shard));
            if !entries.is_empty() || shown.is_some() {
                let due = now.after(slow.delay);
                slow.parts.push_back(Part { due, after: batch.after, entries, shown });
            }
        }
    }

    /// Applies the parts that are due.
    pub(super) fn apply_due(&mut self, now: Monotonic, store: &mut Store, homes: &Homes) {
        for (shard, slow) in &mut self.0 {
            while slow.parts.front().is_some_and(|part| part.due <= now) {
                let Some(part) = slow.parts.pop_front() else { break };
                if homes.home(*shard) == slow.home.site {
                    part.entries.iter().for_each(|entry| store.apply(entry));
                    slow.shown = part.shown.unwrap_or_default().max(slow.shown);
                }
            }
        }
    }

    /// Returns whether data of a shard's takeover by this home waits here.
    pub(super) fn takes_over(&self, shard: ShardId, home: Address) -> bool {
        let slow = self.0.get(&shard).filter(|slow| slow.home == home);
        let mut entries = slow.into_iter().flat_map(|slow| &slow.parts).flat_map(|it| &it.entries);
        entries.any(|entry| entry.takeover.is_some())
    }

    /// Returns whether something waits.
    pub(super) fn waits(&self) -> bool {
        self.0.values().any(|slow| !slow.parts.is_empty())
    }

    /// Returns the stamp up to which a slow shard of this home is shown.
    pub(super) fn shown(&self, home: Address, shard: ShardId) -> Option<Stamp> {
        self.0.get(&shard).filter(|slow| slow.home == home).map(|slow| slow.shown)
    }

    fn of_home(&self, home: Address) -> impl Iterator<Item = &Slow> {
        self.0.values().filter(move |slow| slow.home == home)
    }

    /// Returns the stamp up to which all slow shards of this home are shown; `None` if there are
    /// none.
    pub(super) fn floor(&self, home: Address) -> Option<Stamp> {
        self.of_home(home).map(|slow| slow.shown).min()
    }

    /// Returns the position of this home's stream up to which everything is applied; `None` if
    /// nothing waits.
    pub(super) fn position(&self, home: Address) -> Option<u64> {
        let first = self.of_home(home).filter_map(|slow| slow.parts.front());
        first.map(|part| part.after).min()
    }
}

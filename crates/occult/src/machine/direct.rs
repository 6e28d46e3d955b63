//! Direct calls: reads that need no message, and numbers for status reports.

use solera_data::{Key, Op, OpError, Outcome};
use solera_machine::Now;

use super::Occult;
use crate::client::{Freshness, Transaction};
use crate::shard::{ShardId, Stamp};
use crate::timestamp::CausalTimestamp;

impl Occult {
    /// Reads a key of this worker for a session with this past, and adds the version's dependencies
    /// to the past. Returns `None`, and leaves the past unchanged, if the copy here is not known to
    /// be recent enough; the caller then sends the read as a command.
    pub fn read_at_once(
        &mut self,
        now: Now,
        past: &mut CausalTimestamp,
        (key, op): (&Key, &Op),
    ) -> Option<Result<Outcome, OpError>> {
        let shard = self.config.shard_of(key);
        if op.is_update() || !self.config.is_mine(shard) {
            return None;
        }
        self.note_use(now.monotonic);
        if !self.store.is_current(shard, &self.homes) {
            return None;
        }
        let shown = self.shown_here(shard);
        let (executed, mut dependencies) = self.store.read(shard, key, op, None);
        let fresh = Transaction::is_fresh(past, &dependencies, (shard, shown), &self.homes);
        if fresh == Freshness::Stale {
            return None;
        }
        self.passed.forget(&mut dependencies, &self.homes);
        past.merge(&dependencies, &self.homes);
        self.passed.forget(past, &self.homes);
        Some(executed.map(|(outcome, _)| outcome))
    }

    /// Returns the shardstamp of the copy of a shard here.
    pub(crate) fn shown_here(&self, shard: ShardId) -> Stamp {
        let site = self.homes.home(shard);
        match site == self.config.address.site {
            true => self.home.shown(&self.config, shard),
            false => {
                let of = (&self.store, &self.homes);
                self.replica.shown(self.config.owner(site, shard), shard, of)
            }
        }
    }

    /// Adds a token's past to a session's past. Returns whether the past fits the configuration of
    /// this cluster; otherwise nothing has changed.
    pub fn join(&self, past: &mut CausalTimestamp, token: &CausalTimestamp) -> bool {
        let fits = token.is_within(self.config.shards)
            && token.is_within_sites(self.config.topology.sites());
        if fits {
            past.merge(token, &self.homes);
        }
        fits
    }

    /// Removes from a session's past what no reader can miss any more.
    pub fn forget(&self, past: &mut CausalTimestamp) {
        self.passed.forget(past, &self.homes);
    }

    /// Returns the number of shown writes of this worker's homes that fewer than `sites` sites are
    /// known to store.
    pub fn unstored(&self, sites: usize) -> usize {
        self.home.unstored(sites.saturating_sub(1)).count() + self.store.hidden()
    }

    /// Returns the keys of at most `most` of the writes that [`unstored`](Self::unstored) counts.
    pub fn unstored_keys(&self, sites: usize, most: usize) -> Vec<Key> {
        let entries = self.home.unstored(sites.saturating_sub(1));
        entries.flatten().take(most).cloned().collect()
    }

    /// Returns the number of shards of which this worker is the home.
    pub fn home_of(&self) -> usize {
        let me = self.config.address;
        let shards = ShardId::all(self.config.shards);
        shards
            .filter(|shard| self.homes.home(*shard) == me.site && self.config.is_mine(*shard))
            .count()
    }

    /// Returns the clock of this worker's homes.
    pub fn clock(&self) -> Stamp {
        self.home.clock()
    }
}

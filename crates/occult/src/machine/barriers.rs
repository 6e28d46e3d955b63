//! Commands that wait until enough sites store what a session depends on.

use std::collections::BTreeSet;

use solera_machine::{Address, Now, RequestId};
use solera_time::{Monotonic, SiteId};

use super::Occult;
use crate::command::Response;
use crate::config::Rule;
use crate::message::StoredAt;
use crate::shard::Stamp;
use crate::timestamp::CausalTimestamp;

/// A barrier that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) request: RequestId,
    pub(super) past: CausalTimestamp,
    /// Number of sites that must store the past.
    pub(super) sites: usize,
    /// Time at which the client is answered even if fewer sites store the past.
    pub(super) deadline: Monotonic,
}

impl Occult {
    /// Counts the sites that store all writes of this worker's shards on which a session depends,
    /// according to the result of `progress_of_homes`. The home's site counts as one of them.
    fn count_stored(&self, past: &CausalTimestamp, progress: &[(Address, Vec<StoredAt>)]) -> usize {
        let each = progress.iter().filter_map(|home| self.count_stored_of(past, home));
        each.min().unwrap_or(self.others.len() + 1)
    }

    /// Counts the sites that store what a session depends on from one home; `None` if it depends on
    /// nothing from there.
    fn count_stored_of(
        &self,
        past: &CausalTimestamp,
        (home, stored): &(Address, Vec<StoredAt>),
    ) -> Option<usize> {
        let needed = past.greatest_at(home.site, &self.homes);
        if needed == Stamp::ZERO || !self.config.has(Rule::StoredElsewhere) {
            return None;
        }
        let others = stored.iter().filter(|at| at.site != home.site && at.stored >= needed);
        Some(1 + others.count())
    }

    /// Returns the sites of homes from which a session depends on writes that fewer than `sites`
    /// sites are known to store.
    pub(super) fn unstored_homes(&self, past: &CausalTimestamp, sites: usize) -> Vec<SiteId> {
        let progress = self.progress_of_homes();
        let lacks =
            |home: &&_| self.count_stored_of(past, home).is_some_and(|stored| stored < sites);
        let lacking: BTreeSet<SiteId> =
            progress.iter().filter(lacks).map(|(home, _)| home.site).collect();
        lacking.into_iter().collect()
    }

    /// Returns, for each home of this worker's shards, what the sites have stored and confirmed of
    /// its writes.
    pub(super) fn progress_of_homes(&self) -> Vec<(Address, Vec<StoredAt>)> {
        let me = self.config.address;
        let mut all = Vec::new();
        if self.homes.sites().any(|site| site == me.site) {
            let unread = self.unread_here(me.site);
            all.push((me, self.home.stored(&self.others, me.site, unread)));
        }
        for home in self.homes_elsewhere() {
            all.push((home, self.replica.stored(home).to_vec()));
        }
        all
    }

    /// Answers a barrier, or lets it wait.
    pub(super) fn on_barrier(&mut self, now: Now, waiting: Waiting) {
        let count = self.count_stored(&waiting.past, &self.progress_of_homes());
        if count >= waiting.sites {
            return self.out.reply(waiting.request, Response::Stored(count));
        }
        self.waiting.push(waiting);
        self.want_progress(now);
    }

    /// Answers barriers whose past enough sites store, and barriers that have waited for too long.
    /// Called on ticks only, because many barriers may wait, and many inputs arrive between ticks.
    pub(super) fn answer_waiting(&mut self, now: Now) {
        if self.waiting.is_empty() {
            return;
        }
        let progress = self.progress_of_homes();
        for waiting in std::mem::take(&mut self.waiting) {
            let count = self.count_stored(&waiting.past, &progress);
            if count >= waiting.sites || now.monotonic >= waiting.deadline {
                self.out.reply(waiting.request, Response::Stored(count));
            } else {
                self.waiting.push(waiting);
            }
        }
    }

    /// Requests the homes' progress for barriers.
    pub(crate) fn want_progress(&mut self, now: Now) {
        let homes: Vec<Address> = self.homes_elsewhere().collect();
        self.with_replica(now, |it, context| {
            for home in homes {
                it.want(context, home);
            }
        });
    }
}

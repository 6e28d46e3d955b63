//! Commands that wait until enough sites store what a session depends on.

use solera_machine::{Address, Now, RequestId};
use solera_time::Monotonic;

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
    /// When the client is answered, even if fewer sites store the past.
    pub(super) deadline: Monotonic,
}

impl Occult {
    /// Returns the number of sites that are known to store all writes of this worker's shards on
    /// which a session depends. The site of a home counts.
    pub fn stored_sites(&self, past: &CausalTimestamp) -> usize {
        self.count_stored(past, &self.progress_of_homes())
    }

    /// Counts the sites by what `progress_of_homes` has returned.
    fn count_stored(&self, past: &CausalTimestamp, progress: &[(Address, Vec<StoredAt>)]) -> usize {
        let mut least = self.others.len() + 1;
        if !self.config.has(Rule::StoredElsewhere) {
            return least;
        }
        for (home, stored) in progress {
            let needed = past.greatest_at(home.site, &self.homes);
            if needed > Stamp::ZERO {
                let others = stored.iter().filter(|at| at.site != home.site);
                least = least.min(1 + others.filter(|at| at.stored >= needed).count());
            }
        }
        least
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
        let count = self.stored_sites(&waiting.past);
        if count >= waiting.sites {
            return self.out.reply(waiting.request, Response::Stored(count));
        }
        self.waiting.push(waiting);
        self.want_progress(now);
    }

    /// Answers barriers whose past enough sites store, and those that have waited for too long.
    /// Only ticks do this, because many barriers may wait, and many inputs arrive between ticks.
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

//! What every replica has passed, so that no reader can miss it any more, and timestamps need not
//! contain it.
//!
//! Two steps are needed for the stamps of a site's homes:
//!
//! 1. All replicas at all sites show all writes up to a stamp. Then each later read of these shards
//!    returns a shardstamp that is at least as great.
//! 2. At each site, every transaction that has read these shards before has ended, or has got such
//!    a shardstamp. Otherwise the transaction's validation would miss the dependency.
//!
//! Then a dependency on a write up to the stamp cannot cause a stale read or an abort any more.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use solera_time::SiteId;

use crate::shard::{Homes, STAMP_END, Stamp};
use crate::timestamp::CausalTimestamp;

/// A stamp that delays nothing.
pub(crate) const NO_LIMIT: Stamp = Stamp(STAMP_END - 1);

/// What a worker knows about the stamps of one site's homes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Passing {
    /// The site.
    pub site: SiteId,
    /// All replicas that the worker knows show all writes up to this stamp.
    pub shown: Stamp,
    /// No transaction of the worker's clients depends on a read below this stamp. All replicas of
    /// the cluster have passed it.
    pub unread: Stamp,
}

/// The reports of the workers of this site, and what follows from those of all sites.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    of_workers: BTreeMap<u8, Vec<Passing>>,
    /// What this worker has confirmed for each site; see [`Passing::unread`].
    unread: BTreeMap<SiteId, Stamp>,
    /// For each site, the stamp that needs no dependencies any more.
    over: BTreeMap<SiteId, Stamp>,
}

impl Passed {
    /// Takes the report of a worker of this site.
    pub(crate) fn note(&mut self, worker: u8, report: Vec<Passing>) {
        self.of_workers.insert(worker, report);
    }

    /// Returns the least of a number that all `workers` of this site have reported about a site.
    /// Returns zero until all of them have reported.
    fn least(&self, site: SiteId, workers: usize, of: impl Fn(&Passing) -> Stamp) -> Stamp {
        if self.of_workers.len() < workers {
            return Stamp::ZERO;
        }
        let reports = self.of_workers.values().map(|report| {
            let found = report.iter().find(|passing| passing.site == site);
            found.map_or(Stamp::ZERO, &of)
        });
        reports.min().unwrap_or_default()
    }

    /// Returns a stamp that all replicas of the cluster have passed.
    pub(crate) fn shown(&self, site: SiteId, workers: usize) -> Stamp {
        self.least(site, workers, |passing| passing.shown)
    }

    /// Returns a stamp below which no transaction of this site's clients has read.
    pub(crate) fn unread(&self, site: SiteId, workers: usize) -> Stamp {
        self.least(site, workers, |passing| passing.unread)
    }

    /// Returns the stamp that this worker has confirmed.
    pub(crate) fn confirmed(&self, site: SiteId) -> Stamp {
        self.unread.get(&site).copied().unwrap_or_default()
    }

    /// Confirms that no transaction of this worker's clients depends on a read below a stamp that
    /// all replicas have passed.
    pub(crate) fn confirm(&mut self, site: SiteId, stamp: Stamp) {
        let known = self.unread.entry(site).or_default();
        *known = stamp.max(*known);
    }

    /// Notes that all sites have confirmed a stamp.
    pub(crate) fn note_over(&mut self, site: SiteId, stamp: Stamp) {
        let known = self.over.entry(site).or_default();
        *known = stamp.max(*known);
    }

    /// Forgets the reports, because other sites store the data now. What is over stays over: a site
    /// that joins takes copies which are newer.
    pub(crate) fn clear_reports(&mut self) {
        self.of_workers.clear();
    }

    /// Forgets everything, because homes have other shards now.
    pub(crate) fn clear(&mut self) {
        *self = Passed::default();
    }

    /// Removes from a timestamp what needs no dependencies any more.
    pub(crate) fn forget(&self, timestamp: &mut CausalTimestamp, homes: &Homes) {
        if self.over.is_empty() || timestamp.is_empty() {
            return;
        }
        let of = |site: SiteId| self.over.get(&site).copied().unwrap_or_default();
        let least = || homes.sites().map(of).min().unwrap_or_default();
        timestamp.forget(
            // A new home assigns stamps above those of the former one that are not lost.
            |shard| of(homes.home(shard)),
            |site| match site {
                Some(site) if homes.epoch() == 0 => of(site),
                // Some of the site's shards may have other homes now.
                Some(_) | None => least(),
            },
        );
    }
}

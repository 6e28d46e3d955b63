//! Stamps that every replica has passed. No reader can miss writes up to them any more, so
//! timestamps need not contain them.
//!
//! Two steps are needed for the stamps of a site's homes:
//!
//! 1. All replicas at all sites show all writes up to a stamp. Then each later read of these shards
//!    returns a shardstamp that is at least as great.
//! 2. At each site, every open transaction that has read these shards has read such a shardstamp.
//!    Otherwise the transaction's validation would miss the dependency.
//!
//! Then a dependency on a write up to the stamp cannot cause a stale read or an abort any more.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use solera_time::SiteId;

use crate::shard::{Homes, STAMP_END, Stamp};
use crate::timestamp::CausalTimestamp;

/// Stamp of a worker or a transaction that sets no limit.
pub(crate) const NO_LIMIT: Stamp = Stamp(STAMP_END - 1);

/// A worker's report about the stamps of one site's homes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Passing {
    /// The site.
    pub site: SiteId,
    /// All replicas of the worker's shards show all writes of these homes up to this stamp.
    pub shown: Stamp,
    /// All replicas of the cluster have passed this stamp, and no open transaction of the worker's
    /// clients has read a copy below it.
    pub unread: Stamp,
}

/// The reports of the workers of this site, and the stamps that all sites have confirmed.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    of_workers: BTreeMap<u8, Vec<Passing>>,
    /// The stamp that this worker has confirmed for each site; see [`Passing::unread`].
    unread: BTreeMap<SiteId, Stamp>,
    /// For each site, the stamp up to which timestamps need no entries any more.
    over: BTreeMap<SiteId, Stamp>,
}

impl Passed {
    /// Takes the report of a worker of this site.
    pub(crate) fn note(&mut self, worker: u8, report: Vec<Passing>) {
        self.of_workers.insert(worker, report);
    }

    /// Returns the least stamp that the `workers` of this site have reported about a site; zero
    /// until all of them have reported.
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

    /// Returns a stamp below which no open transaction of this site's clients has read.
    pub(crate) fn unread(&self, site: SiteId, workers: usize) -> Stamp {
        self.least(site, workers, |passing| passing.unread)
    }

    /// Returns the stamp that this worker has confirmed.
    pub(crate) fn confirmed(&self, site: SiteId) -> Stamp {
        self.unread.get(&site).copied().unwrap_or_default()
    }

    /// Confirms a stamp that all replicas have passed: no open transaction of this worker's clients
    /// has read a copy below it.
    pub(crate) fn confirm(&mut self, site: SiteId, stamp: Stamp) {
        let known = self.unread.entry(site).or_default();
        *known = stamp.max(*known);
    }

    /// Notes that all sites have confirmed a stamp.
    pub(crate) fn note_over(&mut self, site: SiteId, stamp: Stamp) {
        let known = self.over.entry(site).or_default();
        *known = stamp.max(*known);
    }

    /// Forgets the reports, because other sites store the data now. The stamps that all sites have
    /// confirmed stay valid: a site that joins takes newer copies.
    pub(crate) fn clear_reports(&mut self) {
        self.of_workers.clear();
    }

    /// Forgets everything, because homes have other shards now.
    pub(crate) fn clear(&mut self) {
        *self = Passed::default();
    }

    /// Removes from a timestamp the entries that are not needed any more.
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

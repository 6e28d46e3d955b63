//! Periodic work: publishing progress, and the removal of dependencies that every replica has
//! passed.

use std::time::Duration;

use solera_machine::{Address, Now};
use solera_time::{Monotonic, SiteId};

use super::Occult;
use crate::config::Rule;
use crate::message::{Body, StoredAt};
use crate::passed::{NO_LIMIT, Passing};
use crate::shard::Stamp;
use crate::store::Forget;
use crate::timestamp::CausalTimestamp;

/// Interval of ticks while something waits.
const TICK: Duration = Duration::from_millis(1);
/// Interval at which the workers of a site exchange what all replicas have passed.
const EXCHANGE: Duration = Duration::from_millis(200);
/// Number of keys whose timestamps are examined in such an interval.
const SWEEP_KEYS: usize = 2_000;
/// Time for which a worker counts as used after its last use.
const USED: Duration = Duration::from_secs(1);
/// Time for which the workers of a site continue the exchange after their last use, so that the
/// last timestamps become empty.
const REST: Duration = Duration::from_secs(30);

/// Times that determine when periodic work is due.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    /// Time of the last command or request of a client here.
    used: Option<Monotonic>,
    /// Time of the last command or request of a client at another worker of this site, as far as
    /// known.
    used_elsewhere: Option<Monotonic>,
    exchanged: Option<Monotonic>,
}

impl Occult {
    /// Notes that a client uses this worker.
    pub(super) fn note_use(&mut self, now: Monotonic) {
        self.upkeep.used = Some(now);
    }

    fn is_used(&self, now: Monotonic, within: Duration) -> bool {
        let times = [self.upkeep.used, self.upkeep.used_elsewhere];
        times.into_iter().flatten().any(|used| now.since(used) < within)
    }

    /// Returns the interval at which homes publish their progress.
    pub(super) fn publish_interval(&self, now: Monotonic) -> Duration {
        match self.is_used(now, USED) {
            true => self.config.timing.publish,
            false => self.config.timing.publish_idle,
        }
    }

    fn workers(&self) -> usize {
        usize::from(self.config.topology.workers[self.config.address.site.index()])
    }

    /// Returns the stamp up to which every copy at every site shows all writes.
    pub(super) fn shown_everywhere(&self) -> Stamp {
        let shown = self.homes.sites().map(|site| self.passed.shown(site, self.workers()));
        shown.min().unwrap_or_default()
    }

    /// Returns the stamp that this site has confirmed for a site's homes; see `StoredAt::unread`.
    pub(super) fn unread_here(&self, site: SiteId) -> Stamp {
        self.passed.unread(site, self.workers())
    }

    /// Takes a report of another worker of this site.
    pub(super) fn on_passed(
        &mut self,
        now: Now,
        from: Address,
        (report, epoch): (Vec<Passing>, u64),
        active: bool,
    ) {
        if epoch == self.homes.epoch() {
            self.passed.note(from.worker, report);
        }
        if active {
            self.upkeep.used_elsewhere = Some(now.monotonic);
        }
    }

    /// Does the periodic work that is due.
    pub(super) fn keep_up(&mut self, now: Now) {
        let at = now.monotonic;
        if self.upkeep.exchanged.is_some_and(|last| at.since(last) < EXCHANGE)
            || !(self.is_used(at, REST) || self.gateway.open() > 0)
        {
            return;
        }
        self.upkeep.exchanged = Some(at);
        self.with_gateway(now, |it, context| it.send_oldest(context));
        self.gateway.forget_slow(at);
        self.gateway.end_idle(at, self.config.timing.idle);
        let report = self.passing();
        let me = self.config.address;
        let active = self.upkeep.used.is_some_and(|used| at.since(used) < USED);
        let workers = self.config.topology.workers[me.site.index()];
        for worker in (0..workers).filter(|worker| *worker != me.worker) {
            let message = Body::Passed(report.clone(), active);
            self.out.send(Address { worker, ..me }, message);
        }
        self.passed.note(me.worker, report);
        let (passed, homes, config) = (&self.passed, &self.homes, &self.config);
        let forget: Forget<'_> = &|timestamp, is_deleted| match is_deleted {
            true if !config.has(Rule::Removals) => {
                *timestamp = CausalTimestamp::new(config.scheme);
            }
            _ => passed.forget(timestamp, homes),
        };
        self.store.sweep(SWEEP_KEYS, forget);
    }

    /// Returns this worker's report about each site, and confirms stamps below which no open
    /// transaction here has read.
    fn passing(&mut self) -> Vec<Passing> {
        let sites: Vec<SiteId> = self.members.members_and_joining().collect();
        let progress = self.progress_of_homes();
        let of_homes: Vec<SiteId> = self.homes.sites().collect();
        let mut report = Vec::new();
        for site in of_homes {
            let homes = || progress.iter().filter(move |(home, _)| home.site == site);
            let at = |stored: &[StoredAt], site: SiteId, of: fn(&StoredAt) -> Stamp| {
                stored.iter().find(|at| at.site == site).map_or(Stamp::ZERO, of)
            };
            let stored = homes().flat_map(|(_, stored)| {
                sites.iter().map(|other| at(stored, *other, |at| at.stored)).collect::<Vec<_>>()
            });
            // A worker without shards of this site's homes sets no limit.
            let shown = stored.min().unwrap_or(NO_LIMIT);
            let of_site = |other: &SiteId| {
                let reports = homes().map(|(_, stored)| at(stored, *other, |at| at.unread));
                reports.max().unwrap_or_default()
            };
            let over = sites.iter().map(of_site).min().unwrap_or_default();
            self.passed.note_over(site, over);
            let all_shown = self.passed.shown(site, self.workers());
            let least_read = match self.config.has(Rule::UnreadBeforeForgotten) {
                true => self.gateway.least_read(site, &self.homes),
                false => NO_LIMIT,
            };
            // A snapshot that begins counts as an open transaction.
            let is_beginning = self.store.snapshots.is_beginning();
            if all_shown < NO_LIMIT && least_read >= all_shown && !is_beginning {
                self.passed.confirm(site, all_shown);
            }
            let unread = self.passed.confirmed(site);
            report.push(Passing { site, shown, unread });
        }
        report
    }

    /// Schedules the next tick.
    pub(super) fn arm(&mut self, now: Now) {
        let at = now.monotonic;
        let waits = self.gateway.waits()
            || self.home.waits()
            || self.replica.waits()
            || !self.waiting.is_empty()
            || self.moving.is_busy();
        let mut next = at.after(self.publish_interval(at));
        if waits {
            next = next.min(at.after(TICK));
        }
        let flush = self.home.next_flush(&self.targets, self.config.timing.flush);
        next = flush.map_or(next, |flush| flush.max(at).min(next));
        // An earlier tick stays: it may be due for something that this input did not change.
        let earlier = self.next_tick.filter(|tick| *tick > at);
        self.next_tick = Some(earlier.map_or(next, |tick| tick.min(next)));
    }
}

//! Partitions without readers (S7): when no ready reader is left, because the others are removed.

use solera_time::{Monotonic, SiteId};

use super::Partition;
use crate::agreed::Change;
use crate::config::Rule;
use crate::numbers::{Position, Version};
use crate::outbox::{Step, Subject};

impl Partition {
    /// Returns the version that has closed the partition and the length of the site's stream, if
    /// the site has no open epoch. It gets none until readers are founded.
    pub(super) fn ended(&self) -> Option<(Version, Position)> {
        let closed = self.agreed.closed?;
        let has_ended = self.agreed.keys.iter().all(|(key, record)| {
            let last = self.counters.get(key).map(|counter| counter.last_end(self.me));
            let mut own = record.grants.iter().filter(|grant| grant.site == self.me);
            own.all(|grant| last.is_some_and(|last| last >= grant.epoch))
        });
        has_ended.then(|| (closed, self.known[self.me.index()]))
    }

    /// Looks after the keys with grants of this site, which must end (S7).
    pub(super) fn end_after_closing(&mut self, now: Monotonic) {
        let mine = self
            .agreed
            .keys
            .iter()
            .filter(|(_, record)| record.grants.iter().any(|grant| grant.site == self.me));
        for key in mine.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.visit_at(now, &key);
        }
    }

    /// Requests that a partition is closed, or that readers are founded.
    pub(super) fn close_or_found(&mut self, step: &mut Step<'_>) {
        if self.right.is_excluding() || self.agreed.remains(self.me).is_some() {
            return;
        }
        let change = match self.agreed.closed {
            Some(closed) => self.founded(step, closed),
            None => self.closed(step),
        };
        if let Some(change) = change {
            self.right.begin_exclusion();
            self.change(step, Subject::Exclusion, change);
        }
    }

    /// Returns the change that takes the right from all readers, when their leases have certainly
    /// ended, one of them is to be removed, and this site cannot exclude it.
    fn closed(&mut self, step: &Step<'_>) -> Option<Change> {
        let readers: Vec<SiteId> = self.agreed.reader_sites().collect();
        let removes = readers.iter().any(|site| self.right.is_removing(*site));
        if !removes || self.is_ready(step.config) {
            return None;
        }
        let over = readers.iter().all(|site| self.right.is_silent(step, *site));
        (over || !step.config.has(Rule::CloseAfterLeases)).then_some(Change::Close { readers })
    }

    /// Returns the change that makes all remaining sites readers, when they have ended their
    /// epochs.
    fn founded(&self, step: &Step<'_>, closed: Version) -> Option<Change> {
        let readers = self.agreed.participants();
        let ended = |site: SiteId| match site == self.me {
            true => self.ended(),
            false => self.heard[site.index()].ended,
        };
        let length = |site: SiteId| {
            if let Some(remains) = self.agreed.remains(site) {
                return Some(remains);
            }
            if !readers.contains(&site) {
                return Some(Position(0));
            }
            let ended = ended(site).filter(|(version, _)| *version == closed);
            let known = self.known[site.index()];
            let early = (!step.config.has(Rule::FoundAfterEnds)).then_some(known);
            ended.map(|(_, length)| length).or(early)
        };
        let all = SiteId::all(self.known.len());
        let since: Option<Vec<Position>> = all.map(length).collect();
        Some(Change::Found { readers: readers.clone(), since: since? })
    }
}

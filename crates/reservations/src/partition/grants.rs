//! Tokens and floors: when a site ends an epoch, and which changes of a key's record it requests.

use std::time::Duration;

use solera_machine::PartitionId;
use solera_time::{Monotonic, SiteId};

use super::{Partition, clamped};
use crate::agreed::{Change, Grant, Key};
use crate::command::{Cannot, Question};
use crate::config::{Bound, Config, Policy, Rule};
use crate::counter::Counter;
use crate::message::Need;
use crate::numbers::{Epoch, Position, Tokens, Version};
use crate::outbox::{Step, Subject};
use crate::rare;
use crate::record::Record;

/// Number of grants of a site for a key, ended ones included, up to which it removes those of a key
/// in use only if a site needs the room.
pub(super) const FEW_GRANTS: usize = 4;

impl Partition {
    /// Does what is due about a key.
    pub(super) fn look_after(&mut self, step: &mut Step<'_>, key: &Key) {
        if step.config.has_rights(key) {
            return self.look_after_rights(step, key);
        }
        let Some(policy) = step.config.policy(key) else { return };
        self.expire(step, key);
        self.look_after_expiries(step, key);
        if !self.filling.is_filled() {
            return self.plan_visit(step, key);
        }
        self.recycle(step.config, key);
        self.forget_needs(key);
        self.end_unused(step, key, policy);
        self.write_end(step, key);
        if !self.heads(key).is_none() || self.is_half_used(key) {
            self.need(step, key, Need::Reports);
        }
        let (version, counter) = (self.agreed.version, self.counter(key));
        if !counter.asking
            && version >= counter.wait_for
            && let Some(change) = self.wanted_change(step, key, policy)
        {
            self.counter(key).asking = true;
            self.change(step, Subject::Key(key.clone()), change);
        }
        self.plan_visit(step, key);
    }

    /// Forgets what the site needed for tokens that it has ended, or for updates that do not wait
    /// any more.
    fn forget_needs(&mut self, key: &Key) {
        let has_none = self.open_grants(key).next().is_none();
        let counter = self.counter(key);
        counter.shrinks &= !has_none;
        if has_none {
            counter.awaits_end = None;
        }
        counter.wants_room &= !counter.takes.is_empty();
    }

    /// Takes the answer to a question about a key.
    pub(crate) fn key_answered(
        &mut self,
        step: &mut Step<'_>,
        key: &Key,
        version: Option<Version>,
    ) {
        let counter = self.counter(key);
        counter.asking = false;
        counter.wait_for = counter.wait_for.max(version.unwrap_or_default());
        // An unknown outcome waits for the timer, because the next one may be unknown as well.
        if version.is_some_and(|version| self.agreed.version >= version) {
            self.visit_soon(step, key);
        }
    }

    pub(crate) fn end_answered(&mut self, key: &Key) {
        self.counter(key).ending = false;
    }

    /// Returns the time until the site's lease ends; `None` without one.
    pub(super) fn lease_left(&self, now: Monotonic) -> Option<Duration> {
        let term = self.agreed.reader(self.me)?.term;
        let lease = self.right.lease.filter(|lease| lease.term == term)?;
        Some(lease.until.since(now))
    }

    /// Returns the time until the site gives up its tokens of a key if it does not use any; `None`
    /// if it has none, or has not used them since its start.
    pub(super) fn use_left(&self, step: &Step<'_>, key: &Key) -> Option<Duration> {
        self.open_grants(key).next()?;
        let lease = step.config.policy(key)?.lease;
        Some(self.counters.get(key)?.used?.after(lease).since(step.now))
    }

    // Ends.

    /// Ends an idle epoch, and those that a later one has replaced (H7).
    fn end_unused(&mut self, step: &mut Step<'_>, key: &Key, policy: Policy) {
        let now = step.now;
        let Some(last) = self.open_grants(key).map(|grant| grant.epoch).max() else { return };
        let used = *self.counter(key).used.get_or_insert(now);
        let unused = now.since(used) >= policy.lease && !self.uses_tokens(key);
        let closed = self.agreed.closed.is_some();
        if unused && step.config.has(Rule::EndWhenIdle) || closed || self.must_end(step, key) {
            self.counter(key).awaits_end = None;
            return self.stop(step, key, last);
        }
        let Some(usable) = self.usable(step.config, key) else { return };
        let replaced = self.open_grants(key).filter(|grant| grant.epoch < usable.epoch);
        let Some(replaced) = replaced.map(|grant| grant.epoch).max() else { return };
        if !self.counter(key).holds_takes(replaced) {
            self.stop(step, key, replaced);
        }
    }

    /// Returns whether a reader waits for the end of the epochs, and the updates that came before
    /// it have got their tokens, or have waited too long.
    fn must_end(&self, step: &Step<'_>, key: &Key) -> bool {
        let Some(counter) = self.counters.get(key) else { return false };
        let Some(since) = counter.awaits_end else { return false };
        let used = counter.used.is_some_and(|used| used > since);
        let served = counter.takes.is_empty() || used;
        served && !counter.holds_takes(Epoch(u64::MAX))
            || step.now.since(since) >= step.config.timing.patience / 4
    }

    /// Returns whether a transaction waits for a token or may ask for a promise.
    fn uses_tokens(&self, key: &Key) -> bool {
        let all = Epoch(u64::MAX);
        self.counters
            .get(key)
            .is_some_and(|counter| !counter.takes.is_empty() || counter.holds_takes(all))
    }

    /// Refuses promises under an epoch and earlier ones from now on.
    pub(super) fn stop(&mut self, step: &mut Step<'_>, key: &Key, epoch: Epoch) {
        self.changing_tokens(key, |it| it.counter(key).stopped = epoch);
        if step.config.has(Rule::DurableStops) {
            step.record(&Record::Stopped { partition: self.id, key: key.clone(), epoch });
        }
    }

    /// Writes the end of a stopped epoch when none of its promises is open (H7).
    pub(super) fn write_end(&mut self, step: &mut Step<'_>, key: &Key) {
        let (partition, me, waits) = (self.id, self.me, step.config.has(Rule::EndAfterPromises));
        let counter = self.counter(key);
        let epoch = counter.stopped;
        if counter.ending || epoch <= counter.last_end(me) {
            return;
        }
        if !(counter.has_promised(epoch) && waits) {
            counter.ending = true;
            ask_to_end(step, partition, key, epoch);
        }
    }

    /// Ends the site's epochs if a read elsewhere waits because of tokens that do not fit. Updates
    /// that wait or are under way come first: otherwise, reads could end each grant before its use.
    pub(super) fn end_for_reader(&mut self, step: &mut Step<'_>, key: &Key) {
        let Some(policy) = step.config.policy(key) else { return };
        let Some(record) = self.record(key) else { return };
        let too_many = record.total_with(None) > policy.capacity(record.floor);
        if !too_many || !step.config.has(Rule::EndForReader) {
            return;
        }
        let least = self.least_value(step.config, key);
        if policy.width(least, least) > 0 {
            self.counter(key).narrowed = Some(step.now);
        }
        if self.uses_tokens(key) && self.open_grants(key).next().is_some() {
            self.counter(key).awaits_end.get_or_insert(step.now);
            self.visit_soon(step, key);
        } else {
            self.end_all(step, key, rare::STOPPED_FOR_READER);
        }
    }

    /// Ends the site's epochs if they are idle and another site needs tokens. Otherwise the site
    /// changes to a grant that is not larger than its share.
    pub(super) fn end_for_holder(&mut self, step: &mut Step<'_>, key: &Key) {
        let Some(policy) = step.config.policy(key) else { return };
        let used = self.counters.get(key).and_then(|counter| counter.used);
        let idle = used.is_none_or(|used| step.now.since(used) >= policy.lease / 4);
        if !idle || self.uses_tokens(key) {
            self.counter(key).shrinks = true;
            self.visit_soon(step, key);
        } else {
            self.end_all(step, key, rare::STOPPED_FOR_HOLDER);
        }
    }

    fn end_all(&mut self, step: &mut Step<'_>, key: &Key, path: solera_machine::RarePath) {
        let Some(last) = self.open_grants(key).map(|grant| grant.epoch).max() else { return };
        step.rare(path);
        self.visit_at(step.now, key);
        self.stop(step, key, last);
        self.write_end(step, key);
    }

    // The record of a key.

    /// Returns the next change of the key's record that the site needs.
    fn wanted_change(&mut self, step: &mut Step<'_>, key: &Key, policy: Policy) -> Option<Change> {
        if let Some(change) = self.urgent_request(step, key, policy) {
            return Some(change);
        }
        let reclaimed = self.reclaimable(step, key);
        if let Some(Grant { site, epoch, .. }) = reclaimed {
            return Some(Change::Reclaim { key: key.clone(), site, epoch });
        }
        if self.may_raise(step, key) {
            return Some(Change::Raise { key: key.clone() });
        }
        if let Some(floor) = self.abandons_raise(step, key) {
            return Some(Change::Lower { key: key.clone(), floor });
        }
        self.wanted_tokens(step, key, policy).or_else(|| self.lower_floor(step, key, policy))
    }

    /// Returns a grant that can be removed: all readers have seen its end (S2). Its holder removes
    /// it, or a site that needs the room. A holder with few such grants waits until the key is not
    /// used, because each removal conflicts with requests for tokens that others make meanwhile.
    fn reclaimable(&self, step: &Step<'_>, key: &Key) -> Option<Grant> {
        let (record, counter) = (self.record(key)?, self.counters.get(key)?);
        self.agreed.reader_sites().next()?;
        let is_gone = |grant: &Grant| {
            let site = grant.site;
            let removal = self.agreed.removed.get(&site).filter(|_| self.agreed.is_over(grant));
            let Some(removal) = removal else { return false };
            let mut readers = self.agreed.reader_sites().filter(|reader| *reader != self.me);
            readers.all(|reader| self.version_of(reader) >= removal.version)
                && self.seen_by_readers(step.config, site) >= removal.upto
        };
        let is_over = |grant: &&Grant| {
            let ended = counter.ended.get(&grant.site);
            ended.is_some_and(|(epoch, position)| {
                *epoch >= grant.epoch && self.seen_by_readers(step.config, grant.site) >= *position
            }) || is_gone(grant)
                || !step.config.has(Rule::ReclaimAfterEnd) && grant.site != self.me
        };
        let mut grants = record.grants.iter();
        let own = record.grants.iter().filter(|grant| grant.site == self.me).count();
        let is_quiet = counter.takes.is_empty()
            && counter.used.is_none_or(|used| step.now.since(used) >= step.config.timing.retry);
        let may = |grant: &&Grant| {
            let tidies = grant.site == self.me && (is_quiet || own > FEW_GRANTS);
            let frees = counter.wants_room && record.counts(grant);
            tidies || frees || self.agreed.is_over(grant)
        };
        grants.find(|grant| may(grant) && is_over(grant)).copied()
    }

    /// Returns whether the proposed floor can be put in force (S5): all holders of decrements
    /// respect it, the value was not below it afterwards, and enough sites store the updates on
    /// which this depends. They remain if a site is removed.
    fn may_raise(&mut self, step: &Step<'_>, key: &Key) -> bool {
        let Some(record) = self.record(key) else { return false };
        let Some((floor, proposed)) = record.raise else { return false };
        let mut holders = record.grants.iter().filter(|grant| grant.tokens.decrements > 0);
        let confirmed = |site: SiteId| match site == self.me {
            true => self.agreed.version >= proposed,
            false => self.heard[site.index()].version >= proposed,
        };
        let respected = holders.all(|grant| confirmed(grant.site));
        let Ok(reader) = self.ready(step.config) else { return false };
        let may = (respected || !step.config.has(Rule::RaiseAfterHolders))
            && self.is_leased(reader.term, step.now);
        if !may {
            return false;
        }
        let above = self.least_stored(step.config, key) >= floor.into();
        let above = above || !step.config.has(Rule::RaiseBelowValue);
        let known = self.known.clone();
        let basis = &mut self.counter(key).raise_basis;
        if basis.as_ref().is_none_or(|(version, _)| *version != proposed) {
            *basis = above.then_some((proposed, known));
        }
        let basis = basis.as_ref().map(|(_, seen)| seen.clone());
        basis.is_some_and(|seen| self.is_stored(step, &seen))
    }

    /// Returns the least value without updates of the site that its stream does not contain yet. A
    /// size may contain them, and no other site need store them.
    fn least_stored(&self, config: &Config, key: &[u8]) -> i128 {
        let promised = self.counters.get(key).map_or(Tokens::default(), Counter::promised_tokens);
        let early = match config.bound(key) {
            Some(Bound::Size(_)) if config.has(Rule::StoredSizes) => promised.increments,
            _ => 0,
        };
        self.least_value(config, key) - i128::from(early)
    }

    /// Returns the floor in force if the proposed one is too high, and no update waits for it. It
    /// would otherwise remain for ever.
    fn abandons_raise(&self, step: &Step<'_>, key: &Key) -> Option<Option<i64>> {
        let record = self.record(key)?;
        let (floor, proposed) = record.raise?;
        let counter = self.counters.get(key)?;
        let may_follow = counter.raise_basis.as_ref().is_some_and(|(of, _)| *of == proposed);
        let too_high = self.least_value(step.config, key) < floor.into();
        let is_ready = self.is_ready(step.config) && self.oldest(step.config) >= proposed;
        (too_high && is_ready && !may_follow && counter.takes.is_empty()).then_some(record.floor)
    }

    /// Returns whether enough sites store these prefixes.
    fn is_stored(&self, step: &Step<'_>, prefixes: &[Position]) -> bool {
        let copies = |place: usize, position: Position| {
            let has = |site: SiteId| self.heard[site.index()].seen[place] >= position;
            1 + self.others().filter(|site| has(*site)).count()
        };
        let mut places = prefixes.iter().enumerate();
        places.all(|(place, position)| copies(place, *position) >= step.config.copies)
            || !step.config.has(Rule::RaiseStored)
    }

    /// Returns a proposal of a higher floor, if it permits clearly more tokens (S5).
    pub(super) fn propose(&self, step: &Step<'_>, key: &Key, policy: Policy) -> Option<Change> {
        self.ready(step.config).ok()?;
        let record = self.record(key);
        let current = record.and_then(|record| record.floor);
        // A floor above what a waiting decrement leaves would have to be given up at once.
        let left = self.least_value(step.config, key) - i128::from(self.heads(key).decrements);
        let least = clamped(left).max(0);
        let floor = least - least / 8;
        let (more, now) = (policy.capacity(Some(floor)), policy.capacity(current));
        let worth = more >= policy.spare.into() && more > now + now / 4;
        let proposed = record.is_some_and(|record| record.raise.is_some());
        (worth && !proposed && Some(floor) > current)
            .then(|| Change::Propose { key: key.clone(), floor })
    }

    /// Returns a change to a lower floor, if a decrement waits for it (S5).
    fn lower_floor(&mut self, step: &mut Step<'_>, key: &Key, policy: Policy) -> Option<Change> {
        let heads = self.heads(key);
        let decrement = Tokens { increments: 0, ..heads };
        let at_floor = !decrement.is_none()
            && self.may_take(step.config, key, decrement) == Err(Cannot::AtFloor);
        if !at_floor {
            return None;
        }
        let record = self.record(key)?.clone();
        let left = self.least_value(step.config, key) - i128::from(decrement.decrements);
        if record.respected().is_none_or(|floor| i128::from(floor) <= left) {
            // Readers may still use a version with a higher one.
            self.need(step, key, Need::Reports);
            return None;
        }
        let key = key.clone();
        if record.floor.is_none_or(|floor| i128::from(floor) <= left) {
            // It gives up the proposal.
            return Some(Change::Lower { key, floor: record.floor });
        }
        let left = clamped(left).max(0);
        for floor in [left - left / 4, left] {
            let floor =
                Some(floor).filter(|floor| policy.capacity(Some(*floor)) >= policy.spare.into());
            if self.fits(policy, (&record, floor), Tokens::default(), heads) {
                return Some(Change::Lower { key, floor });
            }
        }
        self.make_room(step, &key);
        None
    }
}

fn ask_to_end(step: &mut Step<'_>, partition: PartitionId, key: &Key, epoch: Epoch) {
    let question = Question::End { partition, key: key.clone(), epoch };
    step.ask(partition, Subject::End(key.clone()), question);
}

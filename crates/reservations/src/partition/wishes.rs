//! Requests for tokens: how many a site asks for, and how it makes room for them.

use std::collections::BTreeSet;

use solera_time::SiteId;

use super::Partition;
use super::grants::FEW_GRANTS;
use crate::agreed::{Change, Key, KeyRecord};
use crate::config::{Policy, Rule};
use crate::message::Need;
use crate::numbers::{Epoch, Kind, Tokens};
use crate::outbox::Step;

/// Number of leases after a read elsewhere has waited because of too many tokens, during which a
/// site requests fewer.
const NARROW_LEASES: u32 = 10;

/// Tokens of a key that a site may request.
struct Wish {
    /// Tokens of its newest grant.
    granted: Tokens,
    /// Tokens that it has after the request.
    desired: Tokens,
    /// Least number that waiting updates need.
    least: Tokens,
    /// First waiting update of each kind.
    heads: Tokens,
    /// Whether it would use more if its share was larger.
    wants_more: bool,
    /// Whether it changes to a smaller grant.
    shrinks: bool,
}

impl Partition {
    /// Returns the first waiting update of each kind.
    pub(super) fn heads(&self, key: &Key) -> Tokens {
        let Some(counter) = self.counters.get(key) else { return Tokens::default() };
        Tokens::by_kind(|kind| {
            let mut waiting = counter.takes.iter().map(|take| take.tokens.get(kind));
            waiting.find(|tokens| *tokens > 0).unwrap_or(0)
        })
    }

    /// Returns whether the tokens of a record fit a floor (S1). One site alone may have more for an
    /// update that is larger than all tokens; reads then wait.
    pub(super) fn fits(
        &self,
        policy: Policy,
        (record, floor): (&KeyRecord, Option<i64>),
        added: Tokens,
        heads: Tokens,
    ) -> bool {
        let total = record.total_with(Some((self.me, added)));
        let alone = record.grants.iter().all(|grant| grant.site == self.me);
        let room = policy.room(floor);
        total <= room || alone && heads.total() > room
    }

    /// Returns the number of tokens of a kind that a site requests without need: a part of what the
    /// value permits. There is a part for each site and kind that uses tokens, and at least two, so
    /// that the second site need not wait for the first one to shrink.
    ///
    /// A site's interval does not count its own tokens. If only the holders read, all but one part
    /// must thus fit the value. This is assumed until a read elsewhere waits.
    fn share(&self, step: &Step<'_>, policy: Policy, key: &Key) -> u64 {
        let Some(counter) = self.counters.get(key) else { return 1 };
        let mut parts: BTreeSet<(SiteId, Kind)> = BTreeSet::new();
        let grants = self.record(key).map_or(&[][..], |record| &record.grants);
        for grant in grants.iter().filter(|it| it.epoch > counter.last_end(it.site)) {
            let kinds = Kind::BOTH.into_iter().filter(|kind| grant.tokens.get(*kind) > 0);
            parts.extend(kinds.map(|kind| (grant.site, kind)));
        }
        let waiting = counter.waiting_tokens();
        let kinds = Kind::BOTH.into_iter().filter(|kind| waiting.get(*kind) > 0);
        parts.extend(kinds.map(|kind| (self.me, kind)));
        // The site that needs room may have no tokens yet.
        let parts = (parts.len() + usize::from(counter.shrinks)).max(2) as u128;

        let least = self.least_value(step.config, key);
        let floor = self.floor(key);
        let (room, capacity) = (policy.room(floor), policy.capacity(floor));
        let fitting = policy.width(least, least).max(capacity);
        let is_recent = |at| step.now.since(at) < policy.lease.saturating_mul(NARROW_LEASES);
        let is_narrow = counter.narrowed.is_some_and(is_recent);
        let share = match fitting {
            // A single token makes reads wait. Then a few of them serve all updates that wait.
            0 => room / parts,
            _ if is_narrow => fitting.min(room) / parts,
            _ => (fitting / (parts - 1)).min(room / parts),
        };
        u64::try_from(share.max(1)).unwrap_or(u64::MAX)
    }

    /// Returns the tokens that the site may request; `None` if it needs none.
    fn wish(&self, step: &Step<'_>, policy: Policy, key: &Key) -> Option<Wish> {
        let newest = self.open_grants(key).max_by_key(|grant| grant.epoch);
        let (share, heads) = (self.share(step, policy, key), self.heads(key));
        let counter = self.counters.get(key)?;
        let in_use = counter.in_hand().plus(counter.unseen_tokens());
        let demand = in_use.plus(counter.waiting_tokens());
        let demand = demand.plus(demand);
        let granted = newest.map_or(Tokens::default(), |grant| grant.tokens);
        let desired = Tokens::by_kind(|kind| {
            let kept = granted.get(kind).min(share);
            demand.get(kind).min(share).max(kept).max(heads.get(kind))
        });
        let least = heads.most(Tokens::by_kind(|kind| match heads.get(kind) {
            0 => 0,
            _ => granted.get(kind),
        }));
        let shrinks = counter.shrinks && !desired.covers(granted);
        let wants_more = !desired.covers(demand);
        let needs = !heads.is_none() || self.is_half_used(key) || shrinks;
        needs.then_some(Wish { granted, desired, least, heads, wants_more, shrinks })
    }

    /// Returns a request for tokens if an update waits for them, and they fit. It comes before the
    /// removal of ended grants.
    pub(super) fn urgent_request(
        &self,
        step: &Step<'_>,
        key: &Key,
        policy: Policy,
    ) -> Option<Change> {
        let grants = self.record(key).map_or(&[][..], |record| &record.grants);
        let own = grants.iter().filter(|grant| grant.site == self.me).count();
        if self.agreed.closed.is_some() || own > 2 * FEW_GRANTS {
            return None;
        }
        let wish = self.wish(step, policy, key)?;
        let waits = !wish.heads.is_none() && !wish.granted.covers(wish.desired);
        waits.then(|| self.fitting_request(step, key, policy, &wish)).flatten()
    }

    /// Returns a request for tokens, or a proposal of a floor that permits more of them.
    pub(super) fn wanted_tokens(
        &mut self,
        step: &mut Step<'_>,
        key: &Key,
        policy: Policy,
    ) -> Option<Change> {
        if self.agreed.closed.is_some() {
            return None;
        }
        let Some(wish) = self.wish(step, policy, key) else {
            self.counter(key).wants_room = false;
            return None;
        };
        let Wish { granted, heads, .. } = wish;
        let counter = self.counter(key);
        counter.wants_room = wish.wants_more;
        counter.shrinks = wish.shrinks;
        if !granted.covers(wish.desired) || wish.shrinks {
            let change = self.fitting_request(step, key, policy, &wish);
            if change.is_some() {
                return change;
            }
            if !granted.covers(heads) {
                self.make_room(step, key);
            } else if !heads.is_none() {
                // Its few tokens serve one request after the other, while others may have more than
                // their share.
                self.need(step, key, Need::Room);
            }
        }
        self.propose(step, key, policy).filter(|_| wish.wants_more)
    }

    /// Returns a request for the desired tokens, or at least for those that waiting updates need
    /// now, if it fits.
    fn fitting_request(
        &self,
        step: &Step<'_>,
        key: &Key,
        policy: Policy,
        wish: &Wish,
    ) -> Option<Change> {
        [wish.desired, wish.least].into_iter().find_map(|tokens| {
            self.request(step, (key, policy), tokens, wish.heads)
                .filter(|_| wish.shrinks || !wish.granted.covers(tokens))
        })
    }

    /// Returns a request for a grant, if it fits (S1), or replaces tokens that the site has
    /// already.
    fn request(
        &self,
        step: &Step<'_>,
        (key, policy): (&Key, Policy),
        tokens: Tokens,
        heads: Tokens,
    ) -> Option<Change> {
        let nothing = KeyRecord::default();
        let record = self.record(key).unwrap_or(&nothing);
        let replaces = record.total_with(Some((self.me, tokens))) == record.total_with(None);
        let fits = replaces || self.fits(policy, (record, record.floor), tokens, heads);
        let last = record.epochs.get(&self.me).copied().unwrap_or_default();
        let (site, epoch) = (self.me, Epoch(last.0.saturating_add(1)));
        (fits || !step.config.has(Rule::Capacity)).then(|| Change::Grant {
            key: key.clone(),
            site,
            epoch,
            tokens,
        })
    }

    /// Asks others to end idle epochs, and ends the site's own ones if they are.
    pub(super) fn make_room(&mut self, step: &mut Step<'_>, key: &Key) {
        self.counter(key).wants_room = true;
        self.need(step, key, Need::Room);
        let last = self.open_grants(key).map(|grant| grant.epoch).max();
        if let Some(last) = last.filter(|last| !self.counter(key).holds_takes(*last)) {
            self.stop(step, key, last);
            self.write_end(step, key);
        }
    }
}

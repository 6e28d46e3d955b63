//! Times after which sites give up their tokens and their right to answer. Only the site itself
//! knows them, so it is asked.

use std::collections::BTreeMap;
use std::time::Duration;

use solera_machine::RequestId;
use solera_time::{Monotonic, SiteId};

use super::Partition;
use crate::agreed::Key;
use crate::command::{Expiry, Holder, Response};
use crate::counter::Expiries;
use crate::message::Body;
use crate::numbers::{Nonce, Tokens};
use crate::outbox::Step;

impl Partition {
    /// Replies with the sites that have tokens of a key or the right to answer, after these have
    /// answered when they give them up, or after `within`.
    pub(super) fn on_token_holders(
        &mut self,
        step: &mut Step<'_>,
        (key, request): (&Key, RequestId),
        within: Duration,
    ) {
        let until = step.now.after(within);
        let (nonce, now) = (step.nonce(), step.now);
        let begins = self.counter(key).expiries.is_none();
        let empty = Expiries { nonce, sent: now, requests: Vec::new(), heard: BTreeMap::new() };
        let expiries = self.counter(key).expiries.get_or_insert(empty);
        expiries.requests.push((request, until));
        self.waiting.insert(key.clone());
        if begins {
            self.send_expiry_requests(step, key);
        }
        self.look_after_expiries(step, key);
        self.look_after(step, key);
    }

    /// Returns the other sites that have tokens or the right to answer, and have not answered.
    fn unheard(&self, key: &Key) -> Vec<SiteId> {
        let heard = self.counters.get(key).and_then(|counter| counter.expiries.as_ref());
        let has_answered =
            |site: &SiteId| heard.is_some_and(|expiries| expiries.heard.contains_key(site));
        let holders = self.token_holders(key).map(|(site, ..)| site);
        holders.filter(|site| *site != self.me && !has_answered(site)).collect()
    }

    fn send_expiry_requests(&mut self, step: &mut Step<'_>, key: &Key) {
        let (id, to) = (self.id, self.unheard(key));
        let Some(expiries) = &mut self.counter(key).expiries else { return };
        expiries.sent = step.now;
        let nonce = expiries.nonce;
        for site in to {
            step.send(id, site, Body::ExpiryRequest { key: key.clone(), nonce });
        }
    }

    /// Asks again, and replies to clients that have waited long enough.
    pub(super) fn look_after_expiries(&mut self, step: &mut Step<'_>, key: &Key) {
        let now = step.now;
        let Some(expiries) = self.counters.get(key).and_then(|it| it.expiries.as_ref()) else {
            return;
        };
        let is_due = now.since(expiries.sent) >= step.config.timing.retry;
        let is_complete = self.unheard(key).is_empty();
        let is_over = |(_, until): &(RequestId, Monotonic)| is_complete || *until <= now;
        let (over, waits): (Vec<_>, Vec<_>) = expiries.requests.iter().copied().partition(is_over);
        if !over.is_empty() {
            let holders = self.holders_with_expiry(step, key);
            for (request, _) in over {
                step.reply(request, Response::Holders(holders.clone()));
            }
        }
        if waits.is_empty() {
            self.counter(key).expiries = None;
        } else if let Some(expiries) = &mut self.counter(key).expiries {
            expiries.requests = waits;
            if is_due {
                self.send_expiry_requests(step, key);
            }
        }
    }

    /// Answers a request of another site.
    pub(super) fn on_expiry_request(
        &mut self,
        step: &mut Step<'_>,
        from: SiteId,
        (key, nonce): (Key, Nonce),
    ) {
        if step.config.policy(&key).is_some() {
            let expiry = self.own_expiry(step, &key);
            step.send(self.id, from, Body::Expiry { key, nonce, expiry });
        }
    }

    /// Takes the answer of a site.
    pub(super) fn on_expiry(
        &mut self,
        step: &mut Step<'_>,
        from: SiteId,
        (key, nonce, expiry): (&Key, Nonce, Expiry),
    ) {
        let now = step.now;
        let expiries = self.counters.get_mut(key).and_then(|counter| counter.expiries.as_mut());
        if let Some(expiries) = expiries.filter(|expiries| expiries.nonce == nonce) {
            expiries.heard.insert(from, (expiry, now));
            self.look_after_expiries(step, key);
        }
    }

    fn own_expiry(&self, step: &Step<'_>, key: &Key) -> Expiry {
        Expiry { lease: self.lease_left(step.now), unused: self.use_left(step, key) }
    }

    /// Returns the sites with tokens of a key, or with the right to answer: the tokens, and whether
    /// the site may answer.
    fn token_holders(&self, key: &Key) -> impl Iterator<Item = (SiteId, Tokens, bool)> {
        SiteId::all(self.known.len()).filter_map(|site| {
            let grants = self.record(key).map_or(&[][..], |record| &record.grants);
            let own = grants.iter().filter(|it| it.site == site && !self.agreed.is_over(it));
            let tokens = own.fold(Tokens::default(), |most, grant| most.most(grant.tokens));
            let answers = self.agreed.reader(site).is_some();
            (answers || !tokens.is_none()).then_some((site, tokens, answers))
        })
    }

    fn holders_with_expiry(&self, step: &Step<'_>, key: &Key) -> Vec<Holder> {
        let expiries = self.counters.get(key).and_then(|counter| counter.expiries.as_ref());
        let heard = |site: SiteId| {
            let (expiry, at) = expiries?.heard.get(&site)?;
            Some(expiry.after(step.now.since(*at)))
        };
        let holders = self.token_holders(key).map(|(site, tokens, answers)| {
            let expiry = match site == self.me {
                true => self.own_expiry(step, key),
                false => heard(site).unwrap_or_default(),
            };
            Holder::Tokens { site, tokens, answers, expiry }
        });
        holders.collect()
    }
}

//! Rights of keys: how sites give each other rights, and count those of all sites. See `rights`.

use std::collections::{BTreeMap, BTreeSet};

use solera_machine::RequestId;
use solera_time::{Monotonic, SiteId, Vector};

use super::{Partition, clamped};
use crate::agreed::Key;
use crate::command::{Cannot, Holder, Placed, Question, Response};
use crate::config::{Bound, Config, Rule};
use crate::counter::{Asked, WaitingTake};
use crate::message::Body;
use crate::numbers::{Epoch, Nonce, Position, Tokens};
use crate::outbox::{Step, Subject};
use crate::rare;
use crate::rights::{Count, Counted, Gift, Owner};

/// What the list of sites says that counts and gifts depend on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listed {
    /// Sites other than this one that may have rights: all that were not removed.
    pub(crate) asked: Vec<SiteId>,
    /// Generation of each site.
    pub(crate) generations: Vec<u32>,
    /// Which generations have ended: the present one of a removed site, and all earlier ones.
    pub(crate) gone: Vec<bool>,
    /// What remains of the last removed generation of each site, if any was removed.
    pub(crate) cuts: Vec<Position>,
    /// Stage of each site. Sites with equal stages have the same list.
    pub(crate) stages: Vec<u64>,
    /// The site's present generation begins after this position of its stream; `None` if the list
    /// does not say it yet.
    pub(crate) begins: Option<Position>,
}

impl Listed {
    fn is_over(&self, owner: &Owner) -> bool {
        let place = owner.site.index();
        let present = self.generations.get(place).copied().unwrap_or_default();
        let gone = self.gone.get(place).copied().unwrap_or_default();
        owner.generation < present || owner.generation == present && gone
    }
}

impl Partition {
    pub(crate) fn set_listed(&mut self, listed: Listed) {
        if self.listed.stages != listed.stages {
            // An open count may lack a site.
            for key in &self.waiting {
                if let Some(counter) = self.counters.get_mut(key) {
                    counter.rights.count = None;
                }
            }
        }
        self.listed = listed;
    }

    fn owner(&self, config: &Config, site: SiteId) -> Owner {
        let generation = match site == self.me {
            true => config.generation,
            false => self.listed.generations.get(site.index()).copied().unwrap_or_default(),
        };
        Owner { site, generation }
    }

    /// Returns the rights that no transaction of the site has, and that are not being given.
    fn available(&self, config: &Config, key: &[u8]) -> i128 {
        let Some(counter) = self.counters.get(key) else { return 0 };
        let in_hand = match config.has(Rule::KeepPromised) {
            true => counter.in_hand(),
            false => Tokens::default(),
        };
        counter.rights.tally.held() - i128::from(in_hand.decrements)
    }

    /// Returns whether a transaction may take rights now (B2).
    pub(super) fn may_spend(
        &self,
        config: &Config,
        key: &[u8],
        tokens: Tokens,
    ) -> Result<(), Cannot> {
        let serves = self.agreed.remains(self.me).is_none() && self.filling.is_filled();
        let enough = i128::from(tokens.decrements) <= self.available(config, key);
        match tokens.decrements == 0 || serves && enough {
            true => Ok(()),
            false => Err(Cannot::Uncounted),
        }
    }

    /// Adds what the snapshot of a transaction must contain that spends rights. Otherwise a site
    /// could show the decrement without the increment on which it depends.
    pub(crate) fn add_rights_past(&self, key: &[u8], past: &mut Vector) {
        if let Some(needed) = self.rights_past(key) {
            past.join(&needed);
        }
    }

    /// Returns what a snapshot must contain to contain the rights that are used or in hand.
    fn rights_past(&self, key: &[u8]) -> Option<Vector> {
        let counter = self.counters.get(key)?;
        let (_, used) = counter.rights.tally.got_and_used();
        let used = used.saturating_add(counter.in_hand().decrements.into());
        counter.rights.pasts.of(used).copied()
    }

    /// Removes what an earlier generation of this site has done, whose rights are lost (B4).
    pub(super) fn burn(&self, config: &Config, entries: &mut Vec<Placed>) {
        if !config.has(Rule::BurnRemoved) {
            return;
        }
        let begins = self.listed.begins.unwrap_or_default();
        entries.retain(|placed| placed.position > begins || !config.has_rights(&placed.key));
    }

    /// Returns whether the site knows which entries of its stream are those of its present
    /// generation.
    pub(super) fn knows_begin(&self, config: &Config) -> bool {
        let has_rights = |(_, bound): &(Vec<u8>, _)| *bound == Some(Bound::Rights);
        config.generation == 0
            || self.listed.begins.is_some()
            || !config.bounds.iter().any(has_rights)
    }

    /// Applies a gift (B3). Recovery calls it, too.
    pub(super) fn apply_gift(
        &mut self,
        config: &Config,
        key: &[u8],
        own: bool,
        (gift, past): (&Gift, &Vector),
    ) {
        let me = Owner { site: self.me, generation: config.generation };
        let is_mine = match config.has(Rule::BurnRemoved) {
            true => gift.to == me,
            false => gift.to.site == me.site,
        };
        let counter = self.counter(key);
        if own && config.has(Rule::SubtractGiven) {
            counter.rights.tally.note_given(gift);
        }
        if is_mine {
            counter.rights.tally.note_received(gift);
            counter.rights.depend_on(past);
            // The request was answered. Another one need not wait.
            counter.rights.next_want = None;
        }
    }

    /// Ends the wait for a gift to reach the site's stream.
    pub(super) fn end_giving(&mut self, key: &Key, gift: &Gift) {
        let counter = self.counter(key);
        if let Some(place) = counter.rights.giving.iter().position(|giving| giving == gift) {
            counter.rights.giving.remove(place);
            counter.end_promise(Epoch(0), of_gift(gift));
        }
    }

    /// Restores a gift that the site has committed before the process started, and that is not in
    /// its stream yet.
    pub(crate) fn restore_giving(&mut self, config: &Config, key: &Key, gift: Gift) {
        if config.has(Rule::RestoreCommits) {
            self.begin_giving(key, gift);
        }
    }

    fn begin_giving(&mut self, key: &Key, gift: Gift) {
        let counter = self.counter(key);
        counter.rights.giving.push(gift);
        counter.promise(Epoch(0), of_gift(&gift));
    }

    /// Does what is due about a key with rights.
    pub(super) fn look_after_rights(&mut self, step: &mut Step<'_>, key: &Key) {
        self.expire(step, key);
        if self.filling.is_filled() {
            self.count(step, key);
            self.want(step, key);
        }
        self.plan_visit(step, key);
    }

    // Gifts.

    /// Notes that the site may have got rights.
    pub(super) fn note_available(&mut self, config: &Config, key: &[u8]) {
        if config.has_rights(key) {
            let available = self.available(config, key);
            let most = &mut self.counter(key).rights.most;
            *most = available.max(*most);
        }
    }

    /// Returns whether few rights are left, so that the site requests some ahead of need.
    pub(super) fn has_few(&self, config: &Config, key: &[u8]) -> bool {
        let most = self.counters.get(key).map_or(0, |counter| counter.rights.most);
        config.has_rights(key) && self.available(config, key).saturating_mul(2) < most
    }

    /// Requests rights if some are needed or will soon be (B3).
    fn want(&mut self, step: &mut Step<'_>, key: &Key) {
        let available = self.available(step.config, key);
        let few = self.has_few(step.config, key);
        let now = step.now;
        let counter = self.counter(key);
        let wanted = counter.takes.iter().find(|take| take.tokens.decrements > 0).cloned();
        if wanted.is_none() && !few || counter.rights.next_want.is_some_and(|at| at > now) {
            return;
        }
        counter.rights.next_want = Some(now.after(step.config.timing.retry));
        // Without an answer, it asks again when half of what is left is used.
        counter.rights.most = available;
        let has = u64::try_from(available).unwrap_or_default();
        let amount = wanted.as_ref().map_or(0, |take| take.tokens.decrements.saturating_sub(has));
        let waits = wanted.map_or(0, |take| take.tokens.decrements);
        let to = self.owner(step.config, self.me);
        for site in self.listed.asked.clone() {
            let from = self.owner(step.config, site);
            let received = &self.counter(key).rights.tally.received;
            let received = received.get(&from).copied().unwrap_or_default();
            let body = Body::Want { key: key.clone(), to, amount, has, waits, received };
            step.send(self.id, site, body);
        }
    }

    /// Gives rights to a site that requests some (B3).
    pub(super) fn on_want(
        &mut self,
        step: &mut Step<'_>,
        (key, to): (&Key, Owner),
        (amount, has, waits): (u64, u64, u64),
        received: u128,
    ) {
        if !step.config.has_rights(key) || self.agreed.remains(self.me).is_some() {
            return;
        }
        let config = step.config;
        let (from, available) = (self.owner(config, self.me), self.available(config, key));
        let now = step.now;
        let Some(counter) = self.counters.get_mut(key) else { return };
        counter.rights.heard.insert(to.site, (has, now));
        let rights = &self.counter(key).rights;
        let under_way = rights.giving.iter().filter(|gift| gift.to == to).map(|gift| gift.amount);
        let under_way = under_way.map(u128::from).sum::<u128>()
            + rights.tally.given.get(&to).copied().unwrap_or_default().saturating_sub(received);
        let under_way = u64::try_from(under_way).unwrap_or(u64::MAX);
        // Of two sites that wait, the one that waits for fewer rights gets them. Otherwise each
        // could keep what the other one needs.
        let me = self.me;
        let mut own = self.counter(key).takes.iter().map(|take| take.tokens.decrements);
        let own = own.find(|decrements| *decrements > 0);
        let keeps = own.is_some_and(|own| (own, me) < (waits, to.site));
        let needed = amount.saturating_sub(under_way);
        let has = i128::from(has) + i128::from(under_way);
        let half = (available - has) / 2;
        let given = match needed {
            _ if keeps => 0,
            0 if available > 2 * has + 1 && under_way == 0 && own.is_none() => half,
            0 => 0,
            _ if own.is_some() => available.min(needed.into()),
            _ => half.max(needed.into()).min(available),
        };
        let amount = u64::try_from(given).unwrap_or_default();
        if amount == 0 || self.listed.is_over(&to) {
            return;
        }
        step.rare(rare::GIVEN);
        let gift = Gift { from, to, amount };
        self.begin_giving(key, gift);
        let (partition, key) = (self.id, key.clone());
        let subject = Subject::Gift(key.clone(), gift);
        let past = self.rights_past(&key);
        step.ask(partition, subject, Question::Give { partition, key, gift, past });
    }

    /// Takes the answer to a question about a gift: the gift was certainly not written.
    pub(crate) fn gift_refused(&mut self, key: &Key, gift: &Gift) {
        self.end_giving(key, gift);
        self.visit_at(Monotonic(0), key);
    }

    // Counts.

    /// Returns what the site has at this moment.
    fn own_count(&self, config: &Config, key: &[u8]) -> Counted {
        let Some(counter) = self.counters.get(key) else { return Counted::default() };
        // Gifts do not change the number of rights.
        let giving = counter.rights.giving.iter().map(of_gift);
        // Updates without a promise have committed.
        let of_key = self.spent.values().flatten().filter(|spent| spent.key == key);
        let committed = of_key.map(|spent| spent.tokens).fold(Tokens::default(), Tokens::plus);
        let mut tally = counter.rights.tally.clone();
        tally.note_created(committed.increments);
        tally.note_spent(committed.decrements);
        let known = giving.fold(committed, Tokens::plus);
        match config.has(Rule::CountOpen) {
            true => Counted { tally, open: counter.promised_tokens().minus(known) },
            false => Counted { tally: counter.rights.tally.clone(), open: Tokens::default() },
        }
    }

    /// Begins a count if somebody waits for one, or sends its requests again.
    fn count(&mut self, step: &mut Step<'_>, key: &Key) {
        let (nonce, own) = (step.nonce(), self.own_count(step.config, key));
        let (me, now) = (self.me, step.now);
        let counter = self.counter(key);
        let waits = !counter.reads.is_empty()
            || counter.takes.iter().any(|take| take.tokens.decrements > 0);
        if !waits {
            counter.rights.count = None;
            return;
        }
        match &counter.rights.count {
            Some(count) if now.since(count.sent) < step.config.timing.retry => return,
            Some(_) => {}
            None => {
                counter.rights.count = Some(Count {
                    nonce,
                    sent: now,
                    first: BTreeMap::from([(me, own)]),
                    second: BTreeMap::new(),
                    serves: None,
                });
            }
        }
        self.send_round(step, key);
        self.go_on_counting(step, key);
    }

    fn send_round(&mut self, step: &mut Step<'_>, key: &Key) {
        let (id, asked, now) = (self.id, self.listed.asked.clone(), step.now);
        let Some(count) = &mut self.counter(key).rights.count else { return };
        count.sent = now;
        let answered = if count.serves.is_some() { &count.second } else { &count.first };
        let nonce = count.nonce;
        let missing: Vec<SiteId> =
            asked.into_iter().filter(|site| !answered.contains_key(site)).collect();
        for site in missing {
            step.send(id, site, Body::CountRequest { key: key.clone(), nonce });
        }
    }

    /// Answers a request to count.
    pub(super) fn on_count_request(
        &mut self,
        step: &mut Step<'_>,
        from: SiteId,
        (key, nonce): (&Key, Nonce),
    ) {
        if step.config.has_rights(key) && self.agreed.remains(self.me).is_none() {
            let counted = self.own_count(step.config, key);
            let (seen, stages) = (self.known.clone(), self.listed.stages.clone());
            let key = key.clone();
            step.send(self.id, from, Body::Counted { key, nonce, counted, seen, stages });
        }
    }

    /// Takes the answer of a site.
    pub(super) fn on_counted(
        &mut self,
        step: &mut Step<'_>,
        from: SiteId,
        (key, nonce, counted): (&Key, Nonce, Counted),
        (seen, stages): (&[Position], &[u64]),
    ) {
        if !step.config.has_rights(key) {
            return;
        }
        // Another list may contain a site with rights that this one lacks. A site may not have
        // received a gift yet that remains of a removed one.
        let agrees = stages == self.listed.stages && self.has_cuts(seen);
        let now = step.now;
        let Some(counter) = self.counters.get_mut(key) else { return };
        let rights = &mut counter.rights;
        let held = u64::try_from(counted.tally.held()).unwrap_or_default();
        rights.heard.insert(from, (held, now));
        let Some(count) = rights.count.as_mut().filter(|count| count.nonce == nonce) else {
            return;
        };
        if !agrees {
            return;
        }
        let round = if count.serves.is_some() { &mut count.second } else { &mut count.first };
        round.entry(from).or_insert(counted);
        self.go_on_counting(step, key);
    }

    fn has_cuts(&self, seen: &[Position]) -> bool {
        let mut cuts = self.listed.cuts.iter().enumerate();
        cuts.all(|(site, cut)| seen.get(site).copied().unwrap_or_default() >= *cut)
    }

    /// Begins the second round when the first one is complete, and ends the count after it.
    fn go_on_counting(&mut self, step: &mut Step<'_>, key: &Key) {
        let (me, own) = (self.me, self.own_count(step.config, key));
        let (asked, has_cuts) = (self.listed.asked.clone(), self.has_cuts(&self.known));
        let nonce = step.nonce();
        let once = !step.config.has(Rule::CountTwice);
        let counter = self.counter(key);
        let reads = counter.reads.iter().map(|read| read.request).collect();
        let takes = counter.takes.iter().map(|take| take.waiter).collect();
        let Some(count) = &mut counter.rights.count else { return };
        let is_complete = |round: &BTreeMap<SiteId, Counted>| {
            asked.iter().all(|site| round.contains_key(site)) && has_cuts
        };
        if count.serves.is_none() {
            if !is_complete(&count.first) {
                return;
            }
            (count.nonce, count.serves) = (nonce, Some((reads, takes)));
            if once {
                count.second.clone_from(&count.first);
            } else if !asked.is_empty() {
                return self.send_round(step, key);
            }
        }
        let Some(count) = &mut counter.rights.count else { return };
        if !is_complete(&count.second) {
            return;
        }
        count.second.insert(me, own);
        let sites: BTreeSet<&SiteId> = count.first.keys().collect();
        if sites != count.second.keys().collect() {
            // The list of sites has changed.
            counter.rights.count = None;
            return;
        }
        let count = counter.rights.count.take();
        if let Some(count) = count {
            self.end_count(step, key, &count);
        }
    }

    /// Answers those who waited when the second round began.
    fn end_count(&mut self, step: &mut Step<'_>, key: &Key, count: &Count) {
        let (least, greatest) = count.bounds(|owner| self.listed.is_over(owner));
        let Some((reads, takes)) = &count.serves else { return };
        let counter = self.counter(key);
        let (served, waits) = std::mem::take(&mut counter.reads)
            .into_iter()
            .partition::<Vec<_>, _>(|read| reads.contains(&read.request));
        counter.reads = waits;
        let is_sold_out = |take: &WaitingTake| {
            takes.contains(&take.waiter) && i128::from(take.tokens.decrements) > greatest
        };
        let (sold_out, waits): (Vec<WaitingTake>, Vec<WaitingTake>) =
            std::mem::take(&mut counter.takes).into_iter().partition(is_sold_out);
        counter.takes = waits.into();
        for read in served {
            match read.asked {
                Asked::Interval => {
                    let (least, greatest) = (clamped(least), clamped(greatest));
                    step.reply(read.request, Response::Interval { least, greatest });
                }
                Asked::Holders => self.reply_holders(step, key, read.request),
            }
        }
        for take in sold_out {
            step.rare(rare::SOLD_OUT);
            let left = u64::try_from(greatest).unwrap_or_default();
            step.settle(take.waiter, key, Err(Cannot::SoldOut { left }));
        }
        // Others may have waited behind one that is sold out.
        self.serve(step, key);
    }

    /// Returns the sites with rights, as far as the site has heard.
    pub(super) fn reply_holders(&mut self, step: &mut Step<'_>, key: &Key, request: RequestId) {
        let own = clamped(self.own_count(step.config, key).tally.held());
        let heard = self.counters.get(key).map(|counter| counter.rights.heard.clone());
        let heard = heard.unwrap_or_default();
        let mut holders = vec![Holder::Rights {
            site: self.me,
            rights: Some(u64::try_from(own).unwrap_or_default()),
            age: Default::default(),
        }];
        for site in self.listed.asked.iter().copied() {
            let found = heard.get(&site);
            let age = found.map_or(Default::default(), |(_, at)| step.now.since(*at));
            let rights = found.map(|(rights, _)| *rights);
            holders.push(Holder::Rights { site, rights, age });
        }
        holders.sort_by_key(Holder::site);
        step.reply(request, Response::Holders(holders));
    }
}

fn of_gift(gift: &Gift) -> Tokens {
    Tokens { increments: 0, decrements: gift.amount }
}

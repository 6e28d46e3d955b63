//! Rights of keys: how sites give each other rights, and count those of all sites. See `rights`.

use std::collections::BTreeMap;

use solera_machine::RequestId;
use solera_membership::{Members, SiteStatus};
use solera_time::{Monotonic, SiteId, Timestamp, Vector};

use super::{Partition, fitting};
use crate::agreed::Key;
use crate::command::{Cannot, Holder, Placed, Question, Response};
use crate::config::{Config, Rule};
use crate::counter::{ReadKind, WaitingTake};
use crate::message::Body;
use crate::numbers::{Epoch, Nonce, Position, Tokens};
use crate::outbox::{Step, Subject};
use crate::rare;
use crate::rights::{Count, Counted, Gift, Owner};

/// Returns whether a generation of a site has ended: the site is removed, or has joined again.
fn is_over(members: &Members, owner: &Owner) -> bool {
    let present = members.generation(owner.site);
    let is_gone = members.status(owner.site) == SiteStatus::Gone;
    owner.generation < present || owner.generation == present && is_gone
}

/// Returns the stage of each site. Lists with equal stages are the same.
fn stages(members: &Members) -> Vec<u64> {
    SiteId::all(members.sites()).map(|site| members.stage(site)).collect()
}

impl Partition {
    /// Ends counts that may lack a site, because the list of sites changes.
    pub(super) fn end_counts(&mut self, members: &Members) {
        if stages(&self.members) == stages(members) {
            return;
        }
        for key in &self.waiting {
            if let Some(counter) = self.counters.get_mut(key) {
                counter.rights.count = None;
            }
        }
    }

    /// Returns the sites other than this one that may have rights: all that were not removed.
    fn asked(&self) -> Vec<SiteId> {
        let all = SiteId::all(self.members.sites());
        let is_gone = |site: SiteId| self.members.status(site) == SiteStatus::Gone;
        all.filter(|site| *site != self.me && !is_gone(*site)).collect()
    }

    fn owner(&self, config: &Config, site: SiteId) -> Owner {
        let generation = match site == self.me {
            true => config.generation,
            false => self.members.generation(site),
        };
        Owner { site, generation }
    }

    /// Returns the position in the site's own stream after which its present generation begins;
    /// `None` if the list of sites does not say it yet.
    fn begins(&self, config: &Config) -> Option<Position> {
        let Some(former) = config.generation.checked_sub(1) else { return Some(Position(0)) };
        let gap = self.members.gaps(self.me).get(former as usize)?;
        // A list that the site has not got from others has gaps without times.
        (gap.end > Timestamp::ZERO).then_some(Position(gap.end.0))
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

    /// Returns what a snapshot must contain to contain the rights that are used or in hand.
    pub(crate) fn rights_past(&self, key: &[u8]) -> Option<Vector> {
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
        let begins = self.begins(config).unwrap_or_default();
        entries.retain(|placed| placed.position > begins || !config.has_rights(&placed.key));
    }

    /// Returns whether the site knows which entries of its stream are those of its present
    /// generation.
    pub(super) fn knows_begin(&self, config: &Config) -> bool {
        self.begins(config).is_some() || !config.has_hard_bounds()
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
        if !config.has_rights(key) {
            return false;
        }
        let most = self.counters.get(key).map_or(0, |counter| counter.rights.most);
        self.available(config, key).saturating_mul(2) < most
    }

    /// Requests rights if some are needed or will soon be (B3).
    fn want(&mut self, step: &mut Step<'_>, key: &Key) {
        let waits = self.heads(key).decrements;
        if waits == 0 && !self.has_few(step.config, key) {
            return;
        }
        let (now, available) = (step.now, self.available(step.config, key));
        let rights = &mut self.counter(key).rights;
        if rights.next_want.is_some_and(|at| at > now) {
            return;
        }
        rights.next_want = Some(now.after(step.config.timing.retry));
        // Without an answer, it asks again when half of what is left is used.
        rights.most = available;
        let received = rights.tally.received.clone();
        let has = u64::try_from(available).unwrap_or_default();
        let amount = waits.saturating_sub(has);
        let to = self.owner(step.config, self.me);
        for site in self.asked() {
            let from = self.owner(step.config, site);
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
        let own = self.heads(key).decrements;
        let Some(counter) = self.counters.get_mut(key) else { return };
        let rights = &mut counter.rights;
        rights.heard.insert(to.site, (has, step.now));
        let under_way = rights.giving.iter().filter(|gift| gift.to == to).map(|gift| gift.amount);
        let under_way = under_way.map(u128::from).sum::<u128>()
            + rights.tally.given.get(&to).copied().unwrap_or_default().saturating_sub(received);
        let under_way = u64::try_from(under_way).unwrap_or(u64::MAX);
        // Of two sites that wait, the one that waits for fewer rights gets them. Otherwise each
        // could keep what the other one needs.
        let keeps = own > 0 && (own, self.me) < (waits, to.site);
        let needed = amount.saturating_sub(under_way);
        let has = i128::from(has) + i128::from(under_way);
        let half = (available - has) / 2;
        let given = match needed {
            _ if keeps => 0,
            0 if available > 2 * has + 1 && under_way == 0 && own == 0 => half,
            0 => 0,
            _ if own > 0 => available.min(needed.into()),
            _ => half.max(needed.into()).min(available),
        };
        let amount = u64::try_from(given).unwrap_or_default();
        if amount == 0 || is_over(&self.members, &to) {
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
        let mut tally = counter.rights.tally.clone();
        if !config.has(Rule::CountOpen) {
            return Counted { tally, open: Tokens::default() };
        }
        // Updates without a promise have committed.
        let of_key = self.spent.values().flatten().filter(|spent| spent.key == key);
        let committed = of_key.map(|spent| spent.tokens).fold(Tokens::default(), Tokens::plus);
        tally.note_created(committed.increments);
        tally.note_spent(committed.decrements);
        // Gifts do not change the number of rights.
        let giving = counter.rights.giving.iter().map(of_gift);
        let known = giving.fold(committed, Tokens::plus);
        Counted { tally, open: counter.promised_tokens().minus(known) }
    }

    /// Begins a count if somebody waits for one, or sends its requests again.
    fn count(&mut self, step: &mut Step<'_>, key: &Key) {
        let waits = self.heads(key).decrements > 0 || !self.counter(key).reads.is_empty();
        let rights = &mut self.counter(key).rights;
        let since = rights.count.as_ref().map(|count| step.now.since(count.sent));
        if !waits {
            rights.count = None;
        } else if since.is_none() {
            let first = BTreeMap::from([(self.me, self.own_count(step.config, key))]);
            let count = Count { nonce: step.nonce(), sent: step.now, first, ..Count::default() };
            self.counter(key).rights.count = Some(count);
        }
        if waits && since.is_none_or(|since| since >= step.config.timing.retry) {
            self.send_round(step, key);
            self.go_on_counting(step, key);
        }
    }

    fn send_round(&mut self, step: &mut Step<'_>, key: &Key) {
        let (id, asked) = (self.id, self.asked());
        let Some(count) = &mut self.counter(key).rights.count else { return };
        count.sent = step.now;
        let (answered, nonce) = (count.round(), count.nonce);
        for site in asked.into_iter().filter(|site| !answered.contains_key(site)) {
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
            let (seen, stages) = (self.known.clone(), stages(&self.members));
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
        (seen, listed): (&[Position], &[u64]),
    ) {
        if !step.config.has_rights(key) {
            return;
        }
        // Another list may contain a site with rights that this one lacks. A site may not have
        // received a gift yet that remains of a removed one.
        let agrees = stages(&self.members) == listed && self.has_cuts(seen);
        let now = step.now;
        let Some(counter) = self.counters.get_mut(key) else { return };
        let rights = &mut counter.rights;
        rights.heard.insert(from, (counted.tally.rights(), now));
        if let Some(count) = rights.count.as_mut().filter(|it| it.nonce == nonce && agrees) {
            count.round_mut().entry(from).or_insert(counted);
            self.go_on_counting(step, key);
        }
    }

    /// Returns whether prefixes contain what remains of removed generations.
    fn has_cuts(&self, seen: &[Position]) -> bool {
        SiteId::all(self.members.sites()).all(|site| {
            let cut = self.members.gaps(site).last().map_or(0, |gap| gap.cut.0);
            seen.get(site.index()).copied().unwrap_or_default() >= Position(cut)
        })
    }

    /// Begins the second round when the first one is complete, and ends the count after it.
    fn go_on_counting(&mut self, step: &mut Step<'_>, key: &Key) {
        if !self.is_complete(key) {
            return;
        }
        let nonce = step.nonce();
        let counter = self.counter(key);
        let Some(count) = &mut counter.rights.count else { return };
        if count.serves.is_none() {
            let reads = counter.reads.iter().map(|read| read.request).collect();
            let takes = counter.takes.iter().map(|take| take.waiter).collect();
            (count.nonce, count.serves) = (nonce, Some((reads, takes)));
            if !step.config.has(Rule::CountTwice) {
                count.second.clone_from(&count.first);
            }
            self.send_round(step, key);
        }
        if self.is_complete(key)
            && let Some(mut count) = self.counter(key).rights.count.take()
        {
            count.second.insert(self.me, self.own_count(step.config, key));
            self.end_count(step, key, &count);
        }
    }

    /// Returns whether all sites have answered the present round.
    fn is_complete(&self, key: &Key) -> bool {
        let count = self.counters.get(key).and_then(|counter| counter.rights.count.as_ref());
        let answered = count.map(Count::round);
        let all = answered.is_some_and(|it| self.asked().iter().all(|site| it.contains_key(site)));
        all && self.has_cuts(&self.known)
    }

    /// Answers those who waited when the second round began.
    fn end_count(&mut self, step: &mut Step<'_>, key: &Key, count: &Count) {
        let (least, greatest) = count.bounds(|owner| is_over(&self.members, owner));
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
            match read.kind {
                ReadKind::Interval => match fitting(least, greatest) {
                    Ok((least, greatest)) => {
                        step.reply(read.request, Response::Interval { least, greatest });
                    }
                    Err(reason) => step.refuse(read.request, reason),
                },
                ReadKind::Holders => self.reply_holders(step, key, read.request),
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
        let own = self.own_count(step.config, key).tally.rights();
        let heard = self.counters.get(key).map(|counter| &counter.rights.heard);
        let others = self.asked().into_iter().map(|site| {
            let found = heard.and_then(|heard| heard.get(&site));
            let age = found.map_or(Default::default(), |(_, at)| step.now.since(*at));
            Holder::Rights { site, rights: found.map(|(rights, _)| *rights), age }
        });
        let own = Holder::Rights { site: self.me, rights: Some(own), age: Default::default() };
        let mut holders: Vec<Holder> = others.chain([own]).collect();
        holders.sort_by_key(Holder::site);
        step.reply(request, Response::Holders(holders));
    }
}

fn of_gift(gift: &Gift) -> Tokens {
    Tokens { increments: 0, decrements: gift.amount }
}

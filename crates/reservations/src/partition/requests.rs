//! Requests of clients, and the guard.

use std::time::Duration;

use solera_machine::RequestId;

use super::Partition;
use crate::agreed::Key;
use crate::command::{Cannot, Response, TakeId};
use crate::config::{Bound, Config, Rule};
use crate::counter::{Counter, ReadKind, Take, WaitingRead, WaitingTake};
use crate::message::{Event, Need};
use crate::numbers::{Epoch, Kind, Term, Tokens};
use crate::outbox::Step;
use crate::rare;
use crate::record::Held;
use crate::waiter::Waiter;

/// Reason why a guard refuses tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Unknown,
    Stopped,
    NoRight,
}

impl Refused {
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Refused::Unknown => "the tokens were taken back, or the transaction has none",
            Refused::Stopped => "the site has given up the tokens",
            Refused::NoRight => "the site lost its right while the transaction held a token",
        }
    }
}

impl Partition {
    pub(crate) fn on_take(
        &mut self,
        step: &mut Step<'_>,
        request: RequestId,
        (key, amount): (&Key, i64),
        within: Duration,
    ) {
        if step.config.bound(key).is_none() {
            return step.refuse(request, Cannot::NoPolicy);
        }
        if amount == 0 {
            return step.refuse(request, Cannot::Nothing);
        }
        let (waiter, tokens) = (Waiter::Client(request), Tokens::of(amount));
        let (since, until) = (step.now, step.now.after(within));
        self.await_tokens(step, key, WaitingTake { waiter, tokens, since, until });
    }

    /// Gives tokens to somebody, now or later.
    pub(crate) fn await_tokens(&mut self, step: &mut Step<'_>, key: &Key, take: WaitingTake) {
        self.note_use(step, key);
        self.waiting.insert(key.clone());
        self.counter(key).takes.push_back(take);
        self.serve(step, key);
        self.look_after(step, key);
    }

    pub(crate) fn stop_waiting(&mut self, key: &Key, is_its: impl Fn(Waiter) -> bool) {
        if let Some(counter) = self.counters.get_mut(key) {
            counter.takes.retain(|take| !is_its(take.waiter));
        }
    }

    pub(crate) fn on_read(
        &mut self,
        step: &mut Step<'_>,
        (request, kind): (RequestId, ReadKind),
        key: &Key,
        within: Duration,
    ) {
        match step.config.bound(key) {
            None => return step.refuse(request, Cannot::NoPolicy),
            Some(Bound::Error(_) | Bound::Size(_)) if kind == ReadKind::Holders => {
                return self.on_token_holders(step, (key, request), within);
            }
            Some(_) => {}
        }
        self.note_use(step, key);
        self.waiting.insert(key.clone());
        let read = WaitingRead { request, kind, until: step.now.after(within), reason: None };
        self.counter(key).reads.push(read);
        self.serve_reads(step, key);
        self.look_after(step, key);
    }

    pub(crate) fn on_give_back(&mut self, step: &mut Step<'_>, key: &Key, take: TakeId) -> bool {
        let given = self.counters.get_mut(key).and_then(|counter| counter.give_back(take));
        self.serve(step, key);
        given.is_some()
    }

    pub(crate) fn on_cancel(&mut self, request: RequestId) {
        for key in &self.waiting {
            if let Some(counter) = self.counters.get_mut(key) {
                counter.takes.retain(|take| take.waiter != Waiter::Client(request));
                counter.reads.retain(|read| read.request != request);
                if let Some(expiries) = &mut counter.expiries {
                    expiries.requests.retain(|(other, _)| *other != request);
                }
            }
        }
    }

    /// Serves everything that waits.
    pub(super) fn serve_all(&mut self, step: &mut Step<'_>) {
        for key in self.waiting.iter().cloned().collect::<Vec<_>>() {
            self.serve(step, &key);
            if !self.counters.get(&key).is_some_and(Counter::is_awaited) {
                self.waiting.remove(&key);
            }
        }
    }

    pub(super) fn serve(&mut self, step: &mut Step<'_>, key: &Key) {
        self.serve_takes(step, key);
        self.serve_reads(step, key);
    }

    /// Gives tokens to those who wait, in order within each kind (H4, H5).
    fn serve_takes(&mut self, step: &mut Step<'_>, key: &Key) {
        if self.counters.get(key).is_none_or(|counter| counter.takes.is_empty()) {
            return;
        }
        self.recycle(step.config, key);
        while let Some((place, waiting, (epoch, term))) = self.next_served(step.config, key) {
            let id = TakeId(step.nonce());
            let until = step.now.after(step.config.hold(key));
            let counter = self.counter(key);
            counter.takes.remove(place);
            counter.take(id, Take { epoch, tokens: waiting.tokens, term, until });
            counter.used = Some(step.now);
            step.out.counts.note_wait(step.now.since(waiting.since));
            step.settle(waiting.waiter, key, Ok(id));
        }
    }

    /// Returns the first of those who wait that may take its tokens now. Nobody before it waits for
    /// tokens of the same kind.
    fn next_served(
        &self,
        config: &Config,
        key: &Key,
    ) -> Option<(usize, WaitingTake, (Epoch, Option<Term>))> {
        let takes = &self.counters.get(key)?.takes;
        let first = |kind| takes.iter().position(|take| take.tokens.get(kind) > 0);
        Kind::BOTH.into_iter().find_map(|kind| {
            let place = first(kind)?;
            let waiting = takes.get(place)?;
            let is_first = |of| waiting.tokens.get(of) == 0 || first(of) == Some(place);
            let may = self.may_take(config, key, waiting.tokens).ok();
            may.filter(|_| Kind::BOTH.into_iter().all(is_first))
                .map(|under| (place, waiting.clone(), under))
        })
    }

    /// Returns the epoch and the term under which a transaction may take these tokens now.
    pub(super) fn may_take(
        &self,
        config: &Config,
        key: &[u8],
        tokens: Tokens,
    ) -> Result<(Epoch, Option<Term>), Cannot> {
        if config.has_rights(key) {
            return self.may_spend(config, key, tokens).map(|()| (Epoch(0), None));
        }
        let grant = self.usable(config, key).ok_or(Cannot::NoTokens)?;
        if self.agreed.remains(self.me).is_some() || !self.filling.is_filled() {
            return Err(Cannot::NoTokens);
        }
        if !self.free(config, key, grant).covers(tokens) {
            return Err(Cannot::NoTokens);
        }
        if tokens.decrements == 0 {
            return Ok((grant.epoch, None));
        }
        let left = self.least_value(config, key) - i128::from(tokens.decrements);
        let floor = self.respected_floor(config, key);
        if floor.is_some_and(|floor| left < floor.into()) && config.has(Rule::Floor) {
            return Err(Cannot::AtFloor);
        }
        let term = self.ready(config)?.term;
        Ok((grant.epoch, Some(term)))
    }

    pub(super) fn serve_reads(&mut self, step: &mut Step<'_>, key: &Key) {
        if step.config.has_rights(key) {
            // Counts answer them.
            return;
        }
        let waiting = self.counters.get_mut(key).map(|counter| &mut counter.reads);
        let waiting = waiting.filter(|reads| !reads.is_empty()).map(std::mem::take);
        let Some(mut reads) = waiting else { return };
        match self.answer(step.config, step.now, key) {
            Ok((least, greatest)) => {
                for read in reads {
                    step.reply(read.request, Response::Interval { least, greatest });
                }
            }
            Err(reason) => {
                if matches!(reason, Cannot::TooWide { .. }) {
                    let unexpected = self.should_fit(step.config, key);
                    step.trace(Event::TooWide { key: key.clone(), unexpected });
                    self.need(step, key, Need::Narrow);
                }
                if reason == Cannot::OutOfRange {
                    self.need(step, key, Need::Narrow);
                }
                for read in &mut reads {
                    read.reason = Some(reason.clone());
                }
                self.counter(key).reads = reads;
            }
        }
    }

    /// Returns whether the tokens of the key should fit its floor: it permits as many as a key may
    /// always have, and no site has more for a single large update.
    fn should_fit(&self, config: &Config, key: &Key) -> bool {
        let Some(policy) = config.policy(key) else { return false };
        let grants = self.record(key).map_or(&[][..], |record| &record.grants);
        let alone = grants.iter().all(|grant| Some(grant.site) == grants.first().map(|it| it.site));
        policy.capacity(self.floor(key)) >= policy.spare.into() && !alone
    }

    /// Ends requests and takes whose time is over.
    pub(super) fn expire(&mut self, step: &mut Step<'_>, key: &Key) {
        let now = step.now;
        let Some(counter) = self.counters.get_mut(key) else { return };
        if step.config.has(Rule::TakeBack) {
            counter.take_back(now);
        }
        let (over, waits) = std::mem::take(&mut counter.reads)
            .into_iter()
            .partition::<Vec<_>, _>(|read| read.until <= now);
        counter.reads = waits;
        for read in over {
            match read.kind {
                ReadKind::Holders => self.reply_holders(step, key, read.request),
                ReadKind::Interval => {
                    let uncounted = step.config.has_rights(key).then_some(Cannot::Uncounted);
                    let reason = read.reason.or(uncounted).unwrap_or(Cannot::Behind);
                    step.refuse(read.request, reason);
                }
            }
        }
        while let Some(counter) = self.counters.get_mut(key) {
            let Some(place) = counter.takes.iter().position(|take| take.until <= now) else {
                break;
            };
            let Some(take) = counter.takes.remove(place) else { break };
            let reason = self.reason(step.config, key, take.tokens);
            step.settle(take.waiter, key, Err(reason));
        }
    }

    /// Returns why somebody has got no tokens in time.
    fn reason(&self, config: &Config, key: &Key, tokens: Tokens) -> Cannot {
        let room = config.policy(key).map_or(0, |policy| policy.room(self.floor(key)));
        match self.may_take(config, key, tokens) {
            Err(Cannot::NoTokens) if tokens.total() > room => {
                Cannot::TooMany { most: u64::try_from(room).unwrap_or(u64::MAX) }
            }
            // Others wait before it.
            Ok(_) if config.has_rights(key) => Cannot::Uncounted,
            other => other.err().unwrap_or(Cannot::NoTokens),
        }
    }

    // The guard.

    /// Returns what a promise would set aside for taken tokens (H6).
    pub(crate) fn judge(
        &self,
        step: &mut Step<'_>,
        key: &Key,
        take: TakeId,
    ) -> Result<Held, Refused> {
        let counter = self.counters.get(key).ok_or(Refused::Unknown)?;
        let Some(taken) = counter.taken(take) else {
            step.rare(rare::LAPSED);
            return Err(Refused::Unknown);
        };
        if taken.until <= step.now && step.config.has(Rule::TakeBack) {
            step.rare(rare::LAPSED);
            return Err(Refused::Unknown);
        }
        let has_rights = step.config.has_rights(key);
        let is_stopped = taken.epoch <= self.stopped(key) && !has_rights;
        if is_stopped && step.config.has(Rule::CheckAtCommit) {
            step.rare(rare::STOPPED);
            return Err(Refused::Stopped);
        }
        if taken.tokens.decrements > 0 && !has_rights && !self.may_decrement(step, taken) {
            step.rare(rare::NO_RIGHT);
            return Err(Refused::NoRight);
        }
        let (partition, key) = (self.id, key.clone());
        Ok(Held { partition, key, epoch: taken.epoch, tokens: taken.tokens })
    }

    /// Returns whether the site has the right, and had the same one when the tokens were taken.
    fn may_decrement(&self, step: &Step<'_>, taken: &Take) -> bool {
        if !step.config.has(Rule::LeaseAtCommit) {
            return true;
        }
        let Ok(reader) = self.ready(step.config) else { return false };
        let same = taken.term == Some(reader.term) || !step.config.has(Rule::TermAtCommit);
        same && self.is_leased(reader.term, step.now)
    }

    /// Sets tokens aside for a promise, after [`judge`](Self::judge) has permitted it.
    pub(crate) fn promise(&mut self, step: &mut Step<'_>, take: TakeId, held: &Held) {
        let now = step.now;
        let counter = self.counter(&held.key);
        counter.give_back(take);
        counter.promise(held.epoch, held.tokens);
        counter.used = Some(now);
        if counter.awaits_end.is_some() {
            self.visit_soon(step, &held.key);
        }
    }

    /// Restores the tokens of a promise.
    pub(crate) fn restore_promise(&mut self, held: &Held) {
        self.counter(&held.key).promise(held.epoch, held.tokens);
    }

    pub(crate) fn end_promise(&mut self, step: &mut Step<'_>, held: &Held) {
        self.counter(&held.key).end_promise(held.epoch, held.tokens);
        self.serve(step, &held.key);
        self.look_after(step, &held.key);
    }
}

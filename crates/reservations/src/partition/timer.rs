//! The timer of keys: each key is visited when something is due about it. A key whose tokens nobody
//! needs costs nothing in between.

use solera_time::Monotonic;

use super::Partition;
use crate::agreed::{Grant, Key};
use crate::config::Config;
use crate::counter::Counter;
use crate::numbers::Kind;
use crate::outbox::Step;

impl Partition {
    /// Does everything that is due.
    pub(crate) fn on_tick(&mut self, step: &mut Step<'_>) {
        if self.filling.is_filled() {
            self.look_after_right(step);
        }
        self.look_after_filling(step);
        let late = |(at, _): &&(Monotonic, Key)| *at <= step.now;
        let due: Vec<(Monotonic, Key)> = self.due.iter().take_while(late).cloned().collect();
        for place in due {
            self.due.remove(&place);
            let key = place.1;
            self.counter(&key).due = None;
            self.visit(step, &key);
        }
    }

    fn visit(&mut self, step: &mut Step<'_>, key: &Key) {
        self.visits += 1;
        self.serve(step, key);
        self.look_after(step, key);
        if !self.counters.get(key).is_some_and(Counter::is_awaited) {
            self.waiting.remove(key);
        }
    }

    /// Does what cannot wait for the next tick.
    pub(crate) fn on_soon(&mut self, step: &mut Step<'_>) {
        for key in std::mem::take(&mut self.soon) {
            self.visit(step, &key);
        }
        self.send_due_reports(step);
    }

    /// Visits a key without waiting for the next tick, once for all that happens until then.
    pub(super) fn visit_soon(&mut self, step: &mut Step<'_>, key: &Key) {
        step.wake_at(step.now, self.id);
        self.soon.insert(key.clone());
    }

    /// Has the timer visit a key at a time or earlier.
    pub(super) fn visit_at(&mut self, at: Monotonic, key: &Key) {
        let counter = self.counter(key);
        let before = counter.due;
        if before.is_some_and(|before| before <= at) {
            return;
        }
        counter.due = Some(at);
        if let Some(before) = before {
            self.due.remove(&(before, key.clone()));
        }
        self.due.insert((at, key.clone()));
    }

    /// Has the timer visit a key when something will be due, as far as that is known now.
    pub(super) fn plan_visit(&mut self, step: &Step<'_>, key: &Key) {
        if let Some(at) = self.next_visit(step.config, step.now, key) {
            self.visit_at(at, key);
        }
    }

    fn next_visit(&self, config: &Config, now: Monotonic, key: &Key) -> Option<Monotonic> {
        let counter = self.counters.get(key)?;
        if counter.is_awaited() {
            return Some(now);
        }
        let Some(policy) = config.policy(key) else { return counter.first_take_ends() };
        let granted = self.open_grants(key).next().is_some();
        let idle = granted.then(|| counter.used.unwrap_or(now).after(policy.lease));
        // A transaction that holds tokens keeps the grant.
        let idle = idle.map(|at| at.max(counter.last_take_ends().unwrap_or(at)));
        let is_pending = self.is_half_used(key) || self.awaits_change(key);
        let again = is_pending.then(|| now.after(config.timing.retry));
        [idle, again, counter.first_take_ends()].into_iter().flatten().min()
    }

    /// Returns whether the site uses more than half of its tokens of a kind.
    pub(super) fn is_half_used(&self, key: &[u8]) -> bool {
        let Some(counter) = self.counters.get(key) else { return false };
        let newest = self.open_grants(key).max_by_key(|grant| grant.epoch);
        let in_use = counter.in_hand().plus(counter.unseen_tokens());
        newest.is_some_and(|grant| {
            Kind::BOTH.into_iter().any(|kind| in_use.get(kind) > grant.tokens.get(kind) / 2)
        })
    }

    /// Returns whether a report, a version or an answer may permit the site to do more, apart from
    /// freeing tokens.
    pub(super) fn awaits_change(&self, key: &[u8]) -> bool {
        let Some(counter) = self.counters.get(key) else { return false };
        let asks = counter.asking || counter.ending || self.agreed.version < counter.wait_for;
        let Some(record) = self.record(key) else { return asks };
        let stopped = self.stopped(key);
        let is_over = |grant: &Grant| {
            grant.site == self.me && grant.epoch <= stopped || self.agreed.is_over(grant)
        };
        asks || counter.shrinks
            || counter.awaits_end.is_some()
            || counter.wants_room
            || record.raise.is_some()
            || self.open_grants(key).count() > 1
            || record.grants.iter().any(is_over)
    }
}

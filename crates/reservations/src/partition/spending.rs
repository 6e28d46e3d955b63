//! Updates that use tokens without a promise. See `machine::spend`.

use solera_time::Monotonic;

use super::Partition;
use crate::config::{Config, Rule};
use crate::numbers::{Epoch, Kind, Position, Tokens};
use crate::outbox::Step;
use crate::spent::Spent;

impl Partition {
    pub(crate) fn spend(
        &mut self,
        step: &mut Step<'_>,
        key: &[u8],
        tokens: Tokens,
    ) -> Option<Spent> {
        self.note_spending(step, key);
        self.recycle(step.config, key);
        let waits = |kind: Kind| {
            let counter = self.counters.get(key);
            tokens.get(kind) > 0
                && counter.is_some_and(|it| it.takes.iter().any(|take| take.tokens.get(kind) > 0))
        };
        if Kind::BOTH.into_iter().any(waits) {
            return None;
        }
        let (epoch, term) = self.may_take(step.config, key, tokens).ok()?;
        // The update commits now, so that H6 is checked now (R4).
        let is_leased = term.is_none_or(|term| self.is_leased(term, step.now));
        if !is_leased && step.config.has(Rule::LeaseAtCommit) {
            return None;
        }
        let key = key.to_vec();
        let counter = self.counter(&key);
        counter.used = Some(step.now);
        if step.config.has(Rule::CountSpent) {
            counter.promise(epoch, tokens);
        }
        if self.is_half_used(&key) {
            // The next updates should find free tokens.
            self.visit_soon(step, &key);
        } else if self.awaits_change(&key) || self.has_few(step.config, &key) {
            self.visit_at(step.now, &key);
        }
        Some(Spent { key, epoch, tokens })
    }

    pub(crate) fn note_commit(&mut self, spent: Spent, position: Position) {
        if spent.tokens.is_none() {
            return;
        }
        if position > self.known[self.me.index()] {
            self.spent.entry(position).or_default().push(spent);
        } else {
            self.counter(&spent.key).end_promise(spent.epoch, spent.tokens);
            self.visit_at(Monotonic(0), &spent.key);
        }
    }

    pub(crate) fn restore_commit(
        &mut self,
        config: &Config,
        key: &[u8],
        tokens: Tokens,
        position: Position,
    ) {
        let is_new = position > self.known[self.me.index()] && !tokens.is_none();
        if is_new && config.has(Rule::RestoreCommits) {
            // The process may have used any epoch. Epoch 0 is before all of them.
            let epoch = Epoch(0);
            self.counter(key).promise(epoch, tokens);
            let spent = Spent { key: key.to_vec(), epoch, tokens };
            self.spent.entry(position).or_default().push(spent);
        }
    }

    pub(crate) fn give_back_spent(&mut self, step: &mut Step<'_>, spent: &Spent) {
        if spent.tokens.is_none() {
            return;
        }
        self.counter(&spent.key).end_promise(spent.epoch, spent.tokens);
        self.serve(step, &spent.key);
        self.look_after(step, &spent.key);
    }

    /// Ends the use of tokens by updates that the site's stream contains now.
    pub(super) fn end_spent(&mut self, step: &mut Step<'_>) {
        let known = self.known[self.me.index()];
        while let Some(first) = self.spent.first_entry().filter(|it| *it.key() <= known) {
            for spent in first.remove() {
                self.give_back_spent(step, &spent);
            }
        }
    }
}

//! Sums of what the site holds of all keys, for metrics. They change with the keys, so that reading
//! them costs the same for any number of keys.

use solera_time::SiteId;

use super::Partition;
use crate::agreed::Key;
use crate::command::{Entry, Placed};
use crate::config::Config;
use crate::counts::Holdings;
use crate::numbers::Tokens;
use crate::outbox::Step;

impl Partition {
    /// Returns the tokens of the grants of a key under which the site has not stopped. They do not
    /// add up: a later grant replaces an earlier one.
    fn own_tokens(&self, key: &[u8]) -> Tokens {
        self.open_grants(key).fold(Tokens::default(), |most, grant| most.most(grant.tokens))
    }

    /// Applies `action`, which may change the site's tokens of this key and of no other one.
    pub(super) fn changing_tokens(&mut self, key: &Key, action: impl FnOnce(&mut Self)) {
        let before = self.own_tokens(key);
        action(self);
        let after = self.own_tokens(key);
        let held = &mut self.holdings;
        let sum = |sum: u128, before: u64, after: u64| {
            (sum + u128::from(after)).saturating_sub(before.into())
        };
        held.increments = sum(held.increments, before.increments, after.increments);
        held.decrements = sum(held.decrements, before.decrements, after.decrements);
    }

    /// Applies a new entry of a stream, and counts it.
    pub(super) fn apply_new_entry(&mut self, step: &mut Step<'_>, origin: SiteId, placed: &Placed) {
        let (key, own) = (&placed.key, origin == self.me);
        if step.config.has_rights(key) {
            let before = self.own_rights(key);
            self.apply_entry(step.config, origin, placed);
            let change = self.own_rights(key) - before;
            self.holdings.rights += change;
            if let Entry::Given(gift, _) = &placed.entry {
                let counts = &mut step.out.counts;
                let moved = if own { &mut counts.given } else { &mut counts.received };
                if change != 0 {
                    *moved = moved.saturating_add(gift.amount);
                }
            }
        } else if own && matches!(placed.entry, Entry::Ended(_)) {
            step.out.counts.ended += 1;
            self.changing_tokens(key, |it| it.apply_entry(step.config, origin, placed));
        } else {
            self.apply_entry(step.config, origin, placed);
        }
    }

    /// Returns the rights of the site for a key.
    fn own_rights(&self, key: &[u8]) -> i128 {
        self.counters.get(key).map_or(0, |counter| counter.rights.tally.held())
    }

    /// Returns what the site holds, by walking over all keys.
    pub(crate) fn recounted(&self, config: &Config) -> Holdings {
        let mut held = Holdings::default();
        for key in self.agreed.keys.keys() {
            let tokens = self.own_tokens(key);
            held.increments += u128::from(tokens.increments);
            held.decrements += u128::from(tokens.decrements);
        }
        let with_rights = self.counters.keys().filter(|key| config.has_rights(key));
        held.rights = with_rights.map(|key| self.own_rights(key)).sum();
        held
    }

    /// Counts what the site holds anew.
    pub(super) fn count_holdings(&mut self, config: &Config) {
        self.holdings = self.recounted(config);
    }
}

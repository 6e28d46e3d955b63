//! Single updates that use tokens without a promise, because they commit in the same step.
//!
//! The tokens count as those of an open promise until the site's own stream contains the update.
//! That is volatile: the commit is a record of UniStore, from which the host restores it.

use solera_machine::Now;
use solera_time::Vector;

use super::Reservations;
use crate::config::Rule;
use crate::numbers::{Epoch, Position, Tokens};
use crate::rights::Gift;
use crate::spent::Spent;

impl Reservations {
    /// Takes the tokens for an update that commits in this step, if the site has them and nobody
    /// waits for tokens of this kind (H2 to H6). Returns `None` otherwise: a guard, or
    /// [`Command::Take`](crate::Command::Take), may wait for them.
    ///
    /// The contract on time holds for `now`. Like a promise, the tokens are taken at the moment of
    /// the reading.
    pub fn spend(&mut self, now: Now, key: &[u8], tokens: Tokens) -> Option<Spent> {
        let now = now.monotonic;
        self.begin(now);
        if tokens.is_none() {
            return Some(Spent { key: key.to_vec(), epoch: Epoch(0), tokens });
        }
        self.config.bound(key)?;
        let partition = self.config.partition_of(key);
        let (partitions, mut step) = self.step(now);
        partitions.get_mut(&partition)?.spend(&mut step, key, tokens)
    }

    /// Adds what the snapshot of the update must contain: what the rights depend on that it spends.
    /// All of it is visible at the site, or was before a restart.
    pub fn add_past(&self, spent: &Spent, past: &mut Vector) {
        if let Some(needed) = self.past_of(&spent.key, spent.tokens) {
            past.join(&needed);
        }
    }

    /// Returns what the snapshot of a transaction must contain that has taken these tokens.
    /// Otherwise a site could show a decrement without the increment on which it depends.
    pub(super) fn past_of(&self, key: &[u8], tokens: Tokens) -> Option<Vector> {
        let spends = tokens.decrements > 0 && self.config.has_rights(key);
        let partition = self.partitions.get(&self.config.partition_of(key))?;
        let needs = spends && self.config.has(Rule::RightsInSnapshot);
        needs.then(|| partition.rights_past(key)).flatten()
    }

    /// Notes that the update has committed with this position in the site's own stream. The host
    /// calls it in the step of [`spend`](Self::spend).
    pub fn note_commit(&mut self, spent: Spent, position: Position) {
        self.out.counts.updates += u64::from(!spent.tokens.is_none());
        let partition = self.config.partition_of(&spent.key);
        if let Some(partition) = self.partitions.get_mut(&partition) {
            partition.note_commit(spent, position);
        }
    }

    /// Gives back the tokens of an update that does not commit.
    pub fn give_back_spent(&mut self, now: Now, spent: Spent) {
        let now = now.monotonic;
        let partition = self.config.partition_of(&spent.key);
        let (partitions, mut step) = self.step(now);
        if let Some(partition) = partitions.get_mut(&partition) {
            partition.give_back_spent(&mut step, &spent);
        }
        self.settle(now);
    }

    /// Restores a gift of this site that has committed before the process started, like
    /// [`restore_commit`](Self::restore_commit).
    pub fn restore_gift(&mut self, key: &[u8], gift: Gift) {
        let partition = self.config.partition_of(key);
        let config = &self.config;
        if let Some(partition) = self.partitions.get_mut(&partition) {
            partition.restore_giving(config, &key.to_vec(), gift);
        }
    }

    /// Restores an update of this site that has committed before the process started, at a position
    /// that is not in the machine's stream yet. It counts as a promise under every epoch until the
    /// stream contains it.
    ///
    /// After a restart, the host reports all such updates before any other input.
    pub fn restore_commit(&mut self, key: &[u8], tokens: Tokens, position: Position) {
        let partition = self.config.partition_of(key);
        let config = &self.config;
        if let Some(partition) = self.partitions.get_mut(&partition) {
            partition.restore_commit(config, key, tokens, position);
        }
    }
}

//! Decisions that came with the data of homes: the next home of a shard needs them if it takes the
//! shard over.

use std::collections::{BTreeMap, BTreeSet};

use solera_machine::Address;

use crate::message::{Batch, Commit, DecidedOf, TransactionId};
use crate::shard::{Homes, ShardId, Stamp};

/// The decisions that a replica knows, by the shard whose home has decided, with that home.
///
/// A decision is kept until the home reports that nobody asks about it any more.
#[derive(Debug, Default)]
pub(crate) struct Decisions(BTreeMap<ShardId, BTreeMap<TransactionId, (Address, Box<Commit>)>>);

impl Decisions {
    /// Adds the decisions that came with a part of a home's stream.
    pub(super) fn add_all(&mut self, home: Address, batch: &Batch) {
        for entry in &batch.entries {
            for (tid, commit) in &entry.decided {
                self.add((home, entry.shard, *tid, commit.clone()));
            }
            for decided in entry.takeover.iter().flat_map(|takeover| &takeover.decided) {
                self.add(decided.clone());
            }
        }
    }

    /// Adds a decision.
    pub(super) fn add(&mut self, (home, shard, tid, commit): DecidedOf) {
        self.0.entry(shard).or_default().insert(tid, (home, commit));
    }

    /// Drops the decisions of a home with stamps up to this one, but those about which somebody may
    /// still ask. Keeps those of a tenure that a forced move has ended: the home does not learn who
    /// may still ask about them.
    pub(super) fn retain(
        &mut self,
        of: Address,
        (upto, askable): (Stamp, &BTreeSet<TransactionId>),
        homes: &Homes,
    ) {
        self.0.retain(|shard, decided| {
            decided.retain(|tid, (home, commit)| {
                let stamp = commit.stamp_at(home.site).unwrap_or_default();
                let is_taken = || {
                    let mut forced = homes.forced(*shard, 0).filter(|it| it.site == home.site);
                    forced.any(|it| it.last.is_none_or(|last| stamp <= last))
                };
                *home != of || stamp > upto || askable.contains(tid) || is_taken()
            });
            !decided.is_empty()
        });
    }

    /// Returns the commit of a transaction whose decision came with data of this shard, if it is
    /// known.
    pub(crate) fn find(&self, shard: ShardId, tid: TransactionId) -> Option<&Commit> {
        self.0.get(&shard)?.get(&tid).map(|(_, commit)| &**commit)
    }

    /// Returns the decisions that came with data of the shards from `first` to `last`.
    pub(crate) fn within(&self, first: ShardId, last: ShardId) -> Vec<DecidedOf> {
        let all = self.0.range(first..=last);
        let all = all.flat_map(|(shard, decided)| decided.iter().map(move |it| (*shard, it)));
        all.map(|(shard, (tid, (home, commit)))| (*home, shard, *tid, commit.clone())).collect()
    }

    /// Returns all decisions.
    pub(crate) fn all(&self) -> Vec<DecidedOf> {
        self.within(ShardId(0), ShardId(u16::MAX))
    }
}

//! Decisions that came with the data of homes: the next home of a shard needs them if it takes the
//! shard over.

use std::collections::BTreeMap;

use solera_machine::Address;

use crate::message::{Batch, Commit, DecidedOf, TransactionId};
use crate::shard::{Homes, ShardId, Stamp};

type Of = BTreeMap<(Stamp, TransactionId), (ShardId, Box<Commit>)>;

/// The decisions of each home that a replica knows, by the stamps of their writes there.
///
/// They are kept until the home reports that all participants have confirmed the commits.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    of: BTreeMap<Address, Of>,
    /// Decisions of homes from which the shards were taken by force since. These homes do not learn
    /// which participants have not confirmed the commits.
    taken: BTreeMap<Address, Of>,
}

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

    /// Adds a decision, unless it is known.
    pub(super) fn add(&mut self, (home, shard, tid, commit): DecidedOf) {
        let stamp = commit.stamp_at(home.site).unwrap_or_default();
        let is_taken = self.taken.get(&home).is_some_and(|of| of.contains_key(&(stamp, tid)));
        if !is_taken {
            self.of.entry(home).or_default().insert((stamp, tid), (shard, commit));
        }
    }

    /// Drops the decisions of a home with stamps below this one, because all participants have
    /// confirmed them.
    pub(super) fn confirm(&mut self, home: Address, below: Stamp, homes: &Homes) {
        let Some(of) = self.of.get_mut(&home) else { return };
        while let Some(first) = of.first_entry().filter(|first| first.key().0 < below) {
            let (key, (shard, commit)) = first.remove_entry();
            let is_gone = homes.home(shard) != home.site;
            let mut former = homes.former(shard).iter().filter(|former| former.site == home.site);
            if is_gone && former.any(|former| former.forced) {
                self.taken.entry(home).or_default().insert(key, (shard, commit));
            }
        }
    }

    /// Returns the commit of a transaction whose decision came with data of this shard, if it is
    /// known.
    pub(crate) fn find(&self, shard: ShardId, tid: TransactionId) -> Option<&Commit> {
        let mut all = self.of.values().chain(self.taken.values()).flatten();
        let found = all.find(|((_, known), (of, _))| *known == tid && *of == shard);
        found.map(|(_, (_, commit))| &**commit)
    }

    /// Returns the decisions that came with data of these shards.
    pub(crate) fn within(&self, of: impl Fn(ShardId) -> bool) -> Vec<DecidedOf> {
        let all = self.of.iter().chain(&self.taken);
        let all = all.flat_map(|(home, decided)| decided.iter().map(move |it| (home, it)));
        let all = all.filter(|(_, (_, (shard, _)))| of(*shard));
        all.map(|(home, ((_, tid), (shard, commit)))| (*home, *shard, *tid, commit.clone()))
            .collect()
    }
}

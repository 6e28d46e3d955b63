//! Decisions that came with writes of homes: a new home needs them if it takes a shard by force.

use std::collections::BTreeMap;

use solera_machine::{Address, Latest};

use crate::message::{Batch, Commit, DecidedOf, TransactionId};
use crate::shard::ShardId;

/// Number of decisions of each home that a replica keeps. Participants ask for a decision within
/// seconds.
const KEPT: usize = 4_096;

/// A decision that is kept: its home, one of the shards, the transaction, and its commit.
pub(super) type KnownOf<'a> = (Address, ShardId, TransactionId, &'a Commit);

/// The decisions of each home that a replica knows.
#[derive(Debug, Default)]
pub(super) struct Decisions(BTreeMap<Address, Latest<TransactionId, (ShardId, Box<Commit>)>>);

impl Decisions {
    /// Adds the decisions that came with a part of a home's stream.
    pub(super) fn add_all(&mut self, home: Address, batch: &Batch) {
        for entry in &batch.entries {
            for (tid, commit) in &entry.decided {
                self.add((home, entry.shard, *tid, commit.clone()));
            }
        }
    }

    /// Adds a decision, unless it is known.
    pub(super) fn add(&mut self, (home, shard, tid, commit): DecidedOf) {
        let of_home = self.0.entry(home).or_insert_with(|| Latest::new(KEPT));
        of_home.add(tid, (shard, commit));
    }

    /// Returns the commit of a transaction whose decision came with writes of this shard, if the
    /// replica has it.
    pub(super) fn find(&self, shard: ShardId, tid: TransactionId) -> Option<&Commit> {
        let mut known = self.0.values().filter_map(|of_home| of_home.get(&tid));
        known.find(|(of, _)| *of == shard).map(|(_, commit)| &**commit)
    }

    /// Returns all decisions, of each home in the order of their arrival.
    pub(super) fn all(&self) -> impl Iterator<Item = KnownOf<'_>> {
        self.0.iter().flat_map(|(home, of_home)| {
            of_home.iter().map(|(tid, (shard, commit))| (*home, *shard, *tid, &**commit))
        })
    }
}

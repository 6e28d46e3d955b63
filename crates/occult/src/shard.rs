//! Shards, their stamps, and the sites that are their homes.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use solera_time::SiteId;

/// Number of shards unless the configuration has another number; the same as in Redis Cluster (§8).
pub const DEFAULT_SHARDS: u16 = 16_384;

/// Upper bound of stamps (exclusive). A double holds all stamps exactly: scripts in Redis compute
/// with doubles.
pub const STAMP_END: u64 = 1 << 53;

/// Number of a shard, from 0: a part of the key space with one home (Occult §4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ShardId(pub u16);

impl ShardId {
    /// Returns all shards.
    pub fn all(shards: u16) -> impl Iterator<Item = ShardId> + Clone {
        (0..shards).map(ShardId)
    }
}

/// A shardstamp: a write's position in its shard, in microseconds of loosely synchronised clocks
/// (§4.2, §5). Zero precedes all writes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Stamp(pub u64);

impl Stamp {
    /// The stamp that precedes all writes.
    pub const ZERO: Stamp = Stamp(0);

    /// Returns the next greater stamp.
    #[must_use]
    pub fn next(self) -> Stamp {
        Stamp(self.0 + 1)
    }
}

/// The present and former homes of each shard.
///
/// A timestamp of the scheme per site keeps a shard's stamp in the group of the site that was the
/// shard's home when the stamp was assigned. The former homes are therefore needed to find the
/// stamp again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Homes {
    now: Vec<SiteId>,
    /// The sites that are the home of some shard, in order.
    sites: Vec<SiteId>,
    /// For a shard that has moved: its former homes, and the greatest stamp that each may have
    /// assigned.
    former: BTreeMap<ShardId, Vec<(SiteId, Stamp)>>,
}

impl Homes {
    /// Creates the homes of shards that have never moved. `home` returns the home of each.
    pub fn new(shards: u16, home: impl Fn(ShardId) -> SiteId) -> Homes {
        let now = ShardId::all(shards).map(home).collect();
        let mut homes = Homes { now, sites: Vec::new(), former: BTreeMap::new() };
        homes.find_sites();
        homes
    }

    fn find_sites(&mut self) {
        let sites: BTreeSet<SiteId> = self.now.iter().copied().collect();
        self.sites = sites.into_iter().collect();
    }

    /// Returns the sites that are the home of some shard, in order.
    pub fn sites(&self) -> impl Iterator<Item = SiteId> + '_ {
        self.sites.iter().copied()
    }

    /// Returns the number of shards.
    pub fn shards(&self) -> u16 {
        self.now.len() as u16
    }

    /// Returns the home of a shard.
    pub fn home(&self, shard: ShardId) -> SiteId {
        self.now[usize::from(shard.0)]
    }

    /// Returns the former homes of a shard, and the greatest stamp that each may have assigned.
    pub(crate) fn former(&self, shard: ShardId) -> &[(SiteId, Stamp)] {
        if self.former.is_empty() {
            return &[];
        }
        self.former.get(&shard).map_or(&[], Vec::as_slice)
    }

    /// Records that a shard has moved to another home. The former home assigned no stamp above
    /// `last` to the shard.
    pub fn moved(&mut self, shard: ShardId, to: SiteId, last: Stamp) {
        let from = std::mem::replace(&mut self.now[usize::from(shard.0)], to);
        let former = self.former.entry(shard).or_default();
        match former.iter_mut().find(|(site, _)| *site == from) {
            Some((_, greatest)) => *greatest = last.max(*greatest),
            None => former.push((from, last)),
        }
        self.find_sites();
    }
}

//! The state of a client's transaction, and the rules by which the client checks its reads and its
//! commit (§4.3, §6.2). This module does no I/O and sends nothing, so that spaces and other stores
//! can use it alike.

use solera_data::{Effect, Key};
use solera_time::SiteId;

use crate::message::Commit;
use crate::shard::{Homes, ShardId, Stamp};
use crate::timestamp::CausalTimestamp;

/// A read of a transaction.
#[derive(Clone, Debug)]
struct ReadVersion {
    shard: ShardId,
    /// The shardstamp of the copy that was read.
    shown: Stamp,
    dependencies: CausalTimestamp,
    /// Number of moves that the copy's worker had carried out.
    epoch: u64,
}

/// A transaction in its read phase (§6.2).
#[derive(Clone, Debug)]
pub struct Transaction {
    /// The dependencies of its session and its reads (`cli_ts`, List. 3 l. 1; Fig. 3 l. 1).
    timestamp: CausalTimestamp,
    reads: Vec<ReadVersion>,
    writes: Vec<(Key, Effect)>,
}

/// A participant's answer to PREPARE (the overwrite set, §6.2).
#[derive(Clone, Debug)]
pub struct PreparedAt {
    /// Its site.
    pub site: SiteId,
    /// The assigned stamp.
    pub assigned: Stamp,
    /// The merged timestamps of the versions that it will overwrite there.
    pub overwritten: CausalTimestamp,
}

/// Result of the check whether a copy was recent enough (§4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// The copy shows all writes of its shard on which the reader depends.
    Fresh,
    /// The copy lacks such a write.
    Stale,
}

impl Transaction {
    /// Begins a transaction of a session with this causal past (List. 3 l. 2–7).
    pub fn new(past: CausalTimestamp) -> Transaction {
        Transaction { timestamp: past, reads: Vec::new(), writes: Vec::new() }
    }

    /// Returns the dependencies of the transaction so far.
    pub fn timestamp(&self) -> &CausalTimestamp {
        &self.timestamp
    }

    /// Returns its buffered writes.
    pub fn writes(&self) -> &[(Key, Effect)] {
        &self.writes
    }

    /// Returns its own effect on a key so far (List. 3 l. 12–14).
    pub fn own(&self, key: &Key) -> Option<&Effect> {
        self.writes.iter().find(|(other, _)| other == key).map(|(_, effect)| effect)
    }

    /// Returns the shards that it has read, with the shardstamps of the copies.
    pub fn reads(&self) -> Vec<(ShardId, Stamp)> {
        self.reads.iter().map(|read| (read.shard, read.shown)).collect()
    }

    /// Returns its reads, each with the number of moves that the copy's worker had carried out.
    pub(crate) fn reads_with_epochs(&self) -> Vec<(ShardId, Stamp, u64)> {
        self.reads.iter().map(|read| (read.shard, read.shown, read.epoch)).collect()
    }

    /// Checks the copy that a read has found (§4.3). The copy must show every write of the shard on
    /// which the client depends, and every write of the shard on which the version that was read
    /// depends.
    pub fn check(
        &self,
        shard: ShardId,
        shown: Stamp,
        dependencies: &CausalTimestamp,
        homes: &Homes,
    ) -> Freshness {
        Transaction::is_fresh(&self.timestamp, dependencies, (shard, shown), homes)
    }

    /// Checks a read of a client with this timestamp (Fig. 3 l. 13), as [`check`](Self::check)
    /// does.
    pub fn is_fresh(
        timestamp: &CausalTimestamp,
        dependencies: &CausalTimestamp,
        (shard, shown): (ShardId, Stamp),
        homes: &Homes,
    ) -> Freshness {
        let needed = timestamp.stamp(shard, homes).max(dependencies.stamp(shard, homes));
        if shown < needed { Freshness::Stale } else { Freshness::Fresh }
    }

    /// Adds a read, and the dependencies of the version that was read (List. 3 l. 23–25; Fig. 3
    /// l. 16–17). `epoch` is the number of moves that the copy's worker had carried out.
    pub fn add_read(
        &mut self,
        (shard, shown): (ShardId, Stamp),
        dependencies: CausalTimestamp,
        epoch: u64,
        homes: &Homes,
    ) {
        self.timestamp.merge(&dependencies, homes);
        self.reads.push(ReadVersion { shard, shown, dependencies, epoch });
    }

    /// Returns a shard that the transaction has read before the shard moved. A home that has taken
    /// the shard by force may assign stamps below the shardstamp of that read.
    pub fn moved(&self, homes: &Homes) -> Option<ShardId> {
        let moved = |read: &&ReadVersion| read.epoch < homes.moved_by(read.shard);
        self.reads.iter().find(moved).map(|read| read.shard)
    }

    /// Buffers a write (List. 3 l. 9–10).
    pub fn add_write(&mut self, key: Key, effect: Effect) {
        match self.writes.iter_mut().find(|(other, _)| *other == key) {
            Some((_, before)) => *before = std::mem::take(before).then(effect),
            None => self.writes.push((key, effect)),
        }
    }

    /// First step of validation (§6.2; List. 3 l. 27–32): checks that the versions read are
    /// pairwise consistent.
    ///
    /// # Errors
    /// Returns a shard of which the transaction has read too old a copy.
    pub fn validate_reads(&self, homes: &Homes) -> Result<(), ShardId> {
        for read in &self.reads {
            let misses =
                |other: &ReadVersion| read.shown < other.dependencies.stamp(read.shard, homes);
            if self.reads.iter().any(misses) {
                return Err(read.shard);
            }
        }
        Ok(())
    }

    /// Third step of validation (§6.2): checks that the versions read are at least as recent as the
    /// dependencies of the versions that are overwritten.
    ///
    /// # Errors
    /// Returns a shard of which the transaction has read too old a copy.
    pub fn validate_overwrites(
        &self,
        prepared: &[PreparedAt],
        homes: &Homes,
    ) -> Result<(), ShardId> {
        for read in &self.reads {
            let misses = |at: &PreparedAt| read.shown < at.overwritten.stamp(read.shard, homes);
            if prepared.iter().any(misses) {
                return Err(read.shard);
            }
        }
        Ok(())
    }

    /// Computes the commit timestamp, and the commit stamp of each site. `written` lists the
    /// written shards with the sites of their homes. `overwritten` is false in a test without
    /// `Rule::OverwrittenTimestamps`.
    ///
    /// The paper's §6.2 leaves out the session's timestamp and those of overwritten versions,
    /// although its §6.3 relies on them. The stamp of a site is at least every stamp that its homes
    /// assigned, and at least every stamp of its homes on which the transaction depends.
    pub fn commit(
        &self,
        prepared: &[PreparedAt],
        written: &[(ShardId, SiteId)],
        homes: &Homes,
        overwritten: bool,
    ) -> Commit {
        let mut timestamp = self.timestamp.clone();
        if overwritten {
            for at in prepared {
                timestamp.merge(&at.overwritten, homes);
            }
        }
        let mut stamps: Vec<(SiteId, Stamp)> = Vec::new();
        for at in prepared {
            let least = at.assigned.max(timestamp.greatest(at.site));
            match stamps.iter_mut().find(|(site, _)| *site == at.site) {
                Some((_, stamp)) => *stamp = least.max(*stamp),
                None => stamps.push((at.site, least)),
            }
        }
        let mut commit = Commit { timestamp, stamps };
        for (shard, site) in written {
            if let Some(stamp) = commit.stamp_at(*site) {
                commit.timestamp.raise(*shard, *site, stamp);
            }
        }
        commit
    }
}

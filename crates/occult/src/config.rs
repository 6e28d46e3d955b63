//! Configuration of a worker.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use solera_data::{Effect, Key};
use solera_machine::{Address, PartitionId, Topology, Without};
use solera_time::SiteId;

use crate::shard::ShardId;
use crate::timestamp::Scheme;

/// Intervals and timeouts of a worker.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Interval at which a home publishes how far idle shards are shown.
    pub publish: Duration,
    /// Time without an answer after which a message is sent again.
    pub retry: Duration,
    /// Age from which a prepare has expired: its participant then asks the decision home to decide.
    pub prepare_expires: Duration,
    /// Time after which a client gives up a request.
    pub timeout: Duration,
    /// Delays before a stale read is sent again to the same replica. Then the read goes to the home
    /// (§8.2: 0, 1, 2 and 4 ms).
    pub stale_retries: [Duration; 4],
    /// Delay before a lock is tried again that another transaction holds.
    pub lock_retry: Duration,
    /// Number of times that a lock is tried before the transaction aborts (§6.2).
    pub lock_tries: u32,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            publish: Duration::from_millis(5),
            retry: Duration::from_millis(300),
            prepare_expires: Duration::from_secs(1),
            timeout: Duration::from_secs(5),
            stale_retries: [0, 1, 2, 4].map(Duration::from_millis),
            lock_retry: Duration::from_millis(5),
            lock_tries: 8,
        }
    }
}

/// A rule that a test takes out, to prove that the checks detect its absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A client checks what replicas return (§4.3).
    CheckReplicas,
    /// A read at a home waits for undecided transactions that its client may have seen.
    CheckHomes,
    /// A commit validates that the versions read are pairwise consistent (§6.2).
    ValidateReadSet,
    /// A commit validates the versions read against those that it overwrites (§6.2).
    ValidateOverwriteSet,
    /// A commit timestamp contains those of the overwritten versions (§6.3 case ii).
    OverwrittenTimestamps,
    /// A shardstamp stays below the stamps that undecided transactions may get.
    ShowInOrder,
    /// A prepare locks its keys (§6.2).
    Locks,
    /// The decision home records that it has decided to abort.
    AbortRecord,
    /// Only the decision home ends an expired prepare.
    DecisionHomeDecides,
    /// A replica applies no entries that leave a gap.
    InOrder,
    /// A session continues with the timestamp of its commit.
    SessionOrder,
    /// A client gives a locked transaction of one home up only by the answer to its last attempt.
    LastAttempt,
    /// A restarted home assigns stamps above all that it has assigned or reported before.
    Ceiling,
}

/// Configuration of a worker.
#[derive(Clone, Debug)]
pub struct Config {
    /// The worker.
    pub address: Address,
    /// The cluster's shape; the same everywhere.
    pub topology: Arc<Topology>,
    /// Number of shards: a multiple of the number of partitions.
    pub shards: u16,
    /// Scheme of timestamps.
    pub scheme: Scheme,
    /// Number of this start of the worker's process; a later one is greater.
    pub incarnation: u64,
    /// Intervals and timeouts.
    pub timing: Timing,
    /// Rule that a test takes out.
    pub without: Without<Rule>,
}

impl Config {
    /// Returns the configuration of a worker with usual timing and a timestamp of two stamps per
    /// site.
    pub fn new(address: Address, topology: Arc<Topology>, shards: u16) -> Config {
        Config {
            address,
            topology,
            shards,
            scheme: Scheme::PerSite(2),
            incarnation: 1,
            timing: Timing::default(),
            without: Without::default(),
        }
    }

    /// Returns whether a rule is in force.
    pub(crate) fn has(&self, rule: Rule) -> bool {
        self.without.keeps(rule)
    }

    /// Returns the shard of a key.
    pub fn shard_of(&self, key: &Key) -> ShardId {
        ShardId(PartitionId::of(key, self.shards).0)
    }

    /// Returns the shards of these writes.
    pub(crate) fn shards_of(&self, writes: &[(Key, Effect)]) -> BTreeSet<ShardId> {
        writes.iter().map(|(key, _)| self.shard_of(key)).collect()
    }

    /// Returns the worker at a site that stores a shard.
    pub fn owner(&self, site: SiteId, shard: ShardId) -> Address {
        let partitions = u32::from(self.topology.partitions);
        let partition = u32::from(shard.0) * partitions / u32::from(self.shards);
        self.topology.owner(site, PartitionId(partition as u16))
    }

    /// Returns the workers that have replicas of this worker's shards.
    pub(crate) fn replicas(&self) -> impl Iterator<Item = Address> + use<> {
        let worker = self.address.worker;
        let others = self.topology.siblings_of(self.address.site);
        others.map(move |site| Address { site, worker })
    }
}

//! Configuration of a worker.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use solera_data::{Effect, Key};
use solera_machine::{Address, PartitionId, Topology, Without};
use solera_time::SiteId;

use crate::record::Record;
use crate::shard::{Homes, ShardId};
use crate::timestamp::Scheme;

/// First action of a read when the local replica is not recent enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleReads {
    /// The client sends the read to the replica again after each of these delays, and then to the
    /// home (§4.3; §8.2: 0, 1, 2 and 4 ms).
    Retry([Duration; 4]),
    /// The read waits at the replica for at most this time, and then goes to the home. The replica
    /// answers as soon as it is recent enough. A replica that is further behind than this time
    /// answers at once.
    Wait(Duration),
}

/// Intervals and timeouts of a worker.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Least time between two batches to a replica.
    pub flush: Duration,
    /// Longest time between two batches while clients use workers of the home's site. Batches also
    /// publish how far idle shards are shown. A home that clients use publishes more often.
    pub publish: Duration,
    /// Longest time between two batches while no client uses workers of the home's site.
    pub publish_idle: Duration,
    /// Time without an answer after which a message is sent again.
    pub retry: Duration,
    /// Age from which a prepare has expired: its participant then asks the decision home to decide.
    pub prepare_expires: Duration,
    /// Time after which a client gives up a request.
    pub timeout: Duration,
    /// Action of a read when the replica is not recent enough.
    pub stale: StaleReads,
    /// Time for which reads of a shard go straight to its home after its replica was too slow.
    pub slow: Duration,
    /// Largest difference by which a client's stamp may be ahead of a home's clock. A clock that is
    /// further ahead is wrong, and homes do not follow it.
    pub max_ahead: Duration,
    /// Idle timeout of an open transaction, which is then aborted.
    pub idle: Duration,
    /// Delay before the next attempt to get a lock that another transaction holds.
    pub lock_retry: Duration,
    /// Number of attempts to get a lock before the transaction aborts (§6.2).
    pub lock_tries: u32,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            flush: Duration::from_millis(1),
            publish: Duration::from_millis(5),
            publish_idle: Duration::from_millis(100),
            retry: Duration::from_millis(300),
            prepare_expires: Duration::from_secs(1),
            timeout: Duration::from_secs(5),
            stale: StaleReads::Wait(Duration::from_millis(40)),
            slow: Duration::from_millis(100),
            max_ahead: Duration::from_secs(3_600),
            idle: Duration::from_secs(60),
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
    /// A client gives up a transaction of one home, or begins it at another home, only after the
    /// answer to its last attempt.
    LastAttempt,
    /// A restarted home assigns stamps above all that it has assigned or reported before.
    Ceiling,
    /// A dependency is forgotten only when no open transaction has read an older copy.
    UnreadBeforeForgotten,
    /// A deleted key keeps its timestamp until every replica has passed it.
    Removals,
    /// A worker handles no message of a worker that has carried out more moves.
    Epochs,
    /// The stamp of a shard in a timestamp includes the stamps that former homes have assigned.
    FormerHomes,
    /// A commit aborts if a written shard has moved since its first PREPARE.
    ParticipantsAreHomes,
    /// A participant asks the present home of a shard whose former home was to decide.
    NewHomeDecides,
    /// A barrier waits until other sites store the writes.
    StoredElsewhere,
}

/// Objects that a transaction locks at its homes while it commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockScope {
    /// The keys that it writes (Occult §6.2).
    #[default]
    Keys,
    /// The shards that it writes (List. 2 l. 14–24), which makes more transactions fail: a baseline
    /// of the experiments.
    Shards,
}

/// Time when a replica shows the writes of homes at other sites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shows {
    /// As soon as they arrive, in the order of each shard (§4.1).
    #[default]
    AtOnce,
    /// After the replica's site shows all writes on which they depend, as Eiger (§2): a baseline of
    /// the experiments, for the scheme [`Scheme::Exact`] and homes that do not move. Writes of
    /// one transaction wait for each other's arrival only. A restarted worker shows what it has
    /// stored.
    AfterDependencies,
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
    /// Number of sites with which the cluster began. The first home of a shard is the site whose
    /// number is the shard's number modulo this number.
    pub founders: usize,
    /// Prefixes of keys, the longest first. The keys of a prefix belong to shards whose first home
    /// is this site; with `None`, to any shards, as keys without such a prefix do.
    pub home_of: Arc<[(Vec<u8>, Option<SiteId>)]>,
    /// Scheme of timestamps.
    pub scheme: Scheme,
    /// Number of this start of the worker's process. A later start has a greater number: the
    /// machine raises this one above every number in its journal. The machine uses the lower 48
    /// bits, and puts the generation above them.
    pub incarnation: u64,
    /// Generation of its site to which the worker belongs. In any generation but the first, the
    /// worker gets its data from other sites.
    pub generation: u32,
    /// Objects that a transaction locks at its homes.
    pub locks: LockScope,
    /// Time when replicas show writes.
    pub shows: Shows,
    /// Whether to emit records.
    pub journal: bool,
    /// Whether to emit an event for each write that a home shows, for checkers of histories.
    pub trace: bool,
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
            founders: topology.sites(),
            topology,
            shards,
            home_of: Arc::new([]),
            scheme: Scheme::PerSite(2),
            incarnation: 1,
            generation: 0,
            journal: true,
            locks: LockScope::Keys,
            shows: Shows::AtOnce,
            trace: false,
            timing: Timing::default(),
            without: Without::default(),
        }
    }

    /// Puts the generation into the incarnation. A worker of a later generation has no journal of
    /// the earlier ones, and other workers must treat it as a later process.
    pub(crate) fn with_generation_in_incarnation(self) -> Config {
        const BITS: u32 = 48;
        let start = self.incarnation & ((1 << BITS) - 1);
        Config { incarnation: u64::from(self.generation) << BITS | start, ..self }
    }

    /// Returns whether a rule is in force.
    pub(crate) fn has(&self, rule: Rule) -> bool {
        self.without.keeps(rule)
    }

    /// Returns the homes of shards that have never moved.
    pub(crate) fn first_homes(&self) -> Homes {
        let homes = Homes::new(self.shards, |shard| self.first_home(shard));
        if self.has(Rule::FormerHomes) { homes } else { homes.without_former_stamps() }
    }

    /// Returns the first home of a shard.
    pub fn first_home(&self, shard: ShardId) -> SiteId {
        SiteId((usize::from(shard.0) % self.founders.max(1)) as u8)
    }

    /// Returns the shard of a key. The owner of the key's partition owns the shard.
    pub fn shard_of(&self, key: &[u8]) -> ShardId {
        let hashed = PartitionId::of(key, self.shards).0;
        let space = self.home_of.iter().find(|(prefix, _)| key.starts_with(prefix));
        let Some((_, Some(site))) = space else { return ShardId(hashed) };
        // The nearest shard of the same partition whose first home is this site.
        let of_partition = self.shards / self.topology.partitions;
        let (first, turn) = (hashed - hashed % of_partition, self.founders.max(1) as u16);
        let shard = hashed - hashed % turn + u16::from(site.0);
        let last = first + of_partition - 1;
        ShardId(match shard {
            shard if shard < first => shard + turn,
            shard if shard > last => shard - turn,
            shard => shard,
        })
    }

    /// Returns the record of the prefixes of keys and their homes, if there are any.
    pub(crate) fn home_of_record(&self) -> Option<Record> {
        (!self.home_of.is_empty()).then(|| Record::HomeOf(self.home_of.to_vec()))
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

    /// Returns whether this worker stores a shard.
    pub(crate) fn is_mine(&self, shard: ShardId) -> bool {
        shard.0 < self.shards && self.owner(self.address.site, shard) == self.address
    }

    /// Returns the workers of a site that store some of this worker's shards.
    pub(crate) fn siblings(&self, site: SiteId) -> BTreeSet<Address> {
        let partitions = self.topology.owned_by(self.address);
        partitions.map(|partition| self.topology.owner(site, partition)).collect()
    }
}

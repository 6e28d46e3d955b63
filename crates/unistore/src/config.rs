//! Configuration of a replica.

use std::sync::Arc;
use std::time::Duration;

use solera_certification::Rule as Certification;
use solera_data::{Measure, Span};
use solera_machine::{Address, Topology, Without};
use solera_time::SiteId;

/// Intervals of a replica's periodic work, and timeouts.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Interval of PROPAGATE_LOCAL_TXS and BROADCAST_VECS while there is activity to report.
    pub tick: Duration,
    /// The same interval when there is nothing to report but there was activity recently.
    pub idle_tick: Duration,
    /// The same interval when there was no activity for [`Self::quiet_after`]. It serves as a
    /// heartbeat: at least two such ticks fit into half of [`Self::suspect_after`]. No request
    /// waits for it, because a worker that needs progress asks for it.
    pub quiet_tick: Duration,
    /// Time since the last activity after which ticks become rare. It is long enough for updates to
    /// be folded and forgotten.
    pub quiet_after: Duration,
    /// Interval of KNOWNVEC_GLOBAL, which only forwarding needs.
    pub known_vec_interval: Duration,
    /// A site that has sent nothing for this long is suspected to have failed.
    pub suspect_after: Duration,
    /// Time after which a suspected site's transactions that no reachable site holds count as lost.
    pub lost_after: Duration,
    /// Time in which the participants of a transaction have to prepare; otherwise its coordinator
    /// aborts it. A large transaction gets an additional second for each 16 MiB.
    pub prepare_timeout: Duration,
    /// Idle timeout of an open transaction, which is then aborted.
    pub idle_transaction_timeout: Duration,
    /// Largest age of an open transaction, which is then aborted whether or not its client is
    /// active.
    pub max_transaction_age: Duration,
    /// Time after which the client of an undecided strong transaction receives an error. A strong
    /// transaction of one operation that aborts is retried for this long. No vote on a transaction
    /// is later than this, so that causal stability does not wait any longer for a transaction
    /// whose coordinator has restarted.
    pub strong_timeout: Duration,
    /// Interval at which a replica with a journal records its promises if nothing else causes that.
    /// The first tick after this time records them.
    pub promise_interval: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            tick: Duration::from_millis(1),
            idle_tick: Duration::from_millis(5),
            quiet_tick: Duration::from_millis(200),
            quiet_after: Duration::from_secs(2),
            known_vec_interval: Duration::from_millis(20),
            suspect_after: Duration::from_millis(1000),
            lost_after: Duration::from_millis(2000),
            prepare_timeout: Duration::from_millis(1000),
            idle_transaction_timeout: Duration::from_secs(60),
            max_transaction_age: Duration::from_secs(600),
            strong_timeout: Duration::from_secs(5),
            promise_interval: Duration::from_millis(250),
        }
    }
}

/// Limits of one strong transaction. Its groups and their leaders send all of its data between the
/// sites before it is decided, and conflicting transactions wait meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrongLimits {
    /// Bytes of the values that it writes and of the keys that it accesses.
    pub bytes: usize,
    /// Number of its operations, reads included.
    pub operations: usize,
}

impl Default for StrongLimits {
    fn default() -> Self {
        StrongLimits { bytes: 16 << 20, operations: 100_000 }
    }
}

/// Protocol of a cluster: UniStore, or one to which the paper compares it (§8.1, §8.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Causal transactions, and strong ones on request.
    #[default]
    UniStore,
    /// REDBLUE: one group certifies the strong transactions of all partitions.
    RedBlue,
    /// UNIFORM: causal transactions alone.
    Uniform,
    /// CUREFT: causal transactions alone, and remote ones are visible before they are uniform.
    CureFt,
}

impl Protocol {
    /// Returns whether the protocol has strong transactions.
    pub fn has_strong(self) -> bool {
        matches!(self, Protocol::UniStore | Protocol::RedBlue)
    }
}

/// A rule of the protocol that a test can disable, to prove that the checks notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Forwarding of a failed site's transactions (§5.5, Figure 1).
    Forwarding,
    /// The wait of a read until `known_vec` covers its snapshot (Alg. 1 l. 21).
    WaitOnKnownVec,
    /// `known_vec[d]` stays just below the smallest prepare time (Alg. 2 l. 3).
    KnownVecBelowPrepared,
    /// Remote transactions are invisible before they are uniform (Alg. 1 l. 5).
    UniformBeforeVisible,
    /// A leaving site is removed only when all members have the same part of its history.
    GoneWhenConverged,
    /// A leaving site is removed only when the other protocols of all members have completed its
    /// removal.
    GoneWhenCompleted,
    /// When a site is removed, its causal transactions after the cut are dropped, because members
    /// may have only parts of them.
    DropAfterCut,
    /// A donor folds nothing beyond the snapshot that it sends.
    DonorHoldsSnapshot,
    /// A site that has joined becomes a donor only when its own snapshots contain the data that it
    /// was filled with.
    DonorServes,
    /// Reads wait until all strong transactions of their snapshot have arrived (Alg. 1 l. 21).
    WaitOnStrong,
    /// A worker asks idle workers for progress that it waits for. Only latency depends on it.
    AskForProgress,
    /// Barriers wait for the eventual writes of a session.
    DurabilityPast,
    /// ATTACH waits until the site holds the causal past (Alg. 1 l. 52).
    AttachWaits,
    /// A commit is answered only when its operations on eventual spaces have been executed.
    EventualConfirmed,
    /// Barriers wait for the snapshots on which eventual writes were executed, and these writes are
    /// at risk until the snapshots are uniform.
    EventualSnapshots,
    /// Eventual writes count as at risk until they are uniform.
    EventualAtRisk,
    /// Prepared transactions count as at risk.
    PreparedAtRisk,
    /// A participant asks the guards of a transaction before it acknowledges the PREPARE.
    AskGuards,
    /// A participant does not acknowledge the PREPARE when a guard refuses.
    RefusalsAbort,
    /// A restarted participant sends guards again the outcomes of transactions that they had
    /// promised.
    ResendGuardOutcomes,
    /// A complete read asks every site.
    AskEverySite,
    /// A site answers a complete read when the transactions are decided that change the key and
    /// whose clients may have their answers.
    DecideBeforeAnswer,
    /// A rule of certification.
    Certification(Certification),
}

/// Largest number of bytes that a transaction may write: the longest value that a Redis client can
/// send, and its key. The part of one worker must fit into one record of a journal and into one
/// frame of a link, both of at most 2^30 bytes.
pub(crate) const MAX_UPDATE: usize = 513 << 20;

/// Keys with a number, such as a counter, that may change with the consent of another protocol of
/// the worker only. Nothing else of such a key may change.
///
/// The coordinator adds the protocol as a guard of the key to each transaction that changes such a
/// key, and participants refuse a transaction without the guard.
#[derive(Clone, Debug)]
pub struct GuardedKeys {
    /// Number of the protocol; one of [`Config::guards`].
    pub protocol: u8,
    /// Prefixes of keys, the longest first, with the number that is guarded, if one is. Other keys
    /// are not guarded.
    pub prefixes: Arc<[(Vec<u8>, Option<Measure>)]>,
    /// Returns the claim of a transaction that changes a key.
    pub claim: fn(Span) -> Vec<u8>,
    /// Time that the protocol may need before it is ready, in addition to
    /// [`Timing::prepare_timeout`].
    pub patience: Duration,
}

impl GuardedKeys {
    /// Returns the number of a key that is guarded; `None` if the key is not guarded.
    pub fn measure(&self, key: &[u8]) -> Option<Measure> {
        let found = self.prefixes.iter().find(|(prefix, _)| key.starts_with(prefix));
        found.and_then(|(_, measure)| *measure)
    }

    /// Returns whether a key is guarded.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.measure(key).is_some()
    }
}

/// Configuration of a replica.
#[derive(Clone, Debug)]
pub struct Config {
    /// Address of the worker that runs the replica.
    pub address: Address,
    /// Shape of the cluster; the same at every worker.
    pub topology: Arc<Topology>,
    /// Number of sites that may fail (the paper's `f`); at most `sites − 1`.
    pub f: usize,
    /// Number of children of a node of the dissemination tree among a site's workers (§5.4).
    pub fan_out: u8,
    /// Intervals and timeouts.
    pub timing: Timing,
    /// Limits of strong transactions.
    pub strong_limits: StrongLimits,
    /// Whether to emit [`Output::Records`](crate::Output::Records) for a journal.
    pub journal: bool,
    /// Number of the first transaction. A replica that restarts without its earlier transactions
    /// must not reuse their numbers, because participants may still ask about them.
    pub first_transaction: u64,
    /// Whether to emit [`Output::Trace`](crate::Output::Trace) for simulation.
    pub trace: bool,
    /// Generation of its site that the replica belongs to; see
    /// [`Members::generation`](solera_membership::Members::generation). In any generation but the
    /// first, the replica gets its data from the other sites.
    pub generation: u32,
    /// Number of sites that are members from the beginning. The sites after them were listed later,
    /// and begin with the status of removed sites.
    pub founders: usize,
    /// Largest number of bytes of data that a joining worker requests in a second.
    pub fill_rate: u64,
    /// Intervals and timeouts of certification.
    pub certification: solera_certification::Timing,
    /// Protocol of the cluster; the same at every worker.
    pub protocol: Protocol,
    /// Site that leads strong transactions at first.
    pub leader: SiteId,
    /// Numbers of the worker's other protocols that guard keys; the same at every worker of a site.
    pub guards: Vec<u8>,
    /// Keys whose increments need the consent of one of `guards`; the same at every worker.
    pub guarded_keys: Option<GuardedKeys>,
    /// Rule that is disabled.
    pub without: Without<Rule>,
}

impl Config {
    /// Returns the usual configuration of the replica at `address`: `f` is the largest minority of
    /// sites.
    pub fn new(address: Address, topology: Arc<Topology>) -> Self {
        let sites = topology.sites();
        Config {
            address,
            topology,
            f: (sites - 1) / 2,
            fan_out: 4,
            timing: Timing::default(),
            strong_limits: StrongLimits::default(),
            journal: false,
            first_transaction: 0,
            trace: false,
            generation: 0,
            founders: sites,
            fill_rate: 256 << 20,
            certification: solera_certification::Timing::default(),
            protocol: Protocol::UniStore,
            leader: SiteId(0),
            guards: Vec::new(),
            guarded_keys: None,
            without: Without::default(),
        }
    }

    /// Returns whether only guarded increments may change a key.
    #[inline]
    pub(crate) fn is_guarded(&self, key: &[u8]) -> bool {
        self.guarded_keys.as_ref().is_some_and(|guarded| guarded.contains(key))
    }

    pub(crate) fn keeps(&self, rule: Rule) -> bool {
        self.without.keeps(rule)
            && (rule != Rule::UniformBeforeVisible || self.protocol != Protocol::CureFt)
    }
}

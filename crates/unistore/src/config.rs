//! Who takes part, and how often things happen.

use std::sync::Arc;
use std::time::Duration;

use solera_certification::Rule as Certification;
use solera_machine::{Address, Topology, Without};
use solera_time::SiteId;

/// How often a replica does what it does periodically, and how long it waits before it gives up.
#[derive(Clone, Debug)]
pub struct Timing {
    /// PROPAGATE_LOCAL_TXS and BROADCAST_VECS while there is something to tell.
    pub tick: Duration,
    /// The same while nothing happens, but something has of late.
    pub idle_tick: Duration,
    /// The same when nothing has happened for [`Self::quiet_after`]: a sign of life, at least two
    /// of which fit into half of [`Self::suspect_after`]. Nobody waits for it: whoever needs
    /// progress asks for it.
    pub quiet_tick: Duration,
    /// How long after the last activity ticks become rare: time enough to fold what is stable, and
    /// to forget it.
    pub quiet_after: Duration,
    /// KNOWNVEC_GLOBAL, which only forwarding needs.
    pub known_vec_interval: Duration,
    /// A site that was silent for this long is suspected to have failed.
    pub suspect_after: Duration,
    /// A suspected site's transactions that no reachable site holds count as lost after this long.
    pub lost_after: Duration,
    /// A coordinator aborts a transaction whose participants did not all prepare in this time; a
    /// large one has more, a second for each 16 MiB.
    pub prepare_timeout: Duration,
    /// An open transaction is aborted when its client does nothing for this long.
    pub idle_transaction_timeout: Duration,
    /// An open transaction is aborted at this age, whatever its client does.
    pub max_transaction_age: Duration,
    /// A strong transaction that is not decided after so long is answered with an error. It is
    /// executed again for so long when it aborts, if it is of one operation. No vote on it is
    /// later, so that causal stability waits no longer for one whose coordinator has restarted.
    pub strong_timeout: Duration,
    /// How often a replica with a journal records what it promises while nothing else happens: with
    /// the next tick after this time.
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

/// How much one strong transaction may do. Its groups and their leaders pass all of it among the
/// sites before it is decided, and what conflicts with it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrongLimits {
    /// Bytes of the values it writes and of the keys it accesses.
    pub bytes: usize,
    /// Operations, reads among them.
    pub operations: usize,
}

impl Default for StrongLimits {
    fn default() -> Self {
        StrongLimits { bytes: 16 << 20, operations: 100_000 }
    }
}

/// Which protocol a cluster runs: UniStore, or one that the paper compares it to (§8.1, §8.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Causal transactions, and strong ones where they are asked for.
    #[default]
    UniStore,
    /// REDBLUE: one group certifies the strong transactions of all partitions.
    RedBlue,
    /// UNIFORM: causal transactions alone.
    Uniform,
    /// CUREFT: the same, and remote transactions are visible before they are uniform.
    CureFt,
}

impl Protocol {
    /// Whether there are strong transactions.
    pub fn has_strong(self) -> bool {
        matches!(self, Protocol::UniStore | Protocol::RedBlue)
    }
}

/// A rule of the protocol that a test can take out, to prove that the checks notice.
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
    /// A site that leaves is gone only when all members have the same of its history.
    GoneWhenConverged,
    /// A site that leaves is gone only when the other protocols of all members have settled its
    /// removal.
    GoneWhenSettled,
    /// When a site is gone, its causal transactions after the cut are dropped, which may be there
    /// in part.
    DropAfterCut,
    /// A donor folds nothing beyond the snapshot that it hands over.
    DonorHoldsSnapshot,
    /// A site that has joined hands nothing over before its own snapshots contain what it was
    /// filled with.
    DonorServes,
    /// The wait of a read until everything strong of its snapshot is here (Alg. 1 l. 21).
    WaitOnStrong,
    /// Whoever waits for an idle worker's progress asks for it. Only latency depends on it.
    AskForProgress,
    /// Barriers wait for the eventual writes of a session.
    DurabilityPast,
    /// ATTACH waits until the site holds the causal past (Alg. 1 l. 52).
    AttachWaits,
    /// A commit is answered when its operations on eventual spaces are executed.
    EventualConfirmed,
    /// Barriers wait for what eventual writes were executed on, and these are at risk until it is
    /// uniform.
    EventualSnapshots,
    /// Eventual writes count as at risk until they are uniform.
    EventualAtRisk,
    /// Prepared transactions count as at risk.
    PreparedAtRisk,
    /// A participant asks the guards of a transaction before it acknowledges the PREPARE.
    AskGuards,
    /// A participant whose guard refuses does not acknowledge the PREPARE.
    HeedRefusals,
    /// A participant that starts again tells guards how transactions ended that had promised
    /// before.
    TellGuardsAgain,
    /// A rule of certification.
    Certification(Certification),
}

/// The most that a transaction may write, in bytes: the longest value that a Redis client can send,
/// and its key. At one worker it must fit into one record of a journal and into one frame of a
/// link, both of at most 2^30 bytes.
pub(crate) const MAX_UPDATE: usize = 513 << 20;

/// What a replica is told when it is created.
#[derive(Clone, Debug)]
pub struct Config {
    /// The worker this replica runs on.
    pub address: Address,
    /// The cluster's shape; the same everywhere.
    pub topology: Arc<Topology>,
    /// How many sites may fail (the paper's `f`); at most `sites − 1`.
    pub f: usize,
    /// Children per node of the dissemination tree among a site's workers (§5.4).
    pub fan_out: u8,
    /// Intervals and time-outs.
    pub timing: Timing,
    /// How large strong transactions may be.
    pub strong_limits: StrongLimits,
    /// Whether to emit [`Output::Records`](crate::Output::Records), for a journal.
    pub journal: bool,
    /// Transactions are numbered from here. A replica that starts again without remembering its
    /// transactions must not give their numbers to others: participants may still ask about them.
    pub first_transaction: u64,
    /// Whether to emit [`Output::Trace`](crate::Output::Trace), for simulation.
    pub trace: bool,
    /// Which life of its site the replica belongs to; see
    /// [`Members::life`](solera_membership::Members::life). In any but the first it gets its data
    /// from the other sites.
    pub life: u32,
    /// How many of the sites take part from the beginning. Those after them were listed later, and
    /// begin like sites that were removed.
    pub founders: usize,
    /// The most bytes of data that a joining worker asks for in a second.
    pub fill_rate: u64,
    /// Intervals and time-outs of certification.
    pub certification: solera_certification::Timing,
    /// Which protocol; the same everywhere.
    pub protocol: Protocol,
    /// Strong transactions are led from this site at first.
    pub leader: SiteId,
    /// The numbers of the protocols that run beside this one in the worker and that guard keys; the
    /// same everywhere at a site.
    pub guards: Vec<u8>,
    /// A rule to leave out.
    pub without: Without<Rule>,
}

impl Config {
    /// The usual configuration of the replica at `address`: `f` is the largest minority of sites.
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
            life: 0,
            founders: sites,
            fill_rate: 256 << 20,
            certification: solera_certification::Timing::default(),
            protocol: Protocol::UniStore,
            leader: SiteId(0),
            guards: Vec::new(),
            without: Without::default(),
        }
    }

    pub(crate) fn keeps(&self, rule: Rule) -> bool {
        self.without.keeps(rule)
            && (rule != Rule::UniformBeforeVisible || self.protocol != Protocol::CureFt)
    }
}

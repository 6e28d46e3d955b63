//! Configuration of a machine, and the rules that tests take out.

use std::sync::Arc;
use std::time::Duration;

use solera_machine::{Address, Topology, Without};
use solera_time::SiteId;

/// A rule of the protocol that tests take out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// An operation is tentative only where its causal context is (§4.1). Alg. 1 l. 31 adds
    /// it at once.
    WaitForContext,
    /// A committed strong operation commits its context before it (Alg. 1 l. 49).
    CommitContext,
    /// Causal contexts lack strong operations that are undecided (Alg. 1 l. 29).
    ExcludeUndecided,
    /// The predicate requires the causal context (Alg. 1 l. 14).
    CheckContext,
    /// The strong operations of a site keep their order across a restart: the predicate requires
    /// those of earlier runs.
    OrderRuns,
    /// Tentative operations are in the order of their timestamps (Alg. 1 l. 3, l. 37–39).
    OrderByTimestamp,
    /// Received timestamps advance the clock.
    AdvanceClock,
    /// A site requests operations that it lacks.
    RequestGaps,
    /// A site sends operations of other sites.
    Relay,
    /// A promise hands over all that is not committed of the streams of a context, not only the
    /// operations that must be proposed again.
    HandOverStreams,
    /// An operation is durable before other sites learn that the site has it.
    DurableHeads,
    /// The number of a run is durable before it is used.
    DurableRun,
    /// A response leaves in a state that is that of a sequential execution.
    AnswerExact,
    /// The result of an execution counts after those of the operations in its context.
    ExecuteContext,
    /// The result of a job counts only if the operation would read now what the job has read.
    ValidateJobs,
    /// A stable reply is the response of an execution after the final operations before it (Alg. 1
    /// l. 55).
    ValidPrefix,
    /// Values that an operation has read are compared with those that it would read when an
    /// operation before it has written something else (§4.4).
    ValidateWrites,
    /// Reads of registers without a value are compared, too.
    ValidateAbsence,
    /// Reads are compared when a commit has changed the order of operations.
    ValidateMoves,
    /// A past is delivered where its operations are in the order, not where they are received.
    AttachInOrder,
    /// A past is delivered where its operations are executed, not where they are in the order.
    AttachExecuted,
    /// A barrier waits until its past is delivered.
    BarrierDelivered,
    /// Sites drop operations of sites that have left only when all have the same of these.
    AgreeOnDepartures,
    /// A joining site fetches data when all members know that it joins.
    AdmitFirst,
    /// A site commits weak operations when clients invoke no strong ones (§4.4).
    Settle,
    /// With [`Config::acyclic`], strong operations have no place before they are committed.
    HideUndecided,
}

/// A replication scheme. All schemes share the store, the execution and the broadcast, so that they
/// can be compared (Creek §6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheme {
    /// Creek.
    #[default]
    Creek,
    /// State machine replication: every operation is executed after its delivery, one at a time.
    Smr,
    /// Bayou: the leader alone determines the final order, and operations are executed one at a
    /// time.
    Bayou,
    /// Archie: the leader's proposals are executed in parallel before they are delivered.
    Archie,
}

/// When a response to a weak operation, or a tentative one, leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replies {
    /// In a state that is that of a sequential execution.
    #[default]
    Exact,
    /// When the operation is executed, as in the paper. Experiments alone use this.
    AtOnce,
}

/// Intervals and timeouts.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Interval of the timer, at which sites report what they have of the streams.
    pub tick: Duration,
    /// Time after which a site repeats a request for missing operations.
    pub retry: Duration,
    /// Time without a commit after which the leader commits the tentative weak operations. Another
    /// site does it for its own ones after twice this time.
    pub settle: Duration,
    /// Periods of the conditional atomic broadcast.
    pub consensus: solera_consensus::Timing,
}

/// Bounds of lists and of the work of one step.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Most executions and revocations in one step of the machine.
    pub executions: usize,
    /// Most operations in a message.
    pub operations: usize,
    /// Most operations that a site keeps after a gap in one stream.
    pub early: usize,
    /// Most streams in a report.
    pub streams: usize,
    /// Length of the tentative list at which the machine refuses operations of clients. At half of
    /// it, the leader commits the list.
    pub tentative: usize,
    /// Number of final operations that the machine keeps, with their responses.
    pub history: usize,
    /// Approximate size of the pieces in which a joining site fetches another site's data, in
    /// bytes.
    pub piece: usize,
}

/// The way in which a machine executes operations. Both give the same responses for the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executor {
    /// As Algorithms 1 and 2: every operation after a change of the order is executed again.
    Sequential,
    /// As §4.4: an operation is executed again if something that it has read has changed.
    Multiversion,
}

/// Configuration of a machine.
#[derive(Clone, Debug)]
pub struct Config {
    /// The worker.
    pub address: Address,
    /// The cluster's shape; the same everywhere. The workers with the number of this one are the
    /// members.
    pub topology: Arc<Topology>,
    /// Number of sites that founded the cluster: those with the lowest numbers.
    pub founders: usize,
    /// Number of the site's generation. In any but the first, the machine begins with the data of
    /// another site.
    pub generation: u32,
    /// The site that leads the conditional atomic broadcast at first; the same everywhere.
    pub leader: SiteId,
    /// Whether to emit records.
    pub journal: bool,
    /// Whether to emit events, and claims with tentative replies.
    pub trace: bool,
    /// The replication scheme. Servers run [`Scheme::Creek`]; the others are its baselines, and do
    /// not recover from failures of the leader.
    pub scheme: Scheme,
    /// The way in which the machine executes operations.
    pub executor: Executor,
    /// When responses leave.
    pub replies: Replies,
    /// Whether no operation is executed after an undecided strong one. Strong operations then get
    /// their places when they are committed, and no response shows one before.
    pub acyclic: bool,
    /// Number of operations that jobs execute at a time, unless they are short. Without jobs, the
    /// machine executes all operations itself. Only [`Executor::Multiversion`] uses jobs.
    pub jobs: usize,
    /// Intervals and timeouts.
    pub timing: Timing,
    /// Bounds.
    pub limits: Limits,
    /// Rule that a test takes out.
    pub without: Without<Rule>,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            tick: Duration::from_millis(50),
            retry: Duration::from_millis(200),
            settle: Duration::from_millis(500),
            consensus: solera_consensus::Timing::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            executions: 100,
            operations: 1_000,
            early: 10_000,
            streams: 1_000,
            tentative: 1_000_000,
            history: 10_000,
            piece: 512 << 10,
        }
    }
}

impl Config {
    /// Returns a configuration with usual timing and limits.
    pub fn new(address: Address, topology: Arc<Topology>) -> Config {
        Config {
            address,
            founders: topology.sites(),
            generation: 0,
            topology,
            leader: SiteId(0),
            journal: true,
            trace: false,
            scheme: Scheme::Creek,
            executor: Executor::Multiversion,
            replies: Replies::Exact,
            acyclic: false,
            jobs: 0,
            timing: Timing::default(),
            limits: Limits::default(),
            without: Without::default(),
        }
    }

    pub(crate) fn has(&self, rule: Rule) -> bool {
        self.without.keeps(rule)
    }

    pub(crate) fn me(&self) -> SiteId {
        self.address.site
    }

    /// Returns the member at a site.
    pub(crate) fn member(&self, site: SiteId) -> Address {
        Address { site, worker: self.address.worker }
    }
}

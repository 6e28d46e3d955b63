//! Status of a running cluster.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use solera_journal::Stats;
use solera_reservations::Counts;
use solera_session::ReadCounts;
use solera_site::speculative::Speculative;
use solera_unistore::{Progress, StrongCounts};

/// Stands for no site in [`WorkerSample::leads`].
pub(crate) const NOBODY: u64 = u64::MAX;

/// Status of a cluster, as `/status` shows it.
#[derive(Clone, Debug, Serialize)]
pub struct ClusterStatus {
    /// Name of the cluster.
    pub cluster: String,
    /// Protocol that the cluster runs; `unistore` where spaces have the guarantees of their levels.
    pub protocol: &'static str,
    /// Number of sites that may fail.
    pub f: usize,
    /// Sites, in order.
    pub sites: Vec<SiteStatus>,
    /// Links between the sites.
    pub links: Vec<LinkStatus>,
    /// Memory of the process.
    pub memory: MemoryStatus,
    /// Reason why the process rejects writes: one of its disks is nearly full, one of its journals
    /// has failed, or no other site accepts it.
    pub takes_no_writes: Option<String>,
}

/// Memory usage of a process.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct MemoryStatus {
    /// Bytes that the process uses; 0 if unknown.
    pub used_bytes: u64,
    /// Limit of the bytes that it may use.
    pub max_bytes: Option<u64>,
    /// Whether commands that need more memory are rejected.
    pub full: bool,
}

/// Status of a site.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SiteStatus {
    /// Name of the site.
    pub name: String,
    /// Port of RESP.
    pub resp_port: Option<u16>,
    /// Whether the site is running.
    pub alive: bool,
    /// Time by which fault injection has shifted the clocks of the site's workers, in milliseconds;
    /// positive if they are ahead.
    pub injected_skew_ms: i64,
    /// Shards of level `pcpsi` whose writes fault injection delays at the site, and the delays in
    /// milliseconds.
    pub slow_shards: BTreeMap<u16, u64>,
    /// Keys of strong, causal and eventual spaces at the site.
    pub keys: usize,
    /// Versions of keys; only in a detailed status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub versions: Option<usize>,
    /// Approximate bytes of keys and versions; only in a detailed status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<usize>,
    /// Keys by space; only in a detailed status.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub space_keys: BTreeMap<String, u64>,
    /// Client connections.
    pub connections: u64,
    /// Commands processed since the start, by name.
    pub commands: BTreeMap<&'static str, u64>,
    /// Error replies since the start.
    pub errors: u64,
    /// Messages of other workers that were dropped since the start, by protocol: no correct worker
    /// sends them, they arrived too late, or the site does not run the protocol.
    pub ignored_messages: BTreeMap<&'static str, u64>,
    /// Attempts to authenticate that failed since the start.
    pub failed_logins: u64,
    /// Connections since the start that were rejected, because their TLS handshake failed or there
    /// were too many.
    pub refused_connections: u64,
    /// Batches of commands by duration: `(upper bound in microseconds, count)`. The last entry
    /// counts those above all previous bounds.
    pub batch_us: Vec<(u64, u64)>,
    /// Total duration of all batches, in microseconds.
    pub batch_sum_us: u64,
    /// `stableVec` by site: everything that this site stores.
    pub stable_vec: BTreeMap<String, u64>,
    /// `uniformVec` by site: everything that survives the loss of `f` sites.
    pub uniform_vec: BTreeMap<String, u64>,
    /// Lag of this site's visible state behind each other site, in milliseconds; `None` before the
    /// first message about the other's state.
    pub lag_ms: BTreeMap<String, Option<f64>>,
    /// Time since this site's own transactions last became durable elsewhere, in milliseconds;
    /// `None` while none is known to be.
    pub uniformity_ms: Option<f64>,
    /// Sites that are suspected to have failed.
    pub suspects: Vec<String>,
    /// Open transactions.
    pub open_transactions: usize,
    /// Transactions between prepare and commit.
    pub prepared_transactions: usize,
    /// Updates that some site may still need.
    pub unsettled_updates: usize,
    /// Transactions that the loss of sites could still undo. A transaction over several workers
    /// counts at each of them.
    pub at_risk: usize,
    /// Status of `primary`, if a space needs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary: Option<PrimaryStatus>,
    /// Status of Occult, if a space needs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub occult: Option<OccultStatus>,
    /// Status of the space of level `speculative`, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speculative: Option<SpeculativeStatus>,
    /// Outcomes of strong transactions of the site's clients since the start.
    pub strong: StrongCounts,
    /// Number of partitions whose strong transactions each site leads, as this site knows.
    pub leaders: BTreeMap<String, u64>,
    /// Keys of the latest transactions at risk, at most ten; only for users who may run
    /// SOLERA.AT-RISK.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_risk_keys: Option<Vec<String>>,
    /// Statistics of the site's journals in this process, if there are any; only in the metrics.
    #[serde(skip)]
    pub(crate) journal: Option<JournalSample>,
    /// Counts of reads at a chosen level and of intervals; only in the metrics.
    #[serde(skip)]
    pub(crate) reads: ReadCounts,
    /// Counts about keys with bounds, if there are such spaces; only in the metrics.
    #[serde(skip)]
    pub(crate) bounds: Option<Counts>,
}

/// Status of the protocol `primary` at a site, or at one of its workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrimaryStatus {
    /// Keys that have a value.
    pub keys: u64,
    /// Updates of clients of the site that wait for their home.
    pub pending_updates: u64,
    /// Updates stored at the site that f + 1 sites are not known to store.
    pub unsettled_updates: u64,
    /// Partitions of which the site is the home.
    pub home_of: u64,
    /// Replies since the start that arrived after their request had ended.
    pub dropped_replies: u64,
}

impl PrimaryStatus {
    /// Adds the status of another worker.
    pub(crate) fn add(&mut self, other: &PrimaryStatus) {
        self.keys += other.keys;
        self.pending_updates += other.pending_updates;
        self.unsettled_updates += other.unsettled_updates;
        self.home_of += other.home_of;
        self.dropped_replies += other.dropped_replies;
    }
}

/// Status of Occult at a site, or at one of its workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OccultStatus {
    /// Keys that have a value.
    pub keys: u64,
    /// Shards of which the site is the home.
    pub home_shards: u64,
    /// Shards whose data is on its way to the site, their new home.
    pub arriving_shards: u64,
    /// Open transactions of the site's clients.
    pub open_transactions: u64,
    /// Transactions that the site's homes have prepared, and that are not decided.
    pub prepared_transactions: u64,
    /// Outcomes that the site's homes keep, because a client or another home may ask for them.
    pub outcome_records: u64,
    /// Committed writes that wait for the decision about an earlier one.
    pub hidden_writes: u64,
}

impl OccultStatus {
    /// Adds the status of another worker.
    pub(crate) fn add(&mut self, other: &OccultStatus) {
        self.keys += other.keys;
        self.home_shards += other.home_shards;
        self.arriving_shards += other.arriving_shards;
        self.open_transactions += other.open_transactions;
        self.prepared_transactions += other.prepared_transactions;
        self.outcome_records += other.outcome_records;
        self.hidden_writes += other.hidden_writes;
    }
}

/// Status of the space of level `speculative` at a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpeculativeStatus {
    /// Operations that are committed at the site.
    pub committed: u64,
    /// Committed operations that the site has executed in their place, after all before them.
    pub final_operations: u64,
    /// Operations at the site whose place is not final yet.
    pub tentative: u64,
    /// Executions of operations at the site since the start.
    pub executions: u64,
    /// Operations of the site's clients since the start that had a result before they were final.
    pub predicted: u64,
    /// How many of these had the final result at first.
    pub accurate: u64,
    /// Operations that the site keeps for other sites, or because they are not final.
    pub kept: u64,
    /// 1 if the site leads the broadcast that orders strong operations, otherwise 0.
    pub leads: u64,
    /// Sites whose results differ from this site's.
    pub differing_sites: u64,
    /// What a joining site has got of the space; `None` if it has all.
    pub joining: Option<SpeculativeJoining>,
}

/// What a joining site has got of the space of level `speculative`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpeculativeJoining {
    /// Bytes that have arrived.
    pub bytes: u64,
    /// Approximate number of all bytes; 0 if it is not known.
    pub of_bytes: u64,
}

impl SpeculativeStatus {
    /// Returns the status of a worker's machine.
    pub(crate) fn of(machine: &Speculative) -> SpeculativeStatus {
        let status = machine.status();
        SpeculativeStatus {
            committed: status.committed,
            final_operations: status.finals,
            tentative: status.tentative as u64,
            executions: status.executions,
            predicted: status.predicted,
            accurate: status.accurate,
            kept: status.kept as u64,
            leads: u64::from(machine.leads()),
            differing_sites: machine.divergence().map_or(0, |it| it.sites.len() as u64),
            joining: machine
                .fetched()
                .map(|it| SpeculativeJoining { bytes: it.bytes, of_bytes: it.total }),
        }
    }

    /// Returns the progress of a joining site. The space counts as much as a partition.
    pub(crate) fn progress(&self) -> Progress {
        let Some(SpeculativeJoining { bytes, of_bytes }) = self.joining else {
            return Progress { partitions: 1, filled: 1, ..Progress::default() };
        };
        let share = bytes as f64 / of_bytes.max(1) as f64;
        // The total is approximate, and 0 before the transfer begins.
        let current = if of_bytes == 0 { 0.0 } else { share.min(0.99) };
        Progress { partitions: 1, current, ..Progress::default() }
    }

    /// Adds the status of another worker.
    pub(crate) fn add(&mut self, other: &SpeculativeStatus) {
        self.committed += other.committed;
        self.final_operations += other.final_operations;
        self.tentative += other.tentative;
        self.executions += other.executions;
        self.predicted += other.predicted;
        self.accurate += other.accurate;
        self.kept += other.kept;
        self.leads += other.leads;
        self.differing_sites += other.differing_sites;
        self.joining = self.joining.or(other.joining);
    }
}

/// Status of the link between two sites.
#[derive(Clone, Debug, Serialize)]
pub struct LinkStatus {
    /// One site.
    pub a: String,
    /// The other site.
    pub b: String,
    /// Round trip in milliseconds, with added delays.
    pub rtt_ms: f64,
    /// Whether the link is cut.
    pub cut: bool,
}

/// Status of one node of a cluster, as its `/status` shows it.
#[derive(Clone, Debug, Serialize)]
pub struct NodeStatus {
    /// Name of the cluster.
    pub cluster: String,
    /// See [`ClusterStatus::protocol`].
    pub protocol: &'static str,
    /// Number of sites that may fail.
    pub f: usize,
    /// Number of sites that may fail with the current members; below `f` when too few other sites
    /// take part.
    pub survives: usize,
    /// Name of the node's site.
    pub site: String,
    /// Number of the node within the site, from 1.
    pub node: u16,
    /// Whether the links to all other nodes of the site are up, and the node is not stopping.
    pub ready: bool,
    /// The refusing node and its reason, if no other site accepts this node; it then rejects
    /// writes.
    pub refused: Option<String>,
    /// Reason why the node rejects writes: its disk is nearly full, one of its journals has failed,
    /// or it is refused.
    pub takes_no_writes: Option<String>,
    /// Status of the whole site, without the nodes that did not answer.
    pub own_site: SiteStatus,
    /// Numbers of the site's nodes that did not answer, whose part is missing in `own_site`.
    pub missing_nodes: Vec<u16>,
    /// All sites, in order, and the links to their nodes.
    pub sites: Vec<ReachedSite>,
    /// Part of the data, from 0 to 1, that a joining site has; `None` if it is not joining.
    pub joining: Option<f64>,
    /// Memory of the process.
    pub memory: MemoryStatus,
}

/// A site as seen from a node.
#[derive(Clone, Debug, Serialize)]
pub struct ReachedSite {
    /// Name of the site.
    pub name: String,
    /// Status of the site: member, leaving, removed or joining.
    pub status: String,
    /// Whether the links to all of its nodes are up.
    pub reached: bool,
    /// Links to its nodes, without the node itself.
    pub nodes: Vec<PeerStatus>,
}

/// Status of the link to another node.
#[derive(Clone, Debug, Serialize)]
pub struct PeerStatus {
    /// Number of the other node within its site, from 1.
    pub node: u16,
    /// Address of the other node.
    pub address: String,
    /// Whether messages pass in both directions.
    pub up: bool,
    /// Time for which the link has been up, in milliseconds; 0 while it is down.
    pub up_ms: u64,
    /// Bytes that wait to be sent and, within a site, that are not acknowledged yet.
    pub queue_bytes: usize,
    /// Batches that were dropped because the queue was full.
    pub dropped_batches: u64,
    /// Number of reconnects.
    pub reconnects: u64,
    /// Reason why the connection last broke or failed; `None` while it is open.
    pub problem: Option<String>,
}

/// Sample of one worker's state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct WorkerSample {
    pub(crate) keys: usize,
    pub(crate) size: Option<(usize, usize)>,
    pub(crate) connections: u64,
    pub(crate) commands: Vec<u64>,
    pub(crate) errors: u64,
    pub(crate) batches: Vec<u64>,
    pub(crate) batch_sum_us: u64,
    /// Keys by the index of their space; empty unless in detail.
    pub(crate) space_keys: Vec<u64>,
    pub(crate) stable_vec: Vec<u64>,
    pub(crate) uniform_vec: Vec<u64>,
    /// Microseconds since the Unix epoch.
    pub(crate) behind_ms: Vec<f64>,
    pub(crate) suspects: Vec<usize>,
    pub(crate) open_transactions: usize,
    pub(crate) prepared_transactions: usize,
    pub(crate) unsettled_updates: usize,
    pub(crate) at_risk: usize,
    /// Number of the site that leads each of the worker's partitions, in order; [`NOBODY`] where no
    /// leader exists or is known.
    pub(crate) leads: Vec<u64>,
    pub(crate) strong: StrongCounts,
    pub(crate) primary: Option<PrimaryStatus>,
    pub(crate) occult: Option<OccultStatus>,
    pub(crate) speculative: Option<SpeculativeStatus>,
    /// Counts of dropped messages, in the order of the build's protocols.
    pub(crate) ignored: Vec<u64>,
    pub(crate) failed_logins: u64,
    /// Whether the site has the data that it serves.
    pub(crate) serving: bool,
    pub(crate) progress: Progress,
    pub(crate) refused_connections: u64,
    /// `None` without a journal; not sent to other nodes.
    #[serde(skip)]
    pub(crate) journal: Option<JournalSample>,
    /// Not sent to other nodes: the metrics of a process are those of its own workers.
    #[serde(skip)]
    pub(crate) reads: ReadCounts,
    /// `None` without spaces that have bounds; not sent to other nodes.
    #[serde(skip)]
    pub(crate) bounds: Option<Counts>,
}

/// Statistics of a journal, or of several workers' journals together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct JournalSample {
    pub(crate) stats: Stats,
    pub(crate) disk_bytes: u64,
    /// Checkpoints published since the start.
    pub(crate) checkpoints: u64,
    /// Time of the last publication, in seconds since the Unix epoch; of several, the earliest.
    pub(crate) checkpoint_at_s: Option<f64>,
    /// Duration of the last checkpoint; of several, the longest.
    pub(crate) checkpoint_took_s: Option<f64>,
    /// Records after the last checkpoint.
    pub(crate) since_checkpoint: u64,
}

impl JournalSample {
    /// Adds the statistics of another worker.
    pub(crate) fn add(&mut self, other: &JournalSample) {
        let (sum, more) = (&mut self.stats, &other.stats);
        sum.records += more.records;
        sum.bytes += more.bytes;
        sum.waiting_bytes += more.waiting_bytes;
        sum.sync_sum_us += more.sync_sum_us;
        sum.segments += more.segments;
        sum.syncs.resize(more.syncs.len(), 0);
        sum.syncs.iter_mut().zip(&more.syncs).for_each(|(sum, count)| *sum += count);
        self.disk_bytes += other.disk_bytes;
        self.checkpoints += other.checkpoints;
        self.since_checkpoint += other.since_checkpoint;
        let both = |a: Option<f64>, b: Option<f64>, of: fn(f64, f64) -> f64| match (a, b) {
            (Some(a), Some(b)) => Some(of(a, b)),
            (a, b) => a.or(b),
        };
        self.checkpoint_at_s = both(self.checkpoint_at_s, other.checkpoint_at_s, f64::min);
        self.checkpoint_took_s = both(self.checkpoint_took_s, other.checkpoint_took_s, f64::max);
    }
}

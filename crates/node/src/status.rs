//! What a running cluster tells about itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use solera_journal::Stats;
use solera_unistore::{Progress, StrongCounts};

/// Not the number of a site.
pub(crate) const NOBODY: u64 = u64::MAX;

/// A cluster, as `/status` shows it.
#[derive(Clone, Debug, Serialize)]
pub struct ClusterStatus {
    /// The cluster's name.
    pub cluster: String,
    /// The protocol that it runs; `unistore` where levels of spaces promise what they say.
    pub protocol: &'static str,
    /// How many sites may fail.
    pub f: usize,
    /// Its sites, in order.
    pub sites: Vec<SiteStatus>,
    /// The links between them.
    pub links: Vec<LinkStatus>,
    /// The process' memory.
    pub memory: MemoryStatus,
    /// Why the process takes no writes: a disk of it is nearly full, a journal of it has failed, or
    /// no other site accepts it.
    pub takes_no_writes: Option<String>,
}

/// What a process takes of the machine's memory.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct MemoryStatus {
    /// How many bytes; 0 where that cannot be measured.
    pub used_bytes: u64,
    /// How many it may take.
    pub max_bytes: Option<u64>,
    /// Whether commands that need more are refused.
    pub full: bool,
}

/// A site.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SiteStatus {
    /// Its name.
    pub name: String,
    /// Where it speaks RESP.
    pub resp_port: Option<u16>,
    /// Whether it runs.
    pub alive: bool,
    /// Keys stored there.
    pub keys: usize,
    /// Versions of keys, and approximate bytes; only in a detailed status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub versions: Option<usize>,
    /// See `versions`.
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
    /// sends them, they came too late, or the site does not run the protocol.
    pub ignored_messages: BTreeMap<&'static str, u64>,
    /// Attempts to authenticate that failed since the start.
    pub failed_logins: u64,
    /// Connections since the start that were not served, for their TLS or because there were too
    /// many.
    pub refused_connections: u64,
    /// Batches of commands by duration: `(upper bound in microseconds, how many)`. The last are
    /// those that took longer than all bounds before.
    pub batch_us: Vec<(u64, u64)>,
    /// What all batches took together, in microseconds.
    pub batch_sum_us: u64,
    /// `stableVec` by site: all that this site stores.
    pub stable_vec: BTreeMap<String, u64>,
    /// `uniformVec` by site: what survives the loss of `f` sites.
    pub uniform_vec: BTreeMap<String, u64>,
    /// How far this site's visible state is behind each other site, in milliseconds; nothing while
    /// it has not heard of the other's state.
    pub lag_ms: BTreeMap<String, Option<f64>>,
    /// How long ago this site's own transactions last became durable elsewhere, in milliseconds;
    /// nothing while none is known to be.
    pub uniformity_ms: Option<f64>,
    /// Sites that are suspected to have failed.
    pub suspects: Vec<String>,
    /// Open transactions.
    pub open_transactions: usize,
    /// Transactions between prepare and commit.
    pub prepared_transactions: usize,
    /// Updates that some site may still need.
    pub unsettled_updates: usize,
    /// Transactions that the loss of sites could still undo. One over several workers counts at
    /// each.
    pub at_risk: usize,
    /// What `primary` tells, if a space needs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary: Option<PrimaryStatus>,
    /// What strong transactions of the site's clients have come to since the start.
    pub strong: StrongCounts,
    /// How many partitions' strong transactions are led from each site, as this one knows.
    pub leaders: BTreeMap<String, u64>,
    /// Keys of the latest of these, at most ten; only for those who may run SOLERA.AT-RISK.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_risk_keys: Option<Vec<String>>,
    /// What the journals of the site in this process tell, if there are any; only in the metrics.
    #[serde(skip)]
    pub(crate) journal: Option<JournalSample>,
}

/// What the protocol `primary` tells of a site, or of one of its workers.
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
    /// Replies since the start that nobody waited for.
    pub dropped_replies: u64,
}

impl PrimaryStatus {
    /// Adds what another worker tells.
    pub(crate) fn add(&mut self, other: &PrimaryStatus) {
        self.keys += other.keys;
        self.pending_updates += other.pending_updates;
        self.unsettled_updates += other.unsettled_updates;
        self.home_of += other.home_of;
        self.dropped_replies += other.dropped_replies;
    }
}

/// The link between two sites.
#[derive(Clone, Debug, Serialize)]
pub struct LinkStatus {
    /// One site.
    pub a: String,
    /// The other.
    pub b: String,
    /// The round trip in milliseconds, with what was added.
    pub rtt_ms: f64,
    /// Whether nothing passes.
    pub cut: bool,
}

/// One node of a cluster, as its `/status` shows it.
#[derive(Clone, Debug, Serialize)]
pub struct NodeStatus {
    /// The cluster's name.
    pub cluster: String,
    /// As of [`ClusterStatus`].
    pub protocol: &'static str,
    /// How many sites may fail.
    pub f: usize,
    /// How many can, as sites stand now: fewer than `f` when too few others take part.
    pub survives: usize,
    /// The node's site.
    pub site: String,
    /// The node's number within it, from 1.
    pub node: u16,
    /// Whether the links to all other nodes of its site are up, and the node is not stopping.
    pub ready: bool,
    /// Who refuses the node and why, if no other site accepts it, so that it takes no writes.
    pub refused: Option<String>,
    /// Why the node takes no writes: its disk is nearly full, a journal of it has failed, or it is
    /// refused.
    pub takes_no_writes: Option<String>,
    /// The whole of its site, but for the nodes that cannot be asked.
    pub own_site: SiteStatus,
    /// The numbers of the site's nodes that did not answer, whose part is missing in `own_site`.
    pub missing_nodes: Vec<u16>,
    /// All sites, in order, and the links to their nodes.
    pub sites: Vec<ReachedSite>,
    /// While the site gets its data from the others: which part of it is there, from 0 to 1.
    pub joining: Option<f64>,
    /// The process' memory.
    pub memory: MemoryStatus,
}

/// A site, as a node reaches it.
#[derive(Clone, Debug, Serialize)]
pub struct ReachedSite {
    /// Its name.
    pub name: String,
    /// How it stands: member, leaving, removed or joining.
    pub standing: String,
    /// Whether the links to all of its nodes are up.
    pub reached: bool,
    /// The links to its nodes, without the node itself.
    pub nodes: Vec<PeerStatus>,
}

/// The link to another node.
#[derive(Clone, Debug, Serialize)]
pub struct PeerStatus {
    /// The number of the other node within its site, from 1.
    pub node: u16,
    /// Where it is reached.
    pub address: String,
    /// Whether messages pass, both ways.
    pub up: bool,
    /// For how long, in milliseconds.
    pub up_ms: u64,
    /// What waits to be sent, and within a site also what was not acknowledged yet.
    pub queue_bytes: usize,
    /// Batches that were dropped because too much waited.
    pub dropped_batches: u64,
    /// How often the connection was made again.
    pub reconnects: u64,
    /// Why the connection broke, or could not be made, last; nothing while it stands.
    pub problem: Option<String>,
}

/// What one worker tells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct WorkerSample {
    pub(crate) keys: usize,
    pub(crate) size: Option<(usize, usize)>,
    pub(crate) connections: u64,
    pub(crate) commands: Vec<u64>,
    pub(crate) errors: u64,
    pub(crate) batches: Vec<u64>,
    pub(crate) batch_sum_us: u64,
    /// Keys by the place of their space; empty unless in detail.
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
    /// Of each of the worker's partitions, in order, the number of the site that leads it;
    /// [`NOBODY`] where there is nothing to lead, or the worker knows of nobody who does.
    pub(crate) leads: Vec<u64>,
    pub(crate) strong: StrongCounts,
    pub(crate) primary: Option<PrimaryStatus>,
    /// In the order of the build's protocols.
    pub(crate) ignored: Vec<u64>,
    pub(crate) failed_logins: u64,
    /// Whether the site has the data that it serves.
    pub(crate) serving: bool,
    pub(crate) progress: Progress,
    pub(crate) refused_connections: u64,
    /// Nothing without a journal; other nodes are not told.
    #[serde(skip)]
    pub(crate) journal: Option<JournalSample>,
}

/// What a journal tells, or those of several workers together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct JournalSample {
    pub(crate) stats: Stats,
    pub(crate) disk_bytes: u64,
    /// Checkpoints published since the start.
    pub(crate) checkpoints: u64,
    /// When the last was published, in seconds since the Unix epoch: of several, the earliest.
    pub(crate) checkpoint_at_s: Option<f64>,
    /// How long it took: of several, the longest.
    pub(crate) checkpoint_took_s: Option<f64>,
    /// Records after the last.
    pub(crate) since_checkpoint: u64,
}

impl JournalSample {
    /// Adds what another worker tells.
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

//! What a running cluster tells about itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A cluster, as `/status` shows it.
#[derive(Clone, Debug, Serialize)]
pub struct ClusterStatus {
    /// The cluster's name.
    pub cluster: String,
    /// How many sites may fail.
    pub f: usize,
    /// Its sites, in order.
    pub sites: Vec<SiteStatus>,
    /// The links between them.
    pub links: Vec<LinkStatus>,
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
    /// Attempts to authenticate that failed since the start.
    pub failed_logins: u64,
    /// Connections since the start that were not served, for their TLS or because there were too many.
    pub refused_connections: u64,
    /// Batches of commands by duration: `(upper bound in microseconds, how many)`. The last are those
    /// that took longer than all bounds before.
    pub batch_us: Vec<(u64, u64)>,
    /// What all batches took together, in microseconds.
    pub batch_sum_us: u64,
    /// `stableVec` by site: all that this site stores.
    pub stable_vec: BTreeMap<String, u64>,
    /// `uniformVec` by site: what survives the loss of `f` sites.
    pub uniform_vec: BTreeMap<String, u64>,
    /// How far this site's visible state is behind each other site, in milliseconds; nothing while it
    /// has not heard of the other's state.
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
    /// Transactions that the loss of sites could still undo. One over several workers counts at each.
    pub at_risk: usize,
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
    /// How many sites may fail.
    pub f: usize,
    /// The node's site.
    pub site: String,
    /// The node's number within it, from 1.
    pub node: u16,
    /// Whether the links to all other nodes of its site are up.
    pub ready: bool,
    /// The whole of its site, but for the nodes that cannot be asked.
    pub own_site: SiteStatus,
    /// The numbers of the site's nodes that did not answer, whose part is missing in `own_site`.
    pub missing_nodes: Vec<u16>,
    /// All sites, in order, and the links to their nodes.
    pub sites: Vec<ReachedSite>,
}

/// A site, as a node reaches it.
#[derive(Clone, Debug, Serialize)]
pub struct ReachedSite {
    /// Its name.
    pub name: String,
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
    pub(crate) failed_logins: u64,
    pub(crate) refused_connections: u64,
}

//! Reasons for which two nodes refuse each other.

use solera_machine::NodeId;
use solera_time::SiteId;

use crate::admission::Unwelcome;
use crate::frame::VERSION;
use crate::identity::Identity;

/// Reason for which two nodes refuse each other. Both nodes log it, so its text names the caller
/// and the called node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The bytes are not the beginning of a greeting.
    #[error("the other side is not a Solera node")]
    NotSolera,
    /// The other node uses another version of the wire format.
    #[error(
        "the other node speaks version {0} of the wire format, this one version {VERSION}; \
         upgrade them to the same release"
    )]
    Version(u16),
    /// The greeting is cut short, altered, or not written by this version.
    #[error("the greeting is damaged")]
    Damaged,
    /// The clusters have different names.
    #[error("another cluster: the caller belongs to '{caller}', the called node to '{called}'")]
    OtherCluster {
        /// The caller's cluster.
        caller: String,
        /// The called node's cluster.
        called: String,
    },
    /// The nodes were configured differently.
    #[error(
        "contradictory configurations: {what}: '{caller}' at the caller, '{called}' at the \
         called node; give all nodes the same file"
    )]
    Disagreement {
        /// Name of the setting.
        what: String,
        /// The caller's value.
        caller: String,
        /// The called node's value.
        called: String,
    },
    /// The nodes run releases of Solera that do not understand one another.
    #[error(
        "different releases of Solera: {what}: '{caller}' at the caller, '{called}' at the \
         called node; upgrade them to the same release"
    )]
    Releases {
        /// The difference.
        what: String,
        /// The caller's version.
        caller: String,
        /// The called node's version.
        called: String,
    },
    /// The caller wanted to reach another node.
    #[error(
        "wrong address: the caller meant {meant}, but this is {called}; see `peer` in the \
         configuration"
    )]
    WrongAddress {
        /// The node that the caller wanted to reach.
        meant: String,
        /// The node that was called.
        called: String,
    },
    /// The caller claims to be the called node itself, or a node that the cluster does not have.
    #[error(
        "the caller claims to be the called node itself, or a node that this cluster does not have"
    )]
    NoSuchNode,
    /// The caller's site is new, and the called node does not list it.
    #[error(
        "the called node does not list site {0} yet; restart it with the caller's list of sites"
    )]
    NotListed(String),
    /// A node's list lacks a site that was added.
    #[error(
        "{0} does not list site {1}, which was added; restart it with the other's list of sites"
    )]
    Lacks(String, String),
    /// Another process is connected as the same node.
    #[error(
        "another process is connected as the same node, or was connected during this call; if one \
         of the two processes has just died, connecting succeeds within seconds"
    )]
    Taken,
    /// A node's clock is too far ahead of the other's.
    #[error(
        "the clock of {node} is {} s ahead of the other node's; {} s are allowed \
         (max_clock_skew_ms); set the clocks",
        *.ahead_ms as f64 / 1000.0,
        *.limit_ms as f64 / 1000.0
    )]
    Clocks {
        /// The node.
        node: String,
        /// Difference, in milliseconds.
        ahead_ms: u64,
        /// Limit, in milliseconds.
        limit_ms: u64,
    },
    /// A node has received times that are too far ahead.
    #[error(
        "{node} holds times that are {} s ahead of the other node's time, but only {} s are allowed \
         (max_clock_skew_ms), so some clock was wrong earlier; wait until the other node's clock \
         has caught up, or raise the limit at all nodes to accept these times",
        *.ahead_ms as f64 / 1000.0,
        *.limit_ms as f64 / 1000.0
    )]
    Ahead {
        /// The node.
        node: String,
        /// Difference, in milliseconds.
        ahead_ms: u64,
        /// Limit, in milliseconds.
        limit_ms: u64,
    },
    /// The site was removed.
    #[error(
        "site {0} was removed from the cluster; to let it in again, `solera site add {0}` and \
         start its nodes as that command prints, with empty directories"
    )]
    Removed(String),
    /// This node does not know that the site joins.
    #[error(
        "this node does not know the number with which the nodes of site {0} were started; start \
         them with `--join` and the number that `solera site add {0}` printed"
    )]
    UnknownGeneration(String),
    /// The node has other data than before.
    #[error(
        "{0} does not have the data that it had, so it cannot take part; `solera site remove \
         {1}`, then add it again"
    )]
    OtherData(String, String),
    /// The data of the node is a copy from before its last start.
    #[error(
        "{0} runs with an older copy of its data, and lacks what it has sent to others since; \
         `solera site remove {1}`, then add it again"
    )]
    OlderCopy(String, String),
    /// The node has lost data that it had announced.
    #[error(
        "{0} lacks data that it has sent to others, so its data is an older copy, or its disk \
         has lost something; `solera site remove {1}`, then add it again"
    )]
    LostData(String, String),
    /// The TLS handshake of the two nodes failed.
    #[error("{0}")]
    Tls(String),
    /// The refusal that the other node sent, as text.
    #[error("{0}")]
    FromPeer(String),
}

impl Refusal {
    /// Returns the kind of the reason as one word, for counters.
    pub fn label(&self) -> &'static str {
        match self {
            Refusal::NotSolera => "no_greeting",
            Refusal::Damaged => "damaged",
            Refusal::Version(_) | Refusal::Releases { .. } => "release",
            Refusal::OtherCluster { .. } => "cluster",
            Refusal::Disagreement { .. } | Refusal::NotListed(_) | Refusal::Lacks(..) => "settings",
            Refusal::WrongAddress { .. } | Refusal::NoSuchNode => "node",
            Refusal::Taken => "taken",
            Refusal::Clocks { .. } | Refusal::Ahead { .. } => "clock",
            Refusal::Removed(_) | Refusal::UnknownGeneration(_) => "generation",
            Refusal::OtherData(..) | Refusal::OlderCopy(..) | Refusal::LostData(..) => "data",
            Refusal::Tls(_) => "tls",
            Refusal::FromPeer(_) => "by_peer",
        }
    }

    /// Converts the reason for which a node is not admitted, and adds the names.
    pub fn of(unwelcome: Unwelcome, node: NodeId, identity: &Identity) -> Refusal {
        let name = |site: SiteId| {
            identity
                .sites
                .get(site.index())
                .map_or_else(|| "?".to_owned(), |(name, _)| name.clone())
        };
        let (node, site) = (identity.name_of(node), name(node.site));
        match unwelcome {
            Unwelcome::Removed => Refusal::Removed(site),
            Unwelcome::Unknown => Refusal::UnknownGeneration(site),
            Unwelcome::OtherData => Refusal::OtherData(node, site),
            Unwelcome::OlderCopy => Refusal::OlderCopy(node, site),
            Unwelcome::LostData => Refusal::LostData(node, site),
            Unwelcome::Lacks(added) => Refusal::Lacks(node, name(added)),
        }
    }
}

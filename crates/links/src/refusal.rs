//! Reasons for which two nodes refuse one another.

use std::fmt;

use solera_machine::NodeId;
use solera_time::SiteId;

use crate::admission::Unwelcome;
use crate::frame::VERSION;
use crate::identity::Identity;

/// Reason for which two nodes refuse one another. Both nodes log it, so its text names the caller
/// and the called node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The bytes are not the beginning of a greeting.
    NotSolera,
    /// The other node uses another version of the wire format.
    Version(u16),
    /// The greeting is cut short, altered, or not written by this version.
    Damaged,
    /// The clusters have different names.
    OtherCluster {
        /// The caller's cluster.
        caller: String,
        /// The called node's cluster.
        called: String,
    },
    /// The nodes were configured differently.
    Disagreement {
        /// Name of the setting.
        what: String,
        /// The caller's value.
        caller: String,
        /// The called node's value.
        called: String,
    },
    /// The caller meant another node.
    WrongAddress {
        /// The node that the caller meant.
        meant: String,
        /// The node that was called.
        called: String,
    },
    /// The caller is no other node of the cluster.
    NoSuchNode,
    /// The caller's site is new, and the called node does not list it.
    NotListed(String),
    /// A node's list lacks a site that was added.
    Lacks(String, String),
    /// Another process has connections as the same node.
    Taken,
    /// A node's clock is too far ahead of the other's.
    Clocks {
        /// The node.
        node: String,
        /// Difference, in milliseconds.
        ahead_ms: u64,
        /// Limit, in milliseconds.
        limit_ms: u64,
    },
    /// A node has seen times that are too far ahead.
    Ahead {
        /// The node.
        node: String,
        /// Difference, in milliseconds.
        ahead_ms: u64,
        /// Limit, in milliseconds.
        limit_ms: u64,
    },
    /// The site was removed.
    Removed(String),
    /// This node does not know that the site joins.
    UnknownLife(String),
    /// The node, of this site, has other data than before.
    OtherData(String, String),
    /// The data of the node, of this site, is a copy from before its last start.
    OlderCopy(String, String),
    /// The node, of this site, has lost data that it had announced.
    Forgetful(String, String),
    /// The TLS handshake between them failed.
    Tls(String),
    /// The refusal that the other node sent, as text.
    FromPeer(String),
}

impl fmt::Display for Refusal {
    #[expect(clippy::too_many_lines, reason = "one arm per refusal")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NotSolera => write!(f, "the other side is not a Solera node"),
            Refusal::Version(version) => write!(
                f,
                "the other node speaks version {version} of the wire format, this one version \
                 {VERSION}; upgrade the older one"
            ),
            Refusal::Damaged => write!(f, "the greeting is damaged"),
            Refusal::OtherCluster { caller, called } => write!(
                f,
                "another cluster: the caller belongs to '{caller}', the called node to '{called}'"
            ),
            Refusal::Disagreement { what, caller, called } => write!(
                f,
                "contradictory configurations: {what}: '{caller}' at the caller, '{called}' at the \
                 called node; give all nodes the same file"
            ),
            Refusal::WrongAddress { meant, called } => write!(
                f,
                "wrong address: the caller meant {meant}, but this is {called}; see `peer` in the \
                 configuration"
            ),
            Refusal::NoSuchNode => write!(f, "the caller is no other node of this cluster"),
            Refusal::NotListed(site) => write!(
                f,
                "the called node does not list site {site} yet; restart it with the caller's list of \
                 sites"
            ),
            Refusal::Lacks(node, site) => write!(
                f,
                "{node} does not list site {site}, which was added; restart it with the other's list of \
                 sites"
            ),
            Refusal::Taken => write!(
                f,
                "another process is connected as this node, or was since this call began; if one of \
                 them has just died, this ends within seconds"
            ),
            Refusal::Clocks { node, ahead_ms, limit_ms } => write!(
                f,
                "the clock of {node} is {} s ahead of the other node's; {} s are allowed \
                 (max_clock_skew_ms); set the clocks",
                *ahead_ms as f64 / 1000.0,
                *limit_ms as f64 / 1000.0
            ),
            Refusal::Ahead { node, ahead_ms, limit_ms } => write!(
                f,
                "{node} holds times that are {} s ahead of the other node's; {} s are allowed \
                 (max_clock_skew_ms): its clock was wrong; wait until that time, or raise the limit \
                 at all nodes to take the times as they are",
                *ahead_ms as f64 / 1000.0,
                *limit_ms as f64 / 1000.0
            ),
            Refusal::Removed(site) => write!(
                f,
                "site {site} was removed from the cluster; to let it in again, `solera site add {site}` \
                 and start its nodes as that command prints, with empty directories"
            ),
            Refusal::UnknownLife(site) => write!(
                f,
                "site {site} was not added again with the number that its nodes were given, as far as this node \
                 knows; `--join` takes the number that `solera site add {site}` printed"
            ),
            Refusal::OtherData(node, site) => write!(
                f,
                "{node} does not have the data that it had, so it cannot take part; `solera site \
                 remove {site}`, then add it again"
            ),
            Refusal::OlderCopy(node, site) => write!(
                f,
                "{node} runs with an older copy of its data, and lacks what it has sent to others since; \
                 `solera site remove {site}`, then add it again"
            ),
            Refusal::Forgetful(node, site) => write!(
                f,
                "{node} lacks data that it has sent to others, so its data is an older copy, or \
                 its disk has lost something; `solera site remove {site}`, then add it again"
            ),
            Refusal::Tls(reason) | Refusal::FromPeer(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for Refusal {}

impl Refusal {
    /// Converts the reason why a node is not admitted, with names.
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
            Unwelcome::Unknown => Refusal::UnknownLife(site),
            Unwelcome::OtherData => Refusal::OtherData(node, site),
            Unwelcome::OlderCopy => Refusal::OlderCopy(node, site),
            Unwelcome::Forgetful => Refusal::Forgetful(node, site),
            Unwelcome::Lacks(added) => Refusal::Lacks(node, name(added)),
        }
    }
}

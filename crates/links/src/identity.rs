//! Identity of a node's cluster, and the protocols that the node runs.

use serde::{Deserialize, Serialize};
use solera_machine::{NodeId, Protocol};

/// The setting in [`Identity::agreed`] that may differ while the lists of sites differ.
pub const WITH_THE_SITES: &str = "f";

/// Identity of a cluster according to a node's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Name of the cluster.
    pub cluster: String,
    /// Identifier of the cluster.
    pub id: u64,
    /// Sites, with the number of workers of each of their nodes.
    pub sites: Vec<(String, Vec<u8>)>,
    /// Further settings on which all nodes must agree: `(name, value)`.
    pub agreed: Vec<(String, String)>,
    /// Protocols that the node runs.
    pub speaks: Vec<Speaks>,
}

impl Identity {
    /// Returns the name of a node for logs and errors.
    pub fn name_of(&self, node: NodeId) -> String {
        let site = self.sites.get(node.site.index()).map_or("?", |(name, _)| name);
        format!("node {} of site {site}", u16::from(node.node) + 1)
    }

    pub(crate) fn has(&self, node: NodeId) -> bool {
        let site = self.sites.get(node.site.index());
        site.is_some_and(|(_, nodes)| usize::from(node.node) < nodes.len())
    }
}

/// A protocol that a node runs, and the versions of its messages that it understands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Speaks {
    /// Number of the protocol.
    pub protocol: u8,
    /// Name of the protocol.
    pub name: String,
    /// Oldest version.
    pub oldest: u8,
    /// Newest version.
    pub newest: u8,
}

impl Speaks {
    /// Returns the versions of a protocol that this build supports.
    pub fn of(protocol: &Protocol) -> Speaks {
        Speaks {
            protocol: protocol.number,
            name: protocol.name.to_owned(),
            oldest: protocol.oldest_messages,
            newest: protocol.messages,
        }
    }

    /// Returns the version in which two nodes communicate: the newest that both understand, or
    /// `None` if there is none.
    pub fn common(&self, other: &Speaks) -> Option<u8> {
        let newest = self.newest.min(other.newest);
        (newest >= self.oldest.max(other.oldest)).then_some(newest)
    }

    pub(crate) fn versions(&self) -> String {
        match self.oldest == self.newest {
            true => format!("version {}", self.newest),
            false => format!("versions {} to {}", self.oldest, self.newest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_talk_in_the_newest_version_that_both_understand() {
        for (one, other, common) in [
            ((1, 1), (1, 1), Some(1)),
            ((1, 3), (2, 5), Some(3)),
            ((2, 5), (1, 3), Some(3)),
            ((1, 2), (3, 4), None),
            ((3, 4), (1, 2), None),
        ] {
            let of = |(oldest, newest)| Speaks {
                protocol: 1,
                name: "UniStore".to_owned(),
                oldest,
                newest,
            };
            assert_eq!(of(one).common(&of(other)), common, "{one:?} {other:?}");
        }
    }
}

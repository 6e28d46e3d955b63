//! The processes of a cluster, and the workers of each.

use std::ops::Range;

use solera_machine::{Address, NodeId};
use solera_time::SiteId;

use super::ClusterSpec;
use crate::nodes::NodeSpec;

impl ClusterSpec {
    /// Returns every node, in order.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &NodeSpec)> {
        SiteId::all(self.sites.len()).zip(&self.sites).flat_map(|(site, spec)| {
            (0..).zip(&spec.nodes).map(move |(node, spec)| (NodeId { site, node }, spec))
        })
    }

    /// Returns the description of a node, if it exists.
    pub fn node(&self, id: NodeId) -> Option<&NodeSpec> {
        self.sites.get(id.site.index())?.nodes.get(usize::from(id.node))
    }

    /// Returns the numbers of a node's workers within its site; empty if the node does not exist.
    pub fn workers_on(&self, id: NodeId) -> Range<u8> {
        let mut first = 0;
        for (node, spec) in self.nodes().filter(|(node, _)| node.site == id.site) {
            if node == id {
                return first..first + spec.workers;
            }
            first += spec.workers;
        }
        0..0
    }

    /// Returns the node that runs a worker, where its site lists nodes.
    pub fn node_of(&self, worker: Address) -> Option<NodeId> {
        let mut nodes = self.nodes().map(|(id, _)| id).filter(|id| id.site == worker.site);
        nodes.find(|id| self.workers_on(*id).contains(&worker.worker))
    }

    /// Returns a warning if two nodes share a host. Certificates are issued for hosts, so each of
    /// the two could impersonate the other.
    pub(super) fn shared_hosts(&self) -> Option<String> {
        let nodes: Vec<_> = self.nodes().collect();
        nodes.iter().enumerate().find_map(|(at, (id, node))| {
            let host = &node.peer.host;
            let same = |(_, other): &&(_, &NodeSpec)| other.peer.host.eq_ignore_ascii_case(host);
            let (other, _) = nodes[at + 1..].iter().find(same)?;
            Some(format!(
                "{} and {} share the host {host} of peer; certificates are for hosts, so that each \
                 can pass for the other: give each a name of its own",
                self.name_of(*id),
                self.name_of(*other)
            ))
        })
    }

    /// Returns the name of a node for messages.
    pub fn name_of(&self, id: NodeId) -> String {
        let (site, node) = self.fields_of(id);
        format!("node {node} of site {site}")
    }

    /// Returns the name of a node's site, and the number of the node within it, from 1: fields of
    /// log lines about the node.
    pub fn fields_of(&self, id: NodeId) -> (&str, u16) {
        let site = self.sites.get(id.site.index()).map_or("?", |site| &site.name);
        (site, u16::from(id.node) + 1)
    }
}

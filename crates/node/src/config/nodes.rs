//! `[[site.node]]`: which processes make up a site, and where each can be reached.

use std::fmt;
use std::net::IpAddr;
use std::ops::Range;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use solera_time::SiteId;
use solera_unistore::Address;
use toml::Spanned;

use super::{ClientTls, ClusterSpec, ConfigError, Reader, Setting, SiteTable};

/// A host by name or address, and a port. Names are looked up when they are used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    /// A name, or an address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HostPort { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

impl FromStr for HostPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not \"host:port\", as in \"10.0.0.1:7101\"");
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = match bare {
            Some(address) if address.parse::<std::net::Ipv6Addr>().is_ok() => address,
            Some(_) => return Err(wrong()),
            None => host,
        };
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if host.is_empty() || (bare.is_none() && !host.chars().all(allowed)) {
            return Err(wrong());
        }
        Ok(HostPort { host: host.to_owned(), port })
    }
}

impl HostPort {
    /// Whether this can be one host's. A name may be.
    fn can_be_dialed(&self) -> bool {
        // The system takes short forms, such as 0, for addresses, too.
        if self.host.chars().all(|c| c == '0' || c == '.') {
            return false;
        }
        match self.host.parse::<IpAddr>().map(|address| address.to_canonical()) {
            Ok(IpAddr::V4(v4)) => !v4.is_unspecified() && !v4.is_multicast() && !v4.is_broadcast(),
            Ok(IpAddr::V6(v6)) => !v6.is_unspecified() && !v6.is_multicast(),
            Err(_) => true,
        }
    }
}

/// One process of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    /// Where it speaks RESP.
    pub resp: Option<HostPort>,
    /// Where it speaks RESP over TLS. It has one of the two, or both.
    pub resp_tls: Option<HostPort>,
    /// Where other nodes reach it.
    pub peer: HostPort,
    /// Where it speaks HTTP.
    pub admin: HostPort,
    /// Its workers.
    pub workers: u8,
}

/// A node by its site and its place there, from 0. People count nodes from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId {
    /// Its site.
    pub site: SiteId,
    /// Its place in the site's list.
    pub node: u8,
}

impl ClusterSpec {
    /// Every node, in order.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &NodeSpec)> {
        SiteId::all(self.sites.len()).zip(&self.sites).flat_map(|(site, spec)| {
            (0..).zip(&spec.nodes).map(move |(node, spec)| (NodeId { site, node }, spec))
        })
    }

    /// What a node is made of, if there is such a node.
    pub fn node(&self, id: NodeId) -> Option<&NodeSpec> {
        self.sites.get(id.site.index())?.nodes.get(usize::from(id.node))
    }

    /// The numbers of a node's workers within its site; none if there is no such node.
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

    /// The node that a worker runs on, where its site lists nodes.
    pub fn node_of(&self, worker: Address) -> Option<NodeId> {
        let mut nodes = self.nodes().map(|(id, _)| id).filter(|id| id.site == worker.site);
        nodes.find(|id| self.workers_on(*id).contains(&worker.worker))
    }

    /// A certificate is for a host, so that nodes of one host can pass for one another.
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

    /// The node as people call it.
    pub fn name_of(&self, id: NodeId) -> String {
        let site = self.sites.get(id.site.index()).map_or("?", |site| &site.name);
        format!("node {} of site {site}", u16::from(id.node) + 1)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeTable {
    resp: Option<Spanned<String>>,
    resp_tls: Option<Spanned<String>>,
    peer: Spanned<String>,
    admin: Spanned<String>,
    workers: Option<Spanned<u16>>,
}

impl Reader<'_> {
    /// The nodes of every site, in order; none at all where no site lists any.
    pub(super) fn nodes(
        &self,
        sites: &[SiteTable],
        default_workers: u8,
        partitions: u16,
    ) -> Result<Vec<Vec<NodeSpec>>, ConfigError> {
        let mut taken = Vec::new();
        let mut all = Vec::new();
        let listed = sites.iter().any(|site| !site.node.is_empty());
        for site in sites {
            let name = site.name.get_ref();
            if listed && site.node.is_empty() {
                let reason = format!(
                    "site '{name}' lists no nodes, and others do; give each a [[site.node]]"
                );
                return self.invalid(Some(site.name.span().start), reason);
            }
            let mut nodes = Vec::new();
            let mut total = 0;
            for table in &site.node {
                let node = NodeSpec {
                    resp: self.optional(table.resp.as_ref(), &mut taken)?,
                    resp_tls: self.optional(table.resp_tls.as_ref(), &mut taken)?,
                    peer: self.peer(&table.peer, &mut taken)?,
                    admin: self.host_port(&table.admin, &mut taken)?,
                    workers: self.node_workers(table, default_workers)?,
                };
                if node.resp.is_none() && node.resp_tls.is_none() {
                    let reason = "clients cannot reach this node; give it resp or resp_tls";
                    return self.invalid(Some(table.peer.span().start), reason.to_owned());
                }
                total += u16::from(node.workers);
                // A worker's number is one byte, in timestamps too.
                if total > partitions.min(32) {
                    let reason = format!(
                        "the nodes of site '{name}' have {total} workers or more, which cannot \
                         share {partitions} partitions: each needs at least one, and a site has \
                         at most 32 workers"
                    );
                    let first = table.resp.as_ref().unwrap_or(&table.peer).span();
                    let place = table.workers.as_ref().map_or(first, Spanned::span);
                    return self.invalid(Some(place.start), reason);
                }
                nodes.push(node);
            }
            all.push(nodes);
        }
        Ok(all)
    }

    /// Whether TLS for clients, which begins at `place`, and the nodes' addresses fit together.
    pub(super) fn check_tls(
        &self,
        tls: Option<&ClientTls>,
        place: Option<usize>,
        sites: &[SiteTable],
    ) -> Result<(), ConfigError> {
        let addresses = sites.iter().flat_map(|site| &site.node).map(|node| &node.resp_tls);
        let address = addresses.flatten().next();
        match (tls, address) {
            (None, Some(address)) => {
                let reason = "resp_tls needs a [tls] with cert and key".to_owned();
                self.invalid(Some(address.span().start), reason)
            }
            (Some(ClientTls { port: None, admin: false, .. }), None) => {
                let reason = "[tls] is of no use: no node has a resp_tls, admin is not set, and there \
                              is no port for `solera up`";
                self.invalid(place, reason.to_owned())
            }
            _ => Ok(()),
        }
    }

    fn optional(
        &self,
        text: Option<&Spanned<String>>,
        taken: &mut Vec<HostPort>,
    ) -> Result<Option<HostPort>, ConfigError> {
        text.map(|text| self.host_port(text, taken)).transpose()
    }

    /// Where others reach a node: no address on which one can only listen.
    fn peer(
        &self,
        text: &Spanned<String>,
        taken: &mut Vec<HostPort>,
    ) -> Result<HostPort, ConfigError> {
        let found = self.host_port(text, taken)?;
        if found.can_be_dialed() {
            return Ok(found);
        }
        let reason = format!(
            "other nodes cannot reach this one at {found}; give a name or an address of its own, and \
             what to listen on by --bind"
        );
        self.invalid(Some(text.span().start), reason)
    }

    fn node_workers(&self, table: &NodeTable, default: u8) -> Result<u8, ConfigError> {
        let workers = Setting::new(None, table.workers.clone(), u16::from(default));
        Ok(self.worker_count(workers, "node")?.value)
    }

    fn host_port(
        &self,
        text: &Spanned<String>,
        taken: &mut Vec<HostPort>,
    ) -> Result<HostPort, ConfigError> {
        let place = Some(text.span().start);
        match text.get_ref().parse::<HostPort>() {
            Ok(found) if taken.contains(&found) => {
                self.invalid(place, format!("{found} is used twice; each port has one purpose"))
            }
            Ok(found) => {
                taken.push(found.clone());
                Ok(found)
            }
            Err(reason) => self.invalid(place, reason),
        }
    }
}

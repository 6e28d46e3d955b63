//! `[[site.node]]`: the processes of a site, and their addresses.

use serde::Deserialize;
use toml::Spanned;

use super::{Reader, Setting, SiteTable};
use crate::error::ConfigError;
use crate::nodes::{HostPort, NodeSpec};
use crate::tls::ClientTls;

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
    /// Returns the nodes of every site, in order; no nodes at all where no site lists any.
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

    /// Checks that TLS for clients, whose table begins at `place`, matches the nodes' addresses.
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
                let reason = "[tls] has no effect: no node has a resp_tls, admin is not set, and there \
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

    /// Returns the address at which other nodes reach a node. Rejects addresses for listening only.
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

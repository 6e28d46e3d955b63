//! A whole cluster, as its configuration describes it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use solera_machine::Topology;
use solera_time::SiteId;
use solera_unistore::StrongLimits;

use crate::acl::Users;
use crate::durability::Durability;
use crate::error::ConfigError;
use crate::log_level::LogLevel;
use crate::modules::ModuleSpec;
use crate::nodes::NodeSpec;
use crate::protocol::Baseline;
use crate::spaces::Spaces;
use crate::stores::StoreSpec;
use crate::tls::{ClientTls, TlsFiles};
use crate::wan::Wan;

mod nodes;

/// One site of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteSpec {
    /// Its name.
    pub name: String,
    /// Where it speaks RESP; `None` for in-memory connections only.
    pub listen: Option<SocketAddr>,
    /// Where it speaks RESP over TLS.
    pub listen_tls: Option<SocketAddr>,
    /// The processes it is made of; none where all runs in one process.
    pub nodes: Vec<NodeSpec>,
}

/// A whole cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSpec {
    /// Its name; tokens are bound to it and to the sites' names.
    pub name: String,
    /// Its sites, in order.
    pub sites: Vec<SiteSpec>,
    /// Logical partitions of the key space.
    pub partitions: u16,
    /// Workers per site that lists no nodes, and per node that does not say.
    pub workers: u8,
    /// How many sites may fail.
    pub f: usize,
    /// Spaces.
    pub spaces: Spaces,
    /// The protocol.
    pub protocol: Baseline,
    /// From where strong transactions are led at first.
    pub leader: SiteId,
    /// How large strong transactions may be.
    pub strong_limits: StrongLimits,
    /// Delays between sites.
    pub wan: Wan,
    /// Open transactions are aborted when their client does nothing for so long.
    pub transaction_timeout: Duration,
    /// Open transactions are aborted at this age, whatever their client does.
    pub transaction_max_age: Duration,
    /// Client connections per site and process.
    pub max_connections: usize,
    /// Nodes whose clocks differ by more do not talk to one another.
    pub max_clock_skew: Duration,
    /// Where data is kept; in memory alone without it.
    pub data: Option<PathBuf>,
    /// What the file that all nodes share says, if `data` is from there: each node takes a part of
    /// it.
    pub shared_data: Option<PathBuf>,
    /// When an acknowledged write is there.
    pub durability: Durability,
    /// Who may do what.
    pub users: Users,
    /// TLS for clients.
    pub tls: Option<ClientTls>,
    /// TLS between nodes.
    pub peer_tls: Option<TlsFiles>,
    /// How many bytes the process may take before it refuses writes.
    pub max_memory: Option<u64>,
    /// How long clients may take to come to an end when the process is told to stop.
    pub drain: Duration,
    /// What to log, if the configuration says it.
    pub log_level: Option<LogLevel>,
    /// What modules may take.
    pub modules: ModuleSpec,
    /// Databases of others that modules use.
    pub stores: Vec<StoreSpec>,
}

/// Settings given on the command line; they win over the file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// How many sites.
    pub sites: Option<usize>,
    /// Logical partitions of the key space.
    pub partitions: Option<u16>,
    /// Workers per site.
    pub workers: Option<u8>,
    /// See [`Wan::named`].
    pub wan: Option<String>,
    /// Where data is kept.
    pub data: Option<PathBuf>,
    /// What to log.
    pub log_level: Option<LogLevel>,
}

impl ClusterSpec {
    /// How far ahead of a node's clock others may name strong times: their clocks differ, and
    /// leaders name times ahead of theirs.
    pub fn max_ahead(&self) -> Duration {
        self.max_clock_skew + Duration::from_secs(10)
    }

    /// Lets site `i`, counted from 1, speak RESP on `port + i` of 127.0.0.1, and over TLS on its
    /// port `+ i` if there is one.
    ///
    /// # Errors
    /// The ports must exist.
    pub fn listen_from(mut self, port: u16) -> Result<ClusterSpec, ConfigError> {
        let tls_port = self.tls.as_ref().and_then(|tls| tls.port);
        for (i, site) in (1..).zip(&mut self.sites) {
            let on = |port: u16, option| match port.checked_add(i) {
                Some(port) => Ok(SocketAddr::from(([127, 0, 0, 1], port))),
                None => Err(ConfigError::Invalid {
                    at: None,
                    reason: format!(
                        "there is no port {} for site {i}; choose a smaller base with {option}",
                        u32::from(port) + u32::from(i)
                    ),
                }),
            };
            site.listen = Some(on(port, "--port")?);
            site.listen_tls = tls_port.map(|port| on(port, "tls.port")).transpose()?;
        }
        Ok(self)
    }

    /// How many workers a site has, on all of its nodes.
    pub fn workers_of(&self, site: usize) -> u8 {
        match self.sites[site].nodes.as_slice() {
            [] => self.workers,
            // Checked when the nodes were read.
            nodes => nodes.iter().map(|node| node.workers).sum(),
        }
    }

    /// The shape of the cluster: a site's workers are numbered through over its nodes.
    pub fn topology(&self) -> Topology {
        let workers = (0..self.sites.len()).map(|site| self.workers_of(site)).collect();
        Topology { partitions: self.partitions, workers }
    }

    /// Settings that work and that one would rarely want.
    pub fn warnings(&self) -> Vec<String> {
        let (f, sites) = (self.f, self.sites.len());
        let reachable = f + 1;
        let mut warnings = Vec::new();
        if self.protocol != Baseline::UniStore {
            warnings.push(format!(
                "the protocol is '{}', which is for comparisons: {}",
                self.protocol.name(),
                self.protocol.explained()
            ));
        }
        if f > (sites - 1) / 2 {
            warnings.push(format!(
                "with f = {f}, writes become visible elsewhere, and strong transactions commit, only while \
                 {reachable} of {sites} sites are up and connected"
            ));
        }
        for user in self.users.iter() {
            warnings.extend(user.idle_rules().map(|rule| {
                format!("user '{}': '{rule}' takes a command away that is not served", user.name)
            }));
        }
        warnings.extend(self.peer_tls.as_ref().and_then(|_| self.shared_hosts()));
        warnings
    }

    /// Identifies the cluster in tokens, by its name and its first site: the list of sites may
    /// grow.
    pub fn id(&self) -> u64 {
        // FNV-1a: stable across versions and machines.
        let first = self.sites.first().map_or("", |site| &site.name);
        [self.name.as_str(), first].into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, name| {
            name.bytes().chain([0]).fold(hash, |hash: u64, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            })
        })
    }
}

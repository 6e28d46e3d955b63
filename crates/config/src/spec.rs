//! The configuration of a whole cluster.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use solera_machine::Topology;
use solera_time::SiteId;
use solera_unistore::StrongLimits;

use crate::acl::Users;
use crate::durability::Durability;
use crate::error::ConfigError;
use crate::log::LogSpec;
use crate::modules::ModuleSpec;
use crate::nodes::NodeSpec;
use crate::protocol::Baseline;
use crate::spaces::Spaces;
use crate::stores::StoreSpec;
use crate::timestamps::Timestamps;
use crate::tls::{ClientTls, TlsFiles};
use crate::wan::Wan;

mod nodes;

/// Configuration of one site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteSpec {
    /// Name.
    pub name: String,
    /// Address of RESP; `None` for in-memory connections only.
    pub listen: Option<SocketAddr>,
    /// Address of RESP over TLS; `None` without TLS.
    pub listen_tls: Option<SocketAddr>,
    /// Processes of the site; empty where all sites run in one process.
    pub nodes: Vec<NodeSpec>,
}

/// Configuration of a whole cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSpec {
    /// Name; tokens are bound to it and to the sites' names.
    pub name: String,
    /// Sites, in order.
    pub sites: Vec<SiteSpec>,
    /// Number of logical partitions of the key space.
    pub partitions: u16,
    /// Workers of each site that lists no nodes, and of each node without a number of its own.
    pub workers: u8,
    /// Number of sites that may fail.
    pub f: usize,
    /// Spaces.
    pub spaces: Spaces,
    /// Number of procedures of the speculative space that threads of their own execute at a time.
    /// With 0, the worker executes them itself.
    pub speculative_threads: usize,
    /// Number of operations of the speculative space that may be tentative at a site.
    pub max_tentative: usize,
    /// Timestamps of spaces of level `pcpsi`.
    pub timestamps: Timestamps,
    /// Protocol.
    pub protocol: Baseline,
    /// Initial leader of strong transactions.
    pub leader: SiteId,
    /// Limits of the size of strong transactions.
    pub strong_limits: StrongLimits,
    /// Delays between sites.
    pub wan: Wan,
    /// Idle timeout after which open transactions are aborted.
    pub transaction_timeout: Duration,
    /// Age at which open transactions are aborted, even if their client is active.
    pub transaction_max_age: Duration,
    /// Limit of client connections per site and process.
    pub max_connections: usize,
    /// Difference of clocks above which nodes refuse one another.
    pub max_clock_skew: Duration,
    /// Data directory; `None` in memory.
    pub data: Option<PathBuf>,
    /// Data directory as the file names it, if `data` comes from a file that all nodes share. Each
    /// node uses a part of it.
    pub shared_data: Option<PathBuf>,
    /// Durability of acknowledged writes.
    pub durability: Durability,
    /// Users and their rights.
    pub users: Users,
    /// TLS for clients; `None` without TLS.
    pub tls: Option<ClientTls>,
    /// TLS between nodes; `None` without TLS.
    pub peer_tls: Option<TlsFiles>,
    /// Bytes of memory above which the process rejects writes.
    pub max_memory: Option<u64>,
    /// Time that clients have to finish when the process shuts down.
    pub drain: Duration,
    /// Settings of the log.
    pub log: LogSpec,
    /// Limits of modules.
    pub modules: ModuleSpec,
    /// External databases that modules use.
    pub stores: Vec<StoreSpec>,
}

/// Settings given on the command line, which override the file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Number of sites.
    pub sites: Option<usize>,
    /// Number of logical partitions of the key space.
    pub partitions: Option<u16>,
    /// Workers of each site.
    pub workers: Option<u8>,
    /// See [`Wan::named`].
    pub wan: Option<String>,
    /// Data directory.
    pub data: Option<PathBuf>,
    /// Settings of the log. Each overrides the same setting of the file.
    pub log: LogSpec,
}

impl ClusterSpec {
    /// Returns the time by which times of strong transactions may be ahead of a node's clock.
    /// Clocks differ, and leaders choose times ahead of their clocks.
    pub fn max_ahead(&self) -> Duration {
        self.max_clock_skew + Duration::from_secs(10)
    }

    /// Returns the number of shards of spaces that Occult runs: about as many as slots of a Redis
    /// Cluster (Occult §8), and the same number in each partition.
    pub fn occult_shards(&self) -> u16 {
        const SHARDS: u16 = 16_384;
        SHARDS.next_multiple_of(self.partitions.max(1))
    }

    /// Lets site `i`, counted from 1, listen for RESP on `port + i` of 127.0.0.1 and, if `tls.port`
    /// is set, for TLS on `tls.port + i`.
    ///
    /// # Errors
    /// A port is out of range.
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

    /// Returns the number of a site's workers, on all of its nodes.
    pub fn workers_of(&self, site: usize) -> u8 {
        match self.sites[site].nodes.as_slice() {
            [] => self.workers,
            // The sum was checked when the nodes were read.
            nodes => nodes.iter().map(|node| node.workers).sum(),
        }
    }

    /// Returns the shape of the cluster. A site's workers are numbered consecutively over its
    /// nodes.
    pub fn topology(&self) -> Topology {
        let workers = (0..self.sites.len()).map(|site| self.workers_of(site)).collect();
        Topology { partitions: self.partitions, workers }
    }

    /// Returns warnings about settings that are valid but rarely intended.
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
                format!("user '{}': '{rule}' removes a command that does not exist", user.name)
            }));
        }
        warnings.extend(self.peer_tls.as_ref().and_then(|_| self.shared_hosts()));
        warnings
    }

    /// Returns the cluster's identifier in tokens, from its name and its first site. Further sites
    /// do not count, because their list may grow.
    pub fn id(&self) -> u64 {
        // FNV-1a, which is stable across versions and machines.
        let first = self.sites.first().map_or("", |site| &site.name);
        [self.name.as_str(), first].into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, name| {
            name.bytes().chain([0]).fold(hash, |hash: u64, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            })
        })
    }
}

//! Network conditions (IPA Table 1).
//!
//! The paper gives the latency between a client and each replica, and delays what each replica
//! sends. A message between two replicas therefore takes a round trip that is the sum of both.

use std::time::Duration;

use crate::error::BenchError;
use crate::papers::network::Network;
use crate::papers::processes::{Process, Wan};
use crate::services::{Needed, tables};

use super::store::Spaces;

/// Spaces of the clusters.
const NEEDED: [Needed; 10] = [
    Needed::Strong,
    Needed::Weak,
    Needed::Typed("pool"),
    Needed::Typed("set"),
    Needed::Typed("list"),
    Needed::Counters(1),
    Needed::Counters(3),
    Needed::Counters(5),
    Needed::Counters(10),
    Needed::Sets(5),
];

/// Delays of an experiment.
#[derive(Clone, Copy)]
pub(super) struct Condition {
    pub(super) name: &'static str,
    /// Round trip between a client and its site, in milliseconds, and its jitter.
    pub(super) client: (f64, f64),
    /// Round trips between sites.
    between: Wan,
    /// Shortest round trip between two sites, in milliseconds.
    pub(super) shortest: f64,
}

pub(super) const UNIFORM: Condition = Condition {
    name: "uniform",
    client: (5.0, 0.0),
    between: Wan::Rtt("[[0, 10, 10], [10, 0, 10], [10, 10, 0]]"),
    shortest: 10.0,
};

pub(super) const SLOW: Condition = Condition {
    name: "slow replica",
    client: (10.0, 0.0),
    between: Wan::Rtt("[[0, 20, 110], [20, 0, 110], [110, 110, 0]]"),
    shortest: 20.0,
};

pub(super) const GEO: Condition = Condition {
    name: "geo-distributed",
    client: (1.0, 0.6),
    between: Wan::Rtt("[[0, 81, 201], [81, 0, 280], [201, 280, 0]]"),
    shortest: 81.0,
};

pub(super) const LOCAL: Condition =
    Condition { name: "local", client: (0.0, 0.0), between: Wan::Named("none"), shortest: 0.0 };

/// The paper measured it on Google Compute Engine. Between the replicas, in the United States,
/// Europe and Asia, we assume 100, 150 and 250 ms.
pub(super) const CLOUD: Condition = Condition {
    name: "cloud",
    client: (30.0, 0.0),
    between: Wan::Rtt("[[0, 100, 150], [100, 0, 250], [150, 250, 0]]"),
    shortest: 100.0,
};

/// A cluster of three sites under a condition, with clients near the first two.
pub(super) struct RunningCluster {
    pub(super) spaces: Spaces,
    _process: Process,
    _network: Network,
}

impl Condition {
    /// Starts a cluster.
    ///
    /// # Errors
    /// Fails if it cannot be started.
    pub(super) fn start_cluster(&self) -> Result<RunningCluster, BenchError> {
        let network = Network::new()?;
        let mut process = Process::up(&tables("", &NEEDED), 3, self.between)?;
        let sites = process.wait()?;
        let beside = [sites[0], sites[1]];
        let (rtt, jitter) = self.client;
        let far = |site: &std::net::SocketAddr| {
            let ms = |ms: f64| Duration::from_secs_f64(ms / 1000.0);
            match rtt > 0.0 {
                true => network.at(&site.to_string(), (ms(rtt), ms(jitter))),
                false => Ok(*site),
            }
        };
        let away = [far(&beside[0])?, far(&beside[1])?];
        Ok(RunningCluster { spaces: Spaces { beside, away }, _process: process, _network: network })
    }
}

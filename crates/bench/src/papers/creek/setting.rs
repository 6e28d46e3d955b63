//! Settings of a run.

use std::sync::Arc;
use std::time::Duration;

use solera_creek::{Replies, Scheme};
use solera_machine::{Address, Topology};
use solera_time::SiteId;
use solera_tpcc::{Costs, Weights};

/// One run: replicas and their load.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// The replication scheme.
    pub(crate) scheme: Scheme,
    /// When replies leave.
    pub(crate) replies: Replies,
    /// Number of replicas.
    pub(crate) replicas: usize,
    /// Number of cores of a replica.
    pub(crate) cores: usize,
    /// Number of warehouses.
    pub(crate) warehouses: u16,
    /// How often each transaction is invoked.
    pub(crate) weights: Weights,
    /// Times of executions.
    pub(crate) costs: Costs,
    /// Operations per second that clients invoke, at all replicas together.
    pub(crate) load: f64,
    /// Time of the protocol thread for an input.
    pub(crate) step: Duration,
    /// Time before the measurement.
    pub(crate) warm_up: Duration,
    /// Time of the measurement.
    pub(crate) window: Duration,
    /// Determines the run.
    pub(crate) seed: u64,
}

impl Setting {
    /// Returns the paper's setting with a scheme and a load. Replies leave as in the paper.
    pub(crate) fn of(scheme: Scheme, load: f64) -> Setting {
        Setting {
            scheme,
            replies: Replies::AtOnce,
            replicas: 5,
            cores: 16,
            warehouses: 5,
            weights: Weights::default(),
            costs: Costs::default(),
            load,
            step: Duration::from_micros(2),
            warm_up: Duration::from_millis(50),
            window: Duration::from_millis(200),
            seed: 1,
        }
    }

    /// Returns the number of jobs that a replica runs at a time.
    fn jobs(&self) -> usize {
        match self.scheme {
            Scheme::Creek | Scheme::Archie => self.cores,
            Scheme::Smr | Scheme::Bayou => 1,
        }
    }

    pub(super) fn config(&self, site: SiteId) -> solera_creek::Config {
        let topology = Topology { partitions: 1, workers: vec![1; self.replicas] };
        let address = Address { site, worker: 0 };
        let mut config = solera_creek::Config::new(address, Arc::new(topology));
        config.journal = false;
        config.scheme = self.scheme;
        config.replies = self.replies;
        config.jobs = self.jobs();
        // The world reads what is final in each slice.
        config.limits.history = 20_000;
        config
    }
}

/// Returns a duration in nanoseconds.
pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

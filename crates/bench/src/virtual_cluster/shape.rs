//! Sites, workers, protocols and delays of a virtual cluster.

use std::sync::Arc;
use std::time::Duration;

use solera_config::{Baseline, Wan};
use solera_machine::{Address, Topology};
use solera_time::{Physical, SiteId};
use solera_unistore::{Config, Kind};

use super::network::{Card, Cards};

/// Returns a protocol's name in the paper.
pub(crate) fn name_of(variant: Baseline) -> &'static str {
    match variant {
        Baseline::UniStore => "UniStore",
        Baseline::Strong => "STRONG",
        Baseline::RedBlue => "REDBLUE",
        Baseline::Causal => "CAUSAL",
        Baseline::Uniform => "UNIFORM",
        Baseline::CureFt => "CUREFT",
    }
}

/// Returns the conflicts of an operation under a protocol if the workload declares `kind`.
pub(crate) fn kind_in(variant: Baseline, kind: Kind, update: bool) -> Kind {
    match (variant, update) {
        // All pairs of operations on a key conflict, and reads are certified as well.
        (Baseline::Strong, true) => Kind::UPDATE,
        (Baseline::Strong, false) => Kind::READ,
        _ => kind,
    }
}

/// Shape of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) variant: Baseline,
    /// Whether workers also run `primary`.
    pub(crate) primary: bool,
    /// Maximum duration of a core's turn, after which its outputs are sent.
    pub(crate) turn: Duration,
    /// Indices of the sites' regions in the delays of `--wan aws`.
    pub(crate) regions: Vec<usize>,
    pub(crate) partitions: u16,
    /// Number of virtual cores per site.
    pub(crate) workers: u8,
    /// Number of virtual cores per process. Cores of one process pass messages without a system
    /// call.
    pub(crate) cores_per_node: u8,
    pub(crate) f: usize,
    /// Factor by which a virtual core is slower than a core of this machine.
    pub(crate) slowness: f64,
    /// Seed of the clients' actions.
    pub(crate) seed: u32,
    /// Cards of the computers; `None` if bytes take no time.
    pub(crate) card: Option<Card>,
    /// For each site, how far its clocks are ahead, in microseconds. Further sites have the right
    /// time.
    pub(crate) ahead_us: Vec<i64>,
}

/// Virginia, California, Frankfurt, Ireland and Brazil, in the delays of `--wan aws`.
pub(crate) const VIRGINIA: usize = 0;
pub(crate) const CALIFORNIA: usize = 1;
pub(crate) const FRANKFURT: usize = 2;
pub(crate) const IRELAND: usize = 3;
pub(crate) const BRAZIL: usize = 4;

/// Number of virtual cores per process, as many as the paper's machines have.
pub(crate) const CORES_PER_NODE: u8 = 8;

/// Interval at which the paper's replicas propagate transactions and broadcast vectors (§8).
const TICK: Duration = Duration::from_millis(5);

impl Shape {
    /// Returns the paper's first three sites, each of one process, as fast as this machine.
    pub(crate) fn three_sites(partitions: u16, workers: u8) -> Shape {
        Shape {
            variant: Baseline::UniStore,
            primary: false,
            turn: Duration::MAX,
            regions: vec![VIRGINIA, CALIFORNIA, FRANKFURT],
            partitions,
            workers,
            cores_per_node: workers,
            f: 1,
            slowness: 1.0,
            seed: 0,
            card: None,
            ahead_us: Vec::new(),
        }
    }

    /// Returns one site of one process, as fast as this machine.
    pub(crate) fn one_site(partitions: u16, workers: u8) -> Shape {
        Shape { regions: vec![VIRGINIA], f: 0, ..Shape::three_sites(partitions, workers) }
    }

    pub(crate) fn sites(&self) -> usize {
        self.regions.len()
    }

    /// Returns the process of a worker.
    pub(crate) fn node_of(&self, address: Address) -> (SiteId, u8) {
        (address.site, address.worker / self.cores_per_node)
    }

    /// Returns whether two workers are in the same process.
    pub(crate) fn same_node(&self, one: Address, other: Address) -> bool {
        self.node_of(one) == self.node_of(other)
    }

    /// Returns the number of the computer on which a worker runs, if computers have cards.
    pub(crate) fn computer_of(&self, address: Address) -> Option<usize> {
        let at = usize::from(address.worker / self.cores_per_node / self.card?.processes);
        Some(address.site.index() * self.computers_per_site()? + at)
    }

    /// Returns the number of computers of a site, if computers have cards.
    fn computers_per_site(&self) -> Option<usize> {
        let processes = self.workers.div_ceil(self.cores_per_node);
        Some(usize::from(processes.div_ceil(self.card?.processes)))
    }

    /// Returns the cards of all computers.
    pub(crate) fn cards(&self) -> Option<Cards> {
        Some(Cards::new(self.card?, self.computers_per_site()? * self.sites()))
    }

    /// Returns the reading of a site's clocks when the right time is `micros` after 1970.
    pub(crate) fn clock_of(&self, site: SiteId, micros: u64) -> Physical {
        let ahead = self.ahead_us.get(site.index()).copied().unwrap_or(0);
        Physical(micros.saturating_add_signed(ahead))
    }

    /// Returns the configuration of each worker's machine, site by site.
    pub(crate) fn configs(&self) -> Vec<Config> {
        let workers = vec![self.workers; self.sites()];
        let topology = Arc::new(Topology { partitions: self.partitions, workers });
        let at = |site| {
            let topology = topology.clone();
            (0..self.workers).map(move |worker| {
                let mut config = Config::new(Address { site, worker }, topology.clone());
                config.f = self.f;
                config.protocol = self.variant.protocol();
                config.timing.tick = TICK;
                config.timing.idle_tick = TICK;
                // A site whose cores are all busy for a while must not be suspected.
                config.timing.suspect_after = Duration::from_secs(60);
                config.timing.lost_after = Duration::from_secs(120);
                config.timing.prepare_timeout = Duration::from_secs(60);
                config.timing.strong_timeout = Duration::from_secs(60);
                config.certification.leader_timeout = Duration::from_secs(60);
                config.certification.retry = Duration::from_secs(30);
                config
            })
        };
        SiteId::all(self.sites()).flat_map(at).collect()
    }

    /// Returns the one-way delays between sites, in nanoseconds.
    pub(crate) fn delays(&self) -> Vec<Vec<u64>> {
        let aws = Wan::named("aws", 5).expect("the built-in delays are of five sites").rtt_ms;
        let row = |from: &usize| {
            self.regions.iter().map(|to| aws[*from][*to] * 1_000_000 / 2).collect::<Vec<u64>>()
        };
        self.regions.iter().map(row).collect()
    }
}

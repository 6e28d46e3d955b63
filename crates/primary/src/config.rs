//! What a worker is told at its start.

use std::sync::Arc;
use std::time::Duration;

use solera_machine::{Address, Topology, Without};

/// How often a worker does what it repeats, and how long it waits.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Between two looks at what waits, while something waits.
    pub tick: Duration,
    /// After so long without an answer a message is sent again.
    pub retry: Duration,
    /// After so long a command fails.
    pub timeout: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            tick: Duration::from_millis(10),
            retry: Duration::from_millis(300),
            timeout: Duration::from_secs(5),
        }
    }
}

/// A rule that tests of the judges take out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A new home takes the longest history of all sites before it orders updates.
    Gather,
    /// What a session waits for is stored by f + 1 sites.
    Quorum,
    /// An update that comes again is ordered once.
    Once,
    /// A replica applies no entries that leave a gap.
    InOrder,
}

/// What a worker is told at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// The worker.
    pub address: Address,
    /// The cluster's shape; the same everywhere.
    pub topology: Arc<Topology>,
    /// How many sites may fail.
    pub f: usize,
    /// Which life of its site the worker belongs to. In any but the first it gets its data from
    /// others.
    pub life: u32,
    /// Whether to emit records.
    pub journal: bool,
    /// Updates of the life are numbered from here (48 bits count), if the journal knows of no
    /// greater number.
    pub first_number: u64,
    /// Intervals and time-outs.
    pub timing: Timing,
    /// How many of its last updates a partition keeps for replicas that lack them.
    pub log_entries: usize,
    /// About how many bytes of values are in one piece.
    pub piece_bytes: usize,
    /// A rule to leave out.
    pub without: Without<Rule>,
}

impl Config {
    /// The usual configuration of the worker at `address`: f is the largest minority of sites.
    pub fn new(address: Address, topology: Arc<Topology>) -> Config {
        let f = (topology.sites() - 1) / 2;
        Config {
            address,
            topology,
            f,
            life: 0,
            journal: false,
            first_number: 0,
            timing: Timing::default(),
            log_entries: 1024,
            piece_bytes: 64 << 10,
            without: Without::default(),
        }
    }

    pub(crate) fn keeps(&self, rule: Rule) -> bool {
        self.without.keeps(rule)
    }
}

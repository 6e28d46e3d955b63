//! Configuration of a worker.

use std::sync::Arc;
use std::time::Duration;

use solera_machine::{Address, Topology, Without};

/// Intervals and timeouts of a worker.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Interval of ticks while something waits.
    pub tick: Duration,
    /// Time without an answer after which a message is sent again.
    pub retry: Duration,
    /// Time after which a command fails.
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

/// A rule that a test takes out, to prove that the checks detect its absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A new home takes over the longest history of all sites before it orders updates.
    Gather,
    /// A barrier waits until f + 1 sites store what the session has seen.
    Quorum,
    /// An update that arrives again is not ordered twice.
    Once,
    /// A replica applies no entries that leave a gap.
    InOrder,
}

/// Configuration of a worker.
#[derive(Clone, Debug)]
pub struct Config {
    /// The worker.
    pub address: Address,
    /// The cluster's shape; the same everywhere.
    pub topology: Arc<Topology>,
    /// Number of sites that may fail.
    pub f: usize,
    /// Generation of its site to which the worker belongs. In any generation but the first, the
    /// worker gets its data from other sites.
    pub generation: u32,
    /// Whether to emit records.
    pub journal: bool,
    /// First number of the generation's updates (the lower 48 bits count), unless the journal has a
    /// greater one.
    pub first_number: u64,
    /// Intervals and timeouts.
    pub timing: Timing,
    /// Number of the last updates that a partition keeps for replicas that lack them.
    pub log_entries: usize,
    /// Approximate number of bytes of values in one piece.
    pub piece_bytes: usize,
    /// Rules to leave out.
    pub without: Without<Rule>,
}

impl Config {
    /// Returns the usual configuration of the worker at `address`: f is the largest minority of
    /// sites.
    pub fn new(address: Address, topology: Arc<Topology>) -> Config {
        let f = (topology.sites() - 1) / 2;
        Config {
            address,
            topology,
            f,
            generation: 0,
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

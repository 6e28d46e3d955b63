//! How workers run `creek`.

use std::time::Duration;

use solera_creek::{Limits, Rule, Timing};
use solera_machine::{Address, Without};
use solera_time::SiteId;

use super::Scenario;
use crate::random::Random;

/// How workers run `creek`.
#[derive(Clone, Debug)]
pub(crate) struct SpeculativeShape {
    /// Percentage of strong operations.
    pub(crate) strong: u64,
    leader: SiteId,
    limits: Limits,
    timing: Timing,
    /// Number of operations that jobs execute at a time.
    pub(crate) jobs: usize,
    /// Factor by which jobs take longer than in virtual time elsewhere.
    pub(crate) slowness: u32,
    /// Whether responses show no strong operation before it is committed.
    pub(crate) acyclic: bool,
    pub(crate) without: Without<Rule>,
}

impl SpeculativeShape {
    pub(crate) fn draw(scenario: &Scenario) -> SpeculativeShape {
        let mut random = Random::new(scenario.seed.wrapping_mul(86_028_121).wrapping_add(9));
        let ms = Duration::from_millis;
        let limits = Limits {
            executions: random.weighted(&[(10, 1), (20, 2), (20, 5), (50, 100)]),
            operations: random.weighted(&[(20, 3), (30, 10), (50, 1_000)]),
            early: random.weighted(&[(20, 0), (30, 3), (50, 10_000)]),
            streams: random.weighted(&[(40, 2), (60, 1_000)]),
            tentative: random.weighted(&[(10, 15), (90, 1_000_000)]),
            history: 100_000,
            piece: random.weighted(&[(50, 300), (50, 1 << 20)]),
        };
        let timing = Timing {
            tick: ms(random.within(20, 100)),
            retry: ms(random.within(100, 400)),
            settle: ms(random.within(200, 700)),
            consensus: solera_consensus::Timing {
                status_interval: ms(random.within(20, 80)),
                // A round trip takes up to 300 ms.
                leader_timeout: ms(random.within(400, 1_000)),
                retry: ms(random.within(350, 600)),
            },
        };
        SpeculativeShape {
            strong: random.weighted(&[(20, 2), (50, 20), (30, 60)]),
            leader: SiteId(random.below(scenario.topology.sites()) as u8),
            limits,
            timing,
            jobs: random.weighted(&[(30, 0), (20, 1), (50, 4)]),
            slowness: random.weighted(&[(30, 1), (40, 1_000), (30, 20_000)]),
            acyclic: random.below(3) == 0,
            without: Without::default(),
        }
    }

    /// Returns whether a worker runs `creek`: one of each site, because a space has one order.
    pub(crate) fn is_member(worker: Address) -> bool {
        worker.worker == 0
    }

    /// Changes the usual configuration of a worker.
    pub(crate) fn apply(&self, config: &mut solera_creek::Config) {
        (config.leader, config.trace) = (self.leader, true);
        (config.limits, config.timing) = (self.limits.clone(), self.timing.clone());
        config.acyclic = self.acyclic;
        config.without = self.without;
    }
}

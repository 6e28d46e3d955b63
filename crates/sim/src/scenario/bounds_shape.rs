//! How workers keep error bounds of counters.

use std::sync::Arc;
use std::time::Duration;

use solera_machine::Without;
use solera_reservations::{Bound, Policy, Rule, Timing};

use super::Scenario;
use crate::random::Random;

/// Prefix of the counters with error bounds.
pub(crate) const BOUNDS_PREFIX: &str = "b:";
/// Prefix of the sets whose sizes have error bounds.
pub(crate) const SIZES_PREFIX: &str = "s:";
/// Prefix of the counters that must not become negative.
pub(crate) const RIGHTS_PREFIX: &str = "r:";

/// How workers keep error bounds.
#[derive(Clone, Debug)]
pub(crate) struct BoundsShape {
    pub(crate) policy: Policy,
    pub(crate) timing: Timing,
    pub(crate) without: Without<Rule>,
}

impl BoundsShape {
    pub(crate) fn draw(scenario: &Scenario) -> BoundsShape {
        let mut random = Random::new(scenario.seed.wrapping_mul(67_867_967).wrapping_add(3));
        let ms = Duration::from_millis;
        let policy = Policy {
            tolerance_ppm: random.weighted(&[(30, 50_000), (40, 100_000), (30, 300_000)]),
            spare: random.weighted(&[(50, 4), (50, 40)]),
            lease: ms(random.within(100, 600)),
        };
        let timing = Timing {
            right: ms(1500),
            exclusion: ms(3200),
            report: ms(random.within(10, 60)),
            retry: ms(random.within(20, 100)),
            tick: ms(random.within(3, 10)),
            patience: ms(1000),
            keep: ms(random.within(200, 3000)),
            hold: ms(random.within(100, 600)),
            spacing: ms(random.within(0, 5)),
        };
        BoundsShape { policy, timing, without: Default::default() }
    }

    /// Returns the prefixes with their bounds.
    pub(crate) fn bounds(&self) -> Arc<[(Vec<u8>, Option<Bound>)]> {
        Arc::new([
            (BOUNDS_PREFIX.into(), Some(Bound::Error(self.policy))),
            (SIZES_PREFIX.into(), Some(Bound::Size(self.policy))),
            (RIGHTS_PREFIX.into(), Some(Bound::Rights)),
        ])
    }
}

//! Reads at weaker levels than that of their key's space, and strong reads that their clients
//! cancel.

use solera_levels::Level;

use crate::queue::MS;
use crate::random::Random;
use crate::recorded::Step;
use crate::scenario::Scenario;
use crate::spaces;

/// Percentage of the reads outside of transactions that are performed at a weaker level.
const WEAKER: u64 = 40;
/// Percentage of the other strong reads that are cancelled, unless they are answered before.
const CANCELLED: u64 = 30;

/// Decides at which levels clients read, and which reads they cancel.
#[derive(Debug)]
pub(crate) struct WeakerReads(Option<Random>);

impl WeakerReads {
    pub(crate) fn new(scenario: &Scenario) -> WeakerReads {
        let random = || Random::new(scenario.seed.wrapping_mul(86_028_121).wrapping_add(23));
        WeakerReads(scenario.weaker_reads.then(random))
    }

    /// Returns a read with the level at which a client performs it.
    pub(crate) fn at_some_level(&mut self, step: Step) -> Step {
        let Some(random) = &mut self.0 else { return step };
        if step.op.is_update() || !random.chance(WEAKER) {
            return step;
        }
        let weaker = match step.level {
            Level::Linearizable if random.chance(50) => Level::Causal,
            _ => Level::Eventual,
        };
        spaces::read_at(weaker, step)
    }

    /// Returns the time, in nanoseconds, after which a client cancels a command, if it does.
    pub(crate) fn patience(&mut self, step: &Step) -> Option<u64> {
        let random = self.0.as_mut()?;
        let waits = !step.op.is_update() && step.level == Level::Linearizable;
        (waits && random.chance(CANCELLED)).then(|| random.within(0, 200 * MS))
    }
}

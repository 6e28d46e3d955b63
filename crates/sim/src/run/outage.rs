//! A run through an outage: while it lasts, every whole site commits strongly on every group in
//! bounded time.

use super::{Run, Violation};
use crate::outage::{BOUND, Outage, ROUNDS};

impl Run<'_> {
    pub(super) fn through(&mut self, outage: &Outage) {
        let ((_, end), first) = (outage.span(), outage.from());
        let pause = (end - first) / ROUNDS;
        for round in 0..ROUNDS {
            self.load(first + round * pause);
            for site in outage.others(self.scenario.topology.sites()) {
                self.last_round.begin(&self.scenario.topology, site);
                for missing in self.turn(self.world.now + BOUND) {
                    self.violations.push(Violation::TimedOut(format!("{outage}: {missing}")));
                }
            }
        }
        self.load(end);
    }
}

//! Decisions, and their delivery in the order of slots.

use crate::config::Rule;
use crate::ids::{Batch, Slot};
use crate::message::Output;
use crate::rare;
use crate::record::Record;
use crate::state::State;
use crate::step::Step;

impl State {
    /// Stores a decision.
    pub(crate) fn decide<B>(&mut self, step: &mut Step<'_, B>, slot: Slot, batch: Batch) {
        if self.log.decide(slot, batch) && slot > self.log.decided {
            step.reach(rare::DECIDES_EARLY);
        }
    }

    /// Delivers the decided slots whose predicates hold, in order (Creek §3.3: uniform integrity
    /// and uniform total order).
    pub(crate) fn deliver<B>(&mut self, step: &mut Step<'_, B>) {
        while self.deliver_next(step) {}
    }

    fn deliver_next<B>(&mut self, step: &mut Step<'_, B>) -> bool {
        let slot = self.log.delivered.next();
        let Some(state) = self.log.get(slot) else { return false };
        let Some(batch) = &state.decided else { return false };
        let ids = self.runs.select(batch, step.config);
        if !step.holds(&ids) && step.keeps(Rule::PredicateAtDelivery) {
            step.reach(rare::DELIVERY_WAITS);
            return false;
        }
        let skipped = ids.len() < batch.len();
        for id in batch.iter().filter(|id| skipped && !ids.contains(id)) {
            step.reach(match id.number <= self.runs.last(id.of()) {
                true => rare::SKIPS_AGAIN,
                false => rare::SKIPS_EARLY,
            });
        }
        let recorded = state.recorded && step.keeps(Rule::RecordAcceptance);
        let batch = (!recorded).then(|| batch.clone());
        step.record(Record::Delivered { slot, batch });
        self.log.deliver(slot);
        self.runs.advance(&ids);
        self.known.remove(&ids, &self.runs);
        step.outputs.push_back(Output::Deliver { slot, ids });
        true
    }
}

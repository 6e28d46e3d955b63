//! Order of the casts of each run.

use std::collections::BTreeMap;

use crate::config::{Config, Rule};
use crate::ids::{CastId, Run};

/// Number of the last cast of each run, as of some slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs(BTreeMap<Run, u64>);

impl Runs {
    pub(crate) fn new(runs: impl IntoIterator<Item = (Run, u64)>) -> Self {
        Runs(runs.into_iter().collect())
    }

    /// Returns the number of the last cast of a run; 0 if there is none.
    pub(crate) fn last(&self, run: Run) -> u64 {
        self.0.get(&run).copied().unwrap_or(0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Run, u64)> + '_ {
        self.0.iter().map(|(run, number)| (*run, *number))
    }

    /// Returns the ids of the next slot that are delivered there. Two leaders may have proposed an
    /// id, and a later id of a run may be accepted where an earlier one is lost with its leader. So
    /// the content of the earlier slots determines for each id whether it is delivered; all members
    /// decide alike.
    pub(crate) fn select(&self, batch: &[CastId], config: &Config) -> Vec<CastId> {
        let mut last: BTreeMap<Run, u64> = BTreeMap::new();
        let mut selected = Vec::new();
        for id in batch {
            let last = last.entry(id.of()).or_insert_with(|| self.last(id.of()));
            let again = id.number <= *last && config.keeps(Rule::Once);
            let early = id.number > last.saturating_add(1) && config.keeps(Rule::RunOrder);
            if !again && !early {
                *last = id.number.max(*last);
                selected.push(*id);
            }
        }
        selected
    }

    /// Advances by ids that [`Self::select`] has returned.
    pub(crate) fn advance(&mut self, ids: &[CastId]) {
        for id in ids {
            let last = self.0.entry(id.of()).or_default();
            *last = id.number.max(*last);
        }
    }
}

/// Casts whose bodies are here and that are not delivered: the last one of each run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known(BTreeMap<Run, u64>);

impl Known {
    /// Adds a cast, and with it all earlier ones of its run.
    pub(crate) fn add(&mut self, id: CastId) {
        let last = self.0.entry(id.of()).or_default();
        *last = id.number.max(*last);
    }

    /// Removes the runs of these ids whose casts are all delivered.
    pub(crate) fn remove(&mut self, ids: &[CastId], delivered: &Runs) {
        for id in ids {
            if self.0.get(&id.of()).is_some_and(|last| *last <= delivered.last(id.of())) {
                self.0.remove(&id.of());
            }
        }
    }

    /// Removes all runs whose casts are all delivered.
    pub(crate) fn retain(&mut self, delivered: &Runs) {
        self.0.retain(|run, last| *last > delivered.last(*run));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the runs with the numbers of their last casts, beginning after `after`.
    pub(crate) fn after(&self, after: Option<Run>) -> Vec<(Run, u64)> {
        let runs = self.0.iter().map(|(run, last)| (*run, *last));
        let (earlier, mut later): (Vec<_>, Vec<_>) = runs.partition(|(run, _)| Some(*run) <= after);
        later.extend(earlier);
        later
    }
}

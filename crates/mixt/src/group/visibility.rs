//! Decides whether a group may commit, by the writes of others that it sees (MixT §5.4).

use std::collections::BTreeSet;

use super::{Found, GroupRun, GroupStep};
use crate::record::{RecoveryLease, Source, Worklist};
use crate::visibility::Visibility;

impl Visibility {
    /// Processes the witnesses that a group has found, at `now_ms`. Returns whether the group
    /// itself has seen all writes that they announce.
    pub(crate) fn observe(&mut self, run: &GroupRun, worklist: &mut Worklist, now_ms: u64) -> bool {
        self.covered.extend(run.wanted().iter().map(|(place, id)| (*id, place.clone())));
        if run.found.is_empty() {
            return true;
        }
        // A commit witness is written together with the write witnesses of its place.
        self.covered.extend(run.found.iter().map(|found| (found.witness.id, found.place.clone())));
        let (job, index) = (run.job(), run.index());
        let own = job.places(run.group());
        let earlier = job.places_of(..index);
        let later = job.places_of(index + 1..);
        let mut whole = true;
        for found in &run.found {
            let id = found.witness.id;
            for place in found.witness.places.iter() {
                if self.covered.contains(&(id, place.clone())) {
                    continue;
                }
                whole &= !own.contains(place);
                // After a commit, the transaction cannot read again; the docs of `coordinator`
                // describe this limit.
                let missed = earlier.contains(place) && !run.is_after_commit();
                self.suspicious |= missed;
                if missed || own.contains(place) || later.contains(place) {
                    let record = found.witness.record.clone();
                    let source = Source { record, found_ms: now_ms };
                    worklist.entry((place.clone(), id)).or_insert(source);
                }
            }
        }
        whole
    }

    /// Commits a ready group, with a lease that contains the current time.
    pub(crate) fn commit(
        &self,
        run: &mut GroupRun,
        worklist: &Worklist,
        lease: RecoveryLease,
    ) -> GroupStep {
        let (job, next) = (run.job(), run.index() + 1);
        let worklist = if run.group().writes() && !worklist.is_empty() {
            // Only transactions for which later groups must wait remain in the worklist.
            let places = job.places_of(next..);
            let held = worklist.iter().filter(|((place, _), _)| places.contains(place));
            held.map(|(wanted, source)| (wanted.clone(), source.clone())).collect()
        } else {
            worklist.clone()
        };
        // The witnesses of transactions that this group sees as a whole may be replaced. This
        // transaction commits in a place only after it sees the others there, so a reader that
        // waits for its commit witnesses waits for those transactions, too.
        let whole = run.found.iter().filter(|found| self.sees(run, found));
        let whole: BTreeSet<_> = whole.map(|found| found.witness.id).collect();
        run.commit(worklist, lease, |id| whole.contains(&id))
    }

    /// Returns whether the transaction, by its end, will have seen all writes of a transaction that
    /// the group has found.
    fn sees(&self, run: &GroupRun, found: &Found) -> bool {
        let later = run.job().places_of(run.index() + 1..);
        let mut places = found.witness.places.iter();
        places.all(|place| {
            later.contains(place) || self.covered.contains(&(found.witness.id, place.clone()))
        })
    }
}

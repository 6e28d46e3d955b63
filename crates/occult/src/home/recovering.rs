//! A home rebuilt from its records.

use solera_time::Monotonic;

use super::{Context, Home};
use crate::config::Rule;
use crate::record::Record;
use crate::shard::Stamp;

impl Home {
    /// Carries out a record again. Records of replicas have no effect.
    pub(crate) fn recover(&mut self, context: &mut Context<'_>, record: Record) {
        match record {
            Record::Ceiling(ceiling) => {
                // Any stamp up to the bound may have been assigned or reported.
                self.ceiling = ceiling;
                if context.config.has(Rule::Ceiling) {
                    self.clock = ceiling;
                }
            }
            Record::Prepared { tid, writes, assigned, overwritten, decision_home } => {
                self.note_prepared(context, tid, (writes, assigned, overwritten), decision_home);
            }
            Record::Ended(tid, decision) => self.note_ended(context, tid, &decision),
            Record::Decided(tid, decision, participants) => {
                self.note_decided(context, tid, decision, participants);
            }
            Record::Applied(tid, from) => {
                self.note_applied(from, tid);
            }
            Record::Executed { tid, answer, writes, stamp } => {
                self.note_executed(context, tid, &answer, (writes, stamp));
            }
            Record::Batch(..) | Record::Copies { .. } => {}
        }
    }

    /// Ends the recovery. Prepares that were open count as expired: their clients may be gone.
    pub(crate) fn recovered(&mut self, context: &mut Context<'_>) {
        for prepared in self.prepared.values_mut() {
            prepared.since = Monotonic(0);
        }
        // The bound in the journal may be lower than what these records have raised.
        self.ceiling = Stamp::ZERO;
        self.advance(context, self.clock);
    }
}

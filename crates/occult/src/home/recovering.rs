//! A home rebuilt from its records.

use solera_time::Monotonic;

use super::{Context, Ended, Home};
use crate::config::Rule;
use crate::message::{DecidedCommit, Decision};
use crate::record::Record;
use crate::shard::{ShardId, Stamp};

impl Home {
    /// Carries out a record again. Records of replicas have no effect.
    pub(crate) fn recover(&mut self, context: &mut Context<'_>, record: Record) {
        match record {
            Record::Ceiling(ceiling) => {
                // Any stamp up to the bound may have been assigned or reported.
                self.ceiling = ceiling.max(self.ceiling);
                if context.config.has(Rule::Ceiling) {
                    self.clock = ceiling.max(self.clock);
                }
            }
            Record::Prepared {
                tid,
                writes,
                assigned,
                overwritten,
                decision_home,
                decision_shard,
                epoch,
            } => {
                let decides = (decision_home, decision_shard, epoch);
                self.note_prepared(context, tid, (writes, assigned, overwritten), decides);
            }
            Record::Ended(tid, decision) => self.note_ended(context, tid, &decision),
            Record::Decided(tid, decision, participants, shard) => {
                self.note_decided(context, (tid, shard), decision, participants);
            }
            Record::Taken(tid) => drop(self.records.insert(tid, Ended::Taken)),
            Record::Applied(tid, from) => {
                self.note_applied(from, tid);
            }
            Record::Executed { tid, answer, writes, stamp } => {
                self.note_executed(context, tid, &answer, (writes, stamp));
            }
            Record::Batch(..)
            | Record::Copies(..)
            | Record::Started(_)
            | Record::HomeOf(_)
            | Record::Table(_)
            | Record::Handover(_)
            | Record::Took { .. } => {}
        }
    }

    /// Ends the recovery. Prepares that were open count as expired: their clients may be gone.
    pub(crate) fn recovered(&mut self, context: &mut Context<'_>) {
        for prepared in self.prepared.values_mut() {
            prepared.since = Monotonic(0);
        }
        self.streams.restart();
        // The bound in the journal may be lower than the clock that results from these records.
        self.ceiling = Stamp::ZERO;
        self.advance(context, self.clock);
    }

    /// Returns the decisions of this home whose writes are not shown, for a checkpoint.
    pub(crate) fn hidden_decisions(&self) -> Vec<(ShardId, Stamp, DecidedCommit)> {
        let all = self.decided.iter();
        all.flat_map(|((shard, stamp), decided)| {
            decided.iter().map(|decided| (*shard, *stamp, decided.clone()))
        })
        .collect()
    }

    /// Restores a decision whose writes are not shown.
    pub(crate) fn restore_decision(
        &mut self,
        (shard, stamp, decided): (ShardId, Stamp, DecidedCommit),
    ) {
        self.decided.entry((shard, stamp)).or_default().push(decided);
    }

    /// Returns the records that lead to the present state, without hidden and shown writes.
    pub(crate) fn as_records(&self) -> Vec<Record> {
        let prepared = self.prepared.iter().map(|(tid, prepared)| Record::Prepared {
            tid: *tid,
            writes: prepared.writes.clone(),
            assigned: prepared.assigned,
            overwritten: prepared.overwritten.clone(),
            decision_home: prepared.decision_home,
            decision_shard: prepared.decision_shard,
            epoch: prepared.epoch,
        });
        let ended = self.records.iter().map(|(tid, ended)| match ended {
            Ended::Aborted => Record::Decided(*tid, Decision::Abort, Vec::new(), None),
            Ended::Committed { commit, shard, waiting, .. } => {
                let waiting = waiting.iter().copied().collect();
                Record::Decided(*tid, Decision::Commit(commit.clone()), waiting, *shard)
            }
            Ended::Taken => Record::Taken(*tid),
            Ended::Executed(answer) => Record::Executed {
                tid: *tid,
                answer: answer.clone(),
                writes: Vec::new(),
                stamp: Stamp::ZERO,
            },
        });
        prepared.chain(ended).collect()
    }
}

//! When and how a transaction ends, and what is told of it then.

use std::sync::Arc;

use solera_program::run::Failure;
use solera_program::types::Type;
use solera_program::value::Value;

use super::release::Release;
use super::standing::Standing;
use super::{Ask, Coordinator, Stage};
use crate::outcome::{Attempts, Outcome, Why};
use crate::record::{Record, Turn};
use crate::request::calls::StoreError;

impl Coordinator {
    /// Whether others may soon go on with it.
    pub(super) fn is_late(&self) -> bool {
        let finish_ms = self.job.limits.finish_ms;
        self.standing.since_ms().is_some_and(|since| self.now_ms.saturating_sub(since) >= finish_ms)
    }

    /// Whether it is to be given up although nothing is in its way. After a commit it must be
    /// completed.
    pub(super) fn takes_too_long(&self) -> bool {
        let took_ms = self.now_ms.saturating_sub(self.began_ms);
        !self.standing.has_committed() && took_ms >= self.job.limits.run_ms
    }

    pub(super) fn done(&mut self, result: Value) -> Option<Ask> {
        let groups = self.job.plan.groups.len() as u32;
        let attempts = Attempts { begun: self.begun, groups };
        self.over(Outcome::Done { result, attempts })
    }

    /// Ends what was complete before it was resumed.
    pub(super) fn completed_by_others(&mut self) -> Option<Ask> {
        self.standing = Standing::Elsewhere;
        let transaction = &self.job.module.program().transactions[self.job.transaction];
        match &self.state.result {
            Some(result) => self.done(result.clone()),
            None if transaction.result == Type::Unit => self.done(Value::Unit),
            None => {
                let committed = self.committed();
                self.over(Outcome::Incomplete { ticket: None, committed, why: Why::Completed })
            }
        }
    }

    /// Stops what could be gone on with.
    pub(super) fn stop(&mut self, why: Why) -> Option<Ask> {
        if self.standing == Standing::Untouched {
            return self.over(Outcome::Failed(why));
        }
        let ticket = Box::new(self.record());
        let committed = self.committed();
        self.over(Outcome::Incomplete { ticket: Some(ticket), committed, why })
    }

    /// What others need to go on.
    pub(super) fn record(&self) -> Record {
        // Those who run the first group that writes share a turn; until then nobody has it.
        let before = self.turn.saturating_sub(1);
        let (number, since_ms, stopped) = match self.standing {
            Standing::Holding { since_ms, doubtful } => (self.turn, since_ms, !doubtful),
            // It has done nothing yet, and knows what the one before did.
            Standing::Waiting { .. } => {
                (before, self.asked_ms, self.after_stopped && self.turn > 0)
            }
            // Only a commit in doubt lets such a transaction be gone on with.
            Standing::Untouched | Standing::Doubtful | Standing::Elsewhere => {
                (before, self.asked_ms, false)
            }
        };
        let turn = Turn { number, since_ms, whence: self.whence.clone() };
        Record { stopped, ..self.job.record(self.state.clone(), turn) }
    }

    /// Tries again what has failed, if a database could not certify now what it has read, or
    /// something has committed that cannot be undone; ends it otherwise.
    pub(super) fn uncertified(
        &mut self,
        failure: Failure,
        database: Arc<str>,
        error: StoreError,
    ) -> Option<Ask> {
        let why = Why::Uncertified { failure: Box::new(failure), database, error };
        let again = why.is_uncertified_for_now() || self.standing.has_committed();
        if again { self.retry(why) } else { self.fail(why) }
    }

    /// Ends what fails whenever it is tried.
    pub(super) fn fail(&mut self, why: Why) -> Option<Ask> {
        if !self.standing.has_committed() {
            return self.stop(why);
        }
        // These are counted anew: what failed before was something else.
        self.failures = 0;
        self.stage = Stage::Release(Box::new(Release::new(&self.job, self.record(), why)));
        None
    }

    pub(super) fn committed(&self) -> Vec<usize> {
        let groups = self.job.plan.groups[..self.state.next as usize].iter();
        let writing = groups.filter(|group| group.writes());
        let phases = &self.job.module.program().transactions[self.job.transaction].phases;
        writing
            .flat_map(|group| group.phases.clone())
            .filter(|phase| phases[*phase].mutates)
            .collect()
    }

    pub(super) fn over(&mut self, outcome: Outcome) -> Option<Ask> {
        self.stage = Stage::Over(Box::new(outcome));
        None
    }
}

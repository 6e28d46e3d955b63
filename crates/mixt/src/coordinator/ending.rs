//! Decides when a transaction ends, and what its outcome reports.

use std::sync::Arc;

use solera_program::run::Failure;
use solera_program::types::Type;
use solera_program::value::Value;

use super::commit_status::CommitStatus;
use super::release::Release;
use super::{Ask, Coordinator, Stage};
use crate::outcome::{Attempts, Outcome, Why};
use crate::record::{Record, RecoveryLease};
use crate::request::calls::StoreError;

impl Coordinator {
    /// Returns whether other coordinators may soon take the transaction over.
    pub(super) fn is_late(&self) -> bool {
        let finish_ms = self.job.limits.finish_ms;
        self.commit_status
            .since_ms()
            .is_some_and(|since| self.now_ms.saturating_sub(since) >= finish_ms)
    }

    /// Returns whether to give the transaction up because it takes too long. After a commit it is
    /// never given up for this reason, because it must be completed.
    pub(super) fn takes_too_long(&self) -> bool {
        let took_ms = self.now_ms.saturating_sub(self.began_ms);
        !self.commit_status.has_committed() && took_ms >= self.job.limits.run_ms
    }

    pub(super) fn done(&mut self, result: Value) -> Option<Ask> {
        let groups = self.job.plan.groups.len() as u32;
        let attempts = Attempts { begun: self.begun, groups };
        self.over(Outcome::Done { result, attempts })
    }

    /// Ends a transaction that was complete before it was resumed.
    pub(super) fn completed_by_others(&mut self) -> Option<Ask> {
        self.commit_status = CommitStatus::CompletedElsewhere;
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

    /// Stops a transaction that could continue.
    pub(super) fn stop(&mut self, why: Why) -> Option<Ask> {
        if self.commit_status == CommitStatus::Uncommitted {
            return self.over(Outcome::Failed(why));
        }
        let ticket = Box::new(self.record());
        let committed = self.committed();
        self.over(Outcome::Incomplete { ticket: Some(ticket), committed, why })
    }

    /// Returns the record with which other coordinators can continue.
    pub(super) fn record(&self) -> Record {
        // All coordinators that run the first group that writes have the same lease number. Until
        // that group commits, no coordinator holds the lease.
        let before = self.lease_number.saturating_sub(1);
        let (number, since_ms, stopped) = match self.commit_status {
            CommitStatus::HoldingLease { since_ms, doubtful } => {
                (self.lease_number, since_ms, !doubtful)
            }
            // This coordinator has requested no commit yet, so the record describes the previous
            // holder.
            CommitStatus::AwaitingLease { .. } => {
                (before, self.asked_ms, self.after_stopped && self.lease_number > 0)
            }
            // Such a transaction can be resumed only because of a commit in doubt.
            CommitStatus::Uncommitted
            | CommitStatus::InDoubt
            | CommitStatus::CompletedElsewhere => (before, self.asked_ms, false),
        };
        let lease =
            RecoveryLease { number, since_ms, commit_replicas: self.commit_replicas.clone() };
        Record { stopped, ..self.job.record(self.state.clone(), lease) }
    }

    /// Retries after a failure if a database could not certify the reads now, or if something has
    /// committed, which cannot be undone. Otherwise ends the transaction.
    pub(super) fn uncertified(
        &mut self,
        failure: Failure,
        database: Arc<str>,
        error: StoreError,
    ) -> Option<Ask> {
        let why = Why::Uncertified { failure: Box::new(failure), database, error };
        let again = why.is_uncertified_for_now() || self.commit_status.has_committed();
        if again { self.retry(why) } else { self.fail(why) }
    }

    /// Ends a transaction that fails at every attempt.
    pub(super) fn fail(&mut self, why: Why) -> Option<Ask> {
        if !self.commit_status.has_committed() {
            return self.stop(why);
        }
        // Earlier failures had other reasons, so the count starts again.
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

//! Outcomes of strong transactions, from all workers that report them: they must agree.

use std::collections::BTreeMap;

use solera_machine::{Address, PartitionId};
use solera_time::{Timestamp, Vector};
use solera_unistore::{Access, Cause, Event, TransactionId};

/// A strong transaction as it was submitted.
#[derive(Clone, Debug)]
pub(crate) struct Submission {
    pub(crate) cause: Cause,
    pub(crate) snap_vec: Vector,
    pub(crate) partitions: Vec<PartitionId>,
    pub(crate) accesses: Vec<Access>,
    /// The step in which it was submitted.
    pub(crate) step: u64,
}

/// A reported outcome, with the number of reports by each worker that no crash has undone. A worker
/// that decided a transaction and delivered it later may lose only the later report.
#[derive(Debug)]
struct ReportedOutcome {
    ts: Option<Timestamp>,
    by: BTreeMap<Address, usize>,
}

/// All strong transactions of a run.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    submitted: BTreeMap<TransactionId, Submission>,
    reported: BTreeMap<TransactionId, ReportedOutcome>,
    /// Identifiers of a client's transaction. It has several if it is executed again; one of them
    /// may commit.
    names: BTreeMap<Cause, Vec<TransactionId>>,
}

/// News that a report contains.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NewOutcome {
    /// The transaction committed, which was not reported before.
    Committed(Timestamp),
    /// The transaction aborted, which was not reported before.
    Aborted,
    Nothing,
    /// The report contradicts an earlier one.
    Contradiction(String),
}

impl Outcomes {
    /// Records a transaction that is about to be certified.
    pub(crate) fn submit(&mut self, tid: TransactionId, submission: Submission) {
        self.names.entry(submission.cause).or_default().push(tid);
        self.submitted.insert(tid, submission);
    }

    pub(crate) fn submission(&self, tid: TransactionId) -> Option<&Submission> {
        self.submitted.get(&tid)
    }

    /// Records a worker's report of an outcome.
    pub(crate) fn report(
        &mut self,
        by: Address,
        tid: TransactionId,
        ts: Option<Timestamp>,
    ) -> NewOutcome {
        match self.reported.get_mut(&tid) {
            Some(reported) if reported.ts == ts => {
                *reported.by.entry(by).or_default() += 1;
                NewOutcome::Nothing
            }
            Some(reported) => NewOutcome::Contradiction(format!(
                "{tid} is {} by {by:?}, and was {} by {:?}",
                outcome(ts),
                outcome(reported.ts),
                reported.by.keys()
            )),
            None => {
                self.reported.insert(tid, ReportedOutcome { ts, by: BTreeMap::from([(by, 1)]) });
                ts.map_or(NewOutcome::Aborted, NewOutcome::Committed)
            }
        }
    }

    /// Undoes a worker's report that a crash lost before any client received it. Returns the
    /// timestamp if no other worker has reported the commit: then the transaction counts as not
    /// committed.
    pub(crate) fn retract(&mut self, by: Address, event: &Event) -> Option<Timestamp> {
        let Event::Certified { tid, .. } = event else { return None };
        let reported = self.reported.get_mut(tid)?;
        if let Some(times) = reported.by.get_mut(&by) {
            *times = times.saturating_sub(1);
        }
        if reported.by.values().any(|times| *times > 0) {
            return None;
        }
        self.reported.remove(tid).and_then(|reported| reported.ts)
    }

    /// Returns whether any of a client's attempts committed.
    pub(crate) fn has_committed(&self, cause: Cause) -> bool {
        self.names.get(&cause).into_iter().flatten().any(|tid| self.committed(*tid) == Some(true))
    }

    /// Returns whether a client's transaction was certified.
    pub(crate) fn was_submitted(&self, cause: Cause) -> bool {
        self.names.contains_key(&cause)
    }

    /// Returns whether a transaction committed, if a worker has reported its outcome.
    pub(crate) fn committed(&self, tid: TransactionId) -> Option<bool> {
        self.reported.get(&tid).map(|reported| reported.ts.is_some())
    }
}

fn outcome(ts: Option<Timestamp>) -> &'static str {
    if ts.is_some() { "committed" } else { "aborted" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use solera_time::SiteId;

    fn worker(site: u8) -> Address {
        Address { site: SiteId(site), worker: 0 }
    }

    #[test]
    fn an_outcome_is_undone_when_all_reports_are_retracted() {
        let mut outcomes = Outcomes::default();
        let tid: TransactionId = "0.0.0.1".parse().unwrap();
        let (early, late) = (Some(Timestamp(5)), Some(Timestamp(6)));
        assert_eq!(outcomes.report(worker(0), tid, early), NewOutcome::Committed(Timestamp(5)));
        assert_eq!(outcomes.report(worker(1), tid, early), NewOutcome::Nothing);
        assert!(matches!(outcomes.report(worker(2), tid, late), NewOutcome::Contradiction(_)));
        let event = Event::Certified { tid, ts: early };
        assert_eq!(outcomes.retract(worker(1), &event), None);
        assert_eq!(outcomes.committed(tid), Some(true));
        assert_eq!(outcomes.report(worker(0), tid, early), NewOutcome::Nothing);
        assert_eq!(outcomes.retract(worker(0), &event), None, "it remembers the first time");
        assert_eq!(outcomes.retract(worker(0), &event), early);
        assert_eq!(outcomes.report(worker(2), tid, None), NewOutcome::Aborted);
    }
}

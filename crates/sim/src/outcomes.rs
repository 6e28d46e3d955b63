//! What became of strong transactions, by all who say so: they must agree.

use std::collections::BTreeMap;

use solera_machine::{Address, PartitionId};
use solera_time::{Timestamp, Vector};
use solera_unistore::{Access, Cause, Event, TransactionId};

/// What a strong transaction did, as it was submitted.
#[derive(Clone, Debug)]
pub(crate) struct Submission {
    pub(crate) cause: Cause,
    pub(crate) snap_vec: Vector,
    pub(crate) partitions: Vec<PartitionId>,
    pub(crate) accesses: Vec<Access>,
    /// In which step.
    pub(crate) step: u64,
}

/// An outcome, and how often which workers have told it and not forgotten that in a crash: one that
/// has decided a transaction and delivers it later may forget only the latter.
#[derive(Debug)]
struct Told {
    ts: Option<Timestamp>,
    by: BTreeMap<Address, usize>,
}

/// All strong transactions of a run.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    submitted: BTreeMap<TransactionId, Submission>,
    told: BTreeMap<TransactionId, Told>,
    /// A client's transaction that is executed again has several names; one of them may commit.
    names: BTreeMap<Cause, Vec<TransactionId>>,
}

/// What follows from an event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// It committed, which nobody has told before.
    Committed(Timestamp),
    /// It aborted, which nobody has told before.
    Aborted,
    Nothing,
    /// It contradicts what was told before.
    Contradiction(String),
}

impl Outcomes {
    /// A transaction is about to be certified.
    pub(crate) fn submit(&mut self, tid: TransactionId, submission: Submission) {
        self.names.entry(submission.cause).or_default().push(tid);
        self.submitted.insert(tid, submission);
    }

    pub(crate) fn submission(&self, tid: TransactionId) -> Option<&Submission> {
        self.submitted.get(&tid)
    }

    /// A worker says what became of a transaction.
    pub(crate) fn tell(&mut self, by: Address, tid: TransactionId, ts: Option<Timestamp>) -> News {
        match self.told.get_mut(&tid) {
            Some(told) if told.ts == ts => {
                *told.by.entry(by).or_default() += 1;
                News::Nothing
            }
            Some(told) => News::Contradiction(format!(
                "{tid} is {} by {by:?}, and was {} by {:?}",
                outcome(ts),
                outcome(told.ts),
                told.by.keys()
            )),
            None => {
                self.told.insert(tid, Told { ts, by: BTreeMap::from([(by, 1)]) });
                ts.map_or(News::Aborted, News::Committed)
            }
        }
    }

    /// A worker has forgotten in a crash what it had told nobody but the judges. Returns the
    /// timestamp if nobody else knows that the transaction committed: then it may as well not have.
    pub(crate) fn untell(&mut self, by: Address, event: &Event) -> Option<Timestamp> {
        let Event::Certified { tid, .. } = event else { return None };
        let told = self.told.get_mut(tid)?;
        if let Some(times) = told.by.get_mut(&by) {
            *times = times.saturating_sub(1);
        }
        if told.by.values().any(|times| *times > 0) {
            return None;
        }
        self.told.remove(tid).and_then(|told| told.ts)
    }

    /// Whether any of a client's attempts committed.
    pub(crate) fn has_committed(&self, cause: Cause) -> bool {
        self.names.get(&cause).into_iter().flatten().any(|tid| self.committed(*tid) == Some(true))
    }

    /// Whether a client's transaction was certified at all.
    pub(crate) fn was_submitted(&self, cause: Cause) -> bool {
        self.names.contains_key(&cause)
    }

    /// Whether a transaction committed, if anybody has told.
    pub(crate) fn committed(&self, tid: TransactionId) -> Option<bool> {
        self.told.get(&tid).map(|told| told.ts.is_some())
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
    fn an_outcome_is_undone_when_all_who_told_it_have_forgotten_it() {
        let mut outcomes = Outcomes::default();
        let tid: TransactionId = "0.0.0.1".parse().unwrap();
        let (early, late) = (Some(Timestamp(5)), Some(Timestamp(6)));
        assert_eq!(outcomes.tell(worker(0), tid, early), News::Committed(Timestamp(5)));
        assert_eq!(outcomes.tell(worker(1), tid, early), News::Nothing);
        assert!(matches!(outcomes.tell(worker(2), tid, late), News::Contradiction(_)));
        let event = Event::Certified { tid, ts: early };
        assert_eq!(outcomes.untell(worker(1), &event), None);
        assert_eq!(outcomes.committed(tid), Some(true));
        assert_eq!(outcomes.tell(worker(0), tid, early), News::Nothing);
        assert_eq!(outcomes.untell(worker(0), &event), None, "it remembers the first time");
        assert_eq!(outcomes.untell(worker(0), &event), early);
        assert_eq!(outcomes.tell(worker(2), tid, None), News::Aborted);
    }
}

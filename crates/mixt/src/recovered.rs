//! Results of recovery.

use crate::job::CannotResume;
use crate::outcome::Outcome;
use crate::record::Record;
use crate::request::calls::StoreError;
use crate::versioned::Unreadable;
use crate::witness::TransactionId;

/// Results of one run of recovery.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Transactions that this run has completed, for a [`Collector`](crate::collect::Collector).
    pub completed: Vec<Record>,
    /// Complete transactions whose garbage another host removes. A
    /// [`Collector`](crate::collect::Collector) removes it if no host does.
    pub complete: Vec<Record>,
    /// Number of transactions left to the coordinators that began them or took them over, because
    /// the time limits of these coordinators have not passed.
    pub young: usize,
    /// Transactions that could not be completed now, with the outcomes of the attempts.
    pub open: Vec<(TransactionId, Outcome)>,
    /// Transactions that can never be completed, because their programs failed after a phase had
    /// committed. They stay until they are [given up](crate::recovery::forget).
    pub failed: Vec<Record>,
    /// Transactions whose modules are not known here.
    pub unknown: Vec<CannotResume>,
    /// Transactions whose records cannot be read.
    pub unreadable: Vec<(String, Unreadable)>,
    /// Transactions whose records the database did not return, with its errors.
    pub unread: Vec<(String, StoreError)>,
    /// Transactions that recovery did not try to complete: a database that they need next was
    /// unreachable for an earlier transaction, or they wait for transactions that are not complete.
    pub skipped: Vec<TransactionId>,
    /// Tickets of transactions that could not be completed now. A
    /// [`Collector`](crate::collect::Collector) keeps them, because they may be resumed.
    pub given_up: Vec<Record>,
    /// Tickets of completed transactions that a [`Collector`](crate::collect::Collector) had, now
    /// with the results: resuming them returns these.
    pub finished: Vec<Record>,
}

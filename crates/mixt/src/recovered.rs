//! What recovery has found and done.

use crate::form::Unreadable;
use crate::job::CannotResume;
use crate::outcome::Outcome;
use crate::record::Record;
use crate::request::calls::StoreError;
use crate::witness::TransactionId;

/// What was found and done.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Transactions that were completed now, for a [`Collector`](crate::collect::Collector).
    pub completed: Vec<Record>,
    /// Complete transactions of which somebody else removes what is left, for a
    /// [`Collector`](crate::collect::Collector) if nobody does.
    pub complete: Vec<Record>,
    /// How many are left to those who have begun them or taken them over, as they have the time for
    /// it.
    pub young: usize,
    /// Those that could not be completed now, and how their attempts ended.
    pub open: Vec<(TransactionId, Outcome)>,
    /// Those that can never be completed: their programs failed after a phase had committed. They
    /// stay until they are [given up](crate::recovery::forget).
    pub failed: Vec<Record>,
    /// Those whose modules are not known here.
    pub unknown: Vec<CannotResume>,
    /// Transactions whose records cannot be read.
    pub unreadable: Vec<(String, Unreadable)>,
    /// Transactions whose records their database did not give, and what it said.
    pub unread: Vec<(String, StoreError)>,
    /// Those that were not tried, as a database that they need next could not be reached for an
    /// earlier one, or because they wait for others that are not complete.
    pub skipped: Vec<TransactionId>,
    /// Tickets of those that could not be completed now, for a
    /// [`Collector`](crate::collect::Collector), which remembers that they may be gone on with.
    pub given_up: Vec<Record>,
    /// The tickets of completed ones that a [`Collector`](crate::collect::Collector) had, which now
    /// have the results: resuming them tells these.
    pub finished: Vec<Record>,
}

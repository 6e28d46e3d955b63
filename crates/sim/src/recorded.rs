//! Transactions as their clients saw them, for the judges.

use solera_checker::Level as Promise;
use solera_data::{Key, Op, OpError, Outcome};
use solera_levels::Level;
use solera_unistore::{Cause, Kind};

/// How a recorded transaction ended, as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Committed,
    Aborted,
    /// The client never learned.
    Unknown,
}

/// An operation and what it answered, if it did.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) key: Key,
    pub(crate) level: Level,
    /// What it conflicts with in a strong transaction.
    pub(crate) kind: Kind,
    /// What it is judged by.
    pub(crate) promise: Promise,
    pub(crate) op: Op,
    pub(crate) answer: Option<Result<Outcome, OpError>>,
}

/// A transaction as its client saw it.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) session: usize,
    pub(crate) site: usize,
    pub(crate) steps: Vec<Step>,
    pub(crate) status: Status,
    pub(crate) cause: Option<Cause>,
    /// When its client began it, and when it learned that it committed.
    pub(crate) invoked: u64,
    pub(crate) answered: Option<u64>,
}

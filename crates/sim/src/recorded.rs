//! Transactions as their clients observed them, for the checkers.

use solera_checker::Level as Promise;
use solera_data::{Key, Op, OpError, Outcome};
use solera_levels::Level;
use solera_unistore::{Cause, Kind};

/// Outcome of a recorded transaction, as its client knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Committed,
    Aborted,
    /// The client never received the outcome.
    Unknown,
}

/// An operation and its answer, if it has one.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) key: Key,
    pub(crate) level: Level,
    /// The kinds with which it conflicts in a strong transaction.
    pub(crate) kind: Kind,
    /// The level by which the checker judges it.
    pub(crate) promise: Promise,
    pub(crate) op: Op,
    pub(crate) answer: Option<Result<Outcome, OpError>>,
}

/// A transaction as its client observed it.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) session: usize,
    pub(crate) site: usize,
    pub(crate) steps: Vec<Step>,
    pub(crate) status: Status,
    pub(crate) cause: Option<Cause>,
    /// Time at which its client invoked it, and time at which the client received the answer that
    /// it committed.
    pub(crate) invoked: u64,
    pub(crate) answered: Option<u64>,
}

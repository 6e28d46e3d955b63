//! The execution of one operation on a snapshot, which needs nothing of the machine (Creek §4.4).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::store::{Snapshot, Values, Writes};
use crate::object::Procedures;
use crate::request::Request;

/// The execution of an operation on a snapshot.
pub struct Job<P: Procedures> {
    procedures: Arc<P>,
    operation: Source<P>,
    snapshot: Snapshot<P::Value>,
}

/// An operation that is executed.
pub(crate) enum Source<P: Procedures> {
    /// An operation that has a place in the order.
    Placed(Arc<Request<P::Operation>>),
    /// An operation that gets a place when its execution counts.
    Attempted(Arc<P::Operation>),
}

impl<P: Procedures> Source<P> {
    /// Returns `None` for an operation without effect.
    fn operation(&self) -> Option<&P::Operation> {
        match self {
            Source::Placed(request) => request.operation.as_ref(),
            Source::Attempted(operation) => Some(operation),
        }
    }
}

/// Result of a [`Job`].
pub struct Done<P: Procedures> {
    /// `None` for an operation without effect.
    pub(crate) response: Option<Arc<P::Response>>,
    /// Values that the operation has read, except those that it wrote itself.
    pub(crate) reads: Values<P::Value>,
    /// Changes of registers by the operation.
    pub(crate) writes: Writes<P::Value>,
}

impl<P: Procedures> Job<P> {
    pub(crate) fn new(
        procedures: Arc<P>,
        operation: Source<P>,
        snapshot: Snapshot<P::Value>,
    ) -> Job<P> {
        Job { procedures, operation, snapshot }
    }
}

impl<P: Procedures> solera_machine::Job for Job<P> {
    type Result = Done<P>;

    fn run(self) -> Done<P> {
        let Job { procedures, operation, mut snapshot } = self;
        let execute = |operation| Arc::new(procedures.execute(operation, &mut snapshot));
        let response = operation.operation().map(execute);
        let (reads, writes) = snapshot.into_accesses();
        Done { response, reads, writes }
    }

    fn cost(&self) -> Duration {
        let operation = self.operation.operation();
        operation.map_or(Duration::ZERO, |operation| self.procedures.cost(operation))
    }
}

impl<P: Procedures> fmt::Debug for Job<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("operation", &self.operation.operation())
            .finish_non_exhaustive()
    }
}

impl<P: Procedures> fmt::Debug for Done<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Done").field("response", &self.response).finish_non_exhaustive()
    }
}

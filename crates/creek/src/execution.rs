//! Execution of the operations in the current order, by one of two executors.

mod attempts;
mod classes;
mod job;
mod sequential;
mod store;
mod versions;

use std::collections::VecDeque;
use std::sync::Arc;

use solera_machine::{JobId, RequestId};

use self::sequential::Sequential;
use self::versions::Versions;

pub(crate) use self::attempts::Before;
pub use self::job::{Done, Job};
pub use self::store::Registers;
use crate::config::{Config, Executor};
use crate::ids::{OperationId, StreamId};
use crate::object::{Procedures, RegisterKey};
use crate::order::{Committed, Order, OrderPlace};
use crate::request::Request;

/// Executed operations that are not final, and the state after them.
#[derive(Debug)]
pub(crate) struct Execution<P: Procedures> {
    procedures: Arc<P>,
    state: State<P>,
}

#[derive(Debug)]
enum State<P: Procedures> {
    Sequential(Sequential<P>, Waiting<P>),
    Multiversion(Box<Versions<P>>),
}

/// Operations that wait for the execution of all others before they get a place.
type Waiting<P> = VecDeque<Invoked<P>>;

/// An operation that a client has invoked and that has no place yet.
#[derive(Debug)]
pub(crate) struct Invoked<P: Procedures> {
    pub(crate) client: RequestId,
    pub(crate) operation: Arc<P::Operation>,
    /// Whether the client wants all responses.
    pub(crate) track: bool,
    /// The strong operation to which this execution gives a tentative response, if it gets its
    /// place only when it is committed. The execution writes nothing.
    pub(crate) foretells: Option<OperationId>,
}

/// Treatment of an operation by an executor, besides its execution in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Clients of this site wait for responses.
    Awaited,
    /// No client of this site waits for a response.
    Other,
}

/// Result of a step.
#[derive(Debug)]
pub(crate) enum Progress<P: Procedures> {
    /// The last execution was revoked.
    RolledBack,
    /// An operation was executed.
    Worked,
    /// Something was done that takes no time.
    Working,
    /// A job executes an operation.
    Begun(JobId, Job<P>),
    /// Response to an operation at its present place.
    Executed {
        request: Arc<Request<P::Operation>>,
        /// `None` for an operation without effect.
        response: Option<Arc<P::Response>>,
        /// Whether this execution replaces another one.
        again: bool,
        /// Whether the state is that of a sequential execution.
        settled: bool,
    },
    /// An operation that a client has invoked, and that follows all others now.
    Attempted {
        invoked: Invoked<P>,
        /// Result of its execution after all others. The sequential executor executes it when it
        /// has its place.
        done: Option<Done<P>>,
        /// Operations that were executed before it, if it only reads and more is executed now.
        before: Option<Before>,
    },
    /// Nothing can be done before another input.
    Idle,
}

/// An executed operation with its response; `None` for an operation without effect.
pub(crate) type Executed<P> =
    (Arc<Request<<P as Procedures>::Operation>>, Option<Arc<<P as Procedures>::Response>>);

/// Effect of a commit on executed operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// Executed operations have changed places.
    Reordered,
    /// Executed operations are committed in the order of their execution.
    Kept,
    /// Nothing was executed.
    Nothing,
}

impl<P: Procedures> Execution<P> {
    pub(crate) fn new(procedures: P, config: &Config) -> Execution<P> {
        let state = match config.executor {
            Executor::Sequential => State::Sequential(Sequential::new(), Waiting::<P>::new()),
            Executor::Multiversion => State::Multiversion(Box::new(Versions::new(config))),
        };
        Execution { procedures: Arc::new(procedures), state }
    }

    /// Notes that the order contains another operation. Returns whether the operation after it was
    /// executed.
    pub(crate) fn insert(
        &mut self,
        order: &Order<P::Operation>,
        place: OrderPlace,
        request: Arc<Request<P::Operation>>,
        kind: Kind,
    ) -> bool {
        match &mut self.state {
            State::Sequential(state, _) => state.make_room(order, &request) > 0,
            State::Multiversion(state) => state.insert(&self.procedures, place, request, kind),
        }
    }

    /// Takes an operation that a client invokes weakly. It gets no place before its execution
    /// counts.
    pub(crate) fn attempt(&mut self, invoked: Invoked<P>) {
        match &mut self.state {
            State::Sequential(_, waiting) => waiting.push_back(invoked),
            State::Multiversion(state) => state.attempt(&self.procedures, invoked),
        }
    }

    /// Returns whether an operation without a place has waited for many strong ones of this site.
    pub(crate) fn is_passed(&self) -> bool {
        match &self.state {
            State::Sequential(..) => false,
            State::Multiversion(state) => state.is_passed(),
        }
    }

    /// Notes that a strong operation of this site gets its place.
    pub(crate) fn pass(&mut self) {
        if let State::Multiversion(state) = &mut self.state {
            state.pass();
        }
    }

    /// Returns the number of operations without a place.
    pub(crate) fn attempts(&self) -> usize {
        match &self.state {
            State::Sequential(_, waiting) => waiting.len(),
            State::Multiversion(state) => state.attempts(),
        }
    }

    /// Forgets an operation that has no place. Returns whether there was one.
    pub(crate) fn cancel_attempt(&mut self, client: RequestId) -> bool {
        match &mut self.state {
            State::Sequential(_, waiting) => {
                let before = waiting.len();
                waiting.retain(|invoked| invoked.client != client);
                waiting.len() < before
            }
            State::Multiversion(state) => state.cancel_attempt(client),
        }
    }

    /// Gives an attempted operation, which has its place now, the result of its execution.
    pub(crate) fn complete(&mut self, place: OrderPlace, done: Done<P>) {
        match &mut self.state {
            State::Sequential(..) => {}
            State::Multiversion(state) => state.complete(place, done),
        }
    }

    /// Executes an operation that only reads after all others, which are executed in order.
    pub(crate) fn read(&mut self, operation: &P::Operation) -> Option<Arc<P::Response>> {
        match &mut self.state {
            State::Sequential(state, _) => Some(Arc::new(state.last(&*self.procedures, operation))),
            State::Multiversion(_) => None,
        }
    }

    /// Notes that a run begins, whose operations are in this stream.
    pub(crate) fn start(&mut self, own: StreamId) {
        if let State::Multiversion(state) = &mut self.state {
            state.start(own);
        }
    }

    /// Removes and returns the operations that were executed for the first time.
    pub(crate) fn take_newly(&mut self) -> Vec<OperationId> {
        match &mut self.state {
            State::Sequential(state, _) => std::mem::take(&mut state.newly),
            State::Multiversion(state) => state.take_newly(),
        }
    }

    /// Notes that clients of this site wait for the next response to an operation.
    pub(crate) fn watch(&mut self, place: OrderPlace) {
        if let State::Multiversion(state) = &mut self.state {
            state.watch(place);
        }
    }

    /// Notes that a client gets the present response to a tentative operation.
    pub(crate) fn note_seen(&mut self, place: OrderPlace) {
        if let State::Multiversion(state) = &mut self.state {
            state.note_seen(place);
        }
    }

    /// Returns the operation because of which a tentative operation reads something else now than
    /// when a client got a response to it. Returns `None` if no client has got one since the start
    /// of the machine. The sequential executor returns `None`.
    pub(crate) fn cause(&self, place: OrderPlace) -> Option<OperationId> {
        match &self.state {
            State::Sequential(..) => None,
            State::Multiversion(state) => state.cause(place),
        }
    }

    /// Notes a commit. There were this number of committed operations that are not final.
    pub(crate) fn commit(&mut self, before: usize, commit: &Committed<P::Operation>) -> Moved {
        match &mut self.state {
            State::Sequential(state, _) => {
                let moved = match commit.changed {
                    Some(place) if place < state.in_order() => Moved::Reordered,
                    None if state.in_order() > before => Moved::Kept,
                    _ => Moved::Nothing,
                };
                state.change_from(commit.changed.unwrap_or(usize::MAX));
                moved
            }
            State::Multiversion(state) => state.relocate(&self.procedures, &commit.moved),
        }
    }

    /// Returns the next response that the executed operations permit.
    pub(crate) fn report(&mut self) -> Option<Progress<P>> {
        match &mut self.state {
            // Each step returns its response.
            State::Sequential(..) => None,
            State::Multiversion(state) => state.report(),
        }
    }

    /// Rolls back one operation, executes one, or begins a job. At most `slots` jobs run at a time;
    /// without slots, all operations are executed here.
    pub(crate) fn step(&mut self, order: &Order<P::Operation>, slots: usize) -> Progress<P> {
        match &mut self.state {
            State::Sequential(state, waiting) => match state.step(&*self.procedures, order) {
                Progress::Idle => waiting.pop_front().map_or(Progress::Idle, |invoked| {
                    Progress::Attempted { invoked, done: None, before: None }
                }),
                progress => progress,
            },
            State::Multiversion(state) => state.step(&self.procedures, slots, order.finals()),
        }
    }

    /// Takes the result of a job.
    pub(crate) fn take_done(&mut self, job: JobId, done: Done<P>) {
        match &mut self.state {
            State::Sequential(..) => {}
            State::Multiversion(state) => state.take_done(job, done),
        }
    }

    /// Returns whether all operations are executed in order.
    pub(crate) fn is_idle(&self, order: &Order<P::Operation>) -> bool {
        match &self.state {
            State::Sequential(state, _) => state.is_idle(order),
            State::Multiversion(state) => state.is_idle(),
        }
    }

    /// Returns whether [`Execution::step`] can do something before another input.
    pub(crate) fn has_work(&self, order: &Order<P::Operation>, slots: usize) -> bool {
        match &self.state {
            State::Sequential(state, waiting) => !state.is_idle(order) || !waiting.is_empty(),
            State::Multiversion(state) => state.has_work(slots),
        }
    }

    /// Returns what is executed before an operation at a place: the number of committed operations
    /// that are not final and come first without a gap, and the ids of all, in order.
    pub(crate) fn before(
        &self,
        order: &Order<P::Operation>,
        place: OrderPlace,
    ) -> (usize, Vec<OperationId>) {
        match &self.state {
            State::Sequential(..) => order.before(place),
            State::Multiversion(state) => state.before(place),
        }
    }

    /// Removes and returns the first operation of the order with its response, if it is committed
    /// and executed in its place.
    pub(crate) fn take_first(&mut self) -> Option<Executed<P>> {
        match &mut self.state {
            State::Sequential(state, _) => state.take_first(),
            State::Multiversion(state) => state.take_first(),
        }
    }

    /// Returns the number of executions so far, without those of operations that only read.
    pub(crate) fn executions(&self) -> u64 {
        match &self.state {
            State::Sequential(state, _) => state.executions,
            State::Multiversion(state) => state.executions,
        }
    }

    /// Returns the registers after the final operations. The sequential executor copies them.
    pub(crate) fn registers(&self) -> Registers<P::Value> {
        match &self.state {
            State::Sequential(state, _) => state.final_registers().into_iter().collect(),
            State::Multiversion(state) => state.registers(),
        }
    }

    /// Returns about the number of keys after the final operations, and the bytes of all registers.
    pub(crate) fn size(&self) -> (usize, usize) {
        match &self.state {
            State::Sequential(state, _) => state.size(),
            State::Multiversion(state) => state.size(),
        }
    }

    /// Sets a register of the state after the final operations. Nothing may have been executed.
    pub(crate) fn restore(&mut self, key: RegisterKey, value: P::Value) {
        match &mut self.state {
            State::Sequential(state, _) => state.restore(key, value),
            State::Multiversion(state) => state.restore(key, value),
        }
    }

    pub(crate) fn is_read_only(&self, operation: &P::Operation) -> bool {
        self.procedures.is_read_only(operation)
    }
}

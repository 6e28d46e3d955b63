//! Execution of the operations in the current order, by one of two executors.

mod sequential;
mod versions;

use std::sync::Arc;

use self::sequential::Sequential;
use self::versions::Versions;

use crate::config::{Config, Executor};
use crate::object::{Procedures, RegisterKey};
use crate::order::{Committed, Order, Place};
use crate::request::Request;

/// Executed operations that are not final, and the state after them.
#[derive(Debug)]
pub(crate) struct Execution<P: Procedures> {
    procedures: P,
    state: State<P>,
    /// Number of executions so far, without those of operations that only read.
    pub(crate) executions: u64,
}

#[derive(Debug)]
enum State<P: Procedures> {
    Sequential(Sequential<P>),
    Multiversion(Versions<P>),
}

/// Result of a step.
#[derive(Debug)]
pub(crate) enum Progress<P: Procedures> {
    /// The last execution was revoked.
    RolledBack,
    /// An operation was executed, and everything before it is executed in order.
    Executed {
        request: Arc<Request<P::Operation>>,
        /// `None` for an operation without effect.
        response: Option<Arc<P::Response>>,
        /// Whether this execution replaces another one.
        again: bool,
    },
    /// All operations are executed in order.
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
            Executor::Sequential => State::Sequential(Sequential::new()),
            Executor::Multiversion => State::Multiversion(Versions::new(config.without)),
        };
        Execution { procedures, state, executions: 0 }
    }

    /// Notes that the order contains another operation. Returns whether the operation after it was
    /// executed.
    pub(crate) fn insert(
        &mut self,
        order: &Order<P::Operation>,
        place: Place,
        request: Arc<Request<P::Operation>>,
    ) -> bool {
        match &mut self.state {
            State::Sequential(state) => state.make_room(order, &request) > 0,
            State::Multiversion(state) => state.insert(place, request),
        }
    }

    /// Notes a commit. There were this number of committed operations that are not final.
    pub(crate) fn commit(&mut self, before: usize, commit: &Committed<P::Operation>) -> Moved {
        match &mut self.state {
            State::Sequential(state) => {
                let moved = match commit.changed {
                    Some(place) if place < state.in_order() => Moved::Reordered,
                    None if state.in_order() > before => Moved::Kept,
                    _ => Moved::Nothing,
                };
                state.change_from(commit.changed.unwrap_or(usize::MAX));
                moved
            }
            State::Multiversion(state) => state.relocate(&commit.moved),
        }
    }

    /// Rolls back one operation or executes one.
    pub(crate) fn step(&mut self, order: &Order<P::Operation>) -> Progress<P> {
        let progress = match &mut self.state {
            State::Sequential(state) => state.step(&self.procedures, order),
            State::Multiversion(state) => state.step(&self.procedures),
        };
        self.executions += u64::from(matches!(progress, Progress::Executed { .. }));
        progress
    }

    /// Returns whether all operations are executed in order.
    pub(crate) fn is_idle(&self, order: &Order<P::Operation>) -> bool {
        match &self.state {
            State::Sequential(state) => state.is_idle(order),
            State::Multiversion(state) => state.is_idle(),
        }
    }

    /// Executes an operation that only reads, after all others, which must be executed in order.
    pub(crate) fn read(&mut self, operation: &P::Operation) -> P::Response {
        match &mut self.state {
            State::Sequential(state) => state.last(&self.procedures, operation),
            State::Multiversion(state) => state.last(&self.procedures, operation),
        }
    }

    /// Removes and returns the first operation of the order with its response, if it is executed
    /// in its place.
    pub(crate) fn take_first(&mut self) -> Option<Executed<P>> {
        match &mut self.state {
            State::Sequential(state) => state.take_first(),
            State::Multiversion(state) => state.take_first(),
        }
    }

    /// Returns the registers after the final operations.
    pub(crate) fn final_registers(&self) -> Vec<(RegisterKey, P::Value)> {
        match &self.state {
            State::Sequential(state) => state.final_registers(),
            State::Multiversion(state) => state.final_registers(),
        }
    }

    /// Returns about the number of registers after the final operations, and their bytes.
    pub(crate) fn size(&self) -> (usize, usize) {
        match &self.state {
            State::Sequential(state) => state.size(),
            State::Multiversion(state) => state.size(),
        }
    }

    /// Sets a register of the state after the final operations. Nothing may have been executed.
    pub(crate) fn restore(&mut self, key: RegisterKey, value: P::Value) {
        match &mut self.state {
            State::Sequential(state) => state.restore(key, value),
            State::Multiversion(state) => state.restore(key, value),
        }
    }

    pub(crate) fn is_read_only(&self, operation: &P::Operation) -> bool {
        self.procedures.is_read_only(operation)
    }
}

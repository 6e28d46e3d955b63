//! Weak operations of this site's clients that have no place in the order yet.
//!
//! Such an operation is executed after all others. If something that it has read has changed before
//! the execution counts, it is executed again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use solera_machine::RequestId;

use super::Invoked;
use super::classes::Classes;
use super::job::Done;
use crate::ids::OperationId;
use crate::object::Procedures;
use crate::order::OrderPlace;

/// Number of executions by jobs after which the machine executes an operation itself.
const MOST: usize = 8;
/// Number of the site's strong operations that may get their places while an operation with a
/// result waits.
const PASSED: usize = 32;
/// Number of waiting operations that are examined for one without a conflict.
const LOOKED_AT: usize = 64;

/// An operation, its number, and the result of its last execution by a job.
pub(crate) type Ready<P> = (u64, Arc<<P as Procedures>::Operation>, Option<Done<P>>);

/// Operations before an operation: the number of final ones, and the ids of the other executed
/// ones.
pub(crate) type Before = (u64, Vec<OperationId>);

/// Operations that have no place yet, in the order of their invocation.
pub(crate) struct Attempts<P: Procedures> {
    number: u64,
    attempts: BTreeMap<u64, Attempt<P>>,
    clients: BTreeMap<RequestId, u64>,
    /// Operations that the machine executes itself, and those that a job has executed.
    ready: BTreeSet<u64>,
    /// Operations that wait for a job, or for the machine if it begins no jobs.
    waiting: BTreeSet<u64>,
    /// Number of strong operations of the site that got their places while an operation with a
    /// result waited.
    passed: usize,
    /// Operations that only read, with results that can be returned in any state.
    reads: BTreeSet<u64>,
    /// Classes of operations that jobs execute or have executed, each with the operation's number.
    busy: BTreeMap<u64, u64>,
}

/// An operation that has no place yet.
struct Attempt<P: Procedures> {
    invoked: Invoked<P>,
    /// Whether its execution writes nothing.
    only_reads: bool,
    classes: Vec<u64>,
    /// Operations before this one, if it only reads and its snapshot is a state that a response may
    /// show.
    before: Option<Before>,
    /// Result of the last execution.
    result: Option<Done<P>>,
    executions: usize,
}

impl<P: Procedures> Attempts<P> {
    pub(crate) fn new() -> Attempts<P> {
        Attempts {
            number: 0,
            attempts: BTreeMap::new(),
            clients: BTreeMap::new(),
            ready: BTreeSet::new(),
            waiting: BTreeSet::new(),
            passed: 0,
            reads: BTreeSet::new(),
            busy: BTreeMap::new(),
        }
    }

    /// Adds an operation that a client has invoked.
    pub(crate) fn add(
        &mut self,
        invoked: Invoked<P>,
        (is_short, only_reads): (bool, bool),
        classes: Vec<u64>,
    ) {
        self.number += 1;
        self.clients.insert(invoked.client, self.number);
        let (before, result, executions) = (None, None, 0);
        let attempt = Attempt { invoked, only_reads, classes, before, result, executions };
        self.attempts.insert(self.number, attempt);
        let queue = if is_short { &mut self.ready } else { &mut self.waiting };
        queue.insert(self.number);
    }

    /// Forgets the operation of a client. Returns whether there was one.
    pub(crate) fn cancel(&mut self, client: RequestId) -> bool {
        let number = self.clients.get(&client).copied();
        number.is_some_and(|number| self.remove(number).is_some())
    }

    /// Removes and returns an operation.
    pub(crate) fn remove(&mut self, number: u64) -> Option<Invoked<P>> {
        let attempt = self.attempts.remove(&number)?;
        self.passed = 0;
        for class in &attempt.classes {
            if self.busy.get(class) == Some(&number) {
                self.busy.remove(class);
            }
        }
        self.clients.remove(&attempt.invoked.client);
        self.ready.remove(&number);
        self.waiting.remove(&number);
        self.reads.remove(&number);
        Some(attempt.invoked)
    }

    /// Returns whether there is an operation that [`Attempts::take_ready`] returns.
    pub(crate) fn has_ready(&self, slots: usize) -> bool {
        !self.ready.is_empty() || slots == 0 && !self.waiting.is_empty()
    }

    /// Returns whether the execution of an operation writes nothing, or its client has cancelled
    /// it.
    pub(crate) fn only_reads(&self, number: u64) -> bool {
        self.attempts.get(&number).is_none_or(|attempt| attempt.only_reads)
    }

    /// Returns whether an operation that has a place, and probably conflicts, must be executed.
    pub(crate) fn has_conflict(&self, number: u64, classes: &Classes) -> bool {
        let attempt = self.attempts.get(&number);
        attempt.is_some_and(|attempt| classes.has_before(&attempt.classes, OrderPlace::End))
    }

    /// Takes the first operation that has a result or that the machine executes itself. Without
    /// slots for jobs, the machine executes all operations itself.
    pub(crate) fn take_ready(&mut self, slots: usize) -> Option<Ready<P>> {
        let waiting = self.waiting.first().filter(|_| slots == 0);
        let number = *self.ready.first().into_iter().chain(waiting).min()?;
        self.ready.remove(&number);
        self.waiting.remove(&number);
        let attempt = self.attempts.get_mut(&number)?;
        Some((number, Arc::clone(&attempt.invoked.operation), attempt.result.take()))
    }

    /// Takes the first operation that waits for a job and conflicts, according to the classes, with
    /// no operation that must be executed or that a job executes. Examines only the first
    /// `LOOKED_AT` operations.
    pub(crate) fn take_waiting(&mut self, classes: &Classes) -> Option<(u64, Arc<P::Operation>)> {
        let number = self.next_waiting(classes)?;
        self.waiting.remove(&number);
        let attempt = self.attempts.get(&number)?;
        self.busy.extend(attempt.classes.iter().map(|class| (*class, number)));
        Some((number, Arc::clone(&attempt.invoked.operation)))
    }

    /// Returns the operation that [`Attempts::take_waiting`] takes.
    pub(crate) fn next_waiting(&self, classes: &Classes) -> Option<u64> {
        let is_free = |number: &&u64| {
            let Some(attempt) = self.attempts.get(number) else { return false };
            let is_busy = |class| self.busy.get(class).is_some_and(|of| of != *number);
            !attempt.classes.iter().any(is_busy) && !self.has_conflict(**number, classes)
        };
        self.waiting.iter().take(LOOKED_AT).find(is_free).copied()
    }

    /// Returns whether an operation with a result has waited while `PASSED` strong operations of
    /// the site got their places.
    pub(crate) fn is_passed(&self) -> bool {
        self.passed >= PASSED
    }

    /// Notes that a strong operation of the site gets its place.
    pub(crate) fn pass(&mut self) {
        self.passed = if self.ready.is_empty() { 0 } else { self.passed + 1 };
    }

    /// Returns the number of operations.
    pub(crate) fn len(&self) -> usize {
        self.attempts.len()
    }

    /// Takes the result of a job, unless the client has cancelled the operation.
    pub(crate) fn take_done(&mut self, number: u64, done: Done<P>) {
        let Some(attempt) = self.attempts.get_mut(&number) else { return };
        attempt.result = Some(done);
        attempt.executions += 1;
        let queue = if attempt.before.is_some() { &mut self.reads } else { &mut self.ready };
        queue.insert(number);
    }

    /// Notes that a job executes an operation that only reads, on a state that a response may show.
    pub(crate) fn expect(&mut self, number: u64, before: Before) {
        self.attempts.entry(number).and_modify(|attempt| attempt.before = Some(before));
    }

    /// Returns whether there is a result that [`Attempts::take_read`] returns.
    pub(crate) fn has_read(&self) -> bool {
        !self.reads.is_empty()
    }

    /// Takes the result of an operation that only reads and was executed on a state that a response
    /// may show.
    pub(crate) fn take_read(&mut self) -> Option<(u64, Done<P>, Before)> {
        let number = self.reads.pop_first()?;
        let attempt = self.attempts.get_mut(&number)?;
        Some((number, attempt.result.take()?, attempt.before.take()?))
    }

    /// Lets an operation be executed again.
    pub(crate) fn retry(&mut self, number: u64) {
        let often = self.attempts.get(&number).is_some_and(|it| it.executions >= MOST);
        let queue = if often { &mut self.ready } else { &mut self.waiting };
        queue.insert(number);
    }
}

impl<P: Procedures> fmt::Debug for Attempts<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempts").field("number", &self.attempts.len()).finish_non_exhaustive()
    }
}

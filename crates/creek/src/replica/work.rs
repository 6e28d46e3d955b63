//! Work of a step: changes of the order, then executions, within a bound.

use solera_machine::{Now, RequestId};

use super::{Change, Replica};
use crate::config::Rule;
use crate::execution::Progress;
use crate::finals::Final;
use crate::ids::StreamId;
use crate::message::Event;
use crate::object::Procedures;
use crate::rare;

impl<O> Change<O> {
    pub(super) fn is_of(&self, client: RequestId) -> bool {
        matches!(self, Change::Invoke(request, _) if *request == client)
    }
}

impl<P: Procedures> Replica<P> {
    /// Begins a step of the machine.
    pub(crate) fn begin_step(&mut self) {
        self.left = self.config.limits.executions;
    }

    /// Changes the order, executes operations, as many as the step may, and answers clients.
    pub(crate) fn work(&mut self, now: Now) {
        loop {
            self.execute(now);
            self.make_final();
            if !self.resume_waits(now) {
                break;
            }
        }
        if self.is_busy() {
            self.rare(rare::SLICED);
        }
    }

    fn execute(&mut self, now: Now) {
        loop {
            self.apply_changes(now);
            if self.left == 0 {
                break;
            }
            match self.execution.step(&self.order) {
                Progress::RolledBack => self.rare(rare::ROLLED_BACK),
                Progress::Executed { request, response, again } => {
                    if again {
                        self.rare(rare::ROLLED_BACK);
                    }
                    self.answer(&request, response);
                    self.make_final();
                }
                Progress::Idle if self.reads.is_empty() => break,
                Progress::Idle => {
                    self.answer_reads();
                    continue;
                }
            }
            self.left -= 1;
        }
    }

    /// Returns whether a step has left something to do.
    pub(crate) fn is_busy(&self) -> bool {
        let waits = self.has_changes_now() || !self.reads.is_empty();
        waits || !self.execution.is_idle(&self.order)
    }

    /// Returns whether the next change need not wait.
    ///
    /// An operation that arrives while an invoked weak one waits for its execution may have been
    /// executed elsewhere with it. If it came first here, the clients of both would see the other
    /// one's operation. So it waits: an invoked weak operation is executed on what was known when
    /// it was invoked. Commits need not wait, because they concern known operations.
    fn has_changes_now(&self) -> bool {
        let free = self.unanswered == 0 || !self.config.has(Rule::ExecuteAsInvoked);
        match self.changes.front() {
            Some(Change::Invoke(..)) => true,
            Some(Change::Deliver(_)) => free,
            None => false,
        }
    }

    fn apply_changes(&mut self, now: Now) {
        while self.has_changes_now() {
            match self.changes.pop_front() {
                Some(Change::Invoke(request, command)) => self.invoke(now, request, command),
                Some(Change::Deliver(request)) => self.deliver(now.monotonic, request),
                None => return,
            }
        }
        if !self.changes.is_empty() {
            self.rare(rare::HELD);
        }
    }

    /// Makes the committed operations final that are executed in order, and answers their clients.
    pub(crate) fn make_final(&mut self) {
        while !self.order.committed().is_empty() {
            let Some((request, response)) = self.execution.take_first() else { return };
            self.order.make_final();
            let id = request.id;
            self.digest = self.digest.then(id, response.as_deref());
            let (position, digest) = (self.order.finals(), self.digest);
            let first = self.frontier.finish(id).and_then(|open| open.first);
            let is_own = id.stream() == StreamId { site: self.me(), run: self.run };
            if let Some(first) = first.filter(|_| is_own) {
                self.predicted.0 += 1;
                self.predicted.1 += u64::from(Some(first) == response);
            }
            let kept = response.clone();
            self.history.push(Final { position, request, response: kept, digest });
            self.trace(Event::Final { position, id, digest });
            self.answer_final(id, response);
            self.answer_waits(id);
        }
    }

    /// Executes the committed operations, without a bound and without replies.
    pub(crate) fn execute_committed(&mut self) {
        while !self.order.committed().is_empty() {
            self.execution.step(&self.order);
            self.make_final();
        }
    }
}

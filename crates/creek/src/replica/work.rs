//! Work of a step: changes of the order, then executions, within a bound.

use solera_machine::Now;

use super::Replica;
use crate::execution::Progress;
use crate::finals::Final;
use crate::ids::StreamId;
use crate::message::{Event, Output};
use crate::object::Procedures;
use crate::rare;

impl<P: Procedures> Replica<P> {
    /// Begins a step of the machine.
    pub(crate) fn begin_step(&mut self) {
        self.left = self.config.limits.executions;
    }

    /// Changes the order, executes operations, as many as the step may, and answers clients.
    pub(crate) fn work(&mut self, now: Now) {
        loop {
            self.execute(now);
            if self.may_place_strong() {
                self.place_strong(now);
                continue;
            }
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
            self.make_final();
            for id in self.execution.take_newly() {
                self.frontier.place(id);
            }
            if let Some(report) = self.execution.report() {
                self.take_progress(now, report);
                continue;
            }
            if self.left == 0 {
                return;
            }
            let progress = self.execution.step(&self.order, self.config.jobs);
            match progress {
                Progress::Idle => return,
                Progress::Working | Progress::Begun(..) => {}
                _ => self.left -= 1,
            }
            self.take_progress(now, progress);
        }
    }

    pub(super) fn take_progress(&mut self, now: Now, progress: Progress<P>) {
        match progress {
            Progress::RolledBack => self.rare(rare::ROLLED_BACK),
            Progress::Begun(job, work) => {
                self.rare(rare::JOB);
                self.out.push_back(Output::<P>::Job { job, work });
            }
            Progress::Executed { request, response, again, settled } => {
                if again {
                    self.rare(rare::ROLLED_BACK);
                }
                self.answer(&request, response, settled);
            }
            Progress::Attempted { invoked, done, before } => {
                self.take_attempt(now, invoked, done, before);
            }
            Progress::Worked | Progress::Working | Progress::Idle => {}
        }
    }

    /// Returns whether a step has left something to do.
    pub(crate) fn is_busy(&self) -> bool {
        // A step that is not full ends when nothing can be done.
        let has_work = || self.execution.has_work(&self.order, self.config.jobs);
        self.left == 0 && (self.may_place_strong() || has_work())
    }

    /// Makes the committed operations final that are executed in order, and answers their clients.
    fn make_final(&mut self) {
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
            self.comparison.reach(position, digest);
            self.answer_final(id, response);
            self.answer_waits(id);
        }
    }

    /// Executes the committed operations, without a bound and without replies.
    pub(crate) fn execute_committed(&mut self) {
        while !self.order.committed().is_empty() {
            // Nobody waits for what is reported.
            while self.execution.report().is_some() {}
            self.execution.step(&self.order, 0);
            self.make_final();
        }
    }
}

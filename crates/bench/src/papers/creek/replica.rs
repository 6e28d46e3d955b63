//! A replica in virtual time: a machine, its protocol thread and its cores.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use solera_creek::{Creek, Final, Response};
use solera_machine::{Address, InputOf, Job as _, Machine, Now, OutputOf, RequestId};
use solera_time::SiteId;
use solera_tpcc::{Operation, Tpcc};

use super::measured::{Class, Used};
use super::setting::nanos;

pub(super) type Input = InputOf<Creek<Tpcc>>;
pub(super) type Message = solera_creek::Message<Operation>;
/// A response to a client.
pub(super) type Answer = Response<solera_tpcc::Response>;
/// A final operation.
pub(super) type FinalOf = Final<Operation, solera_tpcc::Response>;

/// Number of final operations that are read at a time.
const ALL: usize = usize::MAX;
/// Real time up to which a step counts. The computer has interrupted steps that take longer, unless
/// they are very rare.
const LONGEST_STEP: Duration = Duration::from_micros(300);

/// A replica.
pub(super) struct Replica {
    pub(super) machine: Creek<Tpcc>,
    pub(super) address: Address,
    /// Inputs that wait for the protocol thread, with the times of their arrival.
    pub(super) inbox: VecDeque<(u64, Input)>,
    /// When the protocol thread is idle again.
    pub(super) free_at: u64,
    /// Whether an event continues the work then.
    pub(super) is_waking: bool,
    /// Time of the next event for a timer.
    pub(super) timer: Option<u64>,
    /// Number of final operations of clients that update.
    pub(super) updates: u64,
    pub(super) used: Used,
    /// Real time of the machine's steps.
    pub(super) spent: Duration,
    /// Number of jobs that run.
    running: usize,
    /// Position after the last final operation that was read.
    position: u64,
    /// Time of the protocol thread for an input.
    step: u64,
}

/// Effects of a step.
#[derive(Default)]
pub(super) struct Effects {
    /// Messages with their receivers.
    pub(super) messages: Vec<(usize, Message)>,
    /// Results of jobs, with the times that these occupy a core.
    pub(super) jobs: Vec<(u64, Input)>,
    pub(super) replies: Vec<(RequestId, Answer)>,
}

impl Replica {
    pub(super) fn new(machine: Creek<Tpcc>, site: usize, step: Duration) -> Replica {
        Replica {
            machine,
            address: Address { site: SiteId(site as u8), worker: 0 },
            inbox: VecDeque::new(),
            free_at: 0,
            is_waking: false,
            timer: None,
            updates: 0,
            used: Used::default(),
            spent: Duration::ZERO,
            running: 0,
            position: 1,
            step: nanos(step),
        }
    }

    pub(super) fn begin_window(&mut self) {
        self.used = Used::default();
    }

    /// Lets the machine handle its next input or timer. Returns `None` if there is none yet.
    pub(super) fn step(&mut self, now: Now) -> Option<Effects> {
        let at = now.monotonic.0;
        // A machine that is busy has the deadline 0, and continues after the inputs that wait.
        let deadline = self.machine.next_deadline().map(|deadline| match deadline.0 {
            0 => at,
            later => later,
        });
        let input = self.inbox.front().map(|(arrival, _)| *arrival);
        let takes_input = input.is_some_and(|arrival| deadline.is_none_or(|due| arrival <= due));
        if !takes_input && deadline.is_none_or(|due| due > at) {
            return None;
        }
        self.used.longest = self.used.longest.max(self.inbox.len());
        let input = takes_input.then(|| self.inbox.pop_front()).flatten();
        let begin = Instant::now();
        match input {
            Some((_, input)) => {
                self.running -= usize::from(matches!(input, Input::Done { .. }));
                self.machine.handle(now, input);
            }
            None => self.machine.on_deadline(now),
        }
        let outputs: Vec<_> = std::iter::from_fn(|| self.machine.poll_output()).collect();
        self.spent += begin.elapsed().min(LONGEST_STEP);
        self.free_at = at + self.step;
        self.used.thread += self.step;
        let mut effects = Effects::default();
        outputs.into_iter().for_each(|output| self.take_output(output, &mut effects));
        Some(effects)
    }

    fn take_output(&mut self, output: OutputOf<Creek<Tpcc>>, effects: &mut Effects) {
        type Output = OutputOf<Creek<Tpcc>>;
        match output {
            Output::Send { to, message } => effects.messages.push((to.site.index(), message)),
            Output::Reply { request, response, .. } => effects.replies.push((request, response)),
            Output::Job { job, work } => {
                let cost = nanos(work.cost());
                self.running += 1;
                self.used.cores += cost;
                // A job depends on nothing but its own data.
                effects.jobs.push((cost, Input::Done { job, result: work.run() }));
            }
            Output::Records(_) | Output::Trace(_) => {}
            Output::Ask { question, .. } => match question {},
        }
    }

    /// Returns when the next timer is due, unless an event for it is under way.
    pub(super) fn next_timer(&self, now: u64) -> Option<u64> {
        let at = self.machine.next_deadline()?.0.max(self.free_at).max(now);
        Some(at).filter(|at| self.timer.is_none_or(|timer| *at < timer))
    }

    /// Returns the operations that have become final since the last call.
    ///
    /// # Panics
    /// If the machine has removed some of them.
    pub(super) fn read_finals(&mut self) -> Vec<FinalOf> {
        assert!(self.machine.log_start() <= self.position, "the history is too short");
        let finals: Vec<FinalOf> = self.machine.log(self.position, ALL).cloned().collect();
        self.position += finals.len() as u64;
        let classes = finals.iter().filter_map(|it| it.request.operation.as_ref()).map(Class::of);
        self.updates += classes.filter(|class| *class != Class::ReadOnly).count() as u64;
        finals
    }

    /// Returns whether nothing waits or runs.
    pub(super) fn is_at_rest(&self) -> bool {
        let status = self.machine.status();
        self.inbox.is_empty()
            && self.running == 0
            && status.tentative == 0
            && status.committed == status.finals
    }
}

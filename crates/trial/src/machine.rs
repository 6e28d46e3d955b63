//! The machine.

use std::collections::{BTreeMap, VecDeque};

use solera_machine::{
    Address, AskId, GuardAnswer, GuardQuestion, Guarded, JobId, Machine, Now, PromiseId, Records,
    RequestId, Verdict,
};
use solera_membership::{Members, Participant};
use solera_time::Monotonic;

use crate::command::{Answer, Command, Question, Response};
use crate::guard::{Allocations, steps, too_late};
use crate::message::{Event, Input, Message, Output};
use crate::record::{Part, Record};
use crate::removals::Removals;
use crate::work::Chain;

solera_machine::rare_paths! {
    /// The lanes work.
    OVERTAKEN = "trial: a message arrived before one that was sent earlier in another lane";
    /// Cancellation reaches jobs.
    CANCELLED = "trial: a job ended whose request was cancelled";
    /// Guards may learn of an end before they have answered.
    ENDED_EARLY = "trial: a transaction ended before its guard had answered";
    /// Participants report an end to guards again.
    END_REPEATED = "trial: a guard received an end without a promise";
}

/// Number of steps of the job for a site that leaves.
const REMOVAL_STEPS: u32 = 20_000;

/// Configuration of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Number of units of each key.
    pub limit: u32,
    /// Whether to emit records, for a journal.
    pub journal: bool,
}

/// A question to the guard that waits for a job.
#[derive(Debug)]
struct DeferredPromise {
    request: RequestId,
    id: PromiseId,
    guards: Guarded,
    /// Whether the transaction has ended and the question was answered.
    over: bool,
}

/// A computation under way.
#[derive(Debug)]
struct Computation {
    request: RequestId,
    steps: u32,
    pieces: u32,
    done: u32,
}

/// Messages sent to a worker, or received from one: the last number in each lane.
#[derive(Debug, Default)]
struct Traffic {
    run: u64,
    urgent: u64,
    usual: u64,
    /// The greatest number of messages that were sent before one that has arrived.
    most_before: u64,
}

impl Traffic {
    fn last_in(&mut self, urgent: bool) -> &mut u64 {
        if urgent { &mut self.urgent } else { &mut self.usual }
    }
}

/// The machine of one worker. Its guard's promises survive a crash; all other work is lost.
#[derive(Debug)]
pub struct Trial {
    config: Config,
    allocations: Allocations,
    deferred: BTreeMap<JobId, DeferredPromise>,
    /// Identifier of the process, from its first input on.
    run: Option<u64>,
    /// Number of jobs and questions so far.
    named: u64,
    computations: BTreeMap<JobId, Computation>,
    removals: Removals,
    additions: BTreeMap<AskId, RequestId>,
    sent: BTreeMap<Address, Traffic>,
    arrived: BTreeMap<Address, Traffic>,
    outputs: VecDeque<Output>,
}

/// Progress of a checkpoint.
#[derive(Debug, Default)]
pub struct Checkpoint {
    complete: bool,
}

impl Trial {
    /// Creates the machine of a worker that has handed out nothing.
    pub fn new(config: Config) -> Trial {
        Trial::with_allocations(config, Allocations::default())
    }

    pub(crate) fn with_allocations(config: Config, allocations: Allocations) -> Trial {
        Trial {
            config,
            allocations,
            deferred: BTreeMap::new(),
            run: None,
            named: 0,
            computations: BTreeMap::new(),
            removals: Removals::default(),
            additions: BTreeMap::new(),
            sent: BTreeMap::new(),
            arrived: BTreeMap::new(),
            outputs: VecDeque::new(),
        }
    }

    /// Returns the guard's allocations.
    pub fn allocations(&self) -> &Allocations {
        &self.allocations
    }

    fn name(&mut self) -> u64 {
        self.named += 1;
        self.named
    }

    fn reply(&mut self, request: RequestId, response: Response, last: bool) {
        self.outputs.push_back(Output::Reply { request, response, last });
    }

    fn compute(&mut self, start: u64, computation: Computation) {
        let job = JobId(self.name());
        let work = Chain { start, steps: computation.steps };
        self.computations.insert(job, computation);
        self.outputs.push_back(Output::Job { job, work });
    }

    fn on_command(&mut self, request: RequestId, command: Command, run: u64) {
        match command {
            Command::Compute { start, steps, pieces } => {
                let pieces = pieces.max(1);
                self.compute(start, Computation { request, steps, pieces, done: 0 });
            }
            Command::Add { key, amount } => {
                let ask = AskId(self.name());
                self.additions.insert(ask, request);
                let question = Question::Add { key, amount };
                self.outputs.push_back(Output::Ask { ask, question });
            }
            Command::Burst { to, count } => {
                for place in 0..2 * count {
                    let urgent = place % 2 == 1;
                    let traffic = self.sent.entry(to).or_default();
                    let before = traffic.urgent + traffic.usual;
                    *traffic.last_in(urgent) += 1;
                    let number = *traffic.last_in(urgent);
                    let message = Message { run, urgent, number, before };
                    self.outputs.push_back(Output::Send { to, message });
                }
                self.reply(request, Response::Sent, true);
            }
            // Its promises wait for nothing.
            Command::Guard(GuardQuestion::Reserve { .. }) => {
                let answer = GuardAnswer::Verdict(Verdict::Promised);
                self.reply(request, Response::Guard(answer), true);
            }
            Command::Guard(GuardQuestion::Promise { id, guards }) => match steps(&guards) {
                0 => self.judge(request, id, &guards),
                steps => {
                    let job = JobId(self.name());
                    self.deferred.insert(job, DeferredPromise { request, id, guards, over: false });
                    self.outputs.push_back(Output::Job { job, work: Chain { start: 0, steps } });
                }
            },
            Command::Guard(GuardQuestion::End { id, committed }) => {
                self.end(id, committed);
                self.reply(request, Response::Guard(GuardAnswer::Ended), true);
            }
        }
    }

    fn record(&mut self, record: &Record) {
        if self.config.journal {
            let mut records = Records::default();
            records.push_with(|bytes| record.encode(bytes));
            self.outputs.push_back(Output::Records(records));
        }
    }

    /// Answers whether a transaction may commit.
    fn judge(&mut self, request: RequestId, id: PromiseId, guards: &Guarded) {
        let verdict = match self.allocations.judge(self.config.limit, guards) {
            _ if self.allocations.is_open(id) => Verdict::Promised,
            Ok(set_aside) => {
                self.record(&Record::Promised(id, set_aside.clone()));
                self.allocations.promise(id, set_aside);
                Verdict::Promised
            }
            Err(refusal) => Verdict::Refused(refusal),
        };
        self.reply(request, Response::Guard(GuardAnswer::Verdict(verdict)), true);
    }

    /// Ends the promise to a transaction, and answers its open questions.
    fn end(&mut self, id: PromiseId, committed: bool) {
        let is_early = |it: &&mut DeferredPromise| it.id == id && !it.over;
        let early = self.deferred.values_mut().filter(is_early).map(|it| {
            it.over = true;
            (it.request, too_late(&it.guards))
        });
        let early: Vec<_> = early.collect();
        let is_early = !early.is_empty();
        for (request, verdict) in early {
            self.outputs.push_back(Output::Trace(Event::Rare(ENDED_EARLY)));
            self.reply(request, Response::Guard(GuardAnswer::Verdict(verdict)), true);
        }
        if self.allocations.end(id, committed) {
            self.record(&Record::Ended(id, committed));
        } else if !is_early {
            self.outputs.push_back(Output::Trace(Event::Rare(END_REPEATED)));
        }
    }

    fn on_done(&mut self, job: JobId, end: u64) {
        if let Some((site, generation)) = self.removals.end(job) {
            return self
                .outputs
                .push_back(Output::Trace(Event::RemovalCompleted(site, generation)));
        }
        match self.deferred.remove(&job) {
            Some(DeferredPromise { over: true, .. }) => return,
            Some(DeferredPromise { request, id, guards, .. }) => {
                return self.judge(request, id, &guards);
            }
            None => {}
        }
        let Some(mut computation) = self.computations.remove(&job) else {
            return self.outputs.push_back(Output::Trace(Event::Rare(CANCELLED)));
        };
        computation.done += 1;
        let (request, pieces) = (computation.request, computation.done);
        let last = pieces == computation.pieces;
        self.reply(request, Response::Computed { pieces, end }, last);
        if !last {
            self.compute(end, computation);
        }
    }

    fn on_answer(&mut self, ask: AskId, answer: Answer) {
        if let Some(request) = self.additions.remove(&ask) {
            self.reply(request, Response::Added(answer), true);
        }
    }

    fn on_message(&mut self, from: Address, message: Message) {
        let traffic = self.arrived.entry(from).or_default();
        if traffic.run != message.run {
            *traffic = Traffic { run: message.run, ..Traffic::default() };
        }
        let last = traffic.last_in(message.urgent);
        let in_order = message.number > *last;
        *last = message.number;
        let overtaken = message.before < traffic.most_before;
        traffic.most_before = traffic.most_before.max(message.before);
        if !in_order {
            self.outputs.push_back(Output::Trace(Event::Disorder { from, message }));
        } else if overtaken {
            self.outputs.push_back(Output::Trace(Event::Rare(OVERTAKEN)));
        }
    }
}

impl Participant for Trial {
    /// Begins a job for each site that leaves.
    fn set_members(&mut self, _: Now, members: &Members) {
        for generation in self.removals.begin(members) {
            let job = JobId(self.name());
            self.removals.wait_for(job, generation);
            let work = Chain { start: 0, steps: REMOVAL_STEPS };
            self.outputs.push_back(Output::Job { job, work });
        }
    }

    fn has_completed_removals(&self) -> bool {
        self.removals.are_complete()
    }

    /// Always true: the protocol transfers nothing.
    fn is_filled(&self) -> bool {
        true
    }
}

impl Machine for Trial {
    type Message = Message;
    type Command = Command;
    type Response = Response;
    type Event = Event;
    type Job = Chain;
    type Question = Question;
    type Answer = Answer;
    type Part = Part;
    type Checkpoint = Checkpoint;

    fn handle(&mut self, now: Now, input: Input) {
        let run = *self.run.get_or_insert(now.physical.0);
        match input {
            Input::Message { from, message, .. } => self.on_message(from, message),
            Input::Client { request, command } => self.on_command(request, command, run),
            Input::Cancel { request } => {
                self.computations.retain(|_, computation| computation.request != request);
                self.additions.retain(|_, of| *of != request);
            }
            Input::Done { job, result } => self.on_done(job, result),
            Input::Answered { ask, answer } => self.on_answer(ask, answer),
        }
    }

    fn on_deadline(&mut self, _: Now) {}

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn next_deadline(&self) -> Option<Monotonic> {
        None
    }

    fn next_part(&self, checkpoint: &mut Checkpoint, _: usize) -> Option<Part> {
        let first = !std::mem::replace(&mut checkpoint.complete, true);
        (first && !self.allocations.is_empty()).then(|| Part(self.allocations.clone()))
    }

    fn is_complete(checkpoint: &Checkpoint) -> bool {
        checkpoint.complete
    }

    fn encode_part(part: &Part, bytes: &mut Vec<u8>) {
        part.encode(bytes);
    }
}

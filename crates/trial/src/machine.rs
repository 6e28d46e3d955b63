//! The machine.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;

use solera_machine::{Address, AskId, JobId, Machine, Now, RequestId};
use solera_time::Monotonic;

use crate::command::{Answer, Command, Question, Response};
use crate::message::{Event, Input, Message, Output};
use crate::work::Chain;

solera_machine::rare_paths! {
    /// The lanes work.
    OVERTAKEN = "trial: a message arrived before one that was sent earlier in another lane";
    /// Cancellation reaches jobs.
    CANCELLED = "trial: a job ended whose request was cancelled";
}

/// A computation under way.
#[derive(Debug)]
struct Computation {
    request: RequestId,
    steps: u32,
    pieces: u32,
    done: u32,
}

/// What was sent to a worker, or has arrived from one: the last message of each lane, and how many in both.
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

/// The machine of one worker. It keeps nothing: what a worker had begun when it died comes to nothing.
#[derive(Debug, Default)]
pub struct Trial {
    /// Names the process, from its first input on.
    run: Option<u64>,
    /// Jobs and questions so far.
    named: u64,
    computations: BTreeMap<JobId, Computation>,
    additions: BTreeMap<AskId, RequestId>,
    sent: BTreeMap<Address, Traffic>,
    arrived: BTreeMap<Address, Traffic>,
    outputs: VecDeque<Output>,
}

impl Trial {
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
        }
    }

    fn on_done(&mut self, job: JobId, end: u64) {
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

impl Machine for Trial {
    type Message = Message;
    type Command = Command;
    type Response = Response;
    type Event = Event;
    type Job = Chain;
    type Question = Question;
    type Answer = Answer;
    type Part = Infallible;
    type Checkpoint = ();

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

    fn next_part(&self, (): &mut (), _: usize) -> Option<Infallible> {
        None
    }

    fn is_complete((): &()) -> bool {
        true
    }

    fn encode_part(part: &Infallible, _: &mut Vec<u8>) {
        match *part {}
    }
}

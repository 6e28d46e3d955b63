//! Jobs that end when the test wants it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use solera_creek::{
    Access, Command, Config, Context, Creek, Executor, Job, Level, Message, OperationId, Output,
    Procedures, Request, Response,
};
use solera_machine::{Address, Input, Job as _, JobId, Machine, Now, RequestId, Topology};
use solera_time::{Monotonic, Physical, SiteId, Timestamp};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Letters {
    Append { key: u8, letter: char, is_long: bool },
    Read { key: u8, is_long: bool },
}

fn append(key: u8, letter: char) -> Letters {
    Letters::Append { key, letter, is_long: false }
}

fn long_append(key: u8, letter: char) -> Letters {
    Letters::Append { key, letter, is_long: true }
}

fn read(key: u8) -> Letters {
    Letters::Read { key, is_long: false }
}

struct Texts;

impl Procedures for Texts {
    type Operation = Letters;
    type Value = String;
    type Response = String;

    fn execute(&self, letters: &Letters, registers: &mut dyn Access<String>) -> String {
        let (Letters::Append { key, .. } | Letters::Read { key, .. }) = letters;
        let mut text = registers.read(&[*key]).unwrap_or_default();
        if let Letters::Append { letter, .. } = letters {
            text.push(*letter);
            registers.write(&[*key], Some(text.clone()));
        }
        text
    }

    fn is_read_only(&self, letters: &Letters) -> bool {
        matches!(letters, Letters::Read { .. })
    }

    fn is_short(&self, letters: &Letters) -> bool {
        let (Letters::Append { is_long, .. } | Letters::Read { is_long, .. }) = letters;
        !is_long
    }
}

fn address(site: u8) -> Address {
    Address { site: SiteId(site), worker: 0 }
}

fn now() -> Now {
    Now { monotonic: Monotonic(1_000_000_000), physical: Physical(1_000_000) }
}

/// The machine of site 0, beside a site that sends what the test wants.
struct One {
    machine: Creek<Texts>,
    jobs: Vec<(JobId, Job<Texts>)>,
    replies: Vec<(RequestId, Response<String>)>,
    requests: u64,
}

impl One {
    fn new(change: impl Fn(&mut Config)) -> One {
        let topology = Topology { partitions: 1, workers: vec![1; 2] };
        let mut config = Config::new(address(0), Arc::new(topology));
        (config.trace, config.leader) = (true, SiteId(1));
        change(&mut config);
        let machine = Creek::new(config, Texts);
        let mut one = One { machine, jobs: Vec::new(), replies: Vec::new(), requests: 0 };
        one.tick();
        one
    }

    fn tick(&mut self) {
        self.machine.on_deadline(now());
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::<Texts>::Job { job, work } => self.jobs.push((job, work)),
                Output::<Texts>::Reply { request, response, .. } => {
                    self.replies.push((request, response));
                }
                _ => {}
            }
        }
    }

    fn command(&mut self, command: Command<Letters, String>) -> RequestId {
        self.requests += 1;
        let request = RequestId(self.requests);
        self.machine.handle(now(), Input::Client { request, command });
        self.collect();
        request
    }

    fn invoke(&mut self, operation: Letters, level: Level) -> RequestId {
        self.command(Command::Invoke { operation, level, track: false })
    }

    /// Gives the machine an operation of the other site.
    fn give(&mut self, request: Request<Letters>) {
        let message = Message::Operations { requests: vec![Arc::new(request)], more: false };
        self.machine.handle(now(), Input::Message { from: address(1), generation: 0, message });
        self.collect();
    }

    /// Ends the first job.
    fn end_job(&mut self) {
        let (job, work) = self.jobs.remove(0);
        self.machine.handle(now(), Input::Done { job, result: work.run() });
        self.collect();
    }

    fn has_reply(&self, request: RequestId) -> bool {
        self.replies.iter().any(|(to, _)| *to == request)
    }
}

/// Returns a weak operation of the other site, in its first run.
fn weak(event: u64, timestamp: u64, operation: Letters) -> Request<Letters> {
    Request {
        id: OperationId { site: SiteId(1), run: 1, event },
        timestamp: Timestamp(timestamp),
        operation: Some(operation),
        context: Context::default(),
        cast: None,
        previous: None,
    }
}

#[test]
fn a_past_contains_what_a_reply_shows_of_each_run() {
    let mut one = One::new(|config| config.jobs = 2);
    one.give(Request { cast: Some(1), ..weak(1, 100, long_append(1, 'a')) });
    let id = OperationId { site: SiteId(1), run: 2, event: 1 };
    one.give(Request { id, previous: Some((1, 1)), ..weak(1, 200, append(2, 'b')) });
    one.invoke(read(2), Level::Weak);
    let Some((_, Response::Tentative(tentative))) = one.replies.last() else { panic!() };
    let claim = tentative.claim.as_ref().unwrap();
    assert!(claim.tentative.iter().all(|id| one.machine.past().contains(*id)));
    one.end_job();
    one.invoke(read(2), Level::Weak);
    assert!(matches!(one.replies.last(), Some((_, Response::Tentative(it))) if it.response == "b"));
}

#[test]
fn an_operation_that_waits_for_a_job_is_begun_though_the_step_was_full() {
    let mut one = One::new(|config| (config.jobs, config.limits.executions) = (1, 1));
    one.invoke(Letters::Read { key: 1, is_long: true }, Level::Weak);
    one.invoke(Letters::Read { key: 2, is_long: true }, Level::Weak);
    assert_eq!(one.jobs.len(), 1);
    one.end_job();
    if one.machine.next_deadline() == Some(Monotonic(0)) {
        one.tick();
    }
    assert_eq!(one.jobs.len(), 1);
}

#[test]
fn executors_agree_though_a_clock_is_at_its_end() {
    let texts = |executor| {
        let mut one = One::new(|config| config.executor = executor);
        one.give(weak(1, u64::MAX, append(1, 'z')));
        one.invoke(append(1, 'a'), Level::Weak);
        one.invoke(append(1, 'b'), Level::Weak);
        one.invoke(read(1), Level::Weak);
        let text = |(_, response): &(RequestId, Response<String>)| match response {
            Response::Tentative(tentative) => tentative.response.clone(),
            other => panic!("{other:?}"),
        };
        one.replies.iter().map(text).collect::<Vec<_>>()
    };
    let multiversion = texts(Executor::Multiversion);
    assert_eq!(texts(Executor::Sequential), multiversion);
    assert_eq!(multiversion.last().map(String::len), Some(3));
}

#[test]
fn a_client_follows_an_operation_that_arrives_later() {
    let mut one = One::new(|config| config.jobs = 2);
    let id = OperationId { site: SiteId(1), run: 1, event: 3 };
    one.give(weak(1, 500, long_append(1, 'a')));
    one.end_job();
    let follow = one.command(Command::Follow { id, seen: None });
    // The first operation must be executed again after this one.
    one.give(weak(2, 400, append(1, 'b')));
    one.give(weak(3, 600, append(2, 'c')));
    assert!(!one.has_reply(follow));
    one.end_job();
    assert!(one.jobs.is_empty() && one.has_reply(follow));
}

#[test]
fn weak_operations_are_answered_beside_strong_ones_of_other_clients() {
    let mut one = One::new(|config| config.jobs = 4);
    one.invoke(long_append(1, 's'), Level::Strong);
    let weak = [append(2, 'w'), read(3)].map(|operation| one.invoke(operation, Level::Weak));
    for _ in 0..100 {
        one.invoke(long_append(1, 's'), Level::Strong);
        if !one.jobs.is_empty() {
            one.end_job();
        }
    }
    assert!(weak.iter().all(|request| one.has_reply(*request)));
    while !one.jobs.is_empty() {
        one.end_job();
    }
    // The strong operations that have waited get their places.
    assert_eq!(one.machine.status().tentative, 102);
}

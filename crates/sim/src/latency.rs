//! Latencies of clients' commands, in virtual time. Sites with several workers are as fast as sites
//! with one, apart from a question to the other workers, its answer, and a sync of a disk.

use solera_data::{Key, Op, Outcome, Value};
use solera_levels::Level;
use solera_machine::{Address, PartitionId, RequestId};
use solera_time::{SiteId, Vector};
use solera_unistore::{Command, Kind, Pasts, Response, Rule};

use crate::queue::MS;
use crate::scenario::Scenario;
use crate::trace::Trace;
use crate::world::{World, WorldEvent};

/// Interval of the reads that check whether another site shows a write.
const POLL: u64 = MS / 50;
/// Tolerance of comparisons, in nanoseconds: messages that leave at the same time arrive one
/// nanosecond after the other.
const GRAIN: u64 = 1000;
/// Upper bound of the time of an operation, even where a worker waits for another worker's idle
/// tick.
const LIMIT: u64 = 2000 * MS;
/// Number of measurements of each kind of operation, at different times since the last tick.
const ROUNDS: u64 = 7;

/// A quiet cluster and its only client.
struct Quiet {
    world: World,
    workers: u8,
    partitions: u16,
    requests: u64,
    replies: Vec<(RequestId, Response)>,
}

impl Quiet {
    fn new(workers: u8, durable: bool, without: Option<Rule>) -> Self {
        let scenario = Scenario::quiet(workers, durable).without(without);
        let partitions = scenario.topology.partitions;
        let world = World::new(&scenario, Trace::off());
        let mut quiet = Quiet { world, workers, partitions, requests: 0, replies: Vec::new() };
        quiet.pass(5000 * MS);
        quiet
    }

    fn pass(&mut self, time: u64) {
        let until = self.world.now + time;
        while let Some(events) = self.world.step(until) {
            self.take(events);
        }
    }

    fn take(&mut self, events: Vec<WorldEvent>) {
        for world_event in events {
            if let WorldEvent::Reply(_, request, response) = world_event {
                self.replies.push((request, response));
            }
        }
    }

    fn send(&mut self, to: Address, command: Command) -> RequestId {
        self.requests += 1;
        let request = RequestId(self.requests);
        self.world.command(to, request, command);
        let events = self.world.take_events();
        self.take(events);
        request
    }

    fn reply(&self, request: RequestId) -> Option<&Response> {
        self.replies.iter().find(|(of, _)| *of == request).map(|(_, response)| response)
    }

    /// Sends a command and waits for its reply. Returns it, and the time it took.
    fn ask(&mut self, to: Address, command: Command) -> (Response, u64) {
        self.replies.clear();
        let begin = self.world.now;
        let request = self.send(to, command);
        loop {
            if let Some(response) = self.reply(request) {
                return (response.clone(), self.world.now - begin);
            }
            assert!(self.world.now < begin + LIMIT, "no reply to {request:?}");
            let events = self.world.step(begin + LIMIT).unwrap_or_default();
            self.take(events);
        }
    }

    /// Returns the last worker of a site, which is not the root of its tree if there are several.
    fn last(&self, site: u8) -> Address {
        Address { site: SiteId(site), worker: self.workers - 1 }
    }

    /// Returns a new key of the last workers.
    fn key(&self, round: u64) -> Key {
        let last = u16::from(self.workers - 1);
        let of = |key: &String| {
            PartitionId::of(key.as_bytes(), self.partitions).0 % u16::from(self.workers)
        };
        let mut keys = (0..).map(|i| format!("k{round}.{i}"));
        Key::from(
            keys.find(|key| of(key) == last).expect("there are keys of each partition").as_str(),
        )
    }

    fn write(&mut self, site: u8, key: Key) -> Vector {
        let (past, op) = (Vector::zero(3), Op::Set(Value::from("v")));
        let command = Command::Execute { past, level: Level::Causal, key, op };
        match self.ask(self.last(site), command).0 {
            Response::Executed { pasts, .. } => pasts.causal,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the time from the answer to a write until another site shows it.
    fn visible(&mut self, round: u64) -> u64 {
        let key = self.key(round);
        self.write(0, key.clone());
        let begin = self.world.now;
        while self.world.now < begin + LIMIT {
            self.replies.clear();
            let past = Vector::zero(3);
            let (key, level, op) = (key.clone(), Level::Causal, Op::Get);
            self.send(self.last(1), Command::Execute { past, level, key, op });
            self.pass(POLL);
            let shown = |response: &Response| match response {
                Response::Executed { outcome, .. } => {
                    *outcome == Ok(Outcome::Bulk(Value::from("v")))
                }
                _ => false,
            };
            if self.replies.iter().any(|(_, response)| shown(response)) {
                return self.world.now - begin;
            }
        }
        panic!("never visible");
    }

    fn barrier(&mut self, round: u64) -> u64 {
        let past = self.write(0, self.key(round));
        let (response, took) =
            self.ask(self.last(0), Command::Barrier { pasts: Pasts::causal(past), timeout: None });
        assert_eq!(response, Response::Uniform);
        took
    }

    /// Writes one key, once per call.
    fn strong(&mut self, site: u8) -> u64 {
        let (past, key) = (Vector::zero(3), self.key(0));
        let (op, kind) = (Op::Set(Value::from("v")), Kind::UPDATE);
        let command = Command::ExecuteStrong { past, key, op, kind };
        let (response, took) = self.ask(self.last(site), command);
        assert!(matches!(response, Response::Executed { outcome: Ok(_), .. }), "{response:?}");
        took
    }

    /// Returns the medians of each kind of operation, shortly after other activity and after a long
    /// pause.
    fn medians(&mut self) -> Vec<(&'static str, u64)> {
        type Operation = fn(&mut Quiet, u64) -> u64;
        let kinds: [(&'static str, Operation); 4] = [
            ("visible", Quiet::visible),
            ("barrier", Quiet::barrier),
            ("strong", |quiet, _| quiet.strong(0)),
            ("strong elsewhere", |quiet, _| quiet.strong(1)),
        ];
        let mut medians = Vec::new();
        for (kind, operation) in kinds {
            for pause in [MS, 3000 * MS] {
                let mut took: Vec<u64> = (0..ROUNDS)
                    .map(|round| {
                        self.pass(pause + round * MS * 37 / 100);
                        operation(self, round + 100 * pause)
                    })
                    .collect();
                took.sort_unstable();
                medians.push((kind, took[took.len() / 2]));
            }
        }
        medians
    }
}

fn medians(workers: u8, durable: bool, without: Option<Rule>) -> Vec<(&'static str, u64)> {
    Quiet::new(workers, durable, without).medians()
}

#[test]
fn several_workers_are_as_fast_as_one() {
    let steady = Scenario::quiet(1, true).steady.expect("quiet runs are steady");
    for durable in [false, true] {
        let one = medians(1, durable, None);
        for workers in [2, 4] {
            let several = medians(workers, durable, None);
            // The site of the write and the site where the client waits for it each need a question
            // to the other workers and their answer.
            let disk = if durable { steady.sync } else { 0 };
            let more = 4 * steady.hop + disk + GRAIN;
            for ((kind, one), (_, several)) in one.iter().zip(&several) {
                assert!(
                    several <= &(one + more),
                    "{kind}: {several} ns with {workers} workers, {one} with one"
                );
            }
        }
    }
}

/// Without the question, clients wait for idle workers.
#[test]
fn several_workers_are_slow_unless_they_are_asked() {
    let (asked, not) = (medians(2, true, None), medians(2, true, Some(Rule::AskForProgress)));
    let slower = asked.iter().zip(&not).filter(|((_, asked), (_, not))| *not > asked + 20 * MS);
    assert!(slower.count() >= 4, "{asked:?} {not:?}");
}

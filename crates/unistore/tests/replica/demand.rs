//! A worker that waits for an idle worker's progress asks for it. Nothing here waits for a periodic
//! timer, because the first one would fire an hour later.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use solera_data::{Key, Op, Outcome, Value};
use solera_levels::Level;
use solera_machine::{Address, Machine, Now, PartitionId, RequestId, Topology};
use solera_time::{Monotonic, Origin, Physical, SiteId, Timestamp, Vector};
use solera_unistore::{
    Command, Config, Input, Kind, Message, Output, Pasts, Replica, Response, Rule,
};

const PARTITIONS: u16 = 4;
const HOUR: Duration = Duration::from_secs(3600);
/// Largest distance of a deadline that counts. Such deadlines were set by an event; later ones are
/// those of periodic timers.
const SOON_US: u64 = 100_000;

/// Three sites whose periodic ticks are an hour apart. Messages arrive at once.
struct Stage {
    replicas: BTreeMap<Address, Replica>,
    links: VecDeque<(Address, Address, Message)>,
    replies: BTreeMap<RequestId, Response>,
    now_us: u64,
    requests: u64,
    /// Link on which the next message is lost.
    loses: Option<(Address, Address)>,
}

fn at(site: u8, worker: u8) -> Address {
    Address { site: SiteId(site), worker }
}

impl Stage {
    fn new(workers: u8, journal: bool, without: Option<Rule>) -> Self {
        let topology = Arc::new(Topology { partitions: PARTITIONS, workers: vec![workers; 3] });
        let addresses = (0..3).flat_map(|site| (0..workers).map(move |worker| at(site, worker)));
        let replica = |address| {
            let mut config = Config::new(address, topology.clone());
            (config.timing.idle_tick, config.timing.quiet_tick) = (HOUR, HOUR);
            config.timing.promise_interval = HOUR;
            (config.journal, config.without) = (journal, without.into());
            (address, Replica::new(config, 1))
        };
        let mut stage = Stage {
            replicas: addresses.map(replica).collect(),
            links: VecDeque::new(),
            replies: BTreeMap::new(),
            now_us: 1_000_000,
            requests: 0,
            loses: None,
        };
        stage.settle();
        stage.now_us += 200_000;
        stage
    }

    fn now(&self) -> Now {
        Now {
            monotonic: Monotonic(self.now_us * 1000),
            physical: Physical(1_800_000_000_000_000 + self.now_us),
        }
    }

    fn drain(&mut self, address: Address) {
        let replica = self.replicas.get_mut(&address).unwrap();
        while let Some(output) = replica.poll_output() {
            match output {
                Output::Send { to, message } => self.links.push_back((address, to, message)),
                Output::Reply { request, response, .. } => {
                    self.replies.insert(request, response);
                }
                Output::Records(_) | Output::Trace(_) | Output::Ask { .. } => {}
            }
        }
    }

    /// Delivers all messages, and executes what is due soon because of an event, until nothing is
    /// left. Returns how long that took.
    fn settle(&mut self) -> u64 {
        let begin = self.now_us;
        loop {
            while let Some((from, to, message)) = self.links.pop_front() {
                if self.loses == Some((from, to)) && matches!(message, Message::Replicate(_)) {
                    self.loses = None;
                    continue;
                }
                let now = self.now();
                let input = Input::Message { from, generation: 0, message };
                self.replicas.get_mut(&to).unwrap().handle(now, input);
                self.drain(to);
            }
            let due = |replica: &Replica| replica.next_deadline().map(|at| at.0.div_ceil(1000));
            let next = self.replicas.iter().filter_map(|(address, of)| Some((due(of)?, *address)));
            let Some((at, address)) = next.min() else { return self.now_us - begin };
            if at > self.now_us + SOON_US || self.now_us > begin + SOON_US {
                return self.now_us - begin;
            }
            self.now_us = self.now_us.max(at);
            let now = self.now();
            self.replicas.get_mut(&address).unwrap().on_deadline(now);
            self.drain(address);
        }
    }

    fn ask(&mut self, address: Address, command: Command) -> RequestId {
        self.requests += 1;
        let request = RequestId(self.requests);
        let now = self.now();
        let input = Input::Client { request, command };
        self.replicas.get_mut(&address).unwrap().handle(now, input);
        self.drain(address);
        request
    }

    /// Executes an operation, and nothing else. If another worker owns the key, its messages are
    /// delivered in both directions.
    fn execute(&mut self, address: Address, past: Vector, key: &str, op: Op) -> (Outcome, Vector) {
        let (key, level) = (Key::from(key), Level::Causal);
        let request = self.ask(address, Command::Execute { past, level, key, op });
        match self.replies.get(&request) {
            Some(Response::Executed { outcome, pasts }) => (outcome.clone().unwrap(), pasts.causal),
            other => panic!("{other:?}"),
        }
    }
}

fn nothing() -> Vector {
    Vector::zero(3)
}

/// Returns a key of the last worker of each site.
fn key_of_last(workers: u8) -> (u8, String) {
    let of = |key: &String| PartitionId::of(key.as_bytes(), PARTITIONS).0 % u16::from(workers);
    let mut keys = (0..).map(|i| format!("key{i}"));
    let last = u16::from(workers - 1);
    (workers - 1, keys.find(|key| of(key) == last).unwrap())
}

/// Runs `check` for each number of workers, in memory and with a journal.
fn each(check: impl Fn(u8, bool)) {
    for workers in [1, 2, 4] {
        for journal in [false, true] {
            check(workers, journal);
        }
    }
}

/// Returns the rules to disable, and whether the test succeeds without them. With several workers,
/// it needs the request for progress.
fn without(workers: u8) -> Vec<(Option<Rule>, bool)> {
    vec![(None, true), (Some(Rule::AskForProgress), workers == 1)]
}

#[test]
fn a_write_becomes_visible_elsewhere_though_the_other_workers_are_idle() {
    each(|workers, journal| {
        for (without, seen) in without(workers) {
            let mut stage = Stage::new(workers, journal, without);
            let (last, key) = key_of_last(workers);
            stage.execute(at(0, last), nothing(), &key, Op::Set(Value::from("v")));
            stage.settle();
            for site in [1, 2] {
                let (outcome, _) = stage.execute(at(site, last), nothing(), &key, Op::Get);
                let visible = outcome == Outcome::Bulk(Value::from("v"));
                assert_eq!(visible, seen, "{workers} workers, journal {journal}, {without:?}");
            }
        }
    });
}

#[test]
fn a_barrier_is_passed_though_the_other_workers_are_idle() {
    each(|workers, journal| {
        for (without, passed) in without(workers) {
            let mut stage = Stage::new(workers, journal, without);
            let (last, key) = key_of_last(workers);
            let op = Op::Set(Value::from("v"));
            let (_, past) = stage.execute(at(0, last), nothing(), &key, op);
            let barrier = stage
                .ask(at(0, last), Command::Barrier { pasts: Pasts::causal(past), timeout: None });
            stage.settle();
            assert_eq!(
                stage.replies.get(&barrier) == Some(&Response::Uniform),
                passed,
                "{workers} workers, journal {journal}, {without:?}"
            );
        }
    });
}

#[test]
fn a_client_attaches_to_a_time_that_idle_workers_have_not_reported() {
    each(|workers, journal| {
        for (without, passed) in without(workers) {
            let mut stage = Stage::new(workers, journal, without);
            let last = at(0, workers - 1);
            // All sites have passed this time, and none has reported it.
            let ts = Timestamp::from_physical(stage.now().physical);
            stage.now_us += 10_000;
            let past = nothing().with(SiteId(1), ts).with(SiteId(2), ts);
            let attach =
                stage.ask(last, Command::Attach { pasts: Pasts::causal(past), timeout: None });
            stage.settle();
            let attached = stage.replies.get(&attach) == Some(&Response::Attached);
            let passed = passed && without.is_none();
            assert_eq!(attached, passed, "{workers} workers, journal {journal}, {without:?}");
        }
    });
}

#[test]
fn a_strong_write_commits_again_and_again_though_the_other_workers_are_idle() {
    each(|workers, journal| {
        for (without, commits) in without(workers) {
            for site in [0, 1] {
                let mut stage = Stage::new(workers, journal, without);
                let (last, key) = key_of_last(workers);
                let (mut past, mut done) = (nothing(), 0);
                for value in ["a", "b", "c"] {
                    let (key, op) = (Key::from(key.as_str()), Op::Set(Value::from(value)));
                    let kind = Kind::UPDATE;
                    let command = Command::ExecuteStrong { past, key, op, kind };
                    let write = stage.ask(at(site, last), command);
                    stage.settle();
                    if let Some(Response::Executed { pasts: after, outcome: Ok(_) }) =
                        stage.replies.get(&write)
                    {
                        (past, done) = (after.causal, done + 1);
                    }
                }
                let all = done == 3;
                assert_eq!(
                    all, commits,
                    "{done} at {site}, {workers} workers, journal {journal}, {without:?}"
                );
            }
        }
    });
}

/// The leader of another key is idle, and so it does not report later times.
#[test]
fn a_read_does_not_wait_for_the_leader_of_an_idle_key() {
    each(|workers, journal| {
        let mut stage = Stage::new(workers, journal, None);
        let (last, key) = key_of_last(workers);
        let (past, op, kind) = (nothing(), Op::Set(Value::from("v")), Kind::UPDATE);
        let key_of_write = Key::from(key.as_str());
        let command = Command::ExecuteStrong { past, key: key_of_write, op, kind };
        let write = stage.ask(at(1, last), command);
        stage.settle();
        let Some(Response::Executed { pasts, .. }) = stage.replies.get(&write) else { panic!() };
        let past = pasts.causal;
        for partition in 0..PARTITIONS {
            let of = |key: &String| PartitionId::of(key.as_bytes(), PARTITIONS).0 == partition;
            let other = (0..).map(|i| format!("other{i}")).find(of).unwrap();
            let (key, level, op) = (Key::from(other.as_str()), Level::Causal, Op::Get);
            let read = stage.ask(at(2, 0), Command::Execute { past, level, key, op });
            stage.settle();
            assert!(
                stage.replies.contains_key(&read),
                "{workers} workers, journal {journal}, {partition}"
            );
        }
    });
}

#[test]
fn lost_progress_is_requested_from_its_site() {
    for journal in [false, true] {
        let mut stage = Stage::new(2, journal, None);
        let (last, key) = key_of_last(2);
        // The message of the idle worker to its sibling at site 1.
        stage.loses = Some((at(0, 0), at(1, 0)));
        stage.execute(at(0, last), nothing(), &key, Op::Set(Value::from("v")));
        stage.settle();
        assert_eq!(stage.loses, None);
        let (outcome, _) = stage.execute(at(1, last), nothing(), &key, Op::Get);
        assert_eq!(outcome, Outcome::Bulk(Value::from("v")), "journal {journal}");
    }
}

/// An idle cluster only sends heartbeats.
#[test]
fn an_idle_cluster_goes_quiet_and_a_write_is_sent_at_once() {
    let topology = Arc::new(Topology { partitions: PARTITIONS, workers: vec![1; 3] });
    let mut replica = Replica::new(Config::new(at(0, 0), topology), 1);
    let now = |ms: u64| Now {
        monotonic: Monotonic(ms * 1_000_000),
        physical: Physical(1_800_000_000_000_000 + ms * 1000),
    };
    let mut ms = 0;
    let mut ticks = |replica: &mut Replica, upto: u64| {
        let mut ticks = 0;
        while ms < upto {
            ms += 1;
            if replica.next_deadline().is_some_and(|at| at <= now(ms).monotonic) {
                replica.on_deadline(now(ms));
                ticks += 1;
            }
            while replica.poll_output().is_some() {}
        }
        ticks
    };
    let hear = |replica: &mut Replica, ms: u64| {
        for site in [1, 2] {
            let message = Message::Replicate(Vec::new());
            replica.handle(now(ms), Input::Message { from: at(site, 0), generation: 0, message });
        }
    };
    for second in 1..=5 {
        let in_this_one = ticks(&mut replica, second * 1000);
        assert!(second < 4 || in_this_one <= 10, "{in_this_one} in second {second}");
        hear(&mut replica, second * 1000);
    }
    let (mut pasts, op) = (Pasts::none(3), Op::IncrBy(1));
    replica.execute_at_once(now(5000), &mut pasts, Level::Causal, b"k", &op).unwrap().unwrap();
    let deadline = replica.next_deadline().unwrap();
    assert_eq!(deadline.since(now(5000).monotonic), Duration::from_millis(1));
    // Its siblings do not answer, so it keeps ticking for a while.
    assert!(ticks(&mut replica, 6000) > 100);
}

/// A token may contain any time, and is not signed, so other workers are not asked for future
/// times.
#[test]
fn a_past_from_the_future_is_asked_for_up_to_a_second_ahead() {
    let mut config =
        Config::new(at(0, 0), Topology { partitions: PARTITIONS, workers: vec![2; 3] }.into());
    config.f = 1;
    let mut replica = Replica::new(config, 1);
    let now = |ms: u64| Now {
        monotonic: Monotonic(ms * 1_000_000),
        physical: Physical(1_800_000_000_000_000 + ms * 1000),
    };
    let past = nothing()
        .with(SiteId(1), Timestamp(u64::MAX / 2))
        .with(Origin::Strong, Timestamp(u64::MAX / 2));
    let command = Command::Attach { pasts: Pasts::causal(past), timeout: None };
    replica.handle(now(0), Input::Client { request: RequestId(1), command });
    let mut asked = 0;
    for ms in 0..20 {
        replica.on_deadline(now(ms));
        while let Some(output) = replica.poll_output() {
            if let Output::Send { message: Message::Wanted { upto, .. }, .. } = output {
                asked += 1;
                let latest =
                    Timestamp::from_physical(now(ms).physical).later(Duration::from_secs(1));
                for origin in [Origin::Site(SiteId(1)), Origin::Strong] {
                    assert!(upto[origin] <= latest.later(Duration::from_millis(1)), "{upto:?}");
                }
            }
        }
    }
    assert!(asked > 0);
}

//! Deliveries of a site's own strong transactions before those of their leader arrive, in virtual
//! time.

use std::collections::BTreeMap;
use std::sync::Arc;

use solera_data::{Key, Op, Outcome, Value};
use solera_levels::Level;
use solera_machine::{Address, Machine, Now, RequestId, Topology};
use solera_time::{Monotonic, Origin, Physical, SiteId, Vector};
use solera_unistore::{
    Command, Config, Input, Kind, LogRange, Message, Output, Record, Recovery, Replica, Response,
};

/// One-way delays in milliseconds, from the paper: Virginia (the leader), California, Frankfurt.
const ONE_WAY: [[u64; 3]; 3] = [[0, 30, 44], [30, 0, 73], [44, 73, 0]];
/// Upper bound of the ticks of idle workers that a test waits for.
const TICKS: u64 = 20;
const KEY: &str = "counter";

struct World {
    configs: BTreeMap<Address, Config>,
    replicas: BTreeMap<Address, Replica>,
    /// Journal of each worker.
    records: BTreeMap<Address, Vec<Record>>,
    /// Messages in transit, by arrival.
    messages: BTreeMap<(u64, u64), (Address, Address, Message)>,
    replies: BTreeMap<RequestId, Response>,
    sequence: u64,
    now_ms: u64,
    /// Workers that receive no history from others.
    deaf: Vec<Address>,
}

fn at(site: u8, worker: u8) -> Address {
    Address { site: SiteId(site), worker }
}

impl World {
    fn new(workers: u8, journal: bool) -> World {
        let topology = Arc::new(Topology { partitions: 2, workers: vec![workers; 3] });
        let all = (0..3).flat_map(|site| (0..workers).map(move |worker| at(site, worker)));
        let configs: BTreeMap<_, _> = all
            .map(|address| {
                let mut config = Config::new(address, topology.clone());
                config.journal = journal;
                (address, config)
            })
            .collect();
        let replica = |config: &Config| Replica::new(config.clone(), 1);
        let mut world = World {
            replicas: configs.iter().map(|(address, config)| (*address, replica(config))).collect(),
            configs,
            records: BTreeMap::new(),
            messages: BTreeMap::new(),
            replies: BTreeMap::new(),
            sequence: 0,
            now_ms: 1000,
            deaf: Vec::new(),
        };
        world.pass(1000);
        world
    }

    fn now(&self) -> Now {
        Now {
            monotonic: Monotonic(self.now_ms * 1_000_000),
            physical: Physical(1_800_000_000_000_000 + self.now_ms * 1000),
        }
    }

    fn drain(&mut self, address: Address) {
        let replica = self.replicas.get_mut(&address).unwrap();
        while let Some(output) = replica.poll_output() {
            match output {
                Output::Send { to, message } => {
                    let delay = ONE_WAY[address.site.index()][to.site.index()];
                    self.sequence += 1;
                    let arrival = (self.now_ms + delay, self.sequence);
                    self.messages.insert(arrival, (address, to, message));
                }
                Output::Reply { request, response, .. } => {
                    self.replies.insert(request, response);
                }
                Output::Records(records) => {
                    let records = records.iter().map(|bytes| Record::decode(bytes).unwrap());
                    self.records.entry(address).or_default().extend(records);
                }
                Output::Trace(_) | Output::Ask { .. } => {}
            }
        }
    }

    fn pass(&mut self, millis: u64) {
        for _ in 0..millis {
            self.now_ms += 1;
            for address in self.replicas.keys().copied().collect::<Vec<_>>() {
                let now = self.now();
                self.replicas.get_mut(&address).unwrap().on_deadline(now);
                self.drain(address);
            }
            self.deliver();
        }
    }

    /// Delivers the messages that are due by now.
    fn deliver(&mut self) {
        while let Some((&arrival, _)) = self.messages.first_key_value()
            && arrival.0 <= self.now_ms
        {
            let (from, to, message) = self.messages.remove(&arrival).unwrap();
            if self.deaf.contains(&to) && matches!(message, Message::Replicate(_)) {
                continue;
            }
            let now = self.now();
            let replica = self.replicas.get_mut(&to).unwrap();
            replica.handle(now, Input::Message { from, generation: 0, message });
            self.drain(to);
        }
    }

    fn ask(&mut self, address: Address, command: Command) -> RequestId {
        let request = RequestId(self.replies.len() as u64);
        let now = self.now();
        let input = Input::Client { request, command };
        self.replicas.get_mut(&address).unwrap().handle(now, input);
        self.drain(address);
        self.deliver();
        request
    }

    /// Adds one in a strong transaction and waits for the answer. Returns the outcome with its
    /// past, and the time that it took.
    fn increment(&mut self, address: Address, past: Vector) -> (Outcome, Vector, u64) {
        let (key, op, kind) = (Key::from(KEY), Op::IncrBy(1), Kind::UPDATE);
        let began = self.now_ms;
        let request = self.ask(address, Command::ExecuteStrong { past, key, op, kind });
        while !self.replies.contains_key(&request) {
            assert!(self.now_ms < began + 1000, "no answer");
            self.pass(1);
        }
        match self.replies[&request].clone() {
            Response::Executed { outcome, pasts } => {
                (outcome.unwrap(), pasts.causal, self.now_ms - began)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Returns the counter as a client of a worker reads it.
    fn read(&mut self, address: Address, past: Vector) -> Option<String> {
        let (key, level) = (Key::from(KEY), Level::Causal);
        let request = self.ask(address, Command::Execute { past, level, key, op: Op::Get });
        match self.replies.get(&request)? {
            Response::Executed { outcome: Ok(Outcome::Bulk(value)), .. } => Some(text(value)),
            other => panic!("{other:?}"),
        }
    }

    /// Restarts a worker from its journal.
    fn restart(&mut self, address: Address) {
        let mut recovery = Recovery::new(self.configs[&address].clone(), 1);
        for (number, record) in self.records[&address].iter().enumerate() {
            recovery.replay(number as u64 + 1, record.clone()).unwrap();
        }
        self.replicas.insert(address, recovery.finish());
        self.drain(address);
    }

    /// Returns the worker of the site that owns the counter.
    fn owner(&self, site: u8) -> Address {
        self.replicas[&at(site, 0)].owner_of(KEY.as_bytes())
    }
}

fn text(value: &Value) -> String {
    String::from_utf8(value.as_bytes().to_vec()).unwrap()
}

fn none() -> Vector {
    Vector::zero(3)
}

#[test]
fn a_session_that_goes_on_with_a_key_waits_one_round_trip_each_time() {
    for workers in [1, 2] {
        for (site, round_trip) in [(0, 60), (1, 60), (2, 88)] {
            for worker in 0..workers {
                let mut world = World::new(workers, false);
                let mut past = none();
                for n in 1..=5 {
                    let (outcome, next, took) = world.increment(at(site, worker), past);
                    assert_eq!(outcome, Outcome::Int(n));
                    let least = round_trip + TICKS;
                    assert!(took <= least, "number {n} at {site}.{worker} took {took} ms");
                    past = next;
                }
            }
        }
    }
}

#[test]
fn a_later_delivery_from_the_leader_counts_once() {
    for workers in [1, 2] {
        let mut world = World::new(workers, false);
        let mut past = none();
        for _ in 0..3 {
            (_, past, _) = world.increment(at(2, 0), past);
        }
        let owner = world.owner(2);
        assert_eq!(world.read(owner, past), Some("3".into()), "it is here already");
        let comes = |(from, to, message): &&(Address, Address, Message)| {
            let brings =
                |range: &LogRange| range.origin == Origin::Strong && !range.updates.is_empty();
            (from.site, *to) == (SiteId(0), owner)
                && matches!(message, Message::Replicate(all) if all.iter().any(brings))
        };
        // The decision is on its way to the leader, which then sends the update.
        world.pass(ONE_WAY[2][0] + TICKS);
        assert!(world.messages.values().any(|message| comes(&message)), "it is not sent again");
        world.pass(1000);
        for site in 0..3 {
            let owner = world.owner(site);
            assert_eq!(world.read(owner, past), Some("3".into()), "at site {site}");
        }
    }
}

#[test]
fn an_early_delivery_survives_a_restart_once() {
    for delivered_before in [false, true] {
        let mut world = World::new(1, true);
        let (_, past, _) = world.increment(at(2, 0), none());
        if delivered_before {
            world.pass(200);
        }
        world.restart(at(2, 0));
        // The worker must answer without help from others.
        world.deaf.push(at(2, 0));
        assert_eq!(world.read(at(2, 0), past), Some("1".into()));
        world.pass(200);
        world.deaf.clear();
        world.pass(1000);
        let (outcome, past, _) = world.increment(at(2, 0), past);
        assert_eq!(outcome, Outcome::Int(2));
        world.pass(1000);
        for site in 0..3 {
            assert_eq!(world.read(at(site, 0), past), Some("2".into()), "at site {site}");
        }
    }
}

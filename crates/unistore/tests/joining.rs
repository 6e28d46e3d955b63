//! A site leaves and joins again, with every message under the test's control.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use solera_data::{Op, Outcome, Value};
use solera_levels::Level;
use solera_machine::{Machine, Now};
use solera_time::{Monotonic, Physical, SiteId, Vector};
use solera_unistore::{
    Address, Change, Command, CommandError, Config, Input, MemberError, Message, Output, Replica,
    RequestId, Response, Standing, Topology,
};

const A: SiteId = SiteId(0);
const B: SiteId = SiteId(1);

/// One worker at each of two sites; what they send waits to be delivered.
struct Stage {
    replicas: BTreeMap<SiteId, (Replica, u32)>,
    links: VecDeque<(SiteId, u32, SiteId, Message)>,
    now_ms: u64,
}

impl Stage {
    fn new() -> Stage {
        let mut stage = Stage { replicas: BTreeMap::new(), links: VecDeque::new(), now_ms: 1000 };
        stage.start(A, 0);
        stage.start(B, 0);
        stage
    }

    fn start(&mut self, site: SiteId, life: u32) {
        let topology = Arc::new(Topology { partitions: 1, workers: vec![1, 1] });
        let mut config = Config::new(Address { site, worker: 0 }, topology);
        config.life = life;
        self.replicas.insert(site, (Replica::new(config, 1), life));
    }

    fn now(&self) -> Now {
        Now {
            monotonic: Monotonic(self.now_ms * 1_000_000),
            physical: Physical(1_800_000_000_000_000 + self.now_ms * 1000),
        }
    }

    fn replica(&mut self, site: SiteId) -> &mut Replica {
        &mut self.replicas.get_mut(&site).unwrap().0
    }

    /// Lets time pass; what is due is said, and not delivered yet.
    fn tick(&mut self) {
        self.now_ms += 25;
        let now = self.now();
        for (replica, _) in self.replicas.values_mut() {
            replica.on_deadline(now);
        }
        self.collect();
    }

    fn collect(&mut self) {
        for (site, (replica, life)) in &mut self.replicas {
            while let Some(output) = replica.poll_output() {
                if let Output::Send { to, message } = output {
                    self.links.push_back((*site, *life, to.site, message));
                }
            }
        }
    }

    fn deliver(&mut self) {
        while let Some((from, life, to, message)) = self.links.pop_front() {
            let (now, from) = (self.now(), Address { site: from, worker: 0 });
            if let Some((replica, _)) = self.replicas.get_mut(&to) {
                replica.handle(now, Input::Message { from, life, message });
            }
            self.collect();
        }
    }

    fn run(&mut self, rounds: usize) {
        for _ in 0..rounds {
            self.tick();
            self.deliver();
        }
    }

    fn execute(&mut self, site: SiteId, key: &str, op: &Op) -> Outcome {
        let (now, mut past) = (self.now(), Vector::zero(2));
        let level = Level::Causal;
        let answer =
            self.replica(site).execute(now, RequestId(0), &mut past, level, key.as_bytes(), op);
        self.collect();
        answer.expect("nothing blocks it").expect("the types fit")
    }

    fn change(&mut self, site: SiteId, change: Change) -> Result<(), MemberError> {
        let now = self.now();
        let changed = self.replica(A).change_members(now, site, change);
        self.collect();
        changed
    }

    fn standing(&mut self, site: SiteId) -> Standing {
        self.replica(A).status().members().standing(site)
    }

    /// Site B is lost and removed, and may join again.
    fn replace_b(&mut self) {
        self.replicas.remove(&B);
        self.change(B, Change::Remove).unwrap();
        self.run(10);
        assert_eq!(self.standing(B), Standing::Gone);
        self.change(B, Change::Add).unwrap();
        self.start(B, 1);
    }
}

#[test]
fn what_the_donor_has_just_written_is_counted_once() {
    let mut stage = Stage::new();
    stage.run(10);
    stage.replace_b();
    let mut sum = 0;
    while !stage.replica(B).status().view().serving {
        stage.tick();
        // After the donor told up to where it knows its own history, and before it is asked.
        stage.execute(A, "n", &Op::IncrBy(1));
        sum += 1;
        stage.deliver();
        assert!(sum < 1000, "{:?}", stage.replica(B).status().progress());
    }
    stage.run(20);
    let all = Outcome::Bulk(Value::from(sum.to_string().as_str()));
    assert_eq!(stage.execute(B, "n", &Op::Get), all);
    assert_eq!(stage.execute(A, "n", &Op::Get), all);
}

#[test]
fn a_site_that_joined_has_what_it_had_told_and_no_more() {
    let mut stage = Stage::new();
    stage.execute(B, "told", &Op::Set(Value::from("yes")));
    stage.run(10);
    stage.execute(B, "kept to itself", &Op::Set(Value::from("no")));
    stage.execute(A, "meanwhile", &Op::SetAdd(vec![Value::from("x")]));
    stage.replace_b();
    stage.run(60);
    assert_eq!(stage.standing(B), Standing::Member);
    for site in [A, B] {
        assert_eq!(stage.execute(site, "told", &Op::Get), Outcome::Bulk(Value::from("yes")));
        assert_eq!(stage.execute(site, "kept to itself", &Op::Get), Outcome::Nil);
        assert_eq!(stage.execute(site, "meanwhile", &Op::SetLen), Outcome::Int(1));
    }
    // Its new life takes part.
    stage.execute(B, "told", &Op::Set(Value::from("again")));
    stage.run(20);
    assert_eq!(stage.execute(A, "told", &Op::Get), Outcome::Bulk(Value::from("again")));
    let unsettled = stage.replica(A).status().unsettled_updates();
    assert_eq!(unsettled, 0, "something is kept for nobody");
}

#[test]
fn nothing_is_promised_that_too_few_sites_could_keep() {
    let topology = Arc::new(Topology { partitions: 1, workers: vec![1, 1] });
    let mut config = Config::new(Address { site: A, worker: 0 }, topology);
    config.f = 1;
    let mut replica = Replica::new(config, 1);
    let now = Now { monotonic: Monotonic(1), physical: Physical(1_000_000) };
    assert_eq!(replica.status().has_enough_sites(), Ok(()));
    replica.change_members(now, B, Change::Remove).unwrap();
    let command = Command::Barrier { past: Vector::zero(2), timeout: None };
    replica.handle(now, Input::Client { request: RequestId(1), command });
    let replies = std::iter::from_fn(|| replica.poll_output()).filter_map(|output| match output {
        Output::Reply { response, .. } => Some(response),
        _ => None,
    });
    let too_few = CommandError::TooFewSites { others: 0, f: 1 };
    assert_eq!(replies.collect::<Vec<_>>(), [Response::Failed(too_few)]);
}

#[test]
fn a_former_life_is_not_listened_to() {
    let mut stage = Stage::new();
    stage.run(10);
    let former = stage.replicas.remove(&B).unwrap();
    stage.change(B, Change::Remove).unwrap();
    stage.run(10);
    stage.replicas.insert(B, former);
    stage.execute(B, "late", &Op::Set(Value::from("x")));
    stage.run(20);
    assert_eq!(stage.execute(A, "late", &Op::Get), Outcome::Nil);
    assert_eq!(stage.change(B, Change::Remove), Err(MemberError::Already(2)));
}

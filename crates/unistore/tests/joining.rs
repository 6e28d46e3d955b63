//! A site leaves and joins again, with every message under the test's control.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use solera_data::{Op, Outcome, Value};
use solera_levels::Level;
use solera_machine::{Machine, Now};
use solera_time::{Monotonic, Physical, SiteId, Vector};
use solera_unistore::{
    Address, Change, Config, Input, MemberError, Message, Output, Replica, RequestId, Standing,
    Topology,
};

const A: SiteId = SiteId(0);
const B: SiteId = SiteId(1);
const C: SiteId = SiteId(2);

/// One worker at each of some sites; what they send waits to be delivered.
struct Stage {
    sites: usize,
    replicas: BTreeMap<SiteId, (Replica, u32)>,
    links: VecDeque<(SiteId, u32, SiteId, Message)>,
    now_ms: u64,
}

impl Stage {
    fn new(sites: usize) -> Stage {
        let (replicas, links) = (BTreeMap::new(), VecDeque::new());
        let mut stage = Stage { sites, replicas, links, now_ms: 1000 };
        for site in SiteId::all(sites) {
            stage.start(site, 0);
        }
        stage
    }

    fn start(&mut self, site: SiteId, life: u32) {
        let topology = Arc::new(Topology { partitions: 1, workers: vec![1; self.sites] });
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

    /// Lets time pass once. What one site tells another arrives, the rest is still under way.
    fn tell(&mut self, from: SiteId, to: SiteId) {
        self.tick();
        let (arrives, rest) = std::mem::take(&mut self.links)
            .into_iter()
            .partition(|(sender, _, receiver, _)| (*sender, *receiver) == (from, to));
        self.links = arrives;
        self.deliver();
        self.links.extend::<VecDeque<_>>(rest);
    }

    fn run(&mut self, rounds: usize) {
        for _ in 0..rounds {
            self.tick();
            self.deliver();
        }
    }

    fn execute(&mut self, site: SiteId, key: &str, op: &Op) -> Outcome {
        self.execute_at(Level::Causal, site, key, op)
    }

    fn execute_at(&mut self, level: Level, site: SiteId, key: &str, op: &Op) -> Outcome {
        let (now, mut past) = (self.now(), Vector::zero(self.sites));
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

    /// A site is lost and removed.
    fn lose(&mut self, site: SiteId) {
        self.replicas.remove(&site);
        self.change(site, Change::Remove).unwrap();
    }

    /// A site that is gone may join again.
    fn add(&mut self, site: SiteId, life: u32) {
        assert_eq!(self.standing(site), Standing::Gone);
        self.change(site, Change::Add).unwrap();
        self.start(site, life);
    }

    /// Site B is lost and removed, and may join again.
    fn replace_b(&mut self) {
        self.lose(B);
        self.run(10);
        self.add(B, 1);
    }
}

#[test]
fn what_the_donor_has_just_written_is_counted_once() {
    let mut stage = Stage::new(2);
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
    let mut stage = Stage::new(2);
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
fn a_former_life_is_not_listened_to() {
    let mut stage = Stage::new(2);
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

/// B wrote to an eventual space after it had seen a write of C there that nobody else got. Nothing else is
/// missing once both are gone.
#[test]
fn what_depends_on_what_is_gone_with_another_site_is_kept_and_settles() {
    let mut stage = Stage::new(3);
    stage.run(10);
    let (eventual, increment) = (Level::Eventual, |by| Op::IncrBy(by));
    stage.execute_at(eventual, C, "n", &increment(1));
    stage.tell(C, B);
    assert_eq!(stage.execute_at(eventual, B, "n", &increment(10)), Outcome::Int(11));
    stage.tell(B, A);
    for site in [B, C] {
        stage.lose(site);
    }
    stage.run(40);
    let ten = Outcome::Bulk(Value::from("10"));
    assert_eq!(stage.execute_at(eventual, A, "n", &Op::Get), ten);
    assert_eq!(stage.replica(A).status().unsettled_updates(), 0, "something is kept for nobody");
    for site in [B, C] {
        stage.add(site, 1);
        stage.run(60);
        assert_eq!(stage.standing(site), Standing::Member);
    }
    stage.execute_at(eventual, C, "n", &Op::Set(Value::from("new")));
    stage.run(20);
    for site in [A, B, C] {
        let new = Outcome::Bulk(Value::from("new"));
        assert_eq!(stage.execute_at(eventual, site, "n", &Op::Get), new, "at {site:?}");
        assert_eq!(stage.replica(site).status().unsettled_updates(), 0, "at {site:?}");
    }
}

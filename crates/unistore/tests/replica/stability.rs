//! Causal stability does not overtake strong transactions that other sites complete late.
//!
//! A removal of a counter is certified, on a snapshot without a later increment. Its coordinator
//! stops, and for a long time nothing can be decided. If the increment settled meanwhile, it would
//! be merged with the updates that the removal has observed, and be removed with them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use solera_certification::{Body, Rule as Certification};
use solera_data::{Key, Op, Outcome, Value};
use solera_levels::Level;
use solera_machine::{Address, Machine, Now, RequestId, Topology};
use solera_membership::{Change, SiteStatus};
use solera_time::{Monotonic, Physical, SiteId, Vector};
use solera_unistore::{
    Command, Config, Input, Kind, Message, Output, Record, Recovery, Replica, Response, Rule, TxId,
};

const A: SiteId = SiteId(0);
const B: SiteId = SiteId(1);
/// The coordinator's site.
const C: SiteId = SiteId(2);

/// One worker at each of three sites.
struct Stage {
    replicas: BTreeMap<SiteId, (Replica, u32)>,
    journals: BTreeMap<SiteId, Vec<Record>>,
    links: VecDeque<(SiteId, u32, SiteId, Message)>,
    replies: BTreeMap<RequestId, Response>,
    now_ms: u64,
    requests: u64,
    /// Whether acknowledgements of votes are lost, so that nothing is decided.
    undecidable: bool,
    /// Messages in transit from C to A, which stay there if that link is slow.
    slow: Option<Vec<(SiteId, u32, SiteId, Message)>>,
    /// Rule that is disabled.
    without: Option<Rule>,
}

fn config(site: SiteId, generation: u32) -> Config {
    let topology = Arc::new(Topology { partitions: 1, workers: vec![1; 3] });
    let mut config = Config::new(Address { site, worker: 0 }, topology);
    (config.generation, config.journal) = (generation, true);
    config
}

impl Stage {
    fn new() -> Stage {
        Stage::without(None)
    }

    fn without(rule: Option<Rule>) -> Stage {
        let mut stage = Stage {
            replicas: BTreeMap::new(),
            journals: BTreeMap::new(),
            links: VecDeque::new(),
            replies: BTreeMap::new(),
            now_ms: 1000,
            requests: 0,
            undecidable: false,
            slow: None,
            without: rule,
        };
        for site in [A, B, C] {
            stage.start(site, 0);
        }
        stage
    }

    /// Starts a site from its journal.
    fn start(&mut self, site: SiteId, generation: u32) {
        let config = Config { without: self.without.into(), ..config(site, generation) };
        let mut recovery = Recovery::new(config, 1);
        for (lsn, record) in self.journals.entry(site).or_default().iter().enumerate() {
            recovery.replay(lsn as u64 + 1, record.clone()).unwrap();
        }
        self.replicas.insert(site, (recovery.finish(), generation));
        self.collect();
    }

    fn stop(&mut self, site: SiteId) {
        self.replicas.remove(&site);
        self.links.retain(|(from, _, to, _)| *from != site && *to != site);
    }

    fn now(&self) -> Now {
        Now {
            monotonic: Monotonic(self.now_ms * 1_000_000),
            physical: Physical(1_800_000_000_000_000 + self.now_ms * 1000),
        }
    }

    fn collect(&mut self) {
        for (site, (replica, generation)) in &mut self.replicas {
            while let Some(output) = replica.poll_output() {
                match output {
                    Output::Send { to, message } => {
                        self.links.push_back((*site, *generation, to.site, message));
                    }
                    Output::Records(records) => {
                        let records = records.iter().map(|bytes| Record::decode(bytes).unwrap());
                        self.journals.entry(*site).or_default().extend(records);
                    }
                    Output::Reply { request, response, .. } => {
                        self.replies.insert(request, response);
                    }
                    Output::Trace(_) | Output::Ask { .. } => {}
                }
            }
        }
    }

    fn is_lost(&self, message: &Message) -> bool {
        let Message::Certification(message) = message else { return false };
        self.undecidable && matches!(message.body, Body::Accepted { .. })
    }

    fn run(&mut self, ms: u64) {
        for _ in 0..ms / 20 {
            self.now_ms += 20;
            let now = self.now();
            for (replica, _) in self.replicas.values_mut() {
                replica.on_deadline(now);
            }
            self.collect();
            while let Some((from, generation, to, message)) = self.links.pop_front() {
                if self.is_lost(&message) {
                    continue;
                }
                if let Some(slow) = self.slow.as_mut().filter(|_| (from, to) == (C, A)) {
                    slow.push((from, generation, to, message));
                    continue;
                }
                let from = Address { site: from, worker: 0 };
                if let Some((replica, _)) = self.replicas.get_mut(&to) {
                    replica.handle(now, Input::Message { from, generation, message });
                }
                self.collect();
            }
        }
    }

    fn ask(&mut self, site: SiteId, command: Command) -> RequestId {
        self.requests += 1;
        let request = RequestId(self.requests);
        let now = self.now();
        let (replica, _) = self.replicas.get_mut(&site).unwrap();
        replica.handle(now, Input::Client { request, command });
        self.collect();
        request
    }

    fn execute(&mut self, site: SiteId, op: Op) -> Outcome {
        let (past, key) = (Vector::zero(3), Key::from("n"));
        let request = self.ask(site, Command::Execute { past, level: Level::Causal, key, op });
        match &self.replies[&request] {
            Response::Executed { outcome, .. } => outcome.clone().unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// Lets a removal at C that has not observed the last increment be voted on, but not decided.
    fn remove_undecided(&mut self) {
        self.undecidable = true;
        self.remove();
    }

    /// Submits a removal at C that has not observed the last increment.
    fn remove(&mut self) {
        self.run(200);
        self.execute(A, Op::IncrBy(10));
        self.run(500);
        let begun = self.ask(C, Command::Begin { past: Vector::zero(3), strong: true });
        let Response::Begun(tx) = self.replies[&begun] else { panic!("it does not begin") };
        self.operate(tx, Op::Delete);
        self.execute(B, Op::IncrBy(1));
        self.run(100);
        self.ask(C, Command::Commit { tx, claim: None });
        self.run(200);
    }

    fn operate(&mut self, tx: TxId, op: Op) {
        let (key, level) = (Key::from("n"), Level::Linearizable);
        self.ask(C, Command::Operate { tx, level, key, op, kind: Kind::UPDATE });
    }

    /// Lets the removal be decided; it has removed the updates that it had observed. Then no state
    /// is left.
    fn decide(&mut self) {
        self.undecidable = false;
        self.run(12_000);
        self.shows("1");
    }

    /// Checks that all sites show this sum, and have nothing left to settle.
    fn shows(&mut self, sum: &str) {
        for site in self.replicas.keys().copied().collect::<Vec<_>>() {
            let value = self.execute(site, Op::Get);
            assert_eq!(value, Outcome::Bulk(Value::from(sum)), "at {site}");
        }
        self.run(1000);
        for (site, (replica, _)) in &self.replicas {
            assert_eq!(replica.status().unsettled_updates(), 0, "at {site}");
        }
    }
}

/// The leader, at A, receives the removal when others have settled updates after its snapshot.
fn removed_late(without: Option<Rule>) -> Stage {
    let mut stage = Stage::without(without);
    stage.slow = Some(Vec::new());
    stage.remove();
    stage.run(9000);
    stage.links.extend(stage.slow.take().into_iter().flatten());
    stage.run(12_000);
    stage
}

#[test]
fn a_removal_whose_coordinator_reaches_no_leader_in_time() {
    removed_late(None).shows("11");
}

#[test]
fn without_the_rule_a_late_vote_removes_more_than_it_has_observed() {
    let mut stage = removed_late(Some(Rule::Certification(Certification::InTime)));
    let values = [A, B, C].map(|site| stage.execute(site, Op::Get));
    assert_eq!(values, [const { Outcome::Nil }; 3]);
}

#[test]
fn a_removal_whose_coordinator_has_restarted() {
    let mut stage = Stage::new();
    stage.remove_undecided();
    stage.stop(C);
    stage.start(C, 0);
    stage.run(9000);
    stage.decide();
}

#[test]
fn a_removal_whose_client_has_timed_out() {
    let mut stage = Stage::new();
    stage.remove_undecided();
    stage.run(9000);
    stage.decide();
}

fn removed(stage: &mut Stage) {
    stage.remove_undecided();
    stage.stop(C);
    let now = stage.now();
    let (replica, _) = stage.replicas.get_mut(&A).unwrap();
    replica.change_members(now, C, Change::Remove).unwrap();
    stage.collect();
    stage.run(1000);
    assert_eq!(stage.replicas[&A].0.status().members().status(C), SiteStatus::Gone);
}

#[test]
fn a_removal_whose_coordinators_site_was_removed() {
    let mut stage = Stage::new();
    removed(&mut stage);
    stage.run(9000);
    stage.decide();
}

#[test]
fn a_removal_of_a_former_generation_of_a_site_that_has_joined_again() {
    let mut stage = Stage::new();
    removed(&mut stage);
    let now = stage.now();
    stage.replicas.get_mut(&A).unwrap().0.change_members(now, C, Change::Add).unwrap();
    stage.collect();
    stage.journals.remove(&C);
    stage.start(C, 1);
    stage.run(9000);
    assert_eq!(stage.replicas[&A].0.status().members().status(C), SiteStatus::Member);
    stage.decide();
}

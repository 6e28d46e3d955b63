//! A site leaves and joins again. The test controls every message.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use solera_data::{Key, Op, Outcome, Value};
use solera_levels::Level;
use solera_machine::{Address, Machine, Now, PartitionId, RequestId, Topology};
use solera_membership::{Change, MemberError, Members, SiteStatus};
use solera_time::{Monotonic, Physical, SiteId, Timestamp, Vector};
use solera_unistore::{
    Command, CommandError, Config, Fetch, Filling, Input, Message, Output, Pasts, Replica,
    Response, Rule, SiteView, TransferPosition,
};

const A: SiteId = SiteId(0);
const B: SiteId = SiteId(1);
const C: SiteId = SiteId(2);

/// One worker at each of several sites; their messages wait to be delivered.
struct Stage {
    sites: usize,
    replicas: BTreeMap<SiteId, (Replica, u32)>,
    links: VecDeque<(SiteId, u32, SiteId, Message)>,
    now_ms: u64,
    /// Time that a link takes for one piece of a partition, and the pieces in transit by arrival.
    piece_ms: u64,
    pieces: VecDeque<(u64, (SiteId, u32, SiteId, Message))>,
    /// One of so many pieces is lost; 0 for no losses.
    loses: usize,
    /// Pieces that were sent.
    sent: Vec<Filling>,
}

impl Stage {
    fn new(sites: usize) -> Stage {
        let mut stage = Stage {
            sites,
            replicas: BTreeMap::new(),
            links: VecDeque::new(),
            now_ms: 1000,
            piece_ms: 0,
            pieces: VecDeque::new(),
            loses: 0,
            sent: Vec::new(),
        };
        for site in SiteId::all(sites) {
            stage.start(site, 0);
        }
        stage
    }

    fn start(&mut self, site: SiteId, generation: u32) {
        let topology = Arc::new(Topology { partitions: 1, workers: vec![1; self.sites] });
        let mut config = Config::new(Address { site, worker: 0 }, topology);
        config.generation = generation;
        self.replicas.insert(site, (Replica::new(config, 1), generation));
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

    /// Lets time pass. Messages are collected but not delivered.
    fn tick(&mut self) {
        self.now_ms += 25;
        let now = self.now();
        for (replica, _) in self.replicas.values_mut() {
            replica.on_deadline(now);
        }
        self.collect();
    }

    fn collect(&mut self) {
        for (site, (replica, generation)) in &mut self.replicas {
            while let Some(output) = replica.poll_output() {
                if let Output::Send { to, message } = output {
                    self.links.push_back((*site, *generation, to.site, message));
                }
            }
        }
    }

    /// Delays a piece, or drops it.
    fn delay(&mut self, from: SiteId, generation: u32, to: SiteId, message: Message) {
        if let Message::Filling(piece) = &message {
            self.sent.push(piece.clone());
            if self.loses > 0 && self.sent.len().is_multiple_of(self.loses) {
                return;
            }
        }
        let last = self.pieces.back().map_or(self.now_ms, |(due, ..)| *due);
        let arrives = last.max(self.now_ms) + self.piece_ms;
        self.pieces.push_back((arrives, (from, generation, to, message)));
    }

    fn deliver(&mut self) {
        loop {
            let due = self.pieces.front().is_some_and(|(due, ..)| *due <= self.now_ms);
            let arrived = if due { self.pieces.pop_front() } else { None };
            let arrived = arrived.map(|(_, letter)| letter);
            let Some((from, generation, to, message)) = arrived.or_else(|| self.links.pop_front())
            else {
                return;
            };
            if matches!(message, Message::Filling(_)) && !due {
                self.delay(from, generation, to, message);
                continue;
            }
            let (now, from) = (self.now(), Address { site: from, worker: 0 });
            if let Some((replica, _)) = self.replicas.get_mut(&to) {
                replica.handle(now, Input::Message { from, generation, message });
            }
            self.collect();
        }
    }

    /// Lets time pass once. Delivers the messages of one site to another; the others stay in
    /// transit.
    fn exchange(&mut self, from: SiteId, to: SiteId) {
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
        let (now, mut pasts) = (self.now(), Pasts::none(self.sites));
        let answer =
            self.replica(site).execute(now, RequestId(0), &mut pasts, level, key.as_bytes(), op);
        self.collect();
        answer.expect("nothing blocks it").expect("the types fit")
    }

    fn change(&mut self, site: SiteId, change: Change) -> Result<(), MemberError> {
        let now = self.now();
        let changed = self.replica(A).change_members(now, site, change);
        self.collect();
        changed
    }

    fn status(&mut self, site: SiteId) -> SiteStatus {
        self.replica(A).status().members().status(site)
    }

    /// Stops and removes a site.
    fn lose(&mut self, site: SiteId) {
        self.replicas.remove(&site);
        self.change(site, Change::Remove).unwrap();
    }

    /// Lets a removed site join again.
    fn add(&mut self, site: SiteId, generation: u32) {
        assert_eq!(self.status(site), SiteStatus::Gone);
        self.change(site, Change::Add).unwrap();
        self.start(site, generation);
    }

    /// Stops and removes site B, and lets it join again.
    fn replace_b(&mut self) {
        self.lose(B);
        self.run(10);
        self.add(B, 1);
    }
}

#[test]
fn a_write_that_the_donor_has_just_made_counts_once() {
    let mut stage = Stage::new(2);
    stage.run(10);
    stage.replace_b();
    let mut sum = 0;
    while !stage.replica(B).status().view().serving {
        stage.tick();
        // This write follows the donor's report of its own history and precedes the request.
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
fn a_site_that_joined_has_the_history_that_it_had_sent_and_no_more() {
    let mut stage = Stage::new(2);
    stage.execute(B, "key", &Op::Set(Value::from("yes")));
    stage.run(10);
    stage.execute(B, "kept to itself", &Op::Set(Value::from("no")));
    stage.execute(A, "meanwhile", &Op::SetAdd(vec![Value::from("x")]));
    stage.replace_b();
    stage.run(60);
    assert_eq!(stage.status(B), SiteStatus::Member);
    for site in [A, B] {
        assert_eq!(stage.execute(site, "key", &Op::Get), Outcome::Bulk(Value::from("yes")));
        assert_eq!(stage.execute(site, "kept to itself", &Op::Get), Outcome::Nil);
        assert_eq!(stage.execute(site, "meanwhile", &Op::SetLen), Outcome::Int(1));
    }
    // Its new generation takes part.
    stage.execute(B, "key", &Op::Set(Value::from("again")));
    stage.run(20);
    assert_eq!(stage.execute(A, "key", &Op::Get), Outcome::Bulk(Value::from("again")));
    let unsettled = stage.replica(A).status().unsettled_updates();
    assert_eq!(unsettled, 0, "something is kept for nobody");
}

/// A sibling that asks for updates which every site, itself included, had stored has lost them, and
/// no site can send them again.
#[test]
fn a_sibling_that_asks_for_updates_forgotten_everywhere_lacks_them() {
    let mut stage = Stage::new(2);
    stage.execute(A, "key", &Op::Set(Value::from("yes")));
    stage.run(20);
    assert_eq!(stage.replica(A).status().unsettled_updates(), 0);
    let sibling = Address { site: B, worker: 0 };
    let known = stage.replica(B).status().known_vecs().next().unwrap().1[A];
    let mut after = 0;
    let mut ask = |known, seconds: f64| {
        after += (seconds * 1e9) as u64;
        let mut now = stage.now();
        now.monotonic.0 += after;
        let message = Message::Gap { partition: PartitionId(0), origin: A.into(), known };
        stage.replica(A).handle(now, Input::Message { from: sibling, generation: 0, message });
        stage.replica(A).take_lacking()
    };
    for _ in 0..10 {
        assert_eq!(ask(known, 1.0), BTreeSet::new());
    }
    // An occasional message that was in transit for a long time has no effect.
    for _ in 0..10 {
        assert_eq!(ask(Timestamp::ZERO, 2.0), BTreeSet::new());
    }
    for _ in 0..5 {
        assert_eq!(ask(Timestamp::ZERO, 1.0), BTreeSet::new());
    }
    assert_eq!(ask(Timestamp::ZERO, 1.0), BTreeSet::from([sibling]));
    assert_eq!(ask(Timestamp::ZERO, 1.0), BTreeSet::new(), "this is said once");
}

#[test]
fn a_barrier_fails_with_too_few_sites() {
    let topology = Arc::new(Topology { partitions: 1, workers: vec![1, 1] });
    let mut config = Config::new(Address { site: A, worker: 0 }, topology);
    config.f = 1;
    let mut replica = Replica::new(config, 1);
    let now = Now { monotonic: Monotonic(1), physical: Physical(1_000_000) };
    assert_eq!(replica.status().has_enough_sites(), Ok(()));
    replica.change_members(now, B, Change::Remove).unwrap();
    let command = Command::Barrier { pasts: Pasts::none(2), timeout: None };
    replica.handle(now, Input::Client { request: RequestId(1), command });
    let replies = std::iter::from_fn(|| replica.poll_output()).filter_map(|output| match output {
        Output::Reply { response, .. } => Some(response),
        _ => None,
    });
    let too_few = CommandError::TooFewSites { others: 0, f: 1 };
    assert_eq!(replies.collect::<Vec<_>>(), [Response::Failed(too_few)]);
}

#[test]
fn messages_of_a_former_generation_are_ignored() {
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

/// Returns how often the transfer of the only partition was begun.
fn begun(pieces: &[Filling]) -> usize {
    pieces.iter().map(|piece| piece.attempt).collect::<BTreeSet<_>>().len()
}

/// Creates two sites with more keys than fit into a window.
fn with_sixty_keys() -> Stage {
    let mut stage = Stage::new(2);
    for key in 0..60 {
        let (key, op) = set(key, 50_000);
        stage.execute(A, &key, &op);
    }
    stage.run(10);
    stage
}

fn set(key: usize, bytes: usize) -> (String, Op) {
    (format!("key {key}"), Op::Set(Value::from(vec![b'x'; bytes])))
}

#[test]
fn pieces_in_transit_on_a_slow_link_are_not_requested_again() {
    let mut stage = with_sixty_keys();
    stage.piece_ms = 3000;
    stage.replace_b();
    while stage.status(B) != SiteStatus::Member {
        stage.run(1);
        assert!(stage.now_ms < 900_000, "{:?}", stage.replica(B).status().progress());
    }
    let places: BTreeSet<TransferPosition> = stage.sent.iter().map(|p| p.at).collect();
    let (sent, needed) = (stage.sent.len(), places.len());
    assert!(needed > 20 && sent < needed + 10, "{sent} pieces for {needed}");
    assert_eq!(begun(&stage.sent), 1);
    stage.piece_ms = 0;
    stage.run(20);
    assert_eq!(stage.execute(B, "key 59", &Op::Get), stage.execute(A, "key 59", &Op::Get));
}

#[test]
fn a_large_key_is_sent_in_parts_and_lost_parts_are_sent_again() {
    let mut stage = Stage::new(2);
    let element = |i: usize| Value::from(format!("{i:0>1000}").as_str());
    for thousand in 0..3 {
        let elements = (0..1000).map(|i| element(1000 * thousand + i)).collect();
        stage.execute(A, "large", &Op::SetAdd(elements));
    }
    let fields = (0..3000).map(|i| (element(i), Value::from("v"))).collect();
    stage.execute(A, "hash", &Op::HashSet(fields));
    let (key, small) = set(1, 10);
    stage.execute(A, &key, &small);
    stage.run(10);
    stage.loses = 5;
    stage.replace_b();
    while stage.status(B) != SiteStatus::Member {
        stage.run(1);
        // The key changes while its parts are in transit.
        stage.execute(A, "large", &Op::SetRemove(vec![element(stage.now_ms as usize % 3000)]));
        assert!(stage.now_ms < 200_000, "{:?}", stage.replica(B).status().progress());
    }
    for piece in &stage.sent {
        let bytes = postcard::to_stdvec(piece).unwrap().len();
        assert!(bytes < 1 << 20, "a piece of {bytes} bytes");
    }
    assert_eq!(begun(&stage.sent), 1);
    stage.run(20);
    let content = |stage: &mut Stage, site| {
        let Outcome::Members(mut members) = stage.execute(site, "large", &Op::SetMembers) else {
            panic!("it is a set")
        };
        let Outcome::Pairs(mut pairs) = stage.execute(site, "hash", &Op::HashGetAll) else {
            panic!("it is a hash")
        };
        members.sort();
        pairs.sort();
        (members, pairs)
    };
    let (members, pairs) = content(&mut stage, A);
    assert!(members.len() > 2000 && pairs.len() == 3000);
    assert!(content(&mut stage, B) == (members, pairs), "the sites differ");
    assert_eq!(stage.execute(B, &key, &Op::Get), stage.execute(A, &key, &Op::Get));
}

#[test]
fn a_transfer_restarts_after_its_donor_has_timed_out() {
    let mut stage = with_sixty_keys();
    stage.piece_ms = 100;
    stage.replace_b();
    while stage.sent.len() < 4 {
        stage.run(1);
    }
    // No messages are delivered for two minutes.
    stage.pieces.clear();
    for _ in 0..120_000 / 25 {
        stage.tick();
        stage.links.clear();
    }
    stage.run(2000);
    assert_eq!((stage.status(B), begun(&stage.sent)), (SiteStatus::Member, 2));
    assert_eq!(stage.execute(B, "key 59", &Op::Get), stage.execute(A, "key 59", &Op::Get));
}

/// C has received a part of its partition from one of three others when its links are cut for an
/// hour.
fn cut_while_it_joins() -> Stage {
    let mut stage = Stage::new(4);
    for key in 0..200 {
        let (key, op) = set(key, 50_000);
        stage.execute(A, &key, &op);
    }
    stage.run(10);
    stage.lose(C);
    stage.run(20);
    stage.piece_ms = 100;
    stage.add(C, 1);
    while stage.replica(C).status().progress().bytes == 0 {
        stage.run(1);
    }
    stage.pieces.clear();
    for _ in 0..3600 {
        stage.now_ms += 1000;
        stage.tick();
        stage.links.retain(|(from, _, to, _)| *from != C && *to != C);
        stage.deliver();
    }
    stage
}

/// Stops the donor; returns how long it takes until C has everything from another one.
fn seconds_without_its_donor(mut stage: Stage) -> u64 {
    let (died, donor) = (stage.now_ms, stage.replica(C).status().progress().donor);
    stage.replicas.remove(&donor.expect("it is being filled"));
    while stage.replica(C).status().progress().filled == 0 {
        stage.run(1);
        assert!(stage.now_ms < died + 7_200_000, "{:?}", stage.replica(C).status().progress());
    }
    (stage.now_ms - died) / 1000
}

#[test]
fn a_dead_donor_is_replaced_sooner_than_after_the_length_of_an_earlier_cut() {
    let seconds = seconds_without_its_donor(cut_while_it_joins());
    assert!(seconds < 400, "{seconds} s");
}

#[test]
fn the_length_of_a_cut_is_forgotten_once_pieces_arrive() {
    let mut stage = cut_while_it_joins();
    let came = stage.replica(C).status().progress().bytes;
    while stage.replica(C).status().progress().bytes < came + 64 * 1024 {
        stage.run(1);
        assert!(stage.now_ms < 5_000_000, "{:?}", stage.replica(C).status().progress());
    }
    let seconds = seconds_without_its_donor(stage);
    assert!(seconds < 60, "{seconds} s");
}

/// One worker of a joining site learns before the other that the whole site serves.
#[test]
fn a_worker_that_does_not_serve_yet_answers_no_other_worker() {
    let topology = Arc::new(Topology { partitions: 2, workers: vec![1, 2] });
    let [first, second] = [0, 1].map(|worker| Address { site: B, worker });
    let mut config = Config::new(second, topology.clone());
    config.generation = 1;
    let mut replica = Replica::new(config, 1);
    let mut now =
        Now { monotonic: Monotonic(1_000_000), physical: Physical(1_800_000_000_000_000) };
    let replies = |replica: &mut Replica| {
        let outputs = std::iter::from_fn(|| replica.poll_output());
        let reply = |output: &Output| matches!(output, Output::Send { to, message: Message::ExecuteReply { .. } } if *to == first);
        outputs.filter(reply).count()
    };
    let key = (0..).map(|i| format!("k{i}")).find(|key| replica.owner_of(key.as_bytes()) == second);
    let ask = Message::Execute {
        request: RequestId(1),
        past: Vector::zero(2),
        level: Level::Causal,
        key: Key::from(key.unwrap().as_str()),
        op: Op::Get,
    };
    replica.handle(now, Input::Message { from: first, generation: 1, message: ask });
    assert_eq!(replies(&mut replica), 0);
    let view = SiteView { serving: true, ..*replica.status().view() };
    let message = Message::Down(view, replica.status().members().clone());
    replica.handle(now, Input::Message { from: first, generation: 1, message });
    now.monotonic = now.monotonic.after(std::time::Duration::from_secs(1));
    replica.on_deadline(now);
    assert_eq!(replies(&mut replica), 1);
}

/// A worker that folded up to this floor could no longer read at its open snapshots.
#[test]
fn a_floor_of_the_root_above_a_live_snapshot_is_ignored() {
    let topology = Arc::new(Topology { partitions: 2, workers: vec![2, 1, 1] });
    let [root, worker] = [0, 1].map(|worker| Address { site: A, worker });
    let mut replica = Replica::new(Config::new(worker, topology), 1);
    let mut now =
        Now { monotonic: Monotonic(1_000_000), physical: Physical(1_800_000_000_000_000) };
    let begin = Command::Begin { past: Vector::zero(3), strong: false };
    replica.handle(now, Input::Client { request: RequestId(1), command: begin });
    let view = *replica.status().view();
    let later = Timestamp::from_physical(Physical(now.physical.0 + 1_000_000));
    let beyond = Vector::zero(3).with(B, later);
    let send_view = |replica: &mut Replica, now, view| {
        let message = Message::Down(view, replica.status().members().clone());
        replica.handle(now, Input::Message { from: root, generation: 0, message });
    };
    let uniform = SiteView { uniform_vec: beyond, ..view };
    send_view(&mut replica, now, uniform);
    assert_eq!(replica.status().ignored(), 0);
    send_view(&mut replica, now, SiteView { floor: beyond, ..uniform });
    assert_eq!(replica.status().ignored(), 1);
    now.monotonic = now.monotonic.after(std::time::Duration::from_secs(1));
    replica.on_deadline(now);
    assert_eq!(replica.status().view().floor, view.floor);
}

/// A worker's keys may be later than any snapshot of a site that has just joined, so updates that
/// it sent would arrive twice.
#[test]
fn a_site_that_has_just_joined_is_no_donor() {
    let hands_over = |serving: bool, without: Option<Rule>| {
        let topology = Arc::new(Topology { partitions: 2, workers: vec![1, 2, 1] });
        let [root, worker] = [0, 1].map(|worker| Address { site: B, worker });
        let mut config = Config::new(worker, topology.clone());
        (config.generation, config.without) = (1, without.into());
        let mut replica = Replica::new(config, 1);
        let mut now =
            Now { monotonic: Monotonic(1_000_000), physical: Physical(1_800_000_000_000_000) };
        // B is a member again, and C joins.
        let stages = vec![(0u32, vec![]), (4, vec![(0u64, 0u64)]), (3, vec![(0, 0)])];
        let members: Members =
            postcard::from_bytes(&postcard::to_stdvec(&stages).unwrap()).unwrap();
        assert_eq!(members.status(C), SiteStatus::Joining);
        let view = SiteView { serving, ..*replica.status().view() };
        let message = Message::Down(view, members.clone());
        replica.handle(now, Input::Message { from: root, generation: 1, message });
        let partitions = (0..2).map(PartitionId);
        let partition = partitions.into_iter().find(|id| topology.owner(B, *id) == worker).unwrap();
        let fetch = Fetch {
            partition,
            attempt: 1,
            at: TransferPosition::START,
            window: 1 << 20,
            again: false,
        };
        let (from, message) = (Address { site: C, worker: 0 }, Message::Fetch(fetch));
        replica.handle(now, Input::Message { from, generation: 1, message });
        // The snapshot that it took is uniform.
        let soon = Timestamp::from_physical(Physical(now.physical.0 + 1_000_000));
        let uniform_vec = Vector::zero(3).with(B, soon);
        let message = Message::Down(SiteView { uniform_vec, ..view }, members);
        replica.handle(now, Input::Message { from: root, generation: 1, message });
        now.monotonic = now.monotonic.after(std::time::Duration::from_millis(100));
        replica.on_deadline(now);
        std::iter::from_fn(|| replica.poll_output())
            .any(|output| matches!(output, Output::Send { message: Message::Filling(_), .. }))
    };
    assert!(hands_over(true, None));
    assert!(!hands_over(false, None));
    assert!(hands_over(false, Some(Rule::DonorServes)), "else this shows nothing");
}

/// B wrote to an eventual space after it had seen a write of C there that no other site got.
/// Nothing else is missing once both are removed.
#[test]
fn an_eventual_write_whose_dependency_is_lost_is_kept_and_settles() {
    let mut stage = Stage::new(3);
    stage.run(10);
    let (eventual, increment) = (Level::Eventual, |by| Op::IncrBy(by));
    stage.execute_at(eventual, C, "n", &increment(1));
    stage.exchange(C, B);
    assert_eq!(stage.execute_at(eventual, B, "n", &increment(10)), Outcome::Int(11));
    stage.exchange(B, A);
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
        assert_eq!(stage.status(site), SiteStatus::Member);
    }
    stage.execute_at(eventual, C, "n", &Op::Set(Value::from("new")));
    stage.run(20);
    for site in [A, B, C] {
        let new = Outcome::Bulk(Value::from("new"));
        assert_eq!(stage.execute_at(eventual, site, "n", &Op::Get), new, "at {site:?}");
        assert_eq!(stage.replica(site).status().unsettled_updates(), 0, "at {site:?}");
    }
}

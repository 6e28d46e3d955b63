//! Gateways, and what homes keep for them, when homes move by force and sites leave and return.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use solera_data::{Effect, Key, Op, Outcome, Value};
use solera_machine::{Address, Machine, Now, RequestId, Topology};
use solera_membership::{Change, Gap, Members, Participant};
use solera_occult::{
    Answer, Body, CausalTimestamp, ClientId, Command, Commit, Config, Decision, Execute, Executed,
    Handover, Input, Message, Move, Occult, OnStale, Output, Prepare, Question, Recovery, Response,
    STAMP_END, Scheme, ShardId, Stamp, TransactionId, Unknown,
};
use solera_time::{Monotonic, Physical, SiteId, Timestamp};

/// The home of shard 0.
const A: u8 = 0;
/// The home of shard 1.
const B: u8 = 1;
/// The home of shard 2.
const C: u8 = 2;

/// Three sites with one worker each, whose messages take a millisecond.
struct Net {
    workers: Vec<Occult>,
    ms: u64,
    /// Sender, receiver, and message.
    queue: VecDeque<(Address, Address, Message)>,
    /// What each worker has sent since a test last looked.
    sent: Vec<Body>,
    replies: BTreeMap<u64, Response>,
    requests: u64,
    moves: Vec<Move>,
    members: Members,
}

impl Net {
    fn new() -> Net {
        let members = Members::new(3);
        let workers = (0..3).map(|site| Occult::new(config(site), &members)).collect();
        let mut net = Net {
            workers,
            ms: 10_000,
            queue: VecDeque::new(),
            sent: Vec::new(),
            replies: BTreeMap::new(),
            requests: 0,
            moves: Vec::new(),
            members,
        };
        net.run(300, all);
        net
    }

    fn now(&self) -> Now {
        Now { monotonic: Monotonic(self.ms * 1_000_000), physical: Physical(self.ms * 1_000) }
    }

    /// Takes the outputs of a site's worker, and answers its questions in the place of UniStore.
    fn collect(&mut self, site: u8) {
        while let Some(output) = self.workers[usize::from(site)].poll_output() {
            match output {
                Output::Send { to, message } => {
                    self.sent.push(message.body.clone());
                    self.queue.push_back((at(site), to, message));
                }
                Output::Reply { request, response, .. } => {
                    self.replies.insert(request.0, response);
                }
                Output::Ask { ask, question: Question::Propose { number, next } } => {
                    assert_eq!(number as usize, self.moves.len() + 1, "no other move has it");
                    self.moves.push(next);
                    let now = self.now();
                    let input = Input::Answered { ask, answer: Answer::Agreed };
                    self.workers[usize::from(site)].handle(now, input);
                }
                _ => {}
            }
        }
    }

    /// Lets time pass. `arrives` returns whether a message between two sites arrives.
    fn run(&mut self, ms: u64, arrives: impl Fn(u8, u8, &Body) -> bool) {
        for _ in 0..ms {
            self.ms += 1;
            for (from, to, message) in std::mem::take(&mut self.queue) {
                if arrives(from.site.0, to.site.0, &message.body) {
                    self.give(to.site.0, from, message);
                }
            }
            for site in 0..3 {
                let now = self.now();
                self.workers[usize::from(site)].on_deadline(now);
                self.collect(site);
            }
        }
    }

    fn give(&mut self, to: u8, from: Address, message: Message) {
        let (now, generation) = (self.now(), self.members.generation(from.site));
        let worker = &mut self.workers[usize::from(to)];
        worker.handle(now, Input::Message { from, generation, message });
        self.collect(to);
    }

    fn ask(&mut self, site: u8, command: Command) -> u64 {
        self.requests += 1;
        let (request, now) = (RequestId(self.requests), self.now());
        self.workers[usize::from(site)].handle(now, Input::Client { request, command });
        self.collect(site);
        self.requests
    }

    fn set(&mut self, site: u8, past: &CausalTimestamp, key: &Key, value: &str) -> u64 {
        let (past, key, op) = (past.clone(), key.clone(), Op::Set(Value::from(value)));
        self.ask(site, Command::Execute { past, key, op, on_stale: OnStale::Home })
    }

    /// Gives all workers another list of sites.
    fn set_members(&mut self, members: Members) {
        let now = self.now();
        for site in 0..3 {
            self.workers[usize::from(site)].set_members(now, &members);
            self.collect(site);
        }
        self.members = members;
    }

    /// Removes the site C, whose worker is down.
    fn remove_c(&mut self) {
        let without_c = |from, to, _: &Body| from != C && to != C;
        self.set_members(self.members.changed(SiteId(A), SiteId(C), Change::Remove).unwrap());
        self.run(1_000, without_c);
        let gap = Gap { cut: Timestamp::ZERO, end: Timestamp::ZERO };
        self.set_members(self.members.closed(SiteId(C), gap));
        self.run(2_000, without_c);
    }

    /// Moves a shard.
    fn shift(&mut self, at: u8, shard: u16, (from, to): (u8, u8), forced: bool) {
        let shards = vec![(ShardId(shard), ShardId(shard))];
        let (from, to) = (Some(SiteId(from)), vec![SiteId(to)]);
        self.ask(at, Command::Move(Move { shards, from, to, forced }));
    }
}

fn at(site: u8) -> Address {
    Address { site: SiteId(site), worker: 0 }
}

fn config(site: u8) -> Config {
    let topology = Arc::new(Topology { partitions: 1, workers: vec![1, 1, 1] });
    Config { journal: false, incarnation: 9_000, ..Config::new(at(site), topology, 3) }
}

fn key(shard: u16) -> Key {
    nth_key(shard, 0)
}

/// Returns a key of a shard.
fn nth_key(shard: u16, nth: usize) -> Key {
    let keys = (0..).map(|n| Key::from(format!("k{n}").as_str()));
    let config = config(0);
    let mut keys = keys.filter(|key| config.shard_of(key.as_bytes()) == ShardId(shard));
    keys.nth(nth).expect("there are many keys")
}

fn empty() -> CausalTimestamp {
    CausalTimestamp::new(Scheme::PerSite(2))
}

fn all(_: u8, _: u8, _: &Body) -> bool {
    true
}

/// A message of a client at C to the home at A: it has read shard 1, whose copy had carried out
/// `epoch` moves, and writes a key of shard 0.
fn reads_and_writes(number: u64, epoch: u64) -> Message {
    let client = ClientId { address: at(C), incarnation: 1 };
    let execute = Execute {
        tid: TransactionId { client, number },
        attempt: 1,
        timestamp: empty(),
        reads: vec![(ShardId(1), Stamp(9_000_000), epoch)],
        operations: vec![(key(0), Op::Set(Value::from("v")))],
        writes: Vec::new(),
        oldest: number,
    };
    Message { epoch, body: Body::Execute(execute) }
}

/// The new home of a shard that was taken by force may assign stamps below those that the former
/// home has shown. A read at the former home then looks newer than writes that it has missed.
#[test]
fn a_home_refuses_a_read_that_a_forced_move_has_followed() {
    let mut net = Net::new();
    net.shift(C, 1, (B, C), true);
    net.run(1_000, |from, to, _| from != B && to != B);
    assert_eq!(net.workers[usize::from(A)].homes().epoch(), 1);
    net.sent.clear();
    for (number, epoch) in [(1, 0), (2, 1)] {
        net.give(A, at(C), reads_and_writes(number, epoch));
    }
    let answers = net.sent.iter().filter_map(|body| match body {
        Body::Executed(tid, _, executed) => Some((tid.number, executed)),
        _ => None,
    });
    let answers: Vec<_> = answers.collect();
    assert!(matches!(
        answers.as_slice(),
        [(1, Executed::Conflict(ShardId(1))), (2, Executed::Committed(..))]
    ));
}

/// The home answers with the dependencies of the version that an update has overwritten. If the
/// answer is lost with the home, and the write is not, nobody can tell them to the session.
#[test]
fn an_update_that_outlives_its_home_leaves_its_session_without_a_past() {
    let mut net = Net::new();
    let update = net.set(C, &empty(), &key(0), "v");
    net.run(10, |from, to, body| {
        (from, to) != (A, C) || !matches!(body, Body::Executed(..) | Body::Batch(_))
    });
    net.shift(C, 0, (A, B), true);
    net.run(1_000, |from, to, _| from != A && to != A);
    let now = net.now();
    let get = (&key(0), &Op::Get);
    let read = net.workers[usize::from(B)].read_at_once(now, &mut empty(), get);
    assert_eq!(read, Some(Ok(Outcome::Bulk(Value::from("v")))), "the write has survived");
    assert_eq!(net.replies.get(&update), Some(&Response::Unknown(Unknown::Lost)));
}

/// Each start of a process draws its incarnation at random. A site that was removed and joins again
/// may draw a smaller one, and homes took its messages for those of the former process.
#[test]
fn a_site_that_joins_again_with_a_smaller_incarnation_is_served() {
    let mut net = Net::new();
    let update = net.set(C, &empty(), &key(0), "v");
    net.run(100, all);
    assert!(matches!(net.replies[&update], Response::Committed { .. }));
    net.remove_c();
    net.set_members(net.members.changed(SiteId(A), SiteId(C), Change::Add).unwrap());
    let generation = net.members.generation(SiteId(C));
    assert_eq!(generation, 1);
    let config = Config { generation, incarnation: 8_000, ..config(C) };
    net.queue.clear();
    net.workers[usize::from(C)] = Occult::new(config, &net.members);
    net.run(1_000, all);
    let update = net.set(C, &empty(), &key(0), "v");
    net.run(1_000, all);
    let reply = net.replies.get(&update);
    assert!(matches!(reply, Some(Response::Committed { .. })), "{reply:?}");
}

fn tid(number: u64) -> TransactionId {
    TransactionId { client: ClientId { address: at(C), incarnation: 1 }, number }
}

/// A client at C prepares a write of shard 0 at A.
fn prepare(number: u64, decision_home: u8) -> Body {
    Body::Prepare(Prepare {
        tid: tid(number),
        above: Stamp::ZERO,
        writes: vec![(nth_key(0, number as usize), Effect::default())],
        decision_home: at(decision_home),
        decision_shard: ShardId(u16::from(decision_home)),
        oldest: number,
    })
}

/// A home follows no commit whose stamp no correct clock can have produced. Its bound of stamps
/// went beyond the greatest stamp, so that its journal could not be read any more.
#[test]
fn a_home_does_not_follow_a_commit_stamp_that_no_clock_has_reached() {
    let config = Config { journal: true, ..config(A) };
    let members = Members::new(3);
    let mut home = Occult::new(config.clone(), &members);
    let commit =
        |stamp| Box::new(Commit { timestamp: empty(), stamps: vec![(SiteId(A), Stamp(stamp))] });
    let decided = |stamp| Body::Decided(tid(1), Decision::Commit(commit(stamp)));
    let bodies = [
        (at(C), prepare(1, B)),
        (at(B), decided(STAMP_END - 1)),
        (at(C), prepare(2, A)),
        (at(C), Body::Commit(tid(2), commit(STAMP_END - 1), vec![at(A), at(B)])),
    ];
    let now = Now { monotonic: Monotonic(1_000_000_000), physical: Physical(1_000_000) };
    let (mut recovery, mut sent) = (Recovery::new(config, &members), Vec::new());
    for (from, body) in bodies {
        let message = Message { epoch: 0, body };
        home.handle(now, Input::Message { from, generation: 0, message });
        while let Some(output) = home.poll_output() {
            match output {
                Output::Records(records) => {
                    for record in records.iter() {
                        recovery.take_record(record).unwrap();
                    }
                }
                Output::Send { message, .. } => sent.push(message.body),
                _ => {}
            }
        }
    }
    assert!(home.clock() < Stamp(STAMP_END / 2));
    assert_eq!(home.unfinished().0, 1, "the first stays prepared: {sent:?}");
    assert!(sent.contains(&Body::Outcome(tid(2), false)), "{sent:?}");
}

#[test]
fn a_new_home_does_not_follow_a_stamp_that_no_clock_has_reached() {
    let mut net = Net::new();
    let is_handover = |body: &Body| matches!(body, Body::Handover(_));
    net.shift(C, 0, (A, B), false);
    net.run(500, |_, _, body| !is_handover(body));
    let sent = net.sent.iter().rev().find_map(|body| match body {
        Body::Handover(handover) => Some(handover.clone()),
        _ => None,
    });
    let handover = Handover { last: Stamp(STAMP_END - 1), ..sent.expect("B has requested it") };
    net.give(B, at(A), Message { epoch: 1, body: Body::Handover(handover) });
    let home = &net.workers[usize::from(B)];
    assert!(home.arriving() == 1 && home.clock() < Stamp(STAMP_END / 2), "{:?}", home.clock());
    net.run(1_000, all);
    assert_eq!(net.workers[usize::from(B)].arriving(), 0, "the right one arrives");
}

/// A decision home waited for ever for a participant that had been removed, kept the record, and
/// sent it the decision again and again.
#[test]
fn a_home_waits_for_no_confirmation_of_a_removed_site() {
    let mut net = Net::new();
    let (past, on_stale) = (empty(), OnStale::Home);
    let begun = net.ask(B, Command::Begin { past, on_stale });
    let Response::Begun(transaction) = net.replies[&begun] else { panic!("it has begun") };
    for key in [key(0), key(2)] {
        let op = Op::Set(Value::from("v"));
        net.ask(B, Command::Operate { transaction, key, op, validates: false });
    }
    let commit = net.ask(B, Command::Commit { transaction });
    net.run(50, |_, _, body| !matches!(body, Body::Decided(..)));
    assert!(matches!(net.replies[&commit], Response::Committed { .. }));
    assert_eq!(net.workers[usize::from(A)].unfinished().1, 1);
    net.remove_c();
    assert_eq!(net.workers[usize::from(A)].unfinished().1, 0);
    net.sent.clear();
    net.run(1_000, |from, to, _| from != C && to != C);
    assert!(!net.sent.iter().any(|body| matches!(body, Body::Decided(..))));
}

//! Three workers whose messages a test passes, holds or drops one by one.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use solera_data::{Key, Op, Outcome, Value};
use solera_machine::{Address, Machine, Now, RequestId, Topology};
use solera_membership::{Change, Gap, Members, Participant};
use solera_occult::{
    Answer, Body, CausalTimestamp, Command, Config, Input, Message, Move, Occult, OnStale, Output,
    Question, Response, Scheme, ShardId,
};
use solera_time::{Monotonic, Physical, SiteId, Timestamp};

/// The home of shard 0 at first.
pub(crate) const A: u8 = 0;
/// The home of shard 1.
pub(crate) const P: u8 = 1;
/// The home of shard 2.
pub(crate) const C: u8 = 2;

/// Action of a link for a message.
pub(crate) enum Do {
    Pass,
    /// Keeps the message for later.
    Hold,
    Drop,
}

/// Sender, receiver and contents of a message.
pub(crate) type Sent<'a> = (u8, u8, &'a Body);

/// Three sites with one worker each.
pub(crate) struct Net {
    pub(crate) workers: Vec<Occult>,
    pub(crate) millis: u64,
    pub(crate) queue: VecDeque<(Address, Address, Message)>,
    pub(crate) replies: BTreeMap<u64, Response>,
    pub(crate) requests: u64,
    /// Messages that the workers have sent since a test last cleared the list.
    pub(crate) sent: Vec<Body>,
    /// The moves that are agreed on.
    pub(crate) moves: Vec<Move>,
    pub(crate) members: Members,
}

impl Net {
    pub(crate) fn new(shards: u16) -> Net {
        Net::with(|site| Config::new(at(site), topology(), shards))
    }

    pub(crate) fn with(config: impl Fn(u8) -> Config) -> Net {
        let members = Members::new(3);
        let worker = |site| Occult::new(Config { journal: false, ..config(site) }, &members);
        let mut net = Net {
            workers: (0..3).map(worker).collect(),
            millis: 10_000,
            queue: VecDeque::new(),
            replies: BTreeMap::new(),
            requests: 0,
            sent: Vec::new(),
            moves: Vec::new(),
            members: members.clone(),
        };
        net.run(300, pass);
        net
    }

    /// Takes the messages that a worker sends, and agrees to the moves that it proposes.
    pub(crate) fn collect(&mut self, site: u8) {
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
                    let answer = match self.moves.get(number as usize - 1) {
                        Some(other) if *other != next => Answer::Other(other.clone()),
                        Some(_) => Answer::Agreed,
                        None => {
                            self.moves.push(next);
                            Answer::Agreed
                        }
                    };
                    self.give(site, Input::Answered { ask, answer });
                }
                _ => {}
            }
        }
    }

    pub(crate) fn give(&mut self, site: u8, input: Input) {
        self.workers[usize::from(site)].handle(now(self.millis), input);
        self.collect(site);
    }

    pub(crate) fn deliver(&mut self, to: u8, from: Address, message: Message) {
        let generation = self.members.generation(from.site);
        self.give(to, Input::Message { from, generation, message });
    }

    /// Lets time pass, and handles each message as `rule` decides.
    pub(crate) fn run(&mut self, millis: u64, rule: impl Fn(Sent) -> Do) {
        for _ in 0..millis {
            self.millis += 1;
            for (from, to, message) in std::mem::take(&mut self.queue) {
                match rule((from.site.0, to.site.0, &message.body)) {
                    Do::Pass => self.deliver(to.site.0, from, message),
                    Do::Hold => self.queue.push_back((from, to, message)),
                    Do::Drop => {}
                }
            }
            for site in 0..3 {
                self.workers[usize::from(site)].on_deadline(now(self.millis));
                self.collect(site);
            }
        }
    }

    pub(crate) fn ask(&mut self, site: u8, command: Command) -> u64 {
        self.requests += 1;
        let request = RequestId(self.requests);
        self.give(site, Input::Client { request, command });
        self.requests
    }

    pub(crate) fn execute(&mut self, site: u8, past: &CausalTimestamp, key: &Key, op: Op) -> u64 {
        let (past, key) = (past.clone(), key.clone());
        self.ask(site, Command::Execute { past, key, op, on_stale: OnStale::Home })
    }

    /// Executes an operation whose home is at the site or whose copy there is recent enough, and
    /// returns the session's past after it.
    pub(crate) fn past_of(
        &mut self,
        site: u8,
        past: &CausalTimestamp,
        key: &Key,
        op: Op,
    ) -> CausalTimestamp {
        let number = self.execute(site, past, key, op);
        match self.replies.get(&number) {
            Some(Response::Committed { past, .. }) => past.clone(),
            other => panic!("{other:?}"),
        }
    }

    /// Writes two keys in one transaction, and returns its number.
    pub(crate) fn write_both(&mut self, site: u8, keys: [Key; 2], value: u64) -> u64 {
        let past = CausalTimestamp::new(self.workers[0].config().scheme);
        let begun = self.ask(site, Command::Begin { past, on_stale: OnStale::Home });
        let Response::Begun(transaction) = self.replies[&begun] else { panic!("it has begun") };
        for key in keys {
            let op = set(value);
            self.ask(site, Command::Operate { transaction, key, op, validates: false });
        }
        self.ask(site, Command::Commit { transaction });
        transaction
    }

    /// Gives all workers another list of sites.
    pub(crate) fn set_members(&mut self, members: Members) {
        for site in 0..3 {
            self.workers[usize::from(site)].set_members(now(self.millis), &members);
            self.collect(site);
        }
        self.members = members;
    }

    /// Removes a site that has sent nothing meanwhile.
    pub(crate) fn remove(&mut self, site: u8) {
        let by = if site == C { P } else { C };
        let members = Members::new(3).changed(SiteId(by), SiteId(site), Change::Remove);
        let gap = Gap { cut: Timestamp::ZERO, end: Timestamp::ZERO };
        let members = members.expect("it is a member").closed(SiteId(site), gap);
        for other in (0..3).filter(|other| *other != site) {
            let now = now(self.millis);
            self.workers[usize::from(other)].set_members(now, &members);
            self.collect(other);
        }
    }

    /// Moves a shard.
    pub(crate) fn shift(&mut self, shard: u16, (from, to): (u8, u8), forced: bool) {
        let shards = vec![(ShardId(shard), ShardId(shard))];
        let (from, to) = (Some(SiteId(from)), vec![SiteId(to)]);
        self.ask(C, Command::Move(Move { shards, from, to, forced }));
    }

    /// Returns the value of the copy at a site.
    pub(crate) fn local(&mut self, site: u8, key: &Key) -> Option<Outcome> {
        let worker = &mut self.workers[usize::from(site)];
        let found = worker.read_at_once(now(self.millis), &mut empty(), (key, &Op::Get));
        found.map(|result| result.expect("it is a value"))
    }

    /// Returns a key of a shard.
    pub(crate) fn key(&self, shard: u16, nth: usize) -> Key {
        key_of(&self.workers[0], shard, nth)
    }

    /// Writes so much at a home that its stream drops the earlier entries.
    pub(crate) fn flood(&mut self, site: u8, shard: u16, rule: impl Fn(Sent) -> Do) {
        let key = self.key(shard, 1_000);
        for n in 0..4_200 {
            self.execute(site, &empty(), &key, set(n));
            if n % 100 == 0 {
                self.run(1, &rule);
            }
        }
        self.run(50, &rule);
    }
}

pub(crate) fn at(site: u8) -> Address {
    Address { site: SiteId(site), worker: 0 }
}

pub(crate) fn topology() -> Arc<Topology> {
    Arc::new(Topology { partitions: 1, workers: vec![1, 1, 1] })
}

pub(crate) fn now(millis: u64) -> Now {
    Now { monotonic: Monotonic(millis * 1_000_000), physical: Physical(millis * 1_000) }
}

pub(crate) fn key_of(worker: &Occult, shard: u16, nth: usize) -> Key {
    let keys = (0..).map(|n| Key::from(format!("k{n}").as_str()));
    let mut keys = keys.filter(|key| worker.config().shard_of(key.as_bytes()) == ShardId(shard));
    keys.nth(nth).expect("there is no last key")
}

pub(crate) fn empty() -> CausalTimestamp {
    CausalTimestamp::new(Scheme::PerSite(2))
}

pub(crate) fn set(n: u64) -> Op {
    Op::Set(Value::from(n.to_string().as_str()))
}

pub(crate) fn bulk(n: u64) -> Option<Outcome> {
    Some(Outcome::Bulk(Value::from(n.to_string().as_str())))
}

pub(crate) fn pass(_: Sent) -> Do {
    Do::Pass
}

/// Cuts a site off.
pub(crate) fn cut(site: u8) -> impl Fn(Sent) -> Do {
    move |(from, to, _)| if from == site || to == site { Do::Drop } else { Do::Pass }
}

/// Drops the messages for which `arrives` does not hold.
pub(crate) fn only(arrives: impl Fn(u8, u8, &Body) -> bool) -> impl Fn(Sent) -> Do {
    move |(from, to, body)| if arrives(from, to, body) { Do::Pass } else { Do::Drop }
}

/// Cuts the link of two sites.
pub(crate) fn cut_link(a: u8, b: u8) -> impl Fn(Sent) -> Do {
    move |(from, to, _)| match (from, to) {
        link if link == (a, b) || link == (b, a) => Do::Drop,
        _ => Do::Pass,
    }
}

//! Workers of several sites on a simulated network, and sessions that roam between the sites. All
//! that the sessions learn becomes a history for the checker, which shares no code with the
//! protocol.

mod losses;
mod network;
mod reader;
mod sessions;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use solera_checker::pcpsi::{History, Violation, check};
use solera_data::Key;
use solera_machine::{Address, AskId, Machine, Now, RequestId, Topology};
use solera_membership::Members;
use solera_occult::{
    Answer, Checkpoint, Command, Config, Event, Input, LockScope, Move, Occult, Output, Question,
    Recovery, Response, Rule, Scheme, ShardId, Shows, StaleReads, Timing,
};
use solera_random::Random;
use solera_time::{Monotonic, Physical, SiteId};

use self::network::Network;
use self::reader::Reader;
use self::sessions::Sessions;

pub(crate) const MS: u64 = 1_000_000;
const SHARDS: u16 = 8;
const PARTITIONS: u16 = 4;
/// Time when faults end.
const QUIET_MS: u64 = 4_000;
/// Time when a site fails for good and the others take its shards, in worlds with such a failure.
const FORCED_MS: u64 = 2_000;
const TAKEN_MS: u64 = 4_100;
/// Time when sessions end.
const LAST_MS: u64 = 5_000;
/// Time for which clocks must have passed all stamps at the end, in microseconds, if all sites are
/// to be read together.
const MARGIN_US: u64 = 500_000;
/// Time when the world ends.
const END_MS: u64 = 9_000;

/// Parameters of a world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) sites: usize,
    pub(crate) workers: u8,
    pub(crate) scheme: Scheme,
    /// Greatest difference between the clocks of two sites, in milliseconds.
    pub(crate) skew_ms: u64,
    /// Whether links are cut, messages lost, and processes restarted.
    pub(crate) faults: bool,
    /// Whether homes move.
    pub(crate) moves: bool,
    /// The site that fails for good, and whose shards the others take by force.
    pub(crate) lost: Option<SiteId>,
    /// Whether keys are deleted. The order of a key's versions is then known from answers only.
    pub(crate) deletes: bool,
    pub(crate) locks: LockScope,
    pub(crate) shows: Shows,
    pub(crate) without: Option<Rule>,
}

/// Results of a world's run.
pub(crate) struct Report {
    pub(crate) violations: Vec<Violation>,
    /// Reasons why the world is not quiet and equal everywhere at its end, and writes that
    /// snapshots have missed.
    pub(crate) unfinished: Vec<String>,
    pub(crate) committed: usize,
    pub(crate) aborted: BTreeMap<String, usize>,
    pub(crate) unknown: usize,
    /// Number of sessions that learned that they depend on a lost write.
    pub(crate) lost_sessions: usize,
    /// Number of snapshots of all keys that were read.
    pub(crate) snapshots: usize,
    /// Number of transactions without an answer whose outcome was determined later.
    pub(crate) found: usize,
}

pub(crate) struct World {
    now: u64,
    random: Random,
    shape: Shape,
    workers: BTreeMap<Address, Occult>,
    configs: BTreeMap<Address, Config>,
    members: Members,
    /// The moves on which the sites have agreed, as a strong transaction would.
    moves: BTreeMap<u64, Move>,
    /// The site that has failed for good.
    pub(crate) dead: Option<SiteId>,
    /// Answers that arrive in the next step.
    answers: Vec<(Address, AskId, Answer)>,
    /// The parts of each worker's last checkpoint, and its journal since.
    checkpoints: BTreeMap<Address, Vec<Vec<u8>>>,
    journals: BTreeMap<Address, Vec<Vec<u8>>>,
    /// Determines the checkpoints.
    keeper: Random,
    /// Workers that crash when they next send or record something.
    doomed: BTreeSet<Address>,
    /// Workers whose crash was not reported to the sessions yet.
    lost: Vec<Address>,
    /// Differences of the wall clocks from the world's time, in microseconds.
    clocks: Vec<u64>,
    /// Time until which each worker is down.
    down: BTreeMap<Address, u64>,
    network: Network,
    /// The home and the stamp of each write, as homes show it to replicas.
    stamps: BTreeMap<(Key, u64), (SiteId, u64)>,
    replies: Vec<(RequestId, Response)>,
    /// The writes that each site has acknowledged, in this order.
    acknowledged: BTreeMap<SiteId, Vec<(Key, u64)>>,
}

impl World {
    pub(crate) fn run(seed: u64, shape: Shape) -> Report {
        let mut world = World::new(seed, shape);
        let mut sessions = Sessions::new(&mut world);
        let mut reader = Reader::new();
        let mut unmoved = Vec::new();
        while world.now < END_MS * MS {
            world.step();
            if world.now == FORCED_MS * MS {
                world.fail_for_good();
            }
            // An operator repeats a command that has no effect because a process has failed.
            if world.dead.is_some()
                && world.now >= TAKEN_MS * MS
                && world.now.is_multiple_of(200 * MS)
            {
                world.take_by_force();
                world.complete_by_force();
            }
            if world.now < QUIET_MS * MS && shape.faults {
                world.faults();
            }
            if world.now == QUIET_MS * MS {
                world.end_slowness();
            }
            sessions.lost(&std::mem::take(&mut world.lost));
            for (request, response) in std::mem::take(&mut world.replies) {
                sessions.on_reply(&mut world, request, response);
            }
            sessions.act(&mut world, LAST_MS * MS);
            // Without timestamps, it is unknown on which writes a snapshot depends.
            if shape.scheme != Scheme::None {
                reader.act(&mut world);
            }
            if world.now > LAST_MS * MS && world.now.is_multiple_of(200 * MS) {
                unmoved = world.unmoved();
            }
        }
        let mut unfinished = world.unfinished();
        unfinished.append(&mut unmoved);
        sessions.find_outcomes(&mut world);
        let mut history: History = sessions.finish(&world.stamps);
        let snapshots = reader.transactions.len();
        if shape.lost.is_none() {
            history.transactions.append(&mut reader.transactions);
        }
        let slowest = world.clocks.iter().min().expect("there are sites") + world.now / 1_000;
        let passed = world.stamps.values().all(|(_, stamp)| *stamp + MARGIN_US < slowest);
        unfinished.extend(sessions.differences(passed));
        unfinished.append(&mut reader.missed);
        // Prints the history to help the investigation of a seed.
        if std::env::var("DUMP").is_ok() {
            for transaction in &history.transactions {
                println!("{transaction:?}");
            }
        }
        let violations = if shape.reports_losses() {
            let lost = world.lost_writes(&history);
            unfinished.extend(losses::read_after_losses(&history, &lost));
            check(&losses::without(history, &lost))
        } else if shape.lost.is_some() {
            // It is unknown which of the answers depend on lost writes.
            Vec::new()
        } else {
            check(&history)
        };
        Report {
            violations,
            unfinished,
            committed: sessions.committed,
            aborted: sessions.aborted.clone(),
            unknown: sessions.unknown,
            lost_sessions: sessions.lost_sessions,
            snapshots,
            found: sessions.found,
        }
    }

    fn new(seed: u64, shape: Shape) -> World {
        let mut random = Random::new(seed);
        let topology = Arc::new(Topology {
            partitions: PARTITIONS,
            workers: vec![shape.workers; shape.sites],
        });
        let clocks = (0..shape.sites)
            .map(|_| 10_000_000_000 + random.below(shape.skew_ms * 1_000 + 1))
            .collect();
        let members = Members::new(shape.sites);
        let (mut workers, mut configs) = (BTreeMap::new(), BTreeMap::new());
        for address in topology.all_workers() {
            let timing = Timing {
                retry: Duration::from_millis(60),
                prepare_expires: Duration::from_millis(150),
                timeout: Duration::from_millis(900),
                stale: match seed % 2 {
                    0 => StaleReads::Wait(Duration::from_millis(7)),
                    _ => StaleReads::Retry([0, 1, 2, 4].map(Duration::from_millis)),
                },
                ..Timing::default()
            };
            let config = Config {
                scheme: shape.scheme,
                timing,
                locks: shape.locks,
                shows: shape.shows,
                without: shape.without.into(),
                trace: true,
                ..Config::new(address, topology.clone(), SHARDS)
            };
            workers.insert(address, Occult::new(config.clone(), &members));
            configs.insert(address, config);
        }
        World {
            now: 0,
            shape,
            configs,
            members,
            moves: BTreeMap::new(),
            dead: None,
            answers: Vec::new(),
            checkpoints: BTreeMap::new(),
            journals: BTreeMap::new(),
            keeper: Random::new(seed ^ 0x5eed),
            doomed: BTreeSet::new(),
            lost: Vec::new(),
            workers,
            clocks,
            down: BTreeMap::new(),
            network: Network::new(random.draw()),
            stamps: BTreeMap::new(),
            replies: Vec::new(),
            acknowledged: BTreeMap::new(),
            random,
        }
    }

    fn time(&self, site: SiteId) -> Now {
        let physical = Physical(self.clocks[site.index()] + self.now / 1_000);
        Now { monotonic: Monotonic(self.now), physical }
    }

    /// Delivers what is due, and lets a millisecond pass.
    fn step(&mut self) {
        self.now += MS;
        while let Some((from, to, body)) = self.network.next(self.now) {
            if !self.is_down(to) {
                let now = self.time(to.site);
                let worker = self.workers.get_mut(&to).expect("a worker of the topology");
                worker.handle(now, Input::Message { from, generation: 0, message: body });
                self.collect(to);
            }
        }
        for (address, ask, answer) in std::mem::take(&mut self.answers) {
            if !self.is_down(address) {
                let now = self.time(address.site);
                let worker = self.workers.get_mut(&address).expect("it exists");
                worker.handle(now, Input::Answered { ask, answer });
                self.collect(address);
            }
        }
        let all: Vec<Address> = self.workers.keys().copied().collect();
        for address in all {
            if !self.is_down(address) {
                let now = self.time(address.site);
                self.workers.get_mut(&address).expect("it exists").on_deadline(now);
                self.collect(address);
            }
        }
    }

    fn is_down(&self, address: Address) -> bool {
        self.down.get(&address).is_some_and(|until| self.now < *until)
    }

    fn collect(&mut self, from: Address) {
        let worker = self.workers.get_mut(&from).expect("it exists");
        let mut outputs: Vec<Output> = std::iter::from_fn(|| worker.poll_output()).collect();
        let crashes = !outputs.is_empty() && self.doomed.remove(&from);
        if crashes {
            // Records and messages before this point are durable and sent, the others are lost.
            outputs.truncate(self.random.index(outputs.len() + 1));
        }
        for output in outputs {
            match output {
                Output::Records(records) => {
                    let journal = self.journals.entry(from).or_default();
                    journal.extend(records.iter().map(<[u8]>::to_vec));
                }
                Output::Send { to, message } => self.network.send(self.now, (from, to), message),
                Output::Reply { request, response, .. } => self.replies.push((request, response)),
                Output::Trace(Event::Shown(entry)) => {
                    for (key, effect, _) in &entry.writes {
                        if let Some(id) = sessions::id_of(effect) {
                            let shown = (from.site, entry.stamp.0);
                            self.stamps.entry((key.clone(), id)).or_insert(shown);
                        }
                    }
                }
                Output::Ask { ask, question: Question::Propose { number, next } } => {
                    let agreed = self.moves.entry(number).or_insert_with(|| next.clone());
                    let answer = match *agreed == next {
                        true => Answer::Agreed,
                        false => Answer::Other(agreed.clone()),
                    };
                    self.answers.push((from, ask, answer));
                }
                Output::Trace(Event::Rare(_)) => {}
            }
        }
        if crashes {
            self.crash(from);
        }
    }

    /// Ends a worker's process, and rebuilds it from its journal.
    fn crash(&mut self, victim: Address) {
        let config = self.configs.get_mut(&victim).expect("it exists");
        config.incarnation += 1;
        let mut recovery = Recovery::new(config.clone(), &self.members);
        for part in self.checkpoints.get(&victim).into_iter().flatten() {
            recovery.take_part(part).expect("a part of this worker's checkpoint");
        }
        for record in self.journals.get(&victim).into_iter().flatten() {
            recovery.take_record(record).expect("a record of this worker");
        }
        let worker = recovery.into_machine(&self.members);
        self.workers.insert(victim, worker);
        self.network.drop_all(victim);
        self.answers.retain(|(worker, ..)| *worker != victim);
        self.down.insert(victim, self.now + self.random.below(400) * MS);
        self.lost.push(victim);
    }

    /// Replaces a worker's journal by a checkpoint.
    fn write_checkpoint(&mut self, of: Address) {
        if self.is_down(of) {
            return;
        }
        self.collect(of);
        if self.is_down(of) {
            return;
        }
        let worker = &self.workers[&of];
        let (mut checkpoint, mut parts) = (Checkpoint::default(), Vec::new());
        while let Some(part) = worker.next_part(&mut checkpoint, 3) {
            let mut bytes = Vec::new();
            Occult::encode_part(&part, &mut bytes);
            parts.push(bytes);
        }
        self.checkpoints.insert(of, parts);
        self.journals.remove(&of);
    }

    /// Injects a fault from time to time.
    fn faults(&mut self) {
        let sites = self.shape.sites;
        if self.keeper.one_in(150) {
            let all: Vec<Address> = self.workers.keys().copied().collect();
            let worker = all[self.keeper.index(all.len())];
            self.write_checkpoint(worker);
        }
        if self.random.one_in(300) && sites > 1 {
            let a = self.random.index(sites);
            let b = (a + 1 + self.random.index(sites - 1)) % sites;
            let until = self.now + (20 + self.random.below(700)) * MS;
            self.network.cut((SiteId(a as u8), SiteId(b as u8)), until);
        }
        if self.random.one_in(250) {
            let all: Vec<Address> = self.workers.keys().copied().collect();
            let victim = all[self.random.index(all.len())];
            self.doomed.insert(victim);
        }
        if self.shape.moves && self.random.one_in(200) {
            self.move_some();
        }
        if self.random.one_in(150) {
            let all: Vec<Address> = self.workers.keys().copied().collect();
            let delay_ms = self.random.below(2) * self.random.below(400);
            let shard = ShardId(self.random.index(SHARDS as usize) as u16);
            let address = all[self.random.index(all.len())];
            self.slow_down(address, shard, delay_ms);
        }
        if self.random.one_in(600) {
            // A clock is set forward or back.
            let site = self.random.index(sites);
            let change = self.random.below(self.shape.skew_ms * 1_000 + 1);
            self.clocks[site] = 10_000_000_000 + change;
        }
    }

    /// Asks a worker, which answers at once; `None` if it is down.
    fn ask(&mut self, to: Address, command: Command) -> Option<Response> {
        const REQUEST: RequestId = RequestId(u64::MAX / 2);
        if self.is_down(to) {
            return None;
        }
        let now = self.time(to.site);
        self.workers.get_mut(&to)?.handle(now, Input::Client { request: REQUEST, command });
        self.collect(to);
        let at = self.replies.iter().position(|(request, _)| *request == REQUEST)?;
        Some(self.replies.remove(at).1)
    }

    fn slow_down(&mut self, address: Address, shard: ShardId, delay_ms: u64) {
        self.ask(address, Command::Slow { shard, delay_ms });
    }

    /// Returns the workers that do not know that all moves are complete.
    fn unmoved(&mut self) -> Vec<String> {
        let all: Vec<Address> = self.workers.keys().copied().collect();
        let (mut found, dead) = (Vec::new(), self.dead);
        for address in all.into_iter().filter(|worker| Some(worker.site) != dead) {
            match self.ask(address, Command::Moves) {
                Some(Response::Moves { arriving: 0, behind })
                    if behind.iter().all(|worker| Some(worker.site) == self.dead) => {}
                answer => found.push(format!("{address:?}: {answer:?}")),
            }
        }
        found
    }

    /// A worker that is down has no slow shards when it runs again.
    fn end_slowness(&mut self) {
        let all: Vec<Address> = self.workers.keys().copied().collect();
        for address in all {
            ShardId::all(SHARDS).for_each(|shard| self.slow_down(address, shard, 0));
        }
    }

    /// Ends all processes of the site that fails, if there is one.
    fn fail_for_good(&mut self) {
        let Some(site) = self.shape.lost else { return };
        self.dead = Some(site);
        let workers: Vec<Address> =
            self.workers.keys().filter(|worker| worker.site == site).copied().collect();
        for worker in workers {
            self.crash(worker);
            self.down.insert(worker, u64::MAX);
        }
    }

    /// Has another site take the shards of the failed one.
    fn take_by_force(&mut self) {
        let Some(dead) = self.dead else { return };
        let alive = |worker: &&Address| worker.site != dead && !self.is_down(**worker);
        let Some(address) = self.workers.keys().find(alive).copied() else { return };
        let now = self.time(address.site);
        let worker = self.workers.get_mut(&address).expect("it exists");
        let homes = worker.homes();
        let shards = ShardId::all(SHARDS).filter(|shard| homes.home(*shard) == dead);
        let shards = solera_occult::ranges(shards);
        if shards.is_empty() {
            return;
        }
        let to = SiteId::all(self.shape.sites).filter(|site| *site != dead).collect();
        let command = Command::Move(Move { shards, from: Some(dead), to, forced: true });
        worker.handle(now, Input::Client { request: RequestId(u64::MAX), command });
        self.collect(address);
    }

    /// Has each site complete the moves that wait for the failed one.
    fn complete_by_force(&mut self) {
        let Some(dead) = self.dead else { return };
        let all: Vec<Address> = self.workers.keys().copied().collect();
        for address in all.into_iter().filter(|worker| worker.site != dead) {
            if self.is_down(address) {
                continue;
            }
            let now = self.time(address.site);
            let worker = self.workers.get_mut(&address).expect("it exists");
            let shards = solera_occult::ranges(worker.arriving_from(dead).into_iter());
            if !shards.is_empty() {
                let next = Move { shards, from: Some(dead), to: vec![address.site], forced: true };
                let command = Command::Move(next);
                worker.handle(now, Input::Client { request: RequestId(u64::MAX), command });
                self.collect(address);
            }
        }
    }

    /// Has some worker propose a move of one or a few shards.
    fn move_some(&mut self) {
        let all: Vec<Address> = self.workers.keys().copied().collect();
        let address = all[self.random.index(all.len())];
        if self.is_down(address) {
            return;
        }
        let first = self.random.index(SHARDS as usize) as u16;
        let last = (first + self.random.index(3) as u16).min(SHARDS - 1);
        let to = SiteId(self.random.index(self.shape.sites) as u8);
        let shards = vec![(ShardId(first), ShardId(last))];
        let next = Move { shards, from: None, to: vec![to], forced: false };
        let request = RequestId(u64::MAX - self.now);
        let now = self.time(address.site);
        let worker = self.workers.get_mut(&address).expect("it exists");
        worker.handle(now, Input::Client { request, command: Command::Move(next) });
        self.collect(address);
    }

    fn unfinished(&self) -> Vec<String> {
        let mut found = Vec::new();
        let alive: Vec<(&Address, &Occult)> =
            self.workers.iter().filter(|(worker, _)| Some(worker.site) != self.dead).collect();
        for (address, worker) in &alive {
            let (prepared, _, hidden) = worker.unfinished();
            if worker.arriving() > 0 {
                found.push(format!("{address:?}: {} shards arrive", worker.arriving()));
            }
            if alive[0].1.homes().epoch() != worker.homes().epoch() {
                found.push(format!("{address:?} has not carried out all moves"));
            }
            if worker.homes().sites().any(|site| Some(site) == self.dead) {
                found.push(format!("{address:?} has homes at a lost site"));
            }
            if prepared + hidden > 0 {
                found.push(format!("{address:?}: {prepared} prepared, {hidden} hidden"));
            }
        }
        found
    }
}

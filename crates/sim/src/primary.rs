//! Sessions that use `primary`, in addition to those of UniStore, and the history for its checker.
//!
//! Updates append a number of their own to the list at a key, so each value is the history of its
//! key.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use solera_checker::primary::{Attached, Final, History, Loss, Read, Update, check};
use solera_data::{Key, Value};
use solera_machine::{Address, PartitionId, RequestId, Topology};
use solera_primary::{Command, Done, Failure, Past, Position, Response};
use solera_time::SiteId;

use crate::queue::MS;
use crate::random::Random;
use crate::scenario::Scenario;
use crate::world::{SiteState, World};

/// Wake-ups of these sessions, beyond those of other clients.
const WAKES: usize = 1 << 41;
/// Requests of these sessions.
const REQUESTS: u64 = 1 << 61;
const SESSIONS: usize = 5;
/// Number of steps of each session.
const STEPS: usize = 60;
const KEYS: u64 = 6;

#[derive(Debug)]
enum Doing {
    Nothing,
    Read(String),
    /// An update, by its index in the history.
    Update(usize),
    /// Covers these updates once this number of workers have answered.
    Barrier(Vec<usize>, usize),
    /// Time of invocation, and the number of workers that must answer.
    Attach(u64, usize),
    Done,
}

#[derive(Debug)]
struct PrimarySession {
    /// Changes when the session starts over.
    number: usize,
    site: usize,
    /// Generation of its site.
    generation: u32,
    past: Past,
    /// Its updates that were reported as applied.
    applied: Vec<usize>,
    left: usize,
    doing: Doing,
    invoked: u64,
    waiting_for: Vec<(Address, RequestId)>,
    /// Time at which it stops waiting for an update.
    impatient_at: Option<u64>,
}

/// The sessions, and their observations.
#[derive(Debug)]
pub(crate) struct PrimarySessions {
    topology: Arc<Topology>,
    sessions: Vec<PrimarySession>,
    random: Random,
    requests: u64,
    numbers: usize,
    /// Time that grows with each event, so that no two events have the same time.
    clock: u64,
    pace: u64,
    history: History,
    /// Requests that their sessions cancelled.
    cancelled: BTreeSet<RequestId>,
    problems: Vec<String>,
}

impl PrimarySessions {
    pub(crate) fn new(scenario: &Scenario, world: &mut World) -> Self {
        let sites = scenario.topology.sites();
        let mut random = Random::new(scenario.seed.wrapping_mul(6_700_417).wrapping_add(3));
        let count = if scenario.primary.is_some() { SESSIONS } else { 0 };
        let sessions = (0..count)
            .map(|index| {
                world.wake(WAKES + index, random.within(0, 200 * MS));
                PrimarySession {
                    number: index,
                    site: random.below(sites),
                    generation: 0,
                    past: Past::default(),
                    applied: Vec::new(),
                    left: STEPS,
                    doing: Doing::Nothing,
                    invoked: 0,
                    waiting_for: Vec::new(),
                    impatient_at: None,
                }
            })
            .collect();
        PrimarySessions {
            topology: scenario.topology.clone(),
            sessions,
            random,
            requests: REQUESTS,
            numbers: count,
            clock: 0,
            pace: scenario.pace,
            history: History::default(),
            cancelled: BTreeSet::new(),
            problems: Vec::new(),
        }
    }

    /// Returns whether every session has finished.
    pub(crate) fn all_done(&self) -> bool {
        self.sessions.iter().all(|session| matches!(session.doing, Doing::Done))
    }

    /// Returns the sessions that are not finished.
    pub(crate) fn stuck(&self) -> Vec<String> {
        let waiting = self.sessions.iter().filter(|session| !matches!(session.doing, Doing::Done));
        waiting.map(|session| format!("primary: {session:?}")).collect()
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Handles a wake-up. Returns whether it was for a session.
    pub(crate) fn wake(&mut self, world: &mut World, index: usize) -> bool {
        let Some(index) = index.checked_sub(WAKES) else { return false };
        let session = &mut self.sessions[index];
        match session.doing {
            Doing::Nothing => self.go_on(world, index),
            Doing::Update(_) if session.impatient_at.is_some_and(|at| world.now >= at) => {
                let (worker, request) = session.waiting_for.remove(0);
                self.cancelled.insert(request);
                world.tally.count("primary: updates cancelled");
                world.cancel(worker, request);
                self.rest(world, index);
            }
            _ => {}
        }
        true
    }

    fn go_on(&mut self, world: &mut World, index: usize) {
        if self.sessions[index].left == 0 {
            self.sessions[index].doing = Doing::Done;
            return;
        }
        let PrimarySession { site, generation, .. } = self.sessions[index];
        if world.state(site) != SiteState::Up {
            return self.begin_anew(world, index);
        }
        if world.generation(site) != generation {
            self.forget(world, index);
        }
        self.sessions[index].left -= 1;
        match self.random.below(100) {
            0..45 => self.update(world, index),
            45..75 => self.read(world, index),
            75..85 => self.barrier(world, index),
            85..96 => self.move_on(world, index),
            _ => self.begin_anew(world, index),
        }
    }

    fn key(&mut self) -> String {
        format!("p{}", self.random.within(0, KEYS))
    }

    fn owner(&self, index: usize, key: &str) -> Address {
        let partition = PartitionId::of(key.as_bytes(), self.topology.partitions);
        self.topology.owner(SiteId(self.sessions[index].site as u8), partition)
    }

    fn update(&mut self, world: &mut World, index: usize) {
        let key = self.key();
        let (id, place) = (self.history.updates.len() as u64, self.history.updates.len());
        let (number, site, worker) =
            (self.sessions[index].number, self.sessions[index].site, self.owner(index, &key));
        let invoked = self.tick();
        let update = solera_primary::Update::Append(Value::from(format!("{id} ").as_bytes()));
        let command = Command::Update { key: Key::from(key.as_str()), update };
        self.history.updates.push(Update {
            session: number,
            site,
            key,
            id,
            invoked,
            accepted: None,
            applied: None,
            barrier: None,
        });
        if self.random.chance(12) {
            let at = world.now + self.random.within(1, 150 * MS);
            self.sessions[index].impatient_at = Some(at);
            world.wake(WAKES + index, at - world.now);
        }
        self.ask(world, index, Doing::Update(place), vec![(worker, command)]);
    }

    fn read(&mut self, world: &mut World, index: usize) {
        let key = self.key();
        let worker = self.owner(index, &key);
        let command = Command::Read { key: Key::from(key.as_str()) };
        self.ask(world, index, Doing::Read(key), vec![(worker, command)]);
    }

    /// Returns a command about the session's past for each worker of its site.
    fn about_past(
        &self,
        index: usize,
        command: impl Fn(Past) -> Command,
    ) -> Vec<(Address, Command)> {
        let PrimarySession { site, past, .. } = &self.sessions[index];
        let workers = (0..self.topology.workers[*site])
            .map(|worker| Address { site: SiteId(*site as u8), worker });
        let pasts = workers.map(|worker| (worker, past.of_worker(&self.topology, worker)));
        let asked = pasts.filter(|(_, past)| !past.is_empty());
        asked.map(|(worker, past)| (worker, command(past))).collect()
    }

    fn barrier(&mut self, world: &mut World, index: usize) {
        let asked = self.about_past(index, |past| Command::Barrier { past });
        let covered = self.sessions[index].applied.clone();
        self.ask(world, index, Doing::Barrier(covered, asked.len()), asked);
    }

    /// Moves to another site and attaches the session's past there.
    fn move_on(&mut self, world: &mut World, index: usize) {
        let Some(site) = self.some_site(world) else { return self.rest(world, index) };
        let invoked = self.tick();
        let session = &mut self.sessions[index];
        (session.site, session.generation) = (site, world.generation(site));
        let asked = self.about_past(index, |past| Command::Attach { past });
        self.ask(world, index, Doing::Attach(invoked, asked.len()), asked);
    }

    fn some_site(&mut self, world: &World) -> Option<usize> {
        let sites = 0..self.topology.sites();
        let up: Vec<usize> = sites.filter(|site| world.state(*site) == SiteState::Up).collect();
        (!up.is_empty()).then(|| up[self.random.below(up.len())])
    }

    /// Begins a new session at some site.
    fn begin_anew(&mut self, world: &mut World, index: usize) {
        if let Some(site) = self.some_site(world) {
            self.sessions[index].site = site;
            self.forget(world, index);
        }
        self.rest(world, index);
    }

    fn forget(&mut self, world: &World, index: usize) {
        let session = &mut self.sessions[index];
        session.number = self.numbers;
        session.generation = world.generation(session.site);
        session.past = Past::default();
        session.applied.clear();
        self.numbers += 1;
    }

    fn ask(
        &mut self,
        world: &mut World,
        index: usize,
        doing: Doing,
        asked: Vec<(Address, Command)>,
    ) {
        if asked.is_empty() {
            return self.rest(world, index);
        }
        let invoked = self.tick();
        let session = &mut self.sessions[index];
        (session.doing, session.invoked) = (doing, invoked);
        session.waiting_for.clear();
        for (worker, command) in asked {
            let request = RequestId(self.requests);
            self.requests += 1;
            self.sessions[index].waiting_for.push((worker, request));
            let writes = matches!(command, Command::Update { .. });
            if !world.example_command(worker, request, command.into(), writes) {
                return self.rest(world, index);
            }
        }
    }

    fn rest(&mut self, world: &mut World, index: usize) {
        let session = &mut self.sessions[index];
        session.doing = Doing::Nothing;
        session.impatient_at = None;
        session.waiting_for.clear();
        world.wake(WAKES + index, self.random.within(MS, 60 * MS * self.pace));
    }

    /// Handles a reply; `last` is set for the last one to the request.
    pub(crate) fn reply(
        &mut self,
        world: &mut World,
        (from, request): (Address, RequestId),
        response: &Response,
        last: bool,
    ) {
        if self.cancelled.contains(&request) {
            // The reply may have been under way when the client cancelled the request. Hosts drop
            // such replies.
            world.tally.count("primary: replies to cancelled requests");
            return;
        }
        let waits = |session: &PrimarySession| session.waiting_for.contains(&(from, request));
        let Some(index) = self.sessions.iter().position(waits) else { return };
        let now = self.tick();
        if last == matches!(response, Response::Accepted(_)) {
            self.problems.push(format!("{response:?} of {from:?} with last = {last}"));
        }
        if last {
            self.sessions[index].waiting_for.retain(|(_, other)| *other != request);
        }
        let doing = std::mem::replace(&mut self.sessions[index].doing, Doing::Nothing);
        match (doing, response) {
            (Doing::Update(place), Response::Accepted(_)) => {
                if self.history.updates[place].accepted.replace(now).is_some() {
                    self.problems.push(format!("{from:?} accepted {request:?} twice"));
                }
                self.sessions[index].doing = Doing::Update(place);
                return;
            }
            (Doing::Update(place), Response::Applied(Done { position, .. })) => {
                world.tally.count("primary: updates applied");
                self.history.updates[place].applied = Some(now);
                let key = self.history.updates[place].key.clone();
                self.note(index, &key, *position);
                self.sessions[index].applied.push(place);
            }
            (Doing::Read(key), Response::Value { value, position }) => {
                self.note(index, &key, *position);
                self.record_read(index, key, now, value.as_ref());
            }
            (Doing::Barrier(covered, left), Response::Stored) if left > 1 => {
                self.sessions[index].doing = Doing::Barrier(covered, left - 1);
                return;
            }
            (Doing::Attach(invoked, left), Response::Attached) if left > 1 => {
                self.sessions[index].doing = Doing::Attach(invoked, left - 1);
                return;
            }
            (Doing::Barrier(covered, _), Response::Stored) => {
                world.tally.count("primary: barriers kept");
                for place in covered {
                    self.history.updates[place].barrier.get_or_insert(now);
                }
            }
            (Doing::Attach(invoked, _), Response::Attached) => {
                world.tally.count("primary: sessions attached");
                let PrimarySession { number: session, site, .. } = self.sessions[index];
                self.history.attached.push(Attached { session, site, invoked, at: now });
            }
            (Doing::Attach(..), _) => self.forget(world, index),
            (_, Response::Failed(Failure::Lost)) => {
                world.tally.count("primary: sessions that had seen what was lost");
                self.forget(world, index);
            }
            (_, Response::Failed(Failure::TimedOut)) => {
                world.tally.count("primary: commands that timed out");
                // While a home is gone and not removed, each such command takes five seconds.
                let session = &mut self.sessions[index];
                session.left = session.left.saturating_sub(STEPS / 5);
            }
            (doing, response) => self.problems.push(format!("{doing:?} was answered {response:?}")),
        }
        self.rest(world, index);
    }

    fn record_read(&mut self, index: usize, key: String, ended: u64, value: Option<&Value>) {
        let list = self.list(value);
        let PrimarySession { number: session, site, generation, invoked, .. } =
            self.sessions[index];
        self.history.reads.push(Read { session, site, generation, key, invoked, ended, list });
    }

    fn note(&mut self, index: usize, key: &str, position: Position) {
        let partition = PartitionId::of(key.as_bytes(), self.topology.partitions);
        self.sessions[index].past.note(partition, position);
    }

    fn list(&mut self, value: Option<&Value>) -> Vec<u64> {
        let text = value.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        let numbers: Result<Vec<u64>, _> =
            text.unwrap_or_default().split_whitespace().map(str::parse).collect();
        numbers.unwrap_or_else(|error| {
            self.problems.push(format!("a value is no list: {error}"));
            Vec::new()
        })
    }

    /// Cuts off the sessions of a worker that no longer answers: the results of their requests are
    /// unknown.
    pub(crate) fn worker_down(&mut self, world: &mut World, worker: Address) {
        let waits =
            |session: &PrimarySession| session.waiting_for.iter().any(|(it, _)| *it == worker);
        self.give_up(world, waits);
    }

    pub(crate) fn site_down(&mut self, world: &mut World, site: usize) {
        if world.state(site) == SiteState::Destroyed {
            let at = self.tick();
            self.history.losses.push(Loss { site, generation: world.generation(site), at });
        }
        let waits = |session: &PrimarySession| {
            session.waiting_for.iter().any(|(worker, _)| worker.site.index() == site)
        };
        self.give_up(world, waits);
    }

    fn give_up(&mut self, world: &mut World, waits: impl Fn(&PrimarySession) -> bool) {
        for index in 0..self.sessions.len() {
            if waits(&self.sessions[index]) {
                if matches!(self.sessions[index].doing, Doing::Attach(..)) {
                    self.forget(world, index);
                }
                self.rest(world, index);
            }
        }
    }

    /// Describes homes that are up and have updates that another running replica lacks.
    pub(crate) fn left(&self, world: &World) -> Vec<String> {
        let mut homes: BTreeMap<PartitionId, u64> = BTreeMap::new();
        for (_, primary) in world.primaries() {
            homes.extend(primary.applied().filter(|it| it.2).map(|(id, applied, _)| (id, applied)));
        }
        let mut texts = Vec::new();
        let all_up = (0..self.topology.sites()).all(|site| world.state(site) == SiteState::Up);
        for (address, primary) in world.primaries() {
            for (id, applied, _) in primary.applied() {
                match homes.get(&id) {
                    Some(home) if *home != applied => {
                        texts.push(format!("{address:?} lacks updates of {id:?}, its home is up"));
                    }
                    None if all_up => texts.push(format!("no site is the home of {id:?}")),
                    _ => {}
                }
            }
            if primary.pending() > 0 {
                texts.push(format!("{} updates wait at {address:?}", primary.pending()));
            }
        }
        texts
    }

    /// Reads all keys at all sites, and returns the problems found.
    pub(crate) fn judge(&mut self, world: &World) -> Vec<String> {
        let mut homes: Vec<PartitionId> = Vec::new();
        for (_, primary) in world.primaries() {
            homes.extend(primary.applied().filter(|(_, _, is_home)| *is_home).map(|it| it.0));
        }
        for number in 0..KEYS {
            let key = format!("p{number}");
            let partition = PartitionId::of(key.as_bytes(), self.topology.partitions);
            let mut finals = Vec::new();
            for (address, primary) in world.primaries() {
                if self.topology.owner(address.site, partition) == address {
                    let list = self.list(primary.value(&Key::from(key.as_str())));
                    finals.push(Final { site: address.site.index(), key: key.clone(), list });
                }
            }
            if homes.contains(&partition) {
                self.history.finals.append(&mut finals);
            } else {
                // Until an operator removes the lost home, no home orders the partition's updates,
                // and replicas may differ. Judge the longest list for all of them.
                let longest = finals.into_iter().max_by_key(|it| it.list.len());
                self.history.finals.extend(longest);
            }
        }
        let found = check(&self.history).into_iter().map(|violation| violation.to_string());
        self.problems.drain(..).chain(found).collect()
    }
}

//! Sessions that roam between the sites, and the history of what they learn.

use std::collections::BTreeMap;

use solera_checker::pcpsi::{History, Operation, Outcome, Read, Transaction, Version, Write};
use solera_data::{Effect, Key, Op, Outcome as Answer, Value};
use solera_machine::{Address, Machine, RequestId};
use solera_occult::{
    AbortCause, CausalTimestamp, Command, Fate, Input, OnStale, Response, Unknown,
};

use solera_time::SiteId;

use super::{MS, World};

pub(crate) const KEYS: u64 = 7;
const SESSIONS: usize = 6;

/// An operation of a session in its transaction.
#[derive(Clone, Debug)]
enum Step {
    Get,
    Set(u64),
    Delete(u64),
}

#[derive(Debug)]
enum State {
    /// It begins its next transaction or single operation at this time.
    Idle(u64),
    Begun,
    /// It has begun a transaction, and executes its steps.
    Running {
        transaction: u64,
        done: usize,
        sent: bool,
        /// It executes the next step at this time.
        due: u64,
    },
    /// It commits this transaction.
    Committing(u64),
    Single,
    /// It reads all keys at the end, to compare sites.
    Comparing(usize),
    Over,
}

struct Session {
    number: usize,
    order: usize,
    at: Address,
    past: CausalTimestamp,
    /// Number of moves that its worker had carried out when the past was last checked for losses.
    epoch: u64,
    state: State,
    steps: Vec<(Key, Step)>,
    /// Pause before each further step of its transaction, in milliseconds.
    pause: u64,
    operations: Vec<Operation>,
    request: Option<RequestId>,
}

pub(crate) struct Sessions {
    sessions: Vec<Session>,
    next_session: usize,
    next_request: u64,
    next_id: u64,
    history: Vec<Transaction>,
    pub(crate) committed: usize,
    pub(crate) aborted: BTreeMap<String, usize>,
    pub(crate) unknown: usize,
    /// Number of sessions that learned that they depend on a lost write.
    pub(crate) lost_sessions: usize,
    /// Value of each key at each site at the end.
    compared: BTreeMap<Key, Vec<(usize, Option<u64>)>>,
    comparing: bool,
    /// Number of sites at which a transaction has read all keys at the end.
    together: usize,
    /// Transactions whose outcome is unknown: the place in the history, the worker, its
    /// incarnation, and the transaction's number.
    unanswered: Vec<(usize, Address, u64, u64)>,
    /// Number of these whose outcome was determined later.
    pub(crate) found: usize,
}

/// Returns the number of the write that made an effect, if it assigns one.
pub(crate) fn id_of(effect: &Effect) -> Option<u64> {
    std::str::from_utf8(effect.cell.assign.as_ref()?.as_bytes()).ok()?.parse().ok()
}

pub(crate) fn number(value: &Value) -> u64 {
    std::str::from_utf8(value.as_bytes()).unwrap().parse().unwrap()
}

pub(crate) fn name(key: &Key) -> String {
    String::from_utf8_lossy(key.as_bytes()).into_owned()
}

impl Sessions {
    pub(crate) fn new(world: &mut World) -> Sessions {
        let mut sessions = Sessions {
            sessions: Vec::new(),
            next_session: 0,
            next_request: 0,
            next_id: 0,
            history: Vec::new(),
            committed: 0,
            aborted: BTreeMap::new(),
            unknown: 0,
            lost_sessions: 0,
            compared: BTreeMap::new(),
            comparing: false,
            together: 0,
            unanswered: Vec::new(),
            found: 0,
        };
        for _ in 0..SESSIONS {
            let session = sessions.create(world);
            sessions.sessions.push(session);
        }
        sessions
    }

    fn create(&mut self, world: &mut World) -> Session {
        let number = self.next_session;
        self.next_session += 1;
        Session {
            number,
            order: 0,
            at: some_worker(world),
            past: CausalTimestamp::new(world.shape.scheme),
            epoch: 0,
            state: State::Idle(world.now + world.random.below(30) * MS),
            steps: Vec::new(),
            pause: 0,
            operations: Vec::new(),
            request: None,
        }
    }

    /// Ends the sessions whose workers have crashed. The outcome of what they had begun is unknown.
    pub(crate) fn lost(&mut self, workers: &[Address]) {
        for at in 0..self.sessions.len() {
            let session = &self.sessions[at];
            let idle = matches!(session.state, State::Idle(_) | State::Over);
            if workers.contains(&session.at) && !idle {
                self.unknown += 1;
                self.sessions[at].request = None;
                self.record(at, Outcome::Unknown);
                self.sessions[at].state = State::Over;
            }
        }
    }

    pub(crate) fn act(&mut self, world: &mut World, last: u64) {
        if world.now > last + 2_000 * MS && !self.comparing {
            self.comparing = true;
            self.sessions.clear();
            let dead = world.dead;
            for site in SiteId::all(world.shape.sites).filter(|site| Some(*site) != dead) {
                let mut session = self.create(world);
                session.at = Address { site, worker: 0 };
                session.state = State::Comparing(0);
                self.sessions.push(session);
            }
        }
        for at in 0..self.sessions.len() {
            if world.is_down(self.sessions[at].at) {
                if matches!(self.sessions[at].state, State::Idle(_) | State::Over) {
                    self.sessions[at].at = some_worker(world);
                }
                continue;
            }
            if !self.may_go_on(world, at) {
                continue;
            }
            match self.sessions[at].state {
                State::Over if world.now < last => self.sessions[at] = self.create(world),
                State::Idle(since) if since <= world.now && world.now < last => {
                    self.begin(world, at, last);
                }
                State::Running { transaction, done, sent: false, due }
                    if due <= world.now
                        && self.knows_losses(world, at, &self.sessions[at].steps) =>
                {
                    self.step(world, at, transaction, done);
                }
                State::Comparing(key) if self.sessions[at].request.is_none() => {
                    let past = self.sessions[at].past.clone();
                    let key = Key::from(format!("k{key}").as_str());
                    let on_stale = OnStale::Home;
                    self.send(world, at, Command::Execute { past, key, op: Op::Get, on_stale });
                }
                _ => {}
            }
        }
    }

    /// Returns whether a session's worker knows which writes of these keys are lost. A server
    /// refuses the command otherwise.
    fn knows_losses(&self, world: &World, at: usize, steps: &[(Key, Step)]) -> bool {
        let worker = &world.workers[&self.sessions[at].at];
        let shard = |key: &Key| worker.config().shard_of(key.as_bytes());
        !steps.iter().any(|(key, _)| worker.homes().is_undecided(shard(key)))
    }

    /// Returns whether the session's worker finds that this past depends on a lost write.
    fn learns_loss(&self, world: &World, at: usize, past: &CausalTimestamp) -> bool {
        let session = &self.sessions[at];
        world.shape.reports_losses() && world.workers[&session.at].has_lost(past, session.epoch)
    }

    fn end_with_loss(&mut self, at: usize) {
        self.sessions[at].state = State::Over;
        self.lost_sessions += 1;
    }

    /// Does what a server does before each command: the session ends if it depends on a lost
    /// write. Returns whether its worker knows all moves that the session has seen.
    fn may_go_on(&mut self, world: &World, at: usize) -> bool {
        let session = &self.sessions[at];
        if !matches!(session.state, State::Idle(_) | State::Running { sent: false, .. }) {
            return true;
        }
        let worker = &world.workers[&session.at];
        let homes = worker.homes();
        if homes.epoch() < session.epoch {
            return false;
        }
        if self.learns_loss(world, at, &session.past) {
            if matches!(session.state, State::Running { .. }) {
                self.record(at, Outcome::Aborted);
            }
            self.end_with_loss(at);
        } else if homes.undecided().is_empty() {
            self.sessions[at].epoch = homes.epoch();
        }
        true
    }

    fn begin(&mut self, world: &mut World, at: usize, last: u64) {
        if world.random.one_in(4) {
            let other = some_worker(world);
            if !world.is_down(other) {
                self.sessions[at].at = other;
                let idle = |it: &Self| matches!(it.sessions[at].state, State::Idle(_));
                if !self.may_go_on(world, at) || !idle(self) {
                    return;
                }
            }
        }
        let count = match world.random.below(5) {
            0..3 => 1,
            _ => 2 + world.random.below(3),
        };
        let mut steps = Vec::new();
        for _ in 0..count {
            let key = Key::from(format!("k{}", world.random.below(KEYS)).as_str());
            self.next_id += 1;
            let step = match world.random.below(7) {
                0..4 => Step::Get,
                4 if world.shape.deletes => Step::Delete(self.next_id),
                _ => Step::Set(self.next_id),
            };
            steps.push((key, step));
        }
        if !self.knows_losses(world, at, &steps) {
            return;
        }
        // Some clients wait so long that all replicas receive the writes of other clients
        // meanwhile. These clients must have ended when the sites' values are compared.
        let is_early = world.now + 4_000 * MS < last;
        let pause = match is_early && world.random.one_in(8) {
            true => 300 + world.random.below(600),
            false => 0,
        };
        let session = &mut self.sessions[at];
        (session.steps, session.pause) = (steps, pause);
        session.operations.clear();
        let past = session.past.clone();
        if count > 1 {
            session.state = State::Begun;
            return self.send(world, at, Command::Begin { past, on_stale: OnStale::Home });
        }
        let (key, step) = session.steps[0].clone();
        session.state = State::Single;
        self.note_write(at, &key, &step);
        self.send(
            world,
            at,
            Command::Execute { past, key, op: op(&step), on_stale: OnStale::Home },
        );
    }

    /// Reads all keys in one transaction. Everything is quiet, so it must commit: also two keys
    /// that one transaction has written can be read together.
    fn read_together(&mut self, world: &mut World, at: usize) {
        let session = &mut self.sessions[at];
        let keys = (0..KEYS).map(|key| Key::from(format!("k{key}").as_str()));
        session.steps = keys.map(|key| (key, Step::Get)).collect();
        session.pause = 0;
        session.operations.clear();
        session.state = State::Begun;
        let past = session.past.clone();
        self.send(world, at, Command::Begin { past, on_stale: OnStale::Home });
    }

    /// Writes count from the moment at which they may take effect.
    fn note_write(&mut self, at: usize, key: &Key, step: &Step) {
        let (id, removes) = match step {
            Step::Get => return,
            Step::Set(id) => (*id, false),
            Step::Delete(id) => (*id, true),
        };
        let write = Write { key: name(key), id, removes, stamp: None, overwrote: None };
        self.sessions[at].operations.push(Operation::Write(write));
    }

    fn step(&mut self, world: &mut World, at: usize, transaction: u64, done: usize) {
        let session = &mut self.sessions[at];
        match session.steps.get(done).cloned() {
            Some((key, step)) => {
                session.state = State::Running { transaction, done, sent: true, due: 0 };
                self.note_write(at, &key, &step);
                self.send(
                    world,
                    at,
                    Command::Operate { transaction, key, op: op(&step), validates: false },
                );
            }
            None => {
                session.state = State::Committing(transaction);
                self.send(world, at, Command::Commit { transaction });
            }
        }
    }

    fn send(&mut self, world: &mut World, at: usize, command: Command) {
        self.next_request += 1;
        let request = RequestId(self.next_request);
        let session = &mut self.sessions[at];
        session.request = Some(request);
        let address = session.at;
        let now = world.time(address.site);
        let worker = world.workers.get_mut(&address).expect("it exists");
        worker.handle(now, Input::Client { request, command });
        world.collect(address);
    }

    #[expect(clippy::too_many_lines, reason = "one arm per state and reply")]
    pub(crate) fn on_reply(&mut self, world: &mut World, request: RequestId, response: Response) {
        let found = self.sessions.iter().position(|session| session.request == Some(request));
        let Some(at) = found else { return };
        self.sessions[at].request = None;
        let state = std::mem::replace(&mut self.sessions[at].state, State::Over);
        match (state, response) {
            (State::Begun, Response::Begun(transaction)) => {
                let due = world.now;
                self.sessions[at].state = State::Running { transaction, done: 0, sent: false, due };
            }
            // A home may have been taken by force since the read. A server checks this as well.
            (State::Running { .. }, Response::Done(..))
                if self.learns_loss(world, at, &self.sessions[at].past) =>
            {
                self.record(at, Outcome::Aborted);
                self.end_with_loss(at);
            }
            (State::Single, Response::Committed { past, .. })
                if matches!(self.sessions[at].steps[..], [(_, Step::Get)])
                    && self.learns_loss(world, at, &past) =>
            {
                self.record(at, Outcome::Aborted);
                self.end_with_loss(at);
            }
            (State::Running { transaction, done, .. }, Response::Done(result, _)) => {
                let answer = result.expect("strings only");
                let (key, step) = self.sessions[at].steps[done].clone();
                self.note_read(at, &key, &step, &answer);
                let session = &mut self.sessions[at];
                let due = world.now + session.pause * MS;
                session.state = State::Running { transaction, done: done + 1, sent: false, due };
            }
            (State::Running { .. }, Response::TimedOut | Response::Ahead(_)) => {
                // Its client gives it up, and continues in a new session.
                self.record(at, Outcome::Aborted);
            }
            (State::Comparing(key), Response::Committed { outcomes, .. }) => {
                let found = match &outcomes[0] {
                    Answer::Bulk(value) => Some(number(value)),
                    _ => None,
                };
                let name = Key::from(format!("k{key}").as_str());
                self.compared.entry(name).or_default().push((at, found));
                if key + 1 < KEYS as usize {
                    self.sessions[at].state = State::Comparing(key + 1);
                } else {
                    self.read_together(world, at);
                }
            }
            (_, Response::Committed { outcomes, past, .. }) => {
                if let Some(answer) = outcomes.first() {
                    let (key, step) = self.sessions[at].steps[0].clone();
                    self.note_read(at, &key, &step, answer);
                }
                self.committed += 1;
                self.together += usize::from(self.comparing);
                self.note_acknowledged(world, at);
                self.sessions[at].past = past;
                self.record(at, Outcome::Committed);
                self.rest(world, at);
            }
            (_, Response::Aborted(cause)) => {
                let cause = match cause {
                    AbortCause::Locked(_) => "locked",
                    AbortCause::ReadSet(_) => "read set",
                    AbortCause::OverwriteSet(_) => "overwrite set",
                    AbortCause::Expired => "expired",
                    AbortCause::TimedOut => "timed out",
                    AbortCause::Moved => "moved",
                    AbortCause::Given => "given up",
                };
                *self.aborted.entry(cause.to_owned()).or_default() += 1;
                self.record(at, Outcome::Aborted);
                if self.comparing {
                    return self.read_together(world, at);
                }
                self.rest(world, at);
            }
            (state, Response::Unknown(unknown)) => {
                self.unknown += 1;
                match unknown {
                    Unknown::Past(past) => {
                        self.note_unanswered(world, at, &state);
                        self.record(at, Outcome::Unknown);
                        self.sessions[at].past = past;
                        self.rest(world, at);
                    }
                    Unknown::Pending(transaction) if world.random.one_in(2) => {
                        self.sessions[at].state = state;
                        self.send(world, at, Command::Await { transaction });
                    }
                    Unknown::Pending(transaction) => {
                        self.note_unanswered(world, at, &state);
                        self.record(at, Outcome::Unknown);
                        self.send(world, at, Command::Abort { transaction });
                        self.sessions[at].request = None;
                        self.sessions[at].state = State::Over;
                    }
                    Unknown::Lost => {
                        self.note_unanswered(world, at, &state);
                        self.record(at, Outcome::Unknown);
                        self.sessions[at].request = None;
                        self.sessions[at].state = State::Over;
                    }
                }
            }
            (State::Single, Response::TimedOut | Response::Ahead(_)) => {
                self.record(at, Outcome::Aborted);
                self.rest(world, at);
            }
            (State::Comparing(key), Response::TimedOut | Response::Ahead(_)) => {
                self.sessions[at].state = State::Comparing(key);
            }
            (state, response) => panic!("{response:?} in {state:?}"),
        }
    }

    fn note_read(&mut self, at: usize, key: &Key, step: &Step, answer: &Answer) {
        let version = match (step, answer) {
            (Step::Set(_), _) | (Step::Delete(_), Answer::Int(1)) => return,
            (Step::Get, Answer::Bulk(value)) => Version::Of(number(value)),
            (Step::Get, Answer::Nil) => Version::Absent,
            (Step::Delete(_), Answer::Int(0)) => {
                // There was nothing to delete, so the operation was only a read.
                self.sessions[at].operations.pop();
                Version::Absent
            }
            (step, answer) => panic!("{step:?} answered {answer:?}"),
        };
        let read = Read { key: name(key), version, stale: false };
        self.sessions[at].operations.push(Operation::Read(read));
    }

    /// Notes the last write of each key of a transaction.
    fn note_acknowledged(&self, world: &mut World, at: usize) {
        let session = &self.sessions[at];
        let mut last = BTreeMap::new();
        for operation in &session.operations {
            if let Operation::Write(write) = operation {
                last.insert(Key::from(write.key.as_str()), write.id);
            }
        }
        world.acknowledged.entry(session.at.site).or_default().extend(last);
    }

    fn record(&mut self, at: usize, outcome: Outcome) {
        let session = &mut self.sessions[at];
        let operations = std::mem::take(&mut session.operations);
        session.order += 1;
        self.history.push(Transaction {
            session: session.number,
            order: session.order,
            site: session.at.site.index(),
            outcome,
            operations,
        });
    }

    fn rest(&mut self, world: &mut World, at: usize) {
        let until = world.now + world.random.below(40) * MS;
        self.sessions[at].state = State::Idle(until);
    }

    fn note_unanswered(&mut self, world: &World, at: usize, state: &State) {
        if let State::Committing(number) = state {
            let worker = self.sessions[at].at;
            let incarnation = world.configs[&worker].incarnation;
            self.unanswered.push((self.history.len(), worker, incarnation, *number));
        }
    }

    /// Requests the outcomes of transactions that were not answered in time.
    pub(crate) fn find_outcomes(&mut self, world: &mut World) {
        for (place, worker, incarnation, number) in std::mem::take(&mut self.unanswered) {
            let answer = world.ask(worker, Command::Outcome { incarnation, number });
            self.history[place].outcome = match answer {
                Some(Response::Outcome(Fate::Committed)) => Outcome::Committed,
                Some(Response::Outcome(Fate::Aborted)) => Outcome::Aborted,
                Some(Response::Outcome(Fate::Restarted)) | None => continue,
                // The home that would have known was taken by force.
                Some(Response::Outcome(Fate::Forgotten)) if world.shape.lost.is_some() => continue,
                other => panic!("{other:?} {worker:?} {number}"),
            };
            self.found += 1;
        }
    }

    /// Returns the history, with the stamps that homes have shown.
    pub(crate) fn finish(&mut self, stamps: &BTreeMap<(Key, u64), (SiteId, u64)>) -> History {
        for at in 0..self.sessions.len() {
            if !self.sessions[at].operations.is_empty() {
                self.sessions[at].request = None;
                self.record(at, Outcome::Unknown);
            }
        }
        let mut transactions = std::mem::take(&mut self.history);
        for transaction in &mut transactions {
            for operation in &mut transaction.operations {
                if let Operation::Write(write) = operation {
                    let key = Key::from(write.key.as_str());
                    write.stamp = stamps.get(&(key, write.id)).map(|(_, stamp)| *stamp);
                }
            }
        }
        History { transactions }
    }

    /// Returns keys of which sites have different values at the end, and sites at which no
    /// transaction could read all keys. A stamp that is ahead of a home's clock can make the home's
    /// copies look old, so this is judged only if the clocks have passed all stamps.
    pub(crate) fn differences(&self, passed: bool) -> Vec<String> {
        let differ = self
            .compared
            .iter()
            .filter(|(_, found)| found.iter().any(|(_, value)| *value != found[0].1));
        let mut found: Vec<String> =
            differ.map(|(key, values)| format!("{}: {values:?}", name(key))).collect();
        if self.compared.len() < KEYS as usize {
            found.push("not all keys were compared".to_owned());
        }
        if passed && self.together < self.sessions.len() {
            let states: Vec<&State> = self.sessions.iter().map(|it| &it.state).collect();
            let together = self.together;
            found.push(format!("all keys are read together at {together} sites: {states:?}"));
        }
        found
    }
}

fn op(step: &Step) -> Op {
    match step {
        Step::Get => Op::Get,
        Step::Set(id) => Op::Set(Value::from(id.to_string().as_str())),
        Step::Delete(_) => Op::Delete,
    }
}

fn some_worker(world: &mut World) -> Address {
    let all: Vec<Address> = world.workers.keys().copied().collect();
    all[world.random.index(all.len())]
}

//! Sessions whose transactions name guards, for which `trial` hands out units, and a check of the
//! results.
//!
//! Each attempt adds its number to sets that no other client writes. The data therefore shows which
//! attempts committed; it is compared with the clients' answers and with the units that guards have
//! spent.

mod judge;

use std::collections::BTreeSet;

use solera_data::{Key, Op, Value};
use solera_levels::Level;
use solera_machine::{Address, Guard, Guarded, RequestId};
use solera_time::Vector;
use solera_trial::Claim;
use solera_unistore::{Command, CommandError, ExecuteGuarded, Kind, Response, TxId};

use crate::queue::MS;
use crate::random::Random;
use crate::scenario::Scenario;
use crate::sessions::{Load, Sessions};
use crate::world::{World, WorldEvent};
use judge::Judge;

const LOAD: Load = Load {
    name: "guarded",
    wakes: 1 << 43,
    requests: 5 << 60,
    steps: 45,
    begin: 200 * MS,
    pause: 50 * MS,
};
const SESSIONS: usize = 5;
/// Number of attempts of a site that claim units of the same keys. There are fewer units than
/// attempts.
const ATTEMPTS_PER_KEY: u64 = 12;

/// A client's knowledge of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It was not committed, and never will be.
    Never,
    Maybe,
    Committed,
}

/// A transaction, or a command, with guards.
#[derive(Clone, Debug)]
struct Attempt {
    site: usize,
    generation: u32,
    units: u32,
    /// Keys that have a guard.
    guarded: BTreeSet<Key>,
    /// Sets that the attempt adds its number to.
    sets: Vec<(Key, Level)>,
    fate: Fate,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Doing {
    /// A single command, and the time at which the session cancels it, if it does.
    Single(Option<u64>),
    Begin,
    /// Number of sets written.
    Operate(usize),
    /// Number of guards named.
    Guard(usize),
    Commit,
    /// A command that must be rejected with an error.
    Wrong,
}

/// The sessions, and their observations.
#[derive(Debug)]
pub(crate) struct GuardedSessions {
    sessions: Sessions<Doing>,
    /// Guards of the sessions' present attempts.
    guards: Vec<Vec<Guard>>,
    attempts: Vec<Attempt>,
    /// Requests that must get no further reply: they were answered, or cancelled in a world without
    /// journals, where no reply can be under way.
    over: BTreeSet<(Address, RequestId)>,
    durable: bool,
    judge: Judge,
}

impl GuardedSessions {
    pub(crate) fn new(scenario: &Scenario, world: &mut World) -> Self {
        let random = Random::new(scenario.seed.wrapping_mul(49_979_687).wrapping_add(13));
        let workers = scenario.topology.all_workers().collect();
        let count = if scenario.trial { SESSIONS } else { 0 };
        GuardedSessions {
            sessions: Sessions::new(LOAD, count, workers, random, world),
            guards: vec![Vec::new(); count],
            attempts: Vec::new(),
            over: BTreeSet::new(),
            durable: scenario.durable,
            judge: Judge::new(scenario),
        }
    }

    /// Returns whether every session has finished.
    pub(crate) fn all_done(&self) -> bool {
        self.sessions.all_done()
    }

    /// Returns the sessions that are not finished.
    pub(crate) fn stuck(&self) -> Vec<String> {
        self.sessions.stuck()
    }

    /// Handles an event. Returns it if it is not for these sessions only.
    pub(crate) fn observe(
        &mut self,
        world: &mut World,
        world_event: WorldEvent,
    ) -> Option<WorldEvent> {
        match world_event {
            WorldEvent::Wake(number) => match self.sessions.woken(number) {
                Some(index) => self.wake(world, index),
                None => return Some(world_event),
            },
            WorldEvent::Refused(from, request) if self.sessions.is_own(request) => {
                if let Some((index, _)) = self.sessions.waiting(from, request) {
                    self.end(world, index, Fate::Never, "guarded: not taken");
                }
            }
            // The worker has died.
            WorldEvent::Unanswered(from, request) if self.sessions.is_own(request) => {
                if let Some((index, _)) = self.sessions.waiting(from, request) {
                    self.end(world, index, Fate::Never, "guarded: unanswered");
                }
            }
            WorldEvent::Reply(from, request, response) if self.sessions.is_own(request) => {
                self.reply(world, (from, request), response);
            }
            other => {
                self.sessions.give_up(world, &other);
                return Some(other);
            }
        }
        None
    }

    fn wake(&mut self, world: &mut World, index: usize) {
        let session = &self.sessions[index];
        match session.doing {
            None => self.begin(world, index),
            Some(Doing::Single(Some(impatient_at))) if world.now >= impatient_at => {
                let (worker, request) = (session.worker, session.request);
                world.tally.count("guarded: singles cancelled");
                world.cancel(worker, request);
                // With journals, a reply may still wait for the journal.
                if !self.durable {
                    self.over.insert((worker, request));
                }
                self.sessions.rest(world, index);
            }
            Some(_) => {}
        }
    }

    fn begin(&mut self, world: &mut World, index: usize) {
        let Some(worker) = self.sessions.begin(world, index) else { return };
        let attempt = self.new_attempt(world, worker.site.index());
        self.guards[index] = self.guards_of(attempt);
        self.sessions[index].attempt = attempt;
        match self.sessions.random.below(100) {
            0..40 => self.single(world, index),
            40..45 => self.wrong_guard(world, index),
            _ => {
                let strong = self.sessions.random.chance(5);
                let doing = if strong { Doing::Wrong } else { Doing::Begin };
                let past = Vector::zero(self.judge.sites());
                self.sessions.ask(world, index, doing, Command::Begin { past, strong });
            }
        }
    }

    fn new_attempt(&mut self, world: &World, site: usize) -> usize {
        let generation = world.generation(site);
        let before = self
            .attempts
            .iter()
            .filter(|it| (it.site, it.generation) == (site, generation))
            .count();
        let bucket = before as u64 / ATTEMPTS_PER_KEY;
        let key =
            |letter| Key::from(format!("{letter}-guard-{site}-{generation}-{bucket}").as_str());
        let sets = vec![(key("s"), Level::Causal), (key("e"), Level::Eventual)];
        // The keys are one each of a causal, an eventual and a strong space.
        let keys = ["s", "e", "v"].map(key);
        let mut guarded: BTreeSet<Key> =
            keys.iter().filter(|_| self.sessions.random.chance(50)).cloned().collect();
        if guarded.is_empty() {
            guarded.insert(keys[self.sessions.random.below(keys.len())].clone());
        }
        let units = if self.sessions.random.chance(10) {
            0
        } else {
            self.sessions.random.within(1, 4) as u32
        };
        let fate = Fate::Never;
        self.attempts.push(Attempt { site, generation, units, guarded, sets, fate });
        self.attempts.len() - 1
    }

    fn guards_of(&mut self, attempt: usize) -> Vec<Guard> {
        let units = self.attempts[attempt].units;
        let steps = match self.sessions.random.below(100) {
            0..50 => 0,
            50..97 => self.sessions.random.within(1, 30_000),
            // This is longer than participants may take.
            _ => self.sessions.random.within(300_000, 600_000),
        };
        let claim = Claim { id: attempt as u64, units, steps: steps as u32 }.encode();
        let keys = self.attempts[attempt].guarded.iter();
        let guard = |key: &Key| Guard {
            key: key.as_bytes().to_vec(),
            protocol: solera_trial::PROTOCOL.number,
            claim: claim.clone(),
        };
        keys.map(guard).collect()
    }

    fn op(&self, attempt: usize) -> Op {
        Op::SetAdd(vec![Value::from(attempt.to_string().as_bytes().to_vec())])
    }

    /// Executes a command of one operation, on one of the sets.
    fn single(&mut self, world: &mut World, index: usize) {
        let attempt = self.sessions[index].attempt;
        let place = self.sessions.random.below(2);
        self.attempts[attempt].sets.swap_remove(place);
        let (key, level) = self.attempts[attempt].sets[0].clone();
        let guards = self.guards[index].drain(..).collect();
        let mut impatient_at = None;
        if self.sessions.random.chance(20) {
            let patience = self.sessions.random.within(1, 20 * MS);
            impatient_at = Some(world.now + patience);
            world.wake(LOAD.wakes + index, patience);
        }
        let past = Vector::zero(self.judge.sites());
        let op = self.op(attempt);
        let it = ExecuteGuarded { past, level, key, op, guards };
        self.attempts[attempt].fate = Fate::Maybe;
        let command = Command::ExecuteGuarded(Box::new(it));
        self.sessions.ask(world, index, Doing::Single(impatient_at), command);
    }

    /// Executes a command with a guard that no worker has.
    fn wrong_guard(&mut self, world: &mut World, index: usize) {
        let attempt = self.sessions[index].attempt;
        let (key, level) = self.attempts[attempt].sets[0].clone();
        let mut guards: Guarded = self.guards[index].drain(..).collect();
        let unknown = Guard { key: key.as_bytes().to_vec(), protocol: 77, claim: Vec::new() };
        guards = guards.and(unknown.into());
        let past = Vector::zero(self.judge.sites());
        let op = self.op(attempt);
        let it = ExecuteGuarded { past, level, key, op, guards };
        self.sessions.ask(world, index, Doing::Wrong, Command::ExecuteGuarded(Box::new(it)));
    }

    /// Handles a reply to a request of these sessions.
    fn reply(
        &mut self,
        world: &mut World,
        (from, request): (Address, RequestId),
        response: Response,
    ) {
        if self.judge.reply(request, &response) {
            return;
        }
        if !self.over.insert((from, request)) {
            let what = format!("{from:?} answers {request:?} once more: {response:?}");
            return self.judge.problem(what);
        }
        let Some((index, doing)) = self.sessions.waiting(from, request) else { return };
        match (doing, response) {
            (Doing::Begin, Response::Begun(tx)) => {
                self.sessions[index].tx = Some(tx);
                self.go_on(world, index, tx, 0);
            }
            // The transaction is strong, so it must not name guards.
            (Doing::Wrong, Response::Begun(tx)) => {
                let guards = self.guards[index].drain(..).collect();
                self.sessions.ask(world, index, Doing::Wrong, Command::Guard { tx, guards });
            }
            (Doing::Operate(done), Response::Operated(Ok(_))) => {
                if let Some(tx) = self.sessions[index].tx {
                    self.go_on(world, index, tx, done);
                }
            }
            (Doing::Guard(done), Response::Guarded) => {
                if let Some(tx) = self.sessions[index].tx {
                    self.name_guard(world, index, tx, done);
                }
            }
            (Doing::Wrong, response) => self.note_wrong(world, index, &response),
            (Doing::Single(_), Response::Executed { outcome: Ok(_), .. })
            | (Doing::Commit, Response::Committed { .. }) => {
                self.end(world, index, Fate::Committed, "guarded: committed");
            }
            (doing, Response::Failed(error)) => self.note_failed(world, index, &doing, &error),
            (doing, response) => {
                self.judge.problem(format!("{doing:?} was answered {response:?}"));
                self.sessions.rest(world, index);
            }
        }
    }

    /// Sends the next operation, or names the guards.
    fn go_on(&mut self, world: &mut World, index: usize, tx: TxId, done: usize) {
        let attempt = self.sessions[index].attempt;
        let Some((key, level)) = self.attempts[attempt].sets.get(done).cloned() else {
            return self.name_guard(world, index, tx, 0);
        };
        let (op, kind) = (self.op(attempt), Kind::UPDATE);
        let command = Command::Operate { tx, level, key, op, kind };
        self.sessions.ask(world, index, Doing::Operate(done + 1), command);
    }

    /// Names the next guard, or commits; some clients abandon their transactions instead.
    fn name_guard(&mut self, world: &mut World, index: usize, tx: TxId, done: usize) {
        if let Some(guard) = self.guards[index].get(done).cloned() {
            let command = Command::Guard { tx, guards: guard.into() };
            return self.sessions.ask(world, index, Doing::Guard(done + 1), command);
        }
        if self.sessions.random.chance(5) {
            return self.end(world, index, Fate::Never, "guarded: left alone");
        }
        let attempt = self.sessions[index].attempt;
        self.attempts[attempt].fate = Fate::Maybe;
        self.sessions.ask(world, index, Doing::Commit, Command::Commit { tx, claim: None });
    }

    fn note_wrong(&mut self, world: &mut World, index: usize, response: &Response) {
        match response {
            Response::Failed(CommandError::NoGuard { protocol: 77 }) => {
                self.end(world, index, Fate::Never, "guarded: unknown guards refused");
            }
            Response::Failed(CommandError::StrongGuarded) => {
                self.end(world, index, Fate::Never, "guarded: strong transactions refused");
            }
            Response::Failed(CommandError::NoSuchTransaction) => {
                self.end(world, index, Fate::Never, "guarded: not in time");
            }
            response => {
                self.judge.problem(format!("what is wrong was answered {response:?}"));
                self.sessions.rest(world, index);
            }
        }
    }

    fn note_failed(
        &mut self,
        world: &mut World,
        index: usize,
        doing: &Doing,
        error: &CommandError,
    ) {
        let attempt = &self.attempts[self.sessions[index].attempt];
        let (fate, what) = match error {
            CommandError::Unconfirmed { .. } => (Fate::Committed, "guarded: unconfirmed"),
            CommandError::Guarded { refusal, .. } => {
                let is_named = attempt.guarded.iter().any(|key| key.as_bytes() == refusal.key);
                if !is_named || refusal.protocol != solera_trial::PROTOCOL.number {
                    self.judge.problem(format!("{attempt:?} was refused by {refusal:?}"));
                }
                (Fate::Never, "guarded: refused")
            }
            CommandError::PartitionSlow
            | CommandError::NoSuchTransaction
            | CommandError::NotHereYet => (Fate::Never, "guarded: not in time"),
            error => {
                self.judge.problem(format!("{doing:?} failed: {error:?}"));
                (Fate::Maybe, "guarded: other errors")
            }
        };
        self.end(world, index, fate, what);
    }

    fn end(&mut self, world: &mut World, index: usize, fate: Fate, what: &'static str) {
        let attempt = self.sessions[index].attempt;
        self.attempts[attempt].fate = fate;
        world.tally.count(what);
        self.sessions.rest(world, index);
    }

    /// Reads all sets at the sites that are up.
    pub(crate) fn final_reads(&mut self, world: &mut World) {
        let first = self.sessions.new_request();
        self.judge.read(world, &self.attempts, first.0);
    }

    /// Returns the problems found.
    pub(crate) fn judge(&mut self, world: &World) -> Vec<String> {
        self.judge.judge(world, &self.attempts)
    }
}

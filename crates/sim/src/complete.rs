//! Sessions that change counters of causal spaces and perform complete reads, and a check that the
//! reads and all updates have one linearizable order, by [`solera_checker::interval`].
//!
//! The counters are changed by single commands, causal transactions and strong transactions, at all
//! sites. Nothing else changes them.

use std::collections::BTreeMap;

use solera_checker::interval::{self, History, Read, Update};
use solera_data::{Key, Op, Outcome};
use solera_levels::Level;
use solera_machine::{Address, RequestId};
use solera_time::Vector;
use solera_unistore::{Command, CommandError, Kind, Response, TxId};

use crate::queue::MS;
use crate::random::Random;
use crate::scenario::Scenario;
use crate::sessions::{Load, Sessions};
use crate::world::{SiteState, World, WorldEvent};

const LOAD: Load = Load {
    name: "complete reads",
    wakes: 1 << 46,
    requests: 15 << 58,
    steps: 40,
    begin: 100 * MS,
    pause: 60 * MS,
};
const SESSIONS: usize = 4;
const KEYS: u64 = 3;
/// Percentage of the reads that are cancelled, unless they are answered before.
const CANCELLED: usize = 10;
/// Largest number of states that the check of a history may need before it falls back to bounds.
const STATES: usize = 400;

#[derive(Clone, Debug)]
enum Doing {
    Read {
        key: Key,
        begin: u64,
    },
    Single,
    Begin,
    /// Number of operations that were requested.
    Operate(usize),
    Commit,
}

/// An attempt to change counters, as its client knows it.
#[derive(Debug)]
struct Attempt {
    changes: Vec<(Key, i64)>,
    strong: bool,
    /// When it may first take effect; `None` if it was not submitted.
    begin: Option<u64>,
    end: Option<u64>,
    never: bool,
    site: usize,
    generation: u32,
}

/// A read that was answered, and the site that answered it.
#[derive(Debug)]
struct Answered {
    read: Read,
    site: usize,
    generation: u32,
}

/// The sessions, and what they observed.
#[derive(Debug)]
pub(crate) struct CompleteReaders {
    sites: usize,
    has_strong: bool,
    sessions: Sessions<Doing>,
    attempts: Vec<Attempt>,
    reads: BTreeMap<Key, Vec<Answered>>,
    problems: Vec<String>,
}

impl CompleteReaders {
    pub(crate) fn new(scenario: &Scenario, world: &mut World) -> CompleteReaders {
        let random = Random::new(scenario.seed.wrapping_mul(86_028_221).wrapping_add(31));
        let workers = scenario.topology.all_workers().collect();
        let count = if scenario.complete_reads { SESSIONS } else { 0 };
        CompleteReaders {
            sessions: Sessions::new(LOAD, count, workers, random, world),
            sites: scenario.topology.sites(),
            has_strong: scenario.strong_share > 0,
            attempts: Vec::new(),
            reads: BTreeMap::new(),
            problems: Vec::new(),
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
    pub(crate) fn observe(&mut self, world: &mut World, event: WorldEvent) -> Option<WorldEvent> {
        match event {
            WorldEvent::Wake(number) => match self.sessions.woken(number) {
                Some(index) => self.wake(world, index),
                None => return Some(event),
            },
            WorldEvent::Refused(from, request) if self.sessions.is_own(request) => {
                if let Some((index, doing)) = self.sessions.waiting(from, request) {
                    self.end(world, index, &doing, Fate::Never);
                }
            }
            WorldEvent::Unanswered(from, request) if self.sessions.is_own(request) => {
                if let Some((index, doing)) = self.sessions.waiting(from, request) {
                    self.end(world, index, &doing, Fate::Unknown);
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
            // The client cancels its read.
            Some(Doing::Read { .. }) => {
                world.cancel(session.worker, session.request);
                world.tally.count("complete reads: cancelled");
                return self.sessions.rest(world, index);
            }
            Some(_) => return,
            None => {}
        }
        if self.sessions.begin(world, index).is_none() {
            return;
        }
        match self.sessions.random.below(100) {
            0..45 => self.read(world, index),
            45..75 => {
                let changes = vec![self.change()];
                self.attempt(world, index, changes, None);
            }
            kind => {
                let changes = vec![self.change(), self.change()];
                self.attempt(world, index, changes, Some(self.has_strong && kind >= 85));
            }
        }
    }

    fn key(&mut self) -> Key {
        Key::from(format!("c{}", self.sessions.random.within(0, KEYS)).as_str())
    }

    fn change(&mut self) -> (Key, i64) {
        let amount = self.sessions.random.within(1, 100) as i64;
        (self.key(), if self.sessions.random.below(3) == 0 { -amount } else { amount })
    }

    fn read(&mut self, world: &mut World, index: usize) {
        let (key, begin) = (self.key(), world.now);
        let doing = Doing::Read { key: key.clone(), begin };
        let past = Vector::zero(self.sites);
        self.sessions.ask(world, index, doing, Command::ReadComplete { past, key, op: Op::Get });
        if self.sessions.random.below(100) < CANCELLED {
            world.wake(LOAD.wakes + index, self.sessions.random.within(0, 200 * MS));
        }
    }

    /// Submits a single command, or begins a transaction; `strong`: of which kind.
    fn attempt(
        &mut self,
        world: &mut World,
        index: usize,
        changes: Vec<(Key, i64)>,
        strong: Option<bool>,
    ) {
        self.sessions[index].attempt = self.attempts.len();
        let site = self.sessions[index].worker.site.index();
        let past = Vector::zero(self.sites);
        let (doing, command) = match strong {
            Some(strong) => (Doing::Begin, Command::Begin { past, strong }),
            None => {
                let (key, op) = (changes[0].0.clone(), Op::IncrBy(changes[0].1));
                (Doing::Single, Command::Execute { past, level: Level::Causal, key, op })
            }
        };
        self.attempts.push(Attempt {
            changes,
            strong: strong == Some(true),
            begin: strong.is_none().then_some(world.now),
            end: None,
            never: false,
            site,
            generation: world.generation(site),
        });
        self.sessions.ask(world, index, doing, command);
    }

    fn reply(
        &mut self,
        world: &mut World,
        (from, request): (Address, RequestId),
        response: Response,
    ) {
        let Some((index, doing)) = self.sessions.waiting(from, request) else { return };
        match (doing, response) {
            (Doing::Read { key, begin }, Response::Executed { outcome, .. }) => {
                self.note_read(world, from, key, begin, outcome.ok());
                self.sessions.rest(world, index);
            }
            (Doing::Read { .. }, Response::Failed(error)) => {
                world.tally.count(match error {
                    CommandError::SiteTimedOut { .. } => "complete reads: a site is silent",
                    CommandError::Changing { .. } => "complete reads: the key changes",
                    _ => "complete reads: other errors",
                });
                self.sessions.rest(world, index);
            }
            (Doing::Begin, Response::Begun(tx)) => {
                self.sessions[index].tx = Some(tx);
                self.go_on(world, index, tx, 0);
            }
            (Doing::Operate(done), Response::Operated(Ok(_))) => {
                if let Some(tx) = self.sessions[index].tx {
                    self.go_on(world, index, tx, done);
                }
            }
            (doing @ Doing::Single, Response::Executed { outcome: Ok(_), .. })
            | (doing @ Doing::Commit, Response::Committed { .. }) => {
                self.end(world, index, &doing, Fate::Committed);
            }
            (doing, Response::Failed(error)) => {
                // Only a commit can leave the outcome unknown.
                let known = match error {
                    CommandError::Unavailable { tid, .. } => tid.is_none(),
                    CommandError::Unconfirmed { .. } => false,
                    _ => true,
                };
                let never = known || !matches!(doing, Doing::Commit | Doing::Single);
                self.end(world, index, &doing, if never { Fate::Never } else { Fate::Unknown });
            }
            (doing, response) => {
                self.problems.push(format!("{doing:?} was answered {response:?}"));
                self.end(world, index, &doing, Fate::Unknown);
            }
        }
    }

    fn note_read(
        &mut self,
        world: &mut World,
        from: Address,
        key: Key,
        begin: u64,
        outcome: Option<Outcome>,
    ) {
        let value = match outcome {
            Some(Outcome::Nil) => Some(0),
            Some(Outcome::Bulk(value)) => value.to_string().parse().ok(),
            _ => None,
        };
        let Some(value) = value else {
            return self.problems.push(format!("a read of {key} has no number"));
        };
        world.tally.count("complete reads: answered");
        let read = Read { least: value, greatest: value, begin, end: world.now };
        let site = from.site.index();
        let answered = Answered { read, site, generation: world.generation(site) };
        self.reads.entry(key).or_default().push(answered);
    }

    /// Sends the next operation of a transaction, or its commit.
    fn go_on(&mut self, world: &mut World, index: usize, tx: TxId, done: usize) {
        let attempt = &mut self.attempts[self.sessions[index].attempt];
        if let Some((key, amount)) = attempt.changes.get(done) {
            let (level, op, kind) = (Level::Causal, Op::IncrBy(*amount), Kind::UPDATE);
            let command = Command::Operate { tx, level, key: key.clone(), op, kind };
            return self.sessions.ask(world, index, Doing::Operate(done + 1), command);
        }
        attempt.begin = Some(world.now);
        self.sessions.ask(world, index, Doing::Commit, Command::Commit { tx, claim: None });
    }

    fn end(&mut self, world: &mut World, index: usize, doing: &Doing, fate: Fate) {
        if !matches!(doing, Doing::Read { .. }) {
            let attempt = &mut self.attempts[self.sessions[index].attempt];
            match fate {
                Fate::Committed => attempt.end = Some(world.now),
                Fate::Never => attempt.never = true,
                Fate::Unknown => {}
            }
        }
        self.sessions.rest(world, index);
    }

    /// Returns the problems found.
    pub(crate) fn judge(&mut self, world: &mut World) -> Vec<String> {
        for key in 0..KEYS {
            let key = Key::from(format!("c{key}").as_str());
            match interval::check(&self.history(world, &key), STATES) {
                Ok(true) => world.tally.count("complete reads: histories decided"),
                Ok(false) => world.tally.count("complete reads: histories compared with bounds"),
                Err(violation) => self.problems.push(format!("{key}: {violation:?}")),
            }
        }
        std::mem::take(&mut self.problems)
    }

    fn history(&self, world: &World, key: &Key) -> History {
        let is_lost = |site: usize, generation: u32| {
            generation < world.generation(site) || world.state(site) == SiteState::Destroyed
        };
        let mut updates = Vec::new();
        for attempt in self.attempts.iter().filter(|it| !it.never) {
            let Some(begin) = attempt.begin else { continue };
            let of_key = attempt.changes.iter().filter(|(of, _)| of == key);
            let amount: i128 = of_key.map(|(_, amount)| i128::from(*amount)).sum();
            if amount == 0 {
                continue;
            }
            // The removal of a site may lose a causal update that no other site has shown.
            let lost = !attempt.strong && is_lost(attempt.site, attempt.generation);
            let end = attempt.end.filter(|_| !lost);
            updates.push(Update { amount, begin, end });
        }
        // A removed site may have shown its own updates, which are lost.
        let reads = self.reads.get(key).into_iter().flatten();
        let reads = reads.filter(|it| !is_lost(it.site, it.generation)).map(|it| it.read);
        History { start: 0, updates, reads: reads.collect(), floor: None }
    }
}

/// Outcome of an attempt, as its client learns it.
enum Fate {
    Committed,
    Never,
    Unknown,
}

//! Sessions that use `trial`, and checks of their answers: jobs, requests to UniStore,
//! cancellation, lanes, removals.

use std::collections::{BTreeMap, BTreeSet};

use solera_data::Key;
use solera_machine::{Address, RequestId};
use solera_time::SiteId;
use solera_trial::{Answer, Command, Event, Response, chain};

use crate::queue::MS;
use crate::random::Random;
use crate::scenario::Scenario;
use crate::world::{SiteState, World};

/// Wake-ups of these sessions, beyond those of other clients.
const WAKES: usize = 1 << 42;
/// Requests of these sessions.
const REQUESTS: u64 = 3 << 60;
const SESSIONS: usize = 4;
/// Number of steps of each session.
const STEPS: usize = 40;
const KEYS: u64 = 2;
/// Greatest time after which a client cancels a computation, if it does.
const PATIENCE: u64 = 20 * MS;

#[derive(Clone, Debug)]
enum Doing {
    Nothing,
    /// A computation: its size, the number of pieces done, and the latest result.
    Compute {
        steps: u32,
        pieces: u32,
        done: u32,
        end: u64,
    },
    /// An addition to a counter, and the greatest value that was known before.
    Add {
        key: u64,
        before: i64,
    },
    Burst,
    Done,
}

#[derive(Debug)]
struct TrialSession {
    doing: Doing,
    worker: Address,
    request: RequestId,
    left: usize,
    /// Time at which the session cancels a computation.
    impatient_at: Option<u64>,
}

/// The counter of one key.
#[derive(Debug, Default)]
struct Counter {
    invoked: i64,
    /// Values that answered the additions.
    answered: Vec<i64>,
}

/// The sessions, and their observations.
#[derive(Debug)]
pub(crate) struct TrialSessions {
    workers: Vec<Address>,
    sessions: Vec<TrialSession>,
    random: Random,
    requests: u64,
    counters: BTreeMap<u64, Counter>,
    /// Workers that have completed the removal of a generation of a site.
    completed: BTreeSet<(Address, SiteId, u32)>,
    problems: Vec<String>,
}

impl TrialSessions {
    pub(crate) fn new(scenario: &Scenario, world: &mut World) -> Self {
        let mut random = Random::new(scenario.seed.wrapping_mul(15_485_863).wrapping_add(11));
        let workers: Vec<Address> = scenario.topology.all_workers().collect();
        let count = if scenario.trial { SESSIONS } else { 0 };
        let sessions = (0..count)
            .map(|index| {
                world.wake(WAKES + index, random.within(0, 200 * MS));
                let (worker, request) = (workers[0], RequestId(0));
                TrialSession {
                    doing: Doing::Nothing,
                    worker,
                    request,
                    left: STEPS,
                    impatient_at: None,
                }
            })
            .collect();
        TrialSessions {
            workers,
            sessions,
            random,
            requests: REQUESTS,
            counters: BTreeMap::new(),
            completed: BTreeSet::new(),
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
        waiting.map(|session| format!("trial: {session:?}")).collect()
    }

    /// Handles a wake-up. Returns whether it was for a session.
    pub(crate) fn wake(&mut self, world: &mut World, index: usize) -> bool {
        let Some(index) = index.checked_sub(WAKES) else { return false };
        let session = &mut self.sessions[index];
        match session.doing {
            Doing::Nothing if session.left == 0 => session.doing = Doing::Done,
            Doing::Nothing => self.begin(world, index),
            Doing::Compute { .. } if session.impatient_at.is_some_and(|at| world.now >= at) => {
                let (worker, request) = (session.worker, session.request);
                world.tally.count("trial: computations cancelled");
                world.cancel(worker, request);
                self.rest(world, index);
            }
            _ => {}
        }
        true
    }

    fn begin(&mut self, world: &mut World, index: usize) {
        let up = |worker: &&Address| world.state(worker.site.index()) == SiteState::Up;
        let up: Vec<Address> = self.workers.iter().filter(up).copied().collect();
        self.sessions[index].left -= 1;
        if up.is_empty() {
            return self.rest(world, index);
        }
        let worker = up[self.random.below(up.len())];
        let (doing, command) = match self.random.below(100) {
            0..45 => self.compute(world, index),
            45..75 => self.add(),
            _ => {
                let others = self.workers.iter().filter(|other| **other != worker);
                let others: Vec<Address> = others.copied().collect();
                let Some(to) = others.get(self.random.below(others.len().max(1))) else {
                    return self.rest(world, index);
                };
                let count = self.random.within(1, 20) as u32;
                (Doing::Burst, Command::Burst { to: *to, count })
            }
        };
        let request = RequestId(self.requests);
        self.requests += 1;
        let session = &mut self.sessions[index];
        (session.doing, session.worker, session.request) = (doing, worker, request);
        if !world.example_command(worker, request, command.into(), false) {
            self.rest(world, index);
        }
    }

    fn compute(&mut self, world: &mut World, index: usize) -> (Doing, Command) {
        let (start, pieces) = (self.random.next(), self.random.within(1, 5) as u32);
        let steps = self.random.within(10, 10_000) as u32;
        if self.random.chance(20) {
            let at = world.now + self.random.within(1, PATIENCE);
            self.sessions[index].impatient_at = Some(at);
            world.wake(WAKES + index, at - world.now);
        }
        let doing = Doing::Compute { steps, pieces, done: 0, end: start };
        (doing, Command::Compute { start, steps, pieces })
    }

    fn add(&mut self) -> (Doing, Command) {
        let key = self.random.within(0, KEYS - 1);
        let counter = self.counters.entry(key).or_default();
        counter.invoked += 1;
        let before = counter.answered.iter().copied().max().unwrap_or(0);
        let name = Key::from(format!("trial{key}").as_str());
        (Doing::Add { key, before }, Command::Add { key: name, amount: 1 })
    }

    fn rest(&mut self, world: &mut World, index: usize) {
        let session = &mut self.sessions[index];
        session.doing = Doing::Nothing;
        session.impatient_at = None;
        world.wake(WAKES + index, self.random.within(MS, 60 * MS));
    }

    /// Handles a reply; `last` is set for the last one to the request.
    pub(crate) fn reply(
        &mut self,
        world: &mut World,
        (from, request): (Address, RequestId),
        response: &Response,
        last: bool,
    ) {
        let waits = |session: &TrialSession| {
            session.request == request
                && session.worker == from
                && !matches!(session.doing, Doing::Nothing | Doing::Done)
        };
        let Some(index) = self.sessions.iter().position(waits) else { return };
        let doing = self.sessions[index].doing.clone();
        match (doing, response) {
            (
                Doing::Compute { steps, pieces, done, end },
                Response::Computed { pieces: now, end: at },
            ) => {
                let expected = chain(end, steps);
                if *now != done + 1 || *at != expected || last != (*now == pieces) {
                    self.problems.push(format!("piece {} of {pieces}: {response:?}", done + 1));
                }
                world.tally.count("trial: jobs done");
                let doing = Doing::Compute { steps, pieces, done: *now, end: *at };
                self.sessions[index].doing = doing;
                if !last {
                    return;
                }
            }
            (Doing::Add { key, before }, Response::Added(answer)) => {
                self.note_added(world, key, before, answer);
            }
            (Doing::Burst, Response::Sent) => world.tally.count("trial: bursts sent"),
            (doing, response) => {
                self.problems.push(format!("{doing:?} was answered {response:?}"));
            }
        }
        self.rest(world, index);
    }

    /// Checks that the counter has one order of additions, which agrees with the order of their
    /// answers where that is known.
    fn note_added(&mut self, world: &mut World, key: u64, before: i64, answer: &Answer) {
        let counter = self.counters.entry(key).or_default();
        match answer {
            Answer::Value(value) => {
                world.tally.count("trial: strong additions");
                let twice = counter.answered.contains(value);
                if twice || *value <= before || *value > counter.invoked {
                    self.problems.push(format!(
                        "counter {key} was answered {value} after {before}, of {} additions",
                        counter.invoked
                    ));
                }
                counter.answered.push(*value);
            }
            Answer::Refused(_) => world.tally.count("trial: additions refused"),
            Answer::Unknown(_) => world.tally.count("trial: additions unknown"),
        }
    }

    /// Handles a worker's report: a message that arrived after a later one of its lane, or a
    /// removal that the worker has completed.
    pub(crate) fn reported(&mut self, world: &mut World, at: Address, event: Event) {
        match event {
            Event::RemovalCompleted(site, generation) => {
                world.tally.count("trial: removals completed");
                self.completed.insert((at, site, generation));
            }
            event => self.problems.push(format!("{at:?}: {event:?}")),
        }
    }

    /// Checks that the protocols of all members have completed the removal of a generation of a
    /// site that is gone.
    pub(crate) fn gone(
        &mut self,
        world: &mut World,
        generation: (SiteId, u32),
        members: &[SiteId],
    ) {
        world.tally.count("trial: removals judged");
        let of_members = self.workers.iter().filter(|worker| members.contains(&worker.site));
        let missing = of_members
            .filter(|worker| !self.completed.contains(&(**worker, generation.0, generation.1)));
        self.problems.extend(missing.map(|worker| {
            let (site, generation) = generation;
            format!("generation {generation} of site {site} is gone, and {worker:?} has not completed its removal")
        }));
    }

    /// Cuts off the sessions that wait for a worker that no longer answers.
    pub(crate) fn worker_down(&mut self, world: &mut World, worker: Address) {
        self.give_up(world, |it| it == worker);
    }

    /// Cuts off the sessions that wait for a site that no longer answers.
    pub(crate) fn site_down(&mut self, world: &mut World, site: usize) {
        self.give_up(world, |it| it.site.index() == site);
    }

    fn give_up(&mut self, world: &mut World, is_down: impl Fn(Address) -> bool) {
        for index in 0..self.sessions.len() {
            let session = &self.sessions[index];
            if is_down(session.worker) && !matches!(session.doing, Doing::Nothing | Doing::Done) {
                self.rest(world, index);
            }
        }
    }

    /// Returns the problems found.
    pub(crate) fn judge(&mut self) -> Vec<String> {
        std::mem::take(&mut self.problems)
    }
}

//! Sessions that use Occult, in addition to the sessions of other protocols. They roam between
//! sites and workers with their causal past. Each write has a number of its own, so each value
//! identifies its write.

mod judge;
mod moves;
mod plan;
mod replies;

use std::collections::{BTreeSet, VecDeque};

use solera_checker::pcpsi::{Operation, Outcome, Transaction, Version, Write};
use solera_data::Key;
use solera_machine::{Address, RequestId};
use solera_occult::{CausalTimestamp, Command, OnStale, Scheme};
use solera_time::SiteId;

use self::judge::Verdicts;
use self::plan::{Planned, Step};
use crate::queue::MS;
use crate::random::Random;
use crate::scenario::Scenario;
use crate::world::{SiteState, World};

/// Wake-ups of these sessions, beyond those of UniStore's clients.
const WAKES: usize = 1 << 39;
/// Requests of these sessions.
const REQUESTS: u64 = 7 << 60;
const SESSIONS: usize = 6;
/// Number of transactions and other steps of each session.
const STEPS: usize = 50;
/// Number of times that a session waits for an outcome before it gives up.
const AWAITS: usize = 3;

#[derive(Debug)]
enum Doing {
    Nothing,
    /// One operation, without a transaction.
    Single(Step),
    Begin,
    /// In this transaction, before the next operation.
    Open(u64),
    Operate(u64, Step),
    Commit,
    /// Waits for an outcome, of an operation or a transaction. Contains the number of waits so far.
    Await(Option<Step>, usize),
    /// Requests a move of homes.
    Move,
    /// Covers these writes once this number of workers have answered.
    Barrier(BTreeSet<(Key, u64)>, usize),
    Done,
}

#[derive(Debug)]
struct OccultSession {
    /// Changes when the session starts over.
    number: usize,
    /// Number of its recorded transactions.
    order: usize,
    at: Address,
    past: CausalTimestamp,
    /// The greatest number of moves of homes that its workers had carried out.
    epoch: u64,
    /// Writes that its past contains.
    covered: BTreeSet<(Key, u64)>,
    left: usize,
    doing: Doing,
    /// Time at which the session continues, if it waits for no answer.
    due: u64,
    on_stale: OnStale,
    /// Remaining operations of its transaction.
    plan: VecDeque<Planned>,
    operations: Vec<Operation>,
    /// Keys of the transaction that must not change until it commits, with the versions read.
    validated: Vec<(Key, Version)>,
    waiting_for: Vec<(Address, RequestId)>,
    /// Time at which it cancels its request.
    impatient_at: Option<u64>,
}

/// The sessions, and their observations.
#[derive(Debug)]
pub(crate) struct OccultSessions {
    workers: Vec<Address>,
    sessions: Vec<OccultSession>,
    random: Random,
    requests: u64,
    numbers: usize,
    ids: u64,
    pace: u64,
    scheme: Scheme,
    deletes: bool,
    /// Number of sites that can be homes, if homes move.
    movable: Option<usize>,
    /// Number of sites for which barriers wait.
    stored_at: usize,
    verdicts: Verdicts,
}

impl OccultSessions {
    pub(crate) fn new(scenario: &Scenario, world: &mut World) -> Self {
        let mut random = Random::new(scenario.seed.wrapping_mul(27_644_437).wrapping_add(19));
        let workers: Vec<Address> = scenario.topology.all_workers().collect();
        let shape = scenario.occult.as_ref();
        let scheme = shape.map_or(Scheme::Exact, |shape| shape.scheme);
        let count = if shape.is_some() { SESSIONS } else { 0 };
        let sessions = (0..count)
            .map(|index| {
                let due = random.within(0, 200 * MS);
                world.wake(WAKES + index, due);
                OccultSession {
                    number: index,
                    order: 0,
                    at: workers[random.below(workers.len())],
                    past: CausalTimestamp::new(scheme),
                    epoch: 0,
                    covered: BTreeSet::new(),
                    left: STEPS,
                    doing: Doing::Nothing,
                    due,
                    on_stale: OnStale::Home,
                    plan: VecDeque::new(),
                    operations: Vec::new(),
                    validated: Vec::new(),
                    waiting_for: Vec::new(),
                    impatient_at: None,
                }
            })
            .collect();
        OccultSessions {
            workers,
            sessions,
            random,
            requests: REQUESTS,
            numbers: count,
            ids: 0,
            pace: scenario.pace,
            scheme,
            deletes: shape.is_some_and(|shape| shape.deletes),
            movable: shape.filter(|shape| shape.moves).map(|shape| shape.homes),
            stored_at: scenario.f + 1,
            verdicts: Verdicts::default(),
        }
    }

    /// Returns whether every session has finished.
    pub(crate) fn all_done(&self) -> bool {
        self.sessions.iter().all(|session| matches!(session.doing, Doing::Done))
    }

    /// Returns the sessions that are not finished.
    pub(crate) fn stuck(&self) -> Vec<String> {
        let waiting = self.sessions.iter().filter(|session| !matches!(session.doing, Doing::Done));
        waiting.map(|session| format!("occult: {session:?}")).collect()
    }

    /// Handles a wake-up. Returns whether it was for a session.
    pub(crate) fn wake(&mut self, world: &mut World, index: usize) -> bool {
        let Some(index) = index.checked_sub(WAKES) else { return false };
        let session = &self.sessions[index];
        match session.doing {
            Doing::Nothing if world.now >= session.due => self.go_on(world, index),
            Doing::Open(transaction) if world.now >= session.due => {
                self.go_on_within(world, index, transaction);
            }
            _ if session.impatient_at.is_some_and(|at| world.now >= at) => {
                world.tally.count("occult: requests cancelled");
                for (worker, request) in std::mem::take(&mut self.sessions[index].waiting_for) {
                    world.cancel(worker, request);
                }
                self.cut_off(world, index);
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
        if !is_up(world, self.sessions[index].at) {
            return self.move_on(world, index);
        }
        if !self.knows_moves(world, index) {
            // A server makes the session wait. Its client gives up if no worker is left that has
            // carried out these moves.
            if self.is_ahead_of_all(world, index) {
                self.begin_anew(index);
            }
            return self.rest(world, index);
        }
        self.sessions[index].left -= 1;
        self.sessions[index].on_stale = self.random.weighted(&[
            (80, OnStale::Home),
            (10, OnStale::Accept),
            (10, OnStale::Fail),
        ]);
        match self.random.below(100) {
            0..20 => self.read(world, index),
            20..38 => self.update(world, index),
            38..80 => self.begin(world, index),
            80..88 => self.barrier(world, index),
            88..93 => self.move_on(world, index),
            93..97 => match self.movable {
                Some(homes) => self.move_some_homes(world, index, homes),
                None => self.move_on(world, index),
            },
            _ => {
                self.begin_anew(index);
                self.move_on(world, index);
            }
        }
    }

    /// Reads a key: by a direct call of its owner, if the owner's copy is recent enough.
    fn read(&mut self, world: &mut World, index: usize) {
        let key = self.some_key();
        let OccultSession { at, past, on_stale, .. } = &self.sessions[index];
        let (at, past, on_stale) = (*at, past.clone(), *on_stale);
        let step = Step::Get { key: key.clone(), validates: false };
        let owner = owner_of(world, at.site, &key).filter(|_| self.random.chance(50));
        if let Some(owner) = owner {
            let request = self.next_request();
            let session = &mut self.sessions[index];
            session.doing = Doing::Single(step.clone());
            session.waiting_for = vec![(owner, request)];
            if world.read_occult(owner, request, &past, &key) {
                return world.tally.count("occult: direct reads");
            }
            self.sessions[index].waiting_for.clear();
        }
        let command = Command::Execute { past, key, op: step.op(), on_stale };
        self.ask(world, index, Doing::Single(step), vec![(at, command)]);
    }

    fn update(&mut self, world: &mut World, index: usize) {
        let key = self.some_key();
        let step = self.some_write(key.clone());
        let OccultSession { at, past, on_stale, .. } = &self.sessions[index];
        let (at, past, on_stale) = (*at, past.clone(), *on_stale);
        // The write counts from now on, because it may take effect.
        self.sessions[index].operations.extend(step.write().map(Operation::Write));
        let command = Command::Execute { past, key, op: step.op(), on_stale };
        self.ask(world, index, Doing::Single(step), vec![(at, command)]);
    }

    fn begin(&mut self, world: &mut World, index: usize) {
        self.sessions[index].plan = self.some_plan();
        let OccultSession { at, past, on_stale, .. } = &self.sessions[index];
        let (at, past, on_stale) = (*at, past.clone(), *on_stale);
        self.ask(world, index, Doing::Begin, vec![(at, Command::Begin { past, on_stale })]);
    }

    /// Executes the next operation of a transaction, or ends it.
    fn go_on_within(&mut self, world: &mut World, index: usize, transaction: u64) {
        let at = self.sessions[index].at;
        if let Some(Planned { step, .. }) = self.sessions[index].plan.pop_front() {
            let (key, op, validates) = (step.key().clone(), step.op(), step.validates());
            let command = Command::Operate { transaction, key, op, validates };
            let doing = Doing::Operate(transaction, step);
            return self.ask(world, index, doing, vec![(at, command)]);
        }
        match self.random.below(100) {
            0..92 => {
                self.ask(world, index, Doing::Commit, vec![(at, Command::Commit { transaction })])
            }
            92..97 => {
                world.tally.count("occult: transactions given up");
                self.record(index, Outcome::Aborted);
                self.send_unawaited(world, at, Command::Abort { transaction });
                self.rest(world, index);
            }
            _ => {
                // The client dies, and the transaction stays open.
                self.record(index, Outcome::Aborted);
                self.begin_anew(index);
                self.rest(world, index);
            }
        }
    }

    /// Asks every worker of the site whether enough sites store the session's past; or has every
    /// worker wait until they do.
    fn barrier(&mut self, world: &mut World, index: usize) {
        let OccultSession { at, past, covered, .. } = &self.sessions[index];
        let (past, covered, sites) = (past.clone(), covered.clone(), self.stored_at);
        let waits = self.random.chance(70);
        let workers = self.workers.iter().filter(|worker| worker.site == at.site);
        let asked: Vec<(Address, Command)> = workers
            .map(|worker| {
                let past = past.clone();
                let command = match waits {
                    true => Command::Barrier { past, sites },
                    false => Command::Unstored { past, sites },
                };
                (*worker, command)
            })
            .collect();
        self.ask(world, index, Doing::Barrier(covered, asked.len()), asked);
    }

    /// Moves to another worker, most often of another site. The session's past goes with it.
    fn move_on(&mut self, world: &mut World, index: usize) {
        let up = self.workers.iter().filter(|worker| is_up(world, **worker));
        let up: Vec<Address> = up.copied().collect();
        if !up.is_empty() {
            self.sessions[index].at = up[self.random.below(up.len())];
        }
        self.rest(world, index);
    }

    /// Begins a new session, without any past.
    fn begin_anew(&mut self, index: usize) {
        let session = &mut self.sessions[index];
        (session.number, session.order, session.epoch) = (self.numbers, 0, 0);
        session.past = CausalTimestamp::new(self.scheme);
        session.covered.clear();
        self.numbers += 1;
    }

    fn next_request(&mut self) -> RequestId {
        self.requests += 1;
        RequestId(self.requests)
    }

    fn ask(
        &mut self,
        world: &mut World,
        index: usize,
        doing: Doing,
        asked: Vec<(Address, Command)>,
    ) {
        self.sessions[index].doing = doing;
        self.sessions[index].waiting_for.clear();
        for (worker, command) in asked {
            let request = self.next_request();
            self.sessions[index].waiting_for.push((worker, request));
            let writes = match &command {
                Command::Execute { op, .. } => op.is_update(),
                Command::Commit { .. } => true,
                _ => false,
            };
            if !world.example_command(worker, request, command.into(), writes) {
                return self.not_taken(world, index);
            }
        }
        if self.random.chance(3) {
            let at = world.now + self.random.within(1, 150 * MS);
            self.sessions[index].impatient_at = Some(at);
            world.wake(WAKES + index, at - world.now);
        }
    }

    /// Sends a command whose reply the session does not wait for.
    fn send_unawaited(&mut self, world: &mut World, to: Address, command: Command) {
        let request = self.next_request();
        world.example_command(to, request, command.into(), false);
    }

    /// Handles a command that the session's worker rejected.
    fn not_taken(&mut self, world: &mut World, index: usize) {
        let is_unknown = matches!(self.sessions[index].doing, Doing::Await(..));
        self.end(world, index, if is_unknown { Outcome::Unknown } else { Outcome::Aborted });
    }

    /// Ends the session's operation or transaction. After an unknown outcome, the session's past
    /// lacks the writes that it may have made, so its client continues in a new session.
    fn end(&mut self, world: &mut World, index: usize, outcome: Outcome) {
        self.record(index, outcome);
        if outcome == Outcome::Unknown {
            world.tally.count("occult: unknown outcomes");
            self.begin_anew(index);
        }
        self.rest(world, index);
    }

    /// Handles a request that gets no answer.
    fn cut_off(&mut self, world: &mut World, index: usize) {
        let may_commit = match &self.sessions[index].doing {
            Doing::Commit | Doing::Await(..) => true,
            Doing::Single(step) => step.write().is_some(),
            _ => false,
        };
        self.end(world, index, if may_commit { Outcome::Unknown } else { Outcome::Aborted });
    }

    fn record(&mut self, index: usize, outcome: Outcome) {
        let session = &mut self.sessions[index];
        let operations = std::mem::take(&mut session.operations);
        let validated = std::mem::take(&mut session.validated);
        session.plan.clear();
        if operations.is_empty() {
            return;
        }
        session.order += 1;
        if outcome == Outcome::Committed {
            session.covered.extend(operations.iter().filter_map(seen));
        }
        let (site, order) = (session.at.site.index(), session.order);
        let transaction = Transaction { session: session.number, order, site, outcome, operations };
        self.verdicts.add(transaction, validated);
    }

    fn rest(&mut self, world: &mut World, index: usize) {
        let pause = self.random.within(MS, 60 * MS * self.pace);
        let session = &mut self.sessions[index];
        session.doing = Doing::Nothing;
        session.waiting_for.clear();
        session.impatient_at = None;
        session.due = world.now + pause;
        world.wake(WAKES + index, pause);
    }

    /// Cuts off the sessions of a worker that no longer answers. The worker's open transactions are
    /// gone.
    pub(crate) fn worker_down(&mut self, world: &mut World, worker: Address) {
        self.give_up(world, |it| it == worker);
    }

    /// Cuts off the sessions of a site that no longer answers.
    pub(crate) fn site_down(&mut self, world: &mut World, site: usize) {
        self.give_up(world, |it| it.site.index() == site);
    }

    fn give_up(&mut self, world: &mut World, is_down: impl Fn(Address) -> bool) {
        for index in 0..self.sessions.len() {
            let session = &self.sessions[index];
            let waits = session.waiting_for.iter().any(|(worker, _)| is_down(*worker));
            let is_open = !matches!(session.doing, Doing::Nothing | Doing::Done);
            if is_open && (waits || is_down(session.at)) {
                self.cut_off(world, index);
            }
        }
    }
}

/// Returns whether a worker serves clients.
fn is_up(world: &World, worker: Address) -> bool {
    world.state(worker.site.index()) == SiteState::Up && world.answers(worker)
}

/// Returns the worker of a site that stores a key.
fn owner_of(world: &World, site: SiteId, key: &Key) -> Option<Address> {
    let (_, occult) = world.occults().next()?;
    let config = occult.config();
    Some(config.owner(site, config.shard_of(key)))
}

/// Returns the version that an operation has made or read.
fn seen(operation: &Operation) -> Option<(Key, u64)> {
    let (key, id) = match operation {
        Operation::Write(Write { key, id, .. }) => (key, *id),
        Operation::Read(read) => match read.version {
            Version::Of(id) => (&read.key, id),
            Version::Absent => return None,
        },
    };
    Some((Key::from(key.as_str()), id))
}

//! Clients: sessions that run random transactions, migrate, and disconnect.

use std::time::Duration;

use std::collections::{BTreeMap, BTreeSet};

use solera_data::{Key, Op, Value};
use solera_levels::Level;
use solera_machine::{Address, RequestId};
use solera_time::SiteId;
use solera_unistore::{Cause, Claim, Command, CommandError, Pasts, Response, TransactionId, TxId};

use crate::queue::MS;
use crate::random::Random;
use crate::recorded::{Recorded, Status, Step};
use crate::scenario::Scenario;
use crate::spaces;
use crate::weaker::WeakerReads;
use crate::world::{SiteState, World};

/// A client's plan for the transaction that it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Commit,
    Abort,
    /// The client disconnects before it commits.
    Vanish,
    /// The client disconnects before it receives the outcome.
    VanishCommitting,
}

#[derive(Debug)]
enum Doing {
    Nothing,
    Execute(Recorded),
    Begin(Recorded, Fate),
    Operate(Recorded, Fate, TxId),
    Commit(Recorded),
    Barrier { then: Option<usize> },
    Attach { attempts: u32 },
    Outcome(TransactionId),
    Done,
}

/// One client.
#[derive(Debug)]
pub(crate) struct Client {
    index: usize,
    /// Changes when the client gives up its past and begins a new session.
    session: usize,
    site: usize,
    pasts: Pasts,
    /// Whether the client's site has confirmed that it holds the client's past.
    attached: bool,
    left: usize,
    doing: Doing,
    /// Claim of its last strong transaction, if that was aborted; the next one uses it.
    claim: Option<Claim>,
    waiting_for: Option<(Address, RequestId)>,
    /// Time at which it cancels its command and reads at a weaker level instead.
    impatient_at: Option<u64>,
}

/// All clients of a world.
#[derive(Debug)]
pub(crate) struct Clients {
    clients: Vec<Client>,
    pub(crate) recorded: Vec<Recorded>,
    requests: u64,
    sessions: usize,
    values: u64,
    keys_per_kind: usize,
    random: Random,
    /// Decides which clients run strong transactions, and how many each of them runs.
    strong: Random,
    strong_share: u64,
    /// Answers to clients that requested an outcome.
    pub(crate) outcomes: Vec<(TransactionId, Option<bool>)>,
    /// Decides which clients request the name of a strong transaction before they commit it.
    naming: Random,
    /// Transactions whose names clients requested.
    asked_names: BTreeMap<RequestId, Cause>,
    /// Names that clients received, each with its transaction and the step.
    pub(crate) names: Vec<(TransactionId, Cause, u64)>,
    weaker: WeakerReads,
    /// Requests that must get no reply: they were cancelled in a world without journals, where no
    /// reply can be under way.
    cancelled: BTreeSet<RequestId>,
    durable: bool,
    workers: Vec<u8>,
    pace: u64,
    /// Number of clients that gave up a past that was lost with a site.
    pub(crate) lost_pasts: usize,
}

const ATTACH_TIMEOUT: Duration = Duration::from_millis(2500);

impl Clients {
    pub(crate) fn new(scenario: &Scenario, world: &mut World) -> Self {
        let sites = scenario.topology.sites();
        let mut random = Random::new(scenario.seed.wrapping_mul(101).wrapping_add(3));
        let clients = (0..scenario.sessions)
            .map(|index| {
                world.wake(index, random.within(0, 200 * MS));
                Client {
                    index,
                    session: index,
                    site: random.below(sites),
                    pasts: Pasts::none(sites),
                    attached: true,
                    left: scenario.transactions_per_session,
                    doing: Doing::Nothing,
                    claim: None,
                    waiting_for: None,
                    impatient_at: None,
                }
            })
            .collect();
        Clients {
            clients,
            recorded: Vec::new(),
            requests: 0,
            sessions: scenario.sessions,
            values: 0,
            keys_per_kind: scenario.keys_per_kind,
            random,
            strong: Random::new(scenario.seed.wrapping_mul(499).wrapping_add(11)),
            strong_share: scenario.strong_share,
            outcomes: Vec::new(),
            naming: Random::new(scenario.seed.wrapping_mul(523).wrapping_add(17)),
            asked_names: BTreeMap::new(),
            names: Vec::new(),
            weaker: WeakerReads::new(scenario),
            cancelled: BTreeSet::new(),
            durable: scenario.durable,
            workers: scenario.topology.workers.clone(),
            pace: scenario.pace,
            lost_pasts: 0,
        }
    }

    /// Returns whether every client has finished.
    pub(crate) fn all_done(&self) -> bool {
        self.clients.iter().all(|client| matches!(client.doing, Doing::Done))
    }

    /// Describes the unfinished clients and the event for which each of them waits.
    pub(crate) fn stuck(&self) -> Vec<String> {
        self.clients
            .iter()
            .filter(|client| !matches!(client.doing, Doing::Done))
            .map(|client| format!("{:?} waiting for {:?}", client.doing, client.waiting_for))
            .collect()
    }

    /// Returns every key that the clients use.
    pub(crate) fn keys(&self) -> Vec<Key> {
        spaces::LETTERS
            .iter()
            .flat_map(|kind| (0..self.keys_per_kind).map(move |i| format!("{kind}{i}")))
            .map(|key| Key::from(key.as_str()))
            .collect()
    }

    /// Wakes a client, which starts its next transaction.
    pub(crate) fn wake(&mut self, world: &mut World, index: usize) {
        match self.clients[index].doing {
            Doing::Nothing => {}
            Doing::Execute(_) => return self.lose_patience(world, index),
            _ => return,
        }
        if world.state(self.clients[index].site) != SiteState::Up {
            self.move_away(world, index);
            return;
        }
        if !self.clients[index].attached {
            let site = self.clients[index].site;
            self.attach(world, index, site, 0);
            return;
        }
        if self.clients[index].left == 0 {
            self.clients[index].doing = Doing::Done;
            return;
        }
        self.clients[index].left -= 1;
        if self.strong_share > 0 && self.strong.chance(self.strong_share) {
            return self.start_strong(world, index);
        }
        match self.random.below(100) {
            0..45 => self.start_single(world, index),
            45..92 => self.start_interactive(world, index),
            92..95 => self.barrier(world, index, None),
            _ => self.migrate(world, index),
        }
    }

    /// Handles a reply.
    #[expect(clippy::too_many_lines, reason = "one arm for each reply that may be waited for")]
    pub(crate) fn reply(
        &mut self,
        world: &mut World,
        from: Address,
        request: RequestId,
        response: Response,
    ) {
        if let Response::Named(tid) = response {
            let cause = self.asked_names.remove(&request);
            return self.names.extend(cause.map(|cause| (tid, cause, world.steps)));
        }
        assert!(!self.cancelled.contains(&request), "{request:?} was cancelled: {response:?}");
        let Some(index) = self.waiting(from, request) else { return };
        self.clients[index].waiting_for = None;
        let doing = std::mem::replace(&mut self.clients[index].doing, Doing::Nothing);
        match (doing, response) {
            (Doing::Execute(mut recorded), Response::Executed { outcome, pasts }) => {
                self.clients[index].pasts.join(&pasts);
                recorded.steps[0].answer = Some(outcome);
                self.finish(world, index, recorded, Status::Committed);
            }
            (Doing::Begin(mut recorded, fate), Response::Begun(tx)) => {
                let cause = Cause::Transaction(from.site, tx);
                recorded.cause = Some(cause);
                if self.naming.chance(50) {
                    // No client waits for the answer. For a causal transaction the answer is that
                    // it has no name.
                    self.requests += 1;
                    let request = RequestId(self.requests);
                    self.asked_names.insert(request, cause);
                    world.command(from, request, Command::Name { tx });
                }
                self.next_operation(world, index, from, recorded, fate, tx);
            }
            (Doing::Operate(mut recorded, fate, tx), Response::Operated(outcome)) => {
                if let Some(step) = recorded.steps.iter_mut().find(|step| step.answer.is_none()) {
                    step.answer = Some(outcome);
                }
                self.next_operation(world, index, from, recorded, fate, tx);
            }
            (Doing::Commit(recorded), Response::Committed { pasts }) => {
                self.clients[index].pasts.join(&pasts);
                self.finish(world, index, recorded, Status::Committed);
            }
            (Doing::Operate(recorded, _, tx), Response::Failed(_)) => {
                let request = self.request(index, from);
                self.clients[index].waiting_for = None;
                world.command(from, request, Command::Abort { tx });
                self.finish(world, index, recorded, Status::Aborted);
            }
            (Doing::Execute(recorded) | Doing::Commit(recorded), Response::Failed(error)) => {
                match error {
                    CommandError::Aborted { claim, .. } => {
                        self.clients[index].claim = Some(claim);
                        self.finish(world, index, recorded, Status::Aborted);
                    }
                    CommandError::Unavailable { tid: Some(tid), .. } => {
                        self.record(world, recorded, Status::Unknown);
                        self.ask_outcome(world, index, tid);
                    }
                    // The transaction has committed, and takes effect later.
                    CommandError::Unconfirmed { .. } => {
                        self.finish(world, index, recorded, Status::Unknown);
                    }
                    // A transaction without changes may have been certified nevertheless.
                    CommandError::Unavailable { tid: None, .. } => {
                        self.finish(world, index, recorded, Status::Unknown);
                    }
                    _ => self.finish(world, index, recorded, Status::Aborted),
                }
            }
            (Doing::Outcome(tid), Response::Outcome(outcome)) => {
                self.outcomes.push((tid, outcome));
                self.rest(world, index);
            }
            (Doing::Barrier { then }, _) => match then {
                Some(site) => self.attach(world, index, site, 0),
                None => self.rest(world, index),
            },
            (Doing::Attach { .. }, Response::Attached) => {
                self.clients[index].attached = true;
                self.rest(world, index);
            }
            (Doing::Attach { .. }, Response::Failed(CommandError::Lost { .. })) => {
                self.lost_pasts += 1;
                self.start_anew(index);
                self.rest(world, index);
            }
            (Doing::Attach { attempts }, Response::Failed(_)) => {
                if attempts >= 6 {
                    self.start_anew(index);
                    self.rest(world, index);
                } else {
                    let site = self.clients[index].site;
                    self.attach(world, index, site, attempts + 1);
                }
            }
            (doing, response) => panic!("{doing:?} was answered {response:?}"),
        }
    }

    /// Cuts off the clients of a site that stopped.
    pub(crate) fn site_down(&mut self, world: &mut World, site: usize) {
        for index in 0..self.clients.len() {
            let client = &self.clients[index];
            let asked = client.waiting_for.map(|(worker, _)| worker.site.index());
            if client.site == site || asked == Some(site) {
                self.cut_off(world, index);
            }
        }
    }

    /// Cuts off the clients that wait for a worker that no longer answers.
    pub(crate) fn worker_down(&mut self, world: &mut World, worker: Address) {
        for index in 0..self.clients.len() {
            if self.clients[index].waiting_for.is_some_and(|(asked, _)| asked == worker) {
                self.cut_off(world, index);
            }
        }
    }

    /// Handles the timeout of a request: the worker that holds the key may have died.
    pub(crate) fn unanswered(&mut self, world: &mut World, from: Address, request: RequestId) {
        if let Some(index) = self.waiting(from, request) {
            if let Doing::Operate(_, _, tx) = self.clients[index].doing {
                let request = self.request(index, from);
                world.command(from, request, Command::Abort { tx });
            }
            self.cut_off(world, index);
        }
    }

    /// Handles that a worker rejected a command, because it accepts no writes or no commands at
    /// all.
    pub(crate) fn refused(&mut self, world: &mut World, from: Address, request: RequestId) {
        let Some(index) = self.waiting(from, request) else { return };
        self.clients[index].waiting_for = None;
        match std::mem::replace(&mut self.clients[index].doing, Doing::Nothing) {
            Doing::Execute(recorded) => self.finish(world, index, recorded, Status::Aborted),
            Doing::Operate(recorded, _, tx) => {
                let request = self.request(index, from);
                self.clients[index].waiting_for = None;
                world.command(from, request, Command::Abort { tx });
                self.finish(world, index, recorded, Status::Aborted);
            }
            // The transaction is aborted when it has been idle for long enough.
            Doing::Commit(recorded) => self.finish(world, index, recorded, Status::Aborted),
            doing => {
                self.clients[index].doing = doing;
                self.cut_off(world, index);
            }
        }
    }

    fn waiting(&self, from: Address, request: RequestId) -> Option<usize> {
        let waiting = Some((from, request));
        self.clients.iter().position(|client| client.waiting_for == waiting)
    }

    fn cut_off(&mut self, world: &mut World, index: usize) {
        let client = &mut self.clients[index];
        if matches!(client.doing, Doing::Done) {
            return;
        }
        client.waiting_for = None;
        match std::mem::replace(&mut client.doing, Doing::Nothing) {
            Doing::Execute(recorded) | Doing::Commit(recorded) => {
                self.record(world, recorded, Status::Unknown);
            }
            Doing::Begin(recorded, _) | Doing::Operate(recorded, ..) => {
                self.record(world, recorded, Status::Aborted);
            }
            _ => {}
        }
        let delay = self.random.within(1, 50) * MS;
        world.wake(index, delay);
    }

    fn start_single(&mut self, world: &mut World, index: usize) {
        let step = self.random_step(false);
        self.execute(world, index, step);
    }

    fn execute(&mut self, world: &mut World, index: usize, step: Step) {
        let step = self.weaker.at_some_level(step);
        let patience = self.weaker.patience(&step);
        if let Some(patience) = patience {
            world.wake(index, patience);
        }
        self.clients[index].impatient_at = patience.map(|patience| world.now + patience);
        self.send(world, index, step);
    }

    /// Cancels a strong read that takes too long, and reads at a weaker level.
    fn lose_patience(&mut self, world: &mut World, index: usize) {
        let client = &mut self.clients[index];
        if client.impatient_at.is_none_or(|at| world.now < at) {
            return;
        }
        client.impatient_at = None;
        let Some((worker, request)) = client.waiting_for.take() else { return };
        let doing = std::mem::replace(&mut client.doing, Doing::Nothing);
        let Doing::Execute(recorded) = doing else { return };
        let step = recorded.steps[0].clone();
        self.record(world, recorded, Status::Unknown);
        world.tally.count("strong reads cancelled");
        world.cancel(worker, request);
        if !self.durable {
            self.cancelled.insert(request);
        }
        self.send(world, index, spaces::read_at(Level::Causal, step));
    }

    fn send(&mut self, world: &mut World, index: usize, step: Step) {
        let worker = self.some_worker(world, index);
        let past = self.clients[index].pasts.causal;
        let request = self.request(index, worker);
        let cancellable = self.clients[index].impatient_at.is_some();
        let command = spaces::command(past, &step, cancellable);
        let cause = Some(Cause::Request(worker, request));
        let recorded = self.record_of(world, index, vec![step], cause);
        self.clients[index].doing = Doing::Execute(recorded);
        world.command(worker, request, command);
    }

    fn start_interactive(&mut self, world: &mut World, index: usize) {
        let count = self.random.within(1, 6);
        let steps = (0..count).map(|_| self.random_step(false)).collect();
        self.begin(world, index, steps, false);
    }

    /// Starts a strong transaction, or a causal one at the same keys.
    fn start_strong(&mut self, world: &mut World, index: usize) {
        let choice = self.random.below(100);
        if choice < 40 {
            let step = self.strong_step(true);
            return self.execute(world, index, step);
        }
        let strong = choice < 80;
        let count = self.random.within(1, 6);
        let mut step = || match self.random.chance(if strong { 75 } else { 50 }) {
            true => self.strong_step(strong),
            false => self.random_step(strong),
        };
        let steps = (0..count).map(|_| step()).collect();
        self.begin(world, index, steps, strong);
    }

    fn begin(&mut self, world: &mut World, index: usize, steps: Vec<Step>, strong: bool) {
        let fate = self.random.weighted(&[
            (85, Fate::Commit),
            (5, Fate::Abort),
            (5, Fate::Vanish),
            (5, Fate::VanishCommitting),
        ]);
        let recorded = self.record_of(world, index, steps, None);
        let worker = self.some_worker(world, index);
        let past = self.clients[index].pasts.causal;
        let request = self.request(index, worker);
        self.clients[index].doing = Doing::Begin(recorded, fate);
        world.command(worker, request, Command::Begin { past, strong });
    }

    /// Makes half of the clients that did not receive the outcome of a strong transaction request
    /// it.
    fn ask_outcome(&mut self, world: &mut World, index: usize, tid: TransactionId) {
        if self.strong.chance(50) || !world.answers(tid.coordinator) {
            return self.rest(world, index);
        }
        let request = self.request(index, tid.coordinator);
        self.clients[index].doing = Doing::Outcome(tid);
        world.command(tid.coordinator, request, Command::Outcome { tid });
    }

    #[expect(clippy::too_many_arguments, reason = "a transaction, and where it runs")]
    fn next_operation(
        &mut self,
        world: &mut World,
        index: usize,
        worker: Address,
        recorded: Recorded,
        fate: Fate,
        tx: TxId,
    ) {
        if let Some(step) = recorded.steps.iter().find(|step| step.answer.is_none()) {
            let Step { key, level, kind, op, .. } = step.clone();
            let request = self.request(index, worker);
            self.clients[index].doing = Doing::Operate(recorded, fate, tx);
            world.command(worker, request, Command::Operate { tx, level, key, op, kind });
            return;
        }
        match fate {
            Fate::Commit => {
                let request = self.request(index, worker);
                let claim = self.clients[index].claim.take();
                self.clients[index].doing = Doing::Commit(recorded);
                world.command(worker, request, Command::Commit { tx, claim });
            }
            Fate::Abort => {
                let request = self.request(index, worker);
                self.clients[index].waiting_for = None;
                world.command(worker, request, Command::Abort { tx });
                self.finish(world, index, recorded, Status::Aborted);
            }
            Fate::Vanish => {
                self.record(world, recorded, Status::Aborted);
                self.start_anew(index);
                self.rest(world, index);
            }
            Fate::VanishCommitting => {
                let request = self.request(index, worker);
                self.clients[index].waiting_for = None;
                world.command(worker, request, Command::Commit { tx, claim: None });
                self.record(world, recorded, Status::Unknown);
                self.start_anew(index);
                self.rest(world, index);
            }
        }
    }

    fn barrier(&mut self, world: &mut World, index: usize, then: Option<usize>) {
        let worker = self.some_worker(world, index);
        let pasts = self.clients[index].pasts;
        let request = self.request(index, worker);
        self.clients[index].doing = Doing::Barrier { then };
        let timeout = Some(Duration::from_millis(self.random.within(1, 3000)));
        world.command(worker, request, Command::Barrier { pasts, timeout });
    }

    /// Moves to another site; half of the time after a barrier, as the paper requires.
    fn migrate(&mut self, world: &mut World, index: usize) {
        let to = self.random.below(self.workers.len());
        if world.state(to) != SiteState::Up || to == self.clients[index].site {
            self.rest(world, index);
        } else if self.random.chance(50) {
            self.barrier(world, index, Some(to));
        } else {
            self.attach(world, index, to, 0);
        }
    }

    /// Attaches to another site with the client's past, because its own is down.
    fn move_away(&mut self, world: &mut World, index: usize) {
        let up: Vec<_> =
            (0..self.workers.len()).filter(|site| world.state(*site) == SiteState::Up).collect();
        if up.is_empty() {
            world.wake(index, 100 * MS);
            return;
        }
        let to = up[self.random.below(up.len())];
        self.attach(world, index, to, 0);
    }

    fn attach(&mut self, world: &mut World, index: usize, site: usize, attempts: u32) {
        if world.state(site) != SiteState::Up {
            self.clients[index].doing = Doing::Nothing;
            world.wake(index, 10 * MS);
            return;
        }
        self.clients[index].site = site;
        self.clients[index].attached = false;
        let worker = self.some_worker(world, index);
        let pasts = self.clients[index].pasts;
        let request = self.request(index, worker);
        self.clients[index].doing = Doing::Attach { attempts };
        let timeout = Some(ATTACH_TIMEOUT);
        world.command(worker, request, Command::Attach { pasts, timeout });
    }

    fn start_anew(&mut self, index: usize) {
        let client = &mut self.clients[index];
        client.session = self.sessions;
        client.pasts = Pasts::none(self.workers.len());
        client.attached = true;
        self.sessions += 1;
    }

    fn finish(&mut self, world: &mut World, index: usize, recorded: Recorded, status: Status) {
        self.record(world, recorded, status);
        self.rest(world, index);
    }

    fn record(&mut self, world: &World, mut recorded: Recorded, status: Status) {
        recorded.status = status;
        recorded.answered = (status == Status::Committed).then_some(world.now);
        self.recorded.push(recorded);
    }

    fn rest(&mut self, world: &mut World, index: usize) {
        self.clients[index].doing = Doing::Nothing;
        let think = self.random.weighted(&[(50, 1), (40, 30), (10, 150)]);
        let delay = self.random.within(1000, think * MS + 2000) * self.pace;
        world.wake(index, delay);
    }

    fn record_of(
        &self,
        world: &World,
        index: usize,
        steps: Vec<Step>,
        cause: Option<Cause>,
    ) -> Recorded {
        let client = &self.clients[index];
        Recorded {
            session: client.session,
            site: client.site,
            steps,
            status: Status::Unknown,
            cause,
            invoked: world.now,
            answered: None,
        }
    }

    /// Returns a worker of the client's site, one that answers if there is one.
    fn some_worker(&mut self, world: &World, index: usize) -> Address {
        let site = self.clients[index].site;
        let first = self.random.below(usize::from(self.workers[site]));
        world.some_worker(SiteId(site as u8), first)
    }

    fn request(&mut self, index: usize, worker: Address) -> RequestId {
        self.requests += 1;
        let request = RequestId(self.requests);
        debug_assert_eq!(self.clients[index].index, index);
        self.clients[index].waiting_for = Some((worker, request));
        request
    }

    /// Returns an operation at a key of a space with strong operations; a strong one, or else a
    /// weak one.
    fn strong_step(&mut self, strong: bool) -> Step {
        let of_por = [(64, "p"), (36, "q")];
        let of_all = [(35, "p"), (20, "q"), (30, "l"), (15, "v")];
        let letter = self.random.weighted(if strong { &of_all[..] } else { &of_por[..] });
        let op = match (letter, strong) {
            ("p", true) => match self.random.below(100) {
                0..75 => Op::IncrBy(-(self.random.within(1, 20) as i64)),
                _ => Op::Set(Value::from(self.random.below(50).to_string().as_str())),
            },
            ("p", false) => match self.random.below(100) {
                0..60 => Op::IncrBy(self.random.within(1, 20) as i64),
                _ => Op::Get,
            },
            ("q", true) => self.set_op(),
            ("q", false) => Op::SetMembers,
            ("l", _) => self.text_op(),
            _ => self.unique_set_op(),
        };
        let key = format!("{letter}{}", self.random.below(self.keys_per_kind));
        spaces::step(Key::from(key.as_str()), op, strong)
    }

    fn random_step(&mut self, strong: bool) -> Step {
        let kind = self.random.weighted(&[
            (25, "t"),
            (20, "s"),
            (15, "h"),
            (20, "u"),
            (12, "m"),
            (8, "e"),
        ]);
        let key = format!("{kind}{}", self.random.below(self.keys_per_kind));
        let of = match kind {
            "m" | "e" => ["t", "s", "h"][self.random.below(3)],
            kind => kind,
        };
        let op = match of {
            "t" => self.text_op(),
            "s" => self.set_op(),
            "h" => self.hash_op(),
            _ => self.unique_set_op(),
        };
        spaces::step(Key::from(key.as_str()), op, strong)
    }

    fn text_op(&mut self) -> Op {
        match self.random.below(100) {
            0..35 => Op::Get,
            35..50 => Op::Set(self.fresh("v")),
            50..60 => Op::Set(Value::from(self.random.below(50).to_string().as_str())),
            60..85 => Op::IncrBy(self.random.within(0, 20) as i64 - 5),
            85..95 => Op::Delete,
            _ => Op::Exists,
        }
    }

    fn set_op(&mut self) -> Op {
        match self.random.below(100) {
            0..25 => Op::SetMembers,
            25..35 => Op::SetLen,
            35..45 => Op::SetContains(self.common("x")),
            45..75 => Op::SetAdd(vec![self.common("x"), self.common("x")]),
            75..95 => Op::SetRemove(vec![self.common("x"), self.common("x")]),
            _ => Op::Delete,
        }
    }

    fn hash_op(&mut self) -> Op {
        match self.random.below(100) {
            0..15 => Op::HashGetAll,
            15..20 => Op::HashNewest(2),
            20..30 => Op::HashGet(self.common("f")),
            30..40 => Op::HashGetMany(vec![self.common("f"), self.common("f")]),
            40..60 => Op::HashSet(vec![(self.common("f"), self.fresh("w"))]),
            60..80 => Op::HashIncrBy(self.common("n"), self.random.within(1, 9) as i64),
            80..94 => Op::HashDelete(vec![self.common("f"), self.common("n")]),
            _ => Op::Delete,
        }
    }

    fn unique_set_op(&mut self) -> Op {
        if self.random.chance(50) { Op::SetMembers } else { Op::SetAdd(vec![self.fresh("a")]) }
    }

    fn fresh(&mut self, prefix: &str) -> Value {
        self.values += 1;
        Value::from(format!("{prefix}{}", self.values).as_str())
    }

    fn common(&mut self, prefix: &str) -> Value {
        Value::from(format!("{prefix}{}", self.random.below(4)).as_str())
    }
}

//! Replicas, links, clocks and time.
//!
//! | module | subject |
//! |---|---|
//! | `creeks` | machines of `creek`, and what they show |
//! | `admissions` | which workers accept connections of which others, if links are simulated |
//! | `faults` | faults of links, sites, clocks and disks |
//! | `links` | connections between workers, if they are simulated |
//! | `restarts` | workers that crash, start from their disks, and write checkpoints |
//! | `members` | sites that an operator removes and adds |

mod admissions;
mod copies;
pub(crate) mod creeks;
mod faults;
mod frame_ledger;
mod links;
mod members;
pub(crate) mod overtaken;
mod restarts;

use solera_data::{Key, Op};
use solera_machine::{Address, Job as _, JobId, Lane, Now, RequestId, Wire, Without};
use solera_occult::{CausalTimestamp, Occult, ReadCounts};
use solera_reservations::Reservations;
use solera_site::{Input, Job, Message, Output, Site};
use solera_time::{Monotonic, Physical, SiteId, Timestamp, Vector};
use solera_unistore::{Command, Config, Event, Pasts, Record, Replica, Response};
use std::collections::{BTreeMap, BTreeSet};

use crate::by_worker::ByWorker;
use crate::faults::Fault;
use crate::faults::ambush::Ambush;
use crate::queue::{MS, Queue};
use crate::random::Random;
use crate::scenario::{BoundsShape, OccultShape, Scenario, SpeculativeShape, Steady};
use crate::storage::{Health, Storage, Worker, takes};
use crate::tally::Tally;
use crate::trace::Trace;
use creeks::FinalOperation;
use links::{Links, Step};
use overtaken::Overtaken;

/// The wall clock at the start of the world, in microseconds since the Unix epoch.
pub(crate) const EPOCH_MICROS: i64 = 1_800_000_000_000_000;
/// Time that a client waits for an operation on a key whose worker may have died.
const PATIENCE: u64 = 5_000 * MS;

/// State of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SiteState {
    Up,
    Paused,
    Crashed,
    Destroyed,
    /// The site runs, and fetches its data from the others before it serves clients.
    Joining,
}

/// An entry of the world's queue.
#[derive(Debug)]
enum Due {
    Deliver {
        from: Address,
        to: Address,
        message: Box<Message>,
        /// Generation of the sender's site.
        generation: u32,
        epoch: u64,
        /// Incarnations of both workers.
        incarnations: (u64, u64),
    },
    Deadline(Address),
    /// A virtual core has finished a job of the worker's incarnation with this number.
    Job(Address, u64, JobId, Box<Job>),
    /// A sync of the worker's journal has finished, in this incarnation.
    Synced(Address, u64),
    Fault(Fault),
    Link(Step),
    /// A client's wait for an answer has timed out.
    Unanswered(Address, RequestId),
    Wake(usize),
}

/// A message within a paused site: its sender, its receiver, and the incarnations of both.
type Deferred = (Address, Address, Box<Message>, (u64, u64));

/// An event that the world reports to its observer.
#[derive(Debug)]
pub(crate) enum WorldEvent {
    /// A reply for a client of a worker.
    Reply(Address, RequestId, Response),
    /// A reply of `primary`, and whether it is the last one.
    Primary(Address, RequestId, solera_primary::Response, bool),
    /// A reply of Occult.
    Occult(Address, RequestId, solera_occult::Response),
    /// A reply of `reservations`.
    Bounds(Address, RequestId, solera_reservations::Response),
    /// A reply of `creek`, and whether it is the last one.
    Speculative(Address, RequestId, solera_site::speculative::Response, bool),
    /// A step of `creek` at a worker in its incarnation with this number. A crash cannot undo it.
    SpeculativeStep(Address, u64, solera_creek::Event),
    /// A worker that runs `creek` has started, in its incarnation with this number, with these last
    /// final operations.
    SpeculativeStart(Address, u64, Vec<FinalOperation>),
    /// Writes that a home of Occult shows.
    Shown(solera_occult::Entry),
    /// A reply of `trial`, and whether it is the last one.
    Trial(Address, RequestId, solera_trial::Response, bool),
    /// An event of `trial` at a worker.
    TrialEvent(Address, solera_trial::Event),
    /// A worker is the first to learn that a generation of a site is gone. `members` is taken from
    /// this worker's list of sites.
    Gone { site: SiteId, generation: u32, members: Vec<SiteId> },
    /// A step of the protocol at a replica.
    Event(Address, Event),
    /// A site stopped, for good or for a while.
    SiteDown(usize),
    /// A site that was removed is about to start without its data; its commits after the cut are
    /// gone.
    Replaced(usize, Timestamp),
    /// A worker or its journal failed: no client that waits for its reply gets one.
    WorkerDown(Address),
    /// A worker rejected a command without executing it.
    Refused(Address, RequestId),
    /// A reply did not arrive in time.
    Unanswered(Address, RequestId),
    /// Durable data is missing.
    Lost(String),
    /// A crash undid a commit that was not reported to any client.
    Undone(Address, Event),
    /// A client is due to wake up.
    Wake(usize),
}

/// A cluster in virtual time.
pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) random: Random,
    pub(crate) trace: Trace,
    pub(crate) steps: u64,
    workers: ByWorker<Worker>,
    configs: ByWorker<Config>,
    /// Disks of workers, where sites are durable.
    storages: ByWorker<Storage>,
    /// Counts of the faults of workers and disks that took effect.
    pub(crate) tally: Tally,
    claims: Vec<Vector>,
    reported: ByWorker<Vector>,
    /// Time at which the last message of a worker that died arrives, by incarnation.
    final_arrivals: BTreeMap<(Address, u64), u64>,
    booted: ByWorker<u64>,
    states: Vec<SiteState>,
    /// Time at which each site was last stopped.
    stopped_at: Vec<u64>,
    queue: Queue<Due>,
    scheduled: ByWorker<u64>,
    /// Time at which the last message of each class arrives on each link; links are FIFO within a
    /// class.
    last_arrival: ByWorker<ByWorker<Vec<(Class, u64)>>>,
    /// Time at which each virtual core of a worker is free for another job.
    cores: ByWorker<[u64; CORES]>,
    /// Messages sent between two sites in an earlier epoch are lost.
    epochs: Vec<Vec<u64>>,
    cuts: Vec<Vec<u32>>,
    /// See [`Fault::Mute`].
    mute: BTreeSet<(usize, usize)>,
    /// The current generation of each site.
    generations: Vec<u32>,
    /// Sites that were removed in some generation.
    removed: BTreeSet<usize>,
    /// Number of each site's generations that are known to be gone.
    gone_generations: Vec<usize>,
    /// The latest time at which a transaction at each site has read or written.
    latest: Vec<Timestamp>,
    /// Sites whose present generation has served clients.
    served: BTreeSet<usize>,
    skew: ByWorker<i64>,
    slow: ByWorker<u64>,
    /// Messages within paused sites; they arrive when the site resumes.
    deferred: Vec<Deferred>,
    /// Links between workers; without them, messages are sent one by one.
    links: Option<Links>,
    events: Vec<WorldEvent>,
    /// Time after which the other sites treat transactions of a silent site as lost.
    lost_after: u64,
    delays: Vec<Vec<u64>>,
    jitter: u64,
    steady: Option<Steady>,
    /// Time for which a piece of a partition for a joining site occupies a link.
    piece_time: u64,
    power_fails_at_checkpoints: bool,
    ambushes: Vec<Ambush>,
    /// Number of updates that partitions of `primary` keep, and the rule that is taken out, if
    /// workers run it.
    primary: Option<(usize, Without<solera_primary::Rule>)>,
    /// How workers run Occult, if they do.
    occult: Option<OccultShape>,
    /// How workers keep error bounds, if they do.
    bounds: Option<BoundsShape>,
    /// How one worker of each site runs `creek`, if they do.
    creek: Option<SpeculativeShape>,
    overtaken: Overtaken,
    /// Number of units of each key that `trial` hands out, if workers run it.
    trial: Option<u32>,
}

/// Number of virtual cores that run the jobs of a worker.
const CORES: usize = 2;

/// Budget of inputs in one turn. They are handed over one by one, and none waits.
const QUANTUM: u64 = 16;

/// Messages of one lane and protocol stay in order.
type Class = (Lane, u8);

fn class_of(message: &Message) -> Class {
    (message.lane(), message.protocol().number)
}

impl World {
    pub(crate) fn new(scenario: &Scenario, trace: Trace) -> Self {
        let sites = scenario.topology.sites();
        let mut world = World {
            now: 0,
            random: Random::new(scenario.seed.wrapping_mul(31).wrapping_add(7)),
            trace,
            steps: 0,
            workers: ByWorker::default(),
            configs: ByWorker::default(),
            storages: ByWorker::default(),
            tally: Tally::default(),
            booted: ByWorker::default(),
            claims: vec![Vector::zero(sites); sites],
            reported: ByWorker::default(),
            final_arrivals: BTreeMap::new(),
            states: vec![SiteState::Up; sites],
            stopped_at: vec![0; sites],
            lost_after: scenario.timing.lost_after.as_nanos() as u64,
            queue: Queue::new(),
            scheduled: ByWorker::default(),
            last_arrival: ByWorker::default(),
            cores: ByWorker::default(),
            epochs: vec![vec![0; sites]; sites],
            cuts: vec![vec![0; sites]; sites],
            mute: BTreeSet::new(),
            generations: vec![0; sites],
            removed: BTreeSet::new(),
            gone_generations: vec![0; sites],
            latest: vec![Timestamp::ZERO; sites],
            served: (0..sites).collect(),
            skew: ByWorker::default(),
            slow: ByWorker::default(),
            deferred: Vec::new(),
            links: scenario.wiring.map(|wiring| Links::new(wiring, scenario.weakness)),
            events: Vec::new(),
            delays: scenario.delays.clone(),
            jitter: scenario.jitter,
            steady: scenario.steady,
            piece_time: scenario.piece_time,
            power_fails_at_checkpoints: scenario.power_fails_at_checkpoints,
            ambushes: Vec::new(),
            primary: scenario.primary.map(|entries| (entries, scenario.primary_without)),
            occult: scenario.occult.clone(),
            bounds: scenario.bounds.clone(),
            creek: scenario.speculative.clone(),
            overtaken: Overtaken::default(),
            trial: scenario.trial.then(|| scenario.guard_limit()),
        };
        for address in scenario.topology.all_workers() {
            world.add_worker(scenario, address);
        }
        for (at, fault) in &scenario.faults {
            world.push(*at, Due::Fault(*fault));
        }
        world
    }

    /// Starts a worker for the first time.
    fn add_worker(&mut self, scenario: &Scenario, address: Address) {
        let mut config = Config::new(address, scenario.topology.clone());
        config.f = scenario.f;
        config.fan_out = scenario.fan_out;
        config.timing = scenario.timing.clone();
        config.trace = true;
        config.without = scenario.without;
        config.leader = SiteId(scenario.leader as u8);
        let Address { site, worker } = address;
        self.skew.insert(address, scenario.skew[site.index()][usize::from(worker)]);
        config.journal = scenario.durable;
        self.configs.insert(address, config.clone());
        if scenario.durable {
            let (bytes, seed) = (scenario.segment_bytes, self.random.next());
            let storage = Storage::new(&config, seed, bytes, scenario.weakness);
            self.storages.insert(address, storage);
            self.start(address);
        } else {
            let worker = Worker::in_memory(Site::new(self.site_config(address), scenario.seed));
            self.workers.insert(address, worker);
            self.schedule_deadline(address);
        }
    }

    /// Returns the configuration with which a worker starts.
    fn site_config(&self, address: Address) -> solera_site::Config {
        let config = solera_site::Config::from(self.configs[&address].clone());
        let config = match self.trial {
            Some(limit) => config.with_trial(limit),
            None => config,
        };
        let mut config = config;
        if let Some(shape) = &self.occult {
            config = config.with_occult(shape.shards, shape.home_of.clone());
            if let Some(occult) = &mut config.occult {
                (occult.scheme, occult.timing) = (shape.scheme, shape.timing);
                occult.founders = shape.homes;
                (occult.without, occult.trace) = (shape.without, true);
            }
        }
        if let Some(shape) = &self.bounds {
            config = config.with_reservations(shape.bounds(), shape.timing);
            if let Some(bounds) = &mut config.reservations {
                bounds.without = shape.without;
            }
        }
        if let Some(shape) = &self.creek
            && SpeculativeShape::is_member(address)
        {
            config = config.with_creek(shape.jobs);
            config.creek.iter_mut().for_each(|creek| shape.apply(creek));
        }
        let Some(options) = self.primary else { return config };
        let mut config = config.with_primary();
        if let Some(primary) = &mut config.primary {
            (primary.log_entries, primary.without) = options;
            // Values have a few hundred bytes.
            primary.piece_bytes = 100;
        }
        config
    }

    /// Executes the next entry of the queue and returns the resulting events; `None` once `until`
    /// is reached.
    pub(crate) fn step(&mut self, until: u64) -> Option<Vec<WorldEvent>> {
        let Some((at, due)) = self.queue.pop(until) else {
            self.now = self.now.max(until);
            return None;
        };
        self.now = at;
        self.steps += 1;
        match due {
            Due::Deliver { from, to, message, generation, epoch, incarnations } => {
                self.deliver(from, to, message, generation, epoch, incarnations);
            }
            Due::Deadline(address) => self.deadline(address),
            Due::Job(address, generation, job, work) => self.finish(address, generation, job, work),
            Due::Synced(address, generation) => self.synced(address, generation),
            Due::Fault(fault) => self.strike(fault),
            Due::Link(step) => self.link_step(step),
            Due::Unanswered(worker, request) => {
                self.events.push(WorldEvent::Unanswered(worker, request));
            }
            Due::Wake(client) => self.events.push(WorldEvent::Wake(client)),
        }
        Some(std::mem::take(&mut self.events))
    }

    /// Sends a client's command to a worker; the replies are among the next events.
    pub(crate) fn command(&mut self, to: Address, request: RequestId, command: Command) {
        if self.trace.is_on() {
            self.trace.write(self.now, format_args!("{to:?} {request:?} {command:?}"));
        }
        if self.storages.contains_key(&to) {
            if self.workers.get(&to).is_some_and(|worker| !takes(worker, &command)) {
                self.tally.count("commands refused");
                self.events.push(WorldEvent::Refused(to, request));
                return;
            }
            if self.links.as_ref().is_some_and(|links| links.admissions.refuses(to, &command)) {
                self.tally.count("commands refused because others refuse the worker");
                self.events.push(WorldEvent::Refused(to, request));
                return;
            }
            if self.is_out_of_reach(to, &command) {
                self.tally.count("commands refused for a link");
                self.events.push(WorldEvent::Refused(to, request));
                return;
            }
            if matches!(command, Command::Execute { .. } | Command::Operate { .. }) {
                self.push(self.now + PATIENCE, Due::Unanswered(to, request));
            }
        }
        if let Command::Execute { past, level, key, op } = &command
            && !request.0.is_multiple_of(2)
        {
            // Servers execute all operations on keys of their own in this way.
            let mut pasts = Pasts::causal(*past);
            let now = self.now_at(to);
            let outcome = self.workers.get_mut(&to).and_then(|worker| {
                let machine = worker.machine_mut();
                let at_once = machine
                    .has_bound(key.as_bytes())
                    .then(|| machine.execute_at_once(now, &mut pasts, *level, key.as_bytes(), op));
                at_once.flatten().or_else(|| {
                    let replica = machine.unistore_mut();
                    replica.execute(now, request, &mut pasts, *level, key.as_bytes(), op)
                })
            });
            return match outcome {
                Some(outcome) => {
                    let response = Response::Executed { outcome, pasts };
                    self.answer_when_durable(to, request, response.into());
                }
                // The machine replies later.
                None => self.carry_out(to),
            };
        }
        self.handle(to, Input::Client { request, command: command.into() });
    }

    /// Sends a command of another protocol than UniStore to a worker. Returns whether the worker
    /// accepts commands.
    pub(crate) fn example_command(
        &mut self,
        to: Address,
        request: RequestId,
        command: solera_site::Command,
        writes: bool,
    ) -> bool {
        let takes = |worker: &Worker| worker.answers() && !(writes && worker.refuses().is_some());
        if !self.answers(to) || !self.workers.get(&to).is_some_and(takes) {
            return false;
        }
        if self.trace.is_on() {
            self.trace.write(self.now, format_args!("{to:?} {request:?} {command:?}"));
        }
        self.handle(to, Input::Client { request, command });
        true
    }

    /// Reads a key of Occult by a direct call, as servers do first. Returns whether the copy there
    /// is recent enough; the reply is then among the next events.
    pub(crate) fn read_occult(
        &mut self,
        to: Address,
        request: RequestId,
        past: &CausalTimestamp,
        key: &Key,
    ) -> bool {
        if !self.answers(to) {
            return false;
        }
        let (now, mut past) = (self.now_at(to), past.clone());
        let occult = self.workers.get_mut(&to).and_then(|it| it.machine_mut().occult_mut());
        let read = occult.and_then(|it| it.read_at_once(now, &mut past, (key, &Op::Get)));
        let Some(Ok(outcome)) = read else { return false };
        let (outcomes, counts) = (vec![outcome], ReadCounts::default());
        let response = solera_occult::Response::Committed { outcomes, past, counts };
        self.answer_when_durable(to, request, response.into());
        true
    }

    /// Cancels a request whose client needs no more replies.
    pub(crate) fn cancel(&mut self, to: Address, request: RequestId) {
        self.trace.write(self.now, format_args!("{to:?} {request:?} is cancelled"));
        let now = self.now_at(to);
        if let Some(worker) = self.workers.get_mut(&to) {
            worker.cancel(now, request);
        }
        self.carry_out(to);
    }

    /// Answers a client. Earlier outputs of the machine, and the records that the client waits for,
    /// come first.
    fn answer_when_durable(
        &mut self,
        at: Address,
        request: RequestId,
        response: solera_site::Response,
    ) {
        self.send_ready(at);
        let worker = self.workers.get_mut(&at);
        match worker.and_then(|worker| worker.hold((request, response))) {
            Some((request, response)) => self.answer(at, request, response, true),
            None => self.tally.count("direct calls held"),
        }
        self.carry_out(at);
    }

    fn answer(
        &mut self,
        at: Address,
        request: RequestId,
        response: solera_site::Response,
        last: bool,
    ) {
        use solera_site::Response;

        if self.trace.is_on() {
            self.trace.write(self.now, format_args!("{at:?} {request:?} {response:?}"));
        }
        self.events.push(match response {
            Response::UniStore(response) => WorldEvent::Reply(at, request, response),
            Response::Primary(response) => WorldEvent::Primary(at, request, response, last),
            Response::Occult(response) => WorldEvent::Occult(at, request, response),
            Response::Reservations(response) => WorldEvent::Bounds(at, request, response),
            Response::Creek(response) => WorldEvent::Speculative(at, request, response, last),
            Response::Trial(response) => WorldEvent::Trial(at, request, response, last),
        });
    }

    /// Returns the events since the last call, such as replies.
    pub(crate) fn take_events(&mut self) -> Vec<WorldEvent> {
        std::mem::take(&mut self.events)
    }

    /// Wakes a client after `delay` nanoseconds.
    pub(crate) fn wake(&mut self, client: usize, delay: u64) {
        self.push(self.now + delay, Due::Wake(client));
    }

    /// Returns the state of a site. A site without an answering worker counts as crashed.
    pub(crate) fn state(&self, site: usize) -> SiteState {
        let mut workers = self.workers.keys().filter(|worker| worker.site.index() == site);
        match self.states[site] {
            SiteState::Up if !workers.any(|worker| self.answers(*worker)) => SiteState::Crashed,
            state => state,
        }
    }

    /// Returns whether a worker runs and answers clients.
    pub(crate) fn answers(&self, worker: Address) -> bool {
        let worker = self.workers.get(&worker);
        worker.is_some_and(|worker| worker.machine().serves() && worker.answers())
    }

    /// Returns those of some workers that answer clients, at sites that are up.
    pub(crate) fn up(&self, workers: &[Address]) -> Vec<Address> {
        let is_up = |worker: &&Address| {
            self.state(worker.site.index()) == SiteState::Up && self.answers(**worker)
        };
        workers.iter().filter(is_up).copied().collect()
    }

    /// Returns the next worker of a site that answers, beginning with number `first`.
    pub(crate) fn some_worker(&self, site: SiteId, first: usize) -> Address {
        let workers = self.addresses_of(site.index());
        let first = first % workers.len();
        let mut from_first = workers[first..].iter().chain(&workers[..first]);
        *from_first.find(|worker| self.answers(**worker)).unwrap_or(&workers[first])
    }

    /// Returns the generation of a site that runs, or that ran last.
    pub(crate) fn generation(&self, site: usize) -> u32 {
        self.generations[site]
    }

    pub(crate) fn sites(&self) -> usize {
        self.states.len()
    }

    /// Returns the vector that a worker with a journal, or its site, has reported to others as
    /// stored, or remembers to be uniform. After a crash the worker itself knows less, because its
    /// journal does not record the progress of time without transactions.
    pub(crate) fn claims(&self, worker: Address) -> Vector {
        let mut claims = self.claims[worker.site.index()];
        if let Some(reported) = self.reported.get(&worker) {
            claims.join(reported);
        }
        claims
    }

    pub(crate) fn replicas(&self) -> impl Iterator<Item = (&Address, &Replica)> {
        self.workers.iter().map(|(address, worker)| (address, worker.machine().unistore()))
    }

    /// Returns the machines of `primary` at sites that are up.
    pub(crate) fn primaries(&self) -> impl Iterator<Item = (Address, &solera_primary::Primary)> {
        let up = |address: &Address| self.state(address.site.index()) == SiteState::Up;
        let workers = self.workers.iter().filter(move |(address, _)| up(address));
        workers.filter_map(|(address, worker)| Some((*address, worker.machine().primary()?)))
    }

    /// Returns the machines of `trial` at sites that are up.
    pub(crate) fn trials(&self) -> impl Iterator<Item = (Address, &solera_trial::Trial)> {
        let up = |address: &Address| self.state(address.site.index()) == SiteState::Up;
        let workers = self.workers.iter().filter(move |(address, _)| up(address));
        workers.filter_map(|(address, worker)| Some((*address, worker.machine().trial()?)))
    }

    /// Returns the machines of `reservations` at sites that are up.
    pub(crate) fn bounds(&self) -> impl Iterator<Item = (Address, &Reservations)> {
        let up = |address: &Address| self.state(address.site.index()) == SiteState::Up;
        let workers = self.workers.iter().filter(move |(address, _)| up(address));
        workers.filter_map(|(address, it)| Some((*address, it.machine().reservations()?)))
    }

    /// Returns the machines of Occult at sites that are up.
    pub(crate) fn occults(&self) -> impl Iterator<Item = (Address, &Occult)> {
        let up = |address: &Address| self.state(address.site.index()) == SiteState::Up;
        let workers = self.workers.iter().filter(move |(address, _)| up(address));
        workers.filter_map(|(address, worker)| Some((*address, worker.machine().occult()?)))
    }

    fn replica(&self, worker: &Address) -> Option<&Replica> {
        self.workers.get(worker).map(|worker| worker.machine().unistore())
    }

    /// Ends all faults but destruction.
    pub(crate) fn heal(&mut self) {
        for row in &mut self.cuts {
            row.fill(0);
        }
        self.mute.clear();
        self.slow.clear();
        self.ambushes.clear();
        self.piece_time = 0;
        self.links.iter_mut().for_each(Links::heal);
        self.storages.values_mut().for_each(Storage::heal);
        for site in 0..self.states.len() {
            self.resume(site);
            self.restart(site);
        }
        for address in self.configs.keys().copied().collect::<Vec<_>>() {
            self.start_again(address);
        }
    }

    fn push(&mut self, at: u64, due: Due) {
        self.queue.push(at, due);
    }

    fn now_at(&self, address: Address) -> Now {
        let micros = EPOCH_MICROS + (self.now / 1000) as i64 + self.skew[&address];
        Now {
            monotonic: Monotonic(self.now - self.booted(address)),
            physical: Physical(micros as u64),
        }
    }

    /// Returns the greatest difference between wall clocks, in nanoseconds.
    pub(crate) fn clock_spread(&self) -> u64 {
        let offsets = || self.configs.keys().map(|worker| self.skew[worker]);
        let spread = offsets().max().unwrap_or(0) - offsets().min().unwrap_or(0);
        spread.unsigned_abs() * 1000
    }

    /// Returns the time at which a worker's host was last started: its monotonic clock begins
    /// there.
    fn booted(&self, address: Address) -> u64 {
        self.booted.get(&address).copied().unwrap_or(0)
    }

    fn handle(&mut self, address: Address, input: Input) {
        let now = self.now_at(address);
        if let Some(worker) = self.workers.get_mut(&address) {
            worker.work(now, QUANTUM);
            worker.take(now, input);
        }
        self.carry_out(address);
    }

    fn deadline(&mut self, address: Address) {
        if self.scheduled.get(&address) != Some(&self.now) {
            return;
        }
        self.scheduled.remove(&address);
        if !self.runs(address.site.index()) {
            return;
        }
        let now = self.now_at(address);
        let full = self.full_links(address);
        if !full.is_empty() {
            self.tally.count("ticks that held workers back");
        }
        if let Some(worker) = self.workers.get_mut(&address) {
            worker.on_deadline(now, || full);
            if let Some(links) = &mut self.links {
                links.admissions.note(address, worker.machine().members());
            }
        }
        self.carry_out(address);
    }

    /// Carries out all outputs of a worker.
    fn carry_out(&mut self, address: Address) {
        self.send_ready(address);
        self.sync(address);
        self.schedule_deadline(address);
        self.note_serving(address.site.index());
        self.note_gone(address);
    }

    /// Carries out the outputs that may leave a worker now.
    fn send_ready(&mut self, address: Address) {
        while let Some(worker) = self.workers.get_mut(&address)
            && let Some(output) = worker.poll()
        {
            match output {
                Output::Send { to, message } => {
                    if self.storages.contains_key(&address) {
                        self.note_claims(address, &message);
                    }
                    self.send(address, to, message);
                }
                Output::Reply { request, response, last } => {
                    self.answer(address, request, response, last);
                }
                Output::Records(records) => {
                    if self.trace.is_on() {
                        for record in records.iter().flat_map(Record::decode) {
                            let at = self.now;
                            self.trace.write(at, format_args!("{address:?} writes {record:?}"));
                        }
                    }
                }
                Output::Job { job, work } => self.begin_job(address, job, work),
                Output::Trace(solera_site::Event::Primary(solera_primary::Event::Rare(path)))
                | Output::Trace(solera_site::Event::Occult(solera_occult::Event::Rare(path)))
                | Output::Trace(solera_site::Event::Reservations(
                    solera_reservations::Event::Rare(path),
                ))
                | Output::Trace(solera_site::Event::Creek(solera_creek::Event::Rare(path)))
                | Output::Trace(solera_site::Event::Trial(solera_trial::Event::Rare(path))) => {
                    self.tally.reach(path);
                }
                Output::Trace(solera_site::Event::Occult(solera_occult::Event::Shown(entry))) => {
                    self.overtaken.note_write(address);
                    self.events.push(WorldEvent::Shown(entry));
                }
                Output::Trace(solera_site::Event::Reservations(event)) => {
                    if matches!(event, solera_reservations::Event::TooWide { .. }) {
                        self.tally.count("bounds: attempts of reads that are too wide");
                    }
                }
                Output::Trace(solera_site::Event::Creek(step)) => {
                    let storage = self.storages.get_mut(&address);
                    let undurable = storage.is_some_and(|it| it.hold(worker, &step));
                    if !undurable {
                        self.show_step(address, step);
                    }
                }
                Output::Trace(solera_site::Event::Trial(event)) => {
                    self.events.push(WorldEvent::TrialEvent(address, event));
                }
                Output::Trace(solera_site::Event::UniStore(event)) => {
                    if let Some(storage) = self.storages.get_mut(&address) {
                        storage.note(worker, &event);
                    }
                    if let Event::Snapshot { snap_vec, .. } | Event::Committed { snap_vec, .. } =
                        &event
                    {
                        let latest = &mut self.latest[address.site.index()];
                        *latest = (*latest).max(snap_vec[address.site]);
                    }
                    self.events.push(WorldEvent::Event(address, event));
                }
            }
        }
        while let Some((request, response)) =
            self.workers.get_mut(&address).and_then(Worker::take_durable)
        {
            self.answer(address, request, response, true);
        }
        self.send_outbox(address);
    }

    fn note_claims(&mut self, worker: Address, message: &Message) {
        use solera_unistore::Message;

        let solera_site::Message::UniStore(message) = message else { return };
        let claims = &mut self.claims[worker.site.index()];
        match message {
            Message::StableVec { stable_vec, .. } => claims.join(stable_vec),
            Message::Down(view, _) => claims.join(&view.stable_vec),
            Message::Up(subtree) => {
                let reported = self.reported.get_or_insert_with(worker, || subtree.known_vec);
                reported.join(&subtree.known_vec);
            }
            _ => {}
        }
    }

    /// Begins to sync a worker's journal if it has new records.
    fn sync(&mut self, address: Address) {
        let (Some(worker), Some(storage)) =
            (self.workers.get_mut(&address), self.storages.get(&address))
        else {
            return;
        };
        if worker.wants_submit() {
            worker.submit();
            if !worker.has_stopped() {
                let slow = if self.random.chance(2) { 50 * MS } else { MS };
                let random = self.random.within(20_000, slow);
                let takes = self.steady.map_or(random, |steady| steady.sync);
                let at = self.now + storage.slow + takes;
                let generation = storage.starts;
                self.push(at, Due::Synced(address, generation));
                if let Some(links) = &mut self.links {
                    links.copies.submit(address, self.now);
                }
            }
        }
        self.look_after(address);
    }

    fn synced(&mut self, address: Address, generation: u64) {
        let gone = self.states[address.site.index()] == SiteState::Destroyed;
        let (Some(worker), Some(storage)) =
            (self.workers.get_mut(&address), self.storages.get_mut(&address))
        else {
            return;
        };
        if storage.starts != generation || gone {
            return;
        }
        storage.end_sync(worker);
        for step in storage.durable_steps() {
            self.show_step(address, step);
        }
        if let Some(links) = &mut self.links {
            links.copies.synced(address);
        }
        self.send_ready(address);
        self.look_after(address);
        self.sync(address);
    }

    /// Checks a worker's disk after use: it may have failed meanwhile.
    fn look_after(&mut self, address: Address) {
        let (Some(worker), Some(storage)) =
            (self.workers.get_mut(&address), self.storages.get(&address))
        else {
            return;
        };
        match storage.health(worker) {
            Health::Well => {}
            Health::Stopped => {
                self.tally.count("journals stopped");
                self.trace.write(self.now, format_args!("{address:?} stops writing"));
                self.events.push(WorldEvent::WorkerDown(address));
            }
            Health::PowerLost => {
                self.tally.count("losses of power within a call");
                self.kill(address, true);
            }
        }
    }

    fn schedule_deadline(&mut self, address: Address) {
        let worker = self.workers.get(&address);
        let Some(deadline) = worker.and_then(Worker::next_deadline) else { return };
        let at = (deadline.0 + self.booted(address)).max(self.now + 1);
        if self.scheduled.get(&address).is_none_or(|scheduled| at < *scheduled) {
            self.scheduled.insert(address, at);
            self.push(at, Due::Deadline(address));
        }
    }

    fn send(&mut self, from: Address, to: Address, message: Message) {
        let (a, b) = (from.site.index(), to.site.index());
        if self.mute.contains(&(a, b)) && is_replication(&message) {
            return;
        }
        if let Some(links) = &mut self.links
            && from != to
        {
            return links.say(to, message);
        }
        if a != b && (self.cuts[a][b] > 0 || !self.runs(b)) {
            return;
        }
        let delay = self.travel_time(from, to);
        let busy = if is_filling(&message) { self.piece_time } else { 0 };
        let earliest = self.now + delay;
        let last = self.last_arrival(from, to, class_of(&message));
        let at = earliest.max(*last + 1) + busy;
        *last = at;
        let (epoch, generation) = (self.epochs[a][b], self.generations[a]);
        let incarnations = (self.incarnation(from), self.incarnation(to));
        let message = Box::new(message);
        self.push(at, Due::Deliver { from, to, message, generation, epoch, incarnations });
    }

    /// Returns the time that a message takes from one worker to another.
    fn travel_time(&mut self, from: Address, to: Address) -> u64 {
        let (a, b) = (from.site.index(), to.site.index());
        if a != b {
            return self.delays[a][b] + self.random.within(0, self.jitter);
        }
        let slow = self.slow.get(&from).max(self.slow.get(&to)).copied().unwrap_or(0);
        let random = self.random.within(5_000, 100_000);
        self.steady.map_or(random, |steady| steady.hop) + slow
    }

    /// Returns the time at which the last message of a class from one worker to another arrives.
    fn last_arrival(&mut self, from: Address, to: Address, class: Class) -> &mut u64 {
        let links = self.last_arrival.get_or_insert_with(from, ByWorker::default);
        let classes = links.get_or_insert_with(to, Vec::new);
        let place = classes.iter().position(|(other, _)| *other == class);
        let place = place.unwrap_or_else(|| {
            classes.push((class, 0));
            classes.len() - 1
        });
        &mut classes[place].1
    }

    /// Begins a job on the core that is free first.
    fn begin_job(&mut self, address: Address, job: JobId, work: Job) {
        let generation = self.incarnation(address);
        let cores = self.cores.get_or_insert_with(address, Default::default);
        let core = cores.iter_mut().min().expect("there are some");
        let slowness = match (&work, &self.creek) {
            (Job::Creek(_), Some(shape)) => shape.slowness,
            _ => 1,
        };
        *core = (*core).max(self.now) + (work.cost() * slowness).as_nanos() as u64;
        let at = *core;
        self.push(at, Due::Job(address, generation, job, Box::new(work)));
    }

    /// Handles the end of a job. Its result is discarded if its process has died.
    fn finish(&mut self, address: Address, generation: u64, job: JobId, work: Box<Job>) {
        if self.states[address.site.index()] == SiteState::Paused {
            return self.push(self.now + MS, Due::Job(address, generation, job, work));
        }
        if self.runs(address.site.index()) && self.incarnation(address) == generation {
            self.handle(address, Input::Done { job, result: work.run() });
        }
    }

    /// Returns the incarnation of a worker that runs, or that ran last.
    pub(crate) fn incarnation(&self, worker: Address) -> u64 {
        self.storages.get(&worker).map_or(0, |storage| storage.starts)
    }

    #[expect(clippy::too_many_arguments, reason = "one per field of `Due::Deliver`")]
    fn deliver(
        &mut self,
        from: Address,
        to: Address,
        message: Box<Message>,
        generation: u32,
        epoch: u64,
        incarnations: (u64, u64),
    ) {
        let (a, b) = (from.site.index(), to.site.index());
        if a == b && self.states[b] == SiteState::Paused {
            self.deferred.push((from, to, message, incarnations));
            return;
        }
        if self.epochs[a][b] != epoch || !self.runs(b) {
            return;
        }
        // Links connect incarnations. Messages of a dead incarnation that are under way may arrive.
        let silenced =
            self.final_arrivals.get(&(from, incarnations.0)).is_some_and(|last| self.now > *last);
        if silenced || self.incarnation(to) != incarnations.1 {
            return;
        }
        if let Some((ambush, victim)) = self.spring(from, to, &message) {
            let other = if a == victim { b } else { a };
            if ambush.before {
                self.strike_in_ambush(ambush, victim, other);
                return self.deliver(from, to, message, generation, epoch, incarnations);
            }
            self.receive(from, to, message, generation);
            return self.strike_in_ambush(ambush, victim, other);
        }
        self.receive(from, to, message, generation);
    }

    fn receive(&mut self, from: Address, to: Address, message: Box<Message>, generation: u32) {
        if self.trace.is_on() {
            self.trace.write(self.now, format_args!("{from:?} → {to:?} {message:?}"));
        }
        self.handle(to, Input::Message { from, generation, message: *message });
    }

    /// Returns whether a site's workers run.
    fn runs(&self, site: usize) -> bool {
        matches!(self.states[site], SiteState::Up | SiteState::Joining)
    }

    fn addresses_of(&self, site: usize) -> Vec<Address> {
        self.configs.keys().copied().filter(|address| address.site.index() == site).collect()
    }
}

/// Returns whether a message holds updates of a site.
fn is_replication(message: &Message) -> bool {
    matches!(message, Message::UniStore(solera_unistore::Message::Replicate(_)))
}

/// Returns whether a message holds a piece of a partition for a joining site.
fn is_filling(message: &Message) -> bool {
    matches!(message, Message::UniStore(solera_unistore::Message::Filling(_)))
}

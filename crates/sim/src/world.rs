//! Replicas, links, clocks and time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use solera_machine::{Machine, Now};
use solera_time::{Monotonic, Physical, SiteId, Timestamp, Vector};
use solera_unistore::{
    Address, Change, Command, Config, Event, Gap, Input, Message, Output, Record, Replica,
    RequestId, Response, Standing,
};

use crate::ambush::{Ambush, Blow};
use crate::disk_faults::DiskFault;
use crate::faults::Fault;
use crate::random::Random;
use crate::scenario::{MS, Scenario};
use crate::storage::{Health, Refusal, Storage};
use crate::tally::Tally;
use crate::trace::Trace;

/// The wall clock at the start of the world, in microseconds since the Unix epoch.
const EPOCH_MICROS: i64 = 1_800_000_000_000_000;
/// How long a client waits for an operation on a key whose worker may have died with it.
const PATIENCE: u64 = 5_000 * MS;

/// Whether a site runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SiteState {
    Up,
    Paused,
    Crashed,
    Destroyed,
    /// It runs, and gets its data from the others before it serves clients.
    Joining,
}

/// What is due at some time.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "most of what is due is a message")]
enum Due {
    Deliver {
        from: Address,
        to: Address,
        message: Message,
        /// Of the sender's site.
        life: u32,
        epoch: u64,
        /// Of both workers.
        incarnations: (u64, u64),
    },
    Deadline(Address),
    /// A sync of the worker's journal is done, in this incarnation.
    Synced(Address, u64),
    Fault(Fault),
    /// A client has waited long enough.
    Unanswered(Address, RequestId),
    Wake(usize),
}

/// What the world tells its observer while it runs.
#[derive(Debug)]
pub(crate) enum Happening {
    /// A reply for a client of a worker.
    Reply(Address, RequestId, Response),
    /// A step of the protocol at a replica.
    Event(Address, Event),
    /// A site stopped: for good, or for a while.
    SiteDown(usize),
    /// A site that was removed is about to start anew; what it had committed after the cut is gone.
    Replaced(usize, Timestamp),
    /// A worker died, or its journal did: nobody who waits for a reply of it gets one.
    WorkerDown(Address),
    /// A worker does not take a command; nothing was done.
    Refused(Address, RequestId),
    /// There was no reply in time.
    Unanswered(Address, RequestId),
    /// What was durable is not there.
    Lost(String),
    /// A commit of which nobody was told is undone by a crash.
    Undone(Address, Event),
    /// A client's time has come.
    Wake(usize),
}

/// A cluster in virtual time.
pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) random: Random,
    pub(crate) trace: Trace,
    pub(crate) steps: u64,
    replicas: BTreeMap<Address, Replica>,
    configs: BTreeMap<Address, Config>,
    /// The journals and disks of workers, where sites are durable.
    storages: BTreeMap<Address, Storage>,
    /// What took effect of the faults of workers and disks.
    pub(crate) tally: Tally,
    claims: Vec<Vector>,
    told: BTreeMap<Address, Vector>,
    /// When the last message of a worker that died arrives, by incarnation.
    gasps: BTreeMap<(Address, u64), u64>,
    booted: BTreeMap<Address, u64>,
    states: Vec<SiteState>,
    /// When each site was last stopped.
    stopped_at: Vec<u64>,
    queue: BTreeMap<(u64, u64), Due>,
    sequence: u64,
    scheduled: BTreeMap<Address, u64>,
    /// When the last message on each link arrives; links are FIFO.
    last_arrival: BTreeMap<(Address, Address), u64>,
    /// Messages sent between two sites in an earlier epoch are lost.
    epochs: Vec<Vec<u64>>,
    cuts: Vec<Vec<u32>>,
    /// See [`Fault::Mute`].
    mute: BTreeSet<(usize, usize)>,
    /// Which life of each site runs.
    lives: Vec<u32>,
    /// The sites that were removed in some life.
    removed: BTreeSet<usize>,
    /// The latest time that a transaction at each site has read or written at.
    latest: Vec<Timestamp>,
    /// The sites whose present life has served clients.
    served: BTreeSet<usize>,
    skew: BTreeMap<Address, i64>,
    slow: BTreeMap<Address, u64>,
    /// Messages within a paused site; they arrive when it resumes.
    deferred: Vec<(Address, Address, Message, (u64, u64))>,
    happenings: Vec<Happening>,
    /// After how long others take a silent site's transactions for lost.
    lost_after: u64,
    delays: Vec<Vec<u64>>,
    jitter: u64,
    /// How long a link is busy with a piece of a partition for a joining site.
    piece_time: u64,
    ambushes: Vec<Ambush>,
}

impl World {
    pub(crate) fn new(scenario: &Scenario, trace: Trace) -> Self {
        let sites = scenario.topology.sites();
        let mut world = World {
            now: 0,
            random: Random::new(scenario.seed.wrapping_mul(31).wrapping_add(7)),
            trace,
            steps: 0,
            replicas: BTreeMap::new(),
            configs: BTreeMap::new(),
            storages: BTreeMap::new(),
            tally: Tally::default(),
            booted: BTreeMap::new(),
            claims: vec![Vector::zero(sites); sites],
            told: BTreeMap::new(),
            gasps: BTreeMap::new(),
            states: vec![SiteState::Up; sites],
            stopped_at: vec![0; sites],
            lost_after: scenario.timing.lost_after.as_nanos() as u64,
            queue: BTreeMap::new(),
            sequence: 0,
            scheduled: BTreeMap::new(),
            last_arrival: BTreeMap::new(),
            epochs: vec![vec![0; sites]; sites],
            cuts: vec![vec![0; sites]; sites],
            mute: BTreeSet::new(),
            lives: vec![0; sites],
            removed: BTreeSet::new(),
            latest: vec![Timestamp::ZERO; sites],
            served: (0..sites).collect(),
            skew: BTreeMap::new(),
            slow: BTreeMap::new(),
            deferred: Vec::new(),
            happenings: Vec::new(),
            delays: scenario.delays.clone(),
            jitter: scenario.jitter,
            piece_time: scenario.piece_time,
            ambushes: Vec::new(),
        };
        for site in SiteId::all(sites) {
            for worker in 0..scenario.topology.workers[site.index()] {
                let address = Address { site, worker };
                let mut config = Config::new(address, scenario.topology.clone());
                config.f = scenario.f;
                config.fan_out = scenario.fan_out;
                config.timing = scenario.timing.clone();
                config.trace = true;
                config.without = scenario.without;
                config.leader = SiteId(scenario.leader as u8);
                world.skew.insert(address, scenario.skew[site.index()][usize::from(worker)]);
                config.journal = scenario.durable;
                world.configs.insert(address, config.clone());
                if scenario.durable {
                    let (bytes, seed) = (scenario.segment_bytes, world.random.next());
                    let storage = Storage::new(&config, seed, bytes, scenario.weakness);
                    world.storages.insert(address, storage);
                    world.start(address);
                } else {
                    world.replicas.insert(address, Replica::new(config, scenario.seed));
                    world.schedule_deadline(address);
                }
            }
        }
        for (at, fault) in &scenario.faults {
            world.push(*at, Due::Fault(*fault));
        }
        world
    }

    /// Does the next thing that is due and returns what came of it; nothing once `until` is reached.
    pub(crate) fn step(&mut self, until: u64) -> Option<Vec<Happening>> {
        let ((at, _), due) = match self.queue.first_key_value() {
            Some(((at, _), _)) if *at <= until => self.queue.pop_first()?,
            _ => {
                self.now = self.now.max(until);
                return None;
            }
        };
        self.now = at;
        self.steps += 1;
        match due {
            Due::Deliver { from, to, message, life, epoch, incarnations } => {
                self.deliver(from, to, message, life, epoch, incarnations);
            }
            Due::Deadline(address) => self.deadline(address),
            Due::Synced(address, life) => self.synced(address, life),
            Due::Fault(fault) => self.strike(fault),
            Due::Unanswered(worker, request) => {
                self.happenings.push(Happening::Unanswered(worker, request));
            }
            Due::Wake(client) => self.happenings.push(Happening::Wake(client)),
        }
        Some(std::mem::take(&mut self.happenings))
    }

    /// Gives a client's command to a worker; the replica's answers come with the next happenings.
    pub(crate) fn command(&mut self, to: Address, request: RequestId, command: Command) {
        if self.trace.is_on() {
            self.trace.write(self.now, format_args!("{to:?} {request:?} {command:?}"));
        }
        if let Some(storage) = self.storages.get(&to) {
            if !storage.takes(&command) {
                self.tally.count("commands refused");
                self.happenings.push(Happening::Refused(to, request));
                return;
            }
            if matches!(command, Command::Execute { .. } | Command::Operate { .. }) {
                self.push(self.now + PATIENCE, Due::Unanswered(to, request));
            }
        }
        self.handle(to, Input::Client { request, command });
    }

    /// What the replicas answered to commands given since.
    pub(crate) fn take_happenings(&mut self) -> Vec<Happening> {
        std::mem::take(&mut self.happenings)
    }

    /// Wakes a client after `delay` nanoseconds.
    pub(crate) fn wake(&mut self, client: usize, delay: u64) {
        self.push(self.now + delay, Due::Wake(client));
    }

    /// A site none of whose workers answers is as good as crashed.
    pub(crate) fn state(&self, site: usize) -> SiteState {
        let mut workers = self.replicas.keys().filter(|worker| worker.site.index() == site);
        match self.states[site] {
            SiteState::Up if !workers.any(|worker| self.answers(*worker)) => SiteState::Crashed,
            state => state,
        }
    }

    /// Whether a worker runs and answers clients.
    pub(crate) fn answers(&self, worker: Address) -> bool {
        let serves = |replica: &Replica| replica.status().view().serving;
        self.replicas.get(&worker).is_some_and(serves)
            && self.storages.get(&worker).is_none_or(Storage::answers)
    }

    /// The next worker of a site that answers, from one of them on.
    pub(crate) fn some_worker(&self, site: SiteId, first: usize) -> Address {
        let workers = self.addresses_of(site.index());
        let first = first % workers.len();
        let mut from_first = workers[first..].iter().chain(&workers[..first]);
        *from_first.find(|worker| self.answers(**worker)).unwrap_or(&workers[first])
    }

    pub(crate) fn sites(&self) -> usize {
        self.states.len()
    }

    /// What a worker with a journal, or its site, has told others to store, or remembers to be uniform.
    /// After a crash it knows of less than that, because it does not remember the time in which nothing
    /// happened.
    pub(crate) fn claims(&self, worker: Address) -> Vector {
        let mut claims = self.claims[worker.site.index()];
        if let Some(told) = self.told.get(&worker) {
            claims.join(told);
        }
        claims
    }

    pub(crate) fn replicas(&self) -> impl Iterator<Item = (&Address, &Replica)> {
        self.replicas.iter()
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
        self.sequence += 1;
        self.queue.insert((at, self.sequence), due);
    }

    fn now_at(&self, address: Address) -> Now {
        let micros = EPOCH_MICROS + (self.now / 1000) as i64 + self.skew[&address];
        Now {
            monotonic: Monotonic(self.now - self.booted(address)),
            physical: Physical(micros as u64),
        }
    }

    /// When a worker's host was last started: its monotonic clock begins there.
    fn booted(&self, address: Address) -> u64 {
        self.booted.get(&address).copied().unwrap_or(0)
    }

    fn handle(&mut self, address: Address, input: Input) {
        let now = self.now_at(address);
        if let Some(replica) = self.replicas.get_mut(&address) {
            replica.handle(now, input);
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
        if let Some(replica) = self.replicas.get_mut(&address) {
            replica.on_deadline(now);
        }
        self.carry_out(address);
    }

    /// Carries out all outputs of a replica.
    fn carry_out(&mut self, address: Address) {
        while let Some(output) = self.replicas.get_mut(&address).and_then(Machine::poll_output) {
            let storage = self.storages.get_mut(&address);
            match (output, storage) {
                (Output::Records(records), Some(storage)) => {
                    if self.trace.is_on() {
                        for record in records.iter().flat_map(Record::decode) {
                            let at = self.now;
                            self.trace.write(at, format_args!("{address:?} writes {record:?}"));
                        }
                    }
                    storage.write(&records);
                }
                (Output::Trace(event), storage) => {
                    if let Some(storage) = storage {
                        storage.note(&event);
                    }
                    if let Event::Snapshot { snap_vec, .. } | Event::Committed { snap_vec, .. } =
                        &event
                    {
                        let latest = &mut self.latest[address.site.index()];
                        *latest = (*latest).max(snap_vec[address.site]);
                    }
                    self.happenings.push(Happening::Event(address, event));
                }
                (output, Some(storage)) => {
                    if let Some(output) = storage.pass(output) {
                        self.let_go(address, output);
                    }
                }
                (output, None) => self.let_go(address, output),
            }
        }
        self.sync(address);
        self.schedule_deadline(address);
        self.note_serving(address.site.index());
    }

    /// An output leaves its replica.
    fn let_go(&mut self, address: Address, output: Output) {
        match output {
            Output::Send { to, message } => {
                if self.storages.contains_key(&address) {
                    self.note_claims(address, &message);
                }
                self.send(address, to, message);
            }
            Output::Reply { request, response } => {
                if self.trace.is_on() {
                    let at = self.now;
                    self.trace.write(at, format_args!("{address:?} {request:?} {response:?}"));
                }
                self.happenings.push(Happening::Reply(address, request, response));
            }
            Output::Records(_) | Output::Trace(_) => {}
        }
    }

    fn note_claims(&mut self, worker: Address, message: &Message) {
        let claims = &mut self.claims[worker.site.index()];
        match message {
            Message::StableVec { stable_vec, .. } => claims.join(stable_vec),
            Message::Down(view, _) => claims.join(&view.stable_vec),
            Message::Up(subtree) => {
                let told = self.told.entry(worker).or_insert(subtree.known_vec);
                told.join(&subtree.known_vec);
            }
            _ => {}
        }
    }

    /// Begins to sync a worker's journal if something was written.
    fn sync(&mut self, address: Address) {
        let Some(storage) = self.storages.get_mut(&address) else { return };
        if storage.begin_sync() {
            let slow = if self.random.chance(2) { 50 * MS } else { MS };
            let at = self.now + storage.slow + self.random.within(20_000, slow);
            let life = storage.starts;
            self.push(at, Due::Synced(address, life));
        }
        self.look_after(address);
    }

    fn synced(&mut self, address: Address, life: u64) {
        let gone = self.states[address.site.index()] == SiteState::Destroyed;
        let Some(storage) = self.storages.get_mut(&address).filter(|s| s.starts == life && !gone)
        else {
            return;
        };
        for output in storage.end_sync() {
            self.let_go(address, output);
        }
        self.look_after(address);
        self.sync(address);
    }

    /// After a worker's disk was used: it may have failed meanwhile.
    fn look_after(&mut self, address: Address) {
        let Some(storage) = self.storages.get_mut(&address) else { return };
        match storage.health() {
            Health::Well => {}
            Health::Stopped => {
                self.tally.count("journals stopped");
                self.trace.write(self.now, format_args!("{address:?} writes no more"));
                self.happenings.push(Happening::WorkerDown(address));
            }
            Health::PowerLost => {
                self.tally.count("losses of power within a call");
                self.kill(address, true);
            }
        }
    }

    fn schedule_deadline(&mut self, address: Address) {
        let replica = self.replicas.get(&address);
        let Some(deadline) = replica.and_then(Machine::next_deadline) else { return };
        let at = (deadline.0 + self.booted(address)).max(self.now + 1);
        if self.scheduled.get(&address).is_none_or(|scheduled| at < *scheduled) {
            self.scheduled.insert(address, at);
            self.push(at, Due::Deadline(address));
        }
    }

    fn send(&mut self, from: Address, to: Address, message: Message) {
        let (a, b) = (from.site.index(), to.site.index());
        let delay = if a == b {
            let slow = self.slow.get(&from).max(self.slow.get(&to)).copied().unwrap_or(0);
            self.random.within(5_000, 100_000) + slow
        } else {
            let muted = self.mute.contains(&(a, b)) && matches!(message, Message::Replicate(_));
            if self.cuts[a][b] > 0 || muted || !self.runs(b) {
                return;
            }
            self.delays[a][b] + self.random.within(0, self.jitter)
        };
        let last = self.last_arrival.entry((from, to)).or_default();
        let busy = if matches!(message, Message::Filling(_)) { self.piece_time } else { 0 };
        let at = (self.now + delay).max(*last + 1) + busy;
        *last = at;
        let (epoch, life) = (self.epochs[a][b], self.lives[a]);
        let incarnations = (self.incarnation(from), self.incarnation(to));
        self.push(at, Due::Deliver { from, to, message, life, epoch, incarnations });
    }

    /// Which incarnation of a worker runs, or was the last to run.
    fn incarnation(&self, worker: Address) -> u64 {
        self.storages.get(&worker).map_or(0, |storage| storage.starts)
    }

    fn deliver(
        &mut self,
        from: Address,
        to: Address,
        message: Message,
        life: u32,
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
        // Links are between incarnations; of one that has died, what was on its way may arrive.
        let silenced = self.gasps.get(&(from, incarnations.0)).is_some_and(|last| self.now > *last);
        if silenced || self.incarnation(to) != incarnations.1 {
            return;
        }
        if let Some((ambush, victim)) = self.spring(from, to, &message) {
            let other = if a == victim { b } else { a };
            if ambush.before {
                self.strike_in_ambush(ambush, victim, other);
                return self.deliver(from, to, message, life, epoch, incarnations);
            }
            self.receive(from, to, message, life);
            return self.strike_in_ambush(ambush, victim, other);
        }
        self.receive(from, to, message, life);
    }

    fn receive(&mut self, from: Address, to: Address, message: Message, life: u32) {
        if self.trace.is_on() {
            self.trace.write(self.now, format_args!("{from:?} → {to:?} {message:?}"));
        }
        self.handle(to, Input::Message { from, life, message });
    }

    /// Whether a message is one that an ambush waits for.
    fn spring(&mut self, from: Address, to: Address, message: &Message) -> Option<(Ambush, usize)> {
        let found = self.ambushes.iter().enumerate().find_map(|(at, ambush)| {
            let victim = ambush.victim(from, to, message)?.index();
            (self.states[victim] == SiteState::Up).then_some((at, victim))
        });
        found.map(|(at, victim)| (self.ambushes.remove(at), victim))
    }

    /// The message was between the victim and another site.
    fn strike_in_ambush(&mut self, ambush: Ambush, victim: usize, other: usize) {
        self.trace.write(self.now, format_args!("{ambush:?} of site {victim}"));
        self.tally.count(ambush.name());
        match ambush.blow {
            Blow::Stop(long) if self.storages.is_empty() => {
                self.stop(victim, SiteState::Paused);
                self.push(self.now + long, Due::Fault(Fault::Resume(victim)));
            }
            Blow::Stop(long) => {
                self.crash(victim);
                self.push(self.now + long, Due::Fault(Fault::Restart(victim)));
            }
            Blow::Isolate(long) => {
                for other in (0..self.states.len()).filter(|other| *other != victim) {
                    self.strike(Fault::Cut(victim, other));
                    self.push(self.now + long, Due::Fault(Fault::Mend(victim, other)));
                }
            }
            Blow::Destroy => self.destroy(victim),
            Blow::MoveLeaders(site) => self.move_leaders(site),
            Blow::Overtake(long) => {
                self.strike(Fault::Cut(victim, other));
                self.push(self.now + long, Due::Fault(Fault::Mend(victim, other)));
                self.move_leaders(victim);
            }
        }
    }

    /// An operator asks at some site that all groups are led from another one.
    fn move_leaders(&mut self, to: usize) {
        let Some(root) = self.root_beside(to) else { return };
        self.tally.count("leaders moved");
        for address in self.addresses_of(root.site.index()) {
            let now = self.now_at(address);
            if let Some(replica) = self.replicas.get_mut(&address) {
                replica.move_leaders(now, SiteId(to as u8));
            }
            self.carry_out(address);
        }
    }

    fn strike(&mut self, fault: Fault) {
        self.trace.write(self.now, format_args!("fault {fault:?}"));
        match fault {
            Fault::Cut(a, b) => {
                self.tally.count("links cut");
                self.lose(a, b);
                self.cuts[a][b] += 1;
                self.cuts[b][a] += 1;
            }
            Fault::Mend(a, b) => {
                self.cuts[a][b] = self.cuts[a][b].saturating_sub(1);
                self.cuts[b][a] = self.cuts[b][a].saturating_sub(1);
            }
            Fault::Reset(a, b) => {
                self.tally.count("connections broken");
                self.lose(a, b);
            }
            Fault::Mute(a, b) => {
                self.mute.insert((a, b));
            }
            Fault::Pause(site) => self.stop(site, SiteState::Paused),
            Fault::Resume(site) => self.resume(site),
            Fault::Crash(site) => self.crash(site),
            Fault::Restart(site) => self.restart(site),
            Fault::Checkpoint(site, worker) => {
                let address = Address { site: SiteId(site as u8), worker: worker as u8 };
                let keys = self.random.within(1, 8) as usize;
                self.checkpoint(address, keys);
            }
            Fault::Disk(site, worker, fault) => {
                let address = Address { site: SiteId(site as u8), worker: worker as u8 };
                self.strike_disk(address, fault);
            }
            Fault::Destroy(site) => self.destroy(site),
            Fault::Remove(site) => self.remove(site),
            Fault::RemoveAgain(site, life) if self.lives[site] == life => self.remove(site),
            Fault::RemoveAgain(..) => {}
            Fault::Add(site) => self.add(site),
            Fault::Ambush(ambush) => self.ambushes.push(ambush),
            Fault::MoveLeaders(site) => self.move_leaders(site),
            Fault::Jump(site, worker, by) => {
                let address = Address { site: SiteId(site as u8), worker: worker as u8 };
                self.tally.count("clocks that jumped");
                *self.skew.entry(address).or_default() += by;
            }
            Fault::Slow(site, worker, by) => {
                let address = Address { site: SiteId(site as u8), worker: worker as u8 };
                self.slow.insert(address, by);
                if by > 0 {
                    self.tally.count("slow workers");
                }
            }
        }
    }

    /// Loses what is under way between two sites, in both directions.
    fn lose(&mut self, a: usize, b: usize) {
        self.epochs[a][b] += 1;
        self.epochs[b][a] += 1;
    }

    fn stop(&mut self, site: usize, state: SiteState) {
        let now = self.states[site];
        let paused = state == SiteState::Paused;
        if now == SiteState::Destroyed
            || (paused && matches!(now, SiteState::Crashed | SiteState::Joining))
        {
            return;
        }
        match state {
            SiteState::Paused => self.tally.count("paused sites"),
            SiteState::Destroyed => self.tally.count("destroyed sites"),
            _ => {}
        }
        self.stopped_at[site] = self.now;
        self.states[site] = state;
        for other in (0..self.states.len()).filter(|other| *other != site) {
            self.lose(site, other);
        }
        self.happenings.push(Happening::SiteDown(site));
    }

    /// Whether a site's workers run.
    fn runs(&self, site: usize) -> bool {
        matches!(self.states[site], SiteState::Up | SiteState::Joining)
    }

    /// Whether a site has not yet all that it shall have before it serves.
    pub(crate) fn is_joining(&self, site: usize) -> bool {
        !self.served.contains(&site)
    }

    /// A replica that an operator can ask, other than at this site.
    fn root_beside(&self, site: usize) -> Option<Address> {
        let up = |other: &usize| *other != site && self.states[*other] == SiteState::Up;
        let other = (0..self.states.len()).find(up)?;
        Some(Address { site: SiteId(other as u8), worker: 0 })
    }

    /// How a site stands, as another one knows.
    pub(crate) fn standing(&self, site: usize) -> Option<(Standing, u32)> {
        let replica = self.replicas.get(&self.root_beside(site)?)?;
        let (members, site) = (replica.status().members().clone(), SiteId(site as u8));
        Some((members.standing(site), members.life(site)))
    }

    /// Whether most members run. A disk whose sync failed may cost one site more than may be lost.
    pub(crate) fn has_quorum(&self) -> bool {
        let is_member = |site: &usize| {
            !matches!(self.standing(*site), Some((Standing::Gone | Standing::Joining, _)))
        };
        let members: Vec<usize> = (0..self.states.len()).filter(is_member).collect();
        let up = members.iter().filter(|site| self.states[**site] == SiteState::Up).count();
        2 * up > members.len()
    }

    /// The sites that were removed in some life, with what is gone of them.
    pub(crate) fn removed(&self) -> impl Iterator<Item = (usize, Vec<Gap>)> + '_ {
        self.removed.iter().map(|site| {
            let root = self.root_beside(*site).and_then(|root| self.replicas.get(&root));
            let members = root.map(|replica| replica.status().members().clone());
            let id = SiteId(*site as u8);
            let mut gaps = members.as_ref().map_or(Vec::new(), |members| members.gaps(id).to_vec());
            if let (Some(gap), Some(members)) = (gaps.last_mut(), members)
                && !members.is_member(id)
            {
                // Nobody knows how long it went on.
                gap.end = Timestamp::MAX;
            }
            // A life that never served leaves nothing between two gaps.
            gaps.dedup_by(|next, last| {
                let adjoin = next.cut == last.end;
                if adjoin {
                    last.end = next.end;
                }
                adjoin
            });
            (*site, gaps)
        })
    }

    /// Sites that an operator has removed or added, and that are not there yet.
    pub(crate) fn unfinished(&self) -> Option<String> {
        let waiting = self.queue.values().find_map(|due| match due {
            Due::Fault(fault @ (Fault::Remove(_) | Fault::RemoveAgain(..) | Fault::Add(_))) => {
                Some(format!("{fault:?}"))
            }
            _ => None,
        });
        let changing = |site: &usize| {
            let standing = self.standing(*site);
            let rests = matches!(standing, Some((Standing::Member | Standing::Gone, _)));
            !rests || self.states[*site] == SiteState::Joining
        };
        waiting.or_else(|| {
            let site = self.removed.iter().copied().find(changing)?;
            Some(format!("site {site} is {:?} and {:?}", self.standing(site), self.states[site]))
        })
    }

    fn ask_for_change(&mut self, site: usize, change: Change) -> bool {
        let Some(root) = self.root_beside(site) else { return false };
        let now = self.now_at(root);
        let Some(replica) = self.replicas.get_mut(&root) else { return false };
        let done = replica.change_members(now, SiteId(site as u8), change);
        self.trace.write(self.now, format_args!("{change:?} site {site}: {done:?}"));
        self.carry_out(root);
        done.is_ok()
    }

    fn remove(&mut self, site: usize) {
        if self.ask_for_change(site, Change::Remove) {
            self.tally.count("removed sites");
            if self.is_joining(site) {
                self.tally.count("sites removed before they had joined");
            }
            self.removed.insert(site);
            let at = self.now + self.random.within(0, 300) * MS;
            self.push(at, Due::Fault(Fault::Destroy(site)));
        }
        // Until it is seen to be so: who was asked may crash before it is durable.
        if !matches!(self.standing(site), Some((Standing::Leaving | Standing::Gone, _)))
            || self.root_beside(site).is_some_and(|root| self.storages[&root].is_syncing())
        {
            let again = Fault::RemoveAgain(site, self.lives[site]);
            self.push(self.now + 50 * MS, Due::Fault(again));
        }
    }

    fn destroy(&mut self, site: usize) {
        if self.is_joining(site) {
            // Others wait for it until an operator gives it up.
            self.push(self.now + 50 * MS, Due::Fault(Fault::Remove(site)));
        }
        self.stop(site, SiteState::Destroyed);
    }

    fn add(&mut self, site: usize) {
        if self.states[site] != SiteState::Destroyed && self.lives[site] > 0 {
            let forgotten = Some((Standing::Gone, self.lives[site] - 1));
            if self.is_joining(site) {
                if self.standing(site) == forgotten {
                    // Who was asked crashed before it was durable.
                    self.ask_for_change(site, Change::Add);
                }
                self.push(self.now + 200 * MS, Due::Fault(Fault::Add(site)));
            }
            return;
        }
        if self.states[site] != SiteState::Destroyed || !self.ask_for_change(site, Change::Add) {
            if self.states[site] == SiteState::Destroyed
                && matches!(self.standing(site), Some((Standing::Member, _)))
            {
                // Who was asked to remove it is lost, and has told nobody.
                self.push(self.now + 50 * MS, Due::Fault(Fault::Remove(site)));
            }
            self.push(self.now + 60 * MS, Due::Fault(Fault::Add(site)));
            return;
        }
        self.push(self.now + 100 * MS, Due::Fault(Fault::Add(site)));
        let gaps = self.removed().find(|(other, _)| *other == site).map(|(_, gaps)| gaps);
        let gap = *gaps.iter().flatten().last().expect("it was removed");
        self.happenings.push(Happening::Replaced(site, gap.cut));
        self.states[site] = SiteState::Joining;
        self.lives[site] += 1;
        self.served.remove(&site);
        let lives = u64::from(self.lives[site]);
        // The clocks of what replaces a site are not behind those of what it replaces.
        let latest = self.latest[site].later(Duration::from_millis(1)).micros() as i64;
        let skew = latest - EPOCH_MICROS - (self.now / 1000) as i64;
        self.lose(site, site);
        // None of its former life may be asked whether it serves.
        for address in self.addresses_of(site) {
            self.replicas.remove(&address);
            self.scheduled.remove(&address);
        }
        for address in self.addresses_of(site) {
            let config = self.configs.get_mut(&address).expect("every address has one");
            config.life = self.lives[site];
            config.first_transaction = lives << 50;
            let former = self.skew.entry(address).or_default();
            *former = (*former).max(skew + 1);
            if let Some(storage) = self.storages.get_mut(&address) {
                storage.replace(config, self.random.next());
            }
            self.start(address);
        }
    }

    /// A site that has joined serves clients once some of its workers say so; see [`Self::answers`].
    fn note_serving(&mut self, site: usize) {
        if self.states[site] != SiteState::Joining {
            return;
        }
        let serves = |address: &Address| {
            self.replicas.get(address).is_some_and(|replica| replica.status().view().serving)
        };
        if self.addresses_of(site).iter().any(serves) {
            self.tally.count("joined sites");
            self.trace.write(self.now, format_args!("site {site} serves"));
            self.states[site] = SiteState::Up;
            self.served.insert(site);
        }
    }

    fn addresses_of(&self, site: usize) -> Vec<Address> {
        self.configs.keys().copied().filter(|address| address.site.index() == site).collect()
    }

    fn crash(&mut self, site: usize) {
        if !self.runs(site) {
            return;
        }
        self.tally.count("crashes of sites");
        self.stop(site, SiteState::Crashed);
        self.lose(site, site);
        for address in self.addresses_of(site) {
            self.kill(address, true);
        }
    }

    fn restart(&mut self, site: usize) {
        if self.states[site] != SiteState::Crashed {
            return;
        }
        if self.now - self.stopped_at[site] > 2 * self.lost_after {
            self.tally.count("sites that were away for long");
        }
        self.states[site] = if self.lives[site] == 0 { SiteState::Up } else { SiteState::Joining };
        for address in self.addresses_of(site) {
            self.start(address);
        }
    }

    /// A worker dies; with its machine's power, or alone.
    fn kill(&mut self, address: Address, power: bool) {
        self.count_state(address);
        let Some(storage) = self.storages.get_mut(&address) else { return };
        let life = storage.starts;
        storage.crash(power);
        self.scheduled.remove(&address);
        if self.replicas.remove(&address).is_some() {
            let last = self.now + self.random.within(0, 200_000);
            self.gasps.insert((address, life), last);
            self.happenings.push(Happening::WorkerDown(address));
        }
    }

    /// Counts in which states workers crash.
    fn count_state(&mut self, address: Address) {
        let (Some(replica), Some(storage)) =
            (self.replicas.get(&address), self.storages.get(&address))
        else {
            return;
        };
        let status = replica.status();
        let some = |standing| status.members().which(standing).next().is_some();
        let joining = self.is_joining(address.site.index());
        for (state, what) in [
            (status.open_transactions() > 0, "crashes with open transactions"),
            (status.prepared_transactions() > 0, "crashes with prepared transactions"),
            (status.unconfirmed_decisions() > 0, "crashes with unconfirmed decisions"),
            (storage.is_syncing(), "crashes with unsynced records"),
            (storage.is_saving(), "crashes within a checkpoint"),
            (joining, "crashes while joining"),
            (!joining && some(Standing::Joining), "crashes while another site joins"),
            (!joining && some(Standing::Leaving), "crashes while another site leaves"),
        ] {
            if state {
                self.tally.count(what);
            }
        }
    }

    /// Starts a worker from its disk, if its site is not down as a whole.
    fn start(&mut self, address: Address) {
        let site = address.site.index();
        if !self.runs(site) || self.replicas.contains_key(&address) {
            return;
        }
        let Some(storage) = self.storages.get_mut(&address) else { return };
        match storage.start(&self.configs[&address], self.now) {
            Ok(started) => {
                if let Some(torn) = &started.recovered.torn {
                    self.tally.count("torn tails");
                    self.trace.write(self.now, format_args!("{address:?}: {torn}"));
                }
                if self.now > 0 {
                    self.tally.count("restarts");
                }
                let recovered = &started.recovered;
                self.trace.write(self.now, format_args!("{address:?} starts from {recovered:?}"));
                for _ in &started.undone {
                    self.tally.count("commits undone");
                }
                self.happenings.extend(
                    started.undone.into_iter().map(|event| Happening::Undone(address, event)),
                );
                self.booted.insert(address, self.now);
                if !self.is_joining(site) {
                    let uniform_vec = started.replica.status().view().uniform_vec;
                    self.claims[site].join(&uniform_vec);
                }
                self.replicas.insert(address, started.replica);
                self.carry_out(address);
            }
            Err(Refusal::NotNow) => {
                self.tally.count("starts that failed for now");
                let at = self.now + self.random.within(1, 100) * MS;
                self.push(
                    at,
                    Due::Fault(Fault::Disk(site, address.worker.into(), DiskFault::Start)),
                );
            }
            Err(Refusal::Damaged(damage)) => {
                self.tally.count("damage refused");
                self.trace.write(self.now, format_args!("{address:?} is damaged: {damage}"));
                self.destroy(site);
            }
            Err(Refusal::Lost { unseeable: true, .. }) => {
                self.tally.count("damage that cannot be seen");
                self.trace.write(self.now, format_args!("{address:?} has lost its last batch"));
                self.destroy(site);
            }
            Err(Refusal::Lost { promised, found, .. }) => {
                self.happenings.push(Happening::Lost(format!(
                    "{address:?} has records up to {found} of the {promised} that were durable"
                )));
                self.destroy(site);
            }
        }
    }

    /// Starts a worker that does not run, and one whose disk has failed.
    fn start_again(&mut self, address: Address) {
        let failing = self.storages.get(&address).is_some_and(Storage::is_failing);
        if failing && self.runs(address.site.index()) {
            self.kill(address, false);
        }
        self.start(address);
    }

    /// Writes the next part of a worker's checkpoint. Whether there was one.
    fn checkpoint(&mut self, address: Address, keys: usize) -> bool {
        let (Some(storage), Some(replica)) =
            (self.storages.get_mut(&address), self.replicas.get(&address))
        else {
            return false;
        };
        let part = storage.checkpoint(replica, keys);
        if self.trace.is_on() {
            self.trace.write(self.now, format_args!("{address:?} saves {part:?}"));
        }
        self.look_after(address);
        part.is_some()
    }

    fn strike_disk(&mut self, address: Address, fault: DiskFault) {
        let site = address.site.index();
        let Some(storage) = self.storages.get_mut(&address) else { return };
        match fault {
            // Of a paused process nobody can tell whether it died.
            DiskFault::Crash { power } => {
                if self.runs(site) && self.replicas.contains_key(&address) {
                    self.tally.count("crashes of workers");
                    self.kill(address, power);
                }
            }
            DiskFault::Start => self.start_again(address),
            DiskFault::PowerFails { calls } => storage.fail_power_after(calls),
            DiskFault::Fill { room } => {
                self.tally.count("full disks");
                storage.fill(room);
            }
            DiskFault::Fail(call, skip) => storage.fail_call(call, skip),
            DiskFault::Slow(by) => {
                self.tally.count("slow disks");
                storage.slow = by;
            }
            DiskFault::Heal => {
                storage.heal();
                self.start_again(address);
            }
            DiskFault::Rot => {
                let place = storage.rot(&mut self.random);
                self.tally.count("rotten bits");
                self.trace.write(self.now, format_args!("{address:?} rots: {place:?}"));
            }
            DiskFault::Misdirect => {
                let place = storage.misdirect(&mut self.random);
                self.tally.count("misdirected writes");
                self.trace.write(self.now, format_args!("{address:?} misdirects: {place:?}"));
            }
            DiskFault::Checkpoint => {
                self.tally.count("whole checkpoints");
                while self.checkpoint(address, 3) {}
            }
        }
    }

    fn resume(&mut self, site: usize) {
        if self.states[site] != SiteState::Paused {
            return;
        }
        self.states[site] = SiteState::Up;
        let (mine, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.deferred)
            .into_iter()
            .partition(|(_, to, ..)| to.site.index() == site);
        self.deferred = others;
        for (from, to, message, incarnations) in mine {
            let last = self.last_arrival.entry((from, to)).or_default();
            let at = (self.now + MS / 100).max(*last + 1);
            *last = at;
            let (epoch, life) = (self.epochs[site][site], self.lives[site]);
            self.push(at, Due::Deliver { from, to, message, life, epoch, incarnations });
        }
        let addresses: Vec<_> =
            self.replicas.keys().filter(|address| address.site.index() == site).copied().collect();
        for address in addresses {
            self.scheduled.remove(&address);
            self.schedule_deadline(address);
        }
    }
}

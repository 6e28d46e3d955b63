//! Replicas, links, clocks and time.

use std::collections::{BTreeMap, BTreeSet};

use solera_machine::{Machine, Now};
use solera_time::{Monotonic, Physical, SiteId, Timestamp, Vector};
use solera_unistore::{
    Address, Change, Command, Config, Event, Gap, Input, Message, Output, Replica, RequestId,
    Response, Standing,
};

use crate::disk::Disk;
use crate::faults::Fault;
use crate::random::Random;
use crate::scenario::{MS, Scenario};
use crate::trace::Trace;

/// The wall clock at the start of the world, in microseconds since the Unix epoch.
const EPOCH_MICROS: i64 = 1_800_000_000_000_000;

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
    },
    Deadline(Address),
    /// A sync of the worker's journal is done; the number tells before which crash it began.
    Synced(Address, u64),
    Fault(Fault),
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
    /// A commit of which nobody was told is undone by a crash.
    Undone(Event),
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
    /// The disks of workers with journals.
    disks: BTreeMap<Address, Disk>,
    claims: Vec<Vector>,
    booted: BTreeMap<Address, u64>,
    states: Vec<SiteState>,
    queue: BTreeMap<(u64, u64), Due>,
    sequence: u64,
    scheduled: BTreeMap<Address, u64>,
    /// When the last message on each link arrives; links are FIFO.
    last_arrival: BTreeMap<(Address, Address), u64>,
    /// Messages sent between two sites in an earlier epoch are lost.
    epochs: Vec<Vec<u64>>,
    cuts: Vec<Vec<u32>>,
    /// Which life of each site runs.
    lives: Vec<u32>,
    /// The sites that were removed in some life.
    removed: BTreeSet<usize>,
    /// The sites whose present life has served clients.
    served: BTreeSet<usize>,
    skew: BTreeMap<Address, i64>,
    slow: BTreeMap<Address, u64>,
    /// Messages within a paused site; they arrive when it resumes.
    deferred: Vec<(Address, Address, Message)>,
    happenings: Vec<Happening>,
    delays: Vec<Vec<u64>>,
    jitter: u64,
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
            disks: BTreeMap::new(),
            booted: BTreeMap::new(),
            claims: vec![Vector::zero(sites); sites],
            states: vec![SiteState::Up; sites],
            queue: BTreeMap::new(),
            sequence: 0,
            scheduled: BTreeMap::new(),
            last_arrival: BTreeMap::new(),
            epochs: vec![vec![0; sites]; sites],
            cuts: vec![vec![0; sites]; sites],
            lives: vec![0; sites],
            removed: BTreeSet::new(),
            served: (0..sites).collect(),
            skew: BTreeMap::new(),
            slow: BTreeMap::new(),
            deferred: Vec::new(),
            happenings: Vec::new(),
            delays: scenario.delays.clone(),
            jitter: scenario.jitter,
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
                world.skew.insert(address, scenario.skew[site.index()][usize::from(worker)]);
                config.journal = scenario.durable;
                if scenario.durable {
                    world.disks.insert(address, Disk::default());
                }
                world.configs.insert(address, config.clone());
                world.replicas.insert(address, Replica::new(config, scenario.seed));
                world.schedule_deadline(address);
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
            Due::Deliver { from, to, message, life, epoch } => {
                self.deliver(from, to, message, life, epoch);
            }
            Due::Deadline(address) => self.deadline(address),
            Due::Synced(address, crashes) => self.synced(address, crashes),
            Due::Fault(fault) => self.strike(fault),
            Due::Wake(client) => self.happenings.push(Happening::Wake(client)),
        }
        Some(std::mem::take(&mut self.happenings))
    }

    /// Gives a client's command to a worker; the replica's answers come with the next happenings.
    pub(crate) fn command(&mut self, to: Address, request: RequestId, command: Command) {
        if self.trace.is_on() {
            self.trace.write(self.now, format_args!("{to:?} {request:?} {command:?}"));
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

    pub(crate) fn state(&self, site: usize) -> SiteState {
        self.states[site]
    }

    /// What sites with journals have told others to store, or remember to be uniform. After a crash
    /// they know of less than that, because they do not remember the time in which nothing happened.
    pub(crate) fn claims(&self) -> &[Vector] {
        &self.claims
    }

    pub(crate) fn replicas(&self) -> impl Iterator<Item = (&Address, &Replica)> {
        self.replicas.iter()
    }

    /// Ends all faults but destruction.
    pub(crate) fn heal(&mut self) {
        for row in &mut self.cuts {
            row.fill(0);
        }
        self.slow.clear();
        for site in 0..self.states.len() {
            self.resume(site);
            self.restart(site);
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
            let disk = self.disks.get_mut(&address);
            match (output, disk) {
                (Output::Record(record), Some(disk)) => {
                    if self.trace.is_on() {
                        self.trace.write(self.now, format_args!("{address:?} writes {record:?}"));
                    }
                    disk.write(&record);
                }
                (Output::Trace(event), disk) => {
                    if let Some(disk) = disk {
                        disk.note(&event);
                    }
                    self.happenings.push(Happening::Event(address, event));
                }
                (output, Some(disk)) => {
                    if let Some(output) = disk.pass(output) {
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
                if let (Message::StableVec { stable_vec, .. }, true) =
                    (&message, self.disks.contains_key(&address))
                {
                    self.claims[address.site.index()].join(stable_vec);
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
            Output::Record(_) | Output::Trace(_) => {}
        }
    }

    /// Begins to sync a worker's journal if something was written.
    fn sync(&mut self, address: Address) {
        let Some(disk) = self.disks.get_mut(&address) else { return };
        if disk.begin_sync() {
            let slow = if self.random.chance(2) { 50 * MS } else { MS };
            let at = self.now + self.random.within(20_000, slow);
            let crashes = disk.crashes;
            self.push(at, Due::Synced(address, crashes));
        }
    }

    fn synced(&mut self, address: Address, crashes: u64) {
        let Some(disk) = self.disks.get_mut(&address).filter(|disk| disk.crashes == crashes) else {
            return;
        };
        for output in disk.end_sync() {
            self.let_go(address, output);
        }
        self.sync(address);
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
            if self.cuts[a][b] > 0 || !self.runs(b) {
                return;
            }
            self.delays[a][b] + self.random.within(0, self.jitter)
        };
        let last = self.last_arrival.entry((from, to)).or_default();
        let at = (self.now + delay).max(*last + 1);
        *last = at;
        let (epoch, life) = (self.epochs[a][b], self.lives[a]);
        self.push(at, Due::Deliver { from, to, message, life, epoch });
    }

    fn deliver(&mut self, from: Address, to: Address, message: Message, life: u32, epoch: u64) {
        let (a, b) = (from.site.index(), to.site.index());
        if a == b && self.states[b] == SiteState::Paused {
            self.deferred.push((from, to, message));
            return;
        }
        if self.epochs[a][b] != epoch || !self.runs(b) {
            return;
        }
        if self.trace.is_on() {
            self.trace.write(self.now, format_args!("{from:?} → {to:?} {message:?}"));
        }
        self.handle(to, Input::Message { from, life, message });
    }

    fn strike(&mut self, fault: Fault) {
        self.trace.write(self.now, format_args!("fault {fault:?}"));
        match fault {
            Fault::Cut(a, b) => {
                self.lose(a, b);
                self.cuts[a][b] += 1;
                self.cuts[b][a] += 1;
            }
            Fault::Mend(a, b) => {
                self.cuts[a][b] = self.cuts[a][b].saturating_sub(1);
                self.cuts[b][a] = self.cuts[b][a].saturating_sub(1);
            }
            Fault::Reset(a, b) => self.lose(a, b),
            Fault::Pause(site) => self.stop(site, SiteState::Paused),
            Fault::Resume(site) => self.resume(site),
            Fault::Crash(site) => self.crash(site),
            Fault::Restart(site) => self.restart(site),
            Fault::Checkpoint(site, worker) => {
                let address = Address { site: SiteId(site as u8), worker: worker as u8 };
                let keys = self.random.within(1, 8) as usize;
                if let (Some(disk), Some(replica)) =
                    (self.disks.get_mut(&address), self.replicas.get(&address))
                {
                    let part = disk.checkpoint(replica, keys);
                    if self.trace.is_on() {
                        self.trace.write(self.now, format_args!("{address:?} saves {part:?}"));
                    }
                }
            }
            Fault::Destroy(site) => self.destroy(site),
            Fault::Remove(site) => self.remove(site),
            Fault::Add(site) => self.add(site),
            Fault::Jump(site, worker, by) => {
                let address = Address { site: SiteId(site as u8), worker: worker as u8 };
                *self.skew.entry(address).or_default() += by;
            }
            Fault::Slow(site, worker, by) => {
                let address = Address { site: SiteId(site as u8), worker: worker as u8 };
                self.slow.insert(address, by);
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
            Due::Fault(fault @ (Fault::Remove(_) | Fault::Add(_))) => Some(format!("{fault:?}")),
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
            self.removed.insert(site);
            let at = self.now + self.random.within(0, 300) * MS;
            self.push(at, Due::Fault(Fault::Destroy(site)));
        }
        // Until it is seen to be so: who was asked may crash before it is durable.
        if !matches!(self.standing(site), Some((Standing::Leaving | Standing::Gone, _)))
            || self.root_beside(site).is_some_and(|root| self.disks[&root].is_syncing())
        {
            self.push(self.now + 50 * MS, Due::Fault(Fault::Remove(site)));
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
            if self.is_joining(site) && self.standing(site) == forgotten {
                // Who was asked crashed before it was durable.
                self.ask_for_change(site, Change::Add);
                self.push(self.now + 100 * MS, Due::Fault(Fault::Add(site)));
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
        let (id, lives) = (SiteId(site as u8), u64::from(self.lives[site]));
        // The clocks of what replaces a site are not behind those of what it replaces.
        let known = self.replicas.values().flat_map(|replica| {
            let of_site = replica.address().site == id;
            of_site.then(|| replica.status().view().clock.max(max_known(replica, id)))
        });
        let latest = known.max().unwrap_or(Timestamp::ZERO).micros() as i64;
        let skew = latest - EPOCH_MICROS - (self.now / 1000) as i64;
        self.lose(site, site);
        for address in self.addresses_of(site) {
            let config = self.configs.get_mut(&address).expect("every address has one");
            config.life = self.lives[site];
            config.first_transaction = lives << 50;
            let former = self.skew.entry(address).or_default();
            *former = (*former).max(skew + 1);
            let replica = Replica::new(config.clone(), self.now);
            self.booted.insert(address, self.now);
            self.disks.insert(address, Disk::default());
            self.replicas.insert(address, replica);
            self.scheduled.remove(&address);
            self.schedule_deadline(address);
        }
    }

    /// A site that has joined serves clients once all its workers say so.
    fn note_serving(&mut self, site: usize) {
        let mut workers = self.replicas.iter().filter(|(address, _)| address.site.index() == site);
        if self.states[site] == SiteState::Joining
            && workers.all(|(_, replica)| replica.status().view().serving)
        {
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
        self.stop(site, SiteState::Crashed);
        self.lose(site, site);
        for address in self.addresses_of(site) {
            self.replicas.remove(&address);
            self.scheduled.remove(&address);
            if let Some(disk) = self.disks.get_mut(&address) {
                let undone = disk.crash(&mut self.random);
                self.happenings.extend(undone.into_iter().map(Happening::Undone));
            }
        }
    }

    fn restart(&mut self, site: usize) {
        if self.states[site] != SiteState::Crashed {
            return;
        }
        self.states[site] = if self.lives[site] == 0 { SiteState::Up } else { SiteState::Joining };
        for address in self.addresses_of(site) {
            self.booted.insert(address, self.now);
            let disk = &self.disks[&address];
            self.trace.write(self.now, format_args!("{address:?} starts from {}", disk.contents()));
            let replica = disk.recover(self.configs[&address].clone(), self.now);
            if self.states[site] == SiteState::Up {
                self.claims[site].join(&replica.status().view().uniform_vec);
            }
            self.replicas.insert(address, replica);
            self.schedule_deadline(address);
        }
    }

    fn resume(&mut self, site: usize) {
        if self.states[site] != SiteState::Paused {
            return;
        }
        self.states[site] = SiteState::Up;
        let (mine, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.deferred)
            .into_iter()
            .partition(|(_, to, _)| to.site.index() == site);
        self.deferred = others;
        for (from, to, message) in mine {
            let last = self.last_arrival.entry((from, to)).or_default();
            let at = (self.now + MS / 100).max(*last + 1);
            *last = at;
            let (epoch, life) = (self.epochs[site][site], self.lives[site]);
            self.push(at, Due::Deliver { from, to, message, life, epoch });
        }
        let addresses: Vec<_> =
            self.replicas.keys().filter(|address| address.site.index() == site).copied().collect();
        for address in addresses {
            self.scheduled.remove(&address);
            self.schedule_deadline(address);
        }
    }
}

/// The latest time of a site that one of its replicas has told of.
fn max_known(replica: &Replica, site: SiteId) -> Timestamp {
    let known = replica.status().known_vecs().map(|(_, known_vec)| known_vec[site]).max();
    known.unwrap_or(Timestamp::ZERO)
}

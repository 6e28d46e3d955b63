//! A world of sites in virtual time, with checks of its logs, its outcomes, and what is lost.

mod causal;
mod judge;
mod members;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use solera_certification::*;
use solera_data::Key;
use solera_machine::{Address, Now};
pub(crate) use solera_random::Random;
use solera_time::{Monotonic, Physical, SiteId, Timestamp};

use causal::Causal;
use members::Members;

type Write = (Key, TransactionLabel);
type TransactionLabel = u64;

/// A transaction that a group delivered at one site.
#[derive(Clone, Debug, PartialEq)]
struct Delivered {
    ts: Timestamp,
    tid: TransactionId,
    payload: Arc<GroupPayload<Write>>,
}

/// A host's log of a group.
#[derive(Clone, Debug, Default)]
struct Log {
    items: Vec<Delivered>,
    known: Timestamp,
}

#[derive(Clone, Debug)]
enum Letter {
    Certification(Message<Write>),
    /// All transactions of a group in `(prev, known]`.
    Range {
        group: GroupId,
        prev: Timestamp,
        known: Timestamp,
        items: Vec<Delivered>,
    },
    Gap {
        group: GroupId,
        known: Timestamp,
    },
    /// The sender's site has made causal updates up to this time.
    Causal {
        upto: Timestamp,
    },
    /// The number of the list of members.
    Members(usize),
}

#[derive(Clone, Debug)]
enum Kept {
    Record(Record<Write>),
    Stored(GroupId, Delivered),
    /// The number of the list of members.
    Members(usize),
}

enum Held {
    Send(Address, Letter),
    Decided(TransactionId, Outcome),
    /// A client that knows the name has asked for the outcome of a transaction.
    Answer(TransactionId, Outcome),
    Keep(Kept),
}

struct Host {
    service: Service<Write>,
    logs: BTreeMap<GroupId, Log>,
    /// The journal, of which the part up to `durable` survives crashes.
    journal: Vec<Kept>,
    durable: usize,
    /// Outputs that may not leave before this much of the journal is durable.
    held: Vec<(usize, Held)>,
    run: u64,
    skew: u64,
    /// The number of the latest list of members that it has received.
    knows: usize,
    sent: BTreeMap<(GroupId, SiteId), Timestamp>,
}

struct Client {
    address: Address,
    tid: TransactionId,
    payloads: BTreeMap<GroupId, Arc<GroupPayload<Write>>>,
    since: u64,
}

#[expect(
    clippy::large_enum_variant,
    reason = "most of what happens in a world is that a letter arrives"
)]
enum WorldEvent {
    /// Carries the generations of both sites for which the letter was written.
    Arrive {
        from: Address,
        to: Address,
        generations: (u32, u32),
        letter: Letter,
    },
    Tick(Address, u64),
    Sync(Address, u64, usize),
    Submit,
    Fault,
    Causal,
    Members,
}

pub(crate) struct Shape {
    pub(crate) sites: u8,
    pub(crate) f: usize,
    pub(crate) workers: u8,
    pub(crate) groups: u16,
    pub(crate) keys: u64,
    pub(crate) transactions: u64,
    /// Greatest pause between two transactions, in milliseconds.
    pub(crate) pause: u64,
    pub(crate) faulty: bool,
    /// Whether a transaction commits soon or not at all.
    pub(crate) hurried: bool,
    /// Whether transactions depend on causal updates.
    pub(crate) causal: bool,
    /// Whether sites are lost for good, removed, and replaced.
    pub(crate) changes: bool,
    pub(crate) broken: Option<Rule>,
}

pub(crate) struct World {
    shape: Shape,
    random: Random,
    now: u64,
    sequence: u64,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, WorldEvent>,
    hosts: BTreeMap<Address, Option<Host>>,
    down: BTreeMap<Address, (Vec<Kept>, u64, u64)>,
    cut: BTreeSet<(u8, u8)>,
    loss: u64,
    delay: u64,
    clients: Vec<Client>,
    /// Decides which clients ask for names and for outcomes.
    naming: Random,
    /// Names that clients received, each with the worker and its run.
    reserved: Vec<(Address, u64, TransactionId)>,
    named: Vec<TransactionId>,
    /// Decides which letters come late.
    lateness: Random,
    causal: Causal,
    members: Members,
    /// Answers about named transactions: whether they committed.
    answered: BTreeSet<(TransactionId, bool)>,
    pub(crate) outcomes: BTreeMap<TransactionId, Outcome>,
    submitted: BTreeMap<TransactionId, BTreeMap<GroupId, Arc<GroupPayload<Write>>>>,
    /// The latest time at which each transaction may commit.
    until: BTreeMap<TransactionId, Timestamp>,
    pub(crate) faults: BTreeMap<&'static str, usize>,
    /// Number of deliveries by a follower before its leader.
    pub(crate) ahead: usize,
    quiet: bool,
    left: u64,
    first_violation: Option<String>,
}

const MILLI: u64 = 1_000_000;

impl World {
    pub(crate) fn new(seed: u64, shape: Shape) -> Self {
        let mut world = World {
            random: Random::new(seed),
            now: 0,
            sequence: 0,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            hosts: BTreeMap::new(),
            down: BTreeMap::new(),
            cut: BTreeSet::new(),
            loss: 0,
            delay: 30,
            clients: Vec::new(),
            naming: Random::new(seed ^ 0xa5c),
            reserved: Vec::new(),
            named: Vec::new(),
            lateness: Random::new(seed ^ 0x1a7e),
            causal: Causal::new(seed, shape.sites),
            members: Members::new(seed, shape.sites, shape.f),
            answered: BTreeSet::new(),
            outcomes: BTreeMap::new(),
            submitted: BTreeMap::new(),
            until: BTreeMap::new(),
            faults: BTreeMap::new(),
            ahead: 0,
            quiet: false,
            left: shape.transactions,
            first_violation: None,
            shape,
        };
        for address in world.addresses() {
            let skew = world.random.below(5_000_000);
            world.start(address, Vec::new(), 0, skew);
        }
        world.at(MILLI, WorldEvent::Submit);
        world.at(100 * MILLI, WorldEvent::Fault);
        if world.shape.causal {
            world.at(causal::INTERVAL, WorldEvent::Causal);
        }
        if world.shape.changes {
            world.at(members::INTERVAL, WorldEvent::Members);
        }
        world
    }

    fn addresses(&self) -> Vec<Address> {
        let workers = 0..self.shape.workers;
        let site = |site| workers.clone().map(move |worker| Address { site: SiteId(site), worker });
        (0..self.shape.sites).flat_map(site).collect()
    }

    fn groups(&self) -> impl Iterator<Item = GroupId> + use<> {
        (0..self.shape.groups).map(GroupId)
    }

    fn member(&self, group: GroupId, site: u8) -> Address {
        Address { site: SiteId(site), worker: (group.0 % u16::from(self.shape.workers)) as u8 }
    }

    fn at(&mut self, delay: u64, event: WorldEvent) {
        self.sequence += 1;
        self.queue.push(Reverse((self.now + delay, self.sequence)));
        self.events.insert(self.sequence, event);
    }

    fn time(&self, skew: u64) -> Now {
        let physical = Physical(1_000_000_000 + self.now / 1000 + skew);
        Now { monotonic: Monotonic(self.now), physical }
    }

    fn start(&mut self, address: Address, journal: Vec<Kept>, run: u64, skew: u64) {
        let config = Config {
            me: address,
            workers: vec![self.shape.workers; self.shape.sites.into()],
            groups: self
                .groups()
                .filter(|group| self.member(*group, address.site.0) == address)
                .collect(),
            leader: SiteId(0),
            f: self.shape.f,
            run,
            // Far enough ahead that a clock does not stay below a successor's only because the
            // clocks differ.
            timing: Timing { reserve: Duration::from_secs(2), ..Timing::default() },
            without: self.shape.broken.into(),
        };
        let now = self.time(skew);
        let mut logs: BTreeMap<_, _> =
            config.groups.iter().map(|group| (*group, Log::default())).collect();
        let mut service = Service::new(now, config);
        let mut knows = 0;
        for kept in &journal {
            match kept {
                Kept::Record(record) => service.restore(record.clone()),
                Kept::Stored(group, delivered) => {
                    let log = logs.get_mut(group).unwrap();
                    log.items.push(delivered.clone());
                    log.known = delivered.ts;
                    service.stored(*group, &delivered.payload.commit_vec(delivered.ts));
                }
                Kept::Members(number) => {
                    knows = *number;
                    let members = self.members.lists[knows].with_first_runs();
                    service.set_members(knows as u64, members);
                }
            }
        }
        service.begin(now, run == 0);
        let durable = journal.len();
        let held = Vec::new();
        let sent = BTreeMap::new();
        let host = Host { service, logs, journal, durable, held, run, skew, knows, sent };
        self.hosts.insert(address, Some(host));
        self.carry_out(address);
        self.at(MILLI, WorldEvent::Tick(address, run));
    }

    fn host(&mut self, address: Address) -> Option<&mut Host> {
        self.hosts.get_mut(&address).and_then(Option::as_mut)
    }

    fn fail(&mut self, what: String) {
        self.first_violation.get_or_insert(what);
    }

    /// Carries out a service's outputs.
    fn carry_out(&mut self, address: Address) {
        loop {
            let Some(host) = self.host(address) else { return };
            let Some(output) = host.service.poll_output() else { break };
            let hold = |host: &mut Host, held| host.held.push((host.journal.len(), held));
            match output {
                Output::Send { to, message } => {
                    hold(host, Held::Send(to, Letter::Certification(*message)));
                }
                Output::Record(record) => hold(host, Held::Keep(Kept::Record(*record))),
                Output::Decided { tid, outcome, .. } => hold(host, Held::Decided(tid, outcome)),
                Output::Deliver { group, tid, ts, payload } => {
                    let delivered = Delivered { ts, tid, payload };
                    let log = host.logs.get_mut(&group).unwrap();
                    if ts <= log.known {
                        let known = log.known;
                        self.fail(format!("{address:?} delivers {tid:?} at {ts} after {known}"));
                        return;
                    }
                    log.known = ts;
                    log.items.push(delivered.clone());
                    let ahead = !host.service.leads(group);
                    hold(host, Held::Keep(Kept::Stored(group, delivered)));
                    self.ahead += usize::from(ahead);
                }
                Output::Complete { group, upto } => {
                    let log = host.logs.get_mut(&group).unwrap();
                    log.known = log.known.max(upto);
                    let now = self.now_of(address);
                    self.spread(address, group);
                    let host = self.host(address).unwrap();
                    host.service.known(now, group, upto);
                }
                Output::CatchUp { group, .. } => {
                    let known = host.logs[&group].known;
                    for site in 0..self.shape.sites {
                        let to = self.member(group, site);
                        if to != address {
                            let gap = Held::Send(to, Letter::Gap { group, known });
                            let host = self.host(address).unwrap();
                            host.held.push((host.journal.len(), gap));
                        }
                    }
                }
                Output::Leader { .. } | Output::Reached(_) => {}
            }
            self.flush(address);
        }
        self.flush(address);
    }

    fn now_of(&mut self, address: Address) -> Now {
        let skew = self.host(address).map_or(0, |host| host.skew);
        self.time(skew)
    }

    /// Sends the other members of a group the transactions that they lack.
    fn spread(&mut self, address: Address, group: GroupId) {
        for site in 0..self.shape.sites {
            let to = self.member(group, site);
            if to != address {
                self.send_range(address, to, group);
            }
        }
    }

    fn send_range(&mut self, address: Address, to: Address, group: GroupId) {
        let Some(host) = self.host(address) else { return };
        let log = &host.logs[&group];
        let prev = host.sent.get(&(group, to.site)).copied().unwrap_or_default();
        let known = log.known;
        if known < prev {
            return;
        }
        let items = log.items.iter().filter(|item| item.ts > prev).cloned().collect();
        host.sent.insert((group, to.site), known);
        let letter = Letter::Range { group, prev, known, items };
        host.held.push((host.journal.len(), Held::Send(to, letter)));
    }

    /// Sends the outputs that may leave. Records are added to the journal first, in order.
    fn flush(&mut self, address: Address) {
        loop {
            let Some(host) = self.host(address) else { return };
            let Some(at) = host.held.iter().position(|(_, held)| matches!(held, Held::Keep(_)))
            else {
                break;
            };
            let (_, Held::Keep(kept)) = host.held.remove(at) else { unreachable!() };
            host.journal.push(kept);
            let (upto, run) = (host.journal.len(), host.run);
            for (wait, _) in &mut host.held[at..] {
                *wait = upto;
            }
            let delay = self.random.below(3 * MILLI);
            self.at(delay, WorldEvent::Sync(address, run, upto));
        }
        let Some(host) = self.host(address) else { return };
        let durable = host.durable;
        let ready = host.held.iter().take_while(|(wait, _)| *wait <= durable).count();
        for (_, held) in host.held.drain(..ready).collect::<Vec<_>>() {
            match held {
                Held::Send(to, letter) => self.post(address, to, letter),
                Held::Decided(tid, outcome) => self.decided(tid, outcome),
                Held::Answer(tid, outcome) => {
                    self.answered.insert((tid, matches!(outcome, Outcome::Committed(_))));
                }
                Held::Keep(_) => {}
            }
        }
    }

    fn post(&mut self, from: Address, to: Address, letter: Letter) {
        let (a, b) = (from.site.0, to.site.0);
        if a != b && (self.cut.contains(&(a, b)) || self.random.chance(self.loss)) {
            return;
        }
        let generations = (self.members.generation(from.site), self.members.generation(to.site));
        let delay = match a == b {
            true => self.random.below(MILLI),
            false => self.delay * MILLI + self.random.below(20 * MILLI),
        };
        // Some letters arrive a second time, long after the first.
        if self.shape.faulty && !self.quiet && self.lateness.chance(25) {
            let late = delay + self.lateness.below(6000 * MILLI);
            self.at(late, WorldEvent::Arrive { from, to, generations, letter: letter.clone() });
        }
        self.at(delay, WorldEvent::Arrive { from, to, generations, letter });
    }

    fn decided(&mut self, tid: TransactionId, outcome: Outcome) {
        self.clients.retain(|client| client.tid != tid);
        self.outcomes.insert(tid, outcome);
    }

    fn submit(&mut self) {
        let addresses: Vec<_> =
            self.hosts.iter().filter(|(_, host)| host.is_some()).map(|(at, _)| *at).collect();
        if addresses.is_empty() {
            return;
        }
        let address = addresses[self.random.below(addresses.len() as u64) as usize];
        // The strong time up to which every partition of the site has stored everything.
        let mut strong = Timestamp::MAX;
        for group in self.groups() {
            let owner = self.member(group, address.site.0);
            let Some(host) = self.host(owner) else { return };
            strong = strong.min(host.logs[&group].known);
        }
        let mut snap_vec = self.stable_vec(address);
        snap_vec.strong = strong;
        let mut payloads: BTreeMap<GroupId, GroupPayload<Write>> = BTreeMap::new();
        for _ in 0..1 + self.random.below(3) {
            let key = self.random.below(self.shape.keys);
            let group = GroupId((key % u64::from(self.shape.groups)) as u16);
            // Kind 0 reads and conflicts with changes. Kinds 1 and 2 change the key; 2 conflicts
            // only with itself and reads.
            let number = self.random.below(3) as u8;
            let conflicts = [0b110, 0b010, 0b101 | 0b100][usize::from(number)];
            let kind = Kind { number, conflicts };
            let key = Key::from(format!("k{key}").as_bytes());
            let payload = payloads.entry(group).or_insert_with(|| GroupPayload {
                snap_vec,
                accesses: Vec::new(),
                writes: Vec::new(),
            });
            let update = number > 0;
            payload.accesses.push(Access { key: key.clone(), update, kind });
            if update {
                payload.writes.push((key, self.sequence));
            }
        }
        let payloads: BTreeMap<_, _> =
            payloads.into_iter().map(|(group, payload)| (group, Arc::new(payload))).collect();
        let now = self.now_of(address);
        let until = self.latest_vote(now, &payloads);
        let name = self.name_for(address);
        let host = self.host(address).unwrap();
        let tid = host.service.certify(now, name, payloads.clone(), until, None);
        let since = self.now;
        self.until.insert(tid, until);
        self.submitted.insert(tid, payloads.clone());
        self.clients.push(Client { address, tid, payloads, since });
        self.carry_out(address);
    }

    /// Returns a name for a transaction at this worker. Some clients reserve a name; another client
    /// may submit under a name that it reserved earlier, or release it.
    fn name_for(&mut self, address: Address) -> Option<TransactionId> {
        let run = self.host(address)?.run;
        if self.naming.chance(50) {
            let tid = self.host(address)?.service.reserve();
            self.reserved.push((address, run, tid));
            self.named.push(tid);
        }
        let mut reserved = self.reserved.iter();
        let at = reserved.position(|(at, of, _)| (*at, *of) == (address, run));
        let at = at.filter(|_| self.naming.chance(50))?;
        let (_, _, tid) = self.reserved.remove(at);
        if self.naming.chance(20) {
            self.host(address)?.service.release(tid, Outcome::Aborted(None));
            return None;
        }
        Some(tid)
    }

    /// Asks all workers for the outcome of one of the last named transactions.
    fn ask(&mut self) {
        let back = 1 + self.naming.below(30) as usize;
        let Some(at) = self.named.len().checked_sub(back) else { return };
        let tid = self.named[at];
        for address in self.addresses() {
            let Some(host) = self.host(address) else { continue };
            if let Some(outcome) = host.service.outcome(tid) {
                host.held.push((host.journal.len(), Held::Answer(tid, outcome)));
            }
            self.flush(address);
        }
    }

    fn latest_vote(
        &self,
        now: Now,
        payloads: &BTreeMap<GroupId, Arc<GroupPayload<Write>>>,
    ) -> Timestamp {
        if !self.shape.hurried {
            return Timestamp::MAX;
        }
        let seen = payloads.values().map(|payload| payload.snap_vec.max_entry()).max();
        let from = seen.unwrap_or_default().max(Timestamp::from_physical(now.physical));
        // This exceeds the difference between clocks, so that a slow clock alone is not too late.
        from.later(Duration::from_secs(6))
    }

    fn arrive(&mut self, from: Address, to: Address, letter: Letter) {
        let now = self.now_of(to);
        let Some(host) = self.host(to) else { return };
        match letter {
            Letter::Certification(message) => host.service.handle(now, from, message),
            Letter::Range { group, prev, known, items } => {
                let log = host.logs.get_mut(&group).unwrap();
                if prev > log.known {
                    let gap = Letter::Gap { group, known: log.known };
                    host.held.push((host.journal.len(), Held::Send(from, gap)));
                } else {
                    let already = log.known;
                    for item in items.into_iter().filter(|item| item.ts > already) {
                        log.known = item.ts;
                        log.items.push(item.clone());
                        host.service.stored(group, &item.payload.commit_vec(item.ts));
                        let kept = Held::Keep(Kept::Stored(group, item));
                        host.held.push((host.journal.len(), kept));
                    }
                    log.known = log.known.max(known);
                    let known = log.known;
                    host.service.known(now, group, known);
                }
            }
            Letter::Causal { upto } => self.causal.arrive(from.site, to.site, upto),
            Letter::Members(number) => self.learn_members(to, number),
            Letter::Gap { group, known } => {
                host.sent.insert((group, from.site), known);
                self.send_range(to, from, group);
            }
        }
        self.carry_out(to);
    }

    fn crash(&mut self, address: Address) {
        let Some(host) = self.hosts.get_mut(&address).and_then(Option::take) else { return };
        let mut journal = host.journal;
        // Records that were not durable may be lost, from some point on.
        let lost = journal.len() - host.durable;
        journal.truncate(host.durable + self.random.below(lost as u64 + 1) as usize);
        self.down.insert(address, (journal, host.run + 1, host.skew));
        self.clients.retain(|client| client.address != address);
    }

    fn inject_fault(&mut self) {
        let sites = u64::from(self.shape.sites);
        let addresses = self.addresses();
        let one = addresses[self.random.below(addresses.len() as u64) as usize];
        let name = match self.random.below(11) {
            0 | 1 => {
                self.crash(one);
                "crash"
            }
            2 => {
                for address in addresses.into_iter().filter(|other| other.site == one.site) {
                    self.crash(address);
                }
                "site crash"
            }
            3 | 4 => {
                for (address, (journal, run, skew)) in std::mem::take(&mut self.down) {
                    self.start(address, journal, run, skew);
                }
                "restart"
            }
            5 => {
                let (a, b) = (self.random.below(sites) as u8, self.random.below(sites) as u8);
                self.cut.extend([(a, b), (b, a)]);
                "partition"
            }
            6 | 7 => {
                for other in 0..self.shape.sites {
                    self.cut.extend([(one.site.0, other), (other, one.site.0)]);
                }
                "isolation"
            }
            8 => {
                self.cut.clear();
                self.loss = [0, 0, 5, 20][self.random.below(4) as usize];
                self.delay = [5, 30, 200][self.random.below(3) as usize];
                "heal"
            }
            9 => {
                let group = GroupId(self.random.below(self.shape.groups.into()) as u16);
                let site = SiteId(self.random.below(sites) as u8);
                let now = self.now_of(one);
                if let Some(host) = self.host(one) {
                    host.service.move_leader(now, group, site);
                    self.carry_out(one);
                }
                "leader move"
            }
            _ => {
                let live: Vec<_> =
                    self.clients.iter().map(|client| (client.address, client.tid)).collect();
                for (address, tid) in live.into_iter().step_by(2) {
                    if let Some(host) = self.host(address) {
                        host.service.give_up(tid);
                    }
                }
                "giving up"
            }
        };
        *self.faults.entry(name).or_default() += 1;
    }

    fn settle_down(&mut self) {
        self.quiet = true;
        for (address, run, tid) in std::mem::take(&mut self.reserved) {
            if let Some(host) = self.host(address).filter(|host| host.run == run) {
                host.service.release(tid, Outcome::Aborted(None));
            }
        }
        self.cut.clear();
        self.loss = 0;
        self.delay = 30;
        for (address, (journal, run, skew)) in std::mem::take(&mut self.down) {
            self.start(address, journal, run, skew);
        }
    }

    fn next(&mut self) -> bool {
        let Some(Reverse((at, id))) = self.queue.pop() else { return false };
        self.now = at;
        match self.events.remove(&id).unwrap() {
            WorldEvent::Arrive { from, to, generations, letter } => {
                // Lists of members are taken from every sender.
                if matches!(letter, Letter::Members(_)) || self.admits(to, from.site, generations) {
                    self.arrive(from, to, letter);
                }
            }
            WorldEvent::Tick(address, run) => {
                let now = self.now_of(address);
                let stable_vec = self.stable_vec(address);
                if let Some(host) = self.host(address).filter(|host| host.run == run) {
                    host.service.site_stores(now, &stable_vec);
                    host.service.on_deadline(now);
                    self.carry_out(address);
                    self.at(5 * MILLI, WorldEvent::Tick(address, run));
                }
            }
            WorldEvent::Sync(address, run, upto) => {
                if let Some(host) = self.host(address).filter(|host| host.run == run) {
                    host.durable = host.durable.max(upto);
                    self.flush(address);
                }
            }
            WorldEvent::Submit => {
                if self.left > 0 {
                    self.left -= 1;
                    self.submit();
                    self.ask();
                    let pause = self.random.below(self.shape.pause * MILLI);
                    self.at(pause, WorldEvent::Submit);
                }
            }
            WorldEvent::Fault => {
                if !self.quiet && self.shape.faulty {
                    self.inject_fault();
                    let pause = self.random.below(1200 * MILLI);
                    self.at(pause, WorldEvent::Fault);
                }
            }
            WorldEvent::Causal => self.spread_causal(),
            WorldEvent::Members => self.change_members(),
        }
        true
    }

    fn run_until(&mut self, end: u64) {
        while self.first_violation.is_none()
            && self.queue.peek().is_some_and(|Reverse((at, _))| *at <= end)
        {
            self.next();
        }
        self.now = self.now.max(end);
    }

    /// Runs the world to its end, and returns the first violation.
    pub(crate) fn run(&mut self) -> Result<(), String> {
        while self.left > 0 && self.first_violation.is_none() {
            let end = self.now + 100 * MILLI;
            self.run_until(end);
        }
        self.settle_down();
        // The time is bounded: a client that waits longer waits in vain.
        let bound = self.now + 20_000 * MILLI;
        while !(self.clients.is_empty() && self.members.is_settled())
            && self.now < bound
            && self.first_violation.is_none()
        {
            let end = self.now + 100 * MILLI;
            self.run_until(end);
        }
        // Letters may come six seconds late, and have a leader determine again the outcome of a
        // transaction whose coordinator is gone.
        let end = self.now + 8000 * MILLI;
        self.run_until(end);
        if let Some(violation) = self.first_violation.take() {
            return Err(violation);
        }
        self.judge_history()?;
        if let Some(client) = self.clients.first() {
            let (tid, since) = (client.tid, (self.now - client.since) / MILLI);
            let groups: Vec<_> = client.payloads.keys().collect();
            return Err(format!("{tid:?} at {groups:?} is undecided since {since} ms"));
        }
        self.judge_memory()
    }

    /// Returns the numbers of answers that a named transaction committed, and that it aborted.
    pub(crate) fn answered(&self) -> (usize, usize) {
        let committed = self.answered.iter().filter(|(_, committed)| *committed).count();
        (committed, self.answered.len() - committed)
    }

    pub(crate) fn committed(&self) -> usize {
        self.outcomes.values().filter(|outcome| matches!(outcome, Outcome::Committed(_))).count()
    }
}

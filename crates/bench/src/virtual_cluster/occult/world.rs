//! A virtual cluster of the paper's shape that runs Occult's machines directly (§8.1).
//!
//! Two sites are 39 ms apart, and the clocks of the second one are 22 ms ahead. Each has 40 server
//! processes on 10 computers, and 10 computers of clients. A computer of clients runs one machine
//! that owns no shards. This machine is the client library of all clients on the computer.
//!
//! A server process is a virtual core. It is busy while it encodes and decodes messages, handles
//! them and waits for system calls, by the table of costs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use solera_data::Op;
use solera_machine::codec::{append, encoded_bytes, take};
use solera_machine::{Address, Machine, Now, RequestId, Topology};
use solera_membership::Members;
use solera_occult::{
    Body, Config, DEFAULT_SHARDS, Entry, Executed, Homes, Input, Message, Occult, OnStale, Output,
    Scheme, Shows,
};
use solera_time::{Monotonic, Physical, Queue, SiteId};

use super::super::cost::Costs;
use super::super::meter::{FLAT, Meter};
use super::super::network::{Card, Cards};
use super::super::step::{About, WIRE};
use super::clients::{Clients, Measured, Sessions, Workload, key};
use super::processes::{PROCESSES, SITES, Used};

const MS: u64 = 1_000_000;
/// Server processes of a computer.
const PER_COMPUTER: usize = 4;
/// Computers of clients of a site.
const GATEWAYS: usize = 10;
/// One-way delay between the sites, in nanoseconds: half of the round trip of 39 ms.
const ONE_WAY: u64 = 39 * MS / 2;
/// One-way delay within a site, in nanoseconds.
const WITHIN_SITE: u64 = 125_000;
/// Wall-clock time at the beginning of virtual time, in microseconds since 1970.
const EPOCH: u64 = 1_800_000_000_000_000;
/// Interval at which the machines' deadlines are checked, in nanoseconds.
const TICK: u64 = MS / 4;
/// Name of the step of a timer.
const DEADLINE: &str = "deadline";
/// Maximum number of inputs that a process handles before its outputs are sent.
const BATCH: usize = 64;
/// First request of the loader.
const LOADER: u64 = 1 << 40;

/// The cluster that an experiment runs.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// Scheme of timestamps.
    pub(crate) scheme: Scheme,
    /// Bandwidth of the network cards of the servers' computers, in bits per second; `None` if
    /// bytes and the work of cores take no time.
    pub(crate) card: Option<u64>,
    /// Time by which the clocks of the second site are ahead, in microseconds.
    pub(crate) ahead_us: i64,
    /// Number of attempts to lock a key.
    pub(crate) lock_tries: u32,
    /// Server processes whose replicas receive writes with a delay.
    pub(crate) slow: Vec<Address>,
    /// The delay; `None` if these replicas receive no writes.
    pub(crate) slow_by: Option<Duration>,
    /// Server process whose replicas are too slow, and the time that a write takes there.
    pub(crate) overloaded: Option<(Address, Duration)>,
    /// When replicas show writes.
    pub(crate) shows: Shows,
    /// Whether all keys have their homes at the first site.
    pub(crate) one_home: bool,
}

impl Setting {
    /// Returns the paper's setting with a scheme.
    pub(crate) fn of(scheme: Scheme) -> Setting {
        Setting {
            scheme,
            card: None,
            ahead_us: 22_000,
            lock_tries: 8,
            slow: Vec::new(),
            slow_by: None,
            overloaded: None,
            shows: Shows::AtOnce,
            one_home: false,
        }
    }
}

/// A message between two nodes, and its size.
struct Sent {
    from: usize,
    to: usize,
    body: Message,
    bytes: u64,
}

/// An event of virtual time.
enum Due {
    Arrive(Sent),
    /// A process becomes idle.
    Free(usize),
    Tick(usize),
    /// A client begins its next operation.
    Next(usize),
    /// A message passes the card of its sender.
    Send(Sent),
    /// The first byte of a message reaches the card of its receiver.
    Receive(Sent),
}

/// A process: a server, or a computer of clients.
struct Node {
    machine: Occult,
    address: Address,
    inbox: VecDeque<Sent>,
    free_at: u64,
    /// Whether an event continues its work when it is free.
    wakes: bool,
    used: Used,
}

/// A virtual cluster.
pub(crate) struct World {
    setting: Setting,
    pub(crate) homes: Arc<Homes>,
    config: Config,
    meter: Meter,
    nodes: Vec<Node>,
    cards: Option<Cards>,
    queue: Queue<Due>,
    now: u64,
    clients: Clients,
    /// Whether messages take the time of cards and cores.
    live: bool,
    /// Number of writes that have arrived at replicas of the second site.
    pub(crate) arrived: u64,
    /// For each write for the replica that is too slow, when it has been handled there.
    late: Vec<u64>,
}

/// Returns the bytes of a message's stamps and timestamps, and of messages that only carry these.
fn metadata(message: &Message) -> usize {
    let of_body = match &message.body {
        Body::Read(read) => encoded_bytes(&read.at_least),
        Body::ReadAnswer(answer) => {
            encoded_bytes(&answer.dependencies) + encoded_bytes(&answer.shown)
        }
        Body::Execute(execute) => encoded_bytes(&execute.timestamp) + encoded_bytes(&execute.reads),
        Body::Executed(.., Executed::Committed(_, timestamp)) => encoded_bytes(timestamp),
        Body::Batch(batch) if batch.entries.is_empty() => encoded_bytes(&message.body),
        Body::Batch(batch) => {
            let of_write = |(_, _, dependencies): &(_, _, _)| encoded_bytes(dependencies);
            let of_entry = |entry: &Entry| {
                let writes = entry.writes.iter().map(of_write).sum::<usize>();
                encoded_bytes(&entry.stamp) + writes
            };
            let entries = batch.entries.iter().map(of_entry).sum::<usize>();
            encoded_bytes(&batch.progress) + entries
        }
        Body::Oldest(..) | Body::Stored(_) | Body::Wanted | Body::Passed(..) => {
            encoded_bytes(&message.body)
        }
        _ => 0,
    };
    encoded_bytes(&message.epoch) + of_body
}

/// Returns whether a node is a computer of clients.
fn is_gateway(node: usize) -> bool {
    node >= SITES * PROCESSES
}

/// Returns the node of a worker.
fn node_of(address: Address) -> usize {
    let (site, worker) = (address.site.index(), usize::from(address.worker));
    match worker < PROCESSES {
        true => site * PROCESSES + worker,
        false => SITES * PROCESSES + site * GATEWAYS + worker - PROCESSES,
    }
}

/// Returns the addresses of all nodes.
fn addresses() -> impl Iterator<Item = Address> {
    let of = |first: usize, count: usize| {
        SiteId::all(SITES).flat_map(move |site| {
            (first..first + count).map(move |worker| Address { site, worker: worker as u8 })
        })
    };
    of(0, PROCESSES).chain(of(PROCESSES, GATEWAYS))
}

/// Returns the computer of a server.
fn computer_of(node: usize) -> usize {
    node / PER_COMPUTER
}

impl World {
    /// Creates a cluster that stores the workload's keys, and its clients.
    pub(crate) fn new(setting: Setting, workload: Workload) -> World {
        let is_eventual = workload.sessions == Sessions::Eventual;
        let rates = Costs::shipped().of_occult(is_eventual);
        World::with(Meter::Table(rates), setting, workload)
    }

    /// Creates a cluster with this source of costs.
    pub(crate) fn with(meter: Meter, setting: Setting, workload: Workload) -> World {
        let topology =
            Topology { partitions: PROCESSES as u16, workers: vec![PROCESSES as u8; SITES] };
        let topology = Arc::new(topology);
        let homes = Homes::new(DEFAULT_SHARDS, |shard| SiteId((shard.0 % SITES as u16) as u8));
        let config = |address| {
            let mut config = Config::new(address, topology.clone(), DEFAULT_SHARDS);
            config.scheme = setting.scheme;
            config.journal = false;
            if setting.one_home {
                config.home_of = [(Vec::new(), Some(SiteId(0)))].into();
            }
            config.shows = setting.shows;
            config.timing.lock_tries = setting.lock_tries;
            // A busy process must not look dead.
            config.timing.retry = Duration::from_secs(2);
            config.timing.timeout = Duration::from_secs(20);
            config.timing.prepare_expires = Duration::from_secs(10);
            config
        };
        let node = |address| Node {
            machine: Occult::new(config(address), &Members::new(SITES)),
            address,
            inbox: VecDeque::new(),
            free_at: 0,
            wakes: false,
            used: Used::default(),
        };
        let card = setting
            .card
            .map(|bits_per_second| Card { bits_per_second, processes: PER_COMPUTER as u8 });
        let (homes, first) = (Arc::new(homes.clone()), Address { site: SiteId(0), worker: 0 });
        let mut world = World {
            config: config(first),
            meter,
            nodes: addresses().map(node).collect(),
            cards: card.map(|card| Cards::new(card, SITES * PROCESSES / PER_COMPUTER)),
            queue: Queue::new(),
            now: 0,
            clients: Clients::new(workload, setting.scheme, homes.clone()),
            live: false,
            arrived: 0,
            late: Vec::new(),
            homes,
            setting,
        };
        for node in 0..world.nodes.len() {
            // Ticks of different processes are not synchronized.
            world.push(node as u64 * 7919 % TICK, Due::Tick(node));
        }
        world.load();
        world.live = true;
        world
    }

    /// Writes all keys at their homes, and waits until the replicas have them.
    fn load(&mut self) {
        let keys = self.clients.workload.keys;
        for number in 0..keys {
            let (key, value) = (key(number), self.clients.workload.value.clone());
            let site = self.homes.home(self.config.shard_of(&key)).index();
            let gateway = SITES * PROCESSES + site * GATEWAYS + number as usize % GATEWAYS;
            let command = solera_occult::Command::Execute {
                past: solera_occult::CausalTimestamp::new(self.setting.scheme),
                key,
                op: Op::Set(value),
                on_stale: OnStale::Home,
            };
            let request = RequestId(LOADER + number);
            self.handle_now(gateway, Input::Client { request, command });
            if number % 1000 == 999 {
                self.run_for(Duration::from_millis(5));
            }
        }
        self.run_for(Duration::from_millis(200));
    }

    /// Adds clients, spread over the sites and over their computers of clients.
    pub(crate) fn add_clients(&mut self, count: usize) {
        for number in 0..count {
            // All clients are where the homes are.
            let sites = if self.setting.one_home { 1 } else { SITES };
            let (site, turn) = (number % sites, number / sites);
            let gateway = SITES * PROCESSES + site * GATEWAYS + turn % GATEWAYS;
            let client = self.clients.add(site, gateway);
            self.push(self.now + number as u64 * 13_007 % (20 * MS), Due::Next(client));
        }
    }

    /// Runs for a warm-up time, and then measures a window.
    pub(crate) fn measure(&mut self, warm_up: Duration, window: Duration) -> Measured {
        self.run_for(warm_up);
        self.clients.begin_window();
        self.cards.iter_mut().for_each(Cards::reset);
        self.nodes.iter_mut().for_each(|node| node.used = Used::default());
        self.run_for(window);
        let traffic = self.cards.as_ref().map(Cards::bytes).unwrap_or_default();
        let used = self.nodes[..SITES * PROCESSES].iter().map(|node| node.used).collect();
        self.clients.end_window(window, traffic, used)
    }

    /// Returns the average number of writes that have arrived at the processes of the second site
    /// beside a slow one and are not shown.
    pub(crate) fn held_beside(&self, slow: Address) -> f64 {
        let others = self.nodes[PROCESSES..SITES * PROCESSES].iter();
        let others = others.filter(|node| node.address != slow);
        others.map(|node| node.machine.held()).sum::<usize>() as f64 / (PROCESSES - 1) as f64
    }

    /// Returns the number of writes that the replica that is too slow has not handled.
    pub(crate) fn at_slow(&self) -> usize {
        self.late.iter().filter(|at| **at > self.now).count()
    }

    /// Ends the run, and returns the source of costs.
    pub(crate) fn into_meter(self) -> Meter {
        self.meter
    }

    fn push(&mut self, at: u64, due: Due) {
        self.queue.push(at, due);
    }

    fn clocks(&self, node: usize) -> Now {
        let site = self.nodes[node].address.site.index();
        let ahead = if site == 1 { self.setting.ahead_us } else { 0 };
        let physical = Physical((EPOCH + self.now / 1000).saturating_add_signed(ahead));
        Now { monotonic: Monotonic(self.now), physical }
    }

    /// Continues for some time.
    pub(crate) fn run_for(&mut self, time: Duration) {
        let end = self.now + time.as_nanos() as u64;
        while let Some((at, due)) = self.queue.pop(end) {
            self.now = at;
            match due {
                Due::Arrive(sent) => {
                    let to = sent.to;
                    if let Body::Batch(batch) = &sent.body.body
                        && self.nodes[to].address.site == SiteId(1)
                        && self.live
                    {
                        let writes = batch.entries.iter().map(|entry| entry.writes.len() as u64);
                        self.arrived += writes.sum::<u64>();
                    }
                    self.nodes[to].inbox.push_back(sent);
                    self.work(to);
                }
                Due::Free(node) => {
                    self.nodes[node].wakes = false;
                    self.work(node);
                }
                Due::Tick(node) => self.tick(node),
                Due::Next(client) => self.next(client),
                Due::Send(sent) => {
                    let at = match (&mut self.cards, is_gateway(sent.from)) {
                        (Some(cards), false) => {
                            cards.send(computer_of(sent.from), self.now, sent.bytes)
                        }
                        _ => self.now,
                    };
                    self.push(at + self.delay(&sent), Due::Receive(sent));
                }
                Due::Receive(sent) => {
                    let at = match (&mut self.cards, is_gateway(sent.to)) {
                        (Some(cards), false) => {
                            cards.receive(computer_of(sent.to), self.now, sent.bytes)
                        }
                        _ => self.now,
                    };
                    self.push(at, Due::Arrive(sent));
                }
            }
        }
        self.now = end;
    }

    /// Returns whether a message is a part of the stream to a slow replica.
    fn is_slow(&self, to: usize, body: &Message) -> bool {
        matches!(body.body, Body::Batch(_)) && self.setting.slow.contains(&self.nodes[to].address)
    }

    fn delay(&self, sent: &Sent) -> u64 {
        let (from, to) = (self.nodes[sent.from].address, self.nodes[sent.to].address);
        let extra = match self.is_slow(sent.to, &sent.body) {
            true => self.setting.slow_by.unwrap_or_default().as_nanos() as u64,
            false => 0,
        };
        extra + if from.site == to.site { WITHIN_SITE } else { ONE_WAY }
    }

    /// Returns when a message that arrives at `at` is handled: at once, unless it is a part of the
    /// stream to a replica that is too slow. Only without cards.
    fn handled(&mut self, at: u64, sent: &Sent) -> u64 {
        let (Body::Batch(batch), Some((slow, takes))) = (&sent.body.body, self.setting.overloaded)
        else {
            return at;
        };
        if self.nodes[sent.to].address != slow || !self.live {
            return at;
        }
        for _ in batch.entries.iter().flat_map(|entry| &entry.writes) {
            let begin = self.late.last().map_or(at, |last| at.max(*last));
            self.late.push(begin + takes.as_nanos() as u64);
        }
        self.late.last().map_or(at, |last| at.max(*last))
    }

    /// Has a process handle its deadline after its present work.
    fn tick(&mut self, node: usize) {
        self.push(self.now + TICK, Due::Tick(node));
        let now = self.clocks(node);
        if self.nodes[node].machine.next_deadline().is_none_or(|due| due > now.monotonic) {
            return;
        }
        let about = About { kind: DEADLINE, size: 0 };
        let (outputs, steps) = self.step(node, about, |machine| machine.on_deadline(now));
        self.finish(node, outputs, Work { steps, ..Work::default() });
    }

    /// Lets an idle process handle its waiting messages.
    fn work(&mut self, node: usize) {
        if self.nodes[node].inbox.is_empty() || self.waits(node) {
            return;
        }
        let now = self.clocks(node);
        let (mut work, mut senders, mut outputs) = (Work::default(), Vec::new(), Vec::new());
        for _ in 0..BATCH {
            let Some(Sent { from, body, bytes, .. }) = self.nodes[node].inbox.pop_front() else {
                break;
            };
            let counts = self.counts(bytes);
            work.wire += self.wire(node, &body, bytes);
            if counts && !senders.contains(&from) {
                senders.push(from);
            }
            if is_gateway(node) {
                self.clients.note_answer(&self.config, node, &body);
            }
            let about = About { kind: body.name(), size: bytes };
            let from = self.nodes[from].address;
            let input = Input::Message { from, generation: 0, message: body };
            let (more, steps) = self.step(node, about, |machine| machine.handle(now, input));
            outputs.extend(more);
            work.steps += if counts { steps } else { 0.0 };
        }
        // One system call waits for all messages.
        work.calls = senders.len() as u64;
        work.calls += u64::from(work.calls > 0);
        self.finish(node, outputs, work);
        if !self.nodes[node].inbox.is_empty() {
            // A node whose work takes no time continues at once.
            self.wake(node);
        }
    }

    /// Returns whether a process is busy now, and lets it continue when it is free.
    fn waits(&mut self, node: usize) -> bool {
        let is_busy = self.nodes[node].free_at > self.now;
        if is_busy {
            self.wake(node);
        }
        is_busy
    }

    fn wake(&mut self, node: usize) {
        if !std::mem::replace(&mut self.nodes[node].wakes, true) {
            let at = self.nodes[node].free_at.max(self.now);
            self.push(at, Due::Free(node));
        }
    }

    /// Sends outputs when the work that produced them is done.
    fn finish(&mut self, node: usize, outputs: Vec<Output>, mut work: Work) {
        let outputs = self.take(node, outputs);
        let outputs: Vec<Sent> = outputs
            .into_iter()
            .map(|(to, body)| Sent { from: node, to, bytes: self.bytes_of(&body), body })
            .collect();
        let begin = self.nodes[node].free_at.max(self.now);
        if !self.is_busy(node) {
            return self.send(self.now, outputs);
        }
        let mut receivers: Vec<usize> = Vec::new();
        for sent in &outputs {
            work.wire += self.wire(node, &sent.body, sent.bytes);
            if self.counts(sent.bytes) && !receivers.contains(&sent.to) {
                receivers.push(sent.to);
            }
        }
        work.calls += receivers.len() as u64;
        let time = |instructions, calls| match &self.meter {
            Meter::Table(rates) => rates.factors.time(instructions, calls) as u64,
            Meter::Counting(_) => instructions as u64,
        };
        let (all, steps) = (time(work.steps + work.wire, work.calls), time(work.steps, 0));
        let process = &mut self.nodes[node];
        process.free_at = begin + all;
        process.used.busy += all;
        process.used.steps += steps;
        let at = process.free_at;
        self.send(at, outputs);
    }

    /// Runs a step of a machine. Returns its outputs and its instructions, which are zero if the
    /// node's work takes no time.
    fn step(
        &mut self,
        node: usize,
        about: About,
        input: impl FnOnce(&mut Occult),
    ) -> (Vec<Output>, f64) {
        let is_busy = self.is_busy(node);
        let machine = &mut self.nodes[node].machine;
        let run = move || {
            input(machine);
            let mut outputs = Vec::new();
            while let Some(output) = machine.poll_output() {
                outputs.push(output);
            }
            outputs
        };
        let class = |outputs: &Vec<Output>| about.with_outputs(outputs.len(), false);
        match &mut self.meter {
            _ if !is_busy => (run(), 0.0),
            Meter::Counting(counting) => (counting.step(run, class), FLAT),
            Meter::Table(rates) => {
                let outputs = run();
                let instructions = rates.step(class(&outputs)).0;
                (outputs, instructions)
            }
        }
    }

    /// Returns whether a node's work takes time.
    fn is_busy(&self, node: usize) -> bool {
        self.live && self.cards.is_some() && !is_gateway(node)
    }

    /// Returns whether a message of these bytes costs work. The eventual baseline does not send
    /// messages that would be empty without the data that only Occult needs.
    fn counts(&self, bytes: u64) -> bool {
        bytes > 0 || !matches!(self.meter, Meter::Table(_))
    }

    /// Returns the bytes of a message; for the eventual baseline, without data that only Occult
    /// needs.
    fn bytes_of(&self, body: &Message) -> u64 {
        let all = encoded_bytes(body);
        let extra = match self.clients.workload.sessions {
            Sessions::Eventual => metadata(body),
            Sessions::Causal | Sessions::Counting => 0,
        };
        all.saturating_sub(extra) as u64
    }

    /// Returns the instructions of encoding or decoding a message.
    fn wire(&mut self, node: usize, body: &Message, bytes: u64) -> f64 {
        if !self.is_busy(node) || !self.counts(bytes) {
            return 0.0;
        }
        let class = About { kind: WIRE, size: bytes }.with_outputs(0, false);
        match &mut self.meter {
            Meter::Table(rates) => rates.step(class).0 / 2.0,
            Meter::Counting(counting) => {
                let encode_and_decode = || {
                    let mut encoded = Vec::new();
                    append(body, &mut encoded);
                    drop(std::hint::black_box(take::<Message>(&encoded)));
                };
                counting.step(encode_and_decode, |()| class);
                FLAT / 2.0
            }
        }
    }

    /// Gives a machine's replies to the clients, and returns its messages.
    fn take(&mut self, node: usize, outputs: Vec<Output>) -> Vec<(usize, Message)> {
        let mut messages = Vec::new();
        for output in outputs {
            match output {
                Output::Records(_) | Output::Trace(_) | Output::Ask { .. } => {}
                // Computers of clients own no data, so they send no useful batches.
                Output::Send { message: Message { body: Body::Batch(_), .. }, .. }
                    if is_gateway(node) => {}
                Output::Send { to, message } => messages.push((node_of(to), message)),
                Output::Reply { request: RequestId(number), response, .. } if number < LOADER => {
                    self.clients.answered(number as usize, response, self.now);
                    self.push(self.now, Due::Next(number as usize));
                }
                Output::Reply { .. } => {}
            }
        }
        messages
    }

    fn send(&mut self, at: u64, messages: Vec<Sent>) {
        for sent in messages {
            let (from, to) = (sent.from, sent.to);
            self.clients.note_sent(from, &sent.body);
            if self.setting.slow_by.is_none() && self.is_slow(to, &sent.body) {
                continue;
            }
            let near = !is_gateway(from) && !is_gateway(to) && computer_of(from) == computer_of(to);
            if !self.live || self.cards.is_none() || near {
                let arrives = self.handled(at + self.delay(&sent), &sent);
                self.push(arrives, Due::Arrive(sent));
            } else {
                self.push(at, Due::Send(sent));
            }
        }
    }

    /// Lets a client run its next command.
    fn next(&mut self, client: usize) {
        let (gateway, command) = self.clients.next(client, self.now);
        self.clients.asking = Some(client);
        self.handle_now(gateway, Input::Client { request: RequestId(client as u64), command });
        self.clients.asking = None;
    }

    /// Lets the machine of a computer of clients handle an input at once.
    fn handle_now(&mut self, gateway: usize, input: Input) {
        let now = self.clocks(gateway);
        let about = About { kind: "command", size: 0 };
        let (outputs, _) = self.step(gateway, about, |machine| machine.handle(now, input));
        self.finish(gateway, outputs, Work::default());
    }
}

/// Work that leads to outputs.
#[derive(Clone, Copy, Default)]
struct Work {
    /// Instructions of the machine.
    steps: f64,
    /// Instructions of encoding and decoding.
    wire: f64,
    /// System calls.
    calls: u64,
}

/// Returns server processes by the load of their keys, with the greatest load first, alternating
/// between the two sites.
pub(crate) fn by_load(workload: &Workload) -> Vec<Address> {
    let topology = Topology { partitions: PROCESSES as u16, workers: vec![PROCESSES as u8; SITES] };
    let address = Address { site: SiteId(0), worker: 0 };
    let config = Config::new(address, Arc::new(topology), DEFAULT_SHARDS);
    let mut loads: BTreeMap<u8, f64> = (0..PROCESSES as u8).map(|worker| (worker, 0.0)).collect();
    for (rank, number) in crate::ycsb::hottest(workload.keys, 10_000).into_iter().enumerate() {
        let shard = config.shard_of(&key(number));
        let worker = config.owner(SiteId(0), shard).worker;
        *loads.entry(worker).or_default() += 1.0 / (rank + 1) as f64;
    }
    let mut workers: Vec<(u8, f64)> = loads.into_iter().collect();
    workers.sort_by(|one, other| other.1.total_cmp(&one.1));
    let of_sites = |(worker, _)| SiteId::all(SITES).map(move |site| Address { site, worker });
    workers.into_iter().flat_map(of_sites).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ycsb::Distribution;

    fn workload(sessions: Sessions, operations: u64) -> Workload {
        Workload {
            keys: 500,
            value: vec![b'v'; 1000].as_slice().into(),
            reads: 90,
            distribution: Distribution::Zipfian,
            operations,
            sessions,
            seed: 1,
        }
    }

    fn run(setting: Setting, workload: Workload) -> Measured {
        let mut world = World::new(setting, workload);
        world.add_clients(40);
        world.measure(Duration::from_millis(100), Duration::from_millis(500))
    }

    #[test]
    fn equal_seeds_give_equal_results() {
        let setting = Setting { card: Some(10_000_000), ..Setting::of(Scheme::PerSite(2)) };
        let run = || format!("{:?}", run(setting.clone(), workload(Sessions::Causal, 3)));
        assert_eq!(run(), run());
    }

    #[test]
    fn clocks_that_differ_make_reads_stale_unless_stamps_are_kept_per_site() {
        let stale = |scheme, ahead_us| {
            let setting = Setting { ahead_us, ..Setting::of(scheme) };
            let measured = run(setting, workload(Sessions::Counting, 1));
            assert_eq!(measured.failed, 0);
            measured.stale_rate(Some(1))
        };
        let (same, ahead) = (stale(Scheme::Temporal(4), 0), stale(Scheme::Temporal(4), 22_000));
        assert!(ahead > 0.1 && ahead > 1.5 * same, "{same}, {ahead}");
        let per_site = stale(Scheme::PerSite(2), 22_000);
        assert!(per_site < 0.2 * ahead, "{per_site}, {ahead}");
    }

    #[test]
    fn a_message_of_the_baseline_costs_less_and_a_busy_card_limits_both() {
        let goodput = |sessions| {
            let setting = Setting { card: Some(5_000_000), ..Setting::of(Scheme::PerSite(5)) };
            let measured = run(setting, workload(sessions, 1));
            assert!(measured.busiest_card(5_000_000) > 0.8, "the card is the bottleneck");
            measured.bytes_per_operation().0
        };
        let (eventual, causal) = (goodput(Sessions::Eventual), goodput(Sessions::Causal));
        assert!(eventual > 900.0 && causal > 1.01 * eventual, "{eventual}, {causal}");
    }

    #[test]
    fn slow_replicas_are_asked_again() {
        let repeated = |slow: Vec<Address>| {
            let slow_by = Some(Duration::from_millis(100));
            let setting = Setting { slow, slow_by, ..Setting::of(Scheme::PerSite(2)) };
            run(setting, workload(Sessions::Causal, 1)).repeated()
        };
        let (none, all) = (repeated(Vec::new()), repeated(addresses().collect()));
        assert!(all > 0.01 && all > 3.0 * none, "{none}, {all}");
    }

    #[test]
    fn only_the_pessimistic_baseline_lets_writes_wait_beside_a_slow_replica() {
        let workload = Workload { keys: 100, ..workload(Sessions::Causal, 1) };
        let slow = by_load(&workload).into_iter().find(|it| it.site == SiteId(1)).unwrap();
        let held = |shows, takes_ms: u64| {
            let overloaded = Some((slow, Duration::from_millis(takes_ms)));
            let of = Setting::of(Scheme::Exact);
            let setting = Setting { one_home: true, shows, overloaded, ..of };
            let mut world = World::new(setting, workload.clone());
            world.add_clients(10);
            world.run_for(Duration::from_millis(150));
            assert!(world.at_slow() > 2 || takes_ms == 0, "{}", world.at_slow());
            world.held_beside(slow)
        };
        assert_eq!(held(Shows::AtOnce, 500), 0.0);
        let (none, slow) = (held(Shows::AfterDependencies, 0), held(Shows::AfterDependencies, 500));
        assert!(slow > 5.0 * none.max(0.1), "{none}, {slow}");
    }
}

//! A virtual cluster of the paper's shape that runs Occult's machines directly (§8.1).
//!
//! Two sites are 39 ms apart, and the clocks of the second one are 22 ms ahead. Each has 40 server
//! processes on 10 computers, and 10 computers of clients. A computer of clients runs one machine
//! that owns no shards, as the client library of all of its clients.
//!
//! A server process is a virtual core. It is busy while it encodes and decodes messages and waits
//! for system calls, by the table of costs. The steps of Occult's machine itself are not in this
//! table yet, and take no time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use solera_config::Baseline;
use solera_data::Op;
use solera_machine::codec::encoded_bytes;
use solera_machine::{Address, Machine, Now, RequestId, Topology};
use solera_membership::Members;
use solera_occult::{
    Body, Config, DEFAULT_SHARDS, Entry, Executed, Homes, Input, Message, Occult, OnStale, Output,
    Scheme,
};
use solera_time::{Monotonic, Physical, SiteId};

use super::clients::{Clients, Measured, Sessions, Workload, key};
use crate::virtual_cluster::cost::{Costs, Rates};
use crate::virtual_cluster::network::{Card, Cards};
use crate::virtual_cluster::step::{Class, WIRE, logarithm};

const MS: u64 = 1_000_000;
pub(super) const SITES: usize = 2;
/// Server processes of a site.
pub(super) const PROCESSES: usize = 40;
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
/// Interval of the machines' ticks, in nanoseconds.
const TICK: u64 = MS;
/// Maximum number of inputs that a process handles before its outputs are sent.
const BATCH: usize = 64;
/// First request of the loader.
const LOADER: u64 = 1 << 40;

/// The cluster that an experiment runs.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    /// Scheme of timestamps.
    pub(super) scheme: Scheme,
    /// Bandwidth of the network cards of the servers' computers, in bits per second; `None` if
    /// bytes and the work of cores take no time.
    pub(super) card: Option<u64>,
    /// How far the clocks of the second site are ahead, in microseconds.
    pub(super) ahead_us: i64,
    /// Number of attempts to lock a key.
    pub(super) lock_tries: u32,
    /// Server processes whose replicas receive writes later, and by how much.
    pub(super) slow: Vec<Address>,
    pub(super) slow_by: Duration,
}

impl Setting {
    /// Returns the paper's setting with a scheme.
    pub(super) fn of(scheme: Scheme) -> Setting {
        Setting {
            scheme,
            card: None,
            ahead_us: 22_000,
            lock_tries: 8,
            slow: Vec::new(),
            slow_by: Duration::ZERO,
        }
    }
}

/// An event of virtual time.
enum Due {
    Arrive(usize, usize, Message),
    /// A process becomes idle.
    Free(usize),
    Tick(usize),
    /// A client begins its next operation.
    Next(usize),
    /// A message passes the card of its sender.
    Send(usize, usize, Message, u64),
    /// The first byte of a message reaches the card of its receiver.
    Receive(usize, usize, Message, u64),
}

struct Event {
    at: u64,
    sequence: u64,
    due: Box<Due>,
}

impl PartialEq for Event {
    fn eq(&self, other: &Event) -> bool {
        self.sequence == other.sequence
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Event) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Event) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

/// A process: a server, or a computer of clients.
struct Node {
    machine: Occult,
    address: Address,
    inbox: VecDeque<(usize, Message)>,
    free_at: u64,
}

/// A virtual cluster.
pub(super) struct World {
    setting: Setting,
    pub(super) homes: Arc<Homes>,
    config: Config,
    rates: Rates,
    nodes: Vec<Node>,
    cards: Option<Cards>,
    queue: BinaryHeap<Reverse<Event>>,
    sequence: u64,
    now: u64,
    clients: Clients,
    /// Whether messages take the time of cards and cores.
    live: bool,
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
    pub(super) fn new(setting: Setting, workload: Workload) -> World {
        let topology =
            Topology { partitions: PROCESSES as u16, workers: vec![PROCESSES as u8; SITES] };
        let topology = Arc::new(topology);
        let homes = Homes::new(DEFAULT_SHARDS, |shard| SiteId((shard.0 % SITES as u16) as u8));
        let config = |address| {
            let mut config = Config::new(address, topology.clone(), DEFAULT_SHARDS);
            config.scheme = setting.scheme;
            config.journal = false;
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
        };
        let card = setting
            .card
            .map(|bits_per_second| Card { bits_per_second, processes: PER_COMPUTER as u8 });
        let (homes, first) = (Arc::new(homes.clone()), Address { site: SiteId(0), worker: 0 });
        let mut world = World {
            config: config(first),
            rates: Costs::shipped().of(Baseline::UniStore),
            nodes: addresses().map(node).collect(),
            cards: card.map(|card| Cards::new(card, SITES * PROCESSES / PER_COMPUTER)),
            queue: BinaryHeap::new(),
            sequence: 0,
            now: 0,
            clients: Clients::new(workload, setting.scheme, homes.clone()),
            live: false,
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
            let now = self.clocks(gateway);
            let request = RequestId(LOADER + number);
            self.nodes[gateway].machine.handle(now, Input::Client { request, command });
            self.drain(gateway);
            if number % 1000 == 999 {
                self.run_for(Duration::from_millis(5));
            }
        }
        self.run_for(Duration::from_millis(200));
    }

    /// Adds clients, spread over the sites and over their computers of clients.
    pub(super) fn add_clients(&mut self, count: usize) {
        for number in 0..count {
            let (site, turn) = (number % SITES, number / SITES);
            let gateway = SITES * PROCESSES + site * GATEWAYS + turn % GATEWAYS;
            let client = self.clients.add(site, gateway);
            self.push(self.now + number as u64 * 13_007 % (20 * MS), Due::Next(client));
        }
    }

    /// Runs for a warm-up time, and then measures a window.
    pub(super) fn measure(&mut self, warm_up: Duration, window: Duration) -> Measured {
        self.run_for(warm_up);
        self.clients.begin_window();
        self.cards.iter_mut().for_each(Cards::reset);
        self.run_for(window);
        let traffic = self.cards.as_ref().map(Cards::bytes).unwrap_or_default();
        self.clients.end_window(window, traffic)
    }

    fn push(&mut self, at: u64, due: Due) {
        self.sequence += 1;
        self.queue.push(Reverse(Event { at, sequence: self.sequence, due: Box::new(due) }));
    }

    fn clocks(&self, node: usize) -> Now {
        let site = self.nodes[node].address.site.index();
        let ahead = if site == 1 { self.setting.ahead_us } else { 0 };
        let physical = Physical((EPOCH + self.now / 1000).saturating_add_signed(ahead));
        Now { monotonic: Monotonic(self.now), physical }
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time.as_nanos() as u64;
        while self.queue.peek().is_some_and(|Reverse(event)| event.at <= end) {
            let Some(Reverse(event)) = self.queue.pop() else { break };
            self.now = event.at;
            match *event.due {
                Due::Arrive(from, to, body) => {
                    self.nodes[to].inbox.push_back((from, body));
                    self.work(to);
                }
                Due::Free(node) => self.work(node),
                Due::Tick(node) => {
                    let now = self.clocks(node);
                    self.nodes[node].machine.on_deadline(now);
                    self.drain(node);
                    self.push(self.now + TICK, Due::Tick(node));
                }
                Due::Next(client) => self.next(client),
                Due::Send(from, to, body, bytes) => {
                    let at = match (&mut self.cards, is_gateway(from)) {
                        (Some(cards), false) => cards.send(computer_of(from), self.now, bytes),
                        _ => self.now,
                    };
                    self.push(
                        at + self.delay(from, to, &body),
                        Due::Receive(from, to, body, bytes),
                    );
                }
                Due::Receive(from, to, body, bytes) => {
                    let at = match (&mut self.cards, is_gateway(to)) {
                        (Some(cards), false) => cards.receive(computer_of(to), self.now, bytes),
                        _ => self.now,
                    };
                    self.push(at, Due::Arrive(from, to, body));
                }
            }
        }
        self.now = end;
    }

    fn delay(&self, from: usize, to: usize, body: &Message) -> u64 {
        let (from, to) = (self.nodes[from].address, self.nodes[to].address);
        let slow = matches!(body.body, Body::Batch(_)) && self.setting.slow.contains(&to);
        let extra = if slow { self.setting.slow_by.as_nanos() as u64 } else { 0 };
        extra + if from.site == to.site { WITHIN_SITE } else { ONE_WAY }
    }

    /// Lets an idle process handle its waiting messages.
    fn work(&mut self, node: usize) {
        if self.nodes[node].free_at > self.now || self.nodes[node].inbox.is_empty() {
            return;
        }
        let now = self.clocks(node);
        let (mut instructions, mut senders) = (0.0, Vec::new());
        for _ in 0..BATCH {
            let Some((from, body)) = self.nodes[node].inbox.pop_front() else { break };
            if self.is_busy(node) {
                instructions += self.wire(&body);
                if !senders.contains(&from) {
                    senders.push(from);
                }
            }
            if is_gateway(node) {
                self.clients.note_answer(&self.config, node, &body);
            }
            let from = self.nodes[from].address;
            let input = Input::Message { from, generation: 0, message: body };
            self.nodes[node].machine.handle(now, input);
        }
        let outputs = self.outputs(node);
        let mut receivers: Vec<usize> = Vec::new();
        for (to, body) in outputs.iter().filter(|_| self.is_busy(node)) {
            instructions += self.wire(body);
            if !receivers.contains(to) {
                receivers.push(*to);
            }
        }
        // One system call waits for all messages.
        let calls = 1 + senders.len() + receivers.len();
        let time = self.rates.factors.time(instructions, calls as u64) as u64;
        let done = self.now + if self.is_busy(node) { time } else { 0 };
        self.nodes[node].free_at = done;
        self.send(node, done, outputs);
        if !self.nodes[node].inbox.is_empty() {
            self.push(done, Due::Free(node));
        }
    }

    /// Returns whether a node's work takes time.
    fn is_busy(&self, node: usize) -> bool {
        self.live && self.cards.is_some() && !is_gateway(node)
    }

    /// Returns the bytes of a message, for the eventual baseline without what only Occult needs.
    fn bytes_of(&self, body: &Message) -> u64 {
        let all = encoded_bytes(body);
        let extra = match self.clients.workload.sessions {
            Sessions::Eventual => metadata(body),
            Sessions::Causal | Sessions::Counting => 0,
        };
        all.saturating_sub(extra) as u64
    }

    /// Returns the instructions of encoding or decoding a message.
    fn wire(&self, body: &Message) -> f64 {
        let size = logarithm(self.bytes_of(body));
        self.rates.step(Class { kind: WIRE, size, outputs: 0 }).0 / 2.0
    }

    /// Takes a machine's messages, and gives its replies to the clients.
    fn outputs(&mut self, node: usize) -> Vec<(usize, Message)> {
        let mut messages = Vec::new();
        while let Some(output) = self.nodes[node].machine.poll_output() {
            match output {
                Output::Records(_) | Output::Trace(_) | Output::Ask { .. } => {}
                // Computers of clients own nothing that others could copy.
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

    fn drain(&mut self, node: usize) {
        let outputs = self.outputs(node);
        self.send(node, self.now, outputs);
    }

    fn send(&mut self, node: usize, at: u64, messages: Vec<(usize, Message)>) {
        for (to, body) in messages {
            self.clients.note_sent(node, &body);
            let near = !is_gateway(node) && !is_gateway(to) && computer_of(node) == computer_of(to);
            if !self.live || self.cards.is_none() || near {
                let delay = self.delay(node, to, &body);
                self.push(at + delay, Due::Arrive(node, to, body));
            } else {
                let bytes = self.bytes_of(&body);
                self.push(at, Due::Send(node, to, body, bytes));
            }
        }
    }

    /// Lets a client run its next command.
    fn next(&mut self, client: usize) {
        let (gateway, command) = self.clients.next(client, self.now);
        let now = self.clocks(gateway);
        self.clients.asking = Some(client);
        let request = RequestId(client as u64);
        self.nodes[gateway].machine.handle(now, Input::Client { request, command });
        self.drain(gateway);
        self.clients.asking = None;
    }
}

/// Returns server processes by the load of their keys, with the greatest load first: of both sites
/// in turn.
pub(super) fn by_load(workload: &Workload) -> Vec<Address> {
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
            let slow_by = Duration::from_millis(100);
            let setting = Setting { slow, slow_by, ..Setting::of(Scheme::PerSite(2)) };
            run(setting, workload(Sessions::Causal, 1)).repeated()
        };
        let (none, all) = (repeated(Vec::new()), repeated(addresses().collect()));
        assert!(all > 0.01 && all > 3.0 * none, "{none}, {all}");
    }
}

//! Time, queues and virtual cores.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use solera_machine::{Address, Now, RequestId, Share, Topology, Turns, Wire};
use solera_site::{Message, Output, Site};
use solera_time::{Monotonic, Queue, SiteId, Timestamp, Vector};
use solera_unistore::{Command, Response};

use super::arrivals::Arrivals;
use super::client::{Client, Failed, Then};
use super::flood::{self, Flood};
use super::meter::{Charged, Meter};
use super::network::Cards;
use super::shape::{Shape, kind_in};
use super::source::Source;
use super::step::{About, Engine, MachineStep};
use crate::histogram::Histogram;
use crate::tally::{Class, Count};

/// Wall-clock time at the beginning of virtual time, in microseconds since 1970.
pub(crate) const EPOCH: u64 = 1_800_000_000_000_000;
/// One-way delay within a site between processes, in nanoseconds. Clients run on separate machines.
const WITHIN_SITE: u64 = 125_000;
/// One-way delay between cores of one process, in nanoseconds.
const WITHIN_NODE: u64 = 5_000;
/// Maximum number of inputs that a core processes before its outputs are sent.
const BATCH: usize = 64;
/// Id of requests without a client.
const NOBODY: RequestId = RequestId(u64::MAX);
/// First id of probes.
const PROBES: u64 = 1 << 62;

const MS: u64 = 1_000_000;

/// Input of a core.
enum Item {
    Message(Address, Message),
    /// A batch of a client.
    Round(usize),
    Probe(u64, Command),
    /// An update of a flood.
    Flood(RequestId, solera_primary::Command),
    /// A deadline of the machine.
    Tick,
}

impl Item {
    /// Returns its share of a turn, as in servers.
    fn share(&self) -> Share {
        match self {
            Item::Message(_, message) => message.share(),
            Item::Flood(..) => Share::usual(solera_primary::PROTOCOL),
            Item::Round(_) | Item::Probe(..) | Item::Tick => {
                Share::usual(solera_unistore::PROTOCOL)
            }
        }
    }
}

/// Event of virtual time.
#[expect(clippy::large_enum_variant, reason = "most are messages")]
enum Due {
    Arrive(usize, Item),
    /// A core becomes idle.
    Free(usize),
    /// A reply reaches a client.
    Answer(usize),
    /// A client's pause ends.
    Start(usize),
    /// A client retries a transaction.
    Retry(usize),
    /// A message passes the card of its sender, if it has one.
    Send(Transfer),
    /// The first byte of a message reaches the card of its receiver, if it has one.
    Receive(Transfer),
}

/// A message between computers that have cards. The computers of clients have none.
struct Transfer {
    from: Option<usize>,
    to: Option<usize>,
    bytes: u64,
    /// Delay of the network.
    delay: u64,
    /// Effect of its arrival.
    then: Box<Due>,
}

struct Core {
    engine: Engine,
    address: Address,
    inbox: Turns<Item>,
    /// Clients of `primary`, if any.
    flood: Option<Flood>,
    /// Whether another worker of its process has woken it since it last took inputs.
    woken: bool,
    /// Number of wake-ups of other workers for which it was not charged yet.
    wakes: u64,
    free_at: u64,
    /// Time of its next tick, if one is scheduled.
    tick_at: Option<u64>,
    /// Busy time within the window.
    busy: u64,
    /// Number of its machine's steps since the last deadline.
    since: u64,
}

/// Outputs of a core's turn.
#[derive(Default)]
struct Turn {
    /// Remaining steps of its machine, with the operations of the transaction.
    steps: VecDeque<(MachineStep, usize)>,
    sent: Vec<(Address, Message)>,
    /// Replies to clients and probes.
    replies: Vec<(RequestId, Response)>,
    /// Number of completed updates of the flood.
    flooded: usize,
}

/// Adds an output of a machine to the turn.
fn sort(output: Output, turn: &mut Turn, clients: &mut [Client]) {
    let (request, response) = match output {
        Output::Send { to, message } => return turn.sent.push((to, message)),
        Output::Reply { request, last, response: solera_site::Response::Primary(_) } => {
            turn.flooded += usize::from(last && request.0 >= flood::FIRST);
            return;
        }
        Output::Reply { request, response: solera_site::Response::UniStore(response), .. } => {
            (request, response)
        }
        // The cluster has no journals and no observers.
        _ => return,
    };
    if request.0 >= PROBES {
        return turn.replies.push((request, response));
    }
    let client = &mut clients[request.0 as usize];
    match client.answered(response) {
        Then::Go(command) => {
            let next = MachineStep::Client(request, command.into());
            turn.steps.push_back((next, client.operations()));
        }
        Then::Reply => turn.replies.push((request, Response::Uniform)),
    }
}

/// Measurements of a window.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) clients: usize,
    pub(crate) window: Duration,
    /// Counts, by class and site.
    pub(crate) counts: BTreeMap<Class, Vec<Count>>,
    /// Utilization of the cores: the average, and that of the busiest one.
    pub(crate) busy: (f64, f64),
    /// Costs that kept the cores busy.
    pub(crate) charged: Charged,
    /// Bytes that each computer has sent and received; empty if computers have no cards.
    pub(crate) traffic: Vec<(u64, u64)>,
}

impl std::fmt::Display for Measured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let total = self.total();
        let mean = total.latency.mean().unwrap_or_default().as_secs_f64() * 1000.0;
        let (busy, most) = self.busy;
        write!(
            f,
            "{} clients: {:.0} per second in {mean:.1} ms, {:.1}% strong, {} aborts, {} failures, cores \
             {:.0}% busy, the busiest {:.0}%",
            self.clients,
            self.per_second(),
            100.0 * self.strong_share(),
            total.aborts,
            total.failed,
            100.0 * busy,
            100.0 * most,
        )?;
        match self.traffic.iter().map(|(sent, _)| sent).max() {
            None => Ok(()),
            Some(most) => {
                let per_second = *most as f64 / self.window.as_secs_f64();
                write!(f, ", at most {:.1} MB per second from a computer", per_second / 1e6)
            }
        }
    }
}

impl Measured {
    pub(crate) fn per_second(&self) -> f64 {
        self.total().latency.count() as f64 / self.window.as_secs_f64()
    }

    /// Returns the share of strong transactions among those that ended.
    pub(crate) fn strong_share(&self) -> f64 {
        let strong = self.of(&[Class::Strong]).latency.count();
        strong as f64 / self.total().latency.count().max(1) as f64
    }

    /// Combines the measurements of consecutive windows with the same number of clients.
    pub(crate) fn together(windows: &[Measured]) -> Measured {
        let mut counts: BTreeMap<Class, Vec<Count>> = BTreeMap::new();
        for (class, sites) in windows.iter().flat_map(|window| &window.counts) {
            let sums = counts.entry(*class).or_default();
            sums.resize_with(sums.len().max(sites.len()), Count::default);
            sums.iter_mut().zip(sites).for_each(|(sum, count)| sum.merge(count));
        }
        let mean = |of: fn(&Measured) -> f64| {
            windows.iter().map(of).sum::<f64>() / windows.len().max(1) as f64
        };
        let mut charged = Charged::default();
        windows.iter().for_each(|window| charged.add(&window.charged));
        let mut traffic: Vec<(u64, u64)> = Vec::new();
        for window in windows {
            traffic.resize(traffic.len().max(window.traffic.len()), (0, 0));
            let sums = traffic.iter_mut().zip(&window.traffic);
            sums.for_each(|(sum, more)| *sum = (sum.0 + more.0, sum.1 + more.1));
        }
        Measured {
            clients: windows.first().map_or(0, |window| window.clients),
            window: windows.iter().map(|window| window.window).sum(),
            counts,
            busy: (mean(|window| window.busy.0), mean(|window| window.busy.1)),
            charged,
            traffic,
        }
    }

    pub(crate) fn total(&self) -> Count {
        self.of(&Class::ALL)
    }

    pub(crate) fn of(&self, classes: &[Class]) -> Count {
        let mut sum = Count::default();
        let counts = classes.iter().filter_map(|class| self.counts.get(class)).flatten();
        counts.for_each(|count| sum.merge(count));
        sum
    }
}

/// A transaction whose visibility at other sites is recorded.
struct Probe {
    committed: u64,
    /// Entry of its own site in its commit vector.
    ts: Timestamp,
    /// Core whose snapshots are observed.
    core: usize,
}

/// Visibility of one site's transactions at other sites.
#[derive(Default)]
struct Probes {
    origin: usize,
    open: Vec<Probe>,
    sent: u64,
    /// Delays, by the observing site.
    delays: BTreeMap<usize, Histogram>,
}

/// A cluster in virtual time.
pub(crate) struct VirtualCluster<S> {
    shape: Shape,
    meter: Meter,
    /// Costs charged by the table.
    charged: Charged,
    delays: Vec<Vec<u64>>,
    /// Network cards; `None` if bytes take no time.
    cards: Option<Cards>,
    source: S,
    think: Duration,
    now: u64,
    queue: Queue<Due>,
    cores: Vec<Core>,
    clients: Vec<Client>,
    /// Whether computing takes virtual time.
    busy: bool,
    measuring: bool,
    counts: BTreeMap<Class, Vec<Count>>,
    probes: Probes,
    arrivals: Option<Arrivals>,
}

impl<S: Source> VirtualCluster<S> {
    /// Creates a cluster with the initial data of the workload, without clients. Clients will pause
    /// for `think` on average.
    pub(crate) fn new(shape: Shape, meter: Meter, source: S, think: Duration) -> Self {
        let core = |config: solera_unistore::Config| Core {
            address: config.address,
            engine: Engine::in_memory(Site::new(
                match shape.primary {
                    true => solera_site::Config::from(config).with_primary(),
                    false => config.into(),
                },
                1,
            )),
            inbox: Turns::default(),
            flood: None,
            woken: false,
            wakes: 0,
            free_at: 0,
            tick_at: None,
            busy: 0,
            since: 0,
        };
        let mut cluster = VirtualCluster {
            meter,
            charged: Charged::default(),
            delays: shape.delays(),
            cards: shape.cards(),
            source,
            think,
            now: 0,
            queue: Queue::new(),
            cores: shape.configs().into_iter().map(core).collect(),
            clients: Vec::new(),
            busy: false,
            measuring: false,
            counts: BTreeMap::new(),
            probes: Probes::default(),
            arrivals: None,
            shape,
        };
        for core in 0..cluster.cores.len() {
            // Ticks of different processes are not synchronized.
            let at = (core as u64 * 7919) % (5 * MS);
            cluster.schedule_tick(core, at);
        }
        // Under callgrind everything takes fifty times as long. All idle steps have the same cost,
        // so fewer of them are enough.
        let haste = if let Meter::Counting(_) = cluster.meter { 5 } else { 1 };
        cluster.run_for(Duration::from_millis(500) / haste);
        cluster.load();
        cluster.run_for(Duration::from_millis(1500) / haste);
        cluster.busy = true;
        cluster
    }

    /// Writes the initial data of the workload at the first site, which replicates the data to the
    /// other sites.
    fn load(&mut self) {
        for (key, op) in self.source.load() {
            let owner = self.cores[0].engine.machine().unistore().owner_of(key.as_bytes());
            let core = self.place(owner);
            let past = Vector::zero(self.shape.sites());
            let level = solera_levels::Level::Causal;
            let command = Command::Execute { past, level, key, op };
            self.push(self.now, Due::Arrive(core, Item::Probe(NOBODY.0, command)));
        }
    }

    /// Sets the number of clients, which are distributed over the sites. It must not decrease.
    pub(crate) fn set_clients(&mut self, clients: usize) {
        self.set_clients_at(self.shape.sites(), clients);
    }

    /// Sets the number of clients, which are distributed over the first `sites` sites.
    pub(crate) fn set_clients_at(&mut self, sites: usize, clients: usize) {
        let span = (self.think.as_nanos() as u64).max(20 * MS);
        for number in self.clients.len()..clients {
            let (site, turn) = (number % sites, number / sites);
            let worker = turn % usize::from(self.shape.workers);
            let place = site * usize::from(self.shape.workers) + worker;
            let seed = u64::from(self.shape.seed) << 32 | number as u64;
            let mut client = Client::new(site, place, seed, self.shape.sites());
            if self.cards.is_some() {
                client = client.counting_bytes();
            }
            let at = self.now + client.random.below(span);
            self.clients.push(client);
            self.push(at, Due::Start(number));
        }
    }

    /// Runs for a warm-up time, and then measures a window.
    pub(crate) fn measure(&mut self, warm_up: Duration, window: Duration) -> Measured {
        self.run_for(warm_up);
        self.measuring = true;
        self.counts.clear();
        self.cards.iter_mut().for_each(Cards::reset);
        self.charged = Charged::default();
        for core in &mut self.cores {
            core.busy = 0;
            core.flood.iter_mut().for_each(|flood| flood.ended = 0);
        }
        self.run_for(window);
        self.measuring = false;
        let share = |core: &Core| core.busy as f64 / window.as_nanos() as f64;
        let all = self.cores.iter().map(share).sum::<f64>();
        let most = self.cores.iter().map(share).fold(0.0, f64::max);
        Measured {
            clients: self.clients.len(),
            window,
            counts: self.counts.clone(),
            busy: (all / self.cores.len() as f64, most),
            charged: std::mem::take(&mut self.charged),
            traffic: self.cards.as_ref().map(Cards::bytes).unwrap_or_default(),
        }
    }

    /// Commits small transactions at a site for a while, and returns for each site the delays until
    /// they were visible there.
    pub(crate) fn probe(&mut self, origin: usize, window: Duration) -> BTreeMap<usize, Histogram> {
        self.probes = Probes { origin, ..Probes::default() };
        let end = self.now + window.as_nanos() as u64;
        let mut turn = 0_u64;
        while self.now < end {
            // The interval is not synchronized with any ticks.
            turn += 1;
            let key = format!("probe:{turn}");
            let owner = self.cores[origin * usize::from(self.shape.workers)]
                .engine
                .machine()
                .unistore()
                .owner_of(key.as_bytes());
            let command = Command::Execute {
                past: Vector::zero(self.shape.sites()),
                level: solera_levels::Level::Causal,
                key: key.as_bytes().into(),
                op: solera_data::Op::Set(b"1".as_slice().into()),
            };
            let core = self.place(owner);
            let request = PROBES + turn;
            self.push(self.now, Due::Arrive(core, Item::Probe(request, command)));
            self.run_for(Duration::from_micros(3_371));
        }
        self.run_for(Duration::from_millis(500));
        std::mem::take(&mut self.probes).delays
    }

    /// Makes a worker of a site take this time for each update of other sites, and counts the
    /// updates that the site does not show.
    pub(crate) fn slow_down(&mut self, slow: Address, takes: Duration) {
        let (workers, worker) = (usize::from(self.shape.workers), usize::from(slow.worker));
        let first = self.place(Address { worker: 0, ..slow });
        self.arrivals = Some(Arrivals::new(first, workers, (worker, takes)));
    }

    /// Continues for some time, and then returns the average number of updates that wait at the
    /// workers beside the slow one.
    pub(crate) fn waiting_after(&mut self, time: Duration) -> f64 {
        self.run_for(time);
        let visible =
            |core: usize| self.cores[core].engine.machine().unistore().status().view().uniform_vec;
        self.arrivals.as_mut().map_or(0.0, |arrivals| arrivals.mean_of_others(visible))
    }

    /// Returns the number of updates that have arrived since [`slow_down`](Self::slow_down).
    pub(crate) fn arrived(&self) -> usize {
        self.arrivals.as_ref().map_or(0, |arrivals| arrivals.arrived)
    }

    /// Returns the meter of the steps.
    pub(crate) fn into_meter(self) -> Meter {
        self.meter
    }

    fn place(&self, address: Address) -> usize {
        address.site.index() * usize::from(self.shape.workers) + usize::from(address.worker)
    }

    fn push(&mut self, at: u64, due: Due) {
        self.queue.push(at, due);
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time.as_nanos() as u64;
        while let Some((at, due)) = self.queue.pop(end) {
            self.now = at;
            match due {
                Due::Arrive(core, item) => {
                    if matches!(item, Item::Tick) {
                        if self.cores[core].tick_at != Some(at) {
                            continue;
                        }
                        self.cores[core].tick_at = None;
                    }
                    if let Item::Message(from, message) = &item {
                        self.wake(*from, core);
                        self.arrivals.iter_mut().for_each(|it| it.arrive(core, message));
                    }
                    self.cores[core].inbox.push(item.share(), item);
                    self.work(core);
                }
                Due::Free(core) => self.work(core),
                Due::Answer(client) => self.on_replies(client),
                Due::Start(client) => self.start(client),
                Due::Retry(client) => {
                    self.clients[client].begin();
                    self.send(client);
                }
                Due::Send(transfer) => self.on_send(transfer),
                Due::Receive(transfer) => self.on_receive(transfer),
            }
        }
        self.now = end;
    }

    /// Wakes a core for messages of another worker of its process, unless it was already woken
    /// after it last took its inputs. The sender is charged with its next work.
    fn wake(&mut self, from: Address, core: usize) {
        let (sender, receiver) = (self.place(from), &mut self.cores[core]);
        if sender != core && self.shape.same_node(from, receiver.address) && !receiver.woken {
            receiver.woken = true;
            self.cores[sender].wakes += 1;
        }
    }

    fn schedule_tick(&mut self, core: usize, at: u64) {
        if self.cores[core].tick_at.is_none_or(|tick| tick > at) {
            self.cores[core].tick_at = Some(at);
            self.push(at, Due::Arrive(core, Item::Tick));
        }
    }

    /// Lets an idle core process its waiting inputs.
    fn work(&mut self, place: usize) {
        if self.cores[place].free_at > self.now || self.cores[place].inbox.is_empty() {
            return;
        }
        let now = self.clocks(self.cores[place].address.site);
        let core = &mut self.cores[place];
        core.woken = false;
        let (mut turn, mut answered) = (Turn::default(), false);
        let mut late = Duration::ZERO;
        // One system call waits for all inputs.
        let (mut instructions, mut system_calls) = (0.0, 1 + std::mem::take(&mut core.wakes));
        let (mut senders, mut outputs) = (Vec::new(), Vec::new());
        for _ in 0..BATCH {
            let taken = self.meter.time(instructions, system_calls);
            // Replies to clients are sent at once, as in servers with short turns.
            if taken >= self.shape.turn.as_nanos() as f64
                || (answered && self.shape.turn < Duration::MAX)
            {
                break;
            }
            let Some((_, item)) = self.cores[place].inbox.pop() else { break };
            answered = matches!(item, Item::Round(_));
            if let Item::Message(from, _) = &item
                && !self.shape.same_node(*from, self.cores[place].address)
                && let node = self.shape.node_of(*from)
                && !senders.contains(&node)
            {
                senders.push(node);
            }
            // System calls for reading a client's requests and writing the replies.
            system_calls += if matches!(item, Item::Round(_) | Item::Flood(..)) { 2 } else { 0 };
            if let (Some(arrivals), Item::Message(_, message)) = (&self.arrivals, &item) {
                late += arrivals.time(place, message);
            }
            let (step, operations, of_host) = self.begin_step(place, now, item);
            instructions += of_host;
            turn.steps.push_back((step, operations));
            let core = &mut self.cores[place];
            while let Some((step, operations)) = turn.steps.pop_front() {
                let about = About::step(&step, operations, core.since);
                core.since = if let MachineStep::Deadline = step { 0 } else { core.since + 1 };
                instructions += self.meter.step(
                    &mut core.engine,
                    now,
                    (about, step),
                    &mut outputs,
                    &mut self.charged,
                );
                for output in outputs.drain(..) {
                    sort(output, &mut turn, &mut self.clients);
                }
            }
        }
        system_calls += senders.len() as u64;
        let (of_sending, calls) = self.cost_of_sending(place, now, &turn.sent);
        self.charged.system_calls += system_calls + calls;
        let time = self.meter.time(instructions + of_sending, system_calls + calls);
        let busy = if self.busy { (time * self.shape.slowness) as u64 } else { 0 };
        let busy = busy + late.as_nanos() as u64;
        for _ in 0..turn.flooded {
            self.flood_again(place, self.now + busy + 2 * WITHIN_SITE);
        }
        self.finish(place, busy, turn.sent, turn.replies);
    }

    /// Starts the next update of a flood client.
    fn flood_again(&mut self, place: usize, at: u64) {
        let Some(flood) = &mut self.cores[place].flood else { return };
        flood.ended += u64::from(self.measuring);
        let (request, command) = flood.next();
        self.push(at, Due::Arrive(place, Item::Flood(request, command)));
    }

    /// Starts `clients` clients at each worker that update keys of `primary`.
    pub(crate) fn flood(&mut self, clients: usize) {
        let workers = vec![self.shape.workers; self.shape.sites()];
        let topology = Topology { partitions: self.shape.partitions, workers };
        for place in 0..self.cores.len() {
            self.cores[place].flood = Some(Flood::new(self.cores[place].address, &topology));
            for number in 0..clients as u64 {
                self.flood_again(place, self.now + number * 1_000);
            }
        }
    }

    /// Returns the number of flood updates that ended in the last measured window.
    pub(crate) fn flooded(&self) -> u64 {
        self.cores.iter().filter_map(|core| core.flood.as_ref()).map(|flood| flood.ended).sum()
    }

    /// Returns the machine's step for an input, its number of operations, and the host's cost.
    fn begin_step(&mut self, place: usize, now: Now, item: Item) -> (MachineStep, usize, f64) {
        match item {
            Item::Message(from, message) => {
                let core = &mut self.cores[place];
                let of_host = match self.shape.same_node(from, core.address) {
                    true => 0.0,
                    false => self.meter.wire(&mut core.engine, now, &message, &mut self.charged),
                };
                (MachineStep::Message(from, message), 0, of_host)
            }
            Item::Round(client) => {
                let this = &self.clients[client];
                let of_host = self.meter.round(this.commands(), this.writes());
                self.charged.host += of_host;
                let step = MachineStep::Client(RequestId(client as u64), this.command().into());
                (step, this.operations(), of_host)
            }
            Item::Probe(request, command) => {
                (MachineStep::Client(RequestId(request), command.into()), 1, 0.0)
            }
            Item::Flood(request, command) => {
                let of_host = self.meter.round(1, 1);
                self.charged.host += of_host;
                (MachineStep::Client(request, command.into()), 1, of_host)
            }
            Item::Tick => (MachineStep::Deadline, 0, 0.0),
        }
    }

    /// Returns the instructions and system calls of sending: encoding for other processes, with one
    /// system call for each of them, and passing messages to other workers of this process.
    /// [`Self::wake`] charges for waking these.
    fn cost_of_sending(
        &mut self,
        place: usize,
        now: Now,
        sent: &[(Address, Message)],
    ) -> (f64, u64) {
        let core = &mut self.cores[place];
        let (mut nodes, mut instructions) = (Vec::new(), 0.0);
        for (to, message) in sent {
            if !self.shape.same_node(*to, core.address) {
                instructions += self.meter.wire(&mut core.engine, now, message, &mut self.charged);
                if !nodes.contains(&self.shape.node_of(*to)) {
                    nodes.push(self.shape.node_of(*to));
                }
            } else {
                let of_host = self.meter.hop();
                self.charged.host += of_host;
                self.charged.hops += 1;
                instructions += of_host;
            }
        }
        (instructions, nodes.len() as u64)
    }

    /// Sends the outputs of a core when its work is done.
    fn finish(
        &mut self,
        place: usize,
        busy: u64,
        sent: Vec<(Address, Message)>,
        replies: Vec<(RequestId, Response)>,
    ) {
        let done = self.now + busy;
        let me = self.cores[place].address;
        self.cores[place].free_at = done;
        self.cores[place].busy += busy;
        for (to, message) in sent {
            let delay = match (to.site == me.site, self.shape.same_node(to, me)) {
                (false, _) => self.delays[me.site.index()][to.site.index()],
                (true, false) => WITHIN_SITE,
                (true, true) => WITHIN_NODE,
            };
            let core = self.place(to);
            let bytes = self.cards.as_ref().map_or(0, |_| message.encoded_bytes() as u64);
            let then = Box::new(Due::Arrive(core, Item::Message(me, message)));
            let (from, to) = (self.shape.computer_of(me), self.shape.computer_of(to));
            self.transfer(done, Transfer { from, to, bytes, delay, then });
        }
        for (request, response) in replies {
            if request.0 >= PROBES {
                self.note_probe(request, &response, done);
            } else {
                let client = request.0 as usize;
                let bytes = self.clients[client].take_replied();
                let then = Box::new(Due::Answer(client));
                let from = self.shape.computer_of(me);
                self.transfer(done, Transfer { from, to: None, bytes, delay: WITHIN_SITE, then });
            }
        }
        self.note_visible(place, done);
        if let Some(deadline) = self.cores[place].engine.next_deadline() {
            self.schedule_tick(place, deadline.0.max(done));
        }
        if !self.cores[place].inbox.is_empty() {
            self.push(done, Due::Free(place));
        }
    }

    /// Sends a message at a time that is not before now.
    fn transfer(&mut self, at: u64, transfer: Transfer) {
        let Transfer { from, to, .. } = transfer;
        if from == to {
            // The processes are on one computer, or computers have no cards.
            return self.push(at + transfer.delay, *transfer.then);
        }
        // The card is occupied only from `at` on: another process of the computer may send before.
        self.push(at, Due::Send(transfer));
    }

    fn on_send(&mut self, transfer: Transfer) {
        let at = match (&mut self.cards, transfer.from) {
            (Some(cards), Some(computer)) => cards.send(computer, self.now, transfer.bytes),
            _ => self.now,
        };
        self.push(at + transfer.delay, Due::Receive(transfer));
    }

    fn on_receive(&mut self, transfer: Transfer) {
        let at = match (&mut self.cards, transfer.to) {
            (Some(cards), Some(computer)) => cards.receive(computer, self.now, transfer.bytes),
            _ => self.now,
        };
        self.push(at, *transfer.then);
    }

    /// Returns the readings of a site's clocks.
    fn clocks(&self, site: SiteId) -> Now {
        let physical = self.shape.clock_of(site, EPOCH + self.now / 1000);
        Now { monotonic: Monotonic(self.now), physical }
    }

    fn start(&mut self, client: usize) {
        let this = &mut self.clients[client];
        let mut transaction = self.source.next(&mut this.random);
        let variant = self.shape.variant;
        let strong = variant.certifies(transaction.class == Class::Strong);
        for step in transaction.rounds.iter_mut().flatten() {
            step.kind = kind_in(variant, step.kind, step.op.is_update());
        }
        this.run(transaction, strong, self.now);
        self.send(client);
    }

    fn send(&mut self, client: usize) {
        let worker = self.clients[client].worker;
        let bytes = self.cards.as_ref().map_or(0, |_| self.clients[client].requested());
        let then = Box::new(Due::Arrive(worker, Item::Round(client)));
        let to = self.shape.computer_of(self.cores[worker].address);
        self.transfer(self.now, Transfer { from: None, to, bytes, delay: WITHIN_SITE, then });
    }

    /// Processes the replies to a client's batch.
    fn on_replies(&mut self, client: usize) {
        let this = &mut self.clients[client];
        let failed = this.failed;
        if failed.is_none() && this.advance() {
            return self.send(client);
        }
        if self.measuring {
            let sites = self.shape.sites();
            let counts = self.counts.entry(this.transaction.class);
            let count = &mut counts.or_insert_with(|| vec![Count::default(); sites])[this.site];
            match failed {
                Some(Failed::Conflict) => count.aborts += 1,
                Some(Failed::Other) => count.failed += 1,
                None => count.latency.record(Duration::from_nanos(self.now - this.started)),
            }
        }
        match failed {
            Some(_) => {
                let pause = this.pause();
                self.push(self.now + pause, Due::Retry(client));
            }
            None => {
                let think = this.random.think(self.think);
                self.push(self.now + think.as_nanos() as u64, Due::Start(client));
            }
        }
    }

    /// Records that a probe has committed. Every other site must then make it visible.
    fn note_probe(&mut self, request: RequestId, response: &Response, done: u64) {
        if request == NOBODY {
            return;
        }
        let Response::Executed { pasts, .. } = response else { return };
        let origin = self.probes.origin;
        self.probes.sent += 1;
        let workers = usize::from(self.shape.workers);
        let turn = self.probes.sent as usize % workers;
        for site in (0..self.shape.sites()).filter(|site| *site != origin) {
            let ts = pasts.durability()[SiteId(origin as u8)];
            self.probes.open.push(Probe { committed: done, ts, core: site * workers + turn });
        }
    }

    /// Records the visibility of probes in a core's current snapshot.
    fn note_visible(&mut self, place: usize, done: u64) {
        let probes = &mut self.probes;
        if probes.open.iter().all(|probe| probe.core != place) {
            return;
        }
        let shown = self.cores[place].engine.machine().unistore().status().view().uniform_vec;
        let site = self.cores[place].address.site.index();
        let shown = shown[SiteId(probes.origin as u8)];
        let (visible, open) = std::mem::take(&mut probes.open)
            .into_iter()
            .partition(|probe| probe.core == place && probe.ts <= shown);
        probes.open = open;
        let visible: Vec<Probe> = visible;
        for probe in visible {
            let delay = Duration::from_nanos(done.saturating_sub(probe.committed));
            probes.delays.entry(site).or_default().record(delay);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use solera_config::Baseline;

    use super::super::cost::{Costs, Rates};
    use super::super::network::Card;
    use super::super::three_items::ThreeItems;
    use super::*;
    use crate::micro::Micro;

    /// Measures nearly idle virtual cores, so that clients wait for the network only.
    fn measured(variant: Baseline, strong: u8) -> Measured {
        let shape = Shape { variant, slowness: 0.001, ..Shape::three_sites(4, 2) };
        let micro = Micro { keys: 1000, updates: 100, strong, hot: 0, value_bytes: 8, seed: 1 };
        let items = ThreeItems::new(micro, 4, false);
        let think = Duration::from_millis(200);
        let mut cluster = VirtualCluster::new(shape, Meter::Table(Rates::default()), items, think);
        cluster.set_clients(30);
        cluster.measure(Duration::from_millis(500), Duration::from_secs(2))
    }

    #[test]
    fn causal_transactions_stay_at_their_site_and_strong_ones_take_a_round_trip() {
        let ms = Duration::from_millis;
        let measured = measured(Baseline::UniStore, 50);
        let causal = measured.of(&[Class::Causal]).latency;
        // The first causal transaction after a strong one waits until the strong one has arrived at
        // the client's site.
        assert!(causal.count() > 50 && causal.quantile(0.4) < Some(ms(10)), "{measured}");
        let strong = measured.of(&[Class::Strong]).latency;
        assert!(strong.count() > 50 && strong.mean() > Some(ms(61)), "{measured}");
        assert!(strong.quantile(0.5) < Some(ms(130)), "{measured}");
        assert_eq!(measured.total().failed, 0);
    }

    #[test]
    fn updates_wait_at_all_workers_of_a_site_for_a_slow_one() {
        let waiting = |takes_ms: u64| {
            let shape = Shape { slowness: 0.001, ..Shape::three_sites(4, 4) };
            let micro =
                Micro { keys: 1000, updates: 100, strong: 0, hot: 0, value_bytes: 8, seed: 1 };
            let items = ThreeItems::new(micro, 4, false);
            let think = Duration::from_millis(100);
            let meter = Meter::Table(Rates::default());
            let mut cluster = VirtualCluster::new(shape, meter, items, think);
            let slow = Address { site: SiteId(1), worker: 2 };
            cluster.slow_down(slow, Duration::from_millis(takes_ms));
            cluster.set_clients_at(1, 10);
            cluster.waiting_after(Duration::from_secs(2))
        };
        let (none, slow) = (waiting(0), waiting(500));
        assert!(slow > 50.0 && slow > 5.0 * none, "{none}, {slow}");
    }

    /// Returns the measurements of a loaded cluster with the built-in table, and the visibility
    /// delays.
    fn figure() -> String {
        let variant = Baseline::UniStore;
        let shape = Shape { cores_per_node: 1, slowness: 25.0, ..Shape::three_sites(4, 2) };
        let micro =
            Micro { keys: 1000, updates: 50, strong: 10, hot: 20, value_bytes: 100, seed: 1 };
        let meter = Meter::Table(Costs::shipped().of(variant));
        let items = ThreeItems::new(micro, 4, true);
        let mut cluster = VirtualCluster::new(shape, meter, items, Duration::ZERO);
        cluster.set_clients(60);
        let measured = cluster.measure(Duration::from_millis(100), Duration::from_millis(300));
        assert!(measured.busy.1 > 0.5, "it is charged for what it does: {measured}");
        format!("{measured:?} {:?}", cluster.probe(0, Duration::from_millis(20)))
    }

    #[test]
    fn equal_seeds_give_equal_results_even_on_a_loaded_machine() {
        let quiet = figure();
        assert_eq!(figure(), quiet);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 * std::thread::available_parallelism().map_or(1, |cores| cores.get()) {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let loaded = figure();
            over.store(true, Ordering::Relaxed);
            assert_eq!(loaded, quiet);
        });
    }

    /// Measures two processes of one site, which share a computer or have one each, behind cards of
    /// 10 Mbit/s. Returns the bytes that each computer has sent within ten seconds, and the number
    /// of transactions.
    fn behind_cards(processes: u8) -> (Vec<u64>, u64) {
        let card = Some(Card { bits_per_second: 10_000_000, processes });
        let shape = Shape { cores_per_node: 1, slowness: 0.001, card, ..Shape::one_site(4, 2) };
        let micro = Micro { keys: 100, updates: 0, strong: 0, hot: 0, value_bytes: 1000, seed: 1 };
        let items = ThreeItems::new(micro, 4, true);
        let meter = Meter::Table(Rates::default());
        let mut cluster = VirtualCluster::new(shape, meter, items, Duration::ZERO);
        cluster.set_clients(60);
        let measured = cluster.measure(Duration::from_millis(500), Duration::from_secs(10));
        let sent = measured.traffic.iter().map(|(sent, _)| *sent).collect();
        (sent, measured.total().latency.count())
    }

    #[test]
    fn processes_share_the_bandwidth_of_their_computers_card() {
        let ((alone, many), (shared, few)) = (behind_cards(1), behind_cards(2));
        assert_eq!((alone.len(), shared.len()), (2, 1));
        // Bytes count when they are queued; the queues are short compared with ten seconds.
        let bandwidth = 12_500_000_u64;
        assert!(shared[0].abs_diff(bandwidth) < bandwidth / 50, "{shared:?}");
        // A transaction reads three values of 1000 bytes.
        assert!(few.abs_diff(bandwidth / 3000) < 200, "{few}");
        // Half of the values also pass between two computers. One of these owns more keys, so the
        // other one sometimes waits.
        let most = *alone.iter().max().unwrap();
        assert!(most.abs_diff(bandwidth) < bandwidth / 50, "{alone:?}");
        assert!((few * 6 / 5..few * 4 / 3).contains(&many), "{many}, {few}");
    }

    #[test]
    fn the_machines_of_a_site_read_its_clock() {
        let shape = Shape { ahead_us: vec![0, 22_000, -5_000], ..Shape::three_sites(4, 2) };
        let micro = Micro { keys: 10, updates: 0, strong: 0, hot: 0, value_bytes: 1, seed: 1 };
        let items = ThreeItems::new(micro, 4, false);
        let meter = Meter::Table(Rates::default());
        let cluster = VirtualCluster::new(shape, meter, items, Duration::ZERO);
        let clock = |site: usize| cluster.cores[2 * site].engine.machine().clock().micros() as i64;
        // Ticks are 5 ms apart.
        let difference = |site| (clock(site) - clock(0)) / 1000;
        assert!((17..=27).contains(&difference(1)), "{}", difference(1));
        assert!((-10..=0).contains(&difference(2)), "{}", difference(2));
    }

    #[test]
    fn baselines_certify_all_or_no_transactions() {
        let ms = Duration::from_millis;
        let nothing = measured(Baseline::Causal, 50);
        assert!(nothing.total().latency.max() < Some(ms(10)), "{nothing}");
        let all = measured(Baseline::Strong, 0);
        assert!(all.total().latency.quantile(0.1) > Some(ms(60)), "{all}");
    }
}

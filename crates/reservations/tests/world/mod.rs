//! Workers of several sites in virtual time, with what their hosts do for them: streams, strong
//! transactions, journals, clocks. Clients update counters and read intervals, and a judge that
//! knows the values compares the answers.

mod clients;
mod network;
mod node;
mod strong;
mod truth;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use solera_machine::{Address, AskId, Machine, PartitionId, RequestId, Topology};
use solera_membership::{Change as MemberChange, Gap, Members, Participant, SiteStatus};
use solera_random::Random;
use solera_reservations::{
    Agreed, Answer, Bound, Change, Command, Config, Entry, Epoch, Event, Input, Key, Output,
    Placed, Policy, Position, Question, Rule, Timing, Version,
};
use solera_time::{SiteId, Timestamp};

use self::clients::Clients;
use self::network::Network;
pub(crate) use self::node::LOWER_PREFIX;
use self::node::{Node, PLANNED, Planned};
use self::strong::Strong;
use self::truth::Truth;

pub(crate) const MS: u64 = 1_000_000;
/// Counters, with their first values and their tolerances.
const KEYS: [(&str, i64, u32); 4] = [
    ("large", 400, 250_000),
    ("middle", 60, 250_000),
    ("small", 0, 250_000),
    ("fine", 900, 50_000),
];
/// Places of the keys whose values permit many tokens.
const KEYS_WITH_ROOM: [usize; 2] = [0, 3];
/// A rare path of the world.
pub(crate) const SPENT: &str = "world: an update used tokens without a promise";
/// Request whose replies nobody awaits.
const UNHEARD: RequestId = RequestId(u64::MAX);
const SPARE: u32 = 8;
/// Faults end.
const QUIET_MS: u64 = 1_500;
/// The last site joins, if it does.
const JOIN_MS: u64 = 600;
/// A site is cut off for good, if one is.
const CUT_MS: u64 = 700;
/// The removed site returns, at the earliest.
const RETURN_MS: u64 = 1_100;
/// A site fails for good, if one does.
const STOP_MS: u64 = 1_700;
/// Operations must succeed from then on, if a site has failed.
const RECOVERED_MS: u64 = 2_200;
/// Operations end.
const LAST_MS: u64 = 2_500;
/// Clients read every key at every site, and all must be answered, in worlds with long leases.
const ANSWERED_MS: u64 = 3_000;
/// Clients read every key at every site, and all answers must be exact.
const EXACT_MS: u64 = 3_400;
/// The world ends.
const END_MS: u64 = 3_900;

/// Properties in which worlds differ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) sites: usize,
    /// Whether links are cut, messages lost, and processes pause and crash.
    pub(crate) faults: bool,
    /// Whether a site fails for good.
    pub(crate) stops: bool,
    /// Whether the last site joins later.
    pub(crate) joins: bool,
    /// Whether a site is cut off for good and removed, and runs on.
    pub(crate) removes: bool,
    /// Whether the removed site returns without its data.
    pub(crate) returns: bool,
    /// Whether hosts read the clock before they receive the input, against the contract.
    pub(crate) reads_clock_early: bool,
    /// Whether faults follow a plan.
    pub(crate) planned: bool,
    /// Whether sites keep grants and tokens for a long time.
    pub(crate) long_leases: bool,
    pub(crate) without: Option<Rule>,
}

/// Findings of a world.
#[derive(Debug)]
pub(crate) struct Report {
    /// Wrong answers.
    pub(crate) violations: Vec<String>,
    /// Requests that should have succeeded, and intervals that should be exact.
    pub(crate) unfinished: Vec<String>,
    pub(crate) committed: usize,
    pub(crate) refused: usize,
    pub(crate) cannot: BTreeMap<String, usize>,
    pub(crate) reads: usize,
    pub(crate) exact: usize,
    pub(crate) rare: BTreeMap<&'static str, usize>,
    /// Histories that the checker could not judge within its limit.
    pub(crate) undecided: usize,
}

/// An end of an epoch that a host has to write.
struct End {
    at: u64,
    site: usize,
    process: u64,
    ask: AskId,
    key: Key,
    epoch: Epoch,
}

pub(crate) struct World {
    now: u64,
    random: Random,
    shape: Shape,
    faulty: bool,
    /// Chance in percent that a site begins an operation of each kind in a millisecond, and that
    /// an update is an increment.
    load: u64,
    rise: u64,
    /// A key that half of the operations use.
    hot: usize,
    keys: Vec<Key>,
    nodes: Vec<Node>,
    /// Streams of all sites. The entry with index `n` has position `10 * (n + 1)`, and entries of
    /// one transaction have the position of the last one.
    streams: Vec<Vec<Placed>>,
    strong: Strong,
    /// The record of each partition after all changes.
    agreed: BTreeMap<PartitionId, Agreed>,
    network: Network,
    ends: Vec<End>,
    planned: Vec<(u64, Planned)>,
    clients: Clients,
    truth: Truth,
    rare: BTreeMap<&'static str, usize>,
    unfinished: Vec<String>,
    dead: Option<usize>,
    /// A site that is cut off for good, when the others agree what remains of its stream, and how
    /// many of its entries do.
    removed: Option<(usize, u64, Option<usize>)>,
    /// Whether it has returned.
    returned: bool,
    members: Members,
    /// Whether no other site could answer when it failed, so that none can replace it.
    alone: bool,
}

impl World {
    pub(crate) fn run(seed: u64, shape: Shape) -> Report {
        let mut world = World::new(seed, shape);
        while world.now < END_MS * MS {
            world.step();
            if world.faulty {
                world.do_planned();
                // Planned faults need a time without many others.
                if !shape.planned || world.random.one_in(5) {
                    world.fail_at_random();
                }
            }
            let ms = world.now / MS;
            if ms == QUIET_MS {
                world.end_faults();
            }
            if ms == CUT_MS && shape.removes {
                world.cut_off_for_good();
            }
            world.change_members();
            world.remove_a_site();
            if ms == STOP_MS && shape.stops {
                world.stop_a_site();
            }
            world.clients.must_succeed =
                world.dead.is_some() && !world.alone && (RECOVERED_MS..LAST_MS).contains(&ms);
            if ms == EXACT_MS || ms == ANSWERED_MS && shape.long_leases {
                world.read_everything();
            }
            if world.clients.must_succeed {
                world.use_others();
            } else if ms < LAST_MS && !(world.dead.is_some() && ms + 400 >= RECOVERED_MS) {
                world.begin_operations();
            }
        }
        world.finish()
    }

    /// Runs a world without faults in which one update after the other takes a large part of a
    /// value. Each must succeed.
    pub(crate) fn run_large_decrements(seed: u64, shape: Shape) -> Report {
        let mut world = World::new(seed, shape);
        world.faulty = false;
        world.clients.must_succeed = true;
        let mut values = KEYS_WITH_ROOM.map(|place| KEYS[place].1);
        while world.now < END_MS * MS {
            world.step();
            let ms = world.now / MS;
            if ms < LAST_MS && ms.is_multiple_of(600) {
                let place = world.random.index(values.len());
                let amount = values[place] * (20 + world.random.below(81)) as i64 / 100;
                values[place] -= amount;
                let site = world.random.index(world.nodes.len());
                let key = world.keys[KEYS_WITH_ROOM[place]].clone();
                world.begin_updates(site, vec![(key, -amount.max(1))]);
            }
            if ms < LAST_MS && ms % 600 == 300 {
                // The value grows again, so that sites propose higher floors.
                let site = world.random.index(world.nodes.len());
                for key in KEYS_WITH_ROOM.map(|place| world.keys[place].clone()) {
                    world.begin_updates(site, vec![(key, 1)]);
                }
            }
            if ms == EXACT_MS {
                world.read_everything();
            }
        }
        world.finish()
    }

    fn new(seed: u64, shape: Shape) -> World {
        let mut random = Random::new(seed);
        let partitions = 1 + (seed % 2) as u16;
        let topology = Arc::new(Topology { partitions, workers: vec![1; shape.sites] });
        let founders = shape.sites - usize::from(shape.joins);
        let mut world = World {
            now: 0,
            shape,
            faulty: shape.faults,
            load: [2, 5, 15, 25][random.index(4)],
            rise: [50, 75, 30][random.index(3)],
            hot: random.index(KEYS.len()),
            keys: KEYS.iter().map(|(key, ..)| key.as_bytes().to_vec()).collect(),
            nodes: Vec::new(),
            streams: vec![Vec::new(); shape.sites],
            strong: Strong::new(random.draw()),
            agreed: (0..partitions)
                .map(|id| (PartitionId(id), Agreed::new(shape.sites, founders)))
                .collect(),
            network: Network::new(random.draw()),
            ends: Vec::new(),
            planned: Vec::new(),
            clients: Clients::default(),
            truth: Truth::new(),
            rare: BTreeMap::new(),
            unfinished: Vec::new(),
            dead: None,
            removed: None,
            returned: false,
            members: Members::founded(founders, shape.sites),
            alone: false,
            random,
        };
        world.start_sites(topology);
        for (key, value, tolerance_ppm) in KEYS {
            world.truth.begin(&key.as_bytes().to_vec(), value.into(), tolerance_ppm);
            if value > 0 {
                world.append(0, vec![(key.as_bytes().to_vec(), Entry::Update(value))]);
            }
        }
        if shape.removes {
            world.plan_removal();
        } else if shape.planned {
            match world.random.chance(60) {
                true => world.plan_admission(),
                false => world.plan_exclusion(),
            }
        }
        for site in 0..shape.sites {
            world.nodes[site].has[0] = world.streams[0].len();
            world.give_streams(site);
        }
        world
    }

    fn start_sites(&mut self, topology: Arc<Topology>) {
        let shape = self.shape;
        let lease = if shape.long_leases { 5_000 } else { 60 + self.random.below(80) };
        let lease = Duration::from_millis(lease);
        let bounds = KEYS.iter().map(|(key, _, tolerance_ppm)| {
            let policy = Policy { tolerance_ppm: *tolerance_ppm, spare: SPARE, lease };
            (key.as_bytes().to_vec(), Some(Bound::Error(policy)))
        });
        let bounds: Arc<[(Vec<u8>, Option<Bound>)]> = bounds.collect();
        for site in 0..shape.sites {
            let address = Address { site: SiteId(site as u8), worker: 0 };
            let timing = Timing {
                right: Duration::from_millis(80),
                exclusion: Duration::from_millis(160),
                report: Duration::from_millis(10),
                spacing: Duration::from_millis(2),
                retry: Duration::from_millis(8),
                tick: Duration::from_millis(3),
                patience: clients::PATIENCE,
                hold: lease,
                keep: Duration::from_millis(if shape.long_leases { 60 } else { 10_000 }),
            };
            let config = Config {
                founders: shape.sites - usize::from(shape.joins),
                generation: u32::from(shape.joins && site + 1 == shape.sites),
                copies: 2,
                bounds: bounds.clone(),
                timing,
                without: shape.without.into(),
                ..Config::new(address, topology.clone())
            };
            let node = Node::new(config, shape.sites, &mut self.random);
            self.nodes.push(node);
            self.collect(site);
        }
        if shape.joins {
            let last = &mut self.nodes[shape.sites - 1];
            (last.down_until, last.filled) = (JOIN_MS * MS, false);
        }
    }

    /// Lets a millisecond pass.
    fn step(&mut self) {
        self.now += MS;
        while let Some(((from, generation), to, message)) = self.network.next(self.now) {
            if self.dead != Some(from) {
                let from = self.nodes[from].config.address;
                self.give(to, Input::Message { from, generation, message });
            }
        }
        for site in 0..self.nodes.len() {
            self.resume(site);
        }
        self.write_ends();
        self.show_updates();
        for site in 0..self.nodes.len() {
            if self.is_up(site) && self.now.is_multiple_of(10 * MS) {
                self.give_streams(site);
            }
        }
        self.replicate();
        self.do_strong_transactions();
        self.continue_transactions();
        for site in 0..self.nodes.len() {
            if self.is_up(site) {
                let reading = self.reading(site);
                self.nodes[site].machine.on_deadline(reading);
                self.collect(site);
                self.advance_checkpoint(site);
            }
        }
    }

    // Streams.

    /// Appends entries of one transaction to a stream.
    fn append(&mut self, site: usize, entries: Vec<(Key, Entry)>) {
        let stream = &mut self.streams[site];
        let position = Position(10 * (stream.len() + entries.len()) as u64);
        stream.extend(entries.into_iter().map(|(key, entry)| Placed { position, key, entry }));
        self.nodes[site].has[site] = stream.len();
        self.nodes[site].shown = stream.len();
    }

    /// Appends updates that the host passes to its machine later. Returns their position.
    pub(crate) fn append_later(
        &mut self,
        site: usize,
        updates: Vec<(Key, i64)>,
        delay: u64,
    ) -> Position {
        let shown = self.nodes[site].shown;
        let is_first = shown == self.streams[site].len();
        self.append(site, updates.into_iter().map(|(key, by)| (key, Entry::Update(by))).collect());
        let (now, node) = (self.now, &mut self.nodes[site]);
        node.shown = shown;
        node.show_at = if is_first { now + delay } else { node.show_at.min(now + delay) };
        Position(10 * self.streams[site].len() as u64)
    }

    /// Passes updates to machines whose time has come.
    fn show_updates(&mut self) {
        for site in 0..self.nodes.len() {
            let (all, node) = (self.streams[site].len(), &mut self.nodes[site]);
            if node.shown < all && node.show_at <= self.now {
                node.shown = all;
                self.give_streams(site);
            }
        }
    }

    /// The site applies a transaction.
    pub(crate) fn apply(&mut self, site: usize, updates: Vec<(Key, i64)>) {
        let entries = updates.into_iter().map(|(key, amount)| (key, Entry::Update(amount)));
        self.append(site, entries.collect());
        self.give_streams(site);
    }

    /// Gives a machine what its site has of all streams.
    fn give_streams(&mut self, site: usize) {
        let partitions = self.nodes[site].config.topology.partitions;
        for origin in 0..self.nodes.len() {
            if self.is_down(site) || !self.nodes[site].filled {
                break;
            }
            let node = &mut self.nodes[site];
            let has = if origin == site { node.shown } else { node.has[origin] };
            if node.inbox.is_empty() && node.stalled.is_none() {
                // The host continues where the machine is. It does not take entries of a site that
                // has returned until it has the version with the return.
                let known = (0..partitions)
                    .map(|id| node.machine.known(PartitionId(id)).unwrap()[origin].0 as usize / 10);
                node.given[origin] = known.min().unwrap_or(0);
            }
            let (from, to) = (node.given[origin], has);
            if from >= to {
                continue;
            }
            node.given[origin] = to;
            let (after, upto) = (Position(10 * from as u64), Position(10 * to as u64));
            let all = self.streams[origin][from..to].to_vec();
            for partition in 0..partitions {
                let config = &self.nodes[site].config;
                let id = PartitionId(partition);
                let of = |placed: &&Placed| config.partition_of(&placed.key) == id;
                let entries = all.iter().filter(of).cloned().collect();
                let origin = SiteId(origin as u8);
                let has = self.nodes[site].machine.known(id).unwrap()[origin.index()];
                if self.faulty && has <= after && self.random.one_in(100) {
                    // A host may err: the machine ignores entries after a gap.
                    let (after, upto) = (Position(upto.0 + 10), Position(upto.0 + 20));
                    let entries = Vec::new();
                    let command = Command::Stream { partition: id, origin, after, entries, upto };
                    self.command(site, UNHEARD, command);
                }
                let command = Command::Stream { partition: id, origin, after, entries, upto };
                if self.faulty && self.random.one_in(20) {
                    self.command(site, UNHEARD, command.clone());
                }
                self.command(site, UNHEARD, command);
            }
        }
    }

    /// Sites receive some of what others have of each stream.
    fn replicate(&mut self) {
        for site in 0..self.nodes.len() {
            if !self.is_up(site) {
                continue;
            }
            for origin in 0..self.nodes.len() {
                let peer = self.random.index(self.nodes.len());
                let has = self.nodes[site].has[origin];
                let theirs = self.nodes[peer].has[origin];
                let is_cut = self.network.is_cut(self.now, site, peer) || !self.is_up(peer);
                let slow = self.nodes[site].slowness;
                if is_cut || theirs <= has || !self.random.one_in(slow) {
                    continue;
                }
                let mut upto = has + 1 + self.random.index(theirs - has);
                // Transactions arrive as a whole.
                let stream = &self.streams[origin];
                while upto < stream.len() && stream[upto].position == stream[upto - 1].position {
                    upto += 1;
                }
                self.nodes[site].has[origin] = upto;
                self.give_streams(site);
            }
        }
    }

    fn write_ends(&mut self) {
        let (due, later) = std::mem::take(&mut self.ends)
            .into_iter()
            .partition(|end: &End| end.at <= self.now && self.is_up(end.site));
        self.ends = later;
        let due: Vec<End> = due;
        for End { site, process, ask, key, epoch, .. } in due {
            self.append(site, vec![(key, Entry::Ended(epoch))]);
            self.give_streams(site);
            if self.nodes[site].process == process {
                self.give(site, Input::Answered { ask, answer: Answer::Ended });
            }
        }
    }

    // Strong transactions.

    fn do_strong_transactions(&mut self) {
        let (now, nodes, dead) = (self.now, &self.nodes, self.dead);
        let before = self.strong.log.len();
        self.strong.order(now, |site| now < nodes[site].isolated || dead == Some(site));
        for place in before..self.strong.log.len() {
            let (partition, _, version, read, change) = self.strong.log[place].clone();
            let agreed = self.agreed.get_mut(&partition).unwrap();
            let effective = agreed.apply(version, read, &change);
            if effective && matches!(change, Change::Remove { .. }) {
                self.lose_updates(partition);
            }
        }
        while let Some((site, process, ask, answer)) = self.strong.next_answer(now) {
            if self.nodes[site].process == process {
                self.give(site, Input::Answered { ask, answer });
            }
        }
        for site in 0..self.nodes.len() {
            let lag = self.nodes[site].lag;
            let filled = self.nodes[site].filled && self.is_up(site);
            if filled && now >= self.nodes[site].isolated && self.random.one_in(lag) {
                self.give_versions(site);
            }
        }
    }

    /// Gives a machine the next versions. The log is one for all partitions.
    fn give_versions(&mut self, site: usize) {
        let behind = self.strong.log.len() - self.nodes[site].given_versions;
        let count = if behind > 0 { 1 + self.random.index(behind) } else { 0 };
        for _ in 0..count {
            let place = self.nodes[site].given_versions;
            if self.is_down(site) || place >= self.strong.log.len() {
                break;
            }
            self.nodes[site].given_versions += 1;
            let (partition, previous, version, read, change) = self.strong.log[place].clone();
            let has = self.nodes[site].machine.version(partition).unwrap();
            if self.faulty && has <= previous && self.random.one_in(100) {
                let (previous, version) = (Version(version.0 + 1), Version(version.0 + 2));
                let change = change.clone();
                let command = Command::Changed { partition, previous, version, read, change };
                self.command(site, UNHEARD, command);
            }
            let command = Command::Changed { partition, previous, version, read, change };
            if self.faulty && self.random.one_in(20) {
                self.command(site, UNHEARD, command.clone());
            }
            self.command(site, UNHEARD, command);
        }
    }

    // Removal.

    /// Plans that a site is cut off for good. In some worlds it has excluded all others before.
    fn plan_removal(&mut self) {
        let site = 1 + self.random.index(self.nodes.len() - 1);
        let agreed = CUT_MS + self.random.below(300);
        self.removed = Some((site, agreed * MS, None));
        // Another site lacks the last entries for a while.
        let slow = (site + 1) % self.nodes.len();
        self.planned.push(((CUT_MS - 60) * MS, Planned::Slowness(slow, PLANNED)));
        self.planned.push(((CUT_MS + 450) * MS, Planned::Slowness(slow, 1)));
        if self.random.chance(50) {
            for other in (0..self.nodes.len()).filter(|other| *other != site) {
                self.planned.push(((CUT_MS - 300) * MS, Planned::CutOff(other, 310)));
            }
        }
    }

    /// Cuts a site off for good. It runs on.
    fn cut_off_for_good(&mut self) {
        let Some((site, ..)) = self.removed else { return };
        self.cut_off(site, u64::MAX);
    }

    /// The others agree what remains of the stream of a site, and remove it.
    fn remove_a_site(&mut self) {
        let Some((site, at, cut)) = self.removed.filter(|_| !self.returned) else { return };
        if self.now < at || !self.now.is_multiple_of(20 * MS) {
            return;
        }
        let others = (0..self.nodes.len()).filter(|other| *other != site);
        let has = others.clone().map(|other| self.nodes[other].has[site]).max();
        let cut = cut.or(has).unwrap_or(0);
        self.removed = Some((site, at, Some(cut)));
        let status = self.members.status(SiteId(site as u8));
        if matches!(status, SiteStatus::Member | SiteStatus::Joining) {
            let changed = self.members.changed(SiteId(0), SiteId(site as u8), MemberChange::Remove);
            self.members = changed.unwrap();
            self.update_all_members();
        }
        let upto = Position(10 * cut as u64);
        for other in others {
            for partition in 0..self.nodes[other].config.topology.partitions {
                let partition = PartitionId(partition);
                let site = SiteId(site as u8);
                let command = Command::Remove { partition, site, upto };
                self.command(other, UNHEARD, command);
            }
        }
    }

    /// Passes the list of members to a machine.
    pub(crate) fn update_members(&mut self, site: usize) {
        let reading = self.reading(site);
        self.nodes[site].machine.set_members(reading, &self.members);
    }

    fn update_all_members(&mut self) {
        for site in (0..self.nodes.len()).filter(|site| !self.is_removed(*site)).collect::<Vec<_>>()
        {
            self.update_members(site);
        }
    }

    /// Lets sites join, and return.
    fn change_members(&mut self) {
        for site in 0..self.nodes.len() {
            let filled = self.nodes[site].machine.is_filled();
            if filled && !std::mem::replace(&mut self.nodes[site].filled, filled) {
                self.align(site);
                self.give_streams(site);
            }
            let id = SiteId(site as u8);
            if filled && self.members.status(id) == SiteStatus::Joining {
                self.members = self.members.joined(id, Timestamp::ZERO);
                self.update_all_members();
            }
        }
        let last = self.nodes.len() - 1;
        if self.shape.joins && self.now == JOIN_MS * MS {
            let last = SiteId(last as u8);
            self.members = self.members.changed(SiteId(0), last, MemberChange::Add).unwrap();
            self.update_all_members();
        }
        self.return_a_site();
    }

    /// Lets the removed site return without its data, when its removal is complete.
    fn return_a_site(&mut self) {
        let Some((site, _, Some(cut))) = self.removed else { return };
        let id = SiteId(site as u8);
        let mut others = (0..self.nodes.len()).filter(|other| *other != site);
        let complete = others.all(|other| self.nodes[other].machine.has_completed_removals());
        if !self.shape.returns || self.returned || !complete || self.now < RETURN_MS * MS {
            return;
        }
        self.returned = true;
        let gap = Gap { cut: Timestamp::ZERO, end: Timestamp::ZERO };
        let members = self.members.closed(id, gap);
        self.members = members.changed(SiteId(0), id, MemberChange::Add).unwrap();
        for tx in self.clients.transactions.iter_mut().filter(|tx| tx.site == site) {
            tx.state = clients::State::Done;
        }
        self.lose_requests(site);
        self.ends.retain(|end| end.site != site);
        self.network.connect(site);
        self.streams[site].truncate(cut);
        for key in self.keys.clone() {
            let remaining = self.remaining(site, cut, &key);
            self.truth.restore(site, &key, remaining);
        }
        let before = &self.nodes[site];
        let generation = self.members.generation(id);
        let config = Config { generation, ..before.config.clone() };
        let process = before.process + 1;
        let mut node = Node::new(config, self.nodes.len(), &mut self.random);
        (node.process, node.filled, node.rate) = (process, false, before.rate);
        (node.has[site], node.shown) = (cut, cut);
        self.nodes[site] = node;
        self.collect(site);
        self.update_all_members();
    }

    /// Returns the sum of what remains of a site's updates of a key.
    fn remaining(&self, site: usize, cut: usize, key: &Key) -> i128 {
        let remaining = self.streams[site][..cut].iter().filter(|placed| placed.key == *key);
        let amounts = remaining.map(|placed| match placed.entry {
            Entry::Update(amount) => i128::from(amount),
            Entry::Ended(_) | Entry::Given(..) | Entry::Created(..) | Entry::Resized(..) => 0,
        });
        amounts.sum()
    }

    /// The removal of a site takes effect: the value is without what does not remain.
    fn lose_updates(&mut self, partition: PartitionId) {
        let Some((site, _, Some(cut))) = self.removed else { return };
        let config = &self.nodes[0].config;
        for key in self.keys.iter().filter(|key| config.partition_of(key) == partition) {
            let remaining = self.remaining(site, cut, key);
            self.truth.lose(site, key, remaining);
        }
    }

    // Outputs.

    pub(crate) fn collect(&mut self, site: usize) {
        let node = &mut self.nodes[site];
        let mut outputs: Vec<Output> = std::iter::from_fn(|| node.machine.poll_output()).collect();
        assert_eq!(node.machine.counts().held, node.machine.recounted_holdings());
        let crashes = node.doomed && !outputs.is_empty();
        if crashes {
            // Records and messages before this point are durable and sent, the others are lost.
            outputs.truncate(self.random.index(outputs.len() + 1));
        }
        for output in outputs {
            match output {
                Output::Records(records) => {
                    let journal = &mut self.nodes[site].journal;
                    journal.extend(records.iter().map(<[u8]>::to_vec));
                }
                Output::Send { to, message } => {
                    let from = (site, self.nodes[site].config.generation);
                    self.network.send(self.now, from, to.site.index(), &message);
                }
                Output::Reply { request, response, .. } => self.on_reply(request, response),
                Output::Trace(Event::Rare(path)) => *self.rare.entry(path.0).or_default() += 1,
                Output::Trace(Event::TooWide { key, unexpected }) => {
                    if unexpected {
                        let key = String::from_utf8_lossy(&key);
                        self.unfinished.push(format!("site {site}: {key} is too wide"));
                    }
                }
                Output::Ask { ask, question } => self.on_question(site, ask, question),
                Output::Job { work, .. } => match work {},
            }
        }
        if crashes {
            self.crash(site);
        }
    }

    fn on_question(&mut self, site: usize, ask: AskId, question: Question) {
        let process = self.nodes[site].process;
        match question {
            Question::Change { partition, read, change } => {
                let asked = (site, process, ask);
                self.strong.ask(self.now, asked, (partition, read, change), self.faulty);
            }
            Question::End { key, epoch, .. } => {
                let slow = self.faulty && self.random.one_in(10);
                let delay =
                    if slow { self.random.below(200 * MS) } else { self.random.below(3 * MS) };
                self.ends.push(End { at: self.now + delay, site, process, ask, key, epoch });
            }
            Question::Give { .. } => panic!("no key of this world has rights"),
        }
    }

    // The end.

    /// Updates and reads at all sites but the one that has failed: they must succeed, if the floor
    /// permits tokens for all. A failed holder of decrements keeps a floor from rising.
    fn use_others(&mut self) {
        if !self.now.is_multiple_of(4 * MS) {
            return;
        }
        let dead = self.dead;
        for site in (0..self.nodes.len()).filter(|site| Some(*site) != dead) {
            for key in self.keys.clone() {
                let config = &self.nodes[site].config;
                let (partition, policy) = (config.partition_of(&key), config.policy(&key).unwrap());
                let agreed = self.nodes[site].machine.agreed(partition).unwrap();
                let floor = agreed.keys.get(&key).and_then(|record| record.floor);
                if policy.capacity(floor) < 30 || self.random.chance(50) {
                    continue;
                }
                self.begin_updates(site, vec![(key.clone(), 1)]);
                self.read(site, key);
            }
        }
    }

    /// All sites decide alike which changes take effect.
    fn compare_records(&mut self) {
        for (site, node) in self.nodes.iter().enumerate() {
            for (partition, expected) in &self.agreed {
                let agreed = node.machine.agreed(*partition).unwrap();
                if agreed.version != expected.version {
                    continue;
                }
                if agreed != expected {
                    let text = format!("site {site} has {agreed:?} instead of {expected:?}");
                    self.truth.violations.push(text);
                }
            }
        }
    }

    fn finish(mut self) -> Report {
        self.compare_records();
        for site in 0..self.nodes.len() {
            let gone = self.is_gone(site) || self.is_removed(site);
            if !gone && !self.nodes[site].machine.has_completed_removals() {
                self.unfinished.push(format!("site {site} has not completed a removal"));
            }
        }
        for tx in &self.clients.transactions {
            let gone = self.is_gone(tx.site) || self.is_removed(tx.site);
            if tx.state != clients::State::Done && !gone {
                self.unfinished
                    .push(format!("a transaction at site {} is {:?}", tx.site, tx.state));
            }
        }
        // For a person who looks into a seed.
        if std::env::var("DUMP").is_ok() {
            println!("dead: {:?}", self.dead);
            for node in &self.nodes {
                println!("{:?}", node.machine);
            }
        }
        let sites = self.nodes.len() - usize::from(self.removed.is_some() && !self.returned);
        let exact = sites * self.keys.len();
        if self.dead.is_none() && !self.shape.long_leases && self.clients.exact != exact {
            let text = format!("{} of {exact} last answers are exact", self.clients.exact);
            self.unfinished.push(text);
        }
        let mut undecided = 0;
        // Updates that are lost have no order.
        let histories = if self.removed.is_some() { Vec::new() } else { self.truth.histories() };
        for (key, history) in histories {
            let key = String::from_utf8_lossy(&key).into_owned();
            match solera_checker::interval::check(&history, 500) {
                Ok(true) => {}
                Ok(false) => undecided += 1,
                Err(violation) => self.truth.violations.push(format!("{key}: {violation}")),
            }
        }
        Report {
            violations: self.truth.violations,
            unfinished: self.unfinished,
            committed: self.clients.committed,
            refused: self.clients.refused,
            cannot: self.clients.cannot,
            reads: self.truth.reads,
            exact: self.truth.exact,
            rare: self.rare,
            undecided,
        }
    }

    /// Ends a site for good.
    fn stop_a_site(&mut self) {
        let dead = self.random.index(self.nodes.len());
        self.dead = Some(dead);
        let partitions = self.nodes[dead].config.topology.partitions;
        let latest = |partition: PartitionId| {
            let all = self.nodes.iter().filter_map(|node| node.machine.agreed(partition));
            all.max_by_key(|agreed| agreed.version).unwrap()
        };
        let can_answer = |partition: PartitionId, site: usize| {
            let id = SiteId(site as u8);
            let term = |agreed: &Agreed| agreed.reader(id).map(|reader| reader.term);
            let machine = &self.nodes[site].machine;
            machine.is_ready(partition)
                && term(machine.agreed(partition).unwrap()) == term(latest(partition))
        };
        let others = || (0..self.nodes.len()).filter(|site| *site != dead);
        self.alone = (0..partitions)
            .map(PartitionId)
            .any(|partition| !others().any(|site| can_answer(partition, site)));
    }

    /// Reads every key at every site. Nobody updates any more.
    fn read_everything(&mut self) {
        self.clients.must_succeed = self.dead.is_none();
        for site in (0..self.nodes.len()).filter(|site| !self.is_removed(*site)).collect::<Vec<_>>()
        {
            for key in self.keys.clone() {
                self.read(site, key);
            }
        }
        self.clients.must_succeed = false;
    }
}

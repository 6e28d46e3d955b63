//! A world of two to five sites: lossy links, partitions, crashes, restarts, skewed clocks, and
//! clients.

mod ambush;
mod changes;
mod clients;
mod history;
mod judge;
mod model;
mod network;
mod node;
mod observers;
mod procedures;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use solera_creek::{Config, Digest, Event, Executor, OperationId, Output, Past, Rule};
use solera_machine::{Address, Input, RequestId, Topology};
use solera_random::Random;
use solera_time::SiteId;

use self::ambush::Ambush;
use self::changes::Changes;
use self::clients::Session;
use self::history::History;
use self::judge::Judge;
use self::network::Network;
use self::node::Node;
use self::observers::{Observer, is_observer};
use self::procedures::{Key, Lists};

/// Time with faults, and most time until rest, in milliseconds.
const FAULTY: u64 = 2_000;
const REST: u64 = 20_000;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) sites: usize,
    /// Whether one site fails for good.
    pub(crate) dies: bool,
    /// Whether clients invoke strong operations seldom.
    pub(crate) weak: bool,
    /// Whether the tentative list is short.
    pub(crate) tight: bool,
    /// Whether two of five sites fail for good; see [`ambush`].
    pub(crate) ambush: bool,
    /// Whether clients wait for operations of others, and for pasts.
    pub(crate) observes: bool,
    /// Whether responses show no strong operation before it is committed.
    pub(crate) acyclic: bool,
    /// Whether sites leave and join.
    pub(crate) changes: bool,
    pub(crate) without: Option<Rule>,
}

/// Findings of a run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) violations: Vec<String>,
    /// Reasons why the world has not come to rest.
    pub(crate) unfinished: Vec<String>,
    pub(crate) rare: BTreeMap<&'static str, usize>,
    pub(crate) requests: usize,
    pub(crate) stable: usize,
    pub(crate) finals: u64,
    pub(crate) executions: u64,
    /// Digest of the final operations.
    pub(crate) digest: Option<Digest>,
}

pub(crate) struct World {
    /// In milliseconds.
    now: u64,
    random: Random,
    nodes: Vec<Node>,
    network: Network,
    sessions: Vec<Session>,
    history: History,
    strong_percent: u64,
    /// Mean pause of a session.
    pause: u64,
    /// Whether jobs take long.
    is_slow: bool,
    doomed: usize,
    dies_at: Option<u64>,
    ambush: Option<Ambush>,
    /// Whether there are observers, and their randomness.
    observes: bool,
    watch: Random,
    observers: BTreeMap<RequestId, Observer>,
    /// Number of observers so far.
    observed: u64,
    /// Operations that each site had delivered when its last reply was made.
    pasts: Vec<Past>,
    changes: Option<Changes>,
    /// The part of the history of each site's present generation.
    slots: Vec<usize>,
}

impl World {
    pub(crate) fn run(seed: u64, shape: Shape) -> Report {
        let mut world = World::new(seed, shape);
        world.open_sessions();
        while world.now < FAULTY {
            match world.ambush.is_some() {
                true => world.lie_in_ambush(),
                false => world.fail(),
            }
            world.change();
            world.invoke();
            world.observe();
            world.step();
        }
        world.network.heal();
        for node in &mut world.nodes {
            node.down_until = 0;
        }
        while world.now < FAULTY + REST && !world.unfinished().is_empty() {
            world.change();
            world.step();
        }
        world.report()
    }

    fn new(seed: u64, shape: Shape) -> World {
        let mut random = Random::new(seed);
        let topology = Topology { partitions: 1, workers: vec![1; shape.sites] };
        let mut draw = |choices: &[usize]| choices[random.index(choices.len())];
        let leader = SiteId(draw(&[0, 1]) as u8);
        let configs = SiteId::all(shape.sites).map(|site| {
            let address = Address { site, worker: 0 };
            let mut config = Config::new(address, Arc::new(topology.clone()));
            config.leader = leader;
            config.trace = true;
            config.acyclic = shape.acyclic;
            // Sites with different executors must agree.
            config.executor = match (seed / 2 + u64::from(address.site.0)) % 3 {
                0 => Executor::Sequential,
                _ => Executor::Multiversion,
            };
            config.without = shape.without.into();
            config.timing.tick = Duration::from_millis(if shape.ambush { 400 } else { 20 });
            config.timing.retry = Duration::from_millis(40);
            config.timing.settle = Duration::from_millis(150);
            config.timing.consensus.status_interval = Duration::from_millis(20);
            config.timing.consensus.leader_timeout = Duration::from_millis(120);
            config.timing.consensus.retry = Duration::from_millis(60);
            config.jobs = draw(&[0, 1, 3, 20]);
            config.limits.executions = draw(&[1, 2, 5, 100]);
            config.limits.operations = draw(&[1, 3, 100]);
            config.limits.early = draw(&[0, 3, 100]);
            config.limits.streams = draw(&[2, 100]);
            config.limits.piece = if seed.is_multiple_of(2) { 200 } else { 1 << 20 };
            config.limits.tentative = if shape.tight { 15 } else { 10_000 };
            config
        });
        let configs: Vec<Config> = configs.collect();
        let nodes = configs.into_iter().map(|config| Node::new(config, &mut random)).collect();
        World {
            now: 0,
            nodes,
            network: Network::new(random.draw(), topology),
            sessions: Vec::new(),
            history: History::new(shape.sites, shape.acyclic),
            strong_percent: if shape.weak { 1 } else { 10 + random.below(40) },
            pause: 10 + random.below(60),
            is_slow: random.one_in(3),
            doomed: random.index(shape.sites),
            ambush: shape.ambush.then(|| Ambush::From(200 + random.below(300))),
            observes: shape.observes,
            watch: Random::new(seed.wrapping_mul(7_919)),
            observers: BTreeMap::new(),
            observed: 0,
            pasts: vec![Past::default(); shape.sites],
            dies_at: shape.dies.then(|| 500 + random.below(1_400)),
            changes: shape.changes.then(|| World::draw_changes(&mut random, shape.sites)),
            slots: (0..shape.sites).collect(),
            random,
        }
    }

    fn draw_changes(random: &mut Random, sites: usize) -> Changes {
        let first = random.index(sites);
        let mut victims = vec![first];
        if sites == 5 && !random.one_in(4) {
            victims.push((first + 1 + random.index(4)) % 5);
        }
        let spread = [20, 40, 150][random.index(3)];
        let removals = (200 + random.below(600), 1 + random.index(3));
        Changes::new(sites, victims, spread, removals)
    }

    /// Carries out a millisecond.
    fn step(&mut self) {
        self.now += 1;
        while let Some(((from, generation), (to, receiver), message)) = self.network.next(self.now)
        {
            // A site has connections of its own generation alone.
            if self.nodes[to].is_up && self.nodes[to].generation() == receiver {
                let from = Address { site: SiteId(from as u8), worker: 0 };
                let input = Input::Message { from, generation, message };
                self.nodes[to].handle(self.now, input);
            }
        }
        for site in 0..self.nodes.len() {
            if self.nodes[site].restart(self.now, &mut self.random) {
                *self.history.rare.entry("world: a process was restarted").or_default() += 1;
                self.history.recovered(self.slots[site]);
                self.note_finals(site);
            }
            if self.nodes[site].is_up {
                self.nodes[site].tick(self.now);
                self.carry_out(site);
                self.write_checkpoint(site);
            }
        }
    }

    /// Carries out some of the outputs of a site, in order.
    fn carry_out(&mut self, site: usize) {
        let most = self.random.index(20);
        let most = if self.network.is_faulty { most } else { usize::MAX };
        for _ in 0..most {
            let Some(output) = self.nodes[site].pending.pop_front() else { return };
            match output {
                Output::<Lists>::Send { to, message } => {
                    let receiver = to.site.index();
                    let [from, to] =
                        [site, receiver].map(|site| (site, self.nodes[site].generation()));
                    if !self.network.send(self.now, from, to, &message) {
                        let name = message.name();
                        self.history.violations.push(format!("site {site} sends a bad {name}"));
                    }
                    self.strike(site, &message);
                }
                Output::<Lists>::Records(records) => self.nodes[site].store(&records),
                Output::<Lists>::Reply { request, response, last } => {
                    self.pasts[site] = self.nodes[site].pasts.pop_front().unwrap();
                    if is_observer(request) {
                        self.show(request, response, last);
                        continue;
                    }
                    self.history.reply(self.slots[site], request, response);
                    self.replied(request, last);
                }
                Output::<Lists>::Trace(event) => {
                    self.history.traced(self.slots[site], event.clone());
                    if matches!(event, Event::Filled(_)) {
                        self.note_finals(site);
                    }
                }
                Output::<Lists>::Job { job, work } => {
                    // While the world comes to rest, the backlog of slow jobs has to go.
                    let is_slow = self.is_slow && self.network.is_faulty;
                    let end = self.now + self.random.below(if is_slow { 60 } else { 6 });
                    self.nodes[site].begin_job(end, job, work);
                }
                Output::<Lists>::Ask { question, .. } => match question {},
            }
        }
    }

    fn write_checkpoint(&mut self, site: usize) {
        if self.random.one_in(10) {
            self.nodes[site].write_checkpoint(&mut self.random);
        }
    }

    /// Returns the sites that have failed for good.
    fn dead(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|site| self.nodes[*site].is_dead).collect()
    }

    /// Returns the sites that take part and have not failed for good.
    fn living(&self) -> impl Iterator<Item = (usize, &Node)> {
        let nodes = self.nodes.iter().enumerate();
        nodes.filter(|(site, node)| !node.is_dead && self.takes_part(*site))
    }

    /// Returns why the world is not at rest.
    fn unfinished(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        let mut statuses = Vec::new();
        if self.is_changing() {
            reasons.push("a site leaves or joins".to_owned());
        }
        // What a site may lack is kept until the site is removed.
        let are_all_here = self.dead().iter().all(|site| !self.takes_part(*site));
        for (site, node) in self.living() {
            let status = node.machine.status();
            let is_kept = status.kept > 0 && are_all_here;
            let is_open = status.tentative > 0 || status.finals < status.committed || is_kept;
            if !node.is_up || !node.pending.is_empty() || is_open {
                reasons.push(format!("site {site} is busy: {status:?}"));
            }
            statuses.push((status.committed, status.finals, status.digest));
        }
        if statuses.windows(2).any(|pair| pair[0] != pair[1]) {
            reasons.push(format!("sites differ: {statuses:?}"));
        }
        let waiting = self.waiting_observers();
        if waiting > 0 {
            reasons.push(format!("{waiting} clients wait for what is final"));
        }
        let waiting = self.waiting_sessions();
        if waiting > 0 {
            reasons.push(format!("{waiting} sessions wait for replies"));
        }
        reasons
    }

    /// Notes the final operations that a machine remembers.
    fn note_finals(&mut self, site: usize) {
        let machine = &self.nodes[site].machine;
        let finals = machine.status().finals;
        for (back, (id, digest)) in (0..).zip(machine.history().rev()) {
            self.history.became_final(self.slots[site], finals - back, id, digest);
        }
    }

    fn report(mut self) -> Report {
        let unfinished = self.unfinished();
        (0..self.nodes.len()).for_each(|site| self.note_finals(site));
        let mut judge = Judge::new(&self.history);
        judge.judge();
        if unfinished.is_empty() {
            let dead = self.dead();
            let has_left = |id: OperationId| self.has_left(id.site.index(), id.run >> 32);
            judge.judge_rest(|id| dead.contains(&id.site.index()) || has_left(id));
            judge.judge_lost(has_left);
            let expected = judge.last_state().0.clone();
            for (_, node) in self.living() {
                let registers = node.machine.final_registers();
                let found: BTreeMap<Key, _> =
                    registers.into_iter().map(|(key, list)| (key[0], list)).collect();
                if found != expected {
                    judge.violations.push(format!("registers {found:?} instead of {expected:?}"));
                }
            }
        }
        let violations = judge.violations;
        let requests = self.history.requests.values();
        Report {
            violations,
            unfinished,
            stable: requests.filter(|issued| issued.stable.is_some()).count(),
            requests: self.history.requests.len(),
            finals: self.history.finals.len() as u64,
            digest: self.history.finals.last_key_value().map(|(_, (_, digest))| *digest),
            executions: self.nodes.iter().map(|node| node.machine.status().executions).sum(),
            rare: self.history.rare,
        }
    }
}

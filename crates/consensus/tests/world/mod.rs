//! A world of sites in virtual time, with crashes, partitions, losses and changes of the members.

mod faults;
mod judge;
mod node;
mod outputs;
mod streams;

use std::collections::{BTreeMap, BTreeSet};

use solera_consensus::Message;
use solera_random::Random;
use solera_time::Queue;

use faults::Ambush;
use judge::Judge;
use node::{Entry, Node, Without, casts};
use streams::Body;

/// A millisecond, in nanoseconds.
pub(crate) const MS: u64 = 1_000_000;

/// A message of the world.
#[derive(Clone, Debug)]
pub(crate) enum Letter {
    Consensus(Message<Body>),
    Body(Body),
    /// Last event of each stream that the sender has: it lacks the later ones.
    Vector(BTreeMap<solera_consensus::Run, u64>),
    /// The number of the list of members.
    Members(usize),
}

/// An event. Those of a process carry its incarnation.
pub(crate) enum Event {
    Arrive {
        from: u8,
        to: u8,
        generations: (u32, u32),
        letter: Letter,
    },
    Tick(u8, u64),
    Sync(u8, u64, usize),
    Gossip(u8, u64),
    Checkpoint(u8, u64),
    Invoke,
    Fault,
    Change,
    /// Members leave, if there is no other list by then.
    Leave {
        number: usize,
        list: Vec<u8>,
        first: u8,
    },
    Restart(u8),
    Resume(u8),
}

/// Properties of a world that its seed determines.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) sites: u8,
    /// Length of the part with faults, in milliseconds.
    pub(crate) length: u64,
    /// Mean time between two operations, in milliseconds.
    pub(crate) pause: u64,
    pub(crate) batch: usize,
    pub(crate) pipeline: usize,
    pub(crate) part_bytes: usize,
    pub(crate) faulty: bool,
    /// Whether elections are quick, and leaders fail often.
    pub(crate) hurried: bool,
    pub(crate) changes: bool,
    pub(crate) without: Without,
}

/// Findings of a world.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// The first violation of a safety property.
    pub(crate) violation: Option<String>,
    /// Expected event that did not happen in time after the faults had ended.
    pub(crate) unfinished: Option<String>,
    pub(crate) reached: BTreeMap<&'static str, usize>,
    /// Number of delivered casts.
    pub(crate) casts: usize,
}

pub(crate) struct World {
    shape: Shape,
    random: Random,
    now: u64,
    queue: Queue<Event>,
    nodes: BTreeMap<u8, Node>,
    /// Durable journals of processes that will be restarted.
    down: BTreeMap<u8, Vec<Entry>>,
    /// Sites that are lost for good, unless they join again with the data of another site.
    lost: BTreeSet<u8>,
    incarnations: u64,
    generations: Vec<u32>,
    lists: Vec<Vec<u8>>,
    cuts: BTreeSet<(u8, u8)>,
    loss: u64,
    delay: u64,
    /// A site that receives no bodies directly.
    late_bodies: Option<u8>,
    /// A site that sends no bodies.
    mute: Option<u8>,
    /// Time until which a plan to lose the last two sites with a body has priority.
    last_bodies_until: u64,
    ambush: Option<Ambush>,
    quiet: bool,
    judge: Judge,
    reached: BTreeMap<&'static str, usize>,
}

impl World {
    pub(crate) fn run(seed: u64, shape: Shape) -> Report {
        let mut world = World::new(seed, shape);
        let end = world.shape.length * MS;
        world.run_until(end, |_| false);
        world.heal();
        let unfinished = world.run_until(end + 60_000 * MS, |world| world.missing().is_none());
        let missing = (!unfinished).then(|| world.missing()).flatten();
        let violation = world.judge.violation.take();
        Report {
            unfinished: missing.filter(|_| violation.is_none()),
            violation,
            casts: world.judge.casts(),
            reached: world.reached,
        }
    }

    fn new(seed: u64, shape: Shape) -> World {
        let sites = shape.sites;
        let mut world = World {
            random: Random::new(seed),
            now: 0,
            queue: Queue::new(),
            nodes: BTreeMap::new(),
            down: BTreeMap::new(),
            lost: BTreeSet::new(),
            incarnations: 0,
            generations: vec![0; sites.into()],
            lists: vec![(0..sites).collect()],
            cuts: BTreeSet::new(),
            loss: 0,
            delay: 5,
            late_bodies: None,
            mute: None,
            last_bodies_until: 0,
            ambush: None,
            quiet: false,
            judge: Judge::default(),
            reached: BTreeMap::new(),
            shape,
        };
        for site in 0..sites {
            world.start(site, Vec::new(), None);
        }
        world.at(MS, Event::Invoke);
        if world.shape.faulty {
            world.at(100 * MS, Event::Fault);
        }
        if world.shape.changes {
            world.at(500 * MS, Event::Change);
        }
        world
    }

    fn at(&mut self, delay: u64, event: Event) {
        self.queue.push(self.now + delay, event);
    }

    fn members(&self) -> &[u8] {
        self.lists.last().expect("the first list is never removed")
    }

    fn any_site(&mut self) -> u8 {
        self.random.below(self.shape.sites.into()) as u8
    }

    fn leader(&self) -> Option<u8> {
        let mut leaders = self.nodes.iter().filter(|(_, node)| node.member.leads());
        leaders.next_back().map(|(site, _)| *site)
    }

    /// Runs until a time, a violation, or until `done`. Returns whether it was done.
    fn run_until(&mut self, end: u64, done: impl Fn(&World) -> bool) -> bool {
        let mut look = self.now;
        while self.judge.violation.is_none() {
            if self.now >= look {
                if done(self) {
                    return true;
                }
                look = self.now + 50 * MS;
            }
            let Some((at, event)) = self.queue.pop(end) else { return done(self) };
            self.now = at;
            self.happen(event);
        }
        true
    }

    fn is_current(&self, site: u8, incarnation: u64) -> bool {
        self.nodes.get(&site).is_some_and(|node| node.incarnation == incarnation)
    }

    fn is_paused(&self, site: u8) -> bool {
        self.nodes.get(&site).is_some_and(|node| node.paused_until > self.now)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive { from, to, generations, letter } => {
                let now = (self.generations[from as usize], self.generations[to as usize]);
                if generations != now {
                    return;
                }
                if self.is_paused(to) {
                    if let Some(node) = self.nodes.get_mut(&to) {
                        node.inbox.push((from, letter));
                    }
                } else {
                    self.receive(to, from, letter);
                }
            }
            Event::Tick(site, incarnation) if self.is_current(site, incarnation) => {
                if !self.is_paused(site) {
                    let now = self.clock(site);
                    if let Some(node) = self.nodes.get_mut(&site) {
                        node.member.on_deadline(now, &node.streams);
                    }
                    self.carry_out(site);
                }
                self.tick_at(site, incarnation);
            }
            Event::Sync(site, incarnation, upto) if self.is_current(site, incarnation) => {
                self.synced(site, upto);
            }
            Event::Gossip(site, incarnation) if self.is_current(site, incarnation) => {
                let to = self.any_site();
                if to != site && !self.is_paused(site) {
                    self.gossip(site, to);
                }
                self.at(60 * MS, Event::Gossip(site, incarnation));
            }
            Event::Checkpoint(site, incarnation) if self.is_current(site, incarnation) => {
                self.checkpoint(site, incarnation);
            }
            Event::Tick(..) | Event::Sync(..) | Event::Gossip(..) | Event::Checkpoint(..) => {}
            Event::Invoke => self.invoke_somewhere(),
            Event::Fault => self.fault(),
            Event::Change => self.change(),
            Event::Leave { number, list, first } => self.leave(number, list, first),
            Event::Restart(site) => self.restart(site),
            Event::Resume(site) => self.resume(site),
        }
    }

    fn invoke_somewhere(&mut self) {
        if self.quiet {
            return;
        }
        let site = self.any_site();
        let strong = self.random.chance(60);
        if !self.is_paused(site) && self.nodes.contains_key(&site) {
            self.invoke(site, strong);
        }
        let pause = 1 + self.random.below(2 * self.shape.pause);
        self.at(pause * MS, Event::Invoke);
    }

    fn resume(&mut self, site: u8) {
        if self.is_paused(site) {
            return;
        }
        let Some(node) = self.nodes.get_mut(&site) else { return };
        for (from, letter) in std::mem::take(&mut node.inbox) {
            self.receive(site, from, letter);
        }
    }

    /// Sends a letter over a link that may lose, duplicate and reorder letters.
    fn post(&mut self, from: u8, to: u8, letter: Letter) {
        let late = matches!(letter, Letter::Body(_))
            && (self.late_bodies == Some(to) || self.mute == Some(from));
        if self.cuts.contains(&(from, to)) || self.random.chance(self.loss) || late {
            return;
        }
        let generations = (self.generations[from as usize], self.generations[to as usize]);
        let copies = 1 + u64::from(self.shape.faulty && !self.quiet && self.random.chance(5));
        for _ in 0..copies {
            let delay = self.delay * MS / 2 + self.random.below(self.delay * MS);
            let letter = letter.clone();
            self.at(delay, Event::Arrive { from, to, generations, letter });
        }
    }

    /// Returns what is missing at rest; `None` if everything that a live member has is delivered at
    /// all live members, and forgotten unless a site is lost.
    fn missing(&self) -> Option<String> {
        let number = self.lists.len() - 1;
        let live = || {
            let live = self.nodes.iter().filter(|(site, _)| self.members().contains(site));
            live.map(|(site, node)| (*site, node))
        };
        let all = casts(live().map(|(_, node)| node));
        let mut lost = self.members().iter().filter(|site| self.lost.contains(site));
        let complete = lost.next().is_none();
        for (site, node) in live() {
            if node.knows < number || !node.member.is_established() {
                return Some(format!("site {site} has list {} of {number}", node.knows));
            }
            let has = |run| node.streams.delivered.get(run).copied().unwrap_or(0);
            if let Some((run, last)) = all.iter().find(|(run, last)| has(run) < **last) {
                return Some(format!("site {site} lacks {}", run.cast(*last)));
            }
            if complete && node.member.delivered_everywhere() < node.member.delivered() {
                return Some(format!(
                    "site {site} has not forgotten {:?}",
                    node.member.delivered()
                ));
            }
        }
        None
    }
}

//! A site's process: its clock, its journal, restarts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use solera_consensus::{CastId, Checkpoint, Config, Member, Message, Part, Record, Rule, Run};
use solera_time::{Monotonic, SiteId};

use super::streams::{Body, Streams};
use super::{Event, Letter, MS, World};

/// An entry of a journal.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    /// A run begins.
    Run,
    Body(Body),
    Record(Record),
    /// The number of the list of members.
    Members(usize),
    /// A part of a checkpoint of the member.
    Part(Part),
    /// Streams that the site had delivered when the last part was taken.
    Delivered(Streams),
}

/// An output that waits until the journal is durable.
pub(crate) enum Held {
    Send(u8, Letter),
    Deliver(u64, Vec<CastId>),
    /// The site has what another one had delivered up to this slot. The order up to there is
    /// judged at the other one.
    Installed(usize),
}

pub(crate) struct Node {
    pub(crate) member: Member<Body>,
    pub(crate) streams: Streams,
    pub(crate) journal: Vec<Entry>,
    pub(crate) durable: usize,
    pub(crate) held: Vec<(usize, Held)>,
    pub(crate) run: Run,
    pub(crate) casts: u64,
    pub(crate) incarnation: u64,
    /// The number of the latest list of members that it has received.
    pub(crate) knows: usize,
    /// Rate of the clock in thousandths.
    rate: u64,
    pub(crate) paused_until: u64,
    pub(crate) inbox: Vec<(u8, Letter)>,
    /// A checkpoint under way: length of the journal when it began, progress, parts.
    checkpoint: Option<(usize, Checkpoint, Vec<Entry>)>,
}

/// Content of a journal beside the state of the member and of the streams.
#[derive(Default)]
struct Restored {
    /// Number of runs.
    run: u64,
    /// The number of the list of members.
    knows: usize,
    delivered: Vec<(u64, Vec<CastId>)>,
}

impl Node {
    /// Returns whether the durable part of the journal contains that the configuration is
    /// established.
    pub(crate) fn has_established(&self, number: u64) -> bool {
        number == 0
            || self.journal[..self.durable].iter().any(|entry| match entry {
                Entry::Record(Record::Established(established)) => *established >= number,
                Entry::Part(Part::Rest { established, .. }) => *established >= number,
                _ => false,
            })
    }
}

impl World {
    pub(crate) fn clock(&self, site: u8) -> Monotonic {
        let rate = self.nodes.get(&site).map_or(1000, |node| node.rate);
        Monotonic(1_000_000_000 + self.now / 1000 * rate)
    }

    fn config(&self, site: u8) -> Config {
        let mut config = Config::new(SiteId(site), self.shape.sites.into(), SiteId(0));
        config.batch = self.shape.batch;
        config.pipeline = self.shape.pipeline;
        config.part_bytes = self.shape.part_bytes;
        let unit = if self.shape.hurried { 10 } else { 40 };
        config.timing.leader_timeout = Duration::from_millis(10 * unit);
        config.timing.retry = Duration::from_millis(4 * unit);
        config.timing.status_interval = Duration::from_millis(unit);
        config.without = self.shape.without.into();
        config
    }

    /// Starts a site with the durable part of its journal. A site that begins anew has the data of
    /// `donor`.
    pub(crate) fn start(&mut self, site: u8, journal: Vec<Entry>, donor: Option<u8>) {
        let rate = 900 + self.random.below(200);
        let config = self.config(site);
        let mut member = Member::new(config, Monotonic(1_000_000_000 + self.now / 1000 * rate));
        let mut streams = Streams::default();
        let restored = self.restore(site, &mut member, &mut streams, &journal);
        self.incarnations += 1;
        let durable = journal.len();
        let mut node = Node {
            member,
            streams,
            journal,
            durable,
            held: Vec::new(),
            run: Run { site: SiteId(site), number: restored.run },
            casts: 0,
            incarnation: self.incarnations,
            knows: restored.knows,
            rate,
            paused_until: 0,
            inbox: Vec::new(),
            checkpoint: None,
        };
        node.journal.push(Entry::Run);
        let incarnation = node.incarnation;
        let delivered = node.member.delivered().0 as usize;
        self.nodes.insert(site, node);
        if donor.is_none() {
            let released = self.judge.delivered.get(&site).copied().unwrap_or(0) as u64;
            for (slot, ids) in restored.delivered.into_iter().filter(|(slot, _)| *slot > released) {
                self.judge.deliver(site, slot, &ids);
            }
            self.judge.restart(site, delivered);
        }
        if let Some(donor) = donor {
            self.judge.replace(site, 0);
            self.fetch(site, donor);
        }
        let now = self.clock(site);
        let Some(node) = self.nodes.get_mut(&site) else { return };
        node.member.begin(now, &node.streams, self.generations[site as usize] == 0);
        for (run, number) in node.streams.last_casts() {
            node.member.learn(now, &node.streams, run.cast(number));
        }
        self.carry_out(site);
        self.tick_at(site, incarnation);
        let soon = self.random.below(80 * MS);
        self.at(soon, Event::Gossip(site, incarnation));
        let later = self.random.below(3_000 * MS);
        self.at(later, Event::Checkpoint(site, incarnation));
    }

    /// Restores the entries of a journal.
    fn restore(
        &mut self,
        site: u8,
        member: &mut Member<Body>,
        streams: &mut Streams,
        journal: &[Entry],
    ) -> Restored {
        let mut restored = Restored::default();
        for entry in journal {
            match entry {
                Entry::Run => restored.run += 1,
                Entry::Body(body) => drop(streams.take(body.clone())),
                Entry::Members(number) => {
                    restored.knows = *number;
                    let members = self.lists[*number].iter().copied().map(SiteId);
                    member.set_members(self.clock(site), streams, *number as u64, members);
                }
                Entry::Part(part) => member.restore_part(part.clone()),
                Entry::Delivered(delivered) => streams.install(delivered),
                Entry::Record(Record::Installed(snapshot)) => {
                    // A checkpoint may contain more.
                    if snapshot.delivered > member.delivered() {
                        streams.delivered = snapshot.runs.iter().copied().collect();
                    }
                    member.restore(Record::Installed(snapshot.clone())).unwrap();
                }
                Entry::Record(record) => match member.restore(record.clone()) {
                    Ok(Some(delivery)) => {
                        delivery.ids.iter().for_each(|id| streams.deliver(*id));
                        restored.delivered.push((delivery.slot.0, delivery.ids));
                    }
                    Ok(None) => {}
                    Err(error) => self.judge.fail(format!("site {site}: {error}")),
                },
            }
        }
        restored
    }

    /// Takes over the data of another site, which has more.
    pub(crate) fn fetch(&mut self, site: u8, donor: u8) {
        let Some(other) = self.nodes.get(&donor) else { return };
        let (streams, snapshot) = (other.streams.clone(), other.member.snapshot());
        let now = self.clock(site);
        let Some(node) = self.nodes.get_mut(&site) else { return };
        if snapshot.delivered <= node.member.delivered() {
            return;
        }
        for body in streams.all() {
            for body in node.streams.take(body.clone()) {
                node.journal.push(Entry::Body(body));
            }
        }
        node.streams.install(&streams);
        let delivered = snapshot.delivered.0 as usize;
        node.member.install(now, &node.streams, snapshot);
        for (run, number) in node.streams.last_casts() {
            node.member.learn(now, &node.streams, run.cast(number));
        }
        // The next record is that of the snapshot.
        node.held.push((node.journal.len() + 1, Held::Installed(delivered)));
        self.carry_out(site);
    }

    /// Continues a checkpoint. When it is complete, it replaces the records before it.
    pub(crate) fn checkpoint(&mut self, site: u8, incarnation: u64) {
        let slots = 1 + self.random.index(4);
        let Some(node) = self.nodes.get_mut(&site) else { return };
        let (began, mut progress, mut parts) = match node.checkpoint.take() {
            Some(checkpoint) => checkpoint,
            None => (node.journal.len(), Checkpoint::default(), Vec::new()),
        };
        match node.member.next_part(&mut progress, slots) {
            Some(part) => {
                let last = matches!(part, Part::Rest { .. });
                parts.push(Entry::Part(part));
                if last {
                    parts.push(Entry::Delivered(node.streams.clone()));
                }
                node.checkpoint = Some((began, progress, parts));
            }
            None if node.durable == node.journal.len() && node.held.is_empty() => {
                let since = node.journal.split_off(began);
                node.journal.retain(|entry| {
                    !matches!(entry, Entry::Record(_) | Entry::Part(_) | Entry::Delivered(_))
                });
                node.journal.extend(parts);
                node.journal.extend(since);
                node.durable = node.journal.len();
                node.incarnation = self.incarnations + 1;
                self.incarnations += 1;
                let incarnation = node.incarnation;
                self.tick_at(site, incarnation);
                self.at(50 * MS, Event::Gossip(site, incarnation));
                self.at(2_000 * MS, Event::Checkpoint(site, incarnation));
                *self.reached.entry("world: a checkpoint").or_default() += 1;
                return;
            }
            None => node.checkpoint = Some((began, progress, parts)),
        }
        self.at(20 * MS, Event::Checkpoint(site, incarnation));
    }

    pub(crate) fn tick_at(&mut self, site: u8, incarnation: u64) {
        let now = self.clock(site);
        let Some(node) = self.nodes.get(&site) else { return };
        let deadline = node.member.next_deadline().unwrap_or(now);
        let late = self.random.below(3 * MS);
        let wait = deadline.0.saturating_sub(now.0) / node.rate * 1000 + MS + late;
        self.at(wait, Event::Tick(site, incarnation));
    }

    /// Makes an operation at a site.
    pub(crate) fn invoke(&mut self, site: u8, strong: bool) {
        let now = self.clock(site);
        let Some(node) = self.nodes.get_mut(&site) else { return };
        let run = node.run;
        node.casts += u64::from(strong);
        let body = Body {
            run,
            event: node.streams.last(run) + 1,
            cast: strong.then_some(node.casts),
            context: node.streams.lasts(),
            delivered: node.streams.delivered.clone(),
        };
        node.take(now, body.clone());
        let wait = node.journal.len();
        for to in (0..self.shape.sites).filter(|to| *to != site) {
            node.held.push((wait, Held::Send(to, Letter::Body(body.clone()))));
        }
        self.carry_out(site);
    }

    /// Hands a letter to a site's process.
    pub(crate) fn receive(&mut self, site: u8, from: u8, letter: Letter) {
        let now = self.clock(site);
        let Some(node) = self.nodes.get_mut(&site) else { return };
        match letter {
            Letter::Consensus(message) => {
                node.member.on_message(now, &node.streams, SiteId(from), message);
            }
            Letter::Body(body) => {
                if node.take(now, body) {
                    node.member.recheck(now, &node.streams);
                }
            }
            Letter::Vector(lasts) => {
                let wait = node.journal.len();
                for body in node.streams.after(&lasts, 20) {
                    node.held.push((wait, Held::Send(from, Letter::Body(body))));
                }
            }
            Letter::Members(number) => self.learn_members(site, number),
        }
        self.carry_out(site);
    }

    /// Sends a site's vector and list of members to another site.
    pub(crate) fn gossip(&mut self, site: u8, to: u8) {
        let Some(node) = self.nodes.get_mut(&site) else { return };
        let wait = node.journal.len();
        node.held.push((wait, Held::Send(to, Letter::Vector(node.streams.lasts()))));
        if node.knows > 0 {
            node.held.push((wait, Held::Send(to, Letter::Members(node.knows))));
        }
        self.carry_out(site);
    }

    pub(crate) fn learn_members(&mut self, site: u8, number: usize) {
        let now = self.clock(site);
        let members: Vec<SiteId> = self.lists[number].iter().copied().map(SiteId).collect();
        let Some(node) = self.nodes.get_mut(&site) else { return };
        if number > node.knows {
            node.knows = number;
            node.journal.push(Entry::Members(number));
            node.member.set_members(now, &node.streams, number as u64, members);
        }
    }
}

impl Node {
    /// Takes a body. Returns whether the site has more than before.
    pub(crate) fn take(&mut self, now: Monotonic, body: Body) -> bool {
        let taken = self.streams.take(body);
        for body in &taken {
            self.journal.push(Entry::Body(body.clone()));
        }
        for id in taken.iter().filter_map(Body::id) {
            self.member.learn(now, &self.streams, id);
        }
        !taken.is_empty()
    }
}

/// Returns the rule that a world leaves out, for its name.
pub(crate) type Without = Option<Rule>;

/// Returns the name of a letter, for ambushes.
pub(crate) fn name(letter: &Letter) -> &'static str {
    match letter {
        Letter::Consensus(Message::Promise { slots, .. }) if slots.is_empty() => "empty promise",
        Letter::Consensus(message) => message.name(),
        Letter::Body(_) => "body",
        Letter::Vector(_) => "vector",
        Letter::Members(_) => "members",
    }
}

/// Returns the last cast of each run that must be delivered: these sites together have its body and
/// its context, and those of the earlier ones. What is lost with other sites does not exist.
pub(crate) fn casts<'a>(nodes: impl Iterator<Item = &'a Node>) -> BTreeMap<Run, u64> {
    let mut bodies: BTreeMap<(Run, u64), &Body> = BTreeMap::new();
    let mut lasts: BTreeMap<Run, u64> = BTreeMap::new();
    for node in nodes {
        bodies.extend(node.streams.all().map(|body| ((body.run, body.event), body)));
        for (run, event) in node.streams.lasts() {
            let last = lasts.entry(run).or_default();
            *last = event.max(*last);
        }
    }
    let mut casts: BTreeMap<Run, u64> = BTreeMap::new();
    let mut ended = BTreeSet::new();
    for body in bodies.values().filter(|body| body.cast.is_some()) {
        let has = |run| lasts.get(run).copied().unwrap_or(0);
        if body.context.iter().any(|(run, event)| has(run) < *event) {
            ended.insert(body.run);
        }
        if let Some(number) = body.cast.filter(|_| !ended.contains(&body.run)) {
            casts.insert(body.run, number);
        }
    }
    casts
}

//! A site's process: its clock, journal, pauses and crashes.

use std::collections::VecDeque;

use solera_machine::{Machine, Now, PartitionId, RequestId};
use solera_random::Random;
use solera_reservations::{
    Checkpoint, Command, Config, Entry, Input, Recovery, Reservations, Tokens,
};
use solera_time::{Monotonic, Physical};

use super::{MS, World};

/// Mean time that only a plan ends.
pub(crate) const PLANNED: u64 = 5_000;

/// A rare path of the world.
pub(crate) const LOWER_PREFIX: &str = "world: a restarted site has lower prefixes than before";

/// Parts of a checkpoint, each with the number of the last record that it includes.
type Parts = Vec<(u64, Vec<u8>)>;

pub(crate) struct Node {
    pub(crate) machine: Reservations,
    pub(crate) config: Config,
    pub(crate) journal: Vec<Vec<u8>>,
    /// The last complete checkpoint: number of the last record before it, and its parts.
    checkpoint: Option<(usize, Parts)>,
    /// A checkpoint under way.
    writing: Option<(usize, Checkpoint, Parts)>,
    /// The monotonic clock: a reading at time 0, and the rate in thousandths.
    offset: u64,
    pub(crate) rate: u64,
    pub(crate) down_until: u64,
    paused_until: u64,
    /// Reading of the clock before the pause, if the host has read it for its next input.
    early: Option<Monotonic>,
    /// Input that the host had received before it read the clock.
    pub(crate) stalled: Option<(Now, Input)>,
    pub(crate) inbox: VecDeque<Input>,
    pub(crate) doomed: bool,
    /// Whether the machine had the state of all partitions in the last step.
    pub(crate) filled: bool,
    /// Whether the process has restarted and was given nothing yet.
    restarted: bool,
    /// Number of the process.
    pub(crate) process: u64,
    /// The number of entries of each stream that the site has, and that the machine was given.
    pub(crate) has: Vec<usize>,
    pub(crate) given: Vec<usize>,
    /// The number of entries of its own stream that the host passes to the machine, and when it
    /// passes the others.
    pub(crate) shown: usize,
    pub(crate) show_at: u64,
    /// The number of versions that the machine was given.
    pub(crate) given_versions: usize,
    /// Time until which the site is cut off from strong transactions.
    pub(crate) isolated: u64,
    /// Mean times in milliseconds until entries and versions arrive.
    pub(crate) slowness: u64,
    pub(crate) lag: u64,
}

/// A planned fault, with the site and a length or a mean time in milliseconds.
#[derive(Clone, Copy)]
pub(crate) enum Planned {
    CutOff(usize, u64),
    Isolate(usize, u64),
    Lag(usize, u64),
    Slowness(usize, u64),
    Crash(usize),
}

impl Node {
    pub(crate) fn new(config: Config, sites: usize, random: &mut Random) -> Node {
        Node {
            machine: Reservations::new(config.clone()),
            config,
            journal: Vec::new(),
            checkpoint: None,
            writing: None,
            offset: random.below(1_000_000 * MS),
            // The fastest and the slowest differ by less than the two times of the configuration.
            rate: 750 + random.below(700),
            down_until: 0,
            paused_until: 0,
            early: None,
            stalled: None,
            inbox: VecDeque::new(),
            doomed: false,
            filled: true,
            restarted: false,
            process: 1,
            has: vec![0; sites],
            given: vec![0; sites],
            shown: 0,
            show_at: 0,
            given_versions: 0,
            isolated: 0,
            slowness: 1 + random.below(4) * random.below(4),
            lag: 1 + random.below(4) * random.below(4),
        }
    }
}

impl World {
    pub(crate) fn reading(&self, site: usize) -> Now {
        let node = &self.nodes[site];
        let monotonic = Monotonic(node.offset + self.now / 1_000 * node.rate);
        Now { monotonic, physical: Physical(self.now / 1_000) }
    }

    pub(crate) fn is_gone(&self, site: usize) -> bool {
        self.dead == Some(site)
    }

    pub(crate) fn is_removed(&self, site: usize) -> bool {
        !self.returned && self.removed.is_some_and(|(removed, ..)| removed == site)
    }

    pub(crate) fn is_down(&self, site: usize) -> bool {
        let node = &self.nodes[site];
        self.is_gone(site) || self.now < node.down_until || node.restarted
    }

    pub(crate) fn is_paused(&self, site: usize) -> bool {
        self.now < self.nodes[site].paused_until
    }

    pub(crate) fn is_up(&self, site: usize) -> bool {
        !self.is_down(site) && !self.is_paused(site)
    }

    pub(crate) fn command(&mut self, site: usize, request: RequestId, command: Command) {
        self.give(site, Input::Client { request, command });
    }

    /// Gives an input to a site. It waits while the process is paused, and is lost if there is
    /// none.
    pub(crate) fn give(&mut self, site: usize, input: Input) {
        if self.is_down(site) {
            self.lose_requests_of(site, &input);
            return;
        }
        let waits = !self.nodes[site].inbox.is_empty() || self.nodes[site].stalled.is_some();
        if self.is_paused(site) || waits {
            self.nodes[site].inbox.push_back(input);
            return;
        }
        let reading = self.reading(site);
        if self.faulty && self.random.one_in(3_000) {
            // The process sleeps between the reading and the call.
            self.pause(site);
            self.nodes[site].stalled = Some((reading, input));
            return;
        }
        self.nodes[site].machine.handle(reading, input);
        self.collect(site);
    }

    /// Returns whether the process handles an input at once.
    pub(crate) fn takes_inputs(&self, site: usize) -> bool {
        let node = &self.nodes[site];
        self.is_up(site) && node.inbox.is_empty() && node.stalled.is_none()
    }

    fn lose_requests_of(&mut self, site: usize, input: &Input) {
        if matches!(input, Input::Client { .. }) {
            self.lose_requests(site);
        }
    }

    /// Handles what has arrived during a pause.
    pub(crate) fn resume(&mut self, site: usize) {
        if self.is_paused(site) || self.is_gone(site) || self.now < self.nodes[site].down_until {
            return;
        }
        if std::mem::take(&mut self.nodes[site].restarted) {
            // Its streams are complete before it receives anything else.
            self.give_streams(site);
        }
        if let Some((reading, input)) = self.nodes[site].stalled.take() {
            self.nodes[site].machine.handle(reading, input);
            self.collect(site);
        }
        let early = self.nodes[site].early.take().filter(|_| self.shape.reads_clock_early);
        while self.is_up(site) {
            let Some(input) = self.nodes[site].inbox.pop_front() else { break };
            let mut reading = self.reading(site);
            reading.monotonic = early.unwrap_or(reading.monotonic);
            self.nodes[site].machine.handle(reading, input);
            self.collect(site);
        }
    }

    fn pause(&mut self, site: usize) {
        let length = match self.random.one_in(3) {
            true => self.random.below(400 * MS),
            false => self.random.below(30 * MS),
        };
        let early = self.reading(site).monotonic;
        let node = &mut self.nodes[site];
        node.early = Some(early);
        node.paused_until = self.now + length;
    }

    /// Ends the process of a site, and rebuilds it from its journal.
    pub(crate) fn crash(&mut self, site: usize) {
        let down = self.random.below(3) * self.random.below(100) * MS;
        let offset = self.random.below(1_000_000 * MS);
        let forgets = self.random.chance(50);
        let slow = self.random.chance(50);
        let shown_after = down + self.random.below(if slow { 150 } else { 5 }) * MS;
        let (now, node) = (self.now, &mut self.nodes[site]);
        node.doomed = false;
        node.process += 1;
        node.inbox.clear();
        node.stalled = None;
        node.early = None;
        node.writing = None;
        node.offset = offset;
        node.paused_until = 0;
        node.down_until = now + down;
        node.show_at = node.show_at.max(now + shown_after);
        let mut recovery = Recovery::new(node.config.clone());
        let mut from = 0;
        if let Some((first, parts)) = &node.checkpoint {
            from = *first;
            for (lsn, part) in parts {
                recovery.take_part(*lsn, part).unwrap();
            }
        }
        for (place, record) in node.journal.iter().enumerate().skip(from) {
            recovery.take_record(place as u64 + 1, record).unwrap();
        }
        let before = std::mem::replace(&mut node.machine, recovery.into_machine());
        for id in (0..node.config.topology.partitions).map(PartitionId) {
            let (was, is) = (before.known(id).unwrap(), node.machine.known(id).unwrap());
            if was.iter().zip(is).any(|(was, is)| was > is) {
                // Others may know of the greater prefix from a report.
                *self.rare.entry(LOWER_PREFIX).or_default() += 1;
            }
        }
        for placed in &self.streams[site] {
            let partition = node.config.partition_of(&placed.key);
            let known = node.machine.known(partition).unwrap()[site];
            if let Entry::Update(amount) = placed.entry
                && placed.position > known
            {
                node.machine.restore_commit(&placed.key, Tokens::of(amount), placed.position);
            }
        }
        self.align(site);
        if !self.is_removed(site) {
            self.update_members(site);
        }
        self.ends.retain(|end| end.site != site || !forgets);
        self.lose_requests(site);
        self.collect(site);
        self.nodes[site].restarted = true;
    }

    /// The host continues where the machine is.
    pub(crate) fn align(&mut self, site: usize) {
        let node = &mut self.nodes[site];
        let first = PartitionId(0);
        let known = node.machine.known(first).unwrap();
        node.given = known.iter().map(|position| position.0 as usize / 10).collect();
        let partitions = node.config.topology.partitions;
        for partition in 1..partitions {
            let known = node.machine.known(PartitionId(partition)).unwrap();
            for (given, position) in node.given.iter_mut().zip(known) {
                *given = (*given).min(position.0 as usize / 10);
            }
        }
        node.given_versions = (0..partitions)
            .map(|partition| {
                let version = node.machine.version(PartitionId(partition)).unwrap();
                let has = |(of, _, number, ..): &super::strong::Logged| {
                    *of == PartitionId(partition) && *number <= version
                };
                self.strong.log.iter().rposition(has).map_or(0, |place| place + 1)
            })
            .min()
            .unwrap_or(0);
    }

    /// Writes the next part of a checkpoint, or begins one now and then.
    pub(crate) fn advance_checkpoint(&mut self, site: usize) {
        let begins = self.nodes[site].writing.is_none() && self.random.one_in(200);
        let node = &mut self.nodes[site];
        let lsn = node.journal.len();
        if begins {
            node.writing = Some((lsn, Checkpoint::default(), Vec::new()));
        }
        let Some((_, checkpoint, parts)) = &mut node.writing else { return };
        if let Some(part) = node.machine.next_part(checkpoint, 2) {
            let mut bytes = Vec::new();
            part.encode(&mut bytes);
            parts.push((lsn as u64, bytes));
        }
        if Reservations::is_complete(checkpoint)
            && let Some((first, _, parts)) = node.writing.take()
        {
            node.checkpoint = Some((first, parts));
        }
    }

    /// Makes something fail now and then.
    pub(crate) fn fail_at_random(&mut self) {
        let sites = self.nodes.len();
        let site = self.random.index(sites);
        let long = self.now + (10 + self.random.below(500)) * MS;
        if self.random.one_in(150) {
            self.network.cut(site, (site + 1 + self.random.index(sites - 1)) % sites, long);
        }
        if self.random.one_in(180) {
            self.cut_off(site, long);
        }
        if self.random.one_in(300) {
            self.nodes[site].isolated = long.max(self.nodes[site].isolated);
        }
        if self.random.one_in(150) {
            self.nodes[site].doomed = true;
        }
        if self.random.one_in(150) && self.is_up(site) {
            self.pause(site);
        }
        if self.random.one_in(60) && self.nodes[site].slowness < PLANNED {
            self.nodes[site].slowness = self.some_delay();
        }
        if self.random.one_in(60) && self.nodes[site].lag < PLANNED {
            self.nodes[site].lag = self.some_delay();
        }
        if self.random.one_in(200) {
            self.rise = [50, 10, 90][self.random.index(3)];
        }
    }

    /// Returns a mean time in milliseconds until entries or versions arrive.
    fn some_delay(&mut self) -> u64 {
        match self.random.below(5) {
            0 | 1 => 1,
            2 => 1 + self.random.below(6),
            3 => 15 + self.random.below(60),
            _ => 100 + self.random.below(150),
        }
    }

    /// Plans a sequence of faults around an admission: a site is cut off, excluded and admitted
    /// again, while a holder learns of versions late, and the site receives streams late.
    pub(crate) fn plan_admission(&mut self) {
        let sites = self.nodes.len();
        let site = self.random.index(sites);
        let holder = (site + 1 + self.random.index(sites - 1)) % sites;
        let sponsor = (0..sites).find(|other| *other != site && *other != holder);
        let start = 100 + self.random.below(900);
        let mut plan = |from: u64, within: u64, event: Planned| {
            let at = (start + from + self.random.below(within)) * MS;
            self.planned.push((at, event));
        };
        plan(0, 1, Planned::CutOff(site, 260));
        plan(180, 100, Planned::Lag(holder, PLANNED));
        plan(260, 60, Planned::Slowness(site, PLANNED));
        if let Some(sponsor) = sponsor {
            plan(250, 120, Planned::Crash(sponsor));
        }
        plan(250, 250, Planned::Crash(holder));
        plan(400, 100, Planned::Lag(holder, 1));
        plan(420, 150, Planned::Slowness(site, 1));
        self.rise = [10, 90][self.random.index(2)];
    }

    /// Plans that a site goes on without its right: it lacks versions and streams of others, which
    /// receive its stream and report to it.
    pub(crate) fn plan_exclusion(&mut self) {
        let site = self.random.index(self.nodes.len());
        let start = 100 + self.random.below(900);
        let end = 250 + self.random.below(300);
        self.planned.push((start * MS, Planned::Isolate(site, end)));
        self.planned.push((start * MS, Planned::Slowness(site, PLANNED)));
        self.planned.push(((start + end) * MS, Planned::Slowness(site, 1)));
        self.rise = 20;
    }

    /// Begins planned faults whose time has come.
    pub(crate) fn do_planned(&mut self) {
        let now = self.now;
        let due = self.planned.extract_if(.., |(at, _)| *at <= now);
        for (_, event) in due.collect::<Vec<_>>() {
            match event {
                Planned::CutOff(site, length) => self.cut_off(site, now + length * MS),
                Planned::Isolate(site, length) => {
                    let isolated = &mut self.nodes[site].isolated;
                    *isolated = (now + length * MS).max(*isolated);
                }
                Planned::Lag(site, lag) => self.nodes[site].lag = lag,
                Planned::Slowness(site, slowness) => self.nodes[site].slowness = slowness,
                Planned::Crash(site) => {
                    self.nodes[site].doomed |= self.random.chance(50);
                }
            }
        }
    }

    /// Cuts a site off from everything.
    pub(crate) fn cut_off(&mut self, site: usize, until: u64) {
        self.nodes[site].isolated = until.max(self.nodes[site].isolated);
        for other in (0..self.nodes.len()).filter(|other| *other != site) {
            self.network.cut(site, other, until);
        }
    }

    pub(crate) fn end_faults(&mut self) {
        self.faulty = false;
        self.network.heal();
        for node in &mut self.nodes {
            node.doomed = false;
            node.isolated = 0;
            node.paused_until = node.paused_until.min(self.now);
            node.slowness = 2;
            node.lag = 2;
        }
        if let Some((site, ..)) = self.removed.filter(|_| !self.returned) {
            self.cut_off(site, u64::MAX);
        }
    }
}

//! Faults: crashes, ambushes, partitions, losses, pauses, and changes of the members.

use super::node::{Entry, name};
use super::{Event, Letter, MS, World};

/// Names of letters after which an ambush strikes their sender.
const AMBUSHES: [&str; 8] = [
    "Consensus Accept",
    "Consensus Accept",
    "Consensus Accepted",
    "Consensus Promise",
    "Consensus Promise",
    "Consensus NewBallot",
    "Consensus Status",
    "body",
];

/// A plan to stop a process when a letter leaves, usually the sender, part-way.
pub(crate) struct Ambush {
    /// The letter.
    name: &'static str,
    /// Number of such letters that leave before.
    after: u64,
    /// Whether the process stays down.
    for_good: bool,
    /// The sender; `None` for the first one that sends such a letter.
    sender: Option<u8>,
    /// The process, if it is not the sender.
    victim: Option<u8>,
    then: Option<Box<Ambush>>,
}

impl World {
    /// Causes a fault, and plans the next one.
    pub(crate) fn fault(&mut self) {
        if self.quiet {
            return;
        }
        let next = if self.shape.hurried { self.random.below(250) } else { self.random.below(500) };
        self.at((30 + next) * MS, Event::Fault);
        if self.shape.hurried && self.random.chance(60) {
            return match self.random.below(8) {
                0 => self.cut(),
                1 => self.cuts.clear(),
                _ => self.plan_ambush(),
            };
        }
        let site = self.any_site();
        match self.random.below(13) {
            0 => self.crash(site, false),
            1 => {
                if let Some(leader) = self.leader() {
                    self.crash(leader, false);
                }
            }
            2 | 3 => self.cut(),
            4 => self.cuts.clear(),
            5 => self.loss = [0, 5, 30][self.random.index(3)],
            6 => self.delay = [1, 5, 20, 60][self.random.index(4)],
            7 => {
                let until = self.now + self.random.below(1_500) * MS;
                if let Some(node) = self.nodes.get_mut(&site) {
                    node.paused_until = until;
                    self.at(until - self.now, Event::Resume(site));
                }
            }
            8 => {
                let (now, by) = (self.clock(site), self.any_site());
                if let Some(node) = self.nodes.get_mut(&by) {
                    node.member.move_leader(now, &node.streams, solera_time::SiteId(site));
                    self.carry_out(by);
                }
            }
            9 => self.late_bodies = self.random.below(2).checked_sub(1).map(|_| site),
            10 => self.plan_last_bodies(),
            _ => self.plan_ambush(),
        }
    }

    fn plan_ambush(&mut self) {
        if self.now < self.last_bodies_until {
            return;
        }
        let name = AMBUSHES[self.random.index(AMBUSHES.len())];
        let after = self.random.below(4);
        let for_good = self.random.chance(50);
        self.ambush =
            Some(Ambush { name, after, for_good, sender: None, victim: None, then: None });
        self.mute = None;
    }

    /// Plans that one other member alone has received a leader's proposals and their bodies when
    /// the leader is lost, and that this member is lost, too, when it has handed them over.
    fn plan_last_bodies(&mut self) {
        let (leader, holder) = (self.leader(), self.any_site());
        let Some(leader) = leader.filter(|leader| *leader != holder && self.may_lose(holder))
        else {
            return;
        };
        self.cuts.clear();
        self.cuts.extend((0..self.shape.sites).filter(|to| *to != holder).map(|to| (leader, to)));
        self.mute = Some(holder);
        self.last_bodies_until = self.now + 3_000 * MS;
        let promise = Ambush {
            name: "Consensus Promise",
            after: 0,
            for_good: true,
            sender: Some(holder),
            victim: None,
            then: None,
        };
        self.ambush = Some(Ambush {
            name: "Consensus Accepted",
            after: self.random.below(12),
            for_good: true,
            sender: Some(holder),
            victim: Some(leader),
            then: Some(Box::new(promise)),
        });
    }

    /// Returns whether an ambush stops the sender of a letter after it.
    pub(crate) fn strikes(&mut self, site: u8, letter: &Letter) -> bool {
        let Some(ambush) = &mut self.ambush else { return false };
        if ambush.name != name(letter) || *ambush.sender.get_or_insert(site) != site {
            return false;
        }
        let strikes = ambush.after == 0;
        ambush.after = ambush.after.saturating_sub(1);
        strikes
    }

    pub(crate) fn strike(&mut self, site: u8) {
        let Some(ambush) = self.ambush.take() else { return };
        self.crash(ambush.victim.unwrap_or(site), ambush.for_good);
        match ambush.then {
            Some(then) => self.ambush = Some(*then),
            None if self.mute.take().is_some() => {
                self.last_bodies_until = 0;
                *self.reached.entry("world: a promise hands over the last bodies").or_default() +=
                    1;
            }
            None => {}
        }
    }

    /// Stops a process. Records that are not durable are lost.
    pub(crate) fn crash(&mut self, site: u8, for_good: bool) {
        let for_good = for_good && self.may_lose(site);
        let Some(node) = self.nodes.remove(&site) else { return };
        let mut journal = node.journal;
        journal.truncate(node.durable);
        if for_good {
            *self.reached.entry("world: a site is lost").or_default() += 1;
            self.lost.insert(site);
            return;
        }
        self.down.insert(site, journal);
        let delay = [30, 300, 3_000][self.random.index(3)];
        let delay = self.random.below(delay) * MS;
        self.at(delay, Event::Restart(site));
    }

    pub(crate) fn restart(&mut self, site: u8) {
        if let Some(journal) = self.down.remove(&site) {
            self.start(site, journal, None);
        }
    }

    /// Returns whether the cluster works without this site, and without those that are lost.
    fn may_lose(&self, site: u8) -> bool {
        let members = self.members();
        let lost = members.iter().filter(|site| self.lost.contains(site)).count();
        members.contains(&site) && lost < (members.len() - 1) / 2 && self.is_established()
    }

    /// Returns whether all members know the newest list, and that it is established, for ever.
    pub(crate) fn is_established(&self) -> bool {
        let number = self.lists.len() - 1;
        self.members().iter().filter(|site| !self.lost.contains(site)).all(|site| {
            self.nodes.get(site).is_some_and(|node| {
                node.knows == number
                    && node.has_established(number as u64)
                    && node.member.is_established()
            })
        })
    }

    fn cut(&mut self) {
        let sites = self.shape.sites;
        let site = self.any_site();
        let other = self.any_site();
        let island: u64 = self.random.below(1 << sites);
        let kind = self.random.below(4);
        for from in 0..sites {
            for to in 0..sites {
                let apart = match kind {
                    0 => (from == site) != (to == site),
                    1 => from == site && to == other,
                    2 => (from, to) == (site, other) || (to, from) == (site, other),
                    _ => (island >> from) & 1 != (island >> to) & 1,
                };
                if apart {
                    self.cuts.insert((from, to));
                }
            }
        }
    }

    /// Ends all faults.
    pub(crate) fn heal(&mut self) {
        self.quiet = true;
        self.cuts.clear();
        (self.loss, self.delay) = (0, 5);
        (self.late_bodies, self.mute, self.ambush) = (None, None, None);
        for site in 0..self.shape.sites {
            if let Some(node) = self.nodes.get_mut(&site) {
                node.paused_until = 0;
                self.resume(site);
            }
            self.restart(site);
            if !self.members().contains(&site) {
                self.nodes.remove(&site);
            }
        }
        self.spread_list();
    }

    /// Removes members or adds one.
    pub(crate) fn change(&mut self) {
        self.spread_list();
        if self.quiet {
            return;
        }
        let next = 300 + self.random.below(2_000);
        self.at(next * MS, Event::Change);
        if !self.is_established() {
            return;
        }
        let members = self.members().to_vec();
        let (lost, up): (Vec<u8>, Vec<u8>) =
            members.iter().copied().partition(|site| self.lost.contains(site));
        let outside: Vec<u8> =
            (0..self.shape.sites).filter(|site| !members.contains(site)).collect();
        let most = (members.len() - 1) / 2;
        if lost.is_empty() && most > 1 && self.random.chance(40) {
            return self.split(members);
        }
        if lost.is_empty() && !outside.is_empty() && self.random.chance(60) {
            let site = outside[self.random.index(outside.len())];
            self.add(members, site);
        } else if most > 0 {
            let mut leaving = lost;
            if leaving.is_empty() || (leaving.len() < most && self.random.chance(30)) {
                leaving.push(up[self.random.index(up.len())]);
            }
            let list: Vec<u8> =
                members.into_iter().filter(|site| !leaving.contains(site)).collect();
            let first = list[self.random.index(list.len())];
            self.lists.push(list);
            *self.reached.entry("world: members leave").or_default() += 1;
            self.learn_members(first, self.lists.len() - 1);
            self.carry_out(first);
        }
    }

    /// Gives the newest list to a member if the one that had it has lost it in a crash.
    fn spread_list(&mut self) {
        let number = self.lists.len() - 1;
        let mut up = self.members().iter().filter(|site| self.nodes.contains_key(site));
        if let Some(first) = up.next().copied() {
            self.learn_members(first, number);
            self.carry_out(first);
        }
    }

    /// Separates most of the members that will stay from the others, before these leave. The
    /// members that leave may decide in the meantime.
    fn split(&mut self, members: Vec<u8>) {
        let mut members = members;
        for at in 1..members.len() {
            members.swap(at, self.random.index(at + 1));
        }
        let leaving = members.split_off(members.len() - (members.len() - 1) / 2);
        let few = members[..members.len() / 2 + 1].to_vec();
        for from in 0..self.shape.sites {
            for to in 0..self.shape.sites {
                if few.contains(&from) != few.contains(&to) {
                    self.cuts.insert((from, to));
                }
            }
        }
        let delay = self.random.below(1_500) * MS;
        self.at(delay, Event::Leave { number: self.lists.len(), list: members, first: few[0] });
        *self.reached.entry("world: members leave behind a partition").or_default() +=
            leaving.len();
    }

    pub(crate) fn leave(&mut self, number: usize, list: Vec<u8>, first: u8) {
        if number == self.lists.len() && !self.quiet && self.lost.is_empty() {
            self.lists.push(list);
            self.learn_members(first, number);
            self.carry_out(first);
        }
    }

    fn add(&mut self, members: Vec<u8>, site: u8) {
        let donor = members[self.random.index(members.len())];
        let mut list = members;
        list.push(site);
        self.lists.push(list);
        self.lost.remove(&site);
        self.down.remove(&site);
        self.nodes.remove(&site);
        self.generations[site as usize] += 1;
        *self.reached.entry("world: a member joins").or_default() += 1;
        // Runs of a later generation have greater numbers.
        let runs = 100 * self.generations[site as usize] as usize;
        let mut journal = vec![Entry::Run; runs];
        journal.push(Entry::Members(self.lists.len() - 1));
        self.start(site, journal, Some(donor));
    }
}

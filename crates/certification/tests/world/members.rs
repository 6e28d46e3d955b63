//! Sites that are lost for good with all their data, are removed, and are replaced by sites that
//! begin with the data of another one.
//!
//! Real clusters agree on the members by merging what their sites know; here the changes have one
//! order. What matters for certification is the same: workers learn of a change at different times
//! and never forget it; a worker that knows of it ignores former generations of a site; nothing
//! more comes from a site once all others have confirmed that they know that it leaves; and a site
//! joins when all know that it is gone.

use solera_machine::Address;
use solera_time::{SiteId, Vector};

use super::{Held, Kept, Letter, MILLI, Random, World, WorldEvent};

/// Interval at which workers send one another the list of members.
pub(super) const INTERVAL: u64 = 50 * MILLI;

/// A list of members.
#[derive(Clone)]
pub(super) struct SiteList {
    pub(super) members: Vec<SiteId>,
    /// Number of times that each site was replaced.
    pub(super) generations: Vec<u32>,
    /// For each site that has left, a time after all updates of its former generations.
    pub(super) ends: Vector,
}

pub(super) struct Members {
    random: Random,
    /// All lists of members, one after the other. The number of each is its index.
    pub(super) lists: Vec<SiteList>,
    /// Number of further sites that may be lost without losing decisions.
    expendable: usize,
    change: Change,
}

/// Progress of a change of members.
#[derive(Clone)]
enum Change {
    None,
    /// These sites are to be removed.
    Lost(Vec<SiteId>),
    /// All others must know that these sites leave.
    Leaving(Vec<SiteId>),
    /// All others must know that these sites are gone, before they are replaced.
    Gone(Vec<SiteId>),
}

impl SiteList {
    /// Returns the members, each with the first run of its present generation.
    pub(super) fn with_first_runs(&self) -> Vec<(SiteId, u64)> {
        let first_run = |site: &SiteId| first_run(self.generations[site.index()]);
        self.members.iter().map(|site| (*site, first_run(site))).collect()
    }
}

fn first_run(generation: u32) -> u64 {
    u64::from(generation) << 32
}

impl Members {
    pub(super) fn new(seed: u64, sites: u8, f: usize) -> Self {
        let all: Vec<SiteId> = SiteId::all(sites.into()).collect();
        let ends = Vector::zero(sites.into());
        let keepers = (all.len() / 2 + 1).max(all.len().min(f + 1));
        let first = SiteList { generations: vec![0; all.len()], members: all, ends };
        Members {
            random: Random::new(seed ^ 0x3e3b),
            lists: vec![first],
            expendable: keepers - 1,
            change: Change::None,
        }
    }

    pub(super) fn newest(&self) -> (usize, &SiteList) {
        let number = self.lists.len() - 1;
        (number, &self.lists[number])
    }

    /// Returns the present generation of a site.
    pub(super) fn generation(&self, site: SiteId) -> u32 {
        self.newest().1.generations[site.index()]
    }

    /// Returns whether no change is in progress for which certification waits.
    pub(super) fn is_settled(&self) -> bool {
        matches!(self.change, Change::None | Change::Gone(_))
    }

    /// Chooses the sites that are lost next: one, or several at the same time.
    fn choose(&mut self) -> Vec<SiteId> {
        let mut left = self.newest().1.members.clone();
        let most = self.expendable.min(left.len() - 1) as u64;
        let count = if most == 0 { 0 } else { 1 + self.random.below(most) };
        self.expendable -= count as usize;
        (0..count)
            .map(|_| left.swap_remove(self.random.below(left.len() as u64) as usize))
            .collect()
    }
}

impl World {
    /// Returns whether a worker accepts a letter of a site's generation.
    pub(super) fn admits(&self, to: Address, from: SiteId, generations: (u32, u32)) -> bool {
        let Some(host) = &self.hosts[&to] else { return false };
        let list = &self.members.lists[host.knows];
        self.members.generation(to.site) == generations.1
            && list.generations[from.index()] == generations.0
            && (from == to.site || list.members.contains(&from))
    }

    /// Gives a worker a list of members.
    pub(super) fn learn_members(&mut self, address: Address, number: usize) {
        let members = self.members.lists[number].with_first_runs();
        let Some(host) = self.host(address) else { return };
        if host.knows < number {
            host.knows = number;
            host.held.push((host.journal.len(), Held::Keep(Kept::Members(number))));
            host.service.set_members(number as u64, members);
            self.flush(address);
        }
    }

    /// Returns the workers of the present members.
    fn workers(&self) -> Vec<Address> {
        let members = &self.members.newest().1.members;
        let all = self.addresses().into_iter();
        all.filter(|address| members.contains(&address.site)).collect()
    }

    /// Returns whether all of them know the present list, even after a crash.
    fn all_know(&self) -> bool {
        let number = self.members.newest().0;
        self.workers().iter().all(|address| {
            self.hosts[address].as_ref().is_some_and(|host| {
                let kept = &host.journal[..host.durable];
                let known = kept.iter().rev().find_map(|kept| match kept {
                    Kept::Members(number) => Some(*number),
                    _ => None,
                });
                known.unwrap_or(0) == number
            })
        })
    }

    /// Begins a list of members. One worker that is up receives it first.
    fn begin_list(&mut self, list: SiteList) -> bool {
        let mut up = self.workers();
        up.retain(|at| list.members.contains(&at.site) && self.hosts[at].is_some());
        if up.is_empty() {
            return false;
        }
        let first = up[self.members.random.below(up.len() as u64) as usize];
        self.members.lists.push(list);
        self.learn_members(first, self.members.newest().0);
        true
    }

    /// Continues a change of the members, and has workers send the list to one another.
    pub(super) fn change_members(&mut self) {
        let soon = |world: &mut World, percent| world.quiet || world.members.random.chance(percent);
        let change = std::mem::replace(&mut self.members.change, Change::None);
        self.members.change = match change {
            Change::None if !self.quiet && self.members.random.chance(4) => {
                let lost = self.members.choose();
                if self.members.random.chance(70) {
                    lost.iter().for_each(|site| self.lose(*site));
                }
                if lost.is_empty() { Change::None } else { Change::Lost(lost) }
            }
            Change::Lost(lost) if soon(self, 10) => self.remove(lost),
            Change::Leaving(lost) if soon(self, 20) => self.bury(lost),
            Change::Gone(lost) if !self.quiet && self.members.random.chance(10) => {
                self.replace(lost)
            }
            change => change,
        };
        self.send_members();
        self.at(INTERVAL, WorldEvent::Members);
    }

    fn send_members(&mut self) {
        let workers = self.workers();
        for address in &workers {
            let to = workers[self.members.random.below(workers.len() as u64) as usize];
            if to != *address
                && let Some(host) = self.host(*address).filter(|host| host.knows > 0)
            {
                let letter = Letter::Members(host.knows);
                host.held.push((host.journal.len(), Held::Send(to, letter)));
                self.flush(*address);
            }
        }
    }

    /// Loses a site for good.
    fn lose(&mut self, site: SiteId) {
        for address in self.addresses().into_iter().filter(|address| address.site == site) {
            self.hosts.insert(address, None);
            self.down.remove(&address);
            self.clients.retain(|client| client.address != address);
        }
    }

    fn remove(&mut self, lost: Vec<SiteId>) -> Change {
        let mut list = self.members.newest().1.clone();
        list.members.retain(|site| !lost.contains(site));
        match self.begin_list(list) {
            true => Change::Leaving(lost),
            false => Change::Lost(lost),
        }
    }

    fn bury(&mut self, lost: Vec<SiteId>) -> Change {
        lost.iter().for_each(|site| self.lose(*site));
        if !self.all_know() {
            return Change::Leaving(lost);
        }
        let mut list = self.members.newest().1.clone();
        let up = list.members.clone();
        for site in &lost {
            let end = self.causal.bury(*site, list.ends[*site], &up);
            list.ends.raise(*site, end);
        }
        self.begin_list(list);
        *self.faults.entry("removal").or_default() += lost.len();
        Change::Gone(lost)
    }

    /// Replaces one of the lost sites.
    fn replace(&mut self, mut lost: Vec<SiteId>) -> Change {
        if !self.all_know() {
            return Change::Gone(lost);
        }
        let Some(site) = lost.pop() else { return Change::None };
        let mut list = self.members.newest().1.clone();
        let donors = &list.members;
        let donor = donors[self.members.random.below(donors.len() as u64) as usize];
        list.members.push(site);
        list.members.sort_unstable();
        list.generations[site.index()] += 1;
        let (generation, end) = (list.generations[site.index()], list.ends[site]);
        self.causal.begin_anew(site, donor, end);
        self.members.lists.push(list);
        let number = self.members.newest().0;
        for address in self.addresses().into_iter().filter(|address| address.site == site) {
            let mut journal = vec![Kept::Members(number)];
            for group in self.groups().filter(|group| self.member(*group, site.0) == address) {
                let from = self.member(group, donor.0);
                let log = self.hosts[&from].iter().flat_map(|host| &host.logs[&group].items);
                journal.extend(log.map(|item| Kept::Stored(group, item.clone())));
            }
            let skew = self.members.random.below(5_000_000);
            self.start(address, journal, first_run(generation), skew);
        }
        *self.faults.entry("replacement").or_default() += 1;
        Change::Gone(lost)
    }
}

//! Changes of the list of sites: sites are removed, dead or alive, and join again without data.

use solera_membership::{Change, Gap, Members, Participant, SiteStatus};
use solera_time::{SiteId, Timestamp};

use super::World;
use super::node::Node;

/// The lists of sites, and which of them each site knows.
pub(crate) struct Changes {
    lists: Vec<Members>,
    knows: Vec<usize>,
    /// The sites that are removed.
    victims: Vec<usize>,
    /// When the next site is removed.
    next_at: u64,
    /// Mean time until a site learns of a change.
    spread: u64,
    /// Number of removals that are left.
    left: usize,
    /// When two sites fail at once, after one of them has reached none but the other for a while.
    ambush: Option<u64>,
}

impl Changes {
    pub(crate) fn new(
        sites: usize,
        victims: Vec<usize>,
        spread: u64,
        (next_at, left): (u64, usize),
    ) -> Changes {
        let lists = vec![Members::new(sites)];
        let ambush = (victims.len() > 1).then_some(next_at);
        Changes { lists, knows: vec![0; sites], victims, next_at, spread, left, ambush }
    }

    pub(crate) fn latest(&self) -> &Members {
        &self.lists[self.lists.len() - 1]
    }

    fn push(&mut self, list: Members) {
        self.lists.push(list);
    }
}

fn id(site: usize) -> SiteId {
    SiteId(site as u8)
}

impl World {
    /// Returns whether a site takes part, and is no member only if it joins.
    pub(crate) fn takes_part(&self, site: usize) -> bool {
        self.changes.as_ref().is_none_or(|changes| {
            let status = changes.latest().status(id(site));
            matches!(status, SiteStatus::Member | SiteStatus::Joining)
        })
    }

    /// Returns whether a site answers clients.
    pub(crate) fn serves(&self, site: usize) -> bool {
        self.nodes[site].is_up && self.nodes[site].machine.is_filled()
    }

    /// Returns whether a generation of a site has left.
    pub(crate) fn has_left(&self, site: usize, generation: u64) -> bool {
        self.changes.as_ref().is_some_and(|changes| {
            let latest = changes.latest();
            let own = u64::from(latest.generation(id(site)));
            generation < own || generation == own && !self.takes_part(site)
        })
    }

    /// Returns whether all sites know the last change, and no change is under way.
    pub(crate) fn is_changing(&self) -> bool {
        let Some(changes) = &self.changes else { return false };
        let latest = changes.latest();
        let busy = [SiteStatus::Leaving, SiteStatus::Joining];
        !self.all_know() || busy.iter().any(|status| latest.which(*status).next().is_some())
    }

    fn all_know(&self) -> bool {
        let Some(changes) = &self.changes else { return true };
        let last = changes.lists.len() - 1;
        changes.latest().members_and_joining().all(|site| changes.knows[site.index()] == last)
    }

    /// Continues changes of the list of sites.
    pub(crate) fn change(&mut self) {
        let Some(changes) = &self.changes else { return };
        let (last, spread) = (changes.lists.len() - 1, changes.spread);
        for site in 0..self.nodes.len() {
            let knows = self.changes.as_ref().map_or(last, |changes| changes.knows[site]);
            let is_up = self.nodes[site].is_up && self.takes_part(site);
            if is_up && knows < last && self.random.one_in(spread) {
                let next = knows + 1 + self.random.index(last - knows);
                self.learn_members(site, next);
            }
        }
        let victims = self.changes.as_ref().map(|changes| changes.victims.clone());
        let victims = victims.unwrap_or_default();
        self.lie_in_wait(&victims);
        for victim in victims {
            self.change_site(victim);
        }
    }

    /// Lets two sites fail at once. Before, one of them has reached none but the other, so that
    /// operations of the other need operations that no member has.
    fn lie_in_wait(&mut self, victims: &[usize]) {
        let Some(at) = self.changes.as_ref().and_then(|changes| changes.ambush) else { return };
        if self.now + 120 == at {
            for site in (0..self.nodes.len()).filter(|site| !victims.contains(site)) {
                self.network.cut(victims[0], site, at + 100);
            }
        }
        if self.now < at {
            return;
        }
        for victim in victims {
            self.kill(*victim);
        }
        if let Some(changes) = &mut self.changes {
            changes.ambush = None;
            changes.left = changes.left.max(victims.len());
        }
    }

    /// Lets sites crash more often while a site leaves or joins, above all one that joins.
    pub(crate) fn fail_during_changes(&mut self, site: usize) {
        if self.changes.is_none() || !self.nodes[site].is_up {
            return;
        }
        let joins = self.nodes[site].generation() > 0 && self.random.one_in(60);
        if joins || self.is_changing() && self.random.one_in(150) {
            let until = self.now + self.random.below(60);
            self.nodes[site].crash(until);
            self.free_all(site);
        }
    }

    fn learn_members(&mut self, site: usize, number: usize) {
        let Some(changes) = &mut self.changes else { return };
        changes.knows[site] = number;
        let list = changes.lists[number].clone();
        self.nodes[site].set_members(self.now, list);
    }

    fn change_site(&mut self, victim: usize) {
        let Some(changes) = &self.changes else { return };
        let latest = changes.latest().clone();
        let members: Vec<usize> = latest.members().map(SiteId::index).collect();
        let others = members.iter().copied().filter(|site| *site != victim);
        let up = others.filter(|site| self.nodes[*site].is_up).collect::<Vec<_>>();
        let Some(first) = up.first().copied() else { return };
        let is_settled = self.all_know() && members.iter().all(|site| self.nodes[*site].is_up);
        let list = match latest.status(id(victim)) {
            SiteStatus::Member if self.network.is_faulty || self.nodes[victim].is_dead => {
                let waits = changes.ambush.is_some() || self.now < changes.next_at;
                if changes.left == 0 || waits || !self.random.one_in(60) {
                    return;
                }
                self.begin_removal(victim);
                latest.changed(id(first), id(victim), Change::Remove).ok()
            }
            SiteStatus::Leaving if is_settled => {
                let done = |site: &usize| {
                    let node = &self.nodes[*site];
                    node.machine.has_completed_removals() && node.is_durable()
                };
                let gap = Gap { cut: Timestamp(1), end: Timestamp(1) };
                members.iter().all(done).then(|| latest.closed(id(victim), gap))
            }
            SiteStatus::Gone if self.all_know() && self.network.is_faulty => {
                if !self.random.one_in(40) {
                    return;
                }
                let joining = latest.changed(id(first), id(victim), Change::Add).ok();
                if let Some(list) = &joining {
                    self.replace(victim, list.generation(id(victim)));
                }
                joining
            }
            SiteStatus::Joining if self.nodes[victim].is_up => {
                if self.network.is_faulty && self.random.one_in(300) {
                    self.begin_removal(victim);
                    latest.changed(id(first), id(victim), Change::Remove).ok()
                } else {
                    let node = &self.nodes[victim];
                    let is_filled = node.machine.is_filled() && node.is_durable();
                    let knows = self.all_know() && is_filled && self.random.one_in(20);
                    knows.then(|| latest.joined(id(victim), Timestamp(2)))
                }
            }
            _ => None,
        };
        let Some(list) = list else { return };
        let joined = latest.status(id(victim)) == SiteStatus::Joining && list.is_member(id(victim));
        let Some(changes) = &mut self.changes else { return };
        changes.push(list);
        let last = changes.lists.len() - 1;
        let first = if joined { victim } else { up[self.random.index(up.len())] };
        self.learn_members(first, last);
        if joined {
            *self.history.rare.entry("world: a site joined").or_default() += 1;
            self.open_sessions_at(victim);
        }
    }

    /// Most sites that are removed have failed for good; others go on and learn nothing.
    fn begin_removal(&mut self, victim: usize) {
        let Some(changes) = &mut self.changes else { return };
        changes.left = changes.left.saturating_sub(1);
        changes.next_at = self.now + 300;
        if self.nodes[victim].is_dead {
            *self.history.rare.entry("world: two sites failed at once").or_default() += 1;
        } else if self.random.chance(70) {
            self.kill(victim);
        } else {
            *self.history.rare.entry("world: a site was removed alive").or_default() += 1;
        }
    }

    /// Starts a site anew, without data.
    fn replace(&mut self, victim: usize, generation: u32) {
        self.kill(victim);
        self.close_sessions(victim);
        let config = self.nodes[victim].next_generation(generation);
        self.nodes[victim] = Node::new(config, &mut self.random);
        self.slots[victim] = self.history.open_slot();
        if let Some(changes) = &mut self.changes {
            changes.knows[victim] = 0;
        }
    }
}

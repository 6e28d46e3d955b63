//! Sites that an operator removes and adds.

use std::time::Duration;

use solera_machine::Address;
use solera_membership::{Change, Gap, SiteStatus};
use solera_time::SiteId;

use super::{Due, EPOCH_MICROS, SiteState, World, WorldEvent};
use crate::faults::Fault;
use crate::queue::MS;

impl World {
    /// Returns whether a site lacks data that it must have before it serves.
    pub(crate) fn is_joining(&self, site: usize) -> bool {
        !self.served.contains(&site)
    }

    /// Returns a replica at another site that an operator can send commands to.
    pub(super) fn root_beside(&self, site: usize) -> Option<Address> {
        let up = |other: &usize| *other != site && self.states[*other] == SiteState::Up;
        let other = (0..self.states.len()).find(up)?;
        Some(Address { site: SiteId(other as u8), worker: 0 })
    }

    /// Returns a site's status and generation, as another site knows them.
    pub(crate) fn site_status(&self, site: usize) -> Option<(SiteStatus, u32)> {
        let replica = self.replica(&self.root_beside(site)?)?;
        let (members, site) = (replica.status().members().clone(), SiteId(site as u8));
        Some((members.status(site), members.generation(site)))
    }

    /// Returns the latest generation of a site that any running site knows.
    fn latest_generation(&self, site: usize) -> u32 {
        let id = SiteId(site as u8);
        let others = (0..self.states.len()).filter(|other| *other != site);
        let roots = others.map(|other| Address { site: SiteId(other as u8), worker: 0 });
        let generations =
            roots.filter_map(|root| Some(self.replica(&root)?.status().members().generation(id)));
        generations.max().unwrap_or(0)
    }

    /// Returns whether most members run. A failed sync of a disk may stop one site more than may be
    /// lost.
    pub(crate) fn has_quorum(&self) -> bool {
        let is_member = |site: &usize| {
            !matches!(self.site_status(*site), Some((SiteStatus::Gone | SiteStatus::Joining, _)))
        };
        let members: Vec<usize> = (0..self.states.len()).filter(is_member).collect();
        let up = members.iter().filter(|site| self.states[**site] == SiteState::Up).count();
        2 * up > members.len()
    }

    /// Returns the sites that were removed in some generation, with the gap of each of these
    /// generations.
    pub(crate) fn removed(&self) -> impl Iterator<Item = (usize, Vec<Gap>)> + '_ {
        self.removed.iter().map(|site| {
            let root = self.root_beside(*site).and_then(|root| self.replica(&root));
            let members = root.map(|replica| replica.status().members().clone());
            let id = SiteId(*site as u8);
            (*site, members.map_or(Vec::new(), |members| members.gaps(id).to_vec()))
        })
    }

    /// Describes a site that an operator has removed or added and whose change is not complete.
    pub(crate) fn unfinished(&self) -> Option<String> {
        let changes = |due: &Due| {
            use Fault::{Add, Destroy, Remove, RemoveAgain};
            matches!(due, Due::Fault(Remove(_) | RemoveAgain(..) | Destroy(_) | Add(_)))
        };
        let waiting = self.queue.first(changes).map(|due| format!("{due:?}"));
        let changing = |site: &usize| {
            let site_status = self.site_status(*site);
            let rests = matches!(site_status, Some((SiteStatus::Member | SiteStatus::Gone, _)));
            !rests || self.states[*site] == SiteState::Joining
        };
        waiting.or_else(|| {
            let site = self.removed.iter().copied().find(changing)?;
            Some(format!("site {site} is {:?} and {:?}", self.site_status(site), self.states[site]))
        })
    }

    fn ask_for_change(&mut self, site: usize, change: Change) -> bool {
        let Some(root) = self.root_beside(site) else { return false };
        let now = self.now_at(root);
        let Some(worker) = self.workers.get_mut(&root) else { return false };
        let done = worker.machine_mut().change_members(now, SiteId(site as u8), change);
        self.trace.write(self.now, format_args!("{change:?} site {site}: {done:?}"));
        self.carry_out(root);
        done.is_ok()
    }

    pub(super) fn remove(&mut self, site: usize) {
        if self.ask_for_change(site, Change::Remove) {
            self.tally.count("removed sites");
            if self.is_joining(site) {
                self.tally.count("sites removed before they had joined");
            }
            self.removed.insert(site);
            let at = self.now + self.random.within(0, 300) * MS;
            self.push(at, Due::Fault(Fault::Destroy(site)));
        }
        if !self.is_removal_known(site) {
            let again = Fault::RemoveAgain(site, self.generations[site]);
            self.push(self.now + 50 * MS, Due::Fault(again));
        }
    }

    /// Returns whether all other sites that are not lost have durably recorded that a site leaves
    /// or is gone, as `solera site remove` waits for: the site that took the command may crash, or
    /// be lost, before it informs another one.
    fn is_removal_known(&self, site: usize) -> bool {
        let id = SiteId(site as u8);
        let stays = |other: &usize| {
            let is_lost = matches!(self.states[*other], SiteState::Destroyed | SiteState::Joining);
            let is_member =
                matches!(self.site_status(*other), None | Some((SiteStatus::Member, _)));
            *other != site && is_member && !is_lost
        };
        let knows = |other: usize| {
            let root = Address { site: SiteId(other as u8), worker: 0 };
            self.workers.get(&root).is_some_and(|worker| {
                let site_status = worker.machine().members().status(id);
                matches!(site_status, SiteStatus::Leaving | SiteStatus::Gone)
                    && !worker.has_undurable()
            })
        };
        (0..self.states.len()).filter(stays).all(knows)
    }

    pub(super) fn destroy(&mut self, site: usize) {
        if self.is_joining(site) {
            // The other sites wait for the joining site until an operator removes it.
            self.push(self.now + 50 * MS, Due::Fault(Fault::Remove(site)));
        }
        self.stop(site, SiteState::Destroyed);
    }

    pub(super) fn add(&mut self, site: usize) {
        if self.states[site] != SiteState::Destroyed && self.generations[site] > 0 {
            let forgotten = Some((SiteStatus::Gone, self.generations[site] - 1));
            if self.is_joining(site) {
                if self.site_status(site) == forgotten {
                    // The site that took the command crashed before the change was durable.
                    self.ask_for_change(site, Change::Add);
                }
                self.push(self.now + 200 * MS, Due::Fault(Fault::Add(site)));
            }
            return;
        }
        // Reads the state before the command: its execution may crash a site. The site that takes
        // the command may not yet know of a generation that others know.
        let former = self.latest_generation(site);
        let is_known = self.site_status(site).is_some_and(|(_, generation)| generation == former);
        let mut gaps = self.removed().filter(|(other, _)| *other == site);
        let gap = gaps.next().and_then(|(_, gaps)| gaps.last().copied());
        drop(gaps);
        // An operator adds a site again once its removal is known, as `solera site remove` reports.
        let can_be_added =
            self.states[site] == SiteState::Destroyed && self.is_removal_known(site) && is_known;
        if !can_be_added || !self.ask_for_change(site, Change::Add) {
            if self.states[site] == SiteState::Destroyed
                && matches!(self.site_status(site), Some((SiteStatus::Member, _)))
            {
                // The site that took the removal was lost before it informed another one.
                self.push(self.now + 50 * MS, Due::Fault(Fault::Remove(site)));
            }
            self.push(self.now + 60 * MS, Due::Fault(Fault::Add(site)));
            return;
        }
        self.push(self.now + 100 * MS, Due::Fault(Fault::Add(site)));
        let gap = gap.expect("a site that can be added was removed");
        self.events.push(WorldEvent::Replaced(site, gap.cut));
        self.states[site] = SiteState::Joining;
        // If an earlier generation was destroyed before any other site learned that it was added,
        // this one has its number.
        self.generations[site] = former + 1;
        self.served.remove(&site);
        let generations = u64::from(self.generations[site]);
        // The clocks of the replacement are not behind those of the replaced site.
        let latest = self.latest[site].later(Duration::from_millis(1)).micros() as i64;
        let skew = latest - EPOCH_MICROS - (self.now / 1000) as i64;
        self.lose(site, site);
        // Remove the workers of the site's former generation. Otherwise, checks whether the site
        // serves would include them.
        for address in self.addresses_of(site) {
            self.workers.remove(&address);
            self.end_links(address);
            self.scheduled.remove(&address);
        }
        for address in self.addresses_of(site) {
            let config = self.configs.get_mut(&address).expect("every address has one");
            config.generation = self.generations[site];
            config.first_transaction = generations << 50;
            let former = self.skew.get_or_insert_with(address, i64::default);
            *former = (*former).max(skew + 1);
            if let Some(links) = &mut self.links {
                links.admissions.forget(address);
                links.copies.forget(address);
            }
            if let Some(storage) = self.storages.get_mut(&address) {
                storage.replace(config, self.random.next());
            }
            self.start(address);
        }
    }

    /// Marks a joined site as up once some of its workers serve; see [`Self::answers`].
    pub(super) fn note_serving(&mut self, site: usize) {
        if self.states[site] != SiteState::Joining {
            return;
        }
        let serves = |address: &Address| {
            self.replica(address).is_some_and(|replica| replica.status().view().serving)
        };
        if self.addresses_of(site).iter().any(serves) {
            self.tally.count("joined sites");
            self.trace.write(self.now, format_args!("site {site} serves"));
            self.states[site] = SiteState::Up;
            self.served.insert(site);
        }
    }

    /// Reports generations of sites that are gone, when a worker that runs `trial` is the first to
    /// learn it.
    pub(super) fn note_gone(&mut self, address: Address) {
        let Some(worker) = self.workers.get(&address) else { return };
        let machine = worker.machine();
        if machine.trial().is_none() {
            return;
        }
        for (site, known) in
            SiteId::all(self.gone_generations.len()).zip(&mut self.gone_generations)
        {
            let generations = machine.members().gaps(site).len();
            if generations > *known {
                *known = generations;
                let (generation, members) =
                    (generations as u32 - 1, machine.members().members().collect());
                self.events.push(WorldEvent::Gone { site, generation, members });
            }
        }
    }
}

//! The sites that take part in a space, according to the list of sites.

use solera_membership::{Members, SiteStatus};
use solera_time::SiteId;

use crate::config::Config;

/// The list of sites, as one site uses it.
#[derive(Debug)]
pub(crate) struct Sites {
    me: SiteId,
    list: Members,
}

impl Sites {
    pub(crate) fn new(config: &Config) -> Sites {
        let Config { address, topology, founders, generation, .. } = config;
        let list = Members::at_start(topology.sites(), *founders, address.site, *generation);
        Sites { me: address.site, list }
    }

    /// Replaces the list. Returns whether it differs.
    pub(crate) fn set(&mut self, list: &Members) -> bool {
        let differs = self.list != *list;
        self.list.clone_from(list);
        differs
    }

    /// Returns the members, this site included if it is one.
    pub(crate) fn members(&self) -> impl Iterator<Item = SiteId> + '_ {
        self.list.members()
    }

    /// Returns the other members.
    pub(crate) fn other_members(&self) -> impl Iterator<Item = SiteId> + '_ {
        self.members().filter(|site| *site != self.me)
    }

    /// Returns the other sites that need all operations: those that are members or join.
    pub(crate) fn others(&self) -> Vec<SiteId> {
        self.list.members_and_joining().filter(|site| *site != self.me).collect()
    }

    /// Returns the other sites that join, with their generations.
    pub(crate) fn joining(&self) -> Vec<(SiteId, u32)> {
        let joining = self.list.which(SiteStatus::Joining).filter(|site| *site != self.me);
        joining.map(|site| (site, self.list.generation(site))).collect()
    }

    /// Returns whether a site is a member.
    pub(crate) fn is_member(&self, site: SiteId) -> bool {
        self.list.is_member(site)
    }

    /// Returns whether a site joins, with this stage.
    pub(crate) fn joins(&self, site: SiteId, stage: u64) -> bool {
        self.list.status(site) == SiteStatus::Joining && self.list.stage(site) == stage
    }

    /// Returns this site's stage if it joins.
    pub(crate) fn own_joining_stage(&self) -> Option<u64> {
        let stage = self.list.stage(self.me);
        self.joins(self.me, stage).then_some(stage)
    }

    /// Returns whether messages of a generation of a site are accepted.
    pub(crate) fn accepts(&self, site: SiteId, generation: u32) -> bool {
        let takes_part = matches!(self.list.status(site), SiteStatus::Member | SiteStatus::Joining);
        takes_part && self.list.generation(site) == generation
    }

    /// Returns the stages of all sites. Lists with the same stages have the same members.
    pub(crate) fn stages(&self) -> Vec<u64> {
        SiteId::all(self.list.sites()).map(|site| self.list.stage(site)).collect()
    }

    /// Returns whether a site is leaving.
    pub(crate) fn are_leaving(&self) -> bool {
        self.list.which(SiteStatus::Leaving).next().is_some()
    }

    /// Returns, for each site, the number of its generations that have ended. No site takes
    /// operations from them any more.
    pub(crate) fn ended(&self) -> impl Iterator<Item = (SiteId, u64)> + '_ {
        SiteId::all(self.list.sites()).map(|site| {
            let has_left = matches!(self.list.status(site), SiteStatus::Leaving | SiteStatus::Gone);
            let never_was = self.list.is_new(site);
            let last = u64::from(has_left && !never_was);
            (site, u64::from(self.list.generation(site)) + last)
        })
    }

    /// Returns the number of the configuration in which the members agree. It grows whenever a site
    /// becomes a member or leaves, and differs for different members. The founding members have
    /// number 0.
    pub(crate) fn configuration(&self) -> u64 {
        // A site enters with each fourth stage, and leaves with the next one.
        self.list.configuration(|stage| 2 * (stage / 4) + u64::from(!stage.is_multiple_of(4)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use solera_machine::{Address, Topology};
    use solera_membership::{Change, Gap};
    use solera_time::Timestamp;

    use super::*;

    const A: SiteId = SiteId(0);
    const C: SiteId = SiteId(2);
    const GAP: Gap = Gap { cut: Timestamp::ZERO, end: Timestamp::ZERO };

    fn with(list: &Members) -> Sites {
        let topology = Arc::new(Topology { partitions: 1, workers: vec![1; list.sites()] });
        let mut sites = Sites::new(&Config::new(Address { site: A, worker: 0 }, topology));
        sites.set(list);
        sites
    }

    /// The lists while a site leaves and joins again.
    fn lists(first: Members) -> [Members; 5] {
        let leaving = first.changed(A, C, Change::Remove).unwrap();
        let gone = leaving.closed(C, GAP);
        let joining = gone.changed(A, C, Change::Add).unwrap();
        let joined = joining.joined(C, Timestamp(3));
        [first, leaving, gone, joining, joined]
    }

    #[test]
    fn configurations_change_when_the_members_do() {
        let lists = lists(Members::new(3));
        let numbers = lists.each_ref().map(|list| with(list).configuration());
        assert_eq!(numbers[0], 0);
        assert!(numbers[1] > 0 && numbers[4] > numbers[1], "{numbers:?}");
        assert_eq!([numbers[2], numbers[3]], [numbers[1]; 2]);
        let other = lists[0].changed(A, SiteId(1), Change::Remove).unwrap();
        assert_ne!(with(&other).configuration(), numbers[1]);
    }

    /// The data of a site that was listed later begins with a list of all sites.
    #[test]
    fn a_site_that_was_listed_later_has_the_numbers_of_the_others() {
        let former = Members::founded(2, 3).changed(A, C, Change::Add).unwrap();
        let mut own = Members::at_start(3, 3, C, 1);
        own.merge(&former);
        assert_eq!(with(&own).configuration(), with(&former).configuration());
        assert_eq!(with(&Members::founded(2, 3)).configuration(), 0);
        assert_eq!(with(&Members::founded(2, 3)).ended().collect::<Vec<_>>()[2], (C, 0));
    }

    #[test]
    fn generations_end_when_their_sites_leave() {
        let [first, leaving, gone, joining, joined] = lists(Members::new(3));
        let ended = |list: &Members| with(list).ended().collect::<Vec<_>>()[2].1;
        assert_eq!([&first, &leaving, &gone, &joining, &joined].map(ended), [0, 1, 1, 1, 1]);
        assert_eq!(ended(&joining.changed(A, C, Change::Remove).unwrap()), 2);
        let accepts = |list: &Members| [0, 1].map(|it| with(list).accepts(C, it));
        assert_eq!(accepts(&first), [true, false]);
        assert_eq!(accepts(&leaving), [false, false]);
        assert_eq!(accepts(&joining), [false, true]);
    }
}

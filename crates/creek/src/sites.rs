//! The sites that take part in a space, as the list of sites has them.

use solera_membership::{Members, SiteStatus};
use solera_time::SiteId;

use crate::config::Config;
use crate::ids::StreamId;

/// What a machine derives from the list of sites.
#[derive(Debug)]
pub(crate) struct Sites {
    me: SiteId,
    founders: usize,
    list: Members,
}

impl Sites {
    pub(crate) fn new(config: &Config) -> Sites {
        let Config { address, topology, founders, generation, .. } = config;
        let list = Members::at_start(topology.sites(), *founders, address.site, *generation);
        Sites { me: address.site, founders: *founders, list }
    }

    /// Replaces the list. Returns whether it differs.
    pub(crate) fn set(&mut self, list: &Members) -> bool {
        let differs = self.list != *list;
        self.list.clone_from(list);
        differs
    }

    /// Returns the other members.
    pub(crate) fn members(&self) -> impl Iterator<Item = SiteId> + '_ {
        self.list.members().filter(|site| *site != self.me)
    }

    /// Returns the number of members.
    pub(crate) fn count(&self) -> usize {
        self.list.members().count()
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
    pub(crate) fn hears(&self, site: SiteId, generation: u32) -> bool {
        let takes_part = matches!(self.list.status(site), SiteStatus::Member | SiteStatus::Joining);
        takes_part && self.list.generation(site) == generation
    }

    /// Returns the stages of all sites. Lists with the same stages have the same members.
    pub(crate) fn stages(&self) -> Vec<u64> {
        SiteId::all(self.list.sites()).map(|site| self.list.stage(site)).collect()
    }

    /// Returns whether a member may have left, now or in an earlier generation. A site that was
    /// listed later and never was a member looks like one that has left.
    pub(crate) fn have_left(&self) -> bool {
        let stays = |site| self.list.generation(site) == 0 && self.list.is_member(site);
        SiteId::all(self.list.sites()).any(|site| !stays(site))
    }

    /// Returns whether a site is leaving.
    pub(crate) fn are_leaving(&self) -> bool {
        self.list.which(SiteStatus::Leaving).next().is_some()
    }

    /// Returns whether a stream belongs to a site that has left, or to an earlier generation of a
    /// site. No site takes operations from its origin any more.
    pub(crate) fn is_closed(&self, stream: StreamId) -> bool {
        if stream.site.index() >= self.list.sites() {
            return false;
        }
        let has_left =
            matches!(self.list.status(stream.site), SiteStatus::Leaving | SiteStatus::Gone);
        let generation = u64::from(self.list.generation(stream.site));
        stream.generation() < generation || has_left && stream.generation() == generation
    }

    /// Returns the number of the configuration in which the members agree. It grows whenever a site
    /// becomes a member or leaves, and differs for different members. The founding members have
    /// number 0.
    pub(crate) fn configuration(&self) -> u64 {
        // A site enters with each fourth stage, and leaves with the next one.
        let of = |list: &Members, site| {
            let stage = list.stage(site);
            2 * (stage / 4) + u64::from(!stage.is_multiple_of(4))
        };
        let founding = Members::founded(self.founders, self.list.sites());
        let all = || SiteId::all(self.list.sites());
        let now: u64 = all().map(|site| of(&self.list, site)).sum();
        let first: u64 = all().map(|site| of(&founding, site)).sum();
        let who: u64 = self.list.members().map(|site| 1 << site.0).sum();
        match now - first {
            0 => 0,
            changes => (changes << 8) | who,
        }
    }

    /// Returns the members, this site included if it is one.
    pub(crate) fn all_members(&self) -> impl Iterator<Item = SiteId> + '_ {
        self.list.members()
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

    fn sites(generation: u32) -> Sites {
        let topology = Arc::new(Topology { partitions: 1, workers: vec![1, 1, 1] });
        let address = Address { site: A, worker: 0 };
        Sites::new(&Config { generation, ..Config::new(address, topology) })
    }

    #[test]
    fn configurations_change_when_the_members_do() {
        let mut sites = sites(0);
        assert_eq!((sites.configuration(), sites.have_left()), (0, false));
        let first = Members::new(3);
        let leaving = first.changed(A, C, Change::Remove).unwrap();
        let other = first.changed(A, SiteId(1), Change::Remove).unwrap();
        let gap = Gap { cut: Timestamp(1), end: Timestamp(2) };
        let gone = leaving.closed(C, gap);
        let joining = gone.changed(A, C, Change::Add).unwrap();
        let joined = joining.joined(C, Timestamp(3));
        let mut numbers = vec![0];
        for list in [&leaving, &gone, &joining, &joined] {
            assert!(sites.set(list) && !sites.set(list));
            assert!(sites.have_left());
            numbers.push(sites.configuration());
        }
        assert!(numbers[1] > 0 && numbers[4] > numbers[1], "{numbers:?}");
        assert_eq!([numbers[2], numbers[3]], [numbers[1]; 2]);
        sites.set(&other);
        assert_ne!(sites.configuration(), numbers[1]);
    }

    #[test]
    fn streams_of_former_generations_are_closed() {
        let mut sites = sites(0);
        let [old, new] = [0, 1].map(|it| StreamId { site: C, run: before_runs(it) + 1 });
        let first = Members::new(3);
        let leaving = first.changed(A, C, Change::Remove).unwrap();
        let gap = Gap { cut: Timestamp(1), end: Timestamp(2) };
        let joining = leaving.closed(C, gap).changed(A, C, Change::Add).unwrap();
        let mut closed = |list: &Members| {
            sites.set(list);
            [sites.is_closed(old), sites.is_closed(new), sites.hears(C, 0), sites.hears(C, 1)]
        };
        assert_eq!(closed(&first), [false, false, true, false]);
        assert_eq!(closed(&leaving), [true, false, false, false]);
        assert_eq!(closed(&joining), [true, false, false, true]);
        let leaving = joining.changed(A, C, Change::Remove).unwrap();
        assert_eq!(closed(&leaving), [true, true, false, false]);
    }

    use crate::ids::before_runs;
}

//! Sites that leave and join.

use solera_machine::Now;
use solera_membership::{Members, Participant, SiteStatus};
use solera_time::SiteId;

use super::Reservations;
use crate::agreed::Agreed;
use crate::numbers::Term;

/// Returns whether a site of the list leaves or has left.
fn is_leaving(members: &Members, site: SiteId) -> bool {
    matches!(members.status(site), SiteStatus::Leaving | SiteStatus::Gone)
}

impl Reservations {
    /// Returns whether messages of a site's generation count.
    pub(super) fn listens_to(&self, site: SiteId, generation: u32) -> bool {
        site.index() < self.members.sites()
            && !is_leaving(&self.members, site)
            && self.members.generation(site) == generation
    }

    /// Returns the generation of a site that leaves or has left: the present one, or the last one
    /// of a site that joins again.
    fn leaving_generation(&self, site: SiteId) -> Option<u32> {
        let generation = self.members.generation(site);
        match self.members.status(site) {
            SiteStatus::Leaving | SiteStatus::Gone => Some(generation),
            SiteStatus::Joining => generation.checked_sub(1),
            SiteStatus::Member => None,
        }
    }

    /// Returns whether the record has the removal of all earlier generations of a site that joins.
    /// Until then, nobody sends it a state: it would take over what its last generation had.
    pub(super) fn has_removed_former(&self, site: SiteId, agreed: &Agreed) -> bool {
        let former = self.members.generation(site).checked_sub(1);
        former.is_none_or(|former| {
            agreed.terms.get(site.index()) == Some(&Term(0)) || agreed.is_removed(site, former)
        })
    }

    /// Passes the generations of leaving sites to the partitions.
    pub(crate) fn note_members(&mut self) {
        let sites = SiteId::all(self.members.sites());
        let leaving: Vec<(SiteId, u32)> =
            sites.filter_map(|site| Some((site, self.leaving_generation(site)?))).collect();
        for partition in self.partitions.values_mut() {
            partition.set_leaving(&leaving);
            partition.set_members(&self.members);
        }
    }
}

impl Participant for Reservations {
    fn set_members(&mut self, _: Now, members: &Members) {
        self.members = members.clone();
        self.note_members();
    }

    /// Returns whether no site that leaves or has left is a holder or a reader.
    fn has_completed_removals(&self) -> bool {
        let mut sites = SiteId::all(self.members.sites());
        sites.all(|site| {
            let generation = self.members.generation(site);
            let is_removed =
                || self.partitions.values().all(|it| it.agreed.is_removed(site, generation));
            // A site that was listed later has no part in anything before it joins.
            !is_leaving(&self.members, site) || self.members.is_new(site) || is_removed()
        })
    }

    fn is_filled(&self) -> bool {
        self.partitions.values().all(|partition| partition.filling.is_filled())
    }
}

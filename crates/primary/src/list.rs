//! Lists of sites, and the home of a partition.

use serde::{Deserialize, Serialize};
use solera_machine::PartitionId;
use solera_membership::Members;
use solera_time::{MAX_SITES, SiteId};

/// Stage of a site that was listed later than the others and has never taken part.
const NEW: u32 = 2;

/// The stage of each site ([`Members::stage`]). Equal lists have the same members in the same
/// generations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct List(Vec<u32>);

impl List {
    /// Returns the list of `members`. Omits sites at the end that never took part, because other
    /// nodes may not list them.
    pub fn of(members: &Members) -> List {
        let stage = |site| u32::try_from(members.stage(site)).unwrap_or(u32::MAX);
        let mut stages: Vec<u32> = SiteId::all(members.sites()).map(stage).collect();
        while stages.last() == Some(&NEW) {
            stages.pop();
        }
        List(stages)
    }

    /// Returns the number of changes that led to this list. A later list has more.
    pub(crate) fn changes(&self) -> u64 {
        self.0.iter().map(|stage| u64::from(*stage)).sum()
    }

    /// Returns whether some cluster can have this list.
    pub(crate) fn is_well_formed(&self) -> bool {
        self.0.len() <= MAX_SITES
    }
}

/// Returns the home of a partition: the member with the greatest hash. If a member leaves, only its
/// partitions move.
pub(crate) fn home_of(members: &Members, partition: PartitionId) -> Option<SiteId> {
    members.members().max_by_key(|site| (mix(partition, *site), site.0))
}

fn mix(partition: PartitionId, site: SiteId) -> u64 {
    let mut bits =
        (u64::from(partition.0) << 8 | u64::from(site.0)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    // The finisher of splitmix64.
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use solera_membership::Change;

    use super::*;

    #[test]
    fn homes_are_spread_and_only_those_of_a_removed_site_move() {
        let members = Members::new(3);
        let homes: Vec<_> =
            (0..300).map(|id| home_of(&members, PartitionId(id)).unwrap()).collect();
        for site in SiteId::all(3) {
            let count = homes.iter().filter(|home| **home == site).count();
            assert!((70..130).contains(&count), "{site}: {count}");
        }
        let fewer = members.changed(SiteId(0), SiteId(2), Change::Remove).unwrap();
        for (id, home) in homes.iter().enumerate().filter(|(_, home)| **home != SiteId(2)) {
            assert_eq!(home_of(&fewer, PartitionId(id as u16)), Some(*home));
        }
    }

    #[test]
    fn a_list_does_not_depend_on_sites_that_never_took_part() {
        assert_eq!(List::of(&Members::founded(2, 4)), List::of(&Members::new(2)));
        assert_ne!(List::of(&Members::new(3)), List::of(&Members::new(2)));
    }
}

//! The groups that certify strong transactions, and how their configurations and runs are numbered.

use solera_certification::GroupId;
use solera_machine::PartitionId;
use solera_membership::Members;
use solera_time::SiteId;

/// The group that certifies everything in REDBLUE.
pub(crate) const CENTRAL: GroupId = GroupId(0);

/// The group of a partition's siblings.
pub(crate) fn group_of(partition: PartitionId) -> GroupId {
    GroupId(partition.0)
}

/// Returns a number below that of every run in a site's life, and above those of its lives before.
/// Runs number transactions, which so have different names in each life.
pub(crate) fn first_run(life: u32) -> u64 {
    u64::from(life) << 16
}

/// A number that grows with every change of the members, and differs for different members. The
/// founding members have 0, of which the first term is: it needs no other to be there.
pub(crate) fn configuration(members: &Members, founding: &Members) -> u64 {
    let stages = |members: &Members| -> u64 {
        SiteId::all(members.sites()).map(|site| members.stage(site)).sum()
    };
    let who: u64 = members.members().map(|site| 1 << site.0).sum();
    match stages(members) - stages(founding) {
        0 => 0,
        changes => (changes << 8) | who,
    }
}

//! Groups that certify strong transactions, and numbering of their configurations and runs.

use solera_certification::GroupId;
use solera_machine::PartitionId;
use solera_membership::Members;

/// The group that certifies all strong transactions in REDBLUE.
pub(crate) const CENTRAL: GroupId = GroupId(0);

/// Returns the group of a partition's siblings.
pub(crate) fn group_of(partition: PartitionId) -> GroupId {
    GroupId(partition.0)
}

/// Returns a number below that of every run in this generation of a site, and above those of its
/// earlier generations. Transactions are identified by the number of their run, so identifiers
/// differ between generations.
pub(crate) fn first_run(generation: u32) -> u64 {
    u64::from(generation) << 16
}

/// Returns a number that grows with every change of the list, and differs for different members.
/// The founding members have number 0. The first term has this number, too, so it needs no term
/// before it.
pub(crate) fn configuration(members: &Members) -> u64 {
    members.configuration(|stage| stage)
}

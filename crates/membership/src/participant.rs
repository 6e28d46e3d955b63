//! Interface of protocols that take part in membership changes.

use solera_machine::Now;

use crate::members::Members;

/// A protocol whose data depends on which sites are members.
///
/// The machine of a worker passes every change of the list to the worker's protocols, in the step
/// in which it learns of the change, after it has recorded the change. A change is complete when
/// every protocol of every worker has completed it. A leaving site is removed only when
/// [`has_completed_removals`](Self::has_completed_removals) is true at all members. A joining site
/// becomes a member when [`is_filled`](Self::is_filled) is true at all of its own workers.
///
/// Each protocol decides what it keeps of a leaving site's data, and how a joining site gets its
/// data.
pub trait Participant {
    /// Takes the list after a change. The first call may pass the list that the protocol already
    /// has.
    fn set_members(&mut self, now: Now, members: &Members);

    /// Returns whether this worker has done everything that the list requires of it when a site
    /// leaves.
    fn has_completed_removals(&self) -> bool;

    /// Returns whether this worker has the data that it needs to serve. At a joining site, it has
    /// to fetch the data first.
    fn is_filled(&self) -> bool;
}

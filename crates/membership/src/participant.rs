//! A protocol's part in changes of the list of sites.

use solera_machine::Now;

use crate::members::Members;

/// A protocol whose data depends on which sites take part.
///
/// The machine of a worker hands every change of the list to the worker's protocols, in the step in
/// which it learned of the change, and after the record of it. A change ends when it has ended for
/// every protocol of every worker: a leaving site is gone only when
/// [`has_settled`](Self::has_settled) is true at all members, and a joining site becomes a member
/// when [`is_filled`](Self::is_filled) is true at all of its own workers.
///
/// What a protocol keeps of a site that leaves, and how a site that joins gets its data, is up to
/// the protocol.
pub trait Participant {
    /// Takes the list after a change. The first call may bring the list that the protocol has
    /// already.
    fn set_members(&mut self, now: Now, members: &Members);

    /// Returns whether this worker has done what the list asks of it while a site leaves.
    fn has_settled(&self) -> bool;

    /// Returns whether this worker has the data that it needs to serve. At a joining site it gets
    /// the data first.
    fn is_filled(&self) -> bool;
}

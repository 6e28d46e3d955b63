//! Interface that the broadcast requires of its owner.

use crate::ids::CastId;

/// The test predicate q of the casts, and access to their bodies (Creek §3.3, `checkDep` of Alg. 1
/// l. 10–14). The owner of a [`Member`](crate::Member) has the bodies and implements it.
///
/// A body that can be handed over is of type `B`.
pub trait Predicate<B> {
    /// Returns whether the predicate of a cast holds at this member: the member has the body, and
    /// everything else that delivery requires.
    ///
    /// Once the predicate is true, it stays true, also after a restart. The records that
    /// make it true must therefore be emitted before the call that observes it. It becomes true at
    /// every member in the end if some member that stays has accepted the id.
    ///
    /// A member that has the body of a cast has the bodies of all earlier casts of its run.
    fn holds(&self, id: CastId) -> bool;

    /// Returns everything that another member may lack for these predicates to hold: the bodies of
    /// the casts and, of what they depend on, the bodies of whatever is not committed here. Returns
    /// each body once, and nothing for a cast whose body is not here: others have accepted it.
    fn bodies(&self, ids: &[CastId]) -> Vec<B>;

    /// Returns the approximate size of a body in bytes. Messages are cut accordingly.
    fn bytes(&self, body: &B) -> usize;
}

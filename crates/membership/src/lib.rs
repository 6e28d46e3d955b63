//! Which sites take part.
//!
//! UniStore's sites are a fixed set. Here an operator may declare one dead for good, and bring it,
//! or what replaces it, back with no memory of its own. `docs/decisions/0011-membership.md`
//! explains why that is safe; in short: every member stops to listen to a site that leaves, the
//! members give one another what they have of its history, and once all have the same, all draw the
//! same conclusion from it.
//!
//! [`Members`] is what a worker knows of the sites. Lists are merged; the later standing of a site
//! wins. [`Participant`] is what each protocol of a worker contributes to a change.

mod change;
mod members;
mod participant;
mod standing;

pub use change::{Change, MemberError};
pub use members::{Gap, Members};
pub use participant::Participant;
pub use standing::Standing;

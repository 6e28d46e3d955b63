//! Membership: the list of sites that take part in the cluster.
//!
//! UniStore's set of sites is fixed. Here, an operator may declare a site dead for good, and may
//! later let it, or its replacement, join again without any data of its own.
//! `docs/decisions/0011-membership.md` explains why that is safe. In short: every member stops
//! accepting messages from a site that leaves. The members then send each other the parts of its
//! history that they have. Once all members have the same history, all of them derive the same cut
//! from it.
//!
//! [`Members`] is a worker's view of the sites' statuses. Views are merged; for each site, the
//! later status wins. Each protocol of a worker takes part in a change through [`Participant`].

mod change;
mod members;
mod participant;
mod status;

pub use change::{Change, MemberError};
pub use members::{Gap, Members};
pub use participant::Participant;
pub use status::SiteStatus;

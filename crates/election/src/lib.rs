//! Election of a group's leader: status messages, canvasses and ballots. It does not depend on the
//! subject of the group's votes.
//!
//! A member that does not hear from its leader first asks whether the other members do (canvass),
//! so that a member that was cut off does not disturb a working group. Then it begins a term: a
//! quorum leaves all lower terms and hands over its state.
//!
//! If only the link between a member and the leader is broken, the other members still hear from
//! the leader, and the member's site could commit nothing. A member that hears from both of them
//! therefore takes over after a while.
//!
//! The protocol that uses this crate sends the messages and records the promises. `certification`
//! and `consensus` do.
//!
//! | module | subject |
//! |---|---|
//! | `ballot` | terms |
//! | `electors` | the members, and the size of a quorum |
//! | `election` | a member's knowledge of the terms; canvasses |
//! | `candidacy` | an attempt to lead |
//!
//! ```
//! use std::time::Duration;
//!
//! use solera_election::{Ballot, Candidacy, Election, Electorate, Electors};
//! use solera_time::{Monotonic, SiteId};
//!
//! let electors = Electors::new(0, SiteId::all(3));
//! let electorate = Electorate {
//!     me: SiteId(1),
//!     electors: &electors,
//!     now: Monotonic(2_000_000_000),
//!     patience: Duration::from_secs(1),
//!     retry: Duration::from_millis(500),
//! };
//! let first = Ballot { configuration: 0, round: 0, leader: SiteId(0) };
//! let election = Election::new(first, Monotonic(0));
//! assert!(election.misses_leader(&electorate));
//! let ballot = election.next_ballot(&electorate);
//! let mut candidacy: Candidacy<()> = Candidacy::canvassing(ballot, electorate.now);
//! assert!(!candidacy.on_support(&electorate, SiteId(1), ballot));
//! assert!(candidacy.on_support(&electorate, SiteId(2), ballot));
//! ```

mod ballot;
mod candidacy;
mod election;
mod electors;

pub use ballot::Ballot;
pub use candidacy::{Candidacy, Next, Request};
pub use election::{Canvassed, CurrentRole, Election};
pub use electors::{Electorate, Electors};

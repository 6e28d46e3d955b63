//! The certification service of UniStore (§6.3), as state machines without I/O. It decides whether
//! a strong transaction commits, assigns its strong timestamp, and delivers it to its partitions in
//! timestamp order.
//!
//! The service combines two-phase commit across the groups of a transaction with agreement among
//! the members of each group (Chockler and Gotsman, *Multi-shot distributed transaction commit*,
//! DISC 2018). A *group* is the siblings of one partition. Its leader votes and proposes a strong
//! timestamp. The followers store the vote and send their acknowledgements directly to the
//! coordinator, which knows the outcome when it has a quorum of every group: one round trip to the
//! leader and its nearest quorum. No process is central, and any leader can finish the transactions
//! of a failed coordinator.
//!
//! `docs/papers/unistore.md` lists the departures from the paper, with reasons. The main one: an
//! idle group needs no agreement to report that nothing happened (HEARTBEAT_STRONG), because its
//! members store a *ceiling* ahead of time, and no later leader proposes a timestamp below it.
//!
//! | module | subject |
//! |---|---|
//! | `service` | the machine of one worker: dispatch, time |
//! | `coordinator` | CERTIFY |
//! | `member` | a member of a group, in one of three roles; dispatch |
//! | `kept` | a member's state, whatever its role |
//! | `following` | a follower: storing votes |
//! | `leading` | a leader: votes, decisions, delivery |
//! | `early_delivery` | deliveries by a follower before its leader |
//! | `succession` | from one leader to the next: elections, which the crate `solera-election` decides; the initial state of a term |
//! | `conflicts` | the vote |
//! | `reservations`, `claim` | priority for retries of aborted transactions |
//! | `payload`, `entry`, `ids`, `message` | data types |
//! | `rare` | rare paths, for simulations to count |
//! | `outcomes` | recent outcomes, for clients that missed the reply |
//! | `config`, `step` | members and timing; the context of one input |

mod claim;
mod config;
mod conflicts;
mod coordinator;
mod early_delivery;
mod entry;
mod following;
mod ids;
mod kept;
mod leading;
mod member;
mod message;
mod outcomes;
mod payload;
mod rare;
mod reservations;
mod service;
mod step;
mod succession;

pub use claim::Claim;
pub use config::{Config, Rule, Timing};
pub use entry::{Entry, Phase, State};
pub use ids::{Ballot, GroupId, NoTransactionId, Serial, TransactionId};
pub use message::{Body, Message, Output, Record};
pub use payload::{AbortCause, Access, GroupPayload, Kind, Outcome, Vote};
pub use rare::ALL as RARE_PATHS;
pub use service::{MAX_WORKERS, Service};
pub use step::Counts;

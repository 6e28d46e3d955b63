//! The certification service of UniStore (§6.3), as machines without I/O: decides whether a strong
//! transaction commits, gives it its strong timestamp, and delivers it to its partitions in that
//! order.
//!
//! It joins two-phase commit across the groups that a transaction takes part in and agreement among
//! each group's members (Chockler and Gotsman, *Multi-shot distributed transaction commit*, DISC
//! 2018). A *group* is the siblings of one partition. Its leader votes and proposes a strong
//! timestamp; the followers keep the vote and acknowledge straight to the coordinator, who knows
//! the outcome when it has a quorum of every group: one round trip to the leader and its nearest
//! quorum. No process is central, and any leader can finish what a coordinator has left.
//!
//! What differs from the paper, and why, is told in `docs/papers/unistore.md`. Briefly: an idle
//! group needs no agreement to say that nothing happened (HEARTBEAT_STRONG), because its members
//! keep a *ceiling* ahead of time, below which no later leader proposes anything.
//!
//! | module | subject |
//! |---|---|
//! | `service` | the machine of one worker: dispatch, time |
//! | `coordinator` | CERTIFY |
//! | `member` | a member of a group, in one of three roles; dispatch |
//! | `kept` | what a member keeps in every role |
//! | `following` | a follower: keeping votes |
//! | `leading` | a leader: votes, decisions, delivery |
//! | `ahead` | what a follower delivers before its leader does |
//! | `election` | electing a leader: signs of life, canvasses, ballots, whatever the group votes on |
//! | `succession` | from one leader to the next: what a term begins with |
//! | `conflicts` | the vote |
//! | `reservations`, `claim` | who was aborted goes first |
//! | `share`, `entry`, `ids`, `message` | the words |
//! | `rare` | rare paths, for simulations to count |
//! | `outcomes` | what transactions came to, for who asks later |
//! | `config`, `step` | who takes part; what is at hand for one input |

mod ahead;
mod claim;
mod config;
mod conflicts;
mod coordinator;
mod election;
mod entry;
mod following;
mod ids;
mod kept;
mod leading;
mod member;
mod message;
mod outcomes;
mod rare;
mod reservations;
mod service;
mod share;
mod step;
mod succession;

pub use claim::Claim;
pub use config::{Config, Rule, Timing};
pub use entry::{Entry, Phase, State};
pub use ids::{Ballot, GroupId, NoTransactionId, Serial, TransactionId};
pub use message::{Body, Message, Output, Record};
pub use rare::ALL as RARE_PATHS;
pub use service::{MAX_WORKERS, Service};
pub use share::{Access, Kind, Obstacle, Outcome, Share, Vote};
pub use step::Counts;

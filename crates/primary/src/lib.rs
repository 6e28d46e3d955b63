//! `primary`: a worked example of a protocol. Each key has a home site, which orders its updates.
//! Every site has a copy, from which it answers reads.
//!
//! A client's update goes from its own site to the home of the key's partition. The home appends it
//! to the partition's history, answers that it is *accepted*, and sends the history to all sites.
//! When the client's own site has *applied* the update, it sends the client a second answer, the
//! last one. Replicas apply a prefix of the history, so all clients read the same sequence of
//! values.
//!
//! The home is a function of the list of sites ([`Members`](solera_membership::Members)) alone. All
//! messages carry the list of their sender, and a replica drops those with another list. When the
//! home moves, the new home first asks every member and joining site how much of the history it
//! has, requests the longest history, and begins a new [`Epoch`]. Updates that only lost sites had
//! are gone, and a session with a [`Position`] among them receives an error.
//!
//! | module | subject |
//! |---|---|
//! | `command` | clients' commands and their replies |
//! | `position` | positions in histories, and the positions that a session has seen |
//! | `list` | lists of sites, and the home of a partition |
//! | `history` | one partition's history, without any communication; its child `store`: values and log, and the bytes that they take |
//! | `config` | a worker's configuration |
//! | `machine` | the machine: dispatch, time, membership |
//! | `machine::requests` | clients' updates that wait |
//! | `machine::home` | a home: ordering, replication, takeover |
//! | `machine::following` | other replicas: applying, reporting, being filled |
//! | `machine::checkpoint` | parts of a checkpoint |
//! | `message`, `record` | messages, and journal records |
//! | `protocol` | the number and versions |
//! | `recovery` | the machine rebuilt from a checkpoint and records |

mod command;
mod config;
mod history;
mod list;
mod machine;
mod message;
mod position;
mod protocol;
mod rare;
mod record;
mod recovery;

pub use command::{Command, Done, Failure, MAX_VALUE, Response, Update};
pub use config::{Config, Rule, Timing};
pub use history::{Entry, Epoch, Seen};
pub use list::List;
pub use machine::Primary;
pub use machine::checkpoint::Checkpoint;
pub use message::{Answer, Body, End, Event, Input, Message, Output, Piece, Request};
pub use position::{Past, Position};
pub use protocol::PROTOCOL;
pub use rare::ALL as RARE_PATHS;
pub use record::{Part, Record};
pub use recovery::Recovery;

//! Exercises the parts of the protocol interface that no other protocol uses yet: jobs, questions
//! to other protocols of the worker, guards of transactions, several lanes, and removals of sites
//! that wait for a protocol. It runs in simulations only, not in servers.
//!
//! | module | subject |
//! |---|---|
//! | `command` | commands and their replies |
//! | `guard` | allocations, of which transactions claim units |
//! | `machine` | the machine |
//! | `removals` | jobs while a site leaves |
//! | `record`, `recovery` | the guard's records, and recovery from them |
//! | `message` | messages between workers, in two lanes |
//! | `work` | jobs |

mod command;
mod guard;
mod machine;
mod message;
mod record;
mod recovery;
mod removals;
mod work;

pub use command::{Answer, Command, Question, Response};
pub use guard::{Allocations, Claim, SetAside};
pub use machine::{ALL as RARE_PATHS, Checkpoint, Config, Trial};
pub use message::{Event, Input, Message, Output, PROTOCOL};
pub use record::{Part, Record};
pub use recovery::Recovery;
pub use work::{Chain, chain};

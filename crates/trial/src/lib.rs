//! Exercises what of the protocol interface no other protocol uses yet: jobs, questions to other protocols of the worker, and
//! several lanes. For simulations; servers do not run it.
//!
//! | module | subject |
//! |---|---|
//! | `command` | commands and their replies |
//! | `machine` | the machine |
//! | `message` | messages between workers, in two lanes |
//! | `work` | jobs |

mod command;
mod machine;
mod message;
mod work;

pub use command::{Answer, Command, Question, Response};
pub use machine::{ALL as RARE_PATHS, Trial};
pub use message::{Event, Input, Message, Output, PROTOCOL};

/// Parts of checkpoints: there are none.
pub type Part = std::convert::Infallible;
pub use work::{Chain, chain};

//! Instructions and system calls per request: `solera costs`.
//!
//! | module | subject |
//! |---|---|
//! | `kind` | the requests that are counted, as bytes |
//! | `session` | one worker and one session that sends them |
//! | `count` | the same under callgrind and under strace |
//! | `server` | whole servers, and many clients that send transactions |
//! | `tool` | this program under a tool, and what that says |
//! | `table` | the counts as a table, and the comparison with an earlier one |

mod count;
mod kind;
mod server;
mod session;
mod table;
mod tool;

pub use count::count;
pub use kind::Kind;
pub(crate) use kind::Load;
pub(crate) use server::{processor_time, server_instructions, server_time};
pub use session::{in_memory, listen};
pub use table::{Counted, Table, TableError};
pub use tool::CountError;

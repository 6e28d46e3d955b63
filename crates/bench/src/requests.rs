//! Instructions and system calls per request: `solera costs`.
//!
//! | module | subject |
//! |---|---|
//! | `kind` | counted requests, as bytes |
//! | `session` | one worker, and one session that sends requests |
//! | `count` | counts under callgrind and under strace |
//! | `server` | whole servers, and many clients that send transactions |
//! | `tool` | runs this program under a tool, and parses its output |
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

//! The supported commands: their names, arguments, keys, flags and access categories, and the
//! errors for commands that do not exist.
//!
//! Configurations use commands in rules of users and in conflicts of spaces; sessions execute them.

mod access;
mod command;
mod counted;
mod missing;
mod similar;
mod syntax;
mod table;
mod transactions;
mod unknown;

pub use access::{CATEGORIES, Unit};
pub use command::{Command, CommandId};
pub use counted::counted;
pub use missing::is_missing;
pub use similar::similar;
pub use syntax::{Argument, ArgumentKind};
pub use table::{COMMANDS, lookup};
pub use transactions::{InMulti, InTransaction};
pub use unknown::{unknown_command, unknown_subcommand};

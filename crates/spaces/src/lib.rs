//! Solera's spaces as a database of mixed transactions, whatever carries commands to a cluster.
//!
//! A [`Session`] is a connection of `solera-mixt`. It says what it wants as [`Command`]s and is
//! answered with [`Reply`]s, through a [`Port`]: crate `solera` has one over RESP, for clients, and
//! crate `solera-modules` one to the sessions of its own process. One transaction may use several
//! spaces, so that strong and causal writes take effect together. Objects are kept as Redis types
//! that other clients read and write, too; `docs/guide/modules.md` tells which.
//!
//! What is read in a space of level `por` is certified only where the configuration declares that
//! it conflicts with what others write: a transaction there is not serializable by itself. Stores
//! declared `linearizable` are never bound to such spaces; stores declared `por` should name in
//! `conflicts` whatever must not happen side by side.
//!
//! The elements of a list or log are ordered by the clocks of the processes that appended them.
//! Witnesses and records of transactions are kept in the space that they belong to, in keys that
//! begin with [`RESERVED`] after the space's prefix; handles must not lead there.

mod digest;
pub mod failure;
mod layout;
mod objects;
mod port;
mod random;
mod session;
mod stamp;
mod system;

pub use solera_data::RESERVED;

pub use self::digest::digest;
pub use self::layout::{Layout, Space, Unfit};
pub use self::objects::commands;
pub use self::port::{Answer, Broken, Command, Port, Reply};
pub use self::session::Session;
pub use self::system::System;

/// Error code of a site that does not know the module of a remote group; SOLERA.PHASE LEARN sends
/// the module.
pub const UNKNOWN_MODULE: &str = "UNKNOWNMODULE";

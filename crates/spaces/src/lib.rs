//! Solera's spaces as a database of mixed transactions, independent of the transport.
//!
//! A [`SpacesSession`] is a connection of `solera-mixt`. It sends [`Command`]s and receives
//! [`Reply`]s through a [`Port`]. Crate `solera` implements a port over RESP, for clients, and
//! crate `solera-modules` one for the sessions of its own process. One transaction may use several
//! spaces, so that strong and causal writes take effect together. Spaces of level `pcpsi` have
//! transactions of their own, which span no other spaces. Objects are stored as Redis types
//! that other clients read and write too; `docs/guide/modules.md` lists them.
//!
//! In a space of level `por`, reads are certified only where the configuration declares that they
//! conflict with writes of others, so a transaction there is not serializable by itself. Stores
//! declared `linearizable` are never bound to such spaces. Stores declared `por` should name in
//! `conflicts` whatever must not happen concurrently.
//!
//! The elements of a list or log are ordered by the clocks of the processes that appended them.
//! Witnesses and records of transactions are stored in the space that they belong to, under keys
//! that begin with [`RESERVED`] after the space's prefix. Handles must not lead to such keys.

mod digest;
pub mod failure;
mod layout;
mod objects;
mod port;
mod random;
mod session;
mod system;

pub use solera_data::RESERVED;

pub use self::digest::digest;
pub use self::layout::{Layout, Space, Unfit, spans};
pub use self::objects::commands;
pub use self::port::{Answer, Broken, Command, Kind, Port, Reply};
pub use self::session::SpacesSession;
pub use self::system::System;

/// Error code of a site that does not know the module of a remote group. SOLERA.PHASE LEARN sends
/// it the module.
pub const UNKNOWN_MODULE: &str = "UNKNOWNMODULE";

//! TLS for clients of servers: which servers they trust, and clear reasons when a server is not
//! trusted.
//!
//! [`Files`] names the certificates and keys, [`Tls`] connects with them, and [`Refused`] is the
//! reason of a failed connection. The Rust client uses this crate, and so do the database stores of
//! mixed transactions, so that the same settings have the same effect everywhere.

mod lenient;
mod refused;
mod tls;

pub use self::refused::Refused;
pub use self::tls::{Files, Tls, TlsError};

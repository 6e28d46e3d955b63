//! TLS as clients of servers speak it: whom they trust, and in plain words why a server is not
//! trusted.
//!
//! [`Files`] names what is needed, [`Tls`] connects with it, and [`Refused`] tells why no
//! connection came about. The Rust client uses it, and so do the databases of others that are
//! stores of mixed transactions: what one of them is told by its settings, all are.

mod lenient;
mod refused;
mod tls;

pub use self::refused::Refused;
pub use self::tls::{Files, Tls, TlsError};

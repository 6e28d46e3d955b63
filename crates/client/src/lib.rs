//! The Rust client of Solera.
//!
//! A [`Client`] is one session. Its operations see one another and everything that it has seen
//! before, even after it has moved to another site with a [`Token`]. It connects to a site by
//! address ([`Client::connect`]) or through an [`Endpoint`] ([`Client::connect_to`]) with a host
//! name, TLS and a user. Crate `solera-embedded` runs a cluster in the caller's process and returns
//! the same clients.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! let mut client = solera::Client::connect_to(&"eu.example.com:7101".parse()?).await?;
//! client.set("greeting", "hello").await?;
//! let token = client.token().await?;
//!
//! let mut elsewhere = solera::Client::connect_to(&"us.example.com:7101".parse()?).await?;
//! elsewhere.attach(&token).await?;
//! assert_eq!(elsewhere.get("greeting").await?, Some("hello".into()));
//! # Ok(())
//! # })
//! # }
//! ```

mod client;
mod commands;
mod connection;
mod declared;
mod endpoint;
mod error;
pub mod ipa;
pub mod mixed;
mod pushes;
pub mod speculative;
mod ticket;
mod transaction;

pub use client::{Client, Token};
pub use endpoint::Endpoint;
pub use error::Error;
pub use transaction::{Outcome, Transaction};

#[doc(inline)]
pub use solera_mixt::{mixt, mixt_file, typed};

pub use solera_resp::Value;
pub use solera_tls::{Tls, TlsError};

//! The Rust client of Solera.
//!
//! A [`Client`] is one session: its operations see one another and all that it has seen before, also
//! after it has moved to another site with a [`Token`]. The cluster may be remote
//! ([`Client::connect`]) or run in the caller's process ([`Embedded`]); the interface is the same.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! let cluster = solera::Embedded::start(3)?;
//! let mut client = cluster.client(0).await?;
//! client.set("greeting", "hello").await?;
//! let token = client.token().await?;
//!
//! let mut elsewhere = cluster.client(1).await?;
//! elsewhere.attach(&token).await?;
//! assert_eq!(elsewhere.get("greeting").await?, Some("hello".into()));
//! # Ok(())
//! # })
//! # }
//! ```

mod client;
mod commands;
mod connection;
mod embedded;
mod endpoint;
mod error;
pub mod mixed;
pub mod modules;
mod transaction;

/// A random number.
pub(crate) fn random() -> u64 {
    use ring::rand::{SecureRandom, SystemRandom};
    let mut bytes = [0; 8];
    SystemRandom::new().fill(&mut bytes).expect("the system has random numbers");
    u64::from_le_bytes(bytes)
}

pub use client::{Client, Token};
pub use embedded::Embedded;
pub use endpoint::Endpoint;
pub use error::Error;
pub use transaction::{Outcome, Transaction};

#[doc(inline)]
pub use solera_mixt::{mixt, mixt_file, typed};

pub use solera_config::{ClusterSpec, Overrides};
pub use solera_node::Fault;
pub use solera_resp::Value;
pub use solera_tls::{Tls, TlsError};

//! Replicas to which the clients of the experiments connect. Another store, such as Apache
//! Cassandra, would implement the same trait.

use std::net::SocketAddr;

use solera::Client;

use crate::error::BenchError;
use crate::services::{IpaStoreSession, SpacesSession};

/// A store with replicas.
pub(super) trait Store {
    type Session: IpaStoreSession;

    /// Connects the client with this number. Half of the clients are near one replica, and half
    /// near another.
    async fn connect(&self, client: usize) -> Result<Self::Session, BenchError>;

    /// Connects to the replica of such a client without delays, to load data.
    async fn connect_beside(&self, client: usize) -> Result<Self::Session, BenchError>;
}

/// Addresses of two sites: without and with the delays between clients and sites.
#[derive(Clone, Copy)]
pub(super) struct Spaces {
    pub(super) beside: [SocketAddr; 2],
    pub(super) away: [SocketAddr; 2],
}

impl Store for Spaces {
    type Session = SpacesSession;

    async fn connect(&self, client: usize) -> Result<SpacesSession, BenchError> {
        connect(self.away[client % 2]).await
    }

    async fn connect_beside(&self, client: usize) -> Result<SpacesSession, BenchError> {
        connect(self.beside[client % 2]).await
    }
}

async fn connect(site: SocketAddr) -> Result<SpacesSession, BenchError> {
    let client = Client::connect(site).await.map_err(BenchError::Connect)?;
    Ok(SpacesSession::new(client, ""))
}

//! The gateway as a server of the Redis protocol: each connection is a session.

mod buffered;
mod connection;
mod plan;
mod replies;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, ToSocketAddrs};
use tokio::task::JoinSet;

use crate::gateway::Gateway;

/// Listens for clients of the Redis protocol.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    gateway: Arc<Gateway>,
    site: Arc<str>,
}

impl Server {
    /// Listens on an address. `site` is the name that INFO reports.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub async fn bind(
        listen: impl ToSocketAddrs,
        gateway: Arc<Gateway>,
        site: &str,
    ) -> std::io::Result<Server> {
        Ok(Server { listener: TcpListener::bind(listen).await?, gateway, site: site.into() })
    }

    /// Returns the address on which the server listens.
    ///
    /// # Errors
    /// If the system does not report it.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the future is dropped, which also ends its connections.
    pub async fn serve(self) {
        let mut connections = JoinSet::new();
        let mut number = 0;
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        number += 1;
                        let session = self.gateway.session();
                        connections.spawn(connection::serve(stream, session, number, Arc::clone(&self.site)));
                    }
                    Err(error) => {
                        tracing::warn!("a client cannot be accepted: {error}");
                        // For example, all descriptors are in use until a connection ends.
                        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                    }
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }
}

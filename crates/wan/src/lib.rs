//! A TCP proxy that adds the delays of a wide-area network between clients and a server, and
//! changes nothing else. All bytes arrive, in order and at the rate at which they are sent, but
//! later.

mod carry;
mod delays;
mod queue;

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::task::JoinSet;
use tokio::time::Instant;

pub use delays::{Delays, DelaysError};

use crate::carry::carry;

/// Listens for connections, and forwards each to a server with delays.
#[derive(Debug)]
pub struct Proxy {
    listener: TcpListener,
    to: String,
    delays: Delays,
    seed: u64,
}

impl Proxy {
    /// Listens on an address, for a server at `HOST:PORT`. The server need not run yet. The seed
    /// determines the jitter.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub async fn bind(
        listen: impl ToSocketAddrs,
        to: &str,
        delays: Delays,
        seed: u64,
    ) -> io::Result<Proxy> {
        let listener = TcpListener::bind(listen).await?;
        Ok(Proxy { listener, to: to.to_owned(), delays, seed })
    }

    /// Returns the address on which the proxy listens.
    ///
    /// # Errors
    /// If the system does not report it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the future is dropped, which also ends its connections.
    pub async fn serve(self) {
        let mut connections = JoinSet::new();
        let mut number = 0_u64;
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((client, _)) => {
                        number += 1;
                        connections.spawn(self.connection(client, number));
                    }
                    // The peer has gone, or descriptors are scarce. Other connections continue.
                    Err(_) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }

    fn connection(
        &self,
        client: TcpStream,
        number: u64,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (to, delays) = (self.to.clone(), self.delays);
        let seed = self.seed.wrapping_add(number << 32);
        async move {
            // A proxy must not add the delays of Nagle's algorithm to its own.
            let _ = client.set_nodelay(true);
            let connect = async {
                let server = TcpStream::connect(to).await?;
                server.set_nodelay(true)?;
                Ok(server)
            };
            // Both sides see that the connection ends, so the reason is not reported.
            let _ = carry(client, connect, delays, seed, Instant::now()).await;
        }
    }
}

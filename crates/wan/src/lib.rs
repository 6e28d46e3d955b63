//! A TCP proxy behind which a server is as far away as it is told: what a wide-area network does to
//! time, and nothing else. Bytes arrive whole, in order and as fast as they are sent, but later.

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

/// Listens, and leads each connection to a server with delays.
#[derive(Debug)]
pub struct Proxy {
    listener: TcpListener,
    to: String,
    delays: Delays,
    seed: u64,
}

impl Proxy {
    /// Listens on an address, for a server at `HOST:PORT`. The server need not be there yet. The
    /// seed determines the jitter.
    ///
    /// # Errors
    /// If it cannot listen there.
    pub async fn bind(
        listen: impl ToSocketAddrs,
        to: &str,
        delays: Delays,
        seed: u64,
    ) -> io::Result<Proxy> {
        let listener = TcpListener::bind(listen).await?;
        Ok(Proxy { listener, to: to.to_owned(), delays, seed })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until it is dropped; its connections end with it.
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
                    // The peer has gone, or descriptors are scarce: the others go on.
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
            // Either side sees that the connection ends; there is nobody to tell why.
            let _ = carry(client, connect, delays, seed, Instant::now()).await;
        }
    }
}

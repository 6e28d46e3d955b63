//! Clients of a site that are connected to this process, and their limit.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard};

use solera_session::{Client, Ends};
use tokio::net::TcpStream;

use crate::connection_limiter::{ConnectionLimiter, Permit};

/// Returns the addresses and the descriptor of a socket.
pub(crate) fn ends_of(stream: &TcpStream) -> Ends {
    // A client that has already disconnected has no address.
    let text = |address: std::io::Result<std::net::SocketAddr>| {
        address.map_or_else(|_| "?:0".to_owned(), |address| address.to_string())
    };
    Ends::new(text(stream.peer_addr()), text(stream.local_addr()), stream.as_raw_fd())
}

/// Clients of a site, of all its workers in this process.
#[derive(Default)]
pub(crate) struct Clients {
    connected: Mutex<BTreeMap<u64, Arc<Client>>>,
    /// Connections in a TLS handshake. They count towards the same limit as clients.
    greeting: Arc<ConnectionLimiter>,
}

impl Clients {
    /// Admits a client; `None` if `limit` clients are connected already.
    pub(crate) fn admit(self: &Arc<Self>, id: u64, ends: Ends, limit: usize) -> Option<Member> {
        let mut connected = lock(&self.connected);
        if connected.len() >= limit {
            return None;
        }
        if connected.len() + self.greeting.count() >= limit {
            self.greeting.close_oldest();
        }
        let client = Arc::new(Client::new(id, ends));
        connected.insert(id, client.clone());
        Some(Member { clients: self.clone(), client })
    }

    /// Lets a client begin a TLS handshake; `None` if `limit` clients are connected. A slow
    /// handshake may be closed later in favour of other clients.
    pub(crate) fn greet(&self, from: IpAddr, limit: usize) -> Option<Permit> {
        let connected = lock(&self.connected);
        let left = limit.saturating_sub(connected.len());
        (left > 0).then(|| self.greeting.admit(from, left))
    }

    /// Returns the number of clients.
    pub(crate) fn count(&self) -> usize {
        lock(&self.connected).len()
    }

    /// Returns the number of clients with an open transaction.
    pub(crate) fn in_transaction(&self) -> usize {
        lock(&self.connected).values().filter(|client| client.is_in_transaction()).count()
    }

    /// Returns all clients, the oldest of each worker first.
    pub(crate) fn all(&self) -> Vec<Arc<Client>> {
        lock(&self.connected).values().cloned().collect()
    }
}

/// Registration of a client, until it disconnects.
pub(crate) struct Member {
    clients: Arc<Clients>,
    pub(crate) client: Arc<Client>,
}

impl Drop for Member {
    fn drop(&mut self) {
        lock(&self.clients.connected).remove(&self.client.id);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics with the lock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_in_a_handshake_are_closed_in_favour_of_clients() {
        let clients = Arc::new(Clients::default());
        let from = IpAddr::from([127, 0, 0, 1]);
        let greeting: Vec<_> = (0..3).map(|_| clients.greet(from, 2).unwrap()).collect();
        assert_eq!(clients.greeting.count(), 2);
        let one = clients.admit(1, Ends::embedded(), 2).unwrap();
        assert_eq!(clients.greeting.count(), 1);
        let two = clients.admit(2, Ends::embedded(), 2).unwrap();
        assert_eq!(clients.greeting.count(), 0);
        assert!(clients.greet(from, 2).is_none());
        drop((greeting, one, two));
        assert!(clients.greet(from, 2).is_some());
    }

    #[test]
    fn the_limit_counts_those_that_are_there() {
        let clients = Arc::new(Clients::default());
        let one = clients.admit(1, Ends::embedded(), 1).unwrap();
        assert!(clients.admit(2, Ends::embedded(), 1).is_none());
        drop(one);
        let two = clients.admit(2, Ends::embedded(), 1).unwrap();
        assert_eq!((clients.count(), clients.all()[0].id), (1, two.client.id));
    }
}

//! Limits connections that have not identified themselves yet. When the limit is reached, the
//! oldest connection of the address with the most connections is closed, so that a host that opens
//! many idle connections does not lock other hosts out.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

/// The limited connections, in order of arrival.
#[derive(Default)]
pub(crate) struct ConnectionLimiter(Mutex<Connections>);

#[derive(Default)]
struct Connections {
    came: u64,
    count: usize,
    by_address: BTreeMap<IpAddr, BTreeMap<u64, Arc<Notify>>>,
}

impl Connections {
    fn remove(&mut self, from: IpAddr, number: u64) -> Option<Arc<Notify>> {
        let own = self.by_address.get_mut(&from)?;
        let removed = own.remove(&number)?;
        if own.is_empty() {
            self.by_address.remove(&from);
        }
        self.count -= 1;
        Some(removed)
    }
}

impl ConnectionLimiter {
    /// Adds a connection, after closing others until fewer than `limit` remain.
    pub(crate) fn admit(self: &Arc<Self>, from: IpAddr, limit: usize) -> Permit {
        while self.count() >= limit.max(1) {
            self.close_oldest();
        }
        let mut connections = self.lock();
        connections.came += 1;
        let (number, close) = (connections.came, Arc::new(Notify::new()));
        connections.count += 1;
        connections.by_address.entry(from).or_default().insert(number, close.clone());
        Permit { limiter: self.clone(), from, number, close }
    }

    /// Returns the number of connections.
    pub(crate) fn count(&self) -> usize {
        self.lock().count
    }

    /// Closes one connection, if there is any.
    pub(crate) fn close_oldest(&self) {
        let mut connections = self.lock();
        // Among addresses with equally many connections, the oldest connection is closed.
        let firsts = connections.by_address.iter().filter_map(|(from, own)| {
            let (first, _) = own.first_key_value()?;
            Some((own.len(), u64::MAX - first, *from, *first))
        });
        let Some((_, _, from, first)) = firsts.max() else { return };
        if let Some(close) = connections.remove(from, first) {
            close.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.0.lock().expect("nothing panics with the lock")
    }
}

/// Permit of a connection, until dropped.
pub(crate) struct Permit {
    limiter: Arc<ConnectionLimiter>,
    from: IpAddr,
    number: u64,
    close: Arc<Notify>,
}

impl Permit {
    /// Completes when the connection must close.
    pub(crate) async fn must_close(&self) {
        self.close.notified().await;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.limiter.lock().remove(self.from, self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn is_closed(permit: &Permit) -> bool {
        tokio::select! {
            biased;
            () = permit.must_close() => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn the_oldest_connection_of_the_busiest_address_is_closed() {
        let (one, many): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let limiter = Arc::new(ConnectionLimiter::default());
        let first = limiter.admit(one, 3);
        let second = limiter.admit(many, 3);
        let third = limiter.admit(many, 3);
        let fourth = limiter.admit(many, 3);
        assert_eq!(limiter.count(), 3);
        assert!(is_closed(&second).await);
        for permit in [&first, &third, &fourth] {
            assert!(!is_closed(permit).await);
        }
        drop((second, third));
        assert_eq!(limiter.count(), 2);
        let _fifth = limiter.admit(one, 2);
        assert!(is_closed(&first).await, "each address has one connection, and this one is older");
    }
}

//! Limits connections that have not identified themselves yet. When the limit is reached, the
//! oldest connection of the address with the most connections is closed, so that a host that opens
//! many idle connections locks nobody else out.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

/// The limited connections, in order of arrival.
#[derive(Default)]
pub(crate) struct Room(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    came: u64,
    count: usize,
    by_address: BTreeMap<IpAddr, BTreeMap<u64, Arc<Notify>>>,
}

impl Waiting {
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

impl Room {
    /// Adds a connection, after closing others until fewer than `limit` remain.
    pub(crate) fn enter(self: &Arc<Self>, from: IpAddr, limit: usize) -> Place {
        while self.count() >= limit.max(1) {
            self.make_way();
        }
        let mut waiting = self.lock();
        waiting.came += 1;
        let (number, dismissed) = (waiting.came, Arc::new(Notify::new()));
        waiting.count += 1;
        waiting.by_address.entry(from).or_default().insert(number, dismissed.clone());
        Place { room: self.clone(), from, number, dismissed }
    }

    /// Returns the number of connections.
    pub(crate) fn count(&self) -> usize {
        self.lock().count
    }

    /// Closes one connection, if there is any.
    pub(crate) fn make_way(&self) {
        let mut waiting = self.lock();
        // Among addresses with equally many connections, the oldest connection is closed.
        let firsts = waiting.by_address.iter().filter_map(|(from, own)| {
            let (first, _) = own.first_key_value()?;
            Some((own.len(), u64::MAX - first, *from, *first))
        });
        let Some((_, _, from, first)) = firsts.max() else { return };
        if let Some(dismissed) = waiting.remove(from, first) {
            dismissed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().expect("nobody panics while holding it")
    }
}

/// Permit of a connection, until dropped.
pub(crate) struct Place {
    room: Arc<Room>,
    from: IpAddr,
    number: u64,
    dismissed: Arc<Notify>,
}

impl Place {
    /// Completes when the connection must close.
    pub(crate) async fn dismissed(&self) {
        self.dismissed.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.room.lock().remove(self.from, self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn is_dismissed(place: &Place) -> bool {
        tokio::select! {
            biased;
            () = place.dismissed() => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn the_oldest_of_whoever_has_most_makes_way() {
        let (one, many): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let room = Arc::new(Room::default());
        let first = room.enter(one, 3);
        let second = room.enter(many, 3);
        let third = room.enter(many, 3);
        let fourth = room.enter(many, 3);
        assert_eq!(room.count(), 3);
        assert!(is_dismissed(&second).await);
        for place in [&first, &third, &fourth] {
            assert!(!is_dismissed(place).await);
        }
        drop((second, third));
        assert_eq!(room.count(), 2);
        let _fifth = room.enter(one, 2);
        assert!(is_dismissed(&first).await, "both have one, and this came first");
    }
}

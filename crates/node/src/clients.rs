//! The clients of a site that are connected to this process: how many there may be, and what
//! `CLIENT LIST` tells of them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::room::{Place, Room};

/// Both ends of a connection, as `CLIENT LIST` shows them.
pub(crate) struct Ends {
    address: String,
    local_address: String,
    descriptor: i32,
}

impl Ends {
    /// Those of a socket.
    pub(crate) fn of(stream: &TcpStream) -> Ends {
        // A client that is gone already has no address.
        let text = |address: std::io::Result<std::net::SocketAddr>| {
            address.map_or_else(|_| "?:0".to_owned(), |address| address.to_string())
        };
        Ends {
            address: text(stream.peer_addr()),
            local_address: text(stream.local_addr()),
            descriptor: stream.as_raw_fd(),
        }
    }

    /// Those of a connection within this process.
    pub(crate) fn embedded() -> Ends {
        let name = "embedded:0".to_owned();
        Ends { address: name.clone(), local_address: name, descriptor: -1 }
    }
}

/// What a session tells of itself, after each batch of commands.
#[derive(Clone)]
pub(crate) struct Told {
    pub(crate) name: String,
    /// Nobody's until the client has said who it is.
    pub(crate) user: String,
    pub(crate) library: String,
    pub(crate) library_version: String,
    /// The last command.
    pub(crate) command: &'static str,
    /// How many commands are queued after MULTI.
    pub(crate) queued: Option<usize>,
    /// Whether MULTI or SOLERA.BEGIN is open.
    pub(crate) in_transaction: bool,
    pub(crate) protocol: u8,
    /// When it last sent something.
    pub(crate) active: Instant,
}

/// One client, as others see it.
pub(crate) struct Client {
    pub(crate) id: u64,
    ends: Ends,
    since: Instant,
    told: Mutex<Told>,
    killed: Notify,
}

impl Client {
    /// Changes what is told of the client.
    pub(crate) fn tell(&self, change: impl FnOnce(&mut Told)) {
        change(&mut lock(&self.told));
    }

    /// Ends when another client has killed this one.
    pub(crate) async fn death(&self) {
        self.killed.notified().await;
    }

    /// Ends the client's connection.
    pub(crate) fn kill(&self) {
        self.killed.notify_one();
    }

    /// The address it calls from.
    pub(crate) fn address(&self) -> &str {
        &self.ends.address
    }

    /// The address it has called.
    pub(crate) fn local_address(&self) -> &str {
        &self.ends.local_address
    }

    /// Whether it is this user.
    pub(crate) fn is_user(&self, name: &[u8]) -> bool {
        lock(&self.told).user.as_bytes() == name
    }

    /// A line of `CLIENT LIST`, with Redis' fields. What Solera has none of, or does not count, is as
    /// in a Redis that has none of it.
    pub(crate) fn line(&self) -> String {
        let told = lock(&self.told).clone();
        let now = Instant::now();
        let seconds = |since| now.saturating_duration_since(since).as_secs();
        let mut line = String::new();
        // Writing to a string cannot fail.
        let _ = write!(
            line,
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db=0 sub=0 psub=0 ssub=0 \
             multi={} qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 \
             tot-mem=0 events=r cmd={} user={} redir=-1 resp={} lib-name={} lib-ver={}",
            self.id,
            self.ends.address,
            self.ends.local_address,
            self.ends.descriptor,
            told.name,
            seconds(self.since),
            seconds(told.active),
            if told.queued.is_some() { "x" } else { "N" },
            told.queued.map_or(-1, |queued| queued as i64),
            told.command,
            told.user,
            told.protocol,
            told.library,
            told.library_version,
        );
        line
    }
}

/// The clients of a site, whichever of its workers serves them.
#[derive(Default)]
pub(crate) struct Clients {
    connected: Mutex<BTreeMap<u64, Arc<Client>>>,
    /// Those whose TLS begins just now. All share one limit.
    greeting: Arc<Room>,
}

impl Clients {
    /// Takes a client in, unless there are `limit` already.
    pub(crate) fn admit(self: &Arc<Self>, id: u64, ends: Ends, limit: usize) -> Option<Member> {
        let mut connected = lock(&self.connected);
        if connected.len() >= limit {
            return None;
        }
        if connected.len() + self.greeting.count() >= limit {
            self.greeting.make_way();
        }
        let now = Instant::now();
        let told = Told {
            name: String::new(),
            user: String::new(),
            library: String::new(),
            library_version: String::new(),
            command: "NULL",
            queued: None,
            in_transaction: false,
            protocol: 2,
            active: now,
        };
        let (told, killed) = (Mutex::new(told), Notify::new());
        let client = Arc::new(Client { id, ends, since: now, told, killed });
        connected.insert(id, client.clone());
        Some(Member { clients: self.clone(), client })
    }

    /// Lets a client begin TLS, unless `limit` clients are connected. One that takes long may have to
    /// make way.
    pub(crate) fn greet(&self, from: IpAddr, limit: usize) -> Option<Place> {
        let connected = lock(&self.connected);
        let left = limit.saturating_sub(connected.len());
        (left > 0).then(|| self.greeting.enter(from, left))
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        lock(&self.connected).len()
    }

    /// How many of them have a transaction open.
    pub(crate) fn in_transaction(&self) -> usize {
        lock(&self.connected).values().filter(|client| lock(&client.told).in_transaction).count()
    }

    /// All of them, the oldest of each worker first.
    pub(crate) fn all(&self) -> Vec<Arc<Client>> {
        lock(&self.connected).values().cloned().collect()
    }
}

/// A client for as long as it is connected.
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
    mutex.lock().expect("nobody panics while holding it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_begins_tls_makes_way_for_those_who_have_begun() {
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

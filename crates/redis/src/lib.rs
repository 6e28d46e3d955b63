//! Redis as a store of mixed transactions: a single server, or a Redis Cluster.
//!
//! Its spaces are eventual. Each operation takes effect at once, even if the transaction fails
//! later, and at least once: the session may repeat an operation whose answer was lost. Each
//! operation is one command on one key, so a session reads a whole object only if the program does.
//! Objects are values that other clients of Redis can use: `docs/guide/redis.md` lists their types.
//!
//! The prefixes of their keys separate the spaces. Transactions store their own data in each space
//! under names that begin with `{solera:SPACE}` after the prefix; handles must not lead there.
//!
//! `solera-occult-redis` uses [`objects`] for stores of level `pcpsi`.
//!
//! [`Plain`] sends plain commands, for measurements.

mod failure;
mod names;
pub mod objects;
mod plain;
mod server;
mod session;
mod target;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use solera_levels::Level;
use solera_mixt::store::{BoxFuture, Connection, Database, StoreError};

pub use crate::failure::error_of_reply;
pub use crate::plain::{Plain, PlainError, Reads, Reply};
use crate::server::Server;
use crate::session::RedisSession;
pub use crate::target::{Target, TargetError};
pub use solera_tls::Files as TlsFiles;

/// Default time limit of an answer.
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// A Redis server or cluster as a database of mixed transactions. Clones share a connection.
#[derive(Clone)]
pub struct Redis {
    name: Arc<str>,
    spaces: Arc<Spaces>,
    server: Arc<Server>,
}

/// Prefixes of the spaces' keys.
type Spaces = BTreeMap<Arc<str>, Arc<str>>;

impl Redis {
    /// Creates a database with this name, which is the same on all hosts, these spaces, and the
    /// prefixes of their keys. The server need not be reachable: sessions connect at the first use,
    /// and again when the connection breaks. Requests that take longer than `timeout` fail.
    pub fn new<'a>(
        name: &str,
        target: Target,
        spaces: impl IntoIterator<Item = (&'a str, &'a str)>,
        timeout: Duration,
    ) -> Redis {
        let spaces = spaces.into_iter().map(|(space, prefix)| (space.into(), prefix.into()));
        let server = Arc::new(Server::new(target, timeout));
        Redis { name: name.into(), spaces: Arc::new(spaces.collect()), server }
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").field("name", &self.name).field("spaces", &self.spaces).finish()
    }
}

impl Database for Redis {
    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn spans(&self, _one: &str, _other: &str) -> bool {
        false
    }

    fn level(&self, space: &str) -> Option<Level> {
        self.spaces.contains_key(space).then_some(Level::Eventual)
    }

    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, StoreError>> {
        let session = RedisSession::new(Arc::clone(&self.server), Arc::clone(&self.spaces));
        // The first request connects to the server.
        Box::pin(std::future::ready(Ok(Box::new(session) as Box<dyn Connection>)))
    }
}

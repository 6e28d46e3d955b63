//! Redis as a store of mixed transactions: a single server, or a Redis Cluster.
//!
//! Its spaces are eventual. Each operation takes effect at once, also if the transaction fails
//! later, and at least once: what is not answered may be done again. Each is one command on one
//! key, so that no object is read whole unless its whole is asked for, and objects are what other
//! clients of Redis know: `docs/guide/stores.md` tells which types.
//!
//! Spaces are apart by the prefixes of their keys. What transactions keep besides objects lies in
//! each space under names that begin with `{solera:SPACE}` after the prefix; handles must not lead
//! there.

mod failure;
mod names;
mod objects;
mod server;
mod session;
mod target;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use solera_levels::Level;
use solera_mixt::store::{BoxFuture, Connection, Database, Description, StoreError};

use crate::server::Server;
use crate::session::Session;
pub use crate::target::{Target, TargetError};
pub use solera_tls::Files as TlsFiles;

/// How long an answer may take if nobody says otherwise.
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// A Redis server or cluster as a database of mixed transactions. Copies share a connection.
#[derive(Clone)]
pub struct Redis {
    name: Arc<str>,
    spaces: Arc<Spaces>,
    server: Arc<Server>,
}

/// The prefixes of the spaces' keys.
type Spaces = BTreeMap<Arc<str>, Arc<str>>;

impl Redis {
    /// A database by this name, the same for all that use it, with these spaces and the prefixes of
    /// their keys. It need not be there yet: it is connected to when it is used, and again when a
    /// connection breaks. What takes longer than `timeout` fails.
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
    fn describe(&self) -> Description {
        Description { name: Arc::clone(&self.name), joint: false }
    }

    fn level(&self, space: &str) -> Option<Level> {
        self.spaces.contains_key(space).then_some(Level::Eventual)
    }

    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, StoreError>> {
        let session = Session::new(Arc::clone(&self.server), Arc::clone(&self.spaces));
        // The server is asked when there is something to ask.
        Box::pin(std::future::ready(Ok(Box::new(session) as Box<dyn Connection>)))
    }
}

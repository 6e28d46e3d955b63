//! A Redis Cluster with Occult as a store of mixed transactions, of level `pcpsi`.
//!
//! Objects are values of Redis, as in stores of level `eventual`, so that other programs can read
//! them. A transaction reads at once and buffers its writes. All of its writes take effect at once,
//! or none. The prefixes of keys separate the spaces, and one transaction can span all spaces of a
//! database.
//!
//! A transaction sees what earlier transactions of the same process have seen and written.

mod failure;
mod names;
mod session;
mod value;
mod written;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use solera_levels::Level;
use solera_mixt::store::{BoxFuture, Connection, Database, StoreError};
use solera_redis::Target;

use crate::gateway::{Gateway, Options, Past};

use self::session::StoreSession;

/// A Redis Cluster with Occult as a database of mixed transactions. Clones share the connections.
#[derive(Clone)]
pub struct Store {
    name: Arc<str>,
    shared: Arc<Shared>,
}

/// State that the sessions of a database share.
struct Shared {
    target: Target,
    options: Options,
    /// Prefixes of the spaces' keys.
    spaces: BTreeMap<Arc<str>, Arc<str>>,
    /// The connections to the cluster; `None` until the first session.
    gateway: tokio::sync::Mutex<Option<Arc<Gateway>>>,
    /// Dependencies of finished transactions.
    seen: Mutex<Option<Past>>,
}

impl Store {
    /// Creates a database with a name, which is the same on all hosts, and with spaces and the
    /// prefixes of their keys. The cluster need not be reachable: the first session connects to it.
    pub fn new<'a>(
        name: &str,
        target: Target,
        spaces: impl IntoIterator<Item = (&'a str, &'a str)>,
        options: Options,
    ) -> Store {
        let spaces = spaces.into_iter().map(|(space, prefix)| (space.into(), prefix.into()));
        let shared = Shared {
            target,
            options,
            spaces: spaces.collect(),
            gateway: tokio::sync::Mutex::default(),
            seen: Mutex::default(),
        };
        Store { name: name.into(), shared: Arc::new(shared) }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("name", &self.name)
            .field("spaces", &self.shared.spaces)
            .finish_non_exhaustive()
    }
}

impl Shared {
    async fn gateway(&self) -> Result<Arc<Gateway>, StoreError> {
        let mut held = self.gateway.lock().await;
        if let Some(gateway) = &*held {
            return Ok(Arc::clone(gateway));
        }
        let connected = Gateway::connect(&self.target, self.options.clone()).await;
        let gateway = connected.map_err(failure::of_begin)?;
        *held = Some(Arc::clone(&gateway));
        Ok(gateway)
    }

    /// Returns the prefix of the keys of a space.
    fn prefix(&self, space: &str) -> Result<&str, StoreError> {
        let found = self.spaces.get(space);
        found
            .map(|prefix| &**prefix)
            .ok_or_else(|| StoreError::Refused(format!("there is no space `{space}`")))
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Option<Past>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Database for Store {
    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn level(&self, space: &str) -> Option<Level> {
        self.shared.spaces.contains_key(space).then_some(Level::PcPsi)
    }

    fn spans(&self, one: &str, other: &str) -> bool {
        [one, other].iter().all(|space| self.shared.spaces.contains_key(*space))
    }

    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, StoreError>> {
        Box::pin(async {
            let mut session = self.shared.gateway().await?.session();
            if let Some(seen) = &*self.shared.seen() {
                session.add_past(seen);
            }
            let session = StoreSession::new(Arc::clone(&self.shared), session);
            Ok(Box::new(session) as Box<dyn Connection>)
        })
    }
}

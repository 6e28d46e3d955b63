//! Asks real databases what a coordinator wants to know.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::coordinator::{Ask, Coordinator, Next, Reply, Request};
use crate::outcome::Outcome;
use crate::store::{Begin, BoxFuture, Connection, Database, Fields, Name, StoreError};

/// The time of a host.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970.
    fn now_ms(&self) -> u64;

    /// Waits.
    fn sleep(&self, ms: u64) -> BoxFuture<'_, ()>;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now_ms(&self) -> u64 {
        C::now_ms(self)
    }

    fn sleep(&self, ms: u64) -> BoxFuture<'_, ()> {
        C::sleep(self, ms)
    }
}

/// Sessions with databases, by their names. They are opened when they are needed, and used by one transaction at a
/// time; whoever keeps them for the next one keeps what the sessions have seen.
pub struct Connections {
    known: BTreeMap<Arc<str>, Known>,
}

/// How many names are to be read at once.
pub(crate) const BATCH: usize = 128;

struct Known {
    database: Arc<dyn Database>,
    connection: Option<Box<dyn Connection>>,
}

impl Connections {
    /// Sessions with these databases.
    pub fn new(databases: impl IntoIterator<Item = Arc<dyn Database>>) -> Connections {
        let named = databases
            .into_iter()
            .map(|database| (database.describe().name, Known { database, connection: None }));
        Connections { known: named.collect() }
    }

    /// The names of the databases whose workers run groups of phases.
    pub fn executing(&self) -> impl Iterator<Item = Arc<str>> {
        let known = self.known.iter().filter(|(_, known)| known.database.executes());
        known.map(|(name, _)| Arc::clone(name))
    }

    /// At which replicas of databases what is asked for commits.
    fn whence(&self) -> BTreeMap<Arc<str>, Arc<str>> {
        let known = self.known.iter();
        known
            .filter_map(|(name, known)| Some((Arc::clone(name), known.database.whence()?)))
            .collect()
    }

    /// The session with a database.
    pub(crate) async fn get(
        &mut self,
        database: &str,
    ) -> Result<&mut Box<dyn Connection>, StoreError> {
        let unknown = || StoreError::Unavailable(format!("`{database}` is not known here"));
        let known = self.known.get_mut(database).ok_or_else(unknown)?;
        match &mut known.connection {
            Some(connection) => Ok(connection),
            closed => Ok(closed.insert(known.database.connect().await?)),
        }
    }

    /// What named objects hold, read in a transaction of its own.
    pub(crate) async fn read(
        &mut self,
        database: &str,
        names: Vec<Name>,
    ) -> Result<Vec<Fields>, StoreError> {
        let begin = Begin { read_only: true, names, ..Begin::default() };
        let connection = self.get(database).await?;
        let found = connection.begin(&begin).await?;
        connection.abort().await?;
        Ok(found)
    }

    /// Does what a coordinator asks.
    pub async fn ask(&mut self, database: &str, request: &Request) -> Result<Reply, StoreError> {
        let connection = self.get(database).await?;
        match request {
            Request::Begin(begin) => connection.begin(begin).await.map(Reply::Began),
            Request::Perform(call) => connection.perform(call).await.map(Reply::Answered),
            Request::Custom(call) => connection.custom(call).await.map(Reply::Answered),
            Request::Commit(writes) => connection.commit(writes).await.map(|()| Reply::Committed),
            Request::Execute(shipment) => connection.execute(shipment).await.map(Reply::Executed),
            Request::Sees(commits) => connection.sees(commits).await.map(Reply::Sees),
            Request::Abort => connection.abort().await.map(|()| Reply::Done),
        }
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.known.keys()).finish()
    }
}

/// Runs a transaction to its end. If the future is dropped before, it is as if the host had died: once
/// something has committed, [recovery](crate::recovery) completes it.
pub async fn run(
    coordinator: &mut Coordinator,
    connections: &mut Connections,
    clock: &dyn Clock,
) -> Outcome {
    coordinator.ship_to(connections.executing());
    coordinator.commit_at(connections.whence());
    let mut answer = None;
    loop {
        answer = Some(match coordinator.next(clock.now_ms(), answer) {
            Next::Finished(outcome) => return outcome,
            Next::Ask(Ask::Store { database, request }) => {
                connections.ask(&database, &request).await
            }
            Next::Ask(Ask::Wait { ms }) => {
                clock.sleep(ms).await;
                Ok(Reply::Done)
            }
        });
    }
}

//! Asks real databases what a coordinator wants to know.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::access::Users;
use crate::coordinator::{Ask, Coordinator, Next, Reply, Request};
use crate::outcome::Outcome;
use crate::place::{Fields, Name};
use crate::request::calls::{Begin, StoreError};
use crate::store::{BoxFuture, Connection, Database};

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

/// Sessions with databases, by their names. They are opened when they are needed, and used by one
/// transaction at a time; whoever keeps them for the next one keeps what the sessions have seen. If
/// a future of one is dropped while a session is asked for something, that session is closed, and
/// the next one has seen nothing.
pub struct Connections {
    known: BTreeMap<Arc<str>, Known>,
}

/// How many names are to be read at once.
pub(crate) const BATCH: usize = 128;

struct Known {
    database: Arc<dyn Database>,
    /// By the users in whose names they act; none is whoever the database's sessions act as by
    /// themselves.
    sessions: Sessions,
}

type Sessions = BTreeMap<Option<Actor>, Box<dyn Connection>>;

/// The user that a transaction names, if it names one.
type Actor = Option<Arc<str>>;

impl Connections {
    /// Sessions with these databases.
    pub fn new(databases: impl IntoIterator<Item = Arc<dyn Database>>) -> Connections {
        let named = databases.into_iter().map(|database| {
            (database.describe().name, Known { database, sessions: Sessions::new() })
        });
        Connections { known: named.collect() }
    }

    /// The names of the databases whose workers run groups of phases.
    pub fn executing(&self) -> impl Iterator<Item = Arc<str>> {
        let known = self.known.iter().filter(|(_, known)| known.database.executes());
        known.map(|(name, _)| Arc::clone(name))
    }

    /// As which users sessions act by themselves, in the databases that know users.
    pub fn users(&self) -> Users {
        let known = self.known.iter();
        known.filter_map(|(name, known)| Some((Arc::clone(name), known.database.user()?))).collect()
    }

    /// The databases that tell users apart.
    pub(crate) fn guarded(&self) -> BTreeSet<Arc<str>> {
        let known = self.known.iter().filter(|(_, known)| known.database.tells_users_apart());
        known.map(|(name, _)| Arc::clone(name)).collect()
    }

    /// At which replicas of databases what is asked for commits.
    fn whence(&self) -> BTreeMap<Arc<str>, Arc<str>> {
        let known = self.known.iter();
        known
            .filter_map(|(name, known)| Some((Arc::clone(name), known.database.whence()?)))
            .collect()
    }

    /// The host's own session with a database, which is closed unless it is [left](Taken::leave)
    /// for the next time.
    pub(crate) async fn take(&mut self, database: &str) -> Result<Taken<'_>, StoreError> {
        self.known(database)?.take(None).await
    }

    /// The session with a database that acts for a transaction with these users.
    pub(crate) async fn take_for(
        &mut self,
        users: &Users,
        database: &str,
    ) -> Result<Taken<'_>, StoreError> {
        let known = self.known(database)?;
        let user = users.get(database).cloned();
        let itself = !known.database.tells_users_apart()
            || (user.is_some() && user == known.database.user());
        known.take((!itself).then_some(user)).await
    }

    fn known(&mut self, database: &str) -> Result<&mut Known, StoreError> {
        let unknown = || StoreError::Unavailable(format!("`{database}` is not known here"));
        self.known.get_mut(database).ok_or_else(unknown)
    }

    /// What named objects hold, read in a transaction of its own.
    pub(crate) async fn read(
        &mut self,
        database: &str,
        names: Vec<Name>,
    ) -> Result<Vec<Fields>, StoreError> {
        let begin = Begin { read_only: true, names, ..Begin::default() };
        let mut taken = self.take(database).await?;
        let connection = &mut taken.connection;
        let found = match connection.begin(&begin).await {
            Ok(found) => connection.abort().await.map(|()| found),
            failed => failed,
        };
        taken.leave();
        found
    }

    /// Does what is asked, in the sessions that act as the databases' sessions do by themselves.
    pub async fn ask(&mut self, database: &str, request: &Request) -> Result<Reply, StoreError> {
        self.take(database).await?.ask(request).await
    }

    /// Does what a coordinator asks for a transaction with these users.
    pub async fn ask_for(
        &mut self,
        users: &Users,
        database: &str,
        request: &Request,
    ) -> Result<Reply, StoreError> {
        if let Request::Permits(accesses) = request {
            let user = users.get(database).map(|user| &**user);
            let denial = self.known(database)?.database.permits(user, accesses);
            return Ok(Reply::Permits(denial));
        }
        self.take_for(users, database).await?.ask(request).await
    }
}

impl Known {
    async fn take(&mut self, actor: Option<Actor>) -> Result<Taken<'_>, StoreError> {
        let connection = match (self.sessions.remove(&actor), &actor) {
            (Some(connection), _) => connection,
            (None, None) => self.database.connect().await?,
            (None, Some(user)) => self.database.connect_as(user.as_deref()).await?,
        };
        Ok(Taken { connection, actor, sessions: &mut self.sessions })
    }
}

/// A session that is asked for something. Who stops waiting for the answer drops it, and it is
/// closed: the answer would be taken for that to the next question, and what is open there would
/// become a part of the next transaction.
pub(crate) struct Taken<'c> {
    pub(crate) connection: Box<dyn Connection>,
    actor: Option<Actor>,
    sessions: &'c mut Sessions,
}

impl Taken<'_> {
    async fn ask(mut self, request: &Request) -> Result<Reply, StoreError> {
        let connection = &mut self.connection;
        let answer = match request {
            Request::Begin(begin) => connection.begin(begin).await.map(Reply::Began),
            Request::Perform(call) => connection.perform(call).await.map(Reply::Answered),
            Request::Custom(call) => connection.custom(call).await.map(Reply::Answered),
            Request::Commit(writes) => connection.commit(writes).await.map(|()| Reply::Committed),
            Request::Execute(shipment) => connection.execute(shipment).await.map(Reply::Executed),
            Request::Sees(commits) => connection.sees(commits).await.map(Reply::Sees),
            Request::Certify => connection.certify().await.map(|()| Reply::Certified),
            Request::Abort => connection.abort().await.map(|()| Reply::Done),
            // Who acts as itself does what it does.
            Request::Permits(_) => Ok(Reply::Permits(None)),
        };
        self.leave();
        answer
    }

    /// It has answered, and is kept.
    pub(crate) fn leave(self) {
        self.sessions.insert(self.actor, self.connection);
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.known.keys()).finish()
    }
}

/// Runs a transaction to its end. If the future is dropped before, it is as if the host had died:
/// once something has committed, [recovery](crate::recovery) completes it.
pub async fn run(
    coordinator: &mut Coordinator,
    connections: &mut Connections,
    clock: &dyn Clock,
) -> Outcome {
    coordinator.ship_to(connections.executing());
    coordinator.commit_at(connections.whence());
    coordinator.act_as(connections.users(), connections.guarded());
    let mut answer = None;
    loop {
        answer = Some(match coordinator.next(clock.now_ms(), answer) {
            Next::Finished(outcome) => return outcome,
            Next::Ask(Ask::Store { database, request }) => {
                connections.ask_for(coordinator.users(), &database, &request).await
            }
            Next::Ask(Ask::Wait { ms }) => {
                clock.sleep(ms).await;
                Ok(Reply::Done)
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Waker};

    use solera_levels::Level;

    use super::*;
    use crate::request::calls::{Answer, List, NameWrite, ObjectCall};
    use crate::store::Description;

    /// A database whose sessions never say that a transaction has begun, and which counts them.
    struct Silent(Arc<AtomicUsize>);

    impl Database for Silent {
        fn describe(&self) -> Description {
            Description { name: "silent".into(), joint: true }
        }

        fn level(&self, _space: &str) -> Option<Level> {
            None
        }

        fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, StoreError>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Box::pin(std::future::ready(Ok(Box::new(Quiet) as Box<dyn Connection>)))
        }
    }

    struct Quiet;

    impl Connection for Quiet {
        fn begin<'a>(
            &'a mut self,
            _begin: &'a Begin,
        ) -> BoxFuture<'a, Result<Vec<Fields>, StoreError>> {
            Box::pin(std::future::pending())
        }

        fn perform<'a>(
            &'a mut self,
            _call: &'a ObjectCall,
        ) -> BoxFuture<'a, Result<Answer, StoreError>> {
            Box::pin(std::future::ready(Err(StoreError::Missing)))
        }

        fn commit<'a>(
            &'a mut self,
            _writes: &'a [NameWrite],
        ) -> BoxFuture<'a, Result<(), StoreError>> {
            Box::pin(std::future::ready(Ok(())))
        }

        fn certify(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
            Box::pin(std::future::ready(Ok(())))
        }

        fn abort(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
            Box::pin(std::future::ready(Ok(())))
        }

        fn list<'a>(
            &'a mut self,
            _list: &'a List,
        ) -> BoxFuture<'a, Result<Vec<Arc<str>>, StoreError>> {
            Box::pin(std::future::ready(Ok(Vec::new())))
        }
    }

    #[test]
    fn a_session_whose_answer_nobody_has_waited_for_is_not_used_again() {
        let opened = Arc::new(AtomicUsize::new(0));
        let mut connections =
            Connections::new([Arc::new(Silent(Arc::clone(&opened))) as Arc<dyn Database>]);
        let mut context = Context::from_waker(Waker::noop());
        let mut ask = |request: Request| {
            let mut asked = Box::pin(connections.ask("silent", &request));
            asked.as_mut().poll(&mut context).is_ready()
        };
        assert!(ask(Request::Commit(Vec::new())) && ask(Request::Abort));
        assert_eq!(opened.load(Ordering::Relaxed), 1);
        assert!(!ask(Request::Begin(Begin::default())));
        assert!(ask(Request::Abort));
        assert_eq!(opened.load(Ordering::Relaxed), 2);
        let mut read = Box::pin(connections.read("silent", Vec::new()));
        assert!(read.as_mut().poll(&mut context).is_pending());
        drop(read);
        assert!(connections.known.values().all(|known| known.sessions.is_empty()));
    }
}

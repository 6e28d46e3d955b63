//! Runs coordinators: executes their requests on real databases.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::access::Users;
use crate::coordinator::{Ask, Coordinator, Next, Reply, Request};
use crate::location::{Fields, Name};
use crate::outcome::Outcome;
use crate::request::calls::{Begin, StoreError};
use crate::store::{BoxFuture, Connection, Database};

/// Clock of a host.
pub trait Clock: Send + Sync {
    /// Returns the time in milliseconds since 1970.
    fn now_ms(&self) -> u64;

    /// Waits for `ms` milliseconds.
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

/// Sessions with databases, by the databases' names. They are opened when needed, and one
/// transaction uses them at a time. A caller that keeps them for the next transaction keeps what
/// the sessions have seen. If a future is dropped while a session executes a request, that session
/// is closed, and the next one has seen nothing.
pub struct Connections {
    known: BTreeMap<Arc<str>, Known>,
}

/// Number of names to read at once.
pub(crate) const BATCH: usize = 128;

struct Known {
    database: Arc<dyn Database>,
    /// Sessions, by the users for whom they act; `None` for the user that the database itself is
    /// configured with.
    sessions: Sessions,
}

type Sessions = BTreeMap<Option<Actor>, Box<dyn Connection>>;

/// User that a transaction names, if it names one.
type Actor = Option<Arc<str>>;

impl Connections {
    /// Creates the sessions with these databases; opens none.
    pub fn new(databases: impl IntoIterator<Item = Arc<dyn Database>>) -> Connections {
        let named = databases
            .into_iter()
            .map(|database| (database.name(), Known { database, sessions: Sessions::new() }));
        Connections { known: named.collect() }
    }

    /// Returns the names of the databases whose workers run groups of phases.
    pub fn executing(&self) -> impl Iterator<Item = Arc<str>> {
        let known = self.known.iter().filter(|(_, known)| known.database.executes());
        known.map(|(name, _)| Arc::clone(name))
    }

    /// Returns the configured user of each database that has users.
    pub fn users(&self) -> Users {
        let known = self.known.iter();
        known.filter_map(|(name, known)| Some((Arc::clone(name), known.database.user()?))).collect()
    }

    /// Returns the databases that check the rights of each user.
    pub(crate) fn guarded(&self) -> BTreeSet<Arc<str>> {
        let known = self.known.iter().filter(|(_, known)| known.database.distinguishes_users());
        known.map(|(name, _)| Arc::clone(name)).collect()
    }

    /// Returns the replicas of databases at which requests commit.
    fn commit_replicas(&self) -> BTreeMap<Arc<str>, Arc<str>> {
        let known = self.known.iter();
        known
            .filter_map(|(name, known)| Some((Arc::clone(name), known.database.commit_replica()?)))
            .collect()
    }

    /// Checks out the host's own session with a database. It is closed unless it is [checked
    /// in](CheckedOut::check_in).
    pub(crate) async fn check_out(&mut self, database: &str) -> Result<CheckedOut<'_>, StoreError> {
        self.known(database)?.check_out(None).await
    }

    /// Checks out the session with a database that acts for a transaction with these users.
    pub(crate) async fn check_out_for(
        &mut self,
        users: &Users,
        database: &str,
    ) -> Result<CheckedOut<'_>, StoreError> {
        let known = self.known(database)?;
        let user = users.get(database).cloned();
        let itself = !known.database.distinguishes_users()
            || (user.is_some() && user == known.database.user());
        known.check_out((!itself).then_some(user)).await
    }

    fn known(&mut self, database: &str) -> Result<&mut Known, StoreError> {
        let unknown = || StoreError::Unavailable(format!("`{database}` is not configured here"));
        self.known.get_mut(database).ok_or_else(unknown)
    }

    /// Divides `items` into parts, each of which one transaction of a database can use. `space`
    /// returns the space of an item.
    pub(crate) fn divide<T>(
        &self,
        database: &str,
        items: impl IntoIterator<Item = T>,
        space: impl Fn(&T) -> &Arc<str>,
    ) -> Vec<Vec<T>> {
        let known = self.known.get(database).map(|known| &known.database);
        let mut parts: Vec<(BTreeSet<Arc<str>>, Vec<T>)> = Vec::new();
        for item in items {
            let of = Arc::clone(space(&item));
            // An unknown database reports that it is unknown when it is asked.
            let spans = |used: &Arc<str>| known.is_none_or(|known| known.spans(used, &of));
            let fits = |(used, _): &&mut (BTreeSet<Arc<str>>, Vec<T>)| {
                used.contains(&of) || used.iter().all(spans)
            };
            match parts.iter_mut().find(fits) {
                Some((used, part)) => {
                    part.push(item);
                    used.insert(of);
                }
                None => parts.push((BTreeSet::from([of]), vec![item])),
            }
        }
        parts.into_iter().map(|(_, part)| part).collect()
    }

    /// Reads named objects, in a transaction of its own.
    pub(crate) async fn read(
        &mut self,
        database: &str,
        names: Vec<Name>,
    ) -> Result<Vec<Fields>, StoreError> {
        let begin = Begin { read_only: true, names, ..Begin::default() };
        let mut session = self.check_out(database).await?;
        let connection = &mut session.connection;
        let found = match connection.begin(&begin).await {
            Ok(found) => connection.abort().await.map(|()| found),
            failed => failed,
        };
        session.check_in();
        found
    }

    /// Executes a request in the session of the user that the database is configured with.
    pub async fn ask(&mut self, database: &str, request: &Request) -> Result<Reply, StoreError> {
        self.check_out(database).await?.ask(request).await
    }

    /// Executes a coordinator's request for a transaction with these users.
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
        self.check_out_for(users, database).await?.ask(request).await
    }
}

impl Known {
    async fn check_out(&mut self, actor: Option<Actor>) -> Result<CheckedOut<'_>, StoreError> {
        let connection = match (self.sessions.remove(&actor), &actor) {
            (Some(connection), _) => connection,
            (None, None) => self.database.connect().await?,
            (None, Some(user)) => self.database.connect_as(user.as_deref()).await?,
        };
        Ok(CheckedOut { connection, actor, sessions: &mut self.sessions })
    }
}

/// A session that executes a request. It is closed if it is dropped before the answer: the answer
/// would otherwise be taken for that to the next request, and its open transaction would become
/// part of the next one.
pub(crate) struct CheckedOut<'c> {
    pub(crate) connection: Box<dyn Connection>,
    actor: Option<Actor>,
    sessions: &'c mut Sessions,
}

impl CheckedOut<'_> {
    async fn ask(mut self, request: &Request) -> Result<Reply, StoreError> {
        let connection = &mut self.connection;
        let answer = match request {
            Request::Begin(begin) => connection.begin(begin).await.map(Reply::Began),
            Request::Perform(call) => connection.perform(call).await.map(Reply::Answered),
            Request::Custom(call) => connection.custom(call).await.map(Reply::Answered),
            Request::Commit(writes) => connection.commit(writes).await.map(|()| Reply::Committed),
            Request::Execute(remote_group) => {
                connection.execute(remote_group).await.map(Reply::Executed)
            }
            Request::Sees(commits) => connection.sees(commits).await.map(Reply::Sees),
            Request::Certify => connection.certify().await.map(|()| Reply::Certified),
            Request::Abort => connection.abort().await.map(|()| Reply::Done),
            // No rights are checked in advance here: the database checks each request of its
            // configured user.
            Request::Permits(_) => Ok(Reply::Permits(None)),
        };
        self.check_in();
        answer
    }

    /// Returns the session to the pool, after it has answered.
    pub(crate) fn check_in(self) {
        self.sessions.insert(self.actor, self.connection);
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.known.keys()).finish()
    }
}

/// Runs a transaction to its end. Dropping the future before that has the same effect as a crash of
/// the host: once something has committed, [recovery](crate::recovery) completes it.
pub async fn run(
    coordinator: &mut Coordinator,
    connections: &mut Connections,
    clock: &dyn Clock,
) -> Outcome {
    coordinator.use_workers_of(connections.executing());
    coordinator.set_commit_replicas(connections.commit_replicas());
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

    /// A database whose sessions never answer `begin`; counts the sessions.
    struct Unresponsive(Arc<AtomicUsize>);

    impl Database for Unresponsive {
        fn name(&self) -> Arc<str> {
            "silent".into()
        }

        fn spans(&self, _one: &str, _other: &str) -> bool {
            true
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
            Connections::new([Arc::new(Unresponsive(Arc::clone(&opened))) as Arc<dyn Database>]);
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

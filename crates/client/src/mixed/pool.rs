//! A pool of connections.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use solera_mixt::store::{BoxFuture, Connection, Database, StoreError};
use solera_mixt::{connection_methods, database_methods};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A database with a limited number of connections, which are kept while they are idle. A
/// connection returns to the pool only if it is [reusable](Connection::reusable), and is checked
/// again before it is given out.
///
/// A caller that gets a connection has seen what earlier users of the connection committed. Clones
/// share the connections. All connections act as the one user of the database, so a pool is not
/// suitable for databases that distinguish users.
#[derive(Clone)]
pub struct Pool {
    database: Arc<dyn Database>,
    idle: Idle,
    free: Arc<Semaphore>,
    most: usize,
    patience: Duration,
}

type Idle = Arc<Mutex<Vec<Box<dyn Connection>>>>;

impl Pool {
    /// Creates a pool of at most `most` connections, but at least one. A caller waits at most
    /// `patience` for a connection.
    pub fn new(database: Arc<dyn Database>, most: usize, patience: Duration) -> Pool {
        let most = most.clamp(1, Semaphore::MAX_PERMITS);
        Pool {
            database,
            idle: Idle::default(),
            free: Arc::new(Semaphore::new(most)),
            most,
            patience,
        }
    }

    async fn take(&self) -> Result<Pooled, StoreError> {
        let waiting = Arc::clone(&self.free).acquire_owned();
        let permit = tokio::time::timeout(self.patience, waiting).await.map_err(|_| {
            StoreError::Unavailable(format!(
                "all {} connections to it were in use for {} ms",
                self.most,
                self.patience.as_millis()
            ))
        })?;
        let permit = permit.expect("the semaphore is never closed");
        let connection = match self.idle() {
            Some(connection) => connection,
            None => self.database.connect().await?,
        };
        let (connection, idle) = (Some(connection), Arc::clone(&self.idle));
        Ok(Pooled { connection, asked: false, idle, _permit: permit })
    }

    /// Returns an idle connection that is not broken. Drops broken ones.
    fn idle(&self) -> Option<Box<dyn Connection>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::from_fn(|| idle.pop()).find_map(|mut one| one.reusable().then_some(one))
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.database.name();
        f.debug_struct("Pool").field("database", &name).field("most", &self.most).finish()
    }
}

impl Database for Pool {
    database_methods!(database: name level spans executes check_operations user commit_replica learn);

    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, StoreError>> {
        Box::pin(async { Ok(Box::new(self.take().await?) as Box<dyn Connection>) })
    }
}

/// A connection that returns to the pool when it is dropped.
struct Pooled {
    /// The connection; present until the drop.
    connection: Option<Box<dyn Connection>>,
    /// Whether an answer is outstanding that is no longer awaited.
    asked: bool,
    idle: Idle,
    /// Dropped last, after the connection has returned.
    _permit: OwnedSemaphorePermit,
}

impl Pooled {
    fn ask<'a, T: 'a>(
        &'a mut self,
        ask: impl FnOnce(&'a mut dyn Connection) -> BoxFuture<'a, T>,
    ) -> BoxFuture<'a, T> {
        let connection = self.connection.as_deref_mut().expect("it is present until the drop");
        let (asked, answer) = (&mut self.asked, ask(connection));
        Box::pin(async move {
            *asked = true;
            let answer = answer.await;
            *asked = false;
            answer
        })
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        if let Some(mut connection) = self.connection.take()
            && !self.asked
            && connection.reusable()
        {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
    }
}

macro_rules! ask {
    ($self:ident, $method:ident $(, $argument:ident)?) => {
        $self.ask(|own| own.$method($($argument)?))
    };
}

impl Connection for Pooled {
    connection_methods!(ask: begin perform custom commit execute certify abort list sees horizon);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use solera_levels::Level;
    use solera_mixt::store::{Answer, Begin, Fields, Horizon, List, NameWrite, ObjectCall};

    use super::*;

    /// A database that counts its connections, which are reusable unless a transaction is open.
    #[derive(Default)]
    struct Counting {
        opened: AtomicUsize,
        broken: Arc<AtomicUsize>,
    }

    struct Counted {
        open: bool,
        /// The connection is broken if this is not 0.
        broken: Arc<AtomicUsize>,
    }

    impl Database for Counting {
        fn name(&self) -> Arc<str> {
            "counting".into()
        }

        fn spans(&self, _one: &str, _other: &str) -> bool {
            true
        }

        fn level(&self, _space: &str) -> Option<Level> {
            None
        }

        fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, StoreError>> {
            self.opened.fetch_add(1, Ordering::Relaxed);
            let counted = Counted { open: false, broken: self.broken.clone() };
            Box::pin(std::future::ready(Ok(Box::new(counted) as Box<dyn Connection>)))
        }
    }

    impl Connection for Counted {
        fn begin<'a>(
            &'a mut self,
            _begin: &'a Begin,
        ) -> BoxFuture<'a, Result<Vec<Fields>, StoreError>> {
            self.open = true;
            Box::pin(std::future::ready(Ok(Vec::new())))
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
            self.open = false;
            Box::pin(std::future::ready(Ok(())))
        }

        fn certify(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
            self.open = false;
            Box::pin(std::future::ready(Ok(())))
        }

        fn abort(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
            self.open = false;
            Box::pin(std::future::ready(Ok(())))
        }

        fn list<'a>(
            &'a mut self,
            _list: &'a List,
        ) -> BoxFuture<'a, Result<Vec<Arc<str>>, StoreError>> {
            Box::pin(std::future::ready(Ok(Vec::new())))
        }

        fn horizon(&mut self) -> BoxFuture<'_, Result<Option<Horizon>, StoreError>> {
            Box::pin(std::future::pending())
        }

        fn reusable(&mut self) -> bool {
            !self.open && self.broken.load(Ordering::Relaxed) == 0
        }
    }

    #[tokio::test]
    async fn a_connection_is_used_again_once_its_transaction_is_over() {
        let counting = Arc::new(Counting::default());
        let pool = Pool::new(counting.clone(), 3, Duration::from_secs(60));
        let opened = || counting.opened.load(Ordering::Relaxed);
        let begin = Begin::default();
        for _ in 0..5 {
            let mut one = pool.connect().await.unwrap();
            one.begin(&begin).await.unwrap();
            one.commit(&[]).await.unwrap();
        }
        assert_eq!(opened(), 1);
        // Concurrent callers get separate connections. The one with an open transaction is not
        // kept.
        let mut one = pool.connect().await.unwrap();
        let other = pool.connect().await.unwrap();
        assert_eq!(opened(), 2);
        one.begin(&begin).await.unwrap();
        drop((one, other));
        drop(pool.connect().await.unwrap());
        assert_eq!(opened(), 2);
        let (_one, _other) = (pool.connect().await.unwrap(), pool.connect().await.unwrap());
        assert_eq!(opened(), 3);
    }

    #[tokio::test]
    async fn a_connection_whose_answer_was_not_awaited_is_not_kept() {
        let counting = Arc::new(Counting::default());
        let pool = Pool::new(counting.clone(), 3, Duration::from_secs(60));
        let mut one = pool.connect().await.unwrap();
        let mut asked = one.horizon();
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(asked.as_mut().poll(&mut context).is_pending());
        drop(asked);
        drop(one);
        drop(pool.connect().await.unwrap());
        assert_eq!(counting.opened.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn a_connection_that_breaks_while_idle_is_not_given_out() {
        let counting = Arc::new(Counting::default());
        let pool = Pool::new(counting.clone(), 3, Duration::from_secs(60));
        drop(pool.connect().await.unwrap());
        counting.broken.store(1, Ordering::Relaxed);
        drop(pool.connect().await.unwrap());
        assert_eq!(counting.opened.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn waiting_times_out_and_returned_connections_are_reused() {
        let pool = Pool::new(Arc::new(Counting::default()), 1, Duration::from_millis(70));
        let one = pool.connect().await.unwrap();
        let error = pool.connect().await.err().unwrap().to_string();
        assert!(error.ends_with("all 1 connections to it were in use for 70 ms"), "{error}");
        let (waiting, ()) = tokio::join!(pool.connect(), async { drop(one) });
        assert!(waiting.is_ok());
    }
}

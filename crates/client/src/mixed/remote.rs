//! A remote database whose phases a nearby cluster runs (MixT §7.2).

use std::sync::Arc;

use solera_mixt::remote_group::{RemoteGroup, RemoteReplies};
use solera_mixt::store::{Begin, BoxFuture, Connection, Database, Fields, NameWrite, StoreError};
use solera_mixt::{connection_methods, database_methods};
use solera_spaces::SpacesSession;

use super::Spaces;
use super::link::Link;

/// A remote database with a cluster near it. The cluster's configuration declares the database as a
/// `[[store]]` of the same name. The cluster runs groups of phases, each in one round trip of the
/// client. All other requests go to the database itself.
#[derive(Clone)]
pub struct Remote {
    database: Arc<dyn Database>,
    beside: Spaces,
}

impl Remote {
    /// Creates the database from the cluster beside it, which must be
    /// [executing](Spaces::executing).
    pub fn new(database: Arc<dyn Database>, beside: Spaces) -> Remote {
        Remote { database, beside }
    }
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.database.name();
        f.debug_struct("Remote").field("database", &name).field("beside", &self.beside).finish()
    }
}

impl Database for Remote {
    database_methods!(database: name level spans check_operations commit_replica);

    fn executes(&self) -> bool {
        self.beside.executes()
    }

    fn learn(&self, module: &str, source: &str) {
        // The cluster runs the phases. The database may also need the source.
        self.beside.learn(module, source);
        self.database.learn(module, source);
    }

    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, StoreError>> {
        Box::pin(async {
            let session = self.beside.session_over(self.beside.link());
            let (database, direct) = (Arc::clone(&self.database), None);
            let remote = RemoteSession { database, direct, session, doubt: false };
            Ok(Box::new(remote) as Box<dyn Connection>)
        })
    }
}

/// A session with the database, opened when needed, and one with the cluster.
struct RemoteSession {
    database: Arc<dyn Database>,
    direct: Option<Box<dyn Connection>>,
    session: SpacesSession<Link>,
    /// Whether the outcome of the last transaction at the database itself is unknown.
    doubt: bool,
}

impl RemoteSession {
    async fn direct(&mut self) -> Result<&mut Box<dyn Connection>, StoreError> {
        match &mut self.direct {
            Some(direct) => Ok(direct),
            closed => Ok(closed.insert(self.database.connect().await?)),
        }
    }
}

macro_rules! direct {
    ($self:ident, $method:ident $(, $argument:ident)?) => {
        Box::pin(async { $self.direct().await?.$method($($argument)?).await })
    };
}

impl Connection for RemoteSession {
    connection_methods!(direct: perform custom certify list sees horizon);

    fn begin<'a>(&'a mut self, begin: &'a Begin) -> BoxFuture<'a, Result<Vec<Fields>, StoreError>> {
        Box::pin(async {
            // Phases whose answer was lost may still run.
            self.session.resolve().await?;
            let begun = self.direct().await?.begin(begin).await?;
            self.doubt = false;
            Ok(begun)
        })
    }

    fn commit<'a>(&'a mut self, writes: &'a [NameWrite]) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async {
            let committed = self.direct().await?.commit(writes).await;
            self.doubt = matches!(committed, Err(StoreError::OutcomeUnknown(_)));
            committed
        })
    }

    fn execute<'a>(
        &'a mut self,
        remote_group: &'a RemoteGroup,
    ) -> BoxFuture<'a, Result<RemoteReplies, StoreError>> {
        Box::pin(async {
            if self.doubt {
                // The database begins a transaction only once that outcome is known.
                self.direct().await?.begin(&Begin::default()).await?;
                self.doubt = false;
            }
            if let Some(direct) = &mut self.direct {
                direct.abort().await?;
            }
            Connection::execute(&mut self.session, remote_group).await
        })
    }

    fn abort(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async {
            match &mut self.direct {
                Some(direct) => direct.abort().await,
                None => Ok(()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use solera_levels::Level;
    use solera_program::ir::Program;
    use solera_program::types::StoreId;

    use super::*;

    /// A database whose answers differ from the trait's defaults.
    #[derive(Default)]
    struct Odd(Mutex<Vec<String>>);

    impl Database for Odd {
        fn name(&self) -> Arc<str> {
            "odd".into()
        }

        fn spans(&self, _one: &str, _other: &str) -> bool {
            false
        }

        fn level(&self, _space: &str) -> Option<Level> {
            Some(Level::Causal)
        }

        fn check_operations<'a>(
            &'a self,
            _program: &'a Program,
            _store: StoreId,
            space: &'a str,
        ) -> BoxFuture<'a, Result<(), StoreError>> {
            Box::pin(std::future::ready(Err(StoreError::Refused(space.to_owned()))))
        }

        fn commit_replica(&self) -> Option<Arc<str>> {
            Some("here".into())
        }

        fn learn(&self, module: &str, source: &str) {
            self.0.lock().unwrap().push(format!("{module} {source}"));
        }

        fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, StoreError>> {
            Box::pin(std::future::ready(Err(StoreError::Missing)))
        }
    }

    #[tokio::test]
    async fn other_requests_are_passed_to_the_database() {
        let odd = Arc::new(Odd::default());
        let nowhere = || -> BoxFuture<'static, _> {
            Box::pin(std::future::ready(Err(std::io::Error::other("nowhere").into())))
        };
        let layout = solera_spaces::Layout::new(Vec::new());
        let named = ("beside", "default".into());
        let beside = Spaces::known(named, Arc::new(nowhere), layout).executing([]);
        let sources = beside.sources.clone().unwrap();
        let remote = Remote::new(odd.clone(), beside);
        assert_eq!((remote.name(), remote.commit_replica()), (odd.name(), odd.commit_replica()));
        assert_eq!(remote.level("any"), Some(Level::Causal));
        let program = solera_language::compile::compile("store s : causal;").program.unwrap();
        let checked = remote.check_operations(&program, StoreId(0), "any").await;
        assert_eq!(checked, Err(StoreError::Refused("any".to_owned())));
        remote.learn("m", "source");
        assert_eq!(*odd.0.lock().unwrap(), ["m source"]);
        assert_eq!(sources.read().unwrap().get("m").map(|source| &**source), Some("source"));
    }
}

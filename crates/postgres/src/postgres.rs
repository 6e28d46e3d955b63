//! The database.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use solera_levels::Level;
use solera_mixt::store::{BoxFuture, Connection, Database, StoreError};
use solera_program::ir::Program;
use solera_program::types::StoreId;
use tokio::sync::OnceCell;
use tokio_postgres::Client;

use crate::custom::{self, CheckError};
use crate::link::{self, Link};
use crate::schema::Sql;
use crate::session::PostgresSession;
use crate::shared::{Server, Shared};

/// A database of a PostgreSQL server. Clones are the same database.
#[derive(Clone)]
pub struct Postgres {
    shared: Arc<Shared>,
}

impl Postgres {
    pub(crate) fn new(
        server: Server,
        name: &str,
        schema: &str,
        reply_timeout: Duration,
        spaces: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Arc<str>>>,
    ) -> Postgres {
        let (name, sql) = (name.into(), Sql::new(schema));
        let created = OnceCell::new();
        let shared = Shared { server, name, sql, reply_timeout, spaces, created };
        Postgres { shared: Arc::new(shared) }
    }

    /// Opens a connection that Solera does not use, for example to create tables, with the settings
    /// of all others.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub async fn client(&self) -> Result<Client, StoreError> {
        let (client, _) = link::connect(&self.shared).await?;
        Ok(client)
    }

    /// Checks that the statements of a space match all custom operations that a store declares, as
    /// [`Database::check_operations`] does, with a more specific error.
    ///
    /// # Errors
    /// The first mismatch, or the error of the server.
    pub async fn check(
        &self,
        program: &Program,
        store: &str,
        space: &str,
    ) -> Result<(), CheckError> {
        let found = program.stores.iter().find(|found| *found.name == *store);
        let declared = found.ok_or_else(|| CheckError::NoStore(store.to_owned()))?;
        let link = Link::open(&self.shared).await.map_err(CheckError::Unreachable)?;
        for operation in &declared.operations {
            let bound = link.custom(space, &operation.name);
            if let Err(problem) = custom::check(program, operation, bound) {
                let (store, operation) = (store.to_owned(), operation.name.to_string());
                return Err(CheckError::Operation { store, operation, problem });
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL is left out, because it may contain a password.
        f.debug_struct("Postgres").field("name", &self.shared.name).finish_non_exhaustive()
    }
}

impl Database for Postgres {
    fn name(&self) -> Arc<str> {
        Arc::clone(&self.shared.name)
    }

    fn spans(&self, _one: &str, _other: &str) -> bool {
        true
    }

    fn level(&self, space: &str) -> Option<Level> {
        self.shared.spaces.contains_key(space).then_some(Level::Linearizable)
    }

    fn check_operations<'a>(
        &'a self,
        program: &'a Program,
        store: StoreId,
        space: &'a str,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let declared = &program.stores[usize::from(store.0)];
            // The server of a store without operations need not be reachable.
            if declared.operations.is_empty() {
                return Ok(());
            }
            self.check(program, &declared.name, space).await.map_err(|error| match error {
                CheckError::Unreachable(error) => error,
                other => StoreError::Refused(other.to_string()),
            })
        })
    }

    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, StoreError>> {
        Box::pin(async {
            let link = Link::open(&self.shared).await?;
            let session = PostgresSession::new(Arc::clone(&self.shared), link);
            Ok(Box::new(session) as Box<dyn Connection>)
        })
    }
}

//! A connection to the server, with its prepared statements.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use futures_util::future::join_all;
use solera_mixt::store::StoreError;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Connection, NoTls, Statement};

use crate::custom::Bound;
use crate::failure::RequestError;
use crate::schema::{self, Unusable};
use crate::shared::Shared;
use crate::statement::{Params, Rows};
use crate::tls::Connector;

pub(crate) struct Link {
    client: Client,
    reply_timeout: Duration,
    prepared: BTreeMap<String, Statement>,
    /// Statements of custom operations, by space and name.
    custom: BTreeMap<(Arc<str>, Arc<str>), Bound>,
    /// Sends and receives. The task ends after the client is dropped, when the server has closed
    /// the connection.
    task: JoinHandle<()>,
}

impl Link {
    /// Connects, creates the tables if they are missing, and prepares the custom operations.
    pub(crate) async fn open(shared: &Shared) -> Result<Link, StoreError> {
        let (client, task) = connect(shared).await?;
        let (prepared, custom) = (BTreeMap::new(), BTreeMap::new());
        let reply_timeout = shared.reply_timeout;
        let mut link = Link { client, reply_timeout, prepared, custom, task };
        let create = || async {
            let limit = Duration::from_secs(60).max(reply_timeout);
            let created = tokio::time::timeout(limit, schema::create(&link.client, &shared.sql));
            created.await.unwrap_or(Err(Unusable::Request(RequestError::Slow(limit))))
        };
        shared.created.get_or_try_init(create).await.map_err(|unusable| match unusable {
            Unusable::Request(failure) => match failure.to_store_error() {
                error @ (StoreError::Refused(_) | StoreError::Denied(_)) => {
                    error.refused_with(|why| format!("its tables cannot be created or read: {why}"))
                }
                // Another host may be creating the tables at the moment.
                other => StoreError::Unavailable(other.to_string()),
            },
            Unusable::OtherFormat { schema, found } => StoreError::Refused(format!(
                "the tables in the schema `{schema}` are of another version of Solera ({})",
                found.map_or("unknown".to_owned(), |found| found.to_string())
            )),
        })?;
        link.prepare_custom(shared).await?;
        Ok(link)
    }

    /// Prepares the custom operations. An operation whose statement cannot be prepared fails when
    /// it is called, because the others do not depend on it.
    async fn prepare_custom(&mut self, shared: &Shared) -> Result<(), StoreError> {
        let spaces = shared.spaces.iter();
        let all: Vec<_> = spaces
            .flat_map(|(space, of)| of.iter().map(move |(name, sql)| (space, name, sql)))
            .collect();
        let preparing = all.iter().map(|(.., sql)| self.client.prepare(sql));
        let done = async { Ok::<_, tokio_postgres::Error>(join_all(preparing).await) };
        let prepared =
            bounded(done, self.reply_timeout).await.map_err(|failure| failure.to_store_error())?;
        for ((space, name, sql), prepared) in all.into_iter().zip(prepared) {
            let statement =
                match prepared.map_err(|error| RequestError::from(error).to_store_error()) {
                    Err(error @ (StoreError::Refused(_) | StoreError::Denied(_))) => Err(error),
                    other => Ok(other?),
                };
            let bound = Bound::new(sql, statement);
            self.custom.insert((Arc::clone(space), Arc::clone(name)), bound);
        }
        Ok(())
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Returns the statement of a custom operation.
    pub(crate) fn custom(&self, space: &str, operation: &str) -> Option<&Bound> {
        self.custom.get(&(space.into(), operation.into()))
    }

    /// Returns a statement, and prepares it at its first use.
    pub(crate) async fn statement(&mut self, sql: &str) -> Result<Statement, RequestError> {
        if let Some(statement) = self.prepared.get(sql) {
            return Ok(statement.clone());
        }
        let statement = bounded(self.client.prepare(sql), self.reply_timeout).await?;
        self.prepared.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Sends all statements at once, and returns the answers in order. On an error, returns the
    /// first one with the index of the statement that failed.
    pub(crate) async fn pipeline(
        &mut self,
        statements: Vec<(Statement, Params<'_>)>,
    ) -> Result<Vec<Rows>, (usize, RequestError)> {
        let all = statements.iter().map(|(statement, params)| one(&self.client, statement, params));
        let done = async { Ok::<_, tokio_postgres::Error>(join_all(all).await) };
        let answers = bounded(done, self.reply_timeout).await.map_err(|failure| (0, failure))?;
        let mut rows = Vec::with_capacity(answers.len());
        for (at, answer) in answers.into_iter().enumerate() {
            rows.push(answer.map_err(|error| (at, error.into()))?);
        }
        Ok(rows)
    }

    /// Sends these statements at once, each by its text.
    pub(crate) async fn send(
        &mut self,
        statements: Vec<(&str, Params<'_>)>,
    ) -> Result<Vec<Rows>, (usize, RequestError)> {
        let mut prepared = Vec::with_capacity(statements.len());
        for (sql, params) in statements {
            prepared.push((self.statement(sql).await.map_err(|failure| (0, failure))?, params));
        }
        self.pipeline(prepared).await
    }

    /// Closes the connection to a server that does not answer, without ending the session.
    pub(crate) fn cut(self) {
        self.task.abort();
    }
}

/// Connects, and spawns a task for the connection. The task ends after the client is dropped, when
/// the server has closed the connection.
pub(crate) async fn connect(shared: &Shared) -> Result<(Client, JoinHandle<()>), StoreError> {
    let (server, limit) = (&shared.server, shared.reply_timeout);
    let connected = match &server.tls {
        None => bounded(server.config.connect(NoTls), limit).await.map(spawn),
        Some(tls) => {
            let connector = Connector(tls.clone());
            bounded(server.config.connect(connector), limit).await.map(spawn)
        }
    };
    // Another attempt may succeed after any of these errors, even after a wrong password.
    connected.map_err(|failure| StoreError::Unavailable(format!("{}: {failure}", server.address)))
}

fn spawn<S, T>((client, connection): (Client, Connection<S, T>)) -> (Client, JoinHandle<()>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let task = tokio::spawn(async move {
        // Requests that wait for answers receive the error.
        let _ = connection.await;
    });
    (client, task)
}

async fn one(
    client: &Client,
    statement: &Statement,
    params: &Params<'_>,
) -> Result<Rows, tokio_postgres::Error> {
    let mut stream = std::pin::pin!(client.query_raw(statement, params.iter().copied()).await?);
    let mut rows = Vec::new();
    while let Some(row) = stream.try_next().await? {
        rows.push(row);
    }
    Ok(Rows { rows, affected: stream.rows_affected().unwrap_or(0) })
}

async fn bounded<T>(
    asked: impl Future<Output = Result<T, tokio_postgres::Error>>,
    limit: Duration,
) -> Result<T, RequestError> {
    match tokio::time::timeout(limit, asked).await {
        Ok(answer) => answer.map_err(RequestError::Server),
        Err(_) => Err(RequestError::Slow(limit)),
    }
}

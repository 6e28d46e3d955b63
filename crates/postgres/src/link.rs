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
use crate::failure::Trouble;
use crate::schema::{self, Unusable};
use crate::shared::Shared;
use crate::statement::{Params, Rows};
use crate::tls::Connector;

pub(crate) struct Link {
    client: Client,
    reply_timeout: Duration,
    prepared: BTreeMap<String, Statement>,
    /// Those of custom operations, by space and name.
    custom: BTreeMap<(Arc<str>, Arc<str>), Bound>,
    /// Sends and receives. It ends with the client, if the server lets it.
    task: JoinHandle<()>,
}

impl Link {
    /// Connects, creates the tables if it is the first to do so, and prepares the custom
    /// operations.
    pub(crate) async fn open(shared: &Shared) -> Result<Link, StoreError> {
        let (client, task) = connect(shared).await?;
        let (prepared, custom) = (BTreeMap::new(), BTreeMap::new());
        let reply_timeout = shared.reply_timeout;
        let mut link = Link { client, reply_timeout, prepared, custom, task };
        let create = || async {
            let limit = Duration::from_secs(60).max(reply_timeout);
            let created = tokio::time::timeout(limit, schema::create(&link.client, &shared.sql));
            created.await.unwrap_or(Err(Unusable::Trouble(Trouble::Slow(limit))))
        };
        shared.created.get_or_try_init(create).await.map_err(|unusable| match unusable {
            Unusable::Trouble(trouble) => match trouble.told() {
                error @ (StoreError::Refused(_) | StoreError::Denied(_)) => {
                    error.refused_with(|why| format!("its tables cannot be created or read: {why}"))
                }
                // Somebody else creates them.
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

    /// One that cannot be prepared is told when it is used: the others do not depend on it.
    async fn prepare_custom(&mut self, shared: &Shared) -> Result<(), StoreError> {
        let spaces = shared.spaces.iter();
        let all: Vec<_> = spaces
            .flat_map(|(space, of)| of.iter().map(move |(name, sql)| (space, name, sql)))
            .collect();
        let preparing = all.iter().map(|(.., sql)| self.client.prepare(sql));
        let done = async { Ok::<_, tokio_postgres::Error>(join_all(preparing).await) };
        let prepared = bounded(done, self.reply_timeout).await.map_err(|trouble| trouble.told())?;
        for ((space, name, sql), prepared) in all.into_iter().zip(prepared) {
            let statement = match prepared.map_err(|error| Trouble::from(error).told()) {
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

    /// The statement of a custom operation.
    pub(crate) fn custom(&self, space: &str, operation: &str) -> Option<&Bound> {
        self.custom.get(&(space.into(), operation.into()))
    }

    /// A statement, which is prepared when it is used first.
    pub(crate) async fn statement(&mut self, sql: &str) -> Result<Statement, Trouble> {
        if let Some(statement) = self.prepared.get(sql) {
            return Ok(statement.clone());
        }
        let statement = bounded(self.client.prepare(sql), self.reply_timeout).await?;
        self.prepared.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Sends all at once, and gives the answers in order up to the first error; with it, the number
    /// of the statement that failed.
    pub(crate) async fn pipeline(
        &mut self,
        statements: Vec<(Statement, Params<'_>)>,
    ) -> Result<Vec<Rows>, (usize, Trouble)> {
        let all = statements.iter().map(|(statement, params)| one(&self.client, statement, params));
        let done = async { Ok::<_, tokio_postgres::Error>(join_all(all).await) };
        let answers = bounded(done, self.reply_timeout).await.map_err(|trouble| (0, trouble))?;
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
    ) -> Result<Vec<Rows>, (usize, Trouble)> {
        let mut prepared = Vec::with_capacity(statements.len());
        for (sql, params) in statements {
            prepared.push((self.statement(sql).await.map_err(|trouble| (0, trouble))?, params));
        }
        self.pipeline(prepared).await
    }

    /// Gives a connection up that does not answer: it is closed without a word.
    pub(crate) fn cut(self) {
        self.task.abort();
    }
}

/// Connects, and leaves the connection to a task that ends with the client, if the server lets it.
pub(crate) async fn connect(shared: &Shared) -> Result<(Client, JoinHandle<()>), StoreError> {
    let (server, limit) = (&shared.server, shared.reply_timeout);
    let connected = match &server.tls {
        None => bounded(server.config.connect(NoTls), limit).await.map(spawn),
        Some(tls) => {
            let connector = Connector(tls.clone());
            bounded(server.config.connect(connector), limit).await.map(spawn)
        }
    };
    // Whatever it is, a password that is wrong, a server that starts: another attempt may succeed.
    connected.map_err(|trouble| StoreError::Unavailable(format!("{}: {trouble}", server.address)))
}

fn spawn<S, T>((client, connection): (Client, Connection<S, T>)) -> (Client, JoinHandle<()>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let task = tokio::spawn(async move {
        // How it ends, those learn who wait for answers.
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
) -> Result<T, Trouble> {
    match tokio::time::timeout(limit, asked).await {
        Ok(answer) => answer.map_err(Trouble::Server),
        Err(_) => Err(Trouble::Slow(limit)),
    }
}

//! State that all sessions with a database share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use solera_tls::Tls;
use tokio::sync::OnceCell;
use tokio_postgres::Config;

use crate::schema::Sql;

/// State that all sessions with a database share.
pub(crate) struct Shared {
    pub(crate) server: Server,
    pub(crate) name: Arc<str>,
    pub(crate) sql: Sql,
    pub(crate) reply_timeout: Duration,
    /// Statements of custom operations, by space and name.
    pub(crate) spaces: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Arc<str>>>,
    /// Set once the schema is known to exist.
    pub(crate) created: OnceCell<()>,
}

/// Address and settings of the server.
pub(crate) struct Server {
    pub(crate) config: Config,
    /// Address for messages.
    pub(crate) address: String,
    /// Settings of TLS; `None` without TLS.
    pub(crate) tls: Option<Tls>,
}

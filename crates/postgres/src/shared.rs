//! What all sessions with a database share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use solera_tls::Tls;
use tokio::sync::OnceCell;
use tokio_postgres::Config;

use crate::schema::Sql;

/// What all sessions share.
pub(crate) struct Shared {
    pub(crate) server: Server,
    pub(crate) name: Arc<str>,
    pub(crate) sql: Sql,
    pub(crate) reply_timeout: Duration,
    /// The statements of custom operations, by space and name.
    pub(crate) spaces: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Arc<str>>>,
    /// Set when the schema is known to be there.
    pub(crate) created: OnceCell<()>,
}

/// Where the server is, and how it is spoken with.
pub(crate) struct Server {
    pub(crate) config: Config,
    /// For people.
    pub(crate) address: String,
    /// Without it, TLS is not spoken.
    pub(crate) tls: Option<Tls>,
}

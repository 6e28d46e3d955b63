//! Builder of a PostgreSQL database.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use solera_tls::Files;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::config_error::{ConfigError, MAX_SPACE};
use crate::custom::statement_kind;
use crate::failure::cause;
use crate::postgres::Postgres;
use crate::shared::Server;
use crate::tls;

/// Time limit for opening a connection, unless the URL has a `connect_timeout`.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for one answer, unless [`Builder::reply_timeout`] changes it.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);
/// Settings of our sessions. The URL's `options` follow and may override them.
///
/// In serializable transactions a sequential scan conflicts with all writers of the table, so
/// sessions read even small tables by an index. If a host dies, its open transactions end after a
/// minute, and do not hold their locks for hours.
const OPTIONS: &str = "-c enable_seqscan=off -c idle_in_transaction_session_timeout=60s";

/// Configures the spaces of a PostgreSQL database, and the statements of their custom operations.
#[derive(Clone)]
pub struct Builder {
    url: String,
    name: String,
    schema: String,
    password: Option<String>,
    files: Option<Files>,
    reply_timeout: Duration,
    spaces: Vec<(String, Vec<(String, String)>)>,
    misplaced: Option<String>,
}

impl Builder {
    pub(crate) fn new(url: &str) -> Builder {
        Builder {
            url: url.to_owned(),
            name: "postgres".to_owned(),
            schema: "solera".to_owned(),
            password: None,
            files: None,
            reply_timeout: REPLY_TIMEOUT,
            spaces: Vec::new(),
            misplaced: None,
        }
    }

    /// Sets the database's name in places, the same on all hosts that use it. Default: `postgres`.
    pub fn name(mut self, name: &str) -> Builder {
        name.clone_into(&mut self.name);
        self
    }

    /// Sets the schema for objects, witnesses and records, which is created if it is missing.
    /// Default: `solera`.
    pub fn schema(mut self, schema: &str) -> Builder {
        schema.clone_into(&mut self.schema);
        self
    }

    /// Sets the password. It takes precedence over one in the URL.
    pub fn password(mut self, password: &str) -> Builder {
        self.password = Some(password.to_owned());
        self
    }

    /// Uses TLS with these files. If the URL has no `sslmode`, it is `verify-full` with files, and
    /// `disable` without.
    pub fn tls(mut self, files: Files) -> Builder {
        self.files = Some(files);
        self
    }

    /// Sets the time limit for one answer; a connection that exceeds it is closed. Default: 30 s.
    pub fn reply_timeout(mut self, timeout: Duration) -> Builder {
        self.reply_timeout = timeout;
        self
    }

    /// Adds a space.
    pub fn space(mut self, space: &str) -> Builder {
        self.spaces.push((space.to_owned(), Vec::new()));
        self
    }

    /// Adds a custom operation to the last space: one statement, whose parameters `$1`, `$2`, … are
    /// those of the operation in order.
    pub fn operation(mut self, operation: &str, sql: &str) -> Builder {
        match self.spaces.last_mut() {
            Some((_, operations)) => operations.push((operation.to_owned(), sql.to_owned())),
            None => self.misplaced = Some(operation.to_owned()),
        }
        self
    }

    /// Creates the database. This opens no connection.
    ///
    /// # Errors
    /// If the configuration is invalid.
    pub fn build(self) -> Result<Postgres, ConfigError> {
        let (url, mode) = tls::take_mode(&self.url);
        let mut config: Config = url.parse().map_err(|error| ConfigError::Url(cause(&error)))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(ConfigError::Url("it names no host".to_owned()));
        }
        let (mode, tls) = tls::choose(mode.as_deref(), self.files.as_ref())?;
        config.ssl_mode(mode);
        if let Some(password) = &self.password {
            config.password(password);
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        let options = match config.get_options() {
            Some(more) => format!("{OPTIONS} {more}"),
            None => OPTIONS.to_owned(),
        };
        config.options(options);
        if config.get_application_name().is_none() {
            config.application_name("solera");
        }
        if let Some(operation) = self.misplaced {
            return Err(ConfigError::OperationWithoutSpace(operation));
        }
        // PostgreSQL truncates longer names.
        if self.schema.is_empty() || self.schema.len() > 63 || self.schema.contains('\0') {
            return Err(ConfigError::Schema(self.schema));
        }
        let mut spaces = BTreeMap::new();
        for (space, operations) in self.spaces {
            if space.is_empty() || space.len() > MAX_SPACE || space.contains('\0') {
                return Err(ConfigError::Space(space));
            }
            let mut statements: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
            for (operation, sql) in operations {
                if let Err(begins) = statement_kind(&sql) {
                    return Err(ConfigError::Statement { space, operation, begins });
                }
                let twice = statements.insert(operation.as_str().into(), sql.into()).is_some();
                if twice {
                    return Err(ConfigError::OperationTwice { space, operation });
                }
            }
            if spaces.insert(Arc::from(space.as_str()), statements).is_some() {
                return Err(ConfigError::SpaceTwice(space));
            }
        }
        let server = Server { address: address(&config), config, tls };
        Ok(Postgres::new(server, &self.name, &self.schema, self.reply_timeout, spaces))
    }
}

/// Returns the server's address for messages.
fn address(config: &Config) -> String {
    let hosts: Vec<_> = match config.get_hosts() {
        [] => config.get_hostaddrs().iter().map(ToString::to_string).collect(),
        hosts => hosts.iter().map(host).collect(),
    };
    let ports = config.get_ports();
    let one = |(number, host): (usize, String)| {
        let port = ports.get(number).or(ports.first()).unwrap_or(&5432);
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    };
    hosts.into_iter().enumerate().map(one).collect::<Vec<_>>().join(", ")
}

fn host(host: &Host) -> String {
    match host {
        Host::Tcp(name) => name.clone(),
        #[cfg(unix)]
        Host::Unix(path) => path.display().to_string(),
    }
}

impl Postgres {
    /// Creates a builder for a database by its URL, as
    /// `postgresql://user:password@host:5432/database`. Connections are encrypted only if its
    /// `sslmode` or [`Builder::tls`] requires it.
    pub fn builder(url: &str) -> Builder {
        Builder::new(url)
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL is left out, because it may contain a password.
        let mut shown = f.debug_struct("Builder");
        shown.field("name", &self.name).field("schema", &self.schema);
        shown.field("spaces", &self.spaces).finish_non_exhaustive()
    }
}

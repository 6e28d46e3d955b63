//! Solera's spaces as stores of mixed transactions.
//!
//! A [`Spaces`] is a cluster as one database. Its spaces are those of `solera.toml`, and one
//! transaction may use several of them, so that strong and causal writes take effect together.
//! Objects are stored as Redis types that other clients read and write too; `docs/guide/modules.md`
//! lists them.
//!
//! In a space of level `por`, reads are certified only where the configuration declares that they
//! conflict with writes of others, so a transaction there is not serializable by itself. Stores
//! declared `linearizable` are never bound to such spaces. Stores declared `por` should name in
//! `conflicts` whatever must not happen concurrently.
//!
//! The elements of a list or log are ordered by the clocks of the processes that appended them.
//! Witnesses and records of transactions are stored in the space that they belong to, under keys
//! that begin with [`RESERVED`] after the space's prefix. Handles must not lead to such keys.

/// Body of a method of a database that passes the call on to its field `database`.
macro_rules! database {
    ($self:ident, $method:ident $(, $argument:ident)*) => {
        $self.database.$method($($argument),*)
    };
}

mod cluster;
mod link;
mod pool;
mod remote;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};

use solera_levels::Level;
use solera_mixt::store::{BoxFuture, Connection, Database, StoreError};
use solera_resp::Value;
use solera_spaces::{Layout, SpacesSession};
pub use solera_spaces::{RESERVED, Space, System, UNKNOWN_MODULE, digest};

pub use self::cluster::Cluster;
use self::link::Link;
pub use self::pool::Pool;
pub use self::remote::Remote;
use crate::client::Client;
use crate::error::Error;

/// Callback that opens a session.
pub type Connect = Arc<dyn Fn() -> BoxFuture<'static, Result<Client, Error>> + Send + Sync>;

/// The spaces of a cluster as a database of mixed transactions, used at one site. The database has
/// the name of the cluster (`cluster` in `solera.toml`), so that all hosts give it the same name.
/// Clusters that are used together must have different names.
#[derive(Clone)]
pub struct Spaces {
    name: Arc<str>,
    connect: Connect,
    /// User that sessions act as.
    user: Arc<str>,
    layout: Layout,
    /// Sources of modules by name, if the cluster is to run their phases.
    sources: Option<Sources>,
}

/// Sources of modules by name. More can be added.
pub(crate) type Sources = Arc<RwLock<BTreeMap<Arc<str>, Arc<str>>>>;

impl Spaces {
    /// Reads the spaces of a cluster. `connect` opens sessions, and replaces broken ones.
    ///
    /// # Errors
    /// No session can be opened, or the cluster does not report its spaces.
    pub async fn of(
        connect: impl Fn() -> BoxFuture<'static, Result<Client, Error>> + Send + Sync + 'static,
    ) -> Result<Spaces, Error> {
        let (mut client, spaces) = ask(connect().await?).await?;
        let user = user_of(&mut client).await;
        Ok(Spaces::known((client.cluster(), user), Arc::new(connect), Layout::new(spaces)))
    }

    /// Reads the spaces of a cluster from a site with this address.
    ///
    /// # Errors
    /// See [`Spaces::of`].
    pub async fn at(address: SocketAddr) -> Result<Spaces, Error> {
        Spaces::of(move || Box::pin(Client::connect(address))).await
    }

    /// Creates a database of spaces that the caller knows, used as a user.
    fn known((name, user): (&str, Arc<str>), connect: Connect, layout: Layout) -> Spaces {
        Spaces { name: name.into(), connect, user, layout, sources: None }
    }

    /// Makes the cluster run groups of phases by SOLERA.PHASE, in one round trip each. A module's
    /// name must be the [`digest`] of its source. A site that does not know a module receives its
    /// source once. If a site runs no modules, requests are sent one by one.
    ///
    /// The user of the sessions needs the right `solera.phase`, with or without this setting,
    /// because transactions keep records under reserved keys.
    pub fn executing<'s>(mut self, sources: impl IntoIterator<Item = &'s str>) -> Spaces {
        let named = sources.into_iter().map(|source| (digest(source).into(), source.into()));
        self.sources = Some(Arc::new(RwLock::new(named.collect())));
        self
    }

    fn link(&self) -> Link {
        Link::new(self.connect.clone(), self.sources.clone())
    }

    fn session_over(&self, link: Link) -> SpacesSession<Link> {
        SpacesSession::new(link, Some(self.user.clone()), self.layout.clone())
    }

    /// Returns the names of the spaces.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.layout.spaces().iter().map(|space| &*space.name)
    }
}

impl fmt::Debug for Spaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Spaces").field(&self.layout.spaces()).finish()
    }
}

impl Database for Spaces {
    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn spans(&self, one: &str, other: &str) -> bool {
        self.layout.spans(one, other)
    }

    fn level(&self, space: &str) -> Option<Level> {
        self.layout.find(space).map(|found| found.level)
    }

    fn executes(&self) -> bool {
        self.sources.is_some()
    }

    fn user(&self) -> Option<Arc<str>> {
        Some(self.user.clone())
    }

    fn distinguishes_users(&self) -> bool {
        true
    }

    fn learn(&self, module: &str, source: &str) {
        if let Some(sources) = &self.sources {
            learn(sources, module, source);
        }
    }

    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, StoreError>> {
        Box::pin(async {
            let mut session = self.session_over(self.link());
            session.open().await?;
            Ok(Box::new(session) as Box<dyn Connection>)
        })
    }

    fn connect_as<'a>(
        &'a self,
        user: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Box<dyn Connection>, StoreError>> {
        let why = match user {
            Some(user) if *self.user == *user => return self.connect(),
            Some(user) => format!(
                "NOPERM the transaction belongs to user '{user}', and user '{}' may not act for it",
                self.user
            ),
            None => "NOPERM the transaction names no user of this cluster".to_owned(),
        };
        Box::pin(std::future::ready(Err(StoreError::Denied(why))))
    }
}

/// Returns the user that a session acts as: the server's answer, or the user of the login if the
/// user has no right to ask.
async fn user_of(client: &mut Client) -> Arc<str> {
    match client.call(&[b"ACL", b"WHOAMI"]).await {
        Ok(Value::Bulk(name)) => String::from_utf8_lossy(&name).into(),
        _ => client.user().into(),
    }
}

/// Reads the spaces of the cluster. A space without a level of the lattice cannot be a store of a
/// mixed transaction.
async fn ask(mut client: Client) -> Result<(Client, Vec<Space>), Error> {
    let declared = client.spaces().await?.iter();
    let spaces = declared.filter_map(|space| {
        let (name, prefix) = (space.name.as_str().into(), space.prefix.clone());
        Some(Space { name, prefix, level: space.level? })
    });
    let spaces = spaces.collect();
    Ok((client, spaces))
}

fn learn(sources: &Sources, module: &str, source: &str) {
    let mut sources = sources.write().unwrap_or_else(PoisonError::into_inner);
    sources.insert(module.into(), source.into());
}

//! Solera's spaces as stores of mixed transactions.
//!
//! A [`Spaces`] is a cluster as one database: its spaces are the spaces of `solera.toml`, and one transaction may use
//! several of them, so that strong and causal writes take effect together. Objects are kept as Redis types that
//! other clients read and write, too; `docs/guide/modules.md` tells which.
//!
//! What is read in a space of level `por` is certified only where the configuration declares that it conflicts with
//! what others write: a transaction there is not serializable by itself. Stores declared `linearizable` are never
//! bound to such spaces; stores declared `por` should name in `conflicts` whatever must not happen side by side.
//!
//! The elements of a list or log are ordered by the clocks of the processes that appended them. Witnesses and records
//! of transactions are kept in the space that they belong to, in keys that begin with [`RESERVED`] after the space's
//! prefix; handles must not lead there.

mod cluster;
mod digest;
mod failure;
mod objects;
mod phases;
mod pool;
mod remote;
mod session;
mod stamp;
mod system;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};

pub use solera_data::RESERVED;
use solera_levels::Level;
use solera_mixt::rights::{Access, Deed, Denial};
use solera_mixt::store::{BoxFuture, Connection, Database, Description, StoreError};
use solera_resp::Value;

pub use self::cluster::Cluster;
use self::cluster::Unfit;
pub use self::digest::digest;
pub use self::phases::UNKNOWN_MODULE;
pub use self::pool::Pool;
pub use self::remote::Remote;
use self::session::Session;
pub use self::system::System;
use crate::client::Client;
use crate::error::Error;

/// Opens sessions.
pub type Connect = Arc<dyn Fn() -> BoxFuture<'static, Result<Client, Error>> + Send + Sync>;

/// Rights of users as they are now, at a site that acts for several of them. Errors are the texts of error replies.
pub trait Rights: Send + Sync {
    /// Whether users need rights at all.
    fn are_needed(&self) -> bool;

    /// Whether there is such a user.
    fn is_user(&self, user: &str) -> Result<(), String>;

    /// Whether a user may call modules, which what is left of a call needs as well: in stores of others it is the only
    /// right that its user has here.
    fn may_call(&self, user: &str) -> Result<(), String>;

    /// Whether a user may run a command on a key, or on some key of a space that is not known yet.
    fn may(&self, user: &str, command: &str, key: Result<&[u8], &Space>) -> Result<(), String>;

    /// Opens a session of a user.
    fn connect(&self, user: &str) -> BoxFuture<'static, Result<Client, Error>>;
}

/// A space of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    /// Its name.
    pub name: Arc<str>,
    /// Prefix of its keys.
    pub prefix: String,
    /// Its consistency level.
    pub level: Level,
}

/// The spaces of a cluster as a database of mixed transactions, used at one site. The database is called as the cluster is
/// (`cluster` in `solera.toml`), so that all hosts that use it give it the same name. Clusters that are used together must have
/// different ones.
#[derive(Clone)]
pub struct Spaces {
    name: Arc<str>,
    /// The site of all sessions, if they are in this process.
    site: Option<Arc<str>>,
    connect: Connect,
    /// As whom sessions act. None: as the server itself.
    user: Option<Arc<str>>,
    /// Of other users, if sessions can be opened for them.
    rights: Option<Arc<dyn Rights>>,
    /// Longest prefix first, so that the first that fits is a key's.
    spaces: Arc<[Space]>,
    /// The sources of modules by their names, if the cluster is to run their phases.
    sources: Option<Sources>,
    /// Those that are not what was said of them.
    unfit: Arc<Unfit>,
}

/// The sources of modules, by their names. More may be learned.
pub(crate) type Sources = Arc<RwLock<BTreeMap<Arc<str>, Arc<str>>>>;

impl Spaces {
    /// Asks a cluster for its spaces. Sessions are opened by `connect`; those that break are opened again.
    ///
    /// # Errors
    /// No session can be opened, or the cluster tells of no spaces.
    pub async fn of(
        connect: impl Fn() -> BoxFuture<'static, Result<Client, Error>> + Send + Sync + 'static,
    ) -> Result<Spaces, Error> {
        let (mut client, spaces) = ask(connect().await?).await?;
        let user = user_of(&mut client).await;
        let known = Spaces::known(client.cluster(), Arc::new(connect), spaces);
        Ok(Spaces { user: Some(user), ..known })
    }

    /// The same, of a site by its address.
    ///
    /// # Errors
    /// As [`Spaces::of`].
    pub async fn at(address: SocketAddr) -> Result<Spaces, Error> {
        Spaces::of(move || Box::pin(Client::connect(address))).await
    }

    /// The spaces of a cluster that the caller knows, so that the cluster is not asked for them.
    pub fn known(name: &str, connect: Connect, mut spaces: Vec<Space>) -> Spaces {
        spaces.sort_by_key(|space| std::cmp::Reverse(space.prefix.len()));
        let (name, site, sources, unfit) = (name.into(), None, None, Arc::default());
        let (user, rights) = (None, None);
        Spaces { name, site, connect, user, rights, spaces: spaces.into(), sources, unfit }
    }

    /// With sessions that act as a user, and others that are opened for other users.
    #[must_use]
    pub fn acting_as(self, user: Option<&str>, rights: Arc<dyn Rights>) -> Spaces {
        Spaces { user: user.map(Arc::from), rights: Some(rights), ..self }
    }

    /// With all sessions in this process, at its site: connections end with the process.
    #[must_use]
    pub fn in_process_at(self, site: &str) -> Spaces {
        Spaces { site: Some(site.into()), ..self }
    }

    /// Lets the cluster run groups of phases, by SOLERA.PHASE: one round trip for each. A module's name must be the
    /// [`digest`] of its source; sites that do not know it are sent the source once. Where a site runs no modules,
    /// everything is asked request by request.
    ///
    /// The user of the sessions needs the right `solera.phase`, as it does without this: what transactions keep is in
    /// keys that are not for other users.
    pub fn executing<'s>(mut self, sources: impl IntoIterator<Item = &'s str>) -> Spaces {
        let named = sources.into_iter().map(|source| (digest(source).into(), source.into()));
        self.sources = Some(Arc::new(RwLock::new(named.collect())));
        self
    }

    fn session(&self) -> Session {
        let (spaces, unfit) = (self.spaces.clone(), self.unfit.clone());
        let (connect, sources) = (self.connect.clone(), self.sources.clone());
        let session = Session::new(connect, self.user.clone(), (spaces, unfit), sources);
        session.in_process(self.site.is_some())
    }

    /// The spaces, those with the longest prefixes first.
    pub fn known_spaces(&self) -> Vec<Space> {
        self.spaces.to_vec()
    }

    /// The names of the spaces.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.spaces.iter().map(|space| &*space.name)
    }
}

impl fmt::Debug for Spaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Spaces").field(&self.spaces).finish()
    }
}

impl Database for Spaces {
    fn describe(&self) -> Description {
        Description { name: Arc::clone(&self.name), joint: true }
    }

    fn level(&self, space: &str) -> Option<Level> {
        self.spaces.iter().find(|found| *found.name == *space).map(|found| found.level)
    }

    fn executes(&self) -> bool {
        self.sources.is_some()
    }

    fn user(&self) -> Option<Arc<str>> {
        self.user.clone()
    }

    fn tells_users_apart(&self) -> bool {
        self.rights.as_ref().is_none_or(|rights| rights.are_needed())
    }

    fn permits(&self, user: Option<&str>, accesses: &[Access]) -> Option<Denial> {
        let rights = self.rights.as_ref()?;
        let of_all = |reason| Some(Denial { phase: None, reason });
        let Some(user) = user else { return of_all(NO_USER.to_owned()) };
        if let Err(reason) = rights.is_user(user).and_then(|()| rights.may_call(user)) {
            return of_all(reason);
        }
        accesses.iter().find_map(|access| {
            let space = self.spaces.iter().find(|space| space.name == access.space)?;
            let Deed::Object { object, op } = access.deed else { return None };
            let key = access.key.as_ref().map(|key| format!("{}{key}", space.prefix));
            let wanted = || key.as_ref().map(String::as_bytes).ok_or(space);
            let object = &access.program.objects[object as usize];
            let commands = objects::commands(object, op);
            let denied = commands.map(|command| rights.may(user, command, wanted()));
            let reason = denied.filter_map(Result::err).next()?;
            let store = &access.program.stores[usize::from(access.store.0)].name;
            let reason = format!("{reason}, as the store `{store}` needs");
            Some(Denial { phase: Some(access.phase), reason })
        })
    }

    fn whence(&self) -> Option<Arc<str>> {
        self.site.clone()
    }

    fn learn(&self, module: &str, source: &str) {
        if let Some(sources) = &self.sources {
            learn(sources, module, source);
        }
    }

    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, StoreError>> {
        Box::pin(async {
            let mut session = self.session();
            session.open().await?;
            Ok(Box::new(session) as Box<dyn Connection>)
        })
    }

    fn connect_as<'a>(
        &'a self,
        user: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Box<dyn Connection>, StoreError>> {
        let denied = |why: String| Box::pin(std::future::ready(Err(StoreError::Denied(why))));
        let (user, rights) = match (user, &self.rights) {
            (Some(user), _) if self.user.as_deref() == Some(user) => return self.connect(),
            (Some(user), Some(rights)) => (Arc::<str>::from(user), Arc::clone(rights)),
            (Some(user), None) => {
                let own = self.user.as_deref().unwrap_or_default();
                return denied(format!(
                    "NOPERM the transaction is one of user '{user}', and user '{own}' may not act for it"
                ));
            }
            (None, _) => return denied(NO_USER.to_owned()),
        };
        Box::pin(async move {
            let named = Arc::clone(&user);
            let connect = move || rights.connect(&named);
            let spaces = Spaces { connect: Arc::new(connect), user: Some(user), ..self.clone() };
            spaces.connect().await
        })
    }
}

/// What is said of a transaction that nobody can be held to account for.
const NO_USER: &str = "NOPERM the transaction names no user of this cluster";

/// Returns as which user a session acts: as the server says, or as the client has logged in if the user may not ask.
async fn user_of(client: &mut Client) -> Arc<str> {
    match client.call(&[b"ACL", b"WHOAMI"]).await {
        Ok(Value::Bulk(name)) => String::from_utf8_lossy(&name).into(),
        _ => client.user().into(),
    }
}

/// Asks for the spaces that there are.
async fn ask(mut client: Client) -> Result<(Client, Vec<Space>), Error> {
    let reply = client.call(&[b"SOLERA.SPACES"]).await?;
    let spaces = read(&reply).ok_or_else(|| Error::unexpected(&reply))?;
    Ok((client, spaces))
}

fn learn(sources: &Sources, module: &str, source: &str) {
    let mut sources = sources.write().unwrap_or_else(PoisonError::into_inner);
    sources.insert(module.into(), source.into());
}

/// The answer to SOLERA.SPACES.
fn read(reply: &Value) -> Option<Vec<Space>> {
    let Value::Array(spaces) = reply else { return None };
    let one = |space: &Value| {
        let Value::Map(pairs) = space else { return None };
        let text = |wanted: &str| {
            let found = pairs.iter().find(|(name, _)| *name == Value::Bulk(wanted.into()))?;
            match &found.1 {
                Value::Bulk(bytes) => String::from_utf8(bytes.clone()).ok(),
                _ => None,
            }
        };
        let (name, prefix) = (text("name")?.into(), text("prefix")?);
        // What has no level of the lattice can be no store of a mixed transaction.
        let level = text("level")?.parse();
        Some(level.ok().map(|level| Space { name, prefix, level }))
    };
    let known: Option<Vec<_>> = spaces.iter().map(one).collect();
    Some(known?.into_iter().flatten().collect())
}

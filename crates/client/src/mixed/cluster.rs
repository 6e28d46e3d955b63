//! A cluster that the caller declares. It is not contacted before it is needed.

use std::fmt;
use std::sync::Arc;

use solera_levels::Level;
use solera_mixt::store::{BoxFuture, Connection, Database, StoreError};
use solera_program::ir::Program;
use solera_program::types::StoreId;
use solera_spaces::{Layout, Unfit, spans};

use super::{Connect, Sources, Space, Spaces};
use crate::client::Client;
use crate::error::Error;

/// The spaces of another cluster, as declared by the caller. The first session opens the first
/// connection. Each connection checks the declaration, because another cluster may be at the
/// address. Groups of phases run at the cluster, as with [`Spaces::executing`]; the sources of
/// their modules are [learned](Database::learn). Clones are the same database.
#[derive(Clone)]
pub struct Cluster {
    shared: Arc<Shared>,
}

struct Shared {
    name: Arc<str>,
    declared: Vec<(Arc<str>, Level)>,
    connect: Connect,
    /// User that sessions act as.
    user: Arc<str>,
    sources: Sources,
}

impl Cluster {
    /// Creates a cluster from its name and the levels of the spaces that are used. `connect` opens
    /// sessions.
    pub fn new<'s>(
        name: &str,
        spaces: impl IntoIterator<Item = (&'s str, Level)>,
        connect: impl Fn() -> BoxFuture<'static, Result<Client, Error>> + Send + Sync + 'static,
    ) -> Cluster {
        let declared = spaces.into_iter().map(|(name, level)| (name.into(), level)).collect();
        let (connect, sources) = (Arc::new(connect), Sources::default());
        let (name, user) = (name.into(), "default".into());
        Cluster { shared: Arc::new(Shared { name, declared, connect, user, sources }) }
    }

    /// Sets the user that sessions act as, instead of the default user. Transactions that use the
    /// cluster name this user, and the cluster completes them with the user's rights.
    #[must_use]
    pub fn used_by(mut self, user: &str) -> Cluster {
        let shared = Arc::get_mut(&mut self.shared);
        shared.expect("a new cluster is not shared yet").user = user.into();
        self
    }

    /// Opens a first connection and returns it with the spaces of the cluster, if it is the
    /// declared one.
    async fn ask(&self) -> Result<(Client, Spaces), StoreError> {
        let (client, spaces) = self.shared.open().await.map_err(|wrong| match wrong {
            Wrong::Error(error) => StoreError::Unavailable(error.to_string()),
            // An administrator can change the name, after which waiting transactions continue.
            Wrong::Name(text) => StoreError::Denied(text),
        })?;
        let (shared, wanted) = (Arc::clone(&self.shared), spaces.clone());
        let connect = move || -> BoxFuture<'static, Result<Client, Error>> {
            let (shared, wanted) = (Arc::clone(&shared), wanted.clone());
            Box::pin(async move { shared.open_again(&wanted).await })
        };
        let layout = Layout::new(spaces.clone()).without(self.shared.unfit(&spaces));
        let Shared { name, user, sources, .. } = &*self.shared;
        let known = Spaces::known((name, Arc::clone(user)), Arc::new(connect), layout);
        Ok((client, Spaces { sources: Some(Arc::clone(sources)), ..known }))
    }
}

/// Reason why a connection is useless.
enum Wrong {
    Error(Error),
    /// Another cluster is at the address.
    Name(String),
}

impl Shared {
    /// Opens a connection and reads the spaces.
    async fn open(&self) -> Result<(Client, Vec<Space>), Wrong> {
        let client = (self.connect)().await.map_err(Wrong::Error)?;
        if *client.cluster() != *self.name {
            return Err(Wrong::Name(format!(
                "the cluster there is named `{}`, but must have the name of the store, `{}`",
                client.cluster(),
                self.name
            )));
        }
        super::ask(client).await.map_err(Wrong::Error)
    }

    /// Opens a connection for a session that knows these spaces.
    async fn open_again(&self, known: &[Space]) -> Result<Client, Error> {
        match self.open().await {
            Ok((client, spaces)) if spaces == known => Ok(client),
            Ok(_) => Err(Error::server("UNAVAILABLE the cluster there has other spaces now")),
            Err(Wrong::Name(text)) => Err(Error::server(&format!("UNAVAILABLE {text}"))),
            Err(Wrong::Error(error)) => Err(error),
        }
    }

    /// Returns the declared spaces that do not match.
    fn unfit(&self, spaces: &[Space]) -> Unfit {
        let wrong = |(name, level): &(Arc<str>, Level)| {
            let text = match spaces.iter().find(|space| space.name == *name) {
                Some(found) if found.level == *level => return None,
                Some(Space { level: found, .. }) => {
                    format!("its space `{name}` is {found}, not {level}")
                }
                None => {
                    let names: Vec<_> = spaces.iter().map(|space| &*space.name).collect();
                    format!("it has no space `{name}`; it has {}", names.join(", "))
                }
            };
            Some((Arc::clone(name), text))
        };
        self.declared.iter().filter_map(wrong).collect()
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { name, declared, .. } = &*self.shared;
        f.debug_struct("Cluster").field("name", name).field("spaces", declared).finish()
    }
}

impl Database for Cluster {
    fn name(&self) -> Arc<str> {
        Arc::clone(&self.shared.name)
    }

    fn spans(&self, one: &str, other: &str) -> bool {
        match (self.level(one), self.level(other)) {
            (Some(one), Some(other)) => spans(one, other),
            _ => false,
        }
    }

    fn level(&self, space: &str) -> Option<Level> {
        let found = self.shared.declared.iter().find(|(name, _)| **name == *space);
        found.map(|(_, level)| *level)
    }

    fn executes(&self) -> bool {
        true
    }

    fn user(&self) -> Option<Arc<str>> {
        Some(Arc::clone(&self.shared.user))
    }

    /// Checks the operations, and reads the level of the space again at each call.
    fn check_operations<'a>(
        &'a self,
        program: &'a Program,
        store: StoreId,
        space: &'a str,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let (_, spaces) = self.ask().await?;
            if let Some(why) = spaces.layout.why_unfit(space) {
                return Err(StoreError::Denied(why.to_owned()));
            }
            spaces.check_operations(program, store, space).await
        })
    }

    fn learn(&self, module: &str, source: &str) {
        super::learn(&self.shared.sources, module, source);
    }

    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, StoreError>> {
        Box::pin(async {
            let (client, spaces) = self.ask().await?;
            let session = spaces.session_over(spaces.link().over(client));
            Ok(Box::new(session) as Box<dyn Connection>)
        })
    }
}

//! A cluster that is not asked before it is needed.

use std::fmt;
use std::sync::Arc;

use solera_language::ir::Program;
use solera_language::types::StoreId;
use solera_levels::Level;
use solera_mixt::store::{BoxFuture, Connection, Database, Description, StoreError};
use tokio::sync::OnceCell;

use super::{Connect, Sources, Spaces};
use crate::client::Client;
use crate::error::Error;

/// The spaces of another cluster, by what somebody has said of them. Nothing is connected to before the first session; then
/// the cluster is asked whether it is so. Groups of phases run there, as with [`Spaces::executing`]; the sources of their
/// modules are [learned](Database::learn). Copies are the same database.
#[derive(Clone)]
pub struct Cluster {
    shared: Arc<Shared>,
}

struct Shared {
    name: Arc<str>,
    declared: Vec<(Arc<str>, Level)>,
    connect: Connect,
    sources: Sources,
    /// Set when it is known to be as declared.
    found: OnceCell<Spaces>,
}

impl Cluster {
    /// A cluster by its name, with those of its spaces that are used and their levels. Sessions are opened by `connect`.
    pub fn new<'s>(
        name: &str,
        spaces: impl IntoIterator<Item = (&'s str, Level)>,
        connect: impl Fn() -> BoxFuture<'static, Result<Client, Error>> + Send + Sync + 'static,
    ) -> Cluster {
        let declared = spaces.into_iter().map(|(name, level)| (name.into(), level)).collect();
        let (connect, sources) = (Arc::new(connect), Sources::default());
        let (name, found) = (name.into(), OnceCell::new());
        Cluster { shared: Arc::new(Shared { name, declared, connect, sources, found }) }
    }

    /// What the cluster says of itself, if it is what was declared.
    async fn spaces(&self) -> Result<&Spaces, StoreError> {
        self.shared.found.get_or_try_init(|| self.shared.ask()).await
    }
}

impl Shared {
    async fn ask(&self) -> Result<Spaces, StoreError> {
        let connect = Arc::clone(&self.connect);
        let spaces = Spaces::of(move || connect()).await;
        let spaces = spaces.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        let refused = |text: String| Err(StoreError::Refused(text));
        if spaces.name != self.name {
            return refused(format!(
                "the cluster there is called `{}`, and must be called as the store is, `{}`",
                spaces.name, self.name
            ));
        }
        for (name, level) in &self.declared {
            match spaces.level(name) {
                Some(found) if found == *level => {}
                Some(found) => {
                    return refused(format!("its space `{name}` is {found}, not {level}"));
                }
                None => {
                    let names: Vec<_> = spaces.names().collect();
                    let names = names.join(", ");
                    return refused(format!("it has no space `{name}`; it has {names}"));
                }
            }
        }
        Ok(Spaces { sources: Some(Arc::clone(&self.sources)), ..spaces })
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { name, declared, .. } = &*self.shared;
        f.debug_struct("Cluster").field("name", name).field("spaces", declared).finish()
    }
}

impl Database for Cluster {
    fn describe(&self) -> Description {
        Description { name: Arc::clone(&self.shared.name), joint: true }
    }

    fn level(&self, space: &str) -> Option<Level> {
        let found = self.shared.declared.iter().find(|(name, _)| **name == *space);
        found.map(|(_, level)| *level)
    }

    fn executes(&self) -> bool {
        true
    }

    /// Also asks for the levels, of which only now is known whether they are what was declared.
    fn check_operations<'a>(
        &'a self,
        program: &'a Program,
        store: StoreId,
        space: &'a str,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move { self.spaces().await?.check_operations(program, store, space).await })
    }

    fn learn(&self, module: &str, source: &str) {
        super::learn(&self.shared.sources, module, source);
    }

    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, StoreError>> {
        Box::pin(async { self.spaces().await?.connect().await })
    }
}

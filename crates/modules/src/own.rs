//! The cluster's own spaces as a database of mixed transactions.

use std::sync::{Arc, Mutex, PoisonError};

use solera_levels::Level;
use solera_mixt::rights::{Access, Denial, StoreOperation};
use solera_mixt::store::{BoxFuture, Connection, Database, StoreError};
use solera_node::{Caller, Local, Wanted};
use solera_spaces::{Layout, Space, SpacesSession, commands};

use crate::port::{Principal, Sessions};

/// The spaces of the cluster, used at the site of a call. The sessions are in this process and act
/// as one user. Further sessions can be opened in the name of any existing user.
#[derive(Clone)]
pub(crate) struct Own {
    local: Local,
    principal: Principal,
    layout: Layout,
    /// An open session that is used before others are opened.
    first: Arc<Mutex<Option<Caller>>>,
}

/// Error for a transaction that names no user of this cluster.
const NO_USER: &str = "NOPERM the transaction names no user of this cluster";

impl Own {
    /// Creates the database with sessions that act as the caller.
    pub(crate) fn of_caller(local: &Local, first: Option<Caller>) -> Own {
        Own::new(local, Principal::Caller, first)
    }

    /// Creates the database with sessions that act as the server itself.
    pub(crate) fn of_server(local: &Local) -> Own {
        Own::new(local, Principal::Server, None)
    }

    fn new(local: &Local, principal: Principal, first: Option<Caller>) -> Own {
        let spaces = local.spaces().map(|space| Space {
            name: space.name.as_str().into(),
            prefix: space.prefix.clone(),
            level: space.level,
        });
        let layout = Layout::new(spaces.collect());
        Own { local: local.clone(), principal, layout, first: Arc::new(Mutex::new(first)) }
    }

    /// Returns the names of the spaces that modules can use.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let names = self.layout.spaces().iter().map(|space| &*space.name);
        names.filter(|name| self.layout.why_unfit(name).is_none())
    }

    /// Returns the name of the space of level `speculative`, if there is one.
    pub(crate) fn speculative(&self) -> Option<String> {
        self.local.spec().spaces.speculative().map(|space| space.name.clone())
    }

    /// Returns the reason why modules cannot use a space with this name; `None` if they can, or no
    /// space has it.
    pub(crate) fn why_unusable(&self, name: &str) -> Option<String> {
        match self.local.lacks_transactions(name) {
            true => Some(format!("{name}, which runs a protocol that has no transactions")),
            false => self.layout.why_unfit(name).map(|why| format!("{name}: {why}")),
        }
    }

    fn session(&self) -> SpacesSession<Sessions> {
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        let port = Sessions::new(&self.local, self.principal.clone(), first);
        SpacesSession::new(port, self.user(), self.layout.clone())
    }

    /// Checks that a user may run a command on a key, or on some key of a space if the key is not
    /// known yet.
    fn may(&self, user: &str, command: &str, key: Result<&[u8], &Space>) -> Result<(), String> {
        match key {
            Ok(key) => self.local.may(user, command, Wanted::Key(key)),
            Err(space) => {
                let found = self.local.spaces().find(|found| found.name == *space.name);
                found
                    .map_or(Ok(()), |space| self.local.may(user, command, Wanted::SomeKeyOf(space)))
            }
        }
    }

    /// Returns the reason why a user may not make an access; `None` if the user may.
    fn denial(&self, user: &str, access: &Access) -> Option<Denial> {
        let space = self.layout.find(&access.space)?;
        let StoreOperation::Object { object, op } = access.operation else { return None };
        let key = access.key.as_ref().map(|key| format!("{}{key}", space.prefix));
        let wanted = || key.as_ref().map(String::as_bytes).ok_or(space);
        let object = &access.program.objects[object as usize];
        let denied = commands(object, op).map(|command| self.may(user, command, wanted()));
        let reason = denied.filter_map(Result::err).next()?;
        let store = &access.program.stores[usize::from(access.store.0)].name;
        let reason = format!("{reason}, as the store `{store}` needs");
        Some(Denial { phase: Some(access.phase), reason })
    }
}

impl Database for Own {
    fn name(&self) -> Arc<str> {
        self.local.cluster().into()
    }

    fn spans(&self, one: &str, other: &str) -> bool {
        self.layout.spans(one, other)
    }

    fn level(&self, space: &str) -> Option<Level> {
        self.layout.find(space).map(|found| found.level)
    }

    fn user(&self) -> Option<Arc<str>> {
        match &self.principal {
            Principal::Caller => self.local.user().map(Arc::from),
            Principal::User(name) => Some(name.clone()),
            Principal::Server => None,
        }
    }

    fn distinguishes_users(&self) -> bool {
        self.local.is_guarded()
    }

    fn permits(&self, user: Option<&str>, accesses: &[Access]) -> Option<Denial> {
        let of_all = |reason| Some(Denial { phase: None, reason });
        let Some(user) = user else { return of_all(NO_USER.to_owned()) };
        // Completing a call requires the right to call, too. For stores of other systems this is
        // the only right that the user needs in this cluster.
        let may_call =
            self.local.is_user(user).and_then(|()| self.local.may_run(user, "solera.call"));
        if let Err(reason) = may_call {
            return of_all(reason);
        }
        accesses.iter().find_map(|access| self.denial(user, access))
    }

    fn commit_replica(&self) -> Option<Arc<str>> {
        Some(self.local.site().into())
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
        let Some(user) = user else {
            return Box::pin(std::future::ready(Err(StoreError::Denied(NO_USER.to_owned()))));
        };
        if self.user().as_deref() == Some(user) {
            return self.connect();
        }
        Box::pin(async move {
            let named = Own {
                principal: Principal::User(user.into()),
                first: Arc::default(),
                ..self.clone()
            };
            named.connect().await
        })
    }
}

#[cfg(test)]
mod tests {
    use solera_mixt::conformance;
    use solera_mixt::store::Begin;

    use super::*;
    use crate::scene;

    #[tokio::test]
    async fn own_spaces_conform_as_a_database() {
        let space = |level: &str| {
            format!("[[space]]\nname = '{level}'\nprefix = '{level}:'\nlevel = '{level}'\n")
        };
        let pcpsi =
            "[[space]]\nname = 'pcpsi'\nprefix = 'pcpsi:'\nlevel = 'pcpsi'\nhome = 'virginia'\n";
        let config = ["linearizable", "causal", "eventual"].map(space).concat() + pcpsi;
        let (_cluster, local) = scene::start(&config).await;
        let own = Own::of_caller(&local, None);
        for space in ["linearizable", "causal", "eventual", "pcpsi"] {
            conformance::of_redis_types(&own, space).await;
        }
    }

    #[tokio::test]
    async fn sessions_act_only_for_existing_users() {
        let config = "[[user]]\nname = 'default'\nnopass = true\ncommands = ['+@all']\n\
                      keys = ['*']\n[[user]]\nname = 'clerk'\nnopass = true\n\
                      commands = ['+get']\nkeys = ['a:*']\n";
        let (_cluster, local) = scene::start(config).await;
        let own = Own::of_caller(&local, None);
        assert_eq!(own.user().as_deref(), Some("default"));
        assert!(own.distinguishes_users());
        let Ok(mut clerk) = own.connect_as(Some("clerk")).await else { panic!("there is one") };
        clerk.begin(&Begin::default()).await.unwrap();
        for nobody in [None, Some("nobody")] {
            let refused = own.connect_as(nobody).await.err();
            assert!(matches!(refused, Some(StoreError::Denied(_))), "{refused:?}");
        }
        let denied = own.permits(Some("clerk"), &[]).unwrap().reason;
        assert!(denied.contains("'clerk'") && denied.contains("solera.call"), "{denied}");
        assert!(own.permits(Some("default"), &[]).is_none());
        assert!(own.permits(None, &[]).is_some());
        // The server has no user, but can act for users.
        let server = Own::of_server(&local);
        assert_eq!(server.user(), None);
        assert!(server.connect_as(Some("clerk")).await.is_ok());
    }
}

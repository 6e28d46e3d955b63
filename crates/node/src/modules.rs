//! Modules of transactions: what runs them stands above this crate, and is given to a
//! [`Cluster`](crate::Cluster).
//!
//! SOLERA.MODULE, SOLERA.CALL and SOLERA.PHASE hand their arguments over, with the means to open sessions at the worker that
//! was asked. Those are served as clients' connections are, as the calling user and with the pasts of the calling session. A call does not end with the client that has asked for it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use solera_commands::{CommandId, lookup};
use solera_config::{ClusterSpec, DEFAULT_USER, Space, Spaces, User, Users};
use solera_machine::Address;
use solera_resp::Value;
use solera_unistore::Pasts;
use tokio::io::DuplexStream;
use tokio::sync::oneshot;

use crate::log::Log;
use crate::network::Network;
use crate::worker::{Control, Worker};

/// What keys begin with, after the prefix of their space, that hold modules and what transactions of modules keep.
pub const RESERVED: &str = "solera:";

/// How much of what a session sends may wait to be read.
const BUFFER: usize = 64 * 1024;

/// Runs modules.
pub trait Modules: Send + Sync {
    /// Does what a client asks by SOLERA.MODULE, SOLERA.CALL or SOLERA.PHASE: the command's name and its arguments. An answer
    /// that is dropped is told as a server that stops.
    fn run(&self, local: Local, request: Vec<Vec<u8>>) -> oneshot::Receiver<Value>;

    /// What it saw when it looked last for transactions that are not complete. None while it has not looked.
    fn incomplete(&self) -> Option<Incomplete>;
}

/// How many transactions have begun to take effect and are not complete, of the whole cluster, and what a process has
/// done about them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Incomplete {
    /// Those that can be completed.
    pub open: usize,
    /// Those of users who have no right to what is left, as it was seen last; they are among the open ones, too.
    pub denied: usize,
    /// Those that never can, and wait to be given up.
    pub failed: usize,
    /// Those whose records cannot be read.
    pub unreadable: usize,
    /// Of how many spaces it is not known, as their stores could not be asked.
    pub unasked_spaces: usize,
    /// How many others the process has completed for them since its start.
    pub recovered: u64,
}

/// What a command is to be done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// This key.
    Key(&'a [u8]),
    /// A key of this space that is not known yet.
    SomeKeyOf(&'a Space),
}

/// Opens sessions at a worker for a client that has asked it for something.
#[derive(Clone)]
pub struct Local {
    /// Weak, as whoever runs modules may keep it, and is kept by the network.
    network: Weak<Network>,
    worker: Address,
    spec: Arc<ClusterSpec>,
    log: Log,
    lent: Lent,
}

/// What a session in this process takes over from the one for which it was opened.
#[derive(Clone)]
pub(crate) struct Lent {
    /// Who it is. Nobody, and allowed everything, if it is the server's own.
    pub(crate) user: Option<Arc<User>>,
    /// Whether it is the server's own.
    pub(crate) own: bool,
    pasts: Arc<Mutex<Pasts>>,
}

impl Local {
    /// At a worker, for a user who has seen this.
    pub(crate) fn new(worker: &Worker, user: Option<Arc<User>>, pasts: Pasts) -> Local {
        let lent = Lent { user, own: false, pasts: Arc::new(Mutex::new(pasts)) };
        Local {
            network: Arc::downgrade(&worker.network),
            worker: worker.address,
            spec: worker.spec.clone(),
            log: worker.log.clone(),
            lent,
        }
    }

    /// Where to write what people should know of.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The cluster's name.
    pub fn cluster(&self) -> &str {
        &self.spec.name
    }

    /// Whether the client may see and change what transactions of others keep: it has the right `solera.phase`, or nobody
    /// needs rights here.
    pub fn may_coordinate(&self) -> bool {
        self.lent.user.as_ref().is_none_or(|user| user.may_run("solera.phase"))
    }

    /// The name of the client's user, if it has one.
    pub fn user(&self) -> Option<&str> {
        self.lent.user.as_ref().map(|user| user.name.as_str())
    }

    /// Whether users need rights here.
    pub fn is_guarded(&self) -> bool {
        self.users().is_none_or(|users| users.are_configured())
    }

    /// The users as they are now. None if the site is gone.
    fn users(&self) -> Option<Users> {
        self.network.upgrade().map(|network| network.settings().users.clone())
    }

    /// A user as it is now. Where nobody needs rights, everybody is the one who needs none.
    fn current(&self, name: &str) -> Result<Option<Arc<User>>, String> {
        let Some(users) = self.users() else { return Ok(None) };
        let known = if users.are_configured() { name } else { DEFAULT_USER };
        match users.get(known) {
            Some(user) if user.enabled => Ok(Some(user.clone())),
            Some(_) => Err(format!("NOPERM user '{}' is disabled", name.escape_debug())),
            None => {
                Err(format!("NOPERM there is no user '{}' in this cluster", name.escape_debug()))
            }
        }
    }

    /// Whether there is such a user, who may log in.
    ///
    /// # Errors
    /// The text of an error reply.
    pub fn is_user(&self, name: &str) -> Result<(), String> {
        self.current(name).map(drop)
    }

    /// Whether a user may run a command, whatever its keys, with the rules that hold now.
    ///
    /// # Errors
    /// The text of an error reply, which names the user and the command.
    pub fn may_run(&self, name: &str, command: &str) -> Result<(), String> {
        match self.current(name)? {
            Some(user) if !user.may_run(command) => Err(format!(
                "NOPERM user '{}' may not run the '{command}' command",
                name.escape_debug()
            )),
            _ => Ok(()),
        }
    }

    /// Whether a user may run a command on keys, with the rules that hold now.
    ///
    /// # Errors
    /// The text of an error reply, which names the user, and the command, key or space.
    pub fn may(&self, name: &str, command: &str, wanted: Wanted<'_>) -> Result<(), String> {
        let Some(user) = self.current(name)? else { return Ok(()) };
        let Some(described) = lookup(command.as_bytes()) else {
            return Err(format!("ERR there is no command '{}'", command.escape_debug()));
        };
        self.may_run(name, described.name)?;
        let name = name.escape_debug();
        let how = match (described.reads_keys(), described.writes_keys()) {
            (true, true) => "read and write",
            (false, true) => "write",
            _ => "read",
        };
        match wanted {
            Wanted::Key(key) if !user.may_use_for(key, described) => {
                Err(format!("NOPERM user '{name}' may not {how} the key `{}`", key.escape_ascii()))
            }
            Wanted::SomeKeyOf(space) if !user.may_use_some(space.prefix.as_bytes(), described) => {
                Err(format!(
                    "NOPERM user '{name}' may not {how} any key of the space '{}'",
                    space.name
                ))
            }
            _ => Ok(()),
        }
    }

    /// The cluster's spaces.
    pub fn spaces(&self) -> impl Iterator<Item = &Space> {
        self.spec.spaces.iter()
    }

    /// The name of the site.
    pub fn site(&self) -> &str {
        &self.spec.sites[self.worker.site.index()].name
    }

    /// Opens a session as the client, which begins with what the client has seen. What it sees, the client has seen
    /// when it is answered. Nobody answers if the site is dead. The client's rights are those that its user has whenever it
    /// asks for something.
    ///
    /// # Errors
    /// The text of an error reply, if the client's user is no more.
    pub fn connect(&self) -> Result<DuplexStream, String> {
        match self.user() {
            Some(name) => self.connect_as(name),
            None => Ok(self.open(self.lent.clone())),
        }
    }

    /// The same in the name of a user.
    ///
    /// # Errors
    /// The text of an error reply, if there is no such user.
    pub fn connect_as(&self, name: &str) -> Result<DuplexStream, String> {
        let user = self.current(name)?;
        Ok(self.open(Lent { user, own: false, pasts: self.lent.pasts.clone() }))
    }

    /// Opens a session of the server's own, which may do everything.
    pub fn connect_as_server(&self) -> DuplexStream {
        self.open(Lent { user: None, own: true, pasts: self.lent.pasts.clone() })
    }

    fn open(&self, lent: Lent) -> DuplexStream {
        let (client, server) = tokio::io::duplex(BUFFER);
        if let Some(network) = self.network.upgrade() {
            network.control(self.worker, Control::Lend(server, lent));
        }
        client
    }

    /// What the sessions have seen and written.
    pub(crate) fn pasts(&self) -> Pasts {
        self.lent.pasts()
    }
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").field("worker", &self.worker).finish_non_exhaustive()
    }
}

impl Lent {
    pub(crate) fn pasts(&self) -> Pasts {
        *self.pasts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session has seen and written this.
    pub(crate) fn note(&self, pasts: &Pasts) {
        self.pasts.lock().unwrap_or_else(PoisonError::into_inner).join(pasts);
    }

    /// Whether the session may send a command, whatever its user may: what every transaction needs, and all on keys
    /// that are not for users.
    pub(crate) fn may<'a>(
        &self,
        command: CommandId,
        keys: impl IntoIterator<Item = &'a [u8]>,
        spaces: &Spaces,
    ) -> bool {
        let needed = matches!(
            command,
            CommandId::Hello
                | CommandId::SoleraBegin
                | CommandId::SoleraCommit
                | CommandId::SoleraAbort
                | CommandId::SoleraTxid
                | CommandId::SoleraOutcome
                | CommandId::SoleraToken
                | CommandId::SoleraAttach
        );
        let mut keys = keys.into_iter().peekable();
        let reserved = |key: &[u8]| is_reserved(spaces, key);
        self.own || needed || (keys.peek().is_some() && keys.all(reserved))
    }
}

/// Whether a key is not for the data of users.
pub(crate) fn is_reserved(spaces: &Spaces, key: &[u8]) -> bool {
    let prefix = spaces.space_of(key).prefix.len();
    key[prefix..].starts_with(RESERVED.as_bytes())
}

#[cfg(test)]
mod tests {
    use solera_levels::Level;

    use super::*;

    #[test]
    fn a_lent_session_may_more_only_on_reserved_keys() {
        let spaces = vec![Space::new("mail", "mail:", Level::Causal)];
        let spaces = Spaces::new(spaces).unwrap();
        let lent = Lent { user: None, own: false, pasts: Arc::new(Mutex::new(Pasts::none(1))) };
        let may =
            |command, keys: &[&'static [u8]]| lent.may(command, keys.iter().copied(), &spaces);
        assert!(may(CommandId::SoleraBegin, &[]));
        assert!(may(CommandId::Hset, &[b"mail:solera:mixt:w:a"]));
        assert!(may(CommandId::Hget, &[b"solera:modules"]));
        assert!(!may(CommandId::Hget, &[b"mail:a"]));
        assert!(!may(CommandId::Hget, &[b"a:solera:b"]));
        assert!(!may(CommandId::Mget, &[b"solera:modules", b"a"]));
        assert!(!may(CommandId::SoleraExport, &[]));
        assert!(Lent { own: true, ..lent.clone() }.may(CommandId::Get, [&b"a"[..]], &spaces));
    }
}

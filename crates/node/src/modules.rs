//! Interface to the executor of transaction modules, which is implemented outside this crate and
//! passed to a [`Cluster`](crate::Cluster).
//!
//! SOLERA.MODULE, SOLERA.CALL and SOLERA.PHASE pass their arguments to the executor, with a
//! [`Local`] that opens sessions at the worker of the calling client. These sessions take commands
//! as values, act as the calling user, and begin with the pasts of the calling session. A call
//! continues when its client disconnects.

use std::fmt;
use std::sync::{Arc, Weak};

use solera_commands::lookup;
use solera_config::{ClusterSpec, DEFAULT_USER, Runs, Space, User, Users};
use solera_machine::Address;
use solera_procedures::{Right, Scope};
use solera_resp::Value;
use solera_session::{Answers, Batch, Command, Delegation, Sendable};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

/// Access to the workers of a process, for opening sessions.
pub(crate) trait Sessions: Send + Sync {
    /// Returns the current settings.
    fn settings(&self) -> Arc<ClusterSpec>;

    /// Serves server-side code at a worker on behalf of another session.
    fn open(&self, worker: Address, delegation: Delegation, batches: UnboundedReceiver<Batch>);
}

/// A session at a worker, for code on any thread. Its commands are values. They run one after
/// another, each with the rights that the session's user has at that time. Dropping the caller ends
/// the session and discards an open transaction.
#[derive(Debug)]
pub struct Caller {
    batches: UnboundedSender<Batch>,
}

impl Caller {
    /// Runs commands, and returns once their answers are as durable as answers to clients. If the
    /// future is dropped, they continue for at most ten seconds.
    ///
    /// # Errors
    /// The session has ended; the error is the text of an error reply. Any of the commands may have
    /// been executed.
    pub async fn run(&self, commands: Vec<Command>) -> Answers {
        let (answers, answered) = oneshot::channel();
        // An ended session drops its batches.
        let _ = self.batches.send(Batch { commands, answers });
        answered.await.unwrap_or_else(|_| Err(ENDED.to_owned()))
    }

    /// Runs a command.
    ///
    /// # Errors
    /// The text of an error reply.
    pub async fn execute<C: Sendable>(&self, command: C) -> Result<C::Answer, String> {
        let answer = self.run(vec![command.into()]).await?.pop();
        let answer = answer.expect("each command has an answer")?;
        Ok(C::answer(answer).expect("an answer has the kind of its command"))
    }

    /// Returns whether the session has ended, so commands have no effect.
    pub fn has_ended(&self) -> bool {
        self.batches.is_closed()
    }
}

/// Error of a session that has ended before its answer.
const ENDED: &str = "UNAVAILABLE the session has ended";

/// The executor of modules.
pub trait Modules: Send + Sync {
    /// Carries out SOLERA.MODULE, SOLERA.CALL or SOLERA.PHASE of a client. `request` is the
    /// command's name and its arguments. If the sender of the answer is dropped, the client gets
    /// the reply of a server that is stopping.
    fn run(&self, local: Local, request: Vec<Vec<u8>>) -> oneshot::Receiver<Value>;

    /// Returns the result of the last search for incomplete transactions; `None` before the first
    /// one.
    fn incomplete(&self) -> Option<Incomplete>;
}

/// Numbers of transactions of the whole cluster that have begun to take effect and are incomplete,
/// and of those that this process has completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Incomplete {
    /// Transactions that can be completed.
    pub open: usize,
    /// Transactions whose user lacks a right to the remaining work, as of the last attempt; `open`
    /// counts them, too.
    pub denied: usize,
    /// Transactions that can never be completed, and must be given up by a user.
    pub failed: usize,
    /// Transactions whose records cannot be read.
    pub unreadable: usize,
    /// Number of spaces that could not be searched, because their stores did not answer.
    pub unasked_spaces: usize,
    /// Number of other callers' transactions that the process has completed since its start.
    pub recovered: u64,
}

/// Object of a command whose permission is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// This key.
    Key(&'a [u8]),
    /// A key of this space that is not known yet.
    SomeKeyOf(&'a Space),
}

/// Opens sessions at a worker on behalf of a client.
#[derive(Clone)]
pub struct Local {
    /// A weak reference, because the process owns the executor of modules, which may keep this
    /// value.
    sessions: Weak<dyn Sessions>,
    worker: Address,
    spec: Arc<ClusterSpec>,
    delegation: Delegation,
}

impl Local {
    /// Creates the access for a worker and the session that `delegation` was taken from.
    pub(crate) fn new(
        sessions: Weak<dyn Sessions>,
        worker: Address,
        spec: Arc<ClusterSpec>,
        delegation: Delegation,
    ) -> Local {
        Local { sessions, worker, spec, delegation }
    }

    /// Returns the cluster's configuration.
    pub fn spec(&self) -> &ClusterSpec {
        &self.spec
    }

    /// Returns the cluster's name.
    pub fn cluster(&self) -> &str {
        &self.spec.name
    }

    /// Returns whether the client may read and change records of other users' transactions: it has
    /// the right to run `solera.phase`, or no users are configured.
    pub fn may_coordinate(&self) -> bool {
        self.delegation.user().is_none_or(|user| user.may_run("solera.phase"))
    }

    /// Returns the name of the client's user, if it has one.
    pub fn user(&self) -> Option<&str> {
        self.delegation.user().map(|user| user.name.as_str())
    }

    /// Returns whether users are configured, so rights are checked.
    pub fn is_guarded(&self) -> bool {
        self.users().is_none_or(|users| users.are_configured())
    }

    /// Returns the current users; `None` if the process has stopped.
    fn users(&self) -> Option<Users> {
        self.sessions.upgrade().map(|sessions| sessions.settings().users.clone())
    }

    /// Returns a user with its current rights. If no users are configured, it is the default user.
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

    /// Checks that a user exists and is enabled.
    ///
    /// # Errors
    /// The text of an error reply.
    pub fn is_user(&self, name: &str) -> Result<(), String> {
        self.current(name).map(drop)
    }

    /// Checks whether a user may currently run a command, regardless of its keys.
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

    /// Checks whether a user may currently run a command on keys.
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

    /// Returns the spaces of the cluster that can be stores of modules: those with a level of the
    /// lattice.
    pub fn spaces(&self) -> impl Iterator<Item = &Space> {
        self.spec.spaces.iter().filter(|space| !matches!(space.runs, Runs::Primary(_)))
    }

    /// Returns whether a space with this name exists that modules cannot use, because its protocol
    /// has no transactions.
    pub fn lacks_transactions(&self, space: &str) -> bool {
        let space = self.spec.spaces.iter().find(|found| found.name == space);
        space.is_some_and(|space| matches!(space.runs, Runs::Primary(_)))
    }

    /// Returns the keys of the speculative space that the client may use now, and the operations on
    /// them; `None` if there is no such space.
    ///
    /// # Errors
    /// The text of an error reply, if the client's user no longer exists.
    pub fn speculative_scope(&self) -> Result<Option<Scope>, String> {
        let spaces = &self.spec.spaces;
        let Some(space) = spaces.speculative() else { return Ok(None) };
        let user = self.user().map(|name| self.current(name)).transpose()?.flatten();
        let rights = match user {
            Some(user) => {
                let right = |(pattern, operations): (&[u8], u64)| Right {
                    pattern: pattern.into(),
                    operations,
                };
                user.operations().map(right).collect()
            }
            None => vec![Right::everything()],
        };
        let is_within = |other: &&Space| {
            other.prefix.len() > space.prefix.len() && other.prefix.starts_with(&space.prefix)
        };
        let except = spaces.iter().filter(is_within).map(|other| other.prefix.as_str().into());
        let prefix = space.prefix.as_str().into();
        Ok(Some(Scope { prefix, except: except.collect(), rights }))
    }

    /// Returns the name of the site.
    pub fn site(&self) -> &str {
        &self.spec.sites[self.worker.site.index()].name
    }

    /// Opens a session that acts as the client and begins with the client's past. When the client
    /// gets its answer, its past contains that of the session. The session has the current rights
    /// of the client's user at each command.
    ///
    /// # Errors
    /// The text of an error reply, if the client's user no longer exists.
    pub fn call(&self) -> Result<Caller, String> {
        match self.user() {
            Some(name) => self.call_as(name),
            None => Ok(self.caller(self.delegation.clone())),
        }
    }

    /// Opens a session like [`Self::call`] that acts as a given user.
    ///
    /// # Errors
    /// The text of an error reply, if the user does not exist.
    pub fn call_as(&self, name: &str) -> Result<Caller, String> {
        let user = self.current(name)?;
        Ok(self.caller(self.delegation.with_user(user)))
    }

    /// Opens a session like [`Self::call`] that acts as the server, with all rights.
    pub fn call_as_server(&self) -> Caller {
        self.caller(self.delegation.for_server())
    }

    fn caller(&self, delegation: Delegation) -> Caller {
        let (batches, received) = unbounded_channel();
        // The receiver may be gone when the process ends.
        if let Some(sessions) = self.sessions.upgrade() {
            sessions.open(self.worker, delegation, received);
        }
        Caller { batches }
    }
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").field("worker", &self.worker).finish_non_exhaustive()
    }
}

//! Modules of transactions: what runs them stands above this crate, and is given to a
//! [`Cluster`](crate::Cluster).
//!
//! SOLERA.MODULE, SOLERA.CALL and SOLERA.PHASE hand their arguments over, with the means to open
//! sessions at the worker that was asked. These take commands as values, act as the calling user,
//! and have the pasts of the calling session. A call does not end with the client that has asked
//! for it.

use std::fmt;
use std::sync::{Arc, Weak};

use solera_commands::lookup;
use solera_config::{ClusterSpec, DEFAULT_USER, Runs, Space, User, Users};
use solera_machine::Address;
use solera_resp::Value;
use solera_session::{Answers, Batch, Command, Delegation, Sendable};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::log::Log;

/// Where sessions can be opened: the workers of a process.
pub(crate) trait Sessions: Send + Sync {
    /// The settings as of now.
    fn settings(&self) -> Arc<ClusterSpec>;

    /// Has a worker serve server-side code for another session.
    fn open(&self, worker: Address, delegation: Delegation, batches: UnboundedReceiver<Batch>);
}

/// A session at a worker, for code on any thread. Its commands are values, and are run one after
/// another with the rights that the session's user has then. Dropping it ends the session, and an
/// open transaction has no effect.
#[derive(Debug)]
pub struct Caller {
    batches: UnboundedSender<Batch>,
}

impl Caller {
    /// Runs commands, and returns once their answers are as durable as what clients are answered.
    /// If nobody waits any more, they still run for ten seconds at most.
    ///
    /// # Errors
    /// The session has ended, with the text of an error reply. Any of the commands may have been
    /// done.
    pub async fn run(&self, commands: Vec<Command>) -> Answers {
        let (answers, answered) = oneshot::channel();
        // A session that has ended drops what it is sent.
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
        Ok(C::answer(answer).expect("a command is answered as its kind is"))
    }

    /// Whether the session has ended, so that commands come to nothing.
    pub fn has_ended(&self) -> bool {
        self.batches.is_closed()
    }
}

/// What is told of a session that has ended before its answer.
const ENDED: &str = "UNAVAILABLE the session has ended";

/// Runs modules.
pub trait Modules: Send + Sync {
    /// Does what a client asks by SOLERA.MODULE, SOLERA.CALL or SOLERA.PHASE: the command's name
    /// and its arguments. An answer that is dropped is told as a server that stops.
    fn run(&self, local: Local, request: Vec<Vec<u8>>) -> oneshot::Receiver<Value>;

    /// What it saw when it looked last for transactions that are not complete. None while it has
    /// not looked.
    fn incomplete(&self) -> Option<Incomplete>;
}

/// How many transactions have begun to take effect and are not complete, of the whole cluster, and
/// what a process has done about them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Incomplete {
    /// Those that can be completed.
    pub open: usize,
    /// Those of users who have no right to what is left, as it was seen last; they are among the
    /// open ones, too.
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
    /// Weak, as whoever runs modules may keep it, and is kept by the process.
    sessions: Weak<dyn Sessions>,
    worker: Address,
    spec: Arc<ClusterSpec>,
    log: Log,
    delegation: Delegation,
}

impl Local {
    /// At a worker, for the session that `delegation` is taken from.
    pub(crate) fn new(
        sessions: Weak<dyn Sessions>,
        worker: Address,
        spec: Arc<ClusterSpec>,
        log: Log,
        delegation: Delegation,
    ) -> Local {
        Local { sessions, worker, spec, log, delegation }
    }

    /// Where to write what people should know of.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// What the cluster is made of.
    pub fn spec(&self) -> &ClusterSpec {
        &self.spec
    }

    /// The cluster's name.
    pub fn cluster(&self) -> &str {
        &self.spec.name
    }

    /// Whether the client may see and change what transactions of others keep: it has the right
    /// `solera.phase`, or nobody needs rights here.
    pub fn may_coordinate(&self) -> bool {
        self.delegation.user().is_none_or(|user| user.may_run("solera.phase"))
    }

    /// The name of the client's user, if it has one.
    pub fn user(&self) -> Option<&str> {
        self.delegation.user().map(|user| user.name.as_str())
    }

    /// Whether users need rights here.
    pub fn is_guarded(&self) -> bool {
        self.users().is_none_or(|users| users.are_configured())
    }

    /// The users as they are now. None if the site is gone.
    fn users(&self) -> Option<Users> {
        self.sessions.upgrade().map(|sessions| sessions.settings().users.clone())
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

    /// The spaces of the cluster that can be stores of modules: those whose level is one of the
    /// lattice.
    pub fn spaces(&self) -> impl Iterator<Item = &Space> {
        self.spec.spaces.iter().filter(|space| space.runs == Runs::UniStore)
    }

    /// Returns whether a space has this name that modules cannot use, because another protocol than
    /// UniStore runs it.
    pub fn is_of_another_protocol(&self, space: &str) -> bool {
        self.spec.spaces.iter().any(|it| it.name == space && it.runs != Runs::UniStore)
    }

    /// The name of the site.
    pub fn site(&self) -> &str {
        &self.spec.sites[self.worker.site.index()].name
    }

    /// Opens a session as the client, which begins with what the client has seen. What it sees, the
    /// client has seen when it is answered. The client's rights are those that its user has
    /// whenever it asks for something.
    ///
    /// # Errors
    /// The text of an error reply, if the client's user is no more.
    pub fn call(&self) -> Result<Caller, String> {
        match self.user() {
            Some(name) => self.call_as(name),
            None => Ok(self.caller(self.delegation.clone())),
        }
    }

    /// The same in the name of a user.
    ///
    /// # Errors
    /// The text of an error reply, if there is no such user.
    pub fn call_as(&self, name: &str) -> Result<Caller, String> {
        let user = self.current(name)?;
        Ok(self.caller(self.delegation.with_user(user)))
    }

    /// The same as the server itself, which may do everything.
    pub fn call_as_server(&self) -> Caller {
        self.caller(self.delegation.for_server())
    }

    fn caller(&self, delegation: Delegation) -> Caller {
        let (batches, received) = unbounded_channel();
        // Where the process ends, nobody receives.
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

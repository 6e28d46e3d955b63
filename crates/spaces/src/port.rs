//! What a session says to a cluster, and what it is answered.

use std::fmt;
use std::sync::Arc;

use solera_data::{Op, Outcome};
use solera_mixt::remote_group::RemoteGroup;
use solera_mixt::store::{Horizon, StoreError};

/// A command of a session.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Opens a transaction → [`Reply::Done`].
    Begin {
        /// Whether it is certified.
        strong: bool,
    },
    /// Asks for the name of the open strong transaction → [`Reply::Name`].
    Name,
    /// Commits the open transaction → [`Reply::Done`].
    Commit,
    /// Drops the open transaction → [`Reply::Done`].
    Abort,
    /// Drops the open strong transaction, and certifies what it has read → [`Reply::Done`].
    Certify,
    /// Lets the open transaction conflict with all that changes a key → [`Reply::Done`].
    Watch {
        /// The key.
        key: Vec<u8>,
    },
    /// Does an operation on a key, in the open transaction or as one of its own → [`Reply::Key`].
    OnKey {
        /// The key.
        key: Vec<u8>,
        /// The operation.
        op: Op,
    },
    /// Asks whether a strong transaction has committed → [`Reply::Outcome`].
    Outcome {
        /// Its name.
        transaction: String,
    },
    /// Waits until the session sees all that was committed until a time → [`Reply::Done`].
    AttachUntil {
        /// The time, in milliseconds since 1970.
        until_ms: u64,
        /// How long to wait, in milliseconds.
        timeout_ms: u64,
        /// At which sites; at all if none are named.
        sites: Vec<Arc<str>>,
    },
    /// Asks how far commits are seen → [`Reply::Horizon`].
    Horizon,
}

/// What a command is answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// It is done.
    Done,
    /// The name of a transaction.
    Name(String),
    /// What an operation on a key came to.
    Key(Outcome),
    /// Whether a transaction has committed; `None` if that is not known.
    Outcome(Option<bool>),
    /// How far commits are seen.
    Horizon(Horizon),
    /// What no such command is answered, as it can be shown.
    Other(String),
}

/// The reply to a command, or the text of an error reply: a code, and words.
pub type Answer = Result<Reply, String>;

/// Why commands have no answers. Any of them may have been done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken(pub String);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The way of commands to a cluster: to one session there at a time, which has seen what the
/// sessions before it had seen when they committed or attached. After [`Broken`], and if nobody
/// waits for an answer any more, that session ends, and its open transaction has no effect; a
/// command that runs may take effect for [`IN_DOUBT_MS`](solera_mixt::outcome::IN_DOUBT_MS) more.
pub trait Port: Send {
    /// Whether sessions are in this process, so that no connection can lose the answer to a commit.
    /// Strong transactions of such sessions have no name to ask for their outcome by: if the
    /// session ends meanwhile, as its journal fails or its user is removed, whether one that leaves
    /// no record has committed stays unknown.
    fn is_local(&self) -> bool;

    /// Opens a session if none is open.
    fn open(&mut self) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Runs commands one after another, whatever the ones before them came to, and returns the
    /// answer to each. Without an open session they are [`Broken`].
    fn run(
        &mut self,
        commands: Vec<Command>,
    ) -> impl Future<Output = Result<Vec<Answer>, Broken>> + Send;

    /// Has the server run a group of phases, which the session then has seen, and returns the
    /// encoded [`RemoteReplies`](solera_mixt::remote_group::RemoteReplies) or the text of an error
    /// reply. A port that runs none refuses.
    fn ship(
        &mut self,
        _remote_group: &RemoteGroup,
    ) -> impl Future<Output = Result<Result<Vec<u8>, String>, Broken>> + Send {
        std::future::ready(Ok(Err("ERR phases are not run here".to_owned())))
    }

    /// Returns whether a remote group that was sent before is over, by its number and the time
    /// until which it runs, or the text of an error reply.
    fn settle(
        &mut self,
        _number: u64,
        _until_ms: u64,
    ) -> impl Future<Output = Result<Result<bool, String>, Broken>> + Send {
        std::future::ready(Ok(Ok(true)))
    }

    /// The site of the last session, if it has said so.
    fn site(&self) -> Option<Arc<str>>;

    /// Whether a session is open, and nothing has come, not even its end, that nobody has asked
    /// for.
    fn is_quiet(&mut self) -> bool;
}

//! The commands of a session to a cluster, and the replies.

use std::fmt;
use std::sync::Arc;

use solera_data::{Op, Outcome};
use solera_mixt::remote_group::RemoteGroup;
use solera_mixt::store::{Horizon, StoreError};

/// Kind of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Causal.
    #[default]
    Causal,
    /// Strong: it is certified.
    Strong,
    /// Transactions of level `pcpsi`. Each spans only spaces of this level, and no other kind of
    /// transaction spans such a space.
    PcPsi,
}

/// A command of a session.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Opens a transaction → [`Reply::Done`].
    Begin {
        /// Kind of the transaction.
        kind: Kind,
    },
    /// Asks for the name of the open strong transaction → [`Reply::Name`].
    Name,
    /// Commits the open transaction → [`Reply::Done`].
    Commit,
    /// Aborts the open transaction → [`Reply::Done`].
    Abort,
    /// Aborts the open transaction, which is not causal, and certifies its reads → [`Reply::Done`].
    Certify,
    /// Makes the open transaction conflict with all changes of a key → [`Reply::Done`].
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
    /// Waits until the session sees all commits up to a time → [`Reply::Done`].
    AttachUntil {
        /// The time, in milliseconds since 1970.
        until_ms: u64,
        /// Maximal time to wait, in milliseconds.
        timeout_ms: u64,
        /// Sites whose commits must be visible; empty for all.
        sites: Vec<Arc<str>>,
    },
    /// Asks up to which time commits are visible → [`Reply::Horizon`].
    Horizon,
}

/// Reply to a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The command was executed.
    Done,
    /// The name of a transaction.
    Name(String),
    /// The result of an operation on a key.
    Key(Outcome),
    /// Whether the transaction committed; `None` if that is unknown.
    Outcome(Option<bool>),
    /// The times up to which commits are visible.
    Horizon(Horizon),
    /// A reply that does not belong to the command, as text.
    Other(String),
}

/// The reply to a command, or the text of an error reply: a code and a message.
pub type Answer = Result<Reply, String>;

/// Reason why commands have no answers. Any of them may have been executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken(pub String);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Transport of commands to a cluster, with at most one open session at a time. Each session has
/// seen what the sessions before it had seen when they committed or attached. After [`Broken`], or
/// if the caller stops waiting for an answer, that session ends, and its open transaction has no
/// effect. A command that still runs may take effect for another
/// [`IN_DOUBT_MS`](solera_mixt::outcome::IN_DOUBT_MS).
pub trait Port: Send {
    /// Returns whether sessions are in this process, so that no connection can lose the answer to a
    /// commit. Strong transactions of such sessions have no name to ask for their outcome. If the
    /// session ends while a transaction commits, because its journal fails or its user is removed,
    /// and the transaction leaves no record, its outcome stays unknown.
    fn is_local(&self) -> bool;

    /// Opens a session if none is open.
    fn open(&mut self) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Runs commands one after another and returns the answer to each. An error does not stop the
    /// ones that follow. Without an open session, returns [`Broken`].
    fn run(
        &mut self,
        commands: Vec<Command>,
    ) -> impl Future<Output = Result<Vec<Answer>, Broken>> + Send;

    /// Makes the server run a group of phases, whose effects the session then sees. Returns the
    /// encoded [`RemoteReplies`](solera_mixt::remote_group::RemoteReplies) or the text of an error
    /// reply. A port that runs no phases returns an error.
    fn ship(
        &mut self,
        _remote_group: &RemoteGroup,
    ) -> impl Future<Output = Result<Result<Vec<u8>, String>, Broken>> + Send {
        std::future::ready(Ok(Err("ERR this connection does not run phases".to_owned())))
    }

    /// Returns whether a remote group that was sent before is over, or the text of an error reply.
    /// The remote group is given by its number and its time limit.
    fn settle(
        &mut self,
        _number: u64,
        _until_ms: u64,
    ) -> impl Future<Output = Result<Result<bool, String>, Broken>> + Send {
        std::future::ready(Ok(Ok(true)))
    }

    /// Returns the site of the last session, if it has reported it.
    fn site(&self) -> Option<Arc<str>>;

    /// Returns whether a session is open and nothing unexpected has arrived from it, not even its
    /// end.
    fn is_quiet(&mut self) -> bool;
}

//! Requests to the database of a group of phases, and their answers.

pub(crate) mod calls;
pub mod remote_group;

use serde::{Deserialize, Serialize};

use self::calls::{Answer, Begin, Commits, CustomCall, NameWrite, ObjectCall};
use self::remote_group::{RemoteGroup, RemoteReplies};
use crate::access::{Access, Denial};
use crate::location::Fields;

/// A request to a group's database.
#[derive(Clone, Debug)]
pub enum Request {
    /// Opens a transaction.
    Begin(Begin),
    /// Executes an operation on an object.
    Perform(ObjectCall),
    /// Executes a custom operation.
    Custom(CustomCall),
    /// Commits, and writes these named objects.
    Commit(Vec<NameWrite>),
    /// Runs a group on a worker, in a transaction of its own.
    Execute(Box<RemoteGroup>),
    /// Asks whether the session sees these commits.
    Sees(Commits),
    /// Asks for one of these accesses that the user has no right to make, as far as the database
    /// knows in advance.
    Permits(Vec<Access>),
    /// Aborts the open transaction, and certifies what it has read.
    Certify,
    /// Aborts the open transaction.
    Abort,
}

impl Request {
    /// Returns whether it is an operation that changes something.
    pub(crate) fn mutates(&self) -> bool {
        match self {
            Request::Perform(call) => call.op.mutates(),
            Request::Custom(call) => call.operation().mutates,
            _ => false,
        }
    }
}

/// An answer of a database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// A transaction is open.
    Began(Vec<Fields>),
    /// The operation was executed.
    Answered(Answer),
    /// The transaction has committed.
    Committed,
    /// The reads are certified.
    Certified,
    /// Whether the session sees the commits.
    Sees(bool),
    /// The transaction is aborted, or the pause is over.
    Done,
    /// A worker has run the group.
    #[serde(skip)]
    Executed(RemoteReplies),
    /// An access that the user has no right to make, if there is one.
    #[serde(skip)]
    Permits(Option<Denial>),
}

//! What is asked of the database of a group of phases, and answered.

pub(crate) mod calls;
pub mod shipment;

use serde::{Deserialize, Serialize};

use self::calls::{Answer, Begin, Commits, CustomCall, NameWrite, ObjectCall};
use self::shipment::{Shipment, Shipped};
use crate::access::{Access, Denial};
use crate::place::Fields;

/// What is asked of a group's database.
#[derive(Clone, Debug)]
pub enum Request {
    /// Opens a transaction.
    Begin(Begin),
    /// An operation on an object.
    Perform(ObjectCall),
    /// A custom operation.
    Custom(CustomCall),
    /// Commits.
    Commit(Vec<NameWrite>),
    /// Has a worker run a group in a transaction of its own.
    Execute(Box<Shipment>),
    /// Whether this is seen.
    Sees(Commits),
    /// Whether the user may do this, as far as the database can tell before it is done.
    Permits(Vec<Access>),
    /// Gives the open transaction up, and certifies what it has read.
    Certify,
    /// Gives the open transaction up.
    Abort,
}

impl Request {
    /// Whether it is an operation that changes something.
    pub(crate) fn mutates(&self) -> bool {
        match self {
            Request::Perform(call) => call.op.mutates(),
            Request::Custom(call) => call.operation().mutates,
            _ => false,
        }
    }
}

/// What a database answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// A transaction is open.
    Began(Vec<Fields>),
    /// An operation was done.
    Answered(Answer),
    /// It has committed.
    Committed,
    /// What it had read is certified.
    Certified,
    /// Whether it is seen.
    Sees(bool),
    /// The transaction is given up, or it was waited as long as was asked.
    Done,
    /// A worker has run the group.
    #[serde(skip)]
    Executed(Shipped),
    /// What the user may not do, if there is something.
    #[serde(skip)]
    Permits(Option<Denial>),
}

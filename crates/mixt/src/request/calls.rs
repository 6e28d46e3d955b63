//! Single requests to a session with a database, and their answers.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use solera_program::ir::{Operation, Program};
use solera_program::operation::ObjectOp;
use solera_program::types::{Object, StoreId, Type};
use solera_program::value::Value;

use crate::location::{Fields, Name};

/// All commits until a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commits {
    /// The time, in milliseconds since 1970.
    pub until_ms: u64,
    /// Replicas that made the commits
    /// ([`Database::commit_replica`](crate::store::Database::commit_replica)); `None` for any
    /// replica.
    pub replicas: Option<BTreeSet<Arc<str>>>,
}

/// Timestamps of a database. They are comparable only with one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Horizon {
    /// Upper bound of the timestamps of all commits that have taken effect before.
    pub latest: u64,
    /// Time up to which every session sees all commits.
    pub stable: u64,
}

/// Kind of a transaction, and the named objects to read at its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Begin {
    /// Whether it uses a space that orders transactions: linearizable or por.
    pub strong: bool,
    /// Whether it changes no objects. Its commit may still write named objects.
    pub read_only: bool,
    /// Whether at most one operation follows, which changes nothing, and the commit writes nothing.
    /// The database may then execute the operation and end the transaction in one round trip, and
    /// the commit does nothing.
    pub once: bool,
    /// Named objects to read.
    pub names: Vec<Name>,
}

/// A change of one field of a named object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameWrite {
    /// Sets the field.
    Set {
        /// The named object.
        name: Name,
        /// Number of the field.
        field: u64,
        /// New value.
        value: Arc<[u8]>,
        /// Whether the transaction fails with [`StoreError::Conflict`] if the field exists already.
        ///
        /// A database whose atomic spaces merge concurrent writes cannot promise this for
        /// concurrent commits; [`coordinator`](crate::coordinator) describes the consequences.
        new: bool,
    },
    /// Removes the field, if it exists. A named object without fields does not exist.
    Remove {
        /// The named object.
        name: Name,
        /// Number of the field.
        field: u64,
    },
}

impl NameWrite {
    /// Returns the named object.
    pub fn name(&self) -> &Name {
        match self {
            NameWrite::Set { name, .. } | NameWrite::Remove { name, .. } => name,
        }
    }
}

/// Request for a list of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// The space.
    pub space: Arc<str>,
    /// Prefix of the keys to return.
    pub prefix: Arc<str>,
    /// Key after which the list begins.
    pub after: Arc<str>,
    /// Maximum number of keys.
    pub limit: usize,
}

/// An operation on an object.
#[derive(Clone, Debug)]
pub struct ObjectCall {
    /// The program, for the structs of its types.
    pub program: Arc<Program>,
    /// The space.
    pub space: Arc<str>,
    /// The object's key in the space.
    pub key: Arc<str>,
    /// Kind of the object, by its index in the program.
    pub object: u32,
    /// The operation.
    pub op: ObjectOp,
    /// The arguments. They have the types of the operation's parameters.
    pub args: Vec<Value>,
    /// Type of the result.
    pub result: Type,
    /// A named object to read along with the object: the object's write witnesses.
    pub look: Option<Name>,
}

impl ObjectCall {
    /// Returns the kind of the object.
    pub fn object(&self) -> &Object {
        &self.program.objects[self.object as usize]
    }
}

/// A custom operation of a store.
#[derive(Clone, Debug)]
pub struct CustomCall {
    /// The program.
    pub program: Arc<Program>,
    /// The store that declares it.
    pub store: StoreId,
    /// The operation, by its index in the store.
    pub operation: u16,
    /// The space.
    pub space: Arc<str>,
    /// The arguments. The argument of a dereferenced parameter is a handle of this store, and the
    /// database uses the object to which it leads (MixT §3.1, note 1).
    pub args: Vec<Value>,
    /// Named objects to read along with the operation: the write witnesses of the objects that it
    /// uses.
    pub look: Vec<Name>,
}

impl CustomCall {
    /// Returns the declaration of the operation.
    pub fn operation(&self) -> &Operation {
        &self.program.stores[usize::from(self.store.0)].operations[usize::from(self.operation)]
    }
}

/// Answer to an operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The result; `None` if the object does not exist.
    pub value: Option<Value>,
    /// Fields of all named objects that were read along.
    pub seen: Fields,
}

/// Reason why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum StoreError {
    /// Another transaction conflicted with this one: a retry may succeed.
    #[error("another transaction conflicted with this one")]
    Conflict,
    /// The database cannot be reached, or cannot answer now.
    #[error("it cannot be reached: {0}")]
    Unavailable(String),
    /// The answer to a commit was lost: the commit may have taken effect.
    #[error("it is not known whether it has committed: {0}")]
    OutcomeUnknown(String),
    /// The handle leads to no object, and the operation needs one.
    #[error("the object does not exist")]
    Missing,
    /// The database never executes this request.
    #[error("{0}")]
    Refused(String),
    /// The database does not execute this request now, or not for this user: a right is missing, or
    /// the database takes no writes. An administrator can change that.
    #[error("{0}")]
    Denied(String),
    /// The key holds another kind of object.
    #[error("`{key}` holds {found}, not {wanted}")]
    WrongData {
        /// The key.
        key: Arc<str>,
        /// Kind of data that the key holds.
        found: String,
        /// Kind of data that the program expects.
        wanted: String,
    },
}

impl StoreError {
    /// Returns the same error with a text changed by `words`, if the request was refused or denied.
    pub fn refused_with(self, words: impl FnOnce(String) -> String) -> StoreError {
        match self {
            StoreError::Refused(why) => StoreError::Refused(words(why)),
            StoreError::Denied(why) => StoreError::Denied(words(why)),
            other => other,
        }
    }
}

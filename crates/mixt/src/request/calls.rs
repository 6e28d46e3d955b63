//! What is asked of a session with a database, one by one, and answered.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use solera_program::ir::{Operation, Program};
use solera_program::operation::ObjectOp;
use solera_program::types::{Object, StoreId, Type};
use solera_program::value::Value;

use crate::place::{Fields, Name};

/// What was committed until a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commits {
    /// The time, in milliseconds since 1970.
    pub until_ms: u64,
    /// At which replicas ([`Database::whence`](crate::store::Database::whence)); at any if none are
    /// named.
    pub whence: Option<BTreeSet<Arc<str>>>,
}

/// Timestamps of a database, to be compared with one another only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Horizon {
    /// Not less than that of any commit that has taken effect before.
    pub latest: u64,
    /// Commits up to here are seen by everybody.
    pub stable: u64,
}

/// The kind of a transaction, and what is read at its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Begin {
    /// Whether it touches a space that promises an order of transactions: linearizable or por.
    pub strong: bool,
    /// Whether it changes nothing. It may be told to write names when it commits, all the same.
    pub read_only: bool,
    /// Whether one operation follows at most, which changes nothing, and then nothing is written.
    /// So the operation may be done in a transaction that ends with it, in one round trip; the
    /// commit after it has nothing left to do.
    pub once: bool,
    /// Named objects that are read.
    pub names: Vec<Name>,
}

/// Changes a value of a named object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameWrite {
    /// Sets it.
    Set {
        /// The named object.
        name: Name,
        /// Which of its values.
        field: u64,
        /// What it becomes.
        value: Arc<[u8]>,
        /// Whether the transaction fails with [`StoreError::Conflict`] if there is one already.
        ///
        /// A database whose atomic spaces merge concurrent writes cannot promise that of concurrent
        /// commits; [`coordinator`](crate::coordinator) says what that means.
        new: bool,
    },
    /// Removes it, if it is there. A named object without values is gone.
    Remove {
        /// The named object.
        name: Name,
        /// Which of its values.
        field: u64,
    },
}

/// Which names are to be listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// The space.
    pub space: Arc<str>,
    /// What their keys begin with.
    pub prefix: Arc<str>,
    /// The key after which the list begins.
    pub after: Arc<str>,
    /// How many at most.
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
    /// What the object is, by its index in the program.
    pub object: u32,
    /// What is done.
    pub op: ObjectOp,
    /// The arguments. They have the types that the operation takes.
    pub args: Vec<Value>,
    /// The type of the answer.
    pub result: Type,
    /// A named object that is read along with it: the object's write witnesses.
    pub look: Option<Name>,
}

impl ObjectCall {
    /// What the object is.
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
    /// The arguments. Of a dereferenced parameter it is a handle of this store: the database takes
    /// what it leads to (MixT §3.1, note 1).
    pub args: Vec<Value>,
    /// Named objects that are read along with it: the write witnesses of what it uses.
    pub look: Vec<Name>,
}

impl CustomCall {
    /// The operation as it is declared.
    pub fn operation(&self) -> &Operation {
        &self.program.stores[usize::from(self.store.0)].operations[usize::from(self.operation)]
    }
}

/// What an operation answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The value.
    pub value: Option<Value>,
    /// The named objects that were looked at, all together.
    pub seen: Fields,
}

/// Why a database does not do what it is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoreError {
    /// Another transaction was in the way: the same may succeed when it is run again.
    Conflict,
    /// It cannot be reached, or cannot answer now.
    Unavailable(String),
    /// A commit whose answer was lost: it may have taken effect.
    OutcomeUnknown(String),
    /// There is nothing where the handle leads, and the operation needs something.
    Missing,
    /// It never will.
    Refused(String),
    /// It would, but not now or not for who asks: a right is missing, or it takes no writes. People
    /// can change that.
    Denied(String),
    /// Something else is kept under the key.
    WrongData {
        /// The key.
        key: Arc<str>,
        /// What is there.
        found: String,
        /// What the program takes it for.
        wanted: String,
    },
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Conflict => write!(f, "another transaction was in the way"),
            StoreError::Unavailable(why) => write!(f, "it cannot be reached: {why}"),
            StoreError::OutcomeUnknown(why) => {
                write!(f, "it is not known whether it has committed: {why}")
            }
            StoreError::Missing => write!(f, "there is nothing"),
            StoreError::Refused(why) | StoreError::Denied(why) => write!(f, "{why}"),
            StoreError::WrongData { key, found, wanted } => {
                write!(f, "`{key}` holds {found}, not {wanted}")
            }
        }
    }
}

impl std::error::Error for StoreError {}

impl StoreError {
    /// The same, with more words about what it does not do.
    pub fn refused_with(self, words: impl FnOnce(String) -> String) -> StoreError {
        match self {
            StoreError::Refused(why) => StoreError::Refused(words(why)),
            StoreError::Denied(why) => StoreError::Denied(words(why)),
            other => other,
        }
    }
}

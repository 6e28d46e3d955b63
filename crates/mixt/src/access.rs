//! Accesses to stores in the name of a user, and the accesses that the user has no right to make.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use solera_program::ir::Program;
use solera_program::operation::ObjectOp;
use solera_program::types::StoreId;

/// Names of users, by database. A database without users has no entry.
pub type Users = BTreeMap<Arc<str>, Arc<str>>;

/// An operation that a phase may request.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// The program.
    pub program: Arc<Program>,
    /// Number of the phase.
    pub phase: usize,
    /// The store, as the program declares it.
    pub store: StoreId,
    /// The space to which the store is bound.
    pub space: Arc<str>,
    /// The operation.
    pub operation: StoreOperation,
    /// Key of the object in the space; `None` if it is not known yet.
    pub key: Option<Arc<str>>,
}

/// Operation on a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoreOperation {
    /// An operation on an object.
    Object {
        /// Index of the object in the program.
        object: u32,
        /// The operation.
        op: ObjectOp,
    },
    /// A custom operation, by its index in the store.
    Custom(u16),
}

/// An access that a user has no right to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    /// The phase that needs the access; `None` if the user has no rights at all.
    pub phase: Option<usize>,
    /// Reason, with the user and the command, key or space.
    pub reason: String,
}

//! What may be asked of a store in the name of a user, and what the user has no right to.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use solera_program::ir::Program;
use solera_program::operation::ObjectOp;
use solera_program::types::StoreId;

/// Users, by the databases that know them.
pub type Users = BTreeMap<Arc<str>, Arc<str>>;

/// An operation that a phase may ask for.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// The program.
    pub program: Arc<Program>,
    /// The phase, by its number.
    pub phase: usize,
    /// The store, as the program declares it.
    pub store: StoreId,
    /// The space that the store is.
    pub space: Arc<str>,
    /// What is done.
    pub deed: Deed,
    /// The object's key in the space. None if it is known only later.
    pub key: Option<Arc<str>>,
}

/// What is done with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deed {
    /// An operation on an object, which is known by its index in the program.
    Object {
        /// The object.
        object: u32,
        /// The operation.
        op: ObjectOp,
    },
    /// A custom operation, by its index in the store.
    Custom(u16),
}

/// Says which of some accesses a user has no right to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    /// The phase, if one of them is concerned and not the user altogether.
    pub phase: Option<usize>,
    /// Why, naming the user and the command, key or space.
    pub reason: String,
}

//! Locations of data, and named objects: a few small values by number, under names that no object
//! of a program has.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Fields of a named object, by number.
pub type Fields = BTreeMap<u64, Arc<[u8]>>;

/// Location of data: a space of a database, by names that are the same on all hosts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Location {
    /// Name of the database.
    pub database: Arc<str>,
    /// Name of the space within it.
    pub space: Arc<str>,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.database, self.space)
    }
}

/// Name of a named object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Name {
    /// Space of the object.
    pub space: Arc<str>,
    /// Key, in a key range separate from that of the programs' objects.
    pub key: Arc<str>,
}

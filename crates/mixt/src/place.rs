//! Where data lies, and named objects: a few small values by number, under names that no object of
//! a program has.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The values of a named object, by number.
pub type Fields = BTreeMap<u64, Arc<[u8]>>;

/// Where data lies: a space of a database, by names that are the same for everybody.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    /// The database's name.
    pub database: Arc<str>,
    /// The space within it.
    pub space: Arc<str>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.database, self.space)
    }
}

/// The name of a named object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Name {
    /// The space it is in.
    pub space: Arc<str>,
    /// Its key, apart from those of the programs' objects.
    pub key: Arc<str>,
}

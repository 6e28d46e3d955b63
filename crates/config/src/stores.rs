//! External databases that modules use, besides the cluster's own spaces.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use solera_tls::Files;

use crate::error::ConfigError;
use crate::placed::Placed;

/// An external database. This crate does not interpret its kind and its URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSpec {
    /// Name, the same at all nodes.
    pub name: String,
    /// Kind of the database.
    pub kind: Placed<String>,
    /// URL of the database.
    pub url: Placed<String>,
    /// Source of the password, unless the URL contains it.
    pub password: Option<PasswordSource>,
    /// Files for TLS, if `ca` is set, with the place of that setting. Relative paths start at the
    /// configuration's folder.
    pub tls: Option<Placed<Files>>,
    /// Schema for Solera's own objects in the database, if set.
    pub schema: Option<Placed<String>>,
    /// Timeout of an answer, if set.
    pub timeout: Option<Duration>,
    /// Layout of stored values, if set.
    pub layout: Option<Placed<String>>,
    /// Maximum number of connections of a process, if set.
    pub connections: Option<Placed<u64>>,
    /// Spaces. There is at least one.
    pub spaces: Vec<StoreSpace>,
}

/// A space of an external database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSpace {
    /// Name.
    pub name: Placed<String>,
    /// Prefix of its keys, if set.
    pub prefix: Option<Placed<String>>,
    /// Level, if set.
    pub level: Option<Placed<String>>,
    /// Definitions of its custom operations, by name.
    pub operations: BTreeMap<String, Placed<String>>,
}

/// Source of a password, which is read at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PasswordSource {
    /// A file, whose line break at the end is removed. A relative path starts at the
    /// configuration's folder.
    File(Placed<PathBuf>),
    /// An environment variable.
    Variable(Placed<String>),
}

impl PasswordSource {
    /// Reads the password.
    ///
    /// # Errors
    /// The password cannot be read. The error has the place of the setting.
    pub fn read(&self) -> Result<String, ConfigError> {
        match self {
            PasswordSource::File(file) => match std::fs::read_to_string(&file.value) {
                Ok(text) => Ok(text.trim_end_matches(['\r', '\n']).to_owned()),
                Err(error) => {
                    file.invalid(format!("cannot read {}: {error}", file.value.display()))
                }
            },
            PasswordSource::Variable(variable) => match std::env::var(&variable.value) {
                Ok(text) => Ok(text),
                Err(error) => variable.invalid(format!("{}: {error}", variable.value)),
            },
        }
    }
}

//! Databases of others that modules use, besides the cluster's own spaces.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use solera_tls::Files;

use crate::error::ConfigError;
use crate::placed::Placed;

/// A database of somebody else. What its kind and its URL mean is not known here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSpec {
    /// Its name, the same at all nodes.
    pub name: String,
    /// What it is.
    pub kind: Placed<String>,
    /// Where it is.
    pub url: Placed<String>,
    /// Where the password is, if it is not in the URL.
    pub password: Option<PasswordSource>,
    /// The files for TLS with it, if `ca` is said, where that stands. Relative paths begin at the
    /// configuration's own folder.
    pub tls: Option<Placed<Files>>,
    /// Where it keeps what is its own in the database, if it is said.
    pub schema: Option<Placed<String>>,
    /// How long an answer may take, if it is said.
    pub timeout: Option<Duration>,
    /// How many connections a process may have to it, if it is said.
    pub connections: Option<Placed<u64>>,
    /// Its spaces. There is at least one.
    pub spaces: Vec<StoreSpace>,
}

/// A space of such a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSpace {
    /// Its name.
    pub name: Placed<String>,
    /// What its keys begin with, if it is said.
    pub prefix: Option<Placed<String>>,
    /// The level, if it is said.
    pub level: Option<Placed<String>>,
    /// What its custom operations are, by their names.
    pub operations: BTreeMap<String, Placed<String>>,
}

/// Where a password is found at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PasswordSource {
    /// In a file, without the end of its line. A relative path begins at the configuration's own
    /// folder.
    File(Placed<PathBuf>),
    /// In a variable of the environment.
    Variable(Placed<String>),
}

impl PasswordSource {
    /// The password.
    ///
    /// # Errors
    /// It is not there; tells where the configuration says that it is.
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

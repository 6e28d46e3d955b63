//! Why a configuration cannot be used.

use std::fmt;

/// A configuration that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The file cannot be read.
    Unreadable(String, String),
    /// The file is not TOML, or has a setting that does not exist; tells line and column.
    Malformed(String, String),
    /// A setting that contradicts another or is out of range.
    Invalid {
        /// Where it stands, if in a file: its name and line.
        at: Option<String>,
        /// What is wrong with it.
        reason: String,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Unreadable(file, reason) => write!(f, "cannot read {file}: {reason}"),
            ConfigError::Malformed(file, reason) => write!(f, "{file}: {reason}"),
            ConfigError::Invalid { at: Some(at), reason } => write!(f, "{at}: {reason}"),
            ConfigError::Invalid { at: None, reason } => f.write_str(reason),
        }
    }
}

impl std::error::Error for ConfigError {}

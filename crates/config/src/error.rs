//! Errors of configurations.

use std::fmt;

/// Error of a configuration that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The file cannot be read.
    Unreadable(String, String),
    /// The file is not TOML, or a setting does not exist, contradicts another one or is out of
    /// range.
    Invalid {
        /// File and line of the setting, if it is in a file.
        at: Option<String>,
        /// Reason.
        reason: String,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Unreadable(file, reason) => write!(f, "cannot read {file}: {reason}"),
            ConfigError::Invalid { at: Some(at), reason } => write!(f, "{at}: {reason}"),
            ConfigError::Invalid { at: None, reason } => f.write_str(reason),
        }
    }
}

impl std::error::Error for ConfigError {}

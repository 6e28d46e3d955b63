//! Configuration errors of a PostgreSQL database.

use std::fmt;

/// Maximum length of a space's name, in bytes. It is part of every index entry, whose size is
/// limited.
pub(crate) const MAX_SPACE: usize = 255;

/// Reason why the configuration of a PostgreSQL database is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The URL cannot be read.
    Url(String),
    /// The settings for TLS are invalid.
    Tls(String),
    /// The name of the schema is invalid.
    Schema(String),
    /// The name of a space is invalid.
    Space(String),
    /// Two spaces have one name.
    SpaceTwice(String),
    /// An operation precedes the first space.
    OperationWithoutSpace(String),
    /// A space has two operations with one name.
    OperationTwice {
        /// The space.
        space: String,
        /// The operation.
        operation: String,
    },
    /// The statement of an operation does not read or write data.
    Statement {
        /// The space.
        space: String,
        /// The operation.
        operation: String,
        /// The word with which the statement begins.
        begins: String,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Url(why) => write!(f, "the URL of PostgreSQL cannot be read: {why}"),
            ConfigError::Tls(why) => f.write_str(why),
            ConfigError::Schema(name) => {
                write!(f, "`{name}` cannot be a schema: names have 1 to 63 bytes")
            }
            ConfigError::Space(name) => write!(
                f,
                "`{}` cannot be a space: names have 1 to {MAX_SPACE} bytes",
                name.escape_debug()
            ),
            ConfigError::SpaceTwice(space) => write!(f, "the space `{space}` is named twice"),
            ConfigError::OperationWithoutSpace(operation) => {
                write!(f, "the operation `{operation}` is given before the space it belongs to")
            }
            ConfigError::OperationTwice { space, operation } => {
                write!(f, "the space `{space}` has the operation `{operation}` twice")
            }
            ConfigError::Statement { space, operation, begins } => write!(
                f,
                "the operation `{operation}` of the space `{space}` begins with `{begins}`: it must be one SELECT, \
                 INSERT, UPDATE, DELETE, MERGE, VALUES or WITH"
            ),
        }
    }
}

impl std::error::Error for ConfigError {}

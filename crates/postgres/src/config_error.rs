//! Why a PostgreSQL database cannot be bound so.

use std::fmt;

/// The longest name of a space, in bytes. It is part of every index entry, whose room is limited.
pub(crate) const MAX_SPACE: usize = 255;

/// Why a PostgreSQL database cannot be bound so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The URL cannot be read.
    Url(String),
    /// TLS cannot be spoken so.
    Tls(String),
    /// No schema has such a name.
    Schema(String),
    /// No space can have such a name.
    Space(String),
    /// A space is named twice.
    SpaceTwice(String),
    /// An operation was said before any space.
    OperationWithoutSpace(String),
    /// A space has two operations of one name.
    OperationTwice {
        /// The space.
        space: String,
        /// The operation.
        operation: String,
    },
    /// What an operation is bound to is no statement that reads or writes data.
    Statement {
        /// The space.
        space: String,
        /// The operation.
        operation: String,
        /// The word that the statement begins with.
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

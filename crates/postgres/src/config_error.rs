//! Configuration errors of a PostgreSQL database.

/// Maximum length of a space's name, in bytes. It is part of every index entry, whose size is
/// limited.
pub(crate) const MAX_SPACE: usize = 255;

/// Reason why the configuration of a PostgreSQL database is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The URL cannot be read.
    #[error("the URL of PostgreSQL cannot be read: {0}")]
    Url(String),
    /// The settings for TLS are invalid.
    #[error("{0}")]
    Tls(String),
    /// The name of the schema is invalid.
    #[error("`{0}` cannot be a schema: names have 1 to 63 bytes")]
    Schema(String),
    /// The name of a space is invalid.
    #[error("`{}` cannot be a space: names have 1 to {MAX_SPACE} bytes", .0.escape_debug())]
    Space(String),
    /// Two spaces have one name.
    #[error("the space `{0}` is named twice")]
    SpaceTwice(String),
    /// An operation precedes the first space.
    #[error("the operation `{0}` is given before the space it belongs to")]
    OperationWithoutSpace(String),
    /// A space has two operations with one name.
    #[error("the space `{space}` has the operation `{operation}` twice")]
    OperationTwice {
        /// The space.
        space: String,
        /// The operation.
        operation: String,
    },
    /// The statement of an operation does not read or write data.
    #[error(
        "the operation `{operation}` of the space `{space}` begins with `{begins}`: it must be \
         one SELECT, INSERT, UPDATE, DELETE, MERGE, VALUES or WITH"
    )]
    Statement {
        /// The space.
        space: String,
        /// The operation.
        operation: String,
        /// The word with which the statement begins.
        begins: String,
    },
}

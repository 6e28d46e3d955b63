//! Errors of requests that violate the protocol, with Redis' texts.

use std::fmt;

/// Error of a request that violates the protocol. The text is Redis' own, and the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// An inline command is longer than 64 KiB.
    TooBigInline,
    /// A line with a number of arguments is longer than 64 KiB.
    TooBigMultibulkCount,
    /// A number of arguments is malformed or too large.
    InvalidMultibulkLength,
    /// A line with the length of an argument is longer than 64 KiB.
    TooBigBulkCount,
    /// A length of an argument is malformed or too large.
    InvalidBulkLength,
    /// Another byte where an argument must begin.
    ExpectedDollar(u8),
    /// Quotes in an inline command do not match.
    UnbalancedQuotes,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol error: ")?;
        match self {
            ProtocolError::TooBigInline => f.write_str("too big inline request"),
            ProtocolError::TooBigMultibulkCount => f.write_str("too big mbulk count string"),
            ProtocolError::InvalidMultibulkLength => f.write_str("invalid multibulk length"),
            ProtocolError::TooBigBulkCount => f.write_str("too big bulk count string"),
            ProtocolError::InvalidBulkLength => f.write_str("invalid bulk length"),
            ProtocolError::ExpectedDollar(got) => {
                write!(f, "expected '$', got '{}'", char::from(*got))
            }
            ProtocolError::UnbalancedQuotes => f.write_str("unbalanced quotes in request"),
        }
    }
}

impl std::error::Error for ProtocolError {}

//! Requests that break the protocol, in Redis' words.

use std::fmt;

/// A request that breaks the protocol. The text is Redis' own; the connection ends with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// An inline command longer than 64 KiB.
    TooBigInline,
    /// A line with a number of arguments, longer than 64 KiB.
    TooBigMultibulkCount,
    /// A number of arguments that is none, or too great.
    InvalidMultibulkLength,
    /// A line with the length of an argument, longer than 64 KiB.
    TooBigBulkCount,
    /// A length of an argument that is none, or too great.
    InvalidBulkLength,
    /// Something else where an argument must begin.
    ExpectedDollar(u8),
    /// Quotes in an inline command that do not match.
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

//! Replies as a client reads them.

use std::fmt;

/// A reply, of either protocol. Invalid UTF-8 is replaced where a `String` holds text.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Null.
    Null,
    /// A simple string such as `+OK`.
    Simple(String),
    /// An error, which begins with its code.
    Error(String),
    /// An integer.
    Integer(i64),
    /// A bulk string.
    Bulk(Vec<u8>),
    /// An array.
    Array(Vec<Value>),
    /// A set (RESP3).
    Set(Vec<Value>),
    /// A map (RESP3): keys and values, in the order of their arrival.
    Map(Vec<(Value, Value)>),
    /// A floating-point number (RESP3).
    Double(f64),
    /// A boolean (RESP3).
    Boolean(bool),
    /// An integer of any size, as its decimal digits (RESP3).
    BigNumber(String),
    /// A verbatim string: text for users (RESP3).
    Verbatim {
        /// Three letters, such as `txt` or `mkd`.
        format: [u8; 3],
        /// The text, without its format.
        text: String,
    },
    /// A push message, which the server sends without a request (RESP3).
    Push(Vec<Value>),
}

/// Error of bytes that are no reply. The connection cannot be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyError {
    /// The type does not exist.
    UnknownType(u8),
    /// A length or number is malformed.
    BadNumber,
    /// A boolean, a null or a verbatim string is malformed.
    Malformed(u8),
    /// A line or bulk string does not end where it should.
    MissingLineEnd,
    /// Replies are nested deeper than [`Limits::depth`](crate::Limits::depth).
    TooDeep,
    /// A line is longer than 64 KiB.
    LineTooLong,
    /// A bulk string is longer than [`Limits::bulk_bytes`](crate::Limits::bulk_bytes).
    BulkTooLong,
    /// The reply has more values than [`Limits::values`](crate::Limits::values).
    TooManyValues,
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplyError::UnknownType(byte) => {
                write!(f, "no reply begins with '{}'", byte.escape_ascii())
            }
            ReplyError::BadNumber => f.write_str("a length or number in a reply is malformed"),
            ReplyError::Malformed(byte) => {
                write!(f, "a reply that begins with '{}' is malformed", byte.escape_ascii())
            }
            ReplyError::MissingLineEnd => f.write_str("a reply does not end where it should"),
            ReplyError::TooDeep => f.write_str("a reply is nested too deeply"),
            ReplyError::LineTooLong => f.write_str("a line in a reply is too long"),
            ReplyError::BulkTooLong => f.write_str("a string in a reply is too long"),
            ReplyError::TooManyValues => f.write_str("a reply has too many values"),
        }
    }
}

impl std::error::Error for ReplyError {}

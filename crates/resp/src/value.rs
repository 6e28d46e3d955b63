//! Replies as a client reads them.

use std::fmt;

/// A reply, of either protocol. Text that is no UTF-8 is replaced where a `String` holds it.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// `+OK` and the like.
    Simple(String),
    /// An error, with its code.
    Error(String),
    /// A number.
    Integer(i64),
    /// Bytes.
    Bulk(Vec<u8>),
    /// A sequence.
    Array(Vec<Value>),
    /// Distinct values (RESP3).
    Set(Vec<Value>),
    /// Keys and values (RESP3), in the order they came.
    Map(Vec<(Value, Value)>),
    /// A floating-point number (RESP3).
    Double(f64),
    /// True or false (RESP3).
    Boolean(bool),
    /// A number of any size, as its decimal digits (RESP3).
    BigNumber(String),
    /// Text for people (RESP3).
    Verbatim {
        /// Three letters, such as `txt` or `mkd`.
        format: [u8; 3],
        /// The text, without its format.
        text: String,
    },
    /// Something the server sends unasked (RESP3).
    Push(Vec<Value>),
}

/// Bytes that are no reply. The connection is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyError {
    /// A type that does not exist.
    UnknownType(u8),
    /// A length or number that is none.
    BadNumber,
    /// A boolean, a null or a verbatim string that is none.
    Malformed(u8),
    /// A line or bulk string that does not end where it should.
    MissingLineEnd,
    /// Replies nested deeper than [`Limits::depth`](crate::Limits::depth).
    TooDeep,
    /// A line longer than 64 KiB.
    LineTooLong,
    /// A bulk string longer than [`Limits::bulk_bytes`](crate::Limits::bulk_bytes).
    BulkTooLong,
    /// More values than [`Limits::values`](crate::Limits::values).
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

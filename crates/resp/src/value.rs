//! Replies as a client reads them.

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

/// Error of bytes that are not a reply. The connection cannot be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// The type does not exist.
    #[error("no reply begins with '{}'", .0.escape_ascii())]
    UnknownType(u8),
    /// A length or number is malformed.
    #[error("a length or number in a reply is malformed")]
    BadNumber,
    /// A boolean, a null or a verbatim string is malformed.
    #[error("a reply that begins with '{}' is malformed", .0.escape_ascii())]
    Malformed(u8),
    /// A line or bulk string does not end where it should.
    #[error("a reply does not end where it should")]
    MissingLineEnd,
    /// Replies are nested deeper than [`Limits::depth`](crate::Limits::depth).
    #[error("a reply is nested too deeply")]
    TooDeep,
    /// A line is longer than 64 KiB.
    #[error("a line in a reply is too long")]
    LineTooLong,
    /// A bulk string is longer than [`Limits::bulk_bytes`](crate::Limits::bulk_bytes).
    #[error("a string in a reply is too long")]
    BulkTooLong,
    /// The reply has more values than [`Limits::values`](crate::Limits::values).
    #[error("a reply has too many values")]
    TooManyValues,
}

//! Replies as a client reads them.

use std::fmt;

use crate::integer::parse_integer;

/// A reply, of either protocol.
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
    /// Keys and values (RESP3).
    Map(Vec<(Value, Value)>),
    /// A floating-point number (RESP3).
    Double(f64),
    /// True or false (RESP3).
    Boolean(bool),
    /// Something the server sends unasked (RESP3).
    Push(Vec<Value>),
}

/// Bytes that are no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyError {
    /// A type that does not exist.
    UnknownType(u8),
    /// A length or number that is none.
    BadNumber,
    /// Replies nested deeper than any server would.
    TooDeep,
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplyError::UnknownType(byte) => {
                write!(f, "no reply begins with '{}'", byte.escape_ascii())
            }
            ReplyError::BadNumber => f.write_str("a length or number in a reply is malformed"),
            ReplyError::TooDeep => f.write_str("a reply is nested too deeply"),
        }
    }
}

impl std::error::Error for ReplyError {}

const MAX_DEPTH: usize = 32;

/// The reply at the front of `bytes` and its length, or `None` if it is incomplete.
///
/// # Errors
/// The bytes are no reply; the connection is of no use any more.
pub fn parse_value(bytes: &[u8]) -> Result<Option<(Value, usize)>, ReplyError> {
    value(bytes, 0, 0)
}

type Parsed = Result<Option<(Value, usize)>, ReplyError>;

fn value(bytes: &[u8], at: usize, depth: usize) -> Parsed {
    if depth > MAX_DEPTH {
        return Err(ReplyError::TooDeep);
    }
    let Some(head) = bytes.get(at) else { return Ok(None) };
    let rest = &bytes[at + 1..];
    let Some(end) = rest.iter().position(|byte| *byte == b'\r') else { return Ok(None) };
    let (line, next) = (&rest[..end], at + end + 3);
    if bytes.len() < next {
        return Ok(None);
    }
    let text = || String::from_utf8_lossy(line).into_owned();
    let number = || parse_integer(line).ok_or(ReplyError::BadNumber);
    let simple = match head {
        b'+' => Value::Simple(text()),
        b'-' => Value::Error(text()),
        b'_' => Value::Null,
        b':' => Value::Integer(number()?),
        b'(' => Value::Bulk(line.to_vec()),
        b'#' => Value::Boolean(line == b"t"),
        b',' => Value::Double(text().parse().map_err(|_| ReplyError::BadNumber)?),
        b'$' | b'=' | b'!' => return bulk(bytes, *head, number()?, next),
        b'*' | b'~' | b'>' | b'%' | b'|' => {
            return aggregate(bytes, *head, number()?, next, depth);
        }
        other => return Err(ReplyError::UnknownType(*other)),
    };
    Ok(Some((simple, next)))
}

fn bulk(bytes: &[u8], head: u8, length: i64, start: usize) -> Parsed {
    if length == -1 {
        return Ok(Some((Value::Null, start)));
    }
    let length = usize::try_from(length).map_err(|_| ReplyError::BadNumber)?;
    let end = start.checked_add(length).ok_or(ReplyError::BadNumber)?;
    if bytes.len() < end.saturating_add(2) {
        return Ok(None);
    }
    let content = &bytes[start..end];
    let value = match head {
        b'!' => Value::Error(String::from_utf8_lossy(content).into_owned()),
        // A verbatim string begins with its format, as in `txt:`.
        b'=' => Value::Bulk(content.get(4..).unwrap_or_default().to_vec()),
        _ => Value::Bulk(content.to_vec()),
    };
    Ok(Some((value, end + 2)))
}

fn aggregate(bytes: &[u8], head: u8, count: i64, start: usize, depth: usize) -> Parsed {
    if count == -1 {
        return Ok(Some((Value::Null, start)));
    }
    let count = usize::try_from(count).map_err(|_| ReplyError::BadNumber)?;
    let pairs = matches!(head, b'%' | b'|');
    let total = if pairs { count.checked_mul(2).ok_or(ReplyError::BadNumber)? } else { count };
    let mut items = Vec::new();
    let mut at = start;
    for _ in 0..total {
        let Some((item, next)) = value(bytes, at, depth + 1)? else { return Ok(None) };
        items.push(item);
        at = next;
    }
    let value = match head {
        // Attributes say something about the reply after them, which is what counts.
        b'|' => return value(bytes, at, depth + 1),
        b'%' => {
            let mut pairs = Vec::with_capacity(count);
            let mut items = items.into_iter();
            while let (Some(key), Some(value)) = (items.next(), items.next()) {
                pairs.push((key, value));
            }
            Value::Map(pairs)
        }
        b'~' => Value::Set(items),
        b'>' => Value::Push(items),
        _ => Value::Array(items),
    };
    Ok(Some((value, at)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Protocol, Writer};

    #[test]
    fn what_a_server_writes_a_client_reads() {
        let mut writer = Writer { protocol: Protocol::Resp3, ..Writer::default() };
        writer.map(1);
        writer.bulk(b"k");
        writer.set(2);
        writer.integer(-5);
        writer.null();
        let expected = Value::Map(vec![(
            Value::Bulk(b"k".to_vec()),
            Value::Set(vec![Value::Integer(-5), Value::Null]),
        )]);
        let bytes = writer.bytes;
        assert_eq!(parse_value(&bytes), Ok(Some((expected, bytes.len()))));
        for cut in 0..bytes.len() {
            assert_eq!(parse_value(&bytes[..cut]), Ok(None), "cut at {cut}");
        }
    }

    #[test]
    fn errors_cannot_break_out_of_their_line() {
        let mut writer = Writer::default();
        writer.error("ERR a\r\n+OK");
        assert_eq!(writer.bytes, b"-ERR a  +OK\r\n");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_value(&bytes);
        }
    }
}

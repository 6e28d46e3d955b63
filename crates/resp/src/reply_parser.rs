//! Parser of replies, for clients.

use std::ops::Range;

use crate::integer::parse_integer;
use crate::value::{ReplyError, Value};

/// Longest line, in bytes, without its ends.
const MAX_LINE: usize = 64 * 1024;
/// Number of values for which memory is reserved in advance; a server may announce more values than
/// it sends.
const PREPARED_VALUES: usize = 256;

/// Limits of one reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum nesting of arrays, sets, maps, pushes and attributes.
    pub depth: usize,
    /// Longest string, in bytes.
    pub bulk_bytes: usize,
    /// Maximum number of values, on all levels together.
    pub values: usize,
}

impl Default for Limits {
    /// Returns limits of 32 levels, 512 MiB, and 16 Mi values.
    fn default() -> Self {
        Limits { depth: 32, bulk_bytes: 512 * 1024 * 1024, values: 16 * 1024 * 1024 }
    }
}

/// Splits a connection's bytes into replies. It keeps its position in an incomplete reply, so that
/// the values of a large reply are read once, however they arrive.
#[derive(Debug, Default)]
pub struct ReplyParser {
    limits: Limits,
    /// Aggregates around the next value, from the outermost.
    open: Vec<Open>,
    /// Position of the next value.
    at: usize,
    /// The end of the current line is not before this index.
    scanned: usize,
    /// Length of the buffer before which nothing new can be read; 0 if unknown.
    needed: usize,
    /// Number of values read or announced in the current reply.
    values: usize,
}

/// An aggregate that lacks values.
#[derive(Debug)]
struct Open {
    head: u8,
    missing: usize,
    items: Vec<Value>,
}

/// Content at one position.
enum Step {
    Value(Value),
    Open {
        head: u8,
        missing: usize,
    },
    /// An attribute without content.
    Skip,
}

impl ReplyParser {
    /// Creates a parser for a new connection.
    pub fn new(limits: Limits) -> Self {
        ReplyParser { limits, ..ReplyParser::default() }
    }

    /// Parses the reply at the start of `buffer`, and returns it with the number of bytes to drop;
    /// `None` if it is incomplete. The caller then calls again with the same bytes and more at the
    /// end. Attributes are skipped.
    ///
    /// # Errors
    /// The bytes are not a reply, or exceed the limits. The connection cannot be used any more.
    pub fn next(&mut self, buffer: &[u8]) -> Result<Option<(Value, usize)>, ReplyError> {
        if buffer.len() < self.needed {
            return Ok(None);
        }
        while let Some((step, next)) = self.step(buffer)? {
            (self.at, self.scanned, self.needed) = (next, 0, 0);
            let whole = match step {
                Step::Value(value) => self.place(value),
                Step::Open { head, missing } => {
                    self.begin(head, missing)?;
                    None
                }
                Step::Skip => None,
            };
            if let Some(value) = whole {
                (self.at, self.values) = (0, 0);
                return Ok(Some((value, next)));
            }
        }
        Ok(None)
    }

    fn begin(&mut self, head: u8, missing: usize) -> Result<(), ReplyError> {
        if self.open.len() >= self.limits.depth {
            return Err(ReplyError::TooDeep);
        }
        self.values = self.values.saturating_add(missing);
        if self.values > self.limits.values {
            return Err(ReplyError::TooManyValues);
        }
        let items = Vec::with_capacity(missing.min(PREPARED_VALUES));
        self.open.push(Open { head, missing, items });
        Ok(())
    }

    /// Adds a value to the innermost aggregate, and closes those that it completes. Returns a
    /// complete reply.
    fn place(&mut self, mut value: Value) -> Option<Value> {
        loop {
            let Some(inner) = self.open.last_mut() else { return Some(value) };
            inner.items.push(value);
            inner.missing -= 1;
            if inner.missing > 0 {
                return None;
            }
            let closed = self.open.pop()?;
            // Attributes describe the reply that follows them, and only that reply is returned.
            value = closed.into_value()?;
        }
    }

    fn step(&mut self, buffer: &[u8]) -> Result<Option<(Step, usize)>, ReplyError> {
        let Some(head) = buffer.get(self.at).copied() else { return Ok(None) };
        if !b"+-:$*_#,(=!%~>|".contains(&head) {
            return Err(ReplyError::UnknownType(head));
        }
        let Some(line) = self.line(buffer)? else { return Ok(None) };
        let next = line.end + 2;
        let line = &buffer[line];
        let number = || parse_integer(line).ok_or(ReplyError::BadNumber);
        let value = match head {
            b'+' => Value::Simple(text(line)),
            b'-' => Value::Error(text(line)),
            b':' => Value::Integer(signed(line)?),
            b'_' if line.is_empty() => Value::Null,
            b'#' if line == b"t" => Value::Boolean(true),
            b'#' if line == b"f" => Value::Boolean(false),
            b',' => Value::Double(double(line)?),
            b'(' => Value::BigNumber(big_number(line)?),
            b'$' | b'=' | b'!' => return self.bulk(buffer, head, number()?, next),
            b'*' | b'~' | b'>' | b'%' | b'|' => return aggregate(head, number()?, next),
            _ => return Err(ReplyError::Malformed(head)),
        };
        Ok(Some((Step::Value(value), next)))
    }

    /// Returns the range of the next value's line, without its first byte and its end.
    fn line(&mut self, buffer: &[u8]) -> Result<Option<Range<usize>>, ReplyError> {
        let start = self.at + 1;
        let window = &buffer[..buffer.len().min(start + MAX_LINE + 1)];
        let from = self.scanned.max(start);
        let found = window.get(from..).and_then(|rest| rest.iter().position(|b| *b == b'\r'));
        let Some(found) = found else {
            self.scanned = window.len();
            let too_long = window.len() > start + MAX_LINE;
            return if too_long { Err(ReplyError::LineTooLong) } else { Ok(None) };
        };
        let end = from + found;
        self.scanned = end;
        match buffer.get(end + 1) {
            Some(b'\n') => Ok(Some(start..end)),
            Some(_) => Err(ReplyError::MissingLineEnd),
            None => Ok(None),
        }
    }

    fn bulk(
        &mut self,
        buffer: &[u8],
        head: u8,
        length: i64,
        start: usize,
    ) -> Result<Option<(Step, usize)>, ReplyError> {
        if length == -1 && head == b'$' {
            return Ok(Some((Step::Value(Value::Null), start)));
        }
        let length = usize::try_from(length).map_err(|_| ReplyError::BadNumber)?;
        if length > self.limits.bulk_bytes {
            return Err(ReplyError::BulkTooLong);
        }
        let end = start.saturating_add(length);
        let next = end.saturating_add(2);
        if buffer.len() < next {
            self.needed = next;
            return Ok(None);
        }
        if &buffer[end..next] != b"\r\n" {
            return Err(ReplyError::MissingLineEnd);
        }
        let content = &buffer[start..end];
        let value = match (head, content) {
            (b'!', _) => Value::Error(text(content)),
            (b'=', [a, b, c, b':', rest @ ..]) => {
                Value::Verbatim { format: [*a, *b, *c], text: text(rest) }
            }
            (b'=', _) => return Err(ReplyError::Malformed(head)),
            _ => Value::Bulk(content.to_vec()),
        };
        Ok(Some((Step::Value(value), next)))
    }
}

impl Open {
    /// Returns the complete aggregate; `None` for an attribute.
    fn into_value(self) -> Option<Value> {
        Some(match self.head {
            b'|' => return None,
            b'%' => {
                let mut pairs = Vec::with_capacity(self.items.len() / 2);
                let mut items = self.items.into_iter();
                while let (Some(key), Some(value)) = (items.next(), items.next()) {
                    pairs.push((key, value));
                }
                Value::Map(pairs)
            }
            b'~' => Value::Set(self.items),
            b'>' => Value::Push(self.items),
            _ => Value::Array(self.items),
        })
    }
}

fn aggregate(head: u8, count: i64, next: usize) -> Result<Option<(Step, usize)>, ReplyError> {
    if count == -1 && head == b'*' {
        return Ok(Some((Step::Value(Value::Null), next)));
    }
    let count = usize::try_from(count).map_err(|_| ReplyError::BadNumber)?;
    let values = if matches!(head, b'%' | b'|') { count.saturating_mul(2) } else { count };
    let step = if values > 0 {
        Step::Open { head, missing: values }
    } else {
        let empty = Open { head, missing: 0, items: Vec::new() };
        empty.into_value().map_or(Step::Skip, Step::Value)
    };
    Ok(Some((step, next)))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Parses an integer. A plus sign is allowed here, unlike in a request.
fn signed(line: &[u8]) -> Result<i64, ReplyError> {
    let digits = match line {
        [b'+', rest @ ..] if !rest.starts_with(b"-") => rest,
        _ => line,
    };
    parse_integer(digits).ok_or(ReplyError::BadNumber)
}

fn double(line: &[u8]) -> Result<f64, ReplyError> {
    let text = std::str::from_utf8(line).map_err(|_| ReplyError::BadNumber)?;
    text.parse().map_err(|_| ReplyError::BadNumber)
}

fn big_number(line: &[u8]) -> Result<String, ReplyError> {
    let digits = line.strip_prefix(b"-").or(line.strip_prefix(b"+")).unwrap_or(line);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(ReplyError::BadNumber);
    }
    Ok(text(line))
}

/// Parses the reply at the start of `bytes`, and returns it with its length; `None` if it is
/// incomplete. A client that expects large replies should keep a [`ReplyParser`] instead, which
/// does not start again each time.
///
/// # Errors
/// The bytes are not a reply. The connection cannot be used any more.
pub fn parse_value(bytes: &[u8]) -> Result<Option<(Value, usize)>, ReplyError> {
    ReplyParser::default().next(bytes)
}

//! Requests: arrays of bulk strings, and inline commands.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use smallvec::SmallVec;

use crate::integer::{parse_integer, write_integer};

const MAX_INLINE: usize = 64 * 1024;
const MAX_ARGUMENTS: i64 = 1024 * 1024;
const MAX_BULK: i64 = 512 * 1024 * 1024;

/// A request that breaks the protocol. The text is Redis' own; the connection ends with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// An inline command, or a length line, without an end.
    TooBigInline,
    /// A number of arguments that is none, or too great.
    InvalidMultibulkLength,
    /// A length line of an argument without an end.
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

/// The arguments of one command, the name first. Borrows from the connection's buffer.
#[derive(Debug)]
pub struct Arguments<'a> {
    buffer: Cow<'a, [u8]>,
    ranges: &'a [Range<usize>],
}

impl<'a> Arguments<'a> {
    /// How many arguments there are, the name included.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The argument at `index`; empty if there are not so many.
    pub fn get(&self, index: usize) -> &[u8] {
        self.ranges.get(index).map_or(&[], |range| &self.buffer[range.clone()])
    }

    /// The arguments from `first` on.
    pub fn from(&self, first: usize) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        let ranges = self.ranges.get(first..).unwrap_or_default();
        ranges.iter().map(|range| &self.buffer[range.clone()])
    }
}

/// Cuts a connection's bytes into commands. Remembers how far it got in an incomplete one.
#[derive(Debug, Default)]
pub struct RequestParser {
    ranges: SmallVec<[Range<usize>; 8]>,
    /// Arguments still to come of an incomplete array, and where the next one begins.
    partial: Option<(usize, usize)>,
}

impl RequestParser {
    /// A parser at the beginning of a connection.
    pub fn new() -> Self {
        RequestParser::default()
    }

    /// The next command at the front of `buffer`, and how many bytes to drop with it. `None` if it is
    /// incomplete: call again with more bytes at the end of the same ones. Empty lines and empty
    /// arrays yield no arguments.
    ///
    /// # Errors
    /// The connection must be closed; nothing after this can be understood.
    pub fn next<'a>(
        &'a mut self,
        buffer: &'a [u8],
    ) -> Result<Option<(Arguments<'a>, usize)>, ProtocolError> {
        match buffer.first() {
            None => Ok(None),
            Some(b'*') => {
                let Some(end) = self.array(buffer)? else { return Ok(None) };
                Ok(Some((Arguments { buffer: Cow::Borrowed(buffer), ranges: &self.ranges }, end)))
            }
            Some(_) => self.inline(buffer),
        }
    }

    fn array(&mut self, buffer: &[u8]) -> Result<Option<usize>, ProtocolError> {
        let (mut missing, mut at) = match self.partial.take() {
            Some(partial) => partial,
            None => {
                self.ranges.clear();
                match short_length(buffer, 1) {
                    Some(found) => found,
                    None => {
                        let Some((line, next)) = line(buffer, 1) else {
                            return incomplete(buffer, 1, ProtocolError::TooBigInline);
                        };
                        let count = parse_integer(line)
                            .filter(|count| *count <= MAX_ARGUMENTS)
                            .ok_or(ProtocolError::InvalidMultibulkLength)?;
                        (count.max(0) as usize, next)
                    }
                }
            }
        };
        while missing > 0 {
            let Some(first) = buffer.get(at) else { break };
            if *first != b'$' {
                return Err(ProtocolError::ExpectedDollar(*first));
            }
            let (length, start) = match short_length(buffer, at + 1) {
                Some(found) => found,
                None => match bulk_length(buffer, at)? {
                    Some(found) => found,
                    None => break,
                },
            };
            if buffer.len() < start + length + 2 {
                break;
            }
            self.ranges.push(start..start + length);
            at = start + length + 2;
            missing -= 1;
        }
        if missing == 0 {
            return Ok(Some(at));
        }
        self.partial = Some((missing, at));
        Ok(None)
    }

    fn inline<'a>(
        &'a mut self,
        buffer: &'a [u8],
    ) -> Result<Option<(Arguments<'a>, usize)>, ProtocolError> {
        let Some(newline) = buffer.iter().take(MAX_INLINE).position(|byte| *byte == b'\n') else {
            return incomplete(buffer, 0, ProtocolError::TooBigInline).map(|_| None);
        };
        let line = buffer[..newline].strip_suffix(b"\r").unwrap_or(&buffer[..newline]);
        self.ranges.clear();
        let mut unquoted = Vec::new();
        split_inline(line, &mut unquoted, &mut self.ranges)?;
        let arguments = Arguments { buffer: Cow::Owned(unquoted), ranges: &self.ranges };
        Ok(Some((arguments, newline + 1)))
    }
}

/// Most lengths have one to three digits: reads such a one and where its bytes begin.
fn short_length(buffer: &[u8], at: usize) -> Option<(usize, usize)> {
    let digit = |at: usize| {
        let digit = buffer.get(at)?.wrapping_sub(b'0');
        (digit < 10).then_some(usize::from(digit))
    };
    let mut length = digit(at)?;
    for next in at + 1..at + 4 {
        match digit(next) {
            Some(digit) if length > 0 => length = length * 10 + digit,
            _ => {
                return (buffer.get(next..next + 2)? == b"\r\n").then_some((length, next + 2));
            }
        }
    }
    None
}

/// Any length, or `None` if its line is incomplete.
fn bulk_length(buffer: &[u8], at: usize) -> Result<Option<(usize, usize)>, ProtocolError> {
    let Some((line, start)) = line(buffer, at + 1) else {
        incomplete(buffer, at, ProtocolError::TooBigBulkCount)?;
        return Ok(None);
    };
    let length = parse_integer(line)
        .filter(|length| (0..=MAX_BULK).contains(length))
        .ok_or(ProtocolError::InvalidBulkLength)?;
    Ok(Some((length as usize, start)))
}

/// Fails if a line that has no end yet is already too long.
fn incomplete(
    buffer: &[u8],
    from: usize,
    error: ProtocolError,
) -> Result<Option<usize>, ProtocolError> {
    if buffer.len() - from >= MAX_INLINE { Err(error) } else { Ok(None) }
}

/// The bytes from `from` to the next CR LF, and where the next line begins.
fn line(buffer: &[u8], from: usize) -> Option<(&[u8], usize)> {
    let rest = buffer.get(from..)?;
    let end = rest.iter().take(MAX_INLINE).position(|byte| *byte == b'\r')?;
    (rest.len() > end + 1).then(|| (&rest[..end], from + end + 2))
}

/// Splits an inline command as Redis does, with its quotes and escapes.
fn split_inline(
    line: &[u8],
    out: &mut Vec<u8>,
    ranges: &mut SmallVec<[Range<usize>; 8]>,
) -> Result<(), ProtocolError> {
    let mut at = 0;
    loop {
        while line.get(at).is_some_and(u8::is_ascii_whitespace) {
            at += 1;
        }
        if at >= line.len() {
            return Ok(());
        }
        let start = out.len();
        while let Some(byte) = line.get(at).filter(|byte| !byte.is_ascii_whitespace()) {
            at += 1;
            match byte {
                b'"' => at = double_quoted(line, at, out)?,
                b'\'' => at = single_quoted(line, at, out)?,
                _ => out.push(*byte),
            }
        }
        ranges.push(start..out.len());
    }
}

fn double_quoted(line: &[u8], mut at: usize, out: &mut Vec<u8>) -> Result<usize, ProtocolError> {
    loop {
        match line.get(at..).unwrap_or_default() {
            [b'"', rest @ ..] => {
                return closed(rest, at + 1);
            }
            [b'\\', b'x', high, low, ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0) as u8;
                out.push(digit(*high) * 16 + digit(*low));
                at += 4;
            }
            [b'\\', escaped, ..] => {
                out.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                at += 2;
            }
            [byte, ..] => {
                out.push(*byte);
                at += 1;
            }
            [] => return Err(ProtocolError::UnbalancedQuotes),
        }
    }
}

fn single_quoted(line: &[u8], mut at: usize, out: &mut Vec<u8>) -> Result<usize, ProtocolError> {
    loop {
        match line.get(at..).unwrap_or_default() {
            [b'\'', rest @ ..] => return closed(rest, at + 1),
            [b'\\', b'\'', ..] => {
                out.push(b'\'');
                at += 2;
            }
            [byte, ..] => {
                out.push(*byte);
                at += 1;
            }
            [] => return Err(ProtocolError::UnbalancedQuotes),
        }
    }
}

/// After a closing quote must come a space or the end.
fn closed(rest: &[u8], at: usize) -> Result<usize, ProtocolError> {
    match rest.first() {
        Some(next) if !next.is_ascii_whitespace() => Err(ProtocolError::UnbalancedQuotes),
        _ => Ok(at),
    }
}

/// Appends a command as an array of bulk strings.
pub fn encode_command<A: AsRef<[u8]>>(out: &mut Vec<u8>, arguments: &[A]) {
    out.push(b'*');
    write_integer(out, arguments.len() as i64);
    out.extend_from_slice(b"\r\n");
    for argument in arguments {
        let argument = argument.as_ref();
        out.push(b'$');
        write_integer(out, argument.len() as i64);
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All commands in `bytes`, fed in pieces of the given sizes.
    fn parse(bytes: &[u8], pieces: &[usize]) -> Result<Vec<Vec<Vec<u8>>>, ProtocolError> {
        let mut parser = RequestParser::new();
        let (mut buffer, mut commands, mut fed) = (Vec::new(), Vec::new(), 0);
        let mut pieces = pieces.iter().copied().chain(std::iter::repeat(usize::MAX));
        while fed < bytes.len() {
            let piece = pieces.next().unwrap_or(1).clamp(1, bytes.len() - fed);
            buffer.extend_from_slice(&bytes[fed..fed + piece]);
            fed += piece;
            while let Some((arguments, used)) = parser.next(&buffer)? {
                if !arguments.is_empty() {
                    commands.push(arguments.from(0).map(<[u8]>::to_vec).collect());
                }
                buffer.drain(..used);
            }
        }
        Ok(commands)
    }

    fn texts(commands: Vec<Vec<Vec<u8>>>) -> Vec<Vec<String>> {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        commands.into_iter().map(|command| command.into_iter().map(text).collect()).collect()
    }

    #[test]
    fn commands_are_cut_out_of_a_pipeline() {
        let bytes = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*0\r\nPING\r\n\r\n*1\r\n$4\r\nPING\r\n";
        let commands = texts(parse(bytes, &[]).unwrap());
        assert_eq!(commands, [vec!["GET", "k"], vec!["PING"], vec!["PING"]]);
    }

    #[test]
    fn inline_quotes_are_those_of_redis() {
        let line = br#"SET "a b" 'it\'s' "\x41\n" plain"#;
        let commands = parse(&[line.as_slice(), b"\r\n"].concat(), &[]).unwrap();
        let expected: [&[u8]; 5] = [b"SET", b"a b", b"it's", b"A\n", b"plain"];
        assert_eq!(commands, [expected.map(<[u8]>::to_vec).to_vec()]);
    }

    #[test]
    fn broken_requests_are_refused_in_the_words_of_redis() {
        let long = [b'x'; MAX_INLINE + 1];
        for (bytes, error) in [
            (b"*a\r\n".as_slice(), "invalid multibulk length"),
            (b"*1048577\r\n", "invalid multibulk length"),
            (b"*1\r\n+PING\r\n", "expected '$', got '+'"),
            (b"*1\r\n$-1\r\n", "invalid bulk length"),
            (b"*1\r\n$536870913\r\n", "invalid bulk length"),
            (b"GET \"a\r\n", "unbalanced quotes in request"),
            (b"GET 'a'b\r\n", "unbalanced quotes in request"),
            (&long, "too big inline request"),
        ] {
            let got = parse(bytes, &[]).unwrap_err().to_string();
            assert_eq!(got, format!("Protocol error: {error}"));
        }
    }

    proptest! {
        #[test]
        fn any_split_yields_the_same_commands(
            commands in prop::collection::vec(
                prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..6), 1..6),
            pieces in prop::collection::vec(1usize..40, 0..40),
        ) {
            let mut bytes = Vec::new();
            for command in &commands {
                encode_command(&mut bytes, command);
            }
            prop_assert_eq!(parse(&bytes, &pieces).unwrap(), commands);
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            pieces in prop::collection::vec(1usize..40, 0..40),
        ) {
            let _ = parse(&bytes, &pieces);
        }
    }
}

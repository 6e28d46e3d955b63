//! Inline commands: a line of words, with Redis' quotes and escapes.

use std::ops::Range;

use smallvec::SmallVec;

use crate::protocol_error::ProtocolError;

/// Splits a line into words, as Redis' `sdssplitargs` does. Appends the unquoted words to `out`,
/// and their positions there to `ranges`.
///
/// A zero byte is an ordinary byte here, while Redis would wait for a line without one.
pub(crate) fn split_inline(
    line: &[u8],
    out: &mut Vec<u8>,
    ranges: &mut SmallVec<[Range<usize>; 8]>,
) -> Result<(), ProtocolError> {
    let mut at = 0;
    loop {
        while line.get(at).copied().is_some_and(is_space) {
            at += 1;
        }
        if at >= line.len() {
            return Ok(());
        }
        let start = out.len();
        at = word(line, at, out)?;
        ranges.push(start..out.len());
    }
}

/// Copies the word at `at`, and returns the position of its end. A quote may begin within the word,
/// and its end is the end of the word.
fn word(line: &[u8], mut at: usize, out: &mut Vec<u8>) -> Result<usize, ProtocolError> {
    while let Some(byte) = line.get(at) {
        match byte {
            b'"' => return double_quoted(line, at + 1, out),
            b'\'' => return single_quoted(line, at + 1, out),
            b' ' | b'\t' | b'\r' | b'\n' => break,
            // Vertical tabs and form feeds are skipped before a word, but do not end one.
            _ => out.push(*byte),
        }
        at += 1;
    }
    Ok(at)
}

fn double_quoted(line: &[u8], mut at: usize, out: &mut Vec<u8>) -> Result<usize, ProtocolError> {
    loop {
        let (byte, length) = match line.get(at..).unwrap_or_default() {
            [b'"', rest @ ..] => return closed(rest, at + 1),
            [b'\\', b'x', high, low, ..] if hex(*high).is_some() && hex(*low).is_some() => {
                (hex(*high).unwrap_or(0) * 16 + hex(*low).unwrap_or(0), 4)
            }
            [b'\\', escaped, ..] => (unescape(*escaped), 2),
            [byte, ..] => (*byte, 1),
            [] => return Err(ProtocolError::UnbalancedQuotes),
        };
        out.push(byte);
        at += length;
    }
}

fn single_quoted(line: &[u8], mut at: usize, out: &mut Vec<u8>) -> Result<usize, ProtocolError> {
    loop {
        let (byte, length) = match line.get(at..).unwrap_or_default() {
            [b'\'', rest @ ..] => return closed(rest, at + 1),
            [b'\\', b'\'', ..] => (b'\'', 2),
            [byte, ..] => (*byte, 1),
            [] => return Err(ProtocolError::UnbalancedQuotes),
        };
        out.push(byte);
        at += length;
    }
}

/// Checks that a space or the end follows a closing quote.
fn closed(rest: &[u8], at: usize) -> Result<usize, ProtocolError> {
    match rest.first() {
        Some(next) if !is_space(*next) => Err(ProtocolError::UnbalancedQuotes),
        _ => Ok(at),
    }
}

fn unescape(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    }
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// Returns whether C's `isspace` is true for a byte.
fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &[u8]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let (mut out, mut ranges) = (Vec::new(), SmallVec::new());
        split_inline(line, &mut out, &mut ranges)?;
        Ok(ranges.into_iter().map(|range| out[range].to_vec()).collect())
    }

    #[test]
    fn words_are_those_of_redis() {
        let cases: &[(&[u8], &[&[u8]])] = &[
            (b"", &[]),
            (b" \t ", &[]),
            (b"GET  key", &[b"GET", b"key"]),
            (b"\"a b\" 'c d'", &[b"a b", b"c d"]),
            (b"'it\\'s' 'a\\nb'", &[b"it's", b"a\\nb"]),
            (b"\"\\x41\\xfF\\n\\r\\t\\b\\a\\q\\\"\"", &[b"A\xff\n\r\t\x08\x07q\""]),
            (b"\"\\xg1\\x4\"", &[b"xg1x4"]),
            (b"\"\" ''", &[b"", b""]),
            (b"a\"b c\"", &[b"ab c"]),
            (b"a\x0bb", &[b"a\x0bb"]),
            (b"\"a\"\x0bb", &[b"a", b"b"]),
            (b"\x0b\x0cb", &[b"b"]),
            (b"a\0b", &[b"a\0b"]),
        ];
        for (line, words) in cases {
            assert_eq!(split(line).unwrap(), *words, "{}", line.escape_ascii());
        }
    }

    #[test]
    fn unbalanced_quotes_are_refused() {
        for line in [b"\"a".as_slice(), b"'a", b"'a'b", b"\"a\"b", b"\"a\\\"", b"'a\\'", b"\"\\"] {
            assert_eq!(
                split(line),
                Err(ProtocolError::UnbalancedQuotes),
                "{}",
                line.escape_ascii()
            );
        }
    }
}

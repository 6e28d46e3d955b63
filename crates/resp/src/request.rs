//! Parser of requests: arrays of bulk strings, and inline commands.

use std::ops::Range;

use smallvec::SmallVec;

use crate::inline::split_inline;
use crate::integer::{parse_integer, write_integer};
use crate::protocol_error::ProtocolError;

/// Longest line, in bytes: an inline command, or a line with a length.
const MAX_LINE: usize = 64 * 1024;
const MAX_ARGUMENTS: i64 = 1024 * 1024;
const MAX_BULK: i64 = 512 * 1024 * 1024;
/// Number of arguments above which the parser frees their memory after a command.
const KEPT_ARGUMENTS: usize = 1024;

/// Arguments of one command, beginning with its name. They borrow from the connection's buffer.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    buffer: &'a [u8],
    ranges: &'a [Range<usize>],
}

impl<'a> Arguments<'a> {
    /// Creates arguments from parts of `buffer`.
    pub fn new(buffer: &'a [u8], ranges: &'a [Range<usize>]) -> Arguments<'a> {
        Arguments { buffer, ranges }
    }

    /// Returns the number of arguments, including the name.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Returns whether there are no arguments.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the argument at `index`; empty if it does not exist.
    pub fn get(&self, index: usize) -> &'a [u8] {
        self.ranges.get(index).map_or(&[], |range| &self.buffer[range.clone()])
    }

    /// Returns the same without the first `count` arguments.
    pub fn without(&self, count: usize) -> Arguments<'a> {
        Arguments { ranges: self.ranges.get(count..).unwrap_or_default(), ..*self }
    }

    /// Returns the arguments from `first` on.
    pub fn from(&self, first: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let (buffer, ranges) = (self.buffer, self.ranges.get(first..).unwrap_or_default());
        ranges.iter().map(move |range| &buffer[range.clone()])
    }
}

/// Splits a connection's bytes into commands. It keeps its position in an incomplete command, so
/// that each byte is examined once, however the bytes arrive.
#[derive(Debug, Default)]
pub struct RequestParser {
    ranges: SmallVec<[Range<usize>; 8]>,
    /// Words of an inline command, unquoted.
    words: Vec<u8>,
    /// Number of missing arguments of an incomplete array, and the position of the next one.
    partial: Option<(usize, usize)>,
    /// The end of the current line is not before this index.
    scanned: usize,
    /// See [`RequestParser::needed`].
    needed: usize,
}

impl RequestParser {
    /// Creates a parser for a new connection.
    pub fn new() -> Self {
        RequestParser::default()
    }

    /// Parses the command at the start of `buffer`, and returns it with the number of bytes to
    /// drop; `None` if it is incomplete. The caller then calls again with the same bytes and more
    /// at the end. Empty lines and empty arrays yield no arguments.
    ///
    /// # Errors
    /// The connection must be closed, because the following bytes cannot be interpreted.
    pub fn next<'a>(
        &'a mut self,
        buffer: &'a [u8],
    ) -> Result<Option<(Arguments<'a>, usize)>, ProtocolError> {
        if buffer.len() < self.needed {
            return Ok(None);
        }
        let (buffer, end) = match buffer.first() {
            None => return Ok(None),
            Some(b'*') => {
                let Some(end) = self.array(buffer)? else { return Ok(None) };
                (buffer, end)
            }
            Some(_) => {
                let Some(end) = self.inline(buffer)? else { return Ok(None) };
                (self.words.as_slice(), end)
            }
        };
        (self.scanned, self.needed) = (0, 0);
        Ok(Some((Arguments { buffer, ranges: &self.ranges }, end)))
    }

    /// Returns the length that the buffer must reach, in bytes, before [`RequestParser::next`] can
    /// make progress on an incomplete command; 0 if unknown. The length is the client's claim, up
    /// to 512 MiB more than it has sent, so the buffer should grow towards it in steps.
    pub fn needed(&self) -> usize {
        self.needed
    }

    fn array(&mut self, buffer: &[u8]) -> Result<Option<usize>, ProtocolError> {
        let (mut missing, mut at) = match self.partial.take() {
            Some(partial) => partial,
            None => {
                self.forget_arguments();
                let Some(found) = self.count(buffer)? else { return Ok(None) };
                found
            }
        };
        while missing > 0 {
            let Some(first) = buffer.get(at) else { break };
            if *first != b'$' {
                return Err(ProtocolError::ExpectedDollar(*first));
            }
            let Some((length, start)) = self.bulk_length(buffer, at)? else { break };
            let next = start + length + 2;
            if buffer.len() < next {
                self.needed = next;
                break;
            }
            self.ranges.push(start..start + length);
            at = next;
            missing -= 1;
        }
        if missing == 0 {
            return Ok(Some(at));
        }
        self.partial = Some((missing, at));
        Ok(None)
    }

    fn forget_arguments(&mut self) {
        if self.ranges.capacity() > KEPT_ARGUMENTS {
            self.ranges = SmallVec::new();
        }
        self.ranges.clear();
    }

    /// Returns the number of arguments, and the position of the first; `None` if the line is
    /// incomplete.
    fn count(&mut self, buffer: &[u8]) -> Result<Option<(usize, usize)>, ProtocolError> {
        if let Some(found) = short_length(buffer, 1) {
            return Ok(Some(found));
        }
        let Some(line) = self.length_line(buffer, 0, ProtocolError::TooBigMultibulkCount)? else {
            return Ok(None);
        };
        let count = parse_integer(&buffer[line.clone()])
            .filter(|count| *count <= MAX_ARGUMENTS)
            .ok_or(ProtocolError::InvalidMultibulkLength)?;
        Ok(Some((count.max(0) as usize, line.end + 2)))
    }

    /// Returns the length of the argument whose `$` is at `at`, and the position of its bytes.
    fn bulk_length(
        &mut self,
        buffer: &[u8],
        at: usize,
    ) -> Result<Option<(usize, usize)>, ProtocolError> {
        if let Some(found) = short_length(buffer, at + 1) {
            return Ok(Some(found));
        }
        let Some(line) = self.length_line(buffer, at, ProtocolError::TooBigBulkCount)? else {
            return Ok(None);
        };
        let length = parse_integer(&buffer[line.clone()])
            .filter(|length| (0..=MAX_BULK).contains(length))
            .ok_or(ProtocolError::InvalidBulkLength)?;
        Ok(Some((length as usize, line.end + 2)))
    }

    /// Returns the range of the number after the byte at `head`, once its line is complete. Like
    /// Redis, accepts any byte after the CR in place of the LF.
    fn length_line(
        &mut self,
        buffer: &[u8],
        head: usize,
        error: ProtocolError,
    ) -> Result<Option<Range<usize>>, ProtocolError> {
        let end = self.line_end(buffer, head, b'\r').map_err(|TooLong| error)?;
        Ok(end.filter(|end| buffer.len() > end + 1).map(|end| head + 1..end))
    }

    fn inline(&mut self, buffer: &[u8]) -> Result<Option<usize>, ProtocolError> {
        let end = self.line_end(buffer, 0, b'\n').map_err(|TooLong| ProtocolError::TooBigInline)?;
        let Some(newline) = end else { return Ok(None) };
        self.forget_arguments();
        self.words.clear();
        // A CR at the end counts as a space.
        split_inline(&buffer[..newline], &mut self.words, &mut self.ranges)?;
        Ok(Some(newline + 1))
    }

    /// Finds the end of the line that begins at `head`. Whether a line is too long does not depend
    /// on how its bytes arrive.
    fn line_end(&mut self, buffer: &[u8], head: usize, end: u8) -> Result<Option<usize>, TooLong> {
        let limit = head + MAX_LINE + 1;
        let window = &buffer[..buffer.len().min(limit)];
        let from = self.scanned.max(head);
        let found = window.get(from..).and_then(|rest| rest.iter().position(|byte| *byte == end));
        self.scanned = found.map_or(window.len(), |found| from + found);
        match found {
            Some(found) => Ok(Some(from + found)),
            None if buffer.len() >= limit => Err(TooLong),
            None => Ok(None),
        }
    }
}

/// Error of a line longer than [`MAX_LINE`].
struct TooLong;

/// Parses a length of one to three digits, which most lengths have, and returns it with the
/// position after its line.
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

/// Appends a command, encoded as an array of bulk strings.
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

    /// Parses all commands in `bytes`, fed in pieces of the given sizes.
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
        let bytes =
            b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*0\r\nPING\r\n\r\n*-1\r\n*-9\r\n*1\r\n$4\r\nPING\r\n";
        let commands = texts(parse(bytes, &[]).unwrap());
        assert_eq!(commands, [vec!["GET", "k"], vec!["PING"], vec!["PING"]]);
    }

    #[test]
    fn the_longest_line_is_served_and_one_byte_more_is_not() {
        let mut line = [b"ECHO ", [b'x'; MAX_LINE - 6].as_slice(), b"\r\n"].concat();
        assert_eq!(line.len(), MAX_LINE + 1);
        assert_eq!(parse(&line, &[]).unwrap()[0][1].len(), MAX_LINE - 6);
        line.insert(5, b'x');
        for pieces in [[].as_slice(), &[MAX_LINE, 1], &[1, 2, 3]] {
            assert_eq!(parse(&line, pieces), Err(ProtocolError::TooBigInline));
        }
    }

    #[test]
    fn a_large_argument_in_pieces_is_awaited_without_looking_at_it() {
        let mut parser = RequestParser::new();
        let mut bytes = b"*2\r\n$4\r\nECHO\r\n$100000\r\n".to_vec();
        let total = bytes.len() + 100_002;
        assert!(parser.next(&bytes).unwrap().is_none());
        assert_eq!(parser.needed(), total);
        bytes.resize(total - 1, b'x');
        assert!(parser.next(&bytes).unwrap().is_none());
        bytes.push(b'\n');
        let (arguments, used) = parser.next(&bytes).unwrap().unwrap();
        assert_eq!((arguments.get(1).len(), used), (100_000, total));
        assert_eq!(parser.needed(), 0);
    }

    #[test]
    fn lines_are_searched_once() {
        let mut parser = RequestParser::new();
        let line = vec![b'x'; 1000];
        for end in [1, 10, 500, 1000] {
            assert!(parser.next(&line[..end]).unwrap().is_none());
            assert_eq!(parser.scanned, end);
        }
    }

    #[test]
    fn arguments_are_read_once() {
        let mut parser = RequestParser::new();
        let mut bytes = Vec::new();
        encode_command(&mut bytes, &[b"MGET".as_slice(), b"a", b"b"]);
        assert!(parser.next(&bytes[..bytes.len() - 1]).unwrap().is_none());
        assert_eq!(parser.partial, Some((1, bytes.len() - 7)));
        assert_eq!(parser.next(&bytes).unwrap().unwrap().0.get(1), b"a");
        assert_eq!(parser.partial, None);
    }

    #[test]
    fn the_words_of_a_line_make_room_for_the_next() {
        let mut parser = RequestParser::new();
        for _ in 0..3 {
            assert!(parser.next(b"ECHO a\r\n").unwrap().is_some());
            assert_eq!(parser.words, b"ECHOa");
        }
    }

    #[test]
    fn many_arguments_do_not_keep_their_memory() {
        let mut parser = RequestParser::new();
        let mut bytes = Vec::new();
        encode_command(&mut bytes, &vec![b"a"; 5000]);
        assert_eq!(parser.next(&bytes).unwrap().unwrap().0.len(), 5000);
        assert_eq!(parser.next(b"PING\r\n").unwrap().unwrap().0.len(), 1);
        assert!(parser.ranges.capacity() <= KEPT_ARGUMENTS);
    }

    #[test]
    fn broken_requests_are_refused_in_the_words_of_redis() {
        let long = [b'1'; MAX_LINE + 1];
        let (count, bulk) = ([b"*", &long[..]].concat(), [b"*1\r\n$", &long[..]].concat());
        for (bytes, error) in [
            (b"*a\r\n".as_slice(), "invalid multibulk length"),
            (b"*1048577\r\n", "invalid multibulk length"),
            (b"*1\r\n+PING\r\n", "expected '$', got '+'"),
            (b"*01\r\n", "invalid multibulk length"),
            (b"*1\r\n$-1\r\n", "invalid bulk length"),
            (b"*1\r\n$03\r\n", "invalid bulk length"),
            (b"*1\r\n$536870913\r\n", "invalid bulk length"),
            (b"GET \"a\r\n", "unbalanced quotes in request"),
            (b"GET 'a'b\r\n", "unbalanced quotes in request"),
            (b"*1\r\n\r\n", "expected '$', got '\r'"),
            (&long, "too big inline request"),
            (&count, "too big mbulk count string"),
            (&bulk, "too big bulk count string"),
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
            prop_assert_eq!(parse(&bytes, &pieces), parse(&bytes, &[]));
        }

        #[test]
        fn bytes_like_requests_mean_the_same_however_they_arrive(
            words in prop::collection::vec(prop::sample::select(vec![
                "*1\r\n", "*2\r\n", "$3\r\n", "$0\r\n", "\r\n", "*-1\r\n", "*", "$", "12", "get",
                "\"", "'", "\\x4", " ", "\n", "\r", "*0\r\n", "$0003\r\n", "$1000\r\n",
            ]), 0..30),
            pieces in prop::collection::vec(1usize..10, 0..40),
        ) {
            let bytes = words.concat().into_bytes();
            prop_assert_eq!(parse(&bytes, &pieces), parse(&bytes, &[]));
        }
    }
}

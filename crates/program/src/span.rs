//! Where something stands in a source text.

use serde::{Deserialize, Serialize};

/// A stretch of a source text, in bytes. The end is not part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Span {
    /// Its first byte.
    pub start: u32,
    /// The byte after its last.
    pub end: u32,
}

impl Span {
    /// From one byte up to another.
    pub fn new(start: usize, end: usize) -> Span {
        // A source is refused before it is that large.
        let at = |byte| u32::try_from(byte).unwrap_or(u32::MAX);
        Span { start: at(start), end: at(end) }
    }

    /// From the beginning of this to the end of another.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// The bytes it covers.
    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// A line and a column, both from 1, the column in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The character of the line.
    pub column: usize,
}

impl Position {
    /// Where a byte of a text stands. One past the text's end stands at its end.
    pub fn of(source: &str, byte: u32) -> Position {
        let mut at = (byte as usize).min(source.len());
        while !source.is_char_boundary(at) {
            at -= 1;
        }
        let before = &source[..at];
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Position { line, column: before[start..].chars().count() + 1 }
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

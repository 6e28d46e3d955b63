//! Positions in a source text.

use serde::{Deserialize, Serialize};

/// A range of a source text in bytes, with an exclusive end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Span {
    /// Offset of its first byte.
    pub start: u32,
    /// Offset after its last byte.
    pub end: u32,
}

impl Span {
    /// Creates the span from one offset up to another.
    pub fn new(start: usize, end: usize) -> Span {
        // Larger sources are rejected earlier.
        let at = |byte| u32::try_from(byte).unwrap_or(u32::MAX);
        Span { start: at(start), end: at(end) }
    }

    /// Returns the span from the start of this one to the end of another.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// Returns its byte range.
    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// A line and a column, both from 1; the column counts characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

impl Position {
    /// Returns the position of a byte offset. Offsets beyond the end give the position of the end.
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

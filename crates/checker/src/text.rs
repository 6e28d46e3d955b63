//! Histories as text, one transaction per line: `docs/formats/history.md` defines the format.
//!
//! Written by [`History`](crate::History)'s `Display`, read by its `FromStr`; reading what was
//! written gives the same history again. Reading checks the shape, not the consistency: every
//! snapshot has an entry per site, and every site exists.

mod read;
mod words;
mod write;

use std::fmt;

pub use words::BadWord;

/// Text that is not a history: the line, counted from 1, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong.
    pub reason: Reason,
}

/// Why a line cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It cannot be split into words.
    Words(BadWord),
    /// Something else was expected; `found` is empty at the end of a line.
    Expected {
        /// What was expected.
        what: &'static str,
        /// What stands there.
        found: String,
    },
    /// The first line does not name a format that is known here.
    UnknownFormat,
    /// The line that says how many sites there are is missing before this one, or comes twice.
    Sites,
    /// A site that the history does not have.
    NoSuchSite(usize),
    /// A snapshot that has not one entry per site.
    SnapshotLength(usize),
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match &self.reason {
            Reason::Words(bad) => write!(f, "{bad}"),
            Reason::Expected { what, found } if found.is_empty() => {
                write!(f, "{what} is missing at the end")
            }
            Reason::Expected { what, found } => write!(f, "expected {what}, found '{found}'"),
            Reason::UnknownFormat => write!(f, "expected 'solera-history 1'"),
            Reason::Sites => write!(f, "'sites' must come once, before all that names a site"),
            Reason::NoSuchSite(site) => write!(f, "there is no site {site}"),
            Reason::SnapshotLength(length) => {
                write!(f, "a snapshot of {length} entries; it needs one per site")
            }
        }
    }
}

impl std::error::Error for ParseError {}

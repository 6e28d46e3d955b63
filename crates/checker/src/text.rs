//! Histories as text, one transaction per line: `docs/formats/history.md` defines the format.
//!
//! [`History`](crate::History)'s `Display` writes the format and its `FromStr` reads it; reading a
//! written history returns an equal one. Reading checks the form, not the consistency: every
//! snapshot has an entry per site, and every site exists.

pub(crate) mod line;
mod read;
pub(crate) mod words;
mod write;

use std::fmt;

pub use words::BadWord;

/// Error of parsing a history: the line and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The line, counted from 1.
    pub line: usize,
    /// The reason.
    pub reason: Reason,
}

/// Reason why a line cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The line cannot be split into words.
    Words(BadWord),
    /// An unexpected word; `found` is empty at the end of a line.
    Expected {
        /// Description of the expected word.
        what: &'static str,
        /// The word found instead.
        found: String,
    },
    /// The first line does not name a known format.
    UnknownFormat,
    /// The line with the number of sites is missing before this one, or is repeated.
    Sites,
    /// The history has no such site.
    NoSuchSite(usize),
    /// The snapshot does not have one entry per site; its length.
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

//! How a journal is opened.

use crate::identity::Identity;

/// How a journal is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whose journal it is. A journal of someone else is refused.
    pub identity: Identity,
    /// The size of new segments in bytes; 64 MiB. A longer record gets a longer segment. The disk
    /// holds at least two segments, and those that no snapshot stands for yet.
    pub segment_bytes: u64,
}

impl Options {
    /// The usual options.
    pub fn new(identity: Identity) -> Options {
        Options { identity, segment_bytes: 64 << 20 }
    }
}

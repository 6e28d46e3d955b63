//! Options of opening a journal.

use crate::identity::Identity;

/// Options of opening a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Identity of the owner. A journal of another owner is rejected.
    pub identity: Identity,
    /// Size of new segments in bytes; 64 MiB by default. A longer record gets a longer segment. The
    /// disk holds at least two segments, and those with records that no snapshot covers yet.
    pub segment_bytes: u64,
}

impl Options {
    /// Creates the default options.
    pub fn new(identity: Identity) -> Options {
        Options { identity, segment_bytes: 64 << 20 }
    }
}

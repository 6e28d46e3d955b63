//! Whose journal it is.

use std::fmt;

/// Whose journal it is: cluster, node, worker, in any form. A journal opens for its own identity
/// alone.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity(pub(crate) Vec<u8>);

impl Identity {
    /// The longest identity.
    pub const MAX_BYTES: usize = 64;

    /// The bytes that it was made of.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Goes into the checksum of each record: one of another journal does not pass for one of this.
    pub(crate) fn seed(&self) -> u32 {
        crc32c::crc32c(&self.0)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.0.escape_ascii())
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

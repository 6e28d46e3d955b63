//! Identity of a journal's owner.

use std::fmt;

/// Identity of a journal's owner: cluster, node and worker, in any format. A journal only opens for
/// its own identity.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity(pub(crate) Vec<u8>);

impl Identity {
    /// Maximum length of an identity.
    pub const MAX_BYTES: usize = 64;

    /// Returns the bytes of the identity.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the seed of the checksum of each record, so that records of other journals are
    /// rejected.
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

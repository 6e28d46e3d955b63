//! Version and limits of the format of all journal files.

/// Version of the format. Other versions are rejected.
pub(crate) const VERSION: u32 = 1;
/// Maximum length of a record, in bytes.
pub const MAX_RECORD_BYTES: usize = 1 << 30;

/// Maximum valid number of a record or a segment.
pub(crate) const MAX_NUMBER: u64 = 1 << 62;

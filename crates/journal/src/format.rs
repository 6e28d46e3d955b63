//! What holds of all files of a journal: the version of their format, and limits.

/// The version of the format. Another one is refused.
pub(crate) const VERSION: u32 = 1;
/// The longest record, in bytes.
pub const MAX_RECORD_BYTES: usize = 1 << 30;

/// The highest number of a record or a segment that is taken for one.
pub(crate) const MAX_NUMBER: u64 = 1 << 62;

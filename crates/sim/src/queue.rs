//! Virtual time.

pub(crate) use solera_time::Queue;

/// One millisecond of virtual time, in nanoseconds.
pub(crate) const MS: u64 = 1_000_000;

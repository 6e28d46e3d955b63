//! Progress of reading the journals of a process.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Approximate overhead of a record on the disk, in bytes.
pub(crate) const FRAME_BYTES: u64 = 16;

/// Amount of the journals that was read.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    bytes: AtomicU64,
}

impl Progress {
    /// Notes that a record with a payload of `bytes` bytes was read.
    pub(crate) fn read(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64 + FRAME_BYTES, Relaxed);
    }

    /// Returns the progress in percent, at most 99. Segments are preallocated, so reading may end
    /// at a lower percentage.
    pub(crate) fn percent(&self, total: u64) -> u64 {
        (self.bytes.load(Relaxed).saturating_mul(100) / total.max(1)).min(99)
    }
}

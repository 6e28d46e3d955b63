//! How far the journals of a process are read.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What of a record on the disk is not its payload, about.
pub(crate) const FRAME_BYTES: u64 = 16;

/// How much of the journals was read.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    bytes: AtomicU64,
}

impl Progress {
    /// A record of so many bytes was read.
    pub(crate) fn read(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64 + FRAME_BYTES, Relaxed);
    }

    /// Segments are as long as they will be, so that the end may come early, but not late.
    pub(crate) fn percent(&self, total: u64) -> u64 {
        (self.bytes.load(Relaxed).saturating_mul(100) / total.max(1)).min(99)
    }
}

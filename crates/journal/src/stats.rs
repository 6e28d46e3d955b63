//! Statistics of a journal since it was opened.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const SYNC_BUCKETS: usize = 24;

/// Statistics of a journal since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Number of appended records.
    pub records: u64,
    /// Total size of appended records in bytes.
    pub bytes: u64,
    /// Size of records in memory that were not written yet, in bytes.
    pub waiting_bytes: u64,
    /// Histogram of sync durations: bucket *i* counts syncs of less than 2^*i* and at least half as
    /// many microseconds; the last bucket counts all longer ones.
    pub syncs: Vec<u64>,
    /// Total duration of syncs, in microseconds.
    pub sync_sum_us: u64,
    /// Number of segments on the disk.
    pub segments: u64,
}

/// Counters of the journal's thread that other threads read.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    written: AtomicU64,
    syncs: [AtomicU64; SYNC_BUCKETS],
    sync_sum_us: AtomicU64,
    segments: AtomicU64,
}

impl Counters {
    /// Counts `bytes` bytes of written records.
    pub(crate) fn wrote(&self, bytes: u64) {
        self.written.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn synced(&self, took: Duration) {
        let micros = took.as_micros() as u64;
        let bucket = (64 - micros.leading_zeros()) as usize;
        self.syncs[bucket.min(SYNC_BUCKETS - 1)].fetch_add(1, Relaxed);
        self.sync_sum_us.fetch_add(micros, Relaxed);
    }

    pub(crate) fn set_segments(&self, segments: usize) {
        self.segments.store(segments as u64, Relaxed);
    }

    pub(crate) fn waiting(&self, appended: u64) -> u64 {
        appended.saturating_sub(self.written.load(Relaxed))
    }

    pub(crate) fn stats(&self, records: u64, bytes: u64) -> Stats {
        Stats {
            records,
            bytes,
            waiting_bytes: self.waiting(bytes),
            syncs: self.syncs.iter().map(|count| count.load(Relaxed)).collect(),
            sync_sum_us: self.sync_sum_us.load(Relaxed),
            segments: self.segments.load(Relaxed),
        }
    }
}

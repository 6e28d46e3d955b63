//! Durability of acknowledged writes.

use std::time::Duration;

/// Time at which an acknowledged write is on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Before it is acknowledged.
    Always,
    /// At most this much later.
    Interval(Duration),
    /// Never.
    Memory,
}

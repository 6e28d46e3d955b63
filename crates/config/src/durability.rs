//! When an acknowledged write is on the disk.

use std::time::Duration;

/// When an acknowledged write is on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Before it is acknowledged.
    Always,
    /// At most so much later.
    Interval(Duration),
    /// Never.
    Memory,
}

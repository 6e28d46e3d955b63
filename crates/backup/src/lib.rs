//! Backups: one causal snapshot of a running cluster in one file, and clusters restored from it.
//!
//! | module | subject |
//! |---|---|
//! | `entry` | keys, their contents, and tallies of them |
//! | `header` | the origin of a backup |
//! | `finals` | the state of a space of level `speculative` that a backup contains |
//! | `file` | the format; `docs/formats/backup.md` shows the bytes |
//! | `scan` | reading a snapshot from a running cluster |
//! | `spaces` | levels and conflicts of spaces, and differences between a backup's and a cluster's |
//! | `take`, `restore` | from a cluster to a file, and back |

mod batch;
mod entry;
mod file;
mod finals;
mod header;
mod restore;
mod scan;
mod spaces;
mod take;

pub use entry::{Content, Entry, Tally};
pub use file::{BackupReader, BackupWriter, ReadError};
pub use finals::Finals;
pub use header::Header;
pub use restore::{Allow, RestoreError, Restored, restore};
pub use scan::ScanError;
pub use spaces::{Difference, SpaceInfo, differences};
pub use take::{TakeError, take};

/// Progress of a backup or restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Number of keys read or written, and their approximate total.
    Keys(u64, u64),
    /// Number of keys read back and compared, and their total.
    Compared(u64, u64),
    /// Everything is written, but not yet durable at other sites.
    Waiting,
}

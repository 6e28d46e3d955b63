//! Backups: one causal snapshot of a running cluster, in one file, and new clusters made from it.
//!
//! | module | subject |
//! |---|---|
//! | `entry` | keys and what they hold; counting them |
//! | `header` | where a backup is from |
//! | `file` | the bytes: `docs/formats/backup.md` draws them |
//! | `scan` | reading a snapshot from a running cluster |
//! | `spaces` | what spaces promise of keys, and where a backup and a cluster differ |
//! | `take`, `restore` | from a cluster to a file, and back |

mod entry;
mod file;
mod header;
mod restore;
mod scan;
mod spaces;
mod take;

pub use entry::{Content, Entry, Tally};
pub use file::{BackupReader, BackupWriter, ReadError};
pub use header::Header;
pub use restore::{Allow, RestoreError, Restored, restore};
pub use scan::ScanError;
pub use spaces::{Difference, SpaceInfo, differences};
pub use take::{TakeError, take};

/// How far it has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// So many keys were read or written, of about so many.
    Keys(u64, u64),
    /// So many keys were read back and compared, of so many.
    Compared(u64, u64),
    /// All is written; it is not durable at other sites yet.
    Waiting,
}

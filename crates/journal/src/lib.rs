//! The durable log of one worker: records go in, and come back after any crash.
//!
//! Records are opaque bytes, numbered by [`Lsn`]. They stand in *segments*, files of a fixed size;
//! a *snapshot* stands for all records up to its LSN, so that segments below it can go. [`Journal`]
//! is the log itself and does what it is told when it is told, so that a simulator can drive it on
//! a [`SimDisk`] in virtual time; [`Syncer`] runs one on a thread of its own, so that a worker
//! never waits for a disk.
//!
//! What is promised: every record up to [`Journal::persisted_lsn`] comes back, in order and
//! unaltered; those after it come back up to some point or not at all. A tail torn by a crash is
//! cut and told; any other damage refuses to open and names its place. `docs/formats/journal.md`
//! draws the bytes and lists what is assumed of a disk.
//!
//! ```
//! use solera_journal::{Entry, Identity, Journal, Options, SimDisk};
//!
//! let disk = SimDisk::new(1);
//! let options = Options::new(Identity::new(b"cluster/site/worker-0")?);
//! let (mut journal, _) = Journal::open(disk.clone(), &options, |_| Ok(()))?;
//! let lsn = journal.append(b"record")?;
//! assert_eq!(journal.commit()?, lsn);
//! drop(journal);
//!
//! disk.crash();
//! let mut records = 0;
//! let (_, recovered) = Journal::open(disk, &options, |entry| {
//!     records += usize::from(matches!(entry, Entry::Record { payload: b"record", .. }));
//!     Ok(())
//! })?;
//! assert_eq!((records, recovered.last), (1, lsn));
//! # Ok::<(), solera_journal::Error>(())
//! ```

mod disk;
mod error;
mod format;
mod header;
mod identity;
mod journal;
mod layout;
mod lsn;
mod options;
mod reader;
mod record;
mod recovery;
mod repair;
mod segment;
mod sim_disk;
mod snapshot;
mod stats;
mod syncer;
mod tools;
mod writer;

pub use disk::{Disk, DiskFile, RealDisk, RealFile};
pub use error::{Damage, Error, Fault};
pub use format::MAX_RECORD_BYTES;
pub use identity::Identity;
pub use journal::Journal;
pub use lsn::Lsn;
pub use options::Options;
pub use recovery::{Entry, Recovered, TornTail, remove_unfinished};
pub use repair::{Repair, must_be_repaired, repair};
pub use sim_disk::{FaultyCall, SimDisk, SimFile, SimLock};
pub use snapshot::{SnapshotWriter, WrittenSnapshot};
pub use stats::Stats;
pub use syncer::{BackgroundSnapshot, Event, SyncPolicy, Syncer};
pub use tools::{Report, SegmentReport, SnapshotReport, check, dump, is_begun};

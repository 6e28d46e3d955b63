//! The durable log of one worker: recovers its records after any crash.
//!
//! Records are opaque bytes, numbered by [`Lsn`]. They are stored in *segments*, files of a fixed
//! size. A *snapshot* replaces all records up to its LSN, so that older segments can be removed.
//! [`Journal`] is the log itself. Its owner calls each step, so that a simulator can run it on a
//! [`SimDisk`] in virtual time. [`Syncer`] runs a journal on its own thread, so that a worker never
//! waits for a disk.
//!
//! Guarantees: recovery returns every record up to [`Journal::persisted_lsn`], in order and
//! unaltered, and possibly some records after it, without gaps. Opening truncates and reports a
//! tail torn by a crash. With any other damage the journal does not open, and the error names the
//! location. `docs/formats/journal.md` specifies the bytes and lists the assumptions about disks.
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

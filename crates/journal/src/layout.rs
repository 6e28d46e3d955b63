//! Names of a journal's files.

use crate::disk::Disk;
use crate::error::Error;
use crate::format::MAX_NUMBER;
use crate::lsn::Lsn;

/// Lock file, locked while the journal is open.
pub(crate) const LOCK: &str = "lock";
/// File of the next segment, while it is prepared.
pub(crate) const SPARE: &str = "spare.tmp";
/// Name of the directory in errors.
pub(crate) const DIRECTORY: &str = "the journal's directory";

const SEGMENT: &str = ".segment";
const SNAPSHOT: &str = ".snapshot";
const TEMPORARY: &str = ".tmp";

/// Returns the file name of segment `number`.
pub(crate) fn segment_name(number: u64) -> String {
    format!("{number:010}{SEGMENT}")
}

/// Returns the file name of the snapshot of all records up to `lsn`.
pub(crate) fn snapshot_name(lsn: u64) -> String {
    format!("{lsn:020}{SNAPSHOT}")
}

/// Returns the temporary file name of the `attempt`th snapshot since the journal was opened.
pub(crate) fn temporary_snapshot_name(lsn: u64, attempt: u64) -> String {
    format!("{lsn:020}-{attempt}{SNAPSHOT}{TEMPORARY}")
}

/// Content of a journal's directory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Listing {
    /// Numbers of segments, ascending.
    pub(crate) segments: Vec<u64>,
    /// LSNs of snapshots, ascending.
    pub(crate) snapshots: Vec<u64>,
    /// Unfinished files.
    pub(crate) temporary: Vec<String>,
    /// Files that do not belong to a journal.
    pub(crate) foreign: Vec<String>,
}

impl Listing {
    pub(crate) fn read(disk: &impl Disk) -> Result<Listing, Error> {
        let names = disk.list().map_err(|error| Error::io("list", DIRECTORY, &error))?;
        let mut listing = Listing::default();
        for name in names {
            if let Some(number) = number_in(&name, SEGMENT).filter(|n| segment_name(*n) == name) {
                listing.segments.push(number);
            } else if let Some(lsn) =
                number_in(&name, SNAPSHOT).filter(|lsn| snapshot_name(*lsn) == name)
            {
                listing.snapshots.push(lsn);
            } else if name == SPARE || name.ends_with(&format!("{SNAPSHOT}{TEMPORARY}")) {
                listing.temporary.push(name);
            } else if name != LOCK {
                listing.foreign.push(name);
            }
        }
        listing.segments.sort_unstable();
        listing.snapshots.sort_unstable();
        Ok(listing)
    }

    /// Returns the current snapshot.
    pub(crate) fn snapshot(&self) -> Option<Lsn> {
        self.snapshots.last().copied().map(Lsn)
    }

    /// Returns the obsolete files: unfinished ones, older snapshots, and `segments`.
    pub(crate) fn unneeded(&self, segments: &[u64]) -> Vec<String> {
        let mut unneeded = self.temporary.clone();
        let older = self.snapshots.iter().rev().skip(1).rev();
        unneeded.extend(older.map(|lsn| snapshot_name(*lsn)));
        unneeded.extend(segments.iter().map(|number| segment_name(*number)));
        unneeded
    }
}

fn number_in(name: &str, ending: &str) -> Option<u64> {
    name.strip_suffix(ending)?.parse().ok().filter(|number| *number <= MAX_NUMBER)
}

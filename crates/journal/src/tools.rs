//! Inspection of a journal that is not open.

use crate::disk::{Disk, DiskFile};
use crate::error::Error;
use crate::identity::Identity;
use crate::layout::{Listing, snapshot_name};
use crate::lsn::Lsn;
use crate::recovery::{Entry, Segment, Show, TornTail, gather, lock, until};
use crate::snapshot::read_snapshot;

/// Content of a journal's directory, with its errors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Identity of the owner in the files.
    pub identity: Option<Identity>,
    /// Current snapshot, as far as it can be read.
    pub snapshot: Option<SnapshotReport>,
    /// Segments after the snapshot with intact headers.
    pub segments: Vec<SegmentReport>,
    /// Torn tail that opening the journal would remove.
    pub torn: Option<TornTail>,
    /// All damage and gaps, in the order of the records. If there are any, the journal does not
    /// open.
    pub problems: Vec<Error>,
    /// Files that opening the journal would remove: unfinished ones, and those that the snapshot
    /// replaces.
    pub unneeded: Vec<String>,
    /// Files that do not belong to a journal.
    pub foreign: Vec<String>,
}

/// Report about a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotReport {
    /// Name of its file.
    pub file: String,
    /// Last record that it covers.
    pub lsn: Lsn,
    /// Number of its own intact records.
    pub records: u64,
}

/// Report about a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentReport {
    /// Name of its file.
    pub file: String,
    /// Number of its first record.
    pub first: Lsn,
    /// Number of intact records, from the first on.
    pub records: u64,
    /// Size of these records with the header, in bytes.
    pub used_bytes: u64,
    /// Size of the file.
    pub bytes: u64,
}

impl Report {
    /// Returns the journal's last record, or that of its snapshot; 0 if there is neither.
    pub fn last(&self) -> Lsn {
        let record = self.segments.last().map(SegmentReport::last);
        let snapshot = self.snapshot.as_ref().map(|snapshot| snapshot.lsn);
        record.max(snapshot).unwrap_or_default()
    }
}

impl SegmentReport {
    /// Returns the number of its last intact record, or the one before its first.
    pub fn last(&self) -> Lsn {
        Lsn(self.first.0 + self.records).before()
    }
}

/// Returns whether the directory holds a journal, intact or damaged. Changes nothing.
///
/// Fails if the directory does not exist or cannot be read.
pub fn is_begun(disk: &impl Disk) -> Result<bool, Error> {
    let listing = Listing::read(disk)?;
    Ok(!listing.segments.is_empty() || !listing.snapshots.is_empty())
}

/// Reads everything that opening the journal would read, and continues after damage.
///
/// Fails only if the journal cannot be read: with errors of the system, and with [`Error::Locked`].
pub fn check<D: Disk>(disk: &D) -> Result<Report, Error> {
    let _lock = lock(disk)?;
    inspect(disk, &mut |_| Ok(()))
}

/// Passes the snapshot's records and all records after it to `show`, as far as they can be read.
/// The report lists what could not be read.
///
/// Fails like [`check`], and with [`Error::Refused`] if `show` fails, with its message.
pub fn dump<D: Disk>(
    disk: &D,
    mut show: impl FnMut(Entry<'_>) -> Result<(), String>,
) -> Result<Report, Error> {
    let _lock = lock(disk)?;
    inspect(disk, &mut show)
}

/// Reads the journal like [`dump`]; the caller holds the lock.
pub(crate) fn inspect<D: Disk>(
    disk: &D,
    show: &mut dyn FnMut(Entry<'_>) -> Result<(), String>,
) -> Result<Report, Error> {
    let listing = Listing::read(disk)?;
    let mut report = Report { foreign: listing.foreign.clone(), ..Report::default() };
    if let Some(lsn) = listing.snapshot() {
        report.inspect_snapshot(disk, lsn, show)?;
    }
    let gathered = gather(disk, &listing, None);
    report.unneeded = listing.unneeded(&gathered.unneeded);
    let after = listing.snapshot().unwrap_or_default();
    let mut show = |lsn: Lsn, payload: &[u8]| {
        if lsn <= after { Ok(()) } else { show(Entry::Record { lsn, payload }) }
    };
    for (index, segment) in gathered.segments.iter().enumerate() {
        match segment {
            Ok(found) => {
                report.inspect_segment(found, gathered.segments.get(index + 1), &mut show)?;
            }
            Err(error) => report.note(error.clone())?,
        }
    }
    let last = report.segments.last().map(SegmentReport::last).unwrap_or_default();
    if report.problems.is_empty() && last < after {
        report.note(Error::EndsBeforeSnapshot { snapshot: after, last })?;
    }
    Ok(report)
}

impl Report {
    fn inspect_snapshot<D: Disk>(
        &mut self,
        disk: &D,
        lsn: Lsn,
        show: &mut dyn FnMut(Entry<'_>) -> Result<(), String>,
    ) -> Result<(), Error> {
        let mut records = 0;
        let mut shown = |payload: &[u8]| {
            records += 1;
            show(Entry::Snapshot { lsn, payload })
        };
        match read_snapshot(disk, lsn.0, None, &mut shown) {
            Ok((_, identity)) => self.identity = Some(identity),
            Err(error) => self.note(error)?,
        }
        self.snapshot = Some(SnapshotReport { file: snapshot_name(lsn.0), lsn, records });
        Ok(())
    }

    fn inspect_segment<F: DiskFile>(
        &mut self,
        segment: &Segment<F>,
        next: Option<&Result<Segment<F>, Error>>,
        show: Show<'_>,
    ) -> Result<(), Error> {
        let identity = self.identity.get_or_insert_with(|| segment.header.identity.clone());
        if let Err(other) = segment.header.check_owner(identity, &segment.name) {
            return self.note(other);
        }
        // Before a gap, it is unknown where the records must end.
        let until = match until(segment, next.and_then(|next| next.as_ref().ok())) {
            Ok(until) => until,
            Err(error) => {
                self.note(error)?;
                None
            }
        };
        let walk = segment.walk(until, show)?;
        let (file, first) = (segment.name.clone(), Lsn(segment.header.lsn));
        if let Some(damage) = walk.damage {
            self.note(damage)?;
        } else if next.is_none() && walk.used_to > walk.at {
            let (file, bytes) = (file.clone(), walk.used_to - walk.at);
            self.torn = Some(TornTail { file, offset: walk.at, bytes });
        }
        let (records, bytes) = (walk.next - first.0, segment.header.size);
        self.segments.push(SegmentReport { file, first, records, used_bytes: walk.at, bytes });
        Ok(())
    }

    /// Adds damage of the files to the report; returns errors of reading them.
    fn note(&mut self, error: Error) -> Result<(), Error> {
        if matches!(error, Error::Io { .. } | Error::DiskFull { .. } | Error::Refused { .. }) {
            return Err(error);
        }
        self.problems.push(error);
        Ok(())
    }
}

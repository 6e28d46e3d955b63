//! Truncates a damaged journal at its first damage, so that it opens again.

use crate::disk::{Disk, DiskFile};
use crate::error::Error;
use crate::identity::Identity;
use crate::layout::{DIRECTORY, Listing, snapshot_name};
use crate::lsn::Lsn;
use crate::recovery::{Gathered, Segment, Walk, gather, lock, make_segment, until};
use crate::snapshot::read_snapshot;
use crate::tools::{Report, inspect};

/// Size of a segment that replaces removed ones. It fills quickly, and the next one has the
/// configured size.
const SEGMENT_BYTES: u64 = 4096;
/// Number of bytes that are copied at once.
const COPY_BYTES: u64 = 1 << 20;

/// Result of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repair {
    /// Errors found. If empty, the repair changed nothing.
    pub problems: Vec<Error>,
    /// Last record of the journal after the repair.
    pub last: Lsn,
    /// Last record with any trace. Records from `last` to it are lost, and possibly more after it,
    /// if the end could not be read.
    pub seen: Lsn,
    /// Truncated file, and the offset. The whole file was copied to the backup before.
    pub cut: Option<(String, u64)>,
    /// Files that were moved to the backup.
    pub moved: Vec<String>,
}

/// Steps of a repair.
struct Plan<F> {
    identity: Option<Identity>,
    snapshot: u64,
    /// Number after the last record that is kept.
    next: u64,
    cut: Option<(Segment<F>, Walk)>,
    moved: Vec<String>,
    /// Number of a new segment for records after the snapshot.
    fresh: Option<u64>,
}

/// Repairs a damaged journal so that it opens: truncates it at the first damage, and removes
/// everything after it. First copies each file that changes to the directory `backup`, which should
/// be new.
///
/// A torn tail is not damage: opening the journal removes it. After a power failure during the
/// repair, repair again with another backup directory.
///
/// Fails with [`Error::BeyondRepair`] if neither a snapshot nor a record would remain, and with
/// [`Error::UnknownVersion`], because a newer program may read more. Then nothing was changed.
pub fn repair<D: Disk>(disk: &D, backup: &D) -> Result<Repair, Error> {
    let _lock = lock(disk)?;
    let report = inspect(disk, &mut |_| Ok(()))?;
    let mut repair = Repair { last: report.last(), seen: report.last(), ..Repair::default() };
    let Some(plan) = plan_for(disk, &report)? else { return Ok(repair) };
    repair.last = Lsn(plan.next).before();
    repair.cut = plan.cut.as_ref().map(|(segment, walk)| (segment.name.clone(), walk.at));
    repair.moved.clone_from(&plan.moved);
    repair.problems = report.problems;
    carry_out(disk, backup, plan)?;
    Ok(repair)
}

/// Returns whether [`repair`] would change anything, without changing anything.
///
/// Fails like [`repair`].
pub fn must_be_repaired<D: Disk>(disk: &D) -> Result<bool, Error> {
    let _lock = lock(disk)?;
    let report = inspect(disk, &mut |_| Ok(()))?;
    Ok(plan_for(disk, &report)?.is_some())
}

/// Plans the repair of a report, if there is damage.
fn plan_for<D: Disk>(disk: &D, report: &Report) -> Result<Option<Plan<D::File>>, Error> {
    let Some(first) = report.problems.first() else { return Ok(None) };
    let newer = |error: &&Error| matches!(error, Error::UnknownVersion { .. });
    if let Some(newer) = report.problems.iter().find(newer) {
        return Err(newer.clone());
    }
    plan(disk, first).map(Some)
}

fn plan<D: Disk>(disk: &D, problem: &Error) -> Result<Plan<D::File>, Error> {
    let mut listing = Listing::read(disk)?;
    let number = listing.segments.last().map_or(1, |last| last + 1);
    let mut plan =
        Plan { identity: None, snapshot: 0, next: 1, cut: None, moved: Vec::new(), fresh: None };
    // A crash may have prevented the removal of an older snapshot and its segments.
    while let Some(lsn) = listing.snapshot() {
        match read_snapshot(disk, lsn.0, None, &mut |_| Ok(())) {
            Ok((_, identity)) => {
                plan.identity = Some(identity);
                plan.snapshot = lsn.0;
                break;
            }
            Err(error @ (Error::Io { .. } | Error::UnknownVersion { .. })) => return Err(error),
            Err(_) => {
                plan.moved.push(snapshot_name(lsn.0));
                listing.snapshots.pop();
            }
        }
    }
    plan.keep_segments(gather(disk, &listing, None))?;
    if plan.next <= plan.snapshot || plan.next == 1 {
        if plan.snapshot == 0 {
            return Err(Error::BeyondRepair(Box::new(problem.clone())));
        }
        plan.next = plan.snapshot + 1;
        plan.fresh = Some(number);
    }
    Ok(plan)
}

impl<F: DiskFile> Plan<F> {
    /// Keeps segments up to the first damage; keeps none if they end before the snapshot's last
    /// record.
    fn keep_segments(&mut self, gathered: Gathered<F>) -> Result<(), Error> {
        let mut segments = gathered.segments.into_iter().peekable();
        let (mut kept, mut next) = (Vec::new(), None);
        let mut whole = true;
        while whole && let Some(Ok(segment)) = segments.next_if(|found| self.takes(found, next)) {
            let following = segments.peek().and_then(|found| found.as_ref().ok());
            // An impossible order counts as an error of the following segment.
            let until = until(&segment, following).unwrap_or_default();
            let walk = segment.walk(until, &mut |_, _| Ok(()))?;
            whole = walk.damage.is_none();
            next = Some(walk.next);
            kept.push((segment, walk));
        }
        // The header of the following segment shows where the last kept one ends. Without it, the
        // kept segment may count as damaged.
        if let (Some((segment, walk)), Some(_)) = (kept.last_mut(), segments.peek()) {
            let as_last = segment.walk(None, &mut |_, _| Ok(()))?;
            next = Some(as_last.next);
            let damage = walk.damage.take().or(as_last.damage);
            *walk = Walk { damage, ..as_last };
        }
        self.next = next.unwrap_or(1);
        let rest = segments.filter_map(|found| match found {
            Ok(segment) => Some(segment.name),
            Err(Error::MissingSegment { .. } | Error::EndsBeforeSnapshot { .. }) => None,
            Err(error) => error.file().map(str::to_owned),
        });
        let rest: Vec<String> = rest.collect();
        if self.next <= self.snapshot || self.next == 1 {
            self.moved.extend(kept.into_iter().map(|(segment, _)| segment.name));
        } else {
            self.cut = kept.pop().filter(|(_, walk)| walk.damage.is_some());
        }
        self.moved.extend(rest);
        Ok(())
    }

    /// Returns whether a segment can be kept after the previous ones, which end before record
    /// `next`.
    fn takes(&mut self, found: &Result<Segment<F>, Error>, next: Option<u64>) -> bool {
        let Ok(segment) = found else { return false };
        let identity = self.identity.get_or_insert_with(|| segment.header.identity.clone());
        *identity == segment.header.identity && next.is_none_or(|next| next == segment.header.lsn)
    }
}

fn carry_out<D: Disk>(disk: &D, backup: &D, plan: Plan<D::File>) -> Result<(), Error> {
    backup.make_dir().map_err(|error| Error::io("make", "the backup's directory", &error))?;
    let cut = plan.cut.as_ref().map(|(segment, _)| &segment.name);
    for name in plan.moved.iter().chain(cut) {
        copy(disk, backup, name)?;
    }
    let sync = |disk: &D| disk.sync_dir().map_err(|error| Error::io("sync", DIRECTORY, &error));
    sync(backup)?;
    // The order does not matter: a crash in between leaves damage or a gap, which the next repair
    // finds.
    for name in &plan.moved {
        disk.remove(name).map_err(|error| Error::io("remove", name, &error))?;
    }
    sync(disk)?;
    if let Some((segment, walk)) = plan.cut {
        cut_off(segment, walk.at)?;
    }
    if let (Some(number), Some(identity)) = (plan.fresh, &plan.identity) {
        make_segment(disk, identity, number, plan.next, SEGMENT_BYTES)?;
    }
    Ok(())
}

/// Overwrites everything from byte `at` with zeros.
fn cut_off<F: DiskFile>(mut segment: Segment<F>, at: u64) -> Result<(), Error> {
    let failed = |error| Error::io("cut", &segment.name, &error);
    let bytes = segment.file.len().map_err(failed)?;
    segment.file.allocate(at, bytes).map_err(failed)?;
    if bytes < segment.header.size {
        // A truncated file keeps its actual size.
        segment.header.size = bytes;
        segment.file.write_at(0, &segment.header.encode()).map_err(failed)?;
    }
    segment.file.sync().map_err(failed)
}

/// Copies a file durably.
fn copy<D: Disk>(from: &D, to: &D, name: &str) -> Result<(), Error> {
    let failed = |error| Error::io("copy", name, &error);
    let source = from.open(name).map_err(failed)?;
    let target = to.create(name).map_err(failed)?;
    let (mut at, size) = (0, source.len().map_err(failed)?);
    while at < size {
        let mut bytes = vec![0; COPY_BYTES.min(size - at) as usize];
        source.read_at(at, &mut bytes).map_err(failed)?;
        target.write_at(at, &bytes).map_err(failed)?;
        at += bytes.len() as u64;
    }
    target.sync().map_err(failed)
}

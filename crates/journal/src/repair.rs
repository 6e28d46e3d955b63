//! Cutting a damaged journal at its first damage, so that it opens again.

use crate::disk::{Disk, DiskFile};
use crate::error::Error;
use crate::identity::Identity;
use crate::layout::{DIRECTORY, Listing, snapshot_name};
use crate::lsn::Lsn;
use crate::recovery::{Gathered, Segment, Walk, gather, lock, make_segment, until};
use crate::snapshot::read_snapshot;
use crate::tools::{Report, inspect};

/// The size of a segment that takes the place of what was removed. It is soon full, and the next
/// has the size that whoever opens the journal wants.
const SEGMENT_BYTES: u64 = 4096;
/// How much is copied at once.
const COPY_BYTES: u64 = 1 << 20;

/// What a repair did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repair {
    /// What was wrong. If nothing was, nothing was done.
    pub problems: Vec<Error>,
    /// The journal's last record now.
    pub last: Lsn,
    /// The last record of which anything was seen. Those from `last` to it are lost, and if the end
    /// could not be read, perhaps more after it.
    pub seen: Lsn,
    /// The file that was cut, and at which byte. It was copied to the backup whole.
    pub cut: Option<(String, u64)>,
    /// The files that were moved to the backup.
    pub moved: Vec<String>,
}

/// What is to be done.
struct Plan<F> {
    identity: Option<Identity>,
    snapshot: u64,
    /// The number after the last record that stays.
    next: u64,
    cut: Option<(Segment<F>, Walk)>,
    moved: Vec<String>,
    /// The number of a new segment for what comes after the snapshot.
    fresh: Option<u64>,
}

/// Makes a damaged journal one that opens: cuts it at the first damage, and removes all that
/// follows. Before that, each file that changes is copied to the directory `backup`, which should
/// be new.
///
/// A torn tail is no damage: opening the journal cuts it. If the power fails meanwhile, repair
/// again, with another backup.
///
/// Errors: [`Error::BeyondRepair`] if nothing would be left, neither a snapshot nor a record;
/// [`Error::UnknownVersion`], since a newer program may read more. Then nothing was changed.
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

/// Whether [`repair`] would change anything. Changes nothing itself.
///
/// Errors: as for [`repair`].
pub fn must_be_repaired<D: Disk>(disk: &D) -> Result<bool, Error> {
    let _lock = lock(disk)?;
    let report = inspect(disk, &mut |_| Ok(()))?;
    Ok(plan_for(disk, &report)?.is_some())
}

/// What is to be done about what was found, if anything.
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
    // An older snapshot is there if a crash prevented its removal; then its segments may be too.
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
    /// Keeps segments up to the first damage. If not even the snapshot's last record is among
    /// theirs, keeps none.
    fn keep_segments(&mut self, gathered: Gathered<F>) -> Result<(), Error> {
        let mut segments = gathered.segments.into_iter().peekable();
        let (mut kept, mut next) = (Vec::new(), None);
        let mut whole = true;
        while whole && let Some(Ok(segment)) = segments.next_if(|found| self.takes(found, next)) {
            let following = segments.peek().and_then(|found| found.as_ref().ok());
            // An impossible order of segments is the next one's fault.
            let until = until(&segment, following).unwrap_or_default();
            let walk = segment.walk(until, &mut |_, _| Ok(()))?;
            whole = walk.damage.is_none();
            next = Some(walk.next);
            kept.push((segment, walk));
        }
        // What follows the last one that stays goes, and with it goes what said where that one
        // ends: as the last of all it may be damaged where it was not before.
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

    /// Whether a segment can stay behind those before it, which end before record `next`.
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
    // In any order: what a crash leaves of it is damage or a gap, and is found by the next repair.
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

/// Makes zeros of all that follows byte `at`.
fn cut_off<F: DiskFile>(mut segment: Segment<F>, at: u64) -> Result<(), Error> {
    let failed = |error| Error::io("cut", &segment.name, &error);
    let bytes = segment.file.len().map_err(failed)?;
    segment.file.allocate(at, bytes).map_err(failed)?;
    if bytes < segment.header.size {
        // It was cut short, and stays short: then that is its size.
        segment.header.size = bytes;
        segment.file.write_at(0, &segment.header.encode()).map_err(failed)?;
    }
    segment.file.sync().map_err(failed)
}

/// Copies a file, durably.
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

//! Opens a journal after a crash or damage.
//!
//! Marks distinguish a torn tail from damage. A mark is written after everything before it was
//! synced. Invalid bytes are therefore damage if an intact mark follows them, or if they are in a
//! snapshot or in a segment other than the last: they were once valid and durable, and the journal
//! does not open. Other invalid bytes in the last segment were never acknowledged: they are a torn
//! tail. Recovery truncates it, together with intact records after the invalid bytes, which a disk
//! may have written first.

use std::collections::VecDeque;
use std::fmt;

use crate::disk::{Disk, DiskFile};
use crate::error::{Error, Fault};
use crate::header::{HEADER_BYTES, Header, Kind, damaged};
use crate::identity::Identity;
use crate::layout::{DIRECTORY, LOCK, Listing, SPARE, segment_name};
use crate::lsn::Lsn;
use crate::options::Options;
use crate::reader::{Frame, Reader};
use crate::record::{MARK_BYTES, mark};
use crate::segment::{Spare, segment_header, segment_size};
use crate::snapshot::read_snapshot;
use crate::writer::{Current, SegmentRef, Start, Writer};

/// Number of bytes of a tail that are rewritten at once.
const REWRITE_BYTES: u64 = 1 << 20;

/// An entry that recovery returns: first the snapshot's records, then the journal's records after
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// A record of the snapshot.
    Snapshot {
        /// Last record of the journal that the snapshot covers.
        lsn: Lsn,
        /// Bytes passed to [`SnapshotWriter::add`](crate::SnapshotWriter::add).
        payload: &'a [u8],
    },
    /// A record of the journal.
    Record {
        /// Number of the record.
        lsn: Lsn,
        /// Bytes passed to [`Journal::append`](crate::Journal::append).
        payload: &'a [u8],
    },
}

/// Result of opening a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Current snapshot, by the last record that it covers.
    pub snapshot: Option<Lsn>,
    /// Number of records in the snapshot file.
    pub snapshot_records: u64,
    /// Number of replayed records after the snapshot.
    pub records: u64,
    /// Last record of the journal; 0 if there is none.
    pub last: Lsn,
    /// Torn tail that was removed. Its records were never reported as durable; the event should
    /// still be logged.
    pub torn: Option<TornTail>,
    /// Removed files: unfinished ones, and those that the snapshot replaces.
    pub removed: Vec<String>,
}

/// A torn tail: an incomplete last write before a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// File of the last segment.
    pub file: String,
    /// Offset at which it was truncated.
    pub offset: u64,
    /// Number of removed bytes.
    pub bytes: u64,
}

impl fmt::Display for TornTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TornTail { file, offset, bytes } = self;
        write!(f, "cut {bytes} bytes off {file} at byte {offset}: a write that a crash interrupted")
    }
}

/// Callback that receives a record's number and its payload.
pub(crate) type Show<'a> = &'a mut dyn FnMut(Lsn, &[u8]) -> Result<(), String>;

/// Opens the journal, or creates one.
pub(crate) fn open<D: Disk>(
    disk: D,
    options: &Options,
    replay: &mut dyn FnMut(Entry<'_>) -> Result<(), String>,
) -> Result<(Writer<D>, Recovered), Error> {
    disk.make_dir().map_err(|error| Error::io("make", DIRECTORY, &error))?;
    let lock = lock(&disk)?;
    let mut listing = Listing::read(&disk)?;
    let identity = &options.identity;
    let mut recovered = Recovered { snapshot: listing.snapshot(), ..Recovered::default() };
    if let Some(lsn) = recovered.snapshot {
        let mut show = |payload: &[u8]| replay(Entry::Snapshot { lsn, payload });
        let (content, _) = read_snapshot(&disk, lsn.0, Some(identity), &mut show)?;
        recovered.snapshot_records = content.records;
    }
    let gathered = gather(&disk, &listing, Some(identity));
    let segments: Result<Vec<Segment<D::File>>, Error> = gathered.segments.into_iter().collect();
    let mut segments = segments?;
    if segments.is_empty() {
        segments.push(make_segment(&disk, identity, 1, 1, options.segment_bytes)?);
        // The unfinished segment of an earlier attempt was rewritten and renamed to its final name.
        listing.temporary.retain(|name| name != SPARE);
    }
    let after = recovered.snapshot.unwrap_or_default();
    let mut show = |lsn: Lsn, payload: &[u8]| {
        if lsn <= after {
            return Ok(());
        }
        recovered.records += 1;
        replay(Entry::Record { lsn, payload })
    };
    let tail = replay_segments(&segments, &mut show)?;
    recovered.last = Lsn(tail.next).before();
    if recovered.last < after {
        return Err(Error::EndsBeforeSnapshot { snapshot: after, last: recovered.last });
    }

    // Nothing was changed so far: a journal that does not open stays unmodified.
    let refs = segments.iter().map(|s| SegmentRef { number: s.header.number, first: s.header.lsn });
    let refs: VecDeque<SegmentRef> = refs.collect();
    let last = segments.pop().expect("there is a last segment if its tail was found");
    let current = heal(last, &tail, identity)?;
    if tail.used_to > tail.at {
        let (file, bytes) = (current.name.clone(), tail.used_to - tail.at);
        recovered.torn = Some(TornTail { file, offset: tail.at, bytes });
    }
    recovered.removed = listing.unneeded(&gathered.unneeded);
    clear(&disk, &recovered.removed)?;
    let snapshot = recovered.snapshot;
    let start = Start { current, segments: refs, next: tail.next, snapshot, lock };
    Ok((Writer::new(disk, options.clone(), start), recovered))
}

/// Removes the files that an earlier process did not finish, and returns their names. Opening the
/// journal removes them too, but on a full disk it may first need their space. They contain no
/// records.
///
/// # Errors
/// Fails with [`Error::Locked`] if the journal is open, or if the directory cannot be read or
/// changed.
pub fn remove_unfinished(disk: &impl Disk) -> Result<Vec<String>, Error> {
    let _lock = lock(disk)?;
    let unfinished = Listing::read(disk)?.temporary;
    for name in &unfinished {
        remove(disk, name)?;
    }
    Ok(unfinished)
}

/// Takes the journal's lock.
pub(crate) fn lock<D: Disk>(disk: &D) -> Result<D::Lock, Error> {
    let lock = disk.lock(LOCK).map_err(|error| Error::io("lock", LOCK, &error))?;
    lock.ok_or(Error::Locked)
}

/// A segment with an intact header.
#[derive(Debug)]
pub(crate) struct Segment<F> {
    pub(crate) file: F,
    pub(crate) name: String,
    pub(crate) header: Header,
}

impl<F: DiskFile> Segment<F> {
    /// Opens segment `number`; checks that it belongs to `identity`, if given.
    pub(crate) fn open(
        disk: &impl Disk<File = F>,
        number: u64,
        identity: Option<&Identity>,
    ) -> Result<Segment<F>, Error> {
        let name = segment_name(number);
        let file = disk.open(&name).map_err(|error| Error::io("open", &name, &error))?;
        let header = Header::read(Kind::Segment, &file, &name)?;
        if let Some(identity) = identity {
            header.check_owner(identity, &name)?;
        }
        if header.number != number {
            let fault =
                Fault::HeaderField { field: "number", expected: number, found: header.number };
            return Err(damaged(&name, fault));
        }
        Ok(Segment { file, name, header })
    }

    /// Reads the records: all before number `until`, which must exist, or, in the last segment, as
    /// many as there are. Fails with errors of `show` and of the system; damage is part of the
    /// result.
    pub(crate) fn walk(&self, until: Option<u64>, show: Show<'_>) -> Result<Walk, Error> {
        let (seed, first) = (self.header.seed(), self.header.lsn);
        let mut reader = Reader::new(&self.file, &self.name, seed, first)?;
        let cut_short = reader.bound(self.header.size);
        let (mut unsure_from, mut is_marked) = (HEADER_BYTES as u64, true);
        let fault = loop {
            if until == Some(reader.next_number()) {
                break None;
            }
            match reader.next()? {
                Frame::Record { number, at, payload } => {
                    is_marked = false;
                    let refusal = |reason| Error::refused(&self.name, at, reason);
                    show(Lsn(number), payload).map_err(refusal)?;
                }
                Frame::Mark { at } => (unsure_from, is_marked) = (at, true),
                Frame::Bad(fault) => break Some(fault),
            }
        };
        let (next, at) = (reader.next_number(), reader.at());
        let mut walk = Walk { next, at, unsure_from, is_marked, used_to: at, damage: None };
        if let Some(fault) = fault {
            let remainder = reader.remainder()?;
            walk.used_to = remainder.used_to;
            let was_good = until.is_some() || cut_short || remainder.mark.is_some();
            walk.damage = was_good.then(|| reader.damage(fault));
        }
        Ok(walk)
    }
}

/// Result of reading a segment's records.
#[derive(Debug)]
pub(crate) struct Walk {
    /// Number after the last record.
    pub(crate) next: u64,
    /// End of the last valid frame.
    pub(crate) at: u64,
    /// Offset of the last mark. Everything before it was synced; the mark itself and what follows
    /// may not have reached the disk.
    pub(crate) unsure_from: u64,
    /// Whether no record follows the last mark.
    pub(crate) is_marked: bool,
    /// End of all non-zero bytes.
    pub(crate) used_to: u64,
    /// Damage at `at`; `None` if the records end there, or if a torn tail begins there.
    pub(crate) damage: Option<Error>,
}

/// Segments of a journal, by their use.
#[derive(Debug)]
pub(crate) struct Gathered<F> {
    /// Segments with records after the snapshot, ascending, and errors in their sequence.
    pub(crate) segments: Vec<Result<Segment<F>, Error>>,
    /// Numbers of earlier segments, which were about to be removed. They are not read.
    pub(crate) unneeded: Vec<u64>,
}

/// Opens the segments; checks that they belong to `identity`, if given. No segments and no errors
/// mean a new journal.
pub(crate) fn gather<D: Disk>(
    disk: &D,
    listing: &Listing,
    identity: Option<&Identity>,
) -> Gathered<D::File> {
    let needed = listing.snapshot().unwrap_or_default().next().0;
    let mut segments = VecDeque::new();
    let mut unneeded = listing.segments.clone();
    // Number of the following segment, and its first record if its header could be read.
    let mut above: Option<(u64, Option<u64>)> = None;
    while above.is_none_or(|(_, first)| first.is_none_or(|first| first > needed)) {
        let number = unneeded.pop();
        if let Some((above, first)) = above
            && number.is_none_or(|number| number.saturating_add(1) < above)
        {
            let file = segment_name(above.saturating_sub(1));
            // With damage after a gap, the missing records are unknown; the damage is reported
            // alone.
            let before = first.map(Lsn);
            if let Some(before) = before {
                segments.push_front(Err(Error::MissingSegment { file, before }));
            }
        }
        let Some(number) = number else { break };
        let segment = Segment::open(disk, number, identity);
        above = Some((number, segment.as_ref().ok().map(|segment| segment.header.lsn)));
        segments.push_front(segment);
    }
    if above.is_none() && needed > 1 {
        let (snapshot, last) = (Lsn(needed).before(), Lsn(0));
        segments.push_front(Err(Error::EndsBeforeSnapshot { snapshot, last }));
    }
    Gathered { segments: segments.into(), unneeded }
}

/// Replays all segments, and returns the result of the last one.
fn replay_segments<F: DiskFile>(segments: &[Segment<F>], show: Show<'_>) -> Result<Walk, Error> {
    let mut walked = None;
    for (index, segment) in segments.iter().enumerate() {
        let until = until(segment, segments.get(index + 1))?;
        let walk = segment.walk(until, show)?;
        if let Some(damage) = walk.damage {
            return Err(damage);
        }
        walked = Some(walk);
    }
    Ok(walked.expect("a journal has a segment"))
}

/// Returns the number at which the records of `segment` must end: the first of the next segment.
pub(crate) fn until<F>(
    segment: &Segment<F>,
    next: Option<&Segment<F>>,
) -> Result<Option<u64>, Error> {
    let Some(next) = next else { return Ok(None) };
    let (expected, found) = (segment.header.lsn, next.header.lsn);
    if found < expected {
        let fault = Fault::HeaderField { field: "first LSN", expected, found };
        return Err(damaged(&next.name, fault));
    }
    Ok(Some(found))
}

/// Creates an empty segment.
pub(crate) fn make_segment<D: Disk>(
    disk: &D,
    identity: &Identity,
    number: u64,
    first: u64,
    usual: u64,
) -> Result<Segment<D::File>, Error> {
    let size = segment_size(usual, 0);
    let header = segment_header(identity, number, first);
    Spare::create(disk, size)?.finish(disk, header, size)?;
    Segment::open(disk, number, None)
}

/// Truncates a torn tail, and makes all replayed records durable.
pub(crate) fn heal<F: DiskFile>(
    segment: Segment<F>,
    tail: &Walk,
    identity: &Identity,
) -> Result<Current<F>, Error> {
    let Segment { file, name, header } = segment;
    let failed = |doing: &'static str| {
        let name = name.clone();
        move |error: std::io::Error| Error::io(doing, &name, &error)
    };
    // Overwrites the tail with zeros: otherwise intact records there could become valid after a
    // future record.
    file.allocate(tail.at, tail.used_to).map_err(failed("write"))?;
    // Bytes after the last mark, and the mark itself, may be in the kernel's memory only, and after
    // a failed sync, in pages that the kernel considers clean. Only rewriting them ensures that a
    // sync covers them.
    let mut at = tail.unsure_from;
    while at < tail.at {
        let mut bytes = vec![0; REWRITE_BYTES.min(tail.at - at) as usize];
        file.read_at(at, &mut bytes).map_err(failed("read"))?;
        file.write_at(at, &bytes).map_err(failed("write"))?;
        at += bytes.len() as u64;
    }
    file.sync().map_err(failed("sync"))?;
    let mut current = Current { file, name, size: header.size, at: tail.at };
    if !tail.is_marked && current.room() >= MARK_BYTES as u64 {
        current.write(&mark(identity.seed(), tail.next, tail.at))?;
    }
    Ok(current)
}

/// Removes obsolete files, after making durable that they are obsolete.
fn clear(disk: &impl Disk, unneeded: &[String]) -> Result<(), Error> {
    // The names of the newest snapshot and of the last segment may not be durable yet.
    disk.sync_dir().map_err(|error| Error::io("sync", DIRECTORY, &error))?;
    unneeded.iter().try_for_each(|name| remove(disk, name))
}

fn remove(disk: &impl Disk, name: &str) -> Result<(), Error> {
    disk.remove(name).map_err(|error| Error::io("remove", name, &error))
}

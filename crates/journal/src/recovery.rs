//! Opening a journal after whatever happened to it.
//!
//! A torn tail and damage are told apart by marks. A mark says that all before it was synced before
//! it was written. So bad bytes before an intact mark, in a segment that is not the last, or in a
//! snapshot were good once and durable: that is damage, and it is refused. Bad bytes in the last
//! segment with no intact mark behind them were never promised to anyone: that is a torn tail, and
//! it is cut, together with intact records behind the bad bytes, which a disk may well have written
//! first.

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

/// How much of a tail is rewritten at once.
const REWRITE_BYTES: u64 = 1 << 20;

/// Something that a journal gives back: first a snapshot's records, then those after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// A record of the snapshot.
    Snapshot {
        /// The last of the journal's records that the snapshot stands for.
        lsn: Lsn,
        /// What was given to [`SnapshotWriter::add`](crate::SnapshotWriter::add).
        payload: &'a [u8],
    },
    /// A record of the journal.
    Record {
        /// Its number.
        lsn: Lsn,
        /// What was given to [`Journal::append`](crate::Journal::append).
        payload: &'a [u8],
    },
}

/// What was found when a journal was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The snapshot in force, by the last record that it stands for.
    pub snapshot: Option<Lsn>,
    /// How many records the snapshot holds itself.
    pub snapshot_records: u64,
    /// How many records after it were replayed.
    pub records: u64,
    /// The journal's last record; 0 if there is none.
    pub last: Lsn,
    /// A tail that was cut off. Nobody was told that it is durable; still it is worth a line in the
    /// log.
    pub torn: Option<TornTail>,
    /// Files that were removed: unfinished ones, and those below the snapshot.
    pub removed: Vec<String>,
}

/// What a crash left of the last write: bytes that make no whole records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The last segment's file.
    pub file: String,
    /// Where it was cut.
    pub offset: u64,
    /// How many bytes were cut off.
    pub bytes: u64,
}

impl fmt::Display for TornTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TornTail { file, offset, bytes } = self;
        write!(f, "cut {bytes} bytes off {file} at byte {offset}: a write that a crash interrupted")
    }
}

/// Takes a record's number and its payload.
pub(crate) type Show<'a> = &'a mut dyn FnMut(Lsn, &[u8]) -> Result<(), String>;

/// Opens the journal, or begins one.
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
        // An unfinished segment of an earlier opening was written anew, and has the segment's name
        // now.
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

    // Nothing was changed up to here: what is refused stays as it is.
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

/// Removes the files that an earlier process did not finish. They hold no record, but on a full
/// disk perhaps the room that is needed before the journal can be opened, which removes them too.
/// Returns their names.
///
/// # Errors
/// [`Error::Locked`] if somebody has the journal open; the directory cannot be read or changed.
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
    /// Opens segment `number`; of `identity`, where one is given.
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

    /// Reads the records: all before number `until`, which must be there, or, in the last segment,
    /// as many as there are. Errors are those of `show` and of the system; damage is part of the
    /// answer.
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

/// What a segment's records amount to.
#[derive(Debug)]
pub(crate) struct Walk {
    /// The number after the last record.
    pub(crate) next: u64,
    /// The end of the last good frame.
    pub(crate) at: u64,
    /// Where the last mark begins. All before it was synced; the mark itself and what follows may
    /// never have reached the disk.
    pub(crate) unsure_from: u64,
    /// Whether no record follows the last mark.
    pub(crate) is_marked: bool,
    /// The end of all that is not zero.
    pub(crate) used_to: u64,
    /// What is wrong at `at`, unless that is where the records end, or where a tail is torn.
    pub(crate) damage: Option<Error>,
}

/// A journal's segments, sorted out.
#[derive(Debug)]
pub(crate) struct Gathered<F> {
    /// Those that hold records after the snapshot, ascending, and what is wrong in their sequence.
    pub(crate) segments: Vec<Result<Segment<F>, Error>>,
    /// The numbers of earlier ones, which were about to be removed. They are not looked at.
    pub(crate) unneeded: Vec<u64>,
}

/// Sorts out the segments; of `identity`, where one is given. No segments and no problems: a new
/// journal.
pub(crate) fn gather<D: Disk>(
    disk: &D,
    listing: &Listing,
    identity: Option<&Identity>,
) -> Gathered<D::File> {
    let needed = listing.snapshot().unwrap_or_default().next().0;
    let mut segments = VecDeque::new();
    let mut unneeded = listing.segments.clone();
    // The segment above, and its first record if its header could be read.
    let mut above: Option<(u64, Option<u64>)> = None;
    while above.is_none_or(|(_, first)| first.is_none_or(|first| first > needed)) {
        let number = unneeded.pop();
        if let Some((above, first)) = above
            && number.is_none_or(|number| number.saturating_add(1) < above)
        {
            let file = segment_name(above.saturating_sub(1));
            // Damage above a gap says enough where nobody knows what is missing.
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

/// Replays all segments, and returns what the last one amounts to.
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

/// Where the records of `segment` must end: where those of the next one begin.
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

/// An empty segment.
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

/// Cuts a torn tail, and makes durable all that was replayed.
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
    // Zeros, lest intact records behind the cut fit behind a record that is yet to come.
    file.allocate(tail.at, tail.used_to).map_err(failed("write"))?;
    // What no mark vouches for, the last mark included, may be in the kernel's memory alone, and if
    // a sync has failed, in pages that it takes for clean: only writing them again makes sure that
    // a sync means them.
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

/// Removes what is not needed, but only once that is durable.
fn clear(disk: &impl Disk, unneeded: &[String]) -> Result<(), Error> {
    // The name of the newest snapshot may not be durable yet, nor that of the last segment.
    disk.sync_dir().map_err(|error| Error::io("sync", DIRECTORY, &error))?;
    unneeded.iter().try_for_each(|name| remove(disk, name))
}

fn remove(disk: &impl Disk, name: &str) -> Result<(), Error> {
    disk.remove(name).map_err(|error| Error::io("remove", name, &error))
}

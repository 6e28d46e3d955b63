//! The writing half of a journal: batches into segments, syncs, snapshots into force.

use std::collections::VecDeque;

use crate::disk::{Disk, DiskFile};
use crate::error::Error;
use crate::header::HEADER_BYTES;
use crate::identity::Identity;
use crate::layout::{DIRECTORY, SPARE, segment_name, snapshot_name};
use crate::lsn::Lsn;
use crate::options::Options;
use crate::record::{Batch, MARK_BYTES, first_frame, fitting, mark, seal};
use crate::segment::{Spare, segment_header, segment_size};
use crate::snapshot::WrittenSnapshot;

/// The least that [`Writer::prepare`] prepares at a call.
const PREPARE_BYTES: u64 = 64 << 10;

/// Writes and syncs. Batches must come in order and without gaps.
#[derive(Debug)]
pub(crate) struct Writer<D: Disk> {
    disk: D,
    options: Options,
    current: Current<D::File>,
    /// All segments, the current one last.
    segments: VecDeque<SegmentRef>,
    /// The number of the next record to be written.
    next: u64,
    /// All before this number are durable. At most `next`.
    durable: u64,
    snapshot: Option<Lsn>,
    /// How many snapshots were begun.
    attempts: u64,
    spare: Option<Spare<D::File>>,
    /// Written since the spare segment last grew.
    unprepared: u64,
    room: Room,
    failure: Option<Error>,
    /// Held until the journal is dropped.
    _lock: D::Lock,
}

/// Whether the disk has room for a spare segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    /// As far as is known.
    Enough,
    /// It had none, and that was told.
    None,
    /// The same, and something has gone since, or come where it needed room. It is asked once more.
    Perhaps,
}

/// The segment that is written to.
#[derive(Debug)]
pub(crate) struct Current<F> {
    pub(crate) file: F,
    pub(crate) name: String,
    pub(crate) size: u64,
    /// Where the next frame goes. All after it are zeros.
    pub(crate) at: u64,
}

/// A segment, and the number of its first record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentRef {
    pub(crate) number: u64,
    pub(crate) first: u64,
}

/// What recovery found, for a writer to go on from.
#[derive(Debug)]
pub(crate) struct Start<D: Disk> {
    pub(crate) current: Current<D::File>,
    pub(crate) segments: VecDeque<SegmentRef>,
    pub(crate) next: u64,
    pub(crate) snapshot: Option<Lsn>,
    pub(crate) lock: D::Lock,
}

impl<D: Disk> Writer<D> {
    pub(crate) fn new(disk: D, options: Options, start: Start<D>) -> Writer<D> {
        Writer {
            disk,
            options,
            current: start.current,
            segments: start.segments,
            next: start.next,
            durable: start.next,
            snapshot: start.snapshot,
            attempts: 0,
            spare: None,
            unprepared: 0,
            room: Room::Enough,
            failure: None,
            _lock: start.lock,
        }
    }

    pub(crate) fn write(&mut self, batch: &mut Batch) -> Result<(), Error> {
        self.usable()?;
        assert_eq!(batch.first, self.next, "batches come in order");
        seal(self.options.identity.seed(), &mut batch.bytes);
        let written = self.write_frames(&batch.bytes);
        self.or_fail(written)?;
        assert_eq!(batch.next, self.next, "a batch holds the records that it says");
        Ok(())
    }

    /// Makes all that was written durable.
    ///
    /// If this fails, it may be that some of it is durable all the same; ask [`Self::persisted`].
    pub(crate) fn sync(&mut self) -> Result<Lsn, Error> {
        self.usable()?;
        let synced = self.sync_current();
        self.or_fail(synced)?;
        Ok(self.persisted())
    }

    /// Makes the last mark durable too.
    pub(crate) fn seal(&mut self) -> Result<(), Error> {
        self.usable()?;
        let name = &self.current.name;
        let sealed = self.current.file.sync().map_err(|error| Error::io("sync", name, &error));
        self.or_fail(sealed)
    }

    /// Whether there is no spare segment, or enough was written since it last grew: a journal that
    /// is idle writes a little all the time.
    pub(crate) fn is_preparation_due(&self) -> bool {
        self.spare.is_none() || self.unprepared.saturating_mul(2) >= PREPARE_BYTES
    }

    pub(crate) fn prepare(&mut self) -> Result<bool, Error> {
        // Twice as fast as the current segment fills, so that the next one is ready by half of it.
        let bytes = PREPARE_BYTES.max(self.unprepared.saturating_mul(2));
        self.prepare_by(bytes)
    }

    pub(crate) fn prepare_whole(&mut self) -> Result<bool, Error> {
        self.prepare_by(u64::MAX)
    }

    fn prepare_by(&mut self, bytes: u64) -> Result<bool, Error> {
        self.usable()?;
        if self.room == Room::None || self.spare.as_ref().is_some_and(Spare::ready) {
            return Ok(false);
        }
        self.unprepared = 0;
        // Nobody is told of room before all of it is there.
        let bytes = if self.room == Room::Perhaps { u64::MAX } else { bytes };
        match self.fill_spare(bytes) {
            Err(full) if full.is_disk_full() => {
                let told = std::mem::replace(&mut self.room, Room::None) == Room::Perhaps;
                // The space is needed more for a snapshot, which makes room.
                self.spare = None;
                let removed = self.remove(SPARE);
                self.or_fail(removed)?;
                if told { Ok(false) } else { Err(full) }
            }
            filled => {
                self.or_fail(filled)?;
                Ok(std::mem::replace(&mut self.room, Room::Enough) == Room::Perhaps)
            }
        }
    }

    /// If the disk had no room, [`Self::prepare`] asks it once more.
    pub(crate) fn look_for_room(&mut self) {
        if self.room == Room::None {
            self.room = Room::Perhaps;
        }
    }

    /// Whether a snapshot at `lsn` may be begun when `last` is the last record.
    pub(crate) fn check_snapshot(&self, lsn: Lsn, last: Lsn) -> Result<(), Error> {
        let from = self.snapshot.unwrap_or_default();
        let fits = (from..=last).contains(&lsn);
        if fits { Ok(()) } else { Err(Error::SnapshotOutOfOrder { snapshot: lsn, from, to: last }) }
    }

    pub(crate) fn publish(&mut self, snapshot: WrittenSnapshot) -> Result<(), Error> {
        self.usable()?;
        if let Err(out_of_order) = self.check_snapshot(snapshot.lsn, self.persisted()) {
            let removed = self.disk.remove(&snapshot.temporary);
            let removed = removed.map_err(|error| Error::io("remove", &snapshot.temporary, &error));
            self.or_fail(removed)?;
            return Err(out_of_order);
        }
        let published = self.replace_snapshot(&snapshot);
        self.or_fail(published)
    }

    pub(crate) fn persisted(&self) -> Lsn {
        Lsn(self.durable).before()
    }

    /// Whether something is written and not durable.
    pub(crate) fn unsynced(&self) -> bool {
        self.durable < self.next
    }

    /// How many segments there are.
    pub(crate) fn segments(&self) -> usize {
        self.segments.len()
    }

    pub(crate) fn snapshot(&self) -> Option<Lsn> {
        self.snapshot
    }

    pub(crate) fn count_snapshot(&mut self) -> u64 {
        self.attempts += 1;
        self.attempts
    }

    pub(crate) fn disk(&self) -> &D {
        &self.disk
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.options.identity
    }

    pub(crate) fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    pub(crate) fn usable(&self) -> Result<(), Error> {
        match &self.failure {
            Some(cause) => Err(Error::Failed(Box::new(cause.clone()))),
            None => Ok(()),
        }
    }

    /// After an error nothing is tried again. In particular no sync: a failed one leaves pages that
    /// the kernel takes for clean, so that the next sync succeeds without having written them. What
    /// was not durable before is lost, and must not be told to be durable later.
    fn or_fail<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        result.inspect_err(|error| self.failure = Some(error.clone()))
    }

    fn write_frames(&mut self, mut frames: &[u8]) -> Result<(), Error> {
        while !frames.is_empty() {
            // A mark must always fit behind what is written.
            let room = self.current.room().saturating_sub(MARK_BYTES as u64);
            let (bytes, count) = fitting(frames, room);
            if count == 0 {
                self.turn_over(first_frame(frames) as u64)?;
                continue;
            }
            self.current.write(&frames[..bytes])?;
            self.next += count;
            self.unprepared += bytes as u64;
            frames = &frames[bytes..];
        }
        Ok(())
    }

    fn sync_current(&mut self) -> Result<(), Error> {
        if !self.unsynced() {
            return Ok(());
        }
        let name = &self.current.name;
        self.current.file.sync().map_err(|error| Error::io("sync", name, &error))?;
        self.durable = self.next;
        // Not before the sync: a mark vouches for all before it. It is not synced itself, since
        // nothing is lost with it; the next sync takes it along, or the kernel when it has time.
        let mark = mark(self.options.identity.seed(), self.next, self.current.at);
        self.current.write(&mark)
    }

    /// Begins the next segment, for a frame of `frame` bytes at least.
    fn turn_over(&mut self, frame: u64) -> Result<(), Error> {
        // Only the last segment may have a torn tail.
        self.sync_current()?;
        let size = segment_size(self.options.segment_bytes, frame);
        let spare = match self.spare.take() {
            Some(spare) => spare,
            None => Spare::create(&self.disk, size)?,
        };
        let number = self.segments.back().map_or(1, |last| last.number + 1);
        let header = segment_header(self.identity(), number, self.next);
        let finished = spare.finish(&self.disk, header, size);
        let (file, size) = finished.inspect_err(|error| {
            if error.is_disk_full() {
                // The journal has failed anyway. What was written of the segment would hold the
                // room that others on the same disk need, and the next start.
                let _ = self.remove(SPARE);
            }
        })?;
        self.current = Current::new(file, number, size);
        self.look_for_room();
        self.segments.push_back(SegmentRef { number, first: self.next });
        Ok(())
    }

    fn fill_spare(&mut self, bytes: u64) -> Result<(), Error> {
        let size = segment_size(self.options.segment_bytes, 0);
        let spare = match &mut self.spare {
            Some(spare) => spare,
            none => none.insert(Spare::create(&self.disk, size)?),
        };
        spare.fill(bytes)
    }

    fn replace_snapshot(&mut self, snapshot: &WrittenSnapshot) -> Result<(), Error> {
        let (temporary, name) = (&snapshot.temporary, snapshot_name(snapshot.lsn.0));
        let renamed = self.disk.rename(temporary, &name);
        renamed.map_err(|error| Error::io("rename", temporary, &error))?;
        // Before anything goes: until its name is durable, a crash brings the old snapshot back,
        // and that one needs its segments.
        self.sync_dir()?;
        let older = self.snapshot.replace(snapshot.lsn).filter(|older| *older != snapshot.lsn);
        if let Some(older) = older {
            self.remove(&snapshot_name(older.0))?;
        }
        // A segment's records end where the next one's begin. The current one stays.
        while self.segments.get(1).is_some_and(|second| second.first <= snapshot.lsn.next().0) {
            let first = self.segments.pop_front().expect("there are two");
            self.remove(&segment_name(first.number))?;
        }
        self.look_for_room();
        // If the power brings back what was removed, opening the journal removes it again.
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        self.disk.remove(name).map_err(|error| Error::io("remove", name, &error))
    }

    fn sync_dir(&self) -> Result<(), Error> {
        self.disk.sync_dir().map_err(|error| Error::io("sync", DIRECTORY, &error))
    }
}

impl<F: DiskFile> Current<F> {
    /// A segment without records.
    pub(crate) fn new(file: F, number: u64, size: u64) -> Current<F> {
        let at = HEADER_BYTES as u64;
        Current { file, name: segment_name(number), size, at }
    }

    /// How many bytes are left.
    pub(crate) fn room(&self) -> u64 {
        self.size.saturating_sub(self.at)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let written = self.file.write_at(self.at, bytes);
        written.map_err(|error| Error::io("write", &self.name, &error))?;
        self.at += bytes.len() as u64;
        Ok(())
    }
}

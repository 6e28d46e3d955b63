//! The writing half of a journal: writes batches to segments, syncs, and publishes snapshots.

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

/// Minimum number of bytes that a call of [`Writer::prepare`] prepares.
const PREPARE_BYTES: u64 = 64 << 10;

/// Writes and syncs batches, which must be passed in order and without gaps.
#[derive(Debug)]
pub(crate) struct Writer<D: Disk> {
    disk: D,
    options: Options,
    current: Current<D::File>,
    /// All segments, the current one last.
    segments: VecDeque<SegmentRef>,
    /// Number of the next record to be written.
    next: u64,
    /// Number before which all records are durable. At most `next`.
    durable: u64,
    snapshot: Option<Lsn>,
    /// Number of snapshots begun.
    attempts: u64,
    spare: Option<Spare<D::File>>,
    /// Bytes written since the spare segment last grew.
    unprepared: u64,
    free_space: FreeSpace,
    failure: Option<Error>,
    /// Lock of the journal, held until it is dropped.
    _lock: D::Lock,
}

/// State of the disk's space for a spare segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FreeSpace {
    /// There is space, as far as is known.
    Enough,
    /// The disk is full, and this was reported.
    None,
    /// The disk was full, but space may have been freed since. Preparing is retried once.
    Perhaps,
}

/// Segment that is being written.
#[derive(Debug)]
pub(crate) struct Current<F> {
    pub(crate) file: F,
    pub(crate) name: String,
    pub(crate) size: u64,
    /// Offset of the next frame. Everything after it is zeros.
    pub(crate) at: u64,
}

/// A segment with the number of its first record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentRef {
    pub(crate) number: u64,
    pub(crate) first: u64,
}

/// State after recovery, from which a writer continues.
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
            free_space: FreeSpace::Enough,
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
        assert_eq!(batch.next, self.next, "a batch holds the records that it declares");
        Ok(())
    }

    /// Makes everything written durable.
    ///
    /// If this fails, a part may still be durable; see [`Self::persisted`].
    pub(crate) fn sync(&mut self) -> Result<Lsn, Error> {
        self.usable()?;
        let synced = self.sync_current();
        self.or_fail(synced)?;
        Ok(self.persisted())
    }

    /// Makes the last mark durable as well.
    pub(crate) fn seal(&mut self) -> Result<(), Error> {
        self.usable()?;
        let name = &self.current.name;
        let sealed = self.current.file.sync().map_err(|error| Error::io("sync", name, &error));
        self.or_fail(sealed)
    }

    /// Returns whether there is no spare segment, or enough was written since it last grew. Even an
    /// idle journal writes a little all the time.
    pub(crate) fn is_preparation_due(&self) -> bool {
        self.spare.is_none() || self.unprepared.saturating_mul(2) >= PREPARE_BYTES
    }

    pub(crate) fn prepare(&mut self) -> Result<bool, Error> {
        // Prepares twice as fast as the current segment fills, so that the next one is ready when
        // it is half full.
        let bytes = PREPARE_BYTES.max(self.unprepared.saturating_mul(2));
        self.prepare_by(bytes)
    }

    pub(crate) fn prepare_whole(&mut self) -> Result<bool, Error> {
        self.prepare_by(u64::MAX)
    }

    fn prepare_by(&mut self, bytes: u64) -> Result<bool, Error> {
        self.usable()?;
        if self.free_space == FreeSpace::None || self.spare.as_ref().is_some_and(Spare::ready) {
            return Ok(false);
        }
        self.unprepared = 0;
        // Space is reported only when the whole segment is prepared.
        let bytes = if self.free_space == FreeSpace::Perhaps { u64::MAX } else { bytes };
        match self.fill_spare(bytes) {
            Err(full) if full.is_disk_full() => {
                let was_reported =
                    std::mem::replace(&mut self.free_space, FreeSpace::None) == FreeSpace::Perhaps;
                // Remove the spare segment: a snapshot frees space, but needs this space to be
                // written.
                self.spare = None;
                let removed = self.remove(SPARE);
                self.or_fail(removed)?;
                if was_reported { Ok(false) } else { Err(full) }
            }
            filled => {
                self.or_fail(filled)?;
                Ok(std::mem::replace(&mut self.free_space, FreeSpace::Enough) == FreeSpace::Perhaps)
            }
        }
    }

    /// Makes [`Self::prepare`] retry once if the disk was full.
    pub(crate) fn look_for_room(&mut self) {
        if self.free_space == FreeSpace::None {
            self.free_space = FreeSpace::Perhaps;
        }
    }

    /// Checks that a snapshot at `lsn` may begin when `last` is the last record.
    pub(crate) fn check_snapshot(&self, lsn: Lsn, last: Lsn) -> Result<(), Error> {
        let from = self.snapshot.unwrap_or_default();
        let is_valid = (from..=last).contains(&lsn);
        if is_valid {
            Ok(())
        } else {
            Err(Error::SnapshotOutOfOrder { snapshot: lsn, from, to: last })
        }
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

    /// Returns whether there is written data that is not durable.
    pub(crate) fn unsynced(&self) -> bool {
        self.durable < self.next
    }

    /// Returns the number of segments.
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

    /// Records an error, after which the writer does not retry. In particular, it does not sync
    /// again: after a failed sync, the kernel considers the pages clean, so that the next sync
    /// succeeds without having written them. Records that were not durable before are lost and must
    /// not be reported as durable later.
    fn or_fail<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        result.inspect_err(|error| self.failure = Some(error.clone()))
    }

    fn write_frames(&mut self, mut frames: &[u8]) -> Result<(), Error> {
        while !frames.is_empty() {
            // The segment must always have space for a mark.
            let free_space = self.current.room().saturating_sub(MARK_BYTES as u64);
            let (bytes, count) = fitting(frames, free_space);
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
        // Write the mark after the sync, because it proves that everything before it was synced.
        // The mark itself is not synced, since losing it loses no record; the next sync covers it.
        let mark = mark(self.options.identity.seed(), self.next, self.current.at);
        self.current.write(&mark)
    }

    /// Begins the next segment, for a frame of at least `frame` bytes.
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
                // The journal has failed anyway. The unfinished segment would occupy space that
                // other journals on the disk, and the next start, need.
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
        // Sync before anything is removed: until the new name is durable, a crash restores the old
        // snapshot, which needs its segments.
        self.sync_dir()?;
        let older = self.snapshot.replace(snapshot.lsn).filter(|older| *older != snapshot.lsn);
        if let Some(older) = older {
            self.remove(&snapshot_name(older.0))?;
        }
        // A segment's records end where the next one's begin. The current segment is kept.
        while self.segments.get(1).is_some_and(|second| second.first <= snapshot.lsn.next().0) {
            let first = self.segments.pop_front().expect("there are two");
            self.remove(&segment_name(first.number))?;
        }
        self.look_for_room();
        // If a power failure restores removed files, opening the journal removes them again.
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
    /// Creates a segment without records.
    pub(crate) fn new(file: F, number: u64, size: u64) -> Current<F> {
        let at = HEADER_BYTES as u64;
        Current { file, name: segment_name(number), size, at }
    }

    /// Returns the number of remaining bytes.
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

//! Prepares segments, files of zeros, in advance.

use crate::disk::{Disk, DiskFile};
use crate::error::Error;
use crate::header::{HEADER_BYTES, Header, Kind};
use crate::identity::Identity;
use crate::layout::{DIRECTORY, SPARE, segment_name};
use crate::record::{ALIGNMENT, MARK_BYTES};

/// Number of zeros that are synced at once, small enough to keep other syncs fast.
const SYNC_STEP_BYTES: u64 = 4 << 20;

/// A segment in preparation. It has a temporary name, so a crash leaves nothing to repair.
#[derive(Debug)]
pub(crate) struct Spare<F> {
    file: F,
    /// Final size.
    size: u64,
    /// End of the written zeros.
    filled: u64,
    /// End of the synced zeros.
    synced: u64,
}

impl<F: DiskFile> Spare<F> {
    pub(crate) fn create(disk: &impl Disk<File = F>, size: u64) -> Result<Spare<F>, Error> {
        let file = disk.create(SPARE).map_err(|error| Error::io("create", SPARE, &error))?;
        Ok(Spare { file, size, filled: 0, synced: 0 })
    }

    /// Writes the next `bytes` zeros.
    pub(crate) fn fill(&mut self, bytes: u64) -> Result<(), Error> {
        let end = self.size.min(self.filled.saturating_add(bytes));
        loop {
            let next = end.min(self.filled.saturating_add(SYNC_STEP_BYTES));
            let allocated = self.file.allocate(self.filled, next);
            allocated.map_err(|error| Error::io("allocate", SPARE, &error))?;
            self.filled = next;
            let unsynced = self.filled - self.synced;
            if unsynced >= SYNC_STEP_BYTES || (self.ready() && unsynced > 0) {
                self.sync()?;
            }
            if next == end {
                return Ok(());
            }
        }
    }

    pub(crate) fn ready(&self) -> bool {
        self.filled == self.size
    }

    /// Turns it into the segment that `header` describes, of at least `size` bytes, and returns its
    /// file and size. When this returns, the segment's name, header and space are durable.
    pub(crate) fn finish(
        mut self,
        disk: &impl Disk<File = F>,
        mut header: Header,
        size: u64,
    ) -> Result<(F, u64), Error> {
        self.size = self.size.max(size);
        header.size = self.size;
        self.fill(u64::MAX)?;
        let written = self.file.write_at(0, &header.encode());
        written.map_err(|error| Error::io("write", SPARE, &error))?;
        self.sync()?;
        let name = segment_name(header.number);
        disk.rename(SPARE, &name).map_err(|error| Error::io("rename", SPARE, &error))?;
        disk.sync_dir().map_err(|error| Error::io("sync", DIRECTORY, &error))?;
        Ok((self.file, self.size))
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.file.sync().map_err(|error| Error::io("sync", SPARE, &error))?;
        self.synced = self.filled;
        Ok(())
    }
}

/// Returns a segment's size: `usual`, or what a frame of `frame` bytes and the mark after it need,
/// if that is more.
pub(crate) fn segment_size(usual: u64, frame: u64) -> u64 {
    usual.max(HEADER_BYTES as u64 + frame + MARK_BYTES as u64).next_multiple_of(ALIGNMENT as u64)
}

/// Returns the header of segment `number` with the first record `first`; its size is set later.
pub(crate) fn segment_header(identity: &Identity, number: u64, first: u64) -> Header {
    Header { kind: Kind::Segment, number, lsn: first, size: 0, identity: identity.clone() }
}

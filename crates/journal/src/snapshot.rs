//! Snapshots, which replace all records up to an LSN.
//!
//! A snapshot is written under a temporary name, in steps, while the journal continues. It takes
//! effect when it was synced and renamed, and the rename was synced too.

use crate::disk::{Disk, DiskFile};
use crate::error::{Error, Fault};
use crate::header::{Header, Kind, damaged};
use crate::identity::Identity;
use crate::layout::{snapshot_name, temporary_snapshot_name};
use crate::lsn::Lsn;
use crate::reader::{Frame, Reader};
use crate::record::{Encoder, mark, seal};

/// Number of bytes that are buffered before a write.
const WRITE_BYTES: usize = 256 << 10;

/// Writes a snapshot: records with which the caller represents all journal records up to an LSN.
///
/// It has its own file and does not access the journal, so another thread may use it.
#[derive(Debug)]
pub struct SnapshotWriter<D: Disk> {
    encoder: Encoder,
    file: SnapshotFile<D>,
}

/// File of an unfinished snapshot.
#[derive(Debug)]
pub(crate) struct SnapshotFile<D: Disk> {
    disk: D,
    file: D::File,
    temporary: String,
    header: Header,
    at: u64,
    finished: bool,
}

/// A complete, durable snapshot that was not published yet.
#[derive(Debug)]
pub struct WrittenSnapshot {
    pub(crate) temporary: String,
    pub(crate) lsn: Lsn,
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

impl WrittenSnapshot {
    /// Returns the last record that it covers.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// Returns the number of its own records.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Returns the size of its file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Returns the header of the snapshot of `identity`'s records up to `lsn`.
pub(crate) fn snapshot_header(identity: &Identity, lsn: Lsn) -> Header {
    Header { kind: Kind::Snapshot, number: 0, lsn: lsn.0, size: 0, identity: identity.clone() }
}

impl<D: Disk> SnapshotWriter<D> {
    pub(crate) fn create(
        disk: D,
        identity: &Identity,
        lsn: Lsn,
        attempt: u64,
    ) -> Result<Self, Error> {
        let header = snapshot_header(identity, lsn);
        let encoder = Encoder::new(1);
        Ok(SnapshotWriter { encoder, file: SnapshotFile::create(disk, header, attempt)? })
    }

    /// Appends a record. Writes only when the buffer is full, and does not sync.
    ///
    /// After an error the snapshot is unusable; the journal is not affected.
    pub fn add(&mut self, record: &[u8]) -> Result<(), Error> {
        self.encoder.append(record)?;
        if self.encoder.waiting_bytes() >= WRITE_BYTES {
            self.file.write_frames(self.encoder.take().bytes)?;
        }
        Ok(())
    }

    /// Writes the rest, and syncs. [`Journal::publish`](crate::Journal::publish) then makes the
    /// snapshot current.
    pub fn finish(mut self) -> Result<WrittenSnapshot, Error> {
        let batch = self.encoder.take();
        self.file.write_frames(batch.bytes)?;
        self.file.finish(batch.next)
    }
}

impl<D: Disk> SnapshotFile<D> {
    pub(crate) fn create(disk: D, header: Header, attempt: u64) -> Result<Self, Error> {
        let temporary = temporary_snapshot_name(header.lsn, attempt);
        let file = disk.create(&temporary);
        let file = file.map_err(|error| Error::io("create", &temporary, &error))?;
        let mut snapshot = SnapshotFile { disk, file, temporary, header, at: 0, finished: false };
        let header = snapshot.header.encode();
        snapshot.write(&header)?;
        Ok(snapshot)
    }

    /// Writes frames of an [`Encoder`].
    pub(crate) fn write_frames(&mut self, mut frames: Vec<u8>) -> Result<(), Error> {
        seal(self.header.seed(), &mut frames);
        self.write(&frames)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let written = self.file.write_at(self.at, bytes);
        written.map_err(|error| Error::io("write", &self.temporary, &error))?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Ends the file after the record before `next`, and syncs it.
    pub(crate) fn finish(mut self, next: u64) -> Result<WrittenSnapshot, Error> {
        self.write(&mark(self.header.seed(), next, self.at))?;
        self.file.sync().map_err(|error| Error::io("sync", &self.temporary, &error))?;
        self.finished = true;
        Ok(WrittenSnapshot {
            temporary: self.temporary.clone(),
            lsn: Lsn(self.header.lsn),
            records: next - 1,
            bytes: self.at,
        })
    }
}

impl<D: Disk> Drop for SnapshotFile<D> {
    fn drop(&mut self) {
        if !self.finished {
            // If this fails, the next opening of the journal removes it.
            let _ = self.disk.remove(&self.temporary);
        }
    }
}

/// Content of a snapshot's file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SnapshotContent {
    pub(crate) records: u64,
    /// Size of the file.
    pub(crate) bytes: u64,
}

/// Reads the snapshot at `lsn` and passes its records to `show`; checks that it belongs to
/// `identity`, if given.
pub(crate) fn read_snapshot<D: Disk>(
    disk: &D,
    lsn: u64,
    identity: Option<&Identity>,
    show: &mut dyn FnMut(&[u8]) -> Result<(), String>,
) -> Result<(SnapshotContent, Identity), Error> {
    let name = &snapshot_name(lsn);
    let file = disk.open(name).map_err(|error| Error::io("open", name, &error))?;
    let header = Header::read(Kind::Snapshot, &file, name)?;
    if let Some(identity) = identity {
        header.check_owner(identity, name)?;
    }
    if header.lsn != lsn {
        let fault = Fault::HeaderField { field: "LSN", expected: lsn, found: header.lsn };
        return Err(damaged(name, fault));
    }
    let mut reader = Reader::new(&file, name, header.seed(), 1)?;
    loop {
        match reader.next()? {
            Frame::Record { at, payload, .. } => {
                show(payload).map_err(|reason| Error::refused(name, at, reason))?;
            }
            Frame::Mark { .. } => break,
            Frame::Bad(fault) => return Err(reader.damage(fault)),
        }
    }
    let records = reader.next_number() - 1;
    match reader.left() {
        0 => Ok((SnapshotContent { records, bytes: reader.at() }, header.identity)),
        bytes => Err(reader.damage(Fault::Surplus { bytes })),
    }
}

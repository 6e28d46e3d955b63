//! Snapshots: what all records up to some LSN amount to, so that these can go.
//!
//! A snapshot is written under a temporary name, in steps, while the journal goes on; it counts
//! only when it has been synced, renamed and its name synced too.

use crate::disk::{Disk, DiskFile};
use crate::error::{Error, Fault};
use crate::header::{Header, Kind, damaged};
use crate::identity::Identity;
use crate::layout::{snapshot_name, temporary_snapshot_name};
use crate::lsn::Lsn;
use crate::reader::{Frame, Reader};
use crate::record::{Encoder, mark, seal};

/// How much is collected before it is written.
const WRITE_BYTES: usize = 256 << 10;

/// Writes a snapshot: what the caller makes of all records up to an LSN, as records of its own.
///
/// It works on a file of its own and needs nothing of the journal, so another thread may use it.
#[derive(Debug)]
pub struct SnapshotWriter<D: Disk> {
    encoder: Encoder,
    file: SnapshotFile<D>,
}

/// A snapshot's file in progress.
#[derive(Debug)]
pub(crate) struct SnapshotFile<D: Disk> {
    disk: D,
    file: D::File,
    temporary: String,
    header: Header,
    at: u64,
    finished: bool,
}

/// A complete snapshot that is on the disk, but not in force: it still has to be published.
#[derive(Debug)]
pub struct WrittenSnapshot {
    pub(crate) temporary: String,
    pub(crate) lsn: Lsn,
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

impl WrittenSnapshot {
    /// The last record that it stands for.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// How many records it holds itself.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The size of its file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The header of the snapshot of `identity`'s records up to `lsn`.
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

    /// Takes the next record. Writes only when enough has come together, and syncs nothing.
    ///
    /// After an error the snapshot is of no use; the journal is none the worse.
    pub fn add(&mut self, record: &[u8]) -> Result<(), Error> {
        self.encoder.append(record)?;
        if self.encoder.waiting_bytes() >= WRITE_BYTES {
            self.file.write_frames(self.encoder.take().bytes)?;
        }
        Ok(())
    }

    /// Writes what is left, and syncs. [`Journal::publish`](crate::Journal::publish) puts it in
    /// force.
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

    /// Writes what an [`Encoder`] made.
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
            // If this fails, the next one to open the journal removes it.
            let _ = self.disk.remove(&self.temporary);
        }
    }
}

/// What a snapshot's file held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SnapshotContent {
    pub(crate) records: u64,
    /// The file's size.
    pub(crate) bytes: u64,
}

/// Reads the snapshot at `lsn` and shows its records; of `identity`, where one is given.
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

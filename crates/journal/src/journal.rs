//! The journal as its owner sees it.

use crate::disk::Disk;
use crate::error::Error;
use crate::lsn::Lsn;
use crate::options::Options;
use crate::record::Encoder;
use crate::recovery::{self, Entry, Recovered};
use crate::snapshot::{SnapshotWriter, WrittenSnapshot};
use crate::writer::Writer;

/// A journal that does each step when it is told to.
///
/// [`append`](Self::append) only takes note; [`write_out`](Self::write_out) hands the bytes to the
/// operating system; [`sync`](Self::sync) makes them survive. After any error but those of `append`
/// and of a snapshot's order, the journal has failed: it takes nothing more, and what is beyond
/// [`persisted_lsn`](Self::persisted_lsn) must be taken for lost, though some of it may come back
/// when it is opened again.
#[derive(Debug)]
pub struct Journal<D: Disk> {
    pub(crate) encoder: Encoder,
    pub(crate) writer: Writer<D>,
}

impl<D: Disk> Journal<D> {
    /// Opens the journal in the directory `disk`, or begins one if the directory has none.
    ///
    /// Shows the newest snapshot's records to `replay`, and then all records after it. All that was
    /// shown is durable when this returns. If this is an error, what was shown may be only a part.
    ///
    /// Errors: whatever is damaged, missing or someone else's; [`Error::Refused`] with the words
    /// that `replay` returned.
    pub fn open(
        disk: D,
        options: &Options,
        mut replay: impl FnMut(Entry<'_>) -> Result<(), String>,
    ) -> Result<(Journal<D>, Recovered), Error> {
        let (writer, recovered) = recovery::open(disk, options, &mut replay)?;
        let encoder = Encoder::new(recovered.last.next().0);
        Ok((Journal { encoder, writer }, recovered))
    }

    /// Takes a record and returns its number. Does no I/O.
    pub fn append(&mut self, record: &[u8]) -> Result<Lsn, Error> {
        self.writer.usable()?;
        self.encoder.append(record).map(Lsn)
    }

    /// Writes what was appended. It survives the death of the process now, but not yet a loss of
    /// power.
    pub fn write_out(&mut self) -> Result<(), Error> {
        self.writer.write(&mut self.encoder.take())
    }

    /// Makes what was written out durable, and returns [`Self::persisted_lsn`].
    pub fn sync(&mut self) -> Result<Lsn, Error> {
        self.writer.sync()
    }

    /// Writes out and syncs.
    pub fn commit(&mut self) -> Result<Lsn, Error> {
        self.write_out()?;
        self.sync()
    }

    /// Prepares the next segment, in proportion to what was written since the last call. Best
    /// called after each sync: whoever does not will wait when the segment is full. Returns whether
    /// the disk has room again, which it had not.
    ///
    /// # Errors
    /// [`Error::DiskFull`] is a warning, given once: the journal goes on as long as its segment has
    /// room. The disk is asked again when a snapshot or a segment was put in force. Any other error
    /// is the journal's end.
    pub fn prepare(&mut self) -> Result<bool, Error> {
        self.writer.prepare()
    }

    /// Prepares all of the next segment. Best called when a journal that has records is opened: if
    /// the disk has no room, it is better to know that before anything is taken than when the
    /// segment is full.
    ///
    /// # Errors
    /// As those of [`prepare`](Self::prepare).
    pub fn prepare_whole(&mut self) -> Result<(), Error> {
        self.writer.prepare_whole().map(drop)
    }

    /// The last record that was appended; 0 if there is none.
    pub fn last_lsn(&self) -> Lsn {
        Lsn(self.encoder.next()).before()
    }

    /// The last record that will survive anything; 0 if there is none.
    pub fn persisted_lsn(&self) -> Lsn {
        self.writer.persisted()
    }

    /// The last record that the snapshot in force stands for.
    pub fn snapshot_lsn(&self) -> Option<Lsn> {
        self.writer.snapshot()
    }

    /// The error that ended the journal.
    pub fn failure(&self) -> Option<&Error> {
        self.writer.failure()
    }

    /// Begins a snapshot of all records up to `lsn`. The journal can be used while it is written.
    ///
    /// Errors: [`Error::SnapshotOutOfOrder`] if `lsn` was not appended yet, or is before the
    /// snapshot in force.
    pub fn begin_snapshot(&mut self, lsn: Lsn) -> Result<SnapshotWriter<D>, Error> {
        self.writer.usable()?;
        self.writer.check_snapshot(lsn, self.last_lsn())?;
        let attempt = self.writer.count_snapshot();
        SnapshotWriter::create(self.writer.disk().clone(), self.writer.identity(), lsn, attempt)
    }

    /// Puts a snapshot in force and removes what it replaces: older ones, and segments that hold
    /// only records that it stands for. Writes out and syncs first if need be: a snapshot must not
    /// be ahead of its journal.
    pub fn publish(&mut self, snapshot: WrittenSnapshot) -> Result<(), Error> {
        if snapshot.lsn > self.persisted_lsn() {
            self.commit()?;
        }
        self.writer.publish(snapshot)
    }

    /// Commits, and makes the proof durable that all is synced: damage to any record shows from now
    /// on.
    pub fn close(mut self) -> Result<(), Error> {
        self.commit()?;
        self.writer.seal()
    }
}

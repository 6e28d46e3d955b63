//! The journal's interface to its owner.

use crate::disk::Disk;
use crate::error::Error;
use crate::lsn::Lsn;
use crate::options::Options;
use crate::record::Encoder;
use crate::recovery::{self, Entry, Recovered};
use crate::snapshot::{SnapshotWriter, WrittenSnapshot};
use crate::writer::Writer;

/// A journal whose owner calls each step.
///
/// [`append`](Self::append) buffers a record; [`write_out`](Self::write_out) writes the buffer to
/// the operating system; [`sync`](Self::sync) makes it durable. After any error except those of
/// `append` and [`Error::SnapshotOutOfOrder`], the journal has failed: it accepts no more records.
/// Records beyond [`persisted_lsn`](Self::persisted_lsn) must be considered lost, although some of
/// them may reappear when it is opened again.
#[derive(Debug)]
pub struct Journal<D: Disk> {
    pub(crate) encoder: Encoder,
    pub(crate) writer: Writer<D>,
}

impl<D: Disk> Journal<D> {
    /// Opens the journal in the directory `disk`, or creates one if the directory has none.
    ///
    /// Passes the newest snapshot's records to `replay`, and then all records after it. All of them
    /// are durable when this returns. On an error, `replay` may have received only a part.
    ///
    /// Fails if data is damaged, missing or belongs to another owner, and with [`Error::Refused`]
    /// if `replay` fails, with its message.
    pub fn open(
        disk: D,
        options: &Options,
        mut replay: impl FnMut(Entry<'_>) -> Result<(), String>,
    ) -> Result<(Journal<D>, Recovered), Error> {
        let (writer, recovered) = recovery::open(disk, options, &mut replay)?;
        let encoder = Encoder::new(recovered.last.next().0);
        Ok((Journal { encoder, writer }, recovered))
    }

    /// Appends a record and returns its number. Does no I/O.
    pub fn append(&mut self, record: &[u8]) -> Result<Lsn, Error> {
        self.writer.usable()?;
        self.encoder.append(record).map(Lsn)
    }

    /// Writes the appended records. They then survive a crash of the process, but not yet a power
    /// failure.
    pub fn write_out(&mut self) -> Result<(), Error> {
        self.writer.write(&mut self.encoder.take())
    }

    /// Makes the written records durable, and returns [`Self::persisted_lsn`].
    pub fn sync(&mut self) -> Result<Lsn, Error> {
        self.writer.sync()
    }

    /// Writes out and syncs.
    pub fn commit(&mut self) -> Result<Lsn, Error> {
        self.write_out()?;
        self.sync()
    }

    /// Prepares the next segment, in proportion to the bytes written since the last call. Should be
    /// called after each sync; otherwise a write waits when the segment is full. Returns whether a
    /// full disk has space again.
    ///
    /// # Errors
    /// [`Error::DiskFull`] is a warning, returned once: the journal continues while its segment has
    /// space. It retries after the next snapshot is published or the next segment begins. After any
    /// other error, the journal has failed.
    pub fn prepare(&mut self) -> Result<bool, Error> {
        self.writer.prepare()
    }

    /// Prepares the whole next segment. Should be called when a journal with records is opened, to
    /// detect a full disk before records are accepted instead of when the segment is full.
    ///
    /// # Errors
    /// The same as those of [`prepare`](Self::prepare).
    pub fn prepare_whole(&mut self) -> Result<(), Error> {
        self.writer.prepare_whole().map(drop)
    }

    /// Returns the last appended record; 0 if there is none.
    pub fn last_lsn(&self) -> Lsn {
        Lsn(self.encoder.next()).before()
    }

    /// Returns the last durable record; 0 if there is none.
    pub fn persisted_lsn(&self) -> Lsn {
        self.writer.persisted()
    }

    /// Returns the last record that the current snapshot covers.
    pub fn snapshot_lsn(&self) -> Option<Lsn> {
        self.writer.snapshot()
    }

    /// Returns the error that ended the journal.
    pub fn failure(&self) -> Option<&Error> {
        self.writer.failure()
    }

    /// Begins a snapshot of all records up to `lsn`. The journal remains usable while the snapshot
    /// is written.
    ///
    /// Fails with [`Error::SnapshotOutOfOrder`] if `lsn` was not appended yet, or precedes the
    /// current snapshot.
    pub fn begin_snapshot(&mut self, lsn: Lsn) -> Result<SnapshotWriter<D>, Error> {
        self.writer.usable()?;
        self.writer.check_snapshot(lsn, self.last_lsn())?;
        let attempt = self.writer.count_snapshot();
        SnapshotWriter::create(self.writer.disk().clone(), self.writer.identity(), lsn, attempt)
    }

    /// Makes a snapshot current and removes what it replaces: older snapshots, and segments with
    /// only records that it covers. Writes and syncs first if necessary: a snapshot must not be
    /// ahead of its journal.
    pub fn publish(&mut self, snapshot: WrittenSnapshot) -> Result<(), Error> {
        if snapshot.lsn > self.persisted_lsn() {
            self.commit()?;
        }
        self.writer.publish(snapshot)
    }

    /// Commits, and makes a final mark durable, so that damage to any record is detected from now
    /// on.
    pub fn close(mut self) -> Result<(), Error> {
        self.commit()?;
        self.writer.seal()
    }
}

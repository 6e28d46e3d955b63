//! Interface of the driver to a journal.

use solera_journal::{BackgroundSnapshot, Disk, Error, Lsn, SnapshotWriter, Syncer};

/// Keeps a machine's records. It reports their progress as [`Event`](solera_journal::Event)s, which
/// the host passes on to [`Driver::on_log_event`](crate::Driver::on_log_event).
pub trait Log {
    /// A checkpoint while it is written.
    type Snapshot: Snapshot;

    /// Appends a record. It is not written before [`submit`](Self::submit).
    ///
    /// # Errors
    /// The log has failed for good, or cannot hold the record.
    fn append(&mut self, record: &[u8]) -> Result<(), Error>;

    /// Returns the number of the last record that was appended; 0 if there is none.
    fn last(&self) -> Lsn;

    /// Submits the appended records to the disk.
    ///
    /// # Errors
    /// The log has failed for good.
    fn submit(&mut self) -> Result<(), Error>;

    /// Begins a checkpoint that replaces all records up to `lsn`.
    ///
    /// # Errors
    /// The checkpoint cannot be written; the log may continue.
    fn begin_snapshot(&mut self, lsn: Lsn) -> Result<Self::Snapshot, Error>;

    /// Publishes a complete checkpoint. Returns whether it is published; if not, an event reports
    /// later that it is, or that it has failed.
    ///
    /// # Errors
    /// The checkpoint has failed; the log may continue.
    fn publish(&mut self, snapshot: Self::Snapshot) -> Result<bool, Error>;
}

/// A checkpoint while it is written. Dropping it discards it.
pub trait Snapshot {
    /// Takes the bytes of the next part.
    ///
    /// # Errors
    /// The checkpoint cannot be written.
    fn add(&mut self, part: &[u8]) -> Result<(), Error>;

    /// Returns the number of bytes that were added and are not written yet.
    fn backlog_bytes(&self) -> usize;
}

impl<D: Disk> Log for Syncer<D> {
    type Snapshot = BackgroundSnapshot;

    fn append(&mut self, record: &[u8]) -> Result<(), Error> {
        self.append(record).map(drop)
    }

    fn last(&self) -> Lsn {
        self.last_lsn()
    }

    fn submit(&mut self) -> Result<(), Error> {
        self.submit()
    }

    fn begin_snapshot(&mut self, lsn: Lsn) -> Result<BackgroundSnapshot, Error> {
        self.begin_snapshot(lsn)
    }

    fn publish(&mut self, snapshot: BackgroundSnapshot) -> Result<bool, Error> {
        snapshot.finish();
        Ok(false)
    }
}

impl Snapshot for BackgroundSnapshot {
    fn add(&mut self, part: &[u8]) -> Result<(), Error> {
        self.add(part)
    }

    fn backlog_bytes(&self) -> usize {
        self.backlog_bytes()
    }
}

/// Writes each part when it is added.
impl<D: Disk> Snapshot for SnapshotWriter<D> {
    fn add(&mut self, part: &[u8]) -> Result<(), Error> {
        self.add(part)
    }

    fn backlog_bytes(&self) -> usize {
        0
    }
}

/// The log of machines that keep no records; it has no values.
#[derive(Debug)]
pub enum NoLog {}

impl Log for NoLog {
    type Snapshot = NoLog;

    fn append(&mut self, _: &[u8]) -> Result<(), Error> {
        match *self {}
    }

    fn last(&self) -> Lsn {
        match *self {}
    }

    fn submit(&mut self) -> Result<(), Error> {
        match *self {}
    }

    fn begin_snapshot(&mut self, _: Lsn) -> Result<NoLog, Error> {
        match *self {}
    }

    fn publish(&mut self, snapshot: NoLog) -> Result<bool, Error> {
        match snapshot {}
    }
}

impl Snapshot for NoLog {
    fn add(&mut self, _: &[u8]) -> Result<(), Error> {
        match *self {}
    }

    fn backlog_bytes(&self) -> usize {
        match *self {}
    }
}

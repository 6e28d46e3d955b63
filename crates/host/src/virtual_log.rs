//! A journal without a thread, for hosts with virtual time.

use solera_journal::{Disk, Error, Event, Journal, Lsn, SnapshotWriter};

use crate::log::Log;

/// A journal whose syncs begin with [`Log::submit`] and end when the host calls
/// [`VirtualLog::end_sync`].
#[derive(Debug)]
pub struct VirtualLog<D: Disk>(Journal<D>);

impl<D: Disk> VirtualLog<D> {
    /// Wraps a journal, which nothing else may use.
    pub fn new(journal: Journal<D>) -> Self {
        VirtualLog(journal)
    }

    /// Completes the current sync. Returns the events that it causes.
    pub fn end_sync(&mut self) -> Vec<Event> {
        let Ok(persisted) = self.0.sync() else { return Vec::new() };
        let mut events = vec![Event::Persisted(persisted)];
        match self.0.prepare() {
            Ok(true) => events.push(Event::SpaceRegained),
            Err(full) if full.is_disk_full() => events.push(Event::SpaceLow(full)),
            // Any other error makes the journal fail for good.
            Ok(false) | Err(_) => {}
        }
        events
    }

    /// Returns the error that ended the journal, as an event.
    pub fn failure(&self) -> Option<Event> {
        self.0.failure().cloned().map(Event::Failed)
    }
}

impl<D: Disk> Log for VirtualLog<D> {
    type Snapshot = SnapshotWriter<D>;

    fn append(&mut self, record: &[u8]) -> Result<(), Error> {
        self.0.append(record).map(drop)
    }

    fn last(&self) -> Lsn {
        self.0.last_lsn()
    }

    fn submit(&mut self) -> Result<(), Error> {
        self.0.write_out()
    }

    fn begin_snapshot(&mut self, lsn: Lsn) -> Result<SnapshotWriter<D>, Error> {
        self.0.begin_snapshot(lsn)
    }

    fn publish(&mut self, snapshot: SnapshotWriter<D>) -> Result<bool, Error> {
        self.0.publish(snapshot.finish()?)?;
        Ok(true)
    }
}

//! Rebuilds a machine from its journal.

use solera_journal::{Disk, Entry, Error, Journal, Options, Recovered};
use solera_machine::Recovery;

/// Length of the LSN that precedes a part. It is the number of the last record whose effects the
/// part contains.
pub(crate) const LSN_BYTES: usize = 8;

/// Opens or creates a journal and rebuilds its machine. `read` is called with the size of each
/// entry, in bytes.
///
/// # Errors
/// The journal cannot be opened, or holds entries that are not of this machine.
pub fn open<D: Disk, R: Recovery>(
    disk: D,
    options: &Options,
    mut recovery: R,
    mut read: impl FnMut(usize),
) -> Result<(Journal<D>, Recovered, R::Machine), Error> {
    let (journal, recovered) = Journal::open(disk, options, |entry| match entry {
        Entry::Snapshot { payload, .. } => {
            read(payload.len());
            let (lsn, part) = payload.split_first_chunk::<LSN_BYTES>().ok_or("it is too short")?;
            recovery.take_part(u64::from_le_bytes(*lsn), part)
        }
        Entry::Record { lsn, payload } => {
            read(payload.len());
            recovery.take_record(lsn.0, payload)
        }
    })?;
    recovery.check().map_err(|reason| Error::Unfit { reason })?;
    Ok((journal, recovered, recovery.into_machine()))
}

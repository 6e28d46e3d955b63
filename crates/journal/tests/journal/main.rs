//! Tests the journal through its public interface: recovery after crashes and damage, and error
//! reports.

mod basics;
mod crashes;
mod damage;
mod syncing;
mod tools;

use solera_journal::{Entry, Error, Identity, Journal, Lsn, Options, Recovered, SimDisk};

/// Everything that a journal returned when it was opened.
#[derive(Debug, Default, PartialEq, Eq)]
struct Content {
    snapshot: Vec<Vec<u8>>,
    records: Vec<(u64, Vec<u8>)>,
}

/// Returns options with small segments, so that there are several.
fn options() -> Options {
    let identity = Identity::new(b"cluster/1/0").unwrap();
    Options { segment_bytes: 4096, ..Options::new(identity) }
}

fn open(disk: &SimDisk) -> Result<(Journal<SimDisk>, Recovered, Content), Error> {
    let mut content = Content::default();
    let (journal, recovered) = Journal::open(disk.clone(), &options(), |entry| {
        content.take(entry);
        Ok(())
    })?;
    Ok((journal, recovered, content))
}

impl Content {
    fn take(&mut self, entry: Entry<'_>) {
        match entry {
            Entry::Snapshot { payload, .. } => self.snapshot.push(payload.to_vec()),
            Entry::Record { lsn, payload } => self.records.push((lsn.0, payload.to_vec())),
        }
    }

    fn lsns(&self) -> Vec<u64> {
        self.records.iter().map(|(lsn, _)| *lsn).collect()
    }
}

/// Returns a record of `bytes` bytes that contains its LSN.
fn record(lsn: u64, bytes: usize) -> Vec<u8> {
    lsn.to_le_bytes().into_iter().cycle().take(bytes).collect()
}

/// Creates a journal with the given number of records of 100 bytes, each synced separately.
fn filled(disk: &SimDisk, records: u64) -> Journal<SimDisk> {
    let (mut journal, _, _) = open(disk).unwrap();
    for lsn in 1..=records {
        journal.append(&record(lsn, 100)).unwrap();
        assert_eq!(journal.commit(), Ok(Lsn(lsn)));
    }
    journal
}

/// Returns the name of the segment with the last records.
fn last_segment(disk: &SimDisk) -> String {
    segments(disk).pop().unwrap()
}

fn segments(disk: &SimDisk) -> Vec<String> {
    use solera_journal::Disk;
    let names = disk.list().unwrap();
    names.into_iter().filter(|name| name.ends_with(".segment")).collect()
}

fn snapshot(journal: &mut Journal<SimDisk>, lsn: u64, records: u64) {
    let mut writer = journal.begin_snapshot(Lsn(lsn)).unwrap();
    for index in 0..records {
        writer.add(&record(index, 50)).unwrap();
    }
    journal.publish(writer.finish().unwrap()).unwrap();
}

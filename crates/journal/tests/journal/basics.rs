//! Tests normal operation, and which calls and files are rejected.

use std::ops::ControlFlow;

use solera_journal::{
    Disk, Error, Identity, Journal, Lsn, MAX_RECORD_BYTES, Options, RealDisk, SimDisk, check,
};

use crate::{Content, filled, last_segment, open, options, record, segments, snapshot};

#[test]
fn records_are_read_in_order_over_several_segments() {
    let disk = SimDisk::new(1);
    filled(&disk, 100).close().unwrap();
    assert!(segments(&disk).len() > 2);
    let (journal, recovered, content) = open(&disk).unwrap();
    let expected: Vec<_> = (1..=100).map(|lsn| (lsn, record(lsn, 100))).collect();
    assert_eq!(content.records, expected);
    assert_eq!((recovered.records, recovered.last, recovered.torn), (100, Lsn(100), None));
    assert_eq!((journal.last_lsn(), journal.persisted_lsn()), (Lsn(100), Lsn(100)));
}

#[test]
fn a_new_journal_is_empty_each_time_it_is_opened() {
    let disk = SimDisk::new(1);
    for _ in 0..3 {
        let (journal, recovered, content) = open(&disk).unwrap();
        assert_eq!((recovered.last, content), (Lsn(0), Content::default()));
        journal.close().unwrap();
    }
}

#[test]
fn appending_does_no_io_and_only_a_sync_persists() {
    let disk = SimDisk::new(1);
    let (mut journal, _, _) = open(&disk).unwrap();
    let before = disk.changes();
    assert_eq!(journal.append(b"a"), Ok(Lsn(1)));
    assert_eq!(journal.append(b""), Ok(Lsn(2)));
    assert_eq!((disk.changes(), journal.last_lsn()), (before, Lsn(2)));
    journal.write_out().unwrap();
    assert_eq!(journal.persisted_lsn(), Lsn(0));
    assert_eq!(journal.sync(), Ok(Lsn(2)));
    drop(journal);
    let (_, _, content) = open(&disk).unwrap();
    assert_eq!(content.records, [(1, b"a".to_vec()), (2, vec![])]);
}

#[test]
fn a_record_larger_than_a_segment_gets_a_larger_segment() {
    let disk = SimDisk::new(1);
    let (mut journal, _, _) = open(&disk).unwrap();
    for (lsn, bytes) in [(1, 10), (2, 3 << 20), (3, 10), (4, 4096), (5, 10)] {
        journal.append(&record(lsn, bytes)).unwrap();
    }
    journal.commit().unwrap();
    drop(journal);
    let (_, _, content) = open(&disk).unwrap();
    assert_eq!(content.lsns(), [1, 2, 3, 4, 5]);
    assert_eq!(content.records[1].1, record(2, 3 << 20));
}

#[test]
fn a_record_beyond_the_limit_is_rejected_without_side_effects() {
    let disk = SimDisk::new(1);
    let (mut journal, _, _) = open(&disk).unwrap();
    let bytes = MAX_RECORD_BYTES + 1;
    assert_eq!(journal.append(&vec![0; bytes]), Err(Error::RecordTooLarge { bytes }));
    assert_eq!(journal.append(b"a"), Ok(Lsn(1)));
}

#[test]
fn preparing_saves_a_sync_when_a_segment_begins() {
    let syncs_of_turn = |prepare: bool| {
        let disk = SimDisk::new(1);
        let options = Options { segment_bytes: 1 << 20, ..options() };
        let (mut journal, _) = Journal::open(disk.clone(), &options, |_| Ok(())).unwrap();
        let mut most = 0;
        while segments(&disk).len() < 2 {
            journal.append(&[1; 10_000]).unwrap();
            disk.set_sync_latency_us(1, 1);
            disk.take_latency_us();
            journal.commit().unwrap();
            most = disk.take_latency_us();
            if prepare {
                journal.prepare().unwrap();
            }
        }
        most
    };
    // The syncs are those of the zeros, the header and the record; with preparation, the zeros are
    // already synced.
    assert_eq!((syncs_of_turn(false), syncs_of_turn(true)), (3, 2));
}

#[test]
fn a_snapshot_replaces_the_segments_below_it() {
    let disk = SimDisk::new(1);
    let mut journal = filled(&disk, 100);
    let before = segments(&disk).len();
    snapshot(&mut journal, 90, 10);
    assert!(segments(&disk).len() < before);
    assert_eq!(journal.snapshot_lsn(), Some(Lsn(90)));
    journal.append(&record(101, 100)).unwrap();
    journal.close().unwrap();
    let (mut journal, recovered, content) = open(&disk).unwrap();
    assert_eq!(content.snapshot, (0..10).map(|index| record(index, 50)).collect::<Vec<_>>());
    assert_eq!(content.lsns(), (91..=101).collect::<Vec<_>>());
    assert_eq!((recovered.snapshot, recovered.snapshot_records), (Some(Lsn(90)), 10));
    // A snapshot at the end of the journal: one segment stays, and its records are not returned.
    snapshot(&mut journal, 101, 1);
    snapshot(&mut journal, 101, 2);
    drop(journal);
    let (_, recovered, content) = open(&disk).unwrap();
    assert_eq!((content.lsns(), content.snapshot.len()), (vec![], 2));
    assert_eq!(recovered.last, Lsn(101));
    assert_eq!(segments(&disk).len(), 1);
}

#[test]
fn a_segment_is_removed_by_a_snapshot_that_covers_its_last_record() {
    let disk = SimDisk::new(1);
    drop(filled(&disk, 100));
    let last = check(&disk).unwrap().segments[0].last();
    let (mut journal, _, _) = open(&disk).unwrap();
    let before = segments(&disk);
    snapshot(&mut journal, last.0 - 1, 1);
    assert_eq!(segments(&disk), before);
    snapshot(&mut journal, last.0, 1);
    assert_eq!(segments(&disk), before[1..]);
}

#[test]
fn records_can_be_written_while_a_snapshot_is_written() {
    let disk = SimDisk::new(1);
    let mut journal = filled(&disk, 10);
    let mut writer = journal.begin_snapshot(Lsn(10)).unwrap();
    for lsn in 11..=60 {
        journal.append(&record(lsn, 100)).unwrap();
        journal.commit().unwrap();
        writer.add(&record(lsn, 100_000)).unwrap();
    }
    let written = writer.finish().unwrap();
    assert_eq!((written.lsn(), written.records()), (Lsn(10), 50));
    journal.publish(written).unwrap();
    drop(journal);
    let (_, _, content) = open(&disk).unwrap();
    assert_eq!((content.snapshot.len(), content.records.len()), (50, 50));
}

#[test]
fn an_abandoned_snapshot_leaves_no_files() {
    let disk = SimDisk::new(1);
    let mut journal = filled(&disk, 10);
    let before = disk.list().unwrap();
    drop(journal.begin_snapshot(Lsn(10)).unwrap());
    assert_eq!(disk.list().unwrap(), before);
}

#[test]
fn a_snapshot_ahead_of_the_journal_or_behind_the_last_one_is_rejected() {
    let disk = SimDisk::new(1);
    let mut journal = filled(&disk, 10);
    let refused = |snapshot, from, to| Error::SnapshotOutOfOrder {
        snapshot: Lsn(snapshot),
        from: Lsn(from),
        to: Lsn(to),
    };
    assert_eq!(journal.begin_snapshot(Lsn(11)).unwrap_err(), refused(11, 0, 10));
    let late = journal.begin_snapshot(Lsn(5)).unwrap().finish().unwrap();
    snapshot(&mut journal, 7, 1);
    assert_eq!(journal.begin_snapshot(Lsn(6)).unwrap_err(), refused(6, 7, 10));
    assert_eq!(journal.publish(late), Err(refused(5, 7, 10)));
    // It suffices that the record was appended: publishing syncs it first.
    journal.append(b"a").unwrap();
    snapshot(&mut journal, 11, 1);
    assert_eq!(journal.persisted_lsn(), Lsn(11));
    drop(journal);
    assert_eq!(open(&disk).unwrap().1.snapshot, Some(Lsn(11)));
}

#[test]
fn a_journal_in_use_is_locked() {
    let disk = SimDisk::new(1);
    let journal = filled(&disk, 1);
    assert_eq!(open(&disk).unwrap_err(), Error::Locked);
    assert_eq!(check(&disk).unwrap_err(), Error::Locked);
    drop(journal);
    open(&disk).unwrap();
}

#[test]
fn a_journal_with_another_identity_is_rejected() {
    let disk = SimDisk::new(1);
    drop(filled(&disk, 1));
    let other = Options::new(Identity::new(b"cluster/2/0").unwrap());
    let error = Journal::open(disk, &other, |_| Ok(())).unwrap_err();
    let text = "0000000001.segment belongs to 'cluster/1/0', and this is 'cluster/2/0'";
    assert_eq!(error.to_string(), text);
}

#[test]
fn other_formats_and_versions_are_rejected_with_the_file_name() {
    let disk = SimDisk::new(1);
    drop(filled(&disk, 1));
    let name = last_segment(&disk);
    let mut bytes = disk.content(&name).unwrap();
    bytes[8] = 7;
    bytes[12..16].fill(0);
    let checksum = crc32c::crc32c(&bytes[..512]);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    disk.put(&name, &bytes);
    let found = 7;
    assert_eq!(open(&disk).unwrap_err(), Error::UnknownVersion { file: name.clone(), found });
    bytes[..8].copy_from_slice(b"SQLite f");
    disk.put(&name, &bytes);
    assert_eq!(open(&disk).unwrap_err(), Error::WrongMagic { file: name, found: *b"SQLite f" });
}

#[test]
fn an_error_of_the_reader_names_the_record() {
    let disk = SimDisk::new(1);
    drop(filled(&disk, 3));
    let error = Journal::open(disk, &options(), |_| Err("no such kind".to_owned())).unwrap_err();
    let text = "the record at byte 512 of 0000000001.segment cannot be read: no such kind";
    assert_eq!(error.to_string(), text);
}

#[test]
fn a_journal_works_on_a_real_disk() {
    let folder = std::env::temp_dir().join(format!("solera-journal-{}", std::process::id()));
    let disk = RealDisk::new(folder.join("a/b"));
    let done = real(&disk);
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(done, ControlFlow::Break(()));
}

fn real(disk: &RealDisk) -> ControlFlow<()> {
    for run in 0..4 {
        let mut records = 0;
        let opened = Journal::open(disk.clone(), &options(), |_| {
            records += 1;
            Ok(())
        });
        let (mut journal, recovered) = opened.unwrap();
        assert_eq!(recovered.last, Lsn(run * 100));
        assert_eq!(records, if run == 3 { 101 } else { run * 100 });
        let locked = Journal::open(disk.clone(), &options(), |_| Ok(())).unwrap_err();
        assert_eq!(locked, Error::Locked);
        for _ in 0..100 {
            journal.append(&[7; 100]).unwrap();
            journal.commit().unwrap();
            journal.prepare().unwrap();
        }
        if run == 2 {
            let mut writer = journal.begin_snapshot(Lsn(200)).unwrap();
            writer.add(b"all").unwrap();
            journal.publish(writer.finish().unwrap()).unwrap();
        }
        journal.close().unwrap();
    }
    ControlFlow::Break(())
}

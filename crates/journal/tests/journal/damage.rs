//! Disks that corrupt data, fail, or fill up: every failure is detected.

use std::io::ErrorKind;

use proptest::prelude::*;
use solera_journal::{
    Disk, Error, Fault, FaultyCall, Identity, Journal, Lsn, Options, SimDisk, remove_unfinished,
};

use crate::{filled, last_segment, open, options, record, segments, snapshot};

fn fault(error: Error) -> (String, u64, Fault) {
    match error {
        Error::Damaged(damage) => (damage.file, damage.offset, damage.fault),
        other => panic!("{other}"),
    }
}

/// Returns a disk with three records in one segment, at bytes 512, 656 and 800: 120 bytes each, and
/// a mark of 24 bytes after each. The journal was not closed, so that the last mark is not synced.
fn three() -> SimDisk {
    let disk = SimDisk::new(3);
    drop(filled(&disk, 3));
    disk
}

const FIRST: u64 = 512;
const FRAME: u64 = 120;
const MARK: u64 = 24;

#[test]
fn every_flipped_bit_of_a_closed_journal_is_detected() {
    let disk = SimDisk::new(1);
    let mut journal = filled(&disk, 60);
    snapshot(&mut journal, 40, 5);
    journal.close().unwrap();
    let (journal, _, content) = open(&disk).unwrap();
    drop(journal);
    let mut flips = 0;
    for name in disk.list().unwrap() {
        let bytes = disk.content(&name).unwrap();
        // Nothing was ever written after the last mark of a segment.
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64;
        for offset in 0..used {
            disk.flip_bit(&name, offset, (offset % 8) as u8);
            match open(&disk) {
                Err(_) => flips += 1,
                // Without the last mark, the last record is still returned, but nothing proves that
                // it was synced.
                Ok((_, _, again)) => {
                    assert!(again == content && offset >= used - MARK, "{name} at {offset}");
                }
            }
            disk.put(&name, &bytes);
        }
    }
    assert!(flips > 4000);
}

#[test]
fn damage_is_reported_with_file_and_offset() {
    let disk = three();
    let second = FIRST + FRAME + MARK;
    disk.flip_bit("0000000001.segment", second + 20, 0);
    let error = open(&disk).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("0000000001.segment is damaged at byte 656: a record's checksum is "));
    let (file, offset, fault) = fault(error);
    assert_eq!((file.as_str(), offset), ("0000000001.segment", second));
    assert!(matches!(fault, Fault::Checksum { .. }));
}

#[test]
fn a_rejected_journal_is_not_changed() {
    let disk = SimDisk::new(1);
    let mut journal = filled(&disk, 60);
    drop(journal.begin_snapshot(Lsn(60)));
    drop(journal);
    disk.put("spare.tmp", b"unfinished");
    let name = segments(&disk)[1].clone();
    disk.flip_bit(&name, 600, 0);
    let before: Vec<_> = disk.list().unwrap().iter().map(|name| disk.content(name)).collect();
    open(&disk).unwrap_err();
    let after: Vec<_> = disk.list().unwrap().iter().map(|name| disk.content(name)).collect();
    assert_eq!(before, after);
}

#[test]
fn a_torn_tail_is_cut_and_reported() {
    let disk = three();
    let third = FIRST + 2 * (FRAME + MARK);
    // Without the mark after it, nothing proves that the third record was ever synced.
    let mut bytes = disk.content("0000000001.segment").unwrap();
    bytes[(third + FRAME) as usize..].fill(0);
    bytes[third as usize + 30] ^= 1;
    disk.put("0000000001.segment", &bytes);
    let (_, recovered, content) = open(&disk).unwrap();
    assert_eq!(content.lsns(), [1, 2]);
    let torn = recovered.torn.unwrap();
    let text = format!("cut {} bytes off 0000000001.segment at byte {third}: ", torn.bytes);
    assert!(torn.to_string().starts_with(&text), "{torn}");
    // The tail ends with the last byte that is not zero.
    assert!((FRAME - 8..=FRAME).contains(&torn.bytes), "{torn}");
    // The tail is reported only once.
    assert_eq!(open(&disk).unwrap().1.torn, None);
}

#[test]
fn records_after_a_cut_are_never_returned() {
    let disk = SimDisk::new(1);
    let (mut journal, _, _) = open(&disk).unwrap();
    for lsn in 1..=3 {
        journal.append(&record(lsn, 100)).unwrap();
    }
    journal.write_out().unwrap();
    drop(journal);
    // The first record did not reach the disk; the others did.
    disk.flip_bit("0000000001.segment", FIRST + 50, 0);
    let (mut journal, recovered, content) = open(&disk).unwrap();
    assert_eq!(content.lsns(), [0; 0]);
    assert_eq!(recovered.torn.map(|torn| torn.offset), Some(FIRST));
    journal.append(&record(99, 100)).unwrap();
    journal.write_out().unwrap();
    drop(journal);
    let (_, _, content) = open(&disk).unwrap();
    assert_eq!(content.records, [(1, record(99, 100))]);
}

#[test]
fn a_missing_segment_is_reported() {
    let disk = SimDisk::new(1);
    drop(filled(&disk, 100));
    let names = segments(&disk);
    for (index, missing) in names.iter().enumerate().take(names.len() - 1) {
        let bytes = disk.content(missing).unwrap();
        disk.remove(missing).unwrap();
        let error = open(&disk).unwrap_err();
        let named = matches!(&error, Error::MissingSegment { file, .. } if file == missing);
        assert!(named, "{index}: {error}");
        disk.put(missing, &bytes);
    }
    open(&disk).unwrap();
}

#[test]
fn a_journal_that_ends_before_its_snapshot_is_rejected() {
    let disk = SimDisk::new(1);
    let mut journal = filled(&disk, 100);
    snapshot(&mut journal, 100, 1);
    drop(journal);
    let last = last_segment(&disk);
    let bytes = disk.content(&last).unwrap();
    let ended = |last| Error::EndsBeforeSnapshot { snapshot: Lsn(100), last: Lsn(last) };
    disk.remove(&last).unwrap();
    assert_eq!(open(&disk).unwrap_err(), ended(0));
    let mut empty = bytes.clone();
    empty[512..].fill(0);
    disk.put(&last, &empty);
    assert!(matches!(open(&disk), Err(Error::EndsBeforeSnapshot { snapshot: Lsn(100), .. })));
}

#[test]
fn a_truncated_segment_is_detected() {
    let disk = three();
    let size = disk.content("0000000001.segment").unwrap().len() as u64;
    let second = FIRST + FRAME + MARK;
    for bytes in [size - 1, second + FRAME + MARK, second + FRAME, second, second - MARK, 512] {
        disk.truncate("0000000001.segment", bytes);
        assert!(matches!(open(&disk), Err(Error::Damaged(_))), "at {bytes}");
    }
    disk.truncate("0000000001.segment", 511);
    let expected = Fault::HeaderCut { bytes: 511 };
    assert_eq!(fault(open(&disk).unwrap_err()).2, expected);
}

#[test]
fn a_truncated_extended_or_renamed_snapshot_is_detected() {
    let disk = SimDisk::new(1);
    let mut journal = filled(&disk, 3);
    snapshot(&mut journal, 3, 2);
    drop(journal);
    let name = "00000000000000000003.snapshot";
    let bytes = disk.content(name).unwrap();
    for length in (0..bytes.len()).step_by(8) {
        disk.put(name, &bytes[..length]);
        assert!(matches!(open(&disk), Err(Error::Damaged(_))), "{length}");
    }
    let mut long = bytes.clone();
    long.push(0);
    disk.put(name, &long);
    assert_eq!(fault(open(&disk).unwrap_err()).2, Fault::Surplus { bytes: 1 });
    // The snapshot has the name of another one.
    disk.put(name, &bytes);
    disk.rename(name, "00000000000000000002.snapshot").unwrap();
    let expected = Fault::HeaderField { field: "LSN", expected: 2, found: 3 };
    assert_eq!(fault(open(&disk).unwrap_err()).2, expected);
}

#[test]
fn a_misdirected_write_is_detected() {
    let second = FIRST + FRAME + MARK;
    // The targets are two records, the inside of a record, the header, and a place far behind
    // the records.
    for target in [FIRST, second, second + 8, 0, 2048] {
        let disk = three();
        let (mut journal, _, _) = open(&disk).unwrap();
        disk.misdirect_next_write("0000000001.segment", target);
        journal.append(&record(4, 100)).unwrap();
        journal.commit().unwrap();
        journal.append(&record(5, 100)).unwrap();
        journal.commit().unwrap();
        drop(journal);
        open(&disk).unwrap_err();
    }
}

#[test]
fn intact_records_in_the_wrong_place_are_detected() {
    let disk = three();
    let mut bytes = disk.content("0000000001.segment").unwrap();
    let (first, second) = (FIRST as usize, (FIRST + FRAME + MARK) as usize);
    bytes.copy_within(first..first + FRAME as usize, second);
    disk.put("0000000001.segment", &bytes);
    let (_, offset, fault) = fault(open(&disk).unwrap_err());
    assert_eq!((offset, fault), (second as u64, Fault::Order { expected: 2, found: 1 }));
}

#[test]
fn a_segment_under_the_name_of_another_is_detected() {
    let disk = SimDisk::new(1);
    drop(filled(&disk, 100));
    disk.put("0000000002.segment", &disk.content("0000000003.segment").unwrap());
    let expected = Fault::HeaderField { field: "number", expected: 2, found: 3 };
    assert_eq!(fault(open(&disk).unwrap_err()), ("0000000002.segment".to_owned(), 0, expected));
}

#[test]
fn a_segment_of_earlier_records_is_detected() {
    let disk = SimDisk::new(1);
    drop(filled(&disk, 70));
    let names = segments(&disk);
    assert_eq!(names.len(), 3);
    // The twin has another history, with segments of fewer records.
    let twin = SimDisk::new(1);
    let (mut journal, _, _) = open(&twin).unwrap();
    for lsn in 1..=8 {
        journal.append(&record(lsn, 1000)).unwrap();
    }
    journal.close().unwrap();
    disk.put(&names[2], &twin.content(&names[2]).unwrap());
    let (file, offset, fault) = fault(open(&disk).unwrap_err());
    assert_eq!((&file, offset), (&names[2], 0));
    assert!(matches!(fault, Fault::HeaderField { field: "first LSN", .. }), "{fault}");
}

#[test]
fn a_snapshot_with_another_identity_is_detected() {
    let (disk, twin) = (SimDisk::new(1), SimDisk::new(1));
    drop(filled(&disk, 5));
    let other = Options::new(Identity::new(b"cluster/2/0").unwrap());
    let (mut journal, _) = Journal::open(twin.clone(), &other, |_| Ok(())).unwrap();
    journal.append(b"a").unwrap();
    snapshot(&mut journal, 1, 3);
    let name = "00000000000000000001.snapshot";
    disk.put(name, &twin.content(name).unwrap());
    let error = open(&disk).unwrap_err();
    assert!(matches!(&error, Error::OtherIdentity { file, .. } if file == name), "{error}");
}

#[test]
fn damage_to_the_last_record_of_a_closed_journal_is_detected() {
    for seed in 0..20 {
        let disk = SimDisk::new(seed);
        filled(&disk, 3).close().unwrap();
        disk.crash();
        disk.flip_bit("0000000001.segment", FIRST + 2 * (FRAME + MARK) + 20, 0);
        assert!(matches!(open(&disk), Err(Error::Damaged(_))), "seed {seed}");
    }
}

#[test]
fn after_a_failed_sync_every_call_fails_without_io() {
    let disk = three();
    let (mut journal, _, _) = open(&disk).unwrap();
    disk.fail_call(FaultyCall::Sync, 0, ErrorKind::Other);
    journal.append(&record(4, 100)).unwrap();
    journal.write_out().unwrap();
    let cause = journal.sync().unwrap_err();
    assert!(matches!(&cause, Error::Io { doing: "sync", .. }), "{cause}");
    let failed = Err(Error::Failed(Box::new(cause)));
    let before = disk.changes();
    assert_eq!(journal.sync(), failed);
    assert_eq!(journal.append(b"a"), failed);
    assert_eq!(journal.commit(), failed);
    assert_eq!(journal.prepare().map(|_| Lsn(0)), failed);
    assert_eq!(journal.begin_snapshot(Lsn(3)).map(|_| Lsn(0)), failed);
    assert_eq!((journal.persisted_lsn(), disk.changes()), (Lsn(3), before));
}

/// After a failed sync, the kernel considers the pages clean: another sync does not write them.
#[test]
fn records_read_after_a_failed_sync_are_made_durable_again() {
    for seed in 0..50 {
        let disk = SimDisk::new(seed);
        let mut journal = filled(&disk, 3);
        disk.fail_call(FaultyCall::Sync, 0, ErrorKind::Other);
        journal.append(&record(4, 1000)).unwrap();
        journal.commit().unwrap_err();
        drop(journal);
        disk.kill();
        let (journal, _, content) = open(&disk).unwrap();
        assert_eq!((content.lsns(), journal.persisted_lsn()), (vec![1, 2, 3, 4], Lsn(4)));
        drop(journal);
        disk.crash();
        assert_eq!(open(&disk).unwrap().2, content, "seed {seed}");
    }
}

/// A failed sync may also lose the mark that was written when the journal was opened. The next
/// opening must write it again with everything after it: otherwise a later mark would prove that it
/// was synced.
#[test]
fn a_mark_lost_in_a_failed_sync_is_made_durable_again() {
    for seed in 0..200 {
        let disk = SimDisk::new(seed);
        let (mut journal, _, _) = open(&disk).unwrap();
        // Marks begin at various offsets of a sector, and some end in the next sector.
        journal.append(&record(1, 100 + 8 * seed as usize)).unwrap();
        journal.write_out().unwrap();
        drop(journal);
        disk.kill();
        let (mut journal, _, _) = open(&disk).unwrap();
        disk.fail_call(FaultyCall::Sync, 0, ErrorKind::Other);
        journal.append(&record(2, 100)).unwrap();
        journal.commit().unwrap_err();
        drop(journal);
        disk.kill();
        let (mut journal, _, _) = open(&disk).unwrap();
        journal.append(&record(3, 100)).unwrap();
        journal.commit().unwrap();
        drop(journal);
        disk.crash();
        assert_eq!(open(&disk).unwrap().2.lsns(), [1, 2, 3], "seed {seed}");
    }
}

#[test]
fn damage_to_recovered_records_is_detected() {
    let disk = SimDisk::new(1);
    let (mut journal, _, _) = open(&disk).unwrap();
    journal.append(&record(1, 100)).unwrap();
    journal.write_out().unwrap();
    drop(journal);
    drop(open(&disk).unwrap());
    disk.flip_bit("0000000001.segment", FIRST + 50, 0);
    assert!(matches!(open(&disk), Err(Error::Damaged(_))));
}

/// The process dies in the middle of a publication, and the power fails when the journal is opened.
#[test]
fn an_old_snapshot_stays_until_the_new_ones_name_is_durable() {
    for seed in 0..40 {
        for call in 1..12 {
            let disk = SimDisk::new(seed);
            let mut journal = filled(&disk, 60);
            snapshot(&mut journal, 30, 3);
            let written = journal.begin_snapshot(Lsn(60)).unwrap().finish().unwrap();
            disk.fail_call(FaultyCall::SyncDir, 0, ErrorKind::Other);
            journal.publish(written).unwrap_err();
            drop(journal);
            disk.kill();
            disk.fail_power_after(call);
            let _ = open(&disk);
            disk.crash();
            let (_, recovered, content) = open(&disk).unwrap();
            assert_eq!(recovered.last, Lsn(60));
            let first = recovered.snapshot.unwrap().0 + 1;
            assert_eq!(content.lsns(), (first..=60).collect::<Vec<_>>());
        }
    }
}

#[test]
fn failing_calls_are_reported_and_lose_no_persisted_record() {
    let kinds = [FaultyCall::Write, FaultyCall::Sync, FaultyCall::SyncDir, FaultyCall::Names];
    for call in kinds {
        for skip in 0..60 {
            let disk = SimDisk::new(skip);
            let (mut journal, _, _) = open(&disk).unwrap();
            disk.fail_call(call, skip, ErrorKind::PermissionDenied);
            let failed = (1..=100).find_map(|lsn| {
                journal.append(&record(lsn, 100)).and_then(|_| journal.commit()).err()
            });
            let persisted = journal.persisted_lsn().0;
            drop(journal);
            disk.crash();
            let (_, _, content) = open(&disk).unwrap();
            let came_back = content.records.len() as u64;
            assert!(came_back >= persisted, "{call:?} {skip}");
            let is_reported =
                matches!(failed, Some(Error::Io { kind: ErrorKind::PermissionDenied, .. }));
            assert!(is_reported || (failed.is_none() && persisted == 100), "{call:?} {skip}");
        }
    }
}

#[test]
fn an_unreadable_file_is_an_io_error() {
    let disk = three();
    disk.fail_call(FaultyCall::Read, 1, ErrorKind::Other);
    assert!(matches!(open(&disk), Err(Error::Io { doing: "read", .. })));
    open(&disk).unwrap();
}

#[test]
fn a_full_disk_is_reported_while_there_is_space_in_the_segment() {
    let disk = SimDisk::new(1);
    let (mut journal, _, _) = open(&disk).unwrap();
    disk.set_capacity(disk.used() + 1000);
    journal.append(&record(1, 100)).unwrap();
    journal.commit().unwrap();
    assert!(journal.prepare().unwrap_err().is_disk_full());
    // The error is reported once, and no file remains of the attempt.
    assert_eq!(journal.prepare(), Ok(false));
    assert!(disk.content("spare.tmp").is_none());
    let mut lsn = 1;
    let error = loop {
        journal.append(&record(lsn + 1, 100)).unwrap();
        match journal.commit() {
            Ok(persisted) => lsn = persisted.0,
            Err(error) => break error,
        }
    };
    assert!(error.is_disk_full() && lsn > 20, "{error} after {lsn}");
    assert_eq!(journal.append(b"a"), Err(Error::Failed(Box::new(error))));
    assert!(disk.content("spare.tmp").is_none(), "it holds the rest of the disk");
    drop(journal);
    disk.crash();
    let (_, _, content) = open(&disk).unwrap();
    assert_eq!(content.records.len() as u64, lsn);
}

#[test]
fn unfinished_files_of_an_earlier_process_are_removed() {
    let disk = SimDisk::new(1);
    let mut journal = filled(&disk, 10);
    journal.prepare().unwrap();
    assert_eq!(remove_unfinished(&disk), Err(Error::Locked));
    let mut snapshot = journal.begin_snapshot(Lsn(10)).unwrap();
    snapshot.add(&[1; 10_000]).unwrap();
    std::mem::forget(snapshot);
    drop(journal);
    let used = disk.used();
    let mut removed = remove_unfinished(&disk).unwrap();
    removed.sort();
    assert_eq!(removed.len(), 2, "{removed:?}");
    assert_eq!(removed[1], "spare.tmp");
    assert!(disk.used() < used);
    assert_eq!(open(&disk).unwrap().2.records.len(), 10);
    assert_eq!(remove_unfinished(&disk), Ok(vec![]), "of a journal that is whole nothing goes");
}

#[test]
fn a_snapshot_frees_space_on_a_full_disk() {
    let disk = SimDisk::new(1);
    let mut journal = filled(&disk, 60);
    disk.set_capacity(disk.used() + 3000);
    assert!(journal.prepare().unwrap_err().is_disk_full());
    snapshot(&mut journal, 60, 3);
    assert_eq!(journal.prepare(), Ok(true), "all of it is there");
    assert_eq!(journal.prepare(), Ok(false), "is_reported once");
    assert!(disk.content("spare.tmp").is_some());
}

#[test]
fn space_freed_by_removing_an_older_snapshot_is_noticed() {
    for (records, enough) in [(1000, true), (3, false)] {
        let disk = SimDisk::new(1);
        let (mut journal, _, _) = open(&disk).unwrap();
        snapshot(&mut journal, 0, records);
        disk.set_capacity(disk.used() + 2000);
        assert!(journal.prepare().unwrap_err().is_disk_full());
        journal.append(b"a").unwrap();
        journal.commit().unwrap();
        assert_eq!(journal.prepare(), Ok(false));
        snapshot(&mut journal, 1, 1);
        // No segment was removed. The lack of space is reported only once.
        assert_eq!(journal.prepare(), Ok(enough));
        assert_eq!(disk.content("spare.tmp").is_some(), enough);
    }
}

#[test]
fn a_snapshot_that_does_not_fit_leaves_the_journal_usable() {
    let disk = SimDisk::new(1);
    let mut journal = filled(&disk, 10);
    disk.set_capacity(disk.used() + 100_000);
    let mut writer = journal.begin_snapshot(Lsn(10)).unwrap();
    let full = (0..10).find_map(|_| writer.add(&[1; 100_000]).err());
    assert!(full.unwrap().is_disk_full());
    drop(writer);
    journal.append(&record(11, 100)).unwrap();
    assert_eq!(journal.commit(), Ok(Lsn(11)));
}

#[test]
fn syncs_take_the_configured_latency() {
    let disk = SimDisk::new(1);
    let (mut journal, _, _) = open(&disk).unwrap();
    disk.set_sync_latency_us(100, 200);
    disk.take_latency_us();
    journal.append(b"a").unwrap();
    journal.commit().unwrap();
    assert!((100..=200).contains(&disk.take_latency_us()));
    assert_eq!(disk.take_latency_us(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// After a crash, marks cover all batches but the last one.
    #[test]
    fn damage_to_records_before_the_last_batch_is_detected(
        seed: u64,
        batches in prop::collection::vec(prop::collection::vec(0..900usize, 1..5), 2..12),
        place: u64,
        bit in 0..8u8,
    ) {
        let disk = SimDisk::new(seed);
        let (mut journal, _, _) = open(&disk).unwrap();
        let mut vouched = 0;
        for batch in &batches {
            vouched = journal.persisted_lsn().0;
            for bytes in batch {
                journal.append(&record(journal.last_lsn().0 + 1, *bytes)).unwrap();
            }
            journal.commit().unwrap();
        }
        drop(journal);
        disk.crash();
        let (name, offset) = place_of(&disk, vouched, place);
        disk.flip_bit(&name, offset, bit);
        prop_assert!(open(&disk).is_err(), "{} at {}", name, offset);
    }

    /// A misdirected write is either detected or harmless.
    #[test]
    fn misdirected_writes_are_detected_or_lose_nothing(
        seed: u64,
        records in prop::collection::vec(0..600usize, 2..40),
        at: prop::sample::Index,
        target: u64,
    ) {
        let disk = SimDisk::new(seed);
        let (mut journal, _, _) = open(&disk).unwrap();
        let at = at.index(records.len() - 1);
        for (index, bytes) in records.iter().enumerate() {
            if index == at {
                let names = segments(&disk);
                let name = &names[target as usize % names.len()];
                disk.misdirect_next_write(name, target / 7 % 4096 / 8 * 8);
            }
            journal.append(&record(index as u64 + 1, *bytes)).unwrap();
            journal.commit().unwrap();
        }
        let last = journal.persisted_lsn().0;
        let closed = journal.close();
        if let Ok((_, _, content)) = open(&disk) {
            prop_assert!(closed.is_ok());
            let expected: Vec<_> = (1..=last).map(|lsn| {
                (lsn, record(lsn, records[lsn as usize - 1]))
            }).collect();
            prop_assert_eq!(content.records, expected);
        }
    }
}

/// Returns a byte of the frames of records 1 to `vouched`, chosen by `place`.
fn place_of(disk: &SimDisk, vouched: u64, place: u64) -> (String, u64) {
    let copy = SimDisk::new(0);
    for name in segments(disk) {
        copy.put(&name, &disk.content(&name).unwrap());
    }
    let target = place % vouched + 1;
    let mut found = None;
    let refused = Journal::open(copy, &options(), |entry| match entry {
        solera_journal::Entry::Record { lsn: Lsn(lsn), payload } if lsn == target => {
            found = Some(16 + payload.len() as u64);
            Err("here".to_owned())
        }
        _ => Ok(()),
    });
    let Err(Error::Refused { file, offset, .. }) = refused else { panic!("{refused:?}") };
    (file, offset + place / vouched % found.unwrap())
}

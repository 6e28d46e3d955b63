//! Tests the inspection of damaged journals, and repairs that cut them at the damage.

use solera_journal::{
    Disk, Entry, Error, Journal, Lsn, Options, SimDisk, TornTail, check, dump, must_be_repaired,
    repair,
};

use crate::{Content, filled, last_segment, open, options, record, segments, snapshot};

/// Returns the files and their content, except the lock.
fn files(disk: &SimDisk) -> Vec<(String, Vec<u8>)> {
    let names = disk.list().unwrap().into_iter().filter(|name| name != "lock");
    names.map(|name| (name.clone(), disk.content(&name).unwrap())).collect()
}

fn dumped(disk: &SimDisk) -> Content {
    let mut content = Content::default();
    dump(disk, |entry: Entry<'_>| {
        content.take(entry);
        Ok(())
    })
    .unwrap();
    content
}

#[test]
fn a_sound_journal_is_reported_completely() {
    let disk = SimDisk::new(1);
    let mut journal = filled(&disk, 100);
    snapshot(&mut journal, 70, 4);
    journal.close().unwrap();
    let before = files(&disk);
    let report = check(&disk).unwrap();
    assert_eq!(report.problems, []);
    assert_eq!(report.identity, Some(options().identity));
    let snapshot = report.snapshot.as_ref().map(|snapshot| (snapshot.lsn, snapshot.records));
    assert_eq!(snapshot, Some((Lsn(70), 4)));
    assert_eq!(report.last(), Lsn(100));
    assert_eq!(report.segments.len(), segments(&disk).len());
    for pair in report.segments.windows(2) {
        assert_eq!(pair[0].last().next(), pair[1].first);
    }
    assert_eq!((&report.torn, report.unneeded.len(), report.foreign.len()), (&None, 0, 0));
    assert_eq!(dumped(&disk).lsns(), (71..=100).collect::<Vec<_>>());
    assert_eq!(repair(&disk, &SimDisk::new(2)).unwrap().problems, []);
    assert_eq!(files(&disk), before);
}

#[test]
fn all_damage_is_reported_at_once_and_the_rest_is_dumped() {
    let disk = SimDisk::new(1);
    drop(filled(&disk, 100));
    let names = segments(&disk);
    assert!(names.len() >= 5, "{names:?}");
    disk.flip_bit(&names[0], 600, 0);
    disk.flip_bit(&names[1], 20, 0);
    disk.remove(&names[3]).unwrap();
    disk.put("spare.tmp", b"unfinished");
    disk.put("notes.txt", b"mine");
    let report = check(&disk).unwrap();
    let files: Vec<_> = report.problems.iter().map(|error| error.file().unwrap()).collect();
    assert_eq!(files, [&names[0], &names[1], &names[3]]);
    assert_eq!(
        (report.unneeded.as_slice(), report.foreign.as_slice()),
        (["spare.tmp".to_owned()].as_slice(), ["notes.txt".to_owned()].as_slice())
    );
    let lsns = dumped(&disk).lsns();
    assert!(lsns.is_sorted() && lsns.contains(&100) && !lsns.contains(&1), "{lsns:?}");
}

#[test]
fn a_torn_tail_is_reported_but_is_no_problem() {
    let disk = SimDisk::new(1);
    drop(filled(&disk, 3));
    let mut bytes = disk.content("0000000001.segment").unwrap();
    let end = 512 + 3 * 144;
    bytes[end] = 7;
    disk.put("0000000001.segment", &bytes);
    let report = check(&disk).unwrap();
    let file = "0000000001.segment".to_owned();
    assert_eq!(report.torn, Some(TornTail { file, offset: end as u64, bytes: 1 }));
    assert_eq!(report.problems, []);
}

/// Repairs a damaged journal, and returns its content.
fn repaired(disk: &SimDisk) -> (solera_journal::Repair, Content) {
    let before = files(disk);
    let error = open(disk).map(|_| ()).unwrap_err();
    let backup = SimDisk::new(9);
    assert_eq!(must_be_repaired(disk), Ok(true));
    let repair = repair(disk, &backup).unwrap();
    assert_eq!(must_be_repaired(disk), Ok(false));
    assert!(repair.problems.contains(&error), "{error}");
    // The backup contains every changed or removed file in its original form.
    for (name, content) in before {
        if disk.content(&name).as_ref() != Some(&content) {
            assert_eq!(backup.content(&name), Some(content), "{name}");
        }
    }
    disk.crash();
    let (mut journal, recovered, content) = open(disk).unwrap();
    assert_eq!(recovered.last, repair.last);
    // The journal can be used again.
    let lsn = journal.append(b"after").unwrap();
    assert_eq!((lsn, journal.commit()), (repair.last.next(), Ok(lsn)));
    snapshot(&mut journal, lsn.0, 1);
    journal.close().unwrap();
    assert_eq!(check(disk).unwrap().problems, []);
    (repair, content)
}

#[test]
fn a_repair_cuts_at_the_first_damage() {
    let disk = SimDisk::new(1);
    drop(filled(&disk, 100));
    let names = segments(&disk);
    let damaged = 512 + 3 * 144;
    disk.flip_bit(&names[1], damaged + 20, 0);
    disk.flip_bit(&names[2], 700, 0);
    let (repair, content) = repaired(&disk);
    assert_eq!(repair.cut, Some((names[1].clone(), damaged)));
    assert_eq!(repair.moved, names[2..]);
    assert_eq!((content.lsns(), repair.seen), ((1..=repair.last.0).collect::<Vec<_>>(), Lsn(100)));
    assert!(repair.last.0 > 20 && repair.last.0 < 60);
}

#[test]
fn a_repair_keeps_records_before_a_gap_a_bad_header_or_a_short_file() {
    for damage in 0..4 {
        let disk = SimDisk::new(1);
        drop(filled(&disk, 100));
        let names = segments(&disk);
        match damage {
            0 => disk.remove(&names[2]).unwrap(),
            1 => disk.flip_bit(&names[2], 100, 0),
            2 => disk.flip_bit(&names[2], 3, 0),
            _ => disk.truncate(&names[2], 512 + 144),
        }
        let (repair, content) = repaired(&disk);
        assert_eq!(content.records.len() as u64, repair.last.0);
        assert!(repair.last.0 > 40, "{damage}");
    }
}

/// Found by fuzzing. The beginning of the second segment showed where the first one ended, so that
/// the truncation of the first one was no problem. But the second segment belonged to another
/// journal, and the repair removed it.
#[test]
fn a_repair_checks_remaining_segments_without_the_removed_ones() {
    let disk = SimDisk::new(1);
    drop(filled(&disk, 100));
    let names = segments(&disk);
    let size_at = 32;
    forge(&disk, &names[0], size_at, 4096 + 512);
    let identity_at = 48;
    forge(&disk, &names[1], identity_at, u64::from_le_bytes(*b"another/"));
    let (repair, content) = repaired(&disk);
    assert_eq!(repair.moved, names[1..]);
    let last = repair.last.0;
    assert_eq!(content.lsns(), (1..=last).collect::<Vec<_>>());
    assert!(last > 20, "{last}");
}

/// Writes a number into a header, and updates the checksum.
fn forge(disk: &SimDisk, file: &str, at: usize, number: u64) {
    let mut bytes = disk.content(file).unwrap();
    bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
    bytes[12..16].fill(0);
    let checksum = crc32c::crc32c(&bytes[..512]);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    disk.put(file, &bytes);
}

#[test]
fn a_repair_never_falls_behind_the_snapshot() {
    let disk = SimDisk::new(1);
    let mut journal = filled(&disk, 100);
    snapshot(&mut journal, 90, 3);
    drop(journal);
    // Damages a record that the snapshot covers.
    let names = segments(&disk);
    disk.flip_bit(&names[0], 520, 0);
    let (repair, content) = repaired(&disk);
    assert_eq!((repair.moved.as_slice(), &repair.cut), (names.as_slice(), &None));
    assert_eq!((repair.last, repair.seen), (Lsn(90), Lsn(100)));
    assert_eq!((content.snapshot.len(), content.records.len()), (3, 0));
}

#[test]
fn a_repair_continues_from_the_snapshot_if_all_segments_are_missing() {
    let disk = SimDisk::new(1);
    let mut journal = filled(&disk, 100);
    snapshot(&mut journal, 100, 3);
    drop(journal);
    disk.remove(&last_segment(&disk)).unwrap();
    let (repair, _) = repaired(&disk);
    assert_eq!(repair.last, Lsn(100));
}

#[test]
fn a_journal_beyond_repair_is_not_changed() {
    let disk = SimDisk::new(1);
    let mut journal = filled(&disk, 100);
    snapshot(&mut journal, 90, 3);
    drop(journal);
    disk.flip_bit("00000000000000000090.snapshot", 520, 0);
    let before = files(&disk);
    let backup = SimDisk::new(2);
    let error = repair(&disk, &backup).unwrap_err();
    assert_eq!(must_be_repaired(&disk), Err(error.clone()));
    assert!(matches!(&error, Error::BeyondRepair(cause) if matches!(**cause, Error::Damaged(_))));
    assert_eq!((files(&disk), files(&backup).len()), (before, 0));
}

#[test]
fn a_damaged_snapshot_is_replaced_by_the_records_if_all_exist() {
    let disk = SimDisk::new(1);
    drop(filled(&disk, 5));
    // The files are as after a power failure before the segments were removed.
    let twin = SimDisk::new(1);
    let mut journal = filled(&twin, 5);
    snapshot(&mut journal, 5, 2);
    drop(journal);
    let name = "00000000000000000005.snapshot";
    disk.put(name, &twin.content(name).unwrap());
    disk.flip_bit(name, 530, 1);
    let (repair, content) = repaired(&disk);
    assert_eq!((repair.moved.as_slice(), content.records.len()), ([name.to_owned()].as_slice(), 5));
}

#[test]
fn a_repair_rejects_a_newer_format() {
    let disk = SimDisk::new(1);
    drop(filled(&disk, 100));
    let names = segments(&disk);
    let version_at = 8;
    let found = 7;
    forge(&disk, &names[1], version_at, found.into());
    let file = names[1].clone();
    assert_eq!(repair(&disk, &SimDisk::new(2)), Err(Error::UnknownVersion { file, found }));
}

#[test]
fn a_repair_may_be_interrupted() {
    for calls in 1..60 {
        let disk = SimDisk::new(calls);
        drop(filled(&disk, 100));
        disk.flip_bit(&segments(&disk)[1], 512 + 3 * 144 + 20, 0);
        disk.fail_power_after(calls);
        let interrupted = repair(&disk, &SimDisk::new(2)).is_err();
        disk.crash();
        repair(&disk, &SimDisk::new(3)).unwrap();
        let (_, _, content) = open(&disk).unwrap();
        let count = content.records.len() as u64;
        assert!(count > 20 && count < 60, "{count}");
        assert_eq!(content.lsns(), (1..=count).collect::<Vec<_>>());
        if !interrupted {
            return;
        }
    }
    panic!("a repair never ends");
}

#[test]
fn a_long_record_can_be_dumped_and_cut() {
    let disk = SimDisk::new(1);
    let options = Options { segment_bytes: 1 << 20, ..options() };
    let (mut journal, _) = Journal::open(disk.clone(), &options, |_| Ok(())).unwrap();
    for bytes in [10, 5 << 20, 10] {
        journal.append(&record(1, bytes)).unwrap();
    }
    journal.close().unwrap();
    assert_eq!(dumped(&disk).records.len(), 3);
    disk.flip_bit(&segments(&disk)[1], 3 << 20, 0);
    let (repair, content) = repaired(&disk);
    assert_eq!((repair.last, content.records.len()), (Lsn(1), 1));
}

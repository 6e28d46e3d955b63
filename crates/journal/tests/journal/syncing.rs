//! Tests the journal's thread: its events, their times and their order.

use std::io::ErrorKind;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use solera_journal::{Error, Event, FaultyCall, Lsn, SimDisk, SyncPolicy, Syncer};

use crate::{filled, open, options, record, segments};

/// Timeout that only a failing test reaches.
const LONG: Duration = Duration::from_secs(20);

fn start(disk: &SimDisk, policy: SyncPolicy) -> (Syncer<SimDisk>, Receiver<Event>) {
    let (journal, _, _) = open(disk).unwrap();
    let (sender, events) = channel();
    let on_event = move |event| {
        let _ = sender.send(event);
    };
    (Syncer::start(journal, policy, on_event).unwrap(), events)
}

/// Starts a thread that is held up after each event, as by a slow sync, until it is resumed. When
/// the sender is dropped, the thread continues by itself.
fn start_held_up(disk: &SimDisk) -> (Syncer<SimDisk>, Receiver<Event>, Sender<()>) {
    let (journal, _, _) = open(disk).unwrap();
    let (sender, events) = channel();
    let (resume, paused) = channel::<()>();
    let on_event = move |event| {
        let _ = sender.send(event);
        let _ = paused.recv();
    };
    let syncer = Syncer::start(journal, SyncPolicy::Always, on_event).unwrap();
    (syncer, events, resume)
}

fn next(events: &Receiver<Event>) -> Event {
    events.recv_timeout(LONG).unwrap()
}

/// Waits until all records up to `lsn` are persisted.
fn persisted(events: &Receiver<Event>, lsn: u64) {
    loop {
        match next(events) {
            Event::Persisted(Lsn(persisted)) if persisted == lsn => return,
            Event::Persisted(Lsn(persisted)) if persisted < lsn => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn records_that_are_reported_as_persisted_survive() {
    let disk = SimDisk::new(1);
    let (mut syncer, events) = start(&disk, SyncPolicy::Always);
    for batch in 0..50 {
        for lsn in batch * 4 + 1..=batch * 4 + 4 {
            assert_eq!(syncer.append(&record(lsn, 100)), Ok(Lsn(lsn)));
        }
        syncer.submit().unwrap();
    }
    persisted(&events, 200);
    disk.crash();
    drop(syncer);
    let (_, _, content) = open(&disk).unwrap();
    assert_eq!(content.records, (1..=200).map(|lsn| (lsn, record(lsn, 100))).collect::<Vec<_>>());
}

#[test]
fn records_appended_during_a_sync_share_the_next_one() {
    let disk = SimDisk::new(1);
    let (mut syncer, events, resume) = start_held_up(&disk);
    let mut put = || {
        syncer.append(&record(1, 10)).unwrap();
        syncer.submit().unwrap();
    };
    put();
    assert_eq!(next(&events), Event::Persisted(Lsn(1)));
    (0..20).for_each(|_| put());
    resume.send(()).unwrap();
    assert_eq!(next(&events), Event::Persisted(Lsn(21)));
    drop(resume);
    syncer.close().unwrap();
}

#[test]
fn with_an_interval_records_are_synced_without_further_calls() {
    let disk = SimDisk::new(1);
    let (mut syncer, events) = start(&disk, SyncPolicy::Interval { interval_ms: 1 });
    for lsn in 1..=3 {
        syncer.append(b"a").unwrap();
        syncer.submit().unwrap();
        persisted(&events, lsn);
    }
    syncer.close().unwrap();
}

#[test]
fn waiting_bytes_and_statistics_are_reported() {
    let disk = SimDisk::new(1);
    let (mut syncer, events, resume) = start_held_up(&disk);
    let mut write = |lsn| {
        syncer.append(&record(lsn, 1000)).unwrap();
        syncer.submit().unwrap();
        syncer.waiting_bytes()
    };
    write(1);
    persisted(&events, 1);
    assert!((1000..1100).contains(&write(2)));
    assert!((2000..2200).contains(&write(3)));
    resume.send(()).unwrap();
    persisted(&events, 3);
    assert_eq!(syncer.waiting_bytes(), 0);
    let stats = syncer.stats();
    assert_eq!((stats.records, stats.syncs.iter().sum::<u64>(), stats.segments), (3, 2, 1));
    assert!((3000..3300).contains(&stats.bytes));
    drop(resume);
}

#[test]
fn a_shorter_interval_takes_effect_at_once() {
    let disk = SimDisk::new(1);
    let (mut syncer, events) = start(&disk, SyncPolicy::Interval { interval_ms: 3_600_000 });
    syncer.append(&record(1, 100)).unwrap();
    syncer.submit().unwrap();
    syncer.set_policy(SyncPolicy::Interval { interval_ms: 1 });
    persisted(&events, 1);
}

/// A snapshot syncs before the interval ends; the next interval begins with the next record.
#[test]
fn interval_syncs_continue_after_a_snapshot() {
    let disk = SimDisk::new(1);
    let (mut syncer, events) = start(&disk, SyncPolicy::Interval { interval_ms: 1 });
    for lsn in 1..=10 {
        syncer.append(b"a").unwrap();
        syncer.begin_snapshot(Lsn(lsn)).unwrap().finish();
        persisted(&events, lsn);
        assert_eq!(next(&events), Event::SnapshotPublished(Lsn(lsn)));
    }
    syncer.append(b"a").unwrap();
    syncer.submit().unwrap();
    persisted(&events, 11);
}

#[test]
fn closing_syncs_all_records() {
    let disk = SimDisk::new(1);
    let (mut syncer, events) = start(&disk, SyncPolicy::Interval { interval_ms: 3_600_000 });
    syncer.append(b"a").unwrap();
    syncer.submit().unwrap();
    syncer.append(b"b").unwrap();
    syncer.close().unwrap();
    assert_eq!(events.iter().collect::<Vec<_>>(), [Event::Persisted(Lsn(2))]);
    disk.crash();
    assert_eq!(open(&disk).unwrap().2.lsns(), [1, 2]);
}

#[test]
fn dropping_syncs_all_records() {
    let disk = SimDisk::new(1);
    let (mut syncer, events) = start(&disk, SyncPolicy::Always);
    syncer.append(b"a").unwrap();
    drop(syncer);
    assert_eq!(events.iter().collect::<Vec<_>>(), [Event::Persisted(Lsn(1))]);
    assert_eq!(open(&disk).unwrap().2.lsns(), [1]);
}

#[test]
fn a_failure_is_reported_once_and_is_permanent() {
    let disk = SimDisk::new(1);
    let (mut syncer, events) = start(&disk, SyncPolicy::Always);
    syncer.append(b"a").unwrap();
    syncer.submit().unwrap();
    persisted(&events, 1);
    disk.fail_call(FaultyCall::Sync, 0, ErrorKind::Other);
    syncer.append(b"b").unwrap();
    syncer.submit().unwrap();
    let Event::Failed(cause) = next(&events) else { panic!("it did not fail") };
    assert!(matches!(cause, Error::Io { doing: "sync", .. }));
    assert_eq!(syncer.failure(), Some(&cause));
    let failed = Error::Failed(Box::new(cause.clone()));
    assert_eq!(syncer.append(b"c"), Err(failed.clone()));
    assert_eq!(syncer.submit(), Err(failed));
    assert_eq!(syncer.close(), Err(cause));
    assert_eq!(events.iter().count(), 0);
}

#[test]
fn a_full_disk_is_reported_before_an_append_fails() {
    let disk = SimDisk::new(1);
    let (mut syncer, events) = start(&disk, SyncPolicy::Always);
    disk.set_capacity(disk.used() + 100);
    syncer.append(&[1; 100]).unwrap();
    syncer.submit().unwrap();
    persisted(&events, 1);
    assert!(matches!(next(&events), Event::SpaceLow(Error::DiskFull { .. })));
    syncer.append(&[1; 100]).unwrap();
    syncer.submit().unwrap();
    persisted(&events, 2);
    syncer.append(&[1; 5000]).unwrap();
    syncer.submit().unwrap();
    assert!(matches!(next(&events), Event::Failed(Error::DiskFull { .. })));
}

#[test]
fn space_freed_by_a_snapshot_is_reported() {
    let disk = SimDisk::new(1);
    drop(filled(&disk, 60));
    assert!(segments(&disk).len() > 1);
    let (mut syncer, events) = start(&disk, SyncPolicy::Always);
    disk.set_capacity(disk.used() + 1000);
    syncer.append(b"a").unwrap();
    syncer.submit().unwrap();
    persisted(&events, 61);
    assert!(matches!(next(&events), Event::SpaceLow(Error::DiskFull { .. })));
    syncer.append(b"b").unwrap();
    syncer.submit().unwrap();
    persisted(&events, 62);
    syncer.begin_snapshot(Lsn(62)).unwrap().finish();
    assert_eq!(next(&events), Event::SnapshotPublished(Lsn(62)));
    assert_eq!(next(&events), Event::SpaceRegained);
}

#[test]
fn free_space_is_checked_again_on_request() {
    let disk = SimDisk::new(1);
    let (mut syncer, events) = start(&disk, SyncPolicy::Always);
    disk.set_capacity(disk.used() + 100);
    let mut write = |last| {
        syncer.append(b"a").unwrap();
        syncer.submit().unwrap();
        persisted(&events, last);
    };
    write(1);
    assert!(matches!(next(&events), Event::SpaceLow(Error::DiskFull { .. })));
    disk.set_capacity(u64::MAX);
    write(2);
    assert!(events.try_recv().is_err(), "it does not look by itself");
    syncer.look_for_room();
    assert_eq!(next(&events), Event::SpaceRegained);
    let size = disk.content("spare.tmp").unwrap().len() as u64;
    assert_eq!(size, options().segment_bytes, "all of the segment is there");
}

#[test]
fn a_disk_that_is_full_at_the_start_is_reported_before_the_first_append() {
    let disk = SimDisk::new(1);
    drop(filled(&disk, 1));
    // This is less than the next segment needs.
    disk.set_capacity(disk.used() + 4000);
    let (mut journal, _, _) = open(&disk).unwrap();
    assert!(journal.prepare_whole().unwrap_err().is_disk_full());
    assert!(disk.content("spare.tmp").is_none());
}

#[test]
fn a_snapshot_is_written_in_the_background_and_then_published() {
    let disk = SimDisk::new(1);
    drop(filled(&disk, 100));
    let before = segments(&disk).len();
    let (mut syncer, events) = start(&disk, SyncPolicy::Always);
    let mut snapshot = syncer.begin_snapshot(Lsn(100)).unwrap();
    for index in 0..10 {
        snapshot.add(&record(index, 100_000)).unwrap();
        syncer.append(&record(101 + index, 10)).unwrap();
        syncer.submit().unwrap();
    }
    snapshot.finish();
    let published = Event::SnapshotPublished(Lsn(100));
    assert!(events.iter().any(|event| event == published));
    syncer.close().unwrap();
    assert!(segments(&disk).len() < before);
    disk.crash();
    let (_, recovered, content) = open(&disk).unwrap();
    assert_eq!((recovered.snapshot, recovered.snapshot_records), (Some(Lsn(100)), 10));
    assert_eq!(content.lsns(), (101..=110).collect::<Vec<_>>());
}

#[test]
fn a_snapshot_is_published_after_its_records_are_persisted() {
    let disk = SimDisk::new(1);
    let (mut syncer, events) = start(&disk, SyncPolicy::Interval { interval_ms: 3_600_000 });
    syncer.append(b"a").unwrap();
    syncer.begin_snapshot(Lsn(1)).unwrap().finish();
    assert_eq!(next(&events), Event::Persisted(Lsn(1)));
    assert_eq!(next(&events), Event::SnapshotPublished(Lsn(1)));
    let ahead = Error::SnapshotOutOfOrder { snapshot: Lsn(2), from: Lsn(0), to: Lsn(1) };
    assert_eq!(syncer.begin_snapshot(Lsn(2)).unwrap_err(), ahead);
    syncer.begin_snapshot(Lsn(0)).unwrap().finish();
    let behind = Error::SnapshotOutOfOrder { snapshot: Lsn(0), from: Lsn(1), to: Lsn(1) };
    assert_eq!(next(&events), Event::SnapshotFailed(behind));
}

#[test]
fn a_failed_snapshot_leaves_the_journal_usable() {
    let disk = SimDisk::new(1);
    let (mut syncer, events) = start(&disk, SyncPolicy::Always);
    disk.set_capacity(disk.used() + 10_000);
    let mut snapshot = syncer.begin_snapshot(Lsn(0)).unwrap();
    snapshot.add(&[1; 20_000]).unwrap();
    snapshot.finish();
    assert!(matches!(next(&events), Event::SnapshotFailed(Error::DiskFull { .. })));
    // A thread that waits for the backlog of a failed snapshot continues.
    let mut snapshot = syncer.begin_snapshot(Lsn(0)).unwrap();
    snapshot.add(&[1; 300_000]).unwrap();
    assert!(matches!(next(&events), Event::SnapshotFailed(Error::DiskFull { .. })));
    snapshot.add(&[1; 300_000]).unwrap();
    assert_eq!(snapshot.backlog_bytes(), 0);
    drop(snapshot);
    syncer.append(b"a").unwrap();
    syncer.submit().unwrap();
    persisted(&events, 1);
    drop(syncer.begin_snapshot(Lsn(1)).unwrap());
    syncer.close().unwrap();
}

#[test]
fn many_records_are_written_to_many_small_segments() {
    let disk = SimDisk::new(1);
    let (mut syncer, events) = start(&disk, SyncPolicy::Always);
    for lsn in 1..=2000 {
        syncer.append(&record(lsn, (lsn % 300) as usize)).unwrap();
        if lsn % 3 == 0 {
            syncer.submit().unwrap();
        }
    }
    syncer.submit().unwrap();
    persisted(&events, 2000);
    syncer.close().unwrap();
    assert!(segments(&disk).len() as u64 > 2000 * 100 / options().segment_bytes);
    assert_eq!(open(&disk).unwrap().2.records.len(), 2000);
}

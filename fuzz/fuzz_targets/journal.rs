//! Arbitrary bytes in a journal's files are a journal or cause an error, and after a repair the
//! journal can be opened.
//!
//! The first byte of the input selects the mode: the rest is either a whole file, or patches to a
//! sound journal, with or without updated checksums of the headers.
#![no_main]

use libfuzzer_sys::fuzz_target;
use solera_journal::{Error, Identity, Journal, Lsn, Options, SimDisk, check, dump, repair};

const SNAPSHOT: &str = "00000000000000000006.snapshot";

fuzz_target!(|input: &[u8]| {
    let Some((mode, bytes)) = input.split_first() else { return };
    let disk = SimDisk::new(1);
    let files = sound(&disk);
    match mode % 4 {
        0 => disk.put(&files[0], bytes),
        1 => disk.put(SNAPSHOT, bytes),
        mode => patch(&disk, &files, bytes, mode == 2),
    }
    let report = check(&disk).expect("a simulated disk can be read");
    dump(&disk, |_| Ok(())).expect("a simulated disk can be read");
    let opened = Journal::open(disk.clone(), &options(), |_| Ok(()));
    match opened {
        Ok((mut journal, recovered)) => {
            assert_eq!(report.problems, []);
            assert_eq!(journal.append(b"more"), Ok(recovered.last.next()));
            journal.commit().expect("a simulated disk has room");
        }
        // Only opening checks the identity; a check does not know the expected one.
        Err(Error::OtherIdentity { .. }) => {}
        Err(error) => {
            // A check without the expected identity may report the other one of two files that
            // differ.
            assert!(!report.problems.is_empty(), "{error:?}, and nothing is reported");
            if repair(&disk, &SimDisk::new(2)).is_ok() {
                assert_eq!(check(&disk).expect("it can be read").problems, []);
            }
        }
    }
});

fn options() -> Options {
    let identity = Identity::new(b"fuzz").expect("it is short");
    Options { segment_bytes: 2048, ..Options::new(identity) }
}

/// Fills a journal, and returns its files.
fn sound(disk: &SimDisk) -> Vec<String> {
    let opened = Journal::open(disk.clone(), &options(), |_| Ok(()));
    let (mut journal, _) = opened.expect("a new journal opens");
    for record in 0..20 {
        journal.append(&[record; 100]).expect("it is short");
        journal.commit().expect("a simulated disk has room");
        if record == 8 {
            let mut snapshot = journal.begin_snapshot(Lsn(6)).expect("it has these records");
            snapshot.add(&[1; 50]).expect("a simulated disk has room");
            let written = snapshot.finish().expect("a simulated disk has room");
            journal.publish(written).expect("it is the first");
        }
    }
    let report = { journal.close().and_then(|()| check(disk)) }.expect("it is sound");
    let segments = report.segments.into_iter().map(|segment| segment.file);
    segments.chain([SNAPSHOT.to_owned()]).collect()
}

/// Applies patches of four bytes each: the file, the offset (two bytes), and the new byte.
fn patch(disk: &SimDisk, files: &[String], patches: &[u8], mend: bool) {
    for patch in patches.chunks_exact(4) {
        let file = &files[usize::from(patch[0]) % files.len()];
        let mut bytes = disk.content(file).expect("it is there");
        let offset = usize::from(u16::from_le_bytes([patch[1], patch[2]])) % bytes.len();
        bytes[offset] = patch[3];
        if mend && offset < 512 {
            bytes[12..16].fill(0);
            let checksum = crc32c::crc32c(&bytes[..512]);
            bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        }
        disk.put(file, &bytes);
    }
}

//! Tests of the backup format: written entries are read back, and all other bytes are rejected.

use proptest::prelude::*;
use solera_backup::{
    BackupReader, BackupWriter, Content, Entry, Finals, Header, ReadError, SpaceInfo, Tally,
};

fn header() -> Header {
    let level = |name: &str, prefix: &str, level: &str| SpaceInfo {
        name: name.to_owned(),
        prefix: prefix.to_owned(),
        level: level.to_owned(),
        protocol: "unistore".to_owned(),
        protocol_number: 1,
        ..SpaceInfo::default()
    };
    let stock = SpaceInfo {
        strong: vec!["DECRBY".to_owned()],
        conflicts: vec![["DECRBY".to_owned(), "DECRBY".to_owned()]],
        ..level("stock", "stock:", "por")
    };
    Header {
        cluster: "shop".to_owned(),
        site: "eu".to_owned(),
        sites: vec!["eu".to_owned(), "us".to_owned()],
        partitions: 16,
        spaces: vec![stock, level("log", "log:", "eventual"), level("default", "", "causal")],
        protocols: vec![1],
        snapshot: vec![7, 8],
        speculative: None,
        taken_ms: 1_800_000_000_000,
        solera: "0.1.0".to_owned(),
    }
}

fn entry(key: &str, continued: bool, content: Content) -> Entry {
    Entry { key: key.as_bytes().to_vec(), continued, content }
}

fn entries() -> Vec<Entry> {
    let set = |elements: &[&str]| {
        Content::Set(elements.iter().map(|element| element.as_bytes().to_vec()).collect())
    };
    vec![
        entry("a", false, Content::String(b"\0\xff\r\n".to_vec())),
        entry("", false, Content::String(Vec::new())),
        entry("s", false, set(&["", "x"])),
        entry("s", true, set(&["y"])),
        entry("h", false, Content::Hash(vec![(b"f".to_vec(), b"1".to_vec())])),
        entry("h", true, Content::Hash(vec![(b"g".to_vec(), Vec::new())])),
        // Longer than a frame.
        entry("long", false, Content::String(vec![b'l'; 300_000])),
        entry("z", false, Content::String(b"last".to_vec())),
    ]
}

fn write(entries: &[Entry]) -> (Vec<u8>, Tally) {
    let mut writer = BackupWriter::new(Vec::new(), &header()).unwrap();
    entries.iter().for_each(|entry| writer.write(entry).unwrap());
    writer.finish().unwrap()
}

/// Reads a whole backup, or returns the error.
fn read(bytes: &[u8]) -> Result<(Header, Vec<Entry>, Tally), ReadError> {
    let mut reader = BackupReader::open(bytes)?;
    let mut entries = Vec::new();
    while let Some(entry) = reader.next_entry()? {
        entries.push(entry);
    }
    assert!(reader.next_entry()?.is_none(), "the end stays the end");
    Ok((reader.header().clone(), entries, *reader.tally()))
}

#[test]
fn written_entries_are_read_back() {
    for entries in [entries(), Vec::new()] {
        let (bytes, tally) = write(&entries);
        assert_eq!(read(&bytes).unwrap(), (header(), entries, tally));
    }
    let tally = write(&entries()).1;
    assert_eq!((tally.keys(), tally.strings, tally.sets, tally.hashes), (6, 4, 1, 1));
    assert_eq!((tally.elements, tally.fields), (3, 2));
    assert_eq!(tally.bytes, 300_000 + 21);
}

#[test]
fn a_header_states_which_operations_of_a_speculative_space_the_backup_contains() {
    let state = Finals { finals: 7, digest: "00ff".to_owned(), left_out: 2 };
    let header = Header { speculative: Some(state), ..header() };
    let (bytes, _) = BackupWriter::new(Vec::new(), &header).unwrap().finish().unwrap();
    assert_eq!(read(&bytes).unwrap().0, header);
    let text = serde_json::to_string(&header).unwrap();
    assert!(text.contains(r#""speculative":{"final":7,"digest":"00ff","left_out":2}"#), "{text}");
    let old = serde_json::to_string(&self::header()).unwrap();
    assert!(!old.contains("speculative"), "{old}");
    assert_eq!(serde_json::from_str::<Header>(&old).unwrap().speculative, None);
}

#[test]
fn a_tally_depends_on_contents_and_not_on_their_order() {
    let tally = |entries: &[Entry]| write(entries).1;
    let string = |key: &str, value: &str| entry(key, false, Content::String(value.into()));
    let set = |continued: bool, elements: &[&str]| {
        entry("s", continued, Content::Set(elements.iter().map(|e| (*e).into()).collect()))
    };
    let base = tally(&[string("a", "1"), string("b", "2")]);
    assert_eq!(tally(&[string("b", "2"), string("a", "1")]), base);
    assert_ne!(tally(&[string("a", "2"), string("b", "1")]), base);
    assert_ne!(tally(&[string("a1", ""), string("b", "2")]), base);
    assert_eq!(tally(&[set(false, &["x", "y"])]), tally(&[set(false, &["y"]), set(true, &["x"])]));
    assert_ne!(
        tally(&[set(false, &["x"])]),
        tally(&[entry("s", false, Content::String("x".into()))])
    );
}

#[test]
fn a_truncated_backup_is_rejected_with_the_position() {
    let bytes = write(&entries()).0;
    for length in (0..2000).chain(bytes.len() - 2000..bytes.len()) {
        match read(&bytes[..length]).unwrap_err() {
            ReadError::Incomplete { at } => assert!(at as usize <= length),
            ReadError::NotABackup => assert!(length < 14),
            other => panic!("cut at {length}: {other}"),
        }
    }
}

#[test]
fn a_changed_byte_is_found_with_its_position() {
    let good = write(&entries()).0;
    for at in (0..1500).chain(good.len() - 1500..good.len()) {
        for bit in [1, 0x80] {
            let mut bytes = good.clone();
            bytes[at] ^= bit;
            match read(&bytes).unwrap_err() {
                ReadError::Damaged { at: place, .. } | ReadError::Incomplete { at: place } => {
                    assert!(at >= 16 && place as usize <= at, "byte {at}, found at {place}");
                }
                ReadError::NotABackup | ReadError::Version(_) => assert!(at < 16),
                error @ (ReadError::Io(_) | ReadError::Header(_)) => panic!("{error}"),
            }
        }
    }
}

/// Returns the positions of the frames, and the end.
fn frames(bytes: &[u8]) -> Vec<usize> {
    let mut places = vec![16];
    while let Some(head) = bytes[*places.last().unwrap()..].first_chunk::<4>() {
        places.push(places.last().unwrap() + 9 + u32::from_le_bytes(*head) as usize);
    }
    places
}

#[test]
fn missing_repeated_and_moved_frames_are_detected() {
    let long = |key: &str| entry(key, false, Content::String(vec![b'x'; 300_000]));
    let bytes = write(&[long("a"), long("b"), long("c")]).0;
    let frames = frames(&bytes);
    assert_eq!((frames.len(), *frames.last().unwrap()), (6, bytes.len()));
    let frame = |i: usize| &bytes[frames[i]..frames[i + 1]];
    let head = &bytes[..frames[1]];
    for (what, order) in [
        ("without the second", &[1, 3, 4][..]),
        ("in another order", &[2, 1, 3, 4]),
        ("with one twice", &[1, 1, 2, 3, 4]),
        ("without any", &[4]),
        ("with two ends", &[1, 2, 3, 4, 4]),
        ("with the header again", &[0, 1, 2, 3, 4]),
    ] {
        let parts = order.iter().flat_map(|i| frame(*i).to_vec());
        let spliced: Vec<u8> = head.iter().copied().chain(parts).collect();
        assert!(matches!(read(&spliced), Err(ReadError::Damaged { .. })), "{what}");
    }
    let followed = [&bytes[..], b"x"].concat();
    assert!(
        matches!(read(&followed), Err(ReadError::Damaged { at, .. }) if at as usize == bytes.len())
    );
    // The end of another backup, at the right position.
    let other = write(&[long("a"), long("b"), long("d")]).0;
    let swapped = [&bytes[..frames[4]], &other[frames[4]..]].concat();
    assert!(matches!(read(&swapped), Err(ReadError::Damaged { .. })));
}

#[test]
fn other_files_and_versions_are_reported_as_such() {
    for text in ["", "x", "solera backuq 1\n", "[[site]]\nname = 'eu'\n", "solera-1-00"] {
        assert!(matches!(read(text.as_bytes()), Err(ReadError::NotABackup)), "{text}");
    }
    for other in ["1", "2", "4"] {
        let text = format!("solera backup {other}\nwhatever");
        let error = read(text.as_bytes()).unwrap_err();
        assert!(matches!(&error, ReadError::Version(version) if version == other), "{error}");
    }
    let older = read(b"solera backup 1\nwhatever").unwrap_err().to_string();
    assert!(older.contains("version 1") && older.contains("take a new backup"), "{older}");
}

#[test]
fn a_header_without_a_field_is_rejected_with_the_fields_name() {
    for (field, text) in [
        ("strong", r#""strong":["DECRBY"],"#),
        ("conflicts", r#","conflicts":[["DECRBY","DECRBY"]]"#),
        ("level", r#""level":"por","#),
        ("protocol", r#""protocol":"unistore","#),
        ("protocol_number", r#""protocol_number":1,"#),
    ] {
        let whole = serde_json::to_string(&header()).unwrap();
        let lacking = whole.replacen(text, "", 1);
        assert_ne!(lacking, whole, "{text}");
        let error = read(&with_header(lacking.as_bytes())).unwrap_err();
        let ReadError::Header(what) = &error else { panic!("{error}") };
        assert!(what.contains(&format!("missing field `{field}`")), "{error}");
    }
}

/// Returns the beginning of a backup with this header.
fn with_header(body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32).to_le_bytes();
    let head = [&16u64.to_le_bytes()[..], &length, b"H"].concat();
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&head), body).to_le_bytes();
    [b"solera backup 3\n", &length[..], &checksum, b"H", body].concat()
}

fn any_entries() -> impl Strategy<Value = Vec<Entry>> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..20);
    let content = prop_oneof![
        bytes().prop_map(Content::String),
        proptest::collection::vec(bytes(), 1..5).prop_map(Content::Set),
        proptest::collection::vec((bytes(), bytes()), 1..5).prop_map(Content::Hash),
    ];
    let entry =
        (bytes(), content).prop_map(|(key, content)| Entry { key, continued: false, content });
    proptest::collection::vec(entry, 0..20)
}

proptest! {
    #[test]
    fn any_entries_are_read_back(entries in any_entries()) {
        let (bytes, tally) = write(&entries);
        prop_assert_eq!(read(&bytes).unwrap(), (header(), entries, tally));
    }

    #[test]
    fn random_damage_is_always_detected(
        entries in any_entries(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), 0..4u8, any::<u8>()), 1..6),
    ) {
        let good = write(&entries).0;
        let mut bytes = good.clone();
        for (place, kind, byte) in damage {
            let at = place.index(bytes.len().max(1));
            match kind {
                0 if at < bytes.len() => bytes[at] = byte,
                1 if at < bytes.len() => drop(bytes.remove(at)),
                2 => bytes.insert(at, byte),
                _ => bytes.truncate(at),
            }
        }
        prop_assert!(bytes == good || read(&bytes).is_err());
    }

    #[test]
    fn arbitrary_bytes_are_rejected_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(read(&bytes).is_err());
        prop_assert!(read(&[b"solera backup 3\n", bytes.as_slice()].concat()).is_err());
    }
}

//! The encodings of messages, records and parts stay the same within a version.
//!
//! `tests/golden` holds a sample of each variant, as bytes and with its meaning: bytes alone would
//! not reveal that two numbers have changed places. To change an encoding, raise its version in
//! `PROTOCOL`, or only add variants after the last ones, and accept the new files:
//! `REWRITE=1 cargo test -p solera-primary --test golden`.

#[path = "../../machine/testing/golden.rs"]
mod golden;

use golden::judge;
use solera_data::{Key, Value};
use solera_machine::{Address, PartitionId, Wire};
use solera_membership::{Change, Members};
use solera_primary::{
    Answer, Body, Done, End, Entry, Epoch, Failure, List, Message, PROTOCOL, Part, Piece, Position,
    Record, Request, Seen, Update,
};
use solera_time::SiteId;

const PARTITION: PartitionId = PartitionId(300);

/// Returns the name of an enum's variant, and its index, which encodes it. A new variant has no arm
/// here, and needs a sample.
type Place = (u8, &'static str);
const BODIES: u8 = 7;
const RECORDS: u8 = 6;
const PARTS: u8 = 3;
const UPDATES: u8 = 4;
const FAILURES: u8 = 6;

fn body_place(body: &Body) -> Place {
    match body {
        Body::Forward(_) => (0, "Forward"),
        Body::Answers(_) => (1, "Answers"),
        Body::Append { .. } => (2, "Append"),
        Body::Stored { .. } => (3, "Stored"),
        Body::Ask(_) => (4, "Ask"),
        Body::Take(..) => (5, "Take"),
        Body::Piece(..) => (6, "Piece"),
    }
}

fn record_place(record: &Record) -> Place {
    match record {
        Record::Numbers(_) => (0, "Numbers"),
        Record::Applied { .. } => (1, "Applied"),
        Record::Home { .. } => (2, "Home"),
        Record::Filled(_) => (3, "Filled"),
        Record::Emptied(_) => (4, "Emptied"),
        Record::Piece(..) => (5, "Piece"),
    }
}

fn part_place(part: &Part) -> Place {
    match part {
        Part::Worker { .. } => (0, "Worker"),
        Part::Values(..) => (1, "Values"),
        Part::Partition { .. } => (2, "Partition"),
    }
}

fn update_place(update: &Update) -> u8 {
    match update {
        Update::Set(_) => 0,
        Update::Append(_) => 1,
        Update::IncrBy(_) => 2,
        Update::Delete => 3,
    }
}

fn failure_place(failure: Failure) -> u8 {
    match failure {
        Failure::TimedOut => 0,
        Failure::Lost => 1,
        Failure::NotANumber => 2,
        Failure::TooLarge => 3,
        Failure::OtherWorker => 4,
        Failure::Busy => 5,
    }
}

// The numbers differ, and some need several bytes.

fn worker(site: u8, worker: u8) -> Address {
    Address { site: SiteId(site), worker }
}

fn list() -> List {
    List::of(&Members::new(3).changed(SiteId(0), SiteId(1), Change::Remove).unwrap())
}

fn updates() -> Vec<Update> {
    vec![
        Update::Set(Value::from("new")),
        Update::Append(Value::from(&[0, 255][..])),
        Update::IncrBy(-130),
        Update::Delete,
    ]
}

fn failures() -> Vec<Failure> {
    vec![
        Failure::TimedOut,
        Failure::Lost,
        Failure::NotANumber,
        Failure::TooLarge,
        Failure::OtherWorker,
        Failure::Busy,
    ]
}

fn epochs() -> Vec<Epoch> {
    vec![Epoch { number: 0, after: 0 }, Epoch { number: 5, after: 129 }]
}

fn entries() -> Vec<Entry> {
    let entry = |(number, update)| Entry {
        origin: worker(2, 1),
        number,
        oldest: 11,
        key: Key::from("key"),
        update,
    };
    (200..).zip(updates()).map(entry).collect()
}

fn seen() -> Vec<(Address, Seen)> {
    vec![
        (worker(0, 3), Seen { oldest: 12, numbers: [(12, 40), (200, 41)].into() }),
        (worker(2, 0), Seen { oldest: 400, numbers: [].into() }),
    ]
}

fn pairs() -> Vec<(Key, Value, u64)> {
    vec![(Key::from("a"), Value::from("value"), 38), (Key::from("b"), Value::from(""), 300)]
}

fn piece() -> Piece {
    let end = Some(End { seen: seen(), epochs: epochs() });
    Piece { applied: 301, place: 2, values: pairs(), end }
}

fn bodies() -> Vec<Body> {
    let request = |(number, update)| Request { number, oldest: 9, key: Key::from("key"), update };
    let position = Position { epoch: 5, index: 131 };
    let done = [None, Some(-200)].map(|number| Ok(Done { position, number }));
    let mut answers = done.map(|result| Answer { number: 14, result }).to_vec();
    answers.extend((15..).zip(failures()).map(|(number, it)| Answer { number, result: Err(it) }));
    vec![
        Body::Forward((150..).zip(updates()).map(request).collect()),
        Body::Answers(answers),
        Body::Append {
            partition: PARTITION,
            after: 127,
            entries: entries(),
            epochs: epochs(),
            settled: 126,
            last: 500,
        },
        Body::Stored { partition: PARTITION, applied: 128, asks: true },
        Body::Ask(PARTITION),
        Body::Take(PARTITION, 128),
        Body::Piece(PARTITION, piece()),
        Body::Piece(PartitionId(1), Piece { end: None, ..piece() }),
    ]
}

fn records() -> Vec<Record> {
    vec![
        Record::Numbers(1024),
        Record::Applied { partition: PARTITION, after: 127, entries: entries(), epochs: epochs() },
        Record::Home { partition: PARTITION, list: list(), epochs: epochs() },
        Record::Filled(PARTITION),
        Record::Emptied(PARTITION),
        Record::Piece(PARTITION, piece()),
    ]
}

fn parts() -> Vec<Part> {
    vec![
        Part::Worker { numbers: 1024 },
        Part::Values(PARTITION, pairs()),
        Part::Partition {
            partition: PARTITION,
            applied: 304,
            log: entries(),
            seen: seen(),
            epochs: epochs(),
            home_for: Some(list()),
            filled: true,
        },
    ]
}

fn whole(bytes: &[u8]) -> Option<Message> {
    let (message, rest) = Message::decode(PROTOCOL, bytes)?;
    rest.is_empty().then_some(message)
}

#[test]
fn messages_are_encoded_as_ever() {
    let message = |body| Message { list: list(), body };
    let samples: Vec<Message> = bodies().into_iter().map(message).collect();
    let place = |message: &Message| body_place(&message.body);
    judge(("messages-1", BODIES), &samples, place, Message::encode, whole);
    for sample in &samples {
        let mut bytes = Vec::new();
        sample.encode(&mut bytes);
        assert_eq!(sample.encoded_bytes(), bytes.len());
        assert!(sample.name().ends_with(place(sample).1));
    }
}

#[test]
fn records_are_encoded_as_ever() {
    let decode = |bytes: &[u8]| Record::decode(bytes).ok();
    judge(("records-1", RECORDS), &records(), record_place, Record::encode, decode);
}

#[test]
fn parts_are_encoded_as_ever() {
    let decode = |bytes: &[u8]| Part::decode(bytes).ok();
    judge(("parts-1", PARTS), &parts(), part_place, Part::encode, decode);
}

#[test]
fn samples_have_each_update_and_each_failure() {
    assert!(updates().iter().map(update_place).eq(0..UPDATES));
    assert!(failures().into_iter().map(failure_place).eq(0..FAILURES));
}

/// An index after the last variant is rejected: if there is such a variant, it needs a sample.
#[test]
fn there_are_no_other_variants() {
    let mut bytes = Vec::new();
    Message { list: list(), body: Body::Ask(PartitionId(0)) }.encode(&mut bytes);
    let place = bytes.len() - 2;
    assert_eq!(bytes[place], body_place(&Body::Ask(PartitionId(0))).0);
    let header = PROTOCOL.record_header();
    for content in [&[0_u8; 40][..], &[1; 40], &[0, 1, 0, 1]] {
        // Too many bytes are rejected, and so are too few: all lengths are tried.
        for length in 0..content.len() {
            let message = [&bytes[..place], &[BODIES], &content[..length]].concat();
            let record = [&header[..], &[RECORDS], &content[..length]].concat();
            let part = [&header[..], &[PARTS], &content[..length]].concat();
            assert!(whole(&message).is_none(), "a message {length}");
            assert!(Record::decode(&record).is_err(), "a record {length}");
            assert!(Part::decode(&part).is_err(), "a part {length}");
        }
    }
}

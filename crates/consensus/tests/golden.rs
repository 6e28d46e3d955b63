//! The encodings of messages, records and parts stay the same within a version of the protocol
//! that contains them.
//!
//! `tests/golden` holds a sample of each variant, as bytes and with its meaning: bytes alone would
//! not reveal that two numbers have changed places. To change an encoding, raise the version of the
//! protocol that contains it, or only add variants after the last ones, and accept the new files:
//! `REWRITE=1 cargo test -p solera-consensus --test golden`.

#[path = "../../machine/testing/golden.rs"]
mod golden;

use golden::judge;
use solera_consensus::{Batch, CastId, Held, Message, Part, Record, Run, Slot, Snapshot};
use solera_election::Ballot;
use solera_machine::codec;
use solera_time::SiteId;

type Body = u32;

/// Returns the name of an enum's variant, and its index, which encodes it. A new variant has no arm
/// here, and needs a sample.
type Place = (u8, &'static str);
const MESSAGES: u8 = 13;
const RECORDS: u8 = 5;
const PARTS: u8 = 2;

fn message_place(message: &Message<Body>) -> Place {
    let number = match message {
        Message::Accept { .. } => 0,
        Message::Accepted { .. } => 1,
        Message::Status { .. } => 2,
        Message::Report { .. } => 3,
        Message::Ask { .. } => 4,
        Message::Decided { .. } => 5,
        Message::Forgotten { .. } => 6,
        Message::Canvass { .. } => 7,
        Message::Support { .. } => 8,
        Message::NewBallot { .. } => 9,
        Message::Promise { .. } => 10,
        Message::Stale { .. } => 11,
        Message::TakeOver => 12,
    };
    (number, message.name())
}

fn record_place(record: &Record) -> Place {
    match record {
        Record::Promised(_) => (0, "Promised"),
        Record::Accepted { .. } => (1, "Accepted"),
        Record::Delivered { .. } => (2, "Delivered"),
        Record::Established(_) => (3, "Established"),
        Record::Installed(_) => (4, "Installed"),
    }
}

fn part_place(part: &Part) -> Place {
    match part {
        Part::Slots(_) => (0, "Slots"),
        Part::Rest { .. } => (1, "Rest"),
    }
}

// The numbers differ, and some need several bytes.

fn ballot() -> Ballot {
    Ballot { configuration: 3, round: 200, leader: SiteId(2) }
}

fn run() -> Run {
    Run { site: SiteId(1), number: 5 }
}

fn batch() -> Batch {
    [run().cast(300), CastId { site: SiteId(4), run: 6, number: 7 }].into()
}

fn messages() -> Vec<Message<Body>> {
    let (ballot, slot, batch) = (ballot(), Slot(400), batch());
    let held = [
        Held { slot, accepted: Some(ballot), batch: batch.clone() },
        Held { slot: Slot(401), accepted: None, batch: Batch::default() },
    ];
    vec![
        Message::Accept { ballot, slot, batch: batch.clone() },
        Message::Accepted { ballot, slot },
        Message::Status { ballot, decided: Slot(402), everywhere: Slot(8), established: true },
        Message::Report { ballot, delivered: Slot(403) },
        Message::Ask { after: Slot(404) },
        Message::Decided { slots: vec![(slot, batch)] },
        Message::Forgotten { upto: Slot(405) },
        Message::Canvass { ballot },
        Message::Support { ballot },
        Message::NewBallot { ballot, delivered: Slot(406), attempt: 9, part: 10 },
        Message::Promise {
            ballot,
            version: 11,
            part: 12,
            parts: 13,
            established: 14,
            slots: held.to_vec(),
            bodies: vec![500, 15],
        },
        Message::Stale { ballot },
        Message::TakeOver,
    ]
}

fn records() -> Vec<Record> {
    let (ballot, slot, batch) = (ballot(), Slot(400), batch());
    let snapshot = Snapshot {
        delivered: Slot(407),
        runs: vec![(run(), 301)],
        slots: vec![(slot, batch.clone())],
    };
    vec![
        Record::Promised(ballot),
        Record::Accepted { ballot, slot, batch: batch.clone() },
        Record::Delivered { slot, batch: None },
        Record::Delivered { slot, batch: Some(batch) },
        Record::Established(16),
        Record::Installed(snapshot),
    ]
}

fn parts() -> Vec<Part> {
    let (ballot, slot, batch) = (ballot(), Slot(400), batch());
    vec![
        Part::Slots(vec![
            Held { slot, accepted: Some(ballot), batch: batch.clone() },
            Held { slot: Slot(401), accepted: None, batch },
        ]),
        Part::Rest {
            promised: ballot,
            established: 17,
            forgotten: Slot(18),
            delivered: Slot(408),
            runs: vec![(run(), 302)],
        },
    ]
}

fn read<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    codec::take(bytes).filter(|(_, rest)| rest.is_empty()).map(|(value, _)| value)
}

#[test]
fn encodings_stay_the_same() {
    let variants = ("messages-1", MESSAGES);
    judge(variants, &messages(), message_place, codec::append, read);
    let variants = ("records-1", RECORDS);
    judge(variants, &records(), record_place, codec::append, read);
    let variants = ("parts-1", PARTS);
    judge(variants, &parts(), part_place, codec::append, read);
}

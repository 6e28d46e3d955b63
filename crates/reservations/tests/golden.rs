//! The encodings of messages, records, parts and claims stay the same within a version.
//!
//! `tests/golden` holds a sample of each variant, as bytes and with its meaning: bytes alone would
//! not reveal that two numbers have changed places. To change an encoding, raise its version in
//! `PROTOCOL`, or only add variants after the last ones, and accept the new files:
//! `REWRITE=1 cargo test -p solera-reservations --test golden`.

#[path = "../../machine/testing/golden.rs"]
mod golden;

use std::collections::BTreeMap;
use std::time::Duration;

use golden::judge;
use solera_machine::{PartitionId, PromiseId, Wire};
use solera_reservations::{
    Body, BoundKind, Change, Changed, Claim, Counted, Entry, Epoch, Expiry, Gift, Grant, Held,
    KeyPart, KeyRecord, Message, Need, Nonce, Owner, PROTOCOL, Part, PartitionPart, Pin, Placed,
    Position, Reader, Record, Removal, Sponsored, StatePart, TakeId, Tally, Term, Tokens, Version,
};
use solera_time::{SiteId, Timestamp, Vector};

const PARTITION: PartitionId = PartitionId(300);

/// Returns the name of an enum's variant, and its index, which encodes it. A new variant has no arm
/// here, and needs a sample.
type Place = (u8, &'static str);
const BODIES: u8 = 11;
const CHANGES: u8 = 12;
const RECORDS: u8 = 11;
const PARTS: u8 = 2;
const CLAIMS: u8 = 2;

fn body_place(body: &Body) -> Place {
    match body {
        Body::Report { .. } => (0, "report"),
        Body::Ask { .. } => (1, "ask"),
        Body::StateRequest { .. } => (2, "state request"),
        Body::State { .. } => (3, "state"),
        Body::OfferRequest => (4, "offer request"),
        Body::Offer { .. } => (5, "offer"),
        Body::Want { .. } => (6, "want"),
        Body::CountRequest { .. } => (7, "count request"),
        Body::Counted { .. } => (8, "counted"),
        Body::ExpiryRequest { .. } => (9, "expiry request"),
        Body::Expiry { .. } => (10, "expiry"),
    }
}

fn change_place(change: &Change) -> u8 {
    match change {
        Change::Renew { .. } => 0,
        Change::Exclude { .. } => 1,
        Change::Admit { .. } => 2,
        Change::Remove { .. } => 3,
        Change::Return { .. } => 4,
        Change::Close { .. } => 5,
        Change::Found { .. } => 6,
        Change::Grant { .. } => 7,
        Change::Reclaim { .. } => 8,
        Change::Propose { .. } => 9,
        Change::Raise { .. } => 10,
        Change::Lower { .. } => 11,
    }
}

fn record_place(record: &Record) -> Place {
    match record {
        Record::Started { .. } => (0, "Started"),
        Record::Stream { .. } => (1, "Stream"),
        Record::Changed { .. } => (2, "Changed"),
        Record::Promised(..) => (3, "Promised"),
        Record::Ended(_) => (4, "Ended"),
        Record::Stopped { .. } => (5, "Stopped"),
        Record::Pinned { .. } => (6, "Pinned"),
        Record::FilledKeys(_) => (7, "FilledKeys"),
        Record::Filled(_) => (8, "Filled"),
        Record::Continued(_) => (10, "Continued"),
        Record::Emptied(_) => (9, "Emptied"),
    }
}

fn part_place(part: &Part) -> Place {
    match part {
        Part::Rest { .. } => (0, "Rest"),
        Part::Keys(_) => (1, "Keys"),
    }
}

fn claim_place(claim: &Claim) -> Place {
    match claim {
        Claim::Tokens(_) => (0, "Tokens"),
        Claim::Take(_) => (1, "Take"),
    }
}

// The numbers differ, and some need several bytes.

fn key() -> Vec<u8> {
    b"key".to_vec()
}

fn seen() -> Vec<Position> {
    vec![Position(7), Position(300), Position(0)]
}

fn tokens() -> Tokens {
    Tokens { increments: 5, decrements: 200 }
}

fn nonce() -> Nonce {
    Nonce { process: 3, number: 201 }
}

fn changes() -> Vec<Change> {
    let (site, term, epoch) = (SiteId(1), Term(4), Epoch(6));
    vec![
        Change::Renew { site, term, nonce: nonce() },
        Change::Exclude { site, term },
        Change::Admit { site, term, since: seen(), sponsor: SiteId(2), nonce: nonce() },
        Change::Remove { site, generation: 2, upto: Position(301) },
        Change::Return { site, generation: 3 },
        Change::Close { readers: vec![SiteId(0), site] },
        Change::Found { readers: vec![site], since: seen() },
        Change::Grant { key: key(), site, epoch, tokens: tokens() },
        Change::Reclaim { key: key(), site, epoch },
        Change::Propose { key: key(), floor: 400 },
        Change::Raise { key: key() },
        Change::Lower { key: key(), floor: Some(-401) },
    ]
}

fn held() -> Held {
    Held { partition: PARTITION, key: key(), epoch: Epoch(6), tokens: tokens() }
}

fn pin() -> Pin {
    Pin { seen: seen(), term: Term(4), renewals: 202 }
}

fn rest() -> PartitionPart {
    let reader = Reader {
        term: Term(4),
        since: seen(),
        sponsor: SiteId(2),
        admitted: Version(130),
        renewals: 202,
    };
    let removal = Removal {
        generation: 2,
        upto: Position(301),
        version: Version(131),
        returned: Some(Version(132)),
    };
    PartitionPart {
        partition: PARTITION,
        known: seen(),
        version: Version(133),
        readers: vec![None, Some(reader), None],
        terms: vec![Term(1), Term(4), Term(0)],
        closed: Some(Version(134)),
        removed: BTreeMap::from([(SiteId(2), removal)]),
        changed: Changed {
            readers: Version(135),
            closed: Version(136),
            renewals: vec![Version(137), Version(0), Version(138)],
        },
        pin: Some(pin()),
        sponsored: vec![Sponsored { version: Version(139), site: SiteId(1), since: seen() }],
        filled: true,
        continues: false,
    }
}

fn key_part() -> KeyPart {
    let (site, epoch, version) = (SiteId(1), Epoch(6), Version(140));
    KeyPart {
        partition: PARTITION,
        key: key(),
        value: -70_000,
        ended: vec![(SiteId(2), Epoch(7), Position(302))],
        unseen: vec![(Position(303), tokens())],
        stopped: Epoch(8),
        floors: vec![(Version(141), None), (Version(142), Some(-402))],
        record: KeyRecord {
            grants: vec![Grant { site, epoch, tokens: tokens(), version }],
            floor: Some(403),
            raise: Some((404, Version(143))),
            epochs: BTreeMap::from([(site, Epoch(9))]),
            changed: Version(144),
        },
        tally: tally(),
        pasts: vec![(314, past())].into(),
    }
}

fn owner(site: u8) -> Owner {
    Owner { site: SiteId(site), generation: 3 }
}

fn past() -> Vector {
    Vector::zero(3).with(SiteId(2), Timestamp(312))
}

fn tally() -> Tally {
    let (given, received) = ([(owner(1), 307)].into(), [(owner(2), 308)].into());
    Tally { created: 309, spent: 310, given, received }
}

fn bodies() -> Vec<Body> {
    let state = |part| Body::State { transfer: nonce(), place: 1, of: 150, part };
    let ask = |need| Body::Ask { key: key(), need };
    vec![
        Body::Report { version: Version(133), seen: seen(), ended: None, used: false },
        Body::Report {
            version: Version(133),
            seen: seen(),
            ended: Some((Version(134), Position(304))),
            used: true,
        },
        ask(Need::Reports),
        ask(Need::Narrow),
        ask(Need::Room),
        Body::StateRequest { transfer: nonce(), place: 151 },
        state(StatePart::Rest(Box::new(rest()))),
        state(StatePart::Keys(vec![key_part()])),
        Body::OfferRequest,
        Body::Offer { term: Term(4), renewals: 202, seen: seen() },
        Body::Want { key: key(), to: owner(2), amount: 5, has: 203, waits: 204, received: 205 },
        Body::CountRequest { key: key(), nonce: nonce() },
        Body::Counted {
            key: key(),
            nonce: nonce(),
            counted: Counted { tally: tally(), open: tokens() },
            seen: seen(),
            stages: vec![4, 206],
        },
        Body::ExpiryRequest { key: key(), nonce: nonce() },
        Body::Expiry {
            key: key(),
            nonce: nonce(),
            expiry: Expiry { lease: Some(Duration::from_millis(207)), unused: None },
        },
    ]
}

fn records() -> Vec<Record> {
    let id = PromiseId { coordinator: 2, sequence: 500 };
    let placed = |position, entry| Placed { position: Position(position), key: key(), entry };
    let mut records = vec![
        Record::Started { incarnation: 3, prefixes: prefixes() },
        Record::Stream {
            partition: PARTITION,
            origin: SiteId(1),
            entries: vec![
                placed(305, Entry::Update(-129)),
                placed(306, Entry::Ended(Epoch(6))),
                placed(
                    307,
                    Entry::Given(Gift { from: owner(1), to: owner(2), amount: 311 }, past().into()),
                ),
                placed(307, Entry::Created(313, past().into())),
                placed(308, Entry::Resized(Tokens { increments: 317, decrements: 131 }, 331)),
            ],
            upto: Position(307),
        },
        Record::Promised(id, vec![held()]),
        Record::Ended(id),
        Record::Stopped { partition: PARTITION, key: key(), epoch: Epoch(6) },
        Record::Pinned { partition: PARTITION, pin: pin() },
        Record::FilledKeys(vec![key_part()]),
        Record::Filled(Box::new(rest())),
        Record::Emptied(PARTITION),
        Record::Continued(PARTITION),
    ];
    let (version, read) = (Version(133), Version(129));
    let changed = |change| Record::Changed { partition: PARTITION, version, read, change };
    records.extend(changes().into_iter().map(changed));
    records
}

fn parts() -> Vec<Part> {
    let id = PromiseId { coordinator: 2, sequence: 500 };
    vec![
        Part::Rest {
            incarnation: 3,
            prefixes: prefixes(),
            partitions: vec![rest()],
            promises: vec![(id, vec![held()])],
        },
        Part::Keys(vec![key_part()]),
    ]
}

fn prefixes() -> Vec<(Vec<u8>, BoundKind)> {
    vec![(b"tickets:".to_vec(), BoundKind::Rights), (b"views:".to_vec(), BoundKind::Error)]
}

fn claims() -> Vec<Claim> {
    vec![Claim::Tokens(tokens()), Claim::Take(TakeId(nonce()))]
}

fn whole(bytes: &[u8]) -> Option<Message> {
    let (message, rest) = Message::decode(PROTOCOL, bytes)?;
    rest.is_empty().then_some(message)
}

#[test]
fn messages_are_encoded_as_ever() {
    let message = |body| Message { partition: PARTITION, body };
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
    assert!(changes().iter().map(change_place).eq(0..CHANGES));
}

#[test]
fn parts_are_encoded_as_ever() {
    let decode = |bytes: &[u8]| Part::decode(bytes).ok();
    judge(("parts-1", PARTS), &parts(), part_place, Part::encode, decode);
}

#[test]
fn claims_are_encoded_as_ever() {
    let encode = |claim: &Claim, bytes: &mut Vec<u8>| bytes.extend(claim.encode());
    judge(("claims-1", CLAIMS), &claims(), claim_place, encode, Claim::decode);
    for claim in claims() {
        let bytes = claim.encode();
        assert!(Claim::decode(&[&bytes[..], &[0]].concat()).is_none(), "there is a byte too many");
        assert!(Claim::decode(&bytes[..bytes.len() - 1]).is_none(), "a byte is missing");
    }
    // 5 in two bytes.
    assert!(Claim::decode(&[0, 0x85, 0, 6]).is_none());
    assert!(Claim::decode(&[0, 5, 6]).is_some());
}

/// An index after the last variant is rejected: if there is such a variant, it needs a sample.
#[test]
fn there_are_no_other_variants() {
    let mut bytes = Vec::new();
    Message { partition: PartitionId(0), body: Body::OfferRequest }.encode(&mut bytes);
    let place = bytes.len() - 1;
    assert_eq!(bytes[place], body_place(&Body::OfferRequest).0);
    let header = PROTOCOL.record_header();
    for content in [&[0_u8; 40][..], &[1; 40], &[0, 1, 0, 1]] {
        // Too many bytes are rejected, and so are too few: all lengths are tried.
        for length in 0..content.len() {
            let message = [&bytes[..place], &[BODIES], &content[..length]].concat();
            let record = [&header[..], &[RECORDS], &content[..length]].concat();
            let part = [&header[..], &[PARTS], &content[..length]].concat();
            let claim = [&[CLAIMS], &content[..length]].concat();
            assert!(whole(&message).is_none(), "a message {length}");
            assert!(Record::decode(&record).is_err(), "a record {length}");
            assert!(Part::decode(&part).is_err(), "a part {length}");
            assert!(Claim::decode(&claim).is_none(), "a claim {length}");
        }
    }
}

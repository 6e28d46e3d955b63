//! The encodings of messages, records and parts stay the same within a version.
//!
//! `tests/golden` holds a sample of each variant, as bytes and with its meaning: bytes alone would
//! not reveal that two numbers have changed places. To change an encoding, raise its version in
//! `PROTOCOL`, or only add variants after the last ones, and accept the new files:
//! `REWRITE=1 cargo test -p solera-creek --test golden`.

#[path = "../../machine/testing/golden.rs"]
mod golden;

use std::sync::Arc;

use golden::judge;
use solera_consensus::{CastId, Message as Agreement, Part as AgreementPart, Slot, Snapshot};
use solera_creek::{
    Closed, Context, Digest, Encoded, Final, Message, OperationId, PROTOCOL, Part, Piece, Record,
    Request, Rest, StreamId, Transfer,
};
use solera_machine::Wire;
use solera_time::{SiteId, Timestamp};

type Operation = String;

/// Returns the name of an enum's variant, and its index, which encodes it. A new variant has no arm
/// here, and needs a sample.
type Place = (u8, &'static str);
const MESSAGES: u8 = 11;
const RECORDS: u8 = 6;
const PARTS: u8 = 9;

fn message_place(message: &Message<Operation>) -> Place {
    match message {
        Message::Operations { .. } => (0, "operations"),
        Message::Heads { .. } => (1, "heads"),
        Message::Missing { .. } => (2, "missing"),
        Message::Consensus(_) => (3, "consensus"),
        Message::Digest { .. } => (4, "digest"),
        Message::Left { .. } => (5, "left"),
        Message::Join { .. } => (6, "join"),
        Message::Admitted { .. } => (7, "admitted"),
        Message::Fetch { .. } => (8, "fetch"),
        Message::Piece(_) => (9, "piece"),
        Message::Size { .. } => (10, "size"),
    }
}

fn record_place(record: &Record<Operation>) -> Place {
    match record {
        Record::Started { .. } => (0, "Started"),
        Record::Operation(_) => (1, "Operation"),
        Record::Consensus(_) => (2, "Consensus"),
        Record::Fetched(_) => (3, "Fetched"),
        Record::Filled => (4, "Filled"),
        Record::Closed(_) => (5, "Closed"),
    }
}

fn part_place(part: &Part<Operation, u64, String>) -> Place {
    match part {
        Part::Rest(_) => (0, "Rest"),
        Part::Registers(_) => (1, "Registers"),
        Part::Kept(_) => (2, "Kept"),
        Part::Committed(_) => (3, "Committed"),
        Part::Consensus(_) => (4, "Consensus"),
        Part::History(_) => (5, "History"),
        Part::Delivered(_) => (6, "Delivered"),
        Part::Filled => (7, "Filled"),
        Part::Closed(_) => (8, "Closed"),
    }
}

const TRANSFER: Transfer = Transfer { run: 1 << 33, number: 2 };
const STREAM: StreamId = StreamId { site: SiteId(2), run: 300 };

fn context() -> Context {
    let mut context = Context::default();
    context.insert_range(STREAM, 1, 7);
    context.insert_range(STREAM, 9, 400);
    context.insert(OperationId { site: SiteId(0), run: 1, event: 5 });
    context
}

fn weak() -> Arc<Request<Operation>> {
    let operation = Some("add 1".to_owned());
    let (id, timestamp, context) = (STREAM.at(8), Timestamp(1 << 40), Context::default());
    Arc::new(Request { id, timestamp, operation, context, cast: None, previous: None })
}

fn strong() -> Arc<Request<Operation>> {
    let context = context();
    let (id, timestamp) = (STREAM.at(401), Timestamp(1 << 41));
    Arc::new(Request { id, timestamp, operation: None, context, cast: Some(3), previous: None })
}

fn closed() -> Closed {
    Closed { generations: vec![(SiteId(2), 1)], lost: vec![STREAM.at(9)] }
}

#[test]
fn messages_keep_their_encoding() {
    let samples = [
        Message::Operations { requests: vec![weak(), strong()], more: true },
        Message::Heads { heads: vec![(STREAM, 401)], answer: true },
        Message::Missing { stream: STREAM, after: 12 },
        Message::Consensus(Agreement::Decided {
            slots: vec![(Slot(9), [CastId { site: SiteId(2), run: 300, number: 3 }].into())],
        }),
        Message::Digest { position: 400, digest: Digest(1 << 60), answer: true },
        Message::Left { stages: vec![0, 0, 5], heads: vec![(STREAM, 401)], answer: true },
        Message::Join { stage: 7 },
        Message::Admitted { stage: 7 },
        Message::Fetch { transfer: TRANSFER, piece: 3 },
        Message::Piece(Piece {
            transfer: TRANSFER,
            snapshot: Transfer { run: 7, number: 1 },
            piece: 3,
            parts: vec![Encoded(vec![5, 1]), Encoded(vec![])],
            last: true,
        }),
        Message::Size { transfer: TRANSFER, bytes: 1 << 30 },
    ];
    judge(
        (&format!("messages-{}", PROTOCOL.messages), MESSAGES),
        &samples,
        message_place,
        Message::encode,
        |bytes| {
            let (message, rest) = Message::decode(PROTOCOL, bytes)?;
            rest.is_empty().then_some(message)
        },
    );
}

#[test]
fn records_keep_their_encoding() {
    let samples = [
        Record::Started { run: 300 },
        Record::Operation(strong()),
        Record::Consensus(solera_consensus::Record::Established(2)),
        Record::Fetched(Encoded(vec![5, 1, 2])),
        Record::Filled,
        Record::Closed(closed()),
    ];
    judge(
        (&format!("records-{}", PROTOCOL.records), RECORDS),
        &samples,
        record_place,
        |record, bytes| PROTOCOL.append_record(record, bytes),
        |bytes| Record::decode(bytes).ok(),
    );
}

#[test]
fn parts_keep_their_encoding() {
    let rest = Rest {
        run: 300,
        clock: Timestamp(1 << 42),
        removed: vec![(STREAM, 6)],
        causal: context(),
        weak: Context::from_iter([STREAM.at(9)]),
        casts: vec![(STREAM, 2)],
        finals: 1_000,
        digest: Digest(0x0123_4567_89ab_cdef),
    };
    let history = Final {
        position: 999,
        request: strong(),
        response: Some(Arc::new("5".to_owned())),
        digest: Digest(7),
    };
    let samples = [
        Part::Rest(Box::new(rest)),
        Part::Registers(vec![(b"stock".to_vec(), 42)]),
        Part::Kept(vec![weak()]),
        Part::Committed(vec![strong()]),
        Part::Consensus(AgreementPart::Slots(Vec::new())),
        Part::History(vec![history]),
        Part::Delivered(Snapshot { delivered: Slot(9), ..Snapshot::default() }),
        Part::Filled,
        Part::Closed(closed()),
    ];
    judge(
        (&format!("parts-{}", PROTOCOL.records), PARTS),
        &samples,
        part_place,
        |part, bytes| PROTOCOL.append_record(part, bytes),
        |bytes| Part::decode(bytes).ok(),
    );
}

//! Batches of UniStore's messages, as nodes encode and decode them.

use std::sync::Arc;

use solera_data::{CellChange, Dot, Effect, Key, OpError, Outcome, Value};
use solera_links::{Delivery, Sizes, WireError, decode_batch, encode_batch};
use solera_machine::{Address, Foreign, PartitionId, Protocol, RequestId, Topology};
use solera_time::{Origin, SiteId, Timestamp, Vector};
use solera_unistore::{LogRange, Message, PROTOCOL, Pasts, Response, TxId, Update, Write};

const TOPOLOGY: fn() -> Topology = || Topology { partitions: 1, workers: vec![1, 1] };
/// Length of the two workers' numbers, the protocol and its version.
const HEADER: usize = 2 + Protocol::HEADER_BYTES;

fn encode(messages: Vec<Message>) -> Vec<Vec<u8>> {
    let bodies = encode_batch(Sizes::default(), at(0), at(1), messages);
    bodies.into_iter().map(|body| body.bytes).collect()
}

fn at(site: u8) -> Address {
    Address { site: SiteId(site), worker: 0 }
}

fn update(ts: u64, size: usize) -> Arc<Update> {
    let value = Value::from(vec![b'x'; size]);
    let cell = CellChange { assign: Some(value), add: None };
    let effect = Effect { cell, ..Effect::default() };
    let dot = Dot::of(SiteId(0), Timestamp(ts));
    let writes = vec![Write { key: Key::from("k"), effect }];
    Arc::new(Update { dot, snap_vec: Vector::zero(2), writes, eventual: false })
}

fn replicate(known: u64, updates: Vec<Arc<Update>>) -> Message {
    Message::Replicate(vec![LogRange {
        partition: PartitionId(0),
        origin: Origin::Site(SiteId(0)),
        prev: Timestamp(0),
        known: Timestamp(known),
        updates,
    }])
}

fn decode(body: &[u8]) -> Result<Delivery<Message>, WireError> {
    decode_batch(body, SiteId(0), SiteId(1), &TOPOLOGY())
}

#[test]
fn malformed_batches_are_refused() {
    let good = encode(vec![replicate(9, vec![update(1, 10)])]).remove(0);
    let tx = TxId { coordinator: 0, sequence: 1 };
    let abort = encode(vec![Message::Abort { tx }]).remove(0);
    let with = |at: usize, byte: u8| {
        let mut body = good.clone();
        body[at] = byte;
        body
    };
    let mut endless = good.clone();
    // The number of ranges: the greatest that the encoding permits.
    endless.splice(
        HEADER + 1..HEADER + 2,
        [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    );
    for (body, error) in [
        (vec![], WireError::Content),
        (vec![0], WireError::Content),
        (vec![0, 0, 1, 2, 200], WireError::Content),
        (vec![0, 0, 1], WireError::Foreign(Foreign::Short)),
        (with(2, 9), WireError::Foreign(Foreign::Protocol { found: 9, known: &[PROTOCOL] })),
        (
            with(3, 9),
            WireError::Foreign(Foreign::Version { found: 9, expected: 2, protocol: PROTOCOL }),
        ),
        (good[..good.len() - 1].to_vec(), WireError::Content),
        (endless, WireError::Content),
        ([&[1, 0], &good[2..]].concat(), WireError::Misplaced),
        ([&[0, 1], &good[2..]].concat(), WireError::Misplaced),
        (abort, WireError::Misplaced),
    ] {
        assert_eq!(decode(&body).unwrap_err(), error, "{body:?}");
    }
    // Decoding ends without a panic, whatever the bytes.
    for at in 0..good.len() {
        for byte in 0..=255 {
            let mut changed = good.clone();
            changed[at] = byte;
            let _ = decode(&changed);
        }
    }
}

#[test]
fn long_ranges_are_cut_where_the_receiver_can_go_on() {
    let updates: Vec<_> = (1..=40).map(|ts| update(ts, 100_000)).collect();
    let longest = Sizes::default().piece;
    let bodies = encode(vec![replicate(99, updates.clone())]);
    assert!(bodies.len() > 3 && bodies.iter().all(|body| body.len() <= longest + HEADER));
    let mut reached = Timestamp(0);
    let mut read = Vec::new();
    for body in bodies {
        for message in decode(&body).unwrap().messages {
            let Message::Replicate(ranges) = message else { panic!("another message") };
            for range in ranges {
                assert_eq!(range.prev, reached);
                reached = range.known;
                read.extend(range.updates);
            }
        }
    }
    assert_eq!((read, reached), (updates, Timestamp(99)));
}

#[test]
fn a_reply_that_is_too_long_says_so() {
    let outcome = |size| Ok(Outcome::Bulk(Value::from(vec![b'x'; size])));
    let reply = |outcome| Message::ExecuteReply {
        request: RequestId(1),
        response: Response::Executed { outcome, pasts: Pasts::none(2) },
    };
    let short = Sizes { longest: 1000, ..Sizes::default() };
    for (size, delivered) in [(100, outcome(100)), (2000, Err(OpError::TooLarge))] {
        let bodies = encode_batch(short, at(1), at(1), vec![reply(outcome(size))]);
        let delivery =
            decode_batch::<Message>(&bodies[0].bytes, SiteId(1), SiteId(1), &TOPOLOGY()).unwrap();
        assert_eq!(delivery.messages, [reply(delivered)]);
    }
}

#[test]
fn a_single_long_value_is_sent_whole() {
    let message = replicate(9, vec![update(1, 3 * Sizes::default().piece)]);
    let tx = TxId { coordinator: 0, sequence: 1 };
    let bodies = encode(vec![message.clone(), Message::Abort { tx }]);
    assert_eq!(bodies.len(), 2);
    assert_eq!(decode(&bodies[0]).unwrap().messages, [message]);
}

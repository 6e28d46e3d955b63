//! The bytes between nodes: frames, and the batches of messages in them.
//!
//! `docs/formats/wire.md` draws the bytes.

use std::fmt;

use postcard::ser_flavors::Size;
use serde::{Deserialize, Serialize};
use solera_machine::{Foreign, Protocol, Wire};
use solera_time::SiteId;
use solera_unistore::{Address, AtRisk, Change, Message, Topology};

use crate::handshake::{Greeting, HEAD};
use crate::membership::SitesTold;
use crate::scan;
use crate::status::WorkerSample;

/// Length, checksum, kind and number.
const HEADER: usize = 4 + 4 + 1 + 8;
/// The two workers' numbers, the protocol and its version, before the messages of a batch.
const BATCH_HEADER: usize = 2 + Protocol::HEADER_BYTES;
/// The longest frame that is read. The largest value a client can send fits.
const MAX_FRAME: usize = 1 << 30;
/// The longest answer to a question. Answers are for people.
const MAX_ANSWER: usize = 64 << 20;
/// Batches are cut into frames of about this size, so that no message waits behind a very long one.
const PIECE: usize = 1 << 20;

/// What a frame carries. The first three go to the node that was called, the others back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Messages between workers; numbered.
    Messages = 1,
    /// The number is the sender's clock, in microseconds since 1970.
    Ping = 2,
    /// A [`Question`]; the number is to come back with the answer.
    Ask = 3,
    /// All numbered frames up to this one have arrived.
    Ack = 4,
    /// An [`Answer`].
    Answer = 5,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        let all = [Kind::Messages, Kind::Ping, Kind::Ask, Kind::Ack, Kind::Answer];
        all.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// One frame, without its length and checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) kind: Kind,
    pub(crate) number: u64,
    pub(crate) body: &'a [u8],
}

/// Bytes that no peer of this version sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WireError {
    /// Shorter than a header, or longer than any frame.
    Length(u32),
    /// The checksum is of other bytes.
    Damaged,
    /// A kind of frame that does not exist, or that does not travel this way.
    Kind(u8),
    /// The content is not what the frame's kind says.
    Content,
    /// Messages of a protocol or version that this node does not run.
    Foreign(Foreign),
    /// Messages that cannot be from where they say, or are not for this node.
    Misplaced,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::Length(length) => write!(f, "a frame of {length} bytes"),
            WireError::Damaged => write!(f, "a frame that was damaged on its way"),
            WireError::Kind(kind) => write!(f, "a frame of kind {kind}, which has no place here"),
            WireError::Content => write!(f, "a frame whose content cannot be read"),
            WireError::Foreign(foreign) => write!(f, "messages that cannot be read: {foreign}"),
            WireError::Misplaced => write!(f, "messages that do not fit this cluster"),
        }
    }
}

impl std::error::Error for WireError {}

/// Appends a frame.
///
/// # Panics
/// If the body is longer than any frame; [`encode_batch`] and [`encode_answer`] do not make such bodies.
pub(crate) fn write_frame(out: &mut Vec<u8>, frame: Frame<'_>) {
    let length = frame.body.len() + HEADER - 8;
    assert!(length <= MAX_FRAME, "frames are cut before");
    out.extend_from_slice(&(length as u32).to_be_bytes());
    let mut head = [0; 9];
    head[0] = frame.kind as u8;
    head[1..].copy_from_slice(&frame.number.to_be_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&head), frame.body);
    out.extend_from_slice(&checksum.to_be_bytes());
    out.extend_from_slice(&head);
    out.extend_from_slice(frame.body);
}

/// The first frame of `bytes` and its length there; `None` while it is not complete.
///
/// # Errors
/// No frame begins like this. Nothing after it can be trusted.
pub(crate) fn read_frame(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>, WireError> {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_be_bytes(*length);
    if !(9..=MAX_FRAME).contains(&(length as usize)) {
        return Err(WireError::Length(length));
    }
    let Some((checksum, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
    let Some(content) = rest.get(..length as usize) else { return Ok(None) };
    if crc32c::crc32c(content) != u32::from_be_bytes(*checksum) {
        return Err(WireError::Damaged);
    }
    let (head, body) = content.split_at(9);
    let kind = Kind::of(head[0]).ok_or(WireError::Kind(head[0]))?;
    let number = head[1..].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    Ok(Some((Frame { kind, number, body }, HEADER + body.len())))
}

/// The body of a frame that carries an answer. One that is too long becomes [`Answer::Nothing`].
pub(crate) fn encode_answer(answer: &Answer) -> Vec<u8> {
    let size = postcard::serialize_with_flavor(answer, Size::default());
    let size = size.expect("answers have a serialised form");
    let answer = if size <= MAX_ANSWER { answer } else { &Answer::Nothing };
    postcard::to_stdvec(answer).expect("answers have a serialised form")
}

/// The bodies of frames that carry messages from one worker to another, in order. An answer that is
/// too long for any frame becomes one that says so; nothing else gets so long.
pub(crate) fn encode_batch(from: Address, to: Address, messages: Vec<Message>) -> Vec<Vec<u8>> {
    encode_within(MAX_FRAME - HEADER, from, to, messages)
}

fn encode_within(
    longest: usize,
    from: Address,
    to: Address,
    messages: Vec<Message>,
) -> Vec<Vec<u8>> {
    let [protocol, version] = Message::PROTOCOL.message_header();
    let head = [from.worker, to.worker, protocol, version];
    let mut batch = Batch { longest, head, bodies: Vec::new(), body: Vec::new() };
    for message in messages {
        batch.add(message);
    }
    batch.end_body();
    batch.bodies
}

struct Batch {
    longest: usize,
    head: [u8; BATCH_HEADER],
    bodies: Vec<Vec<u8>>,
    body: Vec<u8>,
}

impl Batch {
    fn add(&mut self, mut message: Message) {
        let size = message.encoded_bytes();
        if size > PIECE
            && let Some(second) = message.split()
        {
            self.add(message);
            self.add(second);
        } else if size <= self.longest {
            self.append(&message, size);
        } else if let Some(short) = message.too_large() {
            self.add(short);
        }
    }

    fn append(&mut self, message: &Message, size: usize) {
        if self.body.len() + size > PIECE {
            self.end_body();
        }
        if self.body.is_empty() {
            self.body.reserve(size + self.head.len());
            self.body.extend_from_slice(&self.head);
        }
        message.encode(&mut self.body);
    }

    fn end_body(&mut self) {
        if !self.body.is_empty() {
            self.bodies.push(std::mem::take(&mut self.body));
        }
    }
}

/// A batch that has arrived.
#[derive(Debug, PartialEq)]
pub(crate) struct Delivery {
    pub(crate) from: Address,
    pub(crate) to: Address,
    pub(crate) messages: Vec<Message>,
}

/// Reads a batch that a node of site `there` sent to this one, at site `here`.
///
/// # Errors
/// The content cannot be read, or is nothing that a replica of this cluster sends to `to`.
pub(crate) fn decode_batch(
    body: &[u8],
    there: SiteId,
    here: SiteId,
    topology: &Topology,
) -> Result<Delivery, WireError> {
    let ([from, to], rest) = body.split_first_chunk::<2>().ok_or(WireError::Content)?;
    let mut rest = Message::PROTOCOL.read_messages(rest).map_err(WireError::Foreign)?;
    let from = Address { site: there, worker: *from };
    let to = Address { site: here, worker: *to };
    let mut messages = Vec::new();
    while !rest.is_empty() {
        let (message, left) = Message::decode(rest).ok_or(WireError::Content)?;
        if !message.fits(from, to, topology) {
            return Err(WireError::Misplaced);
        }
        messages.push(message);
        rest = left;
    }
    Ok(Delivery { from, to, messages })
}

/// Reads bytes as a peer's greeting, as its frames, and as a batch of its messages, for fuzzing:
/// whatever they are, it returns.
#[doc(hidden)]
pub fn read_as_peer(bytes: &[u8]) {
    if let Some((head, body)) = bytes.split_first_chunk::<HEAD>()
        && Greeting::body_length(head).is_ok()
    {
        let _ = Greeting::decode(head, body);
    }
    let mut rest = bytes;
    while let Ok(Some((frame, length))) = read_frame(rest) {
        let _ = postcard::from_bytes::<Question>(frame.body);
        let _ = postcard::from_bytes::<Answer>(frame.body);
        rest = &rest[length..];
    }
    let topology = Topology { partitions: 3, workers: vec![2, 1] };
    for there in SiteId::all(2) {
        let _ = decode_batch(bytes, there, SiteId(0), &topology);
    }
}

/// What a node asks another of its site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Question {
    /// What a worker tells about itself; whether in detail.
    Sample { worker: u8, detailed: bool },
    /// How many keys a worker has.
    CountKeys { worker: u8 },
    /// What the loss of sites could still undo at a worker, with at most so many keys.
    AtRisk { worker: u8, keys: u64 },
    /// The next page of a partition that a worker has.
    Scan { worker: u8, ask: Box<scan::Ask> },
    /// What the root knows of the sites, after it has changed what is asked for.
    Sites { change: Option<(SiteId, Change)> },
}

/// The answer to a [`Question`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Answer {
    Sample(Box<WorkerSample>),
    Keys(u64),
    AtRisk(AtRisk),
    /// Nothing where the worker cannot tell yet.
    Scan(Option<scan::Page>),
    Sites(Box<SitesTold>),
    /// There is no such worker, or it is stopping.
    Nothing,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use solera_data::{CellChange, Dot, Effect, Key, OpError, Outcome, Value};
    use solera_time::{Timestamp, Vector};
    use solera_unistore::{
        PROTOCOL, PartitionId, Pasts, RequestId, Response, Stretch, TxId, Update, Write,
    };

    use super::*;

    const TOPOLOGY: fn() -> Topology = || Topology { partitions: 1, workers: vec![1, 1] };

    fn at(site: u8) -> Address {
        Address { site: SiteId(site), worker: 0 }
    }

    fn update(ts: u64, size: usize) -> Arc<Update> {
        let value = Value::from(vec![b'x'; size]);
        let cell = CellChange { assign: Some(value), add: None };
        let effect = Effect { cell, ..Effect::default() };
        let dot = Dot { ts: Timestamp(ts), site: SiteId(0) };
        let writes = vec![Write { key: Key::from("k"), effect }];
        Arc::new(Update { dot, snap_vec: Vector::zero(2), writes, eventual: false })
    }

    fn replicate(known: u64, updates: Vec<Arc<Update>>) -> Message {
        Message::Replicate(vec![Stretch {
            partition: PartitionId(0),
            origin: SiteId(0),
            prev: Timestamp(0),
            known: Timestamp(known),
            updates,
        }])
    }

    fn decode(body: &[u8]) -> Result<Delivery, WireError> {
        decode_batch(body, SiteId(0), SiteId(1), &TOPOLOGY())
    }

    fn frame() -> Vec<u8> {
        let mut bytes = Vec::new();
        let body = encode_batch(at(0), at(1), vec![replicate(9, vec![update(1, 10)])]).remove(0);
        write_frame(&mut bytes, Frame { kind: Kind::Messages, number: 7, body: &body });
        bytes
    }

    #[test]
    fn a_frame_is_read_back() {
        let bytes = frame();
        let (read, length) = read_frame(&bytes).unwrap().unwrap();
        assert_eq!((read.kind, read.number, length), (Kind::Messages, 7, bytes.len()));
        let delivery = decode(read.body).unwrap();
        assert_eq!(delivery.messages, [replicate(9, vec![update(1, 10)])]);
        for cut in 0..bytes.len() {
            assert_eq!(read_frame(&bytes[..cut]), Ok(None), "cut at {cut}");
        }
    }

    #[test]
    fn malformed_frames_are_refused() {
        let good = frame();
        let with = |at: usize, bytes: &[u8]| {
            let mut frame = good.clone();
            frame[at..at + bytes.len()].copy_from_slice(bytes);
            frame
        };
        let mut odd = Vec::new();
        write_frame(&mut odd, Frame { kind: Kind::Ack, number: 0, body: &[] });
        odd[8] = 9;
        let checksum = crc32c::crc32c(&odd[8..]);
        odd[4..8].copy_from_slice(&checksum.to_be_bytes());
        for (bytes, error) in [
            (with(0, &[0; 4]), WireError::Length(0)),
            (with(0, &[0, 0, 0, 8]), WireError::Length(8)),
            (with(0, &[0xff; 4]), WireError::Length(u32::MAX)),
            (with(0, &[0x40, 0, 0, 1]), WireError::Length(MAX_FRAME as u32 + 1)),
            (with(4, &[0; 4]), WireError::Damaged),
            (with(8, &[4]), WireError::Damaged),
            (with(16, &[8]), WireError::Damaged),
            (with(good.len() - 1, &[1]), WireError::Damaged),
            (odd, WireError::Kind(9)),
        ] {
            assert_eq!(read_frame(&bytes), Err(error), "{bytes:?}");
        }
    }

    #[test]
    fn malformed_batches_are_refused() {
        let good = encode_batch(at(0), at(1), vec![replicate(9, vec![update(1, 10)])]).remove(0);
        let tx = TxId { coordinator: 0, sequence: 1 };
        let abort = encode_batch(at(0), at(1), vec![Message::Abort { tx }]).remove(0);
        let with = |at: usize, byte: u8| {
            let mut body = good.clone();
            body[at] = byte;
            body
        };
        let mut endless = good.clone();
        // The number of stretches: as many as a number can say.
        endless.splice(
            BATCH_HEADER + 1..BATCH_HEADER + 2,
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        );
        for (body, error) in [
            (vec![], WireError::Content),
            (vec![0], WireError::Content),
            (vec![0, 0, 1, 1, 200], WireError::Content),
            (vec![0, 0, 1], WireError::Foreign(Foreign::Short)),
            (with(2, 9), WireError::Foreign(Foreign::Protocol { found: 9, expected: PROTOCOL })),
            (
                with(3, 9),
                WireError::Foreign(Foreign::Version { found: 9, expected: 1, protocol: PROTOCOL }),
            ),
            (good[..good.len() - 1].to_vec(), WireError::Content),
            (endless, WireError::Content),
            ([&[1, 0], &good[2..]].concat(), WireError::Misplaced),
            ([&[0, 1], &good[2..]].concat(), WireError::Misplaced),
            (abort, WireError::Misplaced),
        ] {
            assert_eq!(decode(&body).unwrap_err(), error, "{body:?}");
        }
        // Whatever the bytes, reading ends without a panic.
        for at in 0..good.len() {
            for byte in 0..=255 {
                let mut changed = good.clone();
                changed[at] = byte;
                let _ = decode(&changed);
            }
        }
    }

    #[test]
    fn long_stretches_are_cut_where_the_receiver_can_go_on() {
        let updates: Vec<_> = (1..=40).map(|ts| update(ts, 100_000)).collect();
        let bodies = encode_batch(at(0), at(1), vec![replicate(99, updates.clone())]);
        assert!(bodies.len() > 3 && bodies.iter().all(|body| body.len() <= PIECE + BATCH_HEADER));
        let mut reached = Timestamp(0);
        let mut read = Vec::new();
        for body in bodies {
            for message in decode(&body).unwrap().messages {
                let Message::Replicate(stretches) = message else { panic!("another message") };
                for stretch in stretches {
                    assert_eq!(stretch.prev, reached);
                    reached = stretch.known;
                    read.extend(stretch.updates);
                }
            }
        }
        assert_eq!((read, reached), (updates, Timestamp(99)));
    }

    #[test]
    fn an_answer_that_is_too_long_says_so() {
        let outcome = |size| Ok(Outcome::Bulk(Value::from(vec![b'x'; size])));
        let reply = |outcome| Message::ExecuteReply {
            request: RequestId(1),
            response: Response::Executed { outcome, pasts: Pasts::none(2) },
        };
        for (size, told) in [(100, outcome(100)), (2000, Err(OpError::TooLarge))] {
            let bodies = encode_within(1000, at(1), at(1), vec![reply(outcome(size))]);
            let delivery = decode_batch(&bodies[0], SiteId(1), SiteId(1), &TOPOLOGY()).unwrap();
            assert_eq!(delivery.messages, [reply(told)]);
        }
        for (size, nothing) in [(10, false), (MAX_ANSWER, true)] {
            let keys = vec![Key::from(vec![b'x'; size].as_slice())];
            let answer = Answer::AtRisk(AtRisk { transactions: 1, keys });
            let read: Answer = postcard::from_bytes(&encode_answer(&answer)).unwrap();
            assert_eq!(read == Answer::Nothing, nothing);
        }
    }

    #[test]
    fn a_single_long_value_is_sent_whole() {
        let message = replicate(9, vec![update(1, 3 * PIECE)]);
        let tx = TxId { coordinator: 0, sequence: 1 };
        let bodies = encode_batch(at(0), at(1), vec![message.clone(), Message::Abort { tx }]);
        assert_eq!(bodies.len(), 2);
        assert_eq!(decode(&bodies[0]).unwrap().messages, [message]);
    }
}

//! Batches of messages in the bodies of frames.
//!
//! `docs/formats/wire.md` shows the format.

use solera_machine::{Address, Lane, Protocol, Wire};
use solera_time::SiteId;

use crate::frame::{HEADER, MAX_FRAME, WireError};

/// Length of the two workers' numbers, the protocol and its version, which precede the messages of
/// a batch.
const BATCH_HEADER: usize = 2 + Protocol::HEADER_BYTES;

/// Limits of the bodies of frames with messages, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Approximate size of a body. Longer batches are divided into several bodies, so that no
    /// message waits behind a very long one.
    pub piece: usize,
    /// Longest message.
    pub longest: usize,
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes { piece: 1 << 20, longest: MAX_FRAME - HEADER }
    }
}

/// The body of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// Lane of its messages.
    pub lane: Lane,
    /// Number of their protocol.
    pub protocol: u8,
    /// Content.
    pub bytes: Vec<u8>,
}

/// Returns the bodies of frames that carry messages from one worker to another, in order. An answer
/// that is too long for any frame is replaced with one that reports this. Other messages never get
/// so long.
pub fn encode_batch<M: Wire>(
    sizes: Sizes,
    from: Address,
    to: Address,
    messages: Vec<M>,
) -> Vec<Body> {
    let workers = [from.worker, to.worker];
    let mut batch =
        Batch { sizes, workers, bodies: Vec::new(), of: (Lane::USUAL, 0), body: Vec::new() };
    for message in messages {
        batch.add(message);
    }
    batch.end_body();
    batch.bodies
}

struct Batch {
    sizes: Sizes,
    workers: [u8; 2],
    bodies: Vec<Body>,
    /// Lane and protocol of the messages in `body`.
    of: (Lane, u8),
    body: Vec<u8>,
}

impl Batch {
    fn add<M: Wire>(&mut self, mut message: M) {
        let size = message.encoded_bytes();
        if size > self.sizes.piece
            && let Some(second) = message.split()
        {
            self.add(message);
            self.add(second);
        } else if size <= self.sizes.longest {
            self.append(&message, size);
        } else if let Some(short) = message.too_large() {
            self.add(short);
        }
    }

    fn append(&mut self, message: &impl Wire, size: usize) {
        let header = message.protocol().message_header();
        let of = (message.lane(), message.protocol().number);
        if of != self.of || self.body.len() + size > self.sizes.piece {
            self.end_body();
        }
        self.of = of;
        if self.body.is_empty() {
            self.body.reserve(size + BATCH_HEADER);
            self.body.extend_from_slice(&self.workers);
            self.body.extend_from_slice(&header);
        }
        message.encode(&mut self.body);
    }

    fn end_body(&mut self) {
        if !self.body.is_empty() {
            let ((lane, protocol), bytes) = (self.of, std::mem::take(&mut self.body));
            self.bodies.push(Body { lane, protocol, bytes });
        }
    }
}

/// A batch that has arrived.
#[derive(Debug, PartialEq)]
pub struct Delivery<M> {
    /// Sender.
    pub from: Address,
    /// Receiver.
    pub to: Address,
    /// Messages in the order in which they were sent.
    pub messages: Vec<M>,
}

/// Decodes a batch that a node of site `there` sent to this one, at site `here`.
///
/// # Errors
/// The content cannot be decoded, or no correct participant of this cluster sends it to `to`.
pub fn decode_batch<M: Wire>(
    body: &[u8],
    there: SiteId,
    here: SiteId,
    shape: &M::Shape,
) -> Result<Delivery<M>, WireError> {
    let ([from, to], rest) = body.split_first_chunk::<2>().ok_or(WireError::Content)?;
    let (protocol, mut rest) =
        Protocol::read_messages(M::PROTOCOLS, rest).map_err(WireError::Foreign)?;
    let from = Address { site: there, worker: *from };
    let to = Address { site: here, worker: *to };
    let mut messages = Vec::new();
    while !rest.is_empty() {
        let (message, left) = M::decode(protocol, rest).ok_or(WireError::Content)?;
        if !message.validate(from, to, shape) {
            return Err(WireError::Misplaced);
        }
        messages.push(message);
        rest = left;
    }
    Ok(Delivery { from, to, messages })
}

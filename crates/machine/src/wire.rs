//! How messages travel between processes.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::turns::{Lane, Share};
use crate::{Address, Protocol, codec};

/// A message that can leave its process. Hosts put several of one protocol into a frame, one after
/// the other.
pub trait Wire: Sized {
    /// The protocols whose messages there are.
    const PROTOCOLS: &'static [Protocol];
    /// What tells whether a message makes sense.
    type Shape;

    /// The protocol whose message it is: one of [`PROTOCOLS`](Self::PROTOCOLS).
    fn protocol(&self) -> Protocol;

    /// The lane in which it travels.
    fn lane(&self) -> Lane;

    /// About how many changes the message holds, of which the smallest message is one: what it
    /// costs its receiver.
    fn weight(&self) -> u64;

    /// How its receiver's worker takes part in turns with it.
    fn share(&self) -> Share {
        Share { lane: self.lane(), protocol: self.protocol().number, cost: self.weight() }
    }

    /// The length of its encoding in bytes.
    fn encoded_bytes(&self) -> usize;

    /// Appends its encoding.
    fn encode(&self, bytes: &mut Vec<u8>);

    /// Reads the first message of `bytes`, and returns what comes after it; `None` if no message of
    /// the protocol begins like this.
    fn decode(protocol: Protocol, bytes: &[u8]) -> Option<(Self, &[u8])>;

    /// Whether the message makes sense from `from` to `to`. What does not must not be given to a
    /// machine, which relies on it.
    fn fits(&self, from: Address, to: Address, shape: &Self::Shape) -> bool;

    /// Takes the second half off a long message; `None` if there is no place to cut. Receivers take
    /// both, one after the other, for the whole.
    fn split(&mut self) -> Option<Self>;

    /// What is sent instead of a message that is longer than any frame; `None` if nothing is.
    fn too_large(self) -> Option<Self>;
}

/// A message of one protocol, in the encoding of [`codec`]. A type with this has [`Wire`], too.
pub trait OfProtocol: Serialize + DeserializeOwned {
    /// The protocol.
    const PROTOCOL: Protocol;
    /// See [`Wire::Shape`].
    type Shape;

    /// See [`Wire::lane`].
    fn lane(&self) -> Lane {
        Lane::USUAL
    }

    /// See [`Wire::weight`].
    fn weight(&self) -> u64 {
        1
    }

    /// See [`Wire::fits`].
    fn fits(&self, from: Address, to: Address, shape: &Self::Shape) -> bool;

    /// See [`Wire::split`]. Short messages have no place to cut.
    fn split(&mut self) -> Option<Self> {
        None
    }

    /// See [`Wire::too_large`].
    fn too_large(self) -> Option<Self> {
        None
    }
}

impl<M: OfProtocol> Wire for M {
    const PROTOCOLS: &'static [Protocol] = &[M::PROTOCOL];
    type Shape = M::Shape;

    fn protocol(&self) -> Protocol {
        M::PROTOCOL
    }

    fn lane(&self) -> Lane {
        OfProtocol::lane(self)
    }

    fn weight(&self) -> u64 {
        OfProtocol::weight(self)
    }

    fn encoded_bytes(&self) -> usize {
        codec::encoded_bytes(self)
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        codec::append(self, bytes);
    }

    fn decode(_: Protocol, bytes: &[u8]) -> Option<(M, &[u8])> {
        codec::take(bytes)
    }

    fn fits(&self, from: Address, to: Address, shape: &M::Shape) -> bool {
        OfProtocol::fits(self, from, to, shape)
    }

    fn split(&mut self) -> Option<M> {
        OfProtocol::split(self)
    }

    fn too_large(self) -> Option<M> {
        OfProtocol::too_large(self)
    }
}

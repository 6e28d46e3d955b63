//! Encoding and validation of messages between processes.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::turns::{Lane, Share};
use crate::{Address, Protocol, codec};

/// A message that can leave its process. Hosts put several messages of one protocol into a frame,
/// one after the other.
pub trait Wire: Sized {
    /// Protocols whose messages this type holds.
    const PROTOCOLS: &'static [Protocol];
    /// Information about the cluster that validation of a message needs.
    type Shape;

    /// Returns the protocol of the message: one of [`PROTOCOLS`](Self::PROTOCOLS).
    fn protocol(&self) -> Protocol;

    /// Returns the lane in which it travels.
    fn lane(&self) -> Lane;

    /// Returns the approximate number of changes that the message holds, which is its cost for the
    /// receiver. The smallest message has weight one.
    fn weight(&self) -> u64;

    /// Returns the share with which the message waits for its receiver's worker.
    fn share(&self) -> Share {
        Share { lane: self.lane(), protocol: self.protocol().number, cost: self.weight() }
    }

    /// Returns the length of its encoding in bytes.
    fn encoded_bytes(&self) -> usize;

    /// Appends its encoding.
    fn encode(&self, bytes: &mut Vec<u8>);

    /// Decodes the first message of `bytes`, and returns the remaining bytes; `None` if no message
    /// of the protocol begins there.
    fn decode(protocol: Protocol, bytes: &[u8]) -> Option<(Self, &[u8])>;

    /// Returns whether a correct worker at `from` can send the message to `to`. Hosts must not pass
    /// an invalid message to a machine, which relies on this check.
    fn validate(&self, from: Address, to: Address, shape: &Self::Shape) -> bool;

    /// Removes and returns the second half of a long message; `None` if the message cannot be
    /// split. A receiver that handles both halves in order has handled the whole message.
    fn split(&mut self) -> Option<Self>;

    /// Returns the replacement for a message that is too long for a frame; `None` if nothing is
    /// sent instead.
    fn too_large(self) -> Option<Self>;
}

/// A message of one protocol, in the encoding of [`codec`]. A type with this trait also has
/// [`Wire`].
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

    /// See [`Wire::validate`].
    fn validate(&self, from: Address, to: Address, shape: &Self::Shape) -> bool;

    /// See [`Wire::split`]. The default is for short messages, which cannot be split.
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

    fn validate(&self, from: Address, to: Address, shape: &M::Shape) -> bool {
        OfProtocol::validate(self, from, to, shape)
    }

    fn split(&mut self) -> Option<M> {
        OfProtocol::split(self)
    }

    fn too_large(self) -> Option<M> {
        OfProtocol::too_large(self)
    }
}

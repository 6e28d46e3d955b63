//! How messages travel between processes.

use crate::turns::{Lane, Share};
use crate::{Address, Input, Protocol};

/// Returns how an input of a protocol takes part in turns: messages by what they say of themselves, and all else as the smallest
/// thing.
pub fn share_of<M: Wire, C, D, A>(protocol: Protocol, input: &Input<M, C, D, A>) -> Share {
    let (lane, cost) = match input {
        Input::Message { message, .. } => (message.lane(), message.weight()),
        _ => (Lane::USUAL, 1),
    };
    Share { lane, protocol: protocol.number, cost }
}

/// A message that can leave its process. Hosts put several of one protocol into a frame, one after the other.
pub trait Wire: Sized {
    /// The protocols whose messages there are.
    const PROTOCOLS: &'static [Protocol];
    /// What tells whether a message makes sense.
    type Shape;

    /// The protocol whose message it is: one of [`PROTOCOLS`](Self::PROTOCOLS).
    fn protocol(&self) -> Protocol;

    /// The lane in which it travels.
    fn lane(&self) -> Lane {
        Lane::USUAL
    }

    /// About how many changes the message holds, of which the smallest message is one: what it costs its receiver.
    fn weight(&self) -> u64 {
        1
    }

    /// The length of its encoding in bytes.
    fn encoded_bytes(&self) -> usize;

    /// Appends its encoding.
    fn encode(&self, bytes: &mut Vec<u8>);

    /// Reads the first message of `bytes`, and returns what comes after it; `None` if no message of the protocol begins like
    /// this.
    fn decode(protocol: Protocol, bytes: &[u8]) -> Option<(Self, &[u8])>;

    /// Whether the message makes sense from `from` to `to`. What does not must not be given to a machine, which relies on
    /// it.
    fn fits(&self, from: Address, to: Address, shape: &Self::Shape) -> bool;

    /// Takes the second half off a long message; `None` if there is no place to cut. Receivers take both, one after the
    /// other, for the whole.
    fn split(&mut self) -> Option<Self>;

    /// What is sent instead of a message that is longer than any frame; `None` if nothing is.
    fn too_large(self) -> Option<Self>;
}

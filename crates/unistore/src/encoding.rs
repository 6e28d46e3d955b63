//! The bytes of messages, records and parts: the protocol's number, a version, and postcard.

use std::fmt;

use postcard::ser_flavors::{Flavor, Size};
use serde::Serialize;
use serde::de::DeserializeOwned;
use solera_data::OpError;
use solera_machine::{Address, Foreign, Protocol, Topology, Wire};

use crate::command::Response;
use crate::message::{Message, Stretch};

/// UniStore, in bytes. `tests/golden` has samples of all that is written.
pub const PROTOCOL: Protocol =
    Protocol { number: 1, name: "UniStore", oldest_messages: 1, messages: 1, records: 1, pasts: 1 };

impl Wire for Message {
    const PROTOCOLS: &'static [Protocol] = &[PROTOCOL];
    type Shape = Topology;

    fn protocol(&self) -> Protocol {
        PROTOCOL
    }

    fn encoded_bytes(&self) -> usize {
        let size = postcard::serialize_with_flavor(self, Size::default());
        size.expect("messages have a serialised form")
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        append(self, bytes);
    }

    fn decode(_: Protocol, bytes: &[u8]) -> Option<(Message, &[u8])> {
        postcard::take_from_bytes(bytes).ok()
    }

    fn fits(&self, from: Address, to: Address, shape: &Topology) -> bool {
        self.fits(from, to, shape)
    }

    /// Stretches of updates alone get long.
    fn split(&mut self) -> Option<Message> {
        let Message::Replicate(stretches) = self else { return None };
        if stretches.len() > 1 {
            return Some(Message::Replicate(stretches.split_off(stretches.len() / 2)));
        }
        let first = stretches.first_mut().filter(|stretch| stretch.updates.len() > 1)?;
        let updates = first.updates.split_off(first.updates.len() / 2);
        // Updates are in the order of their local timestamps, of which no two are equal.
        let middle = first.updates.last().map_or(first.prev, |update| update.dot.ts);
        let second = Stretch { prev: middle, updates, ..*first };
        first.known = middle;
        Some(Message::Replicate(vec![second]))
    }

    /// An answer becomes one that says so.
    fn too_large(self) -> Option<Message> {
        match self {
            Message::ExecuteReply {
                request,
                response: Response::Executed { outcome: Ok(_), pasts },
            } => {
                let response = Response::Executed { outcome: Err(OpError::TooLarge), pasts };
                Some(Message::ExecuteReply { request, response })
            }
            Message::Version { tx, request, level, key, mut executed }
                if executed.result.is_ok() =>
            {
                executed.result = Err(OpError::TooLarge);
                Some(Message::Version { tx, request, level, key, executed })
            }
            _ => None,
        }
    }
}

/// Appends the bytes of a record or part.
pub(crate) fn append_record(value: &impl Serialize, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&PROTOCOL.record_header());
    append(value, bytes);
}

/// Reads a record or part.
pub(crate) fn read_record<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    let (_, body) = Protocol::read_records(&[PROTOCOL], bytes).map_err(DecodeError::Foreign)?;
    match postcard::take_from_bytes(body) {
        Ok((value, [])) => Ok(value),
        Ok(_) => Err(DecodeError::Malformed("bytes are left over".to_owned())),
        Err(error) => Err(DecodeError::Malformed(error.to_string())),
    }
}

fn append(value: &impl Serialize, bytes: &mut Vec<u8>) {
    let appended = postcard::serialize_with_flavor(value, Appended(bytes));
    appended.expect("a vector takes all bytes");
}

/// Serialises to the end of a vector.
struct Appended<'a>(&'a mut Vec<u8>);

impl Flavor for Appended<'_> {
    type Output = ();

    #[inline]
    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    #[inline]
    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        // Most numbers are small: a call to copy them would take longer than all else.
        if let [byte] = bytes {
            return self.try_push(*byte);
        }
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

/// Bytes that are no record or part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// Of another protocol or version.
    Foreign(Foreign),
    /// Not what this version writes.
    Malformed(String),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Foreign(foreign) => write!(f, "bytes that cannot be read: {foreign}"),
            DecodeError::Malformed(reason) => write!(f, "no record: {reason}"),
        }
    }
}

impl std::error::Error for DecodeError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_as_they_are_written() {
        let message = Message::Replicate(Vec::new());
        let mut written = Vec::new();
        message.encode(&mut written);
        assert_eq!(message.encoded_bytes(), written.len());
        assert_eq!(postcard::to_stdvec(&message).unwrap(), written);
    }
}

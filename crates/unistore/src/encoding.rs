//! Encoding of UniStore's messages.

use solera_data::OpError;
use solera_machine::{Address, OfProtocol, Protocol, Topology};

use crate::command::Response;
use crate::message::{LogRange, Message};
use crate::protocol::PROTOCOL;

impl OfProtocol for Message {
    const PROTOCOL: Protocol = PROTOCOL;
    type Shape = Topology;

    fn weight(&self) -> u64 {
        let changes = match self {
            Message::Replicate(ranges) => ranges.iter().map(|it| it.updates.len()).sum(),
            _ => 1,
        };
        changes.max(1) as u64
    }

    fn validate(&self, from: Address, to: Address, shape: &Topology) -> bool {
        self.validate(from, to, shape)
    }

    /// Splits ranges of updates; no other message becomes long.
    fn split(&mut self) -> Option<Message> {
        let Message::Replicate(ranges) = self else { return None };
        if ranges.len() > 1 {
            return Some(Message::Replicate(ranges.split_off(ranges.len() / 2)));
        }
        let first = ranges.first_mut().filter(|range| range.updates.len() > 1)?;
        let updates = first.updates.split_off(first.updates.len() / 2);
        // Updates are in the order of their local timestamps, and no two of these are equal.
        let middle = first.updates.last().map_or(first.prev, |update| update.dot.ts);
        let second = LogRange { prev: middle, updates, ..*first };
        first.known = middle;
        Some(Message::Replicate(vec![second]))
    }

    /// Replaces a result that is too large with an error.
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

#[cfg(test)]
mod tests {
    use solera_machine::Wire;

    use super::*;

    #[test]
    fn counted_bytes_are_those_written() {
        let message = Message::Replicate(Vec::new());
        let mut written = Vec::new();
        message.encode(&mut written);
        assert_eq!(message.encoded_bytes(), written.len());
        assert_eq!(postcard::to_stdvec(&message).unwrap(), written);
    }
}

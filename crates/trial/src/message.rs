//! Messages between workers, and their bytes.

use serde::{Deserialize, Serialize};
use solera_machine::{Address, Lane, Protocol, RarePath, Topology, Wire, codec};

use crate::command::{Answer, Command, Question, Response};
use crate::work::Chain;

/// The number and versions of this protocol.
pub const PROTOCOL: Protocol =
    Protocol { number: 255, name: "trial", oldest_messages: 1, messages: 1, records: 1, pasts: 1 };

/// Input of a [`Trial`](crate::Trial).
pub type Input = solera_machine::Input<Message, Command, u64, Answer>;
/// Output of a [`Trial`](crate::Trial).
pub type Output = solera_machine::Output<Message, Response, Event, Chain, Question>;

/// What judges and statistics are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A rare path was taken.
    Rare(RarePath),
    /// A message arrived after a later one of its lane.
    Disorder {
        /// The sender.
        from: Address,
        /// The message.
        message: Message,
    },
}

/// One of several messages in a lane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The sender's process, by the time of its start.
    pub run: u64,
    /// Whether it travels ahead of others.
    pub urgent: bool,
    /// Counts the messages in this lane to this receiver, from 1.
    pub number: u64,
    /// How many messages were sent to this receiver before, in both lanes.
    pub before: u64,
}

impl Message {
    /// Returns the name of the message, as cost tables name steps.
    pub fn name(&self) -> &'static str {
        "trial"
    }
}

impl Wire for Message {
    const PROTOCOLS: &'static [Protocol] = &[PROTOCOL];
    type Shape = Topology;

    fn protocol(&self) -> Protocol {
        PROTOCOL
    }

    fn lane(&self) -> Lane {
        if self.urgent { Lane::URGENT } else { Lane::USUAL }
    }

    fn encoded_bytes(&self) -> usize {
        codec::encoded_bytes(self)
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        codec::append(self, bytes);
    }

    fn decode(_: Protocol, bytes: &[u8]) -> Option<(Message, &[u8])> {
        codec::take(bytes)
    }

    fn fits(&self, from: Address, to: Address, topology: &Topology) -> bool {
        let exists = |worker: Address| {
            topology.workers.get(worker.site.index()).is_some_and(|count| worker.worker < *count)
        };
        exists(from) && exists(to) && from != to
    }

    fn split(&mut self) -> Option<Message> {
        None
    }

    fn too_large(self) -> Option<Message> {
        None
    }
}

//! Messages between workers, and their encoding.

use serde::{Deserialize, Serialize};
use solera_machine::{Address, Lane, OfProtocol, Protocol, RarePath, Topology};
use solera_time::SiteId;

use crate::command::{Answer, Command, Question, Response};
use crate::work::Chain;

/// The number and versions of this protocol.
pub const PROTOCOL: Protocol =
    Protocol { number: 255, name: "trial", oldest_messages: 1, messages: 1, records: 1, pasts: 1 };

/// Input of a [`Trial`](crate::Trial).
pub type Input = solera_machine::Input<Message, Command, u64, Answer>;
/// Output of a [`Trial`](crate::Trial).
pub type Output = solera_machine::Output<Message, Response, Event, Chain, Question>;

/// Events for checks and statistics.
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
    /// The worker has completed the removal of this generation of a site.
    RemovalCompleted(SiteId, u32),
}

/// One of several messages in a lane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The sender's process, identified by its start time.
    pub run: u64,
    /// Whether it travels in the urgent lane, ahead of others.
    pub urgent: bool,
    /// Number of the message in this lane to this receiver, from 1.
    pub number: u64,
    /// Number of messages sent to this receiver before, in both lanes.
    pub before: u64,
}

impl Message {
    /// Returns the name of the message, by which cost tables list steps.
    pub fn name(&self) -> &'static str {
        "trial"
    }
}

impl OfProtocol for Message {
    const PROTOCOL: Protocol = PROTOCOL;
    type Shape = Topology;

    fn lane(&self) -> Lane {
        if self.urgent { Lane::URGENT } else { Lane::USUAL }
    }

    fn validate(&self, from: Address, to: Address, topology: &Topology) -> bool {
        topology.has(from) && topology.has(to) && from != to
    }
}

//! Messages between replicas, and their encoding.

use serde::{Deserialize, Serialize};
use solera_data::{Key, Value};
use solera_machine::{Address, OfProtocol, PartitionId, Protocol, RarePath, Topology};

use crate::command::{Command, Done, Failure, Response, Update};
use crate::history::{Entry, Epoch, Seen};
use crate::list::List;
use crate::protocol::PROTOCOL;

/// Greatest index and epoch number in a message, so that counters cannot overflow.
const MAX_INDEX: u64 = 1 << 62;

/// Input of a [`Primary`](crate::Primary).
pub type Input = solera_machine::Input<Message, Command>;
/// Output of a [`Primary`](crate::Primary).
pub type Output = solera_machine::Output<Message, Response, Event>;

/// Events for checks and statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A rare path was taken.
    Rare(RarePath),
}

/// An update in transit to its home.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Number of the update, unique at its sender.
    pub number: u64,
    /// Smallest number for which the sender still waits.
    pub oldest: u64,
    /// The key.
    pub key: Key,
    /// The change.
    pub update: Update,
}

/// A home's answer to a [`Request`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The request's number.
    pub number: u64,
    /// The update's position in the history, or the reason why it was not ordered.
    pub result: Result<Done, Failure>,
}

/// A piece of a partition's values, all at one index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// The index.
    pub applied: u64,
    /// Number of the piece, from 0.
    pub place: u32,
    /// Keys, values and the index of each key's last update.
    pub values: Vec<(Key, Value, u64)>,
    /// Further data of the partition; only in the last piece.
    pub end: Option<End>,
}

/// Data of a partition that a replica needs in addition to the values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Updates that their origins may send again.
    pub seen: Vec<(Address, Seen)>,
    /// The epochs.
    pub epochs: Vec<Epoch>,
}

/// A message between workers. A receiver that has another list of sites drops it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The sender's list of sites.
    pub list: List,
    /// The content.
    pub body: Body,
}

/// Content of a [`Message`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body {
    /// To a home: updates to order.
    Forward(Vec<Request>),
    /// From a home to the worker that sent a [`Body::Forward`].
    Answers(Vec<Answer>),
    /// From a home to a replica; or from the site with the longest history to a new home.
    Append {
        /// The partition.
        partition: PartitionId,
        /// The index of the last update before `entries`.
        after: u64,
        /// The updates after that, in order.
        entries: Vec<Entry>,
        /// The epochs that the sender knows.
        epochs: Vec<Epoch>,
        /// The greatest index that f + 1 sites store, as far as the sender knows.
        settled: u64,
        /// The index of the sender's last update.
        last: u64,
    },
    /// To a home: the index up to which the sender stores the history.
    Stored {
        /// The partition.
        partition: PartitionId,
        /// The index of its last update.
        applied: u64,
        /// Whether the sender requests a [`Body::Append`], because it lacks entries or waits for
        /// news.
        asks: bool,
    },
    /// From a new home to all other members and joining sites: requests a [`Body::Stored`].
    Ask(PartitionId),
    /// From a new home to the site with the longest history: requests the entries after this index.
    Take(PartitionId, u64),
    /// To a replica that lacks entries which the sender's log does not hold any more.
    Piece(PartitionId, Piece),
}

impl Body {
    fn partition(&self) -> Option<PartitionId> {
        match self {
            Body::Append { partition, .. }
            | Body::Stored { partition, .. }
            | Body::Ask(partition)
            | Body::Take(partition, _)
            | Body::Piece(partition, _) => Some(*partition),
            Body::Forward(_) | Body::Answers(_) => None,
        }
    }

    fn is_well_formed(&self, to: Address, topology: &Topology) -> bool {
        let in_order = |epochs: &[Epoch]| {
            !epochs.is_empty()
                && epochs.iter().all(|epoch| epoch.number.max(epoch.after) <= MAX_INDEX)
                && epochs.is_sorted_by(|a, b| a.number < b.number && a.after <= b.after)
        };
        match self {
            Body::Forward(requests) => requests.iter().all(|request| {
                let partition = PartitionId::of(&request.key, topology.partitions);
                topology.owner(to.site, partition) == to && request.oldest <= request.number
            }),
            Body::Append { partition, after, entries, epochs, .. } => {
                let belongs = |entry: &Entry| {
                    topology.has(entry.origin)
                        && entry.oldest <= entry.number
                        && PartitionId::of(&entry.key, topology.partitions) == *partition
                };
                *after <= MAX_INDEX && entries.iter().all(belongs) && in_order(epochs)
            }
            Body::Piece(partition, piece) => {
                let belongs = |(key, _, at): &(Key, Value, u64)| {
                    *at <= piece.applied && PartitionId::of(key, topology.partitions) == *partition
                };
                piece.applied <= MAX_INDEX
                    && piece.values.iter().all(belongs)
                    && piece.end.as_ref().is_none_or(|end| {
                        end.seen.iter().all(|(origin, _)| topology.has(*origin))
                            && in_order(&end.epochs)
                    })
            }
            Body::Answers(_) | Body::Stored { .. } | Body::Ask(_) | Body::Take(..) => true,
        }
    }
}

impl Message {
    /// Returns the variant's name, by which cost tables list steps.
    pub fn name(&self) -> &'static str {
        match self.body {
            Body::Forward(_) => "primary Forward",
            Body::Answers(_) => "primary Answers",
            Body::Append { .. } => "primary Append",
            Body::Stored { .. } => "primary Stored",
            Body::Ask(_) => "primary Ask",
            Body::Take(..) => "primary Take",
            Body::Piece(..) => "primary Piece",
        }
    }
}

impl OfProtocol for Message {
    const PROTOCOL: Protocol = PROTOCOL;
    type Shape = Topology;

    fn weight(&self) -> u64 {
        let changes = match &self.body {
            Body::Forward(requests) => requests.len(),
            Body::Answers(answers) => answers.len(),
            Body::Append { entries, .. } => entries.len(),
            Body::Piece(_, piece) => piece.values.len(),
            Body::Stored { .. } | Body::Ask(_) | Body::Take(..) => 1,
        };
        changes.max(1) as u64
    }

    /// Checks that the message goes to another site, and that sender and receiver own its
    /// partition.
    fn validate(&self, from: Address, to: Address, topology: &Topology) -> bool {
        let owns = |worker: Address, partition: PartitionId| {
            partition.0 < topology.partitions && topology.owner(worker.site, partition) == worker
        };
        topology.has(from)
            && topology.has(to)
            && from.site != to.site
            && self.list.is_well_formed()
            && self.body.partition().is_none_or(|id| owns(from, id) && owns(to, id))
            && self.body.is_well_formed(to, topology)
    }

    fn split(&mut self) -> Option<Message> {
        fn half<T>(all: &mut Vec<T>) -> Option<Vec<T>> {
            (all.len() > 1).then(|| all.split_off(all.len() / 2))
        }
        let body = match &mut self.body {
            Body::Forward(requests) => Body::Forward(half(requests)?),
            Body::Answers(answers) => Body::Answers(half(answers)?),
            Body::Append { partition, after, entries, epochs, settled, last } => {
                let second = half(entries)?;
                Body::Append {
                    partition: *partition,
                    after: *after + entries.len() as u64,
                    entries: second,
                    epochs: epochs.clone(),
                    settled: *settled,
                    last: *last,
                }
            }
            Body::Stored { .. } | Body::Ask(_) | Body::Take(..) | Body::Piece(..) => return None,
        };
        Some(Message { list: self.list.clone(), body })
    }
}

//! Messages between the workers of a partition, and their encoding.

use std::convert::Infallible;

use serde::{Deserialize, Serialize};
use solera_machine::{Address, OfProtocol, PartitionId, Protocol, RarePath, Topology};

use crate::agreed::Key;
use crate::command::{Answer, Command, Expiry, Question, Response};
use crate::numbers::{Nonce, Position, Term, Version};
use crate::protocol::PROTOCOL;
use crate::record::{KeyPart, PartitionPart};
use crate::rights::{Counted, Owner, Tally};

/// Input of a [`Reservations`](crate::Reservations).
pub type Input = solera_machine::Input<Message, Command, Infallible, Answer>;
/// Output of a [`Reservations`](crate::Reservations).
pub type Output = solera_machine::Output<Message, Response, Event, Infallible, Question>;

/// Events for checks and statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A rare path was taken.
    Rare(RarePath),
    /// A read waits because its interval is too wide.
    TooWide {
        /// The key.
        key: Key,
        /// Whether the floor permits as many tokens as a key may always have, so that no interval
        /// should be too wide.
        unexpected: bool,
    },
}

/// Reason why a site needs a message of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Need {
    /// Its tokens are used by updates that others have not reported, or a version is not confirmed.
    Reports,
    /// The interval of the key is too wide.
    Narrow,
    /// The tokens that it needs do not fit beside those of others.
    Room,
}

/// Content of a message. Each states facts that stay true, so that a late or repeated one is
/// harmless.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body {
    /// State of the sender.
    Report {
        /// Version of its copy of the record.
        version: Version,
        /// Prefixes of all streams.
        seen: Vec<Position>,
        /// Version that has closed the partition, and the length of the sender's stream, if it has
        /// no open epoch since then (S7).
        ended: Option<(Version, Position)>,
        /// Whether the sender uses the partition.
        used: bool,
    },
    /// The sender waits for something that the receiver can send or end.
    Ask {
        /// The key.
        key: Key,
        /// The reason.
        need: Need,
    },
    /// The sender has no data, and asks for a part of the receiver's state.
    StateRequest {
        /// Identifies the state. The receiver captures all parts when it is asked for the first
        /// one.
        transfer: Nonce,
        /// Number of the part.
        place: u32,
    },
    /// A part of the sender's state.
    State {
        /// Identifies the state.
        transfer: Nonce,
        /// Number of the part.
        place: u32,
        /// Number of all parts.
        of: u32,
        /// The part.
        part: StatePart,
    },
    /// The sender has no right, and asks for an offer.
    OfferRequest,
    /// The receiver may be admitted with what the sender has seen.
    Offer {
        /// Term of the sender's right.
        term: Term,
        /// Its number of renewals.
        renewals: u64,
        /// The prefixes.
        seen: Vec<Position>,
    },
    /// The sender requests rights (B3).
    Want {
        /// The key.
        key: Key,
        /// The sender.
        to: Owner,
        /// Number of rights that it lacks; 0 if it requests some ahead of need.
        amount: u64,
        /// Number of rights that it has.
        has: u64,
        /// Number of rights for which its first transaction waits.
        waits: u64,
        /// Sum of the receiver's gifts that it has got.
        received: u128,
    },
    /// The sender counts the rights of all sites (B6).
    CountRequest {
        /// The key.
        key: Key,
        /// Identifies the count and its round.
        nonce: Nonce,
    },
    /// Answer to [`CountRequest`](Self::CountRequest).
    Counted {
        /// The key.
        key: Key,
        /// The request's.
        nonce: Nonce,
        /// Sums of the sender at one moment.
        counted: Counted,
        /// Prefixes of all streams that it has.
        seen: Vec<Position>,
        /// Stages of all sites in its list of members.
        stages: Vec<u64>,
    },
    /// The sender asks when the receiver gives up what it has.
    ExpiryRequest {
        /// The key.
        key: Key,
        /// Identifies the request.
        nonce: Nonce,
    },
    /// Answer to [`ExpiryRequest`](Self::ExpiryRequest).
    Expiry {
        /// The key.
        key: Key,
        /// The request's.
        nonce: Nonce,
        /// Times of the sender, when it sent the answer.
        expiry: Expiry,
    },
}

/// A part of a partition's state. Everything but the keys comes first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StatePart {
    /// Everything but the keys.
    Rest(Box<PartitionPart>),
    /// Keys.
    Keys(Vec<KeyPart>),
}

/// A message between workers of the same partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The partition.
    pub partition: PartitionId,
    /// The content.
    pub body: Body,
}

impl Message {
    /// Returns the name of the message, by which cost tables list steps.
    pub fn name(&self) -> &'static str {
        match self.body {
            Body::Report { .. } => "reservations report",
            Body::Ask { .. } => "reservations ask",
            Body::StateRequest { .. } => "reservations state request",
            Body::State { .. } => "reservations state",
            Body::OfferRequest => "reservations offer request",
            Body::Offer { .. } => "reservations offer",
            Body::Want { .. } => "reservations want",
            Body::CountRequest { .. } => "reservations count request",
            Body::Counted { .. } => "reservations counted",
            Body::ExpiryRequest { .. } => "reservations expiry request",
            Body::Expiry { .. } => "reservations expiry",
        }
    }
}

impl Message {
    fn has(&self, key: &Key, topology: &Topology) -> bool {
        PartitionId::of(key, topology.partitions) == self.partition
    }

    /// Returns whether a part of a state belongs to the partition and fits the cluster.
    fn is_valid_part(&self, part: &StatePart, topology: &Topology) -> bool {
        let sites = topology.sites();
        match part {
            StatePart::Rest(rest) => {
                let lengths =
                    [rest.known.len(), rest.readers.len(), rest.terms.len()].map(|it| it <= sites);
                rest.partition == self.partition
                    && lengths == [true; 3]
                    && rest.changed.renewals.len() <= sites
                    && rest.readers.iter().flatten().all(|reader| reader.since.len() <= sites)
                    && rest.removed.keys().all(|site| site.index() < sites)
            }
            StatePart::Keys(keys) => keys.iter().all(|part| {
                part.partition == self.partition
                    && PartitionId::of(&part.key, topology.partitions) == self.partition
                    && part.record.grants.iter().all(|grant| grant.site.index() < sites)
                    && part.ended.iter().all(|(site, ..)| site.index() < sites)
                    && part.tally == Tally::default()
                    && part.pasts.is_empty()
            }),
        }
    }
}

impl OfProtocol for Message {
    const PROTOCOL: Protocol = PROTOCOL;
    type Shape = Topology;

    fn validate(&self, from: Address, to: Address, topology: &Topology) -> bool {
        let is_valid = match &self.body {
            Body::Report { seen, .. } | Body::Offer { seen, .. } => seen.len() <= topology.sites(),
            Body::Ask { key, .. }
            | Body::CountRequest { key, .. }
            | Body::ExpiryRequest { key, .. }
            | Body::Expiry { key, .. } => self.has(key, topology),
            Body::Want { key, to, .. } => self.has(key, topology) && to.site == from.site,
            Body::Counted { key, seen, stages, counted, .. } => {
                let lengths = [seen.len(), stages.len()].map(|it| it <= topology.sites());
                self.has(key, topology)
                    && lengths == [true; 2]
                    && counted.tally.is_plausible(topology.sites())
            }
            Body::OfferRequest | Body::StateRequest { .. } => true,
            Body::State { part, .. } => self.is_valid_part(part, topology),
        };
        is_valid
            && from.site != to.site
            && self.partition.0 < topology.partitions
            && topology.has(from)
            && topology.has(to)
            && topology.owner(from.site, self.partition) == from
            && topology.owner(to.site, self.partition) == to
    }
}

//! Messages between sites, and their encoding.

use std::convert::Infallible;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use solera_consensus::Message as Agreement;
use solera_machine::{Address, OfProtocol, Protocol, RarePath, RequestId, Topology};

use crate::command::Response;
use crate::digest::Digest;
use crate::execution::Job;
use crate::ids::{OperationId, StreamId};
use crate::object::Procedures;
use crate::protocol::PROTOCOL;
use crate::record::Encoded;
use crate::request::Request;

/// Output of a machine.
pub type Output<P> = solera_machine::Output<
    Message<<P as Procedures>::Operation>,
    Response<<P as Procedures>::Response>,
    Event,
    Job<P>,
    Infallible,
>;

/// Events for checks and statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A rare path was taken.
    Rare(RarePath),
    /// An operation was invoked here.
    Invoked {
        /// The operation.
        id: OperationId,
        /// The client's request; `None` for an operation without effect.
        request: Option<RequestId>,
    },
    /// An operation is committed.
    Committed(OperationId),
    /// An operation of a site that has left will never be executed, because no site has all of its
    /// causal context.
    Lost(OperationId),
    /// The site has taken over the data of another one, up to this position.
    Filled(u64),
    /// An operation is final.
    Final {
        /// Its position, from 1.
        position: u64,
        /// The operation.
        id: OperationId,
        /// Digest of all operations up to it.
        digest: Digest,
    },
}

/// A message between members. Each states facts that stay true, so that a late or repeated one is
/// harmless.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message<O> {
    /// Consecutive operations of one stream (Creek Alg. 1 l. 23, RB-cast).
    Operations {
        /// The operations; at least one.
        requests: Vec<Arc<Request<O>>>,
        /// Whether the sender has more of the stream. Set in answers only.
        more: bool,
    },
    /// Prefixes of streams that the sender has stored, without gaps.
    Heads {
        /// Streams and their last events.
        heads: Vec<(StreamId, u64)>,
        /// Whether the message answers another one, and is not answered itself.
        answer: bool,
    },
    /// The sender lacks operations that the receiver may have.
    Missing {
        /// The stream.
        stream: StreamId,
        /// Last event that the sender has.
        after: u64,
    },
    /// A message of the conditional atomic broadcast.
    Consensus(solera_consensus::Message<Arc<Request<O>>>),
    /// The digest of the sender's final operations.
    Digest {
        /// A number of final operations; at least 1.
        position: u64,
        /// The digest of that many.
        digest: Digest,
        /// Whether the message answers another one, and is not answered itself.
        answer: bool,
    },
    /// What the sender has of the streams of sites that have left. It takes nothing from these
    /// sites any more.
    Left {
        /// Stages of all sites in the sender's list of sites.
        stages: Vec<u64>,
        /// The streams of the last ended generation of each site, in order, each with the last
        /// event that the sender has without a gap. Streams without an event are left out.
        heads: Vec<(StreamId, u64)>,
        /// Whether the message answers another one, and is not answered itself.
        answer: bool,
    },
    /// The sender joins. The answer is [`Message::Admitted`].
    Join {
        /// Its stage.
        stage: u64,
    },
    /// The sender knows that the receiver joins, and removes nothing any more that the receiver may
    /// lack.
    Admitted {
        /// The receiver's stage.
        stage: u64,
    },
    /// A joining site requests a piece of the receiver's data. The answer is [`Message::Piece`].
    Fetch {
        /// The transfer.
        transfer: Transfer,
        /// Number of the piece, from 0.
        piece: u64,
    },
    /// A piece of the sender's data.
    Piece(Piece),
    /// Precedes the first piece of a transfer.
    Size {
        /// The transfer.
        transfer: Transfer,
        /// Approximate size of all pieces in bytes, for reports of the progress.
        bytes: u64,
    },
}

/// A piece of a site's data as of one moment, for a joining site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// The transfer.
    pub transfer: Transfer,
    /// The sender's name of its data. All pieces of a transfer must have the same.
    pub snapshot: Transfer,
    /// Number of the piece.
    pub piece: u64,
    /// Encoded [parts](crate::Part).
    pub parts: Vec<Encoded>,
    /// Whether it is the last piece.
    pub last: bool,
}

/// Names a transfer of data to a joining site, or what a donor sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Transfer {
    /// Run of the site that names it.
    pub run: u64,
    /// Number within the run.
    pub number: u64,
}

impl<O> Message<O> {
    /// Returns the name of the message, by which cost tables list steps.
    pub fn name(&self) -> &'static str {
        match self {
            Message::Operations { .. } => "creek operations",
            Message::Heads { .. } => "creek heads",
            Message::Missing { .. } => "creek missing",
            Message::Consensus(message) => message.name(),
            Message::Digest { .. } => "creek digest",
            Message::Left { .. } => "creek left",
            Message::Join { .. } => "creek join",
            Message::Admitted { .. } => "creek admitted",
            Message::Fetch { .. } => "creek fetch",
            Message::Piece(_) => "creek piece",
            Message::Size { .. } => "creek size",
        }
    }
}

impl<O: Serialize + DeserializeOwned> OfProtocol for Message<O> {
    const PROTOCOL: Protocol = PROTOCOL;
    type Shape = Topology;

    fn weight(&self) -> u64 {
        match self {
            Message::Operations { requests, .. } => requests.len() as u64,
            _ => 1,
        }
    }

    fn validate(&self, from: Address, to: Address, topology: &Topology) -> bool {
        let has = |stream: &StreamId| stream.site.index() < topology.sites() && stream.run > 0;
        let fits = match self {
            Message::Operations { requests, .. } => {
                let consecutive = |pair: &[Arc<Request<O>>]| {
                    let (a, b) = (pair[0].id, pair[1].id);
                    a.stream() == b.stream() && a.event.checked_add(1) == Some(b.event)
                };
                let has =
                    |request: &Arc<Request<O>>| has(&request.id.stream()) && request.is_plausible();
                !requests.is_empty()
                    && requests.iter().all(has)
                    && requests.windows(2).all(consecutive)
            }
            Message::Heads { heads, .. } => heads.iter().all(|(stream, _)| has(stream)),
            Message::Missing { stream, .. } => has(stream),
            Message::Consensus(Agreement::Promise { bodies, .. }) => {
                bodies.iter().all(|request| has(&request.id.stream()) && request.is_plausible())
            }
            Message::Consensus(_) => true,
            Message::Digest { position, .. } => *position > 0,
            Message::Left { heads, .. } => heads.iter().all(|(stream, _)| has(stream)),
            Message::Join { .. }
            | Message::Admitted { .. }
            | Message::Fetch { .. }
            | Message::Piece(_)
            | Message::Size { .. } => true,
        };
        fits && from.site != to.site
            && from.worker == to.worker
            && topology.has(from)
            && topology.has(to)
    }

    fn split(&mut self) -> Option<Message<O>> {
        match self {
            Message::Operations { requests, more } if requests.len() > 1 => {
                let requests = requests.split_off(requests.len() / 2);
                Some(Message::Operations { requests, more: std::mem::take(more) })
            }
            Message::Heads { heads, answer } if heads.len() > 1 => {
                let heads = heads.split_off(heads.len() / 2);
                Some(Message::Heads { heads, answer: *answer })
            }
            _ => None,
        }
    }
}

//! Messages between members, and the outputs of a member.

use serde::{Deserialize, Serialize};
use solera_election::Ballot;
use solera_machine::RarePath;
use solera_time::SiteId;

use crate::ids::{Batch, CastId, Held, Slot};
use crate::record::Record;

/// A message between members.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message<B> {
    /// A leader proposes a batch. The leader itself has accepted it.
    Accept {
        /// The leader's term.
        ballot: Ballot,
        /// The slot.
        slot: Slot,
        /// The batch.
        batch: Batch,
    },
    /// The sender has accepted the batch that this term's leader proposed for the slot. Members
    /// send it to all members.
    Accepted {
        /// The term.
        ballot: Ballot,
        /// The slot.
        slot: Slot,
    },
    /// A leader's periodic status message.
    Status {
        /// The leader's term.
        ballot: Ballot,
        /// The leader knows the decisions of all slots up to here.
        decided: Slot,
        /// All members have delivered the slots up to here.
        everywhere: Slot,
        /// Whether a quorum of this term's members has delivered everything that was accepted in
        /// earlier configurations.
        established: bool,
    },
    /// A member's answer to a status message.
    Report {
        /// The leader's term.
        ballot: Ballot,
        /// The member has delivered the slots up to here.
        delivered: Slot,
    },
    /// The sender lacks decisions.
    Ask {
        /// It knows the decisions of all slots up to here.
        after: Slot,
    },
    /// Decisions of slots.
    Decided {
        /// The slots, with their batches.
        slots: Vec<(Slot, Batch)>,
    },
    /// The sender has forgotten slots that the receiver asks for.
    Forgotten {
        /// The sender has forgotten the slots up to here.
        upto: Slot,
    },
    /// A member that does not hear from its leader asks whether the other members do, before it
    /// begins a term and disturbs them.
    Canvass {
        /// The term that it would begin.
        ballot: Ballot,
    },
    /// The sender supports a canvass.
    Support {
        /// The term.
        ballot: Ballot,
    },
    /// A candidate begins a term. Members leave all lower terms, and hand over what they have
    /// accepted.
    NewBallot {
        /// The term.
        ballot: Ballot,
        /// The candidate has delivered the slots up to here, and needs the later ones.
        delivered: Slot,
        /// Number of the request among those of this candidacy to the receiver. A request is
        /// answered once.
        attempt: u32,
        /// The part of the promise that the candidate needs next.
        part: u32,
    },
    /// A part of a member's promise.
    Promise {
        /// The term.
        ballot: Ballot,
        /// Number of the request for which the member composed the promise. Parts of promises that
        /// were composed for different requests do not fit together.
        version: u32,
        /// Number of the part, from 0.
        part: u32,
        /// Number of parts.
        parts: u32,
        /// The last configuration that the member knows to be established; see [`Message::Status`].
        established: u64,
        /// Batches that the member has accepted, or knows to be decided.
        slots: Vec<Held>,
        /// Bodies that the candidate may lack.
        bodies: Vec<B>,
    },
    /// The sender has promised a higher ballot than that of the receiver's message.
    Stale {
        /// The highest ballot that the sender knows.
        ballot: Ballot,
    },
    /// Asks the receiver to become the leader, if a quorum supports it.
    TakeOver,
}

/// An instruction of a member to its owner, which carries out all instructions in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Output<B> {
    /// Send a message to the member at a site.
    Send {
        /// The site.
        to: SiteId,
        /// The message.
        message: Message<B>,
    },
    /// Make a record durable. No later output may leave before it is.
    Record(Record),
    /// Deliver the ids of a slot, in this order (CAB-deliver, Creek Alg. 1 l. 32). Their predicates
    /// hold. Slots are delivered in ascending order without gaps; a slot may contain no ids.
    /// Follows the record of the delivery. When the owner has delivered the ids, it calls
    /// [`Member::recheck`](crate::Member::recheck).
    Deliver {
        /// The slot.
        slot: Slot,
        /// The ids.
        ids: Vec<CastId>,
    },
    /// The member has accepted the proposal of a slot. Another leader may replace the proposal.
    /// Only [`Variant::Optimistic`](crate::Variant::Optimistic) reports this.
    Accepted {
        /// The slot.
        slot: Slot,
        /// The ids.
        ids: Vec<CastId>,
    },
    /// Take these bodies as if they had been broadcast. The owner then calls
    /// [`Member::recheck`](crate::Member::recheck).
    Bodies(Vec<B>),
    /// The member has seen a new leader.
    Leader(SiteId),
    /// The member lacks slots that another member has forgotten. It needs that member's
    /// [`Snapshot`](crate::Snapshot), together with the state of the owner. This happens only to a
    /// member that joins, and is repeated until the member has a snapshot.
    Lacks {
        /// The other member.
        site: SiteId,
        /// The slots up to here are forgotten.
        upto: Slot,
    },
    /// A rare path was taken. Only simulations use this.
    Reached(RarePath),
}

impl<B> Message<B> {
    /// Returns the variant's name.
    pub fn name(&self) -> &'static str {
        match self {
            Message::Accept { .. } => "Consensus Accept",
            Message::Accepted { .. } => "Consensus Accepted",
            Message::Status { .. } => "Consensus Status",
            Message::Report { .. } => "Consensus Report",
            Message::Ask { .. } => "Consensus Ask",
            Message::Decided { .. } => "Consensus Decided",
            Message::Forgotten { .. } => "Consensus Forgotten",
            Message::Canvass { .. } => "Consensus Canvass",
            Message::Support { .. } => "Consensus Support",
            Message::NewBallot { .. } => "Consensus NewBallot",
            Message::Promise { .. } => "Consensus Promise",
            Message::Stale { .. } => "Consensus Stale",
            Message::TakeOver => "Consensus TakeOver",
        }
    }
}

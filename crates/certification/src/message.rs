//! Messages between members and coordinators, and the outputs of the service.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use solera_machine::{Address, RarePath};
use solera_time::{SiteId, Timestamp};

use crate::claim::Claim;
use crate::entry::{Entry, Phase, State};
use crate::ids::{Ballot, GroupId, Serial, TransactionId};
use crate::payload::{GroupPayload, Outcome, Vote};

/// A message of the certification service. Every message concerns one group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message<W> {
    /// The group.
    pub group: GroupId,
    /// The content.
    pub body: Body<W>,
}

/// Content of a [`Message`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Body<W> {
    /// A coordinator requests the group's vote.
    Prepare {
        /// The transaction.
        tid: TransactionId,
        /// The transaction's part in this group. `None` if the sender finishes the transaction of
        /// another coordinator; a leader that has not received the part votes to abort.
        payload: Option<Arc<GroupPayload<W>>>,
        /// Every group that the transaction takes part in.
        participants: Arc<[GroupId]>,
        /// The transaction's coordinator will not submit any earlier transaction again.
        oldest: Option<Serial>,
        /// Latest time that a vote may propose; a later vote must be to abort. After this time the
        /// transaction cannot commit, even if no process remembers it.
        until: Timestamp,
        /// Present if an earlier attempt was aborted.
        claim: Option<Claim>,
    },
    /// The sender does not lead the group.
    NotLeader {
        /// Last term that the sender saw begin. It is never a candidate's term: the coordinator
        /// would send every request to the candidate first, although the candidate may never get a
        /// quorum.
        ballot: Ballot,
    },
    /// A leader sends its vote to the members, which store it.
    Accept {
        /// The leader's term.
        ballot: Ballot,
        /// The transaction.
        tid: TransactionId,
        /// The vote, with everything that a member stores of the transaction.
        entry: Entry<W>,
        /// Receiver of the members' acknowledgements.
        coordinator: Address,
        /// No transaction of the group can have a time between this one and the proposed one. Set
        /// with a new vote if no other transaction is undecided.
        after: Option<Timestamp>,
    },
    /// A member has stored a vote. Sent directly to the coordinator.
    Accepted {
        /// The leader's term.
        ballot: Ballot,
        /// The transaction.
        tid: TransactionId,
        /// The vote.
        vote: Vote,
        /// The proposed strong timestamp.
        ts: Timestamp,
    },
    /// The outcome of a transaction. Coordinators send it to leaders, and leaders answer with it
    /// when a coordinator asks late. A coordinator also sends it to the member at its own site, if
    /// that member may deliver the transaction before its leader does.
    Decision {
        /// The transaction.
        tid: TransactionId,
        /// The outcome; `None` if the transaction is over and no process remembers how it ended.
        outcome: Option<Outcome>,
        /// As in [`Body::Prepare`].
        oldest: Option<Serial>,
    },
    /// A leader's answer when it knows that a transaction is over, but not how it ended: every
    /// group that took part has finished with it.
    OutcomeForgotten {
        /// The transaction.
        tid: TransactionId,
        /// First transaction that the coordinator may still submit, which is later. A process that
        /// forgets the transaction because of this answer must know this serial.
        oldest: Serial,
    },
    /// A leader asks a coordinator which transactions the coordinator may still submit, because the
    /// leader remembers old transactions of that coordinator.
    AskOldest,
    /// Answer to `AskOldest`: the coordinator will not submit any earlier transaction again.
    Oldest {
        /// First transaction that it may still submit.
        oldest: Serial,
    },
    /// The sender's group will not ask about the transaction again. Sent between the leaders of the
    /// transaction's groups.
    Finished {
        /// The transaction.
        tid: TransactionId,
        /// The sender's group.
        of: GroupId,
        /// Whether this message is an answer to the receiver's own, and needs none.
        answer: bool,
    },
    /// A leader's periodic status message.
    Status {
        /// The leader's term.
        ballot: Ballot,
        /// Ceiling that the members are to store. The leader may report transactions as complete up
        /// to it.
        ceiling: Timestamp,
        /// Proposals up to this time are over and forgotten if they are in the range and not in
        /// `phases`.
        upto: Timestamp,
        /// Range of `phases`: after the first transaction, if there is one, up to the second, if
        /// there is one. Successive messages cover all transactions in turn, so that each message
        /// stays small.
        range: (Option<TransactionId>, Option<TransactionId>),
        /// Every transaction in the range that the leader remembers.
        phases: Vec<(TransactionId, Phase)>,
        /// First transaction that each coordinator may still submit. A later leader must not vote
        /// again on transactions that were forgotten.
        oldest: Vec<(Address, Serial)>,
    },
    /// A member has stored the ceiling.
    StatusKept {
        /// The leader's term.
        ballot: Ballot,
        /// The ceiling.
        ceiling: Timestamp,
        /// Time up to which this member stores everything.
        delivered: Timestamp,
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
    /// A candidate begins a term. Members leave all lower terms.
    NewBallot {
        /// The term.
        ballot: Ballot,
    },
    /// A member's state, for the leader of a term that begins.
    Promise {
        /// The term.
        ballot: Ballot,
        /// The state that the member has stored.
        state: State<W>,
    },
    /// The initial state of a term.
    NewState {
        /// The state; its `accepted_in` is the term.
        state: State<W>,
    },
    /// A member lacks the initial state of this term.
    NeedState {
        /// The term.
        ballot: Ballot,
    },
    /// The sender has promised a higher ballot than that of the receiver's message.
    Stale {
        /// The highest ballot that the sender knows.
        ballot: Ballot,
    },
    /// Asks the receiver to become the leader, if a quorum supports it.
    TakeOver,
}

/// An instruction to the host, which carries out all instructions in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Output<W> {
    /// Send a message to another process.
    Send {
        /// The receiver.
        to: Address,
        /// The message.
        message: Box<Message<W>>,
    },
    /// Make a record durable. No later output may be sent before it is.
    Record(Box<Record<W>>),
    /// A transaction that was submitted here is decided.
    Decided {
        /// The transaction.
        tid: TransactionId,
        /// The outcome.
        outcome: Outcome,
        /// Claim to submit with the next attempt, if the transaction aborted and is retried.
        claim: Option<Claim>,
    },
    /// DELIVER_UPDATES (UniStore Alg. 3 l. 4), at the leader: the transaction of the group with the
    /// next strong timestamp. The host stores it and sends it to the other members in this order.
    /// The follower at the site that submitted the transaction also delivers it, and then receives
    /// it a second time from the leader.
    Deliver {
        /// The group.
        group: GroupId,
        /// The transaction.
        tid: TransactionId,
        /// Its strong timestamp.
        ts: Timestamp,
        /// The transaction's part in the group.
        payload: Arc<GroupPayload<W>>,
    },
    /// Emitted by the leader in place of HEARTBEAT_STRONG: everything up to this time was delivered
    /// (Property 6).
    Complete {
        /// The group.
        group: GroupId,
        /// Every later transaction has a greater strong timestamp.
        upto: Timestamp,
    },
    /// The leader lacks transactions that other members of the group have stored. The host must
    /// fetch them from any member that has them.
    CatchUp {
        /// The group.
        group: GroupId,
        /// Fetch everything up to this time.
        upto: Timestamp,
    },
    /// A rare path was taken. Only simulations use this.
    Reached(RarePath),
    /// A member has seen a new leader.
    Leader {
        /// The group.
        group: GroupId,
        /// The site of the leader.
        site: SiteId,
    },
}

/// A durable step of a member, restored after a restart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Record<W> {
    /// The member takes part in no term below this one.
    Promised(GroupId, Ballot),
    /// The member has taken the initial state of a term. A checkpoint stores the same record.
    Took(GroupId, State<W>),
    /// The member has stored a vote of its term.
    Accepted(GroupId, TransactionId, Entry<W>),
    /// The member has stored this ceiling: its leader may report as complete up to here.
    Ceiling(GroupId, Timestamp),
    /// The member has forgotten these transactions, because their coordinators will submit nothing
    /// earlier than these serials again.
    Forgot(GroupId, Vec<TransactionId>, Vec<(Address, Serial)>),
}

impl<W> Body<W> {
    /// Returns the variant's name.
    pub fn name(&self) -> &'static str {
        match self {
            Body::Prepare { .. } => "Certification Prepare",
            Body::NotLeader { .. } => "Certification NotLeader",
            Body::Accept { .. } => "Certification Accept",
            Body::Accepted { .. } => "Certification Accepted",
            Body::Decision { .. } => "Certification Decision",
            Body::OutcomeForgotten { .. } => "Certification OutcomeForgotten",
            Body::AskOldest => "Certification AskOldest",
            Body::Oldest { .. } => "Certification Oldest",
            Body::Finished { .. } => "Certification Finished",
            Body::Status { .. } => "Certification Status",
            Body::StatusKept { .. } => "Certification StatusKept",
            Body::Canvass { .. } => "Certification Canvass",
            Body::Support { .. } => "Certification Support",
            Body::NewBallot { .. } => "Certification NewBallot",
            Body::Promise { .. } => "Certification Promise",
            Body::NewState { .. } => "Certification NewState",
            Body::NeedState { .. } => "Certification NeedState",
            Body::Stale { .. } => "Certification Stale",
            Body::TakeOver => "Certification TakeOver",
        }
    }

    /// Returns the latest time that the message claims was reached, or will be reached soon.
    pub(crate) fn latest(&self) -> Timestamp {
        match self {
            Body::Prepare { payload, .. } => {
                payload.as_ref().map_or(Timestamp::ZERO, |payload| payload.snap_vec.max_entry())
            }
            Body::Accept { entry, .. } => entry.latest(),
            Body::Accepted { ts, .. } => *ts,
            Body::Decision { outcome: Some(Outcome::Committed(ts)), .. } => *ts,
            Body::Status { ceiling, upto, phases, .. } => {
                let decided = phases.iter().map(|(_, phase)| phase.decided()).max();
                (*ceiling).max(*upto).max(decided.unwrap_or(Timestamp::ZERO))
            }
            Body::StatusKept { ceiling, delivered, .. } => (*ceiling).max(*delivered),
            Body::Promise { state, .. } | Body::NewState { state } => state.latest(),
            _ => Timestamp::ZERO,
        }
    }
}

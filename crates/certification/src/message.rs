//! What members and coordinators tell one another, and what the service asks of its host.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use solera_machine::{Address, RarePath};
use solera_time::{SiteId, Timestamp};

use crate::claim::Claim;
use crate::entry::{Entry, Phase, State};
use crate::ids::{Ballot, GroupId, Serial, TransactionId};
use crate::share::{Outcome, Share, Vote};

/// A message of the certification service, always about one group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message<W> {
    /// The group.
    pub group: GroupId,
    /// What about it.
    pub body: Body<W>,
}

/// See [`Message`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Body<W> {
    /// A coordinator wants the group's vote.
    Prepare {
        /// The transaction.
        tid: TransactionId,
        /// Its part here. Without it, a leader that has not got it votes to abort: the sender
        /// finishes what another coordinator has left.
        share: Option<Arc<Share<W>>>,
        /// Every group that it takes part in.
        participants: Arc<[GroupId]>,
        /// The transaction's own coordinator will submit none before this one again.
        oldest: Option<Serial>,
        /// A vote that would propose a later time is to abort: so it is known, also when nobody
        /// knows the transaction any more, after which time it cannot come.
        until: Timestamp,
        /// Of a transaction that was aborted before.
        claim: Option<Claim>,
    },
    /// The sender does not lead.
    NotLeader {
        /// Last term that the sender saw begin. Never a candidate's: a coordinator would ask it
        /// first for every transaction, though it may never get a quorum.
        ballot: Ballot,
    },
    /// A leader's vote, for the group's members to keep.
    Accept {
        /// The leader's term.
        ballot: Ballot,
        /// The transaction.
        tid: TransactionId,
        /// The vote, and all that belongs to it.
        entry: Entry<W>,
        /// Who wants to know that it is kept.
        coordinator: Address,
        /// Nothing of the group can come between this time and the proposed one. Told with a new
        /// vote, when nothing else is undecided.
        after: Option<Timestamp>,
    },
    /// A member keeps a vote; straight to the coordinator.
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
    /// A transaction is decided: to leaders from a coordinator, and to a coordinator that asks
    /// late. Also to the member at the coordinator's site, if it may deliver the transaction before
    /// its leader does.
    Decision {
        /// The transaction.
        tid: TransactionId,
        /// How it ended; nothing if it is over and nobody knows.
        outcome: Option<Outcome>,
        /// As in [`Body::Prepare`].
        oldest: Option<Serial>,
    },
    /// The answer of a leader that knows a transaction to be over, and not how it ended: every
    /// group that took part is done with it.
    Over {
        /// The transaction.
        tid: TransactionId,
        /// The first transaction that its coordinator may still submit, which is later. Whoever
        /// forgets the transaction because of this answer must know that.
        oldest: Serial,
    },
    /// A leader still remembers transactions for a coordinator that may have none of them in mind.
    AskOldest,
    /// The answer: the coordinator will submit none before this one again.
    Oldest {
        /// The first that it may still submit.
        oldest: Serial,
    },
    /// Between the leaders of a transaction's groups: the sender's group will not ask about it
    /// again.
    Through {
        /// The transaction.
        tid: TransactionId,
        /// The sender's group.
        of: GroupId,
        /// Whether the sender only answers.
        answer: bool,
    },
    /// A leader's sign of life.
    Status {
        /// Its term.
        ballot: Ballot,
        /// What it wants to be able to show as complete.
        ceiling: Timestamp,
        /// Proposals up to here that are in the range and not among the phases are over and
        /// forgotten.
        upto: Timestamp,
        /// The phases are of the transactions after the first of these, if there is one, and up to
        /// the second: all are told of in turn, so that the message stays small.
        range: (Option<TransactionId>, Option<TransactionId>),
        /// Every transaction in the range that the leader remembers.
        phases: Vec<(TransactionId, Phase)>,
        /// Of each coordinator, the first transaction that it may still submit. What is forgotten
        /// must not be voted on again by whoever leads next.
        oldest: Vec<(Address, Serial)>,
    },
    /// A member keeps the ceiling.
    StatusKept {
        /// The leader's term.
        ballot: Ballot,
        /// The ceiling.
        ceiling: Timestamp,
        /// Everything up to here is stored at this member.
        delivered: Timestamp,
    },
    /// A member that hears nothing of its leader asks whether others do, before it disturbs them.
    Canvass {
        /// The term that it would begin.
        ballot: Ballot,
    },
    /// Go on.
    Support {
        /// The term.
        ballot: Ballot,
    },
    /// The beginning of a term: members leave all lower ones.
    NewBallot {
        /// The term.
        ballot: Ballot,
    },
    /// A member's state, for the leader of a term that begins.
    Promise {
        /// The term.
        ballot: Ballot,
        /// What the member has kept.
        state: State<W>,
    },
    /// The state with which a term begins.
    NewState {
        /// The term, as `accepted_in`, and what is known.
        state: State<W>,
    },
    /// A member has not got the state with which this term began.
    NeedState {
        /// The term.
        ballot: Ballot,
    },
    /// There is a higher ballot than that of the sender's message.
    Stale {
        /// The highest known.
        ballot: Ballot,
    },
    /// Become the leader, if you can.
    TakeOver,
}

/// What the service asks of its host, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Output<W> {
    /// Send to another process.
    Send {
        /// To whom.
        to: Address,
        /// What.
        message: Message<W>,
    },
    /// Keep through restarts; nothing that follows may leave before.
    Record(Record<W>),
    /// A transaction submitted here is decided.
    Decided {
        /// The transaction.
        tid: TransactionId,
        /// What became of it.
        outcome: Outcome,
        /// If it aborted and is submitted again: with this.
        claim: Claim,
    },
    /// DELIVER_UPDATES (UniStore Alg. 3 l. 4), at the leader: a transaction of the group with the
    /// next strong timestamp. The host stores it, and brings it to the other members in this order.
    /// Also at the follower where it was submitted, which then has it once more from the leader.
    Deliver {
        /// The group.
        group: GroupId,
        /// The transaction.
        tid: TransactionId,
        /// Its strong timestamp.
        ts: Timestamp,
        /// Its part in the group.
        share: Arc<Share<W>>,
    },
    /// At the leader: everything up to here was delivered (Property 6); in place of
    /// HEARTBEAT_STRONG.
    Complete {
        /// The group.
        group: GroupId,
        /// Every transaction that follows has a greater strong timestamp.
        upto: Timestamp,
    },
    /// The leader must get what members of this group have stored up to here, from whoever has it.
    CatchUp {
        /// The group.
        group: GroupId,
        /// Up to where.
        upto: Timestamp,
    },
    /// A rare path was taken. Only simulations look at it.
    Reached(RarePath),
    /// A member has a new leader.
    Leader {
        /// The group.
        group: GroupId,
        /// Who leads.
        site: SiteId,
    },
}

/// A step that a member must find again after a restart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Record<W> {
    /// It takes part in no term below this one.
    Promised(GroupId, Ballot),
    /// It has taken the state with which a term began; a checkpoint keeps the same.
    Took(GroupId, State<W>),
    /// It keeps a vote of the term.
    Accepted(GroupId, TransactionId, Entry<W>),
    /// It has let its leader show this much as complete.
    Ceiling(GroupId, Timestamp),
    /// It has forgotten these, because their coordinators will submit none before these again.
    Forgot(GroupId, Vec<TransactionId>, Vec<(Address, Serial)>),
}

impl<W> Body<W> {
    /// The variant's name.
    pub fn name(&self) -> &'static str {
        match self {
            Body::Prepare { .. } => "Certification Prepare",
            Body::NotLeader { .. } => "Certification NotLeader",
            Body::Accept { .. } => "Certification Accept",
            Body::Accepted { .. } => "Certification Accepted",
            Body::Decision { .. } => "Certification Decision",
            Body::Over { .. } => "Certification Over",
            Body::AskOldest => "Certification AskOldest",
            Body::Oldest { .. } => "Certification Oldest",
            Body::Through { .. } => "Certification Through",
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

    /// The latest time that the message names as one that was reached, or will be soon.
    pub(crate) fn latest(&self) -> Timestamp {
        match self {
            Body::Prepare { share, .. } => {
                share.as_ref().map_or(Timestamp::ZERO, |share| share.snap_vec.max_entry())
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

//! Messages between replicas, and the machine's inputs and outputs.

use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::sync::Arc;

use solera_certification::{Access, TransactionId};
use solera_data::{Context, Dot, Effect, Key, Op, OpError, Outcome, State};
use solera_levels::Level;
use solera_machine::{
    Address, GuardAnswer, GuardQuestion, Guarded, PartitionId, RarePath, Refusal, RequestId,
};
use solera_membership::{Gap, Members};
use solera_time::{MAX_SITES, Origin, SiteId, Timestamp, Vector};

use crate::command::{Command, Response, TxId};

/// Change of one key by a transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Write {
    /// The key.
    pub key: Key,
    /// Effect on the key.
    pub effect: Effect,
}

impl Write {
    /// Returns the approximate size in bytes.
    pub fn size(&self) -> usize {
        self.key.len() + self.effect.size()
    }

    /// Returns whether one of these writes changes a key.
    pub(crate) fn any_of(writes: &[Write], key: &[u8]) -> bool {
        writes.iter().any(|write| write.key.as_bytes() == key)
    }
}

/// Effect of a committed transaction on one partition: an element of `committedCausal` and, key by
/// key, of `opLog`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Update {
    /// Time and origin of the commit. The time is `commitVec[d]`, the paper's local timestamp; for
    /// a strong transaction, whose origin is [`Origin::Strong`], it is the strong timestamp.
    pub dot: Dot,
    /// Snapshot on which it executed (`snapVec`).
    pub snap_vec: Vector,
    /// Its writes to this partition.
    pub writes: Vec<Write>,
    /// Whether it is an operation on an eventual space: it is visible wherever it arrives, and has
    /// no other parts.
    pub eventual: bool,
}

impl Update {
    /// Returns the transaction's commit vector (§5.1).
    pub fn commit_vec(&self) -> Vector {
        self.snap_vec.with(self.dot.origin, self.dot.ts)
    }

    /// Returns whether the snapshot `vec` contains the transaction: `commitVec ≤ vec`.
    pub fn within(&self, vec: &Vector) -> bool {
        vec[self.dot.origin] >= self.dot.ts
            && Origin::all(MAX_SITES)
                .filter(|origin| *origin != self.dot.origin)
                .all(|origin| vec[origin] >= self.snap_vec[origin])
    }

    /// Returns the approximate size in bytes.
    pub(crate) fn size(&self) -> usize {
        size_of::<Update>() + self.writes.iter().map(Write::size).sum::<usize>()
    }

    pub(crate) fn context(&self) -> Context<'_> {
        Context { dot: self.dot, observed: &self.snap_vec }
    }
}

/// A range of one partition's history of one origin: all updates with local timestamps in
/// `(prev, known]`. A range without updates is the paper's HEARTBEAT.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogRange {
    /// The partition.
    pub partition: PartitionId,
    /// Origin of the updates.
    pub origin: Origin,
    /// Exclusive start of the range. The receiver must have everything up to here.
    pub prev: Timestamp,
    /// Inclusive end of the range.
    pub known: Timestamp,
    /// The updates, in the order of their local timestamps.
    pub updates: Vec<Arc<Update>>,
}

/// Result of one operation at the partition that executed it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Executed {
    /// Outcome for the client, and the effect that the transaction will have on the key.
    pub result: Result<(Outcome, Option<Effect>), OpError>,
    /// Greatest local timestamp among the transactions that the result depends on.
    pub local_dependency: Timestamp,
}

/// A message between replicas. Messages of the first group stay within a site; those of the second
/// cross sites.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// Executes a single-operation transaction; sent to the worker that owns the key.
    Execute {
        /// Request of the sender.
        request: RequestId,
        /// The client's causal past.
        past: Vector,
        /// The level of the key's space.
        level: Level,
        /// The key.
        key: Key,
        /// The operation.
        op: Op,
    },
    /// Answers [`Message::Execute`].
    ExecuteReply {
        /// Request that is answered.
        request: RequestId,
        /// The answer.
        response: Response,
    },
    /// GET_VERSION (Alg. 1 l. 11): executes the operation at the worker that owns the key, on the
    /// snapshot and the transaction's own earlier effect.
    GetVersion {
        /// The transaction.
        tx: TxId,
        /// Request of the client.
        request: RequestId,
        /// `snapVec[tid]`.
        snap_vec: Vector,
        /// The level of the key's space.
        level: Level,
        /// The key.
        key: Key,
        /// The operation.
        op: Op,
        /// Earlier effect of the transaction itself on the key (`wbuff`).
        own: Option<Effect>,
    },
    /// VERSION (Alg. 1 l. 25).
    Version {
        /// The transaction.
        tx: TxId,
        /// Request of the client.
        request: RequestId,
        /// The level of the key's space.
        level: Level,
        /// The key.
        key: Key,
        /// Result of the operation.
        executed: Executed,
    },
    /// PREPARE (Alg. 1 l. 29).
    Prepare {
        /// The transaction.
        tx: TxId,
        /// `snapVec[tid]`.
        snap_vec: Vector,
        /// Part of `wbuff[tid]` for the receiver.
        writes: Vec<Write>,
        /// Operations on eventual spaces that the receiver executes if the transaction commits.
        eventual: Vec<(Key, Op)>,
    },
    /// PREPARE_ACK (Alg. 1 l. 41).
    PrepareAck {
        /// The transaction.
        tx: TxId,
        /// Prepare time.
        ts: Timestamp,
    },
    /// COMMIT (Alg. 1 l. 34). Only `commitVec[d]` differs from the snapshot in PREPARE.
    Commit {
        /// The transaction.
        tx: TxId,
        /// `commitVec[d]`.
        ts: Timestamp,
    },
    /// The coordinator has aborted the transaction.
    Abort {
        /// The transaction.
        tx: TxId,
    },
    /// A participant has applied or dropped the transaction. The coordinator may forget it once all
    /// participants have.
    Resolved {
        /// The transaction.
        tx: TxId,
        /// Covers the commit vectors of the transaction's operations on eventual spaces that the
        /// participant has executed.
        until: Vector,
    },
    /// A participant that has waited too long asks for the decision again.
    Undecided {
        /// The transaction.
        tx: TxId,
    },
    /// KNOWNVEC_LOCAL (Alg. 2 l. 24) of the sender's whole subtree; sent up the dissemination tree.
    Up(Subtree),
    /// Results of KNOWNVEC_LOCAL and STABLEVEC; sent down the dissemination tree.
    Down(SiteView, Members),

    /// REPLICATE and HEARTBEAT (Alg. 2 l. 6, 8, 21, 22).
    Replicate(Vec<LogRange>),
    /// The receiver of a range lacks updates before the range, and asks for the history after
    /// `known`.
    Gap {
        /// The partition.
        partition: PartitionId,
        /// Origin of the updates.
        origin: Origin,
        /// The sender has everything up to here.
        known: Timestamp,
    },
    /// KNOWNVEC_GLOBAL (Alg. 2 l. 26), for all partitions that the sender and the receiver both
    /// own.
    KnownVecGlobal {
        /// `knownVec` per partition.
        known_vecs: Vec<(PartitionId, Vector)>,
        /// Sites that the sender suspects to have failed.
        suspects: Vec<SiteId>,
        /// The sender's list of members. Until it sent this message, it accepted messages of these
        /// members.
        members: Members,
        /// Upper bound of the strong timestamps that the sender had proposed when it sent this
        /// message, and of the votes that it had stored.
        voted: Timestamp,
    },
    /// STABLEVEC (Alg. 2 l. 25), between the roots of the sites' dissemination trees.
    StableVec {
        /// `stableVec` of the sender's site.
        stable_vec: Vector,
        /// Every transaction of the sender's site that is not within `ceiling` observes this
        /// snapshot.
        floor: Vector,
        /// See `floor`.
        ceiling: Vector,
        /// View of the members at the sender's site.
        members: Members,
        /// Site removals that all workers of the sending site have completed; see
        /// [`Subtree::settled`].
        settled: Option<Vec<SiteGeneration>>,
    },

    /// Message between the members and coordinators of the certification service (§6.3), also
    /// within a site.
    Certification(Box<solera_certification::Message<Write>>),

    /// Strong transactions from REDBLUE's central certifier for the other partitions of its site.
    ForwardRanges(Vec<LogRange>),
    /// Asks for the outcome of a strong transaction; also within a site.
    AskOutcome {
        /// Request of the sender.
        request: RequestId,
        /// The transaction.
        tid: TransactionId,
    },
    /// Answers [`Message::AskOutcome`].
    OutcomeIs {
        /// Request that is answered.
        request: RequestId,
        /// Whether the transaction committed; `None` if that is not known.
        committed: Option<bool>,
    },

    /// Requests pieces of a partition for a worker of a joining site.
    Fetch(Fetch),
    /// Answers [`Message::Fetch`].
    Filling(Filling),
    /// The donor has no snapshot for this attempt to get a partition, or has released it. The
    /// receiver has to start again.
    NotKept {
        /// The partition.
        partition: PartitionId,
        /// See [`Fetch::attempt`].
        attempt: u64,
    },

    /// A client waits until `uniformVec` covers `upto`: the receiver has to report its progress at
    /// once. Sent to the other workers of a site, and to siblings at other sites.
    Wanted {
        /// The vector that is waited for.
        upto: Vector,
        /// Clock of the sender, to which the other workers of its site advance theirs; zero in
        /// messages to other sites.
        clock: Timestamp,
        /// Strong clock of the sender, to which the other workers advance theirs, too.
        strong_clock: Timestamp,
        /// Whether the receiver should also ask its siblings at other sites without delay.
        afar: bool,
    },

    /// PREPARE of a transaction with guards at the receiver; within a site.
    PrepareGuarded(Box<PrepareGuarded>),
    /// A guard refuses the transaction. Replaces PREPARE_ACK.
    GuardRefused {
        /// The transaction.
        tx: TxId,
        /// The guard's key, protocol and reason.
        refusal: Refusal,
    },
    /// A guard refuses the transaction, and may consent to another attempt with a later snapshot.
    /// Replaces PREPARE_ACK.
    GuardLater(Box<GuardLater>),

    /// A complete read asks the owner of the key at each site for changes of the key; also within a
    /// site.
    AskChanges {
        /// Request of the reader.
        request: RequestId,
        /// Number of the round of questions.
        round: u64,
        /// The key.
        key: Key,
        /// Snapshot of the read.
        since: Vector,
    },
    /// Answers [`Message::AskChanges`].
    Changes {
        /// Request of the reader.
        request: RequestId,
        /// Number of the round of questions.
        round: u64,
        /// Past that contains the changes since the snapshot, for another attempt; `None` if the
        /// key has not changed.
        later: Option<Vector>,
        /// The sender's list of members.
        members: Members,
    },
}

/// Fields of [`Message::GuardLater`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GuardLater {
    /// The transaction.
    pub tx: TxId,
    /// The guard's key, protocol and reason.
    pub refusal: Refusal,
    /// Vector of the transactions that the snapshot must contain.
    pub past: Vector,
}

/// PREPARE with guards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PrepareGuarded {
    /// The transaction.
    pub tx: TxId,
    /// `snapVec[tid]`.
    pub snap_vec: Vector,
    /// Part of `wbuff[tid]` for the receiver.
    pub writes: Vec<Write>,
    /// Operations on eventual spaces that the receiver executes if the transaction commits.
    pub eventual: Vec<(Key, Op)>,
    /// Guards of keys that the receiver owns.
    pub guards: Guarded,
}

impl Message {
    /// Returns the variant's name; for a message of the certification service, that of its body.
    pub fn name(&self) -> &'static str {
        match self {
            Message::Execute { .. } => "Execute",
            Message::ExecuteReply { .. } => "ExecuteReply",
            Message::GetVersion { .. } => "GetVersion",
            Message::Version { .. } => "Version",
            Message::Prepare { .. } => "Prepare",
            Message::PrepareAck { .. } => "PrepareAck",
            Message::Commit { .. } => "Commit",
            Message::Abort { .. } => "Abort",
            Message::Resolved { .. } => "Resolved",
            Message::Undecided { .. } => "Undecided",
            Message::Up(..) => "Up",
            Message::Down(..) => "Down",
            Message::Replicate(..) => "Replicate",
            Message::Gap { .. } => "Gap",
            Message::KnownVecGlobal { .. } => "KnownVecGlobal",
            Message::StableVec { .. } => "StableVec",
            Message::Certification(message) => message.body.name(),
            Message::ForwardRanges(..) => "ForwardRanges",
            Message::AskOutcome { .. } => "AskOutcome",
            Message::OutcomeIs { .. } => "OutcomeIs",
            Message::Fetch(..) => "Fetch",
            Message::Filling(..) => "Filling",
            Message::NotKept { .. } => "NotKept",
            Message::Wanted { .. } => "Wanted",
            Message::PrepareGuarded(..) => "PrepareGuarded",
            Message::GuardRefused { .. } => "GuardRefused",
            Message::GuardLater(_) => "GuardLater",
            Message::AskChanges { .. } => "AskChanges",
            Message::Changes { .. } => "Changes",
        }
    }
}

/// A position between the items of a partition that is sent to a joining site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TransferPosition {
    /// Number of items before it: the [`Chunk::Begin`], then updates, then keys.
    pub items: u64,
    /// Number of parts of the next item before it, if that is a key that is too large for one
    /// piece.
    pub parts: u64,
}

impl TransferPosition {
    /// The position before all items.
    pub const START: TransferPosition = TransferPosition { items: 0, parts: 0 };
}

/// Reports to a donor which items of a partition have arrived at a joining site's worker, and
/// requests more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetch {
    /// The partition.
    pub partition: PartitionId,
    /// Identifies one attempt of the requesting worker to get the partition.
    pub attempt: u64,
    /// All items before this have arrived. After the last item, the donor can release the
    /// partition.
    pub at: TransferPosition,
    /// Approximate number of bytes that may be in transit.
    pub window: u64,
    /// Whether the items after [`Self::at`] seem to be lost and have to be sent again.
    pub again: bool,
}

/// A piece of a partition for a joining site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Filling {
    /// The partition.
    pub partition: PartitionId,
    /// See [`Fetch::attempt`].
    pub attempt: u64,
    /// Position at which the piece begins.
    pub at: TransferPosition,
    /// Position at which it ends.
    pub next: TransferPosition,
    /// The items.
    pub chunk: Chunk,
}

/// Items of a partition for a joining site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Chunk {
    /// Summary of the partition.
    Begin(Box<Begin>),
    /// All updates that are not causally stable.
    Updates(Vec<Arc<Update>>),
    /// Keys with their states in the snapshot. A key that is too large for one piece is sent
    /// several times, each time with another part of its state.
    Keys(Vec<(Key, State)>),
}

/// Summary of a partition, which a donor sends first.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Begin {
    /// Snapshot that determines the states of the keys that follow. It is uniform.
    pub snapshot: Vector,
    /// `knownVec` of the donor: all updates up to here are in the keys or among the updates.
    pub known_vec: Vector,
    /// Time of the last update of each origin.
    pub arrived: Vector,
    /// For each origin, the time up to which updates were forgotten.
    pub forgotten: Vector,
    /// Number of items, this one included.
    pub items: u64,
}

/// State of a subtree of a site's dissemination tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Subtree {
    /// The meet of the `knownVec`s of its partitions.
    pub known_vec: Vector,
    /// The meet of the snapshots of its live and future transactions.
    pub floor: Vector,
    /// The join of all vectors that its workers had when they reported their floors, their clocks
    /// included. It covers every transaction that they had finished by then.
    pub ceiling: Vector,
    /// Greatest strong timestamp up to which one of its partitions has all strong transactions.
    pub strong_clock: Timestamp,
    /// Time up to which all strong transactions are folded in all its partitions.
    pub strong_folded: Timestamp,
    /// Whether `ceiling` covers the strong transactions of the site's former generations that other
    /// sites may still commit.
    pub former_generations_covered: bool,
    /// Join of the uniform vectors that its workers have shown in snapshots. After a restart, one
    /// worker may remember more than others.
    pub uniform_vec: Vector,
    /// Whether all its partitions are filled, at a joining site.
    pub filled: bool,
    /// The join of the snapshots with which its partitions were filled.
    pub base_vec: Vector,
    /// Least number of sites that one of its workers lists, while the list grows.
    pub listed: u8,
    /// Leaving sites whose history is complete: its workers have the same part of it as every other
    /// member. Also sites that are removed or join again.
    pub converged: Vec<Converged>,
    /// Site removals that the other protocols of all its workers have completed; `None` if its
    /// workers run no other protocol that takes part in removals.
    pub settled: Option<Vec<SiteGeneration>>,
}

/// One generation of a site.
pub type SiteGeneration = (SiteId, u32);

/// History of a leaving or removed site in a subtree, when all members have the same part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Converged {
    /// The site.
    pub site: SiteId,
    /// Generation of the site.
    pub generation: u32,
    /// Whether this generation, or the one before it, is removed.
    pub gone: bool,
    /// Time up to which every partition has the history.
    pub least: Timestamp,
    /// Upper bound of the times of this history: of those in any partition, and of those on which
    /// an update of another site's former generation depends.
    pub most: Timestamp,
    /// Covers every update of the site that is not causally stable, and its strong transactions
    /// that can still be committed. `None` until all members have reported their bounds.
    pub ceiling: Option<Vector>,
}

/// Results that the root of a site's dissemination tree computes for all workers of the site.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiteView {
    /// `stableVec` (Property 2).
    pub stable_vec: Vector,
    /// `uniformVec` (Property 3).
    pub uniform_vec: Vector,
    /// For each origin, the greatest time up to which some site is known to store its transactions.
    /// No site can recover later ones.
    pub reachable_vec: Vector,
    /// No live or future transaction of this site executes on a snapshot below this one.
    pub floor: Vector,
    /// Greatest clock among the site's workers. The others advance to it, so that skew within a
    /// site does not hold `stableVec` back.
    pub clock: Timestamp,
    /// Greatest strong timestamp up to which a partition of the site has all strong transactions.
    /// Leaders advance to it, so that a leader with a slow clock does not hold the strong entry
    /// back everywhere.
    pub strong_clock: Timestamp,
    /// Causal stability: every transaction that arrives from now on, from any site, observes this
    /// vector.
    pub settled_vec: Vector,
    /// Whether every member has confirmed that it has the same list of members.
    pub agreed: bool,
    /// Whether the site can answer clients. False only at a site that has joined and is not up to
    /// date yet.
    pub serving: bool,
}

/// A question to a protocol of this worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errand {
    /// The number of the protocol.
    pub protocol: u8,
    /// The question.
    pub question: GuardQuestion,
}

/// An input of a [`Replica`](crate::Replica). [`Members::generation`] describes generations of
/// sites.
pub type Input = solera_machine::Input<Message, Command, Infallible, GuardAnswer>;

/// An output of a [`Replica`](crate::Replica). It emits records only with
/// [`Config::journal`](crate::Config::journal), and events only with
/// [`Config::trace`](crate::Config::trace).
pub type Output = solera_machine::Output<Message, Response, Event, Infallible, Errand>;

/// Operation or transaction that caused a trace event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A single-operation transaction: the worker that received the request, and the request.
    Request(Address, RequestId),
    /// An interactive transaction.
    Transaction(SiteId, TxId),
}

/// A step of the protocol that checkers observe.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A transaction reads from this snapshot.
    Snapshot {
        /// The transaction.
        cause: Cause,
        /// `snapVec`.
        snap_vec: Vector,
        /// Whether it is a snapshot of an eventual space, which gives no guarantees.
        eventual: bool,
    },
    /// A causal transaction committed, at its coordinator.
    Committed {
        /// The transaction; `None` for an operation on an eventual space whose client does not
        /// wait.
        cause: Option<Cause>,
        /// Its dot.
        dot: Dot,
        /// Its snapshot.
        snap_vec: Vector,
        /// Partitions to which it wrote.
        partitions: Vec<PartitionId>,
        /// Whether these are writes to an eventual space.
        eventual: bool,
    },
    /// A replica stored a transaction's updates to a partition.
    Stored {
        /// The partition.
        partition: PartitionId,
        /// The transaction.
        dot: Dot,
    },
    /// A strong transaction is about to be certified, at its coordinator.
    Submitted {
        /// The transaction, as its client identifies it.
        cause: Cause,
        /// Identifier in certification; each retry has another.
        tid: TransactionId,
        /// Its snapshot.
        snap_vec: Vector,
        /// Partitions to which it writes.
        partitions: Vec<PartitionId>,
        /// Its accesses, as far as they can conflict.
        accesses: Vec<Access>,
    },
    /// The outcome of a strong transaction is known, at its coordinator or where it is delivered.
    Certified {
        /// The transaction.
        tid: TransactionId,
        /// Its strong timestamp, if it committed.
        ts: Option<Timestamp>,
    },
    /// A strong transaction is delivered at the site where it was submitted, before the leader's
    /// delivery arrives there.
    Ahead {
        /// The transaction.
        tid: TransactionId,
    },
    /// A sibling asks for updates that it had stored before. They are forgotten here, because every
    /// site had stored them.
    Lacks {
        /// The sibling.
        worker: Address,
        /// The partition.
        partition: PartitionId,
        /// Origin of the updates.
        origin: Origin,
        /// Time up to which it has the updates.
        known: Timestamp,
    },
    /// A replica has received all that a donor had of a partition.
    Filled {
        /// The partition.
        partition: PartitionId,
        /// For each origin, the time up to which it has the updates.
        known_vec: Vector,
    },
    /// A rare path was taken.
    Reached(RarePath),
    /// A replica has dropped what it had of the history of a site's generation after the cut, and
    /// accepts no more of that generation.
    Closed {
        /// The site.
        site: SiteId,
        /// Times whose transactions are given up.
        gap: Gap,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_that_lists_fewer_sites_lacks_updates_that_observed_the_others() {
        let dot = Dot::of(SiteId(0), Timestamp(5));
        let snap_vec = Vector::zero(3).with(SiteId(2), Timestamp(7));
        let update = Update { dot, snap_vec, writes: Vec::new(), eventual: false };
        let short = Vector::zero(2).with(SiteId(0), Timestamp(9));
        assert!(!update.within(&short));
        assert!(update.within(&short.with(SiteId(2), Timestamp(7))));
    }
}

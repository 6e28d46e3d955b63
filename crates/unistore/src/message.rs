//! What replicas tell one another, and the machine's inputs and outputs.

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

/// One key's change by a transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Write {
    /// The key.
    pub key: Key,
    /// What happens to it.
    pub effect: Effect,
}

impl Write {
    /// Approximate bytes.
    pub fn size(&self) -> usize {
        self.key.len() + self.effect.size()
    }
}

/// What a committed transaction did to one partition: an element of `committedCausal` and, key by
/// key, of `opLog`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Update {
    /// Where and when it committed; the time is `commitVec[d]`, the paper's local timestamp, or the
    /// strong timestamp of a strong transaction, whose origin is [`Origin::Strong`].
    pub dot: Dot,
    /// The snapshot it executed on (`snapVec`).
    pub snap_vec: Vector,
    /// Its writes to this partition.
    pub writes: Vec<Write>,
    /// Whether it is an operation on an eventual space: shown wherever it arrives, and whole by
    /// itself.
    pub eventual: bool,
}

impl Update {
    /// The transaction's commit vector (§5.1).
    pub fn commit_vec(&self) -> Vector {
        self.snap_vec.with(self.dot.origin, self.dot.ts)
    }

    /// Whether the snapshot `vec` contains the transaction: `commitVec ≤ vec`.
    pub fn within(&self, vec: &Vector) -> bool {
        vec[self.dot.origin] >= self.dot.ts
            && Origin::all(MAX_SITES)
                .filter(|origin| *origin != self.dot.origin)
                .all(|origin| vec[origin] >= self.snap_vec[origin])
    }

    /// Approximate bytes.
    pub(crate) fn size(&self) -> usize {
        size_of::<Update>() + self.writes.iter().map(Write::size).sum::<usize>()
    }

    pub(crate) fn context(&self) -> Context<'_> {
        Context { dot: self.dot, observed: &self.snap_vec }
    }
}

/// A piece of one partition's history of one origin: all updates with local timestamps in
/// `(prev, known]`. Without updates it is the paper's HEARTBEAT.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stretch {
    /// The partition.
    pub partition: PartitionId,
    /// Whose updates.
    pub origin: Origin,
    /// Where the stretch begins; the receiver must know everything up to here.
    pub prev: Timestamp,
    /// Where it ends.
    pub known: Timestamp,
    /// The updates, by local timestamp.
    pub updates: Vec<Arc<Update>>,
}

/// The answer of a partition to one operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Executed {
    /// What the client is told, and what the transaction will do to the key.
    pub result: Result<(Outcome, Option<Effect>), OpError>,
    /// The greatest local timestamp among the transactions that the answer depends on.
    pub local_dependency: Timestamp,
}

/// A message between replicas. The first group stays within a site, the second crosses sites.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// A single-operation transaction, sent to the worker that owns the key.
    Execute {
        /// The sender's request.
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
    /// The answer to [`Message::Execute`].
    ExecuteReply {
        /// The request answered.
        request: RequestId,
        /// The answer.
        response: Response,
    },
    /// GET_VERSION (Alg. 1 l. 11): executes the operation where the key is, on the snapshot and the
    /// transaction's own earlier effect.
    GetVersion {
        /// The transaction.
        tx: TxId,
        /// The client's request.
        request: RequestId,
        /// `snapVec[tid]`.
        snap_vec: Vector,
        /// The level of the key's space.
        level: Level,
        /// The key.
        key: Key,
        /// The operation.
        op: Op,
        /// The transaction's own earlier effect on the key (`wbuff`).
        own: Option<Effect>,
    },
    /// VERSION (Alg. 1 l. 25).
    Version {
        /// The transaction.
        tx: TxId,
        /// The client's request.
        request: RequestId,
        /// The level of the key's space.
        level: Level,
        /// The key.
        key: Key,
        /// The answer.
        executed: Executed,
    },
    /// PREPARE (Alg. 1 l. 29).
    Prepare {
        /// The transaction.
        tx: TxId,
        /// `snapVec[tid]`.
        snap_vec: Vector,
        /// The receiver's share of `wbuff[tid]`.
        writes: Vec<Write>,
        /// The operations on eventual spaces that the receiver executes if the transaction commits.
        eventual: Vec<(Key, Op)>,
    },
    /// PREPARE_ACK (Alg. 1 l. 41).
    PrepareAck {
        /// The transaction.
        tx: TxId,
        /// The prepare time.
        ts: Timestamp,
    },
    /// COMMIT (Alg. 1 l. 34); only `commitVec[d]` differs from the snapshot that PREPARE brought.
    Commit {
        /// The transaction.
        tx: TxId,
        /// `commitVec[d]`.
        ts: Timestamp,
    },
    /// The coordinator gave the transaction up.
    Abort {
        /// The transaction.
        tx: TxId,
    },
    /// A participant has applied or dropped the transaction; the coordinator may forget it.
    Resolved {
        /// The transaction.
        tx: TxId,
        /// Covers the commit vectors of its operations on eventual spaces that the participant
        /// executed.
        until: Vector,
    },
    /// A participant that waits too long asks for the decision again.
    Undecided {
        /// The transaction.
        tx: TxId,
    },
    /// KNOWNVEC_LOCAL (Alg. 2 l. 24), up the dissemination tree, for the sender's whole subtree.
    Up(Subtree),
    /// Results of KNOWNVEC_LOCAL and STABLEVEC, down the dissemination tree.
    Down(SiteView, Members),

    /// REPLICATE and HEARTBEAT (Alg. 2 l. 6, 8, 21, 22).
    Replicate(Vec<Stretch>),
    /// The receiver of a stretch lacks what precedes it and wants it again from here.
    Gap {
        /// The partition.
        partition: PartitionId,
        /// Whose updates.
        origin: Origin,
        /// Everything up to here is known.
        known: Timestamp,
    },
    /// KNOWNVEC_GLOBAL (Alg. 2 l. 26), for all partitions of the sender that the receiver shares.
    KnownVecGlobal {
        /// `knownVec` per partition.
        known_vecs: Vec<(PartitionId, Vector)>,
        /// The sites that the sender suspects to have failed.
        suspects: Vec<SiteId>,
        /// Whom the sender listened to until then.
        members: Members,
        /// It has proposed no greater strong timestamp until then, nor kept a vote with one.
        voted: Timestamp,
    },
    /// STABLEVEC (Alg. 2 l. 25), between the roots of the sites' dissemination trees.
    StableVec {
        /// `stableVec` of the sending site.
        stable_vec: Vector,
        /// Every transaction of the sending site that is not within `ceiling` observes this
        /// snapshot.
        floor: Vector,
        /// See `floor`.
        ceiling: Vector,
        /// Who takes part, as far as the sending site knows.
        members: Members,
        /// Removals that all workers of the sending site have settled; see [`Subtree::settled`].
        settled: Option<Vec<SiteLife>>,
    },

    /// Between the members and coordinators of the certification service (§6.3), also within a
    /// site.
    Certification(Box<solera_certification::Message<Write>>),

    /// REDBLUE's central certifier brings strong transactions to the other partitions of its site.
    Spread(Vec<Stretch>),
    /// What became of a strong transaction? Also within a site.
    AskOutcome {
        /// The sender's request.
        request: RequestId,
        /// The transaction.
        tid: TransactionId,
    },
    /// The answer to [`Message::AskOutcome`].
    OutcomeIs {
        /// The request answered.
        request: RequestId,
        /// Whether it committed, if that is known.
        committed: Option<bool>,
    },

    /// A joining site's worker asks for pieces of a partition.
    Fetch(Fetch),
    /// The answer.
    Filling(Filling),
    /// A donor has no snapshot for this attempt to get a partition, or not any more: it begins
    /// anew.
    NotKept {
        /// The partition.
        partition: PartitionId,
        /// See [`Fetch::attempt`].
        attempt: u64,
    },

    /// Somebody waits until `uniformVec` covers this: the receiver tells its part at once. To the
    /// other workers of a site, and to siblings at other sites.
    Wanted {
        /// What is waited for.
        upto: Vector,
        /// The sender's clock, which the other workers of its site follow; zero to other sites.
        clock: Timestamp,
        /// The sender's strong clock, likewise.
        strong_clock: Timestamp,
        /// Whether the receiver should ask its siblings at other sites without delay.
        afar: bool,
    },

    /// PREPARE of a transaction that has guards at the receiver; within a site.
    PrepareGuarded(Box<PrepareGuarded>),
    /// Instead of PREPARE_ACK: a guard refuses.
    GuardRefused {
        /// The transaction.
        tx: TxId,
        /// Which guard, and why.
        refusal: Refusal,
    },
}

/// PREPARE with guards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PrepareGuarded {
    /// The transaction.
    pub tx: TxId,
    /// `snapVec[tid]`.
    pub snap_vec: Vector,
    /// The receiver's share of `wbuff[tid]`.
    pub writes: Vec<Write>,
    /// The operations on eventual spaces that the receiver executes if the transaction commits.
    pub eventual: Vec<(Key, Op)>,
    /// The guards of keys that the receiver owns.
    pub guards: Guarded,
}

impl Message {
    /// The variant's name; of a message of the certification service, that of its body.
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
            Message::Spread(..) => "Spread",
            Message::AskOutcome { .. } => "AskOutcome",
            Message::OutcomeIs { .. } => "OutcomeIs",
            Message::Fetch(..) => "Fetch",
            Message::Filling(..) => "Filling",
            Message::NotKept { .. } => "NotKept",
            Message::Wanted { .. } => "Wanted",
            Message::PrepareGuarded(..) => "PrepareGuarded",
            Message::GuardRefused { .. } => "GuardRefused",
        }
    }
}

/// A place between the items of a partition that is handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// So many items come before it: the [`Chunk::Begin`], then updates, then keys.
    pub items: u64,
    /// And so many parts of the next item, if that is a key with too much in it for one piece.
    pub parts: u64,
}

impl Place {
    /// Before everything.
    pub const START: Place = Place { items: 0, parts: 0 };
}

/// Tells a donor what a joining site's worker has of a partition, and asks for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetch {
    /// The partition.
    pub partition: PartitionId,
    /// Tells one attempt of the asking worker to get it from its others.
    pub attempt: u64,
    /// What comes before this has arrived; after the last item, nothing is wanted any more.
    pub at: Place,
    /// About how many bytes may be under way.
    pub window: u64,
    /// What was sent after [`Self::at`] seems to be lost.
    pub again: bool,
}

/// A piece of a partition for a joining site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Filling {
    /// The partition.
    pub partition: PartitionId,
    /// See [`Fetch::attempt`].
    pub attempt: u64,
    /// Where the piece begins.
    pub at: Place,
    /// Where it ends.
    pub next: Place,
    /// The items.
    pub chunk: Chunk,
}

/// Items of a partition for a joining site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Chunk {
    /// The partition itself.
    Begin(Box<Begin>),
    /// All updates that are not causally stable.
    Updates(Vec<Arc<Update>>),
    /// Keys, with what the snapshot sees of them. One with too much in it for one piece comes
    /// several times, each time with another part of it.
    Keys(Vec<(Key, State)>),
}

/// What a joining site is told first of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Begin {
    /// The keys that follow are as this snapshot sees them. It is uniform.
    pub snapshot: Vector,
    /// `knownVec` of the donor: the updates up to here are in the keys or among the updates.
    pub known_vec: Vector,
    /// The last update of each origin.
    pub arrived: Vector,
    /// Up to where the updates of each origin were forgotten.
    pub forgotten: Vector,
    /// How many items there are, this one included.
    pub items: u64,
}

/// What a subtree of a site's dissemination tree knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Subtree {
    /// The meet of the `knownVec`s of its partitions.
    pub known_vec: Vector,
    /// The meet of the snapshots of its live and future transactions.
    pub floor: Vector,
    /// The join of all that its workers knew when they stated their floors, their clocks included:
    /// every transaction that they had finished by then is within it.
    pub ceiling: Vector,
    /// The greatest strong timestamp up to which one of its partitions has everything.
    pub strong_clock: Timestamp,
    /// All strong transactions up to here are folded in all its partitions.
    pub strong_folded: Timestamp,
    /// Whether `ceiling` covers what others may still commit of strong transactions of the site's
    /// former lives.
    pub former_lives_covered: bool,
    /// What its workers have shown as uniform: after a restart, one may remember more than others.
    pub uniform_vec: Vector,
    /// Whether all its partitions are filled, at a joining site.
    pub filled: bool,
    /// The join of the snapshots that they were filled with.
    pub base_vec: Vector,
    /// The least number of sites that one of its workers lists, while the list grows.
    pub listed: u8,
    /// The sites that leave and of whose history its workers have the same as every other member,
    /// and those that are gone or join again.
    pub converged: Vec<Converged>,
    /// Removals that the other protocols of all its workers have settled; `None` if its workers run
    /// no other protocol that is asked.
    pub settled: Option<Vec<SiteLife>>,
}

/// One life of a site.
pub type SiteLife = (SiteId, u32);

/// What a subtree has of the history of a site that leaves or is gone, when all members have the
/// same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Converged {
    /// The site.
    pub site: SiteId,
    /// Its life.
    pub life: u32,
    /// Whether the life before that, or this one, is gone.
    pub gone: bool,
    /// Every partition has at least the history up to here.
    pub least: Timestamp,
    /// No partition has more than up to here, nor an update of another former life that depends on
    /// more.
    pub most: Timestamp,
    /// Covers every update of it that is not causally stable, and what can still be committed of
    /// its strong transactions; nothing until all members have told how far that may be.
    pub ceiling: Option<Vector>,
}

/// What the root of a site's dissemination tree found out for all of its workers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiteView {
    /// `stableVec` (Property 2).
    pub stable_vec: Vector,
    /// `uniformVec` (Property 3).
    pub uniform_vec: Vector,
    /// The most that any site is known to store, entry by entry; no site can recover more.
    pub reachable_vec: Vector,
    /// No live or future transaction of this site executes on a snapshot below this one.
    pub floor: Vector,
    /// The greatest clock among the site's workers; the others follow, so that skew within a site
    /// does not hold `stableVec` back.
    pub clock: Timestamp,
    /// The greatest strong timestamp up to which a partition of the site has everything; leaders
    /// follow, so that one with a slow clock does not hold the strong entry back everywhere.
    pub strong_clock: Timestamp,
    /// Causal stability: every transaction that arrives from now on, from any site, observes this.
    pub settled_vec: Vector,
    /// Whether every member has told that it knows the same members.
    pub agreed: bool,
    /// Whether the site can answer clients: always, unless it has joined and is not up to date yet.
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

/// An input of a [`Replica`](crate::Replica). Lives of sites: [`Members::life`].
pub type Input = solera_machine::Input<Message, Command, Infallible, GuardAnswer>;

/// An output of a [`Replica`](crate::Replica): records only with
/// [`Config::journal`](crate::Config::journal), events only with
/// [`Config::trace`](crate::Config::trace).
pub type Output = solera_machine::Output<Message, Response, Event, Infallible, Errand>;

/// Who asked for what a trace event tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A single-operation transaction: the worker that received the request, and the request.
    Request(Address, RequestId),
    /// An interactive transaction.
    Transaction(SiteId, TxId),
}

/// A step of the protocol that judges want to know about.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A transaction reads from this snapshot.
    Snapshot {
        /// The transaction.
        cause: Cause,
        /// `snapVec`.
        snap_vec: Vector,
        /// Whether the snapshot is of an eventual space, and promises nothing.
        eventual: bool,
    },
    /// A causal transaction committed, at its coordinator.
    Committed {
        /// The transaction; `None` for an operation on an eventual space that nobody waits for.
        cause: Option<Cause>,
        /// Its dot.
        dot: Dot,
        /// Its snapshot.
        snap_vec: Vector,
        /// The partitions it wrote.
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
        /// The transaction, as its client names it.
        cause: Cause,
        /// As certification names it; another when it is executed again.
        tid: TransactionId,
        /// Its snapshot.
        snap_vec: Vector,
        /// The partitions that it writes.
        partitions: Vec<PartitionId>,
        /// What it did, as far as it can conflict.
        accesses: Vec<Access>,
    },
    /// What became of a strong transaction is known, at its coordinator or where it is delivered.
    Certified {
        /// The transaction.
        tid: TransactionId,
        /// Its strong timestamp, if it committed.
        ts: Option<Timestamp>,
    },
    /// A strong transaction is delivered where it was submitted, before the leader delivers it
    /// there.
    Ahead {
        /// The transaction.
        tid: TransactionId,
    },
    /// A sibling asks for updates that every site had stored, itself included, and that are
    /// forgotten here.
    Lacks {
        /// The sibling.
        worker: Address,
        /// The partition.
        partition: PartitionId,
        /// Whose updates.
        origin: Origin,
        /// Up to when it has them.
        known: Timestamp,
    },
    /// A replica has got all that a donor had of a partition.
    Filled {
        /// The partition.
        partition: PartitionId,
        /// What it has of each origin.
        known_vec: Vector,
    },
    /// A rare path was taken.
    Reached(RarePath),
    /// A replica keeps nothing of a site's life after the cut, and expects nothing more of it.
    Closed {
        /// The site.
        site: SiteId,
        /// What is gone.
        gap: Gap,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_that_lists_fewer_sites_lacks_what_observed_the_others() {
        let dot = Dot::of(SiteId(0), Timestamp(5));
        let snap_vec = Vector::zero(3).with(SiteId(2), Timestamp(7));
        let update = Update { dot, snap_vec, writes: Vec::new(), eventual: false };
        let short = Vector::zero(2).with(SiteId(0), Timestamp(9));
        assert!(!update.within(&short));
        assert!(update.within(&short.with(SiteId(2), Timestamp(7))));
    }
}

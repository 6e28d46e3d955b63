//! Messages between the clients of transactions, homes and replicas.

use std::convert::Infallible;

use serde::{Deserialize, Serialize};
use solera_data::{Effect, Key, Op, OpError, Outcome, State};
use solera_machine::{Address, RarePath};
use solera_time::SiteId;

use crate::command::{Command, Response};
use crate::passed::Passing;
use crate::shard::{Move, ShardId, Stamp};
use crate::timestamp::CausalTimestamp;

/// The process that runs a client's transactions: a worker, and the number of its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClientId {
    /// The worker.
    pub address: Address,
    /// Number of the worker's start; a later start has a greater number.
    pub incarnation: u64,
}

/// One attempt of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TransactionId {
    /// The client.
    pub client: ClientId,
    /// Number of the attempt at the client, from 1.
    pub number: u64,
}

/// The decision about a transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Decision {
    /// It commits.
    Commit(Box<Commit>),
    /// It aborts.
    Abort,
}

/// The contents of a commit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Commit {
    /// The commit timestamp: the causal timestamp of all versions that the transaction writes.
    pub timestamp: CausalTimestamp,
    /// The commit stamp of each site that is home of a written shard.
    pub stamps: Vec<(SiteId, Stamp)>,
}

impl Commit {
    /// Returns the stamp of the writes at a site.
    pub fn stamp_at(&self, site: SiteId) -> Option<Stamp> {
        self.stamps.iter().find(|(other, _)| *other == site).map(|(_, stamp)| *stamp)
    }
}

/// A request to read a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Read {
    /// Number of the read at its client.
    pub number: u64,
    /// The key.
    pub key: Key,
    /// The operation. If it has an effect, the effect is returned and not applied.
    pub op: Op,
    /// The transaction's own effect on the key so far.
    pub own: Option<Effect>,
    /// The shard's entry in the client's timestamp. A home answers once it can show all writes up
    /// to this stamp.
    pub at_least: Stamp,
    /// Whether a replica that is not recent enough may wait before it answers.
    pub waits: bool,
}

/// Answer to a [`Read`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadAnswer {
    /// The read's number.
    pub number: u64,
    /// The operation's outcome and its effect.
    pub result: Result<(Outcome, Option<Effect>), OpError>,
    /// The timestamp of the version; empty for a key that was never written.
    pub dependencies: CausalTimestamp,
    /// The shardstamp: the copy shows all writes of the shard up to it, and no others.
    pub shown: Stamp,
}

/// A request to prepare a transaction's writes at one participant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prepare {
    /// The transaction.
    pub tid: TransactionId,
    /// The greatest stamp of this site's homes in the client's timestamp (`max_cli_ss`).
    pub above: Stamp,
    /// Keys and effects.
    pub writes: Vec<(Key, Effect)>,
    /// The participant whose record decides.
    pub decision_home: Address,
    /// One of the shards that the transaction writes at the decision home. If the shard moves, its
    /// new home knows the decision as well.
    pub decision_shard: ShardId,
    /// Number of moves that the client's worker had carried out when it chose the decision home.
    pub epoch: u64,
    /// Smallest number of a transaction about which the client may still send a message to this
    /// home.
    pub oldest: u64,
}

/// A transaction whose writes are all at one home, which validates and decides it in one step. A
/// single update is such a transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Execute {
    /// The transaction.
    pub tid: TransactionId,
    /// Number of times that the transaction was sent before.
    pub attempt: u32,
    /// The client's timestamp.
    pub timestamp: CausalTimestamp,
    /// The shards that the transaction has read, each with the shardstamp of the copy and the
    /// number of moves that the copy's worker had carried out.
    pub reads: Vec<(ShardId, Stamp, u64)>,
    /// Operations that execute on the latest versions.
    pub operations: Vec<(Key, Op)>,
    /// Effects of operations that the client has executed on what it has read.
    pub writes: Vec<(Key, Effect)>,
    /// Smallest number of a transaction about which the client may still send a message to this
    /// home.
    pub oldest: u64,
}

/// Result of an [`Execute`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Executed {
    /// It has committed, with the outcomes of its operations and its timestamp.
    Committed(Vec<Outcome>, CausalTimestamp),
    /// An operation failed; nothing has changed.
    Failed(Key, OpError),
    /// The transaction's read in this shard has missed a write on which an overwritten version
    /// depends, or the shard has moved since that read.
    Conflict(ShardId),
    /// Another transaction has locked this key. Nothing has changed.
    Locked(Key),
    /// The client's timestamp is too far ahead of the home's clock. Nothing has changed.
    Ahead,
    /// The worker is not the home of a written shard, or has not received all of its data yet.
    /// Nothing has changed.
    Moved,
}

impl Executed {
    /// Returns whether the result is final: the home executes no later attempt of the transaction,
    /// and repeats this answer.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Executed::Committed(..) | Executed::Failed(..) | Executed::Conflict(_) => true,
            Executed::Locked(_) | Executed::Ahead | Executed::Moved => false,
        }
    }
}

/// A transaction, and the contents of its commit.
pub type DecidedCommit = (TransactionId, Box<Commit>);

/// The home that has decided a transaction, one of the shards that the transaction has written
/// there, the transaction, and the contents of its commit.
pub type DecidedOf = (Address, ShardId, TransactionId, Box<Commit>);

/// A group of writes that a home shows in one step: all writes of a shard with one stamp.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The shard.
    pub shard: ShardId,
    /// The stamp.
    pub stamp: Stamp,
    /// Keys with their effects, and the timestamps of the new versions.
    pub writes: Vec<(Key, Effect, CausalTimestamp)>,
    /// Transactions of several homes that this home has decided to commit with these writes.
    pub decided: Vec<DecidedCommit>,
    /// A part of the data of a shard that this home has taken over. An entry with such a part has
    /// no writes.
    pub takeover: Option<Box<Takeover>>,
}

/// A part of the data of a shard, as its new home has taken it over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Takeover {
    /// Number of the move.
    pub number: u64,
    /// The former home.
    pub from: SiteId,
    /// The greatest stamp of the former home's writes that are not lost.
    pub last: Stamp,
    /// The forced moves of the shard so far: the number of each, and the greatest stamp of the
    /// former home's writes that are not lost. A copy that has not taken the data of such a move
    /// must drop writes with greater stamps. Only the first part contains the losses.
    pub losses: Vec<(u64, Stamp)>,
    /// Decisions of former homes about which somebody may still ask. Only the first part contains
    /// them.
    pub decided: Vec<DecidedOf>,
    /// Versions of keys.
    pub copies: Vec<Copied>,
    /// Whether this is the last part.
    pub done: bool,
}

/// The agreed homes of shards, as workers exchange them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Number of sites with which the cluster began.
    pub founders: u8,
    /// All moves, in order.
    pub moves: Vec<Move>,
    /// For each move of a shard from a former home: the shard, the number of the move, and the
    /// greatest stamp of the former home's writes that are not lost.
    pub lasts: Vec<(ShardId, u64, Stamp)>,
}

/// A request of a shard's new home to a copy of the shard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HandoverRequest {
    /// The shard.
    pub shard: ShardId,
    /// Number of the move.
    pub number: u64,
    /// The last key of the previous group.
    pub after: Option<Key>,
}

/// A group of a shard's versions for its new home.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Handover {
    /// The shard.
    pub shard: ShardId,
    /// Number of the move.
    pub number: u64,
    /// The last key of the previous group, as the request named it.
    pub after: Option<Key>,
    /// The copy shows all writes of the former home up to this stamp, and has none above it.
    pub last: Stamp,
    /// The versions.
    pub copies: Vec<Copied>,
    /// In the first group: decisions that came with the shard's writes.
    pub decided: Vec<DecidedOf>,
    /// Losses of earlier forced moves of the shard; see [`Takeover::losses`].
    pub losses: Vec<(u64, Stamp)>,
    /// Whether these are the last versions.
    pub done: bool,
}

/// A part of the stream from a home's worker to a replica's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    /// Number of moves that the home has carried out.
    pub epoch: u64,
    /// Start of the home's process. A position is valid in the stream of one start only.
    pub start: u64,
    /// Position in the stream before these entries.
    pub after: u64,
    /// Position after these entries. It may be greater than `after` and the number of entries
    /// together, because entries of shards that the receiver does not own are left out.
    pub end: u64,
    /// The entries, in the order in which the home has shown them.
    pub entries: Vec<Entry>,
    /// The home's progress after these entries; `None` if another batch with further entries
    /// follows.
    pub progress: Option<Progress>,
}

/// Progress of a home: the stamps up to which its shards are shown and stored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// All shards of the home are shown up to this stamp, except those in `held`.
    pub through: Stamp,
    /// Shards with undecided writes, in order, and the stamps up to which they are shown.
    pub held: Vec<(ShardId, Stamp)>,
    /// Stamps that each site has stored and confirmed.
    pub stored: Vec<StoredAt>,
}

/// Stamps up to which a site has stored and confirmed a home's writes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredAt {
    /// The site.
    pub site: SiteId,
    /// The site stores all writes of the home up to this stamp.
    pub stored: Stamp,
    /// All replicas have passed this stamp. In the shards of this home's site, no open transaction
    /// of the site's clients has read a copy with a smaller shardstamp.
    pub unread: Stamp,
}

/// Progress of a replica in a home's stream.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stored {
    /// Start of the home's process.
    pub start: u64,
    /// Position up to which the replica has applied the stream.
    pub position: u64,
    /// The replica shows all writes of the home up to this stamp.
    pub through: Stamp,
    /// See [`StoredAt::unread`].
    pub unread: Stamp,
    /// Whether the replica requests entries that it lacks. A home that does not keep them any more
    /// sends copies.
    pub asks: bool,
}

/// A request for copies of the versions that a replica may lack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CopyRequest {
    /// The last key of the previous group.
    pub after: Key,
    /// The replica has all versions up to this stamp.
    pub above: Stamp,
}

/// A group of copies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Copies {
    /// Start of the home's process.
    pub start: u64,
    /// Position of the stream when the home made these copies. After the last group, a replica
    /// continues at the position of the first group.
    pub position: u64,
    /// The last key of the previous group, as the request named it.
    pub after: Option<Key>,
    /// The versions.
    pub copies: Vec<Copied>,
    /// Number of moves that the home has carried out.
    pub epoch: u64,
    /// In the first group: shards that the home has taken over.
    pub taken: Vec<Taken>,
    /// Commits of several homes that were decided for the shards of these copies, and about which
    /// somebody may still ask.
    pub decided: Vec<DecidedOf>,
    /// Whether these are the last copies.
    pub last: bool,
}

/// A shard that a home has taken over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Taken {
    /// The shard.
    pub shard: ShardId,
    /// Number of the last move.
    pub number: u64,
    /// See [`Takeover::losses`].
    pub losses: Vec<(u64, Stamp)>,
}

/// A key's version, as a home sends it to a replica that has missed entries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Copied {
    /// The key.
    pub key: Key,
    /// Its value.
    pub state: State,
    /// Its timestamp.
    pub dependencies: CausalTimestamp,
    /// Its stamp.
    pub stamp: Stamp,
}

/// A check of the dependencies of a write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DependencyCheck {
    /// Number of the check, chosen by the sender.
    pub number: u64,
    /// The shard and the stamp of the write.
    pub of: (ShardId, Stamp),
    /// The dependencies that the receiver stores.
    pub needs: Vec<(ShardId, Stamp)>,
}

/// Input of an [`Occult`](crate::Occult).
pub type Input = solera_machine::Input<Message, Command, Infallible, Answer>;
/// Output of an [`Occult`](crate::Occult).
pub type Output = solera_machine::Output<Message, Response, Event, Infallible, Question>;

/// A question to UniStore.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    /// Proposes a move with a number. A strong transaction stores the move, unless the number
    /// belongs to another move.
    Propose {
        /// The number.
        number: u64,
        /// The move.
        next: Move,
    },
}

/// The answer to a [`Question`].
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The sites have agreed on the move.
    Agreed,
    /// Another move has the number.
    Other(Move),
    /// The sites have not agreed, for this reason.
    Failed(String),
}

/// Events for checks and statistics.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A home shows writes; only if the configuration requires it.
    Shown(Entry),
    /// A rare path was taken.
    Rare(RarePath),
}

/// A message between workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Number of moves of homes that the sender has carried out. A receiver that has carried out
    /// fewer moves drops the message, because it would attribute the stamps of a moved shard to the
    /// wrong site.
    pub epoch: u64,
    /// The contents.
    pub body: Body,
}

/// The contents of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Body {
    /// Client to replica or home: reads a key.
    Read(Read),
    /// The answer.
    ReadAnswer(ReadAnswer),
    /// Client to participant: requests a prepare.
    Prepare(Prepare),
    /// Participant to client: the assigned stamp, and the merged timestamps of the overwritten
    /// versions.
    Prepared(TransactionId, Stamp, CausalTimestamp),
    /// Participant to client: another transaction holds the lock of this key. Nothing is recorded.
    Locked(TransactionId, Key),
    /// Client to participant: aborts the transaction. The client never sends COMMIT for it.
    Abort(TransactionId),
    /// Client to decision home: decides to commit. Contains the participants.
    Commit(TransactionId, Box<Commit>, Vec<Address>),
    /// Decision home to client: whether the transaction has committed.
    Outcome(TransactionId, bool),
    /// Decision home to participant: the decision.
    Decided(TransactionId, Decision),
    /// Participant to decision home: it has recorded the commit.
    Applied(TransactionId),
    /// Participant to decision home: asks for the decision, if there is one.
    Query(TransactionId),
    /// Participant to decision home: the prepare has expired, so the decision home must decide now.
    Resolve(TransactionId),
    /// Client to home: executes a transaction of one home.
    Execute(Execute),
    /// The answer to the attempt with this number. The client may give up only after the answer to
    /// its last attempt, because a later attempt may succeed.
    Executed(TransactionId, u32, Executed),
    /// Client to every worker that may have records of its transactions: the smallest number of a
    /// transaction about which the client may still send messages.
    Oldest(ClientId, u64),
    /// Home to replica: a part of the stream.
    Batch(Batch),
    /// Replica to home: the replica's progress.
    Stored(Stored),
    /// Replica to home: a client waits for the home's progress, so the home must publish it now.
    Wanted,
    /// Replica to home: requests copies.
    CopyRequest(CopyRequest),
    /// Home to replica: the copies.
    Copies(Copies),
    /// Worker to another worker of its site: for each site's homes, the stamps that replicas have
    /// passed; and whether clients use the sender.
    Passed(Vec<Passing>, bool),
    /// Worker to client: the worker is not the home of a written shard, and has prepared nothing.
    Moved(TransactionId),
    /// Any worker to any other one: the agreed homes.
    Table(Box<Table>),
    /// Any worker to any other one: requests the agreed homes.
    TableRequest,
    /// New home to a copy: requests the data of a shard.
    HandoverRequest(HandoverRequest),
    /// Copy to new home: the data.
    Handover(Handover),
    /// Participant or client to the present home of a shard whose former home was the decision
    /// home: requests the decision.
    ResolveMoved(TransactionId, ShardId),
    /// Any worker to a home: requests the home's clock. Contains the incarnation of the sender.
    ClockRequest(u64),
    /// The answer, with the incarnation of the request.
    Clock(u64, Stamp),
    /// Replica to another worker of its site: asks whether the worker shows the dependencies of a
    /// write. Only in the baseline [`Shows::AfterDependencies`](crate::Shows::AfterDependencies).
    DependencyCheck(DependencyCheck),
    /// The answer, once they are shown: the number of the check, and the shard of the write.
    DependenciesShown(u64, ShardId),
    /// Home to replica: of the transactions that the home has decided to commit with stamps up to
    /// this one, those about which somebody may still ask. It has not decided some of them yet.
    Askable(Stamp, Vec<TransactionId>),
}

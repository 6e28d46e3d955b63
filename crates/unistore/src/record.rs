//! Records of a journal: the state that a replica must have again after a restart.
//!
//! A record contains the effect of a step, not its cause, so replaying needs no other replica and
//! no clock. The host writes records in order. It sends no output that follows a record before the
//! record is durable (`docs/decisions/0007-durability.md`).

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use solera_data::{Dot, Key, Op, State};
use solera_machine::{Address, DecodeError, Guarded, PartitionId, Protocol};
use solera_membership::Members;
use solera_time::{SiteId, Timestamp, Vector};

use crate::command::TxId;
use crate::heard::Heard;
use crate::message::{Chunk, Update, Write};
use crate::protocol::PROTOCOL;

/// A step that must survive a restart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Record {
    /// Updates of one transaction to partitions of this worker were stored, all of them or none.
    Stored(SmallVec<[(PartitionId, Arc<Update>); 1]>),
    /// The update of an operation on an eventual space was stored. The operation's snapshot was not
    /// uniform.
    StoredEventual(PartitionId, Arc<Update>),
    /// A transaction prepared here (UniStore Alg. 1 l. 36–40).
    Prepared(TxId, Prepared),
    /// A prepared transaction committed with this local timestamp (Alg. 1 l. 42–48). The updates
    /// are the results of its operations on eventual spaces, so that these are not executed again.
    Committed(TxId, Timestamp, Vec<(PartitionId, Arc<Update>)>),
    /// A prepared transaction was aborted.
    Aborted(TxId),
    /// A transaction that this worker coordinates committed (Alg. 1 l. 34). Its participants may
    /// ask for the decision until all have confirmed it.
    Decided(TxId, Decision),
    /// All participants have confirmed a decision.
    Forgotten(TxId),
    /// See [`Promise`].
    Promised(Promise),
    /// The list of members has changed.
    Members(Members),
    /// Time up to which the history of a leaving site is known, heartbeats included. Other sites
    /// rely on this time, so it must survive a restart.
    Known(PartitionId, SiteId, Timestamp),
    /// A joining site's worker has received a piece of a partition. The flag is whether it was the
    /// last piece.
    Filled(PartitionId, Chunk, bool),
    /// A step of the certification service.
    Certification(Box<solera_certification::Record<Write>>),
    /// Greatest times that workers of other sites have sent of their own histories.
    Heard(Vec<Heard>),
    /// A transaction prepared here with guards, which the worker asks after this record.
    PreparedGuarded(TxId, Prepared, Guarded),
    /// All guards have acknowledged the outcome of a transaction that is not prepared any more.
    GuardsNotified(TxId),
}

/// A transaction that waits for its coordinator's decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prepared {
    /// Address of the coordinator, which decides.
    pub coordinator: Address,
    /// Prepare time (Alg. 1 l. 39).
    pub ts: Timestamp,
    /// `snapVec[tid]`.
    pub snap_vec: Vector,
    /// This worker's part of `wbuff[tid]`.
    pub writes: Vec<Write>,
    /// Its operations on eventual spaces of this worker, which are executed when it commits.
    pub eventual: Vec<(Key, Op)>,
}

impl Prepared {
    /// Returns the keys that it writes here.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        let writes = self.writes.iter().map(|write| &write.key);
        writes.chain(self.eventual.iter().map(|(key, _)| key))
    }

    /// Returns the approximate size in bytes.
    pub(crate) fn size(&self) -> usize {
        let eventual = self.eventual.iter().map(|(key, op)| key.len() + op.size());
        self.writes.iter().map(Write::size).sum::<usize>() + eventual.sum::<usize>()
    }
}

/// Commit of a transaction that some participant has not confirmed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// `commitVec[d]`.
    pub ts: Timestamp,
    /// Participants that have not confirmed it.
    pub unconfirmed: Vec<Address>,
}

/// Bounds on what a replica sends between two records of this kind, even after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Promise {
    /// No later transaction of this worker executes on a snapshot below this one. The root computes
    /// the site's floor from these floors. Other workers rely on the site's floor when they merge
    /// updates that they had kept apart.
    pub floor: Vector,
    /// `knownVec` (Property 1) of all partitions of this worker, heartbeats included. A heartbeat
    /// leaves no other trace in the journal, and a removed site cannot send it again.
    pub known_vec: Vector,
    /// `uniformVec`: later snapshots cover the transactions that earlier ones showed.
    pub uniform_vec: Vector,
    /// Upper bound of this worker's timestamps, heartbeats included. Timestamps after a restart
    /// must be greater.
    pub clock: Timestamp,
    /// Number of starts of this replica. It makes the identifiers of transactions of different runs
    /// distinct.
    pub starts: u64,
}

/// A part of a checkpoint. All parts together contain the state that a replica must have again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Part {
    /// The worker's own state.
    Worker {
        /// See [`Promise`].
        promise: Promise,
        /// See [`Record::Prepared`].
        prepared: Vec<(TxId, Prepared)>,
        /// See [`Record::Decided`].
        decided: Vec<(TxId, Decision)>,
        /// List of members.
        members: Members,
    },
    /// A partition.
    Partition {
        /// Number of the partition.
        partition: PartitionId,
        /// Time of the last update of each origin.
        arrived: Vector,
        /// Greatest local timestamp that an absent key depends on.
        absent: Timestamp,
        /// For each origin, the time up to which updates were forgotten because every site stores
        /// them.
        forgotten: Vector,
        /// `knownVec`, heartbeats included.
        known_vec: Vector,
    },
    /// State of a member of a certification group.
    Certification(Box<solera_certification::Record<Write>>),
    /// Some elements of a partition's `committedCausal`.
    Updates(PartitionId, Vec<Arc<Update>>),
    /// Some keys of a partition.
    Keys(PartitionId, Vec<SavedKey>),
    /// See [`Record::Heard`]. Contains at least the times on which the state of the checkpoint's
    /// partitions is based.
    Heard(Vec<Heard>),
    /// Guards of transactions that are prepared or have ended.
    Guards {
        /// Guards of prepared transactions.
        prepared: Vec<(TxId, Guarded)>,
        /// Transactions that have ended, whether each committed, and the protocols that have not
        /// acknowledged that.
        untold: Vec<(TxId, bool, Vec<u8>)>,
    },
}

/// Versions of a key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SavedKey {
    /// The key.
    pub key: Key,
    /// Folded state.
    pub base: State,
    /// Greatest local timestamp that the base depends on.
    pub base_local: Timestamp,
    /// Updates that are not folded.
    pub pending: Vec<Dot>,
}

impl Record {
    /// Appends the record's bytes.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        PROTOCOL.append_record(self, bytes);
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn decode(bytes: &[u8]) -> Result<Record, DecodeError> {
        Protocol::decode_record(&[PROTOCOL], bytes)
    }
}

impl Part {
    /// Appends the part's bytes.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        PROTOCOL.append_record(self, bytes);
    }

    /// Decodes a part.
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn decode(bytes: &[u8]) -> Result<Part, DecodeError> {
        Protocol::decode_record(&[PROTOCOL], bytes)
    }
}

//! What a replica must find again after a restart, as records for a journal.
//!
//! A record is the effect of a step, not its cause: replaying needs no other replica and no clock.
//! The host writes records in order, and lets nothing of what a replica says after a record leave
//! before the record is durable (`docs/decisions/0007-durability.md`).

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
    /// Updates of one transaction to partitions of this worker were stored; all of them or none.
    Stored(SmallVec<[(PartitionId, Arc<Update>); 1]>),
    /// The same for an operation on an eventual space, whose snapshot was not uniform.
    StoredEventual(PartitionId, Arc<Update>),
    /// A transaction prepared here (UniStore Alg. 1 l. 36–40).
    Prepared(TxId, Prepared),
    /// A prepared transaction committed with this local timestamp (Alg. 1 l. 42–48). The updates
    /// are what its operations on eventual spaces came to, so that these are executed once.
    Committed(TxId, Timestamp, Vec<(PartitionId, Arc<Update>)>),
    /// A prepared transaction was given up.
    Aborted(TxId),
    /// A transaction that this worker coordinates committed (Alg. 1 l. 34). Until all participants
    /// have confirmed it, they may ask.
    Decided(TxId, Decision),
    /// All participants have confirmed a decision.
    Forgotten(TxId),
    /// See [`Promise`].
    Promised(Promise),
    /// Who takes part from now on.
    Members(Members),
    /// How far the history of a site that leaves is known. Others draw conclusions from that, so it
    /// must not be forgotten, heartbeats included.
    Known(PartitionId, SiteId, Timestamp),
    /// A joining site's worker got a piece of a partition; whether it was the last one.
    Filled(PartitionId, Chunk, bool),
    /// A step of the certification service.
    Certification(Box<solera_certification::Record<Write>>),
    /// What each worker of another site has told of its own history.
    Heard(Vec<Heard>),
    /// A transaction prepared here with guards, which are asked after this.
    PreparedGuarded(TxId, Prepared, Guarded),
    /// All guards know how a transaction ended that is not prepared any more.
    GuardsTold(TxId),
}

/// A transaction that waits for its coordinator's decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prepared {
    /// Who decides.
    pub coordinator: Address,
    /// The prepare time (Alg. 1 l. 39).
    pub ts: Timestamp,
    /// `snapVec[tid]`.
    pub snap_vec: Vector,
    /// This worker's share of `wbuff[tid]`.
    pub writes: Vec<Write>,
    /// Its operations on eventual spaces here, which are executed when it commits.
    pub eventual: Vec<(Key, Op)>,
}

impl Prepared {
    /// The keys that it writes here.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        let writes = self.writes.iter().map(|write| &write.key);
        writes.chain(self.eventual.iter().map(|(key, _)| key))
    }

    /// Approximate bytes.
    pub(crate) fn size(&self) -> usize {
        let eventual = self.eventual.iter().map(|(key, op)| key.len() + op.size());
        self.writes.iter().map(Write::size).sum::<usize>() + eventual.sum::<usize>()
    }
}

/// The commit of a transaction that some participant has not confirmed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// `commitVec[d]`.
    pub ts: Timestamp,
    /// Who has not confirmed it.
    pub unconfirmed: Vec<Address>,
}

/// What a replica may say between two records of this kind, also after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Promise {
    /// No later transaction of this worker executes on a snapshot below this one: what the floor of
    /// the site is made of, on which others rely when they forget what they had kept apart.
    pub floor: Vector,
    /// Property 1 for all partitions of this worker, heartbeats included. A heartbeat leaves no
    /// other trace, and when its site is gone, nobody says again that nothing happened there.
    pub known_vec: Vector,
    /// `uniformVec`: later snapshots cover what earlier ones showed.
    pub uniform_vec: Vector,
    /// No timestamp of this worker is greater, heartbeats included: later ones must be.
    pub clock: Timestamp,
    /// How often this replica has been started: transactions of different runs have different
    /// names.
    pub starts: u64,
}

/// A part of a checkpoint: together, all that a replica must find again.
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
        /// Who takes part.
        members: Members,
    },
    /// A partition.
    Partition {
        /// Which.
        partition: PartitionId,
        /// The last update of each origin.
        arrived: Vector,
        /// The greatest local timestamp that an absent key depends on.
        absent: Timestamp,
        /// Up to where the updates of each origin were forgotten, because every site stores them.
        forgotten: Vector,
        /// `knownVec`, heartbeats included.
        known_vec: Vector,
    },
    /// What a member of a certification group has kept.
    Certification(Box<solera_certification::Record<Write>>),
    /// Some of a partition's `committedCausal`.
    Updates(PartitionId, Vec<Arc<Update>>),
    /// Some of a partition's keys.
    Keys(PartitionId, Vec<SavedKey>),
    /// See [`Record::Heard`]: at least what the partitions of the checkpoint had concluded from.
    Heard(Vec<Heard>),
    /// Guards of transactions that are prepared, or that ended.
    Guards {
        /// Of those that are prepared.
        prepared: Vec<(TxId, Guarded)>,
        /// Transactions that ended, whether they committed, and the protocols that may not know.
        untold: Vec<(TxId, bool, Vec<u8>)>,
    },
}

/// A key's versions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SavedKey {
    /// The key.
    pub key: Key,
    /// What is folded.
    pub base: State,
    /// The greatest local timestamp that the base depends on.
    pub base_local: Timestamp,
    /// The updates that are not folded.
    pub pending: Vec<Dot>,
}

impl Record {
    /// Appends the record's bytes.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        PROTOCOL.append_record(self, bytes);
    }

    /// Reads a record.
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

    /// Reads a part.
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn decode(bytes: &[u8]) -> Result<Part, DecodeError> {
        Protocol::decode_record(&[PROTOCOL], bytes)
    }
}

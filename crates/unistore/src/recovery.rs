//! Rebuilds a replica from a checkpoint and the records since then.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use solera_data::{Dot, Key};
use solera_machine::PartitionId;
use solera_membership::Members;
use solera_time::{Origin, Vector};

use crate::command::TxId;
use crate::config::{Config, Rule};
use crate::groups::first_run;
use crate::heard::Heard;
use crate::message::Update;
use crate::partition::{Partition, Restored, Restoring};
use crate::rare;
use crate::record::{Decision, Part, Prepared, Promise, Record};
use crate::replica::Replica;

/// A replica that is being rebuilt: first from all parts of a checkpoint, if there is one, then
/// from all records since the checkpoint began, in order.
#[derive(Debug)]
pub struct Recovery {
    replica: Replica,
    /// Number of the last record whose effects on a key are in the checkpoint. For a key without an
    /// entry, this is the number in `listed`.
    saved: HashMap<Key, u64, FixedState>,
    /// Last record whose effects any part of the checkpoint contains. `saved` is not needed for
    /// later records.
    last: u64,
    /// Pending updates of keys that were stored after the partition's list of updates was written.
    unresolved: HashMap<Key, Vec<Dot>, FixedState>,
    /// Number of the last record when the keys of each owned partition were listed for the
    /// checkpoint. A key that is not in the list had no state at that time.
    listed: Vec<u64>,
    promise: Promise,
}

/// Error: a checkpoint part or record belongs to another worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it holds partition {}, which belongs to another worker now: the numbers of partitions, \
     nodes and workers must stay as they were when the data was written",
    .0.0
)]
pub struct ForeignPartition(pub PartitionId);

impl solera_machine::Recovery for Recovery {
    type Machine = Replica;

    fn take_part(&mut self, lsn: u64, part: &[u8]) -> Result<(), String> {
        let part = Part::decode(part).map_err(|error| error.to_string())?;
        self.load(lsn, part).map_err(|error| error.to_string())
    }

    fn take_record(&mut self, lsn: u64, record: &[u8]) -> Result<(), String> {
        let record = Record::decode(record).map_err(|error| error.to_string())?;
        self.replay(lsn, record).map_err(|error| error.to_string())
    }

    fn into_machine(self) -> Replica {
        self.finish()
    }
}

impl Recovery {
    /// Creates a recovery without any data. `seed` only affects the placement of keys in hash
    /// tables.
    pub fn new(config: Config, seed: u64) -> Self {
        let replica = Replica::new(config, seed);
        let promise = replica.promised;
        let saved = HashMap::with_hasher(FixedState::with_seed(seed));
        let unresolved = HashMap::with_hasher(FixedState::with_seed(seed));
        let listed = vec![0; replica.worker.partitions.len()];
        Recovery { replica, saved, last: 0, unresolved, listed, promise }
    }

    /// Returns the keys that were restored so far.
    pub fn each_key(&self) -> impl Iterator<Item = &Key> {
        self.replica.worker.partitions.iter().flat_map(Partition::each_key)
    }

    /// Takes a part of a checkpoint, which contains the effects of all records up to `lsn`.
    ///
    /// # Errors
    /// The data belongs to a worker with other partitions.
    pub fn load(&mut self, lsn: u64, part: Part) -> Result<(), ForeignPartition> {
        self.last = self.last.max(lsn);
        match part {
            Part::Worker { promise, prepared, decided, members } => {
                // Checkpoints are only written once all partitions are filled.
                for partition in &mut self.replica.worker.partitions {
                    partition.filled = true;
                }
                self.members(lsn, &members);
                self.promised(&promise);
                for (tx, prepared) in prepared {
                    self.prepared(tx, prepared);
                }
                for (tx, decision) in decided {
                    self.decided(tx, decision);
                }
            }
            Part::Partition { partition, arrived, absent, forgotten, known_vec } => {
                let index = self.index_of(partition)?;
                self.listed[index] = lsn;
                self.replica.worker.clock.observe(arrived.max_entry().max(absent));
                if let Some(before) = index.checked_sub(1) {
                    // Keys are spread evenly over partitions.
                    let keys = self.replica.worker.partitions[before].key_count();
                    self.replica.worker.partitions[index].expect_keys(keys);
                }
                let partition = &mut self.replica.worker.partitions[index];
                partition.restore_summary(&arrived, absent, &forgotten);
                partition.restore_known(&known_vec);
            }
            Part::Certification(record) => self.replica.strong.service.restore(*record),
            Part::Updates(partition, updates) => {
                let index = self.index_of(partition)?;
                for update in updates {
                    self.replica.worker.clock.observe(update.dot.ts);
                    if self.replica.worker.config.generation > 0
                        && update.dot.origin == Origin::Site(self.replica.worker.me)
                    {
                        // Updates of this generation are covered anyway.
                        self.replica.former_ceiling.join(&update.commit_vec());
                    }
                    self.replica.worker.partitions[index].restore_committed(update);
                }
            }
            Part::Heard(heard) => self.heard(heard),
            Part::Guards { prepared, untold } => {
                self.replica.participant.guarding.restore_part(prepared, untold);
            }
            Part::Keys(partition, keys) => {
                let index = self.index_of(partition)?;
                for saved in keys {
                    self.replica.worker.clock.observe(saved.base_local);
                    if lsn > self.listed[index] {
                        self.saved.insert(saved.key.clone(), lsn);
                    }
                    if let Some((key, dots)) =
                        self.replica.worker.partitions[index].restore_key(saved)
                    {
                        self.unresolved.insert(key, dots);
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes the record with this number.
    ///
    /// # Errors
    /// The data belongs to a worker with other partitions.
    pub fn replay(&mut self, lsn: u64, record: Record) -> Result<(), ForeignPartition> {
        match record {
            Record::Stored(updates) => {
                for (partition, update) in updates {
                    self.store(lsn, partition, update)?;
                }
            }
            Record::StoredEventual(partition, update) => {
                self.restore(lsn, partition, update, Restoring::Pending)?;
            }
            Record::Prepared(tx, prepared) => self.prepared(tx, prepared),
            Record::Committed(tx, ts, eventual) => {
                self.replica.participant.guarding.end(tx, true);
                if let Some(prepared) = self.replica.participant.take(tx) {
                    let dot = Dot::of(self.replica.worker.me, ts);
                    let updates =
                        self.replica.by_partition(dot, prepared.snap_vec, prepared.writes);
                    for (partition, update) in updates {
                        self.store(lsn, partition, update)?;
                    }
                }
                for (partition, update) in eventual {
                    self.restore(lsn, partition, update, Restoring::Pending)?;
                }
            }
            Record::Aborted(tx) => {
                self.replica.participant.take(tx);
                self.replica.participant.guarding.end(tx, false);
            }
            Record::Decided(tx, decision) => self.decided(tx, decision),
            Record::Forgotten(tx) => self.replica.coordinator.forget(tx),
            Record::Promised(promise) => self.promised(&promise),
            Record::Members(members) => self.members(lsn, &members),
            Record::Known(partition, site, known) => {
                let index = self.index_of(partition)?;
                self.replica.worker.partitions[index].known_vec.raise(site, known);
            }
            Record::Certification(record) => self.replica.strong.service.restore(*record),
            Record::Heard(heard) => self.heard(heard),
            Record::PreparedGuarded(tx, prepared, guards) => {
                self.prepared(tx, prepared);
                self.replica.participant.guarding.restore(tx, guards);
            }
            Record::GuardsNotified(tx) => self.replica.participant.guarding.forget(tx),
            Record::Filled(partition, chunk, complete) => {
                let index = self.index_of(partition)?;
                // The checkpoint contains the pieces of earlier records, and later updates.
                if lsn > self.listed[index] {
                    self.replica.take_chunk(index, chunk, complete);
                }
            }
        }
        Ok(())
    }

    /// Returns the replica in its state after the last record. Messages of other workers and open
    /// transactions of clients are lost.
    pub fn finish(mut self) -> Replica {
        let replica = &mut self.replica;
        replica.drop_unfinished();
        if !replica.worker.config.keeps(Rule::ResendGuardOutcomes) {
            replica.participant.guarding = Default::default();
        }
        replica.worker.clock.observe(self.promise.clock);
        self.promise.starts += 1;
        let run = first_run(replica.worker.config.generation) + self.promise.starts;
        replica.coordinator.number_run(run);
        replica.strong.service.number_run(run);
        if replica.participant.prepared() > 0 {
            replica.worker.reach(rare::RECOVERS_PREPARED);
        }
        let again = self.promise.starts > 1;
        replica.strong.first &= !again;
        if again && replica.worker.config.protocol.has_strong() {
            // Other sites may complete strong transactions that the previous run had submitted.
            let until = self.promise.clock.later(replica.worker.config.timing.strong_timeout);
            replica.former_ceiling.raise(Origin::Strong, until);
        }
        for partition in &replica.worker.partitions {
            // It is not known any more to which transactions these updates belonged.
            replica.participant.executed.join(&partition.arrived);
        }
        for partition in replica.worker.partitions.iter_mut().filter(|partition| partition.filled) {
            partition.known_vec.join(&self.promise.known_vec);
        }
        replica.promised = self.promise;
        // This record precedes every output, because a transaction of this run may be prepared
        // soon.
        let promise = self.promise;
        replica.worker.record(|| Record::Promised(promise));
        self.replica
    }

    fn store(
        &mut self,
        lsn: u64,
        partition: PartitionId,
        update: Arc<Update>,
    ) -> Result<(), ForeignPartition> {
        let replica = &mut self.replica;
        let mut restoring = Restoring::Pending;
        if update.dot.origin == Origin::Site(replica.worker.me) {
            // The snapshot's remote entries were uniform. Later snapshots must cover this snapshot.
            replica.worker.learn_uniform(&update.snap_vec);
            // Every snapshot from now on contains the strong transactions that were visible, but no
            // others.
            let strong = replica.worker.dissemination.view.uniform_vec.strong;
            if replica.worker.config.topology.workers[replica.worker.me.index()] == 1
                && update.snap_vec.strong <= strong
            {
                restoring = Restoring::Visible;
            }
        }
        self.restore(lsn, partition, update, restoring)
    }

    fn restore(
        &mut self,
        lsn: u64,
        partition: PartitionId,
        update: Arc<Update>,
        restoring: Restoring,
    ) -> Result<(), ForeignPartition> {
        let index = self.index_of(partition)?;
        self.replica.worker.clock.observe(update.dot.ts);
        let (listed, dot) = (self.listed[index], update.dot);
        let Recovery { replica, saved, unresolved, .. } = self;
        if lsn > self.last && saved.capacity() > 0 {
            // The checkpoint has no effects of later records, so the map is not needed any more.
            *saved = HashMap::with_hasher(saved.hasher().clone());
        }
        replica.worker.partitions[index].restore_update(update, restoring, |key| {
            if lsn > listed && saved.get(key).is_none_or(|saved| *saved < lsn) {
                return Restored::Missing;
            }
            let Some(dots) = unresolved.get_mut(key) else { return Restored::Folded };
            match dots.iter().position(|other| *other == dot) {
                Some(at) => {
                    dots.swap_remove(at);
                    Restored::Pending
                }
                None => Restored::Folded,
            }
        });
        Ok(())
    }

    fn prepared(&mut self, tx: TxId, prepared: Prepared) {
        self.replica.worker.clock.observe(prepared.ts);
        // If the transaction commits, it must be visible here at once.
        self.replica.worker.learn_uniform(&prepared.snap_vec);
        self.replica.participant.restore(tx, prepared);
    }

    fn decided(&mut self, tx: TxId, decision: Decision) {
        self.replica.worker.clock.observe(decision.ts);
        self.replica.coordinator.restore(tx, decision);
    }

    fn members(&mut self, lsn: u64, theirs: &Members) {
        let mut members = self.replica.worker.dissemination.members.clone();
        if members.merge(theirs) {
            let replica = &mut self.replica;
            if !members.is_member(replica.worker.me) {
                // The worker may have begun to fill its partitions again.
                self.promise.known_vec = Vector::zero(members.sites());
            }
            let listed = &self.listed;
            replica.set_members(members, |index| lsn <= listed[index]);
        }
    }

    fn promised(&mut self, promise: &Promise) {
        self.replica.worker.learn_uniform(&promise.uniform_vec);
        let strong = promise.uniform_vec.strong;
        self.replica.worker.dissemination.view.uniform_vec.raise(Origin::Strong, strong);
        self.promise.uniform_vec.join(&promise.uniform_vec);
        self.promise.starts = self.promise.starts.max(promise.starts);
        self.promise.floor.join(&promise.floor);
        self.promise.known_vec.join(&promise.known_vec);
        self.promise.clock = self.promise.clock.max(promise.clock);
    }

    fn heard(&mut self, heard: Vec<Heard>) {
        for heard in heard {
            self.replica.heard_of.raise(heard);
        }
    }

    fn index_of(&self, partition: PartitionId) -> Result<usize, ForeignPartition> {
        self.replica.worker.index_of(partition).ok_or(ForeignPartition(partition))
    }
}

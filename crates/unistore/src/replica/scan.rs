//! Reading all keys of a partition in one snapshot, for backups.
//!
//! The snapshot must be that of an open transaction. While the transaction is open, no key that
//! exists in its snapshot is forgotten. This includes keys that were removed since, because a
//! removal is folded only when every open snapshot contains it. A scan of the held keys, at any
//! time, therefore finds every key of the snapshot.

use solera_data::{Key, Op, Outcome, Type, View, execute};
use solera_levels::Level;
use solera_machine::{Address, Now, PartitionId};
use solera_time::Vector;

use crate::command::TxId;
use crate::replica::Replica;

impl Replica {
    /// Returns the snapshot of an open transaction that this worker coordinates, for a scan.
    /// Everything in the snapshot counts as read by the transaction, and the call counts as an
    /// activity of its client.
    pub fn snapshot_of(&mut self, now: Now, tx: TxId) -> Option<Vector> {
        let me = self.worker.me;
        let transaction = self.open_transaction(tx)?;
        transaction.observe_all(now.monotonic, me);
        Some(transaction.snap_vec)
    }

    /// Returns the worker of this site that holds a partition.
    pub fn holder_of(&self, partition: PartitionId) -> Address {
        self.worker.config.topology.owner(self.worker.me, partition)
    }

    /// Prepares for [`Replica::content`] in a snapshot of this site. Returns whether all of the
    /// snapshot is stored here. It is not while a transaction that may be part of it is prepared;
    /// the caller has to ask again soon.
    ///
    /// UniStore Alg. 1 l. 18–21, for all keys at once.
    pub fn covers(&mut self, now: Now, snap_vec: &Vector) -> bool {
        self.worker.learn_uniform(snap_vec);
        self.move_past(now, snap_vec);
        self.participant.smallest_prepare().is_none_or(|ts| ts > snap_vec[self.worker.me])
    }

    /// Returns the first `most` keys of an owned partition after another key, or from the start.
    /// Includes keys that exist in no snapshot but are not forgotten yet. The order is the same at
    /// all times and at all workers. Visits all keys of the partition.
    pub fn keys_after(&self, partition: PartitionId, after: Option<&Key>, most: usize) -> Vec<Key> {
        let Some(index) = self.worker.index_of(partition) else { return Vec::new() };
        let place = |key: &Key| crc32c::crc32c(key);
        let after = after.map(|key| (place(key), key));
        let mut keys: Vec<(u32, &Key)> = self.worker.partitions[index]
            .each_key()
            .map(|key| (place(key), key))
            .filter(|place| after.is_none_or(|after| *place > after))
            .collect();
        if keys.len() > most {
            keys.select_nth_unstable(most);
            keys.truncate(most);
        }
        keys.sort_unstable();
        keys.into_iter().map(|(_, key)| key.clone()).collect()
    }

    /// Returns the value of an owned key in a snapshot for which [`Replica::covers`] is true: the
    /// outcome of GET, SMEMBERS or HGETALL. In an eventual space, it returns the latest state that
    /// has arrived, as every read does.
    pub fn content(&self, snap_vec: &Vector, level: Level, key: &[u8]) -> Option<Outcome> {
        let partition =
            &self.worker.partitions[self.worker.index_of(self.worker.partition_of(key))?];
        let snap_vec = if level == Level::Eventual { &partition.arrived } else { snap_vec };
        partition.peek(key, snap_vec, |view| {
            let op = match answer(&Op::Type, view)? {
                Outcome::Type(Some(Type::String)) => Op::Get,
                Outcome::Type(Some(Type::Set)) => Op::SetMembers,
                Outcome::Type(Some(Type::Hash)) => Op::HashGetAll,
                _ => return None,
            };
            answer(&op, view)
        })
    }
}

fn answer(op: &Op, view: &View<'_>) -> Option<Outcome> {
    execute(op, view).ok().map(|(outcome, _)| outcome)
}

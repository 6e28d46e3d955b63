//! Reading all keys of a partition in one snapshot, for backups.
//!
//! The snapshot must be that of an open transaction: as long as it is open, no key that exists in
//! its snapshot is forgotten, also not one that was removed since, for a removal is folded only
//! when every open snapshot contains it. So whoever goes through the keys that are held, at
//! whatever moment, meets every key of the snapshot.

use solera_data::{Key, Op, Outcome, Type, View, execute};
use solera_levels::Level;
use solera_machine::{Address, Now, PartitionId};
use solera_time::Vector;

use crate::command::TxId;
use crate::replica::Replica;

impl Replica {
    /// The snapshot of an open transaction that this worker coordinates, to be scanned. What is
    /// found in it counts as read by the transaction; that it was asked for, as a sign of life of
    /// its client.
    pub fn snapshot_of(&mut self, now: Now, tx: TxId) -> Option<Vector> {
        let me = self.worker.me;
        let transaction = self.open_transaction(tx)?;
        transaction.observe_all(now.monotonic, me);
        Some(transaction.snap_vec)
    }

    /// The worker of this site that holds a partition.
    pub fn holder_of(&self, partition: PartitionId) -> Address {
        self.worker.config.topology.owner(self.worker.me, partition)
    }

    /// Prepares for [`Replica::content`] in a snapshot of this site. Answers whether all of it is
    /// here: not while a transaction that may be part of it is prepared; then ask again soon.
    ///
    /// UniStore Alg. 1 l. 18–21, for all keys at once.
    pub fn covers(&mut self, now: Now, snap_vec: &Vector) -> bool {
        self.worker.learn_uniform(snap_vec);
        self.move_past(now, snap_vec);
        self.participant.smallest_prepare().is_none_or(|ts| ts > snap_vec[self.worker.me])
    }

    /// The first keys of an owned partition after another, or its first ones, at most so many:
    /// those that do not exist in any snapshot but are not forgotten yet included. The order is the
    /// same at all times and workers. Walks all keys of the partition.
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

    /// What an owned key holds in a snapshot that [`Replica::covers`]: the answer of GET, SMEMBERS
    /// or HGETALL. As for every read, the latest that has arrived counts in an eventual space.
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

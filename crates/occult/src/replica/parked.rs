//! Reads that wait until a replica is recent enough.

use std::collections::{BTreeMap, VecDeque};

use solera_machine::Address;
use solera_time::Monotonic;

use crate::message::Read;
use crate::shard::{ShardId, Stamp};

/// A read that waits until the replica is recent enough.
#[derive(Debug)]
pub(super) struct ParkedRead {
    pub(super) from: Address,
    pub(super) read: Read,
    pub(super) until: Monotonic,
}

/// The stamp for which a read waits, and its number in the order of arrival.
type WaitPlace = (Stamp, u64);

/// The reads that wait at a worker.
#[derive(Debug, Default)]
pub(super) struct ParkedReads {
    reads: BTreeMap<ShardId, BTreeMap<WaitPlace, ParkedRead>>,
    /// All waiting reads, and some answered ones, in the order in which their waits end. All reads
    /// wait equally long.
    ends: VecDeque<(Monotonic, ShardId, WaitPlace)>,
    arrived: u64,
}

impl ParkedReads {
    pub(super) fn is_empty(&self) -> bool {
        self.reads.is_empty()
    }

    /// Returns the shards for which reads wait.
    pub(super) fn shards(&self) -> Vec<ShardId> {
        self.reads.keys().copied().collect()
    }

    pub(super) fn push(&mut self, shard: ShardId, parked: ParkedRead) {
        self.arrived += 1;
        let place = (parked.read.at_least, self.arrived);
        self.ends.push_back((parked.until, shard, place));
        self.reads.entry(shard).or_default().insert(place, parked);
    }

    /// Removes the reads of a shard that wait for `shown` or a smaller stamp.
    pub(super) fn take_shown(&mut self, shard: ShardId, shown: Stamp) -> Vec<ParkedRead> {
        let Some(reads) = self.reads.get_mut(&shard) else { return Vec::new() };
        let later = reads.split_off(&(shown.next(), 0));
        let due = std::mem::replace(reads, later);
        if reads.is_empty() {
            self.reads.remove(&shard);
        }
        due.into_values().collect()
    }

    /// Removes the reads that have waited too long.
    pub(super) fn take_expired(&mut self, now: Monotonic) -> Vec<ParkedRead> {
        let mut expired = Vec::new();
        while let Some((until, shard, place)) = self.ends.front().copied()
            && until <= now
        {
            self.ends.pop_front();
            let Some(reads) = self.reads.get_mut(&shard) else { continue };
            expired.extend(reads.remove(&place));
            if reads.is_empty() {
                self.reads.remove(&shard);
            }
        }
        expired
    }
}

//! The part of one home's stream that has arrived at a replica.

use std::time::Duration;

use solera_data::Key;
use solera_time::Monotonic;

use crate::message::{Batch, Copies, Progress, StoredAt};
use crate::shard::{ShardId, Stamp};
use crate::store::Store;

/// Returns the stamp up to which a shard is shown, according to its home's progress.
pub(super) fn shown_in(progress: &Progress, shard: ShardId) -> Stamp {
    let held = progress.held.binary_search_by_key(&shard, |(held, _)| *held);
    held.map_or(progress.through, |at| progress.held[at].1)
}

/// Copies that arrive.
#[derive(Debug)]
struct Filling {
    start: u64,
    /// Position of the first group.
    position: u64,
    /// The shards that the home had taken over when it sent the first group. Later takeovers arrive
    /// with the stream.
    taken: Vec<(ShardId, u64)>,
    /// Last key of the previous group.
    after: Option<Key>,
}

/// The part of one home worker's stream that has arrived.
#[derive(Debug, Default)]
pub(super) struct Stream {
    pub(super) start: u64,
    pub(super) position: u64,
    progress: Progress,
    filling: Option<Filling>,
    /// Whether the replica has ever had everything that the home had shown.
    filled: bool,
    /// Time when missing entries were last requested.
    asked: Option<Monotonic>,
    /// Time when progress was last reported to the home.
    pub(super) reported: Option<Monotonic>,
    /// Time when the home was last asked to publish its progress.
    pub(super) wanted: Option<Monotonic>,
}

impl Stream {
    pub(super) fn restored(start: u64, position: u64, filled: bool) -> Stream {
        Stream { start, position, filled, ..Stream::default() }
    }

    /// Returns the shardstamp of a shard of this stream.
    pub(super) fn shown(&self, shard: ShardId) -> Stamp {
        shown_in(&self.progress, shard)
    }

    /// Returns a stamp up to which all shards are shown.
    pub(super) fn floor(&self) -> Stamp {
        let held = self.progress.held.iter().map(|(_, stamp)| *stamp);
        held.fold(self.progress.through, Stamp::min)
    }

    /// Forgets what the sites have stored and confirmed.
    pub(super) fn forget_stored(&mut self) {
        self.progress.stored.clear();
    }

    /// Returns what each site has stored and confirmed of the home's writes.
    pub(super) fn stored(&self) -> &[StoredAt] {
        &self.progress.stored
    }

    pub(super) fn is_filled(&self) -> bool {
        self.filled
    }

    /// Returns whether nothing has arrived yet, and the stream begins with this batch.
    pub(super) fn begins_with(&self, batch: &Batch) -> bool {
        self.start == 0 && self.position == 0 && batch.after == 0
    }

    /// Applies the entries of a batch that are new (Fig. 4 l. 11–13).
    pub(super) fn apply(&mut self, store: &mut Store, batch: Batch) {
        // An old entry has no effect, because the key's version is newer.
        if batch.end > self.position {
            batch.entries.iter().for_each(|entry| store.apply(entry));
        }
        if batch.end >= self.position {
            self.position = batch.end;
            self.asked = None;
            if let Some(progress) = batch.progress {
                self.filled = true;
                // A restarted home does not report less than before.
                self.progress = progress;
            }
        }
    }

    /// Notes that missing entries are requested now, unless that was done a short time ago.
    pub(super) fn may_ask(&mut self, now: Monotonic, retry: Duration) -> bool {
        let may = self.asked.is_none_or(|asked| now.since(asked) >= retry);
        if may {
            self.asked = Some(now);
            self.filling = None;
        }
        may
    }

    /// Notes that the next group of copies is requested now, so that a gap in the stream does not
    /// make the copies begin again.
    pub(super) fn note_asked(&mut self, now: Monotonic) {
        self.asked = Some(now);
    }

    /// Returns whether a group of copies is the first one or follows the previous one.
    pub(super) fn expects(&self, copies: &Copies) -> bool {
        match &self.filling {
            _ if copies.after.is_none() => true,
            Some(filling) => filling.start == copies.start && filling.after == copies.after,
            None => false,
        }
    }

    /// Begins to take copies. `at` is the start of the home's process, and the position of the
    /// first group.
    pub(super) fn begin_filling(&mut self, at: (u64, u64), taken: Vec<(ShardId, u64)>) {
        let (start, position) = at;
        self.filling = Some(Filling { start, position, taken, after: None });
    }

    /// Notes that a group of copies was taken. After the last one, the replica continues at the
    /// position of the first one. Returns the shards that are then complete, and the numbers of
    /// their moves.
    pub(super) fn take_group(&mut self, last: bool, last_key: Option<Key>) -> Vec<(ShardId, u64)> {
        let Some(filling) = &mut self.filling else { return Vec::new() };
        filling.after = last_key;
        let Some(filling) = self.filling.take_if(|_| last) else { return Vec::new() };
        (self.start, self.position) = (filling.start, filling.position);
        self.asked = None;
        filling.taken
    }
}

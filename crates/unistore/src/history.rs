//! Histories of partitions for the other protocols of the worker, which derive state from the
//! updates of some keys.

use std::sync::Arc;

use solera_data::Dot;
use solera_machine::PartitionId;
use solera_time::{Origin, SiteId, Timestamp};

use crate::message::Update;
use crate::replica::Replica;

/// Part of a partition's history of one origin, in the order of its timestamps.
#[derive(Debug)]
pub struct History<I> {
    /// Time up to which updates were forgotten. A reader that has read less can no longer get the
    /// rest.
    pub forgotten: Timestamp,
    /// Time up to which the history is complete.
    pub upto: Timestamp,
    /// The updates after the given time, up to `upto`.
    pub updates: I,
}

impl Replica {
    /// Returns the history of an owned partition after a time; `None` if the worker does not own
    /// the partition, or does not have its data yet.
    ///
    /// The history of another site ends where it is uniform: the removal of that site cannot undo
    /// this part. The local site's history ends below the smallest prepare time, so that no update
    /// is inserted into it later.
    pub fn history(
        &self,
        id: PartitionId,
        origin: Origin,
        after: Timestamp,
    ) -> Option<History<impl Iterator<Item = &Arc<Update>>>> {
        let partition = &self.worker.partitions[self.worker.index_of(id)?];
        let known = partition.known_vec[origin];
        let upto = match origin {
            Origin::Site(site) if site != self.worker.me => {
                known.min(self.worker.dissemination.view.uniform_vec[origin])
            }
            Origin::Site(_) | Origin::Strong => known,
        };
        let committed = &partition.committed[origin];
        let updates = committed.after(after).take_while(move |update| update.dot.ts <= upto);
        let forgotten = committed.forgotten();
        partition.filled.then_some(History { forgotten, upto, updates })
    }

    /// Returns the number of elements of a set: with the updates of each site up to the given
    /// times, and with all others that are visible at the local site. Returns `None` if the worker
    /// does not own the key's partition, or does not have its data yet.
    pub fn size_with(&self, key: &[u8], known: &[Timestamp]) -> Option<u64> {
        let index = self.worker.index_of(self.worker.partition_of(key))?;
        let partition = &self.worker.partitions[index];
        let (me, uniform_vec) = (self.worker.me, self.worker.dissemination.view.uniform_vec);
        // A restarted replica may know less of what is uniform than before, when these updates were
        // visible.
        let mut snapshot = uniform_vec.with(me, Timestamp::MAX);
        let is_known = |dot: Dot| match dot.origin {
            Origin::Site(site) => known.get(site.index()).is_some_and(|upto| dot.ts <= *upto),
            Origin::Strong => false,
        };
        for update in partition.pending(key).filter(|update| is_known(update.dot)) {
            snapshot.join(&update.commit_vec());
        }
        partition.filled.then(|| partition.peek(key, &snapshot, |view| view.set_len() as u64))
    }

    /// Returns whether the worker has received the updates of all other sites to an owned partition
    /// up to these times.
    pub fn has_received(&self, id: PartitionId, known: &[Timestamp]) -> bool {
        let index = self.worker.index_of(id);
        index.map(|index| &self.worker.partitions[index]).is_some_and(|partition| {
            let mut others = (0..).map(SiteId).zip(known).filter(|(it, _)| *it != self.worker.me);
            others.all(|(site, upto)| partition.known_vec[site] >= *upto)
        })
    }

    /// Returns whether the worker owns a partition and has its data.
    pub fn is_filled(&self, id: PartitionId) -> bool {
        self.worker.index_of(id).is_some_and(|index| self.worker.partitions[index].filled)
    }

    /// Notes that another protocol of the worker has read the history of an origin up to a time.
    /// The replica keeps later updates for it.
    pub fn note_read(&mut self, id: PartitionId, origin: Origin, upto: Timestamp) {
        let Some(index) = self.worker.index_of(id) else { return };
        if let Some(read) = &mut self.worker.partitions[index].read {
            read.raise(origin, upto);
        }
    }

    /// Notes that no other protocol reads the histories of a partition. Used by tests that show why
    /// [`Replica::note_read`] is needed.
    pub fn note_all_read(&mut self, id: PartitionId) {
        if let Some(index) = self.worker.index_of(id) {
            self.worker.partitions[index].read = None;
        }
    }

    /// Returns the committed updates of the local site to an owned partition after a time, also
    /// those that [`Replica::history`] does not contain yet.
    pub fn own_updates(
        &self,
        id: PartitionId,
        after: Timestamp,
    ) -> impl Iterator<Item = &Arc<Update>> {
        let index = self.worker.index_of(id);
        let partition = index.map(|index| &self.worker.partitions[index]);
        partition.into_iter().flat_map(move |it| it.committed[self.worker.me].after(after))
    }
}

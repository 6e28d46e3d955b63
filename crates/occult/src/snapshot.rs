//! Snapshots of a worker's shards, from which backups are read.
//!
//! A worker keeps one version of each key. A snapshot therefore begins in three steps, which the
//! reader makes at all workers of its site:
//!
//! 1. *Mark.* From now on, the worker keeps the versions that are overwritten. It returns the
//!    greatest stamps on which anything here depends, the stamps of the writes that it has
//!    acknowledged to its clients, and the clock of its homes. It does not know what a former
//!    process has acknowledged, and therefore adds a clock of each home that the home has sent to
//!    the present process. It confirms no stamps as passed ([`passed`](crate::passed)) until step
//!    3, so that no timestamp loses an entry that the snapshot needs.
//! 2. *Poll.* The worker returns, for each site, the stamp up to which all copies here show the
//!    writes of the site's homes. The reader repeats this until the least of these stamps, over all
//!    workers, have reached the marks.
//! 3. *Fix.* These least stamps are the bounds of the snapshot. The snapshot contains each version
//!    whose timestamp is not above them. All versions of one transaction have the same timestamp,
//!    so the snapshot contains the transaction as a whole or not at all. The timestamp of a version
//!    is at least that of every version on which it depends, so the snapshot contains these, too.
//!    All of these versions are here, because the copies show all writes up to the bounds.
//!
//! After the clocks have arrived, no other site takes part, and no client waits.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use solera_data::{Key, Outcome};
use solera_machine::{Address, PartitionId};
use solera_time::{Monotonic, SiteId};

use crate::shard::{ShardId, Stamp};
use crate::version::Version;

/// Number of snapshots that a worker holds at a time.
pub(crate) const MOST: usize = 4;
/// Longest time between MARK and FIX. Timestamps are not shortened meanwhile.
const TO_FIX: Duration = Duration::from_secs(20);

/// The greatest stamp of each site's homes; of all homes, if timestamps do not distinguish sites.
pub type Peaks = BTreeMap<Option<SiteId>, Stamp>;

/// A step of a reader of a snapshot. The reader chooses the number `id`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SnapshotStep {
    /// Begins a snapshot, in place of an earlier one with this number. The worker drops the
    /// snapshot after some time.
    Mark {
        /// The snapshot.
        id: u64,
        /// Time until the worker drops the snapshot, in milliseconds.
        lasts_ms: u64,
    },
    /// Asks how far the copies here show the writes of homes. The homes here advance their clocks
    /// to these marks.
    Poll {
        /// The snapshot.
        id: u64,
        /// The greatest stamps that the workers have returned.
        marks: Peaks,
    },
    /// Fixes the snapshot.
    Fix {
        /// The snapshot.
        id: u64,
        /// For each site, the stamp up to which the snapshot contains the site's writes: the least
        /// stamp of the polls, or the mark if the site is no longer a home. For `None`, the least
        /// stamp of the polls for all sites.
        shown: Peaks,
    },
    /// Reads some keys of a partition.
    Page {
        /// The snapshot.
        id: u64,
        /// The partition.
        partition: PartitionId,
        /// The last key of the previous page.
        after: Option<Key>,
    },
    /// Ends a snapshot.
    Drop {
        /// The snapshot.
        id: u64,
    },
}

/// Answer to a [`SnapshotStep`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SnapshotAnswer {
    /// Answer to MARK.
    Marked(Peaks),
    /// Answer to MARK: homes of this site have not sent their clocks since the worker started. The
    /// worker may have acknowledged writes of these homes before.
    Unheard(SiteId),
    /// Answer to POLL: the stamp for each site that is a home of shards here.
    Shown(BTreeMap<SiteId, Stamp>),
    /// Answer to POLL while data of shards that have moved is on its way.
    Arriving,
    /// Answer to FIX and DROP.
    Done,
    /// A page: keys with their contents, and the last key if more keys follow.
    Page(Vec<(Key, Outcome)>, Option<Key>),
    /// There is no such snapshot: it took too long, the worker has restarted, or has taken copies
    /// since MARK.
    Gone,
    /// Too many snapshots are open.
    TooMany,
}

/// State of a reader that begins a snapshot: the answers of its site's workers.
#[derive(Clone, Debug, Default)]
pub struct Beginning {
    marks: Peaks,
    /// For each site, the least stamp of the present poll.
    least: BTreeMap<SiteId, Stamp>,
}

impl Beginning {
    /// Takes a worker's answer to MARK.
    pub fn on_marked(&mut self, peaks: Peaks) {
        raise(&mut self.marks, peaks);
    }

    /// Returns the marks of all workers so far.
    pub fn marks(&self) -> &Peaks {
        &self.marks
    }

    /// Begins to poll all workers.
    pub fn poll(&mut self) {
        self.least.clear();
    }

    /// Takes a worker's answer to POLL.
    pub fn on_shown(&mut self, shown: BTreeMap<SiteId, Stamp>) {
        for (site, stamp) in shown {
            let least = self.least.entry(site).or_insert(stamp);
            *least = stamp.min(*least);
        }
    }

    /// Returns a site with writes below the marks that some copy does not show yet; `None` if the
    /// snapshot can be fixed.
    pub fn behind(&self) -> Option<SiteId> {
        self.marks.iter().find_map(|(site, mark)| {
            let is_behind = |site: &SiteId| self.least.get(site).is_some_and(|shown| shown < mark);
            match site {
                Some(site) => Some(*site).filter(is_behind),
                None => self.least.keys().copied().find(is_behind),
            }
        })
    }

    /// Returns the bounds for FIX.
    pub fn bounds(&self) -> Peaks {
        // A site that is no longer a home writes nothing, and keeps its mark.
        let mut bounds = self.marks.clone();
        bounds.extend(self.least.iter().map(|(site, stamp)| (Some(*site), *stamp)));
        bounds.insert(None, self.least.values().copied().min().unwrap_or_default());
        bounds
    }
}

/// A version of a key; `None` if there was none.
pub(crate) type Old = Option<Version>;

#[derive(Debug)]
pub(crate) enum Stage {
    /// The versions that were overwritten since the mark, the oldest first.
    Marked(BTreeMap<(ShardId, Key), Vec<Old>>),
    /// The version of the snapshot, for keys that have another one now.
    Fixed(BTreeMap<(ShardId, Key), Old>),
}

#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) stage: Stage,
    pub(crate) begun: Monotonic,
    /// Time for which it lasts.
    pub(crate) lasts: Duration,
    /// Approximate size of the kept versions.
    pub(crate) bytes: usize,
}

/// The snapshots of a worker.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    pub(crate) open: BTreeMap<u64, Snapshot>,
    /// The greatest stamps on which anything here has ever depended.
    pub(crate) peaks: Peaks,
    /// The homes that have sent their clocks to this process.
    pub(crate) heard: BTreeSet<Address>,
    /// Time when clocks were last requested.
    pub(crate) requested: Option<Monotonic>,
}

/// Raises the greatest stamps to others.
pub(crate) fn raise(known: &mut Peaks, others: impl IntoIterator<Item = (Option<SiteId>, Stamp)>) {
    for (site, stamp) in others {
        let known = known.entry(site).or_default();
        *known = stamp.max(*known);
    }
}

impl Snapshots {
    /// Adds the greatest stamps in the timestamp of a version that is shown now, or the clock of a
    /// home that may have written before this worker started.
    pub(crate) fn note_peaks(&mut self, peaks: impl IntoIterator<Item = (Option<SiteId>, Stamp)>) {
        raise(&mut self.peaks, peaks);
    }

    /// Keeps a version that is about to be overwritten or removed.
    pub(crate) fn keep(&mut self, shard: ShardId, key: &Key, version: Option<&Version>) {
        for snapshot in self.open.values_mut() {
            let bytes = version.map_or(0, Version::bytes) + key.len();
            let place = (shard, key.clone());
            match &mut snapshot.stage {
                Stage::Marked(log) => log.entry(place).or_default().push(version.cloned()),
                Stage::Fixed(kept) => match kept.entry(place) {
                    Entry::Vacant(free) => {
                        free.insert(version.cloned());
                    }
                    Entry::Occupied(_) => continue,
                },
            }
            snapshot.bytes += bytes;
        }
    }

    /// Drops the snapshots that are not fixed, because a version arrives as a copy. Earlier
    /// versions of the key, which such a snapshot may need, do not arrive.
    pub(crate) fn drop_beginning(&mut self) {
        self.open.retain(|_, snapshot| matches!(snapshot.stage, Stage::Fixed(_)));
    }

    /// Returns whether a snapshot is marked and not fixed.
    pub(crate) fn is_beginning(&self) -> bool {
        self.open.values().any(|snapshot| matches!(snapshot.stage, Stage::Marked(_)))
    }

    /// Returns the approximate size of the versions that are kept.
    pub(crate) fn bytes(&self) -> usize {
        self.open.values().map(|snapshot| snapshot.bytes).sum()
    }

    /// Drops snapshots that have lasted too long.
    pub(crate) fn expire(&mut self, now: Monotonic) {
        self.open.retain(|_, snapshot| {
            let limit = match snapshot.stage {
                Stage::Marked(_) => TO_FIX.min(snapshot.lasts),
                Stage::Fixed(_) => snapshot.lasts,
            };
            now.since(snapshot.begun) < limit
        });
    }
}

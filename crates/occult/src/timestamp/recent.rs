//! Temporal compression: the most recent stamps, each with its shard, and one for all others.

use crate::shard::{ShardId, Stamp};

/// The greatest stamps with their shards, and a stamp that is not below that of any other shard
/// (Occult §5, "Temporal compression").
///
/// Every explicit stamp is above the catch-all, because other entries would carry no information.
/// The owner may not depend at all on a shard without an entry. For such a shard, the catch-all is
/// a false dependency, which may cost a retried read but never safety.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Recent {
    /// Explicit entries, in descending order of stamps.
    explicit: Vec<(Stamp, ShardId)>,
    catch_all: Stamp,
}

impl Recent {
    pub(super) fn of(
        catch_all: Stamp,
        explicit: impl IntoIterator<Item = (Stamp, ShardId)>,
        entries: usize,
    ) -> Recent {
        let mut recent = Recent { explicit: Vec::new(), catch_all };
        for (stamp, shard) in explicit {
            recent.raise(shard, stamp, entries);
        }
        recent
    }

    pub(super) fn is_empty(&self) -> bool {
        self.explicit.is_empty() && self.catch_all == Stamp::ZERO
    }

    pub(super) fn catch_all(&self) -> Stamp {
        self.catch_all
    }

    pub(super) fn explicit(&self) -> &[(Stamp, ShardId)] {
        &self.explicit
    }

    /// Returns the shard's own entry, if it has one.
    pub(super) fn entry(&self, shard: ShardId) -> Option<Stamp> {
        self.explicit.iter().find(|(_, other)| *other == shard).map(|(stamp, _)| *stamp)
    }

    pub(super) fn greatest(&self) -> Stamp {
        self.explicit.first().map_or(self.catch_all, |(stamp, _)| *stamp)
    }

    /// Raises a shard's entry to `stamp`. If there are then more than `entries` entries, the
    /// catch-all included, the smallest explicit one becomes the catch-all.
    pub(super) fn raise(&mut self, shard: ShardId, stamp: Stamp, entries: usize) {
        if stamp <= self.catch_all {
            return;
        }
        match self.explicit.iter().position(|(_, other)| *other == shard) {
            Some(at) if self.explicit[at].0 >= stamp => return,
            Some(at) => {
                self.explicit.remove(at);
            }
            None => {}
        }
        let at = self.explicit.partition_point(|(other, _)| *other > stamp);
        self.explicit.insert(at, (stamp, shard));
        self.shrink(entries);
    }

    /// Raises the catch-all to `stamp`.
    pub(super) fn raise_all(&mut self, stamp: Stamp) {
        if stamp > self.catch_all {
            self.catch_all = stamp;
            self.explicit.retain(|(other, _)| *other > stamp);
        }
    }

    /// Raises all entries to those of `other`.
    pub(super) fn merge(&mut self, other: &Recent, entries: usize) {
        // A shard with an entry only here has the catch-all as its stamp in `other`. Raising the
        // catch-all here drops the shard's entry unless the entry is greater.
        self.raise_all(other.catch_all);
        for (stamp, shard) in &other.explicit {
            self.raise(*shard, *stamp, entries);
        }
    }

    /// Removes the entries that every replica of their shard has passed, according to `passed`; and
    /// the catch-all if it is not above `all_passed`.
    pub(super) fn forget(&mut self, passed: impl Fn(ShardId) -> Stamp, all_passed: Stamp) {
        self.explicit.retain(|(stamp, shard)| *stamp > passed(*shard));
        if self.catch_all <= all_passed {
            self.catch_all = Stamp::ZERO;
        }
    }

    fn shrink(&mut self, entries: usize) {
        while self.explicit.len() + 1 > entries.max(1) {
            let (stamp, _) = self.explicit.pop().expect("more than none");
            self.raise_all(stamp);
        }
    }
}

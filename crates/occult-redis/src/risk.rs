//! Writes on which a session depends and that a promotion may lose.
//!
//! A master passes its writes on after it has answered. If the master dies, a replica that lacks
//! its last writes is promoted. Stamps do not show this, because the new master's clock continues
//! above the old stamps. But the replication stream of a master's life orders all writes of this
//! life. One offset of each life therefore covers all writes of the life that a session has seen.

use std::collections::BTreeMap;

/// The life of a master's data: the first 8 bytes of its replication id. It ends with a promotion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Life(pub(crate) [u8; 8]);

/// For each life, the replication offset up to which the owner of the risk depends on writes of the
/// life. Writes that all replicas have are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Risk(BTreeMap<Life, u64>);

impl Risk {
    /// Creates a risk of one life.
    pub(crate) fn of_one(life: Life, offset: u64) -> Risk {
        Risk(BTreeMap::from([(life, offset)]))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Life, u64)> {
        self.0.iter().map(|(life, offset)| (*life, *offset))
    }

    pub(crate) fn add(&mut self, life: Life, offset: u64) {
        let greatest = self.0.entry(life).or_default();
        *greatest = offset.max(*greatest);
    }

    pub(crate) fn merge(&mut self, other: &Risk) {
        other.iter().for_each(|(life, offset)| self.add(life, offset));
    }

    pub(crate) fn of(&self, life: Life) -> Option<u64> {
        self.0.get(&life).copied()
    }

    /// Removes all entries except those for which `keep` returns true.
    pub(crate) fn retain(&mut self, keep: impl Fn(Life, u64) -> bool) {
        self.0.retain(|life, offset| keep(*life, *offset));
    }
}

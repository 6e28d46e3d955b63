use std::fmt;
use std::ops::{Index, IndexMut};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{MAX_SITES, Origin, SiteId, Timestamp};

/// A vector with one timestamp per site and one for strong transactions.
///
/// UniStore uses vectors of this shape for causal pasts, snapshots, commit vectors and replication
/// progress (§5.1, §6.1). As a snapshot, `V` contains every transaction whose commit vector `V`
/// covers.
///
/// A cluster's list of sites may grow, so a node may receive vectors that list more or fewer sites
/// than its own vectors. An entry that is not listed is zero: nothing has happened at that site.
#[derive(Clone, Copy)]
pub struct Vector {
    /// All entries after the first `sites` are zero.
    entries: [Timestamp; MAX_SITES],
    /// Number of entries that are listed when the vector is printed or encoded. Comparisons ignore
    /// it.
    sites: u8,
    /// The entry for strong transactions (UniStore §6.1); zero until one was seen.
    pub strong: Timestamp,
}

impl Vector {
    /// Returns the vector whose `sites` entries are [`Timestamp::ZERO`]; as a snapshot it is empty.
    ///
    /// # Panics
    /// If `sites` exceeds [`MAX_SITES`]; configurations are checked before.
    pub fn zero(sites: usize) -> Self {
        Self::filled(sites, Timestamp::ZERO)
    }

    /// Returns a vector that covers every vector of `sites` sites: the neutral element of
    /// [`meet`](Self::meet).
    pub fn top(sites: usize) -> Self {
        Vector { strong: Timestamp::MAX, ..Self::filled(sites, Timestamp::MAX) }
    }

    fn filled(sites: usize, value: Timestamp) -> Self {
        assert!(sites <= MAX_SITES, "a cluster has at most {MAX_SITES} sites");
        let mut entries = [Timestamp::ZERO; MAX_SITES];
        entries[..sites].fill(value);
        Vector { entries, sites: sites as u8, strong: Timestamp::ZERO }
    }

    /// Returns the listed entries in order, without the strong one. Their number depends on the
    /// node that created the vector; see [`first`](Self::first).
    pub fn entries(&self) -> &[Timestamp] {
        &self.entries[..usize::from(self.sites)]
    }

    /// Returns the entries of the first `sites` sites in order, listed or not.
    ///
    /// # Panics
    /// If `sites` exceeds [`MAX_SITES`].
    pub fn first(&self, sites: usize) -> &[Timestamp] {
        &self.entries[..sites]
    }

    /// Returns whether all entries after those of the first `sites` sites are zero.
    pub fn is_within(&self, sites: usize) -> bool {
        self.entries.iter().skip(sites).all(|entry| *entry == Timestamp::ZERO)
    }

    /// Returns whether every entry of `other` is at most the same entry here: `other ≤ self`.
    pub fn covers(&self, other: &Vector) -> bool {
        self.strong >= other.strong
            && self.entries.iter().zip(&other.entries).all(|(mine, theirs)| mine >= theirs)
    }

    /// Raises each entry to that of `other`, if that is greater. The result is the least vector
    /// that covers both.
    pub fn join(&mut self, other: &Vector) {
        for (mine, theirs) in self.entries.iter_mut().zip(&other.entries) {
            *mine = (*mine).max(*theirs);
        }
        self.sites = self.sites.max(other.sites);
        self.strong = self.strong.max(other.strong);
    }

    /// Lowers each entry to that of `other`, if that is less. The result is the greatest vector
    /// that both cover.
    pub fn meet(&mut self, other: &Vector) {
        for (mine, theirs) in self.entries.iter_mut().zip(&other.entries) {
            *mine = (*mine).min(*theirs);
        }
        self.sites = self.sites.max(other.sites);
        self.strong = self.strong.min(other.strong);
    }

    /// Raises the entry of `origin` to `ts` if it is lower.
    pub fn raise(&mut self, origin: impl Into<Origin>, ts: Timestamp) {
        let entry = &mut self[origin.into()];
        *entry = (*entry).max(ts);
    }

    /// Returns this vector with the entry of `origin` replaced by `ts`.
    pub fn with(mut self, origin: impl Into<Origin>, ts: Timestamp) -> Self {
        self[origin.into()] = ts;
        self
    }

    /// Returns the greatest of all entries, the strong one included.
    pub fn max_entry(&self) -> Timestamp {
        self.entries().iter().copied().fold(self.strong, Timestamp::max)
    }
}

impl PartialEq for Vector {
    fn eq(&self, other: &Vector) -> bool {
        (self.entries, self.strong) == (other.entries, other.strong)
    }
}

impl Eq for Vector {}

/// Writes the listed entries as a list, then the strong one.
impl Serialize for Vector {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.entries(), self.strong).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Vector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (entries, strong) = <(Vec<Timestamp>, Timestamp)>::deserialize(deserializer)?;
        if entries.len() > MAX_SITES {
            return Err(D::Error::custom(format!("{} sites in a vector", entries.len())));
        }
        let mut vector = Vector { strong, ..Vector::zero(entries.len()) };
        vector.entries[..entries.len()].copy_from_slice(&entries);
        Ok(vector)
    }
}

impl Index<SiteId> for Vector {
    type Output = Timestamp;
    fn index(&self, site: SiteId) -> &Timestamp {
        &self.entries[site.index()]
    }
}

impl IndexMut<SiteId> for Vector {
    fn index_mut(&mut self, site: SiteId) -> &mut Timestamp {
        let entry = &mut self.entries[site.index()];
        self.sites = self.sites.max(site.0 + 1);
        entry
    }
}

impl Index<Origin> for Vector {
    type Output = Timestamp;
    fn index(&self, origin: Origin) -> &Timestamp {
        match origin {
            Origin::Site(site) => &self[site],
            Origin::Strong => &self.strong,
        }
    }
}

impl IndexMut<Origin> for Vector {
    fn index_mut(&mut self, origin: Origin) -> &mut Timestamp {
        match origin {
            Origin::Site(site) => &mut self[site],
            Origin::Strong => &mut self.strong,
        }
    }
}

impl fmt::Debug for Vector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.entries()).finish()?;
        if self.strong > Timestamp::ZERO { write!(f, "+strong:{}", self.strong) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(entries: &[u64]) -> Vector {
        let mut vector = Vector::zero(entries.len());
        for (i, e) in entries.iter().enumerate() {
            vector[SiteId(i as u8)] = Timestamp(*e);
        }
        vector
    }

    #[test]
    fn concurrent_vectors_do_not_cover_each_other() {
        assert!(!v(&[1, 2]).covers(&v(&[2, 1])));
        assert!(!v(&[2, 1]).covers(&v(&[1, 2])));
        assert!(v(&[2, 2]).covers(&v(&[1, 2])));
    }

    #[test]
    fn join_and_meet_are_the_bounds() {
        let (a, b) = (v(&[1, 5, 3]), v(&[2, 4, 3]));
        let (mut join, mut meet) = (a, a);
        join.join(&b);
        meet.meet(&b);
        assert_eq!(join, v(&[2, 5, 3]));
        assert_eq!(meet, v(&[1, 4, 3]));
        assert!(join.covers(&a) && join.covers(&b) && a.covers(&meet) && b.covers(&meet));
    }

    #[test]
    fn unlisted_entries_are_zero() {
        let (short, long) = (v(&[3, 4]), v(&[1, 5, 7]));
        assert_eq!(short, v(&[3, 4, 0]));
        assert!(!short.covers(&v(&[0, 0, 7])));
        for (a, b) in [(short, long), (long, short)] {
            let (mut join, mut meet) = (a, a);
            join.join(&b);
            meet.meet(&b);
            assert_eq!((join, meet), (v(&[3, 5, 7]), v(&[1, 4])));
        }
        assert!(long.is_within(3) && !long.is_within(2));
        assert_eq!(short.with(SiteId(3), Timestamp(9)).entries().len(), 4);
    }

    #[test]
    fn the_strong_entry_counts() {
        let mut strong = v(&[1]);
        strong.strong = Timestamp(9);
        assert!(!v(&[1]).covers(&strong));
        assert!(strong.covers(&v(&[1])));
        assert!(Vector::top(1).covers(&strong));
        assert_eq!(v(&[1]).with(Origin::Strong, Timestamp(9)), strong);
        assert_eq!((strong[Origin::Strong], strong.entries().len()), (Timestamp(9), 1));
    }
}

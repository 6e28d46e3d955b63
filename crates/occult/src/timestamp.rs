//! Causal timestamps, and their compression (Occult §4.2, §5).

mod encoding;
mod recent;

use std::collections::BTreeMap;

use solera_time::SiteId;

use self::recent::Recent;
use crate::shard::{Homes, ShardId, Stamp};

pub use self::encoding::Unreadable;

/// Representation of the stamps of all shards in a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// One entry for each shard on which the owner depends.
    Exact,
    /// This many entries. A shard has the entry whose number is the shard's number modulo the
    /// number of entries.
    Structural(u16),
    /// This many entries: one for each of the shards with the greatest stamps, and one for all
    /// others.
    Temporal(u16),
    /// As [`Scheme::Temporal`], with this many entries for each site that is the home of some
    /// shard.
    PerSite(u16),
    /// No entries: no read is stale, and no transaction fails its validation. This is eventual
    /// consistency, the baseline of the experiments (§8.1).
    None,
}

impl Scheme {
    /// Returns the group of a site's stamps; `None` if the scheme does not distinguish sites.
    pub(crate) fn group_of(self, site: SiteId) -> Option<SiteId> {
        matches!(self, Scheme::PerSite(_)).then_some(site)
    }
}

/// A causal timestamp of a session or a value, its owner: for each shard, the stamp of the last
/// write in the shard on which the owner depends (§4.2). A compressed timestamp may have a greater
/// stamp, never a smaller one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CausalTimestamp {
    scheme: Scheme,
    entries: Entries,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Entries {
    Exact(BTreeMap<ShardId, Stamp>),
    Structural(Vec<Stamp>),
    /// One group for each site with stamps, in order. If the scheme does not distinguish sites, one
    /// group without a site.
    Recent(Vec<(Option<SiteId>, Recent)>),
    None,
}

impl CausalTimestamp {
    /// Creates the timestamp of a client that has seen nothing (List. 1 l. 1–3).
    ///
    /// # Panics
    /// Panics if the scheme has no entries.
    pub fn new(scheme: Scheme) -> CausalTimestamp {
        let entries = match scheme {
            Scheme::Exact => Entries::Exact(BTreeMap::new()),
            Scheme::Structural(entries) => {
                assert!(entries > 0, "a timestamp has entries");
                Entries::Structural(vec![Stamp::ZERO; usize::from(entries)])
            }
            Scheme::Temporal(entries) | Scheme::PerSite(entries) => {
                assert!(entries > 0, "a timestamp has entries");
                Entries::Recent(Vec::new())
            }
            Scheme::None => Entries::None,
        };
        CausalTimestamp { scheme, entries }
    }

    /// Returns the scheme.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns whether the timestamp depends on no write.
    pub fn is_empty(&self) -> bool {
        match &self.entries {
            Entries::Exact(stamps) => stamps.is_empty(),
            Entries::Structural(stamps) => stamps.iter().all(|stamp| *stamp == Stamp::ZERO),
            Entries::Recent(groups) => groups.is_empty(),
            Entries::None => true,
        }
    }

    /// Returns whether all shards with entries exist in a cluster with this number of shards.
    pub fn is_within(&self, shards: u16) -> bool {
        match &self.entries {
            Entries::Exact(stamps) => stamps.keys().all(|shard| shard.0 < shards),
            Entries::Structural(_) | Entries::None => true,
            Entries::Recent(groups) => groups
                .iter()
                .flat_map(|(_, recent)| recent.explicit())
                .all(|(_, shard)| shard.0 < shards),
        }
    }

    /// Returns whether all sites with entries exist in a cluster with this number of sites.
    pub fn is_within_sites(&self, sites: usize) -> bool {
        match &self.entries {
            Entries::Exact(_) | Entries::Structural(_) | Entries::None => true,
            Entries::Recent(groups) => {
                groups.iter().filter_map(|(site, _)| *site).all(|site| site.index() < sites)
            }
        }
    }

    /// Returns a stamp that is at least the stamp of every write in the shard on which the owner
    /// depends (Occult List. 1 l. 5–7).
    pub fn stamp(&self, shard: ShardId, homes: &Homes) -> Stamp {
        match &self.entries {
            Entries::Exact(stamps) => stamps.get(&shard).copied().unwrap_or_default(),
            Entries::Structural(stamps) => stamps[usize::from(shard.0) % stamps.len()],
            Entries::Recent(groups) => {
                let own = groups.iter().filter_map(|(_, recent)| recent.entry(shard)).max();
                let group = |site| groups.iter().find(|(other, _)| *other == site);
                let catch_all = |site: SiteId| {
                    let (_, recent) = group(self.group_of(site))?;
                    Some(recent.catch_all())
                };
                let home = catch_all(homes.home(shard));
                // A former home assigned no stamp of this shard above `last`, although it may have
                // assigned greater stamps to other shards since.
                let former = homes.former_stamps(shard).iter().filter_map(|former| {
                    let catch_all = catch_all(former.site)?;
                    Some(former.last.map_or(catch_all, |last| catch_all.min(last)))
                });
                own.into_iter().chain(home).chain(former).max().unwrap_or_default()
            }
            Entries::None => Stamp::ZERO,
        }
    }

    /// Returns all shards on which the owner depends, with their stamps, in the scheme
    /// [`Scheme::Exact`]; none in other schemes.
    pub(crate) fn exact(&self) -> impl Iterator<Item = (ShardId, Stamp)> + '_ {
        let stamps = match &self.entries {
            Entries::Exact(stamps) => Some(stamps),
            _ => None,
        };
        stamps.into_iter().flatten().map(|(shard, stamp)| (*shard, *stamp))
    }

    /// Returns whether the shard has an entry of its own. A shard without one shares an entry with
    /// other shards, and the owner may depend on none of its writes.
    pub fn has_own(&self, shard: ShardId) -> bool {
        match &self.entries {
            Entries::Exact(stamps) => stamps.contains_key(&shard),
            Entries::Structural(_) | Entries::None => false,
            Entries::Recent(groups) => {
                groups.iter().any(|(_, recent)| recent.entry(shard).is_some())
            }
        }
    }

    /// Returns the greatest stamp of the shards with this home (List. 1 l. 9–11). If the scheme
    /// does not distinguish sites, returns the greatest stamp of all shards.
    pub fn greatest(&self, home: SiteId) -> Stamp {
        match &self.entries {
            Entries::Exact(stamps) => stamps.values().copied().max(),
            Entries::Structural(stamps) => stamps.iter().copied().max(),
            Entries::Recent(groups) => {
                let of_home = groups.iter().filter(|(site, _)| *site == self.group_of(home));
                of_home.map(|(_, recent)| recent.greatest()).max()
            }
            Entries::None => None,
        }
        .unwrap_or_default()
    }

    /// Returns the greatest stamp of all shards.
    pub fn latest(&self) -> Stamp {
        self.peaks().into_iter().map(|(_, stamp)| stamp).max().unwrap_or_default()
    }

    /// For each site, returns the greatest stamp of its homes on which the owner depends. If the
    /// scheme does not distinguish sites, returns one stamp for all homes.
    pub(crate) fn peaks(&self) -> Vec<(Option<SiteId>, Stamp)> {
        match &self.entries {
            Entries::None => Vec::new(),
            Entries::Exact(_) | Entries::Structural(_) => vec![(None, self.greatest(SiteId(0)))],
            Entries::Recent(groups) => {
                groups.iter().map(|(site, recent)| (*site, recent.greatest())).collect()
            }
        }
    }

    /// Returns a stamp that is at least the stamp of every write on which the owner depends in
    /// shards with this home. Former homes may have assigned these stamps.
    pub(crate) fn greatest_at(&self, home: SiteId, homes: &Homes) -> Stamp {
        let inherited = homes.inherited(home).map(|(former, last)| {
            let greatest = self.greatest(former);
            last.map_or(greatest, |last| greatest.min(last))
        });
        inherited.fold(self.greatest(home), Stamp::max)
    }

    /// Adds a write in a shard, to which `home` assigned this stamp: raises the shard's stamp
    /// (List. 1 l. 13–15).
    pub fn raise(&mut self, shard: ShardId, home: SiteId, stamp: Stamp) {
        if stamp == Stamp::ZERO {
            return;
        }
        let group = self.group_of(home);
        match (&mut self.entries, self.scheme) {
            (Entries::Exact(stamps), _) => {
                let entry = stamps.entry(shard).or_default();
                *entry = stamp.max(*entry);
            }
            (Entries::Structural(stamps), _) => {
                let at = usize::from(shard.0) % stamps.len();
                stamps[at] = stamp.max(stamps[at]);
            }
            (Entries::Recent(groups), Scheme::Temporal(most) | Scheme::PerSite(most)) => {
                group_mut(groups, group).raise(shard, stamp, usize::from(most));
            }
            (Entries::Recent(_), _) => unreachable!("only these schemes have groups"),
            (Entries::None, _) => {}
        }
    }

    /// Adds everything on which `other` depends (List. 1 l. 17–20). The timestamps may have
    /// different schemes, for example after a change of the configuration.
    pub fn merge(&mut self, other: &CausalTimestamp, homes: &Homes) {
        match (&mut self.entries, &other.entries) {
            (Entries::None, _) | (_, Entries::None) => {}
            (Entries::Exact(stamps), Entries::Exact(others)) => {
                for (shard, stamp) in others {
                    let entry = stamps.entry(*shard).or_default();
                    *entry = (*stamp).max(*entry);
                }
            }
            (Entries::Structural(stamps), Entries::Structural(others))
                if stamps.len() == others.len() =>
            {
                for (stamp, other) in stamps.iter_mut().zip(others) {
                    *stamp = (*stamp).max(*other);
                }
            }
            (Entries::Recent(groups), Entries::Recent(others))
                if matches!(self.scheme, Scheme::Temporal(_))
                    == matches!(other.scheme, Scheme::Temporal(_)) =>
            {
                let (Scheme::Temporal(most) | Scheme::PerSite(most)) = self.scheme else { return };
                for (group, recent) in others {
                    group_mut(groups, *group).merge(recent, usize::from(most));
                }
            }
            (_, Entries::Exact(others)) => {
                for (shard, stamp) in others {
                    self.raise(*shard, homes.home(*shard), *stamp);
                }
            }
            _ => {
                for shard in ShardId::all(homes.shards()) {
                    self.raise(shard, homes.home(shard), other.stamp(shard, homes));
                }
            }
        }
    }

    /// Returns whether the owner may depend on a write that was lost in a forced move since. The
    /// owner had this timestamp when `epoch` moves were carried out. Only the scheme per site shows
    /// which site's home assigned a stamp; for other schemes, returns false.
    pub fn has_lost(&self, homes: &Homes, epoch: u64) -> bool {
        let Entries::Recent(groups) = &self.entries else { return false };
        groups.iter().any(|(site, recent)| {
            let Some(safe) = site.and_then(|site| homes.safe(site, epoch)) else { return false };
            let is_lost = |(stamp, shard): &(Stamp, ShardId)| {
                let mut forced = homes.forced(*shard, epoch);
                forced.any(|forced| Some(forced.site) == *site && forced.may_lose(*stamp))
            };
            recent.catch_all() > safe || recent.explicit().iter().any(is_lost)
        })
    }

    /// Removes entries that cannot cause a stale read any more: those of shards whose replicas have
    /// all passed them. `passed` returns the stamp that all replicas of a shard have passed.
    /// `all_passed` returns the least of these stamps over the shards of which the site is or was
    /// the home; for `None`, over all shards.
    pub fn forget(
        &mut self,
        passed: impl Fn(ShardId) -> Stamp,
        all_passed: impl Fn(Option<SiteId>) -> Stamp,
    ) {
        match &mut self.entries {
            Entries::Exact(stamps) => stamps.retain(|shard, stamp| *stamp > passed(*shard)),
            Entries::Structural(stamps) => {
                let all = all_passed(None);
                for stamp in stamps.iter_mut().filter(|stamp| **stamp <= all) {
                    *stamp = Stamp::ZERO;
                }
            }
            Entries::Recent(groups) => {
                for (site, recent) in groups.iter_mut() {
                    recent.forget(&passed, all_passed(*site));
                }
                groups.retain(|(_, recent)| !recent.is_empty());
            }
            Entries::None => {}
        }
    }

    fn group_of(&self, site: SiteId) -> Option<SiteId> {
        self.scheme.group_of(site)
    }
}

fn group_mut(groups: &mut Vec<(Option<SiteId>, Recent)>, group: Option<SiteId>) -> &mut Recent {
    let at = match groups.binary_search_by_key(&group, |(site, _)| *site) {
        Ok(at) => at,
        Err(at) => {
            groups.insert(at, (group, Recent::default()));
            at
        }
    };
    &mut groups[at].1
}

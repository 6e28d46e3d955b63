//! Shards, their stamps, and the sites that are their homes.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use solera_time::SiteId;

/// Number of shards unless the configuration has another number; the same as in Redis Cluster (§8).
pub const DEFAULT_SHARDS: u16 = 16_384;

/// Upper bound of stamps (exclusive). A double holds all stamps exactly: scripts in Redis compute
/// with doubles.
pub const STAMP_END: u64 = 1 << 53;

/// Number of a shard, from 0: a part of the key space with one home (Occult §4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ShardId(pub u16);

impl ShardId {
    /// Returns all shards.
    pub fn all(shards: u16) -> impl Iterator<Item = ShardId> + Clone {
        (0..shards).map(ShardId)
    }
}

/// A shardstamp: a write's position in its shard, in microseconds of loosely synchronised clocks
/// (§4.2, §5). Zero precedes all writes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Stamp(pub u64);

impl Stamp {
    /// The stamp that precedes all writes.
    pub const ZERO: Stamp = Stamp(0);

    /// Returns the next greater stamp.
    #[must_use]
    pub fn next(self) -> Stamp {
        Stamp(self.0 + 1)
    }
}

/// An agreed change of homes. Moves are numbered from 1, and every worker carries them out in
/// order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// First and last shard of each range that moves.
    pub shards: Vec<(ShardId, ShardId)>,
    /// The site whose shards move. Shards of the ranges that have another home by the time of the
    /// move stay. `None` moves all of them.
    pub from: Option<SiteId>,
    /// The new homes, by turns.
    pub to: Vec<SiteId>,
    /// Whether the new homes take over without the former ones, whose last writes are then lost.
    pub forced: bool,
}

impl Move {
    /// Returns the shards that move, and the new home of each.
    pub fn destinations(&self) -> impl Iterator<Item = (ShardId, SiteId)> + '_ {
        let shards = self.shards.iter().flat_map(|(first, last)| (first.0..=last.0).map(ShardId));
        shards.filter_map(|shard| {
            let turn = usize::from(shard.0) % self.to.len().max(1);
            Some((shard, *self.to.get(turn)?))
        })
    }

    /// Returns whether its shards and sites exist.
    pub(crate) fn is_within(&self, shards: u16, sites: usize) -> bool {
        let is_range = |(first, last): &(ShardId, ShardId)| first <= last && last.0 < shards;
        !self.to.is_empty()
            && self.shards.iter().all(is_range)
            && self.to.iter().chain(&self.from).all(|site| site.index() < sites)
    }
}

/// A change of a shard's home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HomeChange {
    /// Number of the move.
    pub(crate) number: u64,
    pub(crate) from: SiteId,
    pub(crate) to: SiteId,
    pub(crate) forced: bool,
}

/// A former home of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormerHome {
    /// The site.
    pub site: SiteId,
    /// Number of the last move of the shard from there.
    pub number: u64,
    /// The greatest stamp of the shard's writes there that are not lost; `None` while unknown.
    pub last: Option<Stamp>,
    /// Whether later writes may have been lost.
    pub forced: bool,
}

/// The present and former homes of each shard.
///
/// A timestamp of the scheme per site keeps a shard's stamp in the group of the site that was the
/// shard's home when the stamp was assigned. The former homes are therefore needed to find the
/// stamp again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Homes {
    now: Vec<SiteId>,
    /// The sites that are the home of some shard, in order.
    sites: Vec<SiteId>,
    /// Number of moves that are carried out.
    epoch: u64,
    /// For each shard that has moved: all changes, in order.
    changes: BTreeMap<ShardId, Vec<HomeChange>>,
    former: BTreeMap<ShardId, Vec<FormerHome>>,
    /// For each site from which shards were taken by force: a stamp up to which nothing is lost.
    safe: BTreeMap<SiteId, Stamp>,
    /// The shards that were taken by force, and of which it is not known yet what is lost.
    undecided: BTreeSet<ShardId>,
    /// Whether the stamps that former homes have assigned do not count: a fault, for tests.
    without_former_stamps: bool,
}

impl Homes {
    /// Creates the homes of shards that have never moved. `home` returns the home of each.
    pub fn new(shards: u16, home: impl Fn(ShardId) -> SiteId) -> Homes {
        let now = ShardId::all(shards).map(home).collect();
        let mut homes = Homes {
            now,
            sites: Vec::new(),
            epoch: 0,
            changes: BTreeMap::new(),
            former: BTreeMap::new(),
            safe: BTreeMap::new(),
            undecided: BTreeSet::new(),
            without_former_stamps: false,
        };
        homes.find_sites();
        homes
    }

    /// Leaves the stamps that former homes have assigned out of account, for a test.
    pub(crate) fn without_former_stamps(self) -> Homes {
        Homes { without_former_stamps: true, ..self }
    }

    fn find_sites(&mut self) {
        let sites: BTreeSet<SiteId> = self.now.iter().copied().collect();
        self.sites = sites.into_iter().collect();
    }

    /// Returns the sites that are the home of some shard, in order.
    pub fn sites(&self) -> impl Iterator<Item = SiteId> + '_ {
        self.sites.iter().copied()
    }

    /// Returns the number of shards.
    pub fn shards(&self) -> u16 {
        self.now.len() as u16
    }

    /// Returns the home of a shard.
    pub fn home(&self, shard: ShardId) -> SiteId {
        self.now[usize::from(shard.0)]
    }

    /// Returns the number of moves that are carried out.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the number of the move that made the present home one; 0 for the first home.
    pub fn moved_by(&self, shard: ShardId) -> u64 {
        self.changes(shard).last().map_or(0, |change| change.number)
    }

    /// Returns the shards that have moved.
    pub(crate) fn moved(&self) -> impl Iterator<Item = ShardId> + '_ {
        self.changes.keys().copied()
    }

    /// Returns all changes of a shard's home, in order.
    pub(crate) fn changes(&self, shard: ShardId) -> &[HomeChange] {
        if self.changes.is_empty() {
            return &[];
        }
        self.changes.get(&shard).map_or(&[], Vec::as_slice)
    }

    /// Returns the former homes of a shard.
    pub fn former(&self, shard: ShardId) -> &[FormerHome] {
        if self.former.is_empty() {
            return &[];
        }
        self.former.get(&shard).map_or(&[], Vec::as_slice)
    }

    /// Returns the former homes of a shard, whose stamps count for the shard's stamp.
    pub(crate) fn former_stamps(&self, shard: ShardId) -> &[FormerHome] {
        if self.without_former_stamps { &[] } else { self.former(shard) }
    }

    /// Carries out the next move. Returns the shards whose home has changed, and each one's former
    /// home.
    pub fn carry_out(&mut self, next: &Move) -> Vec<(ShardId, SiteId)> {
        self.epoch += 1;
        let mut changed = Vec::new();
        for (shard, to) in next.destinations() {
            let home = self.home(shard);
            let from = match next.from {
                Some(only) if only == home => home,
                // An earlier move of the shard waits for the site, and later ones for that move.
                Some(only) if next.forced && self.waits_for(shard, only) => only,
                Some(_) => continue,
                None => home,
            };
            if from == to {
                continue;
            }
            self.now[usize::from(shard.0)] = to;
            let change = HomeChange { number: self.epoch, from, to, forced: next.forced };
            self.changes.entry(shard).or_default().push(change);
            let former = self.former.entry(shard).or_default();
            former.retain(|known| known.site != from);
            let (number, forced) = (self.epoch, next.forced);
            former.push(FormerHome { site: from, number, last: None, forced });
            changed.push((shard, from));
        }
        changed.iter().for_each(|(shard, _)| self.note_undecided(*shard));
        self.find_sites();
        changed
    }

    /// Returns whether a site has handed the shard over, or still has to, since the shard was last
    /// taken by force.
    fn waits_for(&self, shard: ShardId, site: SiteId) -> bool {
        let changes = self.changes(shard).iter().rev();
        changes.take_while(|change| !change.forced).any(|change| change.from == site)
    }

    /// Returns the home of a shard before the change at this place in its changes.
    pub(crate) fn home_before(&self, shard: ShardId, at: usize) -> Option<SiteId> {
        let changes = self.changes(shard);
        match at.checked_sub(1) {
            Some(before) => changes.get(before).map(|change| change.to),
            None => changes.first().map(|change| change.from),
        }
    }

    /// Notes the greatest stamp of a shard's writes that its new home has taken over in a move. A
    /// move from a home that has become one again, and has handed the shard over once more, does
    /// not count any more. Returns whether that is new.
    pub fn note_last(&mut self, shard: ShardId, number: u64, last: Stamp) -> bool {
        let mut former = self.former.get_mut(&shard).into_iter().flatten();
        let Some(known) = former.find(|known| known.number == number) else { return false };
        if known.last >= Some(last) {
            return false;
        }
        known.last = Some(last);
        if known.forced {
            let safe = self.safe.entry(known.site).or_insert(last);
            *safe = last.min(*safe);
        }
        self.note_undecided(shard);
        true
    }

    /// Returns, for shards that have moved: the number of the move from a former home, and the
    /// greatest stamp of this home's writes that are not lost.
    pub(crate) fn lasts(&self) -> impl Iterator<Item = (ShardId, u64, Stamp)> {
        self.former.iter().flat_map(|(shard, former)| {
            former.iter().filter_map(|former| Some((*shard, former.number, former.last?)))
        })
    }

    /// Returns the stamp of a site's homes up to which no write is lost; `None` if no home of the
    /// site was taken by force.
    pub(crate) fn safe(&self, site: SiteId) -> Option<Stamp> {
        self.safe.get(&site).copied()
    }

    /// Returns whether the shard was taken by force, and this worker does not know yet which of its
    /// writes are lost.
    pub fn is_undecided(&self, shard: ShardId) -> bool {
        !self.undecided.is_empty() && self.undecided.contains(&shard)
    }

    /// Returns the shards that are [undecided](Homes::is_undecided).
    pub fn undecided(&self) -> &BTreeSet<ShardId> {
        &self.undecided
    }

    /// Returns the number of shards whose data is on its way to their home, as far as this worker
    /// knows.
    pub fn arriving(&self) -> usize {
        let is_arriving =
            |formers: &&Vec<FormerHome>| formers.last().is_some_and(|former| former.last.is_none());
        self.former.values().filter(is_arriving).count()
    }

    fn note_undecided(&mut self, shard: ShardId) {
        let formers = self.former(shard).iter().rev();
        let is_undecided =
            formers.take_while(|former| former.last.is_none()).any(|former| former.forced);
        match is_undecided {
            true => self.undecided.insert(shard),
            false => self.undecided.remove(&shard),
        };
    }
}

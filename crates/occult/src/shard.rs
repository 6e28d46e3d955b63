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
    /// The new homes, which get the shards in turn.
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
    /// Whether writes with greater stamps may be lost.
    pub forced: bool,
}

/// A forced move of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ForcedMove {
    /// Number of the move.
    pub(crate) number: u64,
    /// The home from which the shard was taken.
    pub(crate) site: SiteId,
    /// The greatest stamp of this home's writes that are not lost; `None` while unknown.
    pub(crate) last: Option<Stamp>,
    /// Whether a later move has ended this one before its losses were known. All of the home's
    /// writes may be lost.
    replaced: bool,
}

impl ForcedMove {
    /// Returns whether a write with this stamp, which the home has assigned, may be lost.
    pub(crate) fn may_lose(&self, stamp: Stamp) -> bool {
        self.last.map_or(self.replaced, |last| stamp > last)
    }
}

/// Stamps that a former home has assigned in the shards of a present home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Inherited {
    /// The greatest of the shards' last stamps.
    last: Stamp,
    /// Number of these shards whose last stamp is not known yet.
    unknown: usize,
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
    /// For each shard that was taken by force: these moves, in order.
    forced: BTreeMap<ShardId, Vec<ForcedMove>>,
    /// For each forced move and site whose shards it has taken: a stamp up to which no write of the
    /// site's homes was lost.
    safe: BTreeMap<(u64, SiteId), Stamp>,
    /// The shards that were taken by force, and of which it is not known yet what is lost.
    undecided: BTreeSet<ShardId>,
    /// For each home and each former home of its shards: the stamps that the former home has
    /// assigned.
    inherited: BTreeMap<(SiteId, SiteId), Inherited>,
    /// Whether stamps of former homes are ignored: a fault for tests.
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
            forced: BTreeMap::new(),
            safe: BTreeMap::new(),
            undecided: BTreeSet::new(),
            inherited: BTreeMap::new(),
            without_former_stamps: false,
        };
        homes.find_sites();
        homes
    }

    /// Ignores the stamps that former homes have assigned, for a test.
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

    /// Returns the number of the move by which the shard got its present home; 0 for the first
    /// home.
    pub fn moved_by(&self, shard: ShardId) -> u64 {
        self.changes(shard).last().map_or(0, |change| change.number)
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

    /// Returns the former homes of a shard whose stamps a timestamp takes into account.
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
                // An earlier move of the shard waits for the site, and later moves wait for that
                // move.
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
            self.note_former(shard, (home, from), next.forced);
            changed.push((shard, from));
        }
        changed.iter().for_each(|(shard, _)| self.note_undecided(*shard));
        self.find_sites();
        self.find_inherited();
        changed
    }

    fn find_inherited(&mut self) {
        self.inherited.clear();
        for (shard, former) in &self.former {
            let home = self.now[usize::from(shard.0)];
            for left in former {
                let inherited = self.inherited.entry((home, left.site)).or_default();
                match left.last {
                    Some(last) => inherited.last = last.max(inherited.last),
                    None => inherited.unknown += 1,
                }
            }
        }
    }

    /// Returns the former homes of the shards of a site, with the greatest stamp that each has
    /// assigned in these shards; `None` while it is not known.
    pub(crate) fn inherited(
        &self,
        home: SiteId,
    ) -> impl Iterator<Item = (SiteId, Option<Stamp>)> + '_ {
        let of_home = self.inherited.range((home, SiteId(0))..=(home, SiteId(u8::MAX)));
        of_home.map(|((_, former), inherited)| {
            (*former, (inherited.unknown == 0).then_some(inherited.last))
        })
    }

    /// Notes the homes that a shard leaves in the present move: `home`, and `from` if this is
    /// another site, which may not have handed the shard over yet. Only `from` loses writes in a
    /// forced move.
    fn note_former(&mut self, shard: ShardId, (home, from): (SiteId, SiteId), forced: bool) {
        let number = self.epoch;
        let former = self.former.entry(shard).or_default();
        former.retain(|known| known.site != from && known.site != home);
        let left = FormerHome { site: from, number, last: None, forced };
        former.push(left);
        if home != from {
            former.push(FormerHome { site: home, forced: false, ..left });
        }
        if forced {
            let forced = ForcedMove { number, site: from, last: None, replaced: false };
            self.forced.entry(shard).or_default().push(forced);
        }
    }

    /// Returns whether a site has handed the shard over, or still has to, since the shard was last
    /// taken by force.
    fn waits_for(&self, shard: ShardId, site: SiteId) -> bool {
        let changes = self.changes(shard).iter().rev();
        changes.take_while(|change| !change.forced).any(|change| change.from == site)
    }

    /// Returns the last change of a shard's home, and the home before it.
    pub(crate) fn last_change(&self, shard: ShardId) -> Option<(HomeChange, SiteId)> {
        let at = self.changes(shard).len().checked_sub(1)?;
        Some((self.changes(shard)[at], self.home_before(shard, at)?))
    }

    /// Returns the home of a shard before the change at this place in its changes.
    pub(crate) fn home_before(&self, shard: ShardId, at: usize) -> Option<SiteId> {
        let changes = self.changes(shard);
        match at.checked_sub(1) {
            Some(before) => changes.get(before).map(|change| change.to),
            None => changes.first().map(|change| change.from),
        }
    }

    /// Notes the greatest stamp of a shard's writes that its new home has taken over in a move. If
    /// the former home has become the home again and has handed the shard over once more, only the
    /// losses of this move still count. Returns whether anything has changed.
    pub fn note_last(&mut self, shard: ShardId, number: u64, last: Stamp) -> bool {
        let mut is_new = false;
        let former = self.former.get_mut(&shard).into_iter().flatten();
        let home = self.now[usize::from(shard.0)];
        for known in former.filter(|known| known.number == number) {
            let inherited = self.inherited.entry((home, known.site)).or_default();
            inherited.unknown = inherited.unknown.saturating_sub(known.last.is_none().into());
            inherited.last = last.max(inherited.last);
            is_new |= known.last < Some(last);
            known.last = known.last.max(Some(last));
        }
        let mut raised = None;
        for known in self.forced.get_mut(&shard).into_iter().flatten() {
            let key = (known.number, known.site);
            if known.number == number {
                is_new |= known.last < Some(last);
                raised = (known.replaced || known.last.is_some_and(|before| before < last))
                    .then_some(known.site);
                known.last = known.last.max(Some(last));
                let safe = self.safe.entry(key).or_insert(last);
                *safe = last.min(*safe);
            } else if known.number < number && known.last.is_none() && !known.replaced {
                (known.replaced, is_new) = (true, true);
                self.safe.insert(key, Stamp::ZERO);
            }
        }
        if let Some(site) = raised {
            self.find_safe(number, site);
        }
        if is_new {
            self.note_undecided(shard);
        }
        is_new
    }

    /// Computes again the stamp up to which a move has lost no write of a site's homes.
    fn find_safe(&mut self, number: u64, site: SiteId) {
        let forced = self.forced.values().flatten();
        let of_move = forced.filter(|forced| forced.number == number && forced.site == site);
        let safe = of_move
            .filter_map(|forced| forced.last.or_else(|| forced.replaced.then_some(Stamp::ZERO)));
        if let Some(safe) = safe.min() {
            self.safe.insert((number, site), safe);
        }
    }

    /// Returns, for each move of a shard from a former home: the shard, the number of the move, and
    /// the greatest stamp of the former home's writes that are not lost.
    pub(crate) fn lasts(&self) -> BTreeSet<(ShardId, u64, Stamp)> {
        let former = self
            .former
            .iter()
            .flat_map(|(shard, former)| former.iter().map(|left| (*shard, left.number, left.last)));
        let forced = self.forced.iter().flat_map(|(shard, forced)| {
            forced.iter().map(|forced| (*shard, forced.number, forced.last))
        });
        let known = former.chain(forced);
        known.filter_map(|(shard, number, last)| Some((shard, number, last?))).collect()
    }

    /// Returns the moves with numbers above `epoch` that have taken a shard by force.
    pub(crate) fn forced(&self, shard: ShardId, epoch: u64) -> impl Iterator<Item = &ForcedMove> {
        let forced = self.forced.get(&shard).into_iter().flatten();
        forced.filter(move |forced| forced.number > epoch)
    }

    /// Returns, for the forced moves of a shard: the number, and the greatest stamp of the former
    /// home's writes that are not lost, as far as it is known.
    pub(crate) fn losses(&self, shard: ShardId) -> Vec<(u64, Stamp)> {
        self.forced(shard, 0).filter_map(|forced| Some((forced.number, forced.last?))).collect()
    }

    /// Returns the stamp of a site's homes up to which no move with a number above `epoch` has lost
    /// a write; `None` if no such move has taken a home of the site by force.
    pub(crate) fn safe(&self, site: SiteId, epoch: u64) -> Option<Stamp> {
        let later = self.safe.range((epoch + 1, SiteId(0))..);
        later.filter(|((_, of), _)| *of == site).map(|(_, safe)| *safe).min()
    }

    /// Returns whether the shard was taken by force, and this worker does not know yet which of its
    /// writes are lost.
    pub fn is_undecided(&self, shard: ShardId) -> bool {
        !self.undecided.is_empty() && self.undecided.contains(&shard)
    }

    /// Returns the number of the last move up to which this worker knows all losses.
    pub fn decided_through(&self) -> u64 {
        let forced = self.undecided.iter().filter_map(|shard| self.forced.get(shard)).flatten();
        let undecided = forced.filter(|forced| forced.last.is_none() && !forced.replaced);
        undecided.map(|forced| forced.number - 1).min().unwrap_or(self.epoch)
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

    /// Returns whether a shard's data is on its way from this site, as far as this worker knows.
    pub fn arrives_from(&self, shard: ShardId, site: SiteId) -> bool {
        let waits = |former: &FormerHome| former.site == site && former.last.is_none();
        self.former(shard).iter().any(|former| waits(former) && !former.forced)
    }

    fn note_undecided(&mut self, shard: ShardId) {
        let mut forced = self.forced.get(&shard).into_iter().flatten();
        match forced.any(|forced| forced.last.is_none() && !forced.replaced) {
            true => self.undecided.insert(shard),
            false => self.undecided.remove(&shard),
        };
    }
}

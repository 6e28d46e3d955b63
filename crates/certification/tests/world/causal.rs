//! Causal updates that strong transactions depend on: each site has a history of its own, which
//! reaches the others at its own pace. Updates that no other site has received are lost with the
//! site.

use solera_machine::Address;
use solera_time::{SiteId, Timestamp, Vector};

use super::{Letter, MILLI, Random, World, WorldEvent};

/// Interval at which sites send their updates to others.
pub(super) const INTERVAL: u64 = 20 * MILLI;

pub(super) struct Causal {
    random: Random,
    /// The part of each site's history that each site stores. It survives crashes, and is lost with
    /// the site.
    stores: Vec<Vector>,
    /// Updates of a site after the first time and up to the second are lost.
    lost: Vec<(SiteId, Timestamp, Timestamp)>,
    /// Whether sites rarely send their updates at present.
    slow: bool,
}

impl Causal {
    pub(super) fn new(seed: u64, sites: u8) -> Self {
        let stores = vec![Vector::zero(sites.into()); sites.into()];
        Causal { random: Random::new(seed ^ 0xca05a1), stores, lost: Vec::new(), slow: false }
    }

    /// Adds an update of a site.
    fn update(&mut self, site: SiteId, at: Timestamp) {
        let own = &mut self.stores[site.index()];
        let after = Timestamp(own[site].0 + 1);
        own.raise(site, at.max(after));
    }

    pub(super) fn arrive(&mut self, from: SiteId, to: SiteId, upto: Timestamp) {
        self.stores[to.index()].raise(from, upto);
    }

    /// Gives up a site that is lost for good: the remaining sites exchange what they have of its
    /// history, which began after `born`. Returns a time after all updates of the site. No site
    /// waits for updates up to this time any more.
    pub(super) fn bury(&mut self, site: SiteId, born: Timestamp, remain: &[SiteId]) -> Timestamp {
        let all = self.stores[site.index()][site];
        let theirs = remain.iter().map(|other| self.stores[other.index()][site]);
        let cut = theirs.fold(born, Timestamp::max);
        for other in remain {
            self.stores[other.index()].raise(site, cut);
        }
        self.lost.push((site, cut, all));
        Timestamp(all.0 + 1)
    }

    /// Restarts a site with the data of a donor, and with times after `after`.
    pub(super) fn begin_anew(&mut self, site: SiteId, donor: SiteId, after: Timestamp) {
        self.stores[site.index()] = self.stores[donor.index()].with(site, after);
    }

    /// Returns a site of which the snapshot contains lost updates.
    pub(super) fn lacks(&self, snap_vec: &Vector) -> Option<SiteId> {
        let mut lost = self.lost.iter();
        let holds = lost.find(|(site, cut, all)| snap_vec[*site] > *cut && snap_vec[*site] <= *all);
        holds.map(|(site, ..)| *site)
    }
}

impl World {
    /// Returns the vector of what a worker's site stores. The history of a removed site counts as
    /// stored up to its end, if the worker knows of the removal.
    pub(super) fn stable_vec(&self, address: Address) -> Vector {
        let mut stable_vec = self.causal.stores[address.site.index()];
        if let Some(host) = &self.hosts[&address] {
            stable_vec.join(&self.members.lists[host.knows].ends);
        }
        stable_vec
    }

    /// Makes sites create updates and send them to others.
    pub(super) fn spread_causal(&mut self) {
        if self.causal.random.chance(4) {
            self.causal.slow = !self.causal.slow;
        }
        let often = match self.causal.slow && !self.quiet {
            true => 1,
            false => 40,
        };
        for from in SiteId::all(self.shape.sites.into()) {
            let speaker = Address { site: from, worker: 0 };
            let Some(host) = self.host(speaker) else { continue };
            let skew = host.skew;
            if self.causal.random.chance(30) && !self.quiet {
                let at = Timestamp::from_physical(self.time(skew).physical);
                self.causal.update(from, at);
            }
            let upto = self.causal.stores[from.index()][from];
            for site in SiteId::all(self.shape.sites.into()).filter(|site| *site != from) {
                if self.causal.random.chance(often) {
                    self.post(speaker, Address { site, worker: 0 }, Letter::Causal { upto });
                }
            }
        }
        self.at(INTERVAL, WorldEvent::Causal);
    }
}

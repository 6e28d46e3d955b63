//! Long outages of whole sites, of a part of one site, or of a link to the leading site. While one
//! lasts, all sites that are whole must commit.

use std::fmt;

use crate::faults::Fault;
use crate::faults::disks::DiskFault;
use crate::queue::MS;
use crate::random::Random;

/// Time at which an outage begins: by then leaders are elected and clients are busy.
const BEGIN: u64 = 2_000 * MS;
/// Length of an outage.
const LENGTH: u64 = 60_000 * MS;
/// Time after its beginning within which sites elect leaders.
const FAIL_OVER: u64 = 10_000 * MS;
/// The same, where a site receives from both ends of a link that is down. This site takes over
/// after seven seconds, or fifteen seconds after the last takeover.
const TAKE_OVER: u64 = 25_000 * MS;
/// Time within which a site must then commit strongly on all groups.
pub(crate) const BOUND: u64 = 5_000 * MS;
/// Number of times that each site tries to commit strongly on all groups.
pub(crate) const ROUNDS: u64 = 3;

/// The part of the cluster that is down for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outage {
    /// Whole sites, at most `f`.
    Sites(Vec<usize>),
    /// Some workers of one site: one of its nodes, or a part of one.
    Workers {
        site: usize,
        workers: Vec<usize>,
        /// Whether the site leads all groups when the outage begins.
        leads: bool,
    },
    /// The link between the leading site and another one. Both of them reach a third site.
    Link(usize, usize),
}

impl Outage {
    /// Draws an outage of a cluster whose groups are led from site `leader`.
    pub(crate) fn draw(random: &mut Random, workers: &[u8], f: usize, leader: usize) -> Outage {
        let sites = workers.len();
        if random.chance(20) {
            let other = (leader + 1 + random.below(sites - 1)) % sites;
            return Outage::Link(leader, other);
        }
        let divisible: Vec<usize> = (0..sites).filter(|site| workers[*site] > 1).collect();
        if divisible.is_empty() || random.chance(50) {
            let mut down: Vec<usize> = (0..sites).collect();
            // The leading site is usually among them.
            let first = if random.chance(70) { leader } else { random.below(sites) };
            down.retain(|site| *site != first);
            while down.len() + 1 > f {
                down.swap_remove(random.below(down.len()));
            }
            down.push(first);
            return Outage::Sites(down);
        }
        let leads = divisible.contains(&leader) && random.chance(50);
        let site = if leads { leader } else { divisible[random.below(divisible.len())] };
        let count = usize::from(workers[site]);
        let first = random.below(count);
        // One worker is down, or half of them, as if one of two nodes of the site failed.
        let length = if random.chance(50) { 1 } else { count / 2 };
        let workers = (first..(first + length).min(count)).collect();
        Outage::Workers { site, workers, leads: site == leader }
    }

    /// Returns the times at which the outage begins and ends.
    pub(crate) fn span(&self) -> (u64, u64) {
        (BEGIN, BEGIN + LENGTH)
    }

    /// Returns the time from which strong transactions must commit.
    pub(crate) fn from(&self) -> u64 {
        let patience = if let Outage::Link(..) = self { TAKE_OVER } else { FAIL_OVER };
        BEGIN + patience
    }

    /// Returns the outage as faults.
    pub(crate) fn faults(&self) -> Vec<(u64, Fault)> {
        let (begin, end) = self.span();
        let pairs: Vec<(Fault, Fault)> = match self {
            Outage::Sites(sites) => {
                sites.iter().map(|site| (Fault::Crash(*site), Fault::Restart(*site))).collect()
            }
            Outage::Workers { site, workers, .. } => {
                let strike = |worker: &usize, fault| Fault::Disk(*site, *worker, fault);
                let crash = DiskFault::Crash { power: false };
                let pair = |worker| (strike(worker, crash), strike(worker, DiskFault::Start));
                workers.iter().map(pair).collect()
            }
            Outage::Link(a, b) => vec![(Fault::Cut(*a, *b), Fault::Restore(*a, *b))],
        };
        pairs.into_iter().flat_map(|(down, up)| [(begin, down), (end, up)]).collect()
    }

    /// Returns the sites that are whole.
    pub(crate) fn others(&self, sites: usize) -> Vec<usize> {
        let is_whole = |site: &usize| match self {
            Outage::Sites(down) => !down.contains(site),
            Outage::Workers { site: damaged, .. } => site != damaged,
            Outage::Link(..) => true,
        };
        (0..sites).filter(is_whole).collect()
    }

    /// Returns whether the cluster is known not to tolerate this outage in all cases. A site with
    /// only some workers down is not suspected. If it leads, groups led by its other workers take
    /// no strong transactions of other sites, because these workers wait for the whole site. Also,
    /// updates that it replicated to only one other site are not forwarded, so a strong transaction
    /// that has seen them is not decided, and delays those after it.
    pub(crate) fn is_known_to_fail(&self) -> bool {
        matches!(self, Outage::Workers { .. })
    }
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outage::Sites(sites) => write!(f, "sites {sites:?} are down"),
            Outage::Workers { site, workers, leads } => {
                let role = if *leads { "the leading" } else { "a following" };
                write!(f, "workers {workers:?} of site {site}, {role} site, are down")
            }
            Outage::Link(leader, other) => {
                write!(f, "the link between the leading site {leader} and site {other} is down")
            }
        }
    }
}

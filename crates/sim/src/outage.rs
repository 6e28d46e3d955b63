//! Outages that last: sites that are down, or a part of one site. While they last, the other sites must commit.

use std::fmt;

use crate::disk_faults::DiskFault;
use crate::faults::Fault;
use crate::random::Random;
use crate::scenario::MS;

/// When an outage begins: leaders are elected and clients are busy by then.
const BEGIN: u64 = 2_000 * MS;
/// How long an outage lasts.
const LENGTH: u64 = 60_000 * MS;
/// How long after its beginning other sites may need to elect leaders.
pub(crate) const FAIL_OVER: u64 = 10_000 * MS;
/// How long a site may need afterwards to commit strongly on all groups.
pub(crate) const BOUND: u64 = 5_000 * MS;
/// How often each site tries to.
pub(crate) const ROUNDS: u64 = 3;

/// What is down for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outage {
    pub(crate) what: Down,
    /// Whether the site leads all groups when the outage begins, where only a part of one is down.
    leads: bool,
}

/// See [`Outage`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Down {
    /// Whole sites, at most `f`.
    Sites(Vec<usize>),
    /// Some workers of one site: one of its nodes, or less.
    Workers(usize, Vec<usize>),
}

impl Outage {
    /// Draws what is down in a cluster whose groups are led from site `leader`.
    pub(crate) fn draw(random: &mut Random, workers: &[u8], f: usize, leader: usize) -> Outage {
        let sites = workers.len();
        let divisible: Vec<usize> = (0..sites).filter(|site| workers[*site] > 1).collect();
        if divisible.is_empty() || random.chance(50) {
            let mut down: Vec<usize> = (0..sites).collect();
            // The leading site is among them as a rule.
            let first = if random.chance(70) { leader } else { random.below(sites) };
            down.retain(|site| *site != first);
            while down.len() + 1 > f {
                down.swap_remove(random.below(down.len()));
            }
            down.push(first);
            return Outage { what: Down::Sites(down), leads: false };
        }
        let leads = divisible.contains(&leader) && random.chance(50);
        let site = if leads { leader } else { divisible[random.below(divisible.len())] };
        let count = usize::from(workers[site]);
        let first = random.below(count);
        // One worker, or half of them, as where a site has two nodes.
        let length = if random.chance(50) { 1 } else { count / 2 };
        let down = (first..(first + length).min(count)).collect();
        Outage { what: Down::Workers(site, down), leads: site == leader }
    }

    /// When the outage begins and ends.
    pub(crate) fn span(&self) -> (u64, u64) {
        (BEGIN, BEGIN + LENGTH)
    }

    /// What strikes the world.
    pub(crate) fn faults(&self) -> Vec<(u64, Fault)> {
        let (begin, end) = self.span();
        let pairs: Vec<(Fault, Fault)> = match &self.what {
            Down::Sites(sites) => {
                sites.iter().map(|site| (Fault::Crash(*site), Fault::Restart(*site))).collect()
            }
            Down::Workers(site, workers) => {
                let strike = |worker: &usize, fault| Fault::Disk(*site, *worker, fault);
                let crash = DiskFault::Crash { power: false };
                let pair = |worker| (strike(worker, crash), strike(worker, DiskFault::Start));
                workers.iter().map(pair).collect()
            }
        };
        pairs.into_iter().flat_map(|(down, up)| [(begin, down), (end, up)]).collect()
    }

    /// The sites that are whole.
    pub(crate) fn others(&self, sites: usize) -> Vec<usize> {
        let is_whole = |site: &usize| match &self.what {
            Down::Sites(down) => !down.contains(site),
            Down::Workers(damaged, _) => site != damaged,
        };
        (0..sites).filter(is_whole).collect()
    }

    /// Whether the cluster is known not to stand this yet. Groups that the damaged site leads with the workers that
    /// are left take no strong transactions of other sites, because these workers wait for the whole site.
    pub(crate) fn is_known_to_fail(&self) -> bool {
        matches!(self.what, Down::Workers(..)) && self.leads
    }
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            Down::Sites(sites) => write!(f, "sites {sites:?} are down"),
            Down::Workers(site, workers) => {
                let role = if self.leads { "the leading" } else { "a following" };
                write!(f, "workers {workers:?} of site {site}, {role} site, are down")
            }
        }
    }
}

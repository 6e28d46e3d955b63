//! How workers run Occult in a scenario.

use std::sync::Arc;
use std::time::Duration;

use solera_machine::{Topology, Without};
use solera_occult::{Rule, Scheme, StaleReads, Timing};
use solera_time::SiteId;

use super::Scenario;
use crate::faults::Fault;
use crate::queue::MS;
use crate::random::Random;

/// How workers run Occult.
#[derive(Clone, Debug)]
pub(crate) struct OccultShape {
    /// Number of shards.
    pub(crate) shards: u16,
    /// Number of sites that are homes: those with the lowest numbers.
    pub(crate) homes: usize,
    /// See [`Config::home_of`](solera_occult::Config::home_of).
    pub(crate) home_of: Arc<[(Vec<u8>, Option<SiteId>)]>,
    /// Scheme of timestamps.
    pub(crate) scheme: Scheme,
    /// Intervals and timeouts.
    pub(crate) timing: Timing,
    /// Whether sessions delete keys.
    pub(crate) deletes: bool,
    /// Whether operators move homes.
    pub(crate) moves: bool,
    /// The rule that is taken out.
    pub(crate) without: Without<Rule>,
}

/// Adds replicas of shards that show writes late, for a part of the time with faults. They are
/// drawn apart from everything else.
fn slow_shards(scenario: &mut Scenario, shards: u16) {
    let mut random = Random::new(scenario.seed.wrapping_mul(6_700_417).wrapping_add(29));
    let end = scenario.faults.iter().map(|(at, _)| *at).max().unwrap_or(2_000 * MS);
    for _ in 0..random.below(3) {
        let at = random.within(50 * MS, end);
        let until = (at + random.within(20, 1_500) * MS).min(end);
        let site = random.below(scenario.topology.workers.len());
        let shard = random.below(usize::from(shards)) as u16;
        let by = random.within(5, 2_000);
        scenario.faults.push((at, Fault::SlowShard(site, shard, by)));
        scenario.faults.push((until, Fault::SlowShard(site, shard, 0)));
    }
    scenario.faults.sort_by_key(|(at, _)| *at);
}

/// Prefix of the keys that have their home at one site, in some seeds.
pub(crate) const AT_ONE_SITE: &str = "oh";

impl OccultShape {
    /// Draws how workers run Occult. Only sites that are not removed are homes, because the removal
    /// of a home may lose writes. These sites get the lowest numbers.
    pub(crate) fn draw(scenario: &mut Scenario) -> OccultShape {
        let mut random = Random::new(scenario.seed.wrapping_mul(39_916_801).wrapping_add(13));
        let homes = number_homes_first(scenario);
        let at_one_site = random.chance(50);
        // A prefix has its home at a site only if each partition has a shard of that site.
        let least = if at_one_site { homes as u64 } else { 1 };
        let shards = scenario.topology.partitions * random.within(least, least + 3) as u16;
        let home = SiteId(random.below(homes) as u8);
        let prefix = (AT_ONE_SITE.as_bytes().to_vec(), Some(home));
        let mut millis = |from, to| Duration::from_millis(random.within(from, to));
        let timing = Timing {
            flush: millis(1, 6),
            publish: millis(20, 80),
            publish_idle: millis(100, 400),
            retry: millis(60, 400),
            prepare_expires: millis(150, 600),
            timeout: millis(900, 2_500),
            idle: millis(1_200, 2_200),
            stale: StaleReads::Wait(millis(1, 40)),
            ..Timing::default()
        };
        let stale = match random.chance(50) {
            true => timing.stale,
            false => StaleReads::Retry([0, 1, 2, 4].map(Duration::from_millis)),
        };
        let schemes =
            [Scheme::Exact, Scheme::PerSite(2), Scheme::Temporal(3), Scheme::Structural(3)];
        slow_shards(scenario, shards);
        OccultShape {
            shards,
            homes,
            home_of: if at_one_site { Arc::new([prefix]) } else { Arc::new([]) },
            scheme: schemes[random.below(schemes.len())],
            timing: Timing { stale, ..timing },
            deletes: random.chance(30),
            moves: random.chance(40),
            without: Without::default(),
        }
    }
}

/// Numbers the sites so that the sites which an operator removes come last. Returns the number of
/// the other sites.
fn number_homes_first(scenario: &mut Scenario) -> usize {
    let sites = scenario.topology.sites();
    let is_removed = |site: &usize| {
        scenario.faults.iter().any(|(_, fault)| matches!(fault, Fault::Remove(it) if it == site))
    };
    let (removed, mut order): (Vec<usize>, Vec<usize>) = (0..sites).partition(is_removed);
    let homes = order.len();
    order.extend(removed);
    let number = |site: usize| order.iter().position(|it| *it == site).unwrap_or(site);
    let workers = order.iter().map(|site| scenario.topology.workers[*site]).collect();
    scenario.topology = Arc::new(Topology { workers, partitions: scenario.topology.partitions });
    let delays = &scenario.delays;
    let row = |from: &usize| order.iter().map(|to| delays[*from][*to]).collect();
    scenario.delays = order.iter().map(row).collect();
    scenario.skew = order.iter().map(|site| scenario.skew[*site].clone()).collect();
    scenario.leader = number(scenario.leader);
    for (_, fault) in &mut scenario.faults {
        *fault = fault.at_sites(number);
    }
    homes
}

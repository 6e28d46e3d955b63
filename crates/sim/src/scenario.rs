//! Scenarios: everything that a seed determines before the world starts.

mod bounds_shape;
mod occult_shape;
mod speculative_shape;

use std::sync::Arc;
use std::time::Duration;

use solera_links::Sizes;
use solera_machine::{Topology, Without};
use solera_unistore::{Rule, Timing};

use crate::faults::ambush::{ambushes, ambushes_of_creek};
use crate::faults::disks::disk_faults;
use crate::faults::{Fault, breaks, crashes, operate, schedule};
use crate::outage::Outage;
use crate::queue::MS;
use crate::random::Random;
use crate::weakness::Weakness;

pub(crate) use self::bounds_shape::{BOUNDS_PREFIX, BoundsShape, RIGHTS_PREFIX, SIZES_PREFIX};
pub(crate) use self::occult_shape::{AT_ONE_SITE, OccultShape};
pub(crate) use self::speculative_shape::SpeculativeShape;

/// A cluster, its network, its faults and its load.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub(crate) seed: u64,
    pub(crate) topology: Arc<Topology>,
    pub(crate) f: usize,
    pub(crate) fan_out: u8,
    pub(crate) timing: Timing,
    pub(crate) without: Without<Rule>,
    /// Whether sites have journals, crash and restart.
    pub(crate) durable: bool,
    /// Size of the journals' segments.
    pub(crate) segment_bytes: u64,
    pub(crate) weakness: Option<Weakness>,
    /// One-way delays between sites in nanoseconds, `delays[from][to]`.
    pub(crate) delays: Vec<Vec<u64>>,
    /// Random extra delay between sites, up to this many nanoseconds.
    pub(crate) jitter: u64,
    /// Time for which a piece of a partition for a joining site occupies a link, in nanoseconds.
    pub(crate) piece_time: u64,
    /// Properties of connections between workers, if they are simulated.
    pub(crate) wiring: Option<Wiring>,
    /// Constant times of messages within a site and of disk syncs; `None` if they vary.
    pub(crate) steady: Option<Steady>,
    /// Initial clock skew per site and worker, in microseconds.
    pub(crate) skew: Vec<Vec<i64>>,
    pub(crate) faults: Vec<(u64, Fault)>,
    /// A long outage of a part of the cluster, while the other sites must commit.
    pub(crate) outage: Option<Outage>,
    /// Time at which all faults end, in nanoseconds.
    pub(crate) faults_end: u64,
    /// Factor by which clients pause longer than usual.
    pub(crate) pace: u64,
    /// Percentage of transactions that are strong, or at keys with strong transactions.
    pub(crate) strong_share: u64,
    /// The site that leads at first.
    pub(crate) leader: usize,
    pub(crate) sessions: usize,
    pub(crate) transactions_per_session: usize,
    pub(crate) keys_per_kind: usize,
    /// Whether further sessions request promises of durability.
    pub(crate) promises: bool,
    /// Whether the power fails after each checkpoint that includes records which are not durable.
    pub(crate) power_fails_at_checkpoints: bool,
    /// How workers run Occult, if they do.
    pub(crate) occult: Option<OccultShape>,
    /// How workers keep error bounds, if they do.
    pub(crate) bounds: Option<BoundsShape>,
    /// How one worker of each site runs `creek`, if they do.
    pub(crate) speculative: Option<SpeculativeShape>,
    /// Number of updates that a partition of `primary` keeps, if workers run it.
    pub(crate) primary: Option<usize>,
    /// Whether workers run `trial`.
    pub(crate) trial: bool,
    /// Whether clients also read at weaker levels than that of a key's space, and cancel strong
    /// reads.
    pub(crate) weaker_reads: bool,
    /// Whether further sessions read everything that any site has acknowledged.
    pub(crate) complete_reads: bool,
    /// The rule of `primary` that is taken out.
    pub(crate) primary_without: Without<solera_primary::Rule>,
}

impl Scenario {
    /// Returns the scenario of a seed.
    pub fn from_seed(seed: u64) -> Self {
        let mut scenario = Scenario::without_ambushes(seed);
        let destroyed = scenario.faults.iter().filter_map(destroyed).count();
        let losses = scenario.losses().saturating_sub(destroyed);
        scenario.lay_ambushes(losses);
        scenario
    }

    /// Returns the number of sites that may be lost: uniformity needs f + 1 sites.
    fn losses(&self) -> usize {
        self.f.min(self.topology.sites() - 1 - self.f)
    }

    fn lay_ambushes(&mut self, losses: usize) {
        if self.strong_share > 0 {
            let mut random = Random::new(self.seed.wrapping_mul(67_867_979).wrapping_add(5));
            let sites = self.topology.sites();
            self.faults.extend(ambushes(&mut random, sites, losses, self.faults_end));
            self.faults.sort_by_key(|(at, _)| *at);
        }
    }

    fn without_ambushes(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let sites = random.weighted(&[(5, 1), (8, 2), (60, 3), (7, 4), (20, 5)]);
        let workers: Vec<u8> =
            (0..sites).map(|_| random.weighted(&[(45, 1u8), (30, 2), (15, 3), (10, 6)])).collect();
        let partitions = random.within(2, 9) as u16;
        let f = if random.chance(85) { (sites - 1) / 2 } else { random.below(sites) };
        let delays =
            (0..sites).map(|_| (0..sites).map(|_| random.within(MS, 90 * MS)).collect()).collect();
        let worst_skew = random.weighted(&[(40, 1i64), (40, 20_000), (20, 2_000_000)]);
        let skew = workers
            .iter()
            .map(|workers| {
                let mut of = || random.within(0, 2 * worst_skew as u64) as i64 - worst_skew;
                (0..*workers).map(|_| of()).collect()
            })
            .collect();
        let faults_end = random.within(1500, 4000) * MS;
        // Uniformity needs f + 1 sites, so only the others may be lost.
        let faults = schedule(&mut random, sites, &workers, f.min(sites - 1 - f), faults_end);
        // This is drawn from another generator, so that the rest of a seed's scenario does not
        // change.
        let mut strong = Random::new(seed.wrapping_mul(2_147_483_629).wrapping_add(17));
        let strong_share = strong.weighted(&[(25, 0), (35, 15), (25, 50), (15, 90)]);
        let leader = strong.below(sites);
        Scenario {
            seed,
            topology: Arc::new(Topology { partitions, workers }),
            f,
            fan_out: random.within(1, 4) as u8,
            timing: Timing {
                tick: Duration::from_millis(random.within(2, 6)),
                idle_tick: Duration::from_millis(random.within(6, 15)),
                known_vec_interval: Duration::from_millis(random.within(15, 60)),
                suspect_after: Duration::from_millis(random.within(250, 500)),
                lost_after: Duration::from_millis(random.within(600, 900)),
                prepare_timeout: Duration::from_millis(random.within(100, 400)),
                idle_transaction_timeout: Duration::from_millis(random.within(700, 1500)),
                max_transaction_age: Duration::from_millis(2000),
                strong_timeout: Duration::from_secs(5),
                promise_interval: Duration::from_millis(5 + seed % 300),
                quiet_tick: Duration::from_millis(20 + seed % 80),
                quiet_after: Duration::from_millis(100 + seed % 700),
            },
            without: Without::default(),
            durable: false,
            segment_bytes: 0,
            weakness: None,
            delays,
            jitter: random.weighted(&[(30, 1), (50, 5 * MS), (20, 60 * MS)]),
            piece_time: 0,
            wiring: None,
            steady: None,
            skew,
            faults,
            outage: None,
            faults_end,
            pace: 1,
            strong_share,
            leader,
            sessions: random.within(4, 11) as usize,
            transactions_per_session: random.within(20, 61) as usize,
            keys_per_kind: random.within(1, 5) as usize,
            promises: false,
            power_fails_at_checkpoints: false,
            occult: None,
            bounds: None,
            speculative: None,
            primary: None,
            trial: false,
            weaker_reads: false,
            complete_reads: false,
            primary_without: Without::default(),
        }
    }

    /// Returns the scenario of a seed in which sites have journals, crash and restart from them,
    /// while their disks are slow, full, or damage data.
    pub fn durable(seed: u64) -> Self {
        let mut scenario = Scenario::without_ambushes(seed);
        let mut random = Random::new(seed.wrapping_mul(1_000_003));
        let sites = scenario.topology.sites();
        let workers = &scenario.topology.workers;
        let destroyed: Vec<usize> = scenario.faults.iter().filter_map(destroyed).collect();
        let absent = random.chance(6).then(|| random.below(sites));
        if absent.is_some() {
            scenario.pace = 8;
            scenario.faults_end += random.within(4000, 12_000) * MS;
        }
        let end = scenario.faults_end;
        scenario.faults.extend(crashes(&mut random, workers, end));
        if let Some(site) = absent {
            // The site is down for so long that the others treat it as lost; clients continue
            // meanwhile.
            let at = random.within(50 * MS, 2000 * MS);
            scenario.faults.retain(|(_, fault)| *fault != Fault::Restart(site));
            scenario.faults.push((at, Fault::Crash(site)));
        }
        // A site whose data is damaged counts as lost.
        let losses = scenario.losses().saturating_sub(destroyed.len());
        let mut spoilt: Vec<usize> = (0..sites).filter(|site| !destroyed.contains(site)).collect();
        while spoilt.len() > losses {
            spoilt.swap_remove(random.below(spoilt.len()));
        }
        spoilt.retain(|_| random.chance(40));
        scenario.faults.extend(disk_faults(&mut random, workers, &spoilt, end));
        scenario.faults.sort_by_key(|(at, _)| *at);
        // Sites crash here, and no operator removes a site that an ambush destroyed.
        scenario.lay_ambushes(0);
        scenario.segment_bytes = random.weighted(&[(30, 4), (40, 16), (30, 64)]) << 10;
        Scenario { durable: true, ..scenario }
    }

    /// As [`Scenario::durable`]; in addition, lost sites are removed and added again.
    pub fn members(seed: u64) -> Self {
        let mut scenario = Scenario::durable(seed);
        let mut random = Random::new(seed.wrapping_mul(7_368_787));
        // Removes faults that damage data: they could cost one site more than this scenario may
        // lose.
        scenario.faults.retain(|(_, fault)| !fault.spoils());
        let sites = scenario.topology.sites();
        let losses = scenario.losses();
        let (faults, end) = (&scenario.faults, scenario.faults_end);
        let operations = operate(&mut random, faults, sites, losses, end);
        let last = operations.iter().map(|(at, _)| *at).max().unwrap_or(end);
        scenario.faults.extend(operations);
        scenario.faults.sort_by_key(|(at, _)| *at);
        scenario.faults_end = end.max(last + MS);
        let slowness = random.within(50, 1500) * MS;
        scenario.piece_time = if random.chance(25) { slowness } else { 0 };
        scenario
    }

    /// As [`Scenario::members`]; in addition, each worker is a process of its own, and messages
    /// travel over links: connections break, each byte takes time, and queues before them are
    /// short.
    pub fn links(seed: u64) -> Self {
        let mut scenario = Scenario::members(seed);
        let mut random = Random::new(seed.wrapping_mul(49_979_687).wrapping_add(11));
        let piece = random.weighted(&[(50, 200), (50, Sizes::default().piece)]);
        scenario.wiring = Some(Wiring {
            queue_limit: random.weighted(&[(30, 4), (40, 64), (30, 1024)]) << 10,
            sizes: Sizes { piece, ..Sizes::default() },
            byte_time: random.weighted(&[(40, 8), (40, 200), (20, 2000)]),
        });
        let broken = breaks(&mut random, &scenario.topology.workers, scenario.faults_end);
        scenario.faults.extend(broken);
        scenario.faults.sort_by_key(|(at, _)| *at);
        scenario
    }

    /// Returns the scenario of a seed in which some sites, or some workers of one site, are down
    /// for a minute, without other faults. Meanwhile, the other sites must commit strongly on every
    /// group.
    pub fn outage(seed: u64) -> Self {
        let mut scenario = Scenario::without_ambushes(seed);
        let mut random = Random::new(seed.wrapping_mul(15_485_863).wrapping_add(3));
        let sites = if random.chance(70) { 3 } else { 5 };
        let mut of = |least, below| random.within(least, below);
        let workers: Vec<u8> = (0..sites).map(|_| of(1, 5) as u8).collect();
        scenario.delays =
            (0..sites).map(|_| (0..sites).map(|_| of(MS, 90 * MS)).collect()).collect();
        scenario.skew = workers
            .iter()
            .map(|workers| (0..*workers).map(|_| of(0, 40_000) as i64 - 20_000).collect())
            .collect();
        (scenario.f, scenario.leader) = ((sites - 1) / 2, random.below(sites));
        let outage = Outage::draw(&mut random, &workers, scenario.f, scenario.leader);
        scenario.topology =
            Arc::new(Topology { workers, partitions: scenario.topology.partitions });
        scenario.faults = outage.faults();
        scenario.faults_end = outage.span().1;
        scenario.segment_bytes = 64 << 10;
        (scenario.pace, scenario.sessions, scenario.jitter) = (8, 6, 5 * MS);
        Scenario { durable: true, outage: Some(outage), ..scenario }
    }

    /// Describes the outage; empty if there is none.
    pub fn describe_outage(&self) -> String {
        self.outage.as_ref().map_or(String::new(), ToString::to_string)
    }

    /// UniStore Figure 1: transactions of a site reach only one other site before it is destroyed.
    pub fn figure_1(seed: u64) -> Self {
        Scenario::figure(seed, &[Fault::Mute(0, 2)])
    }

    /// UniStore Figure 2: transactions of a site reach no other site, and it is destroyed while it
    /// leads strong transactions that depend on them.
    pub fn figure_2(seed: u64) -> Self {
        Scenario::figure(seed, &[Fault::Mute(0, 1), Fault::Mute(0, 2)])
    }

    /// Returns three sites with `workers` workers each, without faults: messages between sites take
    /// 20 ms, and hosts and disks are always equally fast.
    #[cfg(test)]
    pub(crate) fn quiet(workers: u8, durable: bool) -> Self {
        let mut scenario = Scenario::figure(1, &[]);
        scenario.topology = Arc::new(Topology { partitions: 4, workers: vec![workers; 3] });
        scenario.skew = vec![vec![0; workers.into()]; 3];
        (scenario.faults, scenario.jitter) = (Vec::new(), 1);
        (scenario.durable, scenario.segment_bytes) = (durable, 1 << 20);
        scenario.steady = Some(Steady { hop: MS / 20, sync: MS / 4 });
        scenario.timing = Timing::default();
        scenario
    }

    /// Three similar sites, of which the first is destroyed.
    fn figure(seed: u64, before: &[Fault]) -> Self {
        let mut scenario = Scenario::without_ambushes(seed);
        scenario.topology = Arc::new(Topology { partitions: 2, workers: vec![1; 3] });
        (scenario.f, scenario.leader) = (1, 0);
        scenario.delays = vec![vec![20 * MS; 3]; 3];
        scenario.skew = vec![vec![0]; 3];
        (scenario.strong_share, scenario.keys_per_kind) = (50, 3);
        (scenario.sessions, scenario.transactions_per_session) = (9, 60);
        let begin = 500 * MS;
        scenario.faults = before.iter().map(|fault| (begin, *fault)).collect();
        scenario.faults.push((begin + 150 * MS, Fault::Destroy(0)));
        scenario.faults_end = 3000 * MS;
        scenario
    }

    /// A site with several workers, one of them with slow messages, is destroyed after its
    /// transactions have reached no other site for a while. Sessions request promises of
    /// durability.
    pub fn lost_promises(seed: u64) -> Self {
        let before = [Fault::Mute(0, 1), Fault::Mute(0, 2), Fault::Slow(0, 1, 15 * MS)];
        let mut scenario = Scenario::figure(seed, &before).promising();
        scenario.topology = Arc::new(Topology { partitions: 6, workers: vec![3; 3] });
        scenario.skew = vec![vec![0; 3]; 3];
        scenario
    }

    /// Adds sessions that request promises of durability, and cuts most sites off from the others
    /// before they are destroyed.
    pub fn promising(mut self) -> Self {
        let mut random = Random::new(self.seed.wrapping_mul(15_485_863).wrapping_add(31));
        let sites = self.topology.sites();
        let lost: Vec<_> =
            self.faults.iter().filter_map(|fault| Some((fault.0, destroyed(fault)?))).collect();
        for (at, site) in lost {
            if !random.chance(75) {
                continue;
            }
            let from = at.saturating_sub(random.within(20, 400) * MS);
            let others = (0..sites).filter(|other| *other != site);
            self.faults.extend(others.map(|other| (from, Fault::Cut(site, other))));
        }
        self.faults.sort_by_key(|(at, _)| *at);
        self.promises = true;
        self
    }

    /// Has workers also run `primary`, with sessions that use it.
    pub fn with_primary(mut self) -> Self {
        let mut random = Random::new(self.seed.wrapping_mul(32_452_867).wrapping_add(7));
        self.primary = Some(random.weighted(&[(40, 4), (30, 32), (30, 1024)]));
        self
    }

    /// Has workers also run Occult, with sessions that use it.
    pub fn with_occult(mut self) -> Self {
        self.occult = Some(OccultShape::draw(&mut self));
        self
    }

    /// Has workers also run `reservations`, with sessions that use counters with error bounds.
    pub fn with_bounds(mut self) -> Self {
        self.bounds = Some(BoundsShape::draw(&self));
        self
    }

    /// Takes one rule of `reservations` out, if workers run it.
    pub fn bounds_without(mut self, rule: impl Into<Without<solera_reservations::Rule>>) -> Self {
        if let Some(shape) = &mut self.bounds {
            shape.without = rule.into();
        }
        self
    }

    /// Has one worker of each site also run `creek`, with sessions that invoke weak and strong
    /// operations.
    pub fn with_speculation(mut self) -> Self {
        self.speculative = Some(SpeculativeShape::draw(&self));
        let mut random = Random::new(self.seed.wrapping_mul(86_028_157).wrapping_add(1));
        let sites = self.topology.sites();
        self.faults.extend(ambushes_of_creek(&mut random, sites, self.faults_end));
        self.faults.sort_by_key(|(at, _)| *at);
        self
    }

    /// Takes one rule of `creek` out, if workers run it.
    pub fn speculation_without(mut self, rule: impl Into<Without<solera_creek::Rule>>) -> Self {
        if let Some(shape) = &mut self.speculative {
            shape.without = rule.into();
        }
        self
    }

    /// Takes one rule of Occult out, if workers run it.
    pub fn occult_without(mut self, rule: impl Into<Without<solera_occult::Rule>>) -> Self {
        if let Some(shape) = &mut self.occult {
            shape.without = rule.into();
        }
        self
    }

    /// Has clients also read at weaker levels than that of a key's space, and cancel strong reads.
    pub fn with_weaker_reads(mut self) -> Self {
        self.weaker_reads = true;
        self
    }

    /// Adds sessions that read everything that any site has acknowledged.
    pub fn with_complete_reads(mut self) -> Self {
        self.complete_reads = true;
        self
    }

    /// Has workers also run `trial`, with sessions that use it.
    pub fn with_trial(mut self) -> Self {
        self.trial = true;
        self
    }

    /// Returns how many units of each key the guard of `trial` hands out at a site: fewer than
    /// sessions claim.
    pub(crate) fn guard_limit(&self) -> u32 {
        6 + (self.seed % 13) as u32
    }

    /// Takes one rule of `primary` out.
    pub fn primary_without(mut self, rule: impl Into<Without<solera_primary::Rule>>) -> Self {
        self.primary_without = rule.into();
        self
    }

    /// Takes one rule of the protocol out.
    pub fn without(mut self, rule: impl Into<Without<Rule>>) -> Self {
        self.without = rule.into();
        self
    }

    /// Has the power of a worker fail after each checkpoint that includes records which are not
    /// durable.
    pub fn with_power_failures_at_checkpoints(mut self) -> Self {
        self.power_fails_at_checkpoints = true;
        self
    }

    /// Takes one precaution of the hosts out.
    pub fn weakened(mut self, weakness: Weakness) -> Self {
        self.weakness = Some(weakness);
        self
    }
}

/// Properties of connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wiring {
    /// Approximate number of bytes that may wait for a worker.
    pub(crate) queue_limit: usize,
    /// Sizes by which batches are cut into frames.
    pub(crate) sizes: Sizes,
    /// Time for which a byte occupies a connection, in nanoseconds.
    pub(crate) byte_time: u64,
}

/// Constant times, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steady {
    /// A message within a site.
    pub(crate) hop: u64,
    /// A sync.
    pub(crate) sync: u64,
}

fn destroyed((_, fault): &(u64, Fault)) -> Option<usize> {
    if let Fault::Destroy(site) = fault { Some(*site) } else { None }
}

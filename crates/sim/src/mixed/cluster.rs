//! Sites in virtual time, each with a host whose futures are dropped when the site stops.

use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use solera_machine::Address;
use solera_membership::SiteStatus;
use solera_mixt::store::Horizon;
use solera_time::{SiteId, Timestamp};

use super::exchange::Exchange;
use super::store::SITES;
use crate::faults::Fault;
use crate::faults::disks::DiskFault;
use crate::queue::MS;
use crate::random::Random;
use crate::scenario::Scenario;
use crate::trace::Trace;
use crate::world::{EPOCH_MICROS, SiteState, World, WorldEvent};

/// A task of a host.
pub(super) type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Returns the tasks of a host, whenever it starts.
pub(super) type Program = Box<dyn Fn(usize) -> Vec<Task>>;

/// Greatest difference between the clocks of two sites, in milliseconds.
pub(super) const SKEW_MS: u64 = 300;
/// Greatest difference between the clocks of a site's workers.
const WITHIN: Duration = Duration::from_millis(SKEW_MS);

pub(super) struct Cluster {
    pub(super) world: World,
    exchange: Exchange,
    /// Tasks of each host; `None` while it does not run.
    hosts: Vec<Option<Vec<Task>>>,
    pub(super) program: Program,
    skew_ms: Vec<u64>,
    /// Number of times that a host has stopped.
    pub(super) stops: u32,
    /// Durable data that is missing.
    pub(super) lost: Vec<String>,
}

impl Cluster {
    pub(super) fn new(seed: u64, exchange: Exchange, faults_end: u64) -> Cluster {
        let mut random = Random::new(seed.wrapping_mul(32_416_190_071).wrapping_add(3));
        let mut scenario = Scenario::quiet(2, true);
        scenario.seed = seed;
        scenario.steady = None;
        scenario.jitter = 5 * MS;
        let mut delay = || random.within(5, 60) * MS;
        scenario.delays = (0..SITES).map(|_| (0..SITES).map(|_| delay()).collect()).collect();
        let skew_ms: Vec<_> = (0..SITES).map(|_| random.within(0, SKEW_MS)).collect();
        scenario.skew = skew_ms.iter().map(|ms| vec![*ms as i64 * 1000; 2]).collect();
        scenario.leader = random.below(SITES);
        scenario.timing.prepare_timeout = Duration::from_millis(300);
        scenario.timing.strong_timeout = Duration::from_millis(1_000);
        scenario.timing.idle_transaction_timeout = Duration::from_millis(3_000);
        scenario.timing.max_transaction_age = Duration::from_millis(10_000);
        scenario.faults = faults(&mut random, faults_end);
        let world = World::new(&scenario, Trace::off());
        let hosts = (0..SITES).map(|_| None).collect();
        let (program, lost): (Program, _) = (Box::new(|_| Vec::new()), Vec::new());
        Cluster { world, exchange, hosts, program, skew_ms, stops: 0, lost }
    }

    /// Returns the time of a host's clock when the world begins.
    pub(super) fn epoch_ms(&self, host: usize) -> u64 {
        EPOCH_MICROS.unsigned_abs() / 1000 + self.skew_ms[host]
    }

    /// Ends all hosts; hosts that start afterwards run another program.
    pub(super) fn replace(&mut self, program: Program) {
        self.program = program;
        self.hosts = (0..SITES).map(|_| None).collect();
    }

    /// Lets time pass.
    pub(super) fn pass(&mut self, ms: u64) {
        for _ in 0..ms {
            let until = self.world.now + MS;
            while let Some(events) = self.world.step(until) {
                self.exchange.lock().now = self.world.now;
                self.observe(events);
                if self.exchange.lock().take_news() {
                    self.run();
                }
            }
            self.look_around();
            self.run();
        }
    }

    /// Updates the information that hosts have without requests, and starts hosts of sites that are
    /// up.
    fn look_around(&mut self) {
        let answering = self.world.replicas().map(|(address, _)| *address);
        let answering = answering.filter(|worker| self.world.answers(*worker)).collect();
        let mut exchange = self.exchange.lock();
        exchange.now = self.world.now;
        exchange.answering = answering;
        exchange.horizons =
            SiteId::all(SITES).filter_map(|site| Some((site, self.horizon(site)?))).collect();
        drop(exchange);
        for host in 0..SITES {
            if self.hosts[host].is_none() && self.world.state(host) == SiteState::Up {
                self.hosts[host] = Some((self.program)(host));
            }
        }
    }

    /// Returns the horizon of a site, as `SOLERA.ATTACH HORIZON` does.
    fn horizon(&self, site: SiteId) -> Option<Horizon> {
        let mut replicas = self.world.replicas();
        let worker = Address { site, worker: 0 };
        let (_, replica) =
            replicas.find(|(address, _)| **address == worker && self.world.answers(worker))?;
        let status = replica.status();
        let (members, view) = (status.members(), status.view());
        let there = |site: &SiteId| members.status(*site) != SiteStatus::Gone;
        let settled = SiteId::all(SITES).filter(there).map(|site| view.settled_vec[site]);
        let is_strong = view.stable_vec.strong > Timestamp::ZERO;
        let strong = is_strong.then_some(view.settled_vec.strong);
        let stable = settled.chain(strong).min().unwrap_or(Timestamp::ZERO).micros() / 1000;
        let now_ms = self.epoch_ms(site.index()) + self.world.now / MS;
        let clock = status.clock().max(view.clock).later(WITHIN).micros().div_ceil(1000);
        Some(Horizon { latest: clock.max(now_ms + SKEW_MS), stable })
    }

    /// Polls all hosts until none of them can continue now.
    fn run(&mut self) {
        loop {
            for tasks in self.hosts.iter_mut().flatten() {
                tasks.retain_mut(|task| {
                    task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
                });
            }
            let asked = self.exchange.lock().take_asked();
            for (worker, request, command) in asked {
                if self.world.answers(worker) {
                    self.world.command(worker, request, command);
                    let events = self.world.take_events();
                    self.observe(events);
                } else {
                    self.exchange.lock().break_off(request);
                }
            }
            if !self.exchange.lock().take_news() {
                return;
            }
        }
    }

    fn observe(&mut self, events: Vec<WorldEvent>) {
        for world_event in events {
            match world_event {
                WorldEvent::Reply(_, request, response) => {
                    self.exchange.lock().answer(request, response);
                }
                WorldEvent::Refused(_, request) | WorldEvent::Unanswered(_, request) => {
                    self.exchange.lock().break_off(request);
                }
                WorldEvent::WorkerDown(worker) => self.exchange.lock().stop(worker),
                WorldEvent::SiteDown(site) => {
                    self.hosts[site] = None;
                    self.stops += 1;
                }
                WorldEvent::Lost(what) => self.lost.push(what),
                _ => {}
            }
        }
    }
}

/// Draws faults: sites that are cut off or crash, one worker that crashes, and crashes of all sites
/// at once.
fn faults(random: &mut Random, end: u64) -> Vec<(u64, Fault)> {
    let mut faults = Vec::new();
    for _ in 0..random.within(2, 7) {
        let at = random.within(500 * MS, end);
        let long = random.weighted(&[(40, 500), (40, 2_000), (20, 6_000)]);
        let until = (at + random.within(20, long) * MS).min(end);
        let site = random.below(SITES);
        let worker = random.below(2);
        match random.below(10) {
            0..4 => {
                for other in (0..SITES).filter(|other| *other != site) {
                    faults.push((at, Fault::Cut(site, other)));
                    faults.push((until, Fault::Restore(site, other)));
                }
            }
            4..7 => {
                faults.push((at, Fault::Crash(site)));
                faults.push((until, Fault::Restart(site)));
            }
            7 => {
                let crash = DiskFault::Crash { power: random.chance(50) };
                faults.push((at, Fault::Disk(site, worker, crash)));
                faults.push((until, Fault::Disk(site, worker, DiskFault::Start)));
            }
            8 => faults.push((at, Fault::MoveLeaders(site))),
            _ => {
                for site in 0..SITES {
                    faults.push((at, Fault::Crash(site)));
                    faults.push((at + random.within(10, 1_000) * MS, Fault::Restart(site)));
                }
            }
        }
    }
    faults.sort_by_key(|(at, _)| *at);
    faults
}

//! Faults, and when they occur.

pub(crate) mod ambush;
pub(crate) mod disks;

use solera_machine::Address;
use solera_time::SiteId;

use self::ambush::Ambush;
use self::disks::DiskFault;
use crate::queue::MS;
use crate::random::Random;

/// A fault of the world.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    /// No message passes between two sites; messages under way are lost.
    Cut(usize, usize),
    /// The link works again.
    Restore(usize, usize),
    /// Messages under way between two sites are lost, as when a connection breaks.
    Reset(usize, usize),
    /// The connections between two workers break.
    Break(Address, Address),
    /// Replication from one site to another is lost; all other messages arrive.
    Mute(usize, usize),
    /// A site stops and keeps its state; its clients lose their connections.
    Pause(usize),
    /// A paused site continues.
    Resume(usize),
    /// A site crashes: it loses its memory and all data that was not synced to its disks.
    Crash(usize),
    /// A crashed site starts again from its disks.
    Restart(usize),
    /// A worker writes the next part of a checkpoint.
    Checkpoint(usize, usize),
    /// A site is lost for good.
    Destroy(usize),
    /// An operator removes a site at another one, as soon as that is possible.
    Remove(usize),
    /// The operator makes sure that this generation of the site is removed.
    RemoveAgain(usize, u32),
    /// An operator adds a site that was removed, and starts it without any data.
    Add(usize),
    /// From now on an ambush waits for a phase of certification.
    Ambush(Ambush),
    /// An operator requests that all groups are led from a site.
    MoveLeaders(usize),
    /// A worker's wall clock jumps by this many microseconds.
    Jump(usize, usize, i64),
    /// Messages to and from a worker within its site take this many nanoseconds longer.
    Slow(usize, usize, u64),
    /// A site's replica of a shard of Occult shows writes this many milliseconds later; 0 ends it.
    SlowShard(usize, u16, u64),
    /// A fault of a worker with a journal, or of its disk.
    Disk(usize, usize, DiskFault),
}

impl Fault {
    /// Returns whether the fault may cost a site its data.
    pub(crate) fn spoils(self) -> bool {
        let Fault::Disk(_, _, fault) = self else { return false };
        matches!(fault, DiskFault::Rot | DiskFault::Misdirect | DiskFault::Fail(..))
    }

    /// Returns the same fault of other sites: `of` returns the new number of a site.
    pub(crate) fn at_sites(self, of: impl Fn(usize) -> usize) -> Fault {
        let moved = |worker: Address| {
            let site = SiteId(of(worker.site.index()) as u8);
            Address { site, ..worker }
        };
        match self {
            Fault::Cut(a, b) => Fault::Cut(of(a), of(b)),
            Fault::Restore(a, b) => Fault::Restore(of(a), of(b)),
            Fault::Reset(a, b) => Fault::Reset(of(a), of(b)),
            Fault::Break(a, b) => Fault::Break(moved(a), moved(b)),
            Fault::Mute(a, b) => Fault::Mute(of(a), of(b)),
            Fault::Pause(site) => Fault::Pause(of(site)),
            Fault::Resume(site) => Fault::Resume(of(site)),
            Fault::Crash(site) => Fault::Crash(of(site)),
            Fault::Restart(site) => Fault::Restart(of(site)),
            Fault::Checkpoint(site, worker) => Fault::Checkpoint(of(site), worker),
            Fault::Destroy(site) => Fault::Destroy(of(site)),
            Fault::Remove(site) => Fault::Remove(of(site)),
            Fault::RemoveAgain(site, generation) => Fault::RemoveAgain(of(site), generation),
            Fault::Add(site) => Fault::Add(of(site)),
            Fault::Ambush(ambush) => Fault::Ambush(ambush.at_sites(of)),
            Fault::MoveLeaders(site) => Fault::MoveLeaders(of(site)),
            Fault::Jump(site, worker, by) => Fault::Jump(of(site), worker, by),
            Fault::Slow(site, worker, by) => Fault::Slow(of(site), worker, by),
            Fault::SlowShard(site, shard, by) => Fault::SlowShard(of(site), shard, by),
            Fault::Disk(site, worker, fault) => Fault::Disk(of(site), worker, fault),
        }
    }
}

/// Draws a schedule of faults that ends before `end`; at most `losses` sites are destroyed.
pub(crate) fn schedule(
    random: &mut Random,
    sites: usize,
    workers: &[u8],
    losses: usize,
    end: u64,
) -> Vec<(u64, Fault)> {
    let mut faults = Vec::new();
    let mut destroyed = Vec::new();
    let count = random.weighted(&[(20, 0), (30, 3), (30, 6), (20, 12)]);
    for _ in 0..count {
        let at = random.within(100 * MS, end);
        let until = (at + random.within(20, 1500) * MS).min(end);
        let site = random.below(sites);
        let worker = random.below(usize::from(workers[site]));
        let other = (site + 1 + random.below(sites - 1)) % sites;
        match random.below(7) {
            0 if sites > 1 => {
                faults.push((at, Fault::Cut(site, other)));
                faults.push((until, Fault::Restore(site, other)));
            }
            1 if sites > 1 => {
                for other in (0..sites).filter(|other| *other != site) {
                    faults.push((at, Fault::Cut(site, other)));
                    faults.push((until, Fault::Restore(site, other)));
                }
            }
            2 if sites > 1 => faults.push((at, Fault::Reset(site, other))),
            3 => {
                faults.push((at, Fault::Pause(site)));
                faults.push((until, Fault::Resume(site)));
            }
            4 if destroyed.len() < losses && !destroyed.contains(&site) => {
                destroyed.push(site);
                faults.push((at, Fault::Destroy(site)));
            }
            5 => {
                let by = random.within(0, 4_000_000) as i64 - 2_000_000;
                faults.push((at, Fault::Jump(site, worker, by)));
            }
            _ => {
                let by = random.within(1, 600) * MS;
                faults.push((at, Fault::Slow(site, worker, by)));
                faults.push((until, Fault::Slow(site, worker, 0)));
            }
        }
    }
    faults.sort_by_key(|(at, _)| *at);
    faults
}

/// Draws crashes of sites with journals, and checkpoints, all before `end`.
pub(crate) fn crashes(random: &mut Random, workers: &[u8], end: u64) -> Vec<(u64, Fault)> {
    let mut faults = Vec::new();
    for _ in 0..random.within(1, 7) {
        let at = random.within(50 * MS, end);
        let until = (at + random.within(1, 1500) * MS).min(end);
        let site = random.below(workers.len());
        faults.push((at, Fault::Crash(site)));
        faults.push((until, Fault::Restart(site)));
    }
    for (site, workers) in workers.iter().enumerate() {
        for worker in 0..usize::from(*workers) {
            let every = random.within(1, 40) * MS;
            let mut at = random.within(0, 2000) * MS;
            while at < end && random.chance(99) {
                faults.push((at, Fault::Checkpoint(site, worker)));
                at += random.within(1, every);
            }
        }
    }
    faults
}

/// Draws the actions of an operator on destroyed sites, and on a site that the operator wrongly
/// takes for destroyed.
pub(crate) fn operate(
    random: &mut Random,
    faults: &[(u64, Fault)],
    sites: usize,
    losses: usize,
    end: u64,
) -> Vec<(u64, Fault)> {
    let mut lost: Vec<(u64, usize)> = faults
        .iter()
        .filter_map(|(at, fault)| match fault {
            Fault::Destroy(site) => Some((*at, *site)),
            _ => None,
        })
        .collect();
    if lost.is_empty() && losses > 0 {
        lost.push((random.within(50 * MS, end / 2), random.below(sites)));
    }
    let mut operations = Vec::new();
    for (at, site) in lost {
        let at = at + random.within(0, 1000) * MS;
        operations.push((at, Fault::Remove(site)));
        if random.chance(75) {
            let at = at + random.within(1, 1500) * MS;
            operations.push((at, Fault::Add(site)));
            if random.chance(30) {
                let at = at + random.within(1, 500) * MS;
                operations.push((at, Fault::Crash(site)));
                operations.push((at + random.within(1, 300) * MS, Fault::Restart(site)));
            }
            if random.chance(20) {
                let at = at + random.within(1, 800) * MS;
                operations.push((at, Fault::Remove(site)));
                operations.push((at + random.within(1, 800) * MS, Fault::Add(site)));
            }
        }
    }
    operations
}

/// Draws connections between workers that break before `end`.
pub(crate) fn breaks(random: &mut Random, workers: &[u8], end: u64) -> Vec<(u64, Fault)> {
    let worker = |random: &mut Random| {
        let site = random.below(workers.len());
        let worker = random.below(usize::from(workers[site])) as u8;
        Address { site: SiteId(site as u8), worker }
    };
    let count = random.weighted(&[(20, 0), (50, 10), (30, 60)]);
    let mut faults = Vec::new();
    for _ in 0..count {
        let (at, one, other) = (random.within(MS, end), worker(random), worker(random));
        faults.push((at, Fault::Break(one, other)));
    }
    faults
}

//! Faults of workers and their disks, and when they occur.

use solera_journal::FaultyCall;

use crate::faults::Fault;
use crate::queue::MS;
use crate::random::Random;

/// A fault of one worker of a site with journals, or of its disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum DiskFault {
    /// The worker's process dies; the others of its site continue. With `power`, its machine loses
    /// power, too.
    Crash { power: bool },
    /// The worker starts from its disk, if it does not run or if its disk has failed.
    Start,
    /// The power fails in the middle of the `calls`th call from now that changes the disk.
    PowerFails { calls: u64 },
    /// This many bytes of space are left.
    Fill { room: u64 },
    /// One of the next calls of a kind fails.
    Fail(FaultyCall, u64),
    /// Syncs take this many nanoseconds longer.
    Slow(u64),
    /// The disk has space and is fast again; the worker restarts if it has to.
    Heal,
    /// A bit of the data on disk flips.
    Rot,
    /// The next write goes to a wrong place.
    Misdirect,
    /// A whole checkpoint is written at once.
    Checkpoint,
}

/// Draws faults of workers and disks before `end`. Only disks of `spoilt` sites rot: a site with
/// damaged data may never come back.
pub(crate) fn disk_faults(
    random: &mut Random,
    workers: &[u8],
    spoilt: &[usize],
    end: u64,
) -> Vec<(u64, Fault)> {
    let mut faults = Vec::new();
    let mut add = |at: u64, site: usize, worker: usize, fault: DiskFault| {
        faults.push((at, Fault::Disk(site, worker, fault)));
    };
    let most = random.weighted(&[(80, 9), (20, 40)]);
    for _ in 0..random.within(1, most) {
        let at = random.within(50 * MS, end);
        let until = (at + random.within(1, 1500) * MS).min(end);
        let site = random.below(workers.len());
        let worker = random.below(usize::from(workers[site]));
        match random.below(9) {
            0..2 => {
                add(at, site, worker, DiskFault::Crash { power: random.chance(50) });
                if random.chance(40) {
                    // The power fails while the worker starts.
                    let calls = random.within(1, 12);
                    add(until, site, worker, DiskFault::PowerFails { calls });
                }
                add(until, site, worker, DiskFault::Start);
            }
            2..4 => {
                let calls = random.within(1, 60);
                add(at, site, worker, DiskFault::PowerFails { calls });
                // A checkpoint makes many calls that change the disk.
                if random.chance(50) {
                    add(at + 1, site, worker, DiskFault::Checkpoint);
                }
                add(until, site, worker, DiskFault::Start);
            }
            4 => {
                let room = random.weighted(&[(50, 0), (50, 20_000)]);
                add(at, site, worker, DiskFault::Fill { room: random.within(0, room + 1) });
                add(until, site, worker, DiskFault::Heal);
            }
            5 => {
                let call = [FaultyCall::Write, FaultyCall::Sync, FaultyCall::SyncDir];
                let call = call[random.below(call.len())];
                add(at, site, worker, DiskFault::Fail(call, random.within(0, 4)));
                add(until, site, worker, DiskFault::Heal);
            }
            6 => {
                let by = random.weighted(&[(60, 20), (30, 200), (10, 1500)]) * MS;
                add(at, site, worker, DiskFault::Slow(random.within(MS, by + MS)));
                add(until, site, worker, DiskFault::Heal);
            }
            _ => add(at, site, worker, DiskFault::Checkpoint),
        }
    }
    for site in spoilt {
        let at = random.within(50 * MS, end);
        let worker = random.below(usize::from(workers[*site]));
        let fault = if random.chance(50) { DiskFault::Rot } else { DiskFault::Misdirect };
        add(at, *site, worker, fault);
        let (at, power) = (random.within(at, end), random.chance(50));
        add(at, *site, worker, DiskFault::Crash { power });
        add((at + random.within(1, 200) * MS).min(end), *site, worker, DiskFault::Start);
    }
    faults
}

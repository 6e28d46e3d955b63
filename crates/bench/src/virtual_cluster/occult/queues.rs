//! Queues of writes that wait at replicas (Occult §2, Fig. 2).
//!
//! Writes that arrive at a site are given to models of its replicas, which show them by different
//! rules. Replicas do not affect the clients of the homes' site, so several models can follow one
//! run.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use solera_occult::{ShardId, Stamp};

use super::processes::{PROCESSES, SITES};

/// Rule by which a replica shows a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shows {
    /// At once, as Occult.
    AtOnce,
    /// After all writes that it depends on, as Eiger.
    AfterDependencies,
    /// When all replicas of the site have handled all writes up to its stamp, as UniStore.
    WhenStable,
}

/// A write that arrives at a replica.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    /// Process of the replica.
    pub(crate) process: usize,
    pub(crate) shard: ShardId,
    pub(crate) stamp: Stamp,
}

#[derive(Debug)]
struct Waiting {
    write: Write,
    /// Dependencies that may be missing.
    needs: Vec<(ShardId, Stamp)>,
}

/// A model of the replicas of a site.
#[derive(Debug)]
pub(crate) struct Queues {
    shows: Shows,
    /// A process that is too slow, and the time that a write takes there.
    slow: Option<(usize, Duration)>,
    /// Writes that the slow process has not handled, each with the time when it will be handled.
    backlog: VecDeque<(u64, Waiting)>,
    /// Writes that wait for an earlier write, by that write's shard.
    blocked: BTreeMap<ShardId, Vec<Waiting>>,
    /// Writes that wait until all replicas have handled everything up to their stamps.
    unstable: Vec<Waiting>,
    /// Writes up to this stamp were applied before the model began.
    before: Stamp,
    /// The greatest stamp of each shard that was applied after the model began.
    applied: BTreeMap<ShardId, Stamp>,
    /// Number of writes that have arrived at each process and are not applied.
    lengths: Vec<u64>,
    /// Number of writes that have arrived.
    pub(crate) arrived: u64,
}

impl Queues {
    pub(crate) fn new(shows: Shows, slow: Option<(usize, Duration)>, before: Stamp) -> Queues {
        Queues {
            shows,
            slow,
            before,
            backlog: VecDeque::new(),
            blocked: BTreeMap::new(),
            unstable: Vec::new(),
            applied: BTreeMap::new(),
            lengths: vec![0; SITES * PROCESSES],
            arrived: 0,
        }
    }

    /// Takes a write that arrives at `now`, and the stamps of other shards on which it depends.
    pub(crate) fn arrive(&mut self, now: u64, write: Write, needs: Vec<(ShardId, Stamp)>) {
        self.settle(now);
        self.arrived += 1;
        self.lengths[write.process] += 1;
        let waiting = Waiting { write, needs };
        match self.slow {
            Some((process, takes)) if process == write.process => {
                let begin = self.backlog.back().map_or(now, |(at, _)| now.max(*at));
                self.backlog.push_back((begin + takes.as_nanos() as u64, waiting));
            }
            _ => self.apply(waiting),
        }
    }

    /// Applies the writes that the slow process has handled until `now`.
    pub(crate) fn settle(&mut self, now: u64) {
        while self.backlog.front().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, waiting)) = self.backlog.pop_front() {
                self.apply(waiting);
            }
            let until = self.handled();
            let unstable = std::mem::take(&mut self.unstable);
            let (stable, unstable) = unstable.into_iter().partition(|it| it.write.stamp < until);
            self.unstable = unstable;
            let stable: Vec<Waiting> = stable;
            stable.into_iter().for_each(|waiting| self.apply(waiting));
        }
    }

    /// Returns the stamp of the first write that the slow process has not handled. All other
    /// processes have handled everything.
    fn handled(&self) -> Stamp {
        self.backlog.front().map_or(Stamp(u64::MAX), |(_, waiting)| waiting.write.stamp)
    }

    /// Applies a write, and the writes that have waited for it, unless a dependency is missing.
    fn apply(&mut self, first: Waiting) {
        let mut next = vec![first];
        while let Some(mut waiting) = next.pop() {
            let is_applied = |(shard, stamp): &(ShardId, Stamp)| {
                let applied = self.applied.get(shard).copied().unwrap_or_default();
                applied.max(self.before) >= *stamp
            };
            let waits = self.shows == Shows::AfterDependencies;
            while waits && waiting.needs.last().is_some_and(is_applied) {
                waiting.needs.pop();
            }
            match waiting.needs.last() {
                Some((shard, _)) if waits => {
                    self.blocked.entry(*shard).or_default().push(waiting);
                }
                _ if self.shows == Shows::WhenStable && waiting.write.stamp >= self.handled() => {
                    self.unstable.push(waiting);
                }
                _ => {
                    let Write { process, shard, stamp } = waiting.write;
                    self.lengths[process] -= 1;
                    let applied = self.applied.entry(shard).or_default();
                    *applied = stamp.max(*applied);
                    next.extend(self.blocked.remove(&shard).unwrap_or_default());
                }
            }
        }
    }

    /// Returns the average number of writes that wait at the processes of the second site that are
    /// not slow.
    pub(crate) fn mean_of_others(&self) -> f64 {
        let slow = self.slow.map(|(process, _)| process);
        let others = (PROCESSES..2 * PROCESSES).filter(|process| Some(*process) != slow);
        let lengths: Vec<u64> = others.map(|process| self.lengths[process]).collect();
        lengths.iter().sum::<u64>() as f64 / lengths.len() as f64
    }

    /// Returns the number of writes that wait at the slow process.
    pub(crate) fn of_slow(&self) -> u64 {
        self.slow.map_or(0, |(process, _)| self.lengths[process])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn write(process: usize, shard: u16, stamp: u64) -> Write {
        Write { process, shard: ShardId(shard), stamp: Stamp(stamp) }
    }

    #[test]
    fn writes_wait_for_a_slow_replica_by_the_rules() {
        let slow = Some((PROCESSES, Duration::from_secs(1)));
        let waiting = |shows: Shows| {
            let mut queues = Queues::new(shows, slow, Stamp(5));
            queues.arrive(0, write(PROCESSES, 1, 10), Vec::new());
            queues.arrive(0, write(PROCESSES + 1, 2, 11), vec![(ShardId(1), Stamp(10))]);
            queues.arrive(0, write(PROCESSES + 2, 3, 12), vec![(ShardId(2), Stamp(11))]);
            queues.arrive(0, write(PROCESSES + 3, 4, 13), vec![(ShardId(5), Stamp(5))]);
            queues.arrive(0, write(PROCESSES + 4, 6, 9), Vec::new());
            assert_eq!(queues.of_slow(), 1);
            let waiting = queues.mean_of_others() * (PROCESSES - 1) as f64;
            queues.settle(SECOND);
            assert_eq!((queues.mean_of_others(), queues.of_slow()), (0.0, 0));
            waiting.round() as u64
        };
        assert_eq!(waiting(Shows::AtOnce), 0);
        assert_eq!(waiting(Shows::AfterDependencies), 2);
        assert_eq!(waiting(Shows::WhenStable), 3);
    }
}

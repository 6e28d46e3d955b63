//! The time up to which all copies have all writes. No I/O.

use std::collections::{BTreeMap, VecDeque};

use crate::risk::Life;

/// Greatest number of offsets of a master that are remembered while its replicas do not follow.
const MOST: usize = 256;

/// Progress of the replicas of each master.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copies(BTreeMap<String, Master>);

#[derive(Clone, Debug)]
struct Master {
    life: Life,
    /// Replication offsets that not all replicas have, each with a time: no write up to this time
    /// has a greater offset.
    offsets: VecDeque<(u64, u64)>,
    /// Time up to which all replicas have all writes.
    until: u64,
}

/// State of a master, as a poll shows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// Time before the poll, in µs.
    pub(crate) time: u64,
    pub(crate) life: Life,
    /// Its replication offset.
    pub(crate) offset: u64,
    /// Offset that all replicas have; `None` if one is missing.
    pub(crate) replicated: Option<u64>,
    /// Whether it has no replicas, so that only the master is read.
    pub(crate) alone: bool,
}

impl Copies {
    pub(crate) fn report(&mut self, address: &str, progress: Progress) {
        let Progress { time, life, offset, .. } = progress;
        let fresh = Master { life, offsets: VecDeque::new(), until: 0 };
        let master = self.0.entry(address.to_owned()).or_insert(fresh);
        if master.life != life {
            (master.life, master.offsets) = (life, VecDeque::new());
        }
        if progress.alone {
            (master.until, master.offsets) = (time, VecDeque::new());
            return;
        }
        if master.offsets.len() >= MOST {
            master.offsets.pop_back();
        }
        master.offsets.push_back((offset, time));
        while let Some((offset, time)) = master.offsets.front()
            && progress.replicated.is_some_and(|all| *offset <= all)
        {
            master.until = *time;
            master.offsets.pop_front();
        }
    }

    /// Returns the time up to which all copies of these masters' slots have all writes.
    pub(crate) fn until<'a>(&self, masters: impl IntoIterator<Item = &'a String>) -> u64 {
        let each = masters.into_iter().map(|at| self.0.get(at).map_or(0, |master| master.until));
        each.min().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(time: u64, offset: u64, replicated: Option<u64>) -> Progress {
        Progress { time, life: Life([1; 8]), offset, replicated, alone: false }
    }

    #[test]
    fn the_slowest_replica_counts() {
        let (mut copies, masters) = (Copies::default(), ["a".to_owned(), "b".to_owned()]);
        let both = |copies: &Copies| copies.until(&masters);
        copies.report("b", progress(5, 70, Some(70)));
        assert_eq!(both(&copies), 0, "nothing is known of a");
        copies.report("a", progress(10, 100, Some(90)));
        copies.report("a", progress(20, 200, Some(99)));
        copies.report("b", progress(30, 70, Some(70)));
        assert_eq!(both(&copies), 0);
        copies.report("a", progress(40, 300, Some(210)));
        assert_eq!(both(&copies), 20);
        copies.report("a", progress(50, 300, None));
        assert_eq!(both(&copies), 20, "a replica is missing");
        copies.report("a", progress(60, 300, Some(300)));
        assert_eq!(both(&copies), 30);
        let next = Progress { life: Life([2; 8]), ..progress(70, 10, Some(9)) };
        copies.report("a", next);
        copies.report("b", progress(80, 70, Some(70)));
        assert_eq!(both(&copies), 60, "the new life has just begun");
        copies.report("a", Progress { alone: true, ..progress(90, 10, None) });
        assert_eq!(both(&copies), 80);
    }

    #[test]
    fn a_replica_that_is_away_for_long_costs_no_memory() {
        let (mut copies, masters) = (Copies::default(), ["a".to_owned()]);
        for time in 1..1000 {
            copies.report("a", progress(time, time * 10, None));
        }
        assert_eq!(copies.0["a"].offsets.len(), MOST);
        copies.report("a", progress(1000, 10_000, Some(5000)));
        assert_eq!(copies.until(&masters), 255);
        copies.report("a", progress(1001, 10_000, Some(10_000)));
        assert_eq!(copies.until(&masters), 1001);
    }
}

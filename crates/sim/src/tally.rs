//! Counts of faults that took effect and of outcomes of strong transactions, with the least
//! expected counts, so that a world that silently stops having them is detected.

use std::collections::BTreeMap;
use std::fmt;

use solera_machine::RarePath;

/// The kind of world of a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// [`Scenario::from_seed`](crate::Scenario::from_seed).
    Plain,
    /// [`Scenario::durable`](crate::Scenario::durable).
    Durable,
    /// [`Scenario::members`](crate::Scenario::members).
    Members,
    /// [`Scenario::links`](crate::Scenario::links).
    Links,
    /// [`Scenario::outage`](crate::Scenario::outage).
    Outages,
}

/// Number of seeds for which `EXPECTED` holds; for other numbers, in proportion.
const SEEDS: u64 = 400;
/// Fewer seeds differ too much to require anything.
const FEW: u64 = 60;
/// A count is required of arbitrary seeds only if its least value, for the number of seeds, is at
/// least this large. Smaller counts depend on chance.
const SURELY: u64 = 50;
/// The same for the seeds from 0 on, whose counts are always the same.
const SURELY_FROM_0: u64 = 5;

/// Events that are rarer if workers run `creek`: removals take longer, so most sites are added when
/// the faults are over.
const JOINING: [&str; 2] = ["crashes while joining", "crashes while another site joins"];

/// Events that happen many times in a few seeds. If the seeds differ each time, a quarter of the
/// usual count is required.
const CLUSTERED: [&str; 4] = [
    "outcomes asked for",
    "calls refused",
    "batches dropped before full queues",
    "commands refused for a link",
];

/// Least counts with [`SEEDS`] seeds of the first four kinds, in the order of [`Kind`]: about half
/// of the counts when this table was written. An outage takes effect in each seed of its kind.
const EXPECTED: &[(&str, [u64; 4])] = &[
    ("links cut", [440, 440, 440, 599]),
    ("connections broken", [130, 130, 130, 134]),
    ("paused sites", [130, 100, 100, 101]),
    ("destroyed sites", [75, 100, 170, 169]),
    ("clocks that jumped", [140, 140, 140, 137]),
    ("slow workers", [220, 220, 220, 263]),
    ("commands refused", [0, 100, 100, 82]),
    ("commits undone", [0, 35, 30, 33]),
    ("crashes of sites", [0, 490, 490, 547]),
    ("crashes of workers", [0, 210, 210, 229]),
    ("crashes with open transactions", [0, 370, 370, 304]),
    ("crashes with prepared transactions", [0, 8, 8, 19]),
    ("crashes with unconfirmed decisions", [0, 15, 15, 20]),
    ("crashes with unsynced records", [0, 420, 420, 290]),
    ("crashes within a checkpoint", [0, 490, 490, 564]),
    ("crashes while joining", [0, 0, 50, 50]),
    ("crashes while another site joins", [0, 0, 60, 44]),
    ("crashes while another site leaves", [0, 0, 240, 265]),
    ("restarts", [0, 1450, 1700, 1783]),
    ("sites that were away for long", [0, 16, 16, 26]),
    ("starts that failed for now", [0, 40, 35, 47]),
    ("losses of power within a call", [0, 250, 250, 234]),
    ("torn tails", [0, 60, 60, 42]),
    ("whole checkpoints", [0, 500, 500, 560]),
    ("full disks", [0, 170, 170, 180]),
    ("slow disks", [0, 170, 170, 184]),
    ("journals stopped", [0, 80, 7, 2]),
    ("rotten bits", [0, 20, 0, 0]),
    ("misdirected writes", [0, 20, 0, 0]),
    ("damage refused", [0, 25, 0, 0]),
    ("removed sites", [0, 0, 190, 221]),
    ("joined sites", [0, 0, 120, 122]),
    ("sites removed before they had joined", [0, 0, 12, 10]),
    ("candidates struck at an election", [18, 18, 18, 17]),
    ("coordinators struck at a decision", [15, 5, 5, 2]),
    ("coordinators struck at a prepare", [20, 18, 18, 18]),
    ("coordinators struck at an accept", [12, 7, 7, 6]),
    ("coordinators struck at an acknowledgement", [19, 14, 14, 8]),
    ("leaders moved", [236, 210, 210, 217]),
    ("leaders moved at a decision", [7, 1, 1, 0]),
    ("leaders moved at a delivery", [1, 1, 1, 1]),
    ("leaders moved at a prepare", [10, 10, 10, 10]),
    ("leaders moved at an accept", [8, 6, 6, 4]),
    ("leaders moved at an acknowledgement", [12, 9, 9, 7]),
    ("leaders moved at an election", [6, 4, 4, 3]),
    ("leaders struck at a decision", [16, 8, 8, 3]),
    ("leaders struck at a delivery", [9, 7, 7, 5]),
    ("leaders struck at a prepare", [20, 19, 19, 17]),
    ("leaders struck at an accept", [13, 9, 9, 7]),
    ("leaders struck at an acknowledgement", [18, 12, 12, 7]),
    ("outcomes asked for", [2, 4, 8, 9453]),
    ("strong transactions that committed", [12113, 11223, 11223, 13162]),
    ("strong transactions that committed unknown to clients", [433, 436, 436, 383]),
    ("strong transactions that did not commit", [3135, 3834, 3834, 3980]),
    ("strong transactions delivered ahead", [5400, 5700, 5700, 5815]),
    ("connections made again", [0, 0, 0, 5966]),
    ("connections of two workers broken", [0, 0, 0, 3170]),
    ("calls refused", [0, 0, 0, 413]),
    ("frames that had arrived before", [0, 0, 0, 183]),
    ("copies that lacked something", [0, 0, 0, 290]),
    ("batches dropped before full queues", [0, 0, 0, 10970]),
    ("commands refused for a link", [0, 0, 0, 549]),
    ("ticks that held workers back", [0, 0, 0, 20]),
];

/// Counts of events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    counts: BTreeMap<&'static str, u64>,
    /// Number of times that each rare path of the protocol was taken.
    paths: BTreeMap<RarePath, u64>,
}

impl Tally {
    pub(crate) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    pub(crate) fn reach(&mut self, path: RarePath) {
        *self.paths.entry(path).or_default() += 1;
    }

    /// Adds another run's counts.
    pub fn add(&mut self, other: &Tally) {
        for (what, count) in &other.counts {
            *self.counts.entry(what).or_default() += count;
        }
        for (path, count) in &other.paths {
            *self.paths.entry(*path).or_default() += count;
        }
    }

    /// Returns how often an event happened, by its name in reports.
    pub fn counted(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or(0)
    }

    /// Returns every rare path of the protocol, with the number of times that it was taken.
    pub fn paths(&self) -> impl Iterator<Item = (RarePath, u64)> + '_ {
        let all = [
            solera_certification::RARE_PATHS,
            solera_unistore::RARE_PATHS,
            if self.ran("primary: ") { solera_primary::RARE_PATHS } else { &[] },
            if self.ran("occult: ") { solera_occult::RARE_PATHS } else { &[] },
            if self.ran("creek: ") { solera_creek::RARE_PATHS } else { &[] },
            if self.ran("creek: ") { solera_consensus::RARE_PATHS } else { &[] },
            if self.ran("trial: ") { solera_trial::RARE_PATHS } else { &[] },
        ];
        let count = |path: &RarePath| (*path, self.paths.get(path).copied().unwrap_or(0));
        all.into_iter().flatten().map(count)
    }

    fn ran(&self, prefix: &str) -> bool {
        self.counts.keys().any(|what| what.starts_with(prefix))
    }

    /// Returns the events that happened too rarely for this number of seeds, each with its least
    /// count. Events with a small least count are not required, because they depend on chance.
    pub fn too_rare(&self, kind: Kind, from: u64, seeds: u64) -> Vec<(&'static str, u64)> {
        let count = |what: &str| self.counts.get(what).copied().unwrap_or(0);
        let expected = |least: &[u64; 4]| least.get(kind as usize).copied().unwrap_or(0);
        let is_late = self.ran("creek: ");
        let share = |what| match what {
            _ if is_late && JOINING.contains(&what) => 6,
            _ if from > 0 && CLUSTERED.contains(&what) => 4,
            _ => 1,
        };
        let least = EXPECTED
            .iter()
            .map(|(what, least)| (*what, expected(least) * seeds / SEEDS / share(*what)));
        let surely = if from == 0 { SURELY_FROM_0 } else { SURELY };
        let required = least.filter(|(_, least)| seeds >= FEW && *least >= surely);
        required.filter(|(what, least)| count(what) < *least).collect()
    }

    /// Returns whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<_> =
            self.counts.iter().map(|(what, count)| format!("{what}: {count}")).collect();
        f.write_str(&counts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_rare_paths_are_distinct() {
        let paths: BTreeMap<RarePath, u64> = Tally::default().paths().collect();
        assert_eq!((paths.len(), Tally::default().paths().count()), (36, 36));
    }

    #[test]
    fn rare_events_are_reported_in_proportion_to_seeds() {
        let mut tally = Tally::default();
        for (what, least) in EXPECTED {
            (0..least[Kind::Members as usize]).for_each(|_| tally.count(what));
        }
        assert_eq!(tally.too_rare(Kind::Members, 0, SEEDS), []);
        assert_eq!(tally.too_rare(Kind::Members, 0, SEEDS / 2), []);
        assert!(tally.too_rare(Kind::Members, 0, 2 * SEEDS).contains(&("joined sites", 240)));
        // As many seeds as `./test` gives the slowest world.
        let nothing = Tally::default();
        assert!(nothing.too_rare(Kind::Links, 0, 80).contains(&("joined sites", 24)));
        assert!(nothing.too_rare(Kind::Links, 7, 66).contains(&("links cut", 98)));
        assert_eq!(nothing.too_rare(Kind::Plain, 0, FEW - 1), []);
        let dropped = "batches dropped before full queues";
        assert!(nothing.too_rare(Kind::Links, 0, 66).contains(&(dropped, 1810)));
        assert!(nothing.too_rare(Kind::Links, 7, 66).contains(&(dropped, 452)));
    }

    #[test]
    fn rotating_seeds_require_only_frequent_events() {
        let (rare, frequent) = (("leaders moved at a prepare", 30), ("paused sites", 390));
        let fixed = Tally::default().too_rare(Kind::Plain, 0, 3 * SEEDS);
        assert!(fixed.contains(&rare) && fixed.contains(&frequent), "{fixed:?}");
        let rotating = Tally::default().too_rare(Kind::Plain, 7, 3 * SEEDS);
        assert!(!rotating.contains(&rare) && rotating.contains(&frequent), "{rotating:?}");
    }
}

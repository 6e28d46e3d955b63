//! The judge: what the values really are, and what clients were answered.

use std::collections::{BTreeMap, BTreeSet};

use solera_checker::interval::{History, Read, Update};
use solera_reservations::Key;

/// Knowledge of the world about a counter.
#[derive(Default)]
struct Counter {
    start: i128,
    /// The value from each moment on.
    values: Vec<(u64, i128)>,
    history: Vec<(usize, Update)>,
    reads: Vec<Read>,
}

pub(crate) struct Truth {
    /// Number of moments so far.
    moment: u64,
    counters: BTreeMap<Key, Counter>,
    /// Tolerance in millionths, by key.
    tolerances: BTreeMap<Key, i128>,
    /// Sums of the updates of each site.
    committed: BTreeMap<(usize, Key), i128>,
    /// Keys whose updates at a removed site have no effect.
    lost: BTreeSet<(usize, Key)>,
    pub(crate) violations: Vec<String>,
    pub(crate) reads: usize,
    pub(crate) exact: usize,
}

impl Truth {
    pub(crate) fn new() -> Truth {
        Truth {
            moment: 0,
            counters: BTreeMap::new(),
            tolerances: BTreeMap::new(),
            committed: BTreeMap::new(),
            lost: BTreeSet::new(),
            violations: Vec::new(),
            reads: 0,
            exact: 0,
        }
    }

    /// Begins a counter.
    pub(crate) fn begin(&mut self, key: &Key, value: i128, tolerance_ppm: u32) {
        let counter = self.counters.entry(key.clone()).or_default();
        counter.start = value;
        counter.values.push((0, value));
        self.tolerances.insert(key.clone(), tolerance_ppm.into());
    }

    /// Returns a new moment, later than all others.
    pub(crate) fn next_moment(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    pub(crate) fn value(&self, key: &Key) -> i128 {
        self.counters[key].values.last().unwrap().1
    }

    /// A transaction of a site commits at this moment. It has no effect if the site is removed.
    pub(crate) fn commit(&mut self, site: usize, key: &Key, amount: i64) {
        if self.lost.contains(&(site, key.clone())) {
            return;
        }
        *self.committed.entry((site, key.clone())).or_default() += i128::from(amount);
        let (moment, value) = (self.next_moment(), self.value(key));
        let counter = self.counters.get_mut(key).unwrap();
        counter.values.push((moment, value + i128::from(amount)));
    }

    /// A site is removed at this moment, and only this sum of its updates remains.
    pub(crate) fn lose(&mut self, site: usize, key: &Key, remaining: i128) {
        let committed = self.committed.get(&(site, key.clone())).copied().unwrap_or(0);
        let (moment, value) = (self.next_moment(), self.value(key));
        self.lost.insert((site, key.clone()));
        let counter = self.counters.get_mut(key).unwrap();
        counter.values.push((moment, value - committed + remaining));
    }

    /// A removed site takes part again, with this sum of its former updates.
    pub(crate) fn restore(&mut self, site: usize, key: &Key, remaining: i128) {
        self.lost.remove(&(site, key.clone()));
        self.committed.insert((site, key.clone()), remaining);
    }

    /// Records an update for the history: number of the transaction, beginning, and end if the
    /// client knows that it has committed.
    pub(crate) fn update(&mut self, key: &Key, (tx, amount): (usize, i64), begin: u64) {
        let update = Update { amount: amount.into(), begin, end: None };
        self.counters.get_mut(key).unwrap().history.push((tx, update));
    }

    /// The client learns at this moment that a transaction has committed.
    pub(crate) fn acknowledge(&mut self, tx: usize) {
        let moment = self.next_moment();
        for counter in self.counters.values_mut() {
            for (_, update) in counter.history.iter_mut().filter(|(id, _)| *id == tx) {
                update.end = Some(moment);
            }
        }
    }

    /// The client learns that a transaction has aborted.
    pub(crate) fn abort(&mut self, tx: usize) {
        for counter in self.counters.values_mut() {
            counter.history.retain(|(id, _)| *id != tx);
        }
    }

    /// Judges an answer: at some moment of the read, the value was in the interval, which is not
    /// wider than the tolerance.
    pub(crate) fn answer(
        &mut self,
        site: usize,
        key: &Key,
        begin: u64,
        (least, greatest): (i64, i64),
    ) {
        let end = self.next_moment();
        let (least, greatest) = (i128::from(least), i128::from(greatest));
        let counter = self.counters.get_mut(key).unwrap();
        counter.reads.push(Read { least, greatest, begin, end });
        let first = counter.values.partition_point(|(moment, _)| *moment <= begin) - 1;
        let values: Vec<i128> = counter.values[first..].iter().map(|(_, value)| *value).collect();
        let name = String::from_utf8_lossy(key).into_owned();
        if !values.iter().any(|value| (least..=greatest).contains(value)) {
            self.violations.push(format!(
                "site {site}: {name} is {values:?}, and the answer [{least}, {greatest}]"
            ));
        }
        let nearest = match least <= 0 && greatest >= 0 {
            true => 0,
            false => least.abs().min(greatest.abs()),
        };
        if greatest - least > nearest * self.tolerances[key] / 1_000_000 {
            self.violations.push(format!("site {site}: {name}: [{least}, {greatest}] is too wide"));
        }
        self.reads += 1;
        self.exact += usize::from(least == greatest);
    }

    /// Returns the history of each counter.
    pub(crate) fn histories(&self) -> Vec<(Key, History)> {
        let of = |counter: &Counter| History {
            start: counter.start,
            updates: counter.history.iter().map(|(_, update)| *update).collect(),
            reads: counter.reads.clone(),
            floor: None,
        };
        self.counters.iter().map(|(key, counter)| (key.clone(), of(counter))).collect()
    }
}

//! Checks that need no witness from the system under test, because some reads identify their
//! writers.
//!
//! An answer identifies its writers on keys to which only unique elements are added and from which
//! nothing is removed (`sets`), and on registers to which only unique values are assigned
//! (`registers`). Session order and reads-from generate the causal order. A read must return all
//! writes to its key that precede it in this order. A transaction must observe either all writes of
//! another transaction or none.

mod registers;
mod sets;

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{History, Level, Op, Status};
use crate::violation::Violation;

/// Checks reads of unique elements and values for thin air, cycles, stale and fractured reads.
pub fn check(history: &History) -> Vec<Violation> {
    let sets = sets::Sets::new(history);
    let registers = registers::Registers::new(history);
    let mut violations: Vec<Violation> =
        sets.anomalies.iter().chain(&registers.anomalies).cloned().collect();
    violations.extend(sets.missing_in_the_end(history));
    let read_from = sets.reads_from().chain(registers.reads_from());
    match Past::new(history, read_from) {
        Ok(past) => {
            violations.extend(sets.stale_reads(&past));
            violations.extend(sets.fractured_reads());
            violations.extend(registers.stale_reads(&past));
        }
        Err(transaction) => violations.push(Violation::CyclicCausality { transaction }),
    }
    violations
}

/// The causal order that session order and reads-from generate.
struct Past {
    /// For each transaction, the transactions that precede it, as a bit set.
    before: Vec<Vec<u64>>,
}

impl Past {
    /// Creates the order that follows from `(reader, writer)` pairs.
    ///
    /// # Errors
    /// The index of a transaction that precedes itself.
    fn new(
        history: &History,
        read_from: impl Iterator<Item = (usize, usize)>,
    ) -> Result<Past, usize> {
        let mut direct = vec![BTreeSet::new(); history.transactions.len()];
        for (reader, writer) in read_from.filter(|(reader, writer)| reader != writer) {
            direct[reader].insert(writer);
        }
        let mut last: BTreeMap<usize, usize> = BTreeMap::new();
        for (t, transaction) in history.transactions.iter().enumerate() {
            if transaction.status == Status::Committed
                && !transaction.is_eventual()
                && let Some(earlier) = last.insert(transaction.session, t)
            {
                direct[t].insert(earlier);
            }
        }
        closure(&direct).map(|before| Past { before })
    }

    fn precedes(&self, first: usize, second: usize) -> bool {
        self.before[second][first / 64] & (1 << (first % 64)) != 0
    }
}

fn closure(direct: &[BTreeSet<usize>]) -> Result<Vec<Vec<u64>>, usize> {
    let count = direct.len();
    let mut before = vec![vec![0u64; count.div_ceil(64)]; count];
    let mut missing: Vec<usize> = direct.iter().map(BTreeSet::len).collect();
    let mut after: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (t, earlier) in direct.iter().enumerate() {
        earlier.iter().for_each(|earlier| after[*earlier].push(t));
    }
    let mut ready: Vec<usize> = (0..count).filter(|t| missing[*t] == 0).collect();
    while let Some(t) = ready.pop() {
        let mut bits = before[t].clone();
        bits[t / 64] |= 1 << (t % 64);
        for later in &after[t] {
            before[*later].iter_mut().zip(&bits).for_each(|(mine, theirs)| *mine |= theirs);
            missing[*later] -= 1;
            if missing[*later] == 0 {
                ready.push(*later);
            }
        }
    }
    match missing.iter().position(|missing| *missing > 0) {
        Some(cyclic) => Err(cyclic),
        None => Ok(before),
    }
}

/// Returns the keys that have no `eventual` operations, and whose updates all satisfy `is_fit`.
fn keys_with<'a>(
    history: &'a History,
    mut is_fit: impl FnMut(&'a str, &'a Op) -> bool,
) -> BTreeSet<&'a str> {
    let mut keys: BTreeSet<&str> = BTreeSet::new();
    let mut unfit: BTreeSet<&str> = BTreeSet::new();
    for operation in history.transactions.iter().flat_map(|t| &t.operations) {
        let key = operation.key.as_str();
        // Includes keys without writers: any value read there is out of thin air.
        keys.insert(key);
        if operation.level == Level::Eventual
            || (operation.op.is_update() && !is_fit(key, &operation.op))
        {
            unfit.insert(key);
        }
    }
    keys.difference(&unfit).copied().collect()
}

//! What can be said without believing the system under test: reads of sets tell whom they read from.
//!
//! On keys to which only unique elements are added and nothing is ever removed, a read returns exactly
//! the visible writers. Session order and reads-from generate the causal order; every read must contain
//! all writes to its key that precede it there, and of each transaction either all writes or none.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Answer, History, Op, Status, Violation};

/// Checks reads of unique-element sets for thin air, cycles, stale and fractured reads.
pub fn check(history: &History) -> Vec<Violation> {
    let judge = Judge::new(history);
    let mut violations = judge.thin_air.clone();
    match judge.causal_past() {
        Ok(past) => {
            violations.extend(judge.stale_reads(&past));
            violations.extend(judge.fractured_reads());
        }
        Err(transaction) => violations.push(Violation::CyclicCausality { transaction }),
    }
    violations
}

struct Judge<'a> {
    /// Keys whose elements are unique and never removed.
    keys: BTreeSet<&'a str>,
    /// For each transaction, the keys it wrote of those.
    written: Vec<BTreeSet<&'a str>>,
    /// For each transaction and key it read: the writers it saw.
    read: Vec<BTreeMap<&'a str, BTreeSet<usize>>>,
    /// Direct predecessors: in the session, and read from.
    before: Vec<BTreeSet<usize>>,
    thin_air: Vec<Violation>,
}

impl<'a> Judge<'a> {
    fn new(history: &'a History) -> Self {
        let count = history.transactions.len();
        let keys = judged_keys(history);
        let mut judge = Judge {
            keys,
            written: vec![BTreeSet::new(); count],
            read: vec![BTreeMap::new(); count],
            before: vec![BTreeSet::new(); count],
            thin_air: Vec::new(),
        };
        let writers = judge.collect_writes(history);
        judge.collect_reads(history, &writers);
        judge.collect_sessions(history);
        judge
    }

    fn collect_writes(&mut self, history: &'a History) -> BTreeMap<(&'a str, &'a str), usize> {
        let mut writers = BTreeMap::new();
        for (t, transaction) in history.transactions.iter().enumerate() {
            if transaction.status == Status::Aborted {
                continue;
            }
            for operation in &transaction.operations {
                if let Op::SetAdd(elements) = &operation.op
                    && self.keys.contains(operation.key.as_str())
                {
                    self.written[t].insert(&operation.key);
                    for element in elements {
                        writers.insert((operation.key.as_str(), element.as_str()), t);
                    }
                }
            }
        }
        writers
    }

    fn collect_reads(
        &mut self,
        history: &'a History,
        writers: &BTreeMap<(&'a str, &'a str), usize>,
    ) {
        for (t, transaction) in history.transactions.iter().enumerate() {
            if transaction.status == Status::Aborted {
                continue;
            }
            for operation in &transaction.operations {
                let key = operation.key.as_str();
                let Some(Answer::Members(elements)) = &operation.answer else { continue };
                if !self.keys.contains(key) || operation.op != Op::Members {
                    continue;
                }
                let seen = self.read[t].entry(key).or_default();
                for element in elements {
                    match writers.get(&(key, element.as_str())) {
                        Some(writer) => {
                            seen.insert(*writer);
                            if *writer != t {
                                self.before[t].insert(*writer);
                            }
                        }
                        None => self.thin_air.push(Violation::ThinAir {
                            transaction: t,
                            key: key.to_owned(),
                            element: element.clone(),
                        }),
                    }
                }
            }
        }
    }

    fn collect_sessions(&mut self, history: &History) {
        let mut last: BTreeMap<usize, usize> = BTreeMap::new();
        for (t, transaction) in history.transactions.iter().enumerate() {
            if transaction.status == Status::Committed
                && !transaction.is_eventual()
                && let Some(earlier) = last.insert(transaction.session, t)
            {
                self.before[t].insert(earlier);
            }
        }
    }

    /// The transitive closure of `before` as bit sets, or a transaction on a cycle.
    fn causal_past(&self) -> Result<Vec<Vec<u64>>, usize> {
        let count = self.before.len();
        let words = count.div_ceil(64);
        let mut past = vec![vec![0u64; words]; count];
        let mut missing: Vec<usize> = self.before.iter().map(BTreeSet::len).collect();
        let mut after: Vec<Vec<usize>> = vec![Vec::new(); count];
        for (t, before) in self.before.iter().enumerate() {
            for earlier in before {
                after[*earlier].push(t);
            }
        }
        let mut ready: Vec<usize> = (0..count).filter(|t| missing[*t] == 0).collect();
        let mut done = 0;
        while let Some(t) = ready.pop() {
            done += 1;
            let mut bits = past[t].clone();
            bits[t / 64] |= 1 << (t % 64);
            for later in &after[t] {
                past[*later].iter_mut().zip(&bits).for_each(|(mine, theirs)| *mine |= theirs);
                missing[*later] -= 1;
                if missing[*later] == 0 {
                    ready.push(*later);
                }
            }
        }
        match (0..count).find(|t| missing[*t] > 0) {
            Some(cyclic) if done < count => Err(cyclic),
            _ => Ok(past),
        }
    }

    fn stale_reads(&self, past: &[Vec<u64>]) -> Vec<Violation> {
        let mut violations = Vec::new();
        for (reader, reads) in self.read.iter().enumerate() {
            for (key, seen) in reads {
                let missed = (0..self.written.len()).find(|writer| {
                    self.written[*writer].contains(key)
                        && past[reader][writer / 64] & (1 << (writer % 64)) != 0
                        && !seen.contains(writer)
                });
                if let Some(writer) = missed {
                    violations.push(Violation::StaleRead { reader, writer, key: (*key).into() });
                }
            }
        }
        violations
    }

    fn fractured_reads(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        for (reader, reads) in self.read.iter().enumerate() {
            let seen: BTreeSet<usize> = reads.values().flatten().copied().collect();
            for writer in seen.into_iter().filter(|writer| *writer != reader) {
                let missing = reads.iter().find(|(key, seen)| {
                    self.written[writer].contains(*key) && !seen.contains(&writer)
                });
                if let Some((key, _)) = missing {
                    violations.push(Violation::FracturedRead {
                        reader,
                        writer,
                        key: (*key).into(),
                    });
                }
            }
        }
        violations
    }
}

/// Keys that only ever see adds of elements that nobody else adds, and reads.
fn judged_keys(history: &History) -> BTreeSet<&str> {
    let mut elements: BTreeSet<(&str, &str)> = BTreeSet::new();
    let mut keys: BTreeSet<&str> = BTreeSet::new();
    let mut unfit: BTreeSet<&str> = BTreeSet::new();
    for operation in history.transactions.iter().flat_map(|t| &t.operations) {
        let key = operation.key.as_str();
        keys.insert(key);
        let fits = match &operation.op {
            Op::SetAdd(added) => added.iter().all(|element| elements.insert((key, element))),
            op => !op.is_update(),
        };
        if !fits || operation.eventual {
            unfit.insert(key);
        }
    }
    keys.difference(&unfit).copied().collect()
}

//! A dependency graph of strong transactions, derived from answers and times: Adya's graph ("Weak
//! consistency", 1999), with session order and, among linearizable keys, real time. If the graph
//! has a cycle, no order of the transactions explains the answers.
//!
//! Judges a key only if it holds strings, if all its operations are strong and have no kinds, and
//! if no value is written to it twice. On such a key a value identifies its writer, and an update
//! conflicts with all operations. The order of two writers of a key is known if one read the
//! other's value, if one ended before the other began, or from their strong timestamps.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::history::{Answer, History, Level, Op, Status, Transaction};
use crate::violation::{Before, Violation};

/// Reports a cycle of strong transactions, if there is one.
pub fn check(history: &History) -> Vec<Violation> {
    let mut graph = Graph::new(history);
    for (key, register) in registers(history) {
        graph.add_key(key, &register);
    }
    graph.add_sessions();
    graph.add_real_time();
    graph.cycle().map(|cycle| Violation::NoOrder { cycle }).into_iter().collect()
}

/// Writers and readers of a key. Each reader has committed; each writer has committed, or a
/// transaction read its value.
#[derive(Default)]
struct Register<'a> {
    /// The final value of each writer.
    writers: BTreeMap<usize, &'a str>,
    readers: Vec<Reader<'a>>,
}

/// A transaction that reads a register before it writes it.
struct Reader<'a> {
    transaction: usize,
    /// The value that it read.
    value: Option<&'a str>,
    /// Whether its operations there conflict with writers.
    conflicts: bool,
}

/// Returns the keys that can be judged.
fn registers(history: &History) -> BTreeMap<&str, Register<'_>> {
    let mut registers: BTreeMap<&str, Register<'_>> = BTreeMap::new();
    let mut unfit: BTreeSet<&str> = BTreeSet::new();
    let mut values: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (t, transaction) in history.transactions.iter().enumerate() {
        let mut written: BTreeSet<&str> = BTreeSet::new();
        for operation in &transaction.operations {
            let key = operation.key.as_str();
            let register = registers.entry(key).or_default();
            if !keeps_unique_values(&operation.level, &operation.op) {
                unfit.insert(key);
            }
            match (&operation.op, &operation.answer) {
                (Op::Set(value), _) => {
                    if !values.insert((key, value)) {
                        unfit.insert(key);
                    }
                    register.writers.insert(t, value);
                    written.insert(key);
                }
                (Op::Get, Some(Answer::Values(found))) if !written.contains(key) => {
                    let value = found.first().and_then(Option::as_deref);
                    let conflicts = operation.level.is_strong() || transaction.writes(key);
                    register.readers.push(Reader { transaction: t, value, conflicts });
                }
                _ => {}
            }
        }
    }
    registers.retain(|key, _| !unfit.contains(key));
    registers.values_mut().for_each(|register| register.keep_effective(history));
    registers
}

/// Returns whether a key with this operation remains a register with unique values whose writers
/// all conflict.
fn keeps_unique_values(level: &Level, op: &Op) -> bool {
    match op {
        Op::Set(_) => matches!(level, Level::Strong(None) | Level::Linearizable),
        Op::Get => !matches!(level, Level::Eventual | Level::Strong(Some(_))),
        _ => false,
    }
}

impl Register<'_> {
    /// Removes transactions that are not known to have taken effect, by their commit or by a read.
    fn keep_effective(&mut self, history: &History) {
        let read: BTreeSet<&str> = self.readers.iter().filter_map(|reader| reader.value).collect();
        let status = |t: usize| history.transactions[t].status;
        self.writers.retain(|t, value| match status(*t) {
            Status::Committed => true,
            Status::Aborted => false,
            Status::Unknown => history.transactions[*t].took_effect() || read.contains(value),
        });
        let writers = &self.writers;
        self.readers.retain(|Reader { transaction, .. }| {
            status(*transaction) == Status::Committed || writers.contains_key(transaction)
        });
    }
}

/// Known order of a register's writers.
struct Succession<'a> {
    /// Writers by the value that they had read.
    updaters: BTreeMap<Option<&'a str>, Vec<usize>>,
    by_strong_time: Vec<(u64, usize)>,
    /// For each writer, the time at which it began, the latest time at which it ended, and its
    /// index.
    by_time: Vec<(u64, u64, usize)>,
}

impl<'a> Succession<'a> {
    fn new(transactions: &[Transaction], register: &Register<'a>) -> Self {
        let mut updaters: BTreeMap<Option<&str>, Vec<usize>> = BTreeMap::new();
        let writes = |reader: &&Reader| register.writers.contains_key(&reader.transaction);
        for reader in register.readers.iter().filter(writes) {
            updaters.entry(reader.value).or_default().push(reader.transaction);
        }
        let writers = || register.writers.keys().copied();
        let mut by_strong_time: Vec<(u64, usize)> =
            writers().filter_map(|t| Some((transactions[t].strong_time()?, t))).collect();
        by_strong_time.sort_unstable();
        let mut by_time: Vec<(u64, u64, usize)> = writers()
            .map(|t| {
                let invoked = transactions[t].interval.map_or(0, |interval| interval.invoked);
                (invoked, over(&transactions[t]).unwrap_or(u64::MAX), t)
            })
            .collect();
        by_time.sort_unstable();
        Succession { updaters, by_strong_time, by_time }
    }

    /// Returns writers that follow this one and its value, or the initial state: enough of them
    /// that all other known successors follow one of these.
    fn after(&self, writer: Option<(&Transaction, &str)>) -> Vec<usize> {
        let mut after =
            self.updaters.get(&writer.map(|(_, value)| value)).cloned().unwrap_or_default();
        let strong = match writer {
            None => Some(0),
            Some((writer, _)) => writer
                .strong_time()
                .map(|time| self.by_strong_time.partition_point(|(other, _)| *other <= time)),
        };
        after.extend(strong.and_then(|at| Some(self.by_strong_time.get(at)?.1)));
        let began = match writer {
            None => Some(0),
            Some((writer, _)) => over(writer)
                .map(|over| self.by_time.partition_point(|(invoked, _, _)| *invoked <= over)),
        };
        let mut limit = u64::MAX;
        for (invoked, over, t) in began.map_or(&[][..], |at| &self.by_time[at..]) {
            if *invoked > limit {
                break;
            }
            limit = limit.min(*over);
            after.push(*t);
        }
        after
    }
}

/// Returns the time by which a transaction certainly took effect.
fn over(transaction: &Transaction) -> Option<u64> {
    let committed = transaction.status == Status::Committed;
    transaction.interval.filter(|_| committed)?.answered
}

struct Graph<'a> {
    transactions: &'a [Transaction],
    /// Edges from each node to nodes that must follow it. The first nodes are the transactions. The
    /// other nodes are moments, with edges to the transactions that began after them.
    edges: Vec<Vec<(usize, Before)>>,
}

impl<'a> Graph<'a> {
    fn new(history: &'a History) -> Self {
        let transactions = history.transactions.as_slice();
        Graph { transactions, edges: vec![Vec::new(); transactions.len()] }
    }

    fn add(&mut self, one: usize, other: usize, before: Before) {
        if one != other {
            self.edges[one].push((other, before));
        }
    }

    fn add_key(&mut self, key: &str, register: &Register<'_>) {
        let transactions = self.transactions;
        let succession = Succession::new(transactions, register);
        let writer_of: BTreeMap<&str, usize> =
            register.writers.iter().map(|(t, value)| (*value, *t)).collect();
        for (writer, value) in &register.writers {
            for next in succession.after(Some((&transactions[*writer], value))) {
                self.add(*writer, next, Before::Replaced(key.to_owned()));
            }
        }
        for Reader { transaction, value, conflicts } in &register.readers {
            let source = value.map(|value| writer_of.get(value).map(|t| (*t, value)));
            // Other checkers report values out of thin air.
            if source == Some(None) {
                continue;
            }
            let source = source.flatten();
            if let Some((writer, _)) = source
                && !register.writers.contains_key(transaction)
            {
                self.add(writer, *transaction, Before::Read(key.to_owned()));
            }
            if *conflicts {
                let source = source.map(|(writer, value)| (&transactions[writer], value));
                for writer in succession.after(source) {
                    self.add(*transaction, writer, Before::Misses(key.to_owned()));
                }
            }
        }
    }

    fn add_sessions(&mut self) {
        let mut last: BTreeMap<usize, usize> = BTreeMap::new();
        for (t, transaction) in self.transactions.iter().enumerate() {
            if transaction.is_strong()
                && transaction.status == Status::Committed
                && let Some(earlier) = last.insert(transaction.session, t)
            {
                self.add(earlier, t, Before::Session);
            }
        }
    }

    /// Adds edges by real time among transactions at linearizable keys. The edges lead through
    /// moments, because one edge for every pair of transactions would be too many.
    fn add_real_time(&mut self) {
        let is_linearizable = |t: &usize| {
            let operations = &self.transactions[*t].operations;
            operations.iter().any(|operation| operation.level == Level::Linearizable)
        };
        let judged: Vec<usize> = (0..self.transactions.len()).filter(is_linearizable).collect();
        let mut answered: Vec<(u64, usize)> = judged
            .iter()
            .filter(|t| self.transactions[**t].status == Status::Committed)
            .filter_map(|t| Some((self.transactions[*t].interval?.answered?, *t)))
            .collect();
        answered.sort_unstable();
        let first = self.edges.len();
        self.edges.resize(first + answered.len(), Vec::new());
        for (at, (_, t)) in answered.iter().enumerate() {
            self.edges[*t].push((first + at, Before::RealTime));
            if at + 1 < answered.len() {
                self.edges[first + at].push((first + at + 1, Before::RealTime));
            }
        }
        for t in judged {
            let Some(interval) = self.transactions[t].interval else { continue };
            let over = answered.partition_point(|(answered, _)| *answered < interval.invoked);
            if over > 0 {
                self.edges[first + over - 1].push((t, Before::RealTime));
            }
        }
    }

    /// Returns a cycle through few transactions.
    fn cycle(&self) -> Option<Vec<(usize, Before)>> {
        let on_cycles = self.not_ordered();
        let transactions = on_cycles.iter().copied().filter(|node| *node < self.transactions.len());
        // Every cycle is a violation; a short one is easier to read.
        let cycles = transactions.filter_map(|start| self.back_to(start, &on_cycles));
        cycles.take(64).min_by_key(Vec::len)
    }

    /// Returns the nodes that remain when nodes without predecessors, or without successors, are
    /// removed repeatedly.
    fn not_ordered(&self) -> BTreeSet<usize> {
        let mut reversed = vec![Vec::new(); self.edges.len()];
        for (node, edges) in self.edges.iter().enumerate() {
            edges.iter().for_each(|(next, _)| reversed[*next].push(node));
        }
        let forward: Vec<Vec<usize>> =
            self.edges.iter().map(|edges| edges.iter().map(|(next, _)| *next).collect()).collect();
        let after = sorted_out(&forward);
        let before = sorted_out(&reversed);
        (0..self.edges.len()).filter(|node| !after[*node] && !before[*node]).collect()
    }

    /// Returns the path from a transaction to itself through the fewest others.
    fn back_to(&self, start: usize, within: &BTreeSet<usize>) -> Option<Vec<(usize, Before)>> {
        let mut from: BTreeMap<usize, (usize, &Before)> = BTreeMap::new();
        let mut next = VecDeque::from([start]);
        while let Some(node) = next.pop_front() {
            for (other, before) in &self.edges[node] {
                if !within.contains(other) || from.contains_key(other) {
                    continue;
                }
                from.insert(*other, (node, before));
                if *other == start {
                    return Some(self.way(start, &from));
                }
                // Only transactions count for the length of a path, not moments.
                if *other < self.transactions.len() {
                    next.push_back(*other);
                } else {
                    next.push_front(*other);
                }
            }
        }
        None
    }

    fn way(&self, start: usize, from: &BTreeMap<usize, (usize, &Before)>) -> Vec<(usize, Before)> {
        let mut way = Vec::new();
        let mut node = start;
        loop {
            let (earlier, before) = from[&node];
            if earlier < self.transactions.len() {
                way.push((earlier, before.clone()));
            }
            node = earlier;
            if node == start {
                way.reverse();
                return way;
            }
        }
    }
}

/// Returns for each node whether it is on no cycle and not reachable from one.
fn sorted_out(edges: &[Vec<usize>]) -> Vec<bool> {
    let mut missing = vec![0; edges.len()];
    edges.iter().flatten().for_each(|node| missing[*node] += 1);
    let mut ready: Vec<usize> = (0..edges.len()).filter(|node| missing[*node] == 0).collect();
    let mut sorted = vec![false; edges.len()];
    while let Some(node) = ready.pop() {
        sorted[node] = true;
        for next in &edges[node] {
            missing[*next] -= 1;
            if missing[*next] == 0 {
                ready.push(*next);
            }
        }
    }
    sorted
}

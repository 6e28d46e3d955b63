//! Sets of unique elements from which nothing is removed: a read identifies all visible writers.

use std::collections::{BTreeMap, BTreeSet};

use super::{Past, keys_with};
use crate::history::{Answer, History, Op, Status};
use crate::violation::Violation;

/// One read of a set.
struct Read<'a> {
    reader: usize,
    key: &'a str,
    /// Writers of which it returned all elements, and writers of which it returned some.
    whole: BTreeSet<usize>,
    partial: BTreeSet<usize>,
}

/// The writes and reads of all sets that can be judged.
pub(super) struct Sets<'a> {
    /// For each key, its writers and the elements that they added.
    written: BTreeMap<&'a str, BTreeMap<usize, BTreeSet<&'a str>>>,
    reads: Vec<Read<'a>>,
    /// Violations that do not depend on the order.
    pub(super) anomalies: Vec<Violation>,
}

impl<'a> Sets<'a> {
    pub(super) fn new(history: &'a History) -> Self {
        let mut elements: BTreeSet<(&str, &str)> = BTreeSet::new();
        let keys = keys_with(history, |key, op| match op {
            Op::SetAdd(added) => added.iter().all(|element| elements.insert((key, element))),
            _ => false,
        });
        let mut sets = Sets { written: BTreeMap::new(), reads: Vec::new(), anomalies: Vec::new() };
        sets.collect_writes(history, &keys);
        sets.collect_reads(history, &keys);
        sets
    }

    fn collect_writes(&mut self, history: &'a History, keys: &BTreeSet<&'a str>) {
        for (t, transaction) in history.transactions.iter().enumerate() {
            if transaction.status == Status::Aborted {
                continue;
            }
            for operation in &transaction.operations {
                if let Op::SetAdd(elements) = &operation.op
                    && keys.contains(operation.key.as_str())
                {
                    let writers = self.written.entry(&operation.key).or_default();
                    writers.entry(t).or_default().extend(elements.iter().map(String::as_str));
                }
            }
        }
    }

    fn collect_reads(&mut self, history: &'a History, keys: &BTreeSet<&'a str>) {
        let writer_of = self.written.iter().flat_map(|(key, writers)| {
            let added = writers.iter().flat_map(|(t, added)| added.iter().map(move |e| (*e, *t)));
            added.map(move |(element, t)| ((*key, element), t))
        });
        let writer_of: BTreeMap<(&str, &str), usize> = writer_of.collect();
        for (t, transaction) in history.transactions.iter().enumerate() {
            if transaction.status == Status::Aborted {
                continue;
            }
            let mut own: BTreeSet<(&str, &str)> = BTreeSet::new();
            for operation in &transaction.operations {
                let key = operation.key.as_str();
                match (&operation.op, &operation.answer) {
                    (Op::SetAdd(elements), _) => {
                        own.extend(elements.iter().map(|element| (key, element.as_str())));
                    }
                    (Op::Members, Some(Answer::Members(elements))) if keys.contains(key) => {
                        self.read(t, key, elements, &own, &writer_of);
                    }
                    _ => {}
                }
            }
        }
    }

    fn read(
        &mut self,
        reader: usize,
        key: &'a str,
        elements: &'a [String],
        own: &BTreeSet<(&str, &str)>,
        writer_of: &BTreeMap<(&str, &str), usize>,
    ) {
        let elements: BTreeSet<&str> = elements.iter().map(String::as_str).collect();
        let mut seen: BTreeMap<usize, usize> = BTreeMap::new();
        for element in &elements {
            match writer_of.get(&(key, *element)) {
                Some(writer) if *writer != reader => *seen.entry(*writer).or_default() += 1,
                Some(_) if own.contains(&(key, *element)) => {}
                _ => self.anomalies.push(Violation::ThinAir {
                    transaction: reader,
                    key: key.to_owned(),
                    element: (*element).to_owned(),
                }),
            }
        }
        if own.iter().any(|(other, element)| *other == key && !elements.contains(element)) {
            let key = key.to_owned();
            self.anomalies.push(Violation::StaleRead { reader, writer: reader, key });
        }
        let is_whole = |writer: usize, count: usize| {
            let added = self.written.get(key).and_then(|writers| writers.get(&writer));
            added.is_some_and(|added| added.len() == count)
        };
        let (whole, partial): (BTreeMap<usize, usize>, BTreeMap<usize, usize>) =
            seen.into_iter().partition(|(writer, count)| is_whole(*writer, *count));
        self.reads.push(Read {
            reader,
            key,
            whole: whole.into_keys().collect(),
            partial: partial.into_keys().collect(),
        });
    }

    /// Returns pairs of a reader and a writer that it observed.
    pub(super) fn reads_from(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.reads.iter().flat_map(|read| {
            read.whole.iter().chain(&read.partial).map(|writer| (read.reader, *writer))
        })
    }

    pub(super) fn stale_reads(&self, past: &Past) -> Vec<Violation> {
        let stale = self.reads.iter().filter_map(|read| {
            let writers = self.written.get(read.key)?;
            let sees = |t: &usize| read.whole.contains(t) || read.partial.contains(t);
            let writer = writers.keys().find(|t| past.precedes(**t, read.reader) && !sees(t))?;
            let (reader, key) = (read.reader, read.key.to_owned());
            Some(Violation::StaleRead { reader, writer: *writer, key })
        });
        stale.collect()
    }

    /// Reports readers that observed only a part of another transaction's writes to the keys that
    /// they read.
    pub(super) fn fractured_reads(&self) -> Vec<Violation> {
        let mut seen: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for (reader, writer) in self.reads_from() {
            seen.entry(reader).or_default().insert(writer);
        }
        let mut violations = Vec::new();
        for read in &self.reads {
            let Some(writers) = self.written.get(read.key) else { continue };
            let seen = seen.get(&read.reader).into_iter().flatten();
            for writer in seen.filter(|writer| writers.contains_key(writer)) {
                if !read.whole.contains(writer) {
                    let (reader, key) = (read.reader, read.key.to_owned());
                    violations.push(Violation::FracturedRead { reader, writer: *writer, key });
                }
            }
        }
        violations
    }

    /// Reports transactions that must survive, and are missing at some site at the end: those that
    /// committed at a surviving site, and strong ones.
    pub(super) fn missing_in_the_end(&self, history: &History) -> Vec<Violation> {
        let mut missing: BTreeSet<usize> = BTreeSet::new();
        for read in &history.finals {
            let Some(writers) = self.written.get(read.key.as_str()) else { continue };
            let held: BTreeSet<&str> = match &read.answers[1] {
                Answer::Members(elements) => elements.iter().map(String::as_str).collect(),
                _ => BTreeSet::new(),
            };
            let kept = writers.iter().filter(|(t, _)| {
                let transaction = &history.transactions[**t];
                let survives =
                    transaction.is_strong() || !history.destroyed.contains(&transaction.site);
                transaction.status == Status::Committed && survives
            });
            let lost = kept.filter(|(_, added)| added.iter().any(|e| !held.contains(e)));
            missing.extend(lost.map(|(t, _)| *t));
        }
        let lost = |transaction: usize| {
            if history.transactions[transaction].is_strong() {
                Violation::StrongLost { transaction }
            } else {
                Violation::Lost { transaction }
            }
        };
        missing.into_iter().map(lost).collect()
    }
}

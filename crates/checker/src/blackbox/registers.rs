//! Registers to which only unique values are assigned: a read identifies the last writer that it
//! observed.
//!
//! The anomalies are those of causal consistency in Bouajjani, Enea, Guerraoui and Hamza, "On
//! verifying causal consistency" (POPL 2017): a read of an overwritten value is WriteCORead, a read
//! of the initial state after a write is WriteCOInitRead; both are reported as stale.

use std::collections::{BTreeMap, BTreeSet};

use super::{Past, keys_with};
use crate::history::{Answer, History, Op, Status};
use crate::violation::Violation;

/// A read of a register that did not follow an assignment by the reader itself.
struct Read<'a> {
    reader: usize,
    key: &'a str,
    /// Writer of the value that it returned; `None` if there was no value.
    writer: Option<usize>,
}

/// The writes and reads of all registers that can be judged.
pub(super) struct Registers<'a> {
    /// For each key, its writers and their final values.
    written: BTreeMap<&'a str, BTreeMap<usize, &'a str>>,
    /// For each key and value, its writer.
    writer_of: BTreeMap<(&'a str, &'a str), usize>,
    reads: Vec<Read<'a>>,
    /// Violations that do not depend on the order.
    pub(super) anomalies: Vec<Violation>,
}

impl<'a> Registers<'a> {
    pub(super) fn new(history: &'a History) -> Self {
        let mut values: BTreeSet<(&str, &str)> = BTreeSet::new();
        let keys = keys_with(history, |key, op| match op {
            Op::Set(value) => values.insert((key, value)),
            _ => false,
        });
        let mut registers = Registers {
            written: BTreeMap::new(),
            writer_of: BTreeMap::new(),
            reads: Vec::new(),
            anomalies: Vec::new(),
        };
        let effective = || {
            let transactions = history.transactions.iter().enumerate();
            let effective = transactions.filter(|(_, t)| t.status != Status::Aborted);
            effective.flat_map(|(t, transaction)| {
                transaction.operations.iter().map(move |operation| (t, operation))
            })
        };
        for (t, operation) in effective().filter(|(_, o)| keys.contains(o.key.as_str())) {
            if let Op::Set(value) = &operation.op {
                registers.written.entry(&operation.key).or_default().insert(t, value);
                registers.writer_of.insert((&operation.key, value), t);
            }
        }
        let mut own: BTreeMap<(usize, &str), &str> = BTreeMap::new();
        for (t, operation) in effective().filter(|(_, o)| keys.contains(o.key.as_str())) {
            let key = operation.key.as_str();
            match (&operation.op, &operation.answer) {
                (Op::Set(value), _) => {
                    own.insert((t, key), value);
                }
                (Op::Get, Some(Answer::Values(values))) => {
                    let value = values.first().and_then(Option::as_deref);
                    registers.read(t, key, value, own.get(&(t, key)).copied());
                }
                _ => {}
            }
        }
        registers
    }

    fn read(&mut self, reader: usize, key: &'a str, value: Option<&str>, own: Option<&str>) {
        let named = || key.to_owned();
        let writer = value.map(|value| (value, self.writer_of.get(&(key, value)).copied()));
        match (writer, own) {
            (Some((value, None)), _) => self.anomalies.push(Violation::ThinAir {
                transaction: reader,
                key: named(),
                element: value.to_owned(),
            }),
            (_, Some(own)) if value != Some(own) => {
                let writer = reader;
                self.anomalies.push(Violation::StaleRead { reader, writer, key: named() });
            }
            (_, Some(_)) => {}
            (Some((value, Some(writer))), None) if writer == reader => {
                let element = value.to_owned();
                let (transaction, key) = (reader, named());
                self.anomalies.push(Violation::ThinAir { transaction, key, element });
            }
            (Some((value, Some(writer))), None) => {
                let left = self.written.get(key).and_then(|writers| writers.get(&writer));
                if left.is_some_and(|left| *left != value) {
                    let key = named();
                    self.anomalies.push(Violation::IntermediateRead { reader, writer, key });
                }
                self.reads.push(Read { reader, key, writer: Some(writer) });
            }
            (None, None) => self.reads.push(Read { reader, key, writer: None }),
        }
    }

    /// Returns pairs of a reader and the writer that it observed.
    pub(super) fn reads_from(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.reads.iter().filter_map(|read| Some((read.reader, read.writer?)))
    }

    pub(super) fn stale_reads(&self, past: &Past) -> Vec<Violation> {
        let stale = self.reads.iter().filter_map(|read| {
            let overwrites = |later: usize| match read.writer {
                Some(writer) => past.precedes(writer, later),
                None => true,
            };
            let mut writers = self.written.get(read.key)?.keys();
            let missed = writers.find(|t| past.precedes(**t, read.reader) && overwrites(**t))?;
            let (reader, key) = (read.reader, read.key.to_owned());
            Some(Violation::StaleRead { reader, writer: *missed, key })
        });
        stale.collect()
    }
}

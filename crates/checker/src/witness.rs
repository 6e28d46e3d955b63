//! Verifies the causal order that the system under test claims.

use std::collections::BTreeMap;

use crate::history::{Answer, History, Op, Origin, Status, Transaction, Witness};
use crate::model::{Key, has_effect};
use crate::violation::Violation;

/// Dot of the reading transaction's own writes, which follow everything that it observes.
const LAST: (u64, Origin) = (u64::MAX, Origin::Strong);

/// Checks that the witnesses order the transactions as transactional causal consistency requires,
/// and that every answer follows from that order.
pub fn check(history: &History) -> Vec<Violation> {
    let order = Order::new(history);
    let mut violations = order.places();
    violations.extend(order.dots());
    violations.extend(order.transitivity());
    violations.extend(order.sessions());
    violations.extend(order.answers());
    violations
}

/// The transactions with a witness, and the relation of observation between them.
struct Order<'a> {
    transactions: &'a [Transaction],
    /// Transactions that took effect, by commit vector; an extension of the claimed order.
    writers: Vec<usize>,
    /// Position of each transaction in `writers`, if it took effect.
    positions: Vec<Option<usize>>,
    /// Observed transactions: `observed[t]` is a bit set over positions in `writers`.
    observed: Vec<Vec<u64>>,
    /// Positions of the transactions that write a key.
    writers_of: BTreeMap<&'a str, Vec<usize>>,
    /// For each position, whether each of its operations was rejected and had no effect.
    refused: Vec<Vec<bool>>,
}

impl<'a> Order<'a> {
    fn new(history: &'a History) -> Self {
        let transactions = &history.transactions;
        let mut writers: Vec<usize> = (0..transactions.len())
            .filter(|t| transactions[*t].took_effect() && !transactions[*t].is_eventual())
            .collect();
        writers
            .sort_by_cached_key(|t| transactions[*t].witness.as_ref().map(Witness::commit_vector));
        let mut positions = vec![None; transactions.len()];
        writers.iter().enumerate().for_each(|(at, writer)| positions[*writer] = Some(at));
        let words = writers.len().div_ceil(64);
        let observed = transactions
            .iter()
            .map(|transaction| {
                let mut bits = vec![0u64; words];
                if let Some(witness) = &transaction.witness {
                    for (position, writer) in writers.iter().enumerate() {
                        let other = transactions[*writer].witness.as_ref();
                        if other.is_some_and(|other| witness.observes(other)) {
                            bits[position / 64] |= 1 << (position % 64);
                        }
                    }
                }
                bits
            })
            .collect();
        let writers_of = writers_of(transactions, &writers);
        let refused = Vec::new();
        let mut order = Order { transactions, writers, positions, observed, writers_of, refused };
        order.find_refused();
        order
    }

    /// Determines which operations were rejected. The answer shows it; without an answer, it
    /// follows from the transaction's observations. Proceeds in the claimed order, because the
    /// result depends on earlier rejections.
    fn find_refused(&mut self) {
        for position in 0..self.writers.len() {
            let t = self.writers[position];
            let operations = &self.transactions[t].operations;
            let refused = (0..operations.len()).map(|at| match &operations[at].answer {
                Some(answer) => !has_effect(&operations[at].op, answer),
                None => operations[at].op.is_update() && self.would_refuse(position, at),
            });
            let refused = refused.collect();
            self.refused.push(refused);
        }
    }

    fn would_refuse(&self, position: usize, at: usize) -> bool {
        let t = self.writers[position];
        let operations = &self.transactions[t].operations;
        let key = &operations[at].key;
        // A claimed order may have cycles, which another check reports; this loop must not follow
        // them.
        let before = self.writing(key).partition_point(|writer| *writer < position);
        let mut state = self.state(key, &self.writing(key)[..before], Some(t));
        for operation in operations[..at].iter().filter(|operation| operation.key == *key) {
            if has_effect(&operation.op, &state.answer(&operation.op)) {
                state.apply(&operation.op, usize::MAX, LAST, &|_| true);
            }
        }
        !has_effect(&operations[at].op, &state.answer(&operations[at].op))
    }

    /// Returns the positions of the transactions that write a key.
    fn writing(&self, key: &str) -> &[usize] {
        self.writers_of.get(key).map_or(&[], Vec::as_slice)
    }

    fn observes(&self, t: usize, position: usize) -> bool {
        self.observed[t][position / 64] & (1 << (position % 64)) != 0
    }

    fn observed_by(&self, t: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.writers.len()).filter(move |position| self.observes(t, *position))
    }

    fn is_judged(&self, t: usize) -> bool {
        let transaction = &self.transactions[t];
        transaction.witness.is_some() && !transaction.is_eventual()
    }

    fn dots(&self) -> Vec<Violation> {
        let dot = |t: &usize| self.transactions[*t].dot();
        let mut by_dot = self.writers.clone();
        by_dot.sort_by_key(dot);
        let same = by_dot.windows(2).filter(|pair| dot(&pair[0]) == dot(&pair[1]));
        same.map(|pair| Violation::SameDot { first: pair[0], second: pair[1] }).collect()
    }

    /// Checks that `first ≺ second ≺ third` implies `first ≺ third`, and that dots follow the
    /// order.
    fn transitivity(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        for (at, second) in self.writers.iter().enumerate() {
            for before in self.observed_by(*second) {
                let first = self.writers[before];
                if before >= at || !self.are_in_time(first, *second) {
                    violations.push(Violation::TimeAgainstCausality { first, second: *second });
                }
            }
        }
        for third in (0..self.transactions.len()).filter(|t| self.is_judged(*t)) {
            for at in self.observed_by(third) {
                let second = self.writers[at];
                if let Some(missing) = first_missing(&self.observed[second], &self.observed[third])
                {
                    let first = self.writers[missing];
                    violations.push(Violation::Intransitive { first, second, third });
                }
            }
        }
        violations
    }

    /// Returns whether `second`, by its commit time, may have observed `first`. Strong timestamps
    /// are compared with one another only, because they come from other clocks.
    fn are_in_time(&self, first: usize, second: usize) -> bool {
        match (self.transactions[first].dot(), self.transactions[second].dot()) {
            (Some((_, Origin::Site(_))), Some((_, Origin::Strong)))
            | (Some((_, Origin::Strong)), Some((_, Origin::Site(_)))) => true,
            (first, second) => first < second,
        }
    }

    /// Checks that, if any transaction has a witness, those that changed something have one.
    fn places(&self) -> Vec<Violation> {
        if self.transactions.iter().all(|transaction| transaction.witness.is_none()) {
            return Vec::new();
        }
        let transactions = self.transactions.iter().enumerate();
        let placeless = transactions.filter(|(_, transaction)| {
            let committed = transaction.status == Status::Committed;
            committed && transaction.dot().is_none() && transaction.has_changed_something()
        });
        placeless.map(|(transaction, _)| Violation::NoPlace { transaction }).collect()
    }

    /// Checks that each transaction observes the earlier writes of its session, and the writes that
    /// its session has read.
    fn sessions(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        let changers = self.changers();
        let mut sessions: BTreeMap<usize, Past> = BTreeMap::new();
        for later in (0..self.transactions.len()).filter(|t| self.is_judged(*t)) {
            let transaction = &self.transactions[later];
            let past = sessions.entry(transaction.session).or_insert_with(|| Past {
                earlier: Vec::new(),
                written: vec![0; self.writers.len().div_ceil(64)],
                read: vec![0; self.writers.len().div_ceil(64)],
            });
            if let Some(at) = first_missing(&past.written, &self.observed[later]) {
                violations.push(Violation::SessionOrder { earlier: self.writers[at], later });
            }
            if let Some(at) = first_missing(&past.read, &self.observed[later]) {
                violations.extend(self.forgotten(&past.earlier, at, later));
            }
            if transaction.status == Status::Committed {
                past.earlier.push(later);
                for key in keys_answered(transaction) {
                    if let Some(changers) = changers.get(key) {
                        let seen = changers.iter().zip(&self.observed[later]);
                        past.read.iter_mut().zip(seen).for_each(|(r, (c, o))| *r |= c & o);
                    }
                }
                // A transaction that certified only reads has no effects that others could observe.
                if let Some(at) = self.positions[later]
                    && transaction.operations.iter().any(|operation| operation.op.is_update())
                {
                    past.written[at / 64] |= 1 << (at % 64);
                }
            }
        }
        violations
    }

    /// For each key, returns the transactions that changed it, as bit sets over positions.
    fn changers(&self) -> BTreeMap<&'a str, Vec<u64>> {
        let words = self.writers.len().div_ceil(64);
        let sets = self.writers_of.iter().map(|(key, positions)| {
            let mut bits = vec![0u64; words];
            for at in positions {
                if self.transactions[self.writers[*at]].changes(key) {
                    bits[at / 64] |= 1 << (at % 64);
                }
            }
            (*key, bits)
        });
        sets.collect()
    }

    /// Returns the violation if a read of one of `earlier` observed the write at position `at`,
    /// which `later` misses.
    fn forgotten(&self, earlier: &[usize], at: usize, later: usize) -> Option<Violation> {
        let write = self.writers[at];
        let readers = earlier.iter().copied().filter(|earlier| self.observes(*earlier, at));
        let mut reads =
            readers.flat_map(|t| keys_answered(&self.transactions[t]).map(move |key| (t, key)));
        let (earlier, key) = reads.find(|(_, key)| self.transactions[write].changes(key))?;
        Some(Violation::NonMonotonicRead { earlier, later, write, key: key.to_owned() })
    }

    /// Recomputes every answer.
    fn answers(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        for t in (0..self.transactions.len()).filter(|t| self.is_judged(*t)) {
            let mut keys: BTreeMap<&str, Key> = BTreeMap::new();
            for operation in &self.transactions[t].operations {
                let key = keys.entry(&operation.key).or_insert_with(|| {
                    self.state(&operation.key, self.writing(&operation.key), Some(t))
                });
                let expected = key.answer(&operation.op);
                if has_effect(&operation.op, &expected) {
                    key.apply(&operation.op, usize::MAX, LAST, &|_| true);
                }
                if let Some(got) = &operation.answer
                    && *got != expected
                {
                    violations.push(Violation::WrongAnswer {
                        transaction: t,
                        key: operation.key.clone(),
                        op: operation.op.clone(),
                        expected,
                        got: got.clone(),
                    });
                }
            }
        }
        violations
    }

    /// Returns the state of a key that its writers make: all of them, or those that `reader`
    /// observes.
    fn state(&self, key: &str, positions: &[usize], reader: Option<usize>) -> Key {
        let mut state = Key::default();
        for position in positions.iter().copied() {
            if reader.is_some_and(|reader| !self.observes(reader, position)) {
                continue;
            }
            let writer = self.writers[position];
            let dot = self.transactions[writer].dot().unwrap_or((0, Origin::Site(0)));
            let observed = |other: usize| other == position || self.observes(writer, other);
            for (at, operation) in self.transactions[writer].operations.iter().enumerate() {
                if operation.key == key && !self.refused[position][at] {
                    state.apply(&operation.op, position, dot, &observed);
                }
            }
        }
        state
    }
}

/// A session's past that its later transactions must observe.
struct Past {
    /// Its committed transactions.
    earlier: Vec<usize>,
    /// Positions of the session's writes.
    written: Vec<u64>,
    /// Positions of changes that its reads observed.
    read: Vec<u64>,
}

/// Returns the first position that is in `owed` and not in `observed`.
fn first_missing(owed: &[u64], observed: &[u64]) -> Option<usize> {
    let word = owed.iter().zip(observed).position(|(owed, observed)| owed & !observed != 0)?;
    Some(word * 64 + (owed[word] & !observed[word]).trailing_zeros() as usize)
}

fn keys_answered(transaction: &Transaction) -> impl Iterator<Item = &str> {
    let answered = transaction.operations.iter().filter(|operation| operation.answer.is_some());
    answered.map(|operation| operation.key.as_str())
}

fn writers_of<'a>(
    transactions: &'a [Transaction],
    writers: &[usize],
) -> BTreeMap<&'a str, Vec<usize>> {
    let mut writers_of: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (position, writer) in writers.iter().enumerate() {
        let updates = transactions[*writer].operations.iter().filter(|o| o.op.is_update());
        for operation in updates {
            let positions = writers_of.entry(&operation.key).or_default();
            if positions.last() != Some(&position) {
                positions.push(position);
            }
        }
    }
    writers_of
}

/// Returns the final contents of each key if exactly the transactions in `visible` survive.
pub(crate) fn final_answers(
    history: &History,
    visible: impl Fn(usize) -> bool,
    keys: &[&str],
) -> Vec<[Answer; 3]> {
    let order = Order::new(history);
    keys.iter()
        .map(|key| {
            let mut positions = order.writing(key).to_vec();
            positions.retain(|at| visible(order.writers[*at]));
            let state = order.state(key, &positions, None);
            [state.answer(&Op::Get), state.answer(&Op::Members), state.answer(&Op::Pairs)]
        })
        .collect()
}

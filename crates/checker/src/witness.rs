//! Verifies the causal order that the system under test exhibits.

use std::collections::BTreeMap;

use crate::history::{Answer, History, Op, Status, Transaction, Violation};
use crate::model::Key;

/// Checks that the witnesses order the transactions as transactional causal consistency demands, and
/// that every answer follows from that order.
pub fn check(history: &History) -> Vec<Violation> {
    let order = Order::new(history);
    let mut violations = order.dots();
    violations.extend(order.transitivity());
    violations.extend(order.sessions());
    violations.extend(order.answers());
    violations
}

/// The transactions with a place, and who observes whom.
struct Order<'a> {
    transactions: &'a [Transaction],
    /// Those that took effect, by dot; an extension of the claimed order.
    writers: Vec<usize>,
    /// `observed[t]`, as a bit set over positions in `writers`.
    observed: Vec<Vec<u64>>,
}

impl<'a> Order<'a> {
    fn new(history: &'a History) -> Self {
        let transactions = &history.transactions;
        let mut writers: Vec<usize> = (0..transactions.len())
            .filter(|t| transactions[*t].took_effect() && !transactions[*t].is_eventual())
            .collect();
        writers.sort_by_key(|t| transactions[*t].dot());
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
        Order { transactions, writers, observed }
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
        let same = |pair: &[usize]| {
            (self.transactions[pair[0]].dot() == self.transactions[pair[1]].dot())
                .then(|| Violation::SameDot { first: pair[0], second: pair[1] })
        };
        self.writers.windows(2).filter_map(same).collect()
    }

    /// `first ≺ second ≺ third` implies `first ≺ third`, and dots follow the order.
    fn transitivity(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        for (at, second) in self.writers.iter().enumerate() {
            for before in self.observed_by(*second) {
                if before >= at {
                    let first = self.writers[before];
                    violations.push(Violation::TimeAgainstCausality { first, second: *second });
                }
            }
        }
        for third in (0..self.transactions.len()).filter(|t| self.is_judged(*t)) {
            for at in self.observed_by(third) {
                let second = self.writers[at];
                let missing = self.observed[second]
                    .iter()
                    .zip(&self.observed[third])
                    .position(|(theirs, mine)| theirs & !mine != 0);
                if let Some(word) = missing {
                    let bits = self.observed[second][word] & !self.observed[third][word];
                    let first = self.writers[word * 64 + bits.trailing_zeros() as usize];
                    violations.push(Violation::Intransitive { first, second, third });
                }
            }
        }
        violations
    }

    /// Each transaction observes the earlier writes of its session, and what its session has read.
    fn sessions(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        let mut last: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let position: BTreeMap<usize, usize> =
            self.writers.iter().enumerate().map(|(position, t)| (*t, position)).collect();
        for later in (0..self.transactions.len()).filter(|t| self.is_judged(*t)) {
            let session = self.transactions[later].session;
            let earlier = last.entry(session).or_default();
            for earlier in earlier.iter().copied() {
                let committed = self.transactions[earlier].status == Status::Committed;
                if let Some(position) = position.get(&earlier)
                    && committed
                    && !self.observes(later, *position)
                {
                    violations.push(Violation::SessionOrder { earlier, later });
                }
                if committed {
                    violations.extend(self.forgotten(earlier, later));
                }
            }
            // Observation is transitive, so only the latest need be looked at.
            earlier.push(later);
            if earlier.len() > 3 {
                earlier.remove(0);
            }
        }
        violations
    }

    /// A write to a key that `earlier` read, which it saw and `later` does not.
    fn forgotten(&self, earlier: usize, later: usize) -> Option<Violation> {
        for at in self.observed_by(earlier).filter(|at| !self.observes(later, *at)) {
            let write = self.writers[at];
            for operation in &self.transactions[earlier].operations {
                let touches = self.transactions[write].changes(&operation.key);
                if touches && operation.answer.is_some() {
                    let key = operation.key.clone();
                    return Some(Violation::NonMonotonicRead { earlier, later, write, key });
                }
            }
        }
        None
    }

    /// Recomputes every answer.
    fn answers(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        let mut by_key: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (position, writer) in self.writers.iter().enumerate() {
            for operation in &self.transactions[*writer].operations {
                let positions = by_key.entry(&operation.key).or_default();
                if operation.op.is_update() && positions.last() != Some(&position) {
                    positions.push(position);
                }
            }
        }
        for t in (0..self.transactions.len()).filter(|t| self.is_judged(*t)) {
            let mut keys: BTreeMap<&str, Key> = BTreeMap::new();
            for operation in &self.transactions[t].operations {
                let key = keys.entry(&operation.key).or_insert_with(|| {
                    let writers = by_key.get(operation.key.as_str());
                    self.state(&operation.key, writers.map_or(&[], Vec::as_slice), Some(t))
                });
                let expected = key.answer(&operation.op);
                if expected != Answer::Error {
                    let dot = (u64::MAX, usize::MAX);
                    key.apply(&operation.op, usize::MAX, dot, &|_| true);
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

    /// The state of a key made by its writers: all of them, or those that `reader` observes.
    fn state(&self, key: &str, positions: &[usize], reader: Option<usize>) -> Key {
        let mut state = Key::default();
        for position in positions.iter().copied() {
            if reader.is_some_and(|reader| !self.observes(reader, position)) {
                continue;
            }
            let writer = self.writers[position];
            let dot = self.transactions[writer].dot().unwrap_or((0, 0));
            let observed = |other: usize| other == position || self.observes(writer, other);
            for (at, operation) in self.transactions[writer].operations.iter().enumerate() {
                if operation.key == key && !self.is_refused(writer, at, positions) {
                    state.apply(&operation.op, position, dot, &observed);
                }
            }
        }
        state
    }

    /// Whether an operation was refused and had no effect. Its answer tells; where the client never
    /// learned it, what its transaction observed tells.
    fn is_refused(&self, t: usize, at: usize, positions: &[usize]) -> bool {
        let operations = &self.transactions[t].operations;
        if let Some(answer) = &operations[at].answer {
            return *answer == Answer::Error;
        }
        let key = &operations[at].key;
        let mut state = self.state(key, positions, Some(t));
        for operation in operations[..at].iter().filter(|operation| operation.key == *key) {
            if state.answer(&operation.op) != Answer::Error {
                state.apply(&operation.op, usize::MAX, (u64::MAX, usize::MAX), &|_| true);
            }
        }
        state.answer(&operations[at].op) == Answer::Error
    }

    /// The positions of the transactions that write a key.
    fn writers_of(&self, key: &str) -> Vec<usize> {
        let positions = 0..self.writers.len();
        positions.filter(|at| self.transactions[self.writers[*at]].writes(key)).collect()
    }
}

/// What a key holds in the end when the transactions that `visible` names are all there.
pub(crate) fn final_answers(
    history: &History,
    visible: impl Fn(usize) -> bool,
    keys: &[&str],
) -> Vec<[Answer; 3]> {
    let order = Order::new(history);
    keys.iter()
        .map(|key| {
            let mut positions = order.writers_of(key);
            positions.retain(|at| visible(order.writers[*at]));
            let state = order.state(key, &positions, None);
            [state.answer(&Op::Get), state.answer(&Op::Members), state.answer(&Op::Pairs)]
        })
        .collect()
}

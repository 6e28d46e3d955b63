//! Linearizability of single keys, from answers and times alone.
//!
//! Searches for an order in which a single copy would have returned the recorded answers, and which
//! agrees with real time: no operation precedes one that ended before it began. The algorithm is
//! that of Wing and Gong, "Testing and verifying concurrent objects" (1993), with the cache of
//! configurations of Lowe, "Testing for linearizability" (2017). Judges a key if all its updates
//! are at level [`Linearizable`](crate::Level::Linearizable) and have times. Reads at weaker levels
//! have no place in the order. All other operations of a transaction on the key form one step.
//! Since linearizability is local, each key may be judged alone. A transaction whose outcome is
//! unknown takes effect at any time after it began, or never.

mod helping;

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{History, Level, Op, Operation, Status};
use crate::sequential::{Undo, Value};
use crate::violation::Violation;

/// Number of steps that [`check`] tries per key, which take a few seconds. A key that needs more is
/// not judged.
pub const STEPS: usize = 1_000_000;

/// Result of the search for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is an order.
    Linearizable,
    /// No order contains this transaction and all transactions that were answered before it.
    Violated(usize),
    /// The search used up its steps.
    Undecided,
}

/// Reports the keys that have no order.
pub fn check(history: &History) -> Vec<Violation> {
    let verdicts = verdicts(history, STEPS).into_iter();
    verdicts
        .filter_map(|(key, verdict)| match verdict {
            Verdict::Violated(transaction) => {
                Some(Violation::NotLinearizable { key: key.to_owned(), transaction })
            }
            Verdict::Linearizable | Verdict::Undecided => None,
        })
        .collect()
}

/// Judges every key that can be judged, with at most `steps` steps for each.
pub fn verdicts(history: &History, steps: usize) -> BTreeMap<&str, Verdict> {
    let calls = calls(history).into_iter();
    calls.map(|(key, calls)| (key, Search::new(calls).run(steps))).collect()
}

/// The operations of one transaction on a key.
struct Call<'a> {
    transaction: usize,
    invoked: u64,
    /// Latest time at which it ended.
    answered: u64,
    /// Whether it certainly took effect.
    known: bool,
    operations: Vec<&'a Operation>,
}

impl Call<'_> {
    /// Returns whether it changes nothing, at any position.
    fn is_read(&self) -> bool {
        self.operations.iter().all(|operation| !operation.has_changed())
    }

    /// Returns whether it overwrites all earlier contents without reading them.
    fn overwrites(&self) -> bool {
        matches!(self.operations[0].op, Op::Set(_))
    }

    fn does_as(&self, other: &Call<'_>) -> bool {
        let parts = |operation: &&Operation| (operation.op.clone(), operation.answer.clone());
        self.operations.iter().map(parts).eq(other.operations.iter().map(parts))
    }
}

/// Returns the calls of each key that can be judged.
fn calls(history: &History) -> BTreeMap<&str, Vec<Call<'_>>> {
    let mut calls: BTreeMap<&str, Vec<Call<'_>>> = BTreeMap::new();
    let mut unfit: BTreeSet<&str> = BTreeSet::new();
    for (t, transaction) in history.transactions.iter().enumerate() {
        let mut here: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
        for operation in &transaction.operations {
            if operation.level == Level::Linearizable {
                here.entry(&operation.key).or_default().push(operation);
            } else if operation.op.is_update() {
                unfit.insert(&operation.key);
            }
        }
        if transaction.status == Status::Aborted {
            continue;
        }
        let known = transaction.status == Status::Committed;
        for (key, operations) in here {
            let Some(interval) = transaction.interval else {
                unfit.insert(key);
                continue;
            };
            let answered = if known { interval.answered } else { None }.unwrap_or(u64::MAX);
            let invoked = interval.invoked;
            let call = Call { transaction: t, invoked, answered, known, operations };
            if known || !call.is_read() {
                calls.entry(key).or_default().push(call);
            }
        }
    }
    calls.retain(|key, _| !unfit.contains(key));
    calls
}

struct Search<'a> {
    /// The known calls, then the unknown ones, each part by the time of invocation.
    calls: Vec<Call<'a>>,
    known: usize,
    /// For each call, the previous call with an unknown outcome and the same operations.
    twins: Vec<Option<usize>>,
    done: Vec<bool>,
    /// All known calls before this one are done.
    first: usize,
    left: usize,
    value: Value,
    /// Whether all unknown calls are [plain](Call::is_plain).
    plain: bool,
    /// Configurations that were tried: the calls that are done, the fingerprint of the resulting
    /// value, and the known call that the last one is to help.
    tried: BTreeSet<(Vec<usize>, u64, Option<usize>)>,
}

/// A candidate for the next call, and if its outcome is unknown, the known call that it is to help.
#[derive(Clone, Copy)]
struct Choice {
    call: usize,
    helped: Option<usize>,
}

/// A step of the search: the call, how to undo it, and the candidates that follow.
struct Step {
    done: Option<Choice>,
    undo: Undo,
    /// Candidates for the next call; the last one is tried first.
    choices: Vec<Choice>,
}

impl<'a> Search<'a> {
    fn new(mut calls: Vec<Call<'a>>) -> Self {
        calls.sort_by_key(|call| (!call.known, call.invoked));
        let known = calls.iter().filter(|call| call.known).count();
        let same = |at: &usize| (known..*at).rev().find(|other| calls[*other].does_as(&calls[*at]));
        let twins = (0..calls.len()).map(|at| if at < known { None } else { same(&at) }).collect();
        Search {
            known,
            twins,
            done: vec![false; calls.len()],
            first: 0,
            left: known,
            value: Value::default(),
            plain: calls[known..].iter().all(Call::is_plain),
            tried: BTreeSet::new(),
            calls,
        }
    }

    fn run(mut self, steps: usize) -> Verdict {
        let mut path = vec![Step { done: None, undo: Undo::new(), choices: self.choices(None) }];
        // End of the longest order.
        let mut furthest = (usize::MAX, None);
        for _ in 0..steps {
            if self.left == 0 {
                return Verdict::Linearizable;
            }
            if self.left < furthest.0 {
                furthest = (self.left, self.next_answered());
            }
            let Some(step) = path.last_mut() else { break };
            match step.choices.pop() {
                Some(choice) => {
                    let after_unknown = step.done.is_some_and(|done| done.helped.is_some());
                    if let Some(undo) = self.take(choice, after_unknown) {
                        let choices = self.choices(choice.helped);
                        path.push(Step { done: Some(choice), undo, choices });
                    }
                }
                None => {
                    if let Some(Step { done: Some(done), undo, .. }) = path.pop() {
                        self.take_back(done.call, undo);
                    }
                }
            }
        }
        match (path.is_empty(), furthest.1) {
            (true, Some(transaction)) => Verdict::Violated(transaction),
            _ => Verdict::Undecided,
        }
    }

    /// Returns the earliest end of a known call that is not done. A call that began later cannot be
    /// next.
    fn limit(&self) -> u64 {
        let mut limit = u64::MAX;
        for (call, done) in self.calls[..self.known].iter().zip(&self.done).skip(self.first) {
            if call.invoked > limit {
                break;
            }
            if !done {
                limit = limit.min(call.answered);
            }
        }
        limit
    }

    fn next_answered(&self) -> Option<usize> {
        let left = (self.first..self.known).filter(|at| !self.done[*at]);
        left.min_by_key(|at| self.calls[*at].answered).map(|at| self.calls[at].transaction)
    }

    /// Returns the candidates for the next call, the most promising last. After an unknown call,
    /// these are the call that it is to help, and other unknown calls that may help it, too.
    fn choices(&mut self, helped: Option<usize>) -> Vec<Choice> {
        let limit = self.limit();
        let mut known: Vec<usize> = match helped {
            Some(helped) => vec![helped],
            None => (self.first..self.known)
                .take_while(|at| self.calls[*at].invoked <= limit)
                .filter(|at| !self.done[*at])
                .collect(),
        };
        let known_choice = |call: usize| Choice { call, helped: None };
        // A read with the recorded answer affects no other call, so it need not be tried later.
        if let Some(read) = known.iter().find(|at| self.is_matching_read(**at)) {
            return vec![known_choice(*read)];
        }
        known.sort_by_key(|at| std::cmp::Reverse(self.calls[*at].answered));
        let unknown = (self.known..self.calls.len())
            .take_while(|at| self.calls[*at].invoked <= limit)
            .filter(|at| !self.done[*at] && self.twins[*at].is_none_or(|twin| self.done[twin]));
        let unknown: Vec<usize> = unknown.collect();
        let helping = known.iter().flat_map(|helped| {
            let helpful = unknown.iter().filter(|call| self.may_help(**call, *helped));
            helpful.map(|call| Choice { call: *call, helped: Some(*helped) })
        });
        let helping: Vec<Choice> = helping.collect();
        helping.into_iter().chain(known.into_iter().map(known_choice)).collect()
    }

    fn may_help(&self, unknown: usize, known: usize) -> bool {
        let (unknown, known) = (&self.calls[unknown], &self.calls[known]);
        !known.overwrites() && (!self.plain || unknown.may_help(known))
    }

    fn is_matching_read(&mut self, call: usize) -> bool {
        let mut undo = Undo::new();
        let matches =
            self.calls[call].is_read() && answers(&mut self.value, &self.calls[call], &mut undo);
        self.value.take_back(undo);
        matches
    }

    /// Executes a call, if it returns its recorded answers, leads to a configuration that was not
    /// tried, and has an effect where it must help another call.
    fn take(&mut self, choice: Choice, after_unknown: bool) -> Option<Undo> {
        let Choice { call, helped } = choice;
        // The call overwrites the effect of the unknown call before it, so the same order without
        // the unknown call is tried as well.
        if after_unknown && self.calls[call].overwrites() {
            return None;
        }
        let mut undo = Undo::new();
        let matches = answers(&mut self.value, &self.calls[call], &mut undo);
        if !matches || (helped.is_some() && undo.is_empty()) {
            self.value.take_back(undo);
            return None;
        }
        self.mark(call, true);
        let configuration = (self.all_done(), self.value.fingerprint(), helped);
        if !self.tried.insert(configuration) {
            self.take_back(call, undo);
            return None;
        }
        Some(undo)
    }

    fn take_back(&mut self, call: usize, undo: Undo) {
        self.value.take_back(undo);
        self.mark(call, false);
    }

    fn mark(&mut self, call: usize, done: bool) {
        self.done[call] = done;
        if call >= self.known {
            return;
        }
        self.left = if done { self.left - 1 } else { self.left + 1 };
        self.first = self.first.min(call);
        while self.first < self.known && self.done[self.first] {
            self.first += 1;
        }
    }

    /// Returns the set of done calls: the number of leading known ones, and the others.
    fn all_done(&self) -> Vec<usize> {
        let limit = self.limit();
        let near = (self.first..self.known).take_while(|at| self.calls[*at].invoked <= limit);
        let beyond = near.chain(self.known..self.calls.len()).filter(|at| self.done[*at]);
        std::iter::once(self.first).chain(beyond).collect()
    }
}

/// Executes a call. Returns whether it gives the recorded answers.
fn answers(value: &mut Value, call: &Call<'_>, undo: &mut Undo) -> bool {
    call.operations.iter().all(|operation| {
        let answer = value.execute(&operation.op, undo);
        operation.answer.as_ref().is_none_or(|recorded| *recorded == answer)
    })
}

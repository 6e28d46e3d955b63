//! Guarantees of strong transactions beyond causal consistency, judged by their strong timestamps.
//!
//! Conflict Ordering (UniStore §3) with Property 5: of two strong transactions that conflict, the
//! one with the greater strong timestamp observes the other. A conflicting operation without
//! effect, such as a read, is ordered by its timestamp alone, because other transactions cannot
//! observe it. Linearizable keys also follow real time.
//!
//! [`crate::witness`] checks strong transactions in all other respects, like causal ones.

use std::collections::BTreeMap;

use crate::history::{History, Level, Op, Operation, Status, Transaction};
use crate::violation::Violation;

/// Checks that strong operations were certified, that conflicting transactions observe one another
/// in the order of their strong timestamps, and that linearizable keys follow real time.
pub fn check(history: &History) -> Vec<Violation> {
    let mut violations = not_certified(history);
    for (key, transactions) in by_key(history) {
        violations.extend(conflicts_without_order(history, key, &transactions));
        violations.extend(late(history, key, &transactions));
    }
    violations
}

/// Reports changes by strong operations in transactions whose commit time is a site's.
fn not_certified(history: &History) -> Vec<Violation> {
    let transactions = history.transactions.iter().enumerate();
    let causal = transactions.filter(|(_, t)| t.took_effect() && t.strong_time().is_none());
    causal
        .filter_map(|(transaction, t)| {
            let changed = t.operations.iter().find(|o| o.level.is_strong() && o.has_changed())?;
            Some(Violation::NotCertified { transaction, key: changed.key.clone() })
        })
        .collect()
}

/// For each key with strong operations, returns the transactions that have one there, in the order
/// of the history.
fn by_key(history: &History) -> BTreeMap<&str, Vec<usize>> {
    let mut by_key: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (t, transaction) in history.transactions.iter().enumerate() {
        for operation in transaction.operations.iter().filter(|o| o.level.is_strong()) {
            let transactions = by_key.entry(&operation.key).or_default();
            if transactions.last() != Some(&t) {
                transactions.push(t);
            }
        }
    }
    by_key
}

/// For each certified transaction, reports one that it should observe and does not.
fn conflicts_without_order(history: &History, key: &str, all: &[usize]) -> Vec<Violation> {
    let transactions = &history.transactions;
    let effective = all.iter().copied().filter(|t| transactions[*t].took_effect());
    let mut certified: Vec<(u64, usize)> =
        effective.filter_map(|t| Some((transactions[t].strong_time()?, t))).collect();
    certified.sort_unstable();
    let mut violations = Vec::new();
    for (at, (time, second)) in certified.iter().enumerate() {
        let missed = certified[..at].iter().rev().find(|(before, first)| {
            let (first, second) = (&transactions[*first], &transactions[*second]);
            before < time
                && !observes(second, first)
                && must_be_observed(history, key, first, second)
        });
        if let Some((_, first)) = missed {
            let (first, second, key) = (*first, *second, key.to_owned());
            violations.push(Violation::ConflictOrder { first, second, key });
        }
    }
    violations
}

/// Returns whether `first` changed the key by an operation that conflicts with one of `second`.
fn must_be_observed(
    history: &History,
    key: &str,
    first: &Transaction,
    second: &Transaction,
) -> bool {
    on_key(first, key)
        .filter(|operation| operation.has_changed() && is_certain(operation))
        .any(|operation| on_key(second, key).any(|other| history.conflict(operation, other)))
}

/// Returns whether an operation certainly had an effect, by its answer or by its kind: without an
/// answer, it may have found nothing to change.
fn is_certain(operation: &Operation) -> bool {
    operation.answer.is_some() || matches!(operation.op, Op::Set(_))
}

/// For each transaction at a linearizable key, reports one that it should observe by real time and
/// does not.
fn late(history: &History, key: &str, all: &[usize]) -> Vec<Violation> {
    let transactions = &history.transactions;
    let is_judged = |t: &&usize| {
        let transaction = &transactions[**t];
        transaction.status == Status::Committed
            && transaction.witness.is_some()
            && on_key(transaction, key).any(|o| o.level == Level::Linearizable)
    };
    let judged: Vec<usize> = all.iter().filter(is_judged).copied().collect();
    let writers: Vec<usize> = judged
        .iter()
        .copied()
        .filter(|t| transactions[*t].dot().is_some() && transactions[*t].changes(key))
        .collect();
    judged
        .into_iter()
        .filter_map(|later| {
            let missed = writers.iter().find(|earlier| {
                let (earlier, later) = (&transactions[**earlier], &transactions[later]);
                earlier.is_over_before(later) && !observes(later, earlier)
            })?;
            Some(Violation::RealTime { earlier: *missed, later, key: key.to_owned() })
        })
        .collect()
}

fn on_key<'a>(transaction: &'a Transaction, key: &'a str) -> impl Iterator<Item = &'a Operation> {
    transaction.operations.iter().filter(move |operation| operation.key == key)
}

fn observes(transaction: &Transaction, other: &Transaction) -> bool {
    match (&transaction.witness, &other.witness) {
        (Some(mine), Some(theirs)) => mine.observes(theirs),
        _ => false,
    }
}

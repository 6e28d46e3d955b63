//! Checks convergence after healing: all sites return the same answers, and transactions that must
//! survive have survived.

use std::collections::BTreeMap;

use crate::history::{FinalRead, History, Level, Operation, Origin, Status};
use crate::violation::Violation;
use crate::witness::final_answers;

/// Checks that surviving sites return the same answers, that only transactions of destroyed sites
/// are lost, and that the answers follow from all other transactions.
pub fn check(history: &History) -> Vec<Violation> {
    let mut by_key: BTreeMap<&str, Vec<&FinalRead>> = BTreeMap::new();
    for read in &history.finals {
        by_key.entry(&read.key).or_default().push(read);
    }
    let lost = lost(history);
    let mut violations = wrongly_lost(history, &lost);
    violations.extend(seen_then_lost(history));
    // Without witnesses there is no order to derive the final state from.
    let placed = history.transactions.iter().any(|t| t.witness.is_some());
    let keys: Vec<&str> = by_key.keys().copied().collect();
    let made = final_answers(history, |t| !lost[t], &keys);
    for ((key, reads), expected) in by_key.iter().zip(made) {
        let first = reads[0];
        for other in reads[1..].iter().filter(|other| other.answers != first.answers) {
            violations.push(Violation::Divergence {
                key: (*key).to_owned(),
                one: (first.site, first.answers.clone()),
                other: (other.site, other.answers.clone()),
            });
        }
        if placed && expected != first.answers && !is_eventual(history, key) {
            violations.push(Violation::WrongFinalState {
                key: (*key).to_owned(),
                expected,
                got: first.answers.clone(),
            });
        }
    }
    violations
}

/// Returns for each transaction whether it is lost: it was reported lost, or depends on one that
/// was.
fn lost(history: &History) -> Vec<bool> {
    let transactions = &history.transactions;
    let reported: Vec<_> = transactions.iter().filter(|t| t.lost).collect();
    transactions
        .iter()
        .map(|t| {
            let observes = |other: &&&crate::Transaction| match (&t.witness, &other.witness) {
                (Some(mine), Some(theirs)) => mine.observes(theirs),
                _ => false,
            };
            t.lost || reported.iter().any(|other| observes(&other))
        })
        .collect()
}

/// Checks Eventual Visibility (UniStore §3): a transaction that commits at a surviving site becomes
/// visible, and so does every strong transaction, regardless of its site.
fn wrongly_lost(history: &History, lost: &[bool]) -> Vec<Violation> {
    let transactions = history.transactions.iter().enumerate();
    transactions
        .filter(|(t, _)| lost[*t])
        .filter_map(|(t, transaction)| match transaction.dot()?.1 {
            Origin::Strong => Some(Violation::StrongLost { transaction: t }),
            Origin::Site(site) if history.destroyed.contains(&site) => None,
            Origin::Site(_) => Some(Violation::Lost { transaction: t }),
        })
        .collect()
}

/// Checks Eventual Visibility (UniStore §3) for readers: transactions that precede one at a
/// surviving site become visible with it.
fn seen_then_lost(history: &History) -> Vec<Violation> {
    let transactions = &history.transactions;
    let lost: Vec<usize> = (0..transactions.len()).filter(|t| transactions[*t].lost).collect();
    let mut violations = Vec::new();
    for (reader, transaction) in transactions.iter().enumerate() {
        let Some(witness) = &transaction.witness else { continue };
        if transaction.status != Status::Committed || history.destroyed.contains(&transaction.site)
        {
            continue;
        }
        let seen = lost.iter().copied().filter(|writer| {
            let other = transactions[*writer].witness.as_ref();
            *writer != reader && other.is_some_and(|other| witness.observes(other))
        });
        for writer in seen {
            let answered = transaction.operations.iter().find(|operation| {
                operation.answer.is_some() && transactions[writer].changes(&operation.key)
            });
            if let Some(Operation { key, .. }) = answered {
                violations.push(Violation::SeenThenLost { reader, writer, key: key.clone() });
            }
        }
    }
    violations
}

fn is_eventual(history: &History, key: &str) -> bool {
    let operations = history.transactions.iter().flat_map(|t| &t.operations);
    operations
        .into_iter()
        .any(|operation| operation.key == key && operation.level == Level::Eventual)
}

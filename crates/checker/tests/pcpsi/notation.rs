//! Histories as text.

use std::collections::BTreeMap;

use solera_checker::pcpsi::{History, Operation, Outcome, Read, Transaction, Version, Write};

/// Returns the history of a text. Each line is a transaction; those of a session are in its order:
///
/// ```text
/// 1@2 unknown: w x 1, r x 1, stale y -, del z 2 #5, w z 3 over 2
/// ```
///
/// Session 1 ran this transaction at site 2. Its outcome is unknown; without a word, it committed.
/// It wrote version 1 of `x` and read it; it read no value of `y` and accepted that as stale; it
/// removed `z` with the stamp 5; and it wrote version 3 of `z`, which overwrote version 2.
pub(crate) fn history(text: &str) -> History {
    let mut orders: BTreeMap<usize, usize> = BTreeMap::new();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let transactions = lines.map(|line| {
        let (head, operations) = line.split_once(':').expect("a colon");
        let mut words = head.split_whitespace();
        let place = words.next().expect("a session");
        let (session, site) = place.split_once('@').unwrap_or((place, "0"));
        let outcome = match words.next() {
            None => Outcome::Committed,
            Some("aborted") => Outcome::Aborted,
            Some("unknown") => Outcome::Unknown,
            Some(other) => panic!("the outcome {other}"),
        };
        let session = session.parse().expect("a session");
        let order = orders.entry(session).or_insert(0);
        *order += 1;
        Transaction {
            session,
            order: *order,
            site: site.parse().expect("a site"),
            outcome,
            operations: operations.split(',').map(operation).collect(),
        }
    });
    History { transactions: transactions.collect() }
}

fn operation(text: &str) -> Operation {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [what, key, version, rest @ ..] = &words[..] else { panic!("the operation {text}") };
    let key = (*key).to_owned();
    if matches!(*what, "r" | "stale") {
        let stale = *what == "stale";
        return Operation::Read(Read { key, version: self::version(version), stale });
    }
    let removes = match *what {
        "w" => false,
        "del" => true,
        other => panic!("the operation {other}"),
    };
    let id = version.parse().expect("a number");
    let mut write = Write { key, id, removes, stamp: None, overwrote: None };
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        match word.strip_prefix('#') {
            Some(stamp) => write.stamp = Some(stamp.parse().expect("a stamp")),
            None => write.overwrote = Some(self::version(rest.next().expect("a version"))),
        }
    }
    Operation::Write(write)
}

fn version(word: &str) -> Version {
    match word {
        "-" => Version::Absent,
        id => Version::Of(id.parse().expect("a number")),
    }
}

//! Comparison with a checker that tries all orders of versions, and determines by all paths whether
//! one transaction leads to another.

use solera_checker::pcpsi::{
    History, Operation, Outcome, Read, Transaction, Version, Violation, Write, check,
};

use crate::random::Random;

/// Whether a history has cycles of the two kinds, for one order of versions.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Cycles {
    circular: bool,
    missed: bool,
}

/// A version: transaction, number, whether it is a removal, stamp.
type Made = (usize, u64, bool, Option<u64>);

/// Tries all orders of versions.
struct Naive<'a> {
    transactions: &'a [Transaction],
    effective: Vec<bool>,
    keys: Vec<String>,
}

impl<'a> Naive<'a> {
    fn new(history: &'a History) -> Self {
        let transactions = &history.transactions;
        let committed = |one: &Transaction| one.outcome == Outcome::Committed;
        let mut effective: Vec<bool> = transactions.iter().map(committed).collect();
        // Observed transactions count, at most as many times as there are transactions.
        for _ in transactions {
            for reader in 0..transactions.len() {
                for (key, version) in reads(&transactions[reader]) {
                    let writes = |one: &Transaction| made(one, &key).map(|made| made.0) == version;
                    let writer = transactions.iter().position(writes);
                    if let (Some(writer), Some(_), true) = (writer, version, effective[reader]) {
                        effective[writer] = true;
                    }
                }
            }
        }
        let mut keys: Vec<String> =
            transactions.iter().flat_map(|one| one.operations.iter().map(key_of)).collect();
        keys.sort();
        keys.dedup();
        Naive { transactions, effective, keys }
    }

    /// Returns the versions of a key.
    fn versions(&self, key: &str) -> Vec<Made> {
        let transactions = self.transactions.iter().enumerate();
        let effective = transactions.filter(|(t, _)| self.effective[*t]);
        effective
            .filter_map(|(t, one)| {
                made(one, key).map(|(id, removes, stamp)| (t, id, removes, stamp))
            })
            .collect()
    }

    /// Returns the cycles for each order of versions.
    fn verdicts(&self) -> Vec<Cycles> {
        let mut orders: Vec<Vec<Vec<Made>>> = vec![Vec::new()];
        for key in &self.keys {
            let of_key = permutations(&self.versions(key));
            let of_key: Vec<_> = of_key.into_iter().filter(|order| follows_stamps(order)).collect();
            orders = orders
                .iter()
                .flat_map(|order| {
                    of_key.iter().map(|of_key| [order.clone(), vec![of_key.clone()]].concat())
                })
                .collect();
        }
        orders.iter().flat_map(|order| self.assignments(order)).collect()
    }

    /// Returns the cycles for an order, for each removal that reads of no value may have read.
    fn assignments(&self, order: &[Vec<Made>]) -> Vec<Cycles> {
        // Position of each read in the order of its key: 0 for the initial version.
        let mut choices: Vec<(usize, usize, Vec<usize>)> = Vec::new();
        for (t, one) in self.transactions.iter().enumerate().filter(|(t, _)| self.effective[*t]) {
            for (name, version) in reads(one) {
                let key = self.keys.iter().position(|key| *key == name).unwrap();
                let fits = |(_, id, removes, _): &Made| match version {
                    Some(version) => *id == version,
                    None => *removes,
                };
                let at = (1..=order[key].len()).filter(|at| fits(&order[key][at - 1]));
                let initial = version.is_none().then_some(0);
                choices.push((t, key, initial.into_iter().chain(at).collect()));
            }
        }
        let mut assignments: Vec<Vec<(usize, usize, usize)>> = vec![Vec::new()];
        for (t, key, places) in &choices {
            assignments = assignments
                .iter()
                .flat_map(|chosen| {
                    places.iter().map(|at| [chosen.clone(), vec![(*t, *key, *at)]].concat())
                })
                .collect();
        }
        assignments.iter().map(|reads| self.cycles(order, reads)).collect()
    }

    fn cycles(&self, order: &[Vec<Made>], reads: &[(usize, usize, usize)]) -> Cycles {
        let n = self.transactions.len();
        let mut leads = vec![vec![false; n]; n];
        let mut misses = Vec::new();
        for (one, other) in (0..n).flat_map(|one| (0..n).map(move |other| (one, other))) {
            let (first, second) = (&self.transactions[one], &self.transactions[other]);
            if self.effective[one]
                && self.effective[other]
                && first.outcome == Outcome::Committed
                && first.session == second.session
                && first.order < second.order
            {
                leads[one][other] = true;
            }
        }
        for versions in order {
            versions.windows(2).for_each(|pair| leads[pair[0].0][pair[1].0] = true);
        }
        for (reader, key, at) in reads {
            if *at > 0 {
                leads[order[*key][at - 1].0][*reader] = true;
            }
            if let Some(next) = order[*key].get(*at).filter(|next| next.0 != *reader) {
                misses.push((*reader, next.0));
            }
        }
        for via in 0..n {
            for (one, other) in (0..n).flat_map(|one| (0..n).map(move |other| (one, other))) {
                leads[one][other] |= leads[one][via] && leads[via][other];
            }
        }
        Cycles {
            circular: (0..n).any(|one| leads[one][one]),
            missed: misses.iter().any(|(reader, missed)| leads[*missed][*reader]),
        }
    }
}

fn key_of(operation: &Operation) -> String {
    match operation {
        Operation::Read(read) => read.key.clone(),
        Operation::Write(write) => write.key.clone(),
    }
}

/// Returns the keys and versions that a transaction read.
fn reads(transaction: &Transaction) -> Vec<(String, Option<u64>)> {
    let shown = transaction.operations.iter().filter_map(|operation| match operation {
        Operation::Read(read) => Some((read.key.clone(), read.version)),
        Operation::Write(write) => Some((write.key.clone(), write.overwrote?)),
    });
    let number = |version| match version {
        Version::Absent => None,
        Version::Of(id) => Some(id),
    };
    shown.map(|(key, version)| (key, number(version))).collect()
}

/// Returns number, removal and stamp of the write of a key.
fn made(transaction: &Transaction, key: &str) -> Option<(u64, bool, Option<u64>)> {
    transaction.operations.iter().find_map(|operation| match operation {
        Operation::Write(write) if write.key == key => Some((write.id, write.removes, write.stamp)),
        _ => None,
    })
}

fn follows_stamps(order: &[Made]) -> bool {
    let stamps: Vec<u64> = order.iter().filter_map(|made| made.3).collect();
    stamps.is_sorted()
}

fn permutations(versions: &[Made]) -> Vec<Vec<Made>> {
    let Some((first, rest)) = versions.split_first() else { return vec![Vec::new()] };
    let mut all = Vec::new();
    for permutation in permutations(rest) {
        for at in 0..=permutation.len() {
            let mut longer = permutation.clone();
            longer.insert(at, *first);
            all.push(longer);
        }
    }
    all
}

/// Contents of random histories.
#[derive(Clone, Copy)]
struct Contents {
    /// Number of writes out of eight that have stamps.
    stamps: usize,
    /// Whether some writes are removals.
    removals: bool,
    /// Maximum number of transactions.
    most: usize,
}

/// Returns a history whose transactions read any versions, most often recent ones.
fn history(random: &mut Random, contents: Contents) -> History {
    let mut transactions: Vec<Transaction> = Vec::new();
    let mut made: [Vec<u64>; 2] = [Vec::new(), Vec::new()];
    for order in 0..2 + random.below(contents.most - 1) {
        let outcome = if random.once_in(8) { Outcome::Unknown } else { Outcome::Committed };
        let mut operations = Vec::new();
        for (at, name) in ["x", "y"].into_iter().enumerate() {
            let key = || name.to_owned();
            let recent = made[at].iter().rev().copied().map(Version::Of);
            let recent = recent.chain([Version::Absent]);
            let version = recent.clone().find(|_| !random.once_in(3)).unwrap_or(Version::Absent);
            let (reads, writes) = (random.once_in(2), random.once_in(2) && made[at].len() < 4);
            if reads {
                operations.push(Operation::Read(Read { key: key(), version, stale: false }));
            }
            if writes {
                let id = (order * 2 + at + 1) as u64;
                // Most stamps are in the order of generation.
                let earlier = if random.once_in(6) { 45 } else { 0 };
                let stamp = (random.below(8) < contents.stamps).then_some(100 + 10 * id - earlier);
                let removes = contents.removals && random.once_in(3);
                let overwrote = (!reads && random.once_in(3)).then_some(version);
                operations.push(Operation::Write(Write {
                    key: key(),
                    id,
                    removes,
                    stamp,
                    overwrote,
                }));
                made[at].push(id);
            }
        }
        let session = random.below(3);
        transactions.push(Transaction {
            session,
            order,
            site: random.below(3),
            outcome,
            operations,
        });
    }
    History { transactions }
}

#[test]
fn verdicts_on_stamped_versions_agree() {
    let (mut legal, mut circular, mut missed) = (0, 0, 0);
    for seed in 0..4000 {
        let contents = Contents { stamps: 8, removals: false, most: 8 };
        let history = history(&mut Random(seed), contents);
        let violations = check(&history);
        let cycles = Naive::new(&history).verdicts();
        let expected = cycles.iter().all(|cycles| cycles.circular || cycles.missed);
        assert_eq!(!violations.is_empty(), expected, "seed {seed}: {violations:#?}\n{history:#?}");
        let is_stamp_error = |one: &Violation| {
            matches!(one, Violation::SameStamp { .. } | Violation::StampsContradict { .. })
        };
        if violations.iter().any(is_stamp_error) {
            continue;
        }
        let found = Cycles {
            circular: violations
                .iter()
                .any(|one| matches!(one, Violation::CircularInformationFlow { .. })),
            missed: violations.iter().any(|one| {
                matches!(one, Violation::MissedEffects { .. } | Violation::LostUpdate { .. })
            }),
        };
        assert_eq!(vec![found], cycles, "seed {seed}: {violations:#?}\n{history:#?}");
        legal += usize::from(violations.is_empty());
        circular += usize::from(found.circular);
        missed += usize::from(found.missed);
    }
    assert!(legal > 400 && circular > 200 && missed > 400, "{legal} {circular} {missed}");
}

/// Requires that each history with a violation is illegal in every order. Returns the numbers of
/// histories that were legal, illegal and found, and illegal and not found.
fn compare(seeds: std::ops::Range<u64>, contents: Contents) -> (usize, usize, usize) {
    let (mut legal, mut found, mut not_found) = (0, 0, 0);
    for seed in seeds {
        let history = history(&mut Random(seed), contents);
        let violations = check(&history);
        let cycles = Naive::new(&history).verdicts();
        let is_legal = cycles.contains(&Cycles::default());
        match (violations.is_empty(), is_legal) {
            (true, true) => legal += 1,
            (false, false) => found += 1,
            (true, false) => not_found += 1,
            (false, true) => panic!("seed {seed}: {violations:#?}\n{history:#?}"),
        }
    }
    (legal, found, not_found)
}

#[test]
fn verdicts_without_stamps_hold_in_every_order() {
    let contents = Contents { stamps: 0, removals: false, most: 7 };
    let (legal, found, not_found) = compare(0..1000, contents);
    println!("without stamps: {legal} legal, {found} found, {not_found} not found");
    assert!(legal > 200 && found > 200 && not_found * 50 < found, "{legal} {found} {not_found}");
}

#[test]
fn verdicts_with_some_stamps_hold_in_every_order() {
    let contents = Contents { stamps: 5, removals: false, most: 7 };
    let (legal, found, not_found) = compare(0..1000, contents);
    println!("some stamps: {legal} legal, {found} found, {not_found} not found");
    assert!(legal > 200 && found > 200 && not_found * 50 < found, "{legal} {found} {not_found}");
}

#[test]
fn verdicts_with_removals_hold_in_every_order() {
    for stamps in [0, 8] {
        let contents = Contents { stamps, removals: true, most: 6 };
        let (legal, found, not_found) = compare(0..1000, contents);
        println!("removals: {legal} legal, {found} found, {not_found} not found");
        assert!(legal > 200 && found > 100 && not_found * 2 < found, "{legal} {found} {not_found}");
    }
}

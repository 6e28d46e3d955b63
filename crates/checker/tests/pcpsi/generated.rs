//! Histories of a model of a store that provides PC-PSI: they are clean, and one wrong read is
//! found.

use std::time::Instant;

use solera_checker::pcpsi::{
    History, Operation, Outcome, Read, Transaction, Version, Violation, Write, check,
};

use crate::random::Random;

/// Number of transactions of each chain. A chain is a session or one transaction of unknown
/// outcome.
type Clock = Vec<u32>;

fn merge(clock: &mut Clock, other: &Clock) {
    clock.resize(clock.len().max(other.len()), 0);
    for (entry, other) in clock.iter_mut().zip(other) {
        *entry = (*entry).max(*other);
    }
}

fn covers(clock: &Clock, chain: usize, place: u32) -> bool {
    clock.get(chain).is_some_and(|entry| *entry >= place)
}

/// A version, and the transaction that wrote it.
struct Made {
    id: u64,
    removes: bool,
    chain: usize,
    place: u32,
    clock: Clock,
}

/// A rule that a store breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    /// A snapshot contains the past of its session.
    SessionPast,
    /// All reads of a transaction use one snapshot.
    OneSnapshot,
    /// A snapshot contains the latest version of each key that the transaction writes.
    LatestOverwritten,
    /// A transaction depends on its snapshot.
    Dependencies,
}

/// Contents of a generated history.
#[derive(Clone, Copy)]
struct Contents {
    sessions: usize,
    transactions: usize,
    keys: usize,
    /// Number of writes out of eight that have stamps, and number that show the overwritten
    /// version.
    stamps: usize,
    overwrites: usize,
    /// Whether some writes are removals.
    removals: bool,
    /// Whether some transactions abort or have an unknown outcome, and some reads are stale.
    faults: bool,
    broken: Option<Broken>,
}

/// A store whose transactions read any snapshot that contains the past of their session, and that
/// commits writes only if the snapshot has the latest version of each key written.
struct Store {
    random: Random,
    contents: Contents,
    keys: Vec<Vec<Made>>,
    /// Chain, clock, and number of transactions of each session.
    sessions: Vec<(usize, Clock, usize)>,
    /// Chain and clock of each transaction.
    committed: Vec<Clock>,
    /// Sessions by chain; `None` for transactions of unknown outcome.
    chains: usize,
    next_id: u64,
    history: History,
}

impl Store {
    fn run(seed: u64, contents: Contents) -> History {
        let sessions = (0..contents.sessions).map(|chain| (chain, Clock::new(), 0)).collect();
        let mut store = Store {
            random: Random(seed),
            contents,
            keys: (0..contents.keys).map(|_| Vec::new()).collect(),
            sessions,
            committed: Vec::new(),
            chains: contents.sessions,
            next_id: 1,
            history: History::default(),
        };
        for _ in 0..contents.transactions {
            store.transaction();
        }
        store.history
    }

    /// Returns distinct keys that a transaction reads, and that it writes.
    fn accesses(&mut self) -> (Vec<usize>, Vec<usize>) {
        let mut some = |most: usize| {
            let count = self.random.below(most + 1);
            let keys = (0..count).map(|_| {
                // Some keys are hot.
                let bound = if self.random.once_in(3) { 3 } else { self.contents.keys };
                self.random.below(bound.min(self.contents.keys))
            });
            let mut keys: Vec<usize> = keys.collect();
            keys.sort_unstable();
            keys.dedup();
            keys
        };
        (some(4), some(2))
    }

    fn transaction(&mut self) {
        let session = self.random.below(self.sessions.len());
        let faults = self.contents.faults;
        let outcome = match self.random.below(20) {
            0 if faults => Outcome::Aborted,
            1 if faults => Outcome::Unknown,
            _ => Outcome::Committed,
        };
        let (reads, writes) = self.accesses();
        let mut snapshot = self.sessions[session].1.clone();
        if self.breaks(Broken::SessionPast) {
            snapshot.clear();
        }
        let older = snapshot.clone();
        if !self.committed.is_empty() && self.random.once_in(2) {
            let recent = self.committed.len().min(50);
            let other = self.committed.len() - 1 - self.random.below(recent);
            merge(&mut snapshot, &self.committed[other]);
        }
        for key in writes.iter().filter(|_| !self.breaks(Broken::LatestOverwritten)) {
            if let Some(latest) = self.keys[*key].last() {
                merge(&mut snapshot, &latest.clock);
            }
        }
        let mut operations = Vec::new();
        for key in &reads {
            let is_torn = self.breaks(Broken::OneSnapshot) && self.random.once_in(4);
            operations.push(self.read(*key, if is_torn { &older } else { &snapshot }));
        }
        let committed = match outcome {
            Outcome::Committed => true,
            Outcome::Aborted => false,
            Outcome::Unknown => self.random.once_in(2),
        };
        let (mut chain, mut place) = (self.sessions[session].0, 1);
        if outcome == Outcome::Unknown {
            chain = self.chains;
            self.chains += 1;
        } else {
            place += self.sessions[session].1.get(chain).copied().unwrap_or(0);
        }
        let mut clock = snapshot.clone();
        if self.breaks(Broken::Dependencies) {
            clock.clone_from(&self.sessions[session].1);
        }
        clock.resize(clock.len().max(chain + 1), 0);
        clock[chain] = place;
        for key in &writes {
            let made =
                Made { id: self.next_id, removes: false, chain, place, clock: clock.clone() };
            operations.push(self.write(*key, &snapshot, made, committed));
        }
        self.commit(session, outcome, operations, clock);
    }

    fn breaks(&self, rule: Broken) -> bool {
        self.contents.broken == Some(rule)
    }

    fn commit(
        &mut self,
        session: usize,
        outcome: Outcome,
        operations: Vec<Operation>,
        clock: Clock,
    ) {
        let (_, known, order) = &mut self.sessions[session];
        *order += 1;
        let order = *order;
        if outcome == Outcome::Committed {
            known.clone_from(&clock);
            self.committed.push(clock);
        }
        let site = self.random.below(3);
        self.history.transactions.push(Transaction { session, order, site, outcome, operations });
    }

    fn read(&mut self, key: usize, snapshot: &Clock) -> Operation {
        let visible = self.keys[key].iter().rev();
        let mut visible = visible.filter(|made| covers(snapshot, made.chain, made.place));
        let mut version = visible.next();
        let stale = self.contents.faults && self.random.once_in(20);
        if stale {
            version = visible.next();
        }
        let version = match version {
            Some(made) if made.removes && self.random.once_in(2) => Version::Absent,
            Some(made) => Version::Of(made.id),
            None => Version::Absent,
        };
        Operation::Read(Read { key: format!("k{key}"), version, stale })
    }

    fn write(&mut self, key: usize, snapshot: &Clock, made: Made, committed: bool) -> Operation {
        let versions = &mut self.keys[key];
        let latest = versions.last();
        let sees = |latest: &Made| covers(snapshot, latest.chain, latest.place);
        assert!(self.contents.broken.is_some() || latest.is_none_or(sees));
        let overwrote = match latest {
            Some(latest) if latest.removes => Version::Absent,
            Some(latest) => Version::Of(latest.id),
            None => Version::Absent,
        };
        let overwrote = (self.random.below(8) < self.contents.overwrites).then_some(overwrote);
        let stamp = (self.random.below(8) < self.contents.stamps).then_some(made.id);
        let removes = self.contents.removals && self.random.once_in(4);
        let id = made.id;
        self.next_id += 1;
        if committed {
            versions.push(Made { removes, ..made });
        }
        Operation::Write(Write { key: format!("k{key}"), id, removes, stamp, overwrote })
    }
}

#[test]
fn histories_of_a_correct_store_are_clean() {
    for seed in 0..400 {
        let mut random = Random(seed);
        let share = [0, 4, 8];
        let contents = Contents {
            sessions: 1 + random.below(8),
            transactions: 80,
            keys: 2 + random.below(8),
            stamps: share[random.below(3)],
            overwrites: share[random.below(3)],
            removals: random.once_in(2),
            faults: random.once_in(2),
            broken: None,
        };
        let violations = check(&Store::run(seed, contents));
        assert!(violations.is_empty(), "seed {seed}: {}", violations[0]);
    }
}

/// Returns the number of histories with a violation, out of 100 histories of a store that breaks a
/// rule.
fn found(broken: Broken, stamps: usize, overwrites: usize) -> usize {
    let contents = Contents {
        sessions: 6,
        transactions: 80,
        keys: 6,
        stamps,
        overwrites,
        removals: false,
        faults: false,
        broken: Some(broken),
    };
    (0..100).filter(|seed| !check(&Store::run(*seed, contents)).is_empty()).count()
}

#[test]
fn broken_stores_are_found() {
    for broken in
        [Broken::SessionPast, Broken::OneSnapshot, Broken::LatestOverwritten, Broken::Dependencies]
    {
        for (stamps, overwrites) in [(8, 0), (0, 8), (0, 0)] {
            let found = found(broken, stamps, overwrites);
            println!("{broken:?}, {stamps}/8 stamps, {overwrites}/8 overwritten: {found} of 100");
            assert!(found >= 90, "{broken:?}, {stamps}, {overwrites}: {found}");
        }
    }
}

/// Judges a large history with and without a wrong read.
fn judge_large(contents: Contents) {
    let mut history = Store::run(1, contents);
    let begin = Instant::now();
    let violations = check(&history);
    println!(
        "{} transactions of {} sessions, {}/8 stamps, {}/8 overwritten versions: {:?}",
        contents.transactions,
        contents.sessions,
        contents.stamps,
        contents.overwrites,
        begin.elapsed()
    );
    assert!(violations.is_empty(), "{}", violations[0]);
    // A session misses its own write.
    let order = contents.transactions;
    let write = Write { key: "new".into(), id: 0, removes: false, stamp: None, overwrote: None };
    let read = Read { key: "new".into(), version: Version::Absent, stale: false };
    for (at, operation) in [Operation::Write(write), Operation::Read(read)].into_iter().enumerate()
    {
        history.transactions.push(Transaction {
            session: 0,
            order: order + at + 1,
            site: at,
            outcome: Outcome::Committed,
            operations: vec![operation],
        });
    }
    let violations = check(&history);
    assert!(matches!(&violations[..], [Violation::MissedEffects { .. }]), "{violations:#?}");
}

#[test]
fn large_histories_are_judged() {
    let transactions = if cfg!(debug_assertions) { 2000 } else { 20_000 };
    let keys = transactions / 20;
    let contents = Contents {
        sessions: 100,
        transactions,
        keys,
        stamps: 8,
        overwrites: 0,
        removals: false,
        faults: false,
        broken: None,
    };
    judge_large(contents);
    judge_large(Contents { faults: true, ..contents });
    judge_large(Contents { stamps: 0, overwrites: 4, ..contents });
    judge_large(Contents { stamps: 0, ..contents });
    judge_large(Contents { sessions: transactions / 4, ..contents });
    for broken in [Broken::SessionPast, Broken::LatestOverwritten] {
        for stamps in [8, 0] {
            let history = Store::run(1, Contents { broken: Some(broken), stamps, ..contents });
            let begin = Instant::now();
            let violations = check(&history);
            println!("{broken:?}, {stamps}/8 stamps: {:?}, {}", begin.elapsed(), violations.len());
            assert!(!violations.is_empty());
        }
    }
}

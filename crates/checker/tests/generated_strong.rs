//! Random histories with strong transactions: those of a store that certifies them pass, and the
//! checkers report the conflicts that a store without certification lets through.

mod single_copy;

use proptest::prelude::*;
use single_copy::{Store, execute};
use solera_checker::{
    History, Interval, Level, Op, Operation, Origin, Status, Transaction, Violation, Witness, check,
};

const SITES: usize = 3;

/// An event in a store.
#[derive(Clone, Debug)]
enum StoreEvent {
    /// A site receives everything that another one has.
    Pulls(usize, usize),
    /// A session runs a transaction: operations on numbered keys of [`KEYS`], with `true` for an
    /// update.
    Runs { session: usize, operations: Vec<(usize, bool)>, before: u64, after: u64 },
}

/// Counters and registers, with their levels. The last is causal.
const KEYS: [(&str, bool); 6] = [
    ("withdraw", true),
    ("deposit", true),
    ("strong register", false),
    ("counter", true),
    ("register", false),
    ("causal", true),
];

fn level(key: usize) -> Level {
    match key {
        0 | 1 => Level::Strong(Some(KEYS[key].0.into())),
        2 => Level::Strong(None),
        5 => Level::Causal,
        _ => Level::Linearizable,
    }
}

/// The first two are kinds of operations on one counter.
fn name(key: usize) -> String {
    if key < 2 { "balance".into() } else { KEYS[key].0.into() }
}

fn events(widest: u64) -> impl Strategy<Value = Vec<StoreEvent>> {
    let site = 0..SITES;
    let pulls = (site.clone(), site).prop_map(|(one, other)| StoreEvent::Pulls(one, other));
    let operations = prop::collection::vec((0..KEYS.len(), any::<bool>()), 1..4);
    let runs = (0..5usize, operations, 0..=widest, 0..=widest).prop_map(
        |(session, operations, before, after)| StoreEvent::Runs {
            session,
            operations,
            before,
            after,
        },
    );
    prop::collection::vec(prop_oneof![pulls, runs.clone(), runs], 1..60)
}

/// A store that replicates without merging: a transaction sees the transactions that its witness
/// observes.
struct Replicated {
    history: History,
    /// Transactions of each site, with the strong entry last.
    sites: Vec<Vec<u64>>,
    /// Whether the store rejects conflicting transactions.
    certifies: bool,
    /// Transactions that it should have rejected.
    wrong: Vec<usize>,
    /// Number of steps so far.
    now: u64,
}

impl Replicated {
    fn run(certifies: bool, events: &[StoreEvent]) -> Replicated {
        let conflicts = vec![("withdraw".into(), "withdraw".into())];
        let history = History { sites: SITES, conflicts, ..History::default() };
        let sites = vec![vec![0; SITES + 1]; SITES];
        let mut store = Replicated { history, sites, certifies, wrong: Vec::new(), now: 0 };
        events.iter().for_each(|event| store.step(event));
        store
    }

    fn step(&mut self, event: &StoreEvent) {
        self.now += 1;
        match event {
            StoreEvent::Pulls(one, other) => {
                let theirs = self.sites[*other].clone();
                let mine = self.sites[*one].iter_mut().zip(theirs);
                mine.for_each(|(mine, theirs)| *mine = theirs.max(*mine));
            }
            StoreEvent::Runs { session, operations, before, after } => {
                let interval = Interval {
                    invoked: (self.now * 10).saturating_sub(*before),
                    answered: Some(self.now * 10 + 1 + after),
                };
                self.transaction(*session, operations, interval);
            }
        }
    }

    fn transaction(&mut self, session: usize, operations: &[(usize, bool)], interval: Interval) {
        let site = session % SITES;
        let snapshot = self.sites[site].clone();
        let witness =
            Witness { snapshot: snapshot[..SITES].to_vec(), strong: snapshot[SITES], dot: None };
        let mut transaction = Transaction {
            session,
            site,
            status: Status::Committed,
            operations: Vec::new(),
            witness: Some(witness),
            interval: Some(interval),
            lost: false,
        };
        for (key, update) in operations {
            let operation = self.operation(&transaction, *key, *update);
            transaction.operations.push(operation);
        }
        let strong = transaction.is_strong();
        let refused = strong && self.conflicts(&transaction);
        if refused && self.certifies {
            transaction.status = Status::Aborted;
        } else if strong || transaction.operations.iter().any(|o| o.op.is_update()) {
            let origin = if strong { Origin::Strong } else { Origin::Site(site) };
            transaction.witness.as_mut().unwrap().dot = Some((self.now, origin));
            self.sites[site][if strong { SITES } else { site }] = self.now;
        }
        if refused {
            self.wrong.push(self.history.transactions.len());
        }
        self.history.transactions.push(transaction);
    }

    /// Executes an operation on everything that the transaction observes and on its own writes.
    fn operation(&self, transaction: &Transaction, key: usize, update: bool) -> Operation {
        let counts = KEYS[key].1;
        let key_name = name(key);
        let witness = transaction.witness.as_ref().unwrap();
        let observes = |other: &&Transaction| {
            other.status == Status::Committed && witness.observes(other.witness.as_ref().unwrap())
        };
        let observed = self.history.transactions.iter().filter(observes);
        let mut done = observed.chain([transaction]).flat_map(|t| &t.operations);
        let mut store = Store::new();
        done.by_ref().filter(|o| o.key == key_name).for_each(|operation| {
            execute(&mut store, &key_name, &operation.op);
        });
        let unique = || format!("{}.{}", self.now, transaction.operations.len());
        let op = match (update, counts) {
            (true, true) => Op::Add(1),
            (true, false) => Op::Set(unique()),
            (false, _) => Op::Get,
        };
        let answer = Some(execute(&mut store, &key_name, &op));
        Operation { key: key_name, op, answer, level: level(key) }
    }

    /// Returns whether the transaction misses one that conflicts with it.
    fn conflicts(&self, transaction: &Transaction) -> bool {
        let witness = transaction.witness.as_ref().unwrap();
        self.history.transactions.iter().any(|other| {
            let conflict = |one: &Operation| {
                let with = |other| one.op.is_update() && self.history.conflict(one, other);
                transaction.operations.iter().any(with)
            };
            other.strong_time().is_some()
                && other.operations.iter().any(conflict)
                && !witness.observes(other.witness.as_ref().unwrap())
        })
    }
}

fn without_places(mut history: History) -> History {
    history.transactions.iter_mut().for_each(|transaction| transaction.witness = None);
    history
}

/// Returns whether a transaction reads the linearizable counter and does not observe all that
/// counted before.
fn misses_a_count(history: &History, t: usize) -> bool {
    let transaction = &history.transactions[t];
    let observes = |other: &Transaction| {
        let mine = transaction.witness.as_ref().unwrap();
        mine.observes(other.witness.as_ref().unwrap())
    };
    let asks = transaction.operations.iter().any(|operation| operation.key == "counter");
    asks && history.transactions[..t].iter().any(|t| t.changes("counter") && !observes(t))
}

proptest! {
    #[test]
    fn a_store_that_certifies_passes(events in events(40)) {
        let history = Replicated::run(true, &events).history;
        prop_assert_eq!(check(&history), []);
        prop_assert_eq!(check(&without_places(history)), []);
    }

    #[test]
    fn a_store_that_does_not_certify_is_caught(events in events(0)) {
        let Replicated { history, wrong, .. } = Replicated::run(false, &events);
        prop_assume!(!wrong.is_empty());
        let violations = check(&history);
        for t in &wrong {
            let caught = violations.iter().any(
                |v| matches!(v, Violation::ConflictOrder { second, .. } if second == t),
            );
            prop_assert!(caught, "{}: {:?}", t, violations);
        }
    }

    /// Transactions run one after the other in real time, so one that misses a change of a counter
    /// returns a wrong answer.
    #[test]
    fn a_store_that_does_not_certify_is_caught_by_its_answers(events in events(0)) {
        let Replicated { history, wrong, .. } = Replicated::run(false, &events);
        prop_assume!(wrong.iter().any(|t| misses_a_count(&history, *t)));
        let violations = check(&without_places(history));
        let caught = |violation: &Violation| matches!(violation, Violation::NotLinearizable { .. });
        prop_assert!(violations.iter().any(caught), "{:?}", violations);
    }
}

//! Finds the transactions that take part and the versions that each of them read, and judges single
//! reads.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{History, Operation, Outcome, Transaction, Version};
use super::violation::{TransactionName, Violation};

/// Committed transactions and their accesses by key.
pub(super) struct Index<'a> {
    /// Transactions that committed or were observed, sorted by session and position.
    pub(super) nodes: Vec<Node<'a>>,
    /// Keys.
    pub(super) keys: Vec<Key<'a>>,
    /// Number of chains.
    pub(super) chains: usize,
    /// Violations of single reads.
    pub(super) violations: Vec<Violation>,
}

/// A transaction that takes part.
pub(super) struct Node<'a> {
    pub(super) transaction: &'a Transaction,
    /// Chain of transactions each of which must precede the next: the committed transactions of a
    /// session, or one transaction of unknown outcome. Chains are in the order of sessions.
    pub(super) chain: usize,
    /// Position in the chain, from 1.
    pub(super) place: u32,
}

/// Accesses to a key.
pub(super) struct Key<'a> {
    pub(super) name: &'a str,
    /// Final writes of transactions that take part, one per transaction, in the order of nodes.
    pub(super) writers: Vec<Writer>,
    /// Versions that transactions read before they wrote the key.
    pub(super) reads: Vec<KeyRead>,
    /// Whether an unobserved transaction of unknown outcome may have removed it.
    pub(super) unseen_removal: bool,
}

/// The last write of a key by a transaction.
pub(super) struct Writer {
    pub(super) node: usize,
    pub(super) id: u64,
    pub(super) stamp: Option<u64>,
    pub(super) removes: bool,
}

/// A version that a transaction read from another, or the absence of a value.
pub(super) struct KeyRead {
    pub(super) node: usize,
    /// Transaction that wrote the version.
    pub(super) from: Option<usize>,
    pub(super) version: Version,
    /// Whether the reader missed the later versions. `false` for stale and intermediate reads, for
    /// which this is not known.
    pub(super) misses: bool,
    /// Whether the reader replaced the version by its own.
    pub(super) overwrites: bool,
}

impl Key<'_> {
    /// Returns the write of a transaction.
    pub(super) fn writer(&self, node: usize) -> Option<&Writer> {
        let at = self.writers.binary_search_by_key(&node, |writer| writer.node).ok()?;
        self.writers.get(at)
    }

    /// Returns whether "no value" may be another version than the initial one.
    pub(super) fn may_be_removed(&self) -> bool {
        self.unseen_removal || self.writers.iter().any(|writer| writer.removes)
    }
}

impl<'a> Index<'a> {
    pub(super) fn new(history: &'a History) -> Self {
        let mut violations = Vec::new();
        let catalog = Catalog::new(&history.transactions, &mut violations);
        let effective = catalog.effective();
        let mut taking_part: Vec<usize> =
            (0..history.transactions.len()).filter(|t| effective[*t]).collect();
        taking_part.sort_by_key(|t| {
            let Transaction { session, order, .. } = history.transactions[*t];
            (session, order)
        });
        let mut node_of = vec![None; history.transactions.len()];
        for (node, t) in taking_part.iter().enumerate() {
            node_of[*t] = Some(node);
        }
        let (nodes, chains) = chains(taking_part.iter().map(|t| &history.transactions[*t]));
        let mut scan =
            Scan { catalog, node_of, keys: Vec::new(), key_of: BTreeMap::new(), violations };
        for (node, t) in taking_part.iter().enumerate() {
            scan.transaction(node, *t);
        }
        scan.unseen_removals(&effective);
        Index { nodes, keys: scan.keys, chains, violations: scan.violations }
    }

    pub(super) fn name(&self, node: usize) -> TransactionName {
        TransactionName::from(self.nodes[node].transaction)
    }
}

/// Assigns sorted transactions to chains.
fn chains<'a>(sorted: impl Iterator<Item = &'a Transaction>) -> (Vec<Node<'a>>, usize) {
    let mut nodes: Vec<Node<'_>> = Vec::new();
    let mut chains = 0;
    // Session, chain and length of the latest chain of a session.
    let mut current: Option<(usize, usize, u32)> = None;
    for transaction in sorted {
        let (chain, place) = match current {
            _ if transaction.outcome == Outcome::Unknown => (chains, 1),
            Some((session, chain, length)) if session == transaction.session => (chain, length + 1),
            _ => (chains, 1),
        };
        if transaction.outcome != Outcome::Unknown {
            current = Some((transaction.session, chain, place));
        }
        chains = chains.max(chain + 1);
        nodes.push(Node { transaction, chain, place });
    }
    (nodes, chains)
}

/// Origin of each version.
struct Catalog<'a> {
    transactions: &'a [Transaction],
    /// Transaction of each write, and its last write of the key.
    origins: BTreeMap<(&'a str, u64), (usize, u64)>,
}

impl<'a> Catalog<'a> {
    fn new(transactions: &'a [Transaction], violations: &mut Vec<Violation>) -> Self {
        let mut origins: BTreeMap<(&str, u64), (usize, u64)> = BTreeMap::new();
        for (t, transaction) in transactions.iter().enumerate() {
            let mut last: BTreeMap<&str, u64> = BTreeMap::new();
            for operation in transaction.operations.iter().rev() {
                let Operation::Write(write) = operation else { continue };
                let last = *last.entry(&write.key).or_insert(write.id);
                if let Some((first, _)) = origins.get(&(write.key.as_str(), write.id)) {
                    violations.push(Violation::RepeatedWrite {
                        first: TransactionName::from(&transactions[*first]),
                        second: TransactionName::from(transaction),
                        key: write.key.clone(),
                        id: write.id,
                    });
                } else {
                    origins.insert((&write.key, write.id), (t, last));
                }
            }
        }
        Catalog { transactions, origins }
    }

    /// Returns for each transaction whether it takes part: it has committed, or its outcome is
    /// unknown and a transaction that takes part has observed it.
    fn effective(&self) -> Vec<bool> {
        let outcome = |t: usize| self.transactions[t].outcome;
        let mut effective: Vec<bool> =
            (0..self.transactions.len()).map(|t| outcome(t) == Outcome::Committed).collect();
        let mut queue: Vec<usize> = (0..effective.len()).filter(|t| effective[*t]).collect();
        while let Some(t) = queue.pop() {
            for operation in &self.transactions[t].operations {
                let Some((key, Version::Of(id))) = shown(operation) else { continue };
                if let Some((writer, _)) = self.origins.get(&(key, id))
                    && outcome(*writer) == Outcome::Unknown
                    && !effective[*writer]
                {
                    effective[*writer] = true;
                    queue.push(*writer);
                }
            }
        }
        effective
    }
}

/// Returns the key and the version that an answer shows.
fn shown(operation: &Operation) -> Option<(&str, Version)> {
    match operation {
        Operation::Read(read) => Some((&read.key, read.version)),
        Operation::Write(write) => Some((&write.key, write.overwrote?)),
    }
}

struct Scan<'a> {
    catalog: Catalog<'a>,
    node_of: Vec<Option<usize>>,
    keys: Vec<Key<'a>>,
    key_of: BTreeMap<&'a str, usize>,
    violations: Vec<Violation>,
}

impl<'a> Scan<'a> {
    fn key(&mut self, name: &'a str) -> usize {
        let keys = &mut self.keys;
        *self.key_of.entry(name).or_insert_with(|| {
            let (writers, reads) = (Vec::new(), Vec::new());
            keys.push(Key { name, writers, reads, unseen_removal: false });
            keys.len() - 1
        })
    }

    fn transaction(&mut self, node: usize, t: usize) {
        let transactions = self.catalog.transactions;
        let mut own: BTreeMap<&str, Writer> = BTreeMap::new();
        let mut touched: BTreeSet<usize> = BTreeSet::new();
        for operation in &transactions[t].operations {
            if let Some((name, version)) = shown(operation) {
                if let Some(own) = own.get(name) {
                    let removed = own.removes && version == Version::Absent;
                    if version != Version::Of(own.id) && !removed {
                        self.violations.push(Violation::MissesOwnWrite {
                            reader: TransactionName::from(&transactions[t]),
                            key: name.to_owned(),
                            own: own.id,
                            version,
                        });
                    }
                } else if let Some(mut read) = self.observe(node, t, (name, version)) {
                    read.misses &= !matches!(operation, Operation::Read(read) if read.stale);
                    let key = self.key(name);
                    self.keys[key].reads.push(read);
                    touched.insert(key);
                }
            }
            if let Operation::Write(write) = operation {
                let (id, stamp, removes) = (write.id, write.stamp, write.removes);
                own.insert(&write.key, Writer { node, id, stamp, removes });
            }
        }
        for (name, writer) in own {
            if self.catalog.origins.get(&(name, writer.id)).is_some_and(|(other, _)| *other == t) {
                let key = self.key(name);
                self.keys[key].writers.push(writer);
                if touched.contains(&key) {
                    let reads = self.keys[key].reads.iter_mut().rev();
                    reads
                        .take_while(|read| read.node == node)
                        .for_each(|read| read.overwrites = read.misses);
                }
            }
        }
    }

    /// Judges a version that a transaction read before it wrote the key. Returns the read if it
    /// orders the transaction.
    fn observe(&mut self, node: usize, t: usize, shown: (&str, Version)) -> Option<KeyRead> {
        let (name, version) = shown;
        let read = KeyRead { node, from: None, version, misses: true, overwrites: false };
        let Version::Of(id) = version else { return Some(read) };
        let transactions = self.catalog.transactions;
        let (reader, key) = (TransactionName::from(&transactions[t]), name.to_owned());
        let Some((writer, last)) = self.catalog.origins.get(&(name, id)).copied() else {
            self.violations.push(Violation::NeverWritten { reader, key, id });
            return None;
        };
        if writer == t {
            self.violations.push(Violation::FromTheFuture { reader, key, id });
            return None;
        }
        let from = self.node_of[writer];
        let writer = TransactionName::from(&transactions[writer]);
        if from.is_none() {
            self.violations.push(Violation::AbortedRead { reader, writer, key, id });
            return None;
        }
        if id != last {
            self.violations.push(Violation::IntermediateRead { reader, writer, key, id, last });
        }
        Some(KeyRead { from, misses: id == last, ..read })
    }

    fn unseen_removals(&mut self, effective: &[bool]) {
        let transactions = self.catalog.transactions;
        for (t, transaction) in transactions.iter().enumerate() {
            if transaction.outcome != Outcome::Unknown || effective[t] {
                continue;
            }
            let writes = transaction.operations.iter().filter_map(|operation| match operation {
                Operation::Write(write) => Some((write.key.as_str(), write.removes)),
                Operation::Read(_) => None,
            });
            let last: BTreeMap<&str, bool> = writes.collect();
            for (name, _) in last.into_iter().filter(|(_, removes)| *removes) {
                let key = self.key(name);
                self.keys[key].unseen_removal = true;
            }
        }
    }
}

//! Sessions that roam between gateways, and the history of what they learn.
//!
//! Values are logs: each write appends its number, so that a value shows all versions before it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use solera_checker::pcpsi::{
    History, Operation, Outcome, Read, Transaction, Version, Violation, Write, check,
};
use solera_occult_redis::{
    Call, Counters, Error, Gateway, GatewaySession, Layout, Options, home_key, slot_of,
};
use solera_random::Random;
use solera_resp::Value;

use super::{Cluster, call};

pub(crate) const KEYS: u64 = 9;

/// State that all sessions share.
pub(crate) struct Load {
    pub(crate) gateways: Vec<Arc<Gateway>>,
    history: Mutex<Vec<Transaction>>,
    next_write: AtomicU64,
    next_session: AtomicUsize,
    stop: AtomicBool,
    errors: Mutex<Vec<Error>>,
    counters: Mutex<Counters>,
}

/// Findings of the judge at the end.
pub(crate) struct Findings {
    pub(crate) violations: Vec<Violation>,
    /// Writes that were acknowledged, or seen, and are lost.
    pub(crate) lost: BTreeSet<(String, u64)>,
    /// Reads by transactions that depend on a lost write of the same key.
    pub(crate) silent: Vec<String>,
    pub(crate) committed: usize,
    pub(crate) errors: Vec<Error>,
    pub(crate) counters: Counters,
}

fn numbers(value: &Value) -> Vec<u64> {
    let Value::Bulk(bytes) = value else { return Vec::new() };
    let text = String::from_utf8_lossy(bytes).into_owned();
    text.split(',').filter(|each| !each.is_empty()).map(|each| each.parse().unwrap()).collect()
}

fn read(key: &str, value: &Value) -> Operation {
    let version = numbers(value).last().map_or(Version::Absent, |number| Version::Of(*number));
    Operation::Read(Read { key: key.to_owned(), version, stale: false })
}

fn write(key: &str, id: u64, overwrote: Option<Version>) -> Operation {
    Operation::Write(Write { key: key.to_owned(), id, removes: false, stamp: None, overwrote })
}

impl Load {
    /// Creates a load through two gateways.
    pub(crate) async fn new(cluster: &Cluster, layout: Layout) -> Arc<Load> {
        let options = Load::options(layout);
        let gateways = vec![cluster.gateway(options.clone()).await, cluster.gateway(options).await];
        Arc::new(Load {
            gateways,
            history: Mutex::default(),
            next_write: AtomicU64::new(1),
            next_session: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            errors: Mutex::default(),
            counters: Mutex::default(),
        })
    }

    fn options(layout: Layout) -> Options {
        Options {
            timeout: Duration::from_secs(6),
            expiry: Duration::from_millis(500),
            layout,
            ..Options::default()
        }
    }

    /// Runs transactions on two keys, each through a gateway of its own, until one of the gateways
    /// has died when the first key's slot held the transaction and the second key's master had not
    /// answered.
    pub(crate) async fn die_prepared(&self, cluster: &Cluster, keys: [&str; 2], layout: Layout) {
        let [first, second] = keys.map(|key| cluster.master_of(key));
        assert_ne!(first, second);
        let home = String::from_utf8(home_key(slot_of(keys[0].as_bytes()))).unwrap();
        for _ in 0..40 {
            let gateway = cluster.gateway(Load::options(layout)).await;
            let ids = [self.write_id(), self.write_id()];
            let words = [0, 1].map(|at| call(&format!("APPEND {} ,{}", keys[at], ids[at])));
            cluster.nodes[second].freeze();
            let mut session = gateway.session();
            drop(gateway);
            let mut dying = tokio::spawn(async move { session.update_all(words.to_vec()).await });
            // A short string of MessagePack begins with its length.
            let text = format!(",{}", ids[0]).into_bytes();
            let packed = [&[0xa0 + text.len() as u8], &text[..]].concat();
            // The others must not count the master as failed.
            let end = tokio::time::Instant::now() + Duration::from_millis(700);
            let mut is_held = false;
            while !is_held && !dying.is_finished() && tokio::time::Instant::now() < end {
                let state = cluster.nodes[first].raw(&["GET", &home]);
                is_held = matches!(&state, Value::Bulk(bytes)
                    if bytes.windows(packed.len()).any(|part| part == packed));
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            dying.abort();
            let ended = (&mut dying).await;
            cluster.nodes[second].thaw();
            let writes = [0, 1].map(|at| write(keys[at], ids[at], None)).to_vec();
            let session = self.next_session.fetch_add(1, Ordering::Relaxed);
            let outcome = match ended {
                Ok(Err(Error::Aborted(_) | Error::Unavailable { .. })) => Outcome::Aborted,
                _ => Outcome::Unknown,
            };
            let dead = Transaction { session, order: 1, site: 0, outcome, operations: writes };
            self.history.lock().unwrap().push(dead);
            if is_held {
                return;
            }
        }
        panic!("other transactions held the slots all the time");
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(crate) fn committed(&self) -> usize {
        let history = self.history.lock().unwrap();
        history.iter().filter(|each| each.outcome == Outcome::Committed).count()
    }

    /// Returns the last errors.
    pub(crate) fn errors(&self) -> Vec<String> {
        let errors = self.errors.lock().unwrap();
        errors.iter().rev().take(20).map(ToString::to_string).collect()
    }

    /// Runs sessions, one after the other, until the load is stopped.
    pub(crate) async fn run(self: Arc<Self>, seed: u64) {
        let mut random = Random::new(seed);
        while !self.stop.load(Ordering::Relaxed) {
            let number = self.next_session.fetch_add(1, Ordering::Relaxed);
            let at = random.index(self.gateways.len());
            let mut runner =
                Runner { load: &self, number, order: 0, at, session: self.gateways[at].session() };
            for _ in 0..40 {
                if self.stop.load(Ordering::Relaxed) || !runner.step(&mut random).await {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(random.below(8))).await;
            }
            runner.count();
        }
    }

    fn write_id(&self) -> u64 {
        self.next_write.fetch_add(1, Ordering::Relaxed)
    }

    /// Reads all keys in the end, and judges the history.
    pub(crate) async fn judge(&self) -> Findings {
        let mut logs = Vec::new();
        for key in 0..KEYS {
            // A session that reads several keys may depend on what is lost.
            let mut session = self.gateways[0].session();
            let value = session.read(&call(&format!("GET k{key}"))).await.unwrap();
            logs.push((format!("k{key}"), numbers(&value)));
        }
        let mut transactions = std::mem::take(&mut *self.history.lock().unwrap());
        let place = |key: &str, id: u64| {
            let (_, log) = logs.iter().find(|(name, _)| name == key).unwrap();
            log.iter().position(|each| *each == id)
        };
        let mut lost = BTreeSet::new();
        for transaction in &mut transactions {
            let committed = transaction.outcome == Outcome::Committed;
            for operation in &mut transaction.operations {
                let (key, ids) = match operation {
                    Operation::Read(Read { key, version, .. }) => (key, [Some(*version), None]),
                    Operation::Write(write) => {
                        write.stamp = place(&write.key, write.id).map(|at| at as u64 + 1);
                        (&mut write.key, [write.overwrote, Some(Version::Of(write.id))])
                    }
                };
                for version in ids.into_iter().flatten().filter(|_| committed) {
                    if let Version::Of(id) = version
                        && place(key, id).is_none()
                    {
                        lost.insert((key.clone(), id));
                    }
                }
            }
        }
        let silent = silent(&transactions, &lost);
        let committed =
            transactions.iter().filter(|each| each.outcome == Outcome::Committed).count();
        // Removes the lost writes, as if no session had seen them.
        for transaction in &mut transactions {
            transaction.operations.retain(|operation| !touches(operation, &lost));
            for operation in &mut transaction.operations {
                if let Operation::Write(write) = operation
                    && let Some(Version::Of(id)) = write.overwrote
                    && lost.contains(&(write.key.clone(), id))
                {
                    write.overwrote = None;
                }
            }
        }
        let violations = check(&History { transactions });
        let errors = std::mem::take(&mut *self.errors.lock().unwrap());
        let counters = *self.counters.lock().unwrap();
        Findings { violations, lost, silent, committed, errors, counters }
    }
}

fn touches(operation: &Operation, lost: &BTreeSet<(String, u64)>) -> bool {
    let is_lost = |key: &String, id: u64| lost.contains(&(key.clone(), id));
    match operation {
        Operation::Read(Read { key, version: Version::Of(id), .. }) => is_lost(key, *id),
        Operation::Write(Write { key, id, .. }) => is_lost(key, *id),
        Operation::Read(_) => false,
    }
}

/// Returns the reads that ignore a lost write on which their transaction depends.
fn silent(transactions: &[Transaction], lost: &BTreeSet<(String, u64)>) -> Vec<String> {
    let mut found = Vec::new();
    let committed = |each: &&Transaction| each.outcome == Outcome::Committed;
    let mut in_order: Vec<&Transaction> = transactions.iter().filter(committed).collect();
    in_order.sort_by_key(|each| (each.session, each.order));
    for (key, id) in lost {
        let mut writes: BTreeSet<(String, u64)> = BTreeSet::from([(key.clone(), *id)]);
        loop {
            let before = writes.len();
            let mut depends: Option<usize> = None;
            for each in &in_order {
                let seen = each.operations.iter().any(|operation| touches(operation, &writes));
                if seen {
                    depends = Some(each.session);
                }
                if depends == Some(each.session) {
                    let own = each.operations.iter().filter_map(|operation| match operation {
                        Operation::Write(write) => Some((write.key.clone(), write.id)),
                        Operation::Read(_) => None,
                    });
                    writes.extend(own);
                }
            }
            if writes.len() == before {
                break;
            }
        }
        let mut depends: Option<usize> = None;
        for each in &in_order {
            if depends == Some(each.session) {
                for operation in &each.operations {
                    let version = match operation {
                        Operation::Read(read) if read.key == *key => Some(read.version),
                        Operation::Write(write) if write.key == *key => write.overwrote,
                        _ => None,
                    };
                    let gone = |version| matches!(version, Version::Of(other) if lost.contains(&(key.clone(), other)));
                    if let Some(version) = version.filter(|version| !gone(*version)) {
                        found.push(format!(
                            "session {} depends on {id} of {key}, which is lost, and has read {version:?}",
                            each.session
                        ));
                    }
                }
            }
            if each.operations.iter().any(|operation| touches(operation, &writes)) {
                depends = Some(each.session);
            }
        }
    }
    found
}

struct Runner<'a> {
    load: &'a Load,
    number: usize,
    order: usize,
    at: usize,
    session: GatewaySession,
}

impl Runner<'_> {
    fn record(&mut self, outcome: Outcome, operations: Vec<Operation>) {
        self.order += 1;
        let transaction = Transaction {
            session: self.number,
            order: self.order,
            site: self.at,
            outcome,
            operations,
        };
        self.load.history.lock().unwrap().push(transaction);
    }

    fn count(&self) {
        let (own, mut all) = (self.session.counters(), self.load.counters.lock().unwrap());
        all.replica += own.replica;
        all.home += own.home;
        all.stale += own.stale;
    }

    /// Records an error. Returns whether the session continues.
    fn failed(&mut self, error: Error, writes: Vec<Operation>) -> bool {
        let (outcome, goes_on) = match &error {
            Error::Aborted(_) | Error::Changed => (Outcome::Aborted, true),
            Error::Unavailable { .. } => (Outcome::Aborted, false),
            Error::Lost { .. } => (Outcome::Aborted, false),
            Error::Unknown { .. } | Error::RepliesLost(_) => (Outcome::Unknown, false),
            other => panic!("unexpected: {other}"),
        };
        self.load.errors.lock().unwrap().push(error);
        self.record(outcome, writes);
        goes_on
    }

    async fn step(&mut self, random: &mut Random) -> bool {
        if random.one_in(4) {
            let token = self.session.token();
            self.count();
            self.at = random.index(self.load.gateways.len());
            self.session = self.load.gateways[self.at].session();
            self.session.attach(&token).unwrap();
        }
        let mut keys: Vec<String> =
            (0..1 + random.below(3)).map(|_| format!("k{}", random.below(KEYS))).collect();
        keys.sort();
        keys.dedup();
        match random.below(8) {
            0..3 => self.read(&keys).await,
            3..5 => self.append(&keys[..1], random).await,
            5 => self.append(&keys, random).await,
            _ => self.transact(&keys, random).await,
        }
    }

    async fn read(&mut self, keys: &[String]) -> bool {
        let calls: Vec<Call> = keys.iter().map(|key| call(&format!("GET {key}"))).collect();
        match self.session.read_all(&calls).await {
            Ok(values) => {
                let reads = keys.iter().zip(&values).map(|(key, value)| read(key, value));
                self.record(Outcome::Committed, reads.collect());
                true
            }
            Err(error) => self.failed(error, Vec::new()),
        }
    }

    /// Appends to all keys at once, and reads them in the same transaction. Some clients die.
    async fn append(&mut self, keys: &[String], random: &mut Random) -> bool {
        let ids: Vec<u64> = keys.iter().map(|_| self.load.write_id()).collect();
        let both = keys.iter().zip(&ids).flat_map(|(key, id)| {
            [call(&format!("GET {key}")), call(&format!("APPEND {key} ,{id}"))]
        });
        let writes =
            || keys.iter().zip(&ids).map(|(key, id)| write(key, *id, None)).collect::<Vec<_>>();
        let patience = if random.one_in(15) {
            Duration::from_micros(random.below(4000))
        } else {
            Duration::from_secs(3600)
        };
        let run = self.session.update_all(both.collect());
        match tokio::time::timeout(patience, run).await {
            Ok(Ok(values)) => {
                let operations =
                    keys.iter().zip(&ids).zip(values.chunks(2)).map(|((key, id), pair)| {
                        let last = numbers(&pair[0]).last().copied();
                        let before = last.map_or(Version::Absent, Version::Of);
                        write(key, *id, Some(before))
                    });
                let operations = operations.collect();
                self.record(Outcome::Committed, operations);
                true
            }
            Ok(Err(error)) => self.failed(error, writes()),
            Err(_) => {
                self.record(Outcome::Unknown, writes());
                false
            }
        }
    }

    /// Reads all keys, and writes some of them, in an open transaction.
    async fn transact(&mut self, keys: &[String], random: &mut Random) -> bool {
        let written = &keys[random.index(keys.len())..];
        let writes: Vec<(String, u64)> =
            written.iter().map(|key| (key.clone(), self.load.write_id())).collect();
        let operations =
            || writes.iter().map(|(key, id)| write(key, *id, None)).collect::<Vec<Operation>>();
        let result: Result<Vec<Operation>, Error> = async {
            let mut open = self.session.begin().await?;
            let mut reads = Vec::new();
            for key in keys {
                let get = call(&format!("GET {key}"));
                let value = self.session.read_open(&mut open, &get).await?;
                reads.push(read(key, &value));
                if let Some((_, id)) = writes.iter().find(|(written, _)| written == key) {
                    let log = if let Value::Bulk(bytes) = value { bytes } else { Vec::new() };
                    open.write(key.as_bytes(), Some([log, format!(",{id}").into_bytes()].concat()));
                }
            }
            self.session.commit_open(open).await?;
            Ok(reads)
        }
        .await;
        match result {
            Ok(reads) => {
                self.record(Outcome::Committed, [reads, operations()].concat());
                true
            }
            Err(error) => self.failed(error, operations()),
        }
    }
}

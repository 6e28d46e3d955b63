//! A recorded load: operations and results of clients, for the checker.

use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use solera::{Client, Error, Value};
use solera_checker::{Answer, FinalRead, History, Level, Op, Operation, Status, Transaction};
use solera_random::Random;
use tokio::task::JoinHandle;

const SETS: usize = 3;
const REGISTERS: usize = 3;

/// Clients that run until they are stopped.
pub(crate) struct Recording {
    shared: Arc<Shared>,
    sites: Vec<usize>,
    loads: Vec<JoinHandle<Vec<Transaction>>>,
}

struct Shared {
    stop: AtomicBool,
    next_session: AtomicUsize,
    /// Number of committed transactions of each client so far.
    committed: Vec<AtomicUsize>,
}

impl Recording {
    /// Starts one client for each of these gateways, which are given with the indices of their
    /// sites.
    pub(crate) fn start(seed: u64, gateways: &[(usize, SocketAddr)]) -> Recording {
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            next_session: AtomicUsize::new(0),
            committed: gateways.iter().map(|_| AtomicUsize::new(0)).collect(),
        });
        let load = |(name, &(site, address)): (usize, &(usize, SocketAddr))| {
            let random = Random::new(seed * 31 + name as u64);
            let load = Load { session: 0, site, address, random, counter: 0, name };
            tokio::spawn(load.run(shared.clone()))
        };
        let loads = gateways.iter().enumerate().map(load).collect();
        Recording { sites: gateways.iter().map(|(site, _)| *site).collect(), loads, shared }
    }

    /// Returns the number of transactions that a site's clients have committed so far.
    pub(crate) fn committed_at(&self, site: usize) -> usize {
        let counts = self.sites.iter().zip(&self.shared.committed);
        counts.filter(|(of, _)| **of == site).map(|(_, n)| n.load(Ordering::Relaxed)).sum()
    }

    /// Stops the clients, and returns all recorded transactions.
    pub(crate) async fn stop(self) -> Vec<Transaction> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let mut transactions = Vec::new();
        for load in self.loads {
            transactions.extend(load.await.unwrap());
        }
        transactions
    }
}

/// Requires that all gateways converge, that all acknowledged writes are present, and that the
/// history is causal. Each gateway has its site's index, and a text that is printed with a failure.
pub(crate) async fn judge(
    seed: u64,
    sites: usize,
    transactions: Vec<Transaction>,
    gateways: &[(usize, SocketAddr, &dyn Display)],
) {
    let committed = transactions.iter().filter(|t| t.status == Status::Committed).count();
    assert!(committed > 100, "only {committed} transactions: too little load");
    let mut finals: Vec<FinalRead> = Vec::new();
    for (site, address, gateway) in gateways {
        let mut client = Client::connect(*address).await.unwrap();
        let mut agreed = Vec::new();
        super::eventually(gateway, async || {
            let Some(found) = last_answers(&mut client, *site).await else { return false };
            let agrees = found.iter().all(|read| {
                let same_key = |other: &&FinalRead| other.key == read.key;
                finals.iter().filter(same_key).all(|other| other.answers == read.answers)
            });
            let complete = missing(&transactions, &found).is_empty();
            agreed = found;
            agrees && complete
        })
        .await;
        finals.retain(|read| read.site != *site);
        finals.extend(agreed);
    }
    let history = History { sites, transactions, finals, ..History::default() };
    let violations = solera_checker::check(&history);
    assert!(violations.is_empty(), "seed {seed}: {}", violations[0]);
}

struct Load {
    session: usize,
    site: usize,
    address: SocketAddr,
    random: Random,
    counter: usize,
    name: usize,
}

impl Load {
    fn some_operation(&mut self) -> (String, Op) {
        self.counter += 1;
        let unique = format!("{}.{}", self.name, self.counter);
        match self.random.index(4) {
            0 => (format!("u{}", self.random.index(SETS)), Op::Members),
            1 => (format!("u{}", self.random.index(SETS)), Op::SetAdd(vec![unique])),
            2 => (format!("r{}", self.random.index(REGISTERS)), Op::Get),
            _ => (format!("r{}", self.random.index(REGISTERS)), Op::Set(unique)),
        }
    }

    async fn run(mut self, shared: Arc<Shared>) -> Vec<Transaction> {
        let mut transactions = Vec::new();
        while !shared.stop.load(Ordering::Relaxed) {
            let Ok(mut client) = Client::connect(self.address).await else {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            };
            // A connection is a session.
            self.session = shared.next_session.fetch_add(1, Ordering::Relaxed);
            while !shared.stop.load(Ordering::Relaxed) {
                let transaction = self.transaction(&mut client).await;
                let goes_on = transaction.status == Status::Committed;
                transactions.push(transaction);
                if !goes_on {
                    break;
                }
                shared.committed[self.name].fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(self.random.index(20) as u64)).await;
            }
        }
        transactions
    }

    async fn transaction(&mut self, client: &mut Client) -> Transaction {
        let several = self.random.index(3) == 0;
        let count = if several { 2 + self.random.index(2) } else { 1 };
        let mut transaction = Transaction {
            session: self.session,
            site: self.site,
            status: Status::Aborted,
            operations: Vec::new(),
            witness: None,
            interval: None,
            lost: false,
        };
        if several && client.command(&["SOLERA.BEGIN"]).await.is_err() {
            return transaction;
        }
        for _ in 0..count {
            let (key, op) = self.some_operation();
            let answer = ask(client, &key, &op).await;
            let failed = answer.as_ref().err().map(|error| error.code() != Some("TRYAGAIN"));
            let answer = answer.ok();
            transaction.operations.push(Operation { key, op, answer, level: Level::Causal });
            if let Some(may_be_done) = failed {
                if may_be_done && !several {
                    transaction.status = Status::Unknown;
                }
                return transaction;
            }
        }
        let committed = !several || client.command(&["SOLERA.COMMIT"]).await.is_ok();
        transaction.status = if committed { Status::Committed } else { Status::Unknown };
        transaction
    }
}

async fn ask(client: &mut Client, key: &str, op: &Op) -> Result<Answer, Error> {
    match op {
        Op::Members => {
            let members = client.smembers(key).await?;
            Ok(Answer::Members(members.into_iter().collect()))
        }
        Op::SetAdd(elements) => Ok(Answer::Int(i64::from(client.sadd(key, &elements[0]).await?))),
        Op::Get => Ok(Answer::Values(vec![client.get(key).await?])),
        Op::Set(value) => client.set(key, value).await.map(|()| Answer::Ok),
        other => panic!("{other:?}"),
    }
}

async fn last_answers(client: &mut Client, site: usize) -> Option<Vec<FinalRead>> {
    let mut finals = Vec::new();
    let sets = (0..SETS).map(|i| format!("u{i}"));
    for key in sets.chain((0..REGISTERS).map(|i| format!("r{i}"))) {
        let mut answers = Vec::new();
        for command in ["GET", "SMEMBERS", "HGETALL"] {
            answers.push(match client.command(&[command, &key]).await {
                Ok(Value::Null) => Answer::Values(vec![None]),
                Ok(Value::Bulk(value)) => {
                    Answer::Values(vec![Some(String::from_utf8(value).unwrap())])
                }
                Ok(Value::Set(members)) => {
                    let text = |value| match value {
                        Value::Bulk(bytes) => String::from_utf8(bytes).unwrap(),
                        other => panic!("{other:?}"),
                    };
                    let mut members: Vec<String> = members.into_iter().map(text).collect();
                    members.sort();
                    Answer::Members(members)
                }
                Ok(Value::Map(_)) => Answer::Pairs(Vec::new()),
                Ok(other) => panic!("{other:?}"),
                Err(error) if error.code() == Some("WRONGTYPE") => Answer::Error,
                Err(_) => return None,
            });
        }
        let answers = answers.try_into().unwrap();
        finals.push(FinalRead { site, key, answers });
    }
    Some(finals)
}

/// Returns the acknowledged elements that a set lacks.
fn missing(transactions: &[Transaction], finals: &[FinalRead]) -> Vec<String> {
    let committed = transactions.iter().filter(|t| t.status == Status::Committed);
    let mut missing = Vec::new();
    for operation in committed.flat_map(|t| &t.operations) {
        let read = finals.iter().find(|read| read.key == operation.key);
        if let (Op::SetAdd(added), Some(read)) = (&operation.op, read) {
            let Answer::Members(members) = &read.answers[1] else { return added.clone() };
            missing.extend(added.iter().filter(|element| !members.contains(element)).cloned());
        }
    }
    missing
}

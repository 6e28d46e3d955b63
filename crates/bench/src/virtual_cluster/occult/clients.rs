//! Clients of a virtual cluster of Occult, in a closed loop, and their measurements.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use solera_data::{Key, Op, Value};
use solera_occult::{
    AbortCause, Body, CausalTimestamp, Command, Config, Homes, Message, OnStale, Response, Scheme,
};
use solera_time::SiteId;

use super::processes::Used;
use crate::histogram::Histogram;
use crate::random::Random;
use crate::ycsb::{self, Distribution};

/// Number of keys that count as the hottest.
const HOTTEST: usize = 50;

/// The part of their pasts that clients keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sessions {
    /// Nothing: every read is accepted, as in an eventually consistent store. The bytes of stamps
    /// and timestamps do not count.
    Eventual,
    /// Their causal timestamps. A stale read is repeated, and in the end sent to the home.
    Causal,
    /// Their causal timestamps. A stale read is counted and accepted.
    Counting,
}

/// The operations of the clients.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) keys: u64,
    pub(crate) value: Value,
    pub(crate) reads: u8,
    pub(crate) distribution: Distribution,
    /// Number of operations of a transaction; 1 runs single operations.
    pub(crate) operations: u64,
    pub(crate) sessions: Sessions,
    pub(crate) seed: u64,
}

impl Workload {
    /// Returns the workload with another number of keys.
    pub(crate) fn with_keys(self, keys: u64) -> Workload {
        Workload { keys, ..self }
    }
}

/// Returns a key.
pub(crate) fn key(number: u64) -> Key {
    ycsb::name("", number).as_bytes().into()
}

/// Origin of the last change of a client's timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    LocalHome,
    RemoteHome,
    Replica,
}

struct Client {
    site: usize,
    gateway: usize,
    random: Random,
    past: CausalTimestamp,
    /// Remaining operations of the transaction, in reverse order.
    left: Vec<(Key, Op)>,
    /// The operation that runs.
    current: Option<(Key, Op)>,
    transaction: Option<u64>,
    started: u64,
    /// Time when the commit of the transaction began.
    commits_since: u64,
    updates: bool,
    last_change: Option<Origin>,
}

/// Measurements of a window.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    window: Duration,
    /// Latencies of operations, or of transactions from their beginning to their commit.
    pub(crate) latency: Histogram,
    /// Latencies of the commits of transactions.
    pub(crate) commits: Histogram,
    /// Latencies of single reads.
    pub(crate) reads: Histogram,
    /// Operations that succeeded.
    operations: u64,
    /// Operations and transactions that failed for other reasons than an abort.
    pub(crate) failed: u64,
    /// Aborted transactions, by cause.
    pub(crate) aborts: BTreeMap<&'static str, u64>,
    /// Aborted transactions that found the lock of one of the hottest keys.
    pub(crate) locked_hot: u64,
    /// Number of reads of clients, and number of requests that were sent for these reads.
    asked: u64,
    sent: u64,
    /// For each site, number of replicas' answers, and number of stale ones among them.
    replica_reads: [(u64, u64); 2],
    /// Stale reads, by the last change of the client's timestamp.
    pub(crate) before_stale: BTreeMap<Origin, u64>,
    /// Bytes that each computer of servers has sent and received.
    traffic: Vec<(u64, u64)>,
    /// Work of each server process.
    used: Vec<Used>,
}

impl Measured {
    /// Returns the successful operations per second.
    pub(crate) fn goodput(&self) -> f64 {
        self.operations as f64 / self.window.as_secs_f64()
    }

    /// Returns the share of ended transactions that aborted.
    pub(crate) fn abort_rate(&self) -> f64 {
        let aborts: u64 = self.aborts.values().sum();
        aborts as f64 / (aborts + self.latency.count()).max(1) as f64
    }

    /// Returns the share of replica reads that are stale, at a site or (`None`) at both.
    pub(crate) fn stale_rate(&self, site: Option<usize>) -> f64 {
        let sites = self.replica_reads.iter().enumerate();
        let sites = sites.filter(|(number, _)| site.is_none_or(|site| site == *number));
        let (all, stale) = sites.fold((0, 0), |(all, stale), (_, of)| (all + of.0, stale + of.1));
        stale as f64 / all.max(1) as f64
    }

    /// Returns the requests that were sent again, per read.
    pub(crate) fn repeated(&self) -> f64 {
        self.sent.saturating_sub(self.asked) as f64 / self.asked.max(1) as f64
    }

    /// Returns the bytes that servers send and receive per operation.
    pub(crate) fn bytes_per_operation(&self) -> (f64, f64) {
        let sum = |of: fn(&(u64, u64)) -> u64| self.traffic.iter().map(of).sum::<u64>() as f64;
        let each = self.operations.max(1) as f64;
        (sum(|(sent, _)| *sent) / each, sum(|(_, received)| *received) / each)
    }

    /// Returns the time of server processes per operation, and the part of this time for steps of
    /// the machine, in microseconds.
    pub(crate) fn processor_us(&self) -> (f64, f64) {
        let sum = |of: fn(&Used) -> u64| self.used.iter().map(of).sum::<u64>() as f64;
        let each = 1000.0 * self.operations.max(1) as f64;
        (sum(|used| used.busy) / each, sum(|used| used.steps) / each)
    }

    /// Returns the share of its bandwidth that the busiest card uses for sending.
    pub(crate) fn busiest_card(&self, bits_per_second: u64) -> f64 {
        let most = self.traffic.iter().map(|(sent, _)| *sent).max().unwrap_or(0);
        most as f64 * 8.0 / self.window.as_secs_f64() / bits_per_second as f64
    }
}

/// All clients.
pub(crate) struct Clients {
    pub(crate) workload: Workload,
    scheme: Scheme,
    homes: Arc<Homes>,
    clients: Vec<Client>,
    hottest: Vec<Key>,
    measuring: bool,
    measured: Measured,
    /// The client whose command a machine handles.
    pub(crate) asking: Option<usize>,
    /// The client of each read, by computer and number; while stale reads are only counted.
    readers: BTreeMap<(usize, u64), usize>,
}

impl Clients {
    pub(crate) fn new(workload: Workload, scheme: Scheme, homes: Arc<Homes>) -> Clients {
        let hottest = ycsb::hottest(workload.keys, HOTTEST).into_iter().map(key).collect();
        Clients {
            workload,
            scheme,
            homes,
            clients: Vec::new(),
            hottest,
            measuring: false,
            measured: Measured::default(),
            asking: None,
            readers: BTreeMap::new(),
        }
    }

    pub(crate) fn add(&mut self, site: usize, gateway: usize) -> usize {
        let number = self.clients.len();
        self.clients.push(Client {
            site,
            gateway,
            random: Random::new(self.workload.seed << 32 | number as u64),
            past: CausalTimestamp::new(self.scheme),
            left: Vec::new(),
            current: None,
            transaction: None,
            started: 0,
            commits_since: 0,
            updates: false,
            last_change: None,
        });
        number
    }

    pub(crate) fn begin_window(&mut self) {
        (self.measuring, self.measured) = (true, Measured::default());
    }

    pub(crate) fn end_window(
        &mut self,
        window: Duration,
        traffic: Vec<(u64, u64)>,
        used: Vec<Used>,
    ) -> Measured {
        self.measuring = false;
        Measured { window, traffic, used, ..std::mem::take(&mut self.measured) }
    }

    /// Returns a client's next command, and its computer.
    pub(crate) fn next(&mut self, number: usize, now: u64) -> (usize, Command) {
        let Workload { keys, reads, distribution, operations, sessions, .. } = self.workload;
        let client = &mut self.clients[number];
        let fresh = CausalTimestamp::new(self.scheme);
        let on_stale = OnStale::Home;
        if let Some(transaction) = client.transaction {
            client.current = client.left.pop();
            let command = match client.current.clone() {
                Some((key, op)) => Command::Operate { transaction, key, op, validates: false },
                None => {
                    client.commits_since = now;
                    Command::Commit { transaction }
                }
            };
            return (client.gateway, command);
        }
        (client.started, client.updates) = (now, false);
        for _ in 0..operations {
            let key = key(distribution.draw(&mut client.random, keys));
            let op = match client.random.chance(reads) {
                true => Op::Get,
                false => Op::Set(self.workload.value.clone()),
            };
            client.updates |= op.is_update();
            client.left.push((key, op));
        }
        if operations > 1 {
            let past = if sessions == Sessions::Eventual { fresh } else { client.past.clone() };
            return (client.gateway, Command::Begin { past, on_stale });
        }
        client.current = client.left.pop();
        let (key, op) = client.current.clone().expect("there is an operation");
        let keeps = match sessions {
            Sessions::Eventual => false,
            Sessions::Causal => true,
            // The machine would repeat a stale read, so reads begin without a past, and
            // `note_answer` checks them instead.
            Sessions::Counting => op.is_update(),
        };
        let past = if keeps { client.past.clone() } else { fresh };
        (client.gateway, Command::Execute { past, key, op, on_stale })
    }

    /// Handles the reply to a client's command at `now`.
    pub(crate) fn answered(&mut self, number: usize, response: Response, now: u64) {
        let client = &mut self.clients[number];
        match response {
            Response::Begun(transaction) => client.transaction = Some(transaction),
            Response::Done(Ok(_), _) => {}
            Response::Committed { past, .. } => self.committed(number, &past, now),
            Response::Aborted(cause) => {
                let name = match &cause {
                    AbortCause::Locked(_) => "locked",
                    AbortCause::ReadSet(_) => "read set",
                    AbortCause::OverwriteSet(_) => "overwrite set",
                    AbortCause::Expired => "expired",
                    AbortCause::Moved => "moved",
                    AbortCause::Given => "given",
                    AbortCause::TimedOut => "timed out",
                };
                if self.measuring {
                    *self.measured.aborts.entry(name).or_default() += 1;
                    let hot = |key: &Key| self.hottest.contains(key);
                    let hot = matches!(&cause, AbortCause::Locked(key) if hot(key));
                    self.measured.locked_hot += u64::from(hot);
                }
                client.transaction = None;
            }
            _ => {
                self.measured.failed += u64::from(self.measuring);
                client.transaction = None;
                client.left.clear();
            }
        }
    }

    fn committed(&mut self, number: usize, past: &CausalTimestamp, now: u64) {
        let client = &mut self.clients[number];
        client.transaction = None;
        if self.workload.sessions != Sessions::Eventual {
            let before = client.past.clone();
            match (self.workload.sessions, client.updates) {
                // The machine does not have this client's past.
                (Sessions::Counting, false) => client.past.merge(past, &self.homes),
                _ => client.past = past.clone(),
            }
            if client.past != before
                && let Some(origin) = client.current.as_ref().map(|(key, op)| (key, op.is_update()))
            {
                client.last_change = Some(origin_of(&self.homes, client.site, origin));
            }
        }
        if self.measuring {
            let took = Duration::from_nanos(now - client.started);
            self.measured.operations += self.workload.operations;
            self.measured.latency.record(took);
            if self.workload.operations > 1 {
                let commit = Duration::from_nanos(now - client.commits_since);
                self.measured.commits.record(commit);
            }
            if self.workload.operations == 1 && !client.updates {
                self.measured.reads.record(took);
                self.measured.asked += 1;
            }
        }
    }

    /// Notes a request that a computer of clients sends.
    pub(crate) fn note_sent(&mut self, node: usize, body: &Message) {
        let Body::Read(read) = &body.body else { return };
        self.measured.sent += u64::from(self.measuring);
        if let (Sessions::Counting, Some(client)) = (self.workload.sessions, self.asking) {
            self.readers.insert((node, read.number), client);
        }
    }

    /// Checks an answer by the rule of the paper (§4.3), and counts it.
    pub(crate) fn note_answer(&mut self, config: &Config, node: usize, body: &Message) {
        let Body::ReadAnswer(answer) = &body.body else { return };
        let Some(number) = self.readers.remove(&(node, answer.number)) else { return };
        let client = &self.clients[number];
        let Some((key, _)) = &client.current else { return };
        let shard = config.shard_of(key);
        let is_replica = self.homes.home(shard).index() != client.site;
        if !is_replica || !self.measuring {
            return;
        }
        let needed = client.past.stamp(shard, &self.homes);
        let needed = needed.max(answer.dependencies.stamp(shard, &self.homes));
        let is_stale = answer.shown < needed;
        let (all, stale) = &mut self.measured.replica_reads[client.site];
        *all += 1;
        if is_stale {
            *stale += 1;
            if let Some(origin) = client.last_change {
                *self.measured.before_stale.entry(origin).or_default() += 1;
            }
        }
    }
}

fn origin_of(homes: &Homes, site: usize, (key, updates): (&Key, bool)) -> Origin {
    let shard = solera_machine::PartitionId::of(key, homes.shards()).0;
    let home = homes.home(solera_occult::ShardId(shard));
    match (home == SiteId(site as u8), updates) {
        (true, _) => Origin::LocalHome,
        (false, true) => Origin::RemoteHome,
        (false, false) => Origin::Replica,
    }
}

//! Sessions: their dependencies, reads and writes.

mod committing;
mod open;
mod reading;
mod resolving;
mod updating;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use solera_occult::{CausalTimestamp, DEFAULT_SHARDS, Homes, STAMP_END, Scheme, ShardId, Stamp};
use solera_redis::Target;
use solera_resp::Value;
use solera_time::SiteId;

use crate::cluster::{Cluster, Failure, Reach, now};
use crate::error::Error;
use crate::functions::Answer;
use crate::lives::{State, Verdict, judge};
use crate::node::Login;
use crate::risk::{Life, Risk};
use crate::stored::{Kind, Layout, Record, Stored};

pub use open::Open;
pub use updating::Watches;

/// All masters are one site. Their stamps follow their own clock or the gateway's, whichever is
/// slower.
const SITE: SiteId = SiteId(0);
/// Greatest number of masters on whose last writes a token may depend. Larger clusters of Redis are
/// not recommended, and the contents of a token are stored with each later write of its session.
const MOST_LIVES: usize = 1000;
/// Prefix of a token's text.
const TOKEN: &str = "OR1";

/// Settings of a gateway.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of entries of timestamps, the catch-all included.
    pub entries: u16,
    /// Hosts, or `HOST:PORT`, of the nodes that are read. If the list is empty, the gateway
    /// measures which nodes are near.
    pub near: Vec<String>,
    /// Time limit of a command, with all its attempts.
    pub timeout: Duration,
    /// Largest difference by which a stamp may be ahead of both the gateway's and the master's
    /// clock.
    pub ahead: Duration,
    /// Time for which the timestamp of a removed key stays. Replicas that have been without their
    /// master for longer are not read.
    pub keep_removed: Duration,
    /// Time after which an undecided transaction is aborted.
    pub expiry: Duration,
    /// Layout of stored strings. All gateways to a cluster must have the same layout.
    pub layout: Layout,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            entries: 8,
            near: Vec::new(),
            timeout: Duration::from_secs(10),
            ahead: Duration::from_secs(60),
            keep_removed: Duration::from_secs(3600),
            expiry: Duration::from_secs(2),
            layout: Layout::Plain,
        }
    }
}

/// Action after a stale read (§4.3) and some retries at the replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Read at the master.
    #[default]
    Home,
    /// Accept the stale answer. Causal consistency is not guaranteed then.
    Accept,
    /// Fail.
    Fail,
}

/// Counts of a session's reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Answers that a replica has given.
    pub replica: u64,
    /// Answers that a master has given.
    pub home: u64,
    /// Attempts that were stale.
    pub stale: u64,
    /// Stale answers that were accepted.
    pub accepted: u64,
}

/// Dependencies of a session.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    timestamp: CausalTimestamp,
    risk: Risk,
}

/// A write whose outcome is not known yet.
#[derive(Clone, Debug)]
struct Doubt {
    slot: ShardId,
    tid: String,
    deadline: u64,
    /// Whether the transaction is of one slot. That slot's record then shows for certain whether
    /// the transaction has committed.
    single: bool,
}

/// A gateway to one cluster, which sessions share.
pub struct Gateway {
    cluster: Arc<Cluster>,
    homes: Homes,
    options: Options,
    /// Identifier that distinguishes this gateway's transactions from those of others.
    id: String,
    next: AtomicU64,
}

/// A session. Its reads and writes are causally consistent, whichever gateway it uses.
pub struct GatewaySession {
    gateway: Arc<Gateway>,
    past: Past,
    doubt: Option<Doubt>,
    policy: Policy,
    counters: Counters,
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("id", &self.id).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for GatewaySession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GatewaySession").field("past", &self.past).finish_non_exhaustive()
    }
}

impl Gateway {
    /// Connects to a cluster, and loads the functions at its masters.
    ///
    /// # Errors
    /// No node of the cluster can be reached, or it permits neither functions nor scripts.
    pub async fn connect(target: &Target, options: Options) -> Result<Arc<Gateway>, Error> {
        let (user, password) = target.login();
        let reach = Reach {
            seeds: target.addresses(),
            login: Login { user, password },
            near: options.near.clone(),
            timeout: options.timeout,
            silence: options.keep_removed / 2,
            layout: options.layout,
        };
        let cluster = Cluster::connect(reach).await?;
        Ok(Arc::new(Gateway {
            cluster,
            homes: Homes::new(DEFAULT_SHARDS, |_| SITE),
            options,
            id: format!("{:x}-{:x}", now(), std::process::id()),
            next: AtomicU64::new(0),
        }))
    }

    /// Begins a session that depends on nothing.
    pub fn session(self: &Arc<Self>) -> GatewaySession {
        let timestamp = CausalTimestamp::new(Scheme::Temporal(self.options.entries));
        GatewaySession {
            gateway: Arc::clone(self),
            past: Past { timestamp, risk: Risk::default() },
            doubt: None,
            policy: Policy::default(),
            counters: Counters::default(),
        }
    }

    fn tid(&self) -> String {
        format!("{}-{:x}", self.id, self.next.fetch_add(1, Ordering::Relaxed))
    }

    fn until(&self) -> Instant {
        Instant::now() + self.options.timeout
    }

    /// Returns the time from which the master of a slot must refuse a request that is sent now.
    fn deadline(&self, slot: ShardId) -> u64 {
        let time = self.cluster.master(slot).map_or_else(now, |at| self.cluster.time_at(&at));
        time + (self.options.timeout * 2).as_micros() as u64
    }

    /// Fails if a write on which the session depends was lost in this slot.
    async fn check_lives(&self, slot: ShardId, record: &Record, risk: &Risk) -> Result<(), Error> {
        match self.cluster.lives(|lives| judge(record, risk, lives)) {
            Verdict::Whole => return Ok(()),
            Verdict::Lost(life) => return Err(self.lost(slot, life).await),
            Verdict::Unsure(life) => self.cluster.state_of(life).await,
        };
        match self.cluster.lives(|lives| judge(record, risk, lives)) {
            Verdict::Whole => Ok(()),
            Verdict::Lost(life) | Verdict::Unsure(life) => Err(self.lost(slot, life).await),
        }
    }

    /// Returns the error for a session that depends on a lost write of this life. Determines where
    /// the life ended, so that later writes of the application do not depend on the lost writes.
    async fn lost(&self, slot: ShardId, life: Life) -> Error {
        if !matches!(self.cluster.lives(|lives| lives.state(life)), State::Ended(_)) {
            self.cluster.poll().await;
        }
        Error::lost(slot, life)
    }

    /// Returns the error for the answer LOST.
    async fn lost_in(&self, slot: ShardId, answer: &Answer) -> Error {
        match answer.text(0).parse() {
            Ok(life) => self.lost(slot, life).await,
            Err(why) => Error::damaged_record(slot, &why),
        }
    }

    /// Fails if a write on which a transaction depends was lost in one of the slots that it reads
    /// or writes.
    async fn check_all_lives(&self, slots: &[(ShardId, Record)], risk: &Risk) -> Result<(), Error> {
        for (slot, record) in slots {
            self.check_lives(*slot, record, risk).await?;
        }
        Ok(())
    }

    /// Returns the life in the answer UNSURE, whose end the master does not know, if no write of
    /// this risk was lost at its end. Fails otherwise.
    async fn clear(&self, slot: ShardId, answer: &Answer, risk: &Risk) -> Result<Life, Error> {
        let text = answer.text(0);
        let life: Life = text.parse().map_err(|why| Error::damaged_record(slot, &why))?;
        let whole = match self.cluster.state_of(life).await {
            State::Alive => true,
            State::Ended(end) => risk.of(life).is_none_or(|offset| offset < end),
            State::Unknown => false,
        };
        if whole { Ok(life) } else { Err(self.lost(slot, life).await) }
    }
}

impl Past {
    fn merge(&mut self, other: &Past, gateway: &Gateway) {
        self.timestamp.merge(&other.timestamp, &gateway.homes);
        self.risk.merge(&other.risk);
        gateway.cluster.lives(|lives| lives.settle(&mut self.risk));
    }

    /// Adds a timestamp that a function has returned for a slot, and the slot's record.
    fn of(value: &Value, slot: ShardId, record: Option<&Record>) -> Result<Past, Error> {
        let Value::Bulk(bytes) = value else { return Err(Error::unexpected(slot, value)) };
        let stored = Stored::decode(bytes).map_err(|why| Error::damaged(b"", slot, &why))?;
        let mut past = Past { timestamp: stored.timestamp, risk: stored.risk };
        if let Some(record) = record {
            past.risk.add(record.life, record.offset);
        }
        Ok(past)
    }
}

impl GatewaySession {
    /// Returns the counts of the session's reads.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the policy for stale reads.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Sets the policy for stale reads.
    pub fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
    }

    /// Returns the session's dependencies as a text that another session can attach.
    pub fn token(&self) -> String {
        let bytes = Stored::encode(Kind::Text, &self.past.timestamp, &self.past.risk);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{TOKEN}:{hex}:{:x}", sum(&bytes))
    }

    /// Replaces the session's dependencies with those of a token, or with none for an empty text.
    ///
    /// # Errors
    /// The text is not a token, or depends on a time in the future.
    pub fn attach(&mut self, token: &str) -> Result<(), Error> {
        if token.is_empty() {
            let fresh = self.gateway.session();
            (self.past, self.doubt) = (fresh.past, None);
            return Ok(());
        }
        let wrong = |why: &str| Error::Token(why.to_owned());
        let rest = token.strip_prefix(TOKEN).and_then(|rest| rest.strip_prefix(':'));
        let (hex, check) = rest.and_then(|rest| rest.split_once(':')).ok_or_else(|| {
            wrong("a token of a Redis Cluster begins with OR1: and has two more parts")
        })?;
        let bytes = unhex(hex).ok_or_else(|| wrong("it is not hexadecimal"))?;
        if u64::from_str_radix(check, 16) != Ok(sum(&bytes)) {
            return Err(wrong("it was changed or cut off"));
        }
        let stored = Stored::decode(&bytes).map_err(|why| Error::Token(why.to_string()))?;
        let most = now() + self.gateway.options.ahead.as_micros() as u64;
        if stored.timestamp.greatest(SITE) > Stamp(most.min(STAMP_END - 1)) {
            return Err(wrong("it depends on a time that is still to come"));
        }
        if stored.risk.len() > MOST_LIVES {
            return Err(wrong("it depends on more masters than a cluster can have"));
        }
        let mut timestamp = self.gateway.session().past.timestamp;
        timestamp.merge(&stored.timestamp, &self.gateway.homes);
        self.past = Past { timestamp, risk: stored.risk };
        self.doubt = None;
        Ok(())
    }

    /// Returns the session's dependencies.
    pub(crate) fn past(&self) -> Past {
        self.past.clone()
    }

    /// Adds the session's dependencies to a past.
    pub(crate) fn add_to(&self, past: &mut Past) {
        past.merge(&self.past, &self.gateway);
    }

    /// Adds a past to the session's dependencies.
    pub(crate) fn add_past(&mut self, past: &Past) {
        self.past.merge(past, &self.gateway);
    }

    /// Returns whether the outcome of the session's last write is not known.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.doubt.is_some()
    }

    /// Returns a time after all writes so far, and the time up to which all copies have all writes,
    /// both in µs by the clock of this process.
    pub(crate) fn horizon(&self) -> (u64, u64) {
        (now(), self.gateway.cluster.replicated_until())
    }

    /// Adopts the dependencies of a finished operation.
    fn adopt(&mut self, mut past: Past) {
        self.gateway.cluster.lives(|lives| lives.settle(&mut past.risk));
        self.past = past;
    }
}

/// FNV-1a of 64 bits: it detects damage, not forgery.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    let pairs = (0..text.len()).step_by(2);
    pairs.map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}

/// Waits before an attempt to get a lock: 1, 2, 4 up to 32 ms, and a part that differs between
/// gateways, so that two gateways do not conflict repeatedly.
async fn wait_for_lock(attempt: u32, seed: u64) {
    let base = 1_000 << attempt.min(5);
    let part = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    tokio::time::sleep(Duration::from_micros(base / 2 + part % base)).await;
}

/// Converts a failure of an idempotent request that was given up.
fn given_up(slot: ShardId, failure: Failure) -> Error {
    match failure {
        Failure::Lost(why) => Error::Unavailable { slot, why },
        Failure::Error(error) => error,
    }
}

//! Model of commit and commit termination in Occult, checked exhaustively. This file, `homes.rs`
//! and `clients.rs` are the protocol; `README.md` describes it, and names what the model leaves
//! out.
//!
//! Citations are of *I Can't Believe It's Not Causal!*, NSDI 2017: `§6.2`, `Listing 2 l. 27`.
//!
//! `cargo run --release` checks every scenario, and that each trap is found. `--scenario NAME`
//! checks one scenario; `--trap NAME` takes out a rule and prints steps that lead to a violation.

mod checking;
mod clients;
mod homes;
mod properties;
mod scenarios;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use scenarios::{HOME_OF, Key, Rule, Scenario};

/// Shards A, B and C. Each has a home, and one replica that applies what the home has shown.
const SHARDS: usize = 3;
type Shard = usize;
/// The homes of A and C are at one site, and the home of B is at another.
const SITE_OF: [Site; SHARDS] = [0, 1, 0];
type Site = usize;
/// Index of a transaction in its scenario. Numbers of a client's transactions rise.
type Tid = usize;
/// Reading of a home's clock.
type Stamp = u8;
/// Causal timestamp (§4.2): a stamp for each shard.
type Timestamp = [Stamp; SHARDS];
/// Assigned stamp, and the maximum of the overwritten versions' timestamps.
type Answer = (Stamp, Timestamp);
type Answers = BTreeMap<Shard, Answer>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Reading,
    /// PREPARE is sent to the homes of the written objects.
    Preparing,
    /// COMMIT or EXECUTE is sent to the decision home.
    Committing,
    Committed,
    Aborted,
    /// The client does not know the outcome, and goes on with its next transaction, or it has
    /// restarted.
    Unknown,
}

/// A read of a transaction in progress: an element of the read set (Listing 3 l. 23).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Read {
    key: Key,
    /// Writer of the version; `None` is the initial version.
    version: Option<Tid>,
    /// Shown stamp of the home or replica that answered.
    shardstamp: Stamp,
}

/// What the client of a transaction holds, and the versions that the transaction writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Transaction {
    phase: Phase,
    reads: Vec<Read>,
    /// Field of COMMIT, COMMITTED and DECISION, and timestamp of the written versions. COMMITTED
    /// reveals it to the client of a transaction of one home.
    commit_ts: Option<Timestamp>,
}

/// A home's record of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Record {
    /// Never received, or forgotten.
    None,
    /// The writes are kept and their objects locked. `assigned` is a stamp of this home, and the
    /// commit stamp is not below it.
    Prepared { assigned: Stamp },
    /// Committed, and not shown yet: an undecided transaction may get a lower stamp.
    Hidden,
    /// Committed and shown: at the decision home alone.
    Shown,
    /// Aborted: at the decision home alone.
    Aborted,
}

/// A home with its replica. Each change is durable before a message that depends on it is sent, so
/// that a crash and a restart change nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Home {
    records: Vec<Record>,
    /// Highest stamp that the home has assigned, reported, or received.
    clock: Stamp,
    /// Transactions whose writes the home has shown, in order.
    shown: Vec<Tid>,
    /// What the replica has applied, and then what it is yet to apply: a shown stamp, and the
    /// length of `shown` at this stamp.
    log: Vec<(Stamp, usize)>,
    /// Transactions below the `oldest` that their client has sent to this home, or whose deadline
    /// the home's clock has passed.
    ended: BTreeSet<Tid>,
    /// Transactions that this home ever committed or aborted: for the properties alone.
    committed: BTreeSet<Tid>,
    aborted: BTreeSet<Tid>,
}

impl Home {
    /// Transactions that are committed and not shown.
    fn hidden(&self) -> impl Iterator<Item = Tid> + '_ {
        (0..self.records.len()).filter(|tid| self.records[*tid] == Record::Hidden)
    }

    /// Transactions that are prepared here, with the stamps assigned to them.
    fn prepared(&self) -> impl Iterator<Item = (Tid, Stamp)> + '_ {
        self.records.iter().enumerate().filter_map(|(tid, record)| match record {
            Record::Prepared { assigned } => Some((tid, *assigned)),
            _ => None,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Message {
    // Client to home, in order: `State::links`.
    /// `max_ss` is the maximum of the client's timestamp at the site of the receiver.
    Prepare {
        tid: Tid,
        max_ss: Stamp,
    },
    /// To the only home: prepare, validate and commit in one step.
    Execute {
        tid: Tid,
        cli_ts: Timestamp,
    },
    /// A client that has sent COMMIT or EXECUTE does not send it.
    Abort(Tid),
    /// To the decision home, with `Transaction::commit_ts`.
    Commit(Tid),
    /// To the decision home, also from homes, and then in any order: the sender stops waiting.
    Resolve(Tid),
    /// To the decision home: any message whose `oldest` is greater than `tid`. It can be from a new
    /// incarnation of the client.
    Later(Tid),
    // From homes, in any order: `State::network`.
    /// To the client.
    Prepared {
        tid: Tid,
        shard: Shard,
        answer: Answer,
    },
    /// Decision home to client.
    Committed(Tid),
    Refused(Tid),
    /// Decision home to homes, with `Transaction::commit_ts` if it commits.
    Decision {
        tid: Tid,
        commit: bool,
    },
}
use Message::*;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    transactions: Vec<Transaction>,
    /// Causal timestamps of the clients.
    sessions: Vec<Timestamp>,
    homes: Vec<Home>,
    /// FIFO links from each client to each home. Each message is delivered at any time or lost, and
    /// none after a later one. With deadlines, the links are as `network`. A client that takes no
    /// more steps is dead.
    links: Vec<[Vec<Message>; SHARDS]>,
    /// Set of all messages that homes ever sent. Each may be delivered at any time, in any order,
    /// any number of times or never.
    network: BTreeSet<Message>,
}

fn merge(a: Timestamp, b: Timestamp) -> Timestamp {
    std::array::from_fn(|i| a[i].max(b[i]))
}

#[derive(Clone)]
struct Occult {
    scenario: &'static Scenario,
    trap: Option<Rule>,
}

impl Occult {
    fn has(&self, rule: Rule) -> bool {
        self.trap != Some(rule)
    }

    fn client(&self, tid: Tid) -> usize {
        self.scenario.transactions[tid].client
    }

    fn writes(&self, tid: Tid) -> &'static [Key] {
        self.scenario.transactions[tid].writes
    }

    fn participants(&self, tid: Tid) -> BTreeSet<Shard> {
        self.writes(tid).iter().map(|key| HOME_OF[*key]).collect()
    }

    /// Shard whose home decides: one of the participants, which every PREPARE names.
    fn decision_home(&self, tid: Tid) -> Shard {
        HOME_OF[self.writes(tid)[0]]
    }

    /// Whether a transaction is executed in one step.
    fn has_one_home(&self, tid: Tid) -> bool {
        self.scenario.one_step && self.participants(tid).len() == 1
    }

    fn writes_of(&self, tid: Tid, key: Key) -> bool {
        self.writes(tid).contains(&key)
    }

    /// Whether a client executes this transaction now: its earlier ones have ended.
    fn is_current(&self, state: &State, tid: Tid) -> bool {
        let other = |t: Tid| self.client(t) != self.client(tid);
        (0..tid).all(|t| other(t) || self.has_ended(state, t)) && !self.has_ended(state, tid)
    }

    fn has_ended(&self, state: &State, tid: Tid) -> bool {
        let phase = state.transactions[tid].phase;
        matches!(phase, Phase::Committed | Phase::Aborted | Phase::Unknown)
    }

    // Timestamps.

    fn timestamp(&self, state: &State, version: Option<Tid>) -> Timestamp {
        version.and_then(|tid| state.transactions[tid].commit_ts).unwrap_or_default()
    }

    /// The stamp with which a home shows a transaction's writes.
    fn commit_stamp(&self, state: &State, tid: Tid, shard: Shard) -> Stamp {
        self.timestamp(state, Some(tid))[shard]
    }

    /// The greatest stamp among the shards whose homes are at the site of `shard`.
    fn at_site(&self, ts: Timestamp, shard: Shard) -> Stamp {
        let here = |s: &Shard| SITE_OF[*s] == SITE_OF[shard] || !self.has(Rule::SitesApart);
        (0..SHARDS).filter(here).map(|s| ts[s]).max().unwrap_or(0)
    }

    /// The client's timestamp within a transaction: the session's, and those of the versions that
    /// it has read (Listing 3 l. 24).
    fn cli_ts(&self, state: &State, tid: Tid) -> Timestamp {
        let session = state.sessions[self.client(tid)];
        let reads = state.transactions[tid].reads.iter();
        reads.map(|read| self.timestamp(state, read.version)).fold(session, merge)
    }

    /// Whether a transaction's read set is as recent as `ts` (Listing 3 l. 27–32).
    fn covers(&self, state: &State, tid: Tid, ts: Timestamp) -> bool {
        let reads = &state.transactions[tid].reads;
        reads.iter().all(|read| read.shardstamp >= ts[HOME_OF[read.key]])
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if checking::run(&arguments) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[test]
fn the_protocol_holds_and_every_trap_is_found() {
    assert!(checking::run(&[]));
}

//! Model of commit and commit termination in Occult, checked exhaustively. This file is the
//! protocol; `README.md` describes it, and names what the model leaves out.
//!
//! Citations are of *I Can't Believe It's Not Causal!*, NSDI 2017: `§6.2`, `Listing 2 l. 27`.
//!
//! `cargo run --release` checks every scenario, and that each trap is found. `--scenario NAME`
//! checks one scenario; `--trap NAME` takes out a rule and prints steps that lead to a violation.

mod checking;
mod properties;
mod scenarios;

use std::collections::BTreeSet;
use std::process::ExitCode;

use scenarios::{HOME_OF, Key, Rule, Scenario};

/// Shards A, B and C. Each has a home, and one replica that applies what the home has shown.
const SHARDS: usize = 3;
type Shard = usize;
/// Index of a transaction in its scenario.
type Tid = usize;
/// Time, and in the last two bits the shard whose home assigned the stamp.
type Stamp = u8;
/// Deadline of transactions of one home, above the stamps of all scenarios.
const DEADLINE: Stamp = 99;
/// Causal timestamp (§4.2): a stamp for each shard.
type Timestamp = [Stamp; SHARDS];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Reading,
    /// PREPARE is sent to the homes of the written objects.
    Preparing,
    /// COMMIT or EXECUTE is sent to the decision home.
    Committing,
    Committed,
    Aborted,
    /// The client does not know the outcome, and goes on with its next transaction.
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
    /// The writes are kept and their objects locked. `bound` is the assigned stamp, and the commit
    /// stamp is not below it.
    Prepared {
        bound: Stamp,
    },
    /// Committed, and not shown yet: an undecided transaction may get a lower stamp.
    Hidden,
    /// Committed and shown.
    Shown,
    Aborted,
}

/// A home with its replica. Each change is durable before a message that depends on it is sent, so
/// that a crash and a restart change nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Home {
    records: Vec<Record>,
    /// Shown stamps with the transaction whose writes they show. `None` stands for the initial
    /// state, or for a stamp up to which a read has advanced the home.
    log: Vec<(Stamp, Option<Tid>)>,
    /// Number of entries of the log that the replica has applied.
    replica: usize,
    /// Transactions whose deadline the home's clock has passed.
    passed: BTreeSet<Tid>,
    /// Transactions that this home ever committed or aborted: for the properties alone.
    committed: BTreeSet<Tid>,
    aborted: BTreeSet<Tid>,
}

impl Home {
    fn shown(&self) -> Stamp {
        self.shown_after(self.log.len())
    }

    /// The shown stamp after the first `length` entries of the log.
    fn shown_after(&self, length: usize) -> Stamp {
        self.log[..length].iter().map(|entry| entry.0).max().unwrap_or(0)
    }

    /// Transactions that are committed and not shown.
    fn hidden(&self) -> impl Iterator<Item = Tid> + '_ {
        (0..self.records.len()).filter(|tid| self.records[*tid] == Record::Hidden)
    }

    /// Transactions that are prepared here, with the stamps assigned to them.
    fn prepared(&self) -> impl Iterator<Item = (Tid, Stamp)> + '_ {
        self.records.iter().enumerate().filter_map(|(tid, record)| match record {
            Record::Prepared { bound } => Some((tid, *bound)),
            _ => None,
        })
    }
}

/// The network is the set of all messages that were ever sent. Each may be delivered at any time,
/// in any order, any number of times or never: it may be lost, late, duplicated and reordered. A
/// client that takes no more steps is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Message {
    /// Client to homes. `max_ss` is the maximum of the client's timestamp (Listing 3 l. 48).
    Prepare {
        tid: Tid,
        max_ss: Stamp,
    },
    /// Client to the only home: prepare, validate and commit in one step.
    Execute {
        tid: Tid,
        cli_ts: Timestamp,
    },
    /// Home to client. `overwritten` is the maximum of the overwritten versions' timestamps.
    Prepared {
        tid: Tid,
        shard: Shard,
        bound: Stamp,
        overwritten: Timestamp,
    },
    /// Client to homes. A client that has sent COMMIT or EXECUTE does not send it.
    Abort {
        tid: Tid,
    },
    /// Client to the decision home, with `Transaction::commit_ts`.
    Commit {
        tid: Tid,
    },
    /// Decision home to client.
    Committed {
        tid: Tid,
    },
    Refused {
        tid: Tid,
    },
    /// Home to decision home: the prepare has expired. Client to decision home: stop waiting.
    Resolve {
        tid: Tid,
    },
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
    network: BTreeSet<Message>,
}

fn merge(a: Timestamp, b: Timestamp) -> Timestamp {
    std::array::from_fn(|i| a[i].max(b[i]))
}

fn max_ss(ts: Timestamp) -> Stamp {
    ts.into_iter().max().unwrap_or(0)
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
        let client = self.scenario.transactions[tid].client;
        let ended = |t: Tid| {
            matches!(
                state.transactions[t].phase,
                Phase::Committed | Phase::Aborted | Phase::Unknown
            )
        };
        (0..tid).all(|t| self.scenario.transactions[t].client != client || ended(t)) && !ended(tid)
    }

    // Timestamps.

    fn timestamp(&self, state: &State, version: Option<Tid>) -> Timestamp {
        version.and_then(|tid| state.transactions[tid].commit_ts).unwrap_or_default()
    }

    /// The stamp with which all homes show a transaction's writes.
    fn commit_stamp(&self, state: &State, tid: Tid) -> Stamp {
        self.timestamp(state, Some(tid))[self.decision_home(tid)]
    }

    /// The client's timestamp within a transaction: the session's, and those of the versions that
    /// it has read (Listing 3 l. 24).
    fn cli_ts(&self, state: &State, tid: Tid) -> Timestamp {
        let session = state.sessions[self.scenario.transactions[tid].client];
        let reads = state.transactions[tid].reads.iter();
        reads.map(|read| self.timestamp(state, read.version)).fold(session, merge)
    }

    /// Whether a transaction's read set is as recent as `ts` (Listing 3 l. 27–32).
    fn covers(&self, state: &State, tid: Tid, ts: Timestamp) -> bool {
        let reads = &state.transactions[tid].reads;
        reads.iter().all(|read| read.shardstamp >= ts[HOME_OF[read.key]])
    }

    // Homes.

    /// Assigns a stamp above everything that the home has shown, committed or assigned, and above
    /// the client's timestamp. The clock of §5 is left out; scenarios begin with different stamps.
    fn new_shardstamp(&self, state: &State, shard: Shard, max_cli_ss: Stamp) -> Stamp {
        let home = &state.homes[shard];
        let floor = if self.has(Rule::AboveClient) { max_cli_ss } else { 0 };
        let hidden = home.hidden().map(|tid| self.commit_stamp(state, tid));
        let bounds = home.prepared().map(|(_, bound)| bound);
        let above = hidden.chain(bounds).fold(home.shown().max(floor), Stamp::max);
        let name = if self.has(Rule::UniqueStamps) { shard as Stamp } else { 0 };
        (above / 4 + 1) * 4 + name
    }

    /// Returns the latest version of a key in the first `length` entries of a home's log.
    fn shown_version(&self, home: &Home, key: Key, length: usize) -> Option<Tid> {
        let shown = home.log[..length].iter().rev().filter_map(|entry| entry.1);
        shown.into_iter().find(|tid| self.writes_of(*tid, key))
    }

    /// Returns the latest committed version of a key, shown or not.
    fn latest_version(&self, state: &State, shard: Shard, key: Key) -> Option<Tid> {
        let home = &state.homes[shard];
        let hidden = home.hidden().filter(|tid| self.writes_of(*tid, key));
        let hidden = hidden.max_by_key(|tid| self.commit_stamp(state, *tid));
        hidden
            .filter(|_| self.has(Rule::OverwriteHidden))
            .or_else(|| self.shown_version(home, key, home.log.len()))
    }

    /// Records the outcome of a transaction, which releases its locks.
    fn end_at(&self, state: &mut State, shard: Shard, tid: Tid, commit: bool) {
        let home = &mut state.homes[shard];
        home.records[tid] = if commit { Record::Hidden } else { Record::Aborted };
        if commit { &mut home.committed } else { &mut home.aborted }.insert(tid);
        self.show(state, shard);
    }

    /// Shows committed writes in the order of their stamps, as far as no undecided write can get a
    /// lower one (App. A, note below Listing 2).
    fn show(&self, state: &mut State, shard: Shard) {
        let hidden = state.homes[shard].hidden().map(|tid| (self.commit_stamp(state, tid), tid));
        let mut hidden: Vec<(Stamp, Tid)> = hidden.collect();
        hidden.sort();
        for (stamp, tid) in hidden {
            let home = &mut state.homes[shard];
            if home.prepared().all(|(_, bound)| bound > stamp) || !self.has(Rule::ShowInOrder) {
                home.records[tid] = Record::Shown;
                home.log.push((stamp, Some(tid)));
            }
        }
    }

    fn deliver(&self, state: &mut State, message: Message, shard: Shard) {
        let record = |tid: Tid| state.homes[shard].records[tid];
        let passed = |tid: Tid| state.homes[shard].passed.contains(&tid);
        let prepared = |tid: Tid| matches!(record(tid), Record::Prepared { .. });
        match message {
            Prepare { tid, max_ss } => self.prepare(state, tid, shard, max_ss),
            Execute { tid, cli_ts } => self.execute(state, tid, shard, cli_ts),
            // A PREPARE that arrives later takes no lock.
            Message::Abort { tid } if record(tid) == Record::None && !passed(tid) => {
                self.end_at(state, shard, tid, false);
            }
            Message::Abort { tid } if prepared(tid) => self.end_at(state, shard, tid, false),
            Commit { tid } if prepared(tid) => {
                self.end_at(state, shard, tid, true);
                state.network.extend([Decision { tid, commit: true }, Committed { tid }]);
            }
            // A late commit. A home that has forgotten the transaction cannot answer: it may have
            // committed it.
            Commit { tid } if record(tid) == Record::Aborted => {
                state.network.insert(Refused { tid });
            }
            Resolve { tid } => self.resolve(state, tid, shard),
            Decision { tid, commit } if prepared(tid) => self.end_at(state, shard, tid, commit),
            _ => {}
        }
    }

    /// Prepares, validates and decides a transaction of one home in one step.
    fn execute(&self, state: &mut State, tid: Tid, shard: Shard, cli_ts: Timestamp) {
        if self.new_shardstamp(state, shard, max_ss(cli_ts)) <= DEADLINE {
            self.prepare(state, tid, shard, max_ss(cli_ts));
        }
        if matches!(state.homes[shard].records[tid], Record::Prepared { .. }) {
            state.transactions[tid].commit_ts = self.commit_timestamp(state, tid, cli_ts);
            if state.transactions[tid].commit_ts.is_none() {
                self.end_at(state, shard, tid, false);
            }
        }
        self.deliver(state, Commit { tid }, shard);
    }

    fn prepare(&self, state: &mut State, tid: Tid, shard: Shard, max_ss: Stamp) {
        let home = &state.homes[shard];
        if home.records[tid] != Record::None || home.passed.contains(&tid) {
            return;
        }
        let here = || self.writes(tid).iter().filter(|key| HOME_OF[**key] == shard);
        let locked = home.prepared().any(|(t, _)| here().any(|key| self.writes_of(t, *key)));
        // The answer LOCKED is left out: a client may give up at any time.
        if locked && self.has(Rule::Locks) {
            return;
        }
        let versions = here().map(|key| self.latest_version(state, shard, *key));
        let overwritten =
            versions.map(|v| self.timestamp(state, v)).fold(Timestamp::default(), merge);
        let bound = self.new_shardstamp(state, shard, max_ss);
        state.homes[shard].records[tid] = Record::Prepared { bound };
        state.network.insert(Prepared { tid, shard, bound, overwritten });
    }

    /// Decides about an expired prepare at the decision home.
    fn resolve(&self, state: &mut State, tid: Tid, shard: Shard) {
        match state.homes[shard].records[tid] {
            Record::Prepared { .. } if self.has(Rule::AbortRecord) => {
                self.end_at(state, shard, tid, false);
            }
            Record::None if !self.has(Rule::DecideUnprepared) => return,
            // After the deadline the home neither prepares nor commits the transaction. If it had
            // committed, it would have the record: a home that asks has not applied the commit.
            Record::None if !state.homes[shard].passed.contains(&tid) => {
                self.end_at(state, shard, tid, false);
            }
            // DECISION is in the network already.
            Record::Hidden | Record::Shown => return,
            _ => {}
        }
        state.network.insert(Decision { tid, commit: false });
        if state.homes[shard].records[tid] == Record::Aborted {
            state.network.insert(Refused { tid });
        }
    }

    fn may_forget(&self, state: &State, tid: Tid, shard: Shard) -> bool {
        let home = &state.homes[shard];
        let ended = matches!(home.records[tid], Record::Shown | Record::Aborted);
        let deadline = home.passed.contains(&tid) || !self.has(Rule::ForgetAfterDeadline);
        let acknowledged = home.records[tid] == Record::Aborted
            || shard != self.decision_home(tid)
            || !self.has(Rule::ForgetAfterAcknowledgements)
            || self.participants(tid).iter().all(|s| state.homes[*s].committed.contains(&tid));
        ended && deadline && acknowledged
    }

    // Clients.

    /// Ends a transaction. An aborted one gives the session's timestamp back (Listing 3 l. 36),
    /// which means here that the session does not take the transaction's.
    fn end(&self, state: &mut State, tid: Tid, phase: Phase) {
        let keep = match phase {
            Phase::Committed => true,
            Phase::Unknown => self.has(Rule::KeepUnknown),
            _ => false,
        };
        if keep {
            let ts = match state.transactions[tid].commit_ts {
                // The home made `ts`, whose entries are at most the deadline.
                _ if phase == Phase::Unknown && self.has_one_home(tid) => {
                    let all = self.has(Rule::DeadlineEverywhere);
                    let here = |shard| all || shard == self.decision_home(tid);
                    std::array::from_fn(|shard| if here(shard) { DEADLINE } else { 0 })
                }
                ts => ts.unwrap_or_default(),
            };
            let ts = merge(self.cli_ts(state, tid), ts);
            state.sessions[self.scenario.transactions[tid].client] = ts;
        }
        let transaction = &mut state.transactions[tid];
        transaction.phase = phase;
        // Remove what no step and no property needs any more, so that states are equal.
        if phase != Phase::Unknown {
            transaction.reads.iter_mut().for_each(|read| read.shardstamp = 0);
        }
        transaction.reads.sort();
        if phase == Phase::Aborted {
            transaction.reads.clear();
        }
    }

    fn read(&self, state: &mut State, tid: Tid, key: Key, replica: bool) {
        let shard = HOME_OF[key];
        let cli_ss = self.cli_ts(state, tid)[shard];
        if !replica && self.has(Rule::CheckHomes) {
            let home = &mut state.homes[shard];
            // A transaction that the client has seen may be undecided here. The read waits.
            if home.prepared().any(|(_, bound)| bound <= cli_ss) {
                return;
            }
            // Nothing up to `cli_ss` can appear any more: later stamps are above what is shown.
            if home.shown() < cli_ss {
                home.log.push((cli_ss, None));
            }
        }
        let home = &state.homes[shard];
        let length = if replica { home.replica } else { home.log.len() };
        let shardstamp = home.shown_after(length);
        if replica && shardstamp < cli_ss {
            return; // Stale (§4.3): the client retries, or reads at the home.
        }
        let version = self.shown_version(home, key, length);
        state.transactions[tid].reads.push(Read { key, version, shardstamp });
        // A read-only transaction commits without a message.
        let all = self.scenario.transactions[tid].reads.len();
        if self.writes(tid).is_empty() && state.transactions[tid].reads.len() == all {
            let phase =
                if self.read_set_valid(state, tid) { Phase::Committed } else { Phase::Aborted };
            self.end(state, tid, phase);
        }
    }

    /// Validates the read set pairwise (§6.2).
    fn read_set_valid(&self, state: &State, tid: Tid) -> bool {
        let reads = state.transactions[tid].reads.iter();
        let ts = reads.map(|read| self.timestamp(state, read.version));
        !self.has(Rule::ValidateReadSet)
            || self.covers(state, tid, ts.fold(Timestamp::default(), merge))
    }

    fn validate(&self, state: &mut State, tid: Tid) {
        let cli_ts = self.cli_ts(state, tid);
        if !self.read_set_valid(state, tid) {
            self.end(state, tid, Phase::Aborted);
        } else if self.has_one_home(tid) {
            state.transactions[tid].phase = Phase::Committing;
            state.network.insert(Execute { tid, cli_ts });
        } else {
            state.transactions[tid].phase = Phase::Preparing;
            state.network.insert(Prepare { tid, max_ss: max_ss(cli_ts) });
        }
    }

    /// Makes the commit timestamp from PREPARED of all homes; `None` if the read set is not as
    /// recent as the overwrite set.
    fn commit_timestamp(&self, state: &State, tid: Tid, cli_ts: Timestamp) -> Option<Timestamp> {
        let (mut stamp, mut overwrite_set) = (0, Timestamp::default());
        for message in &state.network {
            match *message {
                Prepared { tid: t, bound, overwritten, .. } if t == tid => {
                    stamp = stamp.max(bound);
                    overwrite_set = merge(overwrite_set, overwritten);
                }
                _ => {}
            }
        }
        if self.has(Rule::ValidateOverwriteSet) && !self.covers(state, tid, overwrite_set) {
            return None;
        }
        let mut ts = cli_ts;
        if self.has(Rule::OverwrittenTimestamps) {
            ts = merge(ts, overwrite_set);
        }
        // One stamp at all homes, at least each home's own.
        self.participants(tid).into_iter().for_each(|shard| ts[shard] = stamp);
        Some(ts)
    }

    /// Sends COMMIT, or gives up.
    fn decide(&self, state: &mut State, tid: Tid) {
        let cli_ts = self.cli_ts(state, tid);
        if let Some(ts) = self.commit_timestamp(state, tid, cli_ts) {
            state.transactions[tid].commit_ts = Some(ts);
            state.transactions[tid].phase = Phase::Committing;
            state.network.insert(Commit { tid });
        } else {
            state.network.insert(Message::Abort { tid });
            self.end(state, tid, Phase::Aborted);
        }
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

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
    /// Transactions below the `oldest` that their client has sent to this home.
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
    /// none after a later one. A client that takes no more steps is dead.
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

    // Homes.

    /// Shown stamp of a home: nothing can appear at or below it any more, because stamps that are
    /// assigned later are above the clock.
    fn shown_stamp(&self, home: &Home) -> Stamp {
        let lowest = home.prepared().map(|(_, assigned)| assigned - 1).min();
        lowest.filter(|_| self.has(Rule::ShowInOrder)).unwrap_or(home.clock)
    }

    /// Returns the latest version of a key among shown transactions.
    fn shown_version(&self, shown: &[Tid], key: Key) -> Option<Tid> {
        shown.iter().rev().copied().find(|tid| self.writes_of(*tid, key))
    }

    /// Returns the latest committed version of a key, shown or not.
    fn latest_version(&self, state: &State, shard: Shard, key: Key) -> Option<Tid> {
        let home = &state.homes[shard];
        let hidden = home.hidden().filter(|tid| self.writes_of(*tid, key));
        let hidden = hidden.max_by_key(|tid| self.commit_stamp(state, *tid, shard));
        hidden
            .filter(|_| self.has(Rule::OverwriteHidden))
            .or_else(|| self.shown_version(&home.shown, key))
    }

    /// Records the outcome of a transaction, which releases its locks.
    fn end_at(&self, state: &mut State, shard: Shard, tid: Tid, commit: bool) {
        let stamp = self.commit_stamp(state, tid, shard);
        let home = &mut state.homes[shard];
        if commit {
            home.records[tid] = Record::Hidden;
            home.committed.insert(tid);
            if self.has(Rule::AboveCommitted) {
                home.clock = home.clock.max(stamp);
            }
        } else {
            let decides = shard == self.decision_home(tid);
            home.records[tid] = if decides { Record::Aborted } else { Record::None };
            // A repeated PREPARE of a transaction that the home has committed is no abort.
            if !home.committed.contains(&tid) {
                home.aborted.insert(tid);
            }
        }
        self.show(state, shard);
    }

    /// Shows committed writes in the order of their stamps, as far as no undecided write can get a
    /// lower one (App. A, note below Listing 2). Writes with one stamp are one entry of the log.
    fn show(&self, state: &mut State, shard: Shard) {
        let stamp_of = |tid| self.commit_stamp(state, tid, shard);
        let mut hidden: Vec<Tid> = state.homes[shard].hidden().collect();
        hidden.sort_by_key(|tid| (stamp_of(*tid), *tid));
        let stamps: Vec<Stamp> = hidden.iter().map(|tid| stamp_of(*tid)).collect();
        let home = &mut state.homes[shard];
        let shown_stamp = self.shown_stamp(home);
        for (i, tid) in hidden.into_iter().enumerate() {
            if stamps[i] > shown_stamp {
                break;
            }
            let decides = shard == self.decision_home(tid);
            home.records[tid] = if decides { Record::Shown } else { Record::None };
            home.shown.push(tid);
            if stamps.get(i + 1) != Some(&stamps[i]) || !self.has(Rule::EqualTogether) {
                home.log.push((stamps[i], home.shown.len()));
            }
        }
        // The last batch for the replica contains the shown stamp.
        if let Some(last) = home.log.last_mut() {
            last.0 = last.0.max(shown_stamp);
        }
    }

    fn deliver(&self, state: &mut State, message: Message, shard: Shard) {
        let record = |tid: Tid| state.homes[shard].records[tid];
        let prepared = |tid: Tid| matches!(record(tid), Record::Prepared { .. });
        match message {
            Prepare { tid, max_ss } => {
                let answer = self.prepare(state, tid, shard, max_ss);
                state.network.extend(answer.map(|answer| Prepared { tid, shard, answer }));
            }
            Execute { tid, cli_ts } => self.execute(state, tid, shard, cli_ts),
            Message::Abort(tid) if prepared(tid) => self.end_at(state, shard, tid, false),
            Commit(tid) if prepared(tid) => {
                self.end_at(state, shard, tid, true);
                state.network.extend([Decision { tid, commit: true }, Committed(tid)]);
            }
            // A late commit.
            Commit(tid) if record(tid) == Record::Aborted => {
                state.network.insert(Refused(tid));
            }
            Resolve(tid) => self.resolve(state, tid, shard),
            Decision { tid, commit } => self.learn(state, tid, shard, commit),
            Later(tid) => _ = state.homes[shard].ended.insert(tid),
            _ => {}
        }
    }

    /// Takes locks and assigns a stamp.
    fn prepare(&self, state: &mut State, tid: Tid, shard: Shard, max_ss: Stamp) -> Option<Answer> {
        let home = &state.homes[shard];
        if home.records[tid] != Record::None {
            return None;
        }
        let here = || self.writes(tid).iter().filter(|key| HOME_OF[**key] == shard);
        let locked = home.prepared().any(|(t, _)| here().any(|key| self.writes_of(t, *key)));
        // The answer LOCKED is left out: a client may give up at any time.
        if locked && self.has(Rule::Locks) {
            return None;
        }
        let versions = here().map(|key| self.latest_version(state, shard, *key));
        let overwritten =
            versions.map(|v| self.timestamp(state, v)).fold(Timestamp::default(), merge);
        let assigned = home.clock.max(max_ss) + 1;
        let home = &mut state.homes[shard];
        home.clock = assigned;
        home.records[tid] = Record::Prepared { assigned };
        self.show(state, shard);
        Some((assigned, overwritten))
    }

    /// Prepares, validates and decides a transaction of one home in one step.
    fn execute(&self, state: &mut State, tid: Tid, shard: Shard, cli_ts: Timestamp) {
        let max_ss = self.at_site(cli_ts, shard);
        if let Some(answer) = self.prepare(state, tid, shard, max_ss) {
            let ts = self.commit_timestamp(state, tid, cli_ts, [(shard, answer)].into());
            state.transactions[tid].commit_ts = ts;
            if state.transactions[tid].commit_ts.is_none() {
                self.end_at(state, shard, tid, false);
            }
        }
        self.deliver(state, Commit(tid), shard);
    }

    /// A home receives an outcome.
    fn learn(&self, state: &mut State, tid: Tid, shard: Shard, commit: bool) {
        let Record::Prepared { assigned } = state.homes[shard].records[tid] else { return };
        let stamp = self.commit_stamp(state, tid, shard);
        // Every stamp that was assigned before the commit is at most the commit stamp. So the home
        // has applied the commit, forgotten it, and received a repeated PREPARE.
        let repeated = commit && assigned > stamp && self.has(Rule::DropRepeated);
        self.end_at(state, shard, tid, commit && !repeated);
    }

    /// Decides about an expired prepare at the decision home, and answers.
    fn resolve(&self, state: &mut State, tid: Tid, shard: Shard) {
        let home = &state.homes[shard];
        match home.records[tid] {
            Record::Prepared { .. } if self.has(Rule::AbortRecord) => {
                self.end_at(state, shard, tid, false);
            }
            Record::None if !self.has(Rule::DecideUnprepared) => return,
            // A later message of the client has arrived, so that neither PREPARE nor COMMIT can. If
            // the home had committed, it would have the record: a home that asks has not applied
            // the commit, or asks about a repeated PREPARE.
            Record::None if home.ended.contains(&tid) => {}
            Record::None if self.has(Rule::RecordUnknown) => {
                self.end_at(state, shard, tid, false);
            }
            _ => {}
        }
        let record = state.homes[shard].records[tid];
        let commit = matches!(record, Record::Hidden | Record::Shown);
        state.network.insert(Decision { tid, commit });
        if record == Record::Aborted {
            state.network.insert(Refused(tid));
        }
    }

    /// Whether a home may forget an outcome. Only the decision home has such records.
    fn may_forget(&self, state: &State, tid: Tid, shard: Shard) -> bool {
        let home = &state.homes[shard];
        let applied = |s: &Shard| state.homes[*s].committed.contains(&tid);
        let ended = home.ended.contains(&tid)
            || !self.has(Rule::ForgetAfterOldest)
            || !self.has(Rule::OldestInOrder) && self.has_ended(state, tid);
        ended
            && match home.records[tid] {
                Record::Aborted => true,
                Record::Shown => {
                    !self.has(Rule::ForgetAfterApplied)
                        || self.participants(tid).iter().all(applied)
                }
                _ => false,
            }
    }

    // Clients.

    /// Sends a message of a client, and repeats some.
    fn send(&self, state: &mut State, message: Message, shard: Shard) {
        let (tid, repeats) = match message {
            Prepare { tid, .. } | Execute { tid, .. } => (tid, self.scenario.forgets),
            Message::Abort(tid) | Commit(tid) | Resolve(tid) | Later(tid) => (tid, false),
            _ => unreachable!("a client does not send {message:?}"),
        };
        let link = &mut state.links[self.client(tid)][shard];
        link.extend(std::iter::repeat_n(message, if repeats { 2 } else { 1 }));
    }

    fn abort(&self, state: &mut State, tid: Tid) {
        for shard in self.participants(tid) {
            self.send(state, Message::Abort(tid), shard);
        }
        self.end(state, tid, Phase::Aborted);
    }

    /// Ends a transaction. An aborted one gives the session's timestamp back (Listing 3 l. 36),
    /// which means here that the session does not take the transaction's.
    fn end(&self, state: &mut State, tid: Tid, phase: Phase) {
        let keep = match phase {
            Phase::Committed => true,
            Phase::Unknown => self.has(Rule::KeepUnknown),
            _ => false,
        };
        if keep {
            let unknown = phase == Phase::Unknown && self.has_one_home(tid);
            let ts = state.transactions[tid].commit_ts.filter(|_| !unknown).unwrap_or_default();
            state.sessions[self.client(tid)] = merge(self.cli_ts(state, tid), ts);
        }
        if self.scenario.forgets && !self.writes(tid).is_empty() {
            self.send(state, Later(tid), self.decision_home(tid));
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
            if home.prepared().any(|(_, assigned)| assigned <= cli_ss) {
                return;
            }
            home.clock = home.clock.max(cli_ss);
            self.show(state, shard);
        }
        let home = &state.homes[shard];
        let (shardstamp, length) =
            if replica { home.log[0] } else { (self.shown_stamp(home), home.shown.len()) };
        if replica && shardstamp < cli_ss {
            return; // Stale (§4.3): the client retries, or reads at the home.
        }
        let version = self.shown_version(&home.shown[..length], key);
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
            self.send(state, Execute { tid, cli_ts }, self.decision_home(tid));
        } else {
            state.transactions[tid].phase = Phase::Preparing;
            for shard in self.participants(tid) {
                let max_ss = self.at_site(cli_ts, shard);
                self.send(state, Prepare { tid, max_ss }, shard);
            }
        }
    }

    /// Answers of participants that the client has received.
    fn answers(&self, state: &State, tid: Tid) -> Answers {
        let answers = state.network.iter().filter_map(|message| match *message {
            Prepared { tid: t, shard, answer } if t == tid => Some((shard, answer)),
            _ => None,
        });
        // The first answer of each.
        answers.rev().collect()
    }

    /// Makes the commit timestamp from PREPARED of all homes; `None` if the read set is not as
    /// recent as the overwrite set.
    fn commit_timestamp(
        &self,
        state: &State,
        tid: Tid,
        cli_ts: Timestamp,
        answers: Answers,
    ) -> Option<Timestamp> {
        let overwrite_set = answers.values().map(|a| a.1).fold(Timestamp::default(), merge);
        if self.has(Rule::ValidateOverwriteSet) && !self.covers(state, tid, overwrite_set) {
            return None;
        }
        let mut depends = cli_ts;
        if self.has(Rule::OverwrittenTimestamps) {
            depends = merge(depends, overwrite_set);
        }
        let mut assigned = Timestamp::default();
        answers.iter().for_each(|(shard, answer)| assigned[*shard] = answer.0);
        // One stamp at all homes of a site: at least each home's own, and each on which the
        // transaction depends.
        let floor = if self.has(Rule::AboveDependencies) { depends } else { Timestamp::default() };
        let mut ts = depends;
        for shard in self.participants(tid) {
            ts[shard] = self.at_site(merge(assigned, floor), shard);
        }
        Some(ts)
    }

    /// Sends COMMIT, or gives up.
    fn decide(&self, state: &mut State, tid: Tid) {
        let cli_ts = self.cli_ts(state, tid);
        if let Some(ts) = self.commit_timestamp(state, tid, cli_ts, self.answers(state, tid)) {
            state.transactions[tid].commit_ts = Some(ts);
            state.transactions[tid].phase = Phase::Committing;
            let all = self.participants(tid).into_iter();
            let decides =
                |s: &Shard| *s == self.decision_home(tid) || !self.has(Rule::CommitRecord);
            all.filter(decides).for_each(|shard| self.send(state, Commit(tid), shard));
        } else {
            self.abort(state, tid);
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

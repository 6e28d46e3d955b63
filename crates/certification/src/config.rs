//! Members, timing, and the rules that tests can take out.

use std::collections::BTreeMap;
use std::time::Duration;

use solera_election::Electors;
use solera_machine::{Address, Without};
use solera_time::SiteId;

use crate::ids::{GroupId, TransactionId};

/// Configuration of a worker's part of the service.
#[derive(Clone, Debug)]
pub struct Config {
    /// The worker.
    pub me: Address,
    /// Number of workers of each site; a group's member is at worker `group mod workers`.
    pub workers: Vec<u8>,
    /// The groups that this worker is a member of.
    pub groups: Vec<GroupId>,
    /// The site whose members lead at first.
    pub leader: SiteId,
    /// Number of sites that may be lost together with all data that they have stored.
    pub f: usize,
    /// Number of times that the worker had been started before.
    pub run: u64,
    /// Periods and timeouts.
    pub timing: Timing,
    /// Rules to leave out.
    pub without: Without<Rule>,
}

/// Periods and timeouts of a member.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Period of a leader's status messages.
    pub status_interval: Duration,
    /// Time without a message of the leader after which the members replace it. Must be somewhat
    /// longer than a round trip.
    pub leader_timeout: Duration,
    /// Time after which a coordinator repeats its requests. A leader waits as long before it asks
    /// again for the outcome of a transaction.
    pub retry: Duration,
    /// Time by which a ceiling that the members store is ahead of the leader's clock.
    pub reserve: Duration,
    /// Largest difference by which times of other sites may be ahead. A message with a later time
    /// is dropped: a worker that followed such a time would advance the clocks of all others.
    pub max_ahead: Duration,
    /// Time for which a leader reserves keys for the retry of an aborted transaction. It covers the
    /// longest wait of the retry for the transactions with which it conflicts, and the round trip
    /// to a distant site.
    pub reservation: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            status_interval: Duration::from_millis(50),
            leader_timeout: Duration::from_secs(1),
            retry: Duration::from_millis(500),
            reserve: Duration::from_secs(1),
            max_ahead: Duration::from_secs(70),
            reservation: Duration::from_millis(750),
        }
    }
}

/// A rule of the protocol that a test can take out, to prove that the checks detect its absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A decision needs a quorum of every group.
    Quorum,
    /// A vote takes prepared transactions into account.
    PreparedConflicts,
    /// A new leader takes over the state that a quorum has stored.
    Gather,
    /// The first term after a change of members takes over the states of all members.
    AllAfterChange,
    /// A term begins without the votes that no member has acknowledged.
    DropUnacknowledged,
    /// After a change of members, a member acknowledges no vote of an earlier term for the first
    /// time. The leader of an earlier term neither reports anything as complete nor confirms its
    /// term.
    NothingOutdated,
    /// Requests that were deferred for coordinators of sites that have left get no vote.
    ForgetFormer,
    /// A member that has promised a later term does not acknowledge a vote of an earlier one for
    /// the first time.
    LeaveTerm,
    /// A leader reports nothing as complete beyond the ceiling that a quorum has stored.
    Ceiling,
    /// A leader delivers a transaction only when no undecided one can precede it.
    DeliverInOrder,
    /// A follower delivers a transaction before its leader does only if nothing can precede it.
    NothingBetween,
    /// A new leader waits until it has stored the transactions that the other members have.
    CatchUp,
    /// A member acknowledges a vote only when its site stores what the transaction has seen (§4,
    /// Figure 2).
    UniformBeforeCommit,
    /// A group remembers a transaction until its coordinator and its other groups will not ask
    /// again.
    Remember,
    /// A group that may have forgotten a transaction of a former generation does not claim that it
    /// aborted.
    AdmitForgotten,
    /// When other groups have finished with a transaction, a leader confirms that it still leads
    /// before it forgets the transaction.
    ConfirmTerm,
    /// A member that forgets a transaction knows that it is over, and does not vote on it again.
    LearnOldest,
    /// A vote that proposes a time after the transaction's limit is to abort.
    InTime,
    /// Retries of aborted transactions have priority. Only progress depends on it.
    AbortedFirst,
    /// A member that does not lead names the last term that it saw begin, not a candidate's. Only
    /// progress depends on it.
    NameLeaders,
}

impl Config {
    /// Returns the member of a group at a site.
    pub(crate) fn member(&self, group: GroupId, site: SiteId) -> Address {
        let workers = self.workers.get(site.index()).copied().unwrap_or(1).max(1);
        Address { site, worker: (group.0 % u16::from(workers)) as u8 }
    }

    pub(crate) fn keeps(&self, rule: Rule) -> bool {
        self.without.keeps(rule)
    }
}

/// The sites whose members form the groups, with their generations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Configuration {
    pub(crate) electors: Electors,
    /// First run of each member's present generation.
    first_runs: BTreeMap<SiteId, u64>,
}

impl Configuration {
    /// Creates a configuration of these members, each with the first run of its present generation.
    pub(crate) fn new(number: u64, members: impl IntoIterator<Item = (SiteId, u64)>) -> Self {
        let first_runs: BTreeMap<SiteId, u64> = members.into_iter().collect();
        let electors = Electors::new(number, first_runs.keys().copied());
        Configuration { electors, first_runs }
    }

    /// Returns whether the generation in which a transaction was submitted has ended. Its groups
    /// may have delivered and forgotten it without a trace.
    pub(crate) fn is_former(&self, tid: TransactionId) -> bool {
        let first_run = self.first_runs.get(&tid.coordinator.site);
        first_run.is_none_or(|first_run| tid.serial.run < *first_run)
    }

    /// Returns the number of members that must store a decision: a quorum, and more than may be
    /// lost.
    pub(crate) fn keepers(&self, f: usize) -> usize {
        self.electors.quorum().max(self.electors.members.len().min(f + 1))
    }
}

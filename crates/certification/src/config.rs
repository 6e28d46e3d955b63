//! Who takes part, and how long things may take.

use std::collections::BTreeMap;
use std::time::Duration;

use solera_machine::{Address, Without};
use solera_time::SiteId;

use crate::ids::{GroupId, TransactionId};

/// What a worker's part of the service is created with.
#[derive(Clone, Debug)]
pub struct Config {
    /// The worker.
    pub me: Address,
    /// How many workers each site has; a group's member is at worker `group mod workers`.
    pub workers: Vec<u8>,
    /// The groups that this worker is a member of.
    pub groups: Vec<GroupId>,
    /// The site whose members lead at first.
    pub leader: SiteId,
    /// How many sites may be lost together with all that they have kept.
    pub f: usize,
    /// How often the worker had been started.
    pub run: u64,
    /// How long things may take.
    pub timing: Timing,
    /// A rule to leave out.
    pub without: Without<Rule>,
}

/// How often a member does what it does periodically, and how long it waits.
#[derive(Clone, Debug)]
pub struct Timing {
    /// A leader's sign of life.
    pub status_interval: Duration,
    /// A leader that is silent for so long is replaced. More than a round trip, and some.
    pub leader_timeout: Duration,
    /// A coordinator asks again after so long; so does a leader for what became of a transaction.
    pub retry: Duration,
    /// How far ahead of time a leader has its members keep a ceiling.
    pub reserve: Duration,
    /// A message of another site that names a time further ahead than this is dropped: who follows
    /// it takes everybody else along.
    pub max_ahead: Duration,
    /// For how long a leader keeps keys free for the next attempt of a transaction that was
    /// aborted: as long as that attempt waits at most for what was in the way, and the round trip
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

/// A rule of the protocol that a test can take out, to prove that the checks notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A decision needs a quorum of every group.
    Quorum,
    /// A vote looks at transactions that are prepared.
    PreparedConflicts,
    /// A new leader takes over what a quorum has kept.
    Gather,
    /// The first term after a change of members takes over what all of them have kept.
    AllAfterChange,
    /// A term begins without the votes that nobody has acknowledged.
    DropUntold,
    /// After a change of members no vote of a term before is acknowledged for the first time, and
    /// nothing is shown or confirmed in one.
    NothingOutdated,
    /// What sites that have left asked for before gets no vote any more.
    ForgetFormer,
    /// Who has promised a later term acknowledges no vote of one before for the first time.
    LeaveTerm,
    /// Nothing is shown as complete beyond what a quorum has kept as ceiling.
    Ceiling,
    /// A transaction is delivered when none that is undecided can come before it.
    DeliverInOrder,
    /// A follower delivers ahead of its leader only what nothing can come before.
    NothingBetween,
    /// A new leader waits until it has stored what others have.
    CatchUp,
    /// A member acknowledges a vote when its site stores what the transaction has seen (§4, Figure
    /// 2).
    UniformBeforeCommit,
    /// A transaction is remembered until its coordinator and its other groups will not ask.
    Remember,
    /// A group that may have forgotten a transaction of a former life does not claim that it
    /// aborted.
    AdmitForgotten,
    /// A leader that hears that others are done with a transaction finds out whether it still leads
    /// before it forgets it.
    ConfirmTerm,
    /// Whoever forgets a transaction knows that it is over, and does not vote on it again.
    TellOldest,
    /// A vote comes in time, or it is to abort.
    InTime,
    /// A transaction that was aborted before goes first. Only progress depends on it.
    AbortedFirst,
    /// A member that does not lead names the last term that it saw begin, and no candidate. Only
    /// progress depends on it.
    NameLeaders,
}

impl Config {
    /// The member of a group at a site.
    pub(crate) fn member(&self, group: GroupId, site: SiteId) -> Address {
        let workers = self.workers.get(site.index()).copied().unwrap_or(1).max(1);
        Address { site, worker: (group.0 % u16::from(workers)) as u8 }
    }

    pub(crate) fn keeps(&self, rule: Rule) -> bool {
        self.without.keeps(rule)
    }
}

/// Which sites' members form the groups, and so what a quorum is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Configuration {
    /// Greater than that of every configuration before.
    pub(crate) number: u64,
    pub(crate) members: Vec<SiteId>,
    /// The first run of each member's present life.
    first_runs: BTreeMap<SiteId, u64>,
}

impl Configuration {
    /// These members, each with the first run of its present life.
    pub(crate) fn new(number: u64, members: impl IntoIterator<Item = (SiteId, u64)>) -> Self {
        let first_runs: BTreeMap<SiteId, u64> = members.into_iter().collect();
        Configuration { number, members: first_runs.keys().copied().collect(), first_runs }
    }

    /// Whether the life in which a transaction was submitted has ended. Its groups may have
    /// delivered and forgotten it without a trace.
    pub(crate) fn is_former(&self, tid: TransactionId) -> bool {
        let first_run = self.first_runs.get(&tid.coordinator.site);
        first_run.is_none_or(|first_run| tid.serial.run < *first_run)
    }

    /// Any two quorums of the members meet.
    pub(crate) fn quorum(&self) -> usize {
        self.members.len() / 2 + 1
    }

    /// So many must keep what is decided: a quorum, and more than may be lost.
    pub(crate) fn keepers(&self, f: usize) -> usize {
        self.quorum().max(self.members.len().min(f + 1))
    }

    pub(crate) fn others(&self, me: SiteId) -> Vec<SiteId> {
        self.members.iter().copied().filter(|site| *site != me).collect()
    }
}

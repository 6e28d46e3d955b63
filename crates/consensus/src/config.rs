//! Configuration of a member, and the rules that tests can take out.

use std::time::Duration;

use solera_machine::Without;
use solera_time::SiteId;

/// Configuration of a member.
#[derive(Clone, Debug)]
pub struct Config {
    /// Site of this member.
    pub me: SiteId,
    /// Number of sites of the first configuration; their numbers begin at 0.
    pub sites: usize,
    /// The site whose member leads at first.
    pub leader: SiteId,
    /// Largest number of ids in a slot; at least 1.
    pub batch: usize,
    /// Largest number of undecided slots for which a leader proposes new ids; at least 1.
    pub pipeline: usize,
    /// Approximate largest size of a message with slots or bodies, in bytes.
    pub part_bytes: usize,
    /// How decisions are made.
    pub variant: Variant,
    /// Periods and timeouts.
    pub timing: Timing,
    /// Rules to leave out.
    pub without: Without<Rule>,
}

impl Config {
    /// Returns a configuration with the usual limits and times.
    pub fn new(me: SiteId, sites: usize, leader: SiteId) -> Self {
        Config {
            me,
            sites,
            leader,
            batch: 256,
            pipeline: 64,
            part_bytes: 64 << 10,
            variant: Variant::Quorum,
            timing: Timing::default(),
            without: Without::default(),
        }
    }

    pub(crate) fn keeps(&self, rule: Rule) -> bool {
        self.without.keeps(rule)
    }
}

/// How decisions are made. Comparisons use all but [`Variant::Quorum`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Variant {
    /// A quorum of members decides.
    #[default]
    Quorum,
    /// A quorum decides. Members report the proposals that they accept.
    Optimistic,
    /// The leader decides alone, and the members do not survive its failure.
    Primary,
}

/// Periods and timeouts of a member.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Period of a leader's status messages while slots are undelivered somewhere.
    pub status_interval: Duration,
    /// Time without a message of the leader after which the members replace it. Must be somewhat
    /// longer than a round trip.
    pub leader_timeout: Duration,
    /// Time after which a request is repeated. Should be longer than a round trip.
    pub retry: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            status_interval: Duration::from_millis(50),
            leader_timeout: Duration::from_secs(1),
            retry: Duration::from_millis(500),
        }
    }
}

/// A rule of the protocol that a test can take out, to prove that the checks detect its absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A decision needs the acceptances of a quorum.
    Quorum,
    /// A leader proposes, and a member accepts, only where the predicates hold.
    PredicateAtAcceptance,
    /// A member delivers only where the predicates hold.
    PredicateAtDelivery,
    /// A promise hands over the bodies of what was accepted.
    BodiesWithPromises,
    /// A new leader proposes again what the members of a quorum have accepted.
    ReProposal,
    /// If members have accepted different batches for a slot, the one of the highest ballot counts.
    HighestBallot,
    /// A new leader fills slots for which no member has accepted anything.
    FillGaps,
    /// A promise is recorded before it is sent.
    RecordPromise,
    /// An acceptance is recorded before it is sent.
    RecordAcceptance,
    /// A member that has promised a ballot accepts nothing of a lower one, also if it received the
    /// proposal before.
    LeaveTerm,
    /// An id is delivered once, although two slots may contain it.
    Once,
    /// An id is delivered after all earlier ones of its run.
    RunOrder,
    /// The first term after a change of members has the promises of all of them.
    AllAfterChange,
    /// A member takes no part in ballots of former configurations.
    FormerConfiguration,
    /// A configuration is established when a quorum has delivered what its first term began with.
    EstablishDelivered,
    /// A slot is forgotten when all members have delivered it.
    TruncateDelivered,
    /// A leader repeats a proposal that members have not accepted. Only progress depends on it.
    RepeatProposals,
    /// A member asks for the decisions that it lacks. Only progress depends on it.
    AskForDecisions,
}

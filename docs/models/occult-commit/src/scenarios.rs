//! Scenarios, rules of the protocol, and traps.

use crate::{Message, Occult, Phase, Record, SHARDS, Shard, Stamp, State};

/// A rule of the protocol, which a trap takes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A transaction commits when its decision home records it. In Listing 3 l. 60–61, each home
    /// commits when it receives the client's message.
    CommitRecord,
    /// The decision home records that it has decided to abort.
    AbortRecord,
    /// The decision home decides about an expired prepare, and not the home that holds it.
    DecisionHomeDecides,
    /// The decision home decides also about a transaction that it has not prepared.
    DecideUnprepared,
    /// A home forgets a transaction only after the deadline, when it refuses its PREPARE.
    ForgetAfterDeadline,
    /// The decision home forgets a commit only when all participants have applied it.
    ForgetAfterAcknowledgements,
    /// A prepare takes locks, and is refused while another transaction holds one of them.
    Locks,
    /// A home shows a write only when no undecided transaction can get a lower stamp.
    ShowInOrder,
    /// A stamp contains the shard that assigned it, so that two transactions never share one.
    UniqueStamps,
    /// A home assigns stamps above the client's whole timestamp (Listing 2 l. 4).
    AboveClient,
    /// The commit timestamp contains the timestamps of overwritten versions (§6.3 case ii).
    OverwrittenTimestamps,
    /// The read set is validated against the overwrite set (§6.2, third step).
    ValidateOverwriteSet,
    /// The overwritten version is the latest committed one, also while it is not shown yet.
    OverwriteHidden,
    /// The read set is validated pairwise (§6.2, first step).
    ValidateReadSet,
    /// Reads at homes are checked as well as those at replicas.
    CheckHomes,
    /// A stamp that a home has reported as shown survives a restart of the home.
    KeepReported,
    /// After an unknown outcome of a transaction of one home, every entry of the session's
    /// timestamp takes the deadline, and not only the entry of the written shard.
    DeadlineEverywhere,
    /// A session takes the commit timestamp of a transaction whose outcome it does not know.
    KeepUnknown,
}

/// Objects: X and Z in shard A, Y in shard B, U in shard C.
pub type Key = usize;
const X: Key = 0;
const Y: Key = 1;
const Z: Key = 2;
const U: Key = 3;
pub const HOME_OF: [Shard; 4] = [0, 1, 0, 2];

/// A transaction: reads in any order, then writes. The home of the first write decides.
pub struct Plan {
    pub client: usize,
    pub reads: &'static [Key],
    pub writes: &'static [Key],
}

/// Name and condition of a state.
pub type Reached = (&'static str, fn(&Occult, &State) -> bool);

pub struct Scenario {
    pub name: &'static str,
    /// Transactions of one client are in its order.
    pub transactions: &'static [Plan],
    /// Stamp with which each home begins: clocks that run ahead.
    pub start: [Stamp; SHARDS],
    /// Whether deadlines pass, and homes forget.
    pub forgets: bool,
    /// Whether transactions of one home are executed in one step.
    pub one_step: bool,
    /// States that must be reachable.
    pub reaches: &'static [Reached],
}

const fn plan(client: usize, reads: &'static [Key], writes: &'static [Key]) -> Plan {
    Plan { client, reads, writes }
}

pub const SCENARIOS: &[Scenario] = &[
    // Three homes and one client.
    Scenario {
        name: "termination",
        transactions: &[plan(0, &[], &[X, Y, U])],
        start: [0, 20, 0],
        forgets: true,
        one_step: false,
        reaches: &[
            ("a late commit is refused", |_, state| {
                state.transactions[0].phase == Phase::Aborted
                    && state.network.contains(&Message::Refused { tid: 0 })
            }),
            ("a commit is decided here and not there", |_, state| {
                state.homes[0].records[0] == Record::Shown
                    && matches!(state.homes[2].records[0], Record::Prepared { .. })
            }),
            ("everything is forgotten", |_, state| {
                state
                    .homes
                    .iter()
                    .all(|home| home.records[0] == Record::None && home.committed.contains(&0))
            }),
        ],
    },
    // Two clients write the same objects, with different decision homes.
    Scenario {
        name: "contention",
        transactions: &[plan(0, &[], &[X, Y]), plan(1, &[], &[Y, X])],
        start: [0, 20, 0],
        forgets: true,
        one_step: false,
        reaches: &[("both commit", |_, state| state.homes[1].committed.len() == 2)],
    },
    // A blind write over one of two objects, and a reader of both.
    Scenario {
        name: "atomic",
        transactions: &[plan(0, &[], &[X, Y]), plan(1, &[], &[X]), plan(2, &[X, Y], &[])],
        start: [0, 0, 0],
        forgets: false,
        one_step: false,
        reaches: &[
            ("a reader sees both", |_, state| {
                let reader = &state.transactions[2];
                reader.phase == Phase::Committed
                    && reader.reads[0].version == Some(1)
                    && reader.reads[1].version == Some(0)
            }),
            ("a reader aborts", |_, state| state.transactions[2].phase == Phase::Aborted),
        ],
    },
    // A client whose outcome may be unknown reads what it has written.
    Scenario {
        name: "session",
        transactions: &[plan(0, &[], &[X, Y]), plan(0, &[Y], &[U]), plan(1, &[U, X], &[])],
        start: [0, 8, 0],
        forgets: false,
        one_step: false,
        reaches: &[("a read advances a home", |_, state| {
            state.homes[1].log.len() == 2 && state.homes[1].log[1].1.is_none()
        })],
    },
    // Two clients read and write one object, while an undecided write hides commits of its shard.
    Scenario {
        name: "update",
        transactions: &[plan(0, &[], &[Y, Z]), plan(1, &[], &[X]), plan(2, &[X], &[X])],
        start: [0, 0, 0],
        forgets: false,
        one_step: false,
        reaches: &[("an overwritten version is hidden", |_, state| {
            state.homes[0].records[1] == Record::Hidden
                && matches!(state.homes[0].records[2], Record::Prepared { .. })
        })],
    },
    // Two transactions share a shard, and get their stamps at two others that run ahead.
    Scenario {
        name: "ties",
        transactions: &[plan(0, &[], &[X, Y]), plan(1, &[], &[U, Z]), plan(2, &[U, Z], &[])],
        start: [0, 20, 20],
        forgets: false,
        one_step: false,
        reaches: &[("both commit in one shard", |_, state| state.homes[0].log.len() == 3)],
    },
    // A transaction depends on one that is undecided in the shard where it writes.
    Scenario {
        name: "chain",
        transactions: &[plan(0, &[], &[Y, X]), plan(1, &[Y], &[Z]), plan(2, &[Z, X], &[])],
        start: [0, 20, 0],
        forgets: false,
        one_step: false,
        reaches: &[("a dependent is shown", |_, state| {
            state.homes[0].log.len() == 3 && state.homes[0].log[2].1 == Some(1)
        })],
    },
    // A client whose outcome is unknown reads beside a later writer whose clocks are behind.
    Scenario {
        name: "restart",
        transactions: &[plan(0, &[], &[X, Y]), plan(0, &[Y, U], &[]), plan(1, &[], &[Y, U])],
        start: [20, 0, 0],
        forgets: false,
        one_step: false,
        reaches: &[("a write is above a stamp that a read has reported", |_, state| {
            state.homes[1].log.len() == 3 && state.homes[1].log[2].1 == Some(2)
        })],
    },
    // A blind write in one step, whose outcome may be unknown, over one of two objects.
    Scenario {
        name: "one-home",
        transactions: &[plan(0, &[], &[X, Y]), plan(1, &[], &[X]), plan(1, &[Y], &[])],
        start: [0, 20, 0],
        forgets: false,
        one_step: true,
        reaches: &[
            ("an unknown outcome is a commit", |_, state| {
                state.transactions[1].phase == Phase::Unknown
                    && state.homes[0].committed.contains(&1)
                    && state.transactions[2].phase == Phase::Committed
            }),
            ("a commit is acknowledged", |_, state| {
                state.transactions[1].phase == Phase::Committed
            }),
        ],
    },
    // Two updates in one step of what they have read.
    Scenario {
        name: "increments",
        transactions: &[plan(0, &[X], &[X]), plan(1, &[X], &[X]), plan(1, &[X], &[X])],
        start: [0, 0, 0],
        forgets: true,
        one_step: true,
        reaches: &[("an update is refused", |_, state| {
            state.transactions[0].phase == Phase::Aborted
        })],
    },
];

/// Rules with the scenario and the property that their absence must violate.
pub const TRAPS: &[(Rule, &str, &str)] = &[
    (Rule::CommitRecord, "termination", "atomicity"),
    (Rule::CommitRecord, "termination", "clients agree"),
    (Rule::AbortRecord, "termination", "atomicity"),
    (Rule::DecisionHomeDecides, "termination", "atomicity"),
    (Rule::DecideUnprepared, "termination", "locks are released"),
    (Rule::ForgetAfterDeadline, "termination", "atomicity"),
    (Rule::ForgetAfterDeadline, "increments", "PC-PSI"),
    (Rule::ForgetAfterAcknowledgements, "termination", "atomicity"),
    (Rule::Locks, "contention", "lock exclusion"),
    (Rule::Locks, "update", "PC-PSI"),
    (Rule::ShowInOrder, "ties", "stamp order"),
    (Rule::ShowInOrder, "chain", "PC-PSI"),
    (Rule::UniqueStamps, "ties", "stamp order"),
    (Rule::UniqueStamps, "ties", "PC-PSI"),
    (Rule::AboveClient, "chain", "stamps dominate"),
    (Rule::AboveClient, "chain", "PC-PSI"),
    (Rule::OverwrittenTimestamps, "atomic", "PC-PSI"),
    (Rule::ValidateOverwriteSet, "update", "PC-PSI"),
    (Rule::OverwriteHidden, "update", "PC-PSI"),
    (Rule::ValidateReadSet, "atomic", "PC-PSI"),
    (Rule::CheckHomes, "session", "PC-PSI"),
    (Rule::KeepReported, "restart", "PC-PSI"),
    (Rule::DeadlineEverywhere, "one-home", "PC-PSI"),
    (Rule::KeepUnknown, "session", "PC-PSI"),
];

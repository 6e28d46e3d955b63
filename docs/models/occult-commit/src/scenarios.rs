//! Scenarios, rules of the protocol, and traps.

use crate::{Occult, Phase, Record, SHARDS, Shard, Stamp, State};

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
    /// The decision home records an abort also if it has never received the transaction.
    RecordUnknown,
    /// Messages of a client to a home arrive in the order in which they were sent.
    Fifo,
    /// The decision home forgets an outcome only when the client's `oldest` is above it. With
    /// deadlines, a home forgets it only after the deadline.
    ForgetAfterOldest,
    /// With deadlines: a home refuses a PREPARE after the deadline.
    RefuseLate,
    /// The decision home takes `oldest` from the client's messages, and not from other processes.
    OldestInOrder,
    /// The decision home forgets a commit only when all participants have applied it.
    ForgetAfterApplied,
    /// A home does not apply a commit whose stamp is below the stamp that it has assigned.
    DropRepeated,
    /// A prepare takes locks, and is refused while another transaction holds one of them.
    Locks,
    /// A home shows a write only when no undecided transaction can get a lower stamp.
    ShowInOrder,
    /// Writes with one commit stamp are shown in one step.
    EqualTogether,
    /// An assigned stamp is above every commit stamp that the home knows.
    AboveCommitted,
    /// Each site has a commit stamp, made from the stamps of this site alone.
    SitesApart,
    /// A commit stamp is not below the site's stamps on which the transaction depends.
    AboveDependencies,
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
    /// A session does not go on after an EXECUTE without an answer.
    WaitForExecute,
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
    /// Clock with which each home begins.
    pub start: [Stamp; SHARDS],
    /// Whether clients repeat PREPARE and EXECUTE and restart, and decision homes forget.
    pub forgets: bool,
    /// Whether links keep no order, and deadlines end transactions.
    pub deadlines: bool,
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
        start: [0, 100, 0],
        forgets: true,
        deadlines: false,
        one_step: false,
        reaches: &[
            ("a late commit is refused", |_, state| {
                let client = &state.transactions[0];
                client.phase == Phase::Aborted && client.commit_ts.is_some()
            }),
            ("a commit is decided here and not there", |_, state| {
                state.homes[0].records[0] == Record::Shown
                    && matches!(state.homes[2].records[0], Record::Prepared { .. })
            }),
            ("a forgotten commit is prepared anew", |_, state| {
                state.homes[0].records[0] == Record::None
                    && state.homes[0].committed.contains(&0)
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
    // The same with links that lose the order.
    Scenario {
        name: "deadlines",
        transactions: &[plan(0, &[], &[X, Y, U])],
        start: [0, 100, 0],
        forgets: true,
        deadlines: true,
        one_step: false,
        reaches: &[("everything is forgotten", |_, state| {
            state
                .homes
                .iter()
                .all(|home| home.records[0] == Record::None && home.committed.contains(&0))
        })],
    },
    // Two clients write the same objects, with different decision homes.
    Scenario {
        name: "contention",
        transactions: &[plan(0, &[], &[X, Y]), plan(1, &[], &[Y, X])],
        start: [0, 100, 0],
        forgets: true,
        deadlines: false,
        one_step: false,
        reaches: &[("both commit", |_, state| state.homes[1].committed.len() == 2)],
    },
    // A blind write over one of two objects, and a reader of both.
    Scenario {
        name: "atomic",
        transactions: &[plan(0, &[], &[X, Y]), plan(1, &[], &[X]), plan(2, &[X, Y], &[])],
        start: [0, 0, 0],
        forgets: false,
        deadlines: false,
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
        deadlines: false,
        one_step: false,
        reaches: &[("an unknown outcome is a commit", |_, state| {
            state.transactions[0].phase == Phase::Unknown
                && state.transactions[1].reads.first().is_some_and(|read| read.version == Some(0))
        })],
    },
    // Two clients read and write one object, while an undecided write hides commits of its shard.
    Scenario {
        name: "update",
        transactions: &[plan(0, &[], &[Y, Z]), plan(1, &[], &[X]), plan(2, &[X], &[X])],
        start: [0, 0, 0],
        forgets: false,
        deadlines: false,
        one_step: false,
        reaches: &[("an overwritten version is hidden", |_, state| {
            state.homes[0].records[1] == Record::Hidden
                && matches!(state.homes[0].records[2], Record::Prepared { .. })
        })],
    },
    // Two transactions share a shard, and one has its stamp from another one.
    Scenario {
        name: "ties",
        transactions: &[plan(0, &[], &[X, Y]), plan(1, &[], &[U, Z]), plan(2, &[U, Z], &[])],
        start: [0, 100, 1],
        forgets: false,
        deadlines: false,
        one_step: false,
        reaches: &[
            ("two commits have one stamp", |model, state| {
                let stamp = |tid| model.commit_stamp(state, tid, 0);
                state.homes[0].shown.len() == 2 && stamp(0) == stamp(1)
            }),
            ("two commits have two stamps", |model, state| {
                let stamp = |tid| model.commit_stamp(state, tid, 0);
                state.homes[0].shown.len() == 2 && stamp(0) != stamp(1)
            }),
        ],
    },
    // A transaction depends on one that is undecided in the shard where it writes, and whose other
    // home's clock is far ahead.
    Scenario {
        name: "chain",
        transactions: &[plan(0, &[], &[Y, X]), plan(1, &[Y], &[Z]), plan(2, &[Z, X], &[])],
        start: [0, 100, 0],
        forgets: false,
        deadlines: false,
        one_step: false,
        reaches: &[("a dependent is shown", |_, state| {
            state.homes[0].shown == [0, 1] && state.transactions[1].reads[0].version == Some(0)
        })],
    },
    // Two transactions share two shards at two sites, and get their stamps in different orders.
    Scenario {
        name: "overtake",
        transactions: &[plan(0, &[], &[X, Y]), plan(1, &[], &[Z, Y]), plan(2, &[X, Z], &[])],
        start: [0, 100, 0],
        forgets: false,
        deadlines: false,
        one_step: false,
        reaches: &[
            ("a commit stamp is above the assigned one", |model, state| {
                state.homes[0].shown == [0, 1]
                    && state.homes[1].shown == [1, 0]
                    && model.commit_stamp(state, 0, 0) == model.commit_stamp(state, 1, 0)
            }),
            ("the other order", |_, state| state.homes[1].shown == [0, 1]),
        ],
    },
    // A blind write overwrites a version that depends on a shard of another clock.
    Scenario {
        name: "overwrite",
        transactions: &[plan(0, &[], &[X, Y]), plan(1, &[], &[U, Y])],
        start: [0, 100, 10],
        forgets: false,
        deadlines: false,
        one_step: false,
        reaches: &[("a commit stamp is above all assigned ones", |model, state| {
            state.homes[0].shown == [0] && model.commit_stamp(state, 0, 0) == 11
        })],
    },
    // A client whose outcome is unknown reads beside a later writer whose clocks are behind.
    Scenario {
        name: "restart",
        transactions: &[plan(0, &[], &[X, U]), plan(0, &[U, Y], &[]), plan(1, &[], &[U, Y])],
        start: [20, 100, 0],
        forgets: false,
        deadlines: false,
        one_step: false,
        reaches: &[("a write is above a stamp that a read has reported", |model, state| {
            state.homes[2].shown == [2] && model.commit_stamp(state, 2, 2) > 20
        })],
    },
    // A blind write in one step, whose outcome may be unknown, over one of two objects.
    Scenario {
        name: "one-home",
        transactions: &[plan(0, &[], &[X, Y]), plan(1, &[], &[X]), plan(1, &[Y], &[])],
        start: [0, 20, 0],
        forgets: false,
        deadlines: false,
        one_step: true,
        reaches: &[("a client reads after a commit", |_, state| {
            state.transactions[1].phase == Phase::Committed
                && state.transactions[2].phase == Phase::Committed
        })],
    },
    // Two updates in one step of what they have read.
    Scenario {
        name: "increments",
        transactions: &[plan(0, &[X], &[X]), plan(1, &[X], &[X]), plan(1, &[X], &[X])],
        start: [0, 0, 0],
        forgets: true,
        deadlines: false,
        one_step: true,
        reaches: &[("an update is refused", |_, state| {
            state.transactions[0].phase == Phase::Aborted
        })],
    },
    // Two of them in the variant with deadlines.
    Scenario {
        name: "late-increments",
        transactions: &[plan(0, &[X], &[X]), plan(1, &[X], &[X])],
        start: [0, 0, 0],
        forgets: true,
        deadlines: true,
        one_step: true,
        reaches: &[("both commit", |_, state| state.homes[0].shown.len() == 2)],
    },
];

/// Rules with the scenario and the property that their absence must violate.
pub const TRAPS: &[(Rule, &str, &str)] = &[
    (Rule::CommitRecord, "termination", "atomicity"),
    (Rule::CommitRecord, "termination", "clients agree"),
    (Rule::AbortRecord, "termination", "atomicity"),
    (Rule::DecisionHomeDecides, "termination", "atomicity"),
    (Rule::DecideUnprepared, "termination", "locks are released"),
    (Rule::RecordUnknown, "termination", "atomicity"),
    (Rule::Fifo, "termination", "atomicity"),
    (Rule::ForgetAfterOldest, "termination", "atomicity"),
    (Rule::ForgetAfterOldest, "increments", "PC-PSI"),
    (Rule::ForgetAfterOldest, "deadlines", "atomicity"),
    (Rule::ForgetAfterOldest, "late-increments", "PC-PSI"),
    (Rule::RefuseLate, "deadlines", "atomicity"),
    (Rule::OldestInOrder, "termination", "atomicity"),
    (Rule::ForgetAfterApplied, "termination", "atomicity"),
    (Rule::DropRepeated, "termination", "stamp order"),
    (Rule::Locks, "contention", "lock exclusion"),
    (Rule::Locks, "update", "PC-PSI"),
    (Rule::ShowInOrder, "ties", "stamp order"),
    (Rule::ShowInOrder, "chain", "PC-PSI"),
    (Rule::EqualTogether, "ties", "stamp order"),
    (Rule::EqualTogether, "ties", "PC-PSI"),
    (Rule::AboveCommitted, "ties", "locks are released"),
    (Rule::SitesApart, "chain", "isolation"),
    (Rule::AboveDependencies, "overwrite", "stamps dominate"),
    (Rule::AboveDependencies, "overtake", "PC-PSI"),
    (Rule::OverwrittenTimestamps, "atomic", "PC-PSI"),
    (Rule::ValidateOverwriteSet, "update", "PC-PSI"),
    (Rule::OverwriteHidden, "update", "PC-PSI"),
    (Rule::ValidateReadSet, "atomic", "PC-PSI"),
    (Rule::CheckHomes, "session", "PC-PSI"),
    (Rule::KeepReported, "restart", "PC-PSI"),
    (Rule::WaitForExecute, "one-home", "PC-PSI"),
    (Rule::KeepUnknown, "session", "PC-PSI"),
];

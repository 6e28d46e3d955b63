//! Scenarios, rules of the protocol, and traps.

use crate::protocol::*;

/// A rule of the protocol, which a trap takes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// S1. Members receive each stream in order.
    InOrder,
    /// S2. Every member that has an operation sends it to others.
    Relay,
    /// S3. What an operation has seen is durable before the operation is sent.
    DurableInvoked,
    /// Q. The predicate requires the causal context.
    Context,
    /// A1. A member that has promised a ballot accepts nothing of lower ones.
    AcceptPromised,
    /// A2. A member accepts where the predicate holds.
    AcceptWhereHolds,
    /// A3. An accepted cast is durable.
    DurableBodies,
    /// A3. The causal context of an accepted cast is durable.
    DurableContext,
    /// A3. Earlier operations of the stream of an accepted cast are durable.
    DurableStreams,
    /// A3. Acceptances are durable.
    DurableAccepted,
    /// P1. Promises are durable.
    DurablePromise,
    /// P2. A promise hands over slots that the member has delivered and not accepted.
    PromiseDecided,
    /// P3. A promise hands over the operations that accepted casts require.
    PromiseBodies,
    /// P3. With each operation, a promise hands over earlier ones of its stream.
    PromiseStreams,
    /// P4. The first leader of a configuration needs the promises of all its members.
    AllPromise,
    /// P5. A configuration is settled when a quorum of it has what its first leader knew.
    Settle,
    /// L1. A leader takes over what members have accepted.
    TakeOver,
    /// L1. A leader takes over the acceptance of the highest ballot.
    SelectHighest,
    /// L2. A leader fills gaps with empty slots.
    FillGaps,
    /// L4. A leader proposes the casts of a run in order, and again what was skipped.
    ProposeInOrder,
    /// L4. A leader proposes where the predicate holds.
    ProposeWhereHolds,
    /// L5. A restarted leader does not go on to lead.
    LeadAfterPromises,
    /// D1. The acceptances of a quorum decide.
    Quorum,
    /// D1. A member counts acceptances of one ballot.
    CountOneBallot,
    /// D3. A member delivers where the predicate holds.
    DeliverWhereHolds,
    /// D4. A cast that was delivered before is skipped.
    SkipRepeated,
    /// D4. A cast is skipped if an earlier one of its run was not delivered.
    SkipEarly,
    /// D5. Delivered slots are durable.
    DurableDelivered,
    /// T1. A slot is truncated when all members have delivered it.
    TruncateAtAll,
}

pub struct Stream {
    pub site: Member,
    pub run: u8,
    pub strong: bool,
}

/// Name and condition of a state.
pub type Reached = (&'static str, fn(&Broadcast, &State) -> bool);

pub struct Scenario {
    pub name: &'static str,
    pub members: usize,
    /// Operations that sites invoke; those of a stream in order.
    pub operations: &'static [Stream],
    /// Operations that all members have in the beginning.
    pub given: Set,
    /// Members that deliver. The others deliver after all faults.
    pub delivering: Set,
    /// Owner and configuration of each ballot.
    pub ballots: &'static [(Member, u8)],
    /// Slots in which leaders propose.
    pub slots: usize,
    pub restarts: u8,
    /// Members that may restart.
    pub restarting: Set,
    pub batches: bool,
    pub truncates: bool,
    /// Members that the second configuration lacks.
    pub removes: Set,
    pub reaches: &'static [Reached],
}

const fn strong(site: Member, run: u8) -> Stream {
    Stream { site, run, strong: true }
}

const fn weak(site: Member, run: u8) -> Stream {
    Stream { site, run, strong: false }
}

const DEFAULT: Scenario = Scenario {
    name: "",
    members: 3,
    operations: &[],
    given: 0,
    delivering: Set::MAX,
    ballots: &[],
    slots: 2,
    restarts: 0,
    restarting: Set::MAX,
    batches: false,
    truncates: false,
    removes: 0,
    reaches: &[],
};

pub const SCENARIOS: &[Scenario] = &[
    // A cast whose context another site has sent, and one that may follow it.
    Scenario {
        name: "context",
        operations: &[weak(1, 1), strong(0, 1), strong(1, 1)],
        ballots: &[(0, 0), (2, 0)],
        restarts: 1,
        reaches: &[
            ("a member delivers a cast with a context", |model, state| {
                contains(state.contexts[1], 0) && model.order(state, 2).contains(&1)
            }),
            ("a cast is delivered after one of its context", |model, state| {
                contains(state.contexts[2], 1) && model.order(state, 2) == [1, 2]
            }),
        ],
        ..DEFAULT
    },
    Scenario {
        name: "origins",
        operations: &[strong(0, 1), strong(1, 1)],
        ballots: &[(0, 0), (1, 0), (2, 0)],
        reaches: &[
            ("one order", |model, state| model.order(state, 2) == [0, 1]),
            ("the other order", |model, state| model.order(state, 2) == [1, 0]),
        ],
        ..DEFAULT
    },
    // Two casts of a run, which all members have.
    Scenario {
        name: "run",
        operations: &[strong(0, 1), strong(0, 1)],
        given: 0b11,
        ballots: &[(0, 0), (1, 0), (2, 0)],
        slots: 3,
        delivering: 0b110,
        reaches: &[
            ("a cast is skipped, and delivered later", |model, state| {
                state.logs[2][..3] == [0, 0b10, 0b01] || {
                    state.logs[2][..2] == [0, 0b10] && model.order(state, 2).is_empty()
                }
            }),
            ("all are delivered", |model, state| model.order(state, 2) == [0, 1]),
        ],
        ..DEFAULT
    },
    // Two casts of different runs, which all members have.
    Scenario {
        name: "repeats",
        operations: &[strong(0, 1), strong(1, 1)],
        given: 0b11,
        ballots: &[(0, 0), (1, 0), (2, 0)],
        reaches: &[("two slots have the same cast", |model, state| {
            state.logs[2][..2] == [0b10, 0b10] && model.order(state, 2) == [1]
        })],
        ..DEFAULT
    },
    Scenario {
        name: "restarts",
        operations: &[strong(0, 1), strong(1, 1)],
        given: 0b11,
        ballots: &[(0, 0), (1, 0), (2, 0)],
        slots: 1,
        restarts: 2,
        reaches: &[("a restarted member delivers", |model, state| {
            state.restarts_left == 0 && state.runs[1] == 3 && !model.order(state, 1).is_empty()
        })],
        ..DEFAULT
    },
    // A site restarts between two casts.
    Scenario {
        name: "runs",
        operations: &[strong(0, 1), strong(0, 1), strong(0, 2)],
        ballots: &[(0, 0), (1, 0)],
        slots: 3,
        restarts: 1,
        restarting: 0b011,
        reaches: &[
            ("both runs are delivered", |model, state| model.order(state, 2) == [0, 1, 2]),
            ("a later run is delivered first", |model, state| model.order(state, 2) == [2, 0]),
        ],
        ..DEFAULT
    },
    Scenario {
        name: "batches",
        operations: &[strong(0, 1), strong(0, 1), strong(1, 1)],
        given: 0b111,
        ballots: &[(0, 0), (1, 0)],
        batches: true,
        reaches: &[
            ("a slot delivers two casts", |model, state| model.order(state, 2) == [0, 2]),
            ("a slot delivers one of two casts", |model, state| {
                state.logs[2][..2] == [0, 0b110] && model.order(state, 2) == [2]
            }),
        ],
        ..DEFAULT
    },
    Scenario {
        name: "truncation",
        operations: &[strong(0, 1), strong(1, 1)],
        given: 0b01,
        ballots: &[(0, 0), (2, 0)],
        truncates: true,
        restarts: 1,
        reaches: &[("all truncate all slots", |_, state| state.truncated[..3] == [2; 3])],
        ..DEFAULT
    },
    // Quorums that intersect in one of four members.
    Scenario {
        name: "four",
        members: 4,
        operations: &[strong(0, 1), strong(1, 1)],
        given: 0b11,
        ballots: &[(0, 0), (1, 0), (2, 0)],
        slots: 1,
        reaches: &[("a later leader decides", |model, state| {
            model.is_quorum(state.votes[2][0], model.configuration(0))
        })],
        ..DEFAULT
    },
    // The only two members with the bodies may fail.
    Scenario {
        name: "five",
        members: 5,
        operations: &[strong(0, 1), strong(0, 1)],
        ballots: &[(0, 0), (2, 0)],
        delivering: 0,
        reaches: &[("a later leader decides", |model, state| {
            let chosen = |slot: Slot| model.is_quorum(state.votes[1][slot], model.configuration(0));
            chosen(0) && chosen(1)
        })],
        ..DEFAULT
    },
    // The leader may have a cast without its context.
    Scenario {
        name: "five-context",
        members: 5,
        operations: &[weak(1, 1), strong(0, 1), strong(2, 1)],
        ballots: &[(2, 0)],
        slots: 1,
        delivering: 0,
        reaches: &[("a cast with a context is accepted", |_, state| {
            contains(state.contexts[1], 0) && state.proposals[0][0] == 0b010
        })],
        ..DEFAULT
    },
    // Two of five members are removed.
    Scenario {
        name: "removal",
        members: 5,
        operations: &[strong(2, 1), strong(1, 1)],
        given: 0b11,
        ballots: &[(2, 0), (0, 1), (1, 1)],
        slots: 1,
        delivering: 0b111,
        removes: 0b11000,
        reaches: &[
            ("removed members have decided", |_, state| state.votes[0][0] == 0b11100),
            ("two of three promises suffice", |_, state| {
                state.leads[1] == 2 && state.promised[0] < 2
            }),
        ],
        ..DEFAULT
    },
    // A member that is removed stands for a ballot of the former configuration meanwhile.
    Scenario {
        name: "former",
        members: 5,
        operations: &[strong(2, 1), strong(1, 1)],
        given: 0b11,
        ballots: &[(2, 0), (3, 0), (0, 1)],
        slots: 1,
        delivering: 0b001,
        removes: 0b11000,
        reaches: &[("a former ballot decides after the change", |model, state| {
            state.moved != 0 && model.is_quorum(state.votes[1][0], model.configuration(0))
        })],
        ..DEFAULT
    },
];

/// Rules with the scenario and the property that their absence must violate.
pub const TRAPS: &[(Rule, &str, &str)] = &[
    (Rule::InOrder, "five", "progress"),
    (Rule::Relay, "context", "progress"),
    (Rule::DurableInvoked, "context", "progress"),
    (Rule::Context, "context", "predicate holds"),
    (Rule::AcceptPromised, "origins", "agreement"),
    (Rule::AcceptPromised, "origins", "total order"),
    (Rule::AcceptWhereHolds, "context", "no loss"),
    (Rule::DurableBodies, "context", "no loss"),
    (Rule::DurableContext, "context", "no loss"),
    (Rule::DurableStreams, "runs", "progress"),
    (Rule::DurableAccepted, "restarts", "agreement"),
    (Rule::DurablePromise, "restarts", "agreement"),
    (Rule::PromiseDecided, "removal", "agreement"),
    (Rule::PromiseBodies, "five", "progress"),
    (Rule::PromiseStreams, "five", "progress"),
    (Rule::AllPromise, "removal", "agreement"),
    (Rule::Settle, "removal", "agreement"),
    (Rule::TakeOver, "origins", "agreement"),
    (Rule::SelectHighest, "repeats", "agreement"),
    (Rule::FillGaps, "run", "progress"),
    (Rule::ProposeInOrder, "run", "progress"),
    (Rule::ProposeWhereHolds, "five-context", "progress"),
    (Rule::LeadAfterPromises, "restarts", "agreement"),
    (Rule::Quorum, "origins", "agreement"),
    (Rule::CountOneBallot, "repeats", "agreement"),
    (Rule::DeliverWhereHolds, "context", "predicate holds"),
    (Rule::SkipRepeated, "repeats", "at most once"),
    (Rule::SkipEarly, "run", "order of a run"),
    (Rule::DurableDelivered, "truncation", "progress"),
    (Rule::TruncateAtAll, "truncation", "agreement"),
];

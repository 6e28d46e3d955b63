//! Scenarios, rules of the protocol, and traps.

use super::*;

/// A rule of the protocol, which a trap takes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A holder uses tokens when every reader has confirmed the grant.
    Confirm,
    /// A used token is free again when every reader has seen its update.
    Recycling,
    /// Increments and decrements do not cancel out.
    SeparatePools,
    /// All tokens together fit the floor.
    Capacity,
    /// Decrements do not go below the floor.
    Floor,
    /// A holder uses a lower floor when every reader has confirmed it.
    ConfirmFloor,
    /// Holders respect a higher floor before it is in force.
    RespectRaise,
    /// A higher floor is in force when all holders of decrements respect it.
    RaiseAfterHolders,
    /// A higher floor is in force when the value cannot be below it.
    RaiseBelowValue,
    /// The guard refuses a transaction whose token belongs to an ended epoch.
    CheckAtCommit,
    /// The guard refuses a decrement while the site's lease has ended.
    LeaseAtCommit,
    /// The guard refuses a decrement that was taken under another right.
    TermAtCommit,
    /// A site stops under an epoch only when none of its promises is open.
    EndAfterPromises,
    /// A grant counts until every reader has seen that its holder has stopped under it.
    ReclaimAfterEnd,
    /// A site counts its own promises as outstanding.
    CountPromises,
    /// A reader does not answer after its lease.
    ReaderLease,
    /// A reader reads the clock after it has evaluated the interval.
    CheckAfter,
    /// A reader is excluded only when its lease has certainly ended.
    WaitForLease,
    /// A restarted reader has no lease.
    LeaseIsVolatile,
    /// A version is durable before a site confirms it.
    DurableCopies,
    /// A promise is durable.
    DurablePromises,
    /// A pin is durable.
    DurablePins,
    /// A site answers when it has seen what its sponsor had seen.
    SeeSponsorsVector,
    /// A sponsor's reports stay as they are from the offer to the admission.
    PinReports,
    /// A sponsor's reports to a holder that does not count the admitted site stay as they are.
    CapReports,
    /// They stay until the holder has confirmed the admission, also if it does not last so long.
    CapUntilConfirmed,
    /// Offers end with the sponsor's next renewal.
    EndOffers,
    /// A reader whose lease has ended is excluded.
    Exclude,
    /// An idle holder stops under its epoch.
    EndWhenIdle,
    /// All readers lose the right only when their leases have certainly ended.
    CloseAfterLeases,
    /// Readers are founded when all sites know that there are none, and have stopped.
    FoundAfterEnds,
    /// A site is removed only when it has no right any more.
    RemoveAfterExclusion,
    /// Tokens of a removed site count until the reader has what remains of its stream.
    CountUntilCut,
}

/// Name and condition of a state.
pub type Reached = (&'static str, fn(&Intervals, &State) -> bool);

pub struct Scenario {
    pub name: &'static str,
    pub sites: usize,
    /// Value and floor at the beginning.
    pub start: i16,
    pub floor: u8,
    pub readers: [bool; SITES],
    pub grants: &'static [Grant],
    /// Site that was admitted, and its sponsor. The first site does not know yet.
    pub admitted: Option<(Site, Site)>,
    /// Transactions with increments and decrements.
    pub updates: [u8; 2],
    /// Transactions of a site at the same time.
    pub open: usize,
    /// Whether transactions are one step.
    pub at_once: bool,
    /// Changes of the record.
    pub changes: u8,
    pub restarts: u8,
    /// Grants that sites may request.
    pub offers: &'static [(Site, [u8; 2])],
    /// Sites whose lease may end.
    pub lapses: &'static [Site],
    /// Sites that may be admitted, with their sponsors.
    pub admits: &'static [(Site, Site)],
    /// Floors that may be proposed.
    pub floors: &'static [u8],
    /// Whether all readers may lose the right, and be founded anew.
    pub founds: bool,
    pub removes: &'static [Site],
    pub reaches: &'static [Reached],
}

const NOTHING: Scenario = Scenario {
    name: "",
    sites: 2,
    start: 8,
    floor: 4,
    readers: [true, true, false, false],
    grants: &[],
    admitted: None,
    updates: [0, 0],
    open: 1,
    at_once: false,
    changes: 0,
    restarts: 0,
    offers: &[],
    lapses: &[],
    admits: &[],
    floors: &[],
    founds: false,
    removes: &[],
    reaches: &[],
};

const fn grant(site: Site, tokens: [u8; 2]) -> Grant {
    Grant { site, epoch: 1, tokens }
}

pub const SCENARIOS: &[Scenario] = &[
    // Two sites request tokens and give them up again.
    Scenario {
        name: "grants",
        floor: 4,
        updates: [2, 1],
        changes: 3,
        restarts: 1,
        offers: &[(0, [1, 0]), (1, [0, 1])],
        reaches: &[
            ("a token is used twice", |_, state| count(&state.streams[0], Increment) == 2),
            ("a grant is reclaimed", |_, state| {
                state.latest().epochs[0] == 1
                    && state.latest().grants.is_empty()
                    && count(&state.streams[0], Increment) == 1
            }),
            ("a transaction outlives its epoch", |_, state| {
                state.transactions[0]
                    .first()
                    .is_some_and(|transaction| has_ended(&state.streams[0], transaction.epoch))
            }),
            ("a site has a second epoch", |model, state| {
                model.usable(state, 0).is_some_and(|grant| grant.epoch == 2)
            }),
        ],
        ..NOTHING
    },
    // One site has tokens of both kinds.
    Scenario {
        name: "pools",
        floor: 8,
        start: 12,
        grants: &[grant(0, [1, 1])],
        updates: [2, 2],
        open: 2,
        changes: 1,
        restarts: 1,
        reaches: &[("tokens are used twice", |_, state| {
            state.streams[0].len() == 4 && sum(&state.streams[0]) == 0
        })],
        ..NOTHING
    },
    // A reader is cut off, loses its right, and returns. The holder sponsors it.
    Scenario {
        name: "cut-off",
        floor: 8,
        start: 12,
        grants: &[grant(0, [1, 0])],
        updates: [2, 0],
        changes: 3,
        restarts: 1,
        lapses: &[1],
        admits: &[(1, 0)],
        reaches: &[
            ("a holder goes on without a reader", |model, state| {
                count(&state.streams[0], Increment) == 2
                    && state.known[1][0] == 0
                    && model.value(state) == 14
            }),
            ("a reader returns", |model, state| {
                state.latest().terms[1] == 2 && model.may_answer(state, 1)
            }),
            ("a reader answers, and lacks an update", |model, state| {
                state.latest().terms[1] == 2
                    && model.may_answer(state, 1)
                    && usize::from(state.known[1][0]) < state.streams[0].len()
            }),
        ],
        ..NOTHING
    },
    // A site without the right, which may be one that joins, is admitted by another site than the
    // holder.
    Scenario {
        name: "admission",
        sites: 3,
        floor: 8,
        start: 12,
        grants: &[grant(0, [1, 0])],
        updates: [3, 0],
        changes: 1,
        restarts: 1,
        admits: &[(2, 1)],
        reaches: &[
            ("a site is admitted before the holder knows", |model, state| {
                model.may_answer(state, 2) && state.copy(0).readers[2].is_none()
            }),
            ("a site answers, and lacks an update", |model, state| {
                model.may_answer(state, 2)
                    && usize::from(state.known[2][0]) < state.streams[0].len()
            }),
        ],
        ..NOTHING
    },
    // Two holders decrement, and one of them is cut off.
    Scenario {
        name: "decrements",
        floor: 8,
        start: 11,
        grants: &[grant(0, [0, 1]), grant(1, [0, 1])],
        updates: [0, 4],
        changes: 2,
        restarts: 0,
        lapses: &[1],
        admits: &[(1, 0)],
        reaches: &[("the value is at the floor", |model, state| model.value(state) == 8)],
        ..NOTHING
    },
    // The floor is lowered.
    Scenario {
        name: "lower-floor",
        floor: 8,
        start: 9,
        grants: &[grant(0, [0, 1])],
        updates: [0, 3],
        changes: 2,
        restarts: 1,
        floors: &[4],
        reaches: &[("the value is below the old floor", |model, state| model.value(state) == 6)],
        ..NOTHING
    },
    // The floor is raised, so that there are more tokens.
    Scenario {
        name: "raise-floor",
        floor: 4,
        start: 9,
        grants: &[grant(0, [0, 1])],
        updates: [1, 3],
        changes: 3,
        restarts: 1,
        offers: &[(1, [1, 0])],
        floors: &[8],
        reaches: &[("there are more tokens", |_, state| state.latest().grants.len() == 2)],
        ..NOTHING
    },
    // A site is admitted by one that was admitted itself, and then loses its right.
    Scenario {
        name: "sponsors",
        sites: 4,
        floor: 4,
        start: 8,
        readers: [false, true, false, false],
        grants: &[grant(0, [1, 0])],
        admitted: Some((2, 1)),
        updates: [2, 0],
        at_once: true,
        changes: 2,
        lapses: &[2],
        admits: &[(3, 2)],
        reaches: &[("a site outlasts its sponsor", |model, state| {
            model.may_answer(state, 3) && state.latest().readers[2].is_none()
        })],
        ..NOTHING
    },
    // A holder is removed, and may run on.
    Scenario {
        name: "removal",
        sites: 3,
        floor: 8,
        start: 12,
        readers: [true, true, true, false],
        grants: &[grant(0, [1, 0]), grant(2, [1, 0])],
        updates: [3, 0],
        changes: 3,
        lapses: &[2],
        removes: &[2],
        reaches: &[
            ("an update is lost", |_, state| state.lost > 0),
            ("the tokens of the removed site are reclaimed", |_, state| {
                state.latest().removed.is_some() && state.latest().grants.len() == 1
            }),
        ],
        ..NOTHING
    },
    // The only reader is removed.
    Scenario {
        name: "founding",
        sites: 3,
        floor: 8,
        start: 12,
        readers: [true, false, false, false],
        grants: &[grant(0, [1, 0])],
        updates: [2, 0],
        at_once: true,
        changes: 3,
        lapses: &[0],
        founds: true,
        removes: &[0],
        reaches: &[("others answer after the only reader is removed", |model, state| {
            state.latest().removed == Some(0) && model.may_answer(state, 2)
        })],
        ..NOTHING
    },
    // All readers lose the right. A holder that was no reader has tokens before and after.
    Scenario {
        name: "closing",
        floor: 8,
        start: 12,
        readers: [true, false, false, false],
        grants: &[grant(1, [1, 0])],
        updates: [3, 0],
        changes: 4,
        offers: &[(1, [1, 0])],
        lapses: &[0],
        founds: true,
        reaches: &[("a founded reader lacks an update", |model, state| {
            state.latest().terms[0] == 2
                && model.may_answer(state, 0)
                && usize::from(state.known[0][1]) < state.streams[1].len()
        })],
        ..NOTHING
    },
];

/// Rules with the scenario and the property that their absence must violate.
pub const TRAPS: &[(Rule, &str, &str)] = &[
    (Rule::Confirm, "grants", CONTAINS),
    (Rule::Recycling, "grants", CONTAINS),
    (Rule::Capacity, "grants", "within the tolerance"),
    (Rule::CheckAtCommit, "grants", CONTAINS),
    (Rule::EndAfterPromises, "grants", CONTAINS),
    (Rule::ReclaimAfterEnd, "grants", CONTAINS),
    (Rule::CountPromises, "grants", CONTAINS),
    (Rule::DurablePromises, "grants", CONTAINS),
    (Rule::SeparatePools, "pools", CONTAINS),
    (Rule::DurableCopies, "cut-off", CONTAINS),
    (Rule::ReaderLease, "cut-off", CONTAINS),
    (Rule::CheckAfter, "cut-off", CONTAINS),
    (Rule::WaitForLease, "cut-off", CONTAINS),
    (Rule::LeaseIsVolatile, "cut-off", CONTAINS),
    (Rule::SeeSponsorsVector, "admission", CONTAINS),
    (Rule::PinReports, "admission", CONTAINS),
    (Rule::DurablePins, "admission", CONTAINS),
    (Rule::CapReports, "admission", CONTAINS),
    (Rule::EndOffers, "admission", "others go on"),
    (Rule::CapUntilConfirmed, "sponsors", CONTAINS),
    (Rule::Exclude, "admission", "others go on"),
    (Rule::EndWhenIdle, "grants", "becomes exact"),
    (Rule::Floor, "decrements", CONTAINS),
    (Rule::LeaseAtCommit, "decrements", CONTAINS),
    (Rule::TermAtCommit, "decrements", CONTAINS),
    (Rule::ConfirmFloor, "lower-floor", CONTAINS),
    (Rule::RespectRaise, "raise-floor", CONTAINS),
    (Rule::RaiseAfterHolders, "raise-floor", CONTAINS),
    (Rule::RaiseBelowValue, "raise-floor", CONTAINS),
    (Rule::CloseAfterLeases, "founding", CONTAINS),
    (Rule::FoundAfterEnds, "closing", CONTAINS),
    (Rule::RemoveAfterExclusion, "removal", CONTAINS),
    (Rule::CountUntilCut, "removal", CONTAINS),
];
const CONTAINS: &str = "contains the value";

//! Rare paths of the protocol, for simulations to show that they reach them.

use std::fmt;

/// A branch that few runs take and on which correctness or progress depends.
///
/// Simulations count how often each is reached; one that no seed reaches is not tested at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RarePath {
    /// A member that stands for election itself hands its state over to another candidate.
    PromiseDuringElection,
    /// A leader of a lower term learns of a higher one from a message of its own that is refused.
    DeposedLeader,
    /// All members' promises begin a term, because quorums before and after a change of members need not meet.
    PromisesOfAll,
    /// A leader begins another term because the members changed.
    TermOfNewMembers,
    /// A leader begins another term because what members had stored does not come.
    TermToCatchUp,
    /// A leader begins another term because its vote waits for an update that may be lost.
    TermWithoutLostUpdates,
    /// A term begins without votes that nobody acknowledged.
    DropsUntold,
    /// A member that hears both the leader and a member that does not takes over.
    StandsBetween,
    /// A new leader asks for what other members stored and it did not.
    CatchesUp,
    /// A process other than the coordinator finds that a transaction committed.
    ThirdPartyCommits,
    /// A process other than the coordinator finds that a transaction aborted.
    ThirdPartyAborts,
    /// A process other than the coordinator finds that everybody has forgotten a transaction.
    ThirdPartyFindsItOver,
    /// A leader answers that a transaction is over, and not how it ended.
    AnswersOver,
    /// A leader votes on a transaction of a former life that its group may have forgotten.
    AdmitsForgotten,
    /// A group's members name different reasons for an abort.
    DifferentAborts,
    /// A vote is to abort only because it comes too late.
    TooLate,
    /// A vote is to abort because the snapshot is below the fence: of what it lacks no keys are known.
    BelowFence,
    /// A member acknowledges no vote of an earlier list of members.
    OutdatedVote,
    /// A member acknowledges no vote of a term that it has left.
    SilentInFormerTerm,
    /// A member keeps a former vote, and does not take the leader's new one.
    KeepsFormerVote,
    /// A leader drops a request that nobody repeats.
    DropsEarly,
    /// A reservation lasts because the attempt that it is for waits for its snapshot.
    ReservationWaits,
    /// A leader does not deliver what came from elsewhere before.
    StoredFromElsewhere,
    /// A member asks for the state with which a term began.
    NeedsState,
}

impl RarePath {
    /// Every path.
    pub const ALL: [RarePath; 24] = {
        use RarePath::*;
        [
            PromiseDuringElection,
            DeposedLeader,
            PromisesOfAll,
            TermOfNewMembers,
            TermToCatchUp,
            TermWithoutLostUpdates,
            DropsUntold,
            StandsBetween,
            CatchesUp,
            ThirdPartyCommits,
            ThirdPartyAborts,
            ThirdPartyFindsItOver,
            AnswersOver,
            AdmitsForgotten,
            DifferentAborts,
            TooLate,
            BelowFence,
            OutdatedVote,
            SilentInFormerTerm,
            KeepsFormerVote,
            DropsEarly,
            ReservationWaits,
            StoredFromElsewhere,
            NeedsState,
        ]
    };
}

impl fmt::Display for RarePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RarePath::PromiseDuringElection => "a candidate promises another one",
            RarePath::DeposedLeader => "a leader hears that it was deposed",
            RarePath::PromisesOfAll => "a term begins with the promises of all",
            RarePath::TermOfNewMembers => "a leader begins a term of new members",
            RarePath::TermToCatchUp => "a leader that cannot catch up begins a term",
            RarePath::TermWithoutLostUpdates => "a leader whose vote waits in vain begins a term",
            RarePath::DropsUntold => "a term begins without unacknowledged votes",
            RarePath::StandsBetween => "a member takes over for one that does not hear the leader",
            RarePath::CatchesUp => "a leader catches up before it votes",
            RarePath::ThirdPartyCommits => "a third party finds a commit",
            RarePath::ThirdPartyAborts => "a third party finds an abort",
            RarePath::ThirdPartyFindsItOver => "a third party finds that a transaction is over",
            RarePath::AnswersOver => "a leader answers that a transaction is over",
            RarePath::AdmitsForgotten => "a leader admits that it may have forgotten",
            RarePath::DifferentAborts => "members abort for different reasons",
            RarePath::TooLate => "a vote comes too late",
            RarePath::BelowFence => "a snapshot is below the fence",
            RarePath::OutdatedVote => "a vote of former members waits",
            RarePath::SilentInFormerTerm => "a member is silent in a term that it left",
            RarePath::KeepsFormerVote => "a member keeps a former vote",
            RarePath::DropsEarly => "a leader drops a request that is not repeated",
            RarePath::ReservationWaits => "a reservation waits with its attempt",
            RarePath::StoredFromElsewhere => "a leader finds its transaction stored",
            RarePath::NeedsState => "a member asks for a term's state",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_paths_are_listed_once() {
        assert!(RarePath::ALL.is_sorted_by(|a, b| a < b));
        // Another variant behind the last one would have to be listed, too.
        assert_eq!(RarePath::NeedsState as usize + 1, RarePath::ALL.len());
    }
}

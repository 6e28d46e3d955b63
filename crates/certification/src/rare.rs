//! Rare paths of certification. Simulations count how often they reach them.

solera_machine::rare_paths! {
    /// A candidate hands its state over to another candidate.
    PROMISE_DURING_ELECTION = "a candidate promises another one";
    /// A leader of a lower term learns of a higher one because its message is rejected.
    DEPOSED_LEADER = "a leader learns that it was deposed";
    /// A term begins with the promises of all members, because quorums before and after a change of
    /// members need not intersect.
    PROMISES_OF_ALL = "a term begins with the promises of all members";
    /// A leader begins another term because the members changed.
    TERM_OF_NEW_MEMBERS = "a leader begins a term of new members";
    /// A leader begins another term because it cannot get the transactions that members had stored.
    TERM_TO_CATCH_UP = "a leader that cannot catch up begins a term";
    /// A leader begins another term because its vote waits for an update that may be lost.
    TERM_WITHOUT_LOST_UPDATES = "a leader whose vote waits in vain begins a term";
    /// A term begins without votes that no member acknowledged.
    DROPS_UNACKNOWLEDGED = "a term begins without unacknowledged votes";
    /// A member takes over because it hears from both the leader and a member that does not hear
    /// from the leader.
    STANDS_BETWEEN = "a member takes over for one that does not hear the leader";
    /// A new leader fetches transactions that other members had stored and it had not.
    CATCHES_UP = "a leader catches up before it votes";
    /// A process other than the coordinator finds that a transaction committed.
    THIRD_PARTY_COMMITS = "a third party finds a commit";
    /// A process other than the coordinator finds that a transaction aborted.
    THIRD_PARTY_ABORTS = "a third party finds an abort";
    /// A process other than the coordinator finds that all groups have forgotten a transaction.
    THIRD_PARTY_FINDS_IT_OVER = "a third party finds that a transaction is over";
    /// A leader answers that a transaction is over, and not how it ended.
    ANSWERS_OVER = "a leader answers that a transaction is over";
    /// A leader forgets a transaction that others have finished with, after a quorum has confirmed
    /// its term.
    CONFIRMS_TERM = "a leader confirms its term before it forgets";
    /// A leader votes on a transaction of a former generation that its group may have forgotten.
    ADMITS_FORGOTTEN = "a leader admits that it may have forgotten";
    /// Members of a group give different causes for an abort.
    DIFFERENT_ABORTS = "members abort for different reasons";
    /// A leader votes to abort only because it votes too late.
    TOO_LATE = "a vote comes too late";
    /// A leader votes to abort because the snapshot is below the fence: the keys of the missing
    /// transactions are not known.
    BELOW_FENCE = "a snapshot is below the fence";
    /// A member does not acknowledge a vote of an earlier configuration.
    OUTDATED_VOTE = "a vote of an earlier configuration waits";
    /// A member does not acknowledge a vote of a term that it has left.
    SILENT_IN_FORMER_TERM = "a member does not acknowledge in a term that it left";
    /// A member keeps an earlier vote and ignores the leader's new one.
    KEEPS_FORMER_VOTE = "a member keeps a former vote";
    /// A member replaces an earlier vote with that of a leader that has forgotten the transaction.
    GIVES_UP_FORMER_VOTE = "a member gives up a former vote";
    /// A leader drops a deferred request that its coordinator does not repeat.
    DROPS_DEFERRED = "a leader drops a request that is not repeated";
    /// A reservation is extended because the retry that it is for waits for its snapshot.
    RESERVATION_WAITS = "a reservation waits with its attempt";
    /// A leader skips the delivery of a transaction that it has stored from another member.
    STORED_FROM_ELSEWHERE = "a leader finds its transaction stored";
    /// A member requests the initial state of a term.
    NEEDS_STATE = "a member asks for a term's state";
}

//! Rare paths of certification, for simulations to show that they reach them.

solera_machine::rare_paths! {
    /// A member that stands for election itself hands its state over to another candidate.
    PROMISE_DURING_ELECTION = "a candidate promises another one";
    /// A leader of a lower term learns of a higher one from a message of its own that is refused.
    DEPOSED_LEADER = "a leader hears that it was deposed";
    /// All members' promises begin a term, because quorums before and after a change of members
    /// need not meet.
    PROMISES_OF_ALL = "a term begins with the promises of all";
    /// A leader begins another term because the members changed.
    TERM_OF_NEW_MEMBERS = "a leader begins a term of new members";
    /// A leader begins another term because what members had stored does not come.
    TERM_TO_CATCH_UP = "a leader that cannot catch up begins a term";
    /// A leader begins another term because its vote waits for an update that may be lost.
    TERM_WITHOUT_LOST_UPDATES = "a leader whose vote waits in vain begins a term";
    /// A term begins without votes that nobody acknowledged.
    DROPS_UNTOLD = "a term begins without unacknowledged votes";
    /// A member that hears both the leader and a member that does not takes over.
    STANDS_BETWEEN = "a member takes over for one that does not hear the leader";
    /// A new leader asks for what other members stored and it did not.
    CATCHES_UP = "a leader catches up before it votes";
    /// A process other than the coordinator finds that a transaction committed.
    THIRD_PARTY_COMMITS = "a third party finds a commit";
    /// A process other than the coordinator finds that a transaction aborted.
    THIRD_PARTY_ABORTS = "a third party finds an abort";
    /// A process other than the coordinator finds that everybody has forgotten a transaction.
    THIRD_PARTY_FINDS_IT_OVER = "a third party finds that a transaction is over";
    /// A leader answers that a transaction is over, and not how it ended.
    ANSWERS_OVER = "a leader answers that a transaction is over";
    /// A leader forgets what others are done with, after a quorum has confirmed its term.
    CONFIRMS_TERM = "a leader confirms its term before it forgets";
    /// A leader votes on a transaction of a former life that its group may have forgotten.
    ADMITS_FORGOTTEN = "a leader admits that it may have forgotten";
    /// A group's members name different reasons for an abort.
    DIFFERENT_ABORTS = "members abort for different reasons";
    /// A vote is to abort only because it comes too late.
    TOO_LATE = "a vote comes too late";
    /// A vote is to abort because the snapshot is below the fence: of what it lacks no keys are
    /// known.
    BELOW_FENCE = "a snapshot is below the fence";
    /// A member acknowledges no vote of an earlier list of members.
    OUTDATED_VOTE = "a vote of former members waits";
    /// A member acknowledges no vote of a term that it has left.
    SILENT_IN_FORMER_TERM = "a member is silent in a term that it left";
    /// A member keeps a former vote, and does not take the leader's new one.
    KEEPS_FORMER_VOTE = "a member keeps a former vote";
    /// A member gives up a former vote for one of a leader that has forgotten the transaction.
    GIVES_UP_FORMER_VOTE = "a member gives up a former vote";
    /// A leader drops a request that nobody repeats.
    DROPS_EARLY = "a leader drops a request that is not repeated";
    /// A reservation lasts because the attempt that it is for waits for its snapshot.
    RESERVATION_WAITS = "a reservation waits with its attempt";
    /// A leader does not deliver what came from elsewhere before.
    STORED_FROM_ELSEWHERE = "a leader finds its transaction stored";
    /// A member asks for the state with which a term began.
    NEEDS_STATE = "a member asks for a term's state";
}

//! Rare paths of the broadcast. Simulations count how often they reach them.

solera_machine::rare_paths! {
    /// A proposal arrives before the bodies or contexts of its ids.
    KEEPS_PROPOSAL = "a proposal waits for its predicates";
    /// A kept proposal is accepted.
    ACCEPTS_KEPT = "a proposal that has waited is accepted";
    /// A kept proposal is dropped, because the member has promised a higher ballot.
    DROPS_KEPT = "a proposal that has waited belongs to a former term";
    /// A slot is decided before an earlier one.
    DECIDES_EARLY = "a slot is decided before an earlier one";
    /// A decided slot waits until the predicates of its ids hold.
    DELIVERY_WAITS = "a decision waits for its predicates";
    /// Two slots contain an id.
    SKIPS_AGAIN = "a slot contains an id that was delivered before";
    /// A slot contains an id of a run of which an earlier one is not delivered.
    SKIPS_EARLY = "a slot contains an id too early";
    /// A leader proposes again what members have accepted in an earlier term.
    PROPOSES_AGAIN = "a leader proposes again";
    /// A new leader waits for the bodies of what it must propose again.
    WAITS_TO_PROPOSE_AGAIN = "a leader waits before it proposes again";
    /// A new leader fills a slot for which no member has accepted anything.
    FILLS_GAP = "a leader fills a gap";
    /// Members have accepted different batches for a slot.
    DIFFERENT_BATCHES = "members have accepted different batches";
    /// A promise contains bodies.
    HANDS_OVER_BODIES = "a promise hands over bodies";
    /// A promise has several parts.
    SEVERAL_PARTS = "a promise has several parts";
    /// A promise begins anew, because the member that sends it was restarted.
    PROMISES_ANEW = "a promise begins anew";
    /// A request for a promise arrives twice.
    ANSWERS_ONCE = "a request for a promise arrives twice";
    /// A candidate hands its state over to another candidate.
    PROMISE_DURING_ELECTION = "a candidate promises another one";
    /// A leader of a lower term learns of a higher one because its message is rejected.
    DEPOSED_LEADER = "a leader learns that it was deposed";
    /// A term begins with the promises of all members, because quorums before and after a change of
    /// members need not intersect.
    PROMISES_OF_ALL = "a term begins with the promises of all members";
    /// A leader begins another term because the members changed.
    TERM_OF_NEW_MEMBERS = "a leader begins a term of new members";
    /// A leader steps down because its site is no member any more.
    LEADER_LEAVES = "a leader is no member any more";
    /// A member receives a message of a former configuration.
    FORMER_CONFIGURATION = "a member rejects a ballot of a former configuration";
    /// A member takes over because it hears from both the leader and a member that does not hear
    /// from the leader.
    STANDS_BETWEEN = "a member takes over for one that does not hear the leader";
    /// A leader repeats a proposal that a member has not accepted.
    REPEATS_PROPOSAL = "a leader repeats a proposal";
    /// A member receives the proposal of a slot whose decision it knows.
    ANSWERS_DECIDED = "a member answers a proposal with the decision";
    /// A member asks for decisions.
    ASKS = "a member asks for decisions";
    /// A member lacks slots that others have forgotten.
    LACKS_FORGOTTEN = "a member lacks forgotten slots";
    /// A member takes the snapshot of another one.
    INSTALLS = "a member takes a snapshot";
    /// A leader has a full pipeline.
    PIPELINE_FULL = "a leader waits for its pipeline";
}

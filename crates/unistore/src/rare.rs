//! Rare paths of UniStore, for simulations to show that they reach them. Those of certification are
//! apart.

solera_machine::rare_paths! {
    /// A worker asks a sibling for a part of a history that it missed.
    ASKS_FOR_GAP = "a worker asks for a gap in a history";
    /// A worker ignores the history of a leaving site that comes from a site which does not know of
    /// the removal.
    IGNORES_UNINFORMED = "a worker ignores a site that knows of no removal";
    /// A participant asks a coordinator for a decision that does not come.
    ASKS_FOR_DECISION = "a participant asks for a decision";
    /// A read is given up because what its snapshot holds does not come.
    GIVES_UP_READ = "a read is given up";
    /// A joining worker begins anew with another donor.
    CHANGES_DONOR = "a joining worker changes its donor";
    /// A donor has lost the snapshot that it hands over.
    DONOR_LOST_SNAPSHOT = "a donor has lost its snapshot";
    /// A worker starts from a journal with prepared transactions.
    RECOVERS_PREPARED = "a worker starts with prepared transactions";
    /// A participant tells guards again how transactions ended.
    TELLS_GUARDS_AGAIN = "a worker tells guards again";
}

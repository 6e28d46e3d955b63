//! Rare paths of UniStore, which simulations must reach. Certification has its own list.

solera_machine::rare_paths! {
    /// A worker asks a sibling for a part of a history that it has missed.
    ASKS_FOR_GAP = "a worker asks for a gap in a history";
    /// A worker ignores the history of a leaving site when it comes from a site that has not
    /// received the removal.
    IGNORES_UNINFORMED = "a worker ignores a site that knows of no removal";
    /// A participant asks a coordinator for a decision that has not arrived.
    ASKS_FOR_DECISION = "a participant asks for a decision";
    /// A read fails because transactions of its snapshot do not arrive.
    GIVES_UP_READ = "a read is given up";
    /// A joining worker starts again with another donor.
    CHANGES_DONOR = "a joining worker changes its donor";
    /// A donor has lost the snapshot that it sends.
    DONOR_LOST_SNAPSHOT = "a donor has lost its snapshot";
    /// A worker starts from a journal with prepared transactions.
    RECOVERS_PREPARED = "a worker starts with prepared transactions";
    /// A participant sends guards the outcomes of transactions again.
    RESENDS_OUTCOMES = "a worker sends guards an outcome again";
    /// A site answers a complete read only after a transaction is decided.
    ANSWER_WAITS = "a site answers a complete read later";
    /// A complete read begins again, because the sites have different lists of sites.
    LISTS_DIFFER = "a complete read finds different lists of sites";
}

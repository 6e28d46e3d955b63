//! Rare paths of the protocol.

solera_machine::rare_paths! {
    /// A replica lacks entries that the home does not keep any more.
    COPIES = "occult: a replica was filled with copies";
    /// A read at a home waits for a transaction that the client may have seen.
    WAITED_AT_HOME = "occult: a read at a home waited for a decision";
    /// A decision home aborts a transaction that its client has not ended.
    RESOLVED = "occult: a decision home ended an expired prepare";
    /// A client commits after the decision home has aborted.
    LATE_COMMIT = "occult: a late commit was refused";
    /// A message comes from a worker that has carried out more moves.
    DROPPED_AHEAD = "occult: a message of a worker that knows more moves was dropped";
    /// A prepare arrives after its transaction has ended and was forgotten.
    REPEATED_PREPARE = "occult: a repeated prepare was dropped at its commit";
}

//! Rare paths of the protocol.

solera_machine::rare_paths! {
    /// Ids make retries harmless.
    ORDERED_BEFORE = "primary: a home was given an update that it had ordered";
    /// The history survives its home.
    TAKEN_OVER = "primary: a new home took the end of the history from another site";
    /// Followers too far behind get the values instead of the history.
    SNAPSHOT = "primary: a replica was filled with values";
    /// What only the former home had is gone.
    POSITION_LOST = "primary: a session had seen what is lost";
    /// A joining site starts again when the home moves.
    FILLED_ANEW = "primary: a joining replica began anew because the home moved";
}

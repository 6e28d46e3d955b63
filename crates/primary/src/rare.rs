//! Rare paths of the protocol.

solera_machine::rare_paths! {
    /// Update numbers make retries harmless.
    ORDERED_BEFORE = "primary: a home was given an update that it had ordered";
    /// The history survives the loss of its home.
    TAKEN_OVER = "primary: a new home took the end of the history from another site";
    /// Followers that lack too many entries get values instead of the history.
    SNAPSHOT = "primary: a replica was filled with values";
    /// Updates that only the former home had are lost.
    POSITION_LOST = "primary: a session had seen what is lost";
    /// A joining site starts again when the home moves.
    FILLED_ANEW = "primary: a joining replica began anew because the home moved";
}

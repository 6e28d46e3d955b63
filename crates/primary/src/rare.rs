//! Rare paths of the protocol.

solera_machine::rare_paths! {
    /// A home receives an update twice. The update's number makes the second one harmless.
    ORDERED_BEFORE = "primary: a home was given an update that it had ordered";
    /// A new home takes over the history after the loss of the former home.
    TAKEN_OVER = "primary: a new home took the end of the history from another site";
    /// A follower that lacks too many entries is sent values instead of the history.
    SNAPSHOT = "primary: a replica was filled with values";
    /// A session has seen updates that only the former home had, and that are lost.
    POSITION_LOST = "primary: a session had seen what is lost";
    /// A joining site starts again when the home moves.
    FILLED_ANEW = "primary: a joining replica began anew because the home moved";
}

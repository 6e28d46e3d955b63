//! Precautions that tests can take out, to prove that the checks detect their absence.

use solera_machine::Without;

/// A precaution of hosts, of their journals or of their tokens that a test can take out, to prove
/// that the checks detect its absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weakness {
    /// The driver of the machines leaves a rule out.
    Driver(Without<solera_host::Rule>),
    /// Links deliver frames again that have already arrived.
    DeliversAllFrames,
    /// The first frame of a connection that was reestablished is lost.
    LosesFrames,
    /// Workers accept one another without checking whether the other lacks data that it had sent.
    LetsCopiesIn,
    /// A damaged journal is truncated at its first damage, and the worker starts.
    StartsFromDamage,
    /// Tokens carry the causal past of their session only.
    TokensOfCausalPasts,
}

//! Precautions that can be taken out, to see that the judges notice.

use solera_machine::Without;

/// A precaution of hosts, of their journals or their tokens, that can be taken out, to see that the
/// judges notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weakness {
    /// What runs the machines leaves a rule out.
    Driver(Without<solera_host::Rule>),
    /// Frames are delivered that had arrived before.
    DeliversAllFrames,
    /// The first frame of a connection that is made again is not sent.
    LosesFrames,
    /// Nobody compares what a worker remembers with what it has told.
    LetsCopiesIn,
    /// A damaged journal is cut at its first damage, and the worker starts.
    StartsFromDamage,
    /// Tokens carry the causal past of their session only.
    TokensOfCausalPasts,
}

//! Timestamps of spaces of level `pcpsi`.

use std::fmt;

/// Representation of a session's and a value's dependencies in spaces of level `pcpsi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timestamps {
    /// A stamp for each shard.
    Exact,
    /// This many stamps, each for all shards whose numbers have the same remainder.
    Structural(u16),
    /// This many stamps: those of the latest shards, and one for all others.
    Temporal(u16),
    /// This many stamps for each site, as with [`Timestamps::Temporal`].
    PerSite(u16),
}

impl Default for Timestamps {
    fn default() -> Timestamps {
        Timestamps::PerSite(2)
    }
}

impl fmt::Display for Timestamps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, stamps) = match self {
            Timestamps::Exact => return f.write_str("exact"),
            Timestamps::Structural(stamps) => ("structural", stamps),
            Timestamps::Temporal(stamps) => ("temporal", stamps),
            Timestamps::PerSite(stamps) => ("per-site", stamps),
        };
        write!(f, "{name} with {stamps} stamps")
    }
}
